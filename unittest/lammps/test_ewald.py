# SPDX-License-Identifier: MIT
"""Models with latent charges and an Ewald sum: LAMMPS against a second reader of the file, which sums directly over
atoms and wave vectors and differentiates by autograd.

The models are made by hand: charges are linear in the last features of a model of the build.
"""

import numpy as np
import pytest
from ase import Atoms
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file
from equi_tools.lammps_runner import lammps_box
from lammps_script import FORCE_DUMP, rock_salt
from test_decomposition import corner, primitive, sheared

TOLERANCE = 1e-11  # relative; sums of some hundred terms in another order
PRESSURE_TOLERANCE = 1e-9  # bar are printed with 15 digits
RANK_TOLERANCE = 1e-11
BAR = 1 / 1.6021765e6  # eV/A^3, LAMMPS's digits


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


@pytest.fixture
def setup(lammps):
    """Commands that read a structure and a model with charges."""

    def commands(atoms, keywords="precision double radial exact", model="plain", **options):
        symbols = sorted(set(atoms.get_chemical_symbols()))
        path = with_charges(lammps.model(model), lammps.folder / "charges.equi", **options)
        pair = ["thermo_modify norm no", f"pair_style equi {keywords}", f"pair_coeff * * {path.name} {' '.join(symbols)}"]
        return ["units metal", *lammps.write(atoms), *pair[1:], pair[0]]

    return commands


def expected(lammps, atoms):
    box = lammps_box(atoms)
    evaluator = EquiEvaluator(lammps.folder / "charges.equi")
    return evaluator.evaluate(atoms.get_chemical_symbols(), box.positions, box.cell, box.periodic)


@pytest.mark.parametrize("k_set", ["sphere", "converged"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_results_are_those_of_direct_sums(lammps, setup, name, k_set):
    atoms = STRUCTURES[name]
    run = lammps.run([*setup(atoms, k_set=k_set), *FORCE_DUMP, *ATOMS])
    energy, forces, stress, _ = expected(lammps, atoms)
    (found,), (of_atoms,) = run.values("THERMO"), run.values("ATOMS")
    assert found[0] == pytest.approx(energy, rel=TOLERANCE)
    assert np.abs(run.dump("dump.forces")[:, 1:] - forces).max() <= 10 * TOLERANCE * max(1.0, np.abs(forces).max())
    pressure = -found[1:7] * BAR
    assert np.abs(pressure - stress).max() <= PRESSURE_TOLERANCE * max(1.0, np.abs(stress).max())
    assert of_atoms[0] == pytest.approx(energy, rel=TOLERANCE)
    assert np.abs(of_atoms[1:] + found[1:7] * found[7]).max() <= 1e-9 * np.abs(of_atoms[1:]).max()


@pytest.mark.parametrize("name", STRUCTURES)
def test_ranks_agree(lammps, setup, name):
    lines = [*setup(STRUCTURES[name]), *FORCE_DUMP, *ATOMS]
    one = lammps.run(lines)
    values, forces = one.values("THERMO"), one.dump("dump.forces")
    for ranks in (2, 3, 5):
        several = lammps.run(lines, ranks=ranks)
        assert several.values("THERMO") == pytest.approx(values, rel=RANK_TOLERANCE)
        assert several.values("ATOMS") == pytest.approx(one.values("ATOMS"), rel=RANK_TOLERANCE, abs=1e-4)
        assert np.abs(several.dump("dump.forces") - forces).max() <= RANK_TOLERANCE * max(1.0, np.abs(forces).max())


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
    n = np.arange(1, len(atoms) + 1)
    direction = np.array([np.sin(1.1 * n + 0.2), np.cos(0.7 * n), np.sin(2.3 * n + 1.0)]).T
    lines = [
        "variable u atom sin(1.1*id+0.2)", "variable v atom cos(0.7*id)", "variable w atom sin(2.3*id+1.0)",
        "compute hvp all equi/hvp v_u v_v v_w", "dump hvp all custom 1 dump.hvp id c_hvp[1] c_hvp[2] c_hvp[3]",
        "dump_modify hvp sort id format float %.17g", "run 0",
    ]  # fmt: skip
    run = lammps.run([*setup(atoms), *lines], ranks=ranks)
    box = lammps_box(atoms)
    evaluator = EquiEvaluator(lammps.folder / "charges.equi")
    product = evaluator.hessian_vector(atoms.get_chemical_symbols(), box.positions, direction, box.cell, box.periodic)
    assert np.abs(run.dump("dump.hvp")[:, 1:] - product).max() <= 1e-10 * np.abs(product).max()


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
