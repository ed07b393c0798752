# SPDX-License-Identifier: MIT
"""The modules that sevenn builds from a configuration: their irreps, paths and numbers of weights, without their
values.

Follows sevenn's model builder up to version 0.13, with the defaults of its options; the names are those of its
state_dict.
"""

import re
from dataclasses import dataclass

import numpy as np

from ...errors import EquiError
from ...irreps import SCALAR, Irrep, Irreps, gate_input, products
from ..common.e3nn_layers import ACTIVATION_CONSTANTS

DEFAULTS = {
    "cutoff": 4.5, "channel": 32, "irreps_manual": False, "lmax": 1, "lmax_edge": -1, "lmax_node": -1, "is_parity": True,
    "num_convolution_layer": 3, "radial_basis": {"radial_basis_name": "bessel"},
    "cutoff_function": {"cutoff_function_name": "poly_cut"}, "act_radial": "silu", "act_scalar": {"e": "silu", "o": "tanh"},
    "act_gate": {"e": "silu", "o": "tanh"}, "weight_nn_hidden_neurons": [64, 64], "use_bias_in_linear": False,
    "use_modal_node_embedding": False, "use_modal_self_inter_intro": False, "use_modal_self_inter_outro": False,
    "use_modal_output_block": False, "use_modal_wise_shift": False, "use_modal_wise_scale": False, "readout_as_fcn": False,
    "readout_fcn_hidden_neurons": [30, 30], "readout_fcn_activation": "relu", "self_connection_type": "nequip",
    "train_denominator": False, "use_modality": False, "_normalize_sph": True,
}  # fmt: skip
# Activations that sevenn allows for scalars and gates, by their parity.
ACTIVATIONS_OF_PARITY = {"e": ("silu", "ssp"), "o": ("tanh", "abs")}


@dataclass
class Linear:
    """e3nn's Linear; the one-hot of the modality is an extra last block of its input."""

    irreps_in: Irreps  # without the modality
    irreps_out: Irreps
    biases: bool
    num_modalities: int = 0

    @property
    def blocks_in(self):
        return list(self.irreps_in) + ([(self.num_modalities, SCALAR)] if self.num_modalities else [])

    def shapes(self, name):
        weights = sum(mul * out.mul for mul, ir in self.blocks_in for out in self.irreps_out if out.ir == ir)
        return {
            f"{name}.linear.weight": (weights,),
            f"{name}.linear.bias": (self.irreps_out.count(SCALAR) if self.biases else 0,),
        }


@dataclass
class SelfConnection:
    """e3nn's FullyConnectedTensorProduct with the one-hot of the species, or Linear."""

    irreps_in: Irreps
    irreps_out: Irreps
    num_species: int  # 0: does not depend on the species

    def shapes(self, name):
        weights = sum(a.mul * max(1, self.num_species) * b.mul for a in self.irreps_in for b in self.irreps_out if a.ir == b.ir)
        if self.num_species:
            return {f"{name}.fc_tensor_product.weight": (weights,)}
        return {f"{name}.linear.weight": (weights,), f"{name}.linear.bias": (0,)}


@dataclass
class Network:
    """e3nn's FullyConnectedNet: matrices between layers of these sizes."""

    sizes: list
    activation: str

    def shapes(self, prefix):
        return {f"{prefix}.layer{n}.weight": shape for n, shape in enumerate(zip(self.sizes, self.sizes[1:]))}


@dataclass
class Convolution:
    irreps_in: Irreps
    irreps_edge: Irreps
    irreps_mid: Irreps  # a block for each path, sorted
    paths: list  # (block of irreps_in, of irreps_edge, of irreps_mid), in the order of irreps_mid
    created: list  # the same in the order of irreps_in
    network: Network

    @property
    def last_weight(self):
        return f"weight_nn.layer{len(self.network.sizes) - 2}.weight"

    def shapes(self, name):
        return {f"{name}.denominator": (1,), **self.network.shapes(f"{name}.weight_nn")}


@dataclass
class Gate:
    irreps_in: Irreps
    gates: Irrep
    scalar_acts: list  # (activation, constant) of each block of scalars
    gate_acts: list


@dataclass
class Model:
    config: dict  # completed by the defaults
    num_species: int
    num_modalities: int  # 0: none
    irreps_edge: Irreps
    num_basis: int
    trainable_basis: bool
    embedding: Linear
    self_connections: list  # one for each convolution, like the following
    before: list
    convolutions: list
    after: list
    gates: list
    outputs: list  # irreps of the features after each convolution
    readout: list  # two Linears, or one Network

    def linears(self):
        """All linear maps by name."""
        found = {"onehot_to_feature_x": self.embedding}
        for t, (before, after) in enumerate(zip(self.before, self.after)):
            found |= {f"{t}_self_interaction_1": before, f"{t}_self_interaction_2": after}
        if len(self.readout) == 2:
            found |= dict(zip(("reduce_input_to_hidden", "reduce_hidden_to_energy"), self.readout))
        return found

    def shapes(self):
        """The shape of each tensor of numbers by name, without couplings and masks."""
        found = {}
        if self.trainable_basis:
            found["edge_embedding.basis_function.coeffs"] = (self.num_basis,)
        for name, linear in self.linears().items():
            found |= linear.shapes(name)
        for t, (connection, convolution) in enumerate(zip(self.self_connections, self.convolutions)):
            found |= connection.shapes(f"{t}_self_connection_intro") | convolution.shapes(f"{t}_convolution")
        if len(self.readout) == 1:
            found |= self.readout[0].shapes("readout_FCN.fcn")
        return found

    def shape_of_scale(self, key, size):
        """The shape of the scale or the shift: per modality and species, per species, or one number."""
        if self.num_modalities and self.config[f"use_modal_wise_{key}"]:
            return self.num_modalities, self.num_species
        return (1,) if size == 1 and not self.num_modalities else (self.num_species,)


def complete(config, version):
    """The configuration with sevenn's defaults, which differ for versions up to 0.9."""
    config = dict(config)
    if version < (0, 10, 0):
        config.setdefault("train_denominator", config.get("train_avg_num_neigh", False))
        config.setdefault("_normalize_sph", False)
        config.setdefault("cutoff_function", DEFAULTS["cutoff_function"])
        if config["cutoff_function"]["cutoff_function_name"] == "XPLOR":
            config["cutoff_function"] = {k: v for k, v in config["cutoff_function"].items() if k != "poly_cut_p_value"}
    return DEFAULTS | config


def _convolution(irreps_in, irreps_edge, lmax, parity_mode, sizes, activation):
    """(convolution, irreps to which its paths lead)."""
    reached = Irreps(
        block for block in products(irreps_in, irreps_edge) if block.ir.l <= lmax and (parity_mode == "full" or block.ir.p == 1)
    )
    created, mid = [], []
    for i, (mul, ir_in) in enumerate(irreps_in):
        for j, (_, ir_edge) in enumerate(irreps_edge):
            for ir in ir_in * ir_edge:
                if ir in reached:
                    created.append((i, j, len(mid)))
                    mid.append((mul, ir))
    mid, places = Irreps(mid).sort()
    created = [(i, j, places[k]) for i, j, k in created]
    weights = sum(irreps_in[i].mul for i, _, _ in created)
    paths = sorted(created, key=lambda path: path[2])
    return Convolution(irreps_in, irreps_edge, mid, paths, created, Network([*sizes, weights], activation)), reached


def _gate(config, irreps):
    scalars = Irreps(block for block in irreps if block.ir.l == 0)
    gated = Irreps(block for block in irreps if block.ir.l > 0)
    kind = Irrep(0, 1 if SCALAR in scalars else -1)
    gates = Irreps((block.mul, kind) for block in gated)

    def activation(key, ir):
        parity = "e" if ir.p == 1 else "o"
        name = config[key].get(parity)
        if name not in ACTIVATIONS_OF_PARITY[parity]:
            allowed = ", ".join(ACTIVATIONS_OF_PARITY[parity])
            raise EquiError(f"{key}.{parity}: '{name}' is not supported, only {allowed}")
        return name, ACTIVATION_CONSTANTS[name]

    scalar_acts = [activation("act_scalar", ir) for _, ir in scalars]
    gate_acts = [activation("act_gate", ir) for _, ir in gates]
    return Gate(gate_input(scalars, gates, gated), kind, scalar_acts, gate_acts)


def _manual_irreps(config):
    if config["irreps_manual"] is False:
        return None
    try:
        manual = [Irreps(str(irreps)) for irreps in config["irreps_manual"]]
    except (EquiError, TypeError) as error:
        raise EquiError(f"irreps_manual: {error}") from error
    if len(manual) != config["num_convolution_layer"] + 1:
        raise EquiError(f"irreps_manual: {len(manual)} entries for {config['num_convolution_layer']} convolutions")
    return manual


def _readout(config, irreps, modalities):
    if config["readout_as_fcn"]:
        for block in irreps:
            if block.ir != SCALAR:
                raise EquiError(f"readout_as_fcn: the last irreps, {irreps}, are not scalars 0e")
        sizes = [irreps.dim, *config["readout_fcn_hidden_neurons"], 1]
        return [Network(sizes, config["readout_fcn_activation"])]
    hidden = Irreps([(irreps.dim // 2, SCALAR)])
    biases = bool(config["use_bias_in_linear"])
    return [Linear(irreps, hidden, biases, modalities), Linear(hidden, Irreps("1x0e"), biases)]


def build(config):
    """The model of a complete configuration; raises EquiError, which begins with the name of the option."""
    layers, biases = int(config["num_convolution_layer"]), bool(config["use_bias_in_linear"])
    num_species = int(config["_number_of_species"])
    num_modalities = int(config["_number_of_modalities"]) if config["use_modality"] else 0
    manual = _manual_irreps(config)
    lmax_edge = config["lmax_edge"] if config["lmax_edge"] > 0 else config["lmax"]
    lmax_node = config["lmax_node"] if config["lmax_node"] > 0 else config["lmax"]
    irreps_edge = Irreps.spherical_harmonics(lmax_edge, -1 if config["is_parity"] else 1)
    connections = config["self_connection_type"]
    connections = [connections] * layers if isinstance(connections, str) else list(connections)
    if len(connections) < layers:
        raise EquiError(f"self_connection_type: {len(connections)} entries for {layers} convolutions")
    basis = config["radial_basis"]
    num_basis = int(basis.get("bessel_basis_num", 8))
    sizes = [num_basis, *map(int, config["weight_nn_hidden_neurons"])]

    def modal(key):
        return num_modalities if num_modalities and config[key] else 0

    irreps = manual[0] if manual else Irreps([(config["channel"], SCALAR)])
    species = Irreps([(num_species, SCALAR)])
    model = Model(
        config, num_species, num_modalities, irreps_edge, num_basis, bool(basis.get("trainable_coeff", True)),
        Linear(species, irreps, biases, modal("use_modal_node_embedding")), [], [], [], [], [], [], [],
    )  # fmt: skip
    for t in range(layers):
        last = t == layers - 1
        parity_mode, lmax = ("even", 0) if last else ("full", lmax_node)
        if manual:
            out = manual[t + 1]
        else:
            found = (b.ir for b in products(irreps, irreps_edge))
            out = Irreps((config["channel"], ir) for ir in found if ir.l <= lmax and (not last or ir.p == 1))
        gate = _gate(config, out)
        convolution, reached = _convolution(irreps, irreps_edge, out.lmax, parity_mode, sizes, config["act_radial"])
        per_species = num_species if connections[t] == "nequip" else 0
        model.self_connections.append(SelfConnection(irreps, gate.irreps_in, per_species))
        model.before.append(Linear(irreps, irreps, biases, modal("use_modal_self_inter_intro")))
        model.convolutions.append(convolution)
        model.after.append(Linear(reached, gate.irreps_in, biases, modal("use_modal_self_inter_outro")))
        model.gates.append(gate)
        model.outputs.append(out)
        irreps = out
    model.readout = _readout(config, irreps, modal("use_modal_output_block"))
    return model


def wave_numbers(model):
    """The wave numbers of a basis that is not trained, as sevenn rounds them."""
    cutoff = model.config["cutoff"]
    return np.array([n * np.pi / cutoff for n in range(1, model.num_basis + 1)], np.float32)


def version_numbers(version):
    """The first three numbers of a version as a tuple for comparison."""
    numbers = [re.match(r"\d+", part) for part in version.split(".")[:3]]
    if len(numbers) != 3 or not all(numbers):
        raise EquiError(f"version: '{version}' is not a version of sevenn")
    return tuple(int(number.group()) for number in numbers)
