# SPDX-License-Identifier: MIT
"""The systems of bench/md_systems.py are crystals with sensible bonds and densities, and bench/step.py runs them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ase.data import covalent_radii
from ase.neighborlist import neighbor_list
from built_models import built

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))
import common  # noqa: E402
import md_systems  # noqa: E402

# Measured densities in g/cm^3 at ambient conditions, rounded.
DENSITIES = {
    "md-cu": 8.9, "md-ag": 10.5, "md-al": 2.7, "md-w": 19.3, "md-cu3au": 12.2, "md-nial": 5.9, "md-mos2": 5.0, "md-tise2": 5.2,
    "md-srtio3": 5.1, "md-naphthalene": 1.17, "md-anthracene": 1.25,
}  # fmt: skip


@pytest.mark.parametrize("name", md_systems.MD_SYSTEMS)
def test_a_system_has_its_size_and_sensible_bonds(name):
    system = md_systems.MD_SYSTEMS[name]
    atoms = system.build()
    assert len(atoms) == system.atoms and atoms.pbc.all() and 293 <= system.temperature <= 1500
    i, j, distances = neighbor_list("ijd", atoms, 4.5)
    bonds = distances / (covalent_radii[atoms.numbers[i]] + covalent_radii[atoms.numbers[j]])
    # Each atom has neighbors, and none is closer than metals of transition metals are.
    assert len(set(i)) == len(atoms) and bonds.min() > 0.8
    assert all(bonds[i == n].min() < 1.25 for n in range(len(atoms)))
    if name in DENSITIES:
        assert atoms.get_masses().sum() / atoms.get_volume() / 0.602214 == pytest.approx(DENSITIES[name], rel=0.02)


def test_the_set_has_the_kinds_and_the_number_of_its_model():
    kinds = {system.kind for system in md_systems.MD_SYSTEMS.values()}
    assert len(md_systems.MD_SYSTEMS) == 17 and len(kinds) == 6
    assert sum(system.is_named for system in md_systems.MD_SYSTEMS.values()) == 6
    temperatures = [system.temperature for system in md_systems.MD_SYSTEMS.values()]
    assert (min(temperatures), max(temperatures)) == (293.0, 1500.0)
    counts = np.unique(md_systems.MD_SYSTEMS["md-crmnfeconi"].build().numbers, return_counts=True)[1]
    assert len(counts) == 5 and np.ptp(counts) <= 1


@pytest.mark.parametrize("rings, carbon, hydrogen", [(1, 6, 6), (2, 10, 8), (3, 14, 10)])
def test_acenes(rings, carbon, hydrogen):
    symbols, positions = md_systems.acene(rings)
    assert (symbols.count("C"), symbols.count("H")) == (carbon, hydrogen)
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)[np.triu_indices(len(symbols), 1)]
    assert distances.min() == pytest.approx(1.09, abs=1e-4) and np.abs(positions.mean(axis=0)).max() < 1e-6


def test_molecules_of_a_crystal_do_not_touch():
    atoms = md_systems.MD_SYSTEMS["md-anthracene"].build()
    i, j, distances = neighbor_list("ijd", atoms, 3.0)
    bonded = distances < 1.5
    # Two neighbors or three of each carbon atom, one of each hydrogen atom.
    assert set(np.bincount(i[bonded])[atoms.symbols == "H"]) == {1} and set(np.bincount(i[bonded])[atoms.symbols == "C"]) == {3}
    between = ~bonded & (atoms.numbers[i] == 1) & (atoms.numbers[j] == 1)
    assert distances[between].min() > 1.9


def test_copies_and_motion_are_reproducible():
    one, two = (common.make_system("md-tise2", 2) for _ in range(2))
    assert len(one) == 8 * common.ATOMS_PER_CELL["md-tise2"] and np.array_equal(one.positions, two.positions)
    assert common.DYNAMICS["md-anthracene"] == (293.0, 0.0005)


def test_step_runs_a_system():
    command = [sys.executable, BENCH / "step.py", "--build-dir", os.environ["EQUI_BUILD_DIR"], "--model", built("tiny/many_elements.equi")]
    command += ["--system", "md-cssni3", "--no-peer", "--rounds", 1, "--steps", 3, "--warm-up", 1, "--cores", 1]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "md-cssni3, 135 atoms" in done.stdout and "us/atom/step" in done.stdout
