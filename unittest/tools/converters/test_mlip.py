# SPDX-License-Identifier: MIT
"""MACE of mlip -> .equi: LAMMPS against mlip's formulas (mlip_reference.py); the slow tests compare with mlip itself.

The slow tests run in the environment of tools/requirements-mlip.txt.
"""

import zipfile

import mlip_reference
import numpy as np
import pytest
import tensornet_laws as laws
from equi_evaluator import EquiEvaluator
from equi_tools import frameworks
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.mlip import checkpoint as mlip_checkpoint
from equi_tools.frameworks.mlip import mace as mlip_mace
from mlip_laws import (
    COMPARED,
    CUTOFF,
    assert_arrays_are_those_of_mlip,
    assert_older_version_agrees,
    maker_of_files,
    oracle_of,
    structures,
)
from mlip_reference import GAUNT, PREFIX, VARIANTS, MlipReference

# Two evaluations in float64: energies per atom, and forces relative to the largest one if it exceeds 1.
SAME = 1e-12
# Each step of the converter is in one of these, the rest of the options in the others.
IN_LAMMPS = ("couplings", "gaunt", "gaunt_products")
REST = [pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS if name not in IN_LAMMPS]
# Settings of a variant.
SETTINGS = {"charged": {"charge": 2}}
# A change of 1e-3 in any tensor changes forces by more than this, eV/A.
NOTICED = 1e-11


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(file of mlip, converted file) of a variant."""
    return maker_of_files(tmp_path_factory.mktemp("mlip"), mlip_reference.write, VARIANTS, SETTINGS)


def assert_same(reference, energy, forces, atoms, where):
    expected, expected_forces = reference.evaluate(atoms)
    scale = max(1.0, np.abs(expected_forces).max())
    assert abs(energy - expected) / len(atoms) <= SAME * scale, where
    assert np.abs(forces - expected_forces).max() <= SAME * scale, where


@pytest.mark.parametrize("name", VARIANTS)
def test_every_option_is_converted_exactly(name, files):
    source, path = files(name)
    reference, evaluator = MlipReference(source, **SETTINGS.get(name, {})), EquiEvaluator(path)
    largest = 0.0
    for where, atoms in structures("cluster", "isolated"):
        cell = atoms.cell.complete().array
        energy, forces, _, _ = evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, cell, atoms.pbc)
        assert_same(reference, energy, forces, atoms, where)
        largest = max(largest, np.abs(forces).max())
    assert largest > 1e-3, "the model does not test forces"


@pytest.mark.parametrize("name", [*IN_LAMMPS, *REST])
def test_lammps_evaluates_mlips_formulas(name, files):
    source, path = files(name)
    reference, native = MlipReference(source, **SETTINGS.get(name, {})), laws.native(path, radial="exact")
    for where, atoms in structures():
        found = native(atoms)
        assert_same(reference, found.energy, found.forces, atoms, where)


def test_stress_is_the_derivative_and_ranks_agree(files):
    _, path = files("gaunt_pairs")
    assert laws.strain_error(path, dict(structures())["sheared"]) <= laws.STRAIN
    assert laws.rank_error(path, dict(structures())["rocksalt"], 3) <= laws.RANKS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["couplings", "gaunt"])
def test_every_number_matters(name, files, tmp_path):
    atoms = dict(structures())["cluster"]
    laws.assert_every_number_matters(files(name)[1], tmp_path, NOTICED, may_be_zero=("shift",), atoms=atoms)


def test_heads_and_data_sets_are_chosen(tmp_path):
    tables = [{"8": -1.0, "11": -2.0, "17": -3.0}, {"8": -4.0, "11": -5.0}]
    statistics = {"dataset_name": ["pbe", "r2scan"], "atomic_energies_map": tables}
    source = mlip_reference.write(tmp_path / "heads.zip", {"num_readout_heads": 2}, statistics)
    with pytest.raises(EquiError, match="several heads, choose one of them: pbe, r2scan"):
        convert(source, tmp_path / "none.equi", quiet=True)
    with pytest.raises(EquiError, match="no head 'ccsd'"):
        convert(source, tmp_path / "none.equi", head="ccsd", quiet=True)
    with pytest.raises(EquiError, match="r2scan has no energy of Cl"):
        convert(source, tmp_path / "none.equi", head="r2scan", quiet=True)
    atoms = dict(structures())["wire"]
    atoms.symbols = ["O", "Na", "Na"]
    for n, head in enumerate(["pbe", "r2scan"]):
        document = convert(source, tmp_path / "head.equi", head=head, elements=["Na", "O"], quiet=True)
        assert document["provenance"]["head"] == head and document["elements"] == ["Na", "O"]
        found = EquiEvaluator(tmp_path / "head.equi").evaluate(
            atoms.get_chemical_symbols(), atoms.positions, atoms.cell.complete().array, atoms.pbc
        )
        assert_same(MlipReference(source, n), found[0], found[1], atoms, head)


def test_radial_functions_are_normalized_between_distances(tmp_path):
    """avg_r_min_angstrom: mlip's factor makes the mean square of the functions beyond it 1."""
    source = mlip_reference.write(tmp_path / "model.zip", {}, {"avg_r_min_angstrom": 1.7})
    r = np.linspace(1.7, CUTOFF, 100001)[:, None]
    u, n = r / CUTOFF, np.arange(1, 7)
    functions = np.sqrt(2 / CUTOFF) * np.sin(n * np.pi * u) / r * (1 - 21 * u**5 + 35 * u**6 - 15 * u**7)
    assert mlip_mace.prefactor(mlip_checkpoint.load(source)) * np.sqrt(np.mean(functions**2)) == pytest.approx(1.0, abs=1e-3)


def test_reading_needs_neither_mlip_nor_jax_nor_torch(files):
    laws.assert_reads_without(("torch", "jax", "mlip", "flax"), "MLIP", [files("gaunt")[0]], 20)


def test_the_commands_know_the_files(files, tmp_path, capsys):
    source, path = files("gaunt")
    assert frameworks.detect(source) is frameworks.MLIP
    assert main(["convert", str(source), "-o", str(tmp_path / "model.equi")]) == 0
    assert main(["info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "a model of mlip" in text and ", gaunt " in text


REFUSED = [
    ({"gate_nodes": True}, {}, "gate_nodes True is not supported"),
    ({"soft_normalization": 2.0}, {}, "soft_normalization 2.0 is not supported"),
    ({"predict_partial_charges": True}, {}, "predict_partial_charges True"),
    ({"use_coulomb_term": True}, {}, "use_coulomb_term True"),
    ({"use_total_charge_embedding": True}, {}, "--charge: the model depends on it: state it"),
    ({"radial_envelope": "soft_envelope"}, {}, "radial_envelope soft_envelope is not supported"),
    ({"symmetric_contraction_backend": "e3nn"}, {}, "symmetric_contraction_backend e3nn is not supported"),
    ({"activation": "elu"}, {}, "activation elu is not supported"),
    ({"radial_mlp_activation": "elu"}, {}, "radial_mlp_activation elu is not supported"),
    ({"readout_irreps": ["7x0e+3x1o", "0e"]}, {}, "readout_irreps"),
    ({"readout_irreps": ["7x0e", "2x0e"]}, {}, "readout_irreps"),
    ({"include_pseudotensors": True} | GAUNT, {}, "Gaunt products have no pseudotensors"),
    ({"correlation": 5}, {}, "correlation 5 is not supported"),
    ({"num_channels": 0.5}, {}, "config.num_channels: expected a whole number"),
    ({"node_symmetry": 3}, {}, "node_symmetry is larger than l_max"),
    ({"vecnorm_type": "max_min"}, {}, "architecture ViSNet; of mlip only MACE, NequIP and eSEN are supported"),
    ({"new": 1, "newer": 2}, {}, "options new of mlip's MACE, newer of mlip's MACE are not known"),
    ({}, {"long_range_cutoff_angstrom": 9.0}, "beyond the cutoff"),
    ({}, {"avg_num_neighbors": 0.0}, "avg_num_neighbors: expected a number"),
    ({}, {"atomic_energies_map": {"Na": 1.0}}, "expected energies by atomic number"),
]  # fmt: skip


@pytest.mark.parametrize("options, statistics, words", REFUSED, ids=lambda p: str(p)[:40])
def test_what_is_not_represented_is_refused_by_name(options, statistics, words, tmp_path):
    def change(hyperparameters, arrays):
        hyperparameters["config"] |= options
        hyperparameters["dataset_info"] |= statistics

    source = mlip_reference.write(tmp_path / "model.zip", change=change)
    with pytest.raises(EquiError, match=words):
        convert(source, tmp_path / "model.equi", quiet=True)


def test_there_are_no_keys_to_ignore(tmp_path, capsys):
    source = str(mlip_reference.write(tmp_path / "model.zip"))
    assert main(["convert", "-q", source, "-o", str(tmp_path / "model.equi"), "--ignore-key", "foo"]) == 1
    assert "--ignore-key foo: mlip models have no configuration with keys to ignore" in capsys.readouterr().err


def test_products_of_orders_above_8_are_refused(tmp_path):
    source = mlip_reference.write(tmp_path / "model.zip", {"l_max": 5, "correlation": 4, "num_channels": 1} | GAUNT)
    with pytest.raises(EquiError, match="a product of orders to 10, at most 8"):
        convert(source, tmp_path / "model.equi", quiet=True)


def _spoil(what):
    first = PREFIX + "layers_0#interaction_block#radial_mlp#layers_0#kernel"

    def change(hyperparameters, arrays):
        if what == "version":
            hyperparameters["version"] = "0.1.6"
        elif what == "missing":
            del arrays[first]
        elif what == "unknown":
            arrays[PREFIX + "layers_0#more"] = np.ones(3)
        elif what == "shape":
            arrays[first] = arrays[first].T
        elif what == "objects":
            arrays[first] = np.array([{}], dtype=object)
        elif what == "prefix":
            arrays["params#other"] = np.ones(3)
        elif what == "option":
            del hyperparameters["config"]["num_rbf"]

    return change


@pytest.mark.parametrize(
    "what, words",
    [
        ("version", "mlip 0.1.6, whose models of version 1"),
        ("missing", "kernel is missing"),
        ("unknown", "layers_0#more is not part of mlip's MACE"),
        ("shape", "kernel: expected the shape"),
        ("objects", "not an array of numbers"),
        ("prefix", "params#other is not one of a network of mlip"),
        ("option", "option num_rbf of mlip's MACE is missing"),
    ],
)
def test_damaged_files_are_named(what, words, tmp_path):
    source = mlip_reference.write(tmp_path / "model.zip", change=_spoil(what))
    with pytest.raises(EquiError, match=words):
        convert(source, tmp_path / "model.equi", quiet=True)


def test_an_archive_that_is_cut_off_is_named(tmp_path):
    source = mlip_reference.write(tmp_path / "model.zip")
    with zipfile.ZipFile(tmp_path / "cut.zip", "w") as archive, zipfile.ZipFile(source) as whole:
        archive.writestr("hyperparams.json", whole.read("hyperparams.json"))
        archive.writestr("params.npz", whole.read("params.npz")[:3000])
    with pytest.raises(EquiError, match="damaged archive"):
        convert(tmp_path / "cut.zip", tmp_path / "model.equi", quiet=True)


# ---- against mlip itself


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_lammps_gives_mlips_own_results(name, files):
    source, path = files(name)
    named = structures(*COMPARED)
    laws.assert_within_bars(laws.differences(path, oracle_of(source, **SETTINGS.get(name, {})), named, radial="exact"))
    if name in IN_LAMMPS:
        laws.assert_within_bars(laws.differences(path, oracle_of(source), named))
        laws.assert_mixed(laws.differences(path, oracle_of(source), named, "mixed"))


@pytest.mark.slow
def test_the_reference_has_the_arrays_of_mlips_own_files(files, tmp_path):
    for name in ("couplings", "gaunt", "pseudotensors", "charged"):
        assert_arrays_are_those_of_mlip("Mace", files(name)[0], tmp_path / "own.zip", **SETTINGS.get(name, {}))
        if name != "charged":
            convert(tmp_path / "own.zip", tmp_path / "own.equi", quiet=True)
            laws.assert_within_bars(
                laws.differences(tmp_path / "own.equi", oracle_of(tmp_path / "own.zip"), structures("sheared"), radial="exact")
            )


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.2.2", "0.2.3", "0.2.4"])
def test_older_versions_agree(version, tmp_path):
    assert_older_version_agrees("Mace", version, tmp_path)


@pytest.mark.slow
def test_heads_and_normalized_radial_functions_are_mlips(tmp_path):
    statistics = {"dataset_name": ["a", "b"], "atomic_energies_map": [{"8": -1.0, "11": -2.0, "17": -3.0}] * 2, "avg_r_min_angstrom": 1.7}
    source = mlip_reference.write(tmp_path / "heads.zip", {"num_readout_heads": 2} | GAUNT, statistics)
    convert(source, tmp_path / "b.equi", head="b", quiet=True)
    named = structures("sheared", "cluster")
    # mlip computes the factor of the radial functions in float32.
    laws.assert_mixed(laws.differences(tmp_path / "b.equi", oracle_of(source, head="b"), named, radial="exact"))


@pytest.mark.slow
def test_compare_runs_mlip_in_its_own_environment(files, tmp_path, capsys):
    laws.assert_compare_agrees(*files("gaunt"), dict(structures())["cluster"], tmp_path, capsys)
