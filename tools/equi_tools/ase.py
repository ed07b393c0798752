# SPDX-License-Identifier: MIT
"""An ASE calculator that evaluates an .equi file by pair style equi, inside the process of Python, on one rank.

    from equi_tools.ase import EquiCalculator

    atoms.calc = EquiCalculator("sevennet-0.equi")

Units are ASE's: eV, Angstrom, and stresses positive under tension.
"""

import os
import re
from contextlib import contextmanager
from numbers import Integral, Real

import numpy as np
from ase.calculators.calculator import CalculationFailed, Calculator, InputError, all_changes

from . import lammps_runner
from .errors import EquiError

PRECISIONS = ("double", "mixed")
SYSTEM = ("task", "charge", "spin", "system")  # of files for all systems
FORCES = ("energy", "direct")


class EquiCalculator(Calculator):
    """Energies, forces and stresses of an .equi file.

    The calculator keeps one LAMMPS from its first evaluation on. It passes changed positions and cells to it. Other
    atoms or other periodic directions set LAMMPS up anew. If LAMMPS or the pair style refuses something, ASE's
    CalculationFailed reports its text, and the calculator can be used again. Copies and pickles have no LAMMPS until
    they evaluate; a forked process needs its own calculator.
    """

    implemented_properties = ["energy", "free_energy", "forces", "stress", "energies"]
    default_parameters = {"precision": "double"} | dict.fromkeys(("radial", "threads", "forces", *SYSTEM))
    ignored_changes = {"initial_charges", "initial_magmoms"}

    def __init__(self, model, **parameters):
        """model: the .equi file. It is searched for in the current folder, which may change later, and in the folders
        of LAMMPS_POTENTIALS.

        precision: "double" (the default) or "mixed". radial: "exact" or the tolerance of the radial tables, by default
        that of the pair style. threads: their number, by default chosen by the pair style. The first evaluation in a
        process decides for all; another number later raises CalculationFailed. forces: "energy" (the default) or
        "direct", if the file has direct forces; there are no stresses then. task, charge and spin: for a file for all
        systems, as the keywords of the pair style. system: a dict of further numbers of the whole system by the names in
        the file. Unknown names and values raise ASE's InputError.
        """
        self._session = None
        self._arrangement = None  # chemical symbols and periodic directions of the present LAMMPS
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
        """Ends LAMMPS and frees its memory; the next evaluation starts it again."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def __getstate__(self):
        return {**self.__dict__, "_session": None}

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        with self._failures():
            result = self._evaluate()
        self.results = {
            "energy": result.energy,
            "free_energy": result.energy,
            "forces": result.forces,
            "energies": result.energies,
        }
        if result.stress is not None:
            self.results["stress"] = result.stress

    def hessian(self, atoms=None):
        """Exact second derivatives of the energy by positions [3N, 3N] in eV/Angstrom^2, without constraints.

        Rows and columns are x, y, z of the first atom, then of the next. LAMMPS is set up only for this call; atoms
        defaults to those of the last evaluation.
        """
        atoms = atoms if atoms is not None else self.atoms
        if atoms is None:
            raise InputError("hessian needs atoms: nothing was evaluated yet")
        with self._failures(), lammps_runner._working_folder() as folder:
            box = lammps_runner.lammps_box(atoms)
            session, _ = self._started(atoms, box)
            try:
                # The matrix is divided by square roots of masses.
                session.command("mass * 1.0")
                session.command(f'equi_dynamical_matrix all regular 1e-6 file "{folder}/hessian" binary yes')
            finally:
                session.close()
            blocks = np.fromfile(folder / "hessian").reshape(len(atoms), 3, len(atoms), 3)
        rotated = np.einsum("ab,ibjc,dc->iajd", box.rotation, blocks, box.rotation)
        return rotated.reshape(3 * len(atoms), 3 * len(atoms))

    @contextmanager
    def _failures(self):
        try:
            yield
        except EquiError as error:
            self.close()
            raise CalculationFailed(str(error)) from error
        except BaseException:  # an interrupt, which stops LAMMPS in mid-run
            self.close()
            raise

    def _evaluate(self):
        box = lammps_runner.lammps_box(self.atoms)
        arrangement = (self.atoms.get_chemical_symbols(), self.atoms.pbc.tolist())
        if self._session is not None and arrangement == self._arrangement:
            self._session.move(box)
            return self._session.run(self.atoms, box)
        self._session, result = self._started(self.atoms, box, self._session)
        self._arrangement = arrangement
        return result

    def _started(self, atoms, box, session=None):
        """(session, result): LAMMPS, a new one if there is none, set up for a structure, and its first result."""
        p = self.parameters
        symbols = sorted(set(atoms.get_chemical_symbols()))
        if session is None:
            session = lammps_runner.LammpsSession()
        try:
            with lammps_runner._working_folder() as folder, _asking_for_threads(p.threads):
                model = lammps_runner._plain_path(p.model, folder)
                words = [word for name in SYSTEM[:-1] if p[name] is not None for word in (name, p[name])]
                words += [word for name, number in (p.system or {}).items() for word in ("system", name, repr(float(number)))]
                words += [] if p.forces is None else ["forces", p.forces]
                commands = lammps_runner.equi_commands(model, symbols, p.precision, p.radial, words)
                session.command(f'log "{folder}/log.lammps"')
                session.set_up(atoms, symbols, box, commands, folder)
                result = session.run(atoms, box)
                session.command("log none")
                log = (folder / "log.lammps").read_text()
            running = re.search(r"^  precision .*, (\d+) threads?\b", log, re.M)  # not reported if a GPU evaluates
            if p.threads is not None and running and int(running[1]) != p.threads:
                raise EquiError(
                    f"{p.threads} threads are asked for and {running[1]} in use: their number is chosen once, by the first "
                    "evaluation in a process"
                )
        except BaseException:
            session.close()
            raise
        return session, result


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
    system = parameters["system"]
    if system is not None and not (isinstance(system, dict) and all(map(_is_input, system.items()))):
        raise InputError(f"system must be a dict of numbers by the names of inputs, not {system!r}")


def _is_input(item):
    name, number = item
    is_word = isinstance(name, str) and name and not set(name) & set(" \t\n$&#\"'")
    return is_word and _is_number(number, Real) and np.isfinite(number)


@contextmanager
def _asking_for_threads(number):
    """The variable that the pair style reads when it starts the threads of this process."""
    before = os.environ.get("OMP_NUM_THREADS")
    if number is not None:
        os.environ["OMP_NUM_THREADS"] = str(number)
    try:
        yield
    finally:
        if number is not None:
            os.environ.pop("OMP_NUM_THREADS")
            if before is not None:
                os.environ["OMP_NUM_THREADS"] = before
