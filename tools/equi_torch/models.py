# SPDX-License-Identifier: MIT
"""Puts the convolution into the models of the frameworks.

Parameters and the names in a state_dict do not change: checkpoints are those of the framework. A replacement keeps the
module that it replaces as `original`.
"""

import sys

import torch
from equi_tools.errors import EquiError

from .convolution import Convolution


def _short_names(module, state, prefix, _metadata):
    for key in [k for k in state if k.startswith(prefix + "original.")]:
        state[prefix + key[len(prefix + "original.") :]] = state.pop(key)


def _long_names(module, state, prefix, *_):
    for key in [k for k in state if k.startswith(prefix)]:
        state[f"{prefix}original.{key[len(prefix):]}"] = state.pop(key)


class _Replacement(torch.nn.Module):
    """Replaces `original` and has its state."""

    def __init__(self, original, tensor_product):
        super().__init__()
        self.original = original
        self.convolution = Convolution.from_tensor_product(tensor_product)
        self.weight_numel = tensor_product.weight_numel
        self.register_state_dict_post_hook(_short_names)
        self.register_load_state_dict_pre_hook(_long_names)


class _OfSevenn(_Replacement):
    def forward(self, x, y, w, senders, receivers):
        return self.convolution(x, y, w, senders, receivers)


class _OfMace(_Replacement):
    def forward(self, x, y, w, edge_index):
        return self.convolution(x, y, w, edge_index[0], edge_index[1])


class _OfNequip(_Replacement):
    def forward(self, x, edge_attr, edge_weight, edge_dst, edge_src):
        return self.convolution(x, edge_attr, edge_weight, edge_src, edge_dst)


def _modules(model, module_name, *class_names):
    """(parent, name, child) of the children whose class is one of these classes of an imported module."""
    module = sys.modules.get(module_name)
    classes = tuple(getattr(module, name) for name in class_names) if module else ()
    return [(p, n, c) for p in list(model.modules()) for n, c in p.named_children() if isinstance(c, classes)]


def _replace_sevenn(model):
    found = [child for _, _, child in _modules(model, "sevenn.nn.convolution", "IrrepsConvolution")]
    for layer in found:
        from sevenn.nn.convolution import IrrepsScatterGatterFusedConvolution

        # sevenn's own form of the layer for a convolution that sums over receivers; only its forward() differs.
        layer.convolution = _OfSevenn(layer.convolution, layer.convolution)
        layer._out_dim = layer.convolution.convolution.irreps_out.dim
        layer.__class__ = IrrepsScatterGatterFusedConvolution
    return len(found)


def _replace_mace(model):
    found = [child for _, _, child in _modules(model, "mace.modules.blocks", "InteractionBlock")]
    for block in found:
        if hasattr(block, "conv_fusion"):
            raise EquiError(f"{type(block).__name__}: another library's convolution is in this model already")
        block.conv_tp = _OfMace(block.conv_tp, block.conv_tp)
        block.conv_fusion = "equi"  # mace's word for a conv_tp that sums over receivers
    return len(found)


def _replace_nequip(model):
    found = _modules(model, "nequip.nn._tp_scatter_base", "TensorProductScatter")
    for parent, name, child in found:
        setattr(parent, name, _OfNequip(child, child.tp))
    return len(found)


def enable(model):
    """Puts the convolution into a model of sevenn, mace-torch or nequip, in place; returns the model. Its parameters
    and results remain the same."""
    if any(isinstance(m, _Replacement) for m in model.modules()):
        return model
    if _replace_sevenn(model) + _replace_mace(model) + _replace_nequip(model) == 0:
        raise EquiError(f"{type(model).__name__}: no convolution of sevenn, mace-torch or nequip was found in it")
    return model


def disable(model):
    """Restores the framework's own convolutions, and returns the model. Call it before the whole model is saved,
    compiled to TorchScript or deployed; state_dict() has the same names either way."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if not isinstance(child, _Replacement):
                continue
            setattr(parent, name, child.original)
            if isinstance(child, _OfMace):
                del parent.conv_fusion
            if isinstance(child, _OfSevenn):
                from sevenn.nn.convolution import IrrepsConvolution

                del parent._out_dim
                parent.__class__ = IrrepsConvolution
    return model
