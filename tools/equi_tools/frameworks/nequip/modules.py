# SPDX-License-Identifier: MIT
"""Reads options, irreps and paths from the modules of a NequIP model, of a file or of model.py."""

import re

import numpy as np

from ... import torch_modules
from ...errors import EquiError
from ...irreps import Irreps
from ..common.e3nn_layers import sign_of_coupling
from . import model as nequip_model

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


def check_bias(where, linear):
    if linear.bias is not None:
        raise EquiError(f"{where}: biases are not supported")


def mlp_options(option, mlp):
    """The options of a ScalarMLPFunction, which begin with `option`."""
    if mlp.mlp.class_name == "DeepLinearMLP":
        weights, activation = [p for _, p in mlp.mlp.weights.named_parameters()], None
    else:
        linears, between = mlp_layers(mlp)
        unknown = {kind for kind in between if kind not in nequip_model.MLP_ACTIVATIONS}
        if unknown or len(set(between)) > 1 or any(getattr(m, "approximate", "none") != "none" for m in mlp.mlp.children()):
            raise EquiError(f"{option}_nonlinearity: {', '.join(sorted(unknown or set(between)))} is not supported")
        for linear in linears:
            check_bias(option, linear)
        weights = [m.weight for m in linears]
        activation = nequip_model.MLP_ACTIVATIONS[between[0]] if between else None
    return {
        f"{option}_hidden_layers_depth": len(weights) - 1,
        f"{option}_hidden_layers_width": int(weights[0].shape[1]) if len(weights) > 1 else None,
        f"{option}_nonlinearity": "None" if activation == "identity" else activation,
    }


def tensor_product(conv):
    """The product of features and harmonics of a convolution; nequip 0.7 and older stored it without its sum."""
    return conv.tp_scatter.tp if hasattr(conv, "tp_scatter") else conv.tp


def activation_of(module):
    """(name, constant) of an activation of a gate."""
    found = torch_modules.activation(module)
    if found is None or found[0] not in ACTIVATIONS:
        raise EquiError("an activation of a gate is none of " + ", ".join(ACTIVATIONS))
    return found


def power_of(cutoff):
    if cutoff.class_name != "PolynomialCutoff":
        raise EquiError(f"cutoff function {cutoff.class_name} is not supported, only PolynomialCutoff")
    return float(cutoff.p)


def harmonics_of(where, sphere):
    """The irreps of normalized harmonics."""
    if sphere.normalization != "component" or not sphere.normalize:
        raise EquiError(f"{where}: only normalized harmonics with component normalization are supported")
    return Irreps(sphere.irreps_out)


def cutoffs_of(edge_norm, type_names):
    """The option per_edge_type_cutoff."""
    if not edge_norm._per_edge_type:
        return None
    n = len(type_names)
    values = np.minimum(1 / edge_norm._rmax_recip.astype(np.float64).reshape(n, n), float(edge_norm.r_max))
    return {a: {b: float(values[i, j]) for j, b in enumerate(type_names)} for i, a in enumerate(type_names)}


def scale_shift_of(module, type_names):
    """The options of scales and shifts, where there are any."""
    found = {}
    for option, attribute in (("per_type_energy_scales", "scales"), ("per_type_energy_shifts", "shifts")):
        values = getattr(module, attribute).reshape(-1).tolist()
        if values:
            found[option] = dict(zip(type_names, values)) if len(values) > 1 else values[0]
    return found


def zbl_of(module, cutoff):
    """The option pair_potential. cutoff: the cutoff function of the edges."""
    from ase.data import chemical_symbols

    return {
        "_target_": nequip_model.ZBL,
        "units": nequip_model.units_of_zbl(float(module._qqr2exesquare)),
        "chemical_species": [chemical_symbols[int(z)] for z in module.atomic_numbers],
        # Before nequip 0.17 the pair potential had no separate cutoff function.
        "polynomial_cutoff_p": power_of(module.cutoff if hasattr(module, "cutoff") else cutoff),
    }


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
