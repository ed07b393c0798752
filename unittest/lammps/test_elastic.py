# SPDX-License-Identifier: MIT
"""equi_elastic: compared with differences of pressures and forces of strained cells, and among ranks."""


import direct_checkpoint
import numpy as np
import pytest
import torch
from ase.build import bulk
from equi_tools.convert import convert
from equi_tools.lammps_runner import NKTV2P_METAL, lammps_box
from lammps_script import rock_salt
from test_committee import setup as setup_committee
from test_phonons import rutile, wurtzite
from test_second_derivatives import setup

VOIGT = [(0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)]
STEP = 1e-4
TOLERANCE = 1e-6  # relative to the largest constant: error and rounding of a central difference of fourth order
RANK_TOLERANCE = 1e-10

PRESSURE = ["run 0", 'print "PRESSURE ' + " ".join(f"$(c_virial[{k}]:%.17g)" for k in (1, 2, 3, 6, 5, 4)) + '"']

CASES = {
    "diamond": ("sevennet-0", bulk("Si", "diamond", 5.5)),
    "wurtzite": ("sevennet-0", wurtzite()),
    "rutile": ("sevennet-l3i5", rutile()),
    "mace": ("mace/plain", bulk("NaCl", "zincblende", 5.9) * (2, 1, 1)),
    "nequip": ("nequip/plain", bulk("NaCl", "zincblende", 5.9)),
    "tensornet": ("matgl/bessel", bulk("NaCl", "zincblende", 5.9)),
}
# Models with random weights, for which the structure is not a minimum: clamped atoms have constants, and a warning is
# printed.
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
    # Cells of LAMMPS are lower triangular, so the structure is rotated back.
    result = atoms.copy()
    result.set_cell(atoms.cell.array @ (np.eye(3) + strain), scale_atoms=True)
    return result


def rotation_to_lammps(atoms):
    """R of x_lammps = R x, for the box that LAMMPS uses for these atoms."""
    return np.linalg.solve(atoms.cell.array, lammps_box(atoms).cell).T


def derivatives_by_strains(lammps, lines, atoms):
    """[6, 6 + 3 N] derivatives of stresses (bar) and of forces by the six strains, to fourth order, in one run that
    changes its box."""
    structures = [strained(atoms, voigt, k * STEP) for voigt in range(6) for k in (-2, -1, 1, 2)]
    lines = [*lines, "box tilt large", "change_box all triclinic", "compute virial all pressure NULL virial",
             "thermo_style custom step pe c_virial[*]"]  # fmt: skip
    for n, one in enumerate(structures):
        cell = lammps_box(one).cell
        places = {"x": (0, 0), "y": (1, 1), "z": (2, 2), "xy": (1, 0), "xz": (2, 0), "yz": (2, 1)}
        finals = (f"{name} final {'0 ' if len(name) == 1 else ''}{cell[i, j]:.17g}" for name, (i, j) in places.items())
        lines += [f"change_box all {' '.join(finals)} remap units box", *PRESSURE,
                  f"write_dump all custom dump.{n} id fx fy fz modify sort id format float %.17g"]  # fmt: skip
    run = lammps.run(lines)
    rows = []
    for n, (one, pressures) in enumerate(zip(structures, run.values("PRESSURE"))):
        r = rotation_to_lammps(one)
        p = np.zeros((3, 3))
        for (i, j), number in zip(VOIGT, pressures):
            p[i, j] = p[j, i] = number
        p = r.T @ p @ r
        rows.append(np.concatenate([[-p[i, j] for i, j in VOIGT], (run.dump(f"dump.{n}")[:, 1:] @ r).ravel()]))
    e = np.array(rows).reshape(6, 4, -1)
    return (e[:, 0] - 8 * e[:, 1] + 8 * e[:, 2] - e[:, 3]) / (12 * STEP)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "rutile")) for name in CASES])
def test_constants_equal_differences_of_stresses_and_forces(lammps, name):
    model, atoms = CASES[name]
    atoms.set_cell(atoms.cell.standard_form()[0], scale_atoms=True)  # in LAMMPS's form
    assert np.abs(rotation_to_lammps(atoms) - np.eye(3)).max() < 1e-12

    derivatives = derivatives_by_strains(lammps, setup(lammps, model, atoms), atoms)
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


ORIENTATION = "depends on the orientation of the structure"


@pytest.mark.parametrize("kind", ["escn", "equiformer_v2"])
def test_models_with_fixed_frames_say_so(lammps, kind):
    torch.save(direct_checkpoint.checkpoint(kind), lammps.folder / "model.pt")
    convert(lammps.folder / "model.pt", lammps.folder / "model.equi", quiet=True)
    lines = ["units metal", *lammps.write(rock_salt()), "pair_style equi radial exact", "pair_coeff * * model.equi Cl Na"]
    told = [line for line in elastic(lammps, lines)[2].output.splitlines() if ORIENTATION in line]
    assert len(told) == 1 and "shear columns" in told[0]
    assert ORIENTATION not in elastic(lammps, setup(lammps, "plain", rock_salt()))[2].output


def test_refusals(lammps):
    atoms = rock_salt()
    run = lammps.try_run([*setup(lammps, "plain", atoms), "equi_elastic steps 3"])
    assert run.returncode != 0 and "unknown keyword steps; known are file, tolerance, products" in run.output
    atoms.pbc = [True, True, False]
    run = lammps.try_run([*setup(lammps, "plain", atoms), "equi_elastic"])
    assert run.returncode != 0 and "periodic in all directions" in run.output
