# SPDX-License-Identifier: MIT
"""An ASE calculator that evaluates an .equi file by libequi.so, inside the process of Python and without LAMMPS.

    from equi_tools.ase import EquiCalculator

    atoms.calc = EquiCalculator("sevennet-0.equi")

Units are ASE's: eV, Angstrom, and stresses positive under tension.
"""

import os
from contextlib import contextmanager
from numbers import Integral, Real

from ase.calculators.calculator import CalculationFailed, Calculator, InputError, all_changes

from . import equi_file
from .errors import EquiError
from .library import LibraryCalculator

PRECISIONS = ("double", "mixed")
SYSTEM = ("task", "charge", "spin")  # of files for all systems
FORCES = ("energy", "direct")
LEAST_VOLUME = 1e-3  # Angstrom^3; smaller cells have no stress


class EquiCalculator(Calculator):
    """Energies, forces and stresses of an .equi file.

    The calculator keeps the model, and a neighbor list of the structure that it evaluated last. If something is
    refused, ASE's CalculationFailed has the reason, and the calculator can be used again. Copies and pickles read the
    model when they evaluate first. Evaluations in several Python threads wait for each other. A process that was
    forked after an evaluation must not evaluate.
    """

    implemented_properties = ["energy", "free_energy", "forces", "stress", "energies"]
    default_parameters = {"precision": "double"} | dict.fromkeys(("radial", "threads", "forces", "task", "charge", "spin"))
    ignored_changes = {"initial_charges", "initial_magmoms"}

    def __init__(self, model, **parameters):
        """model: the .equi file. It is searched for in the current folder, which may change later, and in the folders
        of LAMMPS_POTENTIALS.

        precision: "double" (the default) or "mixed". radial: "exact" or the tolerance of the radial tables, by default
        that of the pair style. threads: their number, by default OMP_NUM_THREADS, else the cores. The first
        evaluation in a process decides for all; another number later raises CalculationFailed. forces: "energy" (the
        default) or "direct", if the file has direct forces; there are no stresses then. task, charge and spin: for a
        file for all systems, as the keywords of the pair style. Unknown names and values raise ASE's InputError.
        """
        self._evaluator = None  # a LibraryCalculator, from the first evaluation on
        super().__init__(model=model, **parameters)

    def set(self, **parameters):
        """Changes parameters of __init__; returns those that differ from before, as ASE's calculators do."""
        _check({**self.default_parameters, **parameters})
        if "model" in parameters:
            parameters["model"] = os.fspath(parameters["model"])
            if os.path.isfile(parameters["model"]):
                parameters["model"] = os.path.abspath(parameters["model"])
        changed = super().set(**parameters)
        if changed:
            self.reset()
            self.close()
        return changed

    def close(self):
        """Frees the model and its tables; the next evaluation reads them again."""
        if self._evaluator is not None:
            self._evaluator.close()
        self._evaluator = None

    def __getstate__(self):
        return {**self.__dict__, "_evaluator": None}

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        has_stress = self.parameters.forces != "direct" and self.atoms.cell.volume > LEAST_VOLUME
        with _failures():
            result = self._evaluator_of(self.atoms).compute(has_stress)
        self.results = {
            "energy": result.energy,
            "free_energy": result.energy,
            "forces": result.forces,
            "energies": result.energies,
        }
        if has_stress:
            self.results["stress"] = result.stress

    def hessian(self, atoms=None):
        """Exact second derivatives of the energy by positions [3N, 3N] in eV/Angstrom^2, without constraints.

        Rows and columns are x, y, z of the first atom, then of the next. atoms defaults to those of the last
        evaluation.
        """
        atoms = atoms if atoms is not None else self.atoms
        if atoms is None:
            raise InputError("hessian needs atoms: nothing was evaluated yet")
        with _failures():
            return self._evaluator_of(atoms).hessian()

    def describe(self):
        """Lines about the model, precision, kernels, threads and tables, for the atoms of the last evaluation."""
        if self._evaluator is None:
            raise InputError("describe needs an evaluation before")
        with _failures():
            return self._evaluator.describe()

    def _evaluator_of(self, atoms):
        """The evaluator, with a structure."""
        symbols = sorted(set(atoms.get_chemical_symbols()))
        if not symbols:
            raise EquiError("the structure has no atoms")
        if self._evaluator is None or not set(symbols) <= set(self._evaluator.symbols):
            self.close()
            self._evaluator = LibraryCalculator(equi_file.find(self.parameters.model), symbols, self._keywords())
        self._evaluator.set_atoms(atoms)
        return self._evaluator

    def _keywords(self):
        names = ("precision", "radial", "threads", "forces", *SYSTEM)
        return " ".join(f"{name} {self.parameters[name]}" for name in names if self.parameters[name] is not None)


@contextmanager
def _failures():
    try:
        yield
    except EquiError as error:
        raise CalculationFailed(str(error)) from error


def _is_number(value, kind):
    return isinstance(value, kind) and not isinstance(value, bool)


def _check(parameters):
    unknown = set(parameters) - {"model", *EquiCalculator.default_parameters}
    if unknown:
        raise InputError(f"EquiCalculator has no parameter {', '.join(sorted(unknown))}")
    if parameters["precision"] not in PRECISIONS:
        raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, not {parameters['precision']}")
    radial, threads = parameters["radial"], parameters["threads"]
    if not (radial in (None, "exact") or (_is_number(radial, Real) and radial > 0)):
        raise InputError(f'radial must be "exact" or a tolerance above zero, not {radial}')
    if not (threads is None or (_is_number(threads, Integral) and threads > 0)):
        raise InputError(f"threads must be a positive integer, not {threads}")
    if parameters["forces"] not in (None, *FORCES):
        raise InputError(f"forces must be one of {', '.join(FORCES)}, not {parameters['forces']}")
    task = parameters["task"]
    if not (task is None or (isinstance(task, str) and task and not set(task) & set(" \t\n$&#\"'"))):
        raise InputError(f"task must be the name of a data set, not {task!r}")
    for name in ("charge", "spin"):
        if not (parameters[name] is None or _is_number(parameters[name], Integral)):
            raise InputError(f"{name} must be a whole number, not {parameters[name]!r}")
