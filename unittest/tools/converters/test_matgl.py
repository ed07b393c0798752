# SPDX-License-Identifier: MIT
"""Potentials of matgl -> .equi: LAMMPS with the file against matgl's own modules in float64.

Runs in the environment of tools/requirements-matgl.txt.
"""

import json
import shutil
import subprocess
import sys
from functools import lru_cache

import numpy as np
import old_versions
import pytest
import tensornet_laws as laws
import torch
from built_models import built
from equi_tools import equi_file, frameworks, self_check
from equi_tools.ase import EquiCalculator
from equi_tools.cli import main
from equi_tools.errors import EquiError
from equi_tools.frameworks.matgl import checkpoint as matgl_checkpoint
from equi_tools.frameworks.matgl import oracle as matgl_oracle
from test_models import convert_with_reference as convert
from test_models.matgl import SETTINGS, VARIANTS, make_model, make_variant

# The default set of tests runs all of them with exact radial functions, and some in every precision.
IN_EVERY_PRECISION = ("smooth", "exp_normal", "so3", "repulsion", "qet")
QET = [name for name in VARIANTS if name.startswith("qet")]
REST = [pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS if name not in IN_EVERY_PRECISION]
# matgl's own evaluation in float32 against the one in float64, relative to the largest force or energy.
FLOAT32_TOLERANCE = 2e-5
# A change of 1e-3 in any tensor changes forces by more than this, eV/A; two evaluations differ by 1e-12.
NOTICED = 1e-10


def folder_of(name):
    return built(f"matgl/{name}/state.pt").parent


def converted(name):
    return built(f"matgl/{name}.equi")


@lru_cache(maxsize=None)
def oracle(name):
    return matgl_oracle.float64_calculator(matgl_checkpoint.load(folder_of(name), **SETTINGS.get(name, {})))


def structures(name):
    calculator = oracle(name)
    return laws.structures(calculator.elements, calculator.cutoff)


@pytest.fixture
def copied(tmp_path):
    """A copy of a variant's folder with changed options; change: a function of model.json's content."""

    def copy(name, change=lambda document: None):
        target = tmp_path / name
        shutil.copytree(folder_of(name), target)
        document = json.loads((target / "model.json").read_text())
        change(document)
        (target / "model.json").write_text(json.dumps(document))
        return target

    return copy


@pytest.mark.parametrize("name", VARIANTS)
def test_every_option_is_converted_exactly(name):
    found = laws.differences(converted(name), oracle(name), structures(name), radial="exact")
    laws.assert_within_bars(found)
    atoms = structures(name)[0][1]
    atoms.calc = oracle(name)
    assert np.abs(atoms.get_forces()).max() > 1e-3 and np.abs(atoms.get_stress()).max() > 1e-4, "the model does not test forces"


@pytest.mark.parametrize("name", [*IN_EVERY_PRECISION, *REST])
def test_tables_and_mixed_precision_stay_within_their_bars(name):
    laws.assert_within_bars(laws.differences(converted(name), oracle(name), structures(name)))
    laws.assert_mixed(laws.differences(converted(name), oracle(name), structures(name), "mixed"))


@pytest.mark.slow
def test_the_shape_of_published_models(tmp_path):
    """128 channels, 2 blocks, 89 elements."""
    source = make_variant("published", tmp_path)
    document = convert(source, tmp_path / "published.equi", quiet=True)
    assert len(document["elements"]) == 89
    calculator = matgl_oracle.float64_calculator(source)
    named = laws.structures(["Na", "Cl", "O"], calculator.cutoff)
    laws.assert_within_bars(laws.differences(tmp_path / "published.equi", calculator, named, radial="exact"))
    laws.assert_within_bars(laws.differences(tmp_path / "published.equi", calculator, named))
    laws.assert_mixed(laws.differences(tmp_path / "published.equi", calculator, named, "mixed"))
    # As many numbers as the published models have.
    assert sum(tensor.size for tensor in matgl_checkpoint.load(source).state.values()) == pytest.approx(0.837e6, rel=2e-3)


# All versions on PyPI whose TensorNet has the readable version, each with its own modules.
VERSIONS = ["2.2.0", "2.2.1", "3.0.0", "3.0.1", "3.0.2", "3.0.3", "3.0.4", "3.0.5", "4.0.0", "4.0.1", "4.0.2", "4.0.3", "4.1.0", "4.1.1"]
WITH_DGL = VERSIONS[:8]
FIRST_QET_FOR_PYG = "3.0.0"
# matgl 3.0.4 and newer round the roots of this basis to float32, eV/atom and eV/A.
ROUNDED_BESSEL = 5e-8, 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("version, with_dgl", [(v, False) for v in VERSIONS] + [(v, True) for v in WITH_DGL])
def test_older_versions_agree(version, with_dgl, tmp_path):
    requirements, environment = [f"matgl=={version}"], {}
    if with_dgl:
        requirements.append("dgl==2.1.0")
        environment = {"MATGL_BACKEND": "DGL", "DGLBACKEND": "pytorch"}
    old_versions.run("made_by_matgl.py", requirements, tmp_path, environment)
    for results in sorted(tmp_path.glob("*.npz")):
        stated = {"framework_version": version} if results.stem.startswith("qet") else {}
        found = old_versions.differences(results.with_suffix(""), results, results.with_suffix(".equi"), **stated)
        if results.stem == "bessel" and version >= "3.0.4":
            energy, force, stress = laws.worst(found)
            assert energy < ROUNDED_BESSEL[0] and max(force, stress) < ROUNDED_BESSEL[1]
        else:
            laws.assert_within_bars(found)
    with_charges = 2 if with_dgl or version >= FIRST_QET_FOR_PYG else 0
    assert len(list(tmp_path.glob("*.npz"))) == (6 if with_dgl else 5) + with_charges


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.0.9", "2.1.0", "2.1.2"])
def test_versions_before_the_change_of_sums_agree(version, tmp_path):
    """matgl's modules for DGL, and for PyG, that sum messages at the other atoms. Those for PyG of older versions need
    one more package."""
    for backend, number in (("DGL", 8), ("PYG", 5)) if version == "2.1.2" else (("DGL", 8),):
        made = tmp_path / backend
        environment = {"MATGL_BACKEND": backend, "DGLBACKEND": "pytorch"}
        old_versions.run("made_by_matgl.py", [f"matgl=={version}", "dgl==2.1.0"], made, environment)
        results = sorted(made.glob("*.npz"))
        assert len(results) == number
        for path in results:
            found = old_versions.differences(path.with_suffix(""), path, path.with_suffix(".equi"), framework_version=version)
            laws.assert_within_bars(found)


@pytest.mark.parametrize("name", QET)
def test_charges_of_a_run_and_of_a_file_agree_with_matgl(name, tmp_path):
    """Charges sum to the total charge, and both change the energy."""
    fixed = str(tmp_path / "fixed.equi")
    settings = SETTINGS.get(name, {})
    convert(folder_of(name), fixed, quiet=True, charge=-1, **settings)
    calculator = matgl_oracle.float64_calculator(matgl_checkpoint.load(folder_of(name), charge=-1.0, **settings))
    laws.assert_within_bars(laws.differences(fixed, calculator, structures(name), radial="exact"))
    atoms = dict(structures(name))["rocksalt"]
    atoms.calc = calculator
    expected, energy = atoms.get_charges(), atoms.get_potential_energy()
    assert abs(expected.sum() + 1) < 1e-12 and np.ptp(expected) > 1e-3
    for model, words in ((fixed, {}), (converted(name), {"charge": -1})):
        atoms.calc = EquiCalculator(model, precision="double", radial="exact", **words)
        assert np.abs(atoms.get_charges() - expected).max() < 1e-10
        assert abs(atoms.get_potential_energy() - energy) < 1e-8 * len(atoms)
    atoms.calc = EquiCalculator(converted(name), precision="double", radial="exact")
    assert abs(atoms.get_potential_energy() - energy) > 1e-3 and abs(atoms.get_charges().sum()) < 1e-12


def test_the_version_that_trained_a_file_is_known_or_must_be_stated(copied, tmp_path):
    """Sums of QET's modules for DGL changed without a new version."""
    target = tmp_path / "model.equi"

    def sums(change, **settings):
        folder = copied("qet", change)
        try:
            checkpoint = matgl_checkpoint.load(folder, **settings)
            return checkpoint.is_reversed, checkpoint.has_reversed_interactions
        finally:
            shutil.rmtree(folder)

    def written(module, version=3):
        return lambda d: [d.update({"@model_version": version}), model_of(d).update({"@module": module})]

    assert sums(written("matgl.models._qet_dgl", 2)) == (True, True)
    assert sums(written("matgl.models._qet")) == sums(written("matgl.models._qet_pyg")) == (False, False)
    assert sums(written("matgl.models._qet_dgl"), framework_version="2.1.0") == (True, True)
    assert sums(written("matgl.models._qet_dgl"), framework_version="2.2.0") == (False, False)
    with pytest.raises(EquiError, match="--framework-version 2.1.0 or 2.2.0"):
        sums(written("matgl.models._qet_dgl"))
    with pytest.raises(EquiError, match="--framework-version old: expected a version"):
        sums(written("matgl.models._qet_dgl"), framework_version="old")
    for name, version in (("smooth", "2.1.0"), ("before_2_2", "2.2.0")):
        with pytest.raises(EquiError, match=f"--framework-version {version} does not write @model_version"):
            convert(folder_of(name), target, quiet=True, framework_version=version)
    assert "was trained by matgl before 2.2.0" in convert(folder_of("qet_before_2_2"), target, quiet=True, framework_version="2.1.0")[
        "provenance"]["notes"]  # fmt: skip
    with pytest.raises(EquiError, match="--charge 1: a TensorNet of matgl has no total charge"):
        convert(folder_of("smooth"), target, quiet=True, charge=1.0)


RANKS = [("smooth", 2), ("smooth", 4), ("so3", 2), ("qet", 3), ("qet_before_2_2", 2), pytest.param("repulsion", 4, marks=pytest.mark.slow)]


@pytest.mark.parametrize("name, ranks", RANKS)
def test_ranks_agree(name, ranks):
    atoms = dict(structures(name))["rocksalt"] * (2, 1, 1)
    assert laws.rank_error(converted(name), atoms, ranks) < laws.RANKS


@pytest.mark.parametrize("name", ["smooth", "qet", pytest.param("so3", marks=pytest.mark.slow)])
def test_the_virial_is_the_derivative_by_a_strain(name):
    assert laws.strain_error(converted(name), dict(structures(name))["sheared"]) < laws.STRAIN


@pytest.mark.parametrize("name", ["smooth", "bessel", "gaussian", "exp_normal", "so3", "qet", "qet_elements"])
def test_oracle_agrees_with_the_framework_as_its_users_run_it(name):
    """matgl's own loader, neighbor list and calculator, which takes periodic cells and molecules."""
    from matgl.apps.pes import Potential
    from matgl.ext.ase import PESCalculator

    users = PESCalculator(Potential.load(folder_of(name)), stress_unit="eV/A3", use_voigt=True)
    for _, atoms in self_check.structures(oracle(name).elements, oracle(name).cutoff):
        atoms.calc = oracle(name)
        expected = [atoms.get_potential_energy(), atoms.get_forces()]
        if atoms.pbc.all():
            expected.append(atoms.get_stress())
        atoms.calc = users
        found = [atoms.get_potential_energy(), atoms.get_forces(), users.results["stress"]]
        for a, b in zip(found, expected):
            assert np.abs(a - b).max() < FLOAT32_TOLERANCE * max(1, np.abs(b).max())


@pytest.mark.parametrize("name", ["smooth", "repulsion", "bessel", "qet", "qet_elements"])
def test_every_number_matters(name, tmp_path):
    laws.assert_every_number_matters(converted(name), tmp_path, NOTICED, may_be_zero=("shift",))


def test_numbers_are_kept():
    checkpoint = matgl_checkpoint.load(folder_of("smooth"))
    _, tensors = equi_file.read(converted("smooth"))
    state = torch.load(folder_of("smooth") / "state.pt", weights_only=True)
    for name in ("tensor_embedding.linears_tensor.0.weight", "layers.1.linears_tensor.5.weight", "final_layer.gated.gates.4.weight"):
        assert tensors[name].dtype == np.float32
        assert np.array_equal(tensors[name], state[f"model.{name}"].numpy().T)
    assert set(checkpoint.state) == set(state)


def test_a_subset_of_elements_is_the_same_function(tmp_path):
    document = convert(folder_of("many_elements"), tmp_path / "some.equi", elements=["O", "Cl", "Na"], quiet=True)
    assert document["elements"] == ["O", "Cl", "Na"]
    named = laws.structures(["Na", "Cl", "O"], 4.2)
    laws.assert_within_bars(laws.differences(tmp_path / "some.equi", oracle("many_elements"), named, radial="exact"))
    for elements, expected in ((["Na", "Xx"], "Xx"), (["Na", "Na"], "twice")):
        with pytest.raises(EquiError, match=expected):
            convert(folder_of("many_elements"), tmp_path / "none.equi", elements=elements, quiet=True)


def test_isotopes_are_left_out_or_refused(copied, tmp_path):
    """The embedding of an isotope has numbers, but pair_coeff has no name for it."""
    folder = copied("smooth", lambda d: model_of(d)["init_args"].update(element_types=["D", "Cl", "O"]))
    with pytest.raises(EquiError, match="element D of the model is not a chemical symbol.*--elements"):
        convert(folder, tmp_path / "none.equi", quiet=True)
    assert not (tmp_path / "none.equi").exists()
    assert main(["convert", "-q", str(folder), "-o", str(tmp_path / "some.equi"), "--elements", "O,Cl"]) == 0
    assert equi_file.read(tmp_path / "some.equi")[0]["elements"] == ["O", "Cl"]


def test_a_model_in_float64_is_kept_in_float64(tmp_path):
    make_model(tmp_path / "double", units=5, nblocks=1, rbf_type="SphericalBessel", use_smooth=True, dtype=torch.float64)
    convert(tmp_path / "double", tmp_path / "double.equi", quiet=True)
    _, tensors = equi_file.read(tmp_path / "double.equi")
    assert tensors["tensor_embedding.linears_tensor.0.weight"].dtype == np.float64
    named = laws.structures(["Na", "Cl", "O"], 4.2)
    calculator = matgl_oracle.float64_calculator(tmp_path / "double")
    laws.assert_within_bars(laws.differences(tmp_path / "double.equi", calculator, named, radial="exact"))


def test_compiled_and_old_potentials_are_read(copied, tmp_path):
    """torch.compile inserts a module, and older versions stored a matrix of ones and zeros."""
    folder = copied("exp_normal")
    state = torch.load(folder / "state.pt", weights_only=True)
    renamed = {key.replace("model.", "model._orig_mod.", 1): value for key, value in state.items()}
    torch.save(renamed | {"element_refs.onehot": torch.eye(3)}, folder / "state.pt")
    convert(folder, tmp_path / "model.equi", quiet=True)
    found, expected = (equi_file.read(path)[1] for path in (tmp_path / "model.equi", converted("exp_normal")))
    assert set(found) == set(expected) and all(np.array_equal(found[key], expected[key]) for key in expected)


def test_what_matgl_itself_ignores_is_ignored(copied, tmp_path):
    """Options of a readout that the model does not have, and the layer of DGL modules whose output is dropped."""
    folder = copied("smooth", lambda d: model_of(d)["init_args"].update(niters_set2set=3, nlayers_set2set=3))
    state = torch.load(folder / "state.pt", weights_only=True)
    leftovers = {f"model.tensor_embedding.emb3.{kind}": torch.ones(5) for kind in ("weight", "bias")}
    torch.save(state | leftovers, folder / "state.pt")
    convert(folder, tmp_path / "model.equi", quiet=True)
    found, expected = (equi_file.read(path)[1] for path in (tmp_path / "model.equi", converted("smooth")))
    assert set(found) == set(expected) and all(np.array_equal(found[key], expected[key]) for key in expected)
    atoms = structures("smooth")[0][1]
    energies = [matgl_oracle.float64_calculator(source).get_potential_energy(atoms) for source in (folder, folder_of("smooth"))]
    assert energies[0] == energies[1]


def test_an_unknown_option_may_be_let_pass(copied, tmp_path):
    """matgl's TensorNet accepts any option, and ignores unknown ones."""
    folder = copied("smooth", lambda d: model_of(d)["init_args"].update(note="text"))
    target = str(tmp_path / "model.equi")
    assert main(["convert", "-q", str(folder), "-o", target, "--ignore-key", "note"]) == 0
    assert main(["compare", "-q", target, str(folder), "--builtin", "--ignore-key", "note", "--radial", "exact"]) == 0
    assert main(["convert", "-q", str(folder), "-o", target]) == 1


def test_a_folder_may_be_named_by_its_files_and_needs_two_of_them(copied, tmp_path):
    folder = copied("smooth")
    (folder / "model.pt").unlink()
    for source in (folder, folder / "model.json", folder / "state.pt"):
        assert frameworks.detect(source) is frameworks.MATGL
        document = convert(source, tmp_path / "model.equi", quiet=True)
        assert (document["architecture"], document["framework"]["name"]) == ("TensorNet", "matgl")
    assert document["provenance"]["source"] == "state.pt" and len(document["provenance"]["sha256"]) == 64
    (folder / "state.pt").unlink()
    with pytest.raises(EquiError, match="no state.pt"):
        convert(folder, tmp_path / "model.equi", quiet=True)


def test_reading_needs_neither_matgl_nor_torch(tmp_path):
    script = (
        "import sys; sys.modules['torch'] = sys.modules['matgl'] = None\n"
        "from equi_tools.frameworks.matgl import checkpoint as matgl_checkpoint\n"
        "from equi_tools.frameworks.matgl import convert as matgl_convert\n"
        f"body, tensors = matgl_convert.convert(matgl_checkpoint.load({str(folder_of('smooth'))!r}))\n"
        "print(len(body['layers']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout) > 20, done.stderr


def test_the_commands_convert_and_compare(copied, tmp_path, capsys, monkeypatch):
    folder = copied("repulsion")
    target = str(tmp_path / "model.equi")
    assert main(["convert", "-q", str(folder), "-o", target]) == 0
    assert main(["compare", "-q", target, str(folder), "--builtin", "--radial", "exact"]) == 0
    assert "all" in capsys.readouterr().out
    assert main(["compare", "-q", target, str(folder), "--builtin", "--calculator", "framework"]) == 0
    assert main(["convert", "-q", str(folder), "-o", target, "--unit", "eV"]) == 1
    assert "--unit: the energies of matgl models are in eV" in capsys.readouterr().err
    monkeypatch.setattr(frameworks.MATGL, "installed", lambda: False)
    monkeypatch.delenv("EQUI_PYTHON_MATGL", raising=False)
    assert main(["convert", "-q", str(folder), "-o", target]) == 0
    assert main(["compare", "-q", target, str(folder), "--builtin"]) == 1
    assert "need the package matgl" in capsys.readouterr().err


def model_of(document):
    return document["kwargs"]["model"]


REFUSED = {
    "version 1": (lambda d: model_of(d).update({"@model_version": 1}), "matgl before 2.2.0 summed its messages at the wrong atoms"),
    "version 3": (lambda d: model_of(d).update({"@model_version": 3}), "@model_version 3 of TensorNet is not known"),
    "potential": (lambda d: d.update({"@model_version": 9}), "@model_version 9 of Potential"),
    "QET of another version": (lambda d: model_of(d).update({"@class": "QET"}), "@model_version 2 of QET is not known"),
    "CHGNet": (lambda d: model_of(d).update({"@class": "CHGNet"}), "CHGNet is not supported.*three-body"),
    "another": (lambda d: model_of(d).update({"@class": "Other"}), "Other is not supported.*not known"),
    "no potential": (lambda d: d.update({"@class": "TensorNet"}), "holds a TensorNet, not a Potential"),
    "intensive": (lambda d: model_of(d)["init_args"].update(is_intensive=True), "is_intensive"),
    "intensive by default": (lambda d: model_of(d)["init_args"].pop("is_intensive"), "is_intensive"),
    "state": (lambda d: model_of(d)["init_args"].update(include_state=True), "include_state"),
    "classes": (lambda d: model_of(d)["init_args"].update(task_type="classification"), "classification"),
    "targets": (lambda d: model_of(d)["init_args"].update(ntargets=2), "2 targets"),
    "charges": (lambda d: d["kwargs"].update(calc_charge=True), "calc_charge"),
    "moments": (lambda d: d["kwargs"].update(calc_magmom=True), "calc_magmom"),
    "basis": (lambda d: model_of(d)["init_args"].update(use_smooth=False), "max_l 3 and without use_smooth"),
    "other basis": (lambda d: model_of(d)["init_args"].update(rbf_type="Fourier"), "rbf_type Fourier"),
    "activation": (lambda d: model_of(d)["init_args"].update(activation_type="softexp"), "activation softexp"),
    "group": (lambda d: model_of(d)["init_args"].update(equivariance_invariance_group="SU(2)"), r"SU\(2\)"),
    "option": (lambda d: model_of(d)["init_args"].update(dispersion=True), "option dispersion of TensorNet is not known"),
    "options": (
        lambda d: [d["kwargs"].update(a=True), model_of(d)["init_args"].update(b=1)],
        "options a of Potential, b of TensorNet are not known.*--ignore-key a --ignore-key b lets them pass",
    ),
    "version first": (
        lambda d: [model_of(d).update({"@model_version": 1}), model_of(d)["init_args"].update(dispersion=True)],
        "@model_version 1 of TensorNet",
    ),
    "size": (lambda d: model_of(d)["init_args"].update(units=7), r"expected the shape \[7, 3\], found \[5, 3\]"),
    "blocks": (lambda d: model_of(d)["init_args"].update(nblocks=1), "layers.1.* are not part of a TensorNet"),
    "more blocks": (lambda d: model_of(d)["init_args"].update(nblocks=3), "layers.2.* is missing"),
    "number": (lambda d: model_of(d)["init_args"].update(cutoff="five"), "cutoff: expected a positive number"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused_by_name(case, copied, tmp_path):
    change, expected = REFUSED[case]
    folder = copied("smooth", change)
    with pytest.raises(EquiError, match=expected) as error:
        convert(folder, tmp_path / "refused.equi", quiet=True)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "refused.equi").exists()


@pytest.mark.parametrize(
    "name, change, expected",
    [
        ("data_mean", lambda t: t + 0.5, "data_mean is 0.5: matgl adds it once to the energy of a structure"),
        ("element_refs.property_offset", lambda t: t[None].repeat(2, 1), "depend on a state"),
        ("model.linear.weight", lambda t: t.long(), "dtype int64 is not supported"),
    ],
)
def test_numbers_that_cannot_be_represented_are_refused(name, change, expected, copied, tmp_path):
    folder = copied("smooth")
    state = torch.load(folder / "state.pt", weights_only=True)
    state[name] = change(state[name])
    torch.save(state, folder / "state.pt")
    with pytest.raises(EquiError, match=expected):
        convert(folder, tmp_path / "refused.equi", quiet=True)


def test_damaged_folders_are_refused_in_one_line(copied, tmp_path):
    folder = copied("smooth")
    whole = (folder / "model.json").read_text()
    for text, expected in (("{", "not a JSON document"), ("[]", "not an object"), (whole[:-20], "not a JSON document")):
        (folder / "model.json").write_text(text)
        with pytest.raises(EquiError, match=expected) as error:
            matgl_checkpoint.load(folder)
        assert "\n" not in str(error.value)
    (folder / "model.json").write_text(whole)
    (folder / "state.pt").write_bytes((folder / "state.pt").read_bytes()[:500])
    with pytest.raises(EquiError, match="state.pt") as error:
        convert(folder, tmp_path / "x.equi", quiet=True)
    assert "\n" not in str(error.value)
