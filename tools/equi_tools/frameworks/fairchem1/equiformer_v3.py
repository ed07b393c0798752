# SPDX-License-Identifier: MIT
"""EquiformerV3 of the package equiformer-v3, trained by gradients: options of its checkpoints, and the layers of an
.equi file for it (doc/models/equiformer_v3.rst has its equations).

All numbers are the checkpoint's; products of its consecutive matrices are computed in float64.
"""

import numpy as np

from ...errors import EquiError
from ...printable import printable
from ..common.layers import gated, network
from ..common.sphere_points import component_scales, product_points
from ..fairchem.checkpoint import check_counts, check_numbers, expect_fixed, options_with_defaults
from .equiformer import STATED, EquiformerConverter

CITATION = (
    "Y.-L. Liao et al., EquiformerV3: Scaling Efficient, Expressive, and General SE(3)-Equivariant Graph Attention Transformers, "
    "arXiv:2604.09130"
)
# The package's defaults for options that a checkpoint does not name.
DEFAULTS = {
    "direct_prediction": True, "max_neighbors": 20, "max_radius": 12.0, "num_radial_basis": 600, "max_num_elements": 128, "num_layers": 12,
    "num_channels": 128, "attn_hidden_channels": 64, "num_heads": 8, "attn_alpha_channels": 32, "attn_value_channels": 16,
    "ffn_hidden_channels": 128, "norm_type": "merge_layer_norm", "lmax": 6, "mmax": 2, "attn_grid_resolution_list": [20, 8],
    "ffn_grid_resolution_list": [20, 20], "edge_channels": 128, "use_atom_edge_embedding": True, "use_envelope": True,
    "attn_activation": "sep-merge_gates2_swiglu", "use_attn_renorm": True, "use_add_merge": False, "use_rad_l_parametrization": True,
    "softcap": None, "attn_eps": 1e-16, "ffn_activation": "sep-merge_gates2_swiglu", "use_grid_mlp": True, "alpha_drop": 0.0,
    "avg_num_nodes": 77.81317, "avg_degree": 23.395238876342773,
}  # fmt: skip
# Options of training, of speed, of graphs that are made elsewhere, and heads of direct models.
WITHOUT_EFFECT = {
    "name", "use_pbc", "use_pbc_single", "otf_graph", "regress_forces", "regress_stress", "use_gate_force_head", "attn_mask_rate",
    "attn_weights_drop", "value_drop", "drop_path_rate", "proj_drop", "ffn_drop", "use_head_reg", "gradient_checkpointing_block_list",
    "enforce_max_neighbors_strictly",
}  # fmt: skip
# Options for which the converter's layers represent only these values.
FIXED = {
    "direct_prediction": (False, "forces come from a head of their own and are not the gradient of the energy"),
    "use_envelope": (True, "without the envelope the energy jumps where a neighbor crosses the cutoff"),
    "use_atom_edge_embedding": (True, "radial functions without species are not known here"),
    "use_attn_renorm": (True, "attention without its norm is not known here"),
    "use_add_merge": (False, "sums of both atoms' features are not known here"),
    "use_rad_l_parametrization": (True, "radial functions of each m are not known here"),
    "softcap": (None, "limited scores of attention are not known here"),
    "use_grid_mlp": (True, "other networks of atoms are not known here"),
    "alpha_drop": (0.0, "with it the scores of attention have another activation"),
}  # fmt: skip
# Products at points, whose result does not depend on the frame of an edge; "_mem" only saves memory in training.
ACTIVATIONS = ("sep-merge_gates2_swiglu", "sep-merge_gates2_swiglu_mem")
NORMS = {"merge_layer_norm": "rms_norm_sh", "sep_layer_norm": "layer_norm_sh", "equivariant_layer_norm": "layer_norm"}
# Replaced by 0; this changes the weights by this relative amount.
MAX_ATTENTION_EPSILON = 1e-7
# Buffers that are computed anew.
BUFFERS = (
    "wigner_index_to_m_array", "wigner_inv_rescale", "to_grid_mat", "from_grid_mat", "expand_index", "balance_degree_weight", "offset",
)  # fmt: skip


def options_of(config, ignore_keys):
    """The options with defaults, also under the names that the converter of eSEN uses."""
    options = options_with_defaults(config, DEFAULTS, WITHOUT_EFFECT, ignore_keys, "equiformer_v3")
    expect_fixed(options, FIXED)
    for key in ("attn_activation", "ffn_activation"):
        if options[key] not in ACTIVATIONS:
            raise EquiError(
                f"{key} {printable(str(options[key]), 60)} is not supported, only {ACTIVATIONS[0]}: others depend on the frame of an edge, "
                "which is drawn at random"
            )
    if options["norm_type"] not in NORMS:
        raise EquiError(f"norm_type {printable(str(options['norm_type']), 60)} is not supported, only {', '.join(NORMS)}")
    for key in ("attn_eps", "avg_num_nodes", "avg_degree"):
        if type(options[key]) not in (int, float) or not options[key] >= 0 or (key != "attn_eps" and not options[key] > 0):
            raise EquiError(f"{key}: expected a positive number, found {printable(str(options[key]), 60)}")
    if options["attn_eps"] > MAX_ATTENTION_EPSILON:
        raise EquiError(f"attn_eps {options['attn_eps']:g} is not supported, only up to {MAX_ATTENTION_EPSILON:g}: it is taken as 0")
    options |= {
        STATED: {key: options[key] for key in DEFAULTS},
        "sphere_channels": options["num_channels"], "hidden_channels": options["attn_hidden_channels"], "cutoff": options["max_radius"],
        "num_distance_basis": options["num_radial_basis"], "norm_type": NORMS[options["norm_type"]], "distance_function": "gaussian",
        "charge_balanced_channels": [], "spin_balanced_channels": [],
    }  # fmt: skip
    check_numbers(options | {"num_experts": 1})
    check_counts(options, ("num_heads", "attn_alpha_channels", "attn_value_channels", "ffn_hidden_channels"))
    lmax, mmax = options["lmax"], options["mmax"]
    for key, m in (("attn_grid_resolution_list", mmax), ("ffn_grid_resolution_list", lmax)):
        grid = options[key]
        if not isinstance(grid, list) or len(grid) != 2 or any(type(n) is not int for n in grid):
            raise EquiError(f"{key}: expected two whole numbers, found {printable(str(grid), 60)}")
        if grid[0] % 2 or grid[0] <= 3 * lmax or grid[1] <= 3 * m:
            raise EquiError(
                f"{key} {grid} is not supported, only an even number of latitudes above {3 * lmax} and longitudes above "
                f"{3 * m}: with fewer "
                "points products depend on the frame"
            )
    return options


def is_kept(name):
    return name.rsplit(".", 1)[-1] not in BUFFERS


class Converter(EquiformerConverter):
    kind = "EquiformerV3"
    so2_linear, so2_of_m = "so2_linear", "so2_m_linear"

    def embeddings(self, name):
        return f"{name}."

    def bias_of(self, name, width):
        return self.state.take(f"{name}.bias", 1, 1, width)[0, 0]

    def radial_of_attention(self, name, both):
        columns = np.concatenate([np.arange(l * both, (l + 1) * both) for m in range(self.mmax + 1) for l in range(m, self.lmax + 1)])
        return self.radial(name, (self.lmax + 1) * both, columns)

    def first_linear(self, name, both):
        """Matrices with 2 H outputs, with their product after them."""
        hidden, scores = self.hidden, self.options["num_heads"] * self.options["attn_alpha_channels"]
        weights, bias = self.so2_weights(f"{name}.so2_linear_1", both, 2 * hidden, lambda l: 1.0, _Scores(scores, hidden))
        return {"channels": 2 * hidden, "weights": weights, "bias": bias, "product": self.product()}

    def product(self):
        values, weights = product_points(self.lmax, self.mmax)
        rescale, norm = component_scales(self.lmax, self.mmax)
        for key, array in (("to", values * rescale / norm), ("from", weights[:, None] * values * rescale * norm)):
            if f"product.{key}" not in self.table.tensors:
                self.table.add(f"product.{key}", array)
        return {"points": len(weights), "to": "product.to", "from": "product.from", "scalars": "silu", "gates": "sigmoid"}

    def feed_forward(self, t, source, target):
        """target = source + a network of each atom: a product of two functions on the sphere, gated, and gated scalars."""
        name, hidden, lmax = f"blocks.{t}.ffn", self.options["ffn_hidden_channels"], self.lmax
        irreps, wide, last = self.irreps(self.channels), self.irreps(hidden), lmax + 1
        self.norm(f"blocks.{t}.norm_2", source, f"v{t}")
        norms = np.sqrt((2 * np.arange(last) + 1) * last)
        # so3_linear_1 and the dense layer at points, which mixes only channels.
        first = self.take64(f"{name}.so3_linear_1.weight", last, hidden, self.channels).swapaxes(1, 2)
        bias = self.take64(f"{name}.so3_linear_1.bias", 1, 1, hidden)[0, 0]
        at_points = self.take64(f"{name}.grid_mlp.grid_linear_1.weight", 2 * hidden, hidden).T
        factors = []
        for k, key in enumerate(("p", "q")):
            mix = at_points[:, k * hidden : (k + 1) * hidden]
            factors.append((f"{name}.{key}", (first @ mix) / norms[:, None, None], (bias @ mix) / norms[0]))
        # The gates of the first factor follow it.
        with_gates = f"{wide}+{last * hidden}x0e"
        self.per_order(*factors[0], f"v{t}", irreps, f"p{t}", with_gates, accumulate=False)
        matrix, of_gates = self.scalars(f"{name}.grid_mlp.gating_linear", f"v{t}", hidden)
        weight = self.table.add(f"{name}.gating_linear", np.tile(matrix, last))
        bias = self.table.add(f"{name}.gating_linear.bias", np.tile(of_gates, last))
        self.add_linear(f"v{t}", irreps, f"p{t}", with_gates, [(0, last, weight, 1.0)], [(last, bias, 1.0)], accumulate=True)
        terms = [gated(l, l, 0, last, l * hidden, "sigmoid") for l in range(last)]
        self.add_gate(f"p{t}", with_gates, f"g{t}", wide, terms)
        self.per_order(*factors[1], f"v{t}", irreps, f"q{t}", wide, accumulate=False)
        self.add_gaunt_product([f"g{t}", f"q{t}"], [wide, wide], f"r{t}", wide, (last, last))

        pair = f"{hidden}x0e+{hidden}x0e"
        dense = f"{name}.scalar_mlp.0.linear"
        parts = [self.scalars(dense, f"v{t}", 2 * hidden, slice(k * hidden, (k + 1) * hidden)) for k in range(2)]
        blocks = [(0, k, self.table.add(f"{dense}.{k}", matrix), 1.0) for k, (matrix, _) in enumerate(parts)]
        biases = [(k, self.table.add(f"{dense}.bias.{k}", bias), 1.0) for k, (_, bias) in enumerate(parts)]
        self.add_linear(f"v{t}", irreps, f"s{t}", pair, blocks, biases)
        self.add_gate(f"s{t}", pair, f"o{t}", f"{hidden}x0e", [gated(0, 1, 0, 0, 0, "silu")])

        self.copy(source, target)
        second = self.take64(f"{name}.so3_linear_2.weight", last, self.channels, hidden).swapaxes(1, 2)
        mix = self.take64(f"{name}.grid_mlp.grid_linear_2.weight", hidden, hidden).T
        self.per_order(f"{name}.so3_linear_2", norms[:, None, None] * (mix @ second),
                       self.state.take(f"{name}.so3_linear_2.bias", 1, 1, self.channels)[0, 0], f"r{t}", wide, target, irreps)  # fmt: skip
        weights = {(0, 0): self.table.add(f"{name}.so3_linear_2.scalars", second[0])}
        self.linear(f"o{t}", f"{hidden}x0e", target, irreps, weights, accumulate=True)

    def energies(self, source):
        hidden, (task,) = self.options["ffn_hidden_channels"], self.tasks.values()
        self.norm("norm", source, "last")
        weights, biases = self.dense("energy_block", ("linear_1", "linear_2"), (self.channels, hidden, 1))
        self.add_readout("last", self.irreps(self.channels), 0, network(weights, "silu", biases=biases))
        ones = np.ones(len(self.elements))
        shift = 0.0 * ones if task.references is None else task.references[self.numbers]
        scale = self.table.add("scale", task.rmsd / self.options["avg_num_nodes"] * ones)
        self.add_scale_shift(scale, self.table.add("shift", shift))

    def document(self):
        self.add_layers()
        self.state.finish()
        neighbors, cutoff = self.options["max_neighbors"], self.checkpoint.cutoff
        return self.finished("EquiformerV3", cutoff, self.lmax, False, self.radial_basis(cutoff), max_neighbors=neighbors)


class _Scores:
    """Columns of the first linear: scores, scalars of two factors and gates become rows of 2 hidden columns: scalars, gates, scores."""

    def __init__(self, scores, hidden):
        self.scores, self.hidden, self.extra = scores, hidden, scores + 3 * hidden

    def arranged(self, matrix):
        rows, hidden = len(matrix), self.hidden
        scores, scalars, gates = np.split(matrix, [self.scores, self.scores + 2 * self.hidden], 1)
        return np.concatenate([scalars, gates, np.zeros((rows, hidden)), scores, np.zeros((rows, -self.scores % (2 * hidden)))], 1)
