# SPDX-License-Identifier: MIT
"""NequIP of mlip -> .equi: LAMMPS against mlip's formulas (mlip_nequip.py), and, slow, against mlip itself.

The slow tests run in the environment of tools/requirements-mlip.txt.
"""

import mlip_nequip
import numpy as np
import pytest
import tensornet_laws as laws
from equi_evaluator import EquiEvaluator
from equi_tools import frameworks
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from mlip_laws import (
    COMPARED,
    assert_arrays_are_those_of_mlip,
    assert_older_version_agrees,
    maker_of_files,
    oracle_of,
    structures,
)
from mlip_nequip import VARIANTS, NequipReference
from mlip_reference import CHARGES, PREFIX

# Two routes in float64, energies per atom and forces relative to the largest one where it exceeds 1.
SAME = 1e-12
# Settings of a variant.
SETTINGS = {"charged": {"charge": -1}}
# A change of 1e-3 in any tensor changes forces by more than this, eV/A.
NOTICED = 1e-11


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(file of mlip, converted file) of a variant."""
    return maker_of_files(tmp_path_factory.mktemp("mlip_nequip"), mlip_nequip.write, VARIANTS, SETTINGS)


def reference(name, source):
    return NequipReference(source, **SETTINGS.get(name, {}))


@pytest.mark.parametrize("name", VARIANTS)
def test_lammps_evaluates_mlips_formulas(name, files):
    source, path = files(name)
    calculator = reference(name, source)
    found = laws.differences(path, calculator, structures(), radial="exact")
    assert max(laws.worst(found)) <= SAME, [(d.name, d.energy, d.force, d.stress) for d in found]
    if VARIANTS[name].get("l_max") != 0:
        _, forces = calculator.evaluate(dict(structures())["cluster"])
        assert np.abs(forces).max() > 1e-2, "the model does not test forces"


def test_tables_and_mixed_precision_stay_within_their_bars(files):
    source, path = files("copies")
    calculator = reference("copies", source)
    laws.assert_within_bars(laws.differences(path, calculator, structures()))
    laws.assert_mixed(laws.differences(path, calculator, structures(), "mixed"))


def test_the_file_says_the_same_to_a_second_reader(files):
    source, path = files("no_common_factor")
    atoms = dict(structures())["sheared"]
    energy, forces, _, _ = EquiEvaluator(path).evaluate(atoms.get_chemical_symbols(), atoms.positions, atoms.cell.array, atoms.pbc)
    expected, expected_forces = reference("no_common_factor", source).evaluate(atoms)
    scale = max(1.0, np.abs(expected_forces).max())
    assert abs(energy - expected) <= SAME * scale * len(atoms) and np.abs(forces - expected_forces).max() <= SAME * scale


def test_ranks_agree(files):
    assert laws.rank_error(files("parities")[1], dict(structures())["rocksalt"], 3) <= laws.RANKS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["copies", "activations"])
def test_every_number_matters(name, files, tmp_path):
    atoms = dict(structures())["cluster"]
    laws.assert_every_number_matters(files(name)[1], tmp_path, NOTICED, atoms=atoms)


def test_heads_are_chosen(tmp_path):
    tables = [{"8": -1.0, "11": -2.0, "17": -3.0}, {"8": -4.0, "11": -5.0}]
    source = mlip_nequip.write(
        tmp_path / "heads.zip", {"num_readout_heads": 2}, {"dataset_name": ["pbe", "r2scan"], "atomic_energies_map": tables}
    )
    with pytest.raises(EquiError, match="several heads, choose one of them: pbe, r2scan"):
        convert(source, tmp_path / "none.equi", quiet=True)
    atoms = dict(structures())["wire"]
    atoms.symbols = ["O", "Na", "Na"]
    for n, head in enumerate(["pbe", "r2scan"]):
        document = convert(source, tmp_path / "head.equi", head=head, elements=["Na", "O"], quiet=True)
        assert document["provenance"]["head"] == head and document["elements"] == ["Na", "O"]
        (found,) = laws.differences(tmp_path / "head.equi", NequipReference(source, n), [("wire", atoms)], radial="exact")
        assert max(found.energy, found.force) <= SAME


def test_the_commands_know_the_files(files, tmp_path, capsys):
    source, path = files("charged")
    assert frameworks.detect(source) is frameworks.MLIP
    assert main(["convert", str(source), "-o", str(tmp_path / "model.equi"), "--charge", "2"]) == 0
    assert main(["info", str(path)]) == 0
    assert "NequIP, a model of mlip" in capsys.readouterr().out
    document = convert(source, tmp_path / "other.equi", charge=0, quiet=True)
    assert document["provenance"]["charge"] == "0"


REFUSED = [
    ({"radial_mlp_activation": "beta_swish"}, {}, {}, "radial_mlp_activation beta_swish is not supported"),
    ({"radial_mlp_activation": "elu"}, {}, {}, "radial_mlp_activation elu is not supported"),
    ({"gate_nonlinearities": {"e": "elu", "o": "tanh"}}, {}, {}, "gate_nonlinearities: e elu is not supported"),
    ({"gate_nonlinearities": {"e": "silu", "o": "silu"}}, {}, {}, "gate_nonlinearities: o silu is no odd function"),
    ({"gate_nonlinearities": {"e": "silu"}}, {}, {}, "expected activations of e and o"),
    ({"radial_envelope": "soft_envelope"}, {}, {}, "radial_envelope soft_envelope is not supported"),
    ({"use_coulomb_term": True}, {}, {}, "use_coulomb_term True"),
    ({"predict_partial_charges": True}, {}, {}, "predict_partial_charges True"),
    ({"target_irreps": "4x0e+2x1e+2x1o"}, {}, {}, "expected different irreps in mlip's order"),
    ({"target_irreps": "4x0e+2x0e"}, {}, {}, "expected different irreps in mlip's order"),
    ({"target_irreps": "1x0e+2x1o"}, {}, {}, "needs two scalars"),
    ({"target_irreps": 7}, {}, {}, "needs two scalars"),
    ({"target_irreps": "many"}, {}, {}, "are not irreps"),
    ({"l_max": 9}, {}, {}, "l_max 9 is not supported"),
    ({"avg_num_neighbors": 0.0}, {}, {}, "config.avg_num_neighbors: expected a number"),
    ({"new": 1, "newer": 2}, {}, {}, "options new of mlip's NequIP, newer of mlip's NequIP are not known"),
    ({"num_channels": 4, "vecnorm_type": "max_min"}, {}, {}, "architecture ViSNet; of mlip only MACE, NequIP and eSEN are supported"),
    ({}, {}, {"charge": 1}, "--charge: the model does not depend on it; leave it out"),
    ({}, {}, {"spin": 1}, "--spin: the model does not depend on it; leave it out"),
    ({"use_total_charge_embedding": True}, {}, {}, "--charge: the model depends on it: state it"),
    ({"use_total_charge_embedding": True}, {}, {"charge": 1}, r"--charge 1: the model was trained with \[-1, 0, 2\]"),
    ({"use_total_charge_embedding": True}, {"total_charge_set": None}, {"charge": 1}, "--charge 1: the model was trained with None"),
]  # fmt: skip


@pytest.mark.parametrize("options, statistics, settings, words", REFUSED, ids=lambda p: str(p)[:40])
def test_what_is_not_represented_is_refused_by_name(options, statistics, settings, words, tmp_path):
    def change(hyperparameters, arrays):
        hyperparameters["config"] |= options
        if options.get("use_total_charge_embedding"):
            hyperparameters["dataset_info"]["total_charge_set"] = CHARGES
        hyperparameters["dataset_info"] |= statistics

    source = mlip_nequip.write(tmp_path / "model.zip", change=change)
    with pytest.raises(EquiError, match=words):
        convert(source, tmp_path / "model.equi", quiet=True, **settings)


def _spoil(what):
    first = PREFIX + "NequipLayer_1#convolution_block#"

    def change(hyperparameters, arrays):
        if what == "missing":
            del arrays[f"{first}linear_out#weight0_0_1"]
        elif what == "unknown":
            arrays[f"{first}more"] = np.ones(3)
        elif what == "shape":
            arrays[f"{first}radial_mlp#layers_0#kernel"] = np.ones((3, 9))
        elif what == "species":
            arrays[PREFIX + "NequipEmbeddingBlock_0#NodeEmbeddingBlock_0#embed#embedding"] = np.ones((2, 10))
        elif what == "option":
            del hyperparameters["config"]["num_rbf"]

    return change


@pytest.mark.parametrize(
    "what, words",
    [
        ("missing", r"NequipLayer_1#convolution_block#linear_out#weight\*_0_1 is missing"),
        ("unknown", "convolution_block#more is not part of mlip's NequIP"),
        ("shape", r"layers_0#kernel: expected the shape \[6, 9\], found \[3, 9\]"),
        ("species", r"embed#embedding: expected the shape \[3, 10\]"),
        ("option", "option num_rbf of mlip's NequIP is missing"),
    ],
)
def test_damaged_files_are_named(what, words, tmp_path):
    source = mlip_nequip.write(tmp_path / "model.zip", change=_spoil(what))
    with pytest.raises(EquiError, match=words):
        convert(source, tmp_path / "model.equi", quiet=True)


# ---- against mlip itself


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_lammps_gives_mlips_own_results(name, files):
    source, path = files(name)
    found = laws.differences(path, oracle_of(source, **SETTINGS.get(name, {})), structures(*COMPARED), radial="exact")
    assert max(laws.worst(found)) <= SAME, [(d.name, d.energy, d.force, d.stress) for d in found]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["copies", "charged"])
def test_the_reference_has_the_arrays_of_mlips_own_files(name, files, tmp_path):
    assert_arrays_are_those_of_mlip("Nequip", files(name)[0], tmp_path / "own.zip", **SETTINGS.get(name, {}))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.2.2", "0.2.3", "0.2.4"])
def test_older_versions_agree(version, tmp_path):
    assert_older_version_agrees("Nequip", version, tmp_path)


@pytest.mark.slow
def test_compare_runs_mlip_in_its_own_environment(files, tmp_path, capsys):
    laws.assert_compare_agrees(*files("charged"), dict(structures())["cluster"], tmp_path, capsys)
