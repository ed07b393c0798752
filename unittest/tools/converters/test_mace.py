# SPDX-License-Identifier: MIT
"""`equi convert` of MACE models: the file against mace itself, through a second reader of the file (equi_evaluator).

Runs in the Python environment of MACE (tools/requirements-mace.txt).
"""

import json
import lzma
import os
import resource
import subprocess
import sys
import time
import zipfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from built_models import built, built_copy
from equi_evaluator import EquiEvaluator
from equi_tools import compare, equi_file, frameworks, self_check
from equi_tools.cli import main
from equi_tools.convert import convert as convert_alone
from equi_tools.errors import EquiError
from equi_tools.frameworks.common.oracle import default_dtype
from equi_tools.frameworks.mace import checkpoint as mace_checkpoint
from equi_tools.frameworks.mace import oracle as mace_oracle
from equi_tools.irreps import Irreps
from equi_tools.lammps_runner import Result
from test_models import convert_with_reference as convert
from test_models import mace as mace_models

mace_oracle.import_mace()
import torch  # noqa: E402
from e3nn import o3  # noqa: E402

# Two evaluations in float64 through at most four layers of sums over some hundred channels.
ENERGY_TOLERANCE = 1e-10  # eV/atom
FORCE_TOLERANCE = 1e-9  # eV/A
STRESS_TOLERANCE = 1e-9  # eV/A^3
# mace's own evaluation of the file in float64: the same modules on another neighbor list.
FRAMEWORK_TOLERANCE = 1e-11
# mace's own evaluation in float32 against the one in float64, relative.
FLOAT32_TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def model(folder):
    """Path of a variant's .model file, a copy of the build's."""
    return lambda name: built_copy(f"mace/{name}.model", folder)


def converted(name):
    """The file that the build has converted from a variant, with its last head."""
    return built(f"mace/{name}.equi")


def last_head(name):
    heads = mace_models.VARIANTS[name].get("heads", [])
    return heads[-1] if len(heads) > 1 else None


@pytest.fixture(scope="module")
def oracle(model):
    """The oracle of a variant with one of its heads, by default the last; each is made once."""

    @lru_cache(maxsize=None)
    def calculator(name, head=None):
        return mace_oracle.float64_calculator(model(name), head or last_head(name))

    return calculator


def close_contacts(elements):
    """Distances down to 0.9 A, where a pair repulsion dominates."""
    symbols = self_check.pick_elements(sorted(elements), 4)
    return Atoms(symbols, positions=[[0, 0, 0], [0.9, 0.1, 0], [0.3, 1.2, 0.2], [-0.8, 0.7, 1.1]])


def evaluate(evaluator, atoms):
    cell = atoms.cell.array if atoms.pbc.any() else None
    return evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, cell, atoms.pbc)


def differences(path, calculator, structures):
    """Largest differences (energy of an atom, force, stress); forces and stresses are relative if they exceed one."""
    evaluator = EquiEvaluator(path)
    worst = np.zeros(3)
    for atoms in structures:
        energy, forces, stress, energies = evaluate(evaluator, atoms)
        atoms = atoms.copy()
        atoms.calc = calculator
        expected = atoms.get_forces()
        found = [
            max(
                abs(energy - atoms.get_potential_energy()) / len(atoms),
                np.abs(energies - atoms.get_potential_energies()).max(),
            ),
            np.abs(forces - expected).max() / max(1.0, np.abs(expected).max()),
            0.0,
        ]
        if stress is not None:
            expected = atoms.get_stress()
            found[2] = np.abs(stress - expected).max() / max(1.0, np.abs(expected).max())
        assert np.all(np.isfinite(found))
        worst = np.maximum(worst, found)
    return worst


def all_structures(elements, cutoff):
    return [atoms for _, atoms in self_check.structures(elements, cutoff)] + [close_contacts(elements)]


def assert_same_function(path, calculator):
    document, _ = equi_file.read(path)
    energy, force, stress = differences(path, calculator, all_structures(document["elements"], document["cutoff"]))
    assert energy < ENERGY_TOLERANCE and force < FORCE_TOLERANCE and stress < STRESS_TOLERANCE


@pytest.mark.parametrize("name", mace_models.VARIANTS)
def test_every_option_is_converted_exactly(name, oracle):
    document, _ = equi_file.read(converted(name))
    assert document["framework"]["name"] == "mace" and document["architecture"] == "MACE"
    assert max(abs(c) for s in document["self_check"] for f in s["forces"] for c in f) > 1e-3
    assert_same_function(converted(name), oracle(name))


@pytest.mark.parametrize(
    "name", ["plain", "nonlinear", "density", "agnesi", "so3", "heads", "float32", "reduced_float32", "attention_all"]
)
def test_oracle_is_the_framework_as_its_users_run_it(name, model, oracle):
    exact = oracle(name)
    users = mace_oracle.framework_calculator(model(name), last_head(name))
    single = "float32" in name
    for atoms in all_structures(exact.elements, exact.cutoff):
        atoms.calc = users
        # Constants of mace's pair repulsion have torch's default dtype, not the model's.
        with default_dtype(torch.float32 if single else torch.float64):
            energy, forces = atoms.get_potential_energy(), atoms.get_forces()
            stress = atoms.get_stress() if atoms.pbc.all() else None
        atoms.calc = exact
        bar = FLOAT32_TOLERANCE if single else FRAMEWORK_TOLERANCE
        assert abs(atoms.get_potential_energy() - energy) < bar * max(1, abs(energy))
        assert np.abs(atoms.get_forces() - forces).max() < bar * max(1, np.abs(forces).max())
        if stress is not None:
            assert np.abs(atoms.get_stress() - stress).max() < bar * max(1, np.abs(stress).max())


def test_rounded_couplings_are_made_exact(model):
    """A float32 file: exact couplings change its modules in float64 by at most the couplings' rounding."""
    checkpoint = mace_checkpoint.load(model("float32"))
    assert all(coupling.rounded for coupling in checkpoint.couplings.values() if coupling.degree == 3)
    exact = mace_oracle.Float64Calculator(checkpoint)
    rounded = mace_oracle.Float64Calculator(checkpoint)
    rounded.model = mace_oracle.modules_of(checkpoint).double().eval()
    largest = 0.0
    for atoms in all_structures(exact.elements, exact.cutoff):
        energies = []
        for calculator in (exact, rounded):
            atoms.calc = calculator
            energies.append(atoms.get_potential_energy())
        largest = max(largest, abs(energies[0] - energies[1]))
    assert 1e-12 < largest < 1e-6


# mace itself cannot script the blocks NonLinear and AttResidual.
SCRIPTED = ["plain", "density_no_cutoff", "agnesi", "heads_bias", "so3_float32"]
SCRIPTED += [pytest.param(name, marks=pytest.mark.slow) for name in ("edge_irreps", "gate_none", "gate_abs", "first_plain")]


@pytest.mark.parametrize("name", SCRIPTED)
def test_torchscript_for_lammps_gives_the_same_file(name, folder, model):
    head = last_head(name)
    scripted = mace_models.to_torchscript(model(name), head)
    two = convert(scripted, folder / "two.equi", quiet=True)
    (one, first), (_, second) = equi_file.read(converted(name)), equi_file.read(folder / "two.equi")
    assert one["layers"] == two["layers"] and one["radial_basis"] == two["radial_basis"]
    assert list(first) == list(second)
    for key in first:
        assert np.array_equal(first[key], second[key]), key
    # Its own oracle is the scripted model itself.
    assert_same_function(folder / "two.equi", mace_oracle.float64_calculator(scripted))


def test_the_head_of_a_lammps_file_is_the_default(folder, model, oracle):
    scripted = mace_models.to_torchscript(model("heads"), "r2scan")
    assert convert(scripted, folder / "fixed.equi", quiet=True)["provenance"]["head"] == "r2scan"
    assert_same_function(folder / "fixed.equi", oracle("heads", "r2scan"))
    assert convert(scripted, folder / "other.equi", head="pbe", quiet=True)["provenance"]["head"] == "pbe"
    assert_same_function(folder / "other.equi", oracle("heads", "pbe"))


@pytest.mark.parametrize("name", ["heads", "heads_bias"])
def test_each_head_is_another_function(name, folder, model, oracle):
    energies = []
    for head in mace_models.VARIANTS[name]["heads"]:
        document = convert(model(name), folder / "head.equi", head=head, quiet=True)
        assert document["provenance"]["head"] == head
        assert_same_function(folder / "head.equi", oracle(name, head))
        energies.append(document["self_check"][0]["energy"])
    assert len({round(energy, 4) for energy in energies}) == len(energies)


def test_a_head_named_default_is_the_default_as_in_mace(folder, model):
    assert convert(model("heads_bias"), folder / "head.equi", quiet=True)["provenance"]["head"] == "Default"


@pytest.mark.parametrize(
    "name, kept",
    [
        ("nonlinear_transform", ["Ba", "O"]),
        ("agnesi", ["Cs", "H"]),
        ("many_elements", ["U", "H", "Si"]),
        ("heads", ["Cl"]),
        ("attention_all", ["Cl", "O"]),
    ],
)
def test_a_subset_of_elements_is_the_same_function(name, kept, folder, model, oracle):
    document = convert(model(name), folder / "some.equi", head=last_head(name), elements=kept, quiet=True)
    assert document["elements"] == kept
    assert_same_function(folder / "some.equi", oracle(name))


@pytest.mark.parametrize(
    "name", ["plain", "nonlinear_transform", "agnesi", "heads_bias", "density_no_cutoff", "attention", "attention_all"]
)
def test_every_number_of_a_file_matters(name):
    """The comparison can fail: a change of a thousandth in any one tensor exceeds ten times its tolerance."""
    document, tensors = equi_file.read(converted(name))
    # Small enough for many evaluations, with all pairs of elements; one structure per element would do for most
    # tensors.
    atoms = close_contacts(document["elements"])
    evaluator = EquiEvaluator(converted(name))
    energy, forces, _, _ = evaluate(evaluator, atoms)
    changes = {}
    for key in tensors:
        whole = evaluator.tensors[key]
        changed = whole.clone()
        if key.endswith(".coupling"):
            changed[:, -1] *= 1.001
        else:
            changed *= 1.001
            if not whole.any():
                changed += 0.001
        evaluator.tensors[key] = changed
        other, other_forces, _, _ = evaluate(evaluator, atoms)
        evaluator.tensors[key] = whole
        changes[key] = max(abs(other - energy), np.abs(other_forces - forces).max())
    least = min(changes, key=changes.get)
    assert changes[least] > 10 * FORCE_TOLERANCE, f"{least} does not matter: {changes[least]}"


@pytest.mark.parametrize("what", ["path", "coupling"])
def test_a_wrong_sign_is_noticed(what, folder, oracle):
    document, tensors = equi_file.read(converted("ell3"))
    if what == "path":
        layer = [layer for layer in document["layers"] if layer["type"] == "convolution"][1]
        assert len({path["scale"] > 0 for path in layer["paths"]}) == 2
        layer["paths"][3]["scale"] *= -1
    else:
        name = next(key for key in tensors if key.startswith("products.1.") and key.endswith("degree3.coupling"))
        changed = tensors[name].copy()
        changed[7, -1] *= -1
        tensors = dict(tensors, **{name: changed})
    equi_file.write(folder / "flipped.equi", document, tensors)
    found = differences(folder / "flipped.equi", oracle("ell3"), all_structures(document["elements"], document["cutoff"]))
    assert found.max() > 1e3 * FORCE_TOLERANCE


def test_numbers_keep_the_dtype_of_the_file(model):
    _, tensors = equi_file.read(converted("float32"))
    state = dict(torch.load(model("float32"), weights_only=False).named_parameters())
    key = "interactions.1.conv_tp_weights.layer0.weight"
    stored = tensors["interactions.1.radial.layer0"]
    assert stored.dtype == np.float32 and np.array_equal(stored, state[key].detach().numpy())
    doubles = {name for name, tensor in tensors.items() if tensor.dtype == np.float64}
    assert all(name.startswith(("products.", "scale_shift.")) and ".linear." not in name for name in doubles)


class Evaluated:
    """Replaces compare.Native and evaluates with the Python evaluator."""

    precision, radial, has_direct_forces = "double", "exact", False

    def __init__(self, model_file):
        self.evaluator = EquiEvaluator(model_file)

    def __call__(self, atoms):
        cell = None
        if atoms.pbc.any():
            cell = atoms.cell.complete().array
        energy, forces, stress, energies = self.evaluator.evaluate(
            atoms.get_chemical_symbols(), atoms.positions, cell, atoms.pbc
        )
        return Result(energy, forces, stress if atoms.cell.rank == 3 else None, energies)


def test_compare_asks_the_oracle(model, monkeypatch, capsys):
    """`equi compare FILE SOURCE --builtin`: surfaces, wires, molecules, single atoms and sheared cells."""
    monkeypatch.setattr(compare, "Native", lambda file, *options: Evaluated(file))
    arguments = ["compare", "-q", str(converted("many_elements")), model("many_elements"), "--builtin"]
    assert main(arguments + ["--radial", "exact"]) == 0
    text = capsys.readouterr().out
    assert "Cu_O_slab" in text and "C_wire" in text and "isolated_Au" in text and "left out" not in text


def test_compare_takes_the_head_of_the_file(folder, model, monkeypatch):
    monkeypatch.setattr(compare, "Native", lambda file, *options: Evaluated(file))
    convert(model("heads"), folder / "heads.equi", head="pbe", quiet=True)
    arguments = ["compare", "-q", str(folder / "heads.equi"), model("heads"), "--builtin", "--radial", "exact"]
    assert main(arguments) == 0
    assert main(arguments + ["--head", "ccsd"]) == 1


def test_info_names_what_is_inside(capsys):
    assert main(["info", str(converted("agnesi"))]) == 0
    text = capsys.readouterr().out
    for word in ("MACE", "H Na Cs", "agnesi", "symmetric_contraction", "pair_repulsion", "agnesi.model", "triclinic"):
        assert word in text
    assert main(["info", str(converted("attention_all"))]) == 0
    assert capsys.readouterr().out.count("silu, sender, receiver)") == 2  # its radial network reads features of both
    for name in ("gaussian", "chebyshev", "nonlinear"):
        assert main(["info", "--json", str(converted(name))]) == 0
        assert json.loads(capsys.readouterr().out)["radial_basis"]["size"] in (6, 7)


def changed_model(folder, model, change, name="plain"):
    module = torch.load(model(name), weights_only=False)
    result = change(module)
    torch.save(module if result is None else result, folder / "changed.model")
    return str(folder / "changed.model")


def edited(change, name="first_plain"):
    return lambda folder, model: changed_model(folder, model, change, name)


def add_module(module):
    module.unknown = torch.nn.Linear(3, 1)


def add_parameter(module):
    module.interactions[1].extra = torch.nn.Parameter(torch.ones(3))


def spoil_coupling(module):
    buffer = module.products[1].symmetric_contractions.contractions[0].U_matrix_2
    buffer += 1e-3 * torch.rand_like(buffer)


def spoil_w3j(module):
    next(b for name, b in module.interactions[1].named_buffers() if "_w3j_" in name).mul_(1.1)


def set_power(module):
    module.radial_embedding.cutoff_fn.p.fill_(1)


def spoil_number(module):
    with torch.no_grad():
        module.interactions[0].linear_up.weight[0] = float("nan")


def other_readout(module):
    from mace.modules import blocks

    module.readouts[1].__class__ = blocks.GeneralNonLinearBiasReadoutBlock


def other_activation(module):
    module.readouts[1].non_linearity.acts[0].f = torch.nn.functional.elu


def add_adapters(module):
    from mace.modules.lora import inject_lora

    inject_lora(module)


def cueq_layout(module):
    from mace.cli.convert_e3nn_cueq import run

    with default_dtype(torch.float64):  # mace keeps the dtype of the model
        return run(module, device="cpu")


def dipole_class(module):
    from mace.modules import EnergyDipolesMACE

    module.__class__ = EnergyDipolesMACE


def no_scalars(module):
    module.readouts[1].hidden_irreps = type(module.readouts[1].hidden_irreps)("6x0o")


def old_transform(module):
    transform = module.radial_embedding.distance_transform
    del transform.alpha
    transform.register_buffer("a", torch.tensor(0.2))
    transform.register_buffer("b", torch.tensor(3.0))


REFUSED = {
    "dipoles": (edited(dipole_class), "readouts.0: block LinearReadoutBlock is not supported"),
    "unknown module": (edited(add_module), "module unknown (Linear)"),
    "unknown tensor": (edited(add_parameter), "interactions.1.extra"),
    "spoiled product": (edited(spoil_coupling), "U_matrix_2: not an equivariant coupling"),
    "spoiled path": (edited(spoil_w3j), "interactions.1.conv_tp: coupling buffer"),
    "cutoff power": (edited(set_power), "cutoff_fn.p: 1"),
    "not finite": (edited(spoil_number), "not finite"),
    "readout": (edited(other_readout), "readouts.1: block GeneralNonLinearBiasReadoutBlock"),
    "activation": (edited(other_activation), "readouts.1: activation is not supported"),
    "hidden irreps": (edited(no_scalars), "readouts.1: hidden irreps 6x0o"),
    "transform": (edited(old_transform, "soft"), "SoftTransform of mace 0.3.5 to 0.3.9"),
    "adapters": (edited(add_adapters), "lora"),
    "accelerator": (edited(cueq_layout), "mace_convert_cueq_e3nn"),
    "checkpoint": (edited(lambda module: {"model": module.state_dict(), "epoch": 3}), "without the architecture"),
    "state": (edited(lambda module: module.state_dict()), "without the architecture"),
    "part": (edited(lambda module: module.products), "model class ModuleList"),
}


# mace compiles the model again for the layout of the accelerator.
SLOW = [pytest.param("accelerator", marks=pytest.mark.slow)]


@pytest.mark.parametrize("case", [case for case in REFUSED if case != "accelerator"] + SLOW)
def test_what_is_not_supported_is_refused_by_name_in_one_line(case, folder, model, capsys):
    make, expected = REFUSED[case]
    source = make(folder, model)
    target = folder / "refused.equi"
    capsys.readouterr()
    assert main(["convert", "-q", source, "-o", str(target)]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1
    assert expected in message and "changed.model" in message or "not finite" in message
    assert not target.exists()


def test_a_block_that_a_file_brings_along_is_refused(folder, model):
    """A class that mace does not have: its name decides, and it is never looked up."""
    source = changed_model(folder, model, lambda module: None, "first_plain")
    with zipfile.ZipFile(source) as archive:
        content = {info: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(folder / "changed.model", "w") as archive:
        for info, data in content.items():
            # The name has the same length, so the pickle stays valid.
            archive.writestr(info, data.replace(b"RealAgnosticResidualInteractionBlock", b"RealAgnosticResidualInteractionBlond"))
    with pytest.raises(EquiError, match="interactions.1: block RealAgnosticResidualInteractionBlond is not supported"):
        mace_checkpoint.load(folder / "changed.model")


def test_a_malicious_model_is_refused_and_nothing_runs(folder, model, capsys):
    note = folder / "note"

    class Runs:
        def __reduce__(self):
            return os.system, (f"touch {note}",)

    def spoil(module):
        module.extra = Runs()

    source = changed_model(folder, model, spoil)
    assert main(["convert", "-q", source, "-o", str(folder / "bad.equi")]) == 1
    message = capsys.readouterr().err
    assert "posix.system" in message and "nothing of it was run" in message and message.count("\n") == 1
    assert not note.exists() and not (folder / "bad.equi").exists()
    torch.load(source, weights_only=False)
    assert note.exists()


@pytest.mark.parametrize("name", ["plain", "nonlinear_transform", "attention_options", "density", "gaussian", "chebyshev", "so3_float32"])
def test_the_tree_in_the_file_is_that_of_the_modules(name, model):
    """Compares the content read from a file with the modules of torch and mace."""
    checkpoint = mace_checkpoint.load(model(name))
    theirs, ours = mace_oracle.modules_of(checkpoint), checkpoint.model
    for kind in ("named_parameters", "named_buffers"):
        numbers = {key: array for key, array in getattr(ours, kind)()}
        expected = dict(getattr(theirs, kind)())
        assert numbers.keys() == expected.keys()
        for key, tensor in expected.items():
            assert np.array_equal(numbers[key], tensor.detach().numpy()) and numbers[key].dtype == tensor.detach().numpy().dtype
    found = {key: module for key, module in theirs.named_modules()}
    assert found.keys() == {key for key, _ in ours.named_modules()}
    for key, module in ours.named_modules():
        kind, irreps = type(found[key]).__name__, getattr(found[key], "irreps_out", None)
        # In these versions the compiled code of e3nn and torch is TorchScript or a graph.
        assert module.class_name == kind or kind in ("RecursiveScriptModule", "GraphModule"), key
        if hasattr(module, "irreps_out"):
            assert str(Irreps(module.irreps_out)) == str(irreps), key


@pytest.mark.parametrize("name, arguments, expected", [
    ("heads", [], "has several heads, choose one: --head pbe | r2scan | ccsd"),
    ("heads", ["--head", "lda"], "has no head 'lda'"),
    ("plain", ["--head", "lda"], "has no head 'lda', only Default"),
    ("plain", ["--modality", "PBE"], "--modality PBE: MACE models have no modality"),
    ("plain", ["--elements", "Na,Xx"], "does not know Xx"),
    ("plain", ["--elements", "Na,Na"], "twice"),
])  # fmt: skip
def test_wrong_arguments_are_one_line(name, arguments, expected, tmp_path, model, capsys):
    assert main(["convert", "-q", model(name), *arguments, "-o", str(tmp_path / "x.equi")]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1 and expected in message


def test_a_truncated_file_is_one_line(folder, model, capsys):
    broken = folder / "broken.model"
    broken.write_bytes(Path(model("plain")).read_bytes()[:-5000])
    assert main(["convert", "-q", str(broken), "-o", str(folder / "x.equi")]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1 and "broken.model" in message


@pytest.mark.parametrize("name", ["density_no_cutoff", "gaussian"])
def test_a_model_in_the_layout_of_torch_before_1_6_gives_the_same_file(name, folder, model):
    """The file is a pickle; the archives of e3nn's compiled code in it must not be mistaken for the whole."""
    old = folder / f"old_{name}.model"
    module = torch.load(model(name), map_location="cpu", weights_only=False)
    torch.save(module, old, _use_new_zipfile_serialization=False)
    assert zipfile.is_zipfile(old) and frameworks.detect(old) is frameworks.MACE
    two = convert(old, folder / "two.equi", quiet=True)
    (one, first), (_, second) = equi_file.read(converted(name)), equi_file.read(folder / "two.equi")
    assert one["layers"] == two["layers"] and list(first) == list(second)
    assert all(np.array_equal(first[key], second[key]) for key in first)


def merge_irreps(module):
    """Like blocks of mace up to 0.3.8: the linear map after a convolution merges the parts of one irrep of all
    paths."""
    for block in module.interactions:
        linear = block.linear
        block.linear = o3.Linear(linear.irreps_in.simplify(), linear.irreps_out).to(linear.weight.dtype)
        with torch.no_grad():
            block.linear.weight.copy_(linear.weight)


@pytest.mark.parametrize("name", ["plain", "density", "attention_all"])
def test_merged_irreps_of_older_versions_are_split(name, folder, model, oracle):
    """e3nn's weights have the same order and the same constants, so the file is the same, too."""
    source = changed_model(folder, model, merge_irreps, name)
    later = getattr(mace_checkpoint.load(source).model.interactions, "1")
    assert len(later.linear.irreps_in) < len(later.conv_tp.irreps_out)
    document = convert_alone(source, folder / "merged.equi", quiet=True)
    (one, first), (_, second) = equi_file.read(converted(name)), equi_file.read(folder / "merged.equi")
    assert one["layers"] == document["layers"] and list(first) == list(second)
    assert all(np.array_equal(first[key], second[key]) for key in first)
    atoms = close_contacts(document["elements"])
    energies = []
    for calculator in (mace_oracle.float64_calculator(source), oracle(name)):
        atoms.calc = calculator
        energies.append(atoms.get_potential_energy())
    assert abs(energies[0] - energies[1]) < FRAMEWORK_TOLERANCE


def test_irreps_that_are_not_those_of_the_input_are_refused(folder, model):
    def shuffle(module):
        linear = module.interactions[1].linear
        linear.irreps_in = o3.Irreps(list(reversed(linear.irreps_in)))

    with pytest.raises(EquiError, match=r"interactions.1.linear: irreps .* are not those of its input"):
        convert_alone(changed_model(folder, model, shuffle), folder / "x.equi", quiet=True)


def test_readouts_of_several_heads_of_0_3_14_are_those_of_later_versions_and_that_is_told(folder, model, oracle, capsys):
    def age(module):
        del module.use_edge_irreps_first

    source = changed_model(folder, model, age, "heads_bias")
    assert main(["convert", "-q", source, "--head", "Default", "-o", str(folder / "aged.equi")]) == 0
    assert "hidden channels of all heads" in capsys.readouterr().err
    assert_same_function(folder / "aged.equi", oracle("heads_bias", "Default"))
    assert "notes" not in equi_file.read(converted("heads_bias"))[0]["provenance"]
    with pytest.raises(EquiError, match="several heads in TorchScript of mace 0.3.14"):
        mace_checkpoint.load(mace_models.to_torchscript(source))


GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.mark.parametrize("version, file, head", [("0.3.8", "mace-0.3.8.model", "two"), ("0.3.6", "mace-0.3.6-lammps.pt", None)])
def test_files_of_older_versions_are_what_those_versions_evaluate(version, file, head, folder):
    """Files and numbers of unittest/golden, made by make_mace_old.py; today's mace gets the same results."""
    (folder / file).write_bytes(lzma.decompress((GOLDEN / f"{file}.xz").read_bytes()))
    document = convert_alone(folder / file, folder / "old.equi", head=head, quiet=True)
    evaluator, today = EquiEvaluator(folder / "old.equi"), mace_oracle.float64_calculator(folder / file, head)
    stored = np.load(GOLDEN / f"mace-{version}.npz")
    structures = all_structures(document["elements"], document["cutoff"])
    assert len([key for key in stored if key.startswith("energy")]) == len(structures)
    for n, atoms in enumerate(structures):
        energy, forces, stress, _ = evaluate(evaluator, atoms)
        atoms.calc = today
        values = [stored[f"energy{n}"], stored[f"forces{n}"]]
        bars = [ENERGY_TOLERANCE * len(atoms), FORCE_TOLERANCE * max(1.0, np.abs(values[1]).max())]
        for found in ((energy, forces), (atoms.get_potential_energy(), atoms.get_forces())):
            assert all(np.abs(a - b).max() < bar for a, b, bar in zip(found, values, bars))
        if stress is not None:
            assert np.abs(stress - stored[f"stress{n}"]).max() < STRESS_TOLERANCE


def test_files_are_recognized_without_running_them(folder, model, monkeypatch):
    scripted = mace_models.to_torchscript(model("gate_abs"))
    state = changed_model(folder, model, lambda module: module.state_dict(), "gate_abs")
    monkeypatch.setattr(torch, "load", None)
    monkeypatch.setattr(torch.jit, "load", None)
    for source in (model("gate_abs"), scripted, state):
        assert frameworks.detect(source) is frameworks.MACE


def test_the_oracle_leaves_the_default_dtype(model):
    mace_oracle.Float64Calculator(mace_checkpoint.load(model("float32")))
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.slow
def test_cost_of_a_large_model(folder):
    """The shape of a published medium model of 89 elements: two minutes, 4 GB, a file as large as its weights."""
    source = mace_models.make_variant("medium_89", folder)
    target = folder / "medium_89.equi"
    begin = time.time()
    command = [sys.executable, "-m", "equi_tools", "convert", "-q", source, "-o", str(target)]
    subprocess.run(command, check=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    elapsed = time.time() - begin
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    parameters = sum(p.numel() for p in torch.load(source, weights_only=False).parameters())
    print(f"{elapsed:.1f} s, {memory / 1e9:.2f} GB, {target.stat().st_size / 4 / parameters:.3f} of the weights")
    assert elapsed < 120 and memory < 4e9
    assert target.stat().st_size < 1.2 * 4 * parameters
    assert_same_function(target, mace_oracle.float64_calculator(source))


@pytest.mark.slow
def test_every_variant_is_the_framework_as_its_users_run_it(model):
    """All variants in float64 against mace's own calculator, not only against its modules on our graph."""
    for name, options in mace_models.VARIANTS.items():
        if options.get("dtype") == "float32" or options.get("radial_type") == "chebyshev":
            continue  # rounded couplings; torch has no derivative of its Chebyshev polynomials
        users = mace_oracle.framework_calculator(model(name), last_head(name))
        document, _ = equi_file.read(converted(name))
        with default_dtype(torch.float64):
            worst = differences(converted(name), users, all_structures(document["elements"], document["cutoff"]))
        assert worst[0] < ENERGY_TOLERANCE and worst[1] < FORCE_TOLERANCE and worst[2] < STRESS_TOLERANCE, name


def radial_jump(calculator, symbols, cutoff):
    """Change of the energy where the second atom crosses the cutoff of the first one."""
    energies = []
    for distance in (cutoff - 1e-7, cutoff + 1e-7):
        atoms = Atoms(symbols, positions=[[0, 0, 0], [distance, 0, 0], [0, 2.1, 0]])
        atoms.calc = calculator
        energies.append(atoms.get_potential_energy())
    return abs(energies[1] - energies[0])


@pytest.mark.parametrize("name", ["plain", "attention", "density", "nonlinear", "nonlinear_transform", "chebyshev"])
def test_an_energy_that_jumps_at_the_cutoff_is_told(name, folder, model, oracle, capsys):
    """The warning and the note in the file appear if mace's own energy jumps, and not otherwise."""
    target = folder / "noted.equi"
    assert main(["convert", model(name), "-o", str(target), "--quiet"]) == 0
    warning = capsys.readouterr().err
    document, _ = equi_file.read(target)
    note = document["provenance"].get("notes", "")
    symbols = [document["elements"][n % len(document["elements"])] for n in range(3)]
    jump = radial_jump(oracle(name), symbols, document["cutoff"])
    assert ("jumps where a neighbor crosses the cutoff" in note) == (jump > 1e-4)
    assert jump > 1e-2 or jump < 1e-9
    assert warning == (f"equi: warning: {note}\n" if note else "")
    assert main(["info", str(target)]) == 0
    assert note in capsys.readouterr().out


def test_forces_of_mace_with_chebyshev_polynomials_are_no_derivatives_and_that_is_told(model, oracle):
    note = equi_file.read(converted("chebyshev"))[0]["provenance"]["notes"]
    assert "forces and stresses are not the derivatives" in note
    atoms, step = close_contacts(["Na", "Cl"]), 1e-5
    misses = []
    for calculator in (mace_oracle.framework_calculator(model("chebyshev")), oracle("chebyshev")):
        energies = []
        for shift in (-step, step):
            moved = atoms.copy()
            moved.positions[1, 0] += shift
            moved.calc = calculator
            energies.append(moved.get_potential_energy())
        atoms.calc = calculator
        misses.append(abs(atoms.get_forces()[1, 0] + (energies[1] - energies[0]) / (2 * step)))
    assert misses[0] > 1e-2 and misses[1] < 1e-6


def test_torchscript_with_chebyshev_polynomials_is_converted_and_not_compared(folder, model, oracle):
    scripted = mace_models.to_torchscript(model("chebyshev"))
    convert_alone(scripted, folder / "polynomials.equi", quiet=True)
    assert_same_function(folder / "polynomials.equi", oracle("chebyshev"))
    with pytest.raises(EquiError, match="forces of this TorchScript are not the derivatives.*compare with the .model file"):
        mace_oracle.float64_calculator(scripted)


# Relative rounding of the numbers of a file, a few of which contribute to an energy of order one.
HALF_TOLERANCE = {"float16": 2e-2, "bfloat16": 2e-1}


@pytest.mark.parametrize("dtype", HALF_TOLERANCE)
@pytest.mark.parametrize("name", ["plain", "nonlinear", "so3"])
def test_half_precision_is_converted_as_the_numbers_in_the_file(name, dtype, folder, model, oracle):
    half = torch.load(model(name), weights_only=False).to(getattr(torch, dtype))
    torch.save(half, folder / "half.model")
    convert(folder / "half.model", folder / "half.equi", quiet=True)
    _, tensors = equi_file.read(folder / "half.equi")
    assert all(tensor.dtype in (np.float32, np.float64) for tensor in tensors.values())
    rounded = mace_oracle.float64_calculator(folder / "half.model")
    assert_same_function(folder / "half.equi", rounded)
    atoms = self_check.structures(rounded.elements, rounded.cutoff)[1][1]
    energies = []
    for calculator in (rounded, oracle(name)):
        atoms.calc = calculator
        energies.append(atoms.get_potential_energy())
    assert abs(energies[0] - energies[1]) < HALF_TOLERANCE[dtype] * len(atoms)


@pytest.mark.slow
@pytest.mark.parametrize("ell", [5, 6])
def test_higher_harmonics_are_converted_exactly(ell, folder):
    path = mace_models.make_model(folder / "high.model", elements=(11, 17), hidden="2x0e+2x1o", max_ell=ell, correlation=1)
    document = convert(path, folder / "high.equi", quiet=True)
    assert document["lmax_edge"] == ell
    assert_same_function(folder / "high.equi", mace_oracle.float64_calculator(path))
