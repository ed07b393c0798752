# SPDX-License-Identifier: MIT
"""Nequix models of both back ends -> .equi: LAMMPS against stored numbers of the package, and, slow, against the package itself.

The slow tests run in the environment of tools/requirements-nequix.txt, the stored files are those of golden/make_nequix.py.
"""

import io
import json
import lzma
from functools import lru_cache
from pathlib import Path

import numpy as np
import old_versions
import pytest
import tensornet_laws as laws
import torch
from built_models import built
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file, frameworks, published
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.nequix import checkpoint as nequix_checkpoint

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
STORED = ("nequix-0.4.5-jax.nqx", "nequix-0.4.5-torch.pt")
# As test_models.nequix makes them.
VARIANTS = {
    "unequal": "nqx", "species": "nqx", "one_layer": "nqx", "torch_norm": "pt", "torch_parities": "pt", "torch_norm_of_parities": "pt",
}  # fmt: skip
ELEMENTS = ["O", "Na", "Cl"]
# A change of 1e-3 in any tensor changes energies or forces by more than this.
NOTICED = 1e-12


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(file of Nequix, converted file) of a stored model."""
    folder = tmp_path_factory.mktemp("nequix")

    @lru_cache(maxsize=None)
    def make(name):
        source = folder / name
        source.write_bytes(lzma.decompress((GOLDEN / f"{name}.xz").read_bytes()))
        convert(source, source.with_suffix(".equi"), quiet=True, license="MIT", citation="none: random numbers")
        return source, source.with_suffix(".equi")

    return make


@pytest.fixture
def changed(files, tmp_path):
    """A stored file with another configuration or other bytes behind it."""

    def change(name, options=None, drop=(), rest=None):
        line, _, numbers = files(name)[0].read_bytes().partition(b"\n")
        config = {key: value for key, value in json.loads(line).items() if key not in drop} | (options or {})
        path = tmp_path / name
        path.write_bytes(json.dumps(config).encode() + b"\n" + (rest(numbers) if rest else numbers))
        return path

    return change


@pytest.mark.parametrize("name", STORED)
def test_lammps_gives_the_stored_results(name, files, tmp_path):
    source, _ = files(name)
    laws.assert_within_bars(old_versions.differences(source, (GOLDEN / name).with_suffix(".npz"), tmp_path / "model.equi"))


def test_tables_and_mixed_precision_stay_within_their_bars(files):
    source, path = files(STORED[0])
    for precision, radial, bars in (("double", None, laws.assert_within_bars), ("mixed", None, laws.assert_mixed)):
        old_versions.assert_stored(path, (GOLDEN / STORED[0]).with_suffix(".npz"), precision, radial, bars)


@pytest.mark.parametrize("name", STORED)
def test_stress_is_the_derivative_and_ranks_agree(name, files):
    _, path = files(name)
    named = dict(laws.structures(ELEMENTS, 4.2))
    assert laws.strain_error(path, named["sheared"]) <= laws.STRAIN
    assert laws.rank_error(path, named["rocksalt"] * (2, 1, 1), 4) <= laws.RANKS


@pytest.mark.slow
def test_every_number_matters(files, tmp_path):
    """Not of the file of torch: nothing in the first layers reaches its blocks 1e and 2o, so many numbers have no effect."""
    atoms = dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    laws.assert_every_number_matters(files("nequix-0.4.5-jax.nqx")[1], tmp_path, NOTICED, atoms=atoms)


@pytest.mark.parametrize("name", STORED)
def test_elements_that_are_left_out_change_nothing(name, files, tmp_path):
    source, path = files(name)
    document = convert(source, tmp_path / "two.equi", elements=["Na", "O"], quiet=True)
    assert document["elements"] == ["Na", "O"]
    atoms = dict(laws.structures(["O", "Na"], 4.2))["cluster"]
    found = [EquiEvaluator(file).evaluate(atoms.get_chemical_symbols(), atoms.positions) for file in (path, tmp_path / "two.equi")]
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-13) and np.abs(found[0][1] - found[1][1]).max() < 1e-13
    assert equi_file.read(tmp_path / "two.equi")[1]["layers.0.linear_1.0.0"].shape == (2, 3)


def test_reading_needs_neither_nequix_nor_jax_nor_torch(files):
    laws.assert_reads_without(("torch", "jax", "nequix", "equinox"), "NEQUIX", [files(name)[0] for name in STORED], 15)


def test_the_commands_know_the_files(files, tmp_path, capsys):
    for name in STORED:
        source, path = files(name)
        assert frameworks.detect(source) is frameworks.NEQUIX
        assert main(["convert", str(source), "-o", str(tmp_path / "model.equi")]) == 0
        assert main(["info", str(path)]) == 0
        assert "Nequix, a model of nequix" in capsys.readouterr().out


def test_published_models_have_their_license(files, tmp_path):
    source = tmp_path / "nequix-oam-1.nqx"
    source.write_bytes(files(STORED[0])[0].read_bytes())
    provenance = convert(source, tmp_path / "model.equi", quiet=True)["provenance"]
    assert provenance["licence"] == "MIT" and "arXiv:2601.07742" in provenance["citation"]
    names = {Path(model.convert).stem for model in published.MODELS if model.framework == "nequix"}
    assert names and names <= set(nequix_checkpoint.PUBLISHED)


REFUSED = [
    ({"repulsion": "zbl", "charges": True}, "options repulsion, charges are not known, they may change the energy; --ignore-key"),
    ({"hidden_irreps": "5x0e + 13x1o + 1x2e + 2x2e"}, "expected each irrep once and in ascending order, 5x0e"),
    ({"hidden_irreps": "13x1o + 5x0e + 1x2e"}, "in ascending order, 5x0e\\+13x1o\\+1x2e: Nequix itself confuses"),
    ({"hidden_irreps": "5x0e + 13x1o + 1x2o"}, "no message of the first layer has 2o, which the back end JAX needs"),
    ({"hidden_irreps": "5x0e + 13x1o + 1x3o"}, "no message of the first layer has 3o"),
    ({"hidden_irreps": "13x1o"}, "0e among them"),
    ({"hidden_irreps": "5x0o + 5x0e"}, "0e among them and not 0o"),
    ({"hidden_irreps": "many"}, "are not irreps"),
    ({"hidden_irreps": "6x0e + 13x1o + 1x2e"}, r"array layers.0.linear_2 0 to 0: expected numbers of the shape \[3, 20\]"),
    ({"n_layers": 0}, "option n_layers: expected a whole number from 1 on, found 0"),
    ({"n_layers": 4}, "array layers.2"),
    ({"cutoff": -1.0}, "option cutoff: expected a positive number"),
    ({"scale": "1"}, "option scale: expected a number"),
    ({"layer_norm": 1}, "option layer_norm: expected true or false"),
    ({"radial_polynomial_p": 1.5}, "a cutoff function with a second derivative at 0"),
    ({"atomic_numbers": [8, 8, 11]}, "option atomic_numbers: expected different atomic numbers"),
    ({"radial_mlp_layers": 70000}, "option radial_mlp_layers: expected a whole number"),
]  # fmt: skip


@pytest.mark.parametrize("options, words", REFUSED, ids=lambda p: str(p)[:40])
def test_what_is_not_represented_is_refused_by_name(options, words, changed, tmp_path):
    with pytest.raises(EquiError, match=words):
        convert(changed(STORED[0], options), tmp_path / "model.equi", quiet=True)
    assert not (tmp_path / "model.equi").exists()


def test_matrices_of_species_are_not_of_the_back_end_torch(changed, tmp_path):
    with pytest.raises(EquiError, match="the back end torch has no weights for each species"):
        convert(changed(STORED[1], {"index_weights": True}), tmp_path / "model.equi", quiet=True)


def test_an_unknown_key_passes_if_the_user_vouches_for_it(changed, tmp_path):
    source = changed(STORED[0], {"new_head": 2})
    assert main(["convert", "-q", str(source), "-o", str(tmp_path / "model.equi"), "--ignore-key", "new_head"]) == 0


def _with_more(numbers):
    path = io.BytesIO(numbers)
    state = torch.load(path)
    state["layers.0.new.weight"] = torch.ones(3)
    changed = io.BytesIO()
    torch.save(state, changed)
    return changed.getvalue()


@pytest.mark.parametrize(
    "name, more, words",
    [
        (STORED[0], {"rest": lambda numbers: numbers[:-100]}, "the file ends"),
        (STORED[0], {"rest": lambda numbers: numbers[:300]}, "array layers.0.radial_mlp.layers.0.weights: the file ends"),
        (STORED[0], {"rest": lambda numbers: numbers.replace(b"'<f4'", b"'<i4'", 1)}, "array atom_energies: expected numbers of"),
        (STORED[0], {"rest": lambda numbers: numbers.replace(b"'<f4'", b"'|O' ", 1)}, "array atom_energies: "),
        (STORED[0], {"drop": ("lmax",)}, "option lmax of a Nequix model is missing"),
        (STORED[1], {"rest": lambda numbers: numbers[:-200]}, "not a file that torch.save has written"),
        (STORED[1], {"rest": _with_more}, "layers.0.new.weight is not part of a Nequix model"),
    ],
)
def test_damaged_files_are_named(name, more, words, changed, tmp_path, capsys):
    source = changed(name, **more)
    assert main(["convert", "-q", str(source), "-o", str(tmp_path / "model.equi")]) == 1
    message = capsys.readouterr().err
    assert words in message and str(source) in message and message.count("\n") == 1


def test_numbers_behind_the_model_are_not_read(changed, tmp_path):
    """Published files have some."""
    source = changed(STORED[0], rest=lambda numbers: numbers + b"\x93")
    convert(source, tmp_path / "model.equi", quiet=True)


# ---- against Nequix itself


@lru_cache(maxsize=None)
def oracle(name):
    from equi_tools.frameworks.nequix import oracle as nequix_oracle

    return nequix_oracle.float64_calculator(built(f"nequix/{name}.{VARIANTS[name]}"))


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_lammps_gives_the_packages_own_results(name):
    path, named = built(f"nequix/{name}.equi"), laws.structures(ELEMENTS, 4.2)
    laws.assert_within_bars(laws.differences(path, oracle(name), named, radial="exact"))
    laws.assert_within_bars(laws.differences(path, oracle(name), named))
    laws.assert_mixed(laws.differences(path, oracle(name), named, "mixed"))
    atoms = named[0][1]
    atoms.calc = oracle(name)
    assert np.abs(atoms.get_forces()).max() > 1e-3, "the model does not test forces"
    assert np.abs(atoms.get_stress()).max() > 1e-5, "the model does not test stresses"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unequal", "torch_norm"])
def test_the_packages_calculator_is_near(name):
    """In float32, where all directions are periodic: it drops the images of others."""
    from equi_tools.frameworks.nequix import oracle as nequix_oracle

    theirs = nequix_oracle.framework_calculator(built(f"nequix/{name}.{VARIANTS[name]}"))
    for structure in ("sheared", "primitive"):
        atoms = dict(laws.structures(ELEMENTS, 4.2))[structure]
        found = laws.native(built(f"nequix/{name}.equi"), radial="exact")(atoms)
        atoms.calc = theirs
        assert abs(found.energy - atoms.get_potential_energy()) / len(atoms) < 1e-5
        assert np.abs(found.forces - atoms.get_forces()).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("text", ["5x0e + 3x1o + 2x2e + 4x2o", "5x0e + 3x1o + 2x3o"])
def test_what_is_refused_of_the_back_end_jax_is_what_it_cannot_evaluate(text, tmp_path):
    from equi_tools.frameworks.nequix import oracle as nequix_oracle
    from test_models import nequix as nequix_models

    source = nequix_models.make_checkpoint(tmp_path / "model.nqx", *nequix_models.config_of("unequal", hidden_irreps=text))
    with pytest.raises(EquiError, match="which the back end JAX needs|in ascending order"):
        nequix_checkpoint.load(source)
    checkpoint = nequix_checkpoint.load(built("nequix/unequal.nqx"))
    checkpoint.path = source
    atoms = dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    atoms.calc = nequix_oracle.float64_calculator(checkpoint)
    with pytest.raises(ValueError, match="not equivariant"):
        atoms.get_potential_energy()


@pytest.mark.slow
def test_compare_runs_nequix_in_its_own_environment(tmp_path, capsys):
    atoms = dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    laws.assert_compare_agrees(built("nequix/torch_norm.pt"), built("nequix/torch_norm.equi"), atoms, tmp_path, capsys)
