# SPDX-License-Identifier: MIT
"""Differences between the native evaluation and reference values: `equi check` and `equi compare`."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass

import numpy as np
from ase.calculators.calculator import PropertyNotImplementedError

from . import equi_file, lammps_runner, reference_values, self_check, structures
from . import plot as pictures
from .document import is_of_clusters, needs_periodic_cell
from .errors import EquiError
from .model_units import DIRECT_FORCES
from .plot import Point
from .printable import printable
from .progress import track


@dataclass(frozen=True)
class Bars:
    """Largest allowed differences. Forces are relative to the largest force if that exceeds 1 eV/A, stresses to the
    largest component if that exceeds 1 eV/A^3 (160 GPa)."""

    energy: float  # eV/atom
    force: float  # eV/A
    stress: float  # eV/A^3


BARS = {
    ("double", "exact"): Bars(1e-10, 1e-9, 1e-9),
    ("double", "table"): Bars(1e-8, 1e-6, 1e-6),
    # Features are float32. The stress is not more accurate than the forces that it sums.
    ("mixed", "exact"): Bars(1e-6, 1e-4, 1e-5),
    ("mixed", "table"): Bars(1e-6, 1e-4, 1e-5),
}


def bars_for(precision, radial):
    return BARS[precision, "exact" if radial == "exact" else "table"]


@dataclass
class Difference:
    name: str
    num_atoms: int
    energy: float  # |dE| per atom, eV
    force: float  # max |dF| / max(1, largest force), eV/A
    stress: float  # max |dS| / max(1, largest component), eV/A^3, or None
    bars: Bars

    def missed(self):
        """Names of the quantities that exceed their bar; NaN exceeds every bar."""
        found = [("energy", self.energy, self.bars.energy), ("force", self.force, self.bars.force)]
        if self.stress is not None:
            found.append(("stress", self.stress, self.bars.stress))
        return [name for name, value, bar in found if not value <= bar]


def difference(name, result, energy, forces, stress, bars):
    """Difference of a lammps_runner.Result from reference values."""
    forces = np.asarray(forces)
    scale = max(1.0, np.abs(forces).max(initial=0.0))
    ds = None
    if stress is not None and result.stress is not None:
        ds = float(np.abs(result.stress - np.asarray(stress)).max() / max(1.0, np.abs(stress).max()))
    n = len(forces)
    return Difference(
        name, n, abs(result.energy - energy) / n, float(np.abs(result.forces - forces).max()) / scale, ds, bars
    )


def print_table(differences, bars, write=print):
    """Prints one line per structure and the verdict; returns the number of structures that miss a bar."""
    names = [printable(d.name, 60) for d in differences]
    width = max([len(name) for name in names] + [9])
    write(f"{'structure':<{width}} {'atoms':>6} {'dE eV/atom':>12} {'dF eV/A':>12} {'dS eV/A^3':>12}")
    failed = 0
    for name, d in zip(names, differences):
        missed = d.missed()
        failed += bool(missed)
        stress = f"{d.stress:12.2e}" if d.stress is not None else f"{'-':>12}"
        verdict = "" if not missed else f"  MISSED: {', '.join(missed)}"
        write(f"{name:<{width}} {d.num_atoms:>6} {d.energy:12.2e} {d.force:12.2e} {stress}{verdict}")
    write(f"{'allowed':<{width}} {'':>6} {bars.energy:12.2e} {bars.force:12.2e} {bars.stress:12.2e}")
    if failed:
        write(f"{failed} of {len(differences)} structures miss a bar")
    else:
        write(f"all {len(differences)} structures are within the bars")
    return failed


def print_json(differences, bars, write=print):
    """The same for programs, as one JSON document; quantities are those of Difference, null if they are not finite."""

    def number(value):
        return value if value is not None and np.isfinite(value) else None

    failed = sum(bool(d.missed()) for d in differences)
    structures = [
        {"name": d.name, "atoms": d.num_atoms, "energy": number(d.energy), "force": number(d.force),
         "stress": number(d.stress), "missed": d.missed()}
        for d in differences
    ]  # fmt: skip
    write(json.dumps({"structures": structures, "allowed": asdict(bars), "failed": failed}, indent=2))
    return failed


@dataclass
class Native:
    """How to run the native evaluation."""

    model_file: str
    precision: str = "double"
    radial: str = None  # "exact", a tolerance, or None for the default table
    keywords: tuple = ()
    ranks: int = 0  # 0: in this process
    build_dir: str = None

    @property
    def has_direct_forces(self):
        return lammps_runner.asks_for_direct_forces(self.keywords)

    def __call__(self, atoms):
        options = dict(precision=self.precision, radial=self.radial, extra_keywords=self.keywords)
        if self.ranks > 0:
            lmp, mpirun = lammps_runner.lammps_programs(self.build_dir)
            return lammps_runner.evaluate_with_ranks(
                atoms, self.model_file, self.ranks, lmp=lmp, mpirun=mpirun, **options
            )
        return lammps_runner.evaluate(
            atoms, self.model_file, plugin=lammps_runner.find_plugin(self.build_dir), **options
        )


def stored_differences(native, quiet=False):
    """(list of Difference, Bars) of the native evaluation from the values stored in the file."""
    document, _ = equi_file.read(native.model_file)
    stored = document.get("self_check", [])
    if not stored:
        raise EquiError(f"{native.model_file}: {reference_values.missing(document)}")
    bars = bars_for(native.precision, native.radial)
    differences = []
    for entry in track(stored, "checking", quiet):
        result = native(self_check.to_atoms(entry))
        differences.append(difference(entry["name"], result, entry["energy"], entry["forces"], entry["stress"], bars))
    return differences, bars


def check(native, quiet=False, write=print, show=print_table):
    """Compares the native evaluation with the values stored in the file; returns the number of failures. show:
    print_table or print_json."""
    return show(*stored_differences(native, quiet), write)


def compare(native, calculator, named_structures, bars, quiet=False, write=print, show=print_table, plot=None,
            with_direct_forces=False):  # fmt: skip
    """Compares the native evaluation with an ASE calculator; returns the number of failures. Direct forces are
    compared with those among the calculator's results. show: as above. plot: None, or the file of a picture."""
    differences, points = [], []
    for name, atoms in track(named_structures, "comparing", quiet):
        atoms = atoms.copy()
        try:
            result = native(atoms)
        except EquiError as error:
            raise EquiError(f"{name}: {error}") from error
        atoms.calc = calculator
        stress = None
        if atoms.cell.volume > 1e-3 and not with_direct_forces:
            with suppress(PropertyNotImplementedError):  # a deployed model may have none
                stress = atoms.get_stress()
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        if with_direct_forces:
            if DIRECT_FORCES not in calculator.results:
                raise EquiError("the framework's model has no head of its own for forces to compare with")
            forces = calculator.results[DIRECT_FORCES]
        differences.append(difference(name, result, energy, forces, stress, bars))
        points.append(Point((result.energy / len(atoms), energy / len(atoms)), (result.forces, forces)))
    if plot is not None:
        pictures.comparison(points, bars, plot)
    return show(differences, bars, write)


def keywords_of_system(document, task, charge, spin, system=None):
    """Keywords of pair_style for a file for all systems. system: numbers by name, or None."""
    known = [entry["name"] for entry in document["mixture"].get("tasks", [])]
    if task is None and len(known) > 1:
        raise EquiError(f"the model has several tasks, choose one: --task {' | '.join(known)}")
    for name, value in (("task", task), ("charge", charge), ("spin", spin)):
        if isinstance(value, float) and value != round(value):
            raise EquiError(
                f"--{name} {value:g}: the keyword of pair_style takes whole numbers; others can be fixed in a file "
                f"(equi convert --{name})"
            )
        if value is not None:
            yield from (name, value if isinstance(value, str) else f"{value:.0f}")
    for name, value in (system or {}).items():
        yield from ("system", name, repr(float(value)))


def select_builtin(document, write=print):
    """The built-in structures that a model holds for; prints which ones are skipped."""
    chosen, left_out = [], []
    for name, atoms in structures.builtin():
        (chosen if structures.fits(document, atoms) else left_out).append((name, atoms))
    if left_out:
        what = "of another composition" if "composition" in document else "elements unknown to the model"
        if is_of_clusters(document):
            what = "periodic or with elements unknown to the model"
        if needs_periodic_cell(document):
            what = "not periodic in three directions or with elements unknown to the model"
        write(f"left out, {what}: {', '.join(name for name, _ in left_out)}")
    if not chosen:
        raise EquiError("the model holds for no built-in structure: its elements or its composition differ")
    return chosen
