# SPDX-License-Identifier: MIT
"""Allegro files -> .equi: the file against the framework's own modules, through a second reader of the file
(equi_evaluator).

Runs in the environment of tools/requirements-nequip.txt.
"""

import lzma
import os
import pickletools
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import old_versions
import pytest
import tensornet_laws as laws
import torch
from equi_tools import frameworks
from equi_tools.cli import main
from equi_tools.convert import convert as convert_alone
from equi_tools.errors import EquiError
from equi_tools.frameworks.nequip import allegro_audit, allegro_model
from equi_tools.frameworks.nequip import checkpoint as nequip_checkpoint
from equi_tools.frameworks.nequip import convert as nequip_convert
from equi_tools.frameworks.nequip import oracle as nequip_oracle
from equi_tools.frameworks.nequip.files import kind_of
from equi_tools.irreps import Irreps
from nequip_variants import (
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
from test_models.allegro import NA_CL, VARIANTS, builder_options, make_model, networks
from test_models.nequip import SUFFIXES, _write_package
from training_frames import write_frames

BUILT = BuiltVariants("allegro", VARIANTS)
converted = BUILT.converted


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def variant(folder):
    """(path, types or None) of one of VARIANTS; a copy of the build's file."""
    return lambda name: BUILT.source(name, folder)


def model_in(options):
    """The framework's own modules for the options of a variant."""
    import allegro.model.allegro_models as builders

    with nequip_oracle.nequip_state():
        name, config = builder_options(**options)
        return getattr(builders, name)(**config).eval()


def package(path, model):
    with nequip_oracle.nequip_state():
        _write_package(path, model)
    return str(path)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_option_is_converted_exactly(name, variant):
    source, _ = variant(name)
    assert frameworks.detect(source) is frameworks.NEQUIP
    assert kind_of(source) == BUILT.kind(name)
    assert_equal(converted(name))


@pytest.mark.parametrize(
    "name",
    ["lmax3_parity", "cutoffs", "type_neighbors", "checkpoint_options", "checkpoint_full", "torchscript_options", "float64", "gaps"],
)
def test_oracle_agrees_with_the_framework_as_its_users_run_it(name, variant):
    assert_users_calculator_agrees(*variant(name), BUILT.kind(name))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_model_is_the_one_that_allegro_builds(name, variant):
    """Compares irreps, constants and shapes with those of the framework's own builder, and the numbers with the modules in
    the file."""
    source, types = variant(name)
    checkpoint = nequip_checkpoint.load(source, types=types)
    built, original = nequip_oracle.build(checkpoint.config), nequip_oracle.modules_of(checkpoint)
    expected = {key: tuple(tensor.shape) for key, tensor in [*built.named_parameters(), *built.named_buffers()]
                if tensor.numel() and not allegro_audit.CONSTANT.search(key)}  # fmt: skip
    assert {key: array.shape for key, array in checkpoint.state.items() if array.size} == expected
    for key, tensor in [*original.named_parameters(), *original.named_buffers()]:
        if key in checkpoint.state:
            found = checkpoint.state[key]
            assert np.array_equal(found.reshape(-1), tensor.detach().numpy().reshape(-1)), key
            assert found.dtype == tensor.detach().numpy().dtype, key
    constants = dict(built.model.func.named_buffers())
    for place, module in allegro_model.build(checkpoint.config).named_modules():
        if module.class_name in ("ScalarLinearLayer", "DeepLinearMLP"):
            assert float(constants[f"{place}.alpha"]) == pytest.approx(float(module.alpha), rel=1e-7)
    for t, product in enumerate(built.model.func.allegro.tps):
        own = checkpoint.stages["allegro"].tps.submodules[str(t)]
        for part in ("irreps_in1", "irreps_in2", "irreps_out"):
            assert Irreps(str(getattr(product, part))) == getattr(own, part), part
        assert product.num_paths == len(own.paths)


@pytest.mark.parametrize("name", ["lmax2_wide", "spline_cutoffs", "type_neighbors", "uncoupled", "depths"])
def test_every_number_matters(name, folder):
    """A change of 1e-3 in any tensor of the file, and a flipped path, is noticed."""
    document, tensors = equi_file_read(converted(name))
    paths = [path for step in document["layers"][0]["steps"] for path in step.get("paths", [])]
    assert_numbers_matter(document, tensors, paths, folder / "spoiled.equi")


@pytest.mark.parametrize("name", ["cutoffs", "spline"])
def test_pairs_of_types_are_ordered(name, folder):
    """Receiver and sender are not exchanged: not in cutoffs, nor in factors of types, nor in weights of pairs."""
    from equi_tools import equi_file

    document, tensors = equi_file_read(converted(name))
    step = document["layers"][0]["steps"][0]
    if name == "cutoffs":
        stored = tensors[document["radial_basis"]["cutoffs"]]
        assert np.allclose(stored, [[3.1, 3.9, 3.6], [4.1, 3.5, 4.2], [3.3, 3.3, 3.3]], rtol=1e-15)
        turned = {document["radial_basis"]["cutoffs"]: stored.T.copy()}
        rows = {step["receiver"]: tensors[step["sender"]], step["sender"]: tensors[step["receiver"]]}
    else:
        rows = {step["pair_weights"]: tensors[step["pair_weights"]].transpose(1, 0, 2, 3).copy()}
        turned = rows
    for changed in (turned, rows):
        equi_file.write(folder / "turned.equi", document, {**tensors, **changed})
        assert differences(folder / "turned.equi")[1] > 1e-3


def test_numbers_are_kept(variant):
    assert_numbers_are_kept(variant("plain")[0], "allegro.latents.1.mlp.0.weight", variant("float64")[0])


@pytest.mark.parametrize("name, kept", [("cutoffs", ["O", "Na"]), ("type_neighbors", ["Cl"]), ("many_types", ["U", "H", "Si"]),
                                        ("spline", ["O", "Na"]), ("checkpoint_options", ["O", "Cl"])])  # fmt: skip
def test_a_subset_of_elements_is_the_same_function(name, kept, folder, variant):
    assert_subset_is_the_same_function(*variant(name), kept, converted(name), folder / "some.equi")


def test_names_of_types_are_mapped_to_elements(variant):
    source, _ = variant("type_names")
    with pytest.raises(EquiError, match="type a is not a chemical symbol.*--types a=ELEMENT"):
        nequip_checkpoint.load(source)
    assert equi_file_read(converted("type_names"))[0]["elements"] == ["Na", "Cl"]


@pytest.mark.parametrize("t, path", [(0, 5), (1, 1)])
def test_couplings_of_the_other_sign_are_read(t, path, folder):
    """A block of couplings and its weights with opposite signs are the same model. In the last product, the couplings
    have one axis for both factors."""
    model = model_in(VARIANTS["plain"])
    expected = nequip_convert.convert(nequip_checkpoint.load(package(folder / "usual.nequip.zip", model)))
    product = model.model.func.allegro.tps[t]
    with torch.no_grad():
        product.w3j[path] *= -1
        product.weights[:, path] *= -1
    document, tensors = nequip_convert.convert(nequip_checkpoint.load(package(folder / "flipped.nequip.zip", model)))
    products = [[step for step in d["layers"][0]["steps"] if step["step"] == "product"][t] for d in (expected[0], document)]
    for n, (usual, flipped) in enumerate(zip(*(p["paths"] for p in products))):
        sign = -1 if n == path else 1
        assert flipped["scale"] == sign * usual["scale"]
        assert np.array_equal(tensors[flipped["weights"]], sign * expected[1][usual["weights"]])
    convert(folder / "flipped.nequip.zip", folder / "flipped.equi", quiet=True)
    convert(folder / "usual.nequip.zip", folder / "usual.equi", quiet=True)
    assert_equal(folder / "flipped.equi", equi_file_read(folder / "usual.equi")[0]["self_check"])


def spoil_coupling(energy):
    energy.allegro.tps[0].w3j[3] *= 1.1


def spoil_alpha(energy):
    energy.allegro.latents[1].mlp[2].alpha *= 1.1


def spoil_projection(energy):
    energy.allegro.first_layer_env_embed_projection.mlp[0].alpha *= 1.1


def spoil_norm(energy):
    energy.edge_eng_sum.norm_module.norm_const *= 1.1


def spoil_harmonics(energy):
    energy.tensor_embed.sh.normalization = "norm"


def spoil_stage(energy):
    from nequip.nn.misc import ApplyFactor

    energy.append("dispersion", ApplyFactor("atomic_energy", 2.0, irreps_in=energy.irreps_out))


def spoil_bias(energy):
    energy.edge_readout.mlp_module.mlp[0].bias = torch.nn.Parameter(torch.zeros(7))


SPOILED = {
    spoil_coupling: r"allegro.tps.0: the couplings of path \[.*\] are none of a known convention",
    spoil_alpha: "allegro.latents.1.mlp.2: the scale of its matrix is not the one that allegro computes",
    spoil_projection: "first_layer_env_embed_projection.mlp.0: the scale of its matrix",
    spoil_norm: "edge_eng_sum: its number of neighbors is not that of the layers",
    spoil_harmonics: "tensor_embed: only normalized harmonics with component normalization",
    spoil_stage: r"module dispersion \(ApplyFactor\) is not supported: it is not a part of Allegro's",
    spoil_bias: "readout_mlp: biases are not supported",
}


@pytest.mark.parametrize("change", SPOILED)
def test_modules_that_are_not_those_of_their_options_are_refused(change, folder):
    model = model_in(VARIANTS["plain"])
    with torch.no_grad():
        change(model.model.func)
    source = package(folder / "spoiled.nequip.zip", model)
    with pytest.raises(EquiError, match=SPOILED[change]) as error:
        nequip_checkpoint.load(source)
    assert "spoiled.nequip.zip" in str(error.value) and "\n" not in str(error.value)


def test_a_grid_of_splines_that_is_not_the_frameworks_is_refused(folder):
    model = model_in(VARIANTS["spline_narrow"])
    model.model.func.radial_chemical_embed.spline.lower[2] += 0.01
    with pytest.raises(EquiError, match="radial_chemical_embed.spline.lower is not the grid that allegro computes"):
        nequip_checkpoint.load(package(folder / "grid.nequip.zip", model))


PLAIN = VARIANTS["plain"]
LENNARD_JONES = {"_target_": "nequip.nn.pair_potential.LennardJones", "lj_sigma": 1.0, "lj_epsilon": 1.0}
REFUSED = {
    "sigmoid": (dict(PLAIN, **networks(1, "sigmoid")), "scalar_embed_mlp_nonlinearity: sigmoid is not supported: it is not 0 at 0"),
    "softplus": (dict(PLAIN, **networks(1, "softplus")), "scalar_embed_mlp_nonlinearity: [Ss]oftplus is not supported"),
    "lennard jones": (dict(PLAIN, pair_potential=LENNARD_JONES), r"pair_potential \(LennardJones\) is not supported"),
    "twice": (
        dict(**NA_CL, irreps_edge_sh="0e+1o+1o", tensor_track_allowed_irreps="0e+1o", num_layers=2),
        "irreps_edge_sh: .* is not supported: an irrep stands twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["package", "checkpoint"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused_by_name(case, kind, folder):
    options, expected = REFUSED[case]
    source = make_model(folder / f"refused{SUFFIXES[kind]}", kind=kind, **options)
    with pytest.raises(EquiError, match=expected) as error:
        nequip_checkpoint.load(source)
    assert "refused" in str(error.value) and "\n" not in str(error.value)


def test_high_degrees_are_refused(folder):
    source = make_model(
        folder / "l9.nequip.zip", **NA_CL, irreps_edge_sh="0e+9o", tensor_track_allowed_irreps="0e", num_layers=1, num_tensor_features=2
    )
    with pytest.raises(EquiError, match="l_max: 9 is not supported, at most 8"):
        convert_alone(source, folder / "l9.equi", quiet=True)


def test_packages_of_several_models_are_refused(folder):
    import yaml
    from nequip.scripts import _package_utils as packages

    model = model_in(PLAIN)
    with nequip_oracle.nequip_state(), torch.package.PackageExporter(str(folder / "two.nequip.zip")) as exporter:
        for rule, names in (("mock", "_MOCK_MODULES"), ("extern", "_EXTERNAL_MODULES"), ("intern", "_INTERNAL_MODULES")):
            getattr(exporter, rule)([f"{name}.**" for name in getattr(packages, names)])
        exporter.save_text("model", "package_metadata.txt", yaml.dump({"versions": {"nequip": "0.19.1"}}))
        exporter.save_pickle("model", "eager_model.pkl", torch.nn.ModuleDict({"a": model, "b": model}), dependencies=True)
    with pytest.raises(EquiError, match=r"holds 2 models \(a, b\): only files with one are supported"):
        nequip_checkpoint.load(folder / "two.nequip.zip")


def test_models_of_allegro_0_3_are_refused_by_name(folder):
    """The file of golden/make_allegro_old.py."""
    path = folder / "deployed.pth"
    path.write_bytes(lzma.decompress((Path(__file__).resolve().parents[2] / "golden" / "allegro-0.3.0.pth.xz").read_bytes()))
    assert frameworks.detect(path) is frameworks.NEQUIP
    with pytest.raises(EquiError, match="Allegro 0.3: models of allegro 0.3 and older have another architecture"):
        nequip_checkpoint.load(path)


def test_models_of_energies_only_are_converted(folder, variant):
    source = make_model(folder / "energies.nequip.zip", **PLAIN, do_derivatives=False)
    convert(source, folder / "energies.equi", quiet=True)
    assert_equal(folder / "energies.equi", equi_file_read(converted("plain"))[0]["self_check"])


@pytest.fixture
def today(folder):
    """A checkpoint whose options allegro 0.4 had, too: (its content, what it is converted to)."""
    source = make_model(
        folder / "today.ckpt", kind="checkpoint", **NA_CL, l_max=2, parity=True, num_layers=3, radial_chemical_embed_dim=32,
        **networks(2) | {"scalar_embed_mlp_hidden_layers_width": 64, "readout_mlp_nonlinearity": None},
    )  # fmt: skip
    return torch.load(source, weights_only=False), nequip_convert.convert(nequip_checkpoint.load(source))


def as_of_0_4(raw):
    """Its options and names of tensors as allegro 0.4 had them."""
    options = raw["hyper_parameters"]["info_dict"]["training_module"]["model"]
    for key in list(options):
        if key in ("radial_chemical_embed", "radial_chemical_embed_dim", "parity") or key.startswith("scalar_embed_mlp"):
            del options[key]
    # Left to the defaults of that time.
    for key in ("readout_mlp_nonlinearity", "readout_mlp_hidden_layers_depth", "allegro_mlp_hidden_layers_depth"):
        del options[key]
    options |= {"parity_setting": "o3_full", "scatter_features": False}
    options["scalar_embed"] = {"_target_": "allegro.nn.TwoBodyBesselScalarEmbed"}
    names = (("func.scalar_embed_mlp.", "func.scalar_embed.twobody_mlp."), ("func.radial_chemical_embed.", "func.scalar_embed."))
    for name in list(raw["state_dict"]):
        new = name
        for today, then in names:
            new = new.replace(today, then)
        raw["state_dict"][new] = raw["state_dict"].pop(name)
    return options


def test_checkpoints_of_allegro_0_4_are_read(today, folder):
    raw, expected = today
    options = as_of_0_4(raw)
    torch.save(raw, folder / "old.ckpt")
    assert_same_conversion(nequip_convert.convert(nequip_checkpoint.load(folder / "old.ckpt")), expected)
    options["scatter_features"] = True
    torch.save(raw, folder / "old.ckpt")
    with pytest.raises(EquiError, match="scatter_features: models that sum features in place of the environment"):
        nequip_checkpoint.load(folder / "old.ckpt")
    options |= {"scatter_features": False, "scalar_embed": {"_target_": "allegro.nn.TwoBodySplineScalarEmbed"}}
    torch.save(raw, folder / "old.ckpt")
    with pytest.raises(EquiError, match="Allegro 0.4: its spline embedding"):
        nequip_checkpoint.load(folder / "old.ckpt")


@pytest.mark.parametrize("change, expected", [
    ({"_target_": "allegro_pol.model.AllegroPolarModel"}, "only models of nequip and allegro are supported"),
    ({"_target_": "allegro.model.Other"}, "model allegro.model.Other: run nequip-package"),
    ({"num_heads": 2}, "option num_heads of AllegroModel is not known"),
    ({"radial_chemical_embed": {"_target_": "mine.Embedding"}}, "radial_chemical_embed: mine.Embedding is not supported"),
    ({"radial_chemical_embed": {"_target_": "allegro.nn.TwoBodyBesselScalarEmbed", "x": 1}}, "option x of radial_chemical_embed is not known"),
    ({"avg_num_neighbors": None}, "avg_num_neighbors: the checkpoint does not say it"),
    ({"num_tensor_features": 7}, "tensor .*: expected the shape"),
    ({"num_layers": 2}, "allegro.tps.0: couplings of the shape"),
])  # fmt: skip
def test_options_that_do_not_fit_are_refused(change, expected, today, folder):
    raw, _ = today
    raw["hyper_parameters"]["info_dict"]["training_module"]["model"].update(change)
    torch.save(raw, folder / "other.ckpt")
    with pytest.raises(EquiError, match=expected):
        nequip_checkpoint.load(folder / "other.ckpt")


def test_accelerations_do_not_change_a_model(today, folder):
    raw, expected = today
    training = raw["hyper_parameters"]["info_dict"]["training_module"]
    plain = training["model"]
    modifiers = [{"modifier": "enable_CuEquivarianceContracter"}]
    training["model"] = {"_target_": "nequip.model.modify", "modifiers": modifiers, "model": plain}
    torch.save(raw, folder / "modified.ckpt")
    assert nequip_convert.convert(nequip_checkpoint.load(folder / "modified.ckpt"))[0] == expected[0]
    training["model"]["modifiers"] = [{"modifier": "modify_PerTypeScaleShift"}]
    torch.save(raw, folder / "modified.ckpt")
    with pytest.raises(EquiError, match="modifier modify_PerTypeScaleShift: run nequip-package"):
        nequip_checkpoint.load(folder / "modified.ckpt")


def test_a_model_is_converted_without_torch(folder, variant):
    source, _ = variant("torchscript_options")
    program = (
        "import sys\n"
        "for name in ('torch', 'e3nn', 'nequip', 'allegro', 'lightning', 'hydra'): sys.modules[name] = None\n"
        "from equi_tools.convert import convert\n"
        f"convert({source!r}, {str(folder / 'alone.equi')!r}, quiet=True)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))
    (document, tensors), (other, same) = equi_file_read(folder / "alone.equi"), equi_file_read(converted("torchscript_options"))
    assert document["layers"] == other["layers"] and document["self_check"] == []
    assert all(np.array_equal(tensors[key], same[key]) for key in same)


def test_a_malicious_package_is_refused_and_nothing_runs(folder, variant):
    source, _ = variant("plain")
    note = folder / "note"
    text = f"touch {note}".encode()
    call = b"cposix\nsystem\n(X" + len(text).to_bytes(4, "little") + text + b"tR0"
    with zipfile.ZipFile(source) as whole, zipfile.ZipFile(folder / "bad.nequip.zip", "w") as bad:
        for entry in whole.namelist():
            content = whole.read(entry)
            if entry.endswith("/eager_model.pkl"):
                content = content[:2] + call + content[2:]  # after the version of its protocol
                assert any(argument == "posix system" for _, argument, _ in pickletools.genops(content))
            bad.writestr(entry, content)
    with pytest.raises(EquiError, match="posix.system.*nothing of it was run"):
        nequip_checkpoint.load(bad.filename)
    assert not note.exists()


@pytest.mark.parametrize("name", ["cutoffs", "spline_wide", "checkpoint_options"])
def test_native_evaluation_is_that_of_the_framework(name, folder, variant):
    source, _ = variant(name)
    write_frames(folder / "frames.extxyz")
    assert main(["compare", "-q", str(converted(name)), source, str(folder / "frames.extxyz"), "--radial", "exact"]) == 0


def test_information_names_the_steps(capsys):
    assert main(["info", str(converted("plain"))]) == 0
    shown = capsys.readouterr().out
    assert re.search("plain.equi: Allegro, a model of nequip", shown)
    assert re.search(r"local_network .*steps 14, dense product readout scalars sum tensor", shown), shown


# Packages that precede nequip and allegro on the path, and the file suffixes to compare.
EARLY, ALL = (".ckpt", ".nequip.pth"), (".ckpt", ".nequip.pth", ".nequip.zip")
OLDER = {
    "0.4.0": (["nequip-allegro==0.4.0", "nequip==0.7.1", "e3nn==0.5.8"], EARLY),
    "0.5.1": (["nequip-allegro==0.5.1", "nequip==0.7.1", "e3nn==0.5.8"], EARLY),
    "0.6.3": (["nequip-allegro==0.6.3", "nequip==0.11.1", "e3nn==0.5.8"], ALL),
    "0.7.1": (["nequip-allegro==0.7.1", "nequip==0.13.0", "e3nn==0.5.8"], ALL),
    "0.8.0": (["nequip-allegro==0.8.0", "nequip==0.16.2", "e3nn==0.5.9"], ALL),
    "0.8.2": (["nequip-allegro==0.8.2", "nequip==0.18.0"], ALL),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("version", OLDER)
def test_models_of_older_versions_are_what_these_evaluate(version, tmp_path):
    requirements, suffixes = OLDER[version]
    old_versions.run("made_by_allegro.py", requirements, tmp_path, {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"})
    results = sorted(tmp_path.glob("*.npz"))
    assert len(results) >= 4
    for result in results:
        for suffix in suffixes:
            found = old_versions.differences(f"{result.with_suffix('')}{suffix}", result, result.with_suffix(".equi"), unit="eV")
            laws.assert_within_bars(found)


@pytest.mark.slow
def test_a_model_trained_by_the_nequip_command(folder):
    """Training, packaging and conversion of checkpoint and package."""
    assert convert_trained(folder, MODEL)["architecture"] == "Allegro"


MODEL = """
    _target_: allegro.model.AllegroModel
    seed: 1
    model_dtype: float32
    type_names: [Na, Cl]
    r_max: 4.0
    l_max: 2
    num_layers: 2
    num_scalar_features: 6
    num_tensor_features: 5
    radial_chemical_embed: {_target_: allegro.nn.TwoBodyBesselScalarEmbed, num_bessels: 5, bessel_trainable: true}
    avg_num_neighbors: {Na: 6.0, Cl: 6.5}
    per_type_energy_scales: 20.0
    per_type_energy_shifts: {Na: -1.0, Cl: -2.0}
    per_type_energy_shifts_trainable: true
"""
