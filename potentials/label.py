#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Structures of any material with energies, forces and stresses of a teacher, an .equi file: the data of train.py.

    python label.py melt.xyz nacl.cif --temperature 1100 1500 --volume 1.3 1.5 --melt 3000
    python label.py held-out.xyz data.nacl --types Na Cl --temperature 1300 --volume 1.4 --melt 3000 --seed 2
    python label.py crystal.xyz nacl.cif --rattle 0.05 0.15 --rattled 20 --strain 0.03

Starts are files that ASE reads, with one structure or many, and data files of LAMMPS (data.*, *.data). Each start gives
a trajectory for each temperature and volume, and rattled cells for each volume and amplitude. Every structure is of the
kind that --kind names, with its temperature or amplitude; train.py lists errors by kind. Held-out data are from a call of
their own, with another seed: trajectories that share no step with those of the training. --dynamics lets another
potential make the trajectories, such as one that was trained before; the labels remain the teacher's.
"""

import argparse
from pathlib import Path

import numpy as np
from ase import units
from ase.calculators.calculator import CalculationFailed
from ase.calculators.singlepoint import SinglePointCalculator
from ase.data import atomic_numbers
from ase.io import write
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import thermalize_momenta
from equi_tools.ase import EquiCalculator
from equi_tools.equi_file import find
from start import check_folder_of, repeated, structures_in

# Forces beyond this, in eV/Angstrom, are of atoms that no simulation brings so close; what has them is left out.
LARGEST_FORCE = 40.0


def starts_of(path, types, atoms_wanted):
    """The structures of a file, each repeated along its shortest directions to at least so many atoms."""
    name = Path(path).name
    if name.startswith("data.") or name.endswith(".data"):
        numbers = {i + 1: atomic_numbers[symbol] for i, symbol in enumerate(types or [])}
        found = structures_in(path, format="lammps-data", units="metal", **({"Z_of_type": numbers} if numbers else {}))
    else:
        found = structures_in(path)
    return [repeated(atoms, atoms_wanted) for atoms in found]


def scaled(atoms, volume):
    atoms = atoms.copy()
    atoms.calc = None
    atoms.set_cell(atoms.cell.array * volume ** (1 / 3), scale_atoms=True)
    return atoms


def rattled(atoms, amplitude, strain, rng):
    """Every atom moved by a normal distribution, the cell deformed by a symmetric strain."""
    atoms = atoms.copy()
    deformation = rng.normal(0, strain, (3, 3))
    atoms.set_cell(atoms.cell.array @ (np.eye(3) + (deformation + deformation.T) / 2), scale_atoms=True)
    atoms.positions += rng.normal(0, amplitude, (len(atoms), 3))
    return atoms


def trajectory(atoms, calculator, temperature, words, rng):
    """Snapshots of dynamics at constant volume; ends early where the potential that moves the atoms fails."""
    atoms.calc = calculator
    hot = max(temperature, words.melt or 0.0)
    thermalize_momenta(atoms, hot, rng=rng)
    step = 1000 * words.timestep * units.fs
    dynamics = Langevin(atoms, step, temperature_K=hot, friction=0.01 / units.fs, fixcm=False, rng=rng)
    found = []
    try:
        if words.melt:
            dynamics.run(words.settle)
            dynamics.set_temperature(temperature_K=temperature)
        dynamics.run(words.settle)
        for _ in range(words.steps // words.every):
            dynamics.run(words.every)
            if not np.isfinite(atoms.positions).all() or atoms.get_temperature() > 5 * hot + 1000:
                print(f"  the dynamics at {temperature:g} K ran away after {dynamics.nsteps} steps", flush=True)
                break
            found.append(atoms.copy())
    except CalculationFailed as error:
        print(f"  the dynamics at {temperature:g} K ended: {str(error).splitlines()[0]}", flush=True)
    return found


def labeled(atoms, calculator, kind):
    """The structure with the teacher's answers, or None where its forces are too large."""
    atoms = atoms.copy()
    atoms.calc = calculator
    results = dict(energy=atoms.get_potential_energy(), forces=atoms.get_forces(), stress=atoms.get_stress())
    if not np.abs(results["forces"]).max() < LARGEST_FORCE:
        return None
    atoms.calc = SinglePointCalculator(atoms, **results)
    atoms.info["kind"] = kind
    return atoms


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", metavar="DATA.xyz", help="what is written, in the extended xyz format")
    parser.add_argument("starts", nargs="+", metavar="STRUCTURE")
    parser.add_argument("--types", nargs="+", metavar="El", help="chemical symbols of the atom types of LAMMPS data files")
    parser.add_argument("--atoms", type=int, default=1, metavar="N", help="repeat each structure to at least N atoms")
    parser.add_argument("--volume", type=float, nargs="+", default=[1.0], help="factors of the volume (default: 1)")
    parser.add_argument("--temperature", type=float, nargs="+", default=[], metavar="K", help="of the dynamics (default: none)")
    parser.add_argument("--melt", type=float, metavar="K", help="begin the dynamics with --settle steps at this temperature")
    parser.add_argument("--timestep", type=float, default=0.002, help="ps (default: %(default)s)")
    parser.add_argument("--settle", type=int, default=1000, metavar="STEPS", help="before the first snapshot (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="of each trajectory (default: %(default)s)")
    parser.add_argument("--every", type=int, default=100, metavar="STEPS", help="between snapshots (default: %(default)s)")
    parser.add_argument("--rattle", type=float, nargs="+", default=[], metavar="A", help="amplitudes of rattled cells, Angstrom")
    parser.add_argument("--rattled", type=int, default=10, metavar="N", help="cells for each amplitude (default: %(default)s)")
    parser.add_argument("--strain", type=float, default=0.02, help="of rattled cells (default: %(default)s)")
    parser.add_argument("--kind", default="", help="what these structures are, such as liquid")
    parser.add_argument("--teacher", default="sevennet-0.equi", metavar="FILE.equi", help="default: %(default)s")
    parser.add_argument("--dynamics", metavar="FILE.equi", help="the potential that moves the atoms (default: the teacher)")
    parser.add_argument("--seed", type=int, default=1, help="of all random numbers (default: %(default)s)")
    words = parser.parse_args()
    check_folder_of(words.output)
    if not words.temperature and not words.rattle:
        parser.error("nothing to label: --temperature makes snapshots of dynamics, --rattle displaced cells")
    for model in filter(None, (words.teacher, words.dynamics)):
        if not Path(find(model)).is_file():
            parser.error(f"there is no {model}: LAMMPS_POTENTIALS names the folders of models")

    rng = np.random.default_rng(words.seed)
    teacher = EquiCalculator(words.teacher, precision="mixed")
    mover = EquiCalculator(words.dynamics, precision="mixed") if words.dynamics else teacher
    starts = [atoms for path in words.starts for atoms in starts_of(path, words.types, words.atoms)]
    prefix = f"{words.kind}, " if words.kind else ""
    found = []
    for start in starts:
        for volume in words.volume:
            cell = scaled(start, volume)
            for temperature in words.temperature:
                snapshots = trajectory(cell.copy(), mover, temperature, words, rng)
                found += [(atoms, f"{prefix}{temperature:g} K") for atoms in snapshots]
                print(f"{len(cell)} atoms, volume {volume:g}, {temperature:g} K: {len(snapshots)} snapshots", flush=True)
            for amplitude in words.rattle:
                cells = [rattled(cell, amplitude, words.strain, rng) for _ in range(words.rattled)]
                found += [(atoms, f"{prefix}moved by {amplitude:g} A") for atoms in cells]
    data = [atoms for atoms in (labeled(atoms, teacher, kind) for atoms, kind in found) if atoms is not None]
    write(words.output, data, format="extxyz")
    print(f"{words.output}: {len(data)} structures, {len(found) - len(data)} left out for their forces")


if __name__ == "__main__":
    main()
