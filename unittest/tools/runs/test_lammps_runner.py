# SPDX-License-Identifier: MIT
"""Geometry of the LAMMPS runner, with a Lennard-Jones pair style against ASE's own calculator.

No model is involved: the tests check the conversion of cells, frames, boundaries and units.
"""

import os
import shutil

import numpy as np
import pytest
from ase import Atoms
from ase.build import add_adsorbate, bulk, fcc111, molecule
from ase.calculators.lj import LennardJones
from equi_tools import lammps_runner
from equi_tools.errors import EquiError

SIGMA, EPSILON, CUTOFF = 2.3, 0.04, 6.0
PAIR = [f"pair_style lj/cut {CUTOFF}", f"pair_coeff * * {EPSILON} {SIGMA}", "pair_modify shift yes"]
# Rounding of sums of some hundred terms of up to a few eV.
TOLERANCE = 1e-10


def rattled(atoms, seed=3, amplitude=0.08):
    atoms.rattle(amplitude, seed=seed)
    return atoms


def sheared():
    atoms = bulk("Cu", "fcc", 3.7, cubic=True) * (1, 2, 1)
    atoms.set_cell(atoms.cell.array + np.array([[0, 0, 0], [2.9, 0, 0], [-1.5, 6.0, 0]]), scale_atoms=True)
    return rattled(atoms)


def left_handed():
    atoms = sheared()
    atoms.set_cell(atoms.cell.array[[1, 0, 2]], scale_atoms=False)
    atoms.rotate(25, (1, 2, 3), rotate_cell=True)
    assert np.linalg.det(atoms.cell.array) < 0
    return atoms


def wire():
    atoms = Atoms(
        "Cu3", positions=[[0, 0, 0], [0.6, 2.3, 0.2], [0.1, 4.8, -0.5]], cell=[0, 7.1, 0], pbc=[False, True, False]
    )
    atoms.rotate(35, (1, 1, 0), rotate_cell=True)
    return atoms


def slab(width=2):
    atoms = fcc111("Cu", (width, width, 3), vacuum=5.0)
    add_adsorbate(atoms, "O", 1.9, "fcc")
    atoms.pbc = [True, True, False]
    return rattled(atoms)


def swapped_slab():
    """A slab whose free direction is the first one, in a left-handed cell."""
    atoms = slab()
    atoms.set_cell(atoms.cell.array[[2, 1, 0]], scale_atoms=False)
    atoms.pbc = [False, True, True]
    return atoms


def unwrapped():
    atoms = rattled(bulk("Cu", "fcc", 3.7, cubic=True))
    atoms.positions += atoms.cell.array[0] * 2.3 - atoms.cell.array[2] * 1.7
    atoms.positions[1] -= 5 * atoms.cell.array[1]
    return atoms


STRUCTURES = {
    "cubic": lambda: rattled(bulk("NaCl", "rocksalt", 5.6, cubic=True)),
    "primitive": lambda: rattled(bulk("Cu", "fcc", 3.7)),
    "sheared": sheared,
    "left_handed": left_handed,
    "wire": wire,
    "slab": slab,
    "swapped_slab": swapped_slab,
    "unwrapped": unwrapped,
    "molecule": lambda: molecule("CH3CH2OH"),
    "isolated_atom": lambda: Atoms("Cu"),
    "atom_in_box": lambda: Atoms("Cu", cell=[20, 20, 20], pbc=True, positions=[[-1, 25, 3]]),
    "dimer": lambda: Atoms("CuO", positions=[[0, 0, 0], [1.2, -1.1, 1.5]]),
}


def reference(atoms):
    atoms = atoms.copy()
    atoms.calc = LennardJones(sigma=SIGMA, epsilon=EPSILON, rc=CUTOFF)
    stress = atoms.get_stress() if atoms.cell.volume > 1e-3 else None
    return atoms.get_potential_energy(), atoms.get_forces(), stress, atoms.get_potential_energies()


def assert_same(result, atoms):
    energy, forces, stress, energies = reference(atoms)
    scale = max(1.0, np.abs(forces).max())
    assert abs(result.energy - energy) <= TOLERANCE * scale
    assert np.abs(result.forces - forces).max() <= TOLERANCE * scale
    assert np.abs(result.energies - energies).max() <= TOLERANCE * scale
    if stress is None:
        assert result.stress is None
    else:
        assert np.abs(result.stress - stress).max() <= TOLERANCE * scale


@pytest.mark.parametrize("name", STRUCTURES)
def test_in_process_agrees_with_ase(name):
    atoms = STRUCTURES[name]()
    assert_same(lammps_runner.evaluate(atoms, pair_commands=PAIR), atoms)


def test_the_comparison_notices_a_wrong_frame():
    atoms = left_handed()
    box = lammps_runner.lammps_box(atoms)
    result = lammps_runner.evaluate(atoms, pair_commands=PAIR)
    result.forces = result.forces @ box.rotation  # still in LAMMPS's frame
    with pytest.raises(AssertionError):
        assert_same(result, atoms)


def programs():
    """lmp and mpirun of the tested build, or else those of the lammps and mpich wheels."""
    build = os.environ.get("EQUI_BUILD_DIR", "build")
    try:
        return lammps_runner.lammps_programs(build)
    except EquiError:
        return [shutil.which("lmp"), shutil.which("mpirun")]


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("name", ["sheared", "swapped_slab", "molecule", "isolated_atom"])
def test_ranks_agree_with_ase(name, ranks):
    lmp, mpirun = programs()
    atoms = STRUCTURES[name]()
    assert_same(
        lammps_runner.evaluate_with_ranks(atoms, ranks=ranks, pair_commands=PAIR, lmp=lmp, mpirun=mpirun), atoms
    )


def test_tiled_communication_and_balancing_can_be_asked_for():
    lmp, mpirun = programs()
    atoms = slab(width=4)  # tiled communication requires a box longer than the range of ghosts
    result = lammps_runner.evaluate_with_ranks(
        atoms, ranks=2, pair_commands=PAIR, lmp=lmp, mpirun=mpirun,
        setup_commands=["comm_style tiled"], after_data=["balance 1.0 rcb"],
    )  # fmt: skip
    assert_same(result, atoms)


def test_an_error_of_lammps_is_one_line():
    with pytest.raises(EquiError) as error:
        lammps_runner.evaluate(Atoms("Cu"), pair_commands=["pair_style lj/cut"])
    assert "\n" not in str(error.value) and "LAMMPS" in str(error.value)
