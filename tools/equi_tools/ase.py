# SPDX-License-Identifier: MIT
"""An ASE calculator that evaluates an .equi file by libequi.so, inside the process of Python and without LAMMPS.

    from equi_tools.ase import EquiCalculator

    atoms.calc = EquiCalculator("sevennet-0.equi")

Units are ASE's: eV, Angstrom, and stresses positive under tension.
"""

import os
from contextlib import contextmanager
from math import isfinite
from numbers import Integral, Real

import numpy as np
from ase.calculators.calculator import CalculationFailed, Calculator, InputError, all_changes

from . import equi_file
from .errors import EquiError
from .library import LibraryCalculator

PRECISIONS = ("double", "mixed")
SYSTEM = ("task", "charge", "spin", "system")  # of files for all systems
FORCES = ("energy", "direct")
OBSERVABLES = {"charges": "charge", "dipole": "dipole", "polarizability": "polarizability", "magmoms": "spin"}  # of some models
OPEN = ("framework", "exact")
LEAST_VOLUME = 1e-3  # Angstrom^3; smaller cells have no stress


class EquiCalculator(Calculator):
    """Energies, forces and stresses of an .equi file.

    The calculator keeps the model, and a neighbor list of the structure that it evaluated last. If something is
    refused, ASE's CalculationFailed has the reason, and the calculator can be used again. Copies and pickles read the
    model when they evaluate first. Evaluations in several Python threads wait for each other. A process that was
    forked after an evaluation must not evaluate.
    """

    implemented_properties = ["energy", "free_energy", "forces", "stress", "energies", *OBSERVABLES]
    default_parameters = {"precision": "double"} | dict.fromkeys(("radial", "threads", "forces", *SYSTEM, "field", "open"))
    ignored_changes = {"initial_charges", "initial_magmoms"}

    def __init__(self, model, **parameters):
        """model: the .equi file. It is searched for in the current folder, which may change later, and in the folders
        of LAMMPS_POTENTIALS.

        precision: "double" (the default) or "mixed". radial: "exact" or the tolerance of the radial tables, by default
        that of the pair style. threads: their number, by default OMP_NUM_THREADS, else the cores. The first
        evaluation in a process decides for all; another number later raises CalculationFailed. forces: "energy" (the
        default) or "direct", if the file has direct forces; there are no stresses then. task, charge and spin: for a
        file for all systems, as the keywords of the pair style. system: a dict of further numbers of the whole system
        by the names in the file. field: an electric field in V/Angstrom that acts on the dipoles or charges of the model.
        open: "framework" (the default) or "exact", how multipoles interact in a structure that is not periodic.
        Unknown names and values raise ASE's InputError.
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
            evaluator = self._evaluator_of(self.atoms)
            if system_changes or "energy" not in self.results:
                result = evaluator.compute(has_stress)
                self.results = {
                    "energy": result.energy,
                    "free_energy": result.energy,
                    "forces": result.forces,
                    "energies": result.energies,
                } | ({"stress": result.stress} if has_stress else {})
            for name, observable in OBSERVABLES.items():
                has_dipole = name == "dipole" and evaluator.has_observable("charge")
                if name in properties and (has_dipole or evaluator.has_observable(observable)):
                    self.results[name] = self._observed(name, evaluator)

    def _observed(self, name, evaluator):
        if name == "dipole":
            parts = []
            if evaluator.has_observable("dipole"):
                parts.append(evaluator.observable("dipole").sum(axis=0))
            if evaluator.has_observable("charge"):
                parts.append(evaluator.observable("charge") @ self.atoms.positions)
            return np.sum(parts, axis=0)
        values = evaluator.observable(OBSERVABLES[name])
        if values.ndim == 1:
            return values
        xx, yy, zz, yz, xz, xy = values.sum(axis=0)
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

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

    def born_charges(self, atoms=None, neutral=False):
        """Born effective charges [N, 3, 3] in e, and derivatives of the total charge by positions [N, 3] in e/Angstrom.

        The second index is that of the polarization, the third that of the position. neutral: charges are reduced by
        their mean, and Born charges sum to 0. The model must have charges or dipoles. atoms defaults to those of the
        last evaluation.
        """
        atoms = atoms if atoms is not None else self.atoms
        if atoms is None:
            raise InputError("born_charges needs atoms: nothing was evaluated yet")
        with _failures():
            return self._evaluator_of(atoms).born_charges(neutral)

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
        p = self.parameters
        names = ("precision", "radial", "threads", "forces", "task", "charge", "spin", "open")
        words = [f"{name} {p[name]}" for name in names if p[name] is not None]
        words += [f"system {name} {float(number)!r}" for name, number in (p.system or {}).items()]
        return " ".join(words + ([] if p.field is None else ["field", *(repr(float(number)) for number in p.field)]))


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
    if parameters["open"] not in (None, *OPEN):
        raise InputError(f"open must be one of {', '.join(OPEN)}, not {parameters['open']}")
    task = parameters["task"]
    if not (task is None or (isinstance(task, str) and task and not set(task) & set(" \t\n$&#\"'"))):
        raise InputError(f"task must be the name of a data set, not {task!r}")
    for name in ("charge", "spin"):
        if not (parameters[name] is None or _is_number(parameters[name], Integral)):
            raise InputError(f"{name} must be a whole number, not {parameters[name]!r}")
    system = parameters["system"]
    if system is not None and not (isinstance(system, dict) and all(map(_is_input, system.items()))):
        raise InputError(f"system must be a dict of numbers by the names of inputs, not {system!r}")
    field = parameters["field"]
    if field is not None and not (np.shape(field) == (3,) and all(_is_number(x, Real) and isfinite(x) for x in field)):
        raise InputError(f"field must be three numbers in V/Angstrom, not {field!r}")


def _is_input(item):
    name, number = item
    is_word = isinstance(name, str) and name and not set(name) & set(" \t\n$&#\"'")
    return is_word and _is_number(number, Real) and isfinite(number)
