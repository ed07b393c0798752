#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Starting structures for label.py and for the tests of the potentials of this folder.

    python start.py NaCl nacl.xyz --atoms 64
    python start.py Si silicon.xyz --atoms 216
    python start.py H2O water.xyz --atoms 96

Rock salt and diamond in cubic cells, and water with its molecules on a grid, turned at random, at 1 g/cm^3. The names of
crystals are those of `ase.build.bulk`, such as Cu; a cell is as cubic as the number of atoms allows.
"""

import argparse
import os
import sys

import numpy as np
from ase import Atoms, units
from ase.build import bulk, molecule
from ase.io import read, write

ROCK_SALT = {"NaCl": 5.64, "LiCl": 5.13, "KCl": 6.29, "LiF": 4.03, "MgO": 4.21}  # lattice constants, Angstrom


def repeated(atoms, count):
    """The structure, repeated along its shortest directions to at least so many atoms."""
    while len(atoms) < count:
        repeats = [1, 1, 1]
        repeats[int(np.argmin(atoms.cell.lengths()))] = 2
        atoms = atoms * repeats
    return atoms


def crystal(name, count):
    cell = bulk(name, "rocksalt", ROCK_SALT[name], cubic=True) if name in ROCK_SALT else bulk(name, cubic=True)
    return repeated(cell, count)


def water(count, rng):
    """At least so many atoms in molecules on a cubic grid, of which the last points may stay empty."""
    molecules = -(-count // 3)
    edge = (molecules * 18.015 / (units.mol / 1e24)) ** (1 / 3)
    points = int(np.ceil(molecules ** (1 / 3)))
    box = Atoms(cell=[edge] * 3, pbc=True)
    for n in range(molecules):
        one = molecule("H2O")
        one.euler_rotate(*rng.uniform(0, 360, 3), center="COM")
        one.translate(edge / points * (np.array(np.unravel_index(n, [points] * 3)) + 0.5) - one.get_center_of_mass())
        box += one
    return box


def structures_in(path, **options):
    """All structures of a file that ASE reads; the program ends with the reason if there are none."""
    if not os.path.isfile(path):
        sys.exit(f"cannot read {path}: no such file")
    try:
        found = read(path, ":", **options)
    except Exception as error:  # readers of ASE raise exceptions of all kinds
        sys.exit(f"cannot read structures from {path}: {type(error).__name__}: {error}")
    return found or sys.exit(f"{path} holds no structure")


def check_folder_of(output):
    """Ends the program if a file cannot be written where it shall be, before the work."""
    if not os.access(os.path.dirname(output) or ".", os.W_OK):
        sys.exit(f"cannot write {output}: no folder {os.path.dirname(output) or '.'} that can be written to")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("output")
    parser.add_argument("--atoms", type=int, default=64, metavar="N", help="at least (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    check_folder_of(words.output)
    try:
        atoms = water(words.atoms, np.random.default_rng(words.seed)) if words.name == "H2O" else crystal(words.name, words.atoms)
    except (ValueError, KeyError) as error:
        parser.error(f"{words.name}: {error}; H2O, and elements and compounds that ase.build.bulk knows or start.py lists, are possible")
    write(words.output, atoms)
    print(f"{words.output}: {len(atoms)} atoms, {atoms.get_masses().sum() / units.mol * 1e24 / atoms.get_volume():.3f} g/cm^3")


if __name__ == "__main__":
    main()
