# SPDX-License-Identifier: MIT
"""compute equi/heat/flux: compared with autograd, with LAMMPS's own compute where that is exact, and among ranks."""


import numpy as np
import pytest
import torch
from equi_evaluator import EquiEvaluator
from equi_tools.lammps_runner import lammps_box
from lammps_script import rock_salt
from test_decomposition import heavy_salt, liquid, oxide, primitive, rutile, sheared
from test_second_derivatives import setup

# Relative to the largest component.
EXACT_TOLERANCE = 1e-10
TABLE_TOLERANCE = 1e-6
RANK_TOLERANCE = 1e-12


def isolated(atoms):
    """The atoms without images, with which autograd would need too much memory in five layers of 128 channels."""
    atoms = atoms.copy()
    atoms.pbc = False
    return atoms


CASES = {
    "sevennet_0_cluster": ("sevennet-0", isolated(rock_salt())),
    "sevennet_parity": ("parity", liquid()),
    "sheared": ("nequip", sheared()),
    "box_below_cutoff": ("nequip", primitive()),
    "mace": ("mace/plain", oxide()),
    "mace_density": ("mace/density", heavy_salt()),
    "mace_nonlinear": ("mace/nonlinear_transform", isolated(rutile())),
    "mace_weights_of_features": ("mace/attention_all", oxide()),
}
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name == "mace_weights_of_features")) for name in CASES]

COMMANDS = [
    "velocity all create 900.0 4711 loop geom",
    "compute flux all equi/heat/flux peratom yes",
    "dump flux all custom 1 dump.flux id x y z vx vy vz mass c_flux[1] c_flux[2] c_flux[3] c_flux[4] c_flux[5] c_flux[6]",
    "dump_modify flux sort id format float %.17g",
    "thermo_style custom step temp c_flux[1] c_flux[2] c_flux[3] c_flux[4] c_flux[5] c_flux[6]",
    "thermo_modify format float %.17g",
    "run 0",
    'variable k loop 6',
    "label each",
    'variable j equal c_flux[$k]',
    'print "flux $k $(v_j:%.17g)"',
    "next k",
    "jump SELF each",
]


def flux(lammps, model, atoms, keywords="precision double", ranks=1):
    run = lammps.run([*setup(lammps, model, atoms, keywords), *COMMANDS], ranks=ranks)
    return run.values("flux")[:, 1], run.dump("dump.flux")


def moments_by_autograd(path, atoms, velocities):
    """sum over j of (r_i - r_j) (de_i/dr_j . v_j), with r_i - r_j along the chain of edges to each image.

    Each image of an atom is a separate atom here, in a cluster of images as large as the range of an energy.
    """
    box = lammps_box(atoms)
    model = EquiEvaluator(path)
    cutoff = model.document["cutoff"]
    depth = sum(layer["type"] in ("convolution", "so2_convolution") for layer in model.document["layers"])
    n = len(atoms)
    reach = [0, 0, 0]
    cell = np.asarray(box.cell, float)
    for k in range(3):
        if box.periodic[k]:
            height = 1 / np.linalg.norm(np.linalg.inv(cell)[:, k])
            spread = np.ptp((box.positions @ np.linalg.inv(cell))[:, k])
            reach[k] = int(np.ceil(depth * cutoff / height + spread))
    images = sorted(np.ndindex(*(2 * r + 1 for r in reach)), key=lambda s: sum(abs(a - r) for a, r in zip(s, reach)))
    shifts = (np.array(images) - reach) @ cell
    positions = (box.positions[None] + shifts[:, None]).reshape(-1, 3)
    near = np.array([np.linalg.norm(box.positions - p, axis=1).min() < depth * cutoff for p in positions])
    near[:n] = True
    of_atom = np.tile(np.arange(n), len(shifts))[near]
    positions = positions[near]
    species = torch.tensor([model.document["elements"].index(s) for s in atoms.get_chemical_symbols()])[of_atom]
    tree = __import__("scipy.spatial", fromlist=["cKDTree"]).cKDTree(positions)
    pairs = tree.query_pairs(cutoff, output_type="ndarray")
    i, j = torch.tensor(np.concatenate([pairs, pairs[:, ::-1]]).T, dtype=torch.long)
    r = torch.tensor(positions).requires_grad_(True)
    energies = model.atomic_energies(species, i, j, r[j] - r[i])
    moments = np.zeros((n, 3))
    for a in range(n):
        (g,) = torch.autograd.grad(energies[a], r, retain_graph=True)
        power = (g.numpy() * velocities[of_atom]).sum(1)
        moments[a] = ((positions[a] - positions) * power[:, None]).sum(0)
    return moments


@pytest.mark.parametrize("name", NAMES)
def test_moments_equal_autograd_over_images(lammps, name):
    model, atoms = CASES[name]
    total, table = flux(lammps, model, atoms, "precision double radial exact")
    expected = moments_by_autograd(lammps.model(model), atoms, table[:, 4:7])
    largest = np.abs(expected).max()
    error = np.abs(table[:, 8:11] - table[:, 11:14] - expected).max() / largest
    print(f"{name}: largest component {largest:.2e}, relative difference {error:.1e}")
    assert largest > 1e-3
    assert error <= EXACT_TOLERANCE
    assert np.allclose(total, table[:, 8:14].sum(0), rtol=1e-12, atol=1e-12 * np.abs(table[:, 8:14]).max() * len(atoms))


@pytest.mark.parametrize("name", NAMES)
def test_ranks_agree(lammps, name):
    model, atoms = CASES[name]
    one, table = flux(lammps, model, atoms)
    four, table_of_four = flux(lammps, model, atoms, ranks=4)
    size = np.abs(table[:, 8:14]).max()
    assert np.abs(table_of_four - table)[:, 8:14].max() <= RANK_TOLERANCE * size
    assert np.abs(four - one).max() <= RANK_TOLERANCE * size * len(atoms)


def test_the_convective_part_is_that_of_lammps(lammps):
    atoms = rock_salt((2, 1, 1))
    run = lammps.run([
        *setup(lammps, "sevennet-0", atoms), *COMMANDS,
        "compute ke all ke/atom", "compute pe all pe/atom", "compute s all centroid/stress/atom NULL virial",
        "compute theirs all heat/flux ke pe s", "thermo_style custom step c_theirs[4] c_theirs[5] c_theirs[6]", "run 0",
        'print "theirs $(c_theirs[4]:%.17g) $(c_theirs[5]:%.17g) $(c_theirs[6]:%.17g)"',
    ])  # fmt: skip
    ours, theirs = run.values("flux")[:, 1][3:], run.values("theirs")[0]
    assert np.abs(ours - theirs).max() <= TABLE_TOLERANCE * np.abs(theirs).max()


@pytest.mark.parametrize("lines, words", [
    (["compute flux all equi/heat/flux peratom"], ["peratom yes"]),
    (["compute flux all equi/heat/flux ke pe s"], ["peratom yes or peratom no, found ke"]),
])  # fmt: skip
def test_wrong_arguments_are_refused(lammps, lines, words):
    run = lammps.try_run([*setup(lammps, "sevennet-0", rock_salt()), *lines])
    assert run.errors and all(word in run.errors[0] for word in words), run.output[-2000:]
