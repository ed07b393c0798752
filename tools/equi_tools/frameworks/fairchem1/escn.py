# SPDX-License-Identifier: MIT
"""eSCN of fairchem 1: options of its checkpoints, and the layers of an .equi file for its energy and its forces
(doc/models/equiformer_v2.rst has its equations). All numbers are the checkpoint's."""

import numpy as np

from ..common.layers import network
from ..fairchem import convert as fairchem_convert
from ..fairchem.checkpoint import check_counts, check_numbers, check_resolution
from .direct import FORCE_BLOCK, DirectModel, check_positive, has_forces, is_kept, read_options
from .equiformer import STATED

__all__ = ["CITATION", "DEFAULTS", "ENERGY_HEADS", "FORCE_HEADS", "Converter", "is_kept", "options_of"]

CITATION = "S. Passaro and C. L. Zitnick, Reducing SO(3) Convolutions to SO(2) for Efficient Equivariant GNNs, arXiv:2302.03655"
ENERGY_HEADS = ("escn_energy_head",)
FORCE_HEADS = ("escn_force_head",)
# fairchem's defaults for options that a checkpoint does not name.
DEFAULTS = {
    "use_pbc": True, "max_neighbors": 40, "cutoff": 8.0, "max_num_elements": 90, "num_layers": 8, "lmax_list": [6], "mmax_list": [2],
    "sphere_channels": 128, "hidden_channels": 256, "edge_channels": 128, "num_sphere_samples": 128, "distance_function": "gaussian",
    "basis_width_scalar": 1.0, "distance_resolution": 0.02, "resolution": None,
}  # fmt: skip
WITHOUT_EFFECT = {"show_timing_info", "use_grid"}
# fairchem's factor, which brings energies to the size of forces.
ENERGY_SCALE = 0.001


def options_of(config, ignore_keys, in_hydra, elsewhere=()):
    found = read_options(config, DEFAULTS, {}, WITHOUT_EFFECT, ignore_keys, "escn", elsewhere)
    check_positive(found, ("cutoff", "basis_width_scalar", "distance_resolution"))
    found |= {
        STATED: {key: found[key] for key in DEFAULTS}, "num_distance_basis": int(found["cutoff"] / found["distance_resolution"]),
        "width_in_spacings": found["basis_width_scalar"], "enforce_max_neighbors_strictly": True, "resolution": found["resolution"] or None,
        "charge_balanced_channels": [], "spin_balanced_channels": [],
    }  # fmt: skip
    check_numbers(found)
    check_counts(found, ("num_layers", "num_sphere_samples"))
    check_resolution(found, "resolution")
    return found


class Converter(DirectModel, fairchem_convert.Converter):
    kind = architecture = "eSCN"

    def matrix(self, name, out, width):
        """The matrix [in, out] of a dense layer."""
        return self.state.take(f"{name}.weight", out, width).T

    def added_matrix(self, name, out, width):
        """The name of the tensor of such a matrix."""
        return self.table.add(f"{name}.weight", self.matrix(name, out, width))

    def hidden_of(self, m):
        """Numbers between the two matrices of m, for sender and receiver; with m > 0 for a real and an imaginary part
        each."""
        return self.hidden * (2 if m == 0 else 4)

    def so2_convolution(self, t, source, target):
        """Two matrices for each atom, m and part, with radial factors between them. One linear holds all of them next
        to each other."""
        name, edge, lmax, channels = f"layer_blocks.{t}.message_block", self.options["edge_channels"], self.lmax, self.channels
        width = max(-(-self.hidden_of(m) // (lmax + 1 - m)) for m in range(self.mmax + 1))
        first, second, factors, biases = [], [], [], []
        for m in range(self.mmax + 1):
            orders, parts = lmax + 1 - m, ("m0",) if m == 0 else ("r", "i")
            inward = np.zeros((orders, 2, channels, orders * width), np.float32)
            outward = np.zeros((2, orders * width, orders * channels), np.float32)
            factor, bias = np.zeros((edge, orders * width), np.float32), np.zeros(orders * width, np.float32)
            for side, atom in enumerate(("source", "target")):
                block = f"{name}.so2_block_{atom}"
                dense = f"{block}.fc1_dist0" if m == 0 else f"{block}.so2_conv.{m - 1}.fc1_dist"
                begin, end = (k * self.hidden * len(parts) for k in (side, side + 1))
                factor[:, begin:end], bias[begin:end] = self.matrix(dense, end - begin, edge), self.state.take(
                    f"{dense}.bias", end - begin
                )
                for k, part in enumerate(parts):
                    prefix = block if m == 0 else f"{block}.so2_conv.{m - 1}"
                    columns = slice(begin + k * self.hidden, begin + (k + 1) * self.hidden)
                    matrix = self.matrix(f"{prefix}.fc1_{part}", self.hidden, orders * channels)
                    inward[:, side, :, columns] = matrix.reshape(orders, channels, self.hidden)
                    outward[k, columns] = self.matrix(f"{prefix}.fc2_{part}", orders * channels, self.hidden)
            inward = inward.reshape(orders * 2 * channels, -1)
            first.append(self.table.add(f"{name}.first.{m}", inward if m == 0 else np.stack([inward, np.zeros_like(inward)])))
            second.append(self.table.add(f"{name}.second.{m}", outward[0] if m == 0 else outward))
            factors.append(factor)
            biases.append(bias)
        linears = [{"channels": width, "weights": first}, {"channels": channels, "weights": second, "at_points": self.at_points()}]
        radial = self.radial_factors(f"{name}.edge_block", np.concatenate(factors, 1), np.concatenate(biases))
        irreps = self.irreps(channels)
        self.add("so2_convolution", source, irreps, target, irreps, mmax=self.mmax, radial=radial, radial_linear=1, linears=linears)

    def radial_factors(self, name, factors, bias):
        """A network of the distance, with rows of both species added in the first layer; factors, bias: of its last
        layer."""
        edge = self.options["edge_channels"]
        rows = {}
        for key, side in (("sender", "source"), ("receiver", "target")):
            embedding = f"{name}.{side}_embedding.weight"
            rows[key] = self.table.add(embedding, self.rows_of_elements(embedding, edge))
        one = np.eye(edge, dtype=np.float32)
        matrices = [np.concatenate([self.matrix(f"{name}.fc1_dist", edge, self.options["num_distance_basis"]), one, one]),
                    self.matrix(f"{name}.fc1_edge_attr", edge, edge), factors]  # fmt: skip
        biases = [self.state.take(f"{name}.{key}.bias", edge) for key in ("fc1_dist", "fc1_edge_attr")] + [bias]
        weights = [self.table.add(f"{name}.{k}.weight", matrix) for k, matrix in enumerate(matrices)]
        biases = [self.table.add(f"{name}.{k}.bias", array) for k, array in enumerate(biases)]
        return network(weights, "silu", biases=biases, activate_last=True, **rows)

    def layer(self, t, source, target):
        """Messages, then a network at points of them and of their input. In the first layer the network replaces the
        input."""
        name, channels, irreps = f"layer_blocks.{t}", self.channels, self.irreps(self.channels)
        orders = range(self.lmax + 1)
        self.so2_convolution(t, source, f"m{t}")
        # The first matrix of the network mixes only channels, at points as for components.
        both = self.matrix(f"{name}.fc1_sphere", channels, 2 * channels)
        named = (("own", both[:channels]), ("messages", both[channels:]))
        parts = [self.table.add(f"{name}.fc1_sphere.{key}", part) for key, part in named]
        self.linear(source, irreps, f"h{t}", irreps, {(l, l): parts[0] for l in orders})
        self.linear(f"m{t}", irreps, f"h{t}", irreps, {(l, l): parts[1] for l in orders}, accumulate=True)
        matrices = [self.identity(channels)]
        matrices += [self.added_matrix(f"{name}.{key}", channels, channels) for key in ("fc2_sphere", "fc3_sphere")]
        made = target if t == 0 else f"y{t}"
        self.network_at_points(f"h{t}", irreps, made, irreps, matrices)
        if t > 0:
            self.copy(source, target)
            self.copy(made, target, accumulate=True)

    def energies(self, source):
        """The mean over points of a network of the values there."""
        if has_forces(self.state.source):
            # For vectors the network is multiplied by the points.
            points = self.state.take("sphere_points", self.options["num_sphere_samples"], 3).astype(np.float64)
            self.mean_over_points(FORCE_BLOCK, source, "force", "1x1e", points)
            self.direct_forces("force")
        self.mean_over_points("energy_block", source, "energy", "1x0e", np.ones((self.options["num_sphere_samples"], 1)))
        self.sum_of_energies("energy", "1x0e", [self.identity(1)], None, ENERGY_SCALE)

    def mean_over_points(self, name, source, target, irreps_out, values):
        """target = the mean of values [points, components] times a network."""
        count, channels = self.options["num_sphere_samples"], self.channels
        to = "sphharm_weights.0"
        if to not in self.table.tensors:
            self.tensor(to, count, (self.lmax + 1) ** 2)
        self.state.taken.add("sphere_points")
        mean = self.table.add(f"{name}.mean", values / count)
        widths = (channels, channels, 1)
        matrices = [self.added_matrix(f"{name}.fc{k}", out, channels) for k, out in zip((1, 2, 3), widths)]
        biases = [self.tensor(f"{name}.fc{k}.bias", channels) for k in (1, 2)] + [None]
        self.network_at_points(source, self.irreps(channels), target, irreps_out, matrices, to, mean, count, biases)

    def document(self):
        self.add_species_embedding("embedding", "sphere_embedding.weight", self.rows_of_elements("sphere_embedding.weight", self.channels))
        irreps = self.irreps(self.channels)
        self.linear("embedding", f"{self.channels}x0e", "x0", irreps, {(0, 0): self.identity(self.channels)})
        for t in range(self.options["num_layers"]):
            self.layer(t, f"x{t}", f"x{t + 1}")
        self.energies(f"x{self.options['num_layers']}")
        return self.body()
