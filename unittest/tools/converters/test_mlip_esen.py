# SPDX-License-Identifier: MIT
"""eSEN of mlip -> .equi: LAMMPS against mlip's formulas (mlip_esen.py), and, slow, against mlip itself.

The slow tests run in the environment of tools/requirements-mlip.txt.
"""

import mlip_esen
import numpy as np
import pytest
import tensornet_laws as laws
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file, frameworks
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from mlip_esen import EXPERTS, VARIANTS, EsenReference
from mlip_laws import (
    COMPARED,
    assert_arrays_are_those_of_mlip,
    assert_older_version_agrees,
    maker_of_files,
    oracle_of,
    structures,
)
from mlip_reference import PREFIX

# Two routes in float64. An epsilon of 1e-12 in norms lets errors of rounding grow where an order nearly vanishes.
SAME = 1e-11
# Settings of a variant.
SETTINGS = {"experts": {"charge": -2, "spin": 3}, "experts_by_rows": {"spin": 2}, "charged_experts": {"charge": 2}}
# Each step of the converter is in one of these, the rest of the options in the others.
IN_LAMMPS = ("gaussians", "truncated", "bessel_cosine", "charged_experts")
REST = [pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS if name not in IN_LAMMPS]
# A change of 1e-3 in any tensor changes forces by more than this, eV/A.
NOTICED = 1e-11


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(file of mlip, converted file) of a variant."""
    return maker_of_files(tmp_path_factory.mktemp("mlip_esen"), mlip_esen.write, VARIANTS, SETTINGS)


def reference(name, source):
    return EsenReference(source, **SETTINGS.get(name, {}))


@pytest.mark.parametrize("name", VARIANTS)
def test_every_option_is_converted_exactly(name, files):
    source, path = files(name)
    calculator, evaluator = reference(name, source), EquiEvaluator(path)
    for where, atoms in structures("cluster", "isolated"):
        energy, forces, _, _ = evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, atoms.cell.complete().array, atoms.pbc)
        expected, expected_forces = calculator.evaluate(atoms)
        scale = max(1.0, np.abs(expected_forces).max())
        assert abs(energy - expected) <= SAME * scale * len(atoms), where
        assert np.abs(forces - expected_forces).max() <= SAME * scale, where
        assert where == "isolated" or np.abs(expected_forces).max() > 1e-2, "the model does not test forces"


@pytest.mark.parametrize("name", [*IN_LAMMPS, *REST])
def test_lammps_evaluates_mlips_formulas(name, files):
    source, path = files(name)
    laws.assert_within_bars(laws.differences(path, reference(name, source), structures(), radial="exact"))


def test_tables_and_mixed_precision_stay_within_their_bars(files):
    source, path = files("gaussians")
    calculator = reference("gaussians", source)
    laws.assert_within_bars(laws.differences(path, calculator, structures()))
    laws.assert_mixed(laws.differences(path, calculator, structures(), "mixed"))


def test_ranks_agree(files):
    assert laws.rank_error(files("gaussians")[1], dict(structures())["rocksalt"], 3) <= laws.RANKS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussians", "experts"])
def test_every_number_matters(name, files, tmp_path):
    atoms = dict(structures())["cluster"]
    laws.assert_every_number_matters(files(name)[1], tmp_path, NOTICED, may_be_zero=("shift",), atoms=atoms)


def test_norms_that_amplify_errors_are_noted(files):
    for name, noted in (("gaussians", False), ("truncated", True), ("bessel", True)):
        document, _ = equi_file.read(files(name)[1])
        assert ("use precision double" in document["provenance"].get("notes", "")) == noted


def test_heads_are_readouts_and_data_sets_of_experts(tmp_path):
    tables = [{"8": -1.0, "11": -2.0, "17": -3.0}, {"8": -4.0, "11": -5.0, "17": -6.0}]
    statistics = {"dataset_name": ["a", "b"], "atomic_energies_map": tables}
    source = mlip_esen.write(tmp_path / "heads.zip", {"num_readout_heads": 2, "moe": EXPERTS}, statistics)
    atoms = dict(structures())["wire"]
    for n, head in enumerate(["a", "b"]):
        document = convert(source, tmp_path / "head.equi", head=head, elements=["Cl", "Na", "O"], charge=1, spin=2, quiet=True)
        stated = document["provenance"]
        assert (stated["head"], stated["charge"], stated["spin"]) == (head, "1", "2")
        found = laws.differences(tmp_path / "head.equi", EsenReference(source, n, charge=1, spin=2), [("wire", atoms)], radial="exact")
        laws.assert_within_bars(found)


def test_the_commands_know_the_files(files, tmp_path, capsys):
    source, path = files("charged_experts")
    assert frameworks.detect(source) is frameworks.MLIP
    assert main(["convert", str(source), "-o", str(tmp_path / "model.equi"), "--charge", "2"]) == 0
    assert main(["info", str(path)]) == 0
    assert "eSEN, a model of mlip" in capsys.readouterr().out
    document, _ = equi_file.read(path)
    assert document["architecture"] == "eSEN" and "max_neighbors" not in document and "mixture" not in document


REFUSED = [
    ({"radial_envelope": "soft_envelope"}, {}, "soft_envelope is not supported, only polynomial_envelope, cosine_cutoff"),
    ({"radial_basis": "expnorm"}, {}, "radial_envelope polynomial_envelope is not supported with radial_basis expnorm"),
    ({"radial_basis": "bessel", "cosine_cutoff": True}, {}, "polynomial_envelope is not supported with radial_basis bessel"),
    ({"cosine_cutoff": True}, {}, "cosine_cutoff with radial_basis gauss is not supported"),
    ({"radial_basis": "fourier"}, {}, "radial_basis fourier is not supported, only gauss, bessel, expnorm"),
    ({"norm_type": "rms_norm"}, {}, "norm_type rms_norm is not supported"),
    ({"act_type": "s2"}, {}, "act_type s2 is not supported"),
    ({"use_coulomb_term": True}, {}, "use_coulomb_term True"),
    ({"predict_partial_charges": True}, {}, "predict_partial_charges True"),
    ({"l_max": 0, "m_max": 0}, {}, "config.l_max: expected a whole number from 1 on"),
    ({"m_max": 3}, {}, "m_max is larger than l_max"),
    ({"num_rbf": 1}, {}, "config.num_rbf: expected a whole number from 2 on"),
    ({"basis_width_scalar": 0.0}, {}, "config.basis_width_scalar: expected a number"),
    ({"new": 1, "newer": 2}, {}, "options new of mlip's eSEN, newer of mlip's eSEN are not known"),
    ({"moe": {"num_experts": 3}}, {}, "option moe: expected embed_dim, embedding_scale"),
    ({"moe": EXPERTS | {"routing_globals": ["composition"]}}, {}, "expected some of charge, spin_multiplicity, dataset_idx"),
    ({"moe": EXPERTS | {"embedding_type": "sum_emb"}}, {}, "embedding_type sum_emb is not known"),
    ({"moe": EXPERTS | {"router_activation": "elu"}}, {"charge": 0, "spin": 1}, "router_activation elu is not supported"),
    ({"moe": EXPERTS}, {"spin": 1}, "--charge: the model depends on it: state it"),
    ({"moe": EXPERTS}, {"charge": 1}, "--spin: the model depends on it: state it"),
    ({"moe": EXPERTS}, {"charge": 0.5, "spin": 1}, "--charge 0.5: expected a whole number"),
    ({}, {"charge": 1}, "--charge: the model does not depend on it; leave it out"),
]  # fmt: skip


@pytest.mark.parametrize("options, settings, words", REFUSED, ids=lambda p: str(p)[:40])
def test_what_is_not_represented_is_refused_by_name(options, settings, words, tmp_path):
    source = mlip_esen.write(tmp_path / "model.zip", {}, change=lambda hyperparameters, arrays: hyperparameters["config"].update(options))
    if settings and "moe" in options:
        source = mlip_esen.write(tmp_path / "model.zip", options)
    with pytest.raises(EquiError, match=words):
        convert(source, tmp_path / "model.equi", quiet=True, **settings)


def _spoil(what):
    first = PREFIX + "esen_layers_1#edge_wise#so2_conv_1#"

    def change(hyperparameters, arrays):
        if what == "missing":
            del arrays[f"{first}rad_func#layers_0#kernel"]
        elif what == "unknown":
            arrays[f"{first}more"] = np.ones(3)
        elif what == "shape":
            arrays[f"{first}so2_m_conv_0#fc#kernel"] = np.ones((3, 9))
        elif what == "experts":
            arrays[f"{first}fc_m0#expert_kernel"] = arrays.pop(f"{first}fc_m0#kernel")[None]
        elif what == "option":
            del hyperparameters["config"]["num_rbf"]
        elif what == "widths":
            hyperparameters["config"]["trainable_rbf"] = True
            arrays[PREFIX + "embedding_block#radial_embedding#offset"] = np.ones(8)
            arrays[PREFIX + "embedding_block#radial_embedding#coeff"] = np.array(0.5)

    return change


@pytest.mark.parametrize(
    "what, words",
    [
        ("missing", "esen_layers_1#edge_wise#so2_conv_1#rad_func#layers_0#kernel is missing"),
        ("unknown", "so2_conv_1#more is not part of mlip's eSEN"),
        ("shape", r"so2_m_conv_0#fc#kernel: expected the shape \[24, 28\], found \[3, 9\]"),
        ("experts", "matrices of experts in a model without experts"),
        ("option", "option num_rbf of mlip's eSEN is missing"),
        ("widths", "coeff: 0.5 is not negative"),
    ],
)
def test_damaged_files_are_named(what, words, tmp_path):
    source = mlip_esen.write(tmp_path / "model.zip", change=_spoil(what))
    with pytest.raises(EquiError, match=words):
        convert(source, tmp_path / "model.equi", quiet=True)


# ---- against mlip itself


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_lammps_gives_mlips_own_results(name, files):
    source, path = files(name)
    # mlip's edges have directions with errors of 1e-12. Where l = 1 vanishes by symmetry, each layer_norm multiplies them by 1e6.
    named = [(where, atoms) for where, atoms in structures(*COMPARED) if (name, where) != ("bessel", "one_atom_cell")]
    laws.assert_within_bars(laws.differences(path, oracle_of(source, **SETTINGS.get(name, {})), named, radial="exact"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["truncated", "bessel", "trained_exp_normal", "experts", "experts_by_rows", "charged_experts"])
def test_the_reference_has_the_arrays_of_mlips_own_files(name, files, tmp_path):
    assert_arrays_are_those_of_mlip("Esen", files(name)[0], tmp_path / "own.zip", **SETTINGS.get(name, {}))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.2.2", "0.2.3", "0.2.4"])
def test_older_versions_agree(version, tmp_path):
    assert_older_version_agrees("Esen", version, tmp_path)


@pytest.mark.slow
def test_compare_runs_mlip_in_its_own_environment(files, tmp_path, capsys):
    laws.assert_compare_agrees(*files("experts"), dict(structures())["cluster"], tmp_path, capsys)
