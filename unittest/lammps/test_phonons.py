# SPDX-License-Identifier: MIT
"""examples/phonons/phonons.py: the waves that fit into a supercell have the frequencies of its whole dynamical matrix."""

import sys
from pathlib import Path

import numpy as np
import pytest
from ase import units
from ase.build import bulk
from ase.io import read
from ase.spacegroup import crystal
from lammps_script import rock_salt
from test_second_derivatives import setup

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "phonons"))
import phonons  # noqa: E402

TOLERANCE = 1e-10  # of squares of frequencies, relative to the largest


def wurtzite():
    return bulk("ZnO", "wurtzite", a=3.25, c=5.2)


def rutile():
    return crystal(["Ti", "O"], [(0, 0, 0), (0.305, 0.305, 0)], spacegroup=136, cellpar=[4.59, 4.59, 2.96, 90, 90, 90])


# A supercell, and the number of atoms in its primitive cell.
CASES = {
    "rock_salt": (rock_salt((2, 2, 1), amplitude=0.0), 2),
    "wurtzite": (wurtzite() * (3, 2, 1), 4),
    "rutile": (rutile() * (2, 1, 2), 6),
    "primitive_cells": (bulk("Si", "diamond", 5.43) * (3, 3, 2), 2),
    "no_translations": (rock_salt((1, 1, 1)), 8),
}


@pytest.mark.parametrize("name", CASES)
def test_waves_that_fit_into_the_supercell(lammps, name):
    atoms, num_primitive = CASES[name]
    lines = setup(lammps, "sevennet-0", atoms)
    lines += ["equi_dynamical_matrix all eskm 1 binary yes file all.dyn",
              "write_dump all custom atoms.dump id type mass x y z modify sort id format float %.16g"]  # fmt: skip
    folder = lammps.run(lines).folder
    cell, types, masses, positions = phonons.read_dump(folder / "atoms.dump")
    found = phonons.Crystal(cell, types, positions)
    assert len(found.first) == num_primitive
    assert np.abs(np.abs(np.linalg.det(cell)) / np.linalg.det(found.primitive) - len(atoms) / num_primitive) < 1e-6

    matrix = np.fromfile(folder / "all.dyn").reshape(3 * len(atoms), -1)
    expected = np.sort(np.linalg.eigvalsh((matrix + matrix.T) / 2)) / (2 * np.pi) ** 2
    # Waves that fit into the supercell, one of each set of waves that are equal modulo the reciprocal lattice.
    waves = {}
    span = range(-4, 5)
    for n in np.array(np.meshgrid(span, span, span)).reshape(3, -1).T:
        q = n @ np.linalg.inv(cell).T
        fraction = np.round(found.primitive @ q, 6) % 1.0
        waves.setdefault(tuple(np.round(fraction, 4) % 1.0), 2 * np.pi * q)
    assert len(waves) == len(atoms) // num_primitive
    frequencies = np.concatenate([found.frequencies(matrix, q) for q in waves.values()])
    squares = np.sort(np.sign(frequencies) * frequencies**2)
    assert np.abs(squares - expected).max() < TOLERANCE * np.abs(expected).max()


def test_the_kinds_of_atoms_belong_to_the_translations():
    cell, chain = np.diag([12.0, 3.0, 4.0]), [[3.0 * k, 0.0, 0.0] for k in range(4)]
    for kinds, num_primitive in [([0, 0, 0, 0], 1), ([0, 1, 0, 1], 2), ([0, 1, 1, 0], 4)]:
        assert len(phonons.Crystal(cell, kinds, chain).first) == num_primitive


def test_the_script_draws_a_picture(lammps, monkeypatch, capsys):
    atoms = rutile()
    lines = setup(lammps, "sevennet-0", atoms * (2, 2, 2))
    lines += ["equi_dynamical_matrix all eskm 1 binary yes file exact.dyn",
              "write_dump all custom atoms.dump id type mass x y z modify sort id format float %.16g"]  # fmt: skip
    folder = lammps.run(lines).folder
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["phonons.py", "exact.dyn", "--title", "rutile", "--phonopy", "for_phonopy"])
    monkeypatch.setattr(phonons, "MESH", 2)
    phonons.main()
    assert "48 atoms, 6 of the primitive cell" in capsys.readouterr().out
    assert (folder / "phonons.png").stat().st_size > 10000

    # Another program reads the files for phonopy: frequencies of the supercell.
    supercell = read(folder / "for_phonopy" / "POSCAR")
    assert supercell.get_chemical_formula() == "O32Ti16"
    lines = (folder / "for_phonopy" / "FORCE_CONSTANTS").read_text().splitlines()
    assert lines[:2] == ["48 48", "1 1"] and lines[5] == "1 2" and len(lines) == 1 + 4 * 48**2
    blocks = np.array([line.split() for n, line in enumerate(lines[1:]) if n % 4], float).reshape(48, 48, 3, 3)
    constants = blocks.transpose(0, 2, 1, 3).reshape(144, 144)
    roots = np.sqrt(np.repeat(supercell.get_masses(), 3))
    values = np.linalg.eigvalsh(constants / roots / roots[:, None])
    frequencies = np.sqrt(values[-1]) / (2 * np.pi) * units.s * 1e-12  # ASE's unit of time from eV, Angstrom and u; THz
    matrix = np.fromfile(folder / "exact.dyn").reshape(144, 144)
    expected = np.sqrt(np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1]) / (2 * np.pi)
    assert frequencies == pytest.approx(expected, rel=1e-6)
