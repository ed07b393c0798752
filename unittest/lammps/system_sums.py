# SPDX-License-Identifier: MIT
"""What the tests of sums over all atoms share: structures, lines of scripts, and comparisons of LAMMPS with a second
reader of the file, which sums directly over atoms and wave vectors and differentiates by autograd.
"""

import numpy as np
import pytest
from ase import Atoms
from equi_evaluator import EquiEvaluator
from equi_tools.lammps_runner import lammps_box
from lammps_script import FORCE_DUMP, rock_salt
from test_decomposition import corner, primitive, sheared

TOLERANCE = 1e-11  # relative; sums of some hundred terms in another order
PRESSURE_TOLERANCE = 1e-9  # bar are printed with 15 digits
RANK_TOLERANCE = 1e-11
BAR = 1 / 1.6021765e6  # eV/A^3, LAMMPS's digits


def tall():
    """A box of 4 x 4 x 100 Angstrom, so that some of several ranks have no atoms."""
    positions = [[0.2, 0.1, 3.0], [2.1, 1.9, 4.2], [0.4, 2.2, 6.1], [1.8, 0.3, 8.0], [0.1, 1.7, 9.9]]
    return Atoms("NaClNaClCl", positions=positions, cell=[4, 4, 100], pbc=True)


STRUCTURES = {"cubic": rock_salt(), "sheared": sheared(), "below_cutoff": primitive(), "corner": corner(), "tall": tall()}
THERMO = "thermo_style custom step pe pxx pyy pzz pyz pxz pxy vol"
PRINTED = "pe,pxx,pyy,pzz,pyz,pxz,pxy,vol".split(",")
PRINT = ["run 0", "print 'THERMO " + " ".join(f"$({name}:%.15g)" for name in PRINTED) + "'"]
ATOMS = [
    "compute pe all pe/atom", "compute sum all reduce sum c_pe", "compute st all stress/atom NULL",
    "compute s all reduce sum c_st[1] c_st[2] c_st[3] c_st[4] c_st[5] c_st[6]", THERMO + " c_sum c_s[1]", *PRINT,
    "print 'ATOMS $(c_sum:%.15g) $(c_s[1]:%.15g) $(c_s[2]:%.15g) $(c_s[3]:%.15g) $(c_s[6]:%.15g) $(c_s[5]:%.15g) $(c_s[4]:%.15g)'",
]  # fmt: skip


def read_model(lammps, atoms, path, keywords):
    """Commands that read a structure and a model."""
    symbols = " ".join(sorted(set(atoms.get_chemical_symbols())))
    pair = [f"pair_style equi {keywords}", f"pair_coeff * * {path.name} {symbols}"]
    return ["units metal", *lammps.write(atoms), *pair, "thermo_modify norm no"]


def assert_direct_sums(lammps, atoms, path, lines, **options):
    """Energies, forces, pressures and their sums over atoms are those of the second reader. lines: of read_model();
    options: of EquiEvaluator."""
    run = lammps.run([*lines, *FORCE_DUMP, *ATOMS])
    box = lammps_box(atoms)
    energy, forces, stress, _ = EquiEvaluator(path, **options).evaluate(atoms.get_chemical_symbols(), box.positions, box.cell, box.periodic)
    (found,), (of_atoms,) = run.values("THERMO"), run.values("ATOMS")
    assert found[0] == pytest.approx(energy, rel=TOLERANCE)
    assert np.abs(run.dump("dump.forces")[:, 1:] - forces).max() <= 10 * TOLERANCE * max(1.0, np.abs(forces).max())
    pressure = -found[1:7] * BAR
    assert np.abs(pressure - stress).max() <= PRESSURE_TOLERANCE * max(1.0, np.abs(stress).max())
    assert of_atoms[0] == pytest.approx(energy, rel=TOLERANCE)
    assert np.abs(of_atoms[1:] + found[1:7] * found[7]).max() <= 1e-9 * np.abs(of_atoms[1:]).max()


def assert_ranks_agree(lammps, lines):
    lines = [*lines, *FORCE_DUMP, *ATOMS]
    one = lammps.run(lines)
    values, forces = one.values("THERMO"), one.dump("dump.forces")
    for ranks in (2, 3, 5):
        several = lammps.run(lines, ranks=ranks)
        assert several.values("THERMO") == pytest.approx(values, rel=RANK_TOLERANCE)
        assert several.values("ATOMS") == pytest.approx(one.values("ATOMS"), rel=RANK_TOLERANCE, abs=1e-4)
        assert np.abs(several.dump("dump.forces") - forces).max() <= RANK_TOLERANCE * max(1.0, np.abs(forces).max())


def assert_products_equal_autograd(lammps, atoms, path, lines, ranks, **options):
    """A product of the Hessian and a vector. options: of EquiEvaluator."""
    n = np.arange(1, len(atoms) + 1)
    direction = np.array([np.sin(1.1 * n + 0.2), np.cos(0.7 * n), np.sin(2.3 * n + 1.0)]).T
    product = [
        "variable u atom sin(1.1*id+0.2)", "variable v atom cos(0.7*id)", "variable w atom sin(2.3*id+1.0)",
        "compute hvp all equi/hvp v_u v_v v_w", "dump hvp all custom 1 dump.hvp id c_hvp[1] c_hvp[2] c_hvp[3]",
        "dump_modify hvp sort id format float %.17g", "run 0",
    ]  # fmt: skip
    run = lammps.run([*lines, *product], ranks=ranks)
    box = lammps_box(atoms)
    expected = EquiEvaluator(path, **options).hessian_vector(atoms.get_chemical_symbols(), box.positions, direction, box.cell, box.periodic)
    assert np.abs(run.dump("dump.hvp")[:, 1:] - expected).max() <= 1e-10 * np.abs(expected).max()
