# SPDX-License-Identifier: MIT
"""EquiformerV2 of fairchem 1: options of its checkpoints, and the layers of an .equi file for its energy and its
forces (doc/models/equiformer_v2.rst has its equations).

All numbers are the checkpoint's; products of its consecutive matrices are computed in float64.
"""

import numpy as np

from ...errors import EquiError
from ...printable import printable
from ..fairchem.checkpoint import NORMS, check_counts, check_numbers, check_resolution
from .direct import FORCE_BLOCK, DirectModel, check_positive, has_forces, is_kept, read_options
from .equiformer import STATED, EquiformerConverter

__all__ = ["CITATION", "DEFAULTS", "ENERGY_HEADS", "FORCE_HEADS", "Converter", "is_kept", "options_of"]

CITATION = (
    "Y.-L. Liao et al., EquiformerV2: Improved Equivariant Transformer for Scaling to Higher-Degree Representations, " "arXiv:2306.12059"
)
ENERGY_HEADS = ("equiformer_v2_energy_head", "equiformerV2_scalar_head")
FORCE_HEADS = ("equiformer_v2_force_head", "equiformerV2_vector_head", "equiformerV2_rank1_head")
# fairchem's defaults for options that a checkpoint does not name.
DEFAULTS = {
    "use_pbc": True, "max_neighbors": 500, "max_radius": 5.0, "max_num_elements": 90, "num_layers": 12, "sphere_channels": 128,
    "attn_hidden_channels": 128, "num_heads": 8, "attn_alpha_channels": 32, "attn_value_channels": 16, "ffn_hidden_channels": 512,
    "norm_type": "rms_norm_sh", "lmax_list": [6], "mmax_list": [2], "grid_resolution": None, "edge_channels": 128,
    "use_atom_edge_embedding": True, "share_atom_edge_embedding": False, "use_m_share_rad": False, "distance_function": "gaussian",
    "use_s2_act_attn": False, "use_attn_renorm": True, "use_gate_act": False, "use_grid_mlp": False, "use_sep_s2_act": True,
    "enforce_max_neighbors_strictly": True, "avg_num_nodes": None, "avg_degree": None, "use_energy_lin_ref": False,
    "load_energy_lin_ref": False,
}  # fmt: skip
# Training, and options that fairchem itself does not use.
WITHOUT_EFFECT = {
    "num_sphere_samples", "num_distance_basis", "attn_activation", "ffn_activation", "alpha_drop", "drop_path_rate", "proj_drop",
    "weight_init",
}  # fmt: skip
FIXED = {
    "use_s2_act_attn": (False, "fairchem has no such model"),
    "use_attn_renorm": (True, "attention without its norm is not known here"),
    "use_gate_act": (False, "gates with attention are not known here"),
}  # fmt: skip
# fairchem's default averages, from a data set of surfaces.
AVERAGES = {"avg_num_nodes": 77.81317, "avg_degree": 23.395238876342773}
NUM_GAUSSIANS = 600
WIDTH_IN_SPACINGS = 2.0


def options_of(config, ignore_keys, in_hydra, elsewhere=()):
    """The options with defaults, also under the names that the converter of eSEN uses. in_hydra: the energy then has
    no references of its own."""
    found = read_options(config, DEFAULTS, FIXED, WITHOUT_EFFECT, ignore_keys, "equiformer_v2", elsewhere)
    if found["norm_type"] not in NORMS:
        raise EquiError(f"norm_type {printable(str(found['norm_type']), 60)} is not known, only {', '.join(NORMS)}")
    found |= {key: value for key, value in AVERAGES.items() if not found[key]}
    check_positive(found, ("max_radius", *AVERAGES))
    if found["use_energy_lin_ref"] and not found["load_energy_lin_ref"]:
        raise EquiError("use_energy_lin_ref without load_energy_lin_ref: the references are not in the file")
    found["use_energy_lin_ref"] = bool(found["use_energy_lin_ref"]) and not in_hydra
    found |= {
        STATED: {key: found[key] for key in DEFAULTS}, "hidden_channels": found["attn_hidden_channels"], "cutoff": found["max_radius"],
        "num_distance_basis": NUM_GAUSSIANS, "width_in_spacings": WIDTH_IN_SPACINGS, "resolution": found["grid_resolution"],
        "charge_balanced_channels": [], "spin_balanced_channels": [],
    }  # fmt: skip
    check_numbers(found)
    check_counts(found, ("num_heads", "attn_alpha_channels", "attn_value_channels", "ffn_hidden_channels"))
    check_resolution(found, "grid_resolution")
    return found


class Converter(DirectModel, EquiformerConverter):
    kind = architecture = "EquiformerV2"
    so2_linear, so2_of_m = "so2_conv", "so2_m_conv"
    by_component = True

    def embeddings(self, name):
        if not self.options["use_atom_edge_embedding"]:
            return None
        return "" if self.options["share_atom_edge_embedding"] else f"{name}."

    def bias_of(self, name, width):
        return self.state.take(f"{name}.bias", width)

    def radial_of_attention(self, name, both):
        rows = [(m, l) for m in range(self.mmax + 1) for l in range(m, self.lmax + 1)]
        if not self.options["use_m_share_rad"]:
            return self.radial(name, len(rows) * both, net=f"{name}.so2_conv_1")
        return self.radial(name, (self.lmax + 1) * both, np.concatenate([np.arange(l * both, (l + 1) * both) for _, l in rows]))

    def first_linear(self, name, both):
        """With the activation at points after it."""
        scores, separate = self.options["num_heads"] * self.options["attn_alpha_channels"], self.options["use_sep_s2_act"]
        weights, bias = self.so2_weights(f"{name}.so2_conv_1", both, self.hidden, lambda l: 1.0, _Scores(scores, self.hidden, separate))
        at_points = self.at_points() | ({"scalars": "silu"} if separate else {})
        return {"channels": self.hidden, "weights": weights, "bias": bias, "at_points": at_points}

    def matrices_at_points(self, name, last=None):
        """Matrices of the network of an atom, for functions with ffn_hidden_channels; last: factor of the last one."""
        hidden = self.options["ffn_hidden_channels"]
        if not self.options["use_grid_mlp"]:
            one = self.identity(hidden)
            return [one, one if last is None else self.table.add(f"{name}.last", last)]
        matrices = [self.take64(f"{name}.grid_mlp.{n}.weight", hidden, hidden).T for n in (0, 2, 4)]
        if last is not None:
            matrices[2] = matrices[2] @ last
        return [self.table.add(f"{name}.grid_mlp.{n}.weight", matrix) for n, matrix in zip((0, 2, 4), matrices)]

    def name_of_scalars(self, name):
        return f"{name}.scalar_mlp.0" if self.options["use_grid_mlp"] else f"{name}.gating_linear"

    def first_of_network(self, name, source, target):
        hidden = self.options["ffn_hidden_channels"]
        matrices = self.state.take(f"{name}.so3_linear_1.weight", self.lmax + 1, hidden, self.channels).swapaxes(1, 2)
        bias, irreps = self.bias_of(f"{name}.so3_linear_1", hidden), self.irreps(self.channels)
        self.per_order(f"{name}.so3_linear_1", matrices, bias, source, irreps, target, self.irreps(hidden), accumulate=False)

    def feed_forward(self, t, source, target):
        """target = source + a network of each atom at points, whose scalars come from another network."""
        name, hidden, separate = f"blocks.{t}.ffn", self.options["ffn_hidden_channels"], self.options["use_sep_s2_act"]
        irreps, wide, scalars = self.irreps(self.channels), self.irreps(hidden), f"{hidden}x0e"
        self.norm(f"blocks.{t}.norm_2", source, f"v{t}")
        self.first_of_network(name, f"v{t}", f"h{t}")
        self.network_at_points(f"h{t}", wide, f"r{t}", wide, self.matrices_at_points(name))
        self.copy(source, target)
        matrices = self.state.take(f"{name}.so3_linear_2.weight", self.lmax + 1, self.channels, hidden).swapaxes(1, 2)
        names = [self.table.add(f"{name}.so3_linear_2.{l}", matrix) for l, matrix in enumerate(matrices)]
        bias = self.table.add(f"{name}.so3_linear_2.bias", self.bias_of(f"{name}.so3_linear_2", self.channels))
        first = 1 if separate else 0
        self.linear(f"r{t}", wide, target, irreps, {(l, l): names[l] for l in range(first, self.lmax + 1)}, bias, accumulate=True)
        if separate:
            dense = self.name_of_scalars(name)
            matrix, of_scalars = self.scalars(dense, f"v{t}", hidden)
            self.linear(f"v{t}", irreps, f"s{t}", scalars, {(0, 0): self.table.add(f"{dense}.weight", matrix)},
                        self.table.add(f"{dense}.bias", of_scalars))  # fmt: skip
            self.add_activation(f"s{t}", f"o{t}", scalars, "silu")
            self.linear(f"o{t}", scalars, target, irreps, {(0, 0): names[0]}, accumulate=True)

    def forces(self, source):
        """The vectors of an attention with one channel."""
        if not has_forces(self.state.source):
            return
        width = self.options["num_heads"] * self.options["attn_value_channels"]
        messages = self.messages(FORCE_BLOCK, "f", source)
        # The other orders are not requested.
        matrix = self.state.take(f"{FORCE_BLOCK}.proj.weight", self.lmax + 1, 1, width)[1].T
        self.bias_of(f"{FORCE_BLOCK}.proj", 1)
        self.linear("af", messages, "force", "1x1e", {(1, 0): self.table.add(f"{FORCE_BLOCK}.proj", matrix)})
        self.direct_forces("force")

    def energies(self, source):
        name, hidden, irreps = "energy_block", self.options["ffn_hidden_channels"], self.irreps(self.channels)
        self.norm("norm", source, "last")
        self.forces("last")
        # Only the part for the scalars of the second matrices is used.
        last = self.state.take(f"{name}.so3_linear_2.weight", self.lmax + 1, 1, hidden)[0].T
        bias = self.tensor(f"{name}.so3_linear_2.bias", 1)
        extra = 0.0
        if self.options["load_energy_lin_ref"]:
            references = self.take64("energy_lin_ref", self.options["max_num_elements"])[self.numbers]
            extra = references if self.options["use_energy_lin_ref"] else 0.0
        scale = 1.0 / self.options["avg_num_nodes"]
        if self.options["use_sep_s2_act"]:
            self.leave_all_but_scalars(name)
            dense = self.name_of_scalars(name)
            matrix, of_scalars = self.scalars(dense, "last", hidden)
            matrices = [self.table.add(f"{dense}.weight", matrix), self.table.add(f"{name}.so3_linear_2.weight", last)]
            biases = [self.table.add(f"{dense}.bias", of_scalars), bias]
            self.sum_of_energies("last", irreps, matrices, biases, scale, extra)
            return
        self.first_of_network(name, "last", "he")
        to, back, points = self.points(self.lmax)
        mean = self.table.add("points.mean", self.table.tensors[back][:, :1])
        matrices = self.matrices_at_points(name, last.astype(np.float64))
        self.network_at_points("he", self.irreps(hidden), "re", "1x0e", matrices, to, mean, points)
        self.sum_of_energies("re", "1x0e", [self.identity(1)], [bias], scale, extra)

    def leave_all_but_scalars(self, name):
        """The scalars of the energy's network do not come from its points."""
        for key in self.state.source:
            if key.startswith((f"{name}.so3_linear_1.", f"{name}.grid_mlp.")):
                self.state.taken.add(key)

    def document(self):
        self.add_layers()
        return self.body()


class _Scores:
    """Columns of the first linear: scores and, if present, scalars become rows of the hidden channels, the scalars
    first."""

    def __init__(self, scores, hidden, separate):
        self.scores, self.hidden, self.extra = scores, hidden, scores + (hidden if separate else 0)

    def arranged(self, matrix):
        scores, scalars = np.split(matrix, [self.scores], 1)
        return np.concatenate([scalars, scores, np.zeros((len(matrix), -self.scores % self.hidden))], 1)
