# SPDX-License-Identifier: MIT
"""eqnorm models -> .equi: LAMMPS against stored numbers of the package, and, slow, against the package itself.

The slow tests run in the environment of tools/requirements-nequix.txt, the stored file is that of golden/make_nequix.py.
"""

import json
import lzma
from pathlib import Path

import numpy as np
import old_versions
import pytest
import tensornet_laws as laws
import torch
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file, frameworks
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.eqnorm.checkpoint import PUBLISHED

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
ELEMENTS = ["O", "Na", "Cl"]
# Those of the stored file.
SETTINGS = PUBLISHED | {
    "irreps_hidden": "5x0e+7x1o+2x2e", "irreps_sh": "1x0e+1x1o+1x2e", "num_convs": 2, "num_features": 17, "r_cutoff": 4.2, "num_basis": 5,
    "invariant_neurons": 7, "avg_nbr": 11.3, "poly_p": 5, "use_ema": False,
}  # fmt: skip
VARIANT = "eqnorm-max-mptrj"
# A change of 1e-3 in any tensor changes energies or forces by more than this.
NOTICED = 1e-12


def settings_with(**more):
    return {"variant": VARIANT, **SETTINGS, **more}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("eqnorm") / f"{VARIANT}.pt"
    path.write_bytes(lzma.decompress((GOLDEN / f"{path.name}.xz").read_bytes()))
    return path


@pytest.fixture(scope="module")
def model(source):
    """The converted file."""
    convert(source, source.with_suffix(".equi"), settings=settings_with(), quiet=True, license="MIT", citation="none: random numbers")
    return source.with_suffix(".equi")


@pytest.fixture
def changed(source, tmp_path):
    """A copy of the file whose content has been changed."""

    def change(function):
        raw = torch.load(source)
        function(raw)
        torch.save(raw, tmp_path / source.name)
        return tmp_path / source.name

    return change


def test_lammps_gives_the_stored_results(source, tmp_path):
    results = (GOLDEN / f"{VARIANT}.pt").with_suffix(".npz")
    laws.assert_within_bars(old_versions.differences(source, results, tmp_path / "model.equi", settings=settings_with()))


def test_stress_is_the_derivative_and_ranks_agree(model):
    named = dict(laws.structures(ELEMENTS, 4.2))
    assert laws.strain_error(model, named["sheared"]) <= laws.STRAIN
    assert laws.rank_error(model, named["rocksalt"] * (2, 1, 1), 4) <= laws.RANKS


@pytest.mark.slow
def test_every_number_matters(model, tmp_path):
    laws.assert_every_number_matters(model, tmp_path, NOTICED, atoms=dict(laws.structures(ELEMENTS, 4.2))["cluster"])


def test_elements_that_are_left_out_change_nothing(source, model, tmp_path):
    document = convert(source, tmp_path / "two.equi", elements=["Na", "O"], settings=settings_with(), quiet=True)
    assert document["elements"] == ["Na", "O"]
    atoms = dict(laws.structures(["O", "Na"], 4.2))["cluster"]
    found = [EquiEvaluator(file).evaluate(atoms.get_chemical_symbols(), atoms.positions) for file in (model, tmp_path / "two.equi")]
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-13) and np.abs(found[0][1] - found[1][1]).max() < 1e-13


def test_reading_needs_neither_eqnorm_nor_torch(source):
    laws.assert_reads_without(("torch", "eqnorm", "e3nn"), "EQNORM", [source], 20, settings=settings_with())


def write_settings(path, **more):
    settings = {**SETTINGS, "DIPOLE": False, "shift": "per_species", **more}
    path.write_text("\n".join(f"{key}: {json.dumps(value)}  # a comment" for key, value in settings.items()))
    return path


def test_a_file_of_settings_is_named_on_the_command_line_and_stored(source, model, tmp_path, capsys):
    assert frameworks.detect(source) is frameworks.EQNORM
    words = ["convert", "-q", str(source), "-o", str(tmp_path / "model.equi"), "--settings"]
    assert main([*words, str(write_settings(tmp_path / f"{VARIANT}.yaml"))]) == 0
    (document, tensors), (expected, numbers) = equi_file.read(tmp_path / "model.equi"), equi_file.read(model)
    assert document["layers"] == expected["layers"] and all(np.array_equal(tensors[name], numbers[name]) for name in numbers)
    stored = json.loads(document["provenance"]["settings"])
    assert stored["variant"] == VARIANT and stored["irreps_hidden"] == SETTINGS["irreps_hidden"]
    assert main(["info", str(tmp_path / "model.equi")]) == 0
    assert "eqnorm, a model of eqnorm" in capsys.readouterr().out
    # The two models of eqnorm differ by the cutoff function alone.
    assert main([*words, str(write_settings(tmp_path / "eqnorm-mptrj.yaml"))]) == 0
    radials = [
        layer["radial"] for path in (model, tmp_path / "model.equi") for layer in equi_file.read(path)[0]["layers"] if "radial" in layer
    ]
    assert ["times_cutoff" in radial for radial in radials] == [True] * 4 + [False] * 4
    assert main([*words, str(tmp_path / "nothing.yaml")]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_files_without_known_settings_are_refused(source, tmp_path):
    unnamed = tmp_path / "last.pt"
    unnamed.write_bytes(source.read_bytes())
    with pytest.raises(EquiError, match="the file does not say its settings, nor does its name"):
        convert(unnamed, tmp_path / "model.equi", quiet=True)
    with pytest.raises(EquiError, match="eqnorm-omat names no model of eqnorm that is known, eqnorm-mptrj or eqnorm-max-mptrj"):
        convert(source, tmp_path / "model.equi", settings={"variant": "eqnorm-omat"}, quiet=True)
    # The name of the file names a model whose settings do not fit.
    with pytest.raises(EquiError, match="bessel_weights: expected the shape"):
        convert(source, tmp_path / "model.equi", quiet=True)


REFUSED = [
    ({"avg_nbr": None}, "avg_nbr null: messages are divided by the root of an atom's number of neighbors, which jumps"),
    ({"irreps_hidden": "5x0e+7x1o+2x2e+3x2o"}, "irreps_hidden 5x0e.*: expected a block of channels for each of 0e, 1o, 2e"),
    ({"irreps_hidden": "5x0e+7x1e"}, "expected a block of channels for each of 0e, 1o"),
    ({"irreps_hidden": "7x1o"}, "expected a block of channels for each of 0e, 1o"),
    ({"irreps_hidden": "5x0e+7x1o+2x2e+1x3o"}, "no message of the first layer has an order above 2"),
    ({"irreps_hidden": "6x0e+7x1o+2x2e"}, "tensor layers.0.sc.weight: expected the shape"),
    ({"irreps_sh": "1x0e+1x1o+1x2o"}, "irreps_sh"),
    ({"num_convs": 3}, "tensor layers.8.linear_1.weight is missing"),
    ({"num_convs": 1}, "tensors layers.4.linear_1.weight"),
    ({"poly_p": 1}, "a second derivative at 0"),
    ({"shift_trainable": True}, "shift_trainable true is not supported"),
    ({"new": 1, "newer": 2}, "settings new, newer are not known, they may change the energy"),
]  # fmt: skip


@pytest.mark.parametrize("more, words", REFUSED, ids=lambda p: str(p)[:40])
def test_what_is_not_represented_is_refused_by_name(more, words, source, tmp_path):
    with pytest.raises(EquiError, match=words):
        convert(source, tmp_path / "model.equi", settings=settings_with(**more), quiet=True)


def test_a_missing_setting_is_named(source, tmp_path):
    settings = settings_with()
    del settings["r_cutoff"]
    with pytest.raises(EquiError, match="setting r_cutoff of eqnorm is missing"):
        convert(source, tmp_path / "model.equi", settings=settings, quiet=True)


def _spoil_weights(raw):
    raw["model_state_dict"]["e3nn_layer.layers.0.ln.balance_weight"][3, 1] *= 2


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda raw: raw.update(unique_elements=torch.tensor([11, 8, 17])), "unique_elements: expected different atomic numbers"),
        (lambda raw: raw.update(energy_shift=torch.zeros(2, 1)), "energy_shift: expected a number, or one for each of 3 elements"),
        (lambda raw: raw.update(model_state_dict={"layers": torch.zeros(2)}), "expected tensors whose names begin with e3nn_layer."),
        (lambda raw: raw["model_state_dict"].update({"e3nn_layer.new": torch.ones(3)}), "tensor new is not part of an eqnorm model"),
        (_spoil_weights, "weights of components of order 1 differ"),
    ],
)
def test_damaged_files_are_named(change, words, changed, tmp_path):
    with pytest.raises(EquiError, match=words):
        convert(changed(change), tmp_path / "model.equi", settings=settings_with(), quiet=True)


def test_settings_are_of_eqnorm_alone(tmp_path, capsys):
    assert main(["convert", "-q", "7net-0", "-o", str(tmp_path / "model.equi"), "--settings", "eqnorm-mptrj"]) == 1
    assert "--settings: SevenNet files have the settings of their models; leave it out" in capsys.readouterr().err


# ---- against eqnorm itself


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mptrj", "max_mptrj"])
def test_lammps_gives_the_packages_own_results(name, tmp_path):
    from equi_tools.frameworks.eqnorm import oracle as eqnorm_oracle
    from test_models import eqnorm as eqnorm_models

    path, words = eqnorm_models.make_variant(name, tmp_path)
    convert(path, tmp_path / "model.equi", quiet=True, **words)
    calculator = eqnorm_oracle.float64_calculator(frameworks.EQNORM.load(path, **words))
    named = laws.structures(ELEMENTS, 4.2)
    laws.assert_within_bars(laws.differences(tmp_path / "model.equi", calculator, named, radial="exact"))
    laws.assert_within_bars(laws.differences(tmp_path / "model.equi", calculator, named))
    laws.assert_mixed(laws.differences(tmp_path / "model.equi", calculator, named, "mixed"))


@pytest.mark.slow
def test_the_layers_are_those_of_the_packages_own_forward(tmp_path):
    """Its energy and forces of a structure of one cell, with edges in its own form, in float32."""
    from ase.neighborlist import neighbor_list
    from equi_tools.frameworks.eqnorm import oracle as eqnorm_oracle
    from test_models import eqnorm as eqnorm_models

    path, words = eqnorm_models.make_variant("mptrj", tmp_path)
    calculator = eqnorm_oracle.framework_calculator(frameworks.EQNORM.load(path, **words))
    atoms = dict(laws.structures(ELEMENTS, 4.2))["sheared"]
    i, j, shifts = neighbor_list("ijS", atoms, calculator.cutoff)
    data = {
        "pos": torch.tensor(atoms.positions).float(), "cell": torch.tensor(atoms.cell.array[None]).float(),
        "atomic_numbers": torch.tensor(calculator.model.unique_elements[[ELEMENTS.index(s) for s in atoms.get_chemical_symbols()]]),
        "edge_index": torch.tensor(np.array([i, j])), "shifts": torch.tensor(shifts), "batch": torch.zeros(len(atoms), dtype=torch.long),
    }  # fmt: skip
    energy, forces, stress, _, _ = calculator.model(data, training=False)
    atoms.calc = calculator
    assert abs(energy.item() - atoms.get_potential_energy()) / len(atoms) < 1e-6
    assert np.abs(forces.detach().numpy() - atoms.get_forces()).max() < 1e-5
    assert np.abs(stress.detach().numpy().reshape(6) - atoms.get_stress()).max() < 1e-5


@pytest.mark.slow
def test_compare_runs_eqnorm_in_its_own_environment(source, model, tmp_path, capsys):
    laws.assert_compare_agrees(source, model, dict(laws.structures(ELEMENTS, 4.2))["cluster"], tmp_path, capsys)
