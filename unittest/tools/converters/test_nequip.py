# SPDX-License-Identifier: MIT
"""NequIP files -> .equi: the file against nequip's own modules, through a second reader of the file (equi_evaluator).

Runs in the environment of tools/requirements-nequip.txt.
"""

import lzma
import os
import pickletools
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import old_versions
import pytest
import tensornet_laws as laws
import torch
from equi_tools import equi_file, frameworks, self_check, torch_modules
from equi_tools.cli import main
from equi_tools.convert import convert as convert_alone
from equi_tools.convert import parse_types
from equi_tools.errors import EquiError
from equi_tools.frameworks.nequip import audit as nequip_audit
from equi_tools.frameworks.nequip import checkpoint as nequip_checkpoint
from equi_tools.frameworks.nequip import convert as nequip_convert
from equi_tools.frameworks.nequip import oracle as nequip_oracle
from equi_tools.frameworks.nequip.files import kind_of
from equi_tools.frameworks.nequip.modules import CONSTANT, convnets, declared
from equi_tools.yaml_options import yaml_options
from nequip_variants import (
    FLOAT32_TOLERANCE,
    BuiltVariants,
    assert_numbers_are_kept,
    assert_numbers_matter,
    assert_same_conversion,
    assert_subset_is_the_same_function,
    assert_users_calculator_agrees,
    convert_trained,
)
from stored_values import assert_equal, differences, equi_file_read
from test_models import convert_with_reference as convert
from test_models.nequip import VARIANTS, builder_options, make_model
from training_frames import write_frames

BUILT = BuiltVariants("nequip", VARIANTS)
converted = BUILT.converted
NA_CL = {"type_names": ["Na", "Cl"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def variant(folder):
    """(path, types or None) of one of VARIANTS; a copy of the build's file."""
    return lambda name: BUILT.source(name, folder)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_option_is_converted_exactly(name, variant):
    source, _ = variant(name)
    assert kind_of(source) == BUILT.kind(name)
    assert_equal(converted(name))


@pytest.mark.parametrize(
    "name",
    ["parity", "cutoffs", "zbl_cutoffs", "type_neighbors", "checkpoint_options", "torchscript_options", "float64", "hidden",
     "checkpoint_hidden", "torchscript_hidden"],
)  # fmt: skip
def test_oracle_agrees_with_the_framework_as_its_users_run_it(name, variant):
    assert_users_calculator_agrees(*variant(name), BUILT.kind(name))


@pytest.fixture
def legacy(folder):
    """Paths of the models of unittest/golden, deployed by nequip 0.6 and older (made by make_nequip_legacy.py)."""

    def unpacked(version):
        packed = Path(__file__).resolve().parents[2] / "golden" / f"nequip-{version}.pth.xz"
        path = folder / packed.stem
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        return path

    return unpacked


@pytest.mark.parametrize("version, parity", [("0.6.2", True), ("0.5.6", False)])
def test_models_deployed_years_ago_are_converted_exactly(version, parity, legacy, folder):
    source = legacy(version)
    assert kind_of(source) == "torchscript"
    document = convert(source, folder / "legacy.equi", quiet=True)
    assert_equal(folder / "legacy.equi")
    assert document["provenance"]["framework_version"] == version
    assert document["elements"] == ["Na", "Cl"] and document["edge_parity"] == parity
    # They have the couplings from before e3nn 0.5.
    assert any(p["scale"] < 0 for layer in document["layers"] for p in layer.get("paths", []))
    some = convert(source, folder / "some.equi", elements=["Cl"], quiet=True)
    assert_equal(folder / "some.equi")
    assert_equal(folder / "legacy.equi", some["self_check"])


def test_oracle_of_old_models_agrees_with_their_own_float32(legacy):
    checkpoint = nequip_checkpoint.load(legacy("0.6.2"))
    exact, rounded = nequip_oracle.float64_calculator(checkpoint), nequip_oracle.framework_calculator(checkpoint)
    for _, atoms in self_check.structures(exact.elements, exact.cutoff):
        atoms.calc = exact
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        atoms.calc = rounded
        assert 0 < abs(atoms.get_potential_energy() - energy) < FLOAT32_TOLERANCE * max(1, abs(energy))
        assert np.abs(atoms.get_forces() - forces).max() < FLOAT32_TOLERANCE * max(1, np.abs(forces).max())


@pytest.fixture(params=["0.6.2", "0.5.6"])
def training(request, legacy, folder):
    """(folder of a training, deployed model with the same numbers): the file of weights, and the configuration as
    nequip wrote it."""
    source = legacy(request.param)
    work = folder / f"training-{request.param}"
    work.mkdir(exist_ok=True)
    torch.save(torch.jit.load(str(source)).state_dict(), work / "best_model.pth")
    (work / "config.yaml").write_text(torch_modules.extra_file(source, "config"))
    return work, source


def test_weights_with_their_configuration_are_the_deployed_model(training, folder):
    work, deployed = training
    expected = nequip_convert.convert(nequip_checkpoint.load(deployed))
    for source in (work, work / "best_model.pth", work / "config.yaml"):
        assert frameworks.detect(source) is frameworks.NEQUIP
        checkpoint = nequip_checkpoint.load(source)
        assert_same_conversion(nequip_convert.convert(checkpoint), expected)
    with pytest.raises(EquiError, match="nequip 0.5 and 0.6: name a Python interpreter"):
        nequip_oracle.float64_calculator(checkpoint)


@pytest.mark.parametrize("pattern, replacement, expected", [
    ("EnergyModel", "Allegro", "Allegro 0.3: models of allegro 0.3 and older"),
    ("PerSpeciesRescale", "GaussianMixtureModelUncertainty", "GaussianMixtureModelUncertainty is not supported"),
    (r"(?m)^r_max: .*", "r_max: -3", "r_max: expected a positive number, found -3"),
    (r"(?m)^avg_num_neighbors: .*", "avg_num_neighbors: auto", "avg_num_neighbors: 'auto' is not a number"),
    (r"(?m)^num_layers: .*", "num_layers: 4", "tensor layer3_convnet.* is missing"),
    (r"(?m)^num_layers: .*", "num_layers: 1", "tensors? .* not part of the model that config.yaml describes|expected the shape"),
    (r"(?m)^r_max: (.*)", r"r_max: \1\nlayer0_convnet_resnet: true", "layer0_convnet_resnet: options of a single module"),
    (r"\Z", "\nresnet: true\n", "resnet: True is not supported, only False"),
    (r"(?m)^r_max: (.*)", r"r_max: \1\nnonlinearity_scalars: {e: relu, o: tanh}", "relu"),
    (r"(?m)^model_builders:$", "builders:", "model_builders: the configuration does not list them"),
])  # fmt: skip
def test_configurations_that_do_not_fit_are_refused(pattern, replacement, expected, training):
    work, _ = training
    text = (work / "config.yaml").read_text()
    changed, count = re.subn(pattern, replacement, text)
    assert count
    (work / "config.yaml").write_text(changed)
    with pytest.raises(EquiError, match=expected) as error:
        nequip_checkpoint.load(work)
    assert str(error.value).startswith(f"{work}: ")


def test_weights_without_their_configuration_are_refused_with_what_to_do(training):
    work, _ = training
    (work / "config.yaml").unlink()
    assert kind_of(work / "best_model.pth") == "training"
    with pytest.raises(EquiError, match="put the config.yaml of the training next to the file, or run nequip-deploy"):
        nequip_checkpoint.load(work / "best_model.pth")
    (work / "config.yaml").write_text("r_max: 4.0")
    (work / "best_model.pth").unlink()
    with pytest.raises(EquiError, match="no best_model.pth next to config.yaml"):
        nequip_checkpoint.load(work)


def test_options_are_read_from_what_programs_write(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "a: 1\nb: 1.0e-05\nc: .inf\nd: true\ne: null\nf: 1x0e+2x1o\n'g': 'on'  \nh:\n- Na\n- Cl\ni:\n  e: silu\n  o: tanh\n# note\n"
        "j: {e: ssp, o: abs}\nk: [1, x]\nl: !!python/object/apply:os.system\n- touch x\nm:\n- - forces\n  - mae\nn: 7  # note\nempty:\n"
    )
    assert yaml_options(path) == {
        "a": 1, "b": 1e-5, "c": ".inf", "d": True, "e": None, "f": "1x0e+2x1o", "g": "on", "h": ["Na", "Cl"],
        "i": {"e": "silu", "o": "tanh"}, "j": {"e": "ssp", "o": "abs"}, "k": [1, "x"], "l": None, "m": None, "n": 7, "empty": None,
    }  # fmt: skip


# With parity, irreps of unnatural parity cannot reach the energy from the last layer but one.
@pytest.mark.parametrize("name", ["zbl_cutoffs", "no_parity", "readout", "type_neighbors"])
def test_every_layer_and_number_matters(name, folder):
    """A change of 1e-3 in any tensor of the file, and a flipped path, is noticed."""
    document, tensors = equi_file_read(converted(name))
    document["self_check"] = document["self_check"][:2]
    paths = [path for layer in document["layers"] for path in layer.get("paths", [])]
    assert_numbers_matter(document, tensors, paths, folder / "spoiled.equi")


def test_cutoffs_are_those_of_receiver_and_sender(folder):
    document, tensors = equi_file_read(converted("cutoffs"))
    stored = tensors[document["radial_basis"]["cutoffs"]]
    assert document["elements"] == ["Na", "Cl", "O"]
    assert np.allclose(stored, [[3.1, 3.1, 3.1], [4.0, 3.5, 4.2], [4.2, 4.2, 4.2]], rtol=1e-15)
    equi_file.write(
        folder / "turned.equi", document, {**tensors, document["radial_basis"]["cutoffs"]: stored.T.copy()}
    )
    assert differences(folder / "turned.equi")[1] > 1e-3


def test_numbers_are_kept(variant):
    assert_numbers_are_kept(variant("parity")[0], "layer0_convnet.conv.edge_mlp.mlp.0.weight", variant("float64")[0])


@pytest.mark.parametrize("name, kept", [("cutoffs", ["O", "Na"]), ("type_neighbors", ["Cl"]), ("many_types", ["U", "H", "Si"]),
                                        ("checkpoint_options", ["O", "Cl"])])  # fmt: skip
def test_a_subset_of_elements_is_the_same_function(name, kept, folder, variant):
    assert_subset_is_the_same_function(*variant(name), kept, converted(name), folder / "some.equi")


def old_irreps(channels, l_max, parity):
    return "+".join(f"{channels}x{l}{p}" for p in ("eo" if parity else "e") for l in range(l_max + 1))


# Options in a checkpoint of an older version, and their meaning there; other options would have tensors of the same
# shapes.
MEANT_BEFORE = {
    "order of irreps": (
        "0.15.0", dict(num_layers=2, l_max=1, parity=True, num_features=5, radial_mlp_depth=1, radial_mlp_width=9),
        dict(radial_mlp_depth=[1, 1], radial_mlp_width=[9, 9], irreps_edge_sh="1x0e+1x1o",
             feature_irreps_hidden=[old_irreps(5, 1, True), "5x0e"]),
    ),
    "no parity": (
        "0.12.1", dict(num_layers=2, l_max=2, parity=False, num_features=3, radial_mlp_width=9),
        dict(radial_mlp_depth=[2, 2], radial_mlp_width=[9, 9], irreps_edge_sh="1x0e+1x1e+1x2e",
             feature_irreps_hidden=[old_irreps(3, 2, False), "3x0e"]),
    ),
    "radial networks": (
        "0.16.2", dict(num_layers=1, l_max=0, num_features=5, parity=True),
        dict(radial_mlp_depth=[2], radial_mlp_width=[64], irreps_edge_sh="1x0e", feature_irreps_hidden=["5x0e"]),
    ),
    "pair potential": (
        "0.16.2",
        dict(num_layers=1, l_max=0, num_features=5, parity=True, polynomial_cutoff_p=9, zbl=["Na", "Cl"], zbl_p=4, radial_mlp_depth=1,
             radial_mlp_width=9),
        dict(radial_mlp_depth=[1], radial_mlp_width=[9], irreps_edge_sh="1x0e", feature_irreps_hidden=["5x0e"], polynomial_cutoff_p=9,
             zbl=["Na", "Cl"], zbl_p=9),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANT_BEFORE)
def test_checkpoints_mean_what_their_version_made_of_their_options(name, folder):
    version, options, meant = MEANT_BEFORE[name]
    width = {"type_embed_num_features": options["num_features"]}
    source = make_model(folder / "today.ckpt", kind="checkpoint", **NA_CL, **meant, **width)
    raw = torch.load(source, weights_only=False)
    info = raw["hyper_parameters"]["info_dict"]
    expected = nequip_convert.convert(nequip_checkpoint.load(source))
    config = builder_options(**NA_CL, **options)
    if "radial_mlp_width" not in options:
        del config["radial_mlp_width"]
    info["training_module"]["model"] = {"_target_": "nequip.model.NequIPGNNModel", **config}
    info["versions"]["nequip"] = version
    torch.save(raw, folder / "old.ckpt")
    assert_same_conversion(nequip_convert.convert(nequip_checkpoint.load(folder / "old.ckpt")), expected)
    del info["versions"]["nequip"]
    torch.save(raw, folder / "old.ckpt")
    with pytest.raises(EquiError, match="does not say which nequip wrote it, whose defaults it means: run nequip-package"):
        nequip_checkpoint.load(folder / "old.ckpt")


def test_packages_of_the_first_form_are_recognized(folder, variant):
    """Until 0.8 the metadata was a pickle, and versions were in a separate file."""
    source, _ = variant("plain")
    with zipfile.ZipFile(source) as today, zipfile.ZipFile(folder / "first.nequip.zip", "w") as first:
        for name in today.namelist():
            folder_name = name.split("/")[0]
            if not name.endswith("package_metadata.txt"):
                first.writestr(name, today.read(name))
        first.writestr(f"{folder_name}/model/package_metadata.pkl", b"\x80\x02}.")
        first.writestr(f"{folder_name}/model/versions.txt", "e3nn: 0.5.6\nnequip: 0.7.1\n")
    assert kind_of(folder / "first.nequip.zip") == "package"
    assert nequip_checkpoint.load(folder / "first.nequip.zip").version == "0.7.1"


# Packages that precede nequip on the path, and the file suffixes to compare.
OLDER = {
    **{version: ("made_by_old_nequip.py", [f"nequip=={version}", "e3nn==0.4.4", "torch-runstats==0.2.0", "torch-ema==0.3"], ("", ".pth"))
       for version in ("0.5.4", "0.5.5", "0.5.6", "0.6.0", "0.6.1", "0.6.2")},
    "0.7.0": ("made_by_nequip.py", ["nequip==0.7.0", "e3nn==0.5.8"], (".ckpt", ".nequip.pth")),
    **{version: ("made_by_nequip.py", [f"nequip=={version}", "e3nn==0.5.8"], (".ckpt", ".nequip.pth", ".nequip.zip"))
       for version in ("0.8.0", "0.9.1", "0.10.0", "0.11.1", "0.12.1", "0.13.0", "0.14.0", "0.15.0")},
    **{version: ("made_by_nequip.py", [f"nequip=={version}", "e3nn==0.5.9"], (".ckpt", ".nequip.pth", ".nequip.zip"))
       for version in ("0.16.2", "0.17.1")},
    **{version: ("made_by_nequip.py", [f"nequip=={version}"], (".ckpt", ".nequip.pth", ".nequip.zip")) for version in ("0.18.0", "0.19.0")},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("version", OLDER)
def test_models_of_older_versions_are_what_these_evaluate(version, tmp_path):
    script, requirements, suffixes = OLDER[version]
    old_versions.run(script, requirements, tmp_path, {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"})
    results = sorted(tmp_path.glob("*.npz"))
    assert len(results) >= 5
    for result in results:
        for suffix in suffixes:
            # ZBL's numbers are in kcal/mol, like the stored ones: here for one unit.
            found = old_versions.differences(f"{result.with_suffix('')}{suffix}", result, result.with_suffix(".equi"), unit="eV")
            laws.assert_within_bars(found)


@pytest.mark.parametrize("elements, expected", [(["Na", "Xx"], "Xx"), (["Na", "Na"], "twice")])
def test_wrong_elements_are_refused(elements, expected, variant):
    source, _ = variant("plain")
    with pytest.raises(EquiError, match=expected):
        nequip_convert.convert(nequip_checkpoint.load(source), elements=elements)


def test_names_of_types_are_mapped_to_elements(folder, variant):
    source, types = variant("type_names")
    with pytest.raises(EquiError, match="type a is not a chemical symbol.*--types a=ELEMENT"):
        nequip_checkpoint.load(source)
    document, _ = equi_file_read(converted("type_names"))
    assert document["elements"] == ["Na", "Cl"]
    named = dict(VARIANTS["type_names"], type_names=["Na", "Cl"], types=None)
    # The same random numbers under the names of elements.
    scales = nequip_checkpoint.load(source, types=types).config
    options = {k: dict(zip(["Na", "Cl"], scales[f"per_type_energy_{k}"].values())) for k in ("scales", "shifts")}
    other = make_model(folder / "named.nequip.zip", **{**named, **options})
    convert(other, folder / "named.equi", quiet=True)
    assert_equal(folder / "named.equi", document["self_check"])


def test_the_pair_potential_tells_the_elements_of_its_types(variant):
    source, _ = variant("zbl_cutoffs")
    assert nequip_checkpoint.load(source).elements == ["O", "H"]


@pytest.mark.parametrize(
    "types, expected",
    [
        ({"c": "Na"}, "no type c"),
        ({"a": "Na"}, "type b is not a chemical symbol"),
        ({"a": "Na", "b": "Xx"}, "Xx is not a chemical symbol"),
        ({"a": "Na", "b": "Na"}, "types a, b all stand for Na"),
    ],
)
def test_wrong_mappings_are_refused(types, expected, variant):
    source, _ = variant("type_names")
    with pytest.raises(EquiError, match=expected):
        nequip_checkpoint.load(source, types=types)


def test_mappings_are_read_from_text():
    assert parse_types("a=Na,b=Cl") == {"a": "Na", "b": "Cl"}
    for text in ("", "a", "a=", "a=Na,a=Cl", "a=b=c"):
        with pytest.raises(EquiError, match="--types"):
            parse_types(text)


PLAIN = VARIANTS["plain"]
REFUSED = {
    "lennard jones": (
        dict(pair_potential={"_target_": "nequip.nn.pair_potential.LennardJones", "lj_sigma": 1.0, "lj_epsilon": 1.0}),
        r"pair_potential \(LennardJones\) is not supported",
    ),
    "inputs of the structure": (
        dict(categorical_graph_field_embed=[{"field": "total_charge", "num_features": 2, "min": -1, "max": 1}]),
        "categorical_graph_field_embed",
    ),
    "residual connections": (dict(convnet_resnet=True, num_layers=4), "convnet_resnet"),
    "norm activation": (dict(convnet_nonlinearity_type="norm"), "NormActivation is not supported"),
    "readout activation": (
        dict(readout_mlp_hidden_layers_depth=1, readout_mlp_nonlinearity="softplus"), "readout_mlp_nonlinearity: Softplus"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused_by_name(case, folder):
    options, expected = REFUSED[case]
    if "categorical_graph_field_embed" in options:
        from nequip.data import _key_registry

        _key_registry.register_fields(graph_fields=["total_charge"])
    source = make_model(folder / "refused.nequip.zip", **{**PLAIN, **options})
    with pytest.raises(EquiError, match=expected) as error:
        nequip_checkpoint.load(source)
    assert "refused.nequip.zip" in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_module_is_refused_by_name(folder):
    from nequip.model import NequIPGNNModel
    from nequip.nn.misc import ApplyFactor
    from test_models.nequip import _write_package, builder_options

    with nequip_oracle.nequip_state():
        model = NequIPGNNModel(**builder_options(**PLAIN)).eval()
        energy = model.model.func
        energy.append("dispersion", ApplyFactor("atomic_energy", 2.0, irreps_in=energy.irreps_out))
        _write_package(folder / "more.nequip.zip", model)
    with pytest.raises(EquiError, match=r"module dispersion \(ApplyFactor\)"):
        nequip_checkpoint.load(folder / "more.nequip.zip")


def test_a_model_whose_own_modules_compute_something_else_is_refused(variant, monkeypatch):
    """Options and numbers are unchanged, but a module has another factor as an attribute."""
    source, _ = variant("plain")
    checkpoint = nequip_checkpoint.load(source)
    nequip_oracle.float64_calculator(checkpoint)
    original = nequip_oracle.modules_of(checkpoint)
    original.model.func.factor.factor *= 1.1
    monkeypatch.setattr(nequip_oracle, "modules_of", lambda checkpoint: original)
    with pytest.raises(EquiError, match="its own modules give other forces"):
        nequip_oracle.float64_calculator(checkpoint)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_model_is_the_one_that_nequip_builds(name, variant):
    """Compares irreps, paths and shapes with those of nequip's own builder, and the numbers with the modules in the
    file."""
    source, types = variant(name)
    checkpoint = nequip_checkpoint.load(source, types=types)
    built, original = nequip_oracle.build(checkpoint.config), nequip_oracle.modules_of(checkpoint)
    expected = {key: tuple(tensor.shape) for key, tensor in [*built.named_parameters(), *built.named_buffers()]
                if tensor.numel() and not CONSTANT.search(key)}  # fmt: skip
    assert {key: array.shape for key, array in checkpoint.state.items() if array.size} == expected
    for key, tensor in [*original.named_parameters(), *original.named_buffers()]:
        if key in checkpoint.state:
            found = checkpoint.state[key]
            assert np.array_equal(found.reshape(-1), tensor.detach().numpy().reshape(-1)), key
            assert found.dtype == tensor.detach().numpy().dtype, key
    if checkpoint.kind != "checkpoint":  # a checkpoint stores no couplings
        stored = nequip_checkpoint.LOADERS[checkpoint.kind](checkpoint.path)[1]
        couplings = {key: tensor for key, tensor in original.named_buffers() if "_w3j_" in key}
        assert couplings.keys() == {key for key in stored if "_w3j_" in key}
        assert all(np.array_equal(stored[key], tensor.numpy()) for key, tensor in couplings.items())
    for t, layer in enumerate(convnets(built)):
        own = checkpoint.stages[f"layer{t}_convnet"]
        for part in ("irreps_in", "irreps_out"):
            filled = "+".join(str(block) for block in getattr(layer.equivariant_nonlin, part) if block.mul)
            assert filled == str(getattr(own.equivariant_nonlin, part)), part
        assert declared(layer) == declared(own)


@pytest.mark.parametrize("name", ["hidden", "torchscript_hidden"])
def test_modules_of_other_irreps_than_those_of_the_options_are_refused(name, variant, monkeypatch):
    """Blocks that are separate in the file and merged in the options have as many numbers, in another order."""
    source, _ = variant(name)
    options = nequip_audit.Audit.options

    def merged(audit):
        config = options(audit)
        assert config["feature_irreps_hidden"][0] == "3x2e+5x0e+3x1o+2x0e"
        return config | {"feature_irreps_hidden": ["3x2e+7x0e+3x1o", *config["feature_irreps_hidden"][1:]]}

    monkeypatch.setattr(nequip_audit.Audit, "options", merged)
    expected = r"layer1_convnet.conv.linear_1.irreps_in is 5x0e\+2x0e\+3x2e\+3x1o, expected 7x0e\+3x2e\+3x1o"
    with pytest.raises(EquiError, match=expected):
        nequip_checkpoint.load(source)


def test_a_model_is_converted_without_torch(folder, variant):
    source, _ = variant("zbl_cutoffs")
    program = (
        "import sys\n"
        "for name in ('torch', 'e3nn', 'nequip', 'lightning', 'hydra'): sys.modules[name] = None\n"
        "from equi_tools.convert import convert\n"
        f"convert({source!r}, {str(folder / 'alone.equi')!r}, quiet=True)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))
    (document, tensors), (other, same) = equi_file_read(folder / "alone.equi"), equi_file_read(converted("zbl_cutoffs"))
    assert document["layers"] == other["layers"] and document["self_check"] == []
    assert all(np.array_equal(tensors[key], same[key]) for key in same)


@pytest.mark.parametrize("name, member", [("plain", "eager_model.pkl"), ("checkpoint", "data.pkl"), ("torchscript", "data.pkl")])
def test_a_malicious_file_is_refused_and_nothing_runs(name, member, folder, variant):
    source, _ = variant(name)
    note = folder / "note"
    call = b"cposix\nsystem\n(X" + struct.pack("<I", len(f"touch {note}")) + f"touch {note}".encode() + b"tR0"
    with zipfile.ZipFile(source) as whole, zipfile.ZipFile(folder / Path(source).name.replace(name, "bad"), "w") as bad:
        for entry in whole.namelist():
            content = whole.read(entry)
            if entry.endswith(f"/{member}"):
                content = content[:2] + call + content[2:]  # after the version of its protocol
                pickle_with_the_call = content
            bad.writestr(entry, content)
    with pytest.raises(EquiError, match="posix.system.*nothing of it was run"):
        nequip_checkpoint.load(bad.filename)
    assert not note.exists()
    assert any(argument == "posix system" for _, argument, _ in pickletools.genops(pickle_with_the_call))


def test_compiled_models_are_refused_with_what_to_do(folder):
    path = folder / "model.nequip.pt2"
    path.write_bytes(b"no matter what")
    with pytest.raises(EquiError, match="AOTInductor.*give the package"):
        nequip_checkpoint.load(path)


def test_other_files_are_not_ours(folder):
    torch.save({"model_state_dict": {}, "config": {}}, folder / "other.pth")
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), folder / "other.pt")
    (folder / "text.ckpt").write_text("text")
    for name in ("other.pth", "other.pt", "text.ckpt"):
        assert kind_of(folder / name) is None
        with pytest.raises(EquiError, match="neither a NequIP package"):
            nequip_checkpoint.load(folder / name)
    with pytest.raises(EquiError, match="is not a file"):
        nequip_checkpoint.load(folder / "absent.ckpt")


def test_damaged_packages_are_one_line(folder, variant):
    source, _ = variant("plain")
    with zipfile.ZipFile(source) as whole, zipfile.ZipFile(folder / "cut.nequip.zip", "w") as cut:
        for name in whole.namelist():
            if not name.endswith("eager_model.pkl"):
                cut.writestr(name, whole.read(name))
    with pytest.raises(EquiError, match="or a damaged one: .*eager_model.pkl") as error:
        nequip_checkpoint.load(folder / "cut.nequip.zip")
    assert "\n" not in str(error.value)


def test_units_are_stored_and_compared_with(legacy, folder, capsys):
    source, target = str(legacy("0.6.2")), str(folder / "bohr.equi")
    assert main(["convert", "-q", source, "-o", target, "--unit", "kcal/mol", "--length-unit", "Bohr"]) == 0
    assert main(["info", target]) == 0
    shown = capsys.readouterr().out
    assert re.search("energy_unit +kcal/mol", shown) and re.search("length_unit +Bohr", shown)
    plain = convert(source, folder / "plain.equi", quiet=True)
    assert plain["provenance"]["energy_unit"] == "eV" and plain["provenance"]["length_unit"] == "Angstrom"
    convert(source, target, unit="kcal/mol", length_unit="Bohr", quiet=True)
    assert_equal(target)
    write_frames(folder / "frames.extxyz")
    arguments = ["compare", "-q", target, source, str(folder / "frames.extxyz"), "--radial", "exact"]
    assert main(arguments) == 0 and main([*arguments, "--calculator", "framework"]) == 0
    assert main([*arguments, "--unit", "eV"]) == 1 and main([*arguments, "--length-unit", "Angstrom"]) == 1


def test_a_pair_potential_tells_the_unit(folder):
    options = dict(PLAIN, pair_potential={"_target_": "nequip.nn.pair_potential.ZBL", "units": "real", "chemical_species": ["Na", "Cl"]})
    source = make_model(folder / "real.nequip.zip", **options)
    document = convert(source, folder / "real.equi", quiet=True)
    assert document["provenance"]["energy_unit"] == "kcal/mol"
    assert_equal(folder / "real.equi")


def test_energies_that_are_hardly_in_electron_volts_are_noted(folder):
    source = make_model(folder / "kcal.nequip.zip", **PLAIN, shifts=-371000.0)
    note = "an atom of Na is shifted by -371000.*--unit eV | meV"
    assert re.search(note, convert_alone(source, folder / "noted.equi", quiet=True)["provenance"]["notes"])
    for unit in ("eV", "kcal/mol"):
        assert "notes" not in convert_alone(source, folder / "noted.equi", unit=unit, quiet=True)["provenance"]


def test_modalities_do_not_exist(folder, variant):
    source, _ = variant("plain")
    with pytest.raises(EquiError, match="NequIP models have no modality"):
        convert_alone(source, folder / "modality.equi", modality="PBE", quiet=True)


def test_global_settings_are_left_alone(folder, variant):
    import e3nn

    before = torch.get_default_dtype(), e3nn.get_optimization_defaults(), np.random.get_state()[1].tolist()
    source, _ = variant("plain")
    convert(source, folder / "plain.equi", quiet=True)
    assert before == (torch.get_default_dtype(), e3nn.get_optimization_defaults(), np.random.get_state()[1].tolist())


@pytest.mark.slow
def test_a_model_trained_by_the_nequip_command(folder):
    """Training, packaging and conversion of checkpoint and package."""
    assert convert_trained(folder, MODEL)["elements"] == ["Na", "Cl"]


MODEL = """
    _target_: nequip.model.NequIPGNNModel
    seed: 1
    model_dtype: float32
    type_names: [Na, Cl]
    r_max: 4.0
    num_layers: 2
    l_max: 2
    parity: true
    num_features: 5
    radial_mlp_width: 8
    avg_num_neighbors: {Na: 6.0, Cl: 6.5}
    per_type_energy_scales: 20.0
    per_type_energy_shifts: {Na: -1.0, Cl: -2.0}
    per_type_energy_shifts_trainable: true
"""
