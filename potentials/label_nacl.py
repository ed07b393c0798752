#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Structures of rock salt with energies, forces and stresses of SevenNet-0: the data of train_nacl.py.

    python label_nacl.py nacl            # writes nacl-train.xyz and nacl-test.xyz; needs sevenn

Cells of 16 atoms: perfect ones over a range of volumes, rattled and strained ones, snapshots of dynamics at 300, 700
and 1200 K. A tenth of them is held out, and so are six cells of 64 atoms.
"""

import sys
import warnings

import numpy as np
from ase import units
from ase.build import bulk
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import write
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import MaxwellBoltzmannDistribution


def labeled(atoms, calculator, name):
    atoms = atoms.copy()
    atoms.calc = calculator
    results = dict(energy=atoms.get_potential_energy(), forces=atoms.get_forces(), stress=atoms.get_stress())
    atoms.calc = SinglePointCalculator(atoms, **results)
    atoms.info["kind"] = name
    return atoms


def rattled(cell, amplitude, strain, rng):
    """Every atom moved by a normal distribution, the cell deformed by symmetric strains."""
    atoms = cell.copy()
    deformation = rng.normal(0, strain, (3, 3))
    atoms.set_cell(atoms.cell.array @ (np.eye(3) + (deformation + deformation.T) / 2), scale_atoms=True)
    atoms.positions += rng.normal(0, amplitude, (len(atoms), 3))
    return atoms


def main(prefix):
    warnings.simplefilter("ignore")
    from sevenn.calculator import SevenNetCalculator

    calculator = SevenNetCalculator("7net-0", device="cpu")
    rng = np.random.default_rng(1)
    small = lambda a: bulk("NaCl", "rocksalt", a) * (2, 2, 2)  # 16 atoms
    large = lambda a: bulk("NaCl", "rocksalt", a, cubic=True) * (2, 2, 2)  # 64 atoms

    found = [labeled(small(a), calculator, "perfect") for a in np.linspace(5.2, 6.2, 11)]
    for amplitude in (0.03, 0.08, 0.15, 0.22, 0.3):
        for a in rng.uniform(5.45, 6.0, 44):
            found.append(labeled(rattled(small(a), amplitude, 0.02, rng), calculator, f"rattled {amplitude}"))
    for temperature, a in ((300, 5.65), (700, 5.75), (1200, 5.85)):
        atoms = small(a)
        atoms.calc = calculator
        MaxwellBoltzmannDistribution(atoms, temperature_K=2 * temperature, rng=rng)
        dynamics = Langevin(atoms, 2 * units.fs, temperature_K=temperature, friction=0.02 / units.fs, rng=rng)
        for _ in range(25):
            dynamics.run(8)
            found.append(labeled(atoms, calculator, f"dynamics {temperature} K"))
        print(temperature, "K done", flush=True)

    held_out = set(rng.choice(len(found), len(found) // 10, replace=False))
    test = [atoms for i, atoms in enumerate(found) if i in held_out]
    for amplitude in (0.08, 0.15, 0.22):
        for a in rng.uniform(5.5, 5.9, 2):
            test.append(labeled(rattled(large(a), amplitude, 0.01, rng), calculator, f"64 atoms, rattled {amplitude}"))
    train = [atoms for i, atoms in enumerate(found) if i not in held_out]
    write(f"{prefix}-train.xyz", train)
    write(f"{prefix}-test.xyz", test)
    print(len(train), "structures for training,", len(test), "held out")


if __name__ == "__main__":
    main(sys.argv[1])
