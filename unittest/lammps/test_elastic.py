# SPDX-License-Identifier: MIT
"""equi_elastic: against differences of pressures and forces of strained cells, and among ranks."""

import numpy as np
import pytest
from ase.build import bulk
from equi_tools.lammps_runner import NKTV2P_METAL, lammps_box
from lammps_script import FORCE_DUMP, rock_salt
from test_committee import setup as setup_committee
from test_phonons import rutile, wurtzite
from test_second_derivatives import setup

VOIGT = [(0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)]
STEP = 1e-4
TOLERANCE = 1e-6  # relative to the largest constant: that of a central difference of fourth order and its rounding
RANK_TOLERANCE = 1e-10

PRESSURE = ["compute virial all pressure NULL virial", "thermo_style custom step pe c_virial[*]", "run 0",
            'print "PRESSURE ' + " ".join(f"$(c_virial[{k}]:%.17g)" for k in (1, 2, 3, 6, 5, 4)) + '"']  # fmt: skip

CASES = {
    "diamond": ("sevennet-0", bulk("Si", "diamond", 5.5)),
    "wurtzite": ("sevennet-0", wurtzite()),
    "rutile": ("sevennet-l3i5", rutile()),
    "mace": ("mace/plain", bulk("NaCl", "zincblende", 5.9) * (2, 1, 1)),
    "nequip": ("nequip/plain", bulk("NaCl", "zincblende", 5.9)),
    "tensornet": ("matgl/bessel", bulk("NaCl", "zincblende", 5.9)),
}
# Models with random weights, for which the structure is no minimum: clamped atoms have constants, and a warning is given.
UNSTABLE = ("mace", "nequip")


def elastic(lammps, lines, **options):
    run = lammps.run([*lines, "equi_elastic file elastic.dat"], **options)
    relaxed, clamped = np.loadtxt(run.folder / "elastic.dat").reshape(2, 6, 6)
    return relaxed, clamped, run


def strained(atoms, voigt, amount):
    strain = np.zeros((3, 3))
    i, j = VOIGT[voigt]
    strain[i, j] += amount / 2
    strain[j, i] += amount / 2
    # Cells of LAMMPS are lower triangular: the structure is turned back.
    result = atoms.copy()
    result.set_cell(atoms.cell.array @ (np.eye(3) + strain), scale_atoms=True)
    return result


def by_differences(evaluate, atoms):
    """[6, ...] derivatives of what evaluate(atoms) returns by the six strains, to fourth order."""
    rows = []
    for voigt in range(6):
        e = {k: evaluate(strained(atoms, voigt, k * STEP)) for k in (-2, -1, 1, 2)}
        rows.append((e[-2] - 8 * e[-1] + 8 * e[1] - e[2]) / (12 * STEP))
    return np.array(rows)


def rotation_to_lammps(atoms):
    """R of x_lammps = R x, of the box that LAMMPS has for these atoms."""
    return np.linalg.solve(atoms.cell.array, lammps_box(atoms).cell).T


@pytest.mark.parametrize("name", CASES)
def test_constants_equal_differences_of_stresses_and_forces(lammps, name):
    model, atoms = CASES[name]
    atoms.set_cell(atoms.cell.standard_form()[0], scale_atoms=True)  # as LAMMPS has it
    assert np.abs(rotation_to_lammps(atoms) - np.eye(3)).max() < 1e-12

    def stress_and_forces(strained_atoms):
        run = lammps.run([*setup(lammps, model, strained_atoms), *FORCE_DUMP, *PRESSURE])
        r = rotation_to_lammps(strained_atoms)
        p = np.zeros((3, 3))
        for (i, j), number in zip(VOIGT, run.values("PRESSURE")[0]):
            p[i, j] = p[j, i] = number
        p = r.T @ p @ r
        return np.concatenate([[-p[i, j] for i, j in VOIGT], (run.dump("dump.forces")[:, 1:] @ r).ravel()])

    derivatives = by_differences(stress_and_forces, atoms)
    clamped, force_tangents = derivatives[:, :6].T * 1e-4, derivatives[:, 6:]  # bars to GPa
    run = lammps.run([*setup(lammps, model, atoms), "equi_dynamical_matrix all regular 1 binary yes file h.dyn"])
    masses = np.repeat(atoms.get_masses(), 3)
    hessian = np.fromfile(run.folder / "h.dyn").reshape(len(masses), -1) * np.sqrt(np.outer(masses, masses))
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    parts = force_tangents @ vectors[:, np.abs(values) > 1e-6 * values.max()]
    gains = parts @ (parts / values[np.abs(values) > 1e-6 * values.max()]).T
    relaxed = clamped - gains * NKTV2P_METAL * 1e-4 / atoms.get_volume()

    ours = elastic(lammps, setup(lammps, model, atoms))
    largest = np.abs(clamped).max()
    errors = np.abs(ours[1] - clamped).max() / largest, np.abs(ours[0] - relaxed).max() / largest
    print(f"{name}: largest constant {largest:.3g} GPa, gain {np.abs(relaxed - clamped).max():.2g}, relative errors {errors}")
    assert errors[0] <= TOLERANCE
    is_stable = values.min() > -1e-6 * values.max()
    assert is_stable == (name not in UNSTABLE)
    assert is_stable != ("no meaning" in ours[2].output)
    if is_stable:
        assert errors[1] <= TOLERANCE


def test_a_supercell_has_the_constants_of_its_cell_for_as_many_products(lammps):
    cell = bulk("Si", "diamond", 5.43, cubic=True)
    one = elastic(lammps, setup(lammps, "sevennet-0", cell))
    many = elastic(lammps, setup(lammps, "sevennet-0", cell * (2, 2, 1)))
    assert np.abs(one[0] - many[0]).max() <= 1e-9 * np.abs(one[0]).max()
    products = [int(run.output.split("6 strains and ")[1].split()[0]) for *_, run in (one, many)]
    assert products[0] == products[1] <= 6
    c = one[0]
    assert c[0, 0] == pytest.approx(c[1, 1], rel=1e-9) and c[3, 3] == pytest.approx(c[5, 5], rel=1e-9)
    assert c[3, 3] < 0.9 * one[1][3, 3]  # the sublattices move


def test_ranks_and_committees(lammps):
    atoms = rutile() * (1, 1, 2)
    one = elastic(lammps, setup(lammps, "sevennet-0", atoms))[:2]
    for ranks in (2, 4):
        for a, b in zip(elastic(lammps, setup(lammps, "sevennet-0", atoms), ranks=ranks)[:2], one):
            assert np.abs(a - b).max() <= RANK_TOLERANCE * np.abs(b).max()
    salt = rock_salt(amplitude=0.0)
    singles = [elastic(lammps, setup(lammps, model, salt))[1] for model in ("sevennet-0", "plain")]
    both = elastic(lammps, setup_committee(lammps, ["sevennet-0", "plain"], salt))[1]
    assert np.abs(both - np.mean(singles, 0)).max() <= RANK_TOLERANCE * np.abs(both).max()


def test_refusals(lammps):
    atoms = rock_salt()
    run = lammps.try_run([*setup(lammps, "plain", atoms), "equi_elastic steps 3"])
    assert run.returncode != 0 and "unknown keyword steps; known are file, tolerance, products" in run.output
    atoms.pbc = [True, True, False]
    run = lammps.try_run([*setup(lammps, "plain", atoms), "equi_elastic"])
    assert run.returncode != 0 and "periodic in all directions" in run.output
