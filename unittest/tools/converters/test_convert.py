# SPDX-License-Identifier: MIT
"""`equi convert` of SevenNet models: the file against the framework, through a second reader of the file
(equi_evaluator)."""

import json
import os
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
from built_models import built, built_copy
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file, frameworks, reference_values, self_check
from equi_tools.cli import main
from equi_tools.convert import convert as convert_alone
from equi_tools.coupling import coupling
from equi_tools.errors import EquiError
from test_models import convert_with_reference as convert
from test_models import sevenn as sevenn_models
from training_frames import write_frames

# Two evaluations in float64 through at most five layers of sums over some hundred channels.
TOLERANCE = 1e-10
# The framework's own evaluation in float32 against the one in float64.
FLOAT32_TOLERANCE = 2e-5


def largest_difference(path, entries=None):
    """Largest relative difference between a file's evaluation and its stored values, over all quantities.

    Forces and stresses are relative to the largest of the file, so weak random models are tested as strictly.
    """
    evaluator = EquiEvaluator(path)
    entries = entries or evaluator.document["self_check"]
    force = max(np.abs(s["forces"]).max() for s in entries)
    stress = max(np.abs(s["stress"]).max() for s in entries if s["stress"])
    assert force > 0 and stress > 0, "the structures do not test the model"
    worst = 0.0
    for s in entries:
        energy, forces, own_stress, _ = evaluator.evaluate(s["symbols"], s["positions"], s["cell"], s["pbc"])
        found = [abs(energy - s["energy"]) / max(1.0, abs(energy)), np.abs(forces - s["forces"]).max() / force]
        if s["stress"]:
            found.append(np.abs(own_stress - s["stress"]).max() / stress)
        assert np.all(np.isfinite(found))
        worst = max(worst, *found)
    return worst


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def variant(folder):
    """(checkpoint path, modality or None) of one of sevenn_models.VARIANTS; a copy of the build's."""
    return lambda name: (built_copy(f"tiny/{name}.pth", folder), sevenn_models.modality_of(name))


def converted(name):
    """The file that the build has converted from a variant."""
    return built(f"tiny/{name}.equi")


@pytest.mark.parametrize("name", sevenn_models.VARIANTS)
def test_every_option_is_converted_exactly(name):
    assert largest_difference(converted(name)) < TOLERANCE


@pytest.mark.parametrize(
    "source, modality",
    [("7net-0", None), ("7net-0_22May2024", None), ("7net-l3i5", None), ("7net-mf-0", "PBE"), ("7net-mf-0", "R2SCAN")],
)
def test_shipped_checkpoints_are_converted_exactly(source, modality, folder):
    made_by_the_build = {"7net-0": "sevennet-0.equi", "7net-l3i5": "sevennet-l3i5.equi"}
    if source in made_by_the_build:
        path = built(made_by_the_build[source])
        document, _ = equi_file.read(path)
    else:
        path = folder / "shipped.equi"
        # The values that are known of the file.
        document = convert_alone(source, path, modality=modality, quiet=True)
    assert document["framework"]["version"] != reference_values.NO_VERSION
    assert largest_difference(path) < TOLERANCE
    assert len(document["elements"]) == 89
    assert document["provenance"]["licence"] == "MIT"
    assert all(isinstance(v, str) for v in document["provenance"].values())


@pytest.mark.parametrize("name", ["parity", "nequip", "raw_harmonics", "odd_scalars_only", "modal", "radial_deep"])
def test_oracle_agrees_with_the_framework_as_its_users_run_it(name, variant):
    from equi_tools.frameworks.sevenn import oracle as sevenn_oracle

    checkpoint, modality = variant(name)
    exact = sevenn_oracle.float64_calculator(checkpoint, modality)
    rounded = sevenn_oracle.framework_calculator(checkpoint, modality)
    for _, atoms in self_check.structures(exact.elements, exact.cutoff):
        atoms.calc = rounded
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        atoms.calc = exact
        assert abs(atoms.get_potential_energy() - energy) < FLOAT32_TOLERANCE * max(1, abs(energy))
        assert np.abs(atoms.get_forces() - forces).max() < FLOAT32_TOLERANCE * max(1, np.abs(forces).max())


def old_sign(l1, l2, l3):
    """Sign of the coupling before e3nn 0.5 against today's, up to l = 4: permutations of (1, l, l) with l > 1 differ."""
    a, b, c = sorted((l1, l2, l3))
    return -1 if a == 1 and b == c and b > 1 else 1


def as_written_in_2024(source, target, rename):
    """The same function in the form of old checkpoints: creation order, old couplings and, on request, old names."""
    from equi_tools.frameworks.sevenn import checkpoint as sevenn_checkpoint
    from equi_tools.frameworks.sevenn import oracle as sevenn_oracle

    modules = sevenn_oracle.modules_of(sevenn_checkpoint.load(source))._modules
    raw = torch.load(source, weights_only=False)
    state = dict(raw["model_state_dict"])
    for t in range(raw["config"]["num_convolution_layer"]):
        module = modules[f"{t}_convolution"]
        ins, edge, mid = (module.convolution_kwargs[k] for k in ("irreps_in1", "irreps_in2", "irreps_out"))
        key = f"{t}_convolution.weight_nn.layer{len(module.weight_nn.hs) - 2}.weight"
        columns, begin = {}, 0
        for i, j, k, *_ in module.convolution_kwargs["instructions"]:
            sign = old_sign(ins[i].ir.l, edge[j].ir.l, mid[k].ir.l)
            columns[i, j, k] = sign * state[key][:, begin : begin + ins[i].mul]
            begin += ins[i].mul
        state[key] = torch.cat([columns[tuple(p[:3])] for p in module._instructions_before_sort], dim=1)
    for name in state:
        if "_w3j_" in name:
            state[name] = state[name] * old_sign(*map(int, name.split("_")[-3:]))
    if rename:
        words = {"edge_embedding": "EdgeEmbedding", "reduce_input_to_hidden": "reducing nn input to hidden",
                 "reduce_hidden_to_energy": "reducing nn hidden to energy", "rescale_atomic_energy": "rescale atomic energy",
                 "denominator": "denumerator"}  # fmt: skip
        old = {}
        for name, tensor in state.items():
            for new_word, old_word in words.items():
                name = name.replace(new_word, old_word)
            for word in ("self_connection_intro", "convolution", "self_interaction_2", "equivariant_gate"):
                name = name.replace("_" + word + ".", " " + word.replace("_", " ") + ".", 1)
            old[name] = tensor
        state = old
    raw["config"].update(version="0.9.1", train_avg_num_neigh=False, optimize_by_reduce=True, shift_cp=1.0)
    raw["model_state_dict"] = state
    torch.save(raw, target)


@pytest.mark.parametrize("rename", [False, True])
@pytest.mark.parametrize("name", ["plain", "lmax3", "parity", "lmax3_parity"])
def test_old_checkpoints_give_the_same_model(name, rename, folder, variant):
    source, _ = variant(name)
    new, _ = equi_file.read(converted(name))
    as_written_in_2024(source, folder / "old.pth", rename)
    old = convert(str(folder / "old.pth"), folder / "old.equi", quiet=True)
    if name == "lmax3":
        # The test can only fail if some path changes its sign.
        flipped = [p["scale"] < 0 for layer in old["layers"] if layer["type"] == "convolution" for p in layer["paths"]]
        assert any(flipped) and not all(flipped)
    assert largest_difference(folder / "old.equi", new["self_check"]) < TOLERANCE
    assert largest_difference(folder / "old.equi") < TOLERANCE


def test_old_checkpoints_agree_with_the_frameworks_own_loader(folder, variant):
    from equi_tools.frameworks.sevenn import oracle as sevenn_oracle

    source, _ = variant("lmax3")
    as_written_in_2024(source, folder / "old.pth", rename=False)
    exact = sevenn_oracle.float64_calculator(str(folder / "old.pth"))
    rounded = sevenn_oracle.framework_calculator(str(folder / "old.pth"))
    for _, atoms in self_check.structures(exact.elements, exact.cutoff):
        atoms.calc = rounded
        forces = atoms.get_forces()
        atoms.calc = exact
        assert np.abs(atoms.get_forces() - forces).max() < FLOAT32_TOLERANCE * max(1, np.abs(forces).max())


def test_a_flipped_path_is_noticed(folder):
    document, tensors = equi_file.read(converted("lmax3"))
    layer = [layer for layer in document["layers"] if layer["type"] == "convolution"][1]
    layer["paths"][5]["scale"] *= -1
    equi_file.write(folder / "flipped.equi", document, tensors)
    assert largest_difference(folder / "flipped.equi") > 1e-6


def test_numbers_of_float64_checkpoints_are_kept(folder):
    source = sevenn_models.make_checkpoint(folder / "double.pth", dtype=torch.float64, **sevenn_models.VARIANTS["plain"])
    convert(source, folder / "double.equi", quiet=True)
    _, tensors = equi_file.read(folder / "double.equi")
    raw = torch.load(source, weights_only=False)["model_state_dict"]
    assert tensors["0_convolution.weight_nn.layer0"].dtype == np.float64
    assert np.array_equal(
        tensors["0_convolution.weight_nn.layer0"], raw["0_convolution.weight_nn.layer0.weight"].numpy()
    )
    assert largest_difference(folder / "double.equi") < TOLERANCE


@pytest.mark.parametrize("name, is_shorter", [("odd_scalars_only", True), ("parity", False)])
def test_paths_that_nothing_reads_are_left_out(name, is_shorter, folder, variant):
    """With irreps_manual sevenn computes irreps that the features lack."""
    from equi_tools.frameworks.sevenn import checkpoint as sevenn_checkpoint

    source, _ = variant(name)
    document = convert(source, folder / "short.equi", quiet=True)
    assert largest_difference(folder / "short.equi") < TOLERANCE
    read = {(layer["input"], block["in"]) for layer in document["layers"] if layer["type"] == "linear" for block in layer["blocks"]}
    counts = []
    for layer in document["layers"]:
        if layer["type"] == "convolution":
            assert all((layer["output"], path["out"]) in read for path in layer["paths"])
            counts.append(len(layer["paths"]))
    theirs = [len(convolution.paths) for convolution in sevenn_checkpoint.load(source).model.convolutions]
    assert sum(counts) < sum(theirs) if is_shorter else counts == theirs


@pytest.mark.parametrize(
    "name, kept", [("nequip_so3", ["O", "Ba"]), ("modal", ["Cl"]), ("many_elements", ["U", "H", "Si"])]
)
def test_a_subset_of_elements_is_the_same_function(name, kept, folder, variant):
    source, modality = variant(name)
    document = convert(source, folder / "some.equi", modality=modality, elements=kept, quiet=True)
    assert document["elements"] == kept
    assert largest_difference(folder / "some.equi") < TOLERANCE
    assert largest_difference(converted(name), document["self_check"]) < TOLERANCE


def test_universal_models_have_no_element_x(folder):
    from ase.data import chemical_symbols

    options = dict(sevenn_models.VARIANTS["plain"], elements=chemical_symbols[:119])
    options["_type_map"] = {z: z for z in range(119)}
    source = sevenn_models.make_checkpoint(folder / "univ.pth", **options)
    document = convert(source, folder / "univ.equi", quiet=True)
    assert document["elements"] == chemical_symbols[1:119]
    assert largest_difference(folder / "univ.equi") < TOLERANCE


@pytest.mark.slow
def test_a_model_trained_by_the_sevenn_command(folder):
    work = folder / "training"
    work.mkdir()
    write_frames(work / "train.extxyz")
    (work / "input.yaml").write_text("""
model: {chemical_species: auto, cutoff: 4.0, channel: 5, lmax: 2, num_convolution_layer: 2, is_parity: True,
        weight_nn_hidden_neurons: [8], train_denominator: True, train_shift_scale: True, self_connection_type: nequip}
train: {epoch: 2, per_epoch: 1, is_train_stress: True, scheduler: exponentiallr, scheduler_param: {gamma: 0.99}}
data: {batch_size: 3, load_trainset_path: ['train.extxyz'], load_validset_path: ['train.extxyz']}
""")
    command = [sys.executable, "-c", "from sevenn.main.sevenn import main; main()", "train", "input.yaml"]
    done = subprocess.run(
        command, cwd=work, capture_output=True, text=True, env=dict(os.environ, CUDA_VISIBLE_DEVICES="")
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (checkpoint,) = work.glob("checkpoint_best.pth")
    document = convert(str(checkpoint), folder / "trained.equi", quiet=True)
    assert document["elements"] == ["Cl", "Na"]
    assert largest_difference(folder / "trained.equi") < TOLERANCE


# Numbers of sevenn_models.VARIANTS that a version can build; the others need later options.
OLDER = {"0.9.3.post1": 21, "0.10.0": 21, "0.10.4": 21, "0.11.0": 23, "0.11.2.post1": 24, "0.12.0": 24, "0.12.1": 24}


@pytest.mark.slow
@pytest.mark.parametrize("version", OLDER)
def test_models_of_older_versions_are_what_these_evaluate(version, tmp_path):
    old_versions.run("made_by_sevenn.py", [f"sevenn=={version}"], tmp_path)
    results = sorted(tmp_path.glob("*.npz"))
    assert len(results) == OLDER[version], json.loads((tmp_path / "left_out.json").read_text())
    for result in results:
        modality = sevenn_models.modality_of(result.stem)
        found = old_versions.differences(result.with_suffix(".pth"), result, result.with_suffix(".equi"), modality=modality)
        laws.assert_within_bars(found)


def changed_checkpoint(folder, change, name="plain"):
    raw = torch.load(built(f"tiny/{name}.pth"), weights_only=False)
    change(raw)
    torch.save(raw, folder / "changed.pth")
    return str(folder / "changed.pth")


def set_config(**values):
    return lambda raw: raw["config"].update(values)


def drop(name):
    return lambda raw: raw["model_state_dict"].pop(name)


def spoil_coupling(raw):
    key = next(k for k in raw["model_state_dict"] if "_w3j_" in k)
    raw["model_state_dict"][key] = raw["model_state_dict"][key] * 1.1


def add_tensor(raw):
    raw["model_state_dict"]["0_density.weight"] = torch.ones(3)


REFUSED = {
    "unknown key": (set_config(use_charge_head=True), "use_charge_head"),
    "activation": (set_config(act_radial="elu"), "act_radial: 'elu'"),
    "gate activation": (set_config(act_gate={"e": "elu", "o": "tanh"}), "act_gate.e"),
    "readout activation": (set_config(readout_as_fcn=True, readout_fcn_activation="elu"), "readout_fcn_activation"),
    "radial basis": (set_config(radial_basis={"radial_basis_name": "gaussian"}), "radial_basis_name"),
    "radial basis option": (set_config(radial_basis={"radial_basis_name": "bessel", "shift": 1}), "radial_basis.shift"),
    "cutoff function": (set_config(cutoff_function={"cutoff_function_name": "cosine"}), "cutoff_function_name"),
    "cutoff power": (
        set_config(cutoff_function={"cutoff_function_name": "poly_cut", "poly_cut_p_value": 1}),
        "poly_cut_p_value",
    ),
    "self connection": (set_config(self_connection_type="none"), "self_connection_type"),
    "self connection list": (set_config(self_connection_type=["linear", "mace", "linear"]), "self_connection_type"),
    "interaction": (set_config(interaction_type="mace"), "interaction_type"),
    "model type": (set_config(_model_type="new_model"), "_model_type"),
    "newer version": (set_config(version="99.0.0"), "newer"),
    "no version": (set_config(version=None), "version"),
    "scalars last": (
        set_config(irreps_manual=["13x0e", "5x1e+13x0e+3x2e", "13x0e+5x1e+3x2e", "13x0e"]),
        "scalar block after",
    ),
    "wrong channels": (
        set_config(irreps_manual=["11x0e", "13x0e+5x1e+3x2e", "13x0e+5x1e+3x2e", "13x0e"]),
        "onehot_to_feature_x",
    ),
    "missing tensor": (drop("1_self_interaction_2.linear.weight"), "1_self_interaction_2.linear.weight"),
    "unused tensor": (add_tensor, "0_density.weight"),
    "unknown coupling": (spoil_coupling, "coupling"),
    "not a checkpoint": (lambda raw: raw.pop("config"), "not a SevenNet checkpoint"),
    "several unknown keys": (
        set_config(use_charge_head=True, new_head=2, radial_basis={"radial_basis_name": "bessel", "shift": 1}),
        "configuration keys use_charge_head, new_head, radial_basis.shift are not known, they may change the energy; --ignore-key "
        "use_charge_head --ignore-key new_head --ignore-key radial_basis.shift lets them pass",
    ),
    "newer version with unknown keys": (set_config(version="99.0.0", new_head=2), "newer than the newest known"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused_by_name_in_one_line(case, folder, capsys):
    change, expected = REFUSED[case]
    source = changed_checkpoint(folder, change)
    target = folder / "refused.equi"
    assert main(["convert", "-q", source, "-o", str(target)]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1
    assert expected in message
    assert not target.exists()


def pickle_of(*classes, strings=()):
    """A pickle of torch.save of objects of these classes, which need not exist, and of texts."""
    calls = b"".join(b"c" + module.encode() + b"\n" + name.encode() + b"\n)R0" for module, name in classes)
    texts = b"".join(b"X" + struct.pack("<I", len(text)) + text.encode() + b"0" for text in strings)
    return {"archive/data.pkl": b"\x80\x02" + calls + texts + b"}.", "archive/version": b"3\n"}


# Content of a file, by the names in a zip archive or as bytes, or in a folder; its name; and its kind in messages.
OTHER_FAMILIES = {
    "CHGNet": (pickle_of(strings=["model", "composition_model.fc.weight"]), "chgnet.pth.tar"),
    "Orb": (pickle_of(strings=["gnn_stacks.0._edge_mlp.NN-0.weight"]), "orb-v3.ckpt"),
    "MatterSim": (pickle_of(strings=["model_name", "m3gnet", "model_args"]), "mattersim-v1.0.0-1M.pth"),
    "PET": (pickle_of(strings=["architecture_name", "pet", "model_data"]), "pet-mad.ckpt"),
    "SchNetPack": (pickle_of(("schnetpack.model.base", "NeuralNetworkPotential")), "best_model"),
    "AIMNet2": ({**pickle_of(), "archive/code/__torch__/aimnet/models/base.py": b""}, "aimnet2.jpt"),
    "M3GNet": ({"/m3gnet.json": b"{}", "/m3gnet.index": b""}, "EFS2021"),
    "GRACE": ({"/saved_model.pb": b""}, "GRACE-2L-OAM"),
    "ACE": ({"": b"elements: [Cu]\n"}, "Cu.yace"),
    "MTP": ({"": b"MTP\nversion = 1.1.0\n"}, "pot.mtp"),
    "GAP": ({"": b'<GAP_params label="x">'}, "gap.xml"),
}


@pytest.mark.parametrize("name", OTHER_FAMILIES)
def test_other_families_are_called_by_name(name, tmp_path, capsys):
    content, file = OTHER_FAMILIES[name]
    source = tmp_path / file
    if "" in content:
        source.write_bytes(content[""])
    elif all(entry.startswith("/") for entry in content):
        source.mkdir()
        for entry, text in content.items():
            (source / entry[1:]).write_bytes(text)
    else:
        with zipfile.ZipFile(source, "w") as archive:
            for entry, text in content.items():
                archive.writestr(entry, text)
    assert main(["convert", "-q", str(source), "-o", str(tmp_path / "x.equi")]) == 1
    message = capsys.readouterr().err
    assert f"{source} is a {name} model, a family that is not supported: " in message
    assert "SevenNet" not in message and message.count("\n") == 1


def test_models_of_nobody_are_not_called_after_a_family(tmp_path, capsys):
    torch.save({"weights": torch.ones(3)}, tmp_path / "some.pth")
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "script.pt")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "object.pt")
    for name, expected in (("some.pth", "no model of the frameworks that are supported"),
                           ("script.pt", "class torch.nn.modules.linear.Linear"),
                           ("object.pt", "class torch.nn.modules.linear.Linear")):  # fmt: skip
        assert main(["convert", "-q", str(tmp_path / name), "-o", str(tmp_path / "x.equi")]) == 1
        message = capsys.readouterr().err
        assert expected in message and "SevenNet" not in message


def test_a_deployed_model_is_refused_with_what_to_do(tmp_path, capsys):
    from sevenn.scripts.deploy import deploy

    deploy(built("tiny/plain.pth"), str(tmp_path / "deployed.pt"))
    assert main(["convert", "-q", str(tmp_path / "deployed.pt"), "-o", str(tmp_path / "x.equi")]) == 1
    message = capsys.readouterr().err
    assert "sevenn 0.13.0 has deployed for its own pair styles for " in message and "give the checkpoint (.pth)" in message


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["7net-omni"], "downloaded: get its .pth from the source that 'equi models' lists"),
        (["7net-nothing"], "neither a file nor"),
        (["mace-mp-0"], "'equi models' lists others"),
        (["nothing.model"], "cannot read nothing.model: no such file"),
        (["7net-mf-0"], "--modality"),
        (["7net-mf-0", "--modality", "LDA"], "no modality 'LDA'"),
        (["7net-0", "--modality", "PBE"], "no modalities"),
        (["7net-0", "--elements", "Na,Xx"], "Xx"),
        (["7net-0", "--elements", "Na,Na"], "twice"),
        ([__file__], "is a text file, without the numbers of a model"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, expected, tmp_path, capsys):
    assert main(["convert", "-q", *arguments, "-o", str(tmp_path / "x.equi")]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1 and expected in message


@pytest.mark.parametrize("name", sevenn_models.VARIANTS)
def test_the_model_is_the_one_that_sevenn_builds(name, variant):
    """Compares irreps, paths and shapes with those of sevenn's own modules, which share no code with ours."""
    from equi_tools.frameworks.sevenn import checkpoint as sevenn_checkpoint
    from equi_tools.frameworks.sevenn import oracle as sevenn_oracle

    checkpoint = sevenn_checkpoint.load(variant(name)[0])
    modules, model = sevenn_oracle.modules_of(checkpoint), checkpoint.model
    theirs = {key: tuple(tensor.shape) for key, tensor in modules.state_dict().items()
              if tensor.numel() and not key.endswith("output_mask") and "_w3j_" not in key}  # fmt: skip
    assert theirs == {key: tensor.shape for key, tensor in checkpoint.state.items() if tensor.size}
    for key, linear in model.linears().items():
        assert str(modules._modules[key]._irreps_in_wo_modal) == str(linear.irreps_in)
        assert str(modules._modules[key].irreps_out) == str(linear.irreps_out)
    for t, convolution in enumerate(model.convolutions):
        options = modules._modules[f"{t}_convolution"].convolution_kwargs
        assert [tuple(path[:3]) for path in options["instructions"]] == convolution.paths
        own = {"irreps_in1": convolution.irreps_in, "irreps_in2": convolution.irreps_edge, "irreps_out": convolution.irreps_mid}
        assert {key: str(options[key]) for key in own} == {key: str(irreps) for key, irreps in own.items()}
        gate = modules._modules[f"{t}_equivariant_gate"].gate
        assert str(gate.irreps_in) == str(model.gates[t].irreps_in)
        assert [act.cst for act in gate.act_scalars.acts] == [constant for _, constant in model.gates[t].scalar_acts]
        assert [act.cst for act in gate.act_gates.acts] == [constant for _, constant in model.gates[t].gate_acts]


def test_a_model_is_converted_without_torch(folder, variant):
    """Converts in an interpreter that cannot import torch or a framework; the numbers are the same to the last bit."""
    source, modality = variant("modal")
    program = (
        "import sys\n"
        "for name in ('torch', 'e3nn', 'sevenn', 'mace', 'nequip'): sys.modules[name] = None\n"
        "from equi_tools.convert import convert\n"
        f"convert({source!r}, {str(folder / 'alone.equi')!r}, modality={modality!r}, quiet=True)\n"
    )
    environment = dict(os.environ, PYTHONPATH=str(Path(frameworks.__file__).parents[2]))
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    document, tensors = equi_file.read(folder / "alone.equi")
    with_values, same_tensors = equi_file.read(converted("modal"))
    assert document["layers"] == with_values["layers"] and tensors.keys() == same_tensors.keys()
    assert all(np.array_equal(tensors[key], same_tensors[key]) for key in tensors)
    assert document["framework"] == {"name": "sevenn", "version": "none"} and document["self_check"] == []


class Runs:
    """Its pickle runs a command when it is loaded as pickles usually are."""

    def __init__(self, note):
        self.note = note

    def __reduce__(self):
        return os.system, (f"touch {self.note}",)


@pytest.mark.parametrize("place", ["config", "state"])
def test_a_malicious_checkpoint_is_refused_and_nothing_runs(place, folder, capsys):
    note = folder / "note"

    def spoil(raw):
        raw["config" if place == "config" else "model_state_dict"]["more"] = Runs(note)

    source = changed_checkpoint(folder, spoil)
    assert main(["convert", "-q", source, "-o", str(folder / "bad.equi")]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1
    assert "posix.system" in message and "nothing of it was run" in message
    assert not note.exists() and not (folder / "bad.equi").exists()
    # The file is recognized correctly.
    torch.load(source, weights_only=False)
    assert note.exists()
    note.unlink()


def foreign_file(folder, name, module="mace.modules.models", kind="ScaleShiftMACE"):
    """An archive of torch.save whose pickle would import a class of another framework."""
    import zipfile

    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr(f"{name}/data.pkl", b"\x80\x02c" + f"{module}\n{kind}\n".encode() + b"q\x00.")
    return str(folder / name)


def test_a_source_of_another_framework_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("EQUI_PYTHON_MACE", raising=False)
    monkeypatch.setattr(frameworks.MACE, "installed", lambda: False)
    source = foreign_file(tmp_path, "a.model")
    assert frameworks.detect(source) is frameworks.MACE
    assert main(["compare", "-q", str(converted("plain")), source]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1
    assert "pip install mace-torch" in message and "EQUI_PYTHON_MACE" in message


@pytest.mark.parametrize("status", [0, 7])
def test_a_source_of_another_framework_is_compared_in_its_environment(status, tmp_path, monkeypatch):
    other = tmp_path / "python"
    other.write_text(
        f"#!/bin/sh\necho \"$@\" > {tmp_path}/arguments\necho \"$EQUI_PYTHON_MACE $PYTHONPATH\" > {tmp_path}/seen\n"
        f"exit {status}\n"
    )
    other.chmod(0o755)
    monkeypatch.setenv("EQUI_PYTHON_MACE", str(other))
    monkeypatch.setattr(frameworks.MACE, "installed", lambda: False)
    arguments = ["compare", "-q", str(converted("plain")), foreign_file(tmp_path, "a.model")]
    assert main(arguments) == status
    assert (tmp_path / "arguments").read_text().split() == ["-m", "equi_tools", *arguments]
    # The other interpreter finds this package, and must not start a third one.
    seen = (tmp_path / "seen").read_text()
    assert str(other) not in seen and str(Path(frameworks.__file__).resolve().parents[2]) in seen


def test_an_interpreter_that_does_not_exist_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EQUI_PYTHON_NEQUIP", "/nowhere/python")
    monkeypatch.setattr(frameworks.NEQUIP, "installed", lambda: False)
    source = foreign_file(tmp_path, "a.nequip.zip", "nequip.model", "X")
    assert main(["compare", "-q", str(converted("plain")), source]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: EQUI_PYTHON_NEQUIP: ") and message.count("\n") == 1


def test_sevennet_models_have_no_head(folder, variant, capsys):
    source, _ = variant("plain")
    assert main(["convert", "-q", source, "--head", "pbe", "-o", str(folder / "x.equi")]) == 1
    assert "--head pbe: SevenNet models have no head" in capsys.readouterr().err


def test_a_key_that_the_user_vouches_for_is_ignored(folder):
    source = changed_checkpoint(folder, set_config(my_note="hello"))
    assert main(["convert", "-q", source, "--ignore-key", "my_note", "-o", str(folder / "note.equi")]) == 0
    for calculator in ("float64", "framework"):
        command = ["compare", "-q", str(folder / "note.equi"), source, "--builtin", "--calculator", calculator]
        assert main([*command, "--ignore-key", "my_note"]) == 0


def test_a_list_of_no_elements_is_refused(folder, variant, capsys):
    source, _ = variant("plain")
    for text in ("", " , "):
        with pytest.raises(SystemExit):
            main(["convert", "-q", source, "--elements", text, "-o", str(folder / "none.equi")])
        assert f"argument --elements: expected one word or more, found '{text}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "ls", [(a, b, c) for a in range(5) for b in range(5) for c in range(abs(a - b), min(a + b, 4) + 1)]
)
def test_couplings_are_those_of_e3nn(ls):
    from e3nn.o3 import wigner_3j

    assert np.abs(coupling(*ls) - wigner_3j(*ls, dtype=torch.float64).numpy()).max() < 1e-14


def test_info_names_what_is_inside(capsys):
    assert main(["info", str(converted("plain"))]) == 0
    text = capsys.readouterr().out
    for word in ("SevenNet", "Cl Na O", "4.2 Angstrom", "1x1->2", "l to 2, radial (weights", "plain.pth", "triclinic"):
        assert word in text
    assert main(["info", "--json", str(converted("plain"))]) == 0
    facts = json.loads(capsys.readouterr().out)
    _, tensors = equi_file.read(converted("plain"))
    assert facts["num_parameters"] == sum(t.size for t in tensors.values())
    operations = facts["operations"]
    parts = [counts for kind, counts in operations.items() if not kind.startswith("all")]
    assert operations["all"] == {key: sum(counts[key] for counts in parts) for key in operations["all"]}
    assert operations["convolution"]["edge_with_forces"] > operations["convolution"]["edge"] > 0
    assert operations["linear"]["atom_with_forces"] == 2 * operations["linear"]["atom"] > 0
    assert f"{operations['all']['edge_with_forces']}" in text and "all, folded" in text


def test_info_without_the_program_of_operations_says_so(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("EQUI_BUILD_DIR", str(tmp_path))
    assert main(["info", str(converted("plain"))]) == 0
    assert "not counted: " in capsys.readouterr().out


def damaged(path, how):
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    if how == "truncated":
        return bytes(data[:-10])
    if how == "short header":
        return bytes(data[: 8 + length // 2])
    if how == "another format":
        return b"PK\x03\x04" + bytes(data)
    if how == "empty":
        return b""
    header = json.loads(data[8 : 8 + length])
    document = json.loads(header["__metadata__"]["equi"])
    document["format_version"] = equi_file.FORMAT_VERSION + 1
    header["__metadata__"]["equi"] = json.dumps(document)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data[8 + length :])


@pytest.mark.parametrize("how", ["truncated", "short header", "another format", "empty", "newer"])
def test_damaged_files_are_one_line(how, folder, capsys):
    (folder / "bad.equi").write_bytes(damaged(converted("plain"), how))
    assert main(["info", str(folder / "bad.equi")]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1 and "bad.equi" in message


def test_numbers_that_are_not_finite_are_not_written(folder):
    def spoil(raw):
        raw["model_state_dict"]["0_convolution.weight_nn.layer0.weight"][0, 0] = float("nan")

    source = changed_checkpoint(folder, spoil)
    with pytest.raises(EquiError, match="not finite"):
        convert(source, folder / "nan.equi", quiet=True)
