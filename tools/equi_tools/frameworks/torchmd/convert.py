# SPDX-License-Identifier: MIT
"""TensorNet models of torchmd-net -> document and tensors of an .equi file (doc/model_file.rst)."""

import numpy as np

from ...errors import EquiError
from ..common.tensornet_layers import Builder


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors)."""
    name = "TensorNet2" if checkpoint.has_charges else "TensorNet"
    builder = Builder(checkpoint.tensornet(), elements, checkpoint.source, name)
    _readout(builder, builder.features(), checkpoint.output_layers)
    if checkpoint.has_coulomb:
        _coulomb(builder, checkpoint)
    if checkpoint.options.get("repulsion"):
        _repulsion(builder)
    _scale_shift(builder, checkpoint)
    return builder.document()


def _readout(builder, source, hidden_layers):
    """A perceptron with half as many hidden channels; it may have more such layers."""
    name, size = "output_model.output_network.layers", builder.F
    for n in range(1 + hidden_layers):
        target = "output" + str(n or "")
        builder.perceptron(f"{name}.{2 * n}", source, target, size, builder.F // 2, builder.model.activation)
        source, size = target, builder.F // 2
    builder.readout(source, size, f"{name}.{2 * (1 + hidden_layers)}")


# torchmd-net's constants: eV Angstrom, and the distance in Angstrom below which the energy is damped.
COULOMB, DAMPING = 27.211386024367243 * 0.5291772105638411, 4.6
# The medium beyond the cutoff.
PERMITTIVITY = 78.3
# A Coulomb energy of all pairs of atoms requires an upper bound of their distances: molecules are no larger.
ALL_PAIRS = 30.0


def _coulomb(builder, checkpoint):
    """The energies of all charges, before each layer and after the last, as a weighted mean."""
    q, num = builder.model.charge_channels, builder.model.num_layers + 1
    irreps = "+".join([f"{q}x0e"] * num)
    for t in range(num):
        builder.copy_charges(t, "all_charges", irreps, t, accumulate=t > 0)
    weights = builder.state.take("output_model.qweights", num * q).astype(np.float64)
    if weights.sum() == 0.0:
        raise EquiError("q_weights: weights whose sum is 0")
    permittivity = {} if checkpoint.coulomb_cutoff is None else {"permittivity": PERMITTIVITY}
    builder.add_layer(
        "coulomb", input="all_charges", irreps_in=irreps, weights=builder.table.add("coulomb.weights", weights / weights.sum()),
        prefactor=COULOMB, cutoff=checkpoint.coulomb_cutoff or ALL_PAIRS, damping=DAMPING, **permittivity,
    )  # fmt: skip


def _repulsion(builder):
    """The potential of Ziegler, Biersack and Littmark between the model's neighbors, with the tables of the
    checkpoint."""
    state, name = builder.state, "repulsion"
    rows = len(state.source.get(f"{name}.z_pow", ()))
    power, product, cutoff = (
        state.take(f"{name}.{key}", *shape).astype(np.float64)
        for key, shape in (("z_pow", (rows,)), ("z_outer", (rows, rows)), ("cutoff_ab", (rows, rows)))
    )
    species = np.minimum(builder.species, rows - 1)
    pairs = np.ix_(species, species)
    power = power[species]
    length = 0.4543 / 1.8897261258369282 / (power[:, None] + power)
    builder.add_pair_repulsion(
        "repulsion", 0.5 * 14.399645 * product[pairs], length, cutoff[pairs], 6.0, [0.1818, 0.5099, 0.2802, 0.02817],
        [3.2, 0.9423, 0.4029, 0.2016],
    )  # fmt: skip


def _scale_shift(builder, checkpoint):
    state = builder.state
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
    builder.scale_shift(state.number("std"), shift)
