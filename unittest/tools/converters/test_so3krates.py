# SPDX-License-Identifier: MIT
"""SO3LR and So3krates models -> .equi: LAMMPS against stored numbers of the package, and, slow, against the package itself.

The slow tests run in the environment of tools/requirements-so3krates.txt, the stored files are those of golden/make_so3krates.py.
"""

import importlib.util
import lzma
import zipfile
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import old_versions
import pytest
import tensornet_laws as laws
import torch
from ase import Atoms
from ase.build import molecule
from built_models import built
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file, frameworks, published
from equi_tools.ase import EquiCalculator
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.so3krates import checkpoint as so3krates_checkpoint

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
SO3LR, SHORT = "so3lr-0.2.1", "so3krates-0.2.1"
# Results of systems, by the ending of their name, and the keywords of the pair style.
SYSTEMS = {"": (), "_cation": ("charge", "1", "spin", "2"), "_anion": ("charge", "-2")}
# As test_models.so3krates makes them, with the systems that they depend on.
VARIANTS = {
    "everything": ({}, {"charge": 1}, {"charge": -1, "spin": 2}, {"spin": 3}), "repulsion": ({},), "one_degree": ({}, {"charge": -1}),
    "dispersion": ({},), "short_range": ({}, {"spin": 2}), "heads": ({}, {"charge": 1}),
}  # fmt: skip
HEADS = {"heads": "1"}
ELEMENTS = ["O", "Na", "Cl"]
# A change of 1e-3 in any tensor changes energies or forces by more than this.
NOTICED = 1e-12


def keywords_of(system):
    return tuple(str(word) for pair in system.items() for word in pair)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(file of the package, converted file) of a stored model."""
    folder = tmp_path_factory.mktemp("so3krates")

    @lru_cache(maxsize=None)
    def make(name):
        source = folder / f"{name}.model"
        source.write_bytes(lzma.decompress((GOLDEN / f"{name}.model.xz").read_bytes()))
        convert(source, source.with_suffix(".equi"), quiet=True, license="MIT", citation="none: random numbers")
        return source, source.with_suffix(".equi")

    return make


@pytest.fixture
def changed(files, tmp_path):
    """A stored file with other bytes in its pickle."""

    def change(name, old, new):
        path = tmp_path / f"{name}.model"
        with zipfile.ZipFile(files(name)[0]) as archive, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as copy:
            for entry in archive.namelist():
                data = archive.read(entry)
                if entry.endswith("/data.pkl"):
                    assert old in data
                    data = data.replace(old, new)
                copy.writestr(entry, data)
        return path

    return change


@pytest.fixture
def numbers_alone(files, tmp_path):
    """(file with the numbers of a stored model, the settings of its training)."""

    def make(name=SO3LR, wrap=dict, more=()):
        found = so3krates_checkpoint.load(files(name)[0])
        path = tmp_path / f"{name}.pth"
        state = {key: torch.tensor(np.asarray(array)) for key, array in found.state.source.items()}
        # A state_dict has the networks of functions of distances twice.
        state |= {key.replace(".filter_net_", ".euclidean_attention_block.filter_net_"): array for key, array in state.items()}
        torch.save(wrap(state | dict(more)), path)
        fixed = so3krates_checkpoint.FIXED_IN_TRAINING
        return path, {key: value for key, value in found.options.items() if key not in fixed}

    return make


def neutral(path, folder):
    """A file of the model for neutral singlets alone. Without effect are shares of charges, and in the first layer of a model whose
    tensors begin with zeros the matrices that multiply them: the former are left out, the latter are zeros."""
    document, tensors = equi_file.read(path)
    mixture = document.pop("mixture", {"tensors": {}})
    document.pop("data_hash")
    for share in mixture.get("shares", {}).values():
        for name in (share["query"], share["key"], share["value"], *share["weights"]):
            del tensors[name]
    for name, kind in mixture["tensors"].items():
        if kind == "charge":
            tensors[name] = 0 * tensors[name]
    for kind in ("inv", "ev") if "first_tensors.bias" not in tensors else ():
        name = f"euclidean_transformers.0.filter_net_{kind}.mlp_ev.0.weight"
        tensors[name] = 0 * tensors[name]
    equi_file.write(folder / "neutral.equi", document, tensors)
    return folder / "neutral.equi"


@pytest.mark.parametrize("name, ending", [(SHORT, ""), *((SO3LR, ending) for ending in SYSTEMS)])
def test_lammps_gives_the_stored_results(name, ending, files):
    old_versions.assert_stored(files(name)[1], GOLDEN / f"{name}{ending}.npz", radial="exact", keywords=SYSTEMS[ending])


@pytest.mark.parametrize("name", [SO3LR, SHORT])
def test_a_second_reader_gives_the_stored_results(name, files, tmp_path):
    evaluator, bars, found = EquiEvaluator(neutral(files(name)[1], tmp_path)), laws.compare.bars_for("double", "exact"), []
    for title, (atoms, energy, forces, stress) in old_versions.stored(GOLDEN / f"{name}.npz"):
        cell = atoms.cell.complete().array if atoms.pbc.any() else None
        mine = evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, cell, atoms.pbc)
        result = SimpleNamespace(energy=mine[0], forces=mine[1], stress=mine[2])
        found.append(laws.compare.difference(title, result, energy, forces, stress, bars))
    laws.assert_within_bars(found)


def test_tables_and_mixed_precision_stay_within_their_bars(files):
    _, path = files(SO3LR)
    for precision, radial, bars in (("double", None, laws.assert_within_bars), ("mixed", None, laws.assert_mixed)):
        old_versions.assert_stored(path, GOLDEN / f"{SO3LR}.npz", precision, radial, bars)


def test_the_stress_is_the_derivative_of_the_energy(files):
    """With small steps, because third derivatives of cutoff functions jump. The stored results of the other model have its stress."""
    assert laws.strain_error(files(SO3LR)[1], dict(laws.structures(ELEMENTS, 4.0))["sheared"], step=2e-4) <= laws.STRAIN


@pytest.mark.parametrize("name", [SO3LR, SHORT])
def test_ranks_agree(name, files):
    atoms = dict(laws.structures(ELEMENTS, 4.0))["rocksalt"] * (2, 1, 1)
    assert laws.rank_error(files(name)[1], atoms, 4) <= laws.RANKS


@pytest.mark.slow
@pytest.mark.parametrize("name, cutoff", [(SO3LR, 4.0), (SHORT, 4.4)])
def test_every_number_matters(name, cutoff, files, tmp_path):
    """The system is a neutral singlet, for which shares of charges have no effect. Some atoms are as close as their repulsion reaches."""
    atoms = dict(laws.structures(ELEMENTS, cutoff))["cluster"]
    atoms.positions *= 0.65
    laws.assert_every_number_matters(neutral(files(name)[1], tmp_path), tmp_path, NOTICED, atoms=atoms)


@pytest.mark.parametrize("name", [SO3LR, SHORT])
def test_elements_that_are_left_out_change_nothing(name, files, tmp_path):
    source, path = files(name)
    document = convert(source, tmp_path / "two.equi", elements=["Na", "O"], quiet=True)
    assert document["elements"] == ["Na", "O"] and equi_file.read(path)[0]["elements"] == ELEMENTS
    atoms = dict(laws.structures(["O", "Na"], 4.0))["cluster"]
    found = [laws.native(file, radial="exact")(atoms) for file in (path, tmp_path / "two.equi")]
    assert found[0].energy == pytest.approx(found[1].energy, abs=1e-12)
    assert np.abs(found[0].forces - found[1].forces).max() < 1e-12


def test_elements_without_a_trained_scale_are_converted_only_on_request(files, tmp_path):
    source, _ = files(SO3LR)
    document = convert(source, tmp_path / "other.equi", elements=["Na", "Fe"], quiet=True)
    assert document["elements"] == ["Na", "Fe"]
    # The tables of charges end at 99.
    with pytest.raises(EquiError, match="does not know Fm"):
        convert(source, tmp_path / "other.equi", elements=["Fm"], quiet=True)
    assert convert(files(SHORT)[0], tmp_path / "other.equi", elements=["Fm"], quiet=True)["elements"] == ["Fm"]


def test_cutoffs_are_those_of_the_user_or_of_the_file(files, tmp_path):
    source, path = files(SO3LR)

    def cutoffs(file):
        layers = equi_file.read(file)[0]["layers"]
        (coulomb,), (dispersion,) = ([layer for layer in layers if layer["type"] == kind] for kind in ("coulomb", "dispersion"))
        return coulomb["cutoff"], coulomb["kernel"]["on"], dispersion["cutoff"], dispersion["damping"]

    assert cutoffs(path) == (7.3, 0.45 * 7.3, 7.3, 1.4)
    words = ["--coulomb-cutoff", "6", "--dispersion-damping", "2.5"]
    assert main(["convert", "-q", str(source), "-o", str(tmp_path / "model.equi"), *words]) == 0
    assert cutoffs(tmp_path / "model.equi") == (6.0, 0.45 * 6.0, 6.0, 2.5)
    stored = equi_file.read(tmp_path / "model.equi")[0]["provenance"]
    assert stored["coulomb_cutoff"] == "6.0" and stored["dispersion_damping"] == "2.5"
    for words, message in ((["--coulomb-cutoff", "3"], "a cutoff of at least r_max"), (["--dispersion-damping", "8"], "below r_max_lr")):
        with pytest.raises(EquiError, match=message):
            convert(source, tmp_path / "x.equi", quiet=True, **{words[0][2:].replace("-", "_"): float(words[1])})


def test_files_that_leave_cutoffs_open_have_those_of_the_calculator(numbers_alone, tmp_path):
    path, settings = numbers_alone()
    settings |= {"r_max_lr": None, "dispersion_energy_cutoff_lr_damping": None}
    layers = convert(path, tmp_path / "model.equi", quiet=True, settings=settings)["layers"]
    assert {layer["cutoff"] for layer in layers if layer["type"] in ("coulomb", "dispersion")} == {12.0}
    assert [layer["damping"] for layer in layers if layer["type"] == "dispersion"] == [2.0]


def test_numbers_alone_and_a_checkpoint_give_the_model_of_the_module(files, numbers_alone, tmp_path):
    expected = equi_file.read(files(SO3LR)[1])
    for wrap in (dict, lambda state: {"model": state, "optimizer": {}, "config": {"ARCHITECTURE": {"degrees": [1]}}}):
        path, settings = numbers_alone(wrap=wrap)
        document = convert(path, tmp_path / "model.equi", quiet=True, settings=settings)
        assert document["layers"] == expected[0]["layers"] and document["elements"] == expected[0]["elements"]
        tensors = equi_file.read(tmp_path / "model.equi")[1]
        assert all(np.array_equal(tensors[key], expected[1][key]) for key in expected[1])


def test_settings_are_read_from_a_file(numbers_alone, tmp_path):
    path, settings = numbers_alone()
    lines = ["GENERAL:", "  seed: 1", "ARCHITECTURE:"]
    lines += [f"  {key}: {'null' if value is None else str(value).lower()}" for key, value in settings.items()]
    (tmp_path / "settings.yaml").write_text("\n".join(lines) + "\n")
    words = ["--settings", str(tmp_path / "settings.yaml")]
    assert main(["convert", "-q", str(path), "-o", str(tmp_path / "model.equi"), *words]) == 0


def test_reading_needs_neither_the_package_nor_torch(files):
    laws.assert_reads_without(("torch", "so3krates_torch"), "SO3KRATES", [files(name)[0] for name in (SO3LR, SHORT)], 20)


def test_the_commands_know_the_files(files, tmp_path, capsys):
    for name, architecture in ((SO3LR, "SO3LR"), (SHORT, "So3krates")):
        source, path = files(name)
        assert frameworks.detect(source) is frameworks.SO3KRATES
        assert main(["convert", str(source), "-o", str(tmp_path / "model.equi")]) == 0
        assert main(["info", str(path)]) == 0
        text = capsys.readouterr().out
        assert f"{architecture}, a model of so3krates" in text
        assert ("charge and spin are keywords of pair_style" in text) == (name == SO3LR)


@pytest.mark.parametrize("words", [{"charge": 1.0}, {"spin": 2.0}])
def test_charge_and_spin_are_keywords_of_the_pair_style(words, files, tmp_path):
    with pytest.raises(EquiError, match="the file is one for all systems, whose (charge|spin) is a keyword of pair_style"):
        convert(files(SO3LR)[0], tmp_path / "model.equi", quiet=True, **words)


def test_a_charge_is_divided_among_all_atoms(files):
    """Two cells share two charges as one cell does one, except for a small number that is added to a sum over atoms."""
    atoms, path = dict(laws.structures(ELEMENTS, 4.0))["rocksalt"], files(SO3LR)[1]
    one, two = (laws.native(path, radial="exact", keywords=("charge", str(q)))(atoms * (q, 1, 1)).energy for q in (1, 2))
    assert two == pytest.approx(2 * one, rel=1e-5) and two != pytest.approx(2 * one, rel=1e-12)
    neutral = laws.native(path, radial="exact")(atoms).energy
    assert abs(neutral - one) > 1e-3


REFUSED = [
    ({"use_pme": True}, "option use_pme true: an Ewald sum is not supported"),
    ({"cutoff_fn": "exponential"}, "option cutoff_fn: expected phys or cosine or polynomial, found exponential"),
    ({"cutoff_fn": "polynomial", "r_max": -1.0}, "option r_max: expected a positive number"),
    ({"degrees": [2, 1]}, r"option degrees: expected different whole numbers up to 4 in ascending order, found \[2, 1\]"),
    ({"degrees": [1, 1]}, "option degrees: expected different whole numbers"),
    ({"degrees": [1, 5]}, "option degrees: expected different whole numbers up to 4"),
    ({"degrees": [1, 2, 3, 4], "num_heads": 5}, "option num_features: expected a multiple of 4, of num_heads"),
    ({"qk_non_linearity": "silu"}, "option qk_non_linearity: expected identity, found silu"),
    ({"activation_fn": "gelu"}, "option activation_fn: expected silu"),
    ({"energy_activation_fn": "gelu"}, "option energy_activation_fn: expected silu or tanh or relu"),
    ({"neighborlist_format_lr": "ordered_sparse"}, "option neighborlist_format_lr: expected sparse"),
    ({"radial_basis_fn": "laguerre"}, "option radial_basis_fn: expected bernstein or gaussian or bessel"),
    ({"radial_basis_fn": "gaussian"}, "tensor radial_embedding.radial_basis_fn.widths is missing"),
    ({"message_normalization": "softmax"}, "option message_normalization"),
    ({"num_layers": 3}, "tensor euclidean_transformers.2"),
    ({"num_layers": 1}, "tensors? euclidean_transformers.1.* not part of a model of so3krates-torch"),
    ({"num_layers": True}, "option num_layers: expected a whole number"),
    ({"residual_mlp_1": False}, "tensors euclidean_transformers.0.mlp_1.1.weight"),
    ({"use_spin_embed": False}, "tensors spin_embedding.Wk"),
    ({"avg_num_neighbors": None}, "setting avg_num_neighbors is missing"),
    ({"energy_regression_dim": 1}, "option energy_regression_dim"),
    ({"new_physics": True, "other": 1}, "options new_physics, other are not known, they may change the energy; --ignore-key"),
    ({"degrees": None}, "give the .model file that was written next to it"),
]  # fmt: skip


@pytest.mark.parametrize("options, words", REFUSED, ids=lambda p: str(p)[:40])
def test_what_is_not_represented_is_refused_by_name(options, words, numbers_alone, tmp_path):
    path, settings = numbers_alone()
    with pytest.raises(EquiError, match=words):
        convert(path, tmp_path / "model.equi", quiet=True, settings=settings | options)
    assert not (tmp_path / "model.equi").exists()


def test_an_unknown_setting_passes_if_the_user_vouches_for_it(numbers_alone, tmp_path):
    path, settings = numbers_alone()
    convert(path, tmp_path / "model.equi", quiet=True, settings=settings | {"comment": 1}, ignore_keys=["comment"])


def test_numbers_that_are_not_understood_are_refused(numbers_alone, tmp_path):
    path, settings = numbers_alone(more={"new_head.weight": torch.ones(3)})
    with pytest.raises(EquiError, match="tensor new_head.weight is not part of a model of so3krates-torch"):
        convert(path, tmp_path / "model.equi", quiet=True, settings=settings)
    path, settings = numbers_alone(more={"euclidean_transformers.0.euclidean_attention_block.lora_A_q_inv": torch.ones(3)})
    with pytest.raises(EquiError, match="lora_A_q_inv: a fine-tuning is not merged with the model"):
        convert(path, tmp_path / "model.equi", quiet=True, settings=settings)
    name = "euclidean_transformers.0.interaction_block.so3_conv_invariants.cg_rep"
    path, settings = numbers_alone(more={name: torch.ones(8)})
    with pytest.raises(EquiError, match=rf"{name}: expected 1/sqrt\(2 l \+ 1\)"):
        convert(path, tmp_path / "model.equi", quiet=True, settings=settings)


BLOCK = b"euclidean_transformer\nEuclideanAttentionBlock"
MODULES = [
    (BLOCK, BLOCK + b"LORA", "layers EuclideanAttentionBlockLORA: a fine-tuning is not merged with the model"),
    (b"models\nSO3LR", b"models\nOther", "expected a model of the classes So3krates, SO3LR, MultiHeadSO3LR, found one of Other"),
    (b"num_heads", b"num_hands", "attribute num_heads of the module is missing"),
]


@pytest.mark.parametrize("old, new, words", MODULES, ids=lambda p: str(p)[:30])
def test_modules_that_are_not_represented_are_refused(old, new, words, changed, tmp_path, capsys):
    source = changed(SO3LR, old, new)
    assert main(["convert", "-q", str(source), "-o", str(tmp_path / "model.equi")]) == 1
    message = capsys.readouterr().err
    assert words in message and str(source) in message and message.count("\n") == 1


def test_modules_have_their_settings(files, tmp_path):
    with pytest.raises(EquiError, match="--settings: the file has the settings of its model"):
        convert(files(SO3LR)[0], tmp_path / "model.equi", quiet=True, settings={"variant": "so3lr"})


def test_the_published_file_is_listed_with_its_license():
    (listed,) = [model for model in published.MODELS if model.framework == "so3krates"]
    assert so3krates_checkpoint.LICENSES[listed.sha256] == listed.license == "MIT"


@pytest.mark.parametrize("system", [{}, {"charge": -1, "spin": 2}], ids=str)
def test_charges_sum_to_the_total_charge_and_respond(system, files):
    cluster = dict(laws.structures(ELEMENTS, 4.0))["cluster"]
    calculator = EquiCalculator(files(SO3LR)[1], radial="exact", **system)
    charges = calculator.get_property("charges", cluster)
    assert abs(charges.sum() - system.get("charge", 0)) < 1e-10 and np.abs(charges).max() > 0.01
    laws.assert_born_charges_are_differences(calculator, cluster)


# ---- against the package itself


def calculator(name, **system):
    from equi_tools.frameworks.so3krates import oracle

    return oracle.float64_calculator(so3krates_checkpoint.load(built(f"so3krates/{name}.model"), **system), HEADS.get(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_lammps_gives_the_packages_own_results(name):
    # The package does not evaluate one atom by several heads.
    named = [(title, atoms) for title, atoms in laws.structures(ELEMENTS, 4.0) if len(atoms) > 1 or name not in HEADS]
    path = built(f"so3krates/{name}.equi")
    for system in VARIANTS[name]:
        theirs, keywords = calculator(name, **system), keywords_of(system)
        laws.assert_within_bars(laws.differences(path, theirs, named, radial="exact", keywords=keywords))
        laws.assert_within_bars(laws.differences(path, theirs, named, keywords=keywords))
        atoms = named[0][1]
        theirs.calculate(atoms)
        if "partial_charges" in theirs.results:
            charges = EquiCalculator(path, radial="exact", **system).get_property("charges", atoms)
            assert np.abs(charges - theirs.results["partial_charges"].reshape(-1)).max() < 1e-10
    laws.assert_mixed(laws.differences(path, calculator(name), named, "mixed"))
    atoms = named[0][1]
    atoms.calc = calculator(name)
    assert np.abs(atoms.get_forces()).max() > 1e-3, "the model does not test forces"
    assert np.abs(atoms.get_stress()).max() > 1e-5, "the model does not test stresses"


@pytest.mark.slow
def test_heads_differ_and_one_is_chosen(tmp_path):
    source = built("so3krates/heads.model")
    with pytest.raises(EquiError, match=r"has several heads, choose one: --head 0 \| 1 \| 2"):
        convert(source, tmp_path / "model.equi", quiet=True)
    with pytest.raises(EquiError, match="has no head '3', only 0, 1, 2"):
        convert(source, tmp_path / "model.equi", quiet=True, head="3")
    atoms, energies = dict(laws.structures(ELEMENTS, 4.0))["cluster"], []
    for head in "012":
        assert convert(source, tmp_path / "model.equi", quiet=True, head=head)["provenance"]["head"] == head
        energies.append(laws.native(tmp_path / "model.equi")(atoms).energy)
    assert len({round(energy, 3) for energy in energies}) == 3


@pytest.mark.slow
def test_numbers_alone_give_the_packages_own_results(numbers_alone, tmp_path):
    from equi_tools.frameworks.so3krates import oracle

    path, settings = numbers_alone()
    convert(path, tmp_path / "model.equi", quiet=True, settings=settings)
    theirs = oracle.float64_calculator(so3krates_checkpoint.load(path, settings=settings))
    laws.assert_within_bars(laws.differences(tmp_path / "model.equi", theirs, laws.structures(ELEMENTS, 4.0), radial="exact"))


def water(number=1, cell=None):
    """Molecules next to each other, or in a cell."""
    random, found = np.random.default_rng(4), Atoms()
    for n in range(number):
        one = molecule("H2O")
        one.rotate(360 * random.random(), random.standard_normal(3))
        one.translate([3.0 * (n % 2), 3.1 * (n // 2 % 2), 3.2 * (n // 4)])
        one.rattle(0.05, seed=n)
        found += one
    if cell is not None:
        found.set_cell(cell)
        found.pbc = True
    return found


def molecules():
    alanine = molecule("CH3CH2OH") + molecule("CH3SH")
    alanine.positions[9:] += [4.2, 0.3, 0.5]
    salts = Atoms("HFCl2PN", positions=[[0, 0, 0], [0.95, 0, 0], [3.1, 0.2, 0], [3.2, 2.3, 0.1], [1.0, 2.9, 0.4], [0.2, 2.0, 2.1]])
    return [
        ("water", water()), ("dimer", water(2)), ("box", water(8, [[6.3, 0, 0], [0.4, 6.4, 0], [0, 0.3, 6.6]])),
        ("organic", alanine), ("all_elements", salts),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("system", [{}, {"charge": 1, "spin": 2}, {"charge": -1}, {"spin": 3}], ids=str)
def test_the_published_file_gives_the_packages_own_results(system, tmp_path):
    from so3krates_torch.calculator.so3 import SO3LRCalculator

    source = Path(importlib.util.find_spec("so3krates_torch").origin).parent / "pretrained" / "so3lr" / "so3lr.model"
    document = convert(source, tmp_path / "so3lr.equi", quiet=True)
    assert document["provenance"]["licence"] == "MIT" and document["elements"] == ["H", "C", "N", "O", "F", "P", "S", "Cl"]
    theirs = SO3LRCalculator(compute_stress=True, default_dtype="float64")
    native, found = laws.native(tmp_path / "so3lr.equi", keywords=keywords_of(system)), []
    for name, atoms in molecules():
        atoms.info = {"charge": system.get("charge", 0), "total_spin": (system.get("spin", 1) - 1) / 2}
        atoms.calc = theirs
        stress = atoms.get_stress() if atoms.pbc.all() else None
        result, bars = native(atoms), laws.compare.bars_for("double", None)
        found.append(laws.compare.difference(name, result, atoms.get_potential_energy(), atoms.get_forces(), stress, bars))
    laws.assert_within_bars(found)


@pytest.mark.slow
def test_compare_runs_the_package_in_its_own_environment(tmp_path, capsys):
    atoms = dict(laws.structures(ELEMENTS, 4.0))["cluster"]
    laws.assert_compare_agrees(built("so3krates/everything.model"), built("so3krates/everything.equi"), atoms, tmp_path, capsys)
