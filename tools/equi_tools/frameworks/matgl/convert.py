# SPDX-License-Identifier: MIT
"""TensorNet and QET potentials of matgl -> document and tensors of an .equi file (doc/model_file.rst)."""

from math import log, sqrt

import numpy as np

from ...errors import EquiError
from ..common.layers import added, gated, network
from ..common.numbers import softplus
from ..common.tensornet_layers import Builder

DEPTH = 4  # matrices of matgl's gated readout


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors)."""
    builder = Builder(checkpoint.tensornet(), elements, checkpoint.source, checkpoint.kind)
    features, size = builder.features(), builder.F
    if checkpoint.kind == "QET":
        features, size = _with_charges(builder, features, checkpoint)
    _readout(builder, features, size)
    _scale_shift(builder, checkpoint)
    if checkpoint.potential.get("calc_repuls"):
        _repulsion(builder, checkpoint)
    return builder.document()


COULOMB = 14.399645478425668  # matgl's constant, eV Angstrom
CUTOFF_POWER = 3  # of matgl's polynomial cutoff function


def _with_charges(builder, features, checkpoint):
    """(name and number of the scalars that QET's readout reads): the features, an atom's charge, the potential of its
    neighbors' charges, and perhaps a magnetic moment, normalized together."""
    charges = _charges(builder, features, checkpoint)
    _potential(builder, charges, checkpoint)
    numbers = [(charges, CHARGES), ("potential", "1x0e")]
    if checkpoint.options["include_magmom"]:
        numbers.append((_perceptrons(builder, features, "magmom_readout", "silu", "moment", activates_last=False), "1x0e"))
    F, size = builder.F, builder.F + len(numbers)
    rows = np.eye(size, dtype=np.float32)
    for n, (source, irreps) in enumerate([(features, f"{F}x0e"), *numbers]):
        row = rows[:F] if n == 0 else rows[F + n - 1 : F + n]
        builder.linear(source, irreps, "all_features", f"{size}x0e", [(0, 0, f"all_features.{n}", row)], accumulate=n > 0)
    builder.layer_norm("norm", "all_features", "normalized", f"{size}x0e", size)
    return "normalized", size


CHARGES = "1x0e+1x0e"  # charges and hardnesses


def _charges(builder, features, checkpoint):
    """The charges with the total charge as sum that minimize sum_i chi_i q_i + eta_i q_i^2 / 2."""
    chi = _perceptrons(builder, features, "chi_readout", "silu", "chi")
    builder.linear(chi, "1x0e", "chi_and_hardness", CHARGES, [(0, 0, builder.unit_matrix(1), None)])
    if checkpoint.options["is_hardness_envs"]:
        # A softplus is a shifted one plus log 2.
        hardness = _perceptrons(builder, features, "hardness_readout", "ssp", "hardness", shift=log(2))
        builder.linear(hardness, "1x0e", "chi_and_hardness", CHARGES, [(0, 1, builder.unit_matrix(1), None)],
                       [(1, "hardness_readout.shift", np.full(1, log(2)))], accumulate=True)  # fmt: skip
    else:
        values = builder.state.take("hardness_readout", builder.model.num_rows)[builder.species]
        if not np.abs(values).min() > 0:
            raise EquiError("hardness_readout: an element whose hardness is 0")
        builder.linear(builder.one(), "1x0e", "chi_and_hardness", CHARGES, [(0, 1, "hardness", values[:, None, None])], per_species=True,
                       accumulate=True)  # fmt: skip
    builder.add("channel_balance", "chi_and_hardness", CHARGES, "charges", CHARGES, block=0, first=0, target=builder.total_charge(),
                hardness={"block": 1, "first": 0})  # fmt: skip
    builder.add_observable("charges", CHARGES, "charge", [0], "e")
    return "charges"


def _perceptrons(builder, features, name, activation, target, shift=0.0, activates_last=True):
    """Three perceptrons of torch, the last one with one output, and with a bias if it is activated. shift: what is added
    to each activation."""
    F, source = builder.F, features
    for n, size in enumerate((F, F, 1)):
        is_activated, end = activates_last or n < 2, target if n == 2 else f"{target}_{n}"
        builder.perceptron(f"{name}.layers.{2 * n}", source, end, F, size, activation if is_activated else None,
                           bias=is_activated, shift=shift if n > 0 else 0.0)  # fmt: skip
        source = end
    return target


def _potential(builder, charges, checkpoint):
    """The potential of the neighbors' charges at an atom. Files of matgl before 2.2.0 have the atom's own charge in the
    place of its neighbors'."""
    sigma = builder.state.take("sigma", builder.model.num_rows)[builder.species].astype(np.float64)
    if not sigma.min() > 0:
        raise EquiError("sigma: an element whose charge has no width")
    table = builder.table
    widths = sqrt(2) * np.sqrt(sigma[:, None] ** 2 + sigma[None, :] ** 2)
    constant = table.add("potential.zeros", builder.folded(np.zeros((builder.basis_size(), 1), np.float32)))
    bias = added(table.add("potential.constant", np.full(1, COULOMB)))
    radial = network([constant], biases=[bias], charge_potential={"widths": table.add("potential.widths", widths), "p": CUTOFF_POWER})
    if not checkpoint.is_reversed:
        return builder.convolution(charges, CHARGES, "potential", [(0, 0, 0, 1.0)], radial, "1x0e")
    builder.convolution(builder.one(), "1x0e", "potential_of_unit_charges", [(0, 0, 0, 1.0)], radial, "1x0e")
    builder.node_product([charges, "potential_of_unit_charges"], [CHARGES, "1x0e"], "potential", "1x0e", [((0, 2), 0, 1.0)])


def _readout(builder, features, size):
    """Two perceptrons with one output each; the energy is their product. size: number of the features."""
    F = builder.F
    ends = {}
    for branch in ("layers", "gates"):
        source = features
        for n in range(DEPTH - 1):
            target = f"{branch}{n}"
            sizes = (size, size) if n == 0 else (size if n == 1 else F, F)
            builder.perceptron(f"final_layer.gated.{branch}.{2 * n}", source, target, *sizes, "silu")
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
