# SPDX-License-Identifier: MIT
"""What the converters of EquiformerV2 and EquiformerV3 share: radial functions, first features and attention."""

import numpy as np

from .fairchem_convert import EPSILON, Converter
from .sphere_points import rescale

# What exponentials in float32 allow.
MAX_MEAN_SCORE = 60.0
# The entry of options that has them as they are in the checkpoint.
STATED = "stated"


def weight_factors(weight, bias, vector):
    """exp(-mean score) of each head, for scores of which the norm's numbers are normally distributed. The weights of a softmax have any
    common factor; with these their sums are about the number of neighbors."""
    nodes, parts = np.polynomial.hermite_e.hermegauss(40)
    y = weight.astype(np.float64)[:, None] * nodes + bias.astype(np.float64)[:, None]
    means = (0.2 * y + 0.8 * y / (1.0 + np.exp(-y))) @ (parts / parts.sum())
    return np.exp(-np.clip(vector.astype(np.float64) @ means, -MAX_MEAN_SCORE, MAX_MEAN_SCORE))


class EquiformerConverter(Converter):
    """Of a version: feed_forward(t, source, target) and energies(source); embeddings(name), the prefix of the embeddings of species that
    radial functions at `name` read, or None; bias_of(name, width); radial_of_attention(name, both) and first_linear(name, both), `both`
    the channels of both atoms; the names so2_linear of the two linears of attention, without their number, and so2_of_m of their parts
    with m > 0."""

    def radial(self, name, num_out, columns=None, net=None):
        """columns: of the last matrix, in the order in which they are wanted; net: where the network is, if not at `name`."""
        edge, prefix = self.options["edge_channels"], self.embeddings(name)
        rows = {} if prefix is None else {"sender": f"{prefix}source_embedding.weight", "receiver": f"{prefix}target_embedding.weight"}
        for embedding in rows.values():
            if embedding not in self.table.tensors:
                self.table.add(embedding, self.rows_of_elements(embedding, edge))
        net = f"{net or name}.rad_func.net"
        widths = [self.options["num_distance_basis"] + len(rows) * edge, edge, edge, num_out]
        weights, biases, norms = [], [], []
        for k, n in enumerate((0, 3, 6)):
            matrix, bias = self.state.take(f"{net}.{n}.weight", widths[k + 1], widths[k]).T, self.state.take(f"{net}.{n}.bias", widths[k + 1])
            if n == 6 and columns is not None:
                matrix, bias = matrix[:, columns], bias[columns]
            weights.append(self.table.add(f"{net}.{n}.weight", matrix))
            biases.append({"tensor": self.table.add(f"{net}.{n}.bias", bias), "scale": 1.0})
        for n in (1, 4):
            norms.append({key: self.tensor(f"{net}.{n}.{key}", edge) for key in ("weight", "bias")} | {"epsilon": EPSILON})
        return {
            "weights": weights, "scales": [1.0] * 3, "biases": biases, "activation": "silu", "activation_scale": 1.0,
            "norms": norms + [None], **rows,
        }  # fmt: skip

    def rescale(self, l):
        return rescale(l, self.mmax)

    def take64(self, name, *shape):
        return self.state.take(name, *shape).astype(np.float64)

    def initial_features(self, target):
        scalars, irreps = f"{self.channels}x0e", self.irreps(self.channels)
        self.species_embedding("sphere_embedding.weight", "embedding", self.rows_of_elements("sphere_embedding.weight", self.channels))
        self.species_embedding("ones", "ones", np.ones((len(self.numbers), self.channels), np.float32))
        paths = [{"in": 0, "l": l, "out": l, "scale": self.rescale(l) / self.options["avg_degree"]} for l in range(self.lmax + 1)]
        radial = self.radial("edge_degree_embedding", (self.lmax + 1) * self.channels) | {"times_cutoff": True}
        self.add("convolution", "ones", scalars, "edge_degrees", irreps, paths=paths, radial=radial)
        self.copy("edge_degrees", target)
        self.linear("embedding", scalars, target, irreps, {(0, 0): self.identity(self.channels)}, accumulate=True)

    def add_layers(self):
        self.initial_features("x0")
        for t in range(self.options["num_layers"]):
            self.attention(t, f"x{t}", f"z{t}")
            self.feed_forward(t, f"z{t}", f"x{t + 1}")
        self.energies(f"x{self.options['num_layers']}")

    def so2_weights(self, name, channels_in, channels, arrange, scale):
        """Names of the matrices of each m. arrange: columns of m = 0 that stand before the orders; scale: of each order's columns."""
        rows = self.lmax + 1
        names = []
        for m in range(self.mmax + 1):
            orders, source = rows - m, f"{name}.fc_m0.weight" if m == 0 else f"{name}.{self.so2_of_m}.{m - 1}.fc.weight"
            scales = np.concatenate([np.broadcast_to(scale(l), channels) for l in range(m, rows)])
            if m == 0:
                matrix = self.take64(source, arrange.extra + orders * channels, orders * channels_in).T
                matrix = np.concatenate([arrange.before(matrix), arrange.widen(matrix[:, arrange.extra :] * scales, orders)], 1)
            else:
                matrix = self.take64(source, 2 * orders * channels, orders * channels_in).reshape(2, orders * channels, -1).swapaxes(1, 2)
                matrix = arrange.widen(matrix * scales, orders)
            names.append(self.table.add(source, matrix))
        bias = self.take64(f"{name}.fc_m0.bias", arrange.extra + rows * channels)
        scales = np.concatenate([np.broadcast_to(scale(l), channels) for l in range(rows)])
        of_orders = arrange.widen((bias[arrange.extra :] * scales)[None], rows)[0]
        if arrange.heads:
            # The last channel of each head is what the weights are multiplied by.
            of_orders[arrange.width - 1 : arrange.heads * arrange.width : arrange.width] = arrange.factors
        return names, self.table.add(f"{name}.fc_m0.bias", np.concatenate([arrange.before(bias[None])[0], of_orders]))

    def attention(self, t, source, target):
        """target = source + projected messages."""
        name, heads, values = f"blocks.{t}.ga", self.options["num_heads"], self.options["attn_value_channels"]
        self.norm(f"blocks.{t}.norm_1", source, f"y{t}")
        divided = self.messages(name, t, f"y{t}")
        self.copy(source, target)
        self.per_order(f"{name}.proj", self.take64(f"{name}.proj.weight", self.lmax + 1, self.channels, heads * values).swapaxes(1, 2),
                       self.bias_of(f"{name}.proj", self.channels), f"a{t}", divided, target, self.irreps(self.channels))  # fmt: skip

    def messages(self, name, t, source):
        """Writes the messages of an attention at `name` before they are projected, the feature a<t>. Returns its irreps."""
        lmax, hidden = self.lmax, self.hidden
        heads, scores, values = (self.options[key] for key in ("num_heads", "attn_alpha_channels", "attn_value_channels"))
        irreps, both = self.irreps(self.channels), 2 * self.channels
        radial, first = self.radial_of_attention(name, both), self.first_linear(name, both)
        attention = {
            "heads": heads, "channels": scores, "weight": self.tensor(f"{name}.alpha_norm.weight", scores),
            "bias": self.tensor(f"{name}.alpha_norm.bias", scores), "vector": self.tensor(f"{name}.alpha_dot", heads, scores),
            "epsilon": EPSILON,
        }  # fmt: skip
        factors = weight_factors(*(self.table.tensors[attention[key]] for key in ("weight", "bias", "vector")))
        of_channels = np.repeat(factors, values)
        second, second_bias = self.so2_weights(f"{name}.{self.so2_linear}_2", hidden, heads * values, _Heads(heads, values, factors),
                                               lambda l: self.rescale(l) * of_channels)  # fmt: skip
        width = heads * (values + 1)
        messages = self.irreps(width)
        linears = [first, {"channels": width, "weights": second, "bias": second_bias}]
        self.add("so2_convolution", source, irreps, f"m{t}", messages, mmax=self.mmax, radial=radial, linears=linears, attention=attention)

        # Each head is divided by the sum of its weights, the last of its channels.
        divided, last = self.irreps(heads * values), lmax + 1
        keep, sums = np.zeros((width, heads * values), np.float32), np.zeros((width, heads * values), np.float32)
        for head in range(heads):
            for v in range(values):
                keep[head * (values + 1) + v, head * values + v] = 1.0
                sums[head * (values + 1) + values, head * values + v] = 1.0
        names = [f"{key}.{heads}.{values}" for key in ("heads.values", "heads.sums")]
        # A gate has numbers of its own for each order.
        for key, matrix in zip(names, (keep, np.tile(sums, last))):
            if key not in self.table.tensors:
                self.table.add(key, matrix)
        wide = f"{divided}+{last * heads * values}x0e"
        self.linear(f"m{t}", messages, f"n{t}", wide, {(l, l): names[0] for l in range(last)} | {(0, last): names[1]})
        terms = [
            {"out": l, "in": l, "offset": 0, "gate_in": last, "gate_offset": l * heads * values, "activation": "reciprocal", "scale": 1.0}
            for l in range(last)
        ]
        self.add("gate", f"n{t}", wide, f"a{t}", divided, terms=terms)
        return divided

    def per_order(self, name, matrices, bias, source, irreps_in, target, irreps_out, accumulate=True):
        """A matrix [in, out] for each l, and a bias of the scalars or None."""
        weights = {(l, l): self.table.add(f"{name}.{l}", matrix) for l, matrix in enumerate(matrices)}
        bias = None if bias is None else self.table.add(f"{name}.bias", bias)
        self.linear(source, irreps_in, target, irreps_out, weights, bias, accumulate)

    def scalars(self, name, source, width, sliced=slice(None)):
        """(matrix [in, out], bias) of a dense layer of the scalars."""
        return self.state.take(f"{name}.weight", width, self.channels).T[:, sliced], self.state.take(f"{name}.bias", width)[sliced]


class _Heads:
    """Columns of the last linear: each head gets one channel more."""

    extra = 0

    def __init__(self, heads, values, factors):
        self.heads, self.values, self.width, self.factors = heads, values, values + 1, factors

    def before(self, matrix):
        return matrix[:, :0]

    def widen(self, matrix, orders):
        shape = (*matrix.shape[:-1], orders, self.heads, self.values)
        return np.concatenate([matrix.reshape(shape), np.zeros((*shape[:-1], 1))], -1).reshape(*matrix.shape[:-1], -1)

