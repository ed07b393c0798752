# SPDX-License-Identifier: MIT
"""Checkpoints of EquiformerV3 with random numbers, in the form of its trainers, without the package: their tensors by
shape."""

import numpy as np
import torch

OPTIONS = {
    "max_num_elements": 20, "lmax": 2, "mmax": 1, "num_layers": 2, "max_radius": 4.0, "edge_channels": 5, "num_radial_basis": 8,
    "num_channels": 6, "attn_hidden_channels": 5, "num_heads": 3, "attn_alpha_channels": 7, "attn_value_channels": 2,
    "ffn_hidden_channels": 9, "norm_type": "merge_layer_norm", "attn_grid_resolution_list": [8, 4], "ffn_grid_resolution_list": [8, 8],
    "direct_prediction": False, "max_neighbors": 300, "avg_num_nodes": 1, "avg_degree": 4.0, "use_pbc": True, "otf_graph": True,
}  # fmt: skip


def shapes(o):
    """Shape by name of all tensors of a model."""
    C, L, E, F, Z = o["num_channels"], o["lmax"], o["edge_channels"], o["ffn_hidden_channels"], o["max_num_elements"]
    H, heads, K, V = o["attn_hidden_channels"], o["num_heads"], o["attn_alpha_channels"], o["attn_value_channels"]
    found = {"sphere_embedding.weight": (Z, C), "distance_expansion.offset": (o["num_radial_basis"],)}

    def dense(name, out, width, bias=True):
        found[f"{name}.weight"] = (out, width)
        if bias:
            found[f"{name}.bias"] = (out,)

    def per_order(name, out, width):
        found.update({f"{name}.weight": (L + 1, out, width), f"{name}.bias": (1, 1, out)})

    def radial(name, out):
        found.update({f"{name}.source_embedding.weight": (Z, E), f"{name}.target_embedding.weight": (Z, E)})
        widths = (o["num_radial_basis"] + 2 * E, E, E, out)
        for k, n in enumerate((0, 3, 6)):
            dense(f"{name}.rad_func.net.{n}", widths[k + 1], widths[k])
        found.update({f"{name}.rad_func.net.{n}.{key}": (E,) for n in (1, 4) for key in ("weight", "bias")})

    def so2(name, width, out, extra):
        dense(f"{name}.fc_m0", extra + (L + 1) * out, (L + 1) * width)
        for m in range(1, o["mmax"] + 1):
            dense(f"{name}.so2_m_linear.{m - 1}.fc", 2 * (L + 1 - m) * out, (L + 1 - m) * width, False)

    def norm(name):
        found.update({f"{name}.affine_weight": (L + 1, C), f"{name}.affine_bias": (C,)})

    radial("edge_degree_embedding", (L + 1) * C)
    for t in range(o["num_layers"]):
        ga, ffn = f"blocks.{t}.ga", f"blocks.{t}.ffn"
        norm(f"blocks.{t}.norm_1"), norm(f"blocks.{t}.norm_2")
        radial(ga, (L + 1) * 2 * C)
        so2(f"{ga}.so2_linear_1", 2 * C, 2 * H, heads * K + 3 * H)
        so2(f"{ga}.so2_linear_2", H, heads * V, 0)
        found.update({f"{ga}.alpha_dot": (heads, K), f"{ga}.alpha_norm.weight": (K,), f"{ga}.alpha_norm.bias": (K,)})
        per_order(f"{ga}.proj", C, heads * V)
        per_order(f"{ffn}.so3_linear_1", F, C), per_order(f"{ffn}.so3_linear_2", C, F)
        dense(f"{ffn}.scalar_mlp.0.linear", 2 * F, C), dense(f"{ffn}.grid_mlp.gating_linear", F, C)
        dense(f"{ffn}.grid_mlp.grid_linear_1", 2 * F, F, False), dense(f"{ffn}.grid_mlp.grid_linear_2", F, F, False)
    norm("norm")
    dense("energy_block.linear_1", F, C), dense("energy_block.linear_2", 1, F)
    return found


def checkpoint(seed=1, rmsd=1.423, **options):
    """The content of a trainer's file, as a dict."""
    options = {**OPTIONS, **options}
    rng, state = np.random.default_rng(seed), {}
    for name, shape in shapes(options).items():
        values = rng.standard_normal(shape)
        if len(shape) >= 2 and "embedding" not in name and "affine" not in name:
            values /= np.sqrt(shape[-1])
        elif name.endswith(("affine_weight", "alpha_norm.weight")) or (
            ".net." in name and name.split(".")[-2] in "14" and name.endswith("weight")
        ):
            values = 1 + 0.2 * values
        elif name.endswith("bias"):
            values *= 0.2
        state[f"module.{name}"] = torch.tensor(values * (6.0 if "energy_block.linear_2.weight" in name else 1.0), dtype=torch.float32)
    scale = {"mean": torch.tensor(0.0), "rmsd": torch.tensor(rmsd)}
    return {
        "state_dict": state, "normalizers": {kind: dict(scale) for kind in ("energy", "forces", "stress")},
        "elementrefs": {"energy": {"element_references": torch.tensor(rng.normal(0, 3, options["max_num_elements"]))}},
        "config": {"trainer": "equiformer_v3_dens_trainer", "task": {}, "model": {**options, "name": "equiformer_v3"}},
    }  # fmt: skip
