# SPDX-License-Identifier: MIT
"""TensorNet potentials of matgl -> document and tensors of an .equi file (doc/model_file.rst)."""

import numpy as np

from ...errors import EquiError
from ..common.layers import gated
from ..common.numbers import softplus
from ..common.tensornet_layers import Builder

DEPTH = 4  # matrices of matgl's gated readout


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors)."""
    builder = Builder(checkpoint.tensornet(), elements, checkpoint.source)
    features = builder.features()
    _readout(builder, features)
    _scale_shift(builder, checkpoint)
    if checkpoint.potential.get("calc_repuls"):
        _repulsion(builder, checkpoint)
    return builder.document()


def _readout(builder, features):
    """Two perceptrons with one output each; the energy is their product."""
    F = builder.F
    ends = {}
    for branch in ("layers", "gates"):
        source = features
        for n in range(DEPTH - 1):
            target = f"{branch}{n}"
            builder.perceptron(f"final_layer.gated.{branch}.{2 * n}", source, target, F, F, "silu")
            source = target
        ends[branch] = source
    both = "1x0e+1x0e"
    for block, (branch, source) in enumerate(ends.items()):
        name = f"final_layer.gated.{branch}.{2 * DEPTH - 2}"
        weight, bias = builder.matrix(name, 1, F)
        builder.linear(source, f"{F}x0e", "energy_and_gate", both, [(0, block, f"{name}.weight", weight)],
                       [(block, f"{name}.bias", bias)], accumulate=block > 0)  # fmt: skip
    builder.add_gate("energy_and_gate", both, "energy", "1x0e", [gated(0, 0, 0, 1, 0, "sigmoid")])
    builder.readout("energy", 1)


def _scale_shift(builder, checkpoint):
    state = builder.state
    mean, scale = state.number("data_mean"), state.number("data_std")
    if mean != 0.0:
        raise EquiError(
            f"data_mean is {mean:g}: matgl adds it once to the energy of a structure, whatever its size, which the energies of atoms "
            "cannot do; save the potential with data_mean 0 and element_refs"
        )
    shift = None
    if "element_refs.property_offset" in state.source:
        if np.ndim(state.source["element_refs.property_offset"]) != 1:
            raise EquiError("element_refs: energies of atoms that depend on a state are not supported")
        shift = state.take("element_refs.property_offset", builder.model.num_rows)
    builder.scale_shift(scale, shift)


def _repulsion(builder, checkpoint):
    """The potential of Ziegler, Biersack and Littmark; matgl may have trained its constants."""
    from ase.data import atomic_numbers

    take = builder.state.take
    z = np.array([atomic_numbers[e] for e in builder.elements], float)
    sizes = z ** softplus(take("repuls.a_pow", 1))
    length = 1 / ((sizes[:, None] + sizes[None, :]) * softplus(take("repuls.a_div", 1)))
    coefficients = softplus(take("repuls.coefficients", 4))
    prefactor = 0.5 * builder.state.number("repuls.ke") * np.outer(z, z)
    builder.add_pair_repulsion(
        "repulsion", prefactor, length, np.full(prefactor.shape, checkpoint.cutoff), 3.0, (coefficients / coefficients.sum()).tolist(),
        softplus(take("repuls.exponents", 4)).tolist(),
    )  # fmt: skip
