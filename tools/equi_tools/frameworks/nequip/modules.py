# SPDX-License-Identifier: MIT
"""Reads options, irreps and paths from the modules of a NequIP model, of a file or of model.py."""

import re

import numpy as np

from ... import torch_modules
from ...errors import EquiError
from ...irreps import Irreps
from ..common.e3nn_layers import sign_of_coupling

ACTIVATIONS = ("silu", "tanh", "abs", "ssp")
# Buffers that are constants of the architecture; couplings are checked for their sign.
CONSTANT = re.compile(r"(^|\.)(output_mask|_empty|alpha|_tensor_constant\d+|_w3j_\d+_\d+_\d+)$")


def energy_model(model):
    """Children of the energy model (name -> module) of a GraphModel, of a file or of nequip."""
    return dict(model.model.func.named_children())


def convnets(model):
    return [module for name, module in energy_model(model).items() if name.endswith("_convnet")]


def norm_constants(conv):
    """1/sqrt(number of neighbors) of a convolution, one or one per type; nequip 0.7 to 0.16 kept a number or None."""
    if hasattr(conv, "avg_num_neighbors_norm"):
        return conv.avg_num_neighbors_norm.norm_const.reshape(-1, 1)
    if hasattr(conv, "scatter_norm_factor"):
        factor = conv.scatter_norm_factor
    else:
        factor = None if conv.avg_num_neighbors is None else float(conv.avg_num_neighbors) ** -0.5
    return np.array([[1.0 if factor is None else float(factor)]])


def mlp_layers(mlp):
    """([linear or its substitute], [activation class]) of a ScalarMLPFunction; linears have weight and alpha."""
    if mlp.mlp.class_name != "Sequential":
        raise EquiError(f"module {mlp.mlp.class_name} is not supported")
    children = [module for _, module in mlp.mlp.named_children()]
    linears = [m for m in children if m.class_name == "ScalarLinearLayer"]
    return linears, [m.class_name for m in children if m.class_name != "ScalarLinearLayer"]


def tensor_product(conv):
    """The product of features and harmonics of a convolution; nequip 0.7 and older stored it without its sum."""
    return conv.tp_scatter.tp if hasattr(conv, "tp_scatter") else conv.tp


def activation_of(module):
    """(name, constant) of an activation of a gate."""
    found = torch_modules.activation(module)
    if found is None or found[0] not in ACTIVATIONS:
        raise EquiError("an activation of a gate is none of " + ", ".join(ACTIVATIONS))
    return found


# Irreps of modules of a layer, from which the others follow.
IRREPS = {
    "equivariant_nonlin": ("irreps_scalars", "irreps_gates", "irreps_gated"),
    "conv.linear_1": ("irreps_in", "irreps_out"),
    "conv.linear_2": ("irreps_in", "irreps_out"),
    "conv.sc": ("irreps_in1", "irreps_in2", "irreps_out"),
}


def declared(layer):
    """The irreps and paths of a layer, of a file or of nequip_model: {name: value}, without empty blocks."""
    found = {}
    for place, names in IRREPS.items():
        module = layer
        for key in place.split("."):
            module = getattr(module, key, None)
        found.update({f"{place}.{name}": Irreps(getattr(module, name)) for name in names if module is not None})
    product = tensor_product(layer.conv)
    for name in ("irreps_in1", "irreps_in2", "irreps_out"):
        found[f"conv.tp.{name}"] = Irreps(getattr(product, name))
    ins, mid = found["conv.tp.irreps_in1"], found["conv.tp.irreps_out"]
    paths = [(_place(ins, i), j, _place(mid, k), *rest[:2]) for i, j, k, *rest in product.instructions if ins[i].mul]
    return {name: Irreps(b for b in irreps if b.mul) for name, irreps in found.items()} | {"conv.tp.instructions": paths}


def _place(irreps, n):
    """The number of block n among those with channels."""
    return sum(block.mul > 0 for block in irreps[:n])


def path_signs_of(layers, raw, prefix, stored_there=True):
    """Per layer the signs of the couplings stored in `raw` relative to ours, in the order of the framework's paths. If
    a kind of file stores none (stored_there), they are those of nequip 0.7 and newer, which are ours."""
    signs = []
    for t, layer in enumerate(layers):
        product, own = tensor_product(layer.conv), []
        irreps = [Irreps(i) for i in (product.irreps_in1, product.irreps_in2, product.irreps_out)]
        for path in product.instructions:
            ls = [blocks[i].ir.l for blocks, i in zip(irreps, path)]
            begin, end = f"{prefix}layer{t}_convnet.conv.", "_w3j_{}_{}_{}".format(*ls)
            stored = [b for n, b in raw.items() if n.startswith(begin) and n.endswith(end)]
            # e3nn writes out couplings with l = 0; they have one sign.
            special = 0 in ls or not stored_there
            if not special and not stored:
                raise EquiError(f"layer{t}_convnet: the coupling of {ls} is missing in the file")
            own.append(1 if special else sign_of_coupling(stored[0], *ls, f"layer{t}_convnet"))
        signs.append(own)
    return signs
