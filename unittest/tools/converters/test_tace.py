# SPDX-License-Identifier: MIT
"""TACE models -> .equi: LAMMPS against stored numbers of the package, and, slow, against the package itself.

The slow tests run in the environment of tools/requirements-tace.txt. The stored files are those of golden/make_tace.py.
"""

import lzma
import zipfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import old_versions
import pytest
import tensornet_laws as laws
import torch
from ase import Atoms
from built_models import built
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file, frameworks, published
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.tace import model as tace_model
from equi_tools.irreps import Irrep

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
# With the level of theory that is converted.
STORED = {"tace-0.2.4": None, "tace-0.2.4-experts": None, "tace-0.2.4-three": "r2SCAN"}
FIRST, EXPERTS, THREE = STORED
# As test_models.tace makes them, with the level of theory.
VARIANTS = {
    "example": None, "defaults": "r2SCAN", "three_factors": "r2SCAN", "experts": None, "parity": None, "scalars": None, "tensors": None,
    "parity_three": None,
}  # fmt: skip
ELEMENTS = ["O", "Na", "Cl"]
# Hashes of the wheels of older versions.
WHEELS = {
    "0.2.0": "3cb64f8a410f1d79eaaffc307aad8b676a0c1790aa0275a8fe4eae3ff8918b43",
    "0.2.1": "fb15353b3fade14786e2cd6b926b543729f9ffbc0d6c9f7b65e22da4a1a4a1e7",
    "0.2.2": "55d7ec25816b114d29a66586809afbc387f99974558a5c485b7c1fbb954a85ee",
    "0.2.3": "ebcafd661c4b7cabc495d22726f3f4d0b121eb4e70ce518b2e08660702d4bb3f",
}
# A change of 1e-3 in any tensor changes energies or forces by more than this.
NOTICED = 1e-12


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(file of the package, converted file) of a stored model."""
    folder = tmp_path_factory.mktemp("tace")

    @lru_cache(maxsize=None)
    def make(name):
        source = folder / f"{name}.pt"
        source.write_bytes(lzma.decompress((GOLDEN / f"{name}.pt.xz").read_bytes()))
        convert(source, folder / f"{name}.equi", head=STORED[name], quiet=True, license="MIT", citation="none: random numbers")
        return source, folder / f"{name}.equi"

    return make


@pytest.fixture
def changed(files, tmp_path):
    """A stored file whose content has been changed."""

    def change(function, name=FIRST):
        raw = torch.load(files(name)[0])
        made = function(raw)
        torch.save(made if made is not None else raw, tmp_path / "changed.pt")
        return tmp_path / "changed.pt"

    return change


@pytest.mark.parametrize("name", STORED)
def test_lammps_gives_the_stored_results(name, files):
    old_versions.assert_stored(files(name)[1], GOLDEN / f"{name}.npz", "double", "exact")
    old_versions.assert_stored(files(name)[1], GOLDEN / f"{name}.npz", "double", None)
    old_versions.assert_stored(files(name)[1], GOLDEN / f"{name}.npz", "mixed", None, laws.assert_mixed)


@pytest.mark.parametrize("name", STORED)
def test_the_libtorch_reference_gives_the_stored_results(name, files):
    old_versions.assert_stored(files(name)[1], GOLDEN / f"{name}.npz", "double", "exact", keywords=("reference", "yes"))


@pytest.mark.parametrize("name", STORED)
def test_a_second_reader_gives_the_stored_results(name, files):
    evaluator = EquiEvaluator(files(name)[1])
    for title, (atoms, energy, forces, _) in old_versions.stored(GOLDEN / f"{name}.npz"):
        mine = evaluate(evaluator, atoms)
        assert mine[0] == pytest.approx(energy, abs=1e-12 * len(atoms)), title
        assert np.abs(mine[1] - forces).max() < 1e-11, title


def evaluate(evaluator, atoms):
    cell = atoms.cell.complete().array if atoms.pbc.any() else None
    return evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, cell, atoms.pbc)


@pytest.mark.parametrize("name", STORED)
def test_forces_are_derivatives_and_turn_with_a_structure_and_its_mirror_image(name, files):
    evaluator, atoms = EquiEvaluator(files(name)[1]), dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    energy, forces = evaluate(evaluator, atoms)[:2]
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    for matrix in (turn, -turn):  # one of them is a reflection
        moved = Atoms(atoms.symbols, atoms.positions @ matrix.T)
        found = evaluate(evaluator, moved)
        assert found[0] == pytest.approx(energy, abs=1e-11) and np.abs(found[1] - forces @ matrix.T).max() < 1e-11
    # The layer norms of these networks are steep; a larger step shows the fifth derivative.
    step, direction = 2e-4, np.random.default_rng(4).standard_normal(atoms.positions.shape)
    slope = sum(
        weight * evaluate(evaluator, Atoms(atoms.symbols, atoms.positions + n * step * direction))[0] / (12 * step)
        for n, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1))
    )
    assert slope == pytest.approx(-np.sum(forces * direction), rel=1e-8)


@pytest.mark.parametrize("name", [FIRST, EXPERTS])
def test_stress_is_the_derivative_of_the_energy_and_ranks_agree(name, files):
    named = dict(laws.structures(ELEMENTS, 4.2))
    assert laws.strain_error(files(name)[1], named["sheared"], step=5e-4) <= laws.STRAIN
    assert laws.rank_error(files(name)[1], named["rocksalt"] * (2, 1, 1), 4) <= laws.RANKS


@pytest.mark.parametrize("name", [FIRST, EXPERTS])
def test_elements_that_are_left_out_change_nothing(name, files, tmp_path):
    source, path = files(name)
    document = convert(source, tmp_path / "two.equi", elements=["Na", "O"], quiet=True)
    assert document["elements"] == ["Na", "O"]
    atoms = dict(laws.structures(["O", "Na"], 4.2))["cluster"]
    found = [evaluate(EquiEvaluator(file), atoms) for file in (path, tmp_path / "two.equi")]
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-13) and np.abs(found[0][1] - found[1][1]).max() < 1e-13


def test_reading_needs_neither_the_package_nor_torch(files):
    laws.assert_reads_without(("torch", "tace", "eqx", "e3nn", "lightning"), "TACE", [files(name)[0] for name in (FIRST, EXPERTS)], 15)


def test_the_commands_know_the_files(files, tmp_path, capsys):
    for name, head in STORED.items():
        source, path = files(name)
        assert frameworks.detect(source) is frameworks.TACE
        words = ["--head", head] if head else []
        assert main(["convert", "-q", str(source), "-o", str(tmp_path / "model.equi"), *words]) == 0
        assert main(["info", str(path)]) == 0
        assert "TACE, a model of tace" in capsys.readouterr().out


def test_a_level_of_theory_is_chosen_by_its_name(files, tmp_path):
    source = files(THREE)[0]
    with pytest.raises(EquiError, match=r"several levels of theory \(fidelities\), choose one: --head PBE \| r2SCAN"):
        convert(source, tmp_path / "model.equi", quiet=True)
    with pytest.raises(EquiError, match="has no head 'B3LYP', only PBE, r2SCAN"):
        convert(source, tmp_path / "model.equi", head="B3LYP", quiet=True)
    provenance = convert(source, tmp_path / "model.equi", head="PBE", quiet=True)["provenance"]
    assert provenance["head"] == "PBE"
    atoms = dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    energies = [evaluate(EquiEvaluator(path), atoms)[0] for path in (files(THREE)[1], tmp_path / "model.equi")]
    assert abs(energies[0] - energies[1]) > 1e-3


def test_the_energy_of_a_single_atom_is_remarked_on(files):
    """The options of the first file ask for another one in the package."""
    notes = [equi_file.read(files(name)[1])[0]["provenance"].get("notes", "") for name in (FIRST, EXPERTS)]
    assert "one atom without neighbors another energy" in notes[0] and "one atom" not in notes[1]


def test_published_models_are_listed():
    names = {model.convert for model in published.MODELS if model.framework == "tace"}
    assert names == {"TACE-OAM-L.pt", "TACE-OAM-7M.pt", "TACE-OMat24-L.pt", "TACE-OMat24-7M.pt"}


# ---- other forms of files


def as_checkpoint(raw):
    """What lightning writes, with an exponential average in the order of the parameters."""
    state = {f"model.{name}": torch.zeros_like(t) if is_trained(name, t) else t for name, t in raw["state_dict"].items()}
    average = [t for name, t in raw["state_dict"].items() if is_trained(name, t)]
    options = {key: value for key, value in raw["cfg"].items() if key != "statistics"}
    cfg = {"model": {"config": options}, "loss": {"loss_property": raw["target_property"]}}
    return {
        "state_dict": state, "hyper_parameters": {"cfg": cfg, "statistics": raw["statistics"]},
        "ema_state_dict": {"shadow_params": average}, "pytorch-lightning_version": "2.5.0",
    }  # fmt: skip


def is_trained(name, tensor):
    ends = (".weight", ".bias", ".alpha", ".beta", ".affine_weight", ".affine_bias")
    return tensor.numel() > 0 and (name.endswith(ends) or name.rpartition(".")[0].endswith(".weight"))


def assert_same_model(path, other):
    assert equi_file.read(path)[0]["layers"] == equi_file.read(other)[0]["layers"]
    mine, theirs = (equi_file.read(file)[1] for file in (path, other))
    assert mine.keys() == theirs.keys() and all(np.array_equal(mine[key], theirs[key]) for key in mine)


@pytest.mark.parametrize("name", [FIRST, EXPERTS])
def test_a_checkpoint_has_the_numbers_of_its_exponential_average(name, files, changed, tmp_path):
    source = changed(as_checkpoint, name)
    assert frameworks.detect(source) is frameworks.TACE
    convert(source, tmp_path / "model.equi", quiet=True)
    assert_same_model(tmp_path / "model.equi", files(name)[1])

    def without_one(raw):
        found = as_checkpoint(raw)
        found["ema_state_dict"]["shadow_params"].pop()
        return found

    with pytest.raises(EquiError, match="ema_state_dict: its .* tensors are not those of the .* parameters"):
        convert(changed(without_one, name), tmp_path / "other.equi", quiet=True)


def test_old_names_of_tensors_are_those_of_new_ones(files, changed, tmp_path):
    """Those of an embedding by a linear map of the one-hot, and of the numbers of a density."""

    def older(raw):
        state = raw["state_dict"]
        rows = state.pop("readout_fn.representation.node_embedding.embedding.weight")
        state["readout_fn.representation.node_embedding.elem_emb1.weight"] = rows.flatten() * len(rows) ** 0.5
        for name in [name for name in state if ".scatter_norm." in name]:
            state[name.replace(".scatter_norm.", ".")] = state.pop(name)

    convert(changed(older, THREE), tmp_path / "model.equi", head="r2SCAN", quiet=True)
    atoms = dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    found = [evaluate(EquiEvaluator(path), atoms) for path in (files(THREE)[1], tmp_path / "model.equi")]
    # The root of the number of elements is rounded to float32.
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6) and found[0][0] != pytest.approx(-4.0, abs=0.1)


def config(section=None, **values):
    def change(raw):
        place = raw["cfg"]
        for key in section.split(".") if section else ():
            place[key] = dict(place.get(key) or {})
            place = place[key]
        place.update(values)

    return change


def without(*places):
    def change(raw):
        for place in places[:-1]:
            raw = raw[place]
        del raw[places[-1]]

    return change


def tensor(name, function):
    def change(raw):
        name_in_file = f"readout_fn.{name}"
        raw["state_dict"][name_in_file] = function(raw["state_dict"][name_in_file])

    return change


def put(name, value):
    return lambda raw: raw["state_dict"].update({f"readout_fn.{name}": value})


REFUSED = [
    (config("atomic_basis", type="so2"), "option atomic_basis.type: so2 is not supported, only cgtp, normal, .*edge frames, such as TECE"),
    (config("atomic_basis", type=["cgtp", "uu_o2"]), "option atomic_basis.type: uu_o2 is not supported"),
    (config("atomic_basis", type=["cgtp"]), "option atomic_basis.type: expected a value for each of 2 layers"),
    (config("atomic_basis", l1l2="~"), "option atomic_basis.l1l2: ~ is not supported, only none, <"),
    (config("atomic_basis", scatter_norm="sum"), "option atomic_basis.scatter_norm: sum is not supported"),
    (config("atomic_basis", tensor_act="selu"), "option atomic_basis.tensor_act: selu is not supported"),
    (config("product_basis", type="gtp"), "option product_basis.type: gtp is not supported"),
    (config("product_basis", correlation=4), "option product_basis.correlation: 4 is not supported, only 1, 2, 3"),
    (config("product_basis", correlation=3, nonlinear="silu_bilineargate"), "option product_basis.nonlinear: the gate needs correlation 2"),
    (config("product_basis", agnostic=True, num_expert=2), "option product_basis.agnostic: True does not go with experts"),
    (config("radial_basis", radial_basis="j2"), "option radial_basis.radial_basis: j2 is not supported, only j0, bessel, gaussian"),
    (config("radial_basis", cutoff_fn="mollifier"), "option radial_basis.cutoff_fn: mollifier is not supported, only c2poly"),
    (config("radial_basis", cutoff_fn="c3poly"), "option radial_basis.cutoff_fn: c3poly is not supported"),
    (config("radial_basis", distance_transform="Soft"), "option radial_basis.distance_transform: Soft is not supported, only none, Agnesi"),
    (config("radial_basis", use_dydynamic_cutoff=True), "option radial_basis.use_dydynamic_cutoff: True is not supported, only False"),
    (config("radial_basis", polynomial_cutoff=1), "option radial_basis.polynomial_cutoff: expected a whole number from 2 on, found 1"),
    (config("radial_basis", hidden=7), "option radial_basis.hidden: expected a list of whole numbers"),
    (config("radial_basis", bias=1), "option radial_basis.bias: expected true or false, found 1"),
    (config("edge_embedding", type="nonlinear"), "option edge_embedding.type: nonlinear is not supported with edge_update.type element2"),
    (config("edge_update", type="element2_v2"), "tensor representation.edge_updates.0.source_embedding.weight: expected the shape"),
    (config("long_range.les", enable=True), "option long_range.les.enable: True is not supported, only False"),
    (config("universal_embedding.total_charge", enable=True), "option universal_embedding.total_charge.enable: True is not supported"),
    (config("atomic_basis", edge_info_type="glu"), "option atomic_basis.edge_info_type: glu is not supported, only mlp"),
    (config(_target_="tace.models.TACEV1"), r"a model of tace 0.1 \(TACEV1\), whose Cartesian tensors are not supported"),
    (config(inter={}, prod={}), r"a model of tace 0.1 \(TACEV1\)"),
    (config(_target_="tace.models.cartTACE"), "option _target_: tace.models.cartTACE is not supported, only tace.models.e3nnTACE"),
    (config("wrapper", _target_="mine.Model"), "option wrapper: mine.Model is not supported, only tace.models.TensorModel"),
    (config(num_channel=4), r"tensor representation.node_embedding.embedding.weight: expected the shape \[3, 4\], found \[3, 3\]"),
    (config(lmax=9, Lmax=9), "option lmax 9 is not supported, at most 8"),
    (config(num_layers=0), "option num_layers: expected a whole number from 1 on"),
    (config(new_head=2), "option new_head is not known, it may change the energy; --ignore-key new_head lets it pass"),
    (config("radial_basis", r_core=1.0), "option r_core of section radial_basis is not known"),
    (config(resnet=3), "option resnet: expected a section"),
    (lambda raw: raw.update(target_property=["energy", "direct_forces"]), "option target_property: direct_forces is not supported"),
    (lambda raw: raw.update(target_property=["direct_dipole"]), "option target_property: the model has no energy"),
    (without("cfg"), "its settings are not those of a model of TACE: no options"),
    (lambda raw: raw.update(statistics=[{}]), "statistics: expected avg_num_neighbors of each data set"),
    (put("representation.interactions.0.linear_up.lora_A.0", torch.ones(3, 2)), "lora_A.0: the model has low-rank updates .*tace-convert-lora"),
    (put("les.weight", torch.ones(3)), "tensor les.weight is not part of a TACE model of these options"),
    (without("state_dict", "readout_fn.representation.products.1.linear.weight"), "products.1.linear.weight is missing"),
    (tensor("representation.interactions.1.edge_info.mlp.0.weight", lambda w: w[:-1]), "edge_info.mlp.0.weight: expected the shape"),
    (tensor("atomic_numbers", lambda z: z.flip(0)), "atomic_numbers: expected different atomic numbers in ascending order"),
]  # fmt: skip


@pytest.mark.parametrize("change, words", REFUSED, ids=lambda p: str(p)[:40] if isinstance(p, str) else "")
def test_what_is_not_represented_is_refused_by_name(change, words, changed, tmp_path):
    with pytest.raises(EquiError, match=words):
        convert(changed(change), tmp_path / "model.equi", quiet=True)
    assert not (tmp_path / "model.equi").exists()


def test_an_unknown_key_passes_if_the_user_vouches_for_it(files, changed, tmp_path):
    assert main(["convert", "-q", str(changed(config(new_head=2))), "-o", str(tmp_path / "model.equi"), "--ignore-key", "new_head"]) == 0
    assert_same_model(tmp_path / "model.equi", files(FIRST)[1])


def test_compiled_and_damaged_files_are_named(files, tmp_path, capsys):
    compiled = tmp_path / "model.pt2"
    with zipfile.ZipFile(compiled, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("model/data/aotinductor/model/x_metadata.json", '{"tace_format": "tace_graph_v1"}')
    whole = files(FIRST)[0].read_bytes()
    (tmp_path / "half.pt").write_bytes(whole[: len(whole) // 2])
    for name, words in (("model.pt2", "compiled by AOTInductor"), ("half.pt", "")):
        assert main(["convert", "-q", str(tmp_path / name), "-o", str(tmp_path / "model.equi")]) == 1
        message = capsys.readouterr().err
        assert words in message and name in message and message.count("\n") == 1


def test_irreps_of_layers_are_those_of_the_package():
    """Counted by hand."""
    even, odd, two = Irrep(0, 1), Irrep(1, -1), Irrep(2, 1)
    assert tace_model.product_irreps([even, odd], [even, odd, two], False, 1) == [even, odd]
    assert Irrep(1, 1) in tace_model.product_irreps([even, odd], [even, odd, two], True, 1)
    paths = tace_model.paths_between([even, odd], [even, odd], [even, odd], None, identical=True)
    assert paths == [(0, 0, even), (1, 1, even), (0, 1, odd), (1, 0, odd)]
    assert tace_model.paths_between([odd], [odd], [Irrep(1, 1)], None, identical=True) == []
    assert [i >= j for i, j, _ in tace_model.paths_between([even, odd], [even, odd], [odd], ">=")] == [True]


# ---- against the package itself


def structures(name):
    """Without a single atom: the package gives it another energy if all_atoms is false, as in the first variant."""
    elements = ["Si"] if name == "one_element" else ELEMENTS
    return [(title, atoms) for title, atoms in laws.structures(elements, 4.2) if name != "example" or title != "isolated"]


@lru_cache(maxsize=None)
def oracle(name):
    from equi_tools.frameworks.tace import oracle as tace_oracle

    return tace_oracle.float64_calculator(built(f"tace/{name}.pt"), VARIANTS.get(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VARIANTS, "one_element"])
def test_lammps_gives_the_packages_own_results(name):
    path, named = built(f"tace/{name}.equi"), structures(name)
    laws.assert_within_bars(laws.differences(path, oracle(name), named, radial="exact"))
    laws.assert_within_bars(laws.differences(path, oracle(name), named, radial="exact", keywords=("reference", "yes")))
    laws.assert_within_bars(laws.differences(path, oracle(name), named))
    laws.assert_mixed(laws.differences(path, oracle(name), named, "mixed"))
    atoms = named[0][1]
    atoms.calc = oracle(name)
    assert np.abs(atoms.get_forces()).max() > 1e-3, "the model does not test forces"
    assert np.abs(atoms.get_stress()).max() > 1e-5, "the model does not test stresses"


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_energies_of_atoms_and_ranks_agree(name):
    path, atoms = built(f"tace/{name}.equi"), dict(structures(name))["sheared"]
    atoms.calc = oracle(name)
    expected = atoms.get_potential_energies()
    found = EquiEvaluator(path).evaluate(atoms.get_chemical_symbols(), atoms.positions, atoms.cell.array, atoms.pbc)
    assert np.abs(found[3] - expected).max() < 1e-11
    assert max(laws.rank_error(path, dict(structures(name))["rocksalt"] * (2, 1, 1), ranks) for ranks in (2, 8)) <= laws.RANKS


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["spherical_tensor", "wigner_tensor", "wigner_tensor_element2"])
@pytest.mark.parametrize("applies_cutoff", [True, False])
def test_embeddings_by_neighbors_are_those_of_the_package(kind, applies_cutoff, tmp_path):
    from equi_tools.frameworks.tace import oracle as tace_oracle
    from test_models.tace import config_of, make_file

    options = {"node_embedding": {"type": kind}, "radial_basis": {"apply_cutoff": applies_cutoff}}
    source = make_file(tmp_path / "model.pt", config_of("defaults", **options))
    convert(source, tmp_path / "model.equi", head="PBE", quiet=True)
    calculator, evaluator = tace_oracle.float64_calculator(str(source), "PBE"), EquiEvaluator(tmp_path / "model.equi")
    for title in ("cluster", "sheared"):
        atoms = dict(laws.structures(ELEMENTS, 4.2))[title]
        atoms.calc = calculator
        found = evaluate(evaluator, atoms)
        assert found[0] == pytest.approx(atoms.get_potential_energy(), abs=1e-12)
        assert np.abs(found[1] - atoms.get_forces()).max() < 1e-12 and np.abs(found[1]).max() > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED)
def test_every_number_matters(name, files, tmp_path):
    atoms = dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    laws.assert_every_number_matters(files(name)[1], tmp_path, NOTICED, atoms=atoms)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["o2_cgtp", "co3"])
def test_other_algorithms_are_the_same_function(kind, tmp_path):
    from tace.lightning import convert_cgtp, export_tace, load_tace

    model = load_tace(str(built("tace/example.pt")), device="cpu")
    export_tace(convert_cgtp(model, kind.removesuffix("_cgtp")), str(tmp_path / "other.pt"))
    convert(tmp_path / "other.pt", tmp_path / "other.equi", quiet=True)
    assert_same_model(tmp_path / "other.equi", built("tace/example.equi"))


@pytest.mark.slow
def test_whole_models_and_separate_matrices_are_the_same_model(tmp_path):
    from tace.lightning import export_tace, load_tace
    from tace.models.linear import switch_e3nn_weight_layout

    model = load_tace(str(built("tace/experts.pt")), device="cpu")
    torch.save(model, tmp_path / "whole.pth")
    export_tace(switch_e3nn_weight_layout(model, "matrix"), str(tmp_path / "matrices.pt"))
    for name in ("whole.pth", "matrices.pt"):
        convert(tmp_path / name, tmp_path / "model.equi", quiet=True)
        assert_same_model(tmp_path / "model.equi", built("tace/experts.equi"))


@pytest.mark.slow
@pytest.mark.parametrize("version", WHEELS)
def test_older_versions_give_the_same(version, tmp_path):
    """Their constants are float32, and so is the precision of their results."""
    old_versions.run("made_by_tace.py", [f"tace=={version} --hash=sha256:{WHEELS[version]}"], tmp_path)
    sources = sorted(tmp_path.glob("*.pt"))
    assert len(sources) == 4
    for source in sources:
        head = "PBE" if source.stem in ("defaults", "three_factors") else None
        convert(source, tmp_path / "model.equi", head=head, quiet=True)
        evaluator = EquiEvaluator(tmp_path / "model.equi")
        for title, (atoms, energy, forces, _) in old_versions.stored(source.with_suffix(".npz")):
            found = evaluate(evaluator, atoms)
            assert abs(found[0] - energy) / len(atoms) < 1e-7 and np.abs(found[1] - forces).max() < 1e-6, (source.stem, title)


@pytest.mark.slow
def test_a_checkpoint_of_a_training_gives_the_packages_own_results(tmp_path):
    """Lightning writes it, with an exponential average that differs from the last numbers."""
    import lightning
    from equi_tools.frameworks.tace import oracle as tace_oracle
    from tace.lightning.lit_model import LightningWrapperModel
    from tace.utils.callbacks import EMACallback
    from test_models import tace as tace_models

    options = tace_models.config_of("experts")
    model, statistics = tace_models.make_model(options), options.pop("statistics")
    loss = {
        "_target_": "tace.utils.loss.NormalLoss", "loss_property": options.pop("target_property")[:2],
        "loss_function_name": ["mse_energy_per_atom", "mse_forces"], "loss_property_weights": [1.0, 5.0],
    }  # fmt: skip
    cfg = {"model": {"config": options}, "loss": loss, "misc": {}, "dataset": {}, "optimizer": {"_target_": "torch.optim.AdamW", "lr": 1e-3}}
    training, average = LightningWrapperModel(cfg, model, loss["loss_property"], [], statistics), EMACallback()
    trainer = lightning.Trainer(logger=False, enable_checkpointing=False, callbacks=[average], accelerator="cpu", enable_progress_bar=False)
    trainer.strategy.connect(training)
    average.on_fit_start(trainer, training)
    for parameter in model.parameters():
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    convert(tmp_path / "last.ckpt", tmp_path / "model.equi", quiet=True)
    atoms = dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    atoms.calc = tace_oracle.float64_calculator(tmp_path / "last.ckpt")
    found = evaluate(EquiEvaluator(tmp_path / "model.equi"), atoms)
    assert found[0] == pytest.approx(atoms.get_potential_energy(), abs=1e-11) and np.abs(found[1] - atoms.get_forces()).max() < 1e-11


@pytest.mark.slow
def test_the_packages_calculator_is_near():
    """In float32, as its users run it."""
    from equi_tools.frameworks.tace import oracle as tace_oracle

    theirs = tace_oracle.framework_calculator(built("tace/example.pt"))
    atoms = dict(structures("example"))["sheared"]
    found = laws.native(built("tace/example.equi"), radial="exact")(atoms)
    atoms.calc = theirs
    assert abs(found.energy - atoms.get_potential_energy()) / len(atoms) < 1e-5
    assert np.abs(found.forces - atoms.get_forces()).max() < 1e-4


@pytest.mark.slow
def test_compare_runs_the_package_in_its_own_environment(tmp_path, capsys):
    atoms = dict(laws.structures(ELEMENTS, 4.2))["cluster"]
    laws.assert_compare_agrees(built("tace/experts.pt"), built("tace/experts.equi"), atoms, tmp_path, capsys)
