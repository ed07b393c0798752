# SPDX-License-Identifier: MIT
"""What the converters of EquiformerV2 and EquiformerV3 share: radial functions, first features and attention."""

import numpy as np

from ..common.layers import network, path
from ..common.sphere_points import rescale
from ..fairchem.convert import Converter

# The float32 exponentials of scores up to this size have relative errors below this.
WEIGHT_ERROR = 1e-4
MAX_SCORE = WEIGHT_ERROR * 2**24
# The entry of options that holds them as they are in the checkpoint.
STATED = "stated"


class EquiformerConverter(Converter):
    """Base of the converters of both versions. A version provides:

    feed_forward(t, source, target) and energies(source);
    embeddings(name), the prefix of the embeddings of species that radial functions at `name` read, or None;
    bias_of(name, width);
    radial_of_attention(name, both) and first_linear(name, both), with `both` the channels of both atoms;
    so2_linear, names of the two linears of attention without their number, and so2_of_m, of their parts with m > 0."""

    def radial(self, name, num_out, columns=None, net=None):
        """columns: of the last matrix, in the required order; net: the location of the network, if not at `name`."""
        edge, prefix = self.options["edge_channels"], self.embeddings(name)
        rows = {} if prefix is None else {"sender": f"{prefix}source_embedding.weight", "receiver": f"{prefix}target_embedding.weight"}
        for embedding in rows.values():
            if embedding not in self.table.tensors:
                self.table.add(embedding, self.rows_of_elements(embedding, edge))
        net = f"{net or name}.rad_func.net"
        widths = [self.options["num_distance_basis"] + len(rows) * edge, edge, edge, num_out]
        weights, biases = [], []
        for k, n in enumerate((0, 3, 6)):
            matrix = self.state.take(f"{net}.{n}.weight", widths[k + 1], widths[k]).T
            bias = self.state.take(f"{net}.{n}.bias", widths[k + 1])
            if n == 6 and columns is not None:
                matrix, bias = matrix[:, columns], bias[columns]
            weights.append(self.table.add(f"{net}.{n}.weight", matrix))
            biases.append(self.table.add(f"{net}.{n}.bias", bias))
        return network(weights, "silu", biases=biases, norms=self.norms_between(net, edge), **rows)

    def rescale(self, l):
        return rescale(l, self.mmax)

    def take64(self, name, *shape):
        return self.state.take(name, *shape).astype(np.float64)

    def initial_features(self, target):
        scalars, irreps = f"{self.channels}x0e", self.irreps(self.channels)
        self.add_species_embedding("embedding", "sphere_embedding.weight", self.rows_of_elements("sphere_embedding.weight", self.channels))
        self.add_species_embedding("ones", "ones", np.ones((len(self.numbers), self.channels), np.float32))
        paths = [path(0, l, l, self.rescale(l) / self.options["avg_degree"]) for l in range(self.lmax + 1)]
        radial = self.radial("edge_degree_embedding", (self.lmax + 1) * self.channels) | {"times_cutoff": True}
        self.add_convolution("ones", scalars, "edge_degrees", irreps, paths, radial)
        self.copy("edge_degrees", target)
        self.linear("embedding", scalars, target, irreps, {(0, 0): self.identity(self.channels)}, accumulate=True)

    def add_layers(self):
        self.initial_features("x0")
        for t in range(self.options["num_layers"]):
            self.attention(t, f"x{t}", f"z{t}")
            self.feed_forward(t, f"z{t}", f"x{t + 1}")
        self.energies(f"x{self.options['num_layers']}")

    def so2_weights(self, name, channels_in, channels, scale, first=None):
        """Names of the matrices of each m. scale: for the columns of order l. first: has the number `extra` of
        fairchem's columns of m = 0 before the orders, and arranges these (`arranged`)."""
        rows, extra = self.lmax + 1, first.extra if first else 0

        def of_m0(matrix, scales):
            orders = matrix[:, extra:] * scales
            return np.concatenate([first.arranged(matrix[:, :extra]), orders], 1) if first else orders

        names = []
        for m in range(self.mmax + 1):
            orders, source = rows - m, f"{name}.fc_m0.weight" if m == 0 else f"{name}.{self.so2_of_m}.{m - 1}.fc.weight"
            scales = np.repeat([scale(l) for l in range(m, rows)], channels)
            if m == 0:
                bias = of_m0(self.take64(f"{name}.fc_m0.bias", extra + rows * channels)[None], scales)[0]
                matrix = of_m0(self.take64(source, extra + orders * channels, orders * channels_in).T, scales)
            else:
                parts = self.take64(source, 2 * orders * channels, orders * channels_in).reshape(2, orders * channels, -1)
                matrix = parts.swapaxes(1, 2) * scales
            names.append(self.table.add(source, matrix))
        return names, self.table.add(f"{name}.fc_m0.bias", bias)

    def attention(self, t, source, target):
        """target = source + projected messages."""
        name, heads, values = f"blocks.{t}.ga", self.options["num_heads"], self.options["attn_value_channels"]
        self.norm(f"blocks.{t}.norm_1", source, f"y{t}")
        messages = self.messages(name, t, f"y{t}")
        self.copy(source, target)
        self.per_order(f"{name}.proj", self.take64(f"{name}.proj.weight", self.lmax + 1, self.channels, heads * values).swapaxes(1, 2),
                       self.bias_of(f"{name}.proj", self.channels), f"a{t}", messages, target, self.irreps(self.channels))  # fmt: skip

    def messages(self, name, t, source):
        """Writes the messages of an attention at `name` before their projection, the feature a<t>. Returns its
        irreps."""
        heads, scores, values = (self.options[key] for key in ("num_heads", "attn_alpha_channels", "attn_value_channels"))
        irreps, both = self.irreps(self.channels), 2 * self.channels
        radial, first = self.radial_of_attention(name, both), self.first_linear(name, both)
        attention = {
            "heads": heads, "channels": scores, "weight": self.tensor(f"{name}.alpha_norm.weight", scores),
            "bias": self.tensor(f"{name}.alpha_norm.bias", scores), "vector": self.tensor(f"{name}.alpha_dot", heads, scores),
            "epsilon": self.epsilon,
        }  # fmt: skip
        self.check_scores(name, *(self.table.tensors[attention[key]] for key in ("weight", "bias", "vector")))
        second, second_bias = self.so2_weights(f"{name}.{self.so2_linear}_2", self.hidden, heads * values, self.rescale)
        messages = self.irreps(heads * values)
        linears = [first, {"channels": heads * values, "weights": second, "bias": second_bias}]
        self.add("so2_convolution", source, irreps, f"a{t}", messages, mmax=self.mmax, radial=radial, linears=linears, attention=attention)
        return messages

    def check_scores(self, name, weight, bias, vector):
        """Notes if scores may be so large that the weights of messages are not exact in float32. The norm's numbers
        have a root mean square of at most 1, and the activation does not increase them."""
        terms = np.abs(vector.astype(np.float64))
        largest = np.max(np.sqrt(len(weight)) * np.linalg.norm(terms * weight, axis=1) + terms @ np.abs(bias.astype(np.float64)))
        if largest > MAX_SCORE:
            self.checkpoint.remarks += (
                f"{name}: scores of attention may be as large as {largest:.3g}, where float32 rounds the weights of messages by more than "
                f"{WEIGHT_ERROR:g} of them: use precision double",
            )  # fmt: skip

    def per_order(self, name, matrices, bias, source, irreps_in, target, irreps_out, accumulate=True):
        """A matrix [in, out] for each l, and a bias of the scalars or None."""
        weights = {(l, l): self.table.add(f"{name}.{l}", matrix) for l, matrix in enumerate(matrices)}
        bias = None if bias is None else self.table.add(f"{name}.bias", bias)
        self.linear(source, irreps_in, target, irreps_out, weights, bias, accumulate)

    def scalars(self, name, source, width, sliced=slice(None)):
        """(matrix [in, out], bias) of a dense layer of the scalars."""
        return self.state.take(f"{name}.weight", width, self.channels).T[:, sliced], self.state.take(f"{name}.bias", width)[sliced]
