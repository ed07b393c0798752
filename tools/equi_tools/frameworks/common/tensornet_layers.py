# SPDX-License-Identifier: MIT
"""What the converters of matgl and torchmd-net share: TensorNet as layers of an .equi file (doc/model_file.rst).

TensorNet keeps a 3x3 matrix X = i 1 + [a]x + S per atom and channel: a scalar, a vector (as the cross product with it)
and a symmetric traceless matrix. The orthonormal basis of such matrices is 1/sqrt(3), [e]x/sqrt(2), ..., with the last
five in the order of the harmonics. In it X is a feature 0e + 1o + 2e whose square is the sum of the squares of X's
entries.
"""

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np

from ...errors import EquiError
from .elements import chosen_elements
from .layers import Layers, added, gated, network, path
from .numbers import activate
from .state import State

# Scales of the paths (l1, l2, l3) of Y M + M Y with normalized couplings; 2 Y M also has those of odd sums.
ANTICOMMUTATOR = {
    (0, 0, 0): 2 / sqrt(3), (0, 1, 1): 2.0, (1, 0, 1): 2.0, (0, 2, 2): sqrt(20 / 3), (2, 0, 2): sqrt(20 / 3),
    (2, 2, 0): sqrt(20 / 3), (1, 1, 0): -2.0, (1, 1, 2): sqrt(5), (1, 2, 1): -sqrt(5), (2, 1, 1): -sqrt(5),
    (2, 2, 2): sqrt(35 / 3),
}  # fmt: skip
COMMUTATOR = {(1, 1, 1): sqrt(3), (1, 2, 2): sqrt(15), (2, 1, 2): sqrt(15), (2, 2, 1): -sqrt(15)}

# By the names that the two frameworks use.
ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "tanh": "tanh", "sigmoid": "sigmoid", "ssp": "ssp", "softplus2": "ssp",
}  # fmt: skip


@dataclass
class Basis:
    """Radial functions of the distance. `document` is the radial_basis of the .equi file, with arrays as tensors."""

    document: dict
    fold: np.ndarray = None  # [framework's functions, the file's]: factor of the first matrix
    at_zero: np.ndarray = None  # the functions at distance 0, where atoms are their own neighbors


@dataclass
class Model:
    """The result of a framework's reader: the options of a TensorNet, and its numbers without the framework's
    prefix."""

    channels: int
    num_layers: int
    cutoff: float
    activation: str  # one of ACTIVATIONS' values
    group: str  # O(3) or SO(3)
    basis: Basis
    elements: list  # chemical symbols of the rows of the species embedding that the file can name
    rows: list  # the row of each of them
    num_rows: int
    state: dict
    channel_first: bool  # the three weights of a channel are adjacent
    self_edges: bool = False  # each atom is its own neighbor at distance zero
    charge_factor: float = 1.0  # factor of the products
    activated_output: bool = False
    # For TensorNet2: channels of charges, which each layer's radial network reads, and the total charge of the system
    # (None: given by a run).
    charge_channels: int = 0
    total_charge: float = 0.0
    # matgl before 2.2.0 sums messages at the other atom of an edge: those of the embedding, and those of interactions,
    # which then contain the atom's own features.
    reversed_embedding: bool = False
    reversed_interactions: bool = False


def activation_of(name):
    if name not in ACTIVATIONS:
        raise EquiError(f"activation {name} is not supported, only {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def cosine_cutoff(apply):
    return {"cutoff_function": {"kind": "cosine"}} | ({} if apply else {"apply_cutoff": False})


def gaussian_basis(centers, inverse):
    """exp(-inverse (r - center)^2)."""
    if not inverse > 0:
        raise EquiError(f"Gaussian functions that grow with the distance (factor {inverse})")
    centers = centers.astype(np.float64)
    document = {"kind": "gaussian", "centres": centers, "width": 1 / sqrt(2 * inverse)} | cosine_cutoff(False)
    return Basis(document, at_zero=np.exp(-inverse * centers**2))


def exp_normal_basis(means, factors, cutoff):
    """The cutoff function times exp(-factor (exp(-5 r / cutoff) - mean)^2)."""
    means, factors = means.astype(np.float64), factors.astype(np.float64)
    if not (factors.min() >= 0 and factors.max() <= 1e6):
        raise EquiError("exponentials that grow with the distance, or too narrow ones: their factors must lie between 0 and 1e6")
    document = {"kind": "exp_normal", "means": means, "factors": factors, "decay": 5.0 / cutoff} | cosine_cutoff(True)
    return Basis(document, at_zero=np.exp(-factors * (1 - means) ** 2))


def bessel_basis(count, cutoff, fold):
    """sin(n pi r / cutoff) / r for n from 1 to `count`; `fold` combines them to the framework's functions."""
    wave_numbers = pi * np.arange(1, count + 1) / cutoff
    return Basis({"kind": "bessel", "wave_numbers": wave_numbers, "prefactor": 1.0} | cosine_cutoff(False), fold=fold)


class Builder(Layers):
    """The layers of a Model, in the order of their evaluation."""

    def __init__(self, model, elements, where, name="TensorNet"):
        self.model, self.name = model, name
        super().__init__(chosen_elements(elements, model.elements, where))
        self.state = State(model.state, "a TensorNet")
        self.species = [model.rows[model.elements.index(e)] for e in self.elements]
        self.parity = model.group == "O(3)"
        self.F = model.channels
        self.tensors = self.irreps(0, 1, 2)

    # Irreps and names.

    def irreps(self, *degrees, channels=None):
        """Blocks of the given degrees with the model's number of channels."""
        parity = "eo" if self.parity else "ee"
        return "+".join(f"{channels or self.F}x{l}{parity[l % 2]}" for l in degrees)

    def matrix(self, name, out, into, bias=True):
        """(matrix [in, out], bias or None) of a Linear of torch."""
        weight = self.state.take(f"{name}.weight", out, into).T
        return weight, self.state.take(f"{name}.bias", out) if bias else None

    def once(self, name, array):
        """The name of a tensor that several layers read."""
        return name if name in self.table.tensors else self.table.add(name, array)

    def unit_matrix(self, size):
        return self.once(f"unit_matrix_{size}", np.eye(size, dtype=np.float32))

    # Layers.

    def node_product(self, inputs, irreps_in, output, irreps_out, paths):
        """paths: (blocks of the inputs, block of the output, scale)."""
        paths = [{"in": list(blocks), "out": out, "scale": scale} for blocks, out, scale in paths]
        self.add_node_product(inputs, irreps_in, output, irreps_out, paths=paths)

    def linear(self, source, irreps_in, target, irreps_out, blocks, biases=(), per_species=False, accumulate=False):
        """blocks: (in, out, name, matrix or matrices per species, or None for an existing tensor of that name);
        biases: (out, name, array)."""
        blocks = [(i, o, name if w is None else self.table.add(name, w), 1.0) for i, o, name, w in blocks]
        biases = [(o, self.table.add(name, b), 1.0) for o, name, b in biases]
        self.add_linear(source, irreps_in, target, irreps_out, blocks, biases, per_species, accumulate)

    def perceptron(self, name, source, target, into, out, activation=None, bias=True, shift=0.0):
        """A Linear of torch from scalars to scalars, with an activation if one is given. shift: what is added to each
        input of a Linear with a bias. Returns the irreps of its output."""
        irreps_in, irreps_out = f"{into}x0e", f"{out}x0e"
        weight, offset = self.matrix(name, out, into, bias)
        if shift:
            offset = offset + shift * weight.astype(np.float64).sum(axis=0)
        between = target if activation is None else f"{target}_linear"
        biases = [(0, f"{name}.bias", offset)] if bias else []
        self.linear(source, irreps_in, between, irreps_out, [(0, 0, f"{name}.weight", weight)], biases)
        if activation is not None:
            self.add_activation(between, target, irreps_out, activation)
        return irreps_out

    def layer_norm(self, name, source, target, irreps, size):
        numbers = {key: self.table.add(f"{name}.{key}", self.state.take(f"{name}.{key}", size)) for key in ("weight", "bias")}
        self.add_layer_norm(source, irreps, target, **numbers, epsilon=1e-5)

    def norm_scale(self, source, target):
        self.add("norm_scale", source, self.tensors, target, self.tensors, offset=1.0, factor=1.0)

    def convolution(self, source, irreps_in, target, paths, radial, irreps_out=None):
        paths = [path(*entry, r_power=0) for entry in paths]
        self.add_convolution(source, irreps_in, target, irreps_out or self.tensors, paths, radial)

    def mixing(self, prefix, first, source, target, irreps_out=None, factors=None):
        """linears_tensor: one matrix for each of scalars, vectors and symmetric matrices. With factors [3, channels]
        these times the outputs are added to the target."""
        blocks = []
        for l in range(3):
            name = f"{prefix}.linears_tensor.{first + l}"
            weight, _ = self.matrix(name, self.F, self.F, bias=False)
            if factors is None:
                blocks.append((l, l, f"{name}.weight", weight))
            else:
                blocks.append((l, l, f"{name}.self", weight.astype(np.float64) * factors[l]))
        self.linear(source, self.tensors, target, irreps_out or self.tensors, blocks, accumulate=factors is not None)

    # Radial networks.

    def folded(self, weight):
        """A first matrix [framework's functions, out] for the functions of the file."""
        fold = self.model.basis.fold
        return weight if fold is None else fold.T.astype(np.float64) @ weight.astype(np.float64)

    def basis_size(self):
        document, fold = self.model.basis.document, self.model.basis.fold
        if fold is not None:
            return fold.shape[0]
        return len(document["centres"] if document["kind"] == "gaussian" else document["means"])

    def block_first(self, array, layers=False):
        """The last axis in the order scalars, vectors, matrices, whatever its order in the file, in the embedding or
        in layers."""
        if not self.model.channel_first or (layers and self.model.charge_channels):
            return array
        return array[..., [3 * u + k for k in range(3) for u in range(self.F)]]

    def radial_network(self, names, matrices, biases, activation, **more):
        weights = [self.table.add(f"{name}.weight", w) for name, w in zip(names, matrices)]
        biases = [self.table.add(f"{name}.bias", b) for name, b in zip(names, biases)]
        return network(weights, activation, biases=biases, times_cutoff=True, **more)

    # The model.

    def embedding(self):
        """Scalars, vectors and matrices of the neighbors, weighted by the two species and the distance."""
        F, name, take = self.F, "tensor_embedding", self.state.take
        size = self.basis_size()
        if f"{name}.distance_proj.weight" in self.state.source:
            weight, bias = self.matrix(f"{name}.distance_proj", 3 * F, size)
        else:
            pieces = [self.matrix(f"{name}.distance_proj{k}", F, size) for k in (1, 2, 3)]
            weight, bias = (np.concatenate(parts, axis=-1) for parts in zip(*pieces))
        rows = take(f"{name}.emb.weight", self.model.num_rows, F)[self.species].astype(np.float64)
        mixing, shift = self.matrix(f"{name}.emb2", F, 2 * F)
        receiver, sender = rows @ mixing[:F], rows @ mixing[F:]
        if self.model.reversed_embedding:
            receiver, sender = sender, receiver
        receiver = receiver + shift.astype(np.float64)
        factor = {
            "receiver": self.table.add(f"{name}.receiver", np.tile(receiver, 3)),
            "sender": self.table.add(f"{name}.sender", np.tile(sender, 3)),
        }
        radial = self.radial_network([f"{name}.distance_proj"], [self.folded(weight)], [bias], "identity", pair_factor=factor)
        self.add_species_embedding("ones", "ones", np.ones((len(self.elements), F), np.float32))
        vectors = -sqrt(2) if self.model.reversed_embedding else sqrt(2)
        paths = [(0, 0, 0, sqrt(3)), (0, 1, 1, vectors), (0, 2, 2, sqrt(2 / 3))]
        self.convolution("ones", self.irreps(0), "embedding", paths, radial)
        if self.model.self_edges:
            values = self.model.basis.at_zero @ weight[:, :F].astype(np.float64) + bias[:F].astype(np.float64)
            self.add_scalars("embedding", f"{name}.self", sqrt(3) * values * (receiver + sender))

        self.node_product(["embedding"], [self.tensors], "embedding_squares", self.irreps(0),
                          [((l, l), 0, sqrt(2 * l + 1)) for l in range(3)])  # fmt: skip
        self.layer_norm(f"{name}.init_norm", "embedding_squares", "embedding_norms", self.irreps(0), F)
        self.perceptron(f"{name}.linears_scalar.0", "embedding_norms", "embedding_hidden", F, 2 * F, self.model.activation)
        gated_irreps = f"{self.tensors}+{3 * F}x0e"
        self.mixing(name, 0, "embedding", "embedding_gated", gated_irreps)
        weight, bias = map(self.block_first, self.matrix(f"{name}.linears_scalar.1", 3 * F, 2 * F))
        self.linear("embedding_hidden", f"{2 * F}x0e", "embedding_gated", gated_irreps, [(0, 3, f"{name}.linears_scalar.1.weight", weight)],
                    [(3, f"{name}.linears_scalar.1.bias", bias)], accumulate=True)  # fmt: skip
        terms = [gated(l, l, 0, 3, l * F, self.model.activation) for l in range(3)]
        self.add_gate("embedding_gated", gated_irreps, "x0", self.tensors, terms)

    def one(self):
        """The name of a feature 1x0e that is 1 for all atoms."""
        if "one" not in self.table.tensors:
            self.add_species_embedding("one", "one", np.ones((len(self.elements), 1), np.float32))
        return "one"

    def times_scalars(self, source, scalars, target):
        """Multiplies each channel of scalars, vectors and matrices by a scalar of its own."""
        self.node_product([source, scalars], [self.tensors, self.irreps(0, 0, 0)], target, self.tensors,
                          [((l, 3 + l), l, sqrt(2 * l + 1)) for l in range(3)])  # fmt: skip

    def add_scalars(self, target, name, values):
        """Adds numbers [species, channels] of an atom's own species to its scalars."""
        self.linear(self.one(), "1x0e", target, self.tensors, [(0, 0, name, values[:, None])], per_species=True, accumulate=True)

    def interaction(self, t):
        F, name, model = self.F, f"layers.{t}", self.model
        own = lambda feature: f"{feature}{t}"  # noqa: E731
        q = model.charge_channels
        self.norm_scale(own("x"), own("scaled"))
        self.mixing(name, 0, own("scaled"), own("y"))
        sent, irreps_sent = own("y"), self.tensors
        if q:
            # Messages also contain the charges; products need features with equal numbers of channels.
            sent, irreps_sent = own("y_charged"), f"{self.tensors}+{q}x0e"
            self.layers.append(self.layers[-1] | {"output": sent, "irreps_out": irreps_sent})
            self.copy_charges(t, sent, irreps_sent, 3, accumulate=True)

        names = [f"{name}.linears_scalar.{n}" for n in range(3)]
        functions = self.basis_size()
        sizes = [functions + 2 * q, F, 2 * F, 3 * F]
        matrices, biases = zip(*(self.matrix(n, out, into) for n, into, out in zip(names, sizes, sizes[1:])))
        matrices, biases = list(matrices), list(biases)
        matrices[2], biases[2] = self.block_first(matrices[2], layers=True), self.block_first(biases[2], layers=True)
        first, of_receiver, of_sender = np.split(matrices[0], [functions, functions + q])
        inputs = [self.folded(first)]
        reads = {}
        if q:
            # The framework's inputs are those of the receiver and of the sender, in this order.
            inputs = [np.concatenate([inputs[0], of_sender, of_receiver])]
            reads = {"sender": {"block": 3}, "receiver": {"block": 3}}
        radial = self.radial_network(names, [*inputs, *matrices[1:]], biases, model.activation, activate_last=True, **reads)
        if model.reversed_interactions:
            factors = self.irreps(0, 0, 0)
            self.convolution("ones", self.irreps(0), own("factors"), [(0, 0, l, 1.0) for l in range(3)], radial, factors)
            self.times_scalars(own("y"), own("factors"), own("message"))
        else:
            self.convolution(sent, irreps_sent, own("message"), [(l, 0, l, sqrt(2 * l + 1)) for l in range(3)], radial)
        if model.self_edges and q:
            bias = model.basis.at_zero @ first.astype(np.float64) + biases[0].astype(np.float64)
            of_own = of_receiver.astype(np.float64) + of_sender
            self.charged_message_to_itself(t, names, [of_own, *matrices[1:]], [bias, *biases[1:]])
        elif model.self_edges:
            h = model.basis.at_zero
            for weight, bias in zip(matrices, biases):
                h = activate(model.activation, h @ weight.astype(np.float64) + bias.astype(np.float64))
            # An atom's message to itself is its own Y, with a factor for each channel.
            self.mixing(name, 0, own("scaled"), own("message"), factors=h.reshape(3, F))

        products = ANTICOMMUTATOR if self.parity else ANTICOMMUTATOR | COMMUTATOR
        self.node_product([own("y"), own("message")], [self.tensors] * 2, own("product"), self.tensors,
                          [((a, 3 + b), c, scale * model.charge_factor) for (a, b, c), scale in products.items()])  # fmt: skip
        self.norm_scale(own("product"), own("product_scaled"))
        self.mixing(name, 3, own("product_scaled"), own("d"))
        # X + D + D D; only one of the two equal terms a b and b a of D D is written, with twice the factor.
        paths = [((k,), k % 3, 1.0) for k in range(6)]
        for (a, b, c), scale in ANTICOMMUTATOR.items():
            if a <= b:
                paths.append(((3 + a, 3 + b), c, scale * model.charge_factor * (0.5 if a == b else 1.0)))
        self.node_product([own("scaled"), own("d")], [self.tensors] * 2, f"x{t + 1}", self.tensors, paths)

    def copy_charges(self, t, target, irreps, block, accumulate):
        """Writes the charges of all atoms before layer t into a block of a feature."""
        q = self.model.charge_channels
        self.linear(f"charges{t}", f"{q}x0e+{q}x0e", target, irreps, [(0, block, self.unit_matrix(q), None)],
                    accumulate=accumulate)  # fmt: skip

    def charged_message_to_itself(self, t, names, matrices, biases):
        """An atom's message to itself: its own Y, with a factor for each channel that depends on its charges."""
        F, q = self.F, self.model.charge_channels
        source, irreps = f"charges{t}", f"{q}x0e+{q}x0e"
        sizes = [F, 2 * F, None]
        for n, (name, weight, bias, size) in enumerate(zip(names, matrices, biases, sizes)):
            target = f"self{t}_{n}"
            if size is None:
                out = self.irreps(0, 0, 0)
                blocks = [(0, l, f"{name}.self.{l}", weight[:, l * F : (l + 1) * F]) for l in range(3)]
                shifts = [(l, f"{name}.self_bias.{l}", bias[l * F : (l + 1) * F]) for l in range(3)]
            else:
                out, blocks, shifts = f"{size}x0e", [(0, 0, f"{name}.self", weight)], [(0, f"{name}.self_bias", bias)]
            self.linear(source, irreps, f"{target}_linear", out, blocks, shifts)
            self.add_activation(f"{target}_linear", target, out, self.model.activation, len(blocks))
            source, irreps = target, out
        self.times_scalars(f"y{t}", source, f"own_message{t}")
        self.linear(f"own_message{t}", self.tensors, f"message{t}", self.tensors, [(l, l, self.unit_matrix(F), None) for l in range(3)],
                    accumulate=True)  # fmt: skip

    def charges(self, t, name):
        """The charges of all atoms before layer t, in channels: the result of a network, plus a share of the
        difference from the total charge."""
        F, q, model = self.F, self.model.charge_channels, self.model
        own = lambda feature: f"charge_{feature}{t}"  # noqa: E731
        norms = self.irreps(0, 0, 0)
        # The first is the multiple of the unit matrix itself, the others are squares.
        self.node_product([f"x{t}"], [self.tensors], own("squares"), norms,
                          [((0,), 0, 1 / sqrt(3))] + [((l, l), l, sqrt(2 * l + 1)) for l in (1, 2)])  # fmt: skip
        self.layer_norm(f"{name}.q_norm", own("squares"), own("norms"), norms, 3 * F)
        layer = f"{name}.q_mlp.layers"
        weight, bias = self.matrix(f"{layer}.0", F, 3 * F)
        blocks = [(l, 0, f"{layer}.0.weight.{l}", weight[l * F : (l + 1) * F]) for l in range(3)]
        self.linear(own("norms"), norms, own("first_linear"), self.irreps(0), blocks, [(0, f"{layer}.0.bias", bias)])
        self.add_activation(own("first_linear"), own("first"), self.irreps(0), model.activation)
        self.perceptron(f"{layer}.2", own("first"), own("second"), F, F, model.activation)
        weight, bias = self.matrix(f"{layer}.4", 2 * q, F)
        both = f"{q}x0e+{q}x0e"
        self.linear(own("second"), self.irreps(0), own("numbers"), both,
                    [(0, k, f"{layer}.4.weight.{k}", weight[:, k * q : (k + 1) * q]) for k in range(2)],
                    [(k, f"{layer}.4.bias.{k}", bias[k * q : (k + 1) * q]) for k in range(2)])  # fmt: skip
        self.add("channel_balance", own("numbers"), both, f"charges{t}", both, block=0, first=0, target=self.total_charge(),
                 shares={"block": 1, "first": 0, "epsilon": 1e-6})  # fmt: skip

    def total_charge(self):
        """The total charge for each channel; 1 if a run provides the charge as a factor."""
        charge = self.model.total_charge
        return self.once("total_charge", np.full(self.model.charge_channels or 1, 1.0 if charge is None else float(charge)))

    def features(self):
        """All layers up to the scalars that the readout reads; returns their name."""
        model, F = self.model, self.F
        self.embedding()
        if model.charge_channels:
            self.charges(0, "charge_predict_0")
        for t in range(model.num_layers):
            self.interaction(t)
            if model.charge_channels:
                self.charges(t + 1, f"charge_predicts.{t}")
        squares = self.irreps(0, 0, 0)
        self.node_product([f"x{model.num_layers}"], [self.tensors], "squares", squares,
                          [((l, l), l, sqrt(2 * l + 1)) for l in range(3)])  # fmt: skip
        self.layer_norm("out_norm", "squares", "norms", squares, 3 * F)
        weight, bias = self.matrix("linear", F, 3 * F)
        blocks = [(l, 0, f"linear.weight.{l}", weight[l * F : (l + 1) * F]) for l in range(3)]
        target = "features_linear" if model.activated_output else "features"
        self.linear("norms", squares, target, self.irreps(0), blocks, [(0, "linear.bias", bias)])
        if model.activated_output:
            self.add_activation(target, "features", self.irreps(0), model.activation)
        return "features"

    def readout(self, source, size, name=None):
        """The energy from a block of scalars, by the last Linear of torch; without a name the block itself is the
        energy."""
        if name is None:
            weight, bias = np.ones((1, 1), np.float32), None
            name = "readout"
        else:
            weight, bias = self.matrix(name, 1, size)
        energies = network([self.table.add(f"{name}.weight", weight)])
        if bias is not None:
            energies["biases"] = [added(self.table.add(f"{name}.bias", bias))]
        self.add_readout(source, f"{size}x0e", 0, energies)

    def scale_shift(self, scale, shift):
        """scale: a number; shift: an array [rows], or None."""
        count = len(self.elements)
        shift = np.zeros(count) if shift is None else np.asarray(shift, np.float64)[self.species]
        self.add_scale_shift(self.table.add("scale", np.full(count, float(scale))), self.table.add("shift", shift))

    def document(self):
        """(architecture part of the document, tensors)."""
        self.state.finish()
        basis = {
            key: self.table.add(f"radial_basis.{key}", value) if isinstance(value, np.ndarray) else value
            for key, value in self.model.basis.document.items()
        }
        body, tensors = self.finished(self.name, self.model.cutoff, 2, self.parity, basis)
        if "total_charge" in tensors and self.model.total_charge is None:
            body["mixture"] = {"tensors": {self.total_charge(): "charge"}}
        return body, tensors
