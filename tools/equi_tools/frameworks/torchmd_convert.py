# SPDX-License-Identifier: MIT
"""TensorNet models of torchmd-net -> document and tensors of an .equi file (doc/model_file.rst)."""

import numpy as np

from ..errors import EquiError
from .tensornet_layers import Builder


def convert(checkpoint, elements=None):
    """(architecture part of the document, tensors)."""
    builder = Builder(checkpoint.tensornet(), elements, checkpoint.source)
    _readout(builder, builder.features())
    _scale_shift(builder, checkpoint)
    return builder.document()


def _readout(builder, source):
    """A perceptron with half as many hidden channels."""
    name, hidden = "output_model.output_network.layers", builder.F // 2
    builder.perceptron(f"{name}.0", source, "output", builder.F, hidden, builder.model.activation)
    builder.readout("output", hidden, f"{name}.2")


def _scale_shift(builder, checkpoint):
    state, unit = builder.state, checkpoint.energy_unit
    mean = state.number("mean")
    if mean != 0.0:
        raise EquiError(
            f"mean is {mean:g}: torchmd-net adds it once to the energy of a structure, whatever its size, which the energies of atoms "
            "cannot do; train without standardize, or with the prior Atomref"
        )
    shift = np.zeros(max(builder.species) + 1)
    for name in [name for name in state.source if name.startswith("prior_model.")]:
        prior = int(name.split(".")[1])
        rows = state.take(name, *np.shape(state.source[name])).astype(np.float64).reshape(-1)
        if prior not in checkpoint.atomrefs or not name.endswith(".atomref.weight"):
            continue
        missing = [e for e, row in zip(builder.elements, builder.species) if row >= len(rows)]
        if missing:
            raise EquiError(f"the prior Atomref has no energy for {missing[0]}; keep other elements with --elements")
        shift += rows[: len(shift)]
    builder.scale_shift(state.number("std") * unit, shift * unit)
