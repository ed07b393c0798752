# SPDX-License-Identifier: MIT
"""Models with latent charges and an Ewald sum: LAMMPS against a second reader of the file, which sums directly over
atoms and wave vectors and differentiates by autograd.

The models are made by hand: charges are linear in the last features of a model of the build.
"""

import numpy as np
import pytest
import system_sums as sums
from equi_tools import equi_file
from lammps_script import FORCE_DUMP, rock_salt
from system_sums import ATOMS, BAR, PRINT, STRUCTURES, THERMO
from test_decomposition import sheared


def with_charges(source, target, k_set="sphere", removes_self=True, width=0.9, cutoff=3.1):
    """Writes the model `source` with charges of two blocks, and an Ewald sum."""
    document, tensors = equi_file.read(source)[:2]
    tensors = dict(tensors)
    layers = document["layers"]
    last = next(layer for layer in reversed(layers) if layer["type"] == "readout")
    irreps = [block.split("x") for block in last["irreps_in"].split("+")]
    channels = int(irreps[last["block"]][0])
    rng = np.random.default_rng(5)
    blocks = []
    for out, mul in enumerate((1, 3)):
        tensors[f"charges.{out}"] = rng.normal(0, 0.6 / np.sqrt(channels), (channels, mul))
        blocks.append({"in": last["block"], "out": out, "weight": f"charges.{out}", "scale": 1.0})
    tensors["ewald.weights"] = np.array([0.9, -0.4, 0.7, 0.2])
    linear = {"type": "linear", "input": last["input"], "irreps_in": last["irreps_in"], "output": "latent", "irreps_out": "1x0e+3x0e"}
    linear |= {"blocks": blocks, "biases": [], "per_species": False, "accumulate": False}
    ewald = {"type": "ewald", "input": "latent", "irreps_in": "1x0e+3x0e", "weights": "ewald.weights", "prefactor": 180.0}
    ewald |= {"width": width, "k_cutoff": cutoff, "k_set": k_set, "removes_self": removes_self}
    place = next(n for n, layer in enumerate(layers) if layer["type"] == "scale_shift")
    document["layers"] = [*layers[:place], linear, ewald, *layers[place:]]
    document["self_check"] = []
    equi_file.write(target, document, tensors)
    return target


FILE = "charges.equi"


@pytest.fixture
def setup(lammps):
    """Commands that read a structure and a model with charges."""

    def commands(atoms, keywords="precision double radial exact", model="plain", **options):
        path = with_charges(lammps.model(model), lammps.folder / FILE, **options)
        return sums.read_model(lammps, atoms, path, keywords)

    return commands


@pytest.mark.parametrize("k_set", ["sphere", "converged"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_results_are_those_of_direct_sums(lammps, setup, name, k_set):
    atoms = STRUCTURES[name]
    sums.assert_direct_sums(lammps, atoms, lammps.folder / FILE, setup(atoms, k_set=k_set))


@pytest.mark.parametrize("name", STRUCTURES)
def test_ranks_agree(lammps, setup, name):
    sums.assert_ranks_agree(lammps, setup(STRUCTURES[name]))


def test_the_reference_evaluation_agrees(lammps, setup):
    lines = [*FORCE_DUMP, *ATOMS]
    one = lammps.run([*setup(sheared()), *lines])
    values, forces = one.values("THERMO"), one.dump("dump.forces")
    other = lammps.run([*setup(sheared(), "precision double reference yes"), *lines])
    assert other.values("THERMO") == pytest.approx(values, rel=1e-10)
    assert other.values("ATOMS") == pytest.approx(one.values("ATOMS"), rel=1e-9)
    assert np.abs(other.dump("dump.forces") - forces).max() <= 1e-10 * max(1.0, np.abs(forces).max())


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("name", ["cubic", "sheared", "tall"])
def test_hessian_vector_products_equal_autograd(lammps, setup, name, ranks):
    atoms = STRUCTURES[name]
    sums.assert_products_equal_autograd(lammps, atoms, lammps.folder / FILE, setup(atoms), ranks)


def test_frozen_wave_vectors_give_consistent_pressures_and_elastic_constants(lammps, setup):
    """The pressure of a box is the derivative of its energy, and clamped elastic constants those of the pressures."""
    h = 1e-4
    lines = [THERMO, *PRINT, "equi_elastic file elastic.txt"]
    for factor in (f"{1 + h}", f"$({1 - h}/{1 + h})"):
        lines += [f"change_box all x scale {factor} remap units box", *PRINT]
    run = lammps.run([*setup(rock_salt(), "precision double radial exact kspace frozen"), *lines])
    at, up, down = run.values("THERMO")
    assert (up[0] - down[0]) / (2 * h) == pytest.approx(-at[1] * at[7] * BAR, rel=1e-5)
    clamped = np.loadtxt(run.folder / "elastic.txt")[6:]
    slope = -(up[1:7] - down[1:7]) / (2 * h) * 1e-4  # GPa
    assert np.abs(clamped[:, 0] - slope).max() <= 1e-5 * np.abs(slope).max()


def test_the_keyword_replaces_the_choice_of_the_file(lammps, setup):
    def energy(k_set, keywords):
        return lammps.run([*setup(rock_salt(), f"precision double radial exact {keywords}", k_set=k_set), *PRINT]).values("THERMO")[0, 0]

    assert energy("sphere", "kspace converged") == energy("converged", "kspace file")
    assert energy("converged", "kspace sphere") == energy("sphere", "")
    assert abs(energy("sphere", "") - energy("converged", "")) > 1e-4


@pytest.mark.parametrize("k_set", ["sphere", "frozen", "converged"])
def test_the_checks_pass(lammps, setup, k_set):
    run = lammps.run([*setup(rock_salt(), f"check yes kspace {k_set}"), "run 1"])
    assert "check" in run.output


def test_the_log_states_wave_vectors_and_the_background(lammps, setup):
    run = lammps.run([*setup(rock_salt()), "run 0", "run 0"])
    assert run.output.count("Ewald sum: ") == 1
    for words in ("wave vectors within 3.1/Angstrom", "jumps with a changing cell", "uniform background"):
        assert words in run.output


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda lines: [line.replace("boundary p p p", "boundary p p f") for line in lines], "boundary p p p"),
        (lambda lines: [*lines, "compute c all centroid/stress/atom NULL", "compute r all reduce sum c_c[1]",
                        "thermo_style custom step c_r", "run 0"], "no centroid stress"),
        (lambda lines: [*lines, "compute h all equi/heat/flux", "thermo_style custom step c_h[1]", "run 0"], "sums over all atoms"),
    ],
)  # fmt: skip
def test_refuses_by_name_what_it_lacks(lammps, setup, change, words):
    run = lammps.try_run([*change(setup(rock_salt())), "run 0"])
    assert run.returncode != 0 and any(words in line for line in run.errors), run.output[-2000:]
