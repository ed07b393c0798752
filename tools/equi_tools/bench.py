# SPDX-License-Identifier: MIT
"""`equi bench`: time of a step and memory of a model on this machine, with ranks against threads."""

import os

import numpy as np
from ase import Atoms
from ase.build import molecule
from ase.data import atomic_numbers, covalent_radii

from . import equi_file, kernels, lammps_runner, self_check, structures
from .certificate import IDLE_LOAD
from .document import is_of_clusters
from .errors import EquiError
from .progress import track

WARM_UP = 5  # steps
# Liquids for models of molecules: distance of neighboring molecules in Angstrom, at 1.00 and 0.42 g/cm^3.
LIQUIDS = {"H2O": 3.107, "CH4": 3.98}
MOLECULES = 3  # in each direction
LONGER = 1.1  # nearest distance in a made-up crystal, in sums of covalent radii


def system(document, least, source=None, symbols=None):
    """(name, Atoms) to run: the structure of a file, or else a crystal or liquid that the model holds for, repeated to
    `least` atoms or more. symbols: elements of the file's atom types."""
    elements = document["elements"]
    if source is not None:
        name, atoms = structures.read_last(source, symbols)[:2]
        unknown = sorted(set(atoms.get_chemical_symbols()) - set(elements))
        if unknown:
            raise EquiError(f"{name}: the model does not know {', '.join(unknown)}")
    else:
        known = ((name, atoms) for name, atoms in structures.builtin() if atoms.pbc.all() and structures.fits(document, atoms))
        name, atoms = next(known, None) or _liquid(document) or _made_up(document)
    if source is not None and not atoms.pbc.all():
        return name, atoms
    count = max(1, round((least / len(atoms)) ** (1 / 3)))
    while count**3 * len(atoms) < least:
        count += 1
    atoms = atoms.repeat(count)
    if not atoms.pbc.any():  # of a model of clusters
        atoms.cell = None
    return name, atoms


def _liquid(document):
    """Molecules in random directions, or None."""
    for formula, spacing in LIQUIDS.items():
        rng, molecules = np.random.default_rng(1), Atoms(cell=[MOLECULES * spacing] * 3, pbc=not is_of_clusters(document))
        for place in np.ndindex(*[MOLECULES] * 3):
            one = molecule(formula)
            one.euler_rotate(*rng.uniform(0, 360, 3), center="COP")
            one.translate(spacing * (np.array(place) + 0.5))
            molecules += one
        if structures.fits(document, molecules):
            return f"molecules of {formula}", molecules
    return None


def _made_up(document):
    """Rock salt of the model's first and last elements, or a crystal of its only composition."""
    elements, cutoff = document["elements"], document["cutoff"]
    if "composition" in document:
        return next((name, atoms) for name, atoms in self_check.of_composition(document["composition"], cutoff) if atoms.pbc.all())
    first, last = elements[0], elements[-1]
    length = 2 * LONGER * float(covalent_radii[[atomic_numbers[first], atomic_numbers[last]]].sum())
    places = [[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]
    atoms = Atoms([first] * 4 + [last] * 4, cell=[length] * 3, pbc=not is_of_clusters(document),
                  scaled_positions=places + [[(x + 0.5) % 1, y, z] for x, y, z in places])  # fmt: skip
    return f"{first}{last}, rock salt", atoms


def divisions(cores):
    """(ranks, threads) that use one core, and then all, from only threads to only ranks."""
    return [(1, 1)] * (cores > 1) + [(n, cores // n) for n in range(1, cores + 1) if cores % n == 0]


def measure(file, build_dir, precision, least, steps, source=None, quiet=False, symbols=None):
    """The facts as a dict."""
    lmp, mpirun = lammps_runner.lammps_programs(build_dir)
    document, _ = equi_file.read(file)
    name, atoms = system(document, least, source, symbols)
    machine = kernels.machine(build_dir=build_dir)
    load = os.getloadavg()[0]
    runs = []
    with lammps_runner._working_folder() as folder:
        lines = [
            *lammps_runner.write_system(folder, atoms, file, precision), "velocity all create 300.0 4928459", "fix 1 all nve",
            "timestep 0.0005", f"run {WARM_UP} post no", f"run {steps}",
        ]  # fmt: skip
        (folder / "in.bench").write_text("\n".join(lines) + "\n")
        cores = max(1, int(float(machine["quota"])))
        for ranks, threads in track(divisions(cores if mpirun else 1), "measuring", quiet):
            command = [mpirun, "-np", str(ranks)] if ranks > 1 else []
            command += [lmp, "-in", str(folder / "in.bench"), "-log", "none", "-nocite"]
            output = lammps_runner.run_and_show(command, folder, threads=threads)
            run = lammps_runner.performance(output)
            runs.append({"ranks": ranks, "threads": threads, "microseconds": run.microseconds, "memory": run.memory})
    return {"model": str(file), "system": name, "atoms": len(atoms), "steps": steps, "precision": precision,
            "kernels": machine["kernels"], "cores": cores, "load": load, "runs": runs}  # fmt: skip


def text(facts):
    lines = [
        f"{facts['model']}: {facts['atoms']} atoms ({facts['system']}), {facts['steps']} steps, precision "
        f"{facts['precision']}, {facts['kernels']} kernels",
        f"{'ranks':>6} {'threads':>8} {'us/atom/step':>13} {'kB/atom':>8}",
    ]
    for run in facts["runs"]:
        memory = "-" if run["memory"] is None else f"{run['memory']:.1f}"
        lines.append(f"{run['ranks']:>6} {run['threads']:>8} {run['microseconds']:>13.1f} {memory:>8}")
    best = min(facts["runs"], key=lambda run: run["microseconds"])
    launcher = f"mpirun -np {best['ranks']} " if best["ranks"] > 1 else ""
    lines.append(f"fastest here: OMP_NUM_THREADS={best['threads']} {launcher}lmp -in FILE")
    if facts["load"] > IDLE_LOAD:
        lines.append(f"the machine did other work (load {facts['load']:.1f} before the first run): expect better on an idle one")
    return "\n".join(lines)
