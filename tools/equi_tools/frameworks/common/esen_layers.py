# SPDX-License-Identifier: MIT
"""eSEN as layers of an .equi file (doc/model_file.rst), which the converters of several frameworks share.

Names of tensors are those of fairchem, and its matrices are [out, in]: `state` gives them so.
"""

import numpy as np

from ...errors import EquiError
from .layers import Layers, activated, gated, network, path
from .sphere_points import equal_angle_points


def grid_of(options):
    """(latitudes, longitudes) of the grid on which networks of atoms are evaluated."""
    both, lmax = options["grid_resolution"], options["lmax"]
    return (both, both) if both is not None else (2 * (lmax + 1), 2 * (lmax + 1) + 1)


class EsenLayers(Layers):
    """A converter sets `options` and `state` before, and has rows_of_elements(name, width), a tensor's rows of the chosen elements.
    Options: sphere_channels, hidden_channels, edge_channels, lmax, mmax, num_layers, num_distance_basis, norm_type, ff_type."""

    prefix = ""  # of the tensors of features
    epsilon = 1e-5  # of the norms
    edge_degree_scale = 0.2  # of the sum of the edge degrees
    num_experts = 0

    def __init__(self, elements):
        super().__init__(elements)
        self.lmax, self.mmax = self.options["lmax"], self.options["mmax"]
        self.channels, self.hidden = self.options["sphere_channels"], self.options["hidden_channels"]
        self.made = {}  # tensors that depend on the system: by name "embedding", "experts", "task", "charge" or "spin"

    # ---- pieces of layers

    def irreps(self, channels):
        return "+".join(f"{channels}x{l}e" for l in range(self.lmax + 1))

    def tensor(self, name, *shape):
        return self.table.add(name, self.state.take(name, *shape))

    def identity(self, channels):
        name = f"identity.{channels}"
        return name if name in self.table.tensors else self.table.add(name, np.eye(channels, dtype=np.float32))

    def linear(self, source, irreps_in, target, irreps_out, weights, bias=None, accumulate=False):
        """weights: {(i, j): name of a tensor}; bias: that of block 0."""
        blocks = [(i, j, weight, 1.0) for (i, j), weight in weights.items()]
        biases = [] if bias is None else [(0, bias, 1.0)]
        self.add_linear(source, irreps_in, target, irreps_out, blocks, biases, accumulate=accumulate)

    def copy(self, source, target, accumulate=False):
        """target (+)= source, block by block."""
        irreps, one = self.irreps(self.channels), self.identity(self.channels)
        self.linear(source, irreps, target, irreps, {(l, l): one for l in range(self.lmax + 1)}, accumulate=accumulate)

    def dense(self, name, numbers, widths):
        """(names of the matrices, names of the biases) of the dense layers name.NUMBER between these widths."""
        parts = []
        for n, width, out in zip(numbers, widths, widths[1:]):
            matrix = self.table.add(f"{name}.{n}.weight", self.state.take(f"{name}.{n}.weight", out, width).T)
            parts.append((matrix, self.tensor(f"{name}.{n}.bias", out)))
        return zip(*parts)

    def norms_between(self, net, width):
        """Those behind the first and the second layer of a radial network."""
        norms = [{key: self.tensor(f"{net}.{n}.{key}", width) for key in ("weight", "bias")} | {"epsilon": self.epsilon} for n in (1, 4)]
        return [*norms, None]

    def radial(self, name, num_out):
        """A radial network on distance and species of both atoms."""
        net, edge = f"{name}.rad_func.net", self.options["edge_channels"]
        weights, biases = self.dense(net, (0, 3, 6), [self.options["num_distance_basis"] + 2 * edge, edge, edge, num_out])
        return network(
            weights, "silu", biases=biases, norms=self.norms_between(net, edge), sender=f"{self.prefix}source_embedding.weight",
            receiver=f"{self.prefix}target_embedding.weight",
        )  # fmt: skip

    def weight_of_order(self, l, count):
        """The weight of the squares of one order, in the mean over so many orders."""
        return 1.0 / ((2 * l + 1) * count)

    def norm(self, name, source, target, with_system=False):
        """with_system: the embedding of the system is added to the scalars behind it."""
        kind, channels, orders = self.options["norm_type"], self.channels, list(range(self.lmax + 1))
        groups = {
            "rms_norm_sh": [(orders, [self.weight_of_order(l, self.lmax + 1) for l in orders])],
            "layer_norm_sh": [([0], [1.0]), (orders[1:], [self.weight_of_order(l, self.lmax) for l in orders[1:]])],
            "layer_norm": [([l], [1.0 / (2 * l + 1)]) for l in orders],
        }[kind]
        if kind == "layer_norm_sh":
            first = self.state.take(f"{name}.norm_l0.weight", channels)
            scale = np.concatenate([first[None], self.state.take(f"{name}.affine_weight", self.lmax, channels)])
            bias = self.state.take(f"{name}.norm_l0.bias", channels)
        else:
            scale = self.state.take(f"{name}.affine_weight", self.lmax + 1, channels)
            bias = self.state.take(f"{name}.affine_bias", channels)
        if with_system:
            self.made[f"{name}.bias"] = "embedding"
        irreps = self.irreps(channels)
        self.add_spherical_norm(
            source, irreps, target, [(blocks, [w / channels for w in weights], 0 in blocks) for blocks, weights in groups],
            self.epsilon, self.table.add(f"{name}.scale", scale), bias=self.table.add(f"{name}.bias", bias),
        )  # fmt: skip

    def so2_linear(self, name, channels_in, channels, gate):
        def matrix(of_m, orders, orders_out, parts=1):
            """Name of the tensor [in, out], or one for each of the parts that its rows have."""
            source, shape = f"{name}.{of_m}", (orders_out * channels, orders * channels_in)
            experts = f"{source}.weights" in self.state
            if experts and not self.num_experts:
                raise EquiError(f"tensor {source}.weights: matrices of experts in a model without experts")
            lead = (self.num_experts,) if experts else ()
            found = self.state.take(f"{source}.weights" if experts else f"{source}.weight", *lead, *shape)
            found = found.reshape(*lead, parts, shape[0] // parts, shape[1]).swapaxes(-1, -2)
            target = self.table.add(source, found if parts > 1 else found.reshape(*lead, shape[1], shape[0]))
            if experts:
                self.made[target] = "experts"
            return target

        rows = self.lmax + 1 + (self.lmax if gate else 0)
        weights = [matrix("fc_m0", self.lmax + 1, rows)]
        for m in range(1, self.mmax + 1):
            orders = self.lmax + 1 - m
            # Rows of the real and of the imaginary part.
            weights.append(matrix(f"so2_m_conv.{m - 1}.fc", orders, 2 * orders, 2))
        linear = {"channels": channels, "weights": weights, "bias": self.tensor(f"{name}.fc_m0.bias", rows * channels)}
        return linear | ({"gate": {"scalars": "silu", "gates": "sigmoid"}} if gate else {})

    # ---- the model

    def initial_features(self, target):
        """The embedding of the species, and a convolution of 1 in all channels with the harmonics of edges."""
        scalars, irreps = f"{self.channels}x0e", self.irreps(self.channels)
        name = f"{self.prefix}sphere_embedding.weight"
        self.add_species_embedding("embedding", name, self.rows_of_elements(name, self.channels))
        self.made[name] = "embedding"
        self.add_species_embedding("ones", "ones", np.ones((len(self.elements), self.channels), np.float32))
        paths = [path(0, l, l, self.edge_degree_scale) for l in range(self.lmax + 1)]
        radial = self.radial(f"{self.prefix}edge_degree_embedding", (self.lmax + 1) * self.channels) | {"times_cutoff": True}
        self.add_convolution("ones", scalars, "edge_degrees", irreps, paths, radial)
        self.copy("edge_degrees", target)
        self.linear("embedding", scalars, target, irreps, {(0, 0): self.identity(self.channels)}, accumulate=True)

    def block(self, t, source, target):
        """Messages of edges, then a network of each atom, each added to what it begins with."""
        name, irreps = f"{self.prefix}blocks.{t}", self.irreps(self.channels)
        normed, messages, middle = f"y{t}", f"m{t}", f"z{t}"
        self.norm(f"{name}.norm_1", source, normed, with_system=True)
        conv = f"{name}.edge_wise.so2_conv"
        num_factors = sum(self.lmax + 1 - m for m in range(self.mmax + 1)) * 2 * self.channels
        self.add("so2_convolution", normed, irreps, messages, irreps, mmax=self.mmax,
                 radial=self.radial(f"{conv}_1", num_factors),
                 linears=[self.so2_linear(f"{conv}_1", 2 * self.channels, self.hidden, True),
                          self.so2_linear(f"{conv}_2", self.hidden, self.channels, False)])  # fmt: skip
        self.copy(source, middle)
        self.copy(messages, middle, accumulate=True)

        self.norm(f"{name}.norm_2", middle, f"v{t}")
        wide = self.irreps(self.hidden)
        if self.options["ff_type"] == "grid":
            self.grid_network(f"{name}.atom_wise.grid_mlp", f"v{t}", f"h{t}")
            self.copy(middle, target)
            self.copy(f"h{t}", target, accumulate=True)
            return
        self.gated_linear(t, f"{name}.atom_wise", f"v{t}", f"h{t}")
        self.copy(middle, target)
        self.linear_per_order(f"{name}.atom_wise.so3_linear_2", f"h{t}", wide, target, irreps, accumulate=True)

    def grid_network(self, name, source, target):
        """Three matrices with silu between them at the points of a grid, with e3nn's harmonics of the normalization "integral"."""
        latitudes, longitudes = grid_of(self.options)
        values, weights = equal_angle_points(self.lmax, latitudes, longitudes)
        norm = np.sqrt(4.0 * np.pi)
        for key, array in (("to", values / norm), ("from", norm * weights[:, None] * values)):
            if f"grid.{key}" not in self.table.tensors:
                self.table.add(f"grid.{key}", array)
        widths, matrices = (self.channels, self.hidden, self.hidden, self.channels), []
        for k, n in enumerate((0, 2, 4)):
            matrix = self.state.take(f"{name}.{n}.weight", widths[k + 1], widths[k])
            matrices.append(self.table.add(f"{name}.{n}.weight", matrix.T))
        irreps = self.irreps(self.channels)
        self.add("grid_network", source, irreps, target, irreps, points=latitudes * longitudes, to="grid.to",
                 **{"from": "grid.from"}, network=network(matrices, "silu"))  # fmt: skip

    def linear_per_order(self, name, source, irreps_in, target, irreps_out, accumulate=False):
        """A matrix for each l and a bias of the scalars; irreps_out may have further blocks."""
        widths = [int(irreps.split("x")[0]) for irreps in (irreps_in, irreps_out)]
        matrices = self.state.take(f"{name}.weight", self.lmax + 1, widths[1], widths[0])
        weights = {(l, l): self.table.add(f"{name}.weight.{l}", matrix.T) for l, matrix in enumerate(matrices)}
        bias = self.tensor(f"{name}.bias", widths[1])
        self.linear(source, irreps_in, target, irreps_out, weights, bias, accumulate)

    def gated_linear(self, t, name, source, target):
        """so3_linear_1 and its gates, which are activated twice: by silu, then by sigmoid."""
        irreps, hidden = self.irreps(self.channels), self.hidden
        gates, wide = f"{self.lmax * hidden}x0e", self.irreps(hidden)
        matrix = self.state.take(f"{name}.scalar_mlp.0.weight", self.lmax * hidden, self.channels)
        weight = self.table.add(f"{name}.scalar_mlp.0.weight", matrix.T)
        bias = self.tensor(f"{name}.scalar_mlp.0.bias", self.lmax * hidden)
        self.linear(source, irreps, f"s{t}", gates, {(0, 0): weight}, bias)
        self.add_activation(f"s{t}", f"a{t}", gates, "silu")
        # Beside the features, as a gate has them.
        both, last = f"{wide}+{gates}", self.lmax + 1
        self.linear_per_order(f"{name}.so3_linear_1", source, irreps, f"u{t}", both)
        self.linear(f"a{t}", gates, f"u{t}", both, {(0, last): self.identity(self.lmax * hidden)}, accumulate=True)
        terms = [activated(0, "silu")] + [gated(l, l, 0, last, (l - 1) * hidden, "sigmoid") for l in range(1, last)]
        self.add_gate(f"u{t}", both, target, wide, terms)

    def add_features(self):
        """All layers up to the last block, and the tensors that radial networks read; returns the name of the last feature."""
        for kind in ("source", "target"):
            name = f"{self.prefix}{kind}_embedding.weight"
            self.table.add(name, self.rows_of_elements(name, self.options["edge_channels"]))
        x = "x0"
        self.initial_features(x)
        for t in range(self.options["num_layers"]):
            self.block(t, x, f"x{t + 1}")
            x = self.balance(f"x{t + 1}", t + 1)
        return x

    def balance(self, source, t):
        """What stands behind block t - 1; returns the name of its output."""
        return source
