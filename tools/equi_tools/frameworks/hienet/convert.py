# SPDX-License-Identifier: MIT
"""HIENet checkpoint -> document and tensors of an .equi file (doc/model_file.rst).

An invariant layer is a convolution of a block of ones, whose radial network has a gate, and products of an atom's
features. The features that the first layer reads depend on the species alone, so the sums and products of them are
computed here, in float64.
The equivariant layers are those of SevenNet's converter.
"""

from math import log, sqrt

import numpy as np

from ..common.layers import network, path
from ..sevenn.convert import Converter

EPSILON = 1e-5  # of torch's LayerNorm
# softplus(x) = ssp(x) + this
LOG_2 = log(2.0)


def _affine(x, linear):
    matrix, bias = linear
    return x @ matrix + bias


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


class _Converter(Converter):
    architecture = "HIENet"

    def __init__(self, checkpoint, elements):
        super().__init__(checkpoint, None, elements)
        self.layers_of_attention = checkpoint.invariant

    def first_features(self):
        if not self.layers_of_attention:
            return super().first_features()
        irreps, rows = self.rows_of_species()
        self.scalars = f"{irreps[0].mul}x0e"
        x = self.first_attention(self.layers_of_attention[0], rows)
        for t, layer in enumerate(self.layers_of_attention[1:], 1):
            x = self.attention(t, layer, x)
        return irreps, x

    def rows_of_species(self):
        """(irreps, rows [species, channels]) of the embedding."""
        _, irreps, matrices, biases, scales = self.linear_parts("onehot_to_feature_x")
        rows = matrices[0, 0][self.species].astype(np.float64) * scales[0]
        if 0 in biases:
            rows = rows + biases[0][1] * biases[0][0]
        return irreps, rows

    def blocks_of(self, count):
        return "+".join([self.scalars] * count)

    def gated_network(self, name, layer, **inputs):
        """The radial network: messages and keys of the basis and of the two atoms' features, gated by the receiver's query."""
        first, last, first_bias, last_bias = [], [], [], []
        of_edge, edge_bias = layer["linear_edge"]
        channels = len(edge_bias)
        for update, of_atom in (("msg_update", "linear_value"), ("key_update", "linear_key")):
            matrix, bias = layer[f"{update}.0"]
            receiver, sender, edge = (matrix[k * channels : (k + 1) * channels] for k in range(3))
            own, own_bias = layer[of_atom]
            first.append(np.concatenate([of_edge @ edge, own @ sender, own @ receiver]))
            first_bias.append(bias + edge_bias @ edge + own_bias @ (sender + receiver))
            last.append(layer[f"{update}.2"][0])
            last_bias.append(layer[f"{update}.2"][1])
        zeros = np.zeros_like(last[0])
        weights = {"first": np.concatenate(first, axis=1), "last": np.block([[last[0], zeros], [zeros, last[1]]])}
        biases = {"first_bias": np.concatenate(first_bias), "last_bias": np.concatenate(last_bias)}
        weight, bias = layer["bn_att"]
        norm = {
            "weight": self.table.add(f"{name}.gate.weight", weight), "bias": self.table.add(f"{name}.gate.bias", bias), "epsilon": EPSILON,
        }  # fmt: skip
        return network(
            [self.table.add(f"{name}.{key}", array) for key, array in weights.items()], "silu",
            biases=[self.table.add(f"{name}.{key}", array) for key, array in biases.items()],
            gate={"scale": 1.0 / sqrt(channels), "norm": norm}, **inputs,
        )  # fmt: skip

    def add_one_block(self, source, target, name, linear):
        """A linear layer between features of one block."""
        matrix, bias = linear
        blocks = [(0, 0, self.table.add(f"{name}.weight", matrix), 1.0)]
        self.add_linear(source, self.scalars, target, self.scalars, blocks, [(0, self.table.add(f"{name}.bias", bias), 1.0)])

    def messages(self, t, layer, source, irreps, radial):
        """The activated sum of messages, softplus less log 2."""
        name = f"{t}_invariant_convolution"
        self.add_convolution(source, irreps, f"messages{t}", self.scalars, [path(0, 0, 0, 1.0)], radial)
        self.add_one_block(f"messages{t}", f"joined{t}", f"{name}.linear_concate", layer["linear_concate"])
        weight, bias = (self.table.add(f"{name}.bn.{key}", array) for key, array in zip(("weight", "bias"), layer["bn"]))
        self.add_layer_norm(f"joined{t}", self.scalars, f"normed{t}", weight, bias, EPSILON)
        self.add_activation(f"normed{t}", f"active{t}", self.scalars, "ssp")
        return f"active{t}"

    def first_attention(self, layer, x):
        """The layer for rows x [species, channels]; returns the name of the feature."""
        name, channels = "0_invariant_convolution", x.shape[1]
        receiver = np.concatenate([x, _affine(x, layer["linear_query"])], axis=1)
        rows = {"sender": self.table.add(f"{name}.sender", x), "receiver": self.table.add(f"{name}.receiver", receiver)}
        self.add_species_embedding("ones", f"{name}.ones", np.ones_like(x))
        active = self.messages(0, layer, "ones", self.scalars, self.gated_network(name, layer, **rows))
        reset, update = (_sigmoid(_affine(x, layer[f"linear_{kind}"])) for kind in ("reset", "update"))
        # x <- (1 - U) (R + U) x + U^2 softplus
        factor = update * update
        own = (1.0 - update) * (reset + update) * x + LOG_2 * factor
        self.add_species_embedding("one", f"{name}.one", np.ones((len(x), 1)))
        identity = self.table.add(f"{name}.identity", np.eye(channels))
        self.add_linear(active, self.scalars, "parts0", self.blocks_of(3), [(0, 0, identity, 1.0)])
        blocks = [(0, 1 + k, self.table.add(f"{name}.update{k}", part[:, None, :]), 1.0) for k, part in enumerate((own, factor))]
        self.add_linear("one", "1x0e", "parts0", self.blocks_of(3), blocks, per_species=True, accumulate=True)
        products = [{"in": [1], "out": 0, "scale": 1.0}, {"in": [0, 2], "out": 0, "scale": 1.0}]
        self.add_node_product(["parts0"], [self.blocks_of(3)], "updated0", self.scalars, paths=products)
        return "updated0"

    def attention(self, t, layer, x):
        """The layer for the feature x; returns the name of the next one."""
        name, channels = f"{t}_invariant_convolution", len(layer["linear_edge"][1])
        query, query_bias = layer["linear_query"]
        # Ones, x for the sender, and x with the query for the receiver.
        irreps = f"{self.scalars}+{self.scalars}+{2 * channels}x0e"
        identity, zeros = np.eye(channels), np.zeros(channels)
        blocks = [
            (0, 1, self.table.add(f"{name}.identity", identity), 1.0),
            (0, 2, self.table.add(f"{name}.receiver", np.concatenate([identity, query], axis=1)), 1.0),
        ]
        biases = [
            (0, self.table.add(f"{name}.ones", np.ones(channels)), 1.0),
            (2, self.table.add(f"{name}.receiver_bias", np.concatenate([zeros, query_bias])), 1.0),
        ]
        self.add_linear(x, self.scalars, f"inputs{t}", irreps, blocks, biases)
        radial = self.gated_network(name, layer, sender={"block": 1}, receiver={"block": 2})
        active = self.messages(t, layer, f"inputs{t}", irreps, radial)
        # R, U and 1 - U, which is the sigmoid of the negative argument.
        (reset, reset_bias), (update, update_bias) = layer["linear_reset"], layer["linear_update"]
        gates = [(reset, reset_bias), (update, update_bias), (-update, -update_bias)]
        three = self.blocks_of(3)
        self.add_linear(
            x, self.scalars, f"gates{t}", three,
            [(0, k, self.table.add(f"{name}.gate{k}.weight", matrix), 1.0) for k, (matrix, _) in enumerate(gates)],
            [(k, self.table.add(f"{name}.gate{k}.bias", bias), 1.0) for k, (_, bias) in enumerate(gates)],
        )  # fmt: skip
        self.add_activation(f"gates{t}", f"factors{t}", three, "sigmoid", blocks=3)

        def product(inputs, irreps, target, out, *paths):
            found = [{"in": list(blocks), "out": to, "scale": scale} for blocks, to, scale in paths]
            self.add_node_product(inputs, irreps, target, self.blocks_of(out), paths=found)

        two = self.blocks_of(2)
        product([f"factors{t}"], [three], f"products{t}", 2, ((0, 2), 0, 1.0), ((1, 2), 0, 1.0), ((1, 1), 1, 1.0))
        product([f"products{t}", x], [two, self.scalars], f"parts{t}", 2, ((0, 2), 0, 1.0), ((1,), 0, LOG_2), ((1,), 1, 1.0))
        product([f"parts{t}", active], [two, self.scalars], f"updated{t}", 1, ((0,), 0, 1.0), ((1, 2), 0, 1.0))
        return f"updated{t}"


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded checkpoint."""
    return _Converter(checkpoint, elements).document()
