# SPDX-License-Identifier: MIT
"""Structures for a short training of a framework's model."""

from ase.build import bulk
from ase.calculators.lj import LennardJones
from ase.io import write


def write_frames(path):
    """Six distorted cells of rock salt of eight atoms each, with energies, forces and stresses of a Lennard-Jones potential."""
    frames = []
    for seed in range(6):
        atoms = bulk("NaCl", "rocksalt", 5.6, cubic=True)
        atoms.rattle(0.2, seed=seed)
        atoms.calc = LennardJones(sigma=2.4, epsilon=0.1, rc=5.0)
        atoms.get_stress()
        frames.append(atoms)
    write(path, frames)
