# SPDX-License-Identifier: MIT
"""Models with multipoles that change in each other's potentials (layer potential): LAMMPS against a second reader of the
file, which sums directly over atoms and wave vectors and differentiates by autograd.

The models are made by hand: multipoles are linear in the last features of a model of the build.
"""

import numpy as np
import pytest
import system_sums as sums
from ase import Atoms
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file
from equi_tools.lammps_runner import lammps_box
from lammps_script import FORCE_DUMP
from system_sums import STRUCTURES

FILE = "multipoles.equi"
WIDTHS = np.array([0.8, 1.7])


def with_multipoles(source, target, k_set="sphere"):
    """Writes the model `source` with charges and dipoles of two channels, updated once, and their energy."""
    document, tensors = equi_file.read(source)[:2]
    tensors, layers, new = dict(tensors), document["layers"], []
    last = next(layer for layer in reversed(layers) if layer["type"] == "readout")
    rng = np.random.default_rng(5)

    def tensor(name, array):
        tensors[name] = np.asarray(array, float)
        return name

    def linear(source, irreps, target, irreps_out, accumulate=False, bias=None):
        blocks = []
        for i, (mul, ir) in enumerate(block.split("x") for block in irreps.split("+")):
            for o, (mul_out, ir_out) in enumerate(block.split("x") for block in irreps_out.split("+")):
                if ir == ir_out:
                    matrix = rng.normal(0, 0.4 / np.sqrt(int(mul)), (int(mul), int(mul_out)))
                    blocks.append({"in": i, "out": o, "weight": tensor(f"{source}.{target}.{i}.{o}", matrix), "scale": 1.0})
        biases = [] if bias is None else [{"out": 1, "tensor": tensor(f"{target}.bias", bias), "scale": 1.0}]
        new.append({"type": "linear", "input": source, "irreps_in": irreps, "output": target, "irreps_out": irreps_out, "blocks": blocks,
                    "biases": biases, "per_species": False, "accumulate": accumulate})  # fmt: skip

    def balance(source, target):
        new.append({"type": "channel_balance", "input": source, "irreps_in": wide, "output": target, "irreps_out": wide, "block": 0,
                    "first": 0, "target": tensor(f"{target}.sums", [1.0, -0.5]),
                    "shares": {"block": 1, "first": 0, "power": 1}})  # fmt: skip

    def potential(source, target, irreps_out, widths):
        factors = rng.uniform(0.3, 0.8, (2, len(widths)))
        new.append({"type": "potential", "input": source, "irreps_in": pure, "output": target, "irreps_out": irreps_out, "prefactor": 40.0,
                    "width": 1.1, "widths": tensor(f"{target}.widths", widths), "factors": tensor(f"{target}.factors", factors),
                    "own": tensor(f"{target}.own", 0.5 * factors), "k_cutoff": 2.6, "k_set": k_set,
                    "open": {"offset": 0.1, "softening": 1e-4, "added": tensor(f"{target}.added", 0.3 * factors)},
                    "field": {"share": 0.5, "origin": "mean" if len(widths) > 1 else "zero"}})  # fmt: skip

    wide, pure, felt = "2x0e+2x0e+2x1o", "2x0e+2x1o", "4x0e+4x1o"
    x, irreps_x, shares = last["input"], last["irreps_in"], [2.0, 3.0]
    linear(x, irreps_x, "q0", wide, bias=shares)
    balance("q0", "q0_balanced")
    linear("q0_balanced", wide, "s0", pure)
    potential("s0", "v0", felt, WIDTHS)
    linear(x, irreps_x, "q1", wide, bias=shares)
    linear("q0_balanced", wide, "q1", wide, accumulate=True)
    linear("v0", felt, "q1", wide, accumulate=True)
    balance("q1", "q1_balanced")
    linear("q1_balanced", wide, "s1", pure)
    potential("s1", "v1", pure, WIDTHS[:1])
    paths = [{"in": [0, 2], "out": 0, "scale": 0.5}, {"in": [1, 3], "out": 0, "scale": 0.8}]
    new.append({"type": "node_product", "inputs": ["s1", "v1"], "irreps_in": [pure, pure], "output": "e1", "irreps_out": "2x0e", "paths": paths})
    net = {"weights": [tensor("e1.weight", rng.normal(0, 1, (2, 1)))], "scales": [1.0], "activation": "identity", "activation_scale": 1.0}
    new.append({"type": "readout", "input": "e1", "irreps_in": "2x0e", "block": 0, "network": net})
    place = next(n for n, layer in enumerate(layers) if layer["type"] == "scale_shift")
    document["layers"] = [*layers[:place], *new, *layers[place:]]
    document["self_check"] = []
    equi_file.write(target, document, tensors)
    return target


def without_periodicity(atoms, number=3):
    """The last directions of a structure without periodicity, with space there."""
    open_atoms = atoms.copy()
    open_atoms.pbc[3 - number :] = False
    open_atoms.center(vacuum=4.0, axis=range(3 - number, 3))
    return open_atoms


def one_atom():
    return Atoms("Na", positions=[[5.0, 5.0, 5.0]], cell=[10.0, 10.0, 10.0])


FIELD = (0.3, -0.2, 0.5)
CLUSTERS = {"cubic": without_periodicity(STRUCTURES["cubic"]), "tall": without_periodicity(STRUCTURES["tall"]), "one_atom": one_atom()}
SLABS = {"cubic": without_periodicity(STRUCTURES["cubic"], 1), "below_cutoff": without_periodicity(sums.rock_salt(), 1)}
BOUNDARIES = {f"open_{name}": atoms for name, atoms in CLUSTERS.items()} | {f"slab_{name}": atoms for name, atoms in SLABS.items()}


@pytest.fixture
def setup(lammps):
    """Commands that read a structure and a model with multipoles."""

    def commands(atoms, keywords="precision double radial exact", model="plain", **options):
        path = with_multipoles(lammps.model(model), lammps.folder / FILE, **options)
        return sums.read_model(lammps, atoms, path, keywords)

    return commands


@pytest.mark.parametrize("model, k_set", [("plain", "sphere"), ("plain", "converged"), ("mace/keep_last", "sphere")])
@pytest.mark.parametrize("name", STRUCTURES)
def test_results_are_those_of_direct_sums(lammps, setup, name, model, k_set):
    atoms = STRUCTURES[name]
    sums.assert_direct_sums(lammps, atoms, lammps.folder / FILE, setup(atoms, model=model, k_set=k_set))


@pytest.mark.parametrize("open_sum", ["framework", "exact"])
@pytest.mark.parametrize("name", BOUNDARIES)
def test_results_in_other_boundaries_are_those_of_direct_sums(lammps, setup, name, open_sum):
    atoms = BOUNDARIES[name]
    lines = setup(atoms, f"precision double radial exact open {open_sum}")
    sums.assert_direct_sums(lammps, atoms, lammps.folder / FILE, lines, open_sum=open_sum)


@pytest.mark.parametrize("name", [*BOUNDARIES, "periodic"])
def test_results_in_a_field_are_those_of_direct_sums(lammps, setup, name):
    atoms = BOUNDARIES.get(name, STRUCTURES["sheared"])
    lines = setup(atoms, "precision double radial exact field 0.3 -0.2 0.5")
    sums.assert_direct_sums(lammps, atoms, lammps.folder / FILE, lines, field=FIELD)


@pytest.mark.parametrize("name", [name for name in BOUNDARIES if name != "open_one_atom"])
def test_ranks_agree_in_other_boundaries(lammps, setup, name):
    lines = setup(BOUNDARIES[name], "precision double radial exact field 0.3 -0.2 0.5", model="mace/keep_last")
    sums.assert_ranks_agree(lammps, lines)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("name", ["open_tall", "slab_cubic"])
def test_hessian_vector_products_in_other_boundaries_equal_autograd(lammps, setup, name, ranks):
    lines = setup(BOUNDARIES[name], "precision double radial exact field 0.3 -0.2 0.5", model="mace/keep_last")
    sums.assert_products_equal_autograd(lammps, BOUNDARIES[name], lammps.folder / FILE, lines, ranks, field=FIELD)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_field_acts_on_unwrapped_positions(lammps, setup, ranks):
    """Two atoms are displaced by the length of the box and wrapped."""
    atoms = STRUCTURES["cubic"]
    lines = setup(atoms, "precision double radial exact field 0.3 -0.2 0.5")
    moved = ["group two id 1 4", f"displace_atoms two move {atoms.cell[0, 0]} 0 0 units box"]
    found = lammps.run([*lines, *moved, *FORCE_DUMP, *sums.ATOMS], ranks=ranks)
    box = lammps_box(atoms)
    positions = box.positions + np.outer(np.isin(np.arange(len(atoms)), [0, 3]), atoms.cell[0])
    reader = EquiEvaluator(lammps.folder / FILE, field=FIELD)
    answers = [reader.evaluate(atoms.get_chemical_symbols(), r, box.cell, box.periodic)[:2] for r in (positions, box.positions)]
    energy, forces = answers[0]
    assert abs(answers[1][0] - energy) > 1e-3, "the displacement must matter"
    assert found.values("THERMO")[0][0] == pytest.approx(energy, rel=sums.TOLERANCE)
    assert np.abs(found.dump("dump.forces")[:, 1:] - forces).max() < 1e-9 * max(1.0, np.abs(forces).max())


def test_the_log_describes_open_systems(lammps, setup):
    run = lammps.run([*setup(CLUSTERS["cubic"]), "run 0"])
    assert "potentials of multipoles: open system, 28 pairs of atoms, displaced charges as in training" in run.output
    run = lammps.run([*setup(CLUSTERS["cubic"], "open exact"), "run 0"])
    assert "exact multipoles: another model than that of the training" in run.output


def test_the_laws_of_the_system_are_checked_in_open_boundaries(lammps, setup):
    for keywords in ("check yes", "check yes open exact", "check yes field 0.3 -0.2 0.5"):
        assert lammps.run([*setup(CLUSTERS["cubic"], keywords), "run 0"]).returncode == 0


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda line: line.replace("boundary f f f", "boundary p f f"), "periodic boxes (boundary p p p), open ones"),
        (lambda line: line.replace("pair_style equi", "pair_style equi open both"), "open must be framework or exact"),
    ],
)
def test_refuses_by_name(lammps, setup, change, message):
    lines = [change(line) for line in setup(CLUSTERS["cubic"])]
    run = lammps.try_run([*lines, "run 0"])
    assert run.returncode != 0 and any(message in error for error in run.errors), run.output[-2000:]


@pytest.mark.parametrize("name", STRUCTURES)
def test_ranks_agree(lammps, setup, name):
    sums.assert_ranks_agree(lammps, setup(STRUCTURES[name], model="mace/keep_last"))


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("name", ["sheared", "tall"])
def test_hessian_vector_products_equal_autograd(lammps, setup, name, ranks):
    atoms = STRUCTURES[name]
    lines = setup(atoms, model="mace/keep_last")
    sums.assert_products_equal_autograd(lammps, atoms, lammps.folder / FILE, lines, ranks)


def test_the_log_states_wave_vectors_once(lammps, setup):
    run = lammps.run([*setup(STRUCTURES["sheared"]), "run 0", "run 0"])
    lines = [line for line in run.output.splitlines() if "potentials of multipoles: " in line]
    assert len(lines) == len(set(lines)) == 2, "a line for each layer"
