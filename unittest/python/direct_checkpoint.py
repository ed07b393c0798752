# SPDX-License-Identifier: MIT
"""Checkpoints of EquiformerV2 and eSCN with random numbers, in the form of fairchem 1's trainers, without fairchem:
their tensors by shape."""

import numpy as np
import torch

EQUIFORMER = {
    "max_num_elements": 20, "lmax_list": [2], "mmax_list": [1], "num_layers": 2, "max_radius": 4.0, "edge_channels": 5,
        "sphere_channels": 6,
    "attn_hidden_channels": 5, "num_heads": 3, "attn_alpha_channels": 7, "attn_value_channels": 2, "ffn_hidden_channels": 9,
    "norm_type": "rms_norm_sh", "grid_resolution": 8, "max_neighbors": 300, "avg_num_nodes": 1.0, "avg_degree": 4.0, "use_grid_mlp": True,
    "use_pbc": True, "otf_graph": True, "alpha_drop": 0.1, "enforce_max_neighbors_strictly": False,
}  # fmt: skip
ESCN = {
    "max_num_elements": 20, "lmax_list": [2], "mmax_list": [1], "num_layers": 2, "cutoff": 4.0, "edge_channels": 5, "sphere_channels": 6,
    "hidden_channels": 7, "num_sphere_samples": 16, "distance_resolution": 0.3, "max_neighbors": 300, "use_pbc": True, "otf_graph": True,
}  # fmt: skip


def _dense(found, name, out, width, bias=True):
    found[f"{name}.weight"] = (out, width)
    if bias:
        found[f"{name}.bias"] = (out,)


def shapes_of_equiformer(o):
    """Shape by name of all tensors of a model, with the head of its forces."""
    C, E, F, Z, (L,), (M,) = (
        o[key] for key in ("sphere_channels", "edge_channels", "ffn_hidden_channels", "max_num_elements", "lmax_list", "mmax_list")
    )
    H, heads, K, V = o["attn_hidden_channels"], o["num_heads"], o["attn_alpha_channels"], o["attn_value_channels"]
    found = {"sphere_embedding.weight": (Z, C), "distance_expansion.offset": (600,)}

    def per_order(name, out, width):
        found.update({f"{name}.weight": (L + 1, out, width), f"{name}.bias": (out,), f"{name}.expand_index": ((L + 1) ** 2,)})

    def radial(name, out, net=None):
        found.update({f"{name}.source_embedding.weight": (Z, E), f"{name}.target_embedding.weight": (Z, E)})
        net, widths = f"{net or name}.rad_func.net", (600 + 2 * E, E, E, out)
        for k, n in enumerate((0, 3, 6)):
            _dense(found, f"{net}.{n}", widths[k + 1], widths[k])
        found.update({f"{net}.{n}.{key}": (E,) for n in (1, 4) for key in ("weight", "bias")})

    def so2(name, width, out, extra):
        _dense(found, f"{name}.fc_m0", extra + (L + 1) * out, (L + 1) * width)
        for m in range(1, M + 1):
            _dense(found, f"{name}.so2_m_conv.{m - 1}.fc", 2 * (L + 1 - m) * out, (L + 1 - m) * width, False)

    def norm(name):
        found.update({f"{name}.affine_weight": (L + 1, C), f"{name}.affine_bias": (C,)})

    def network(name, out):
        per_order(f"{name}.so3_linear_1", F, C), per_order(f"{name}.so3_linear_2", out, F)
        _dense(found, f"{name}.scalar_mlp.0", F, C)
        for n in (0, 2, 4):
            _dense(found, f"{name}.grid_mlp.{n}", F, F, False)

    def attention(ga, out):
        radial(ga, sum(L + 1 - m for m in range(M + 1)) * 2 * C, f"{ga}.so2_conv_1")
        so2(f"{ga}.so2_conv_1", 2 * C, H, heads * K + H)
        so2(f"{ga}.so2_conv_2", H, heads * V, 0)
        found.update({f"{ga}.alpha_dot": (heads, K), f"{ga}.alpha_norm.weight": (K,), f"{ga}.alpha_norm.bias": (K,)})
        per_order(f"{ga}.proj", out, heads * V)

    radial("edge_degree_embedding", (L + 1) * C)
    for t in range(o["num_layers"]):
        norm(f"blocks.{t}.norm_1"), norm(f"blocks.{t}.norm_2")
        attention(f"blocks.{t}.ga", C)
        network(f"blocks.{t}.ffn", C)
    attention("force_block", 1)
    norm("norm")
    network("energy_block", 1)
    return found


def shapes_of_escn(o):
    """The same for eSCN."""
    C, E, H, Z, (L,), (M,) = (
        o[key] for key in ("sphere_channels", "edge_channels", "hidden_channels", "max_num_elements", "lmax_list", "mmax_list")
    )
    points, functions = o["num_sphere_samples"], int(o["cutoff"] / o["distance_resolution"])
    found = {"sphere_embedding.weight": (Z, C), "distance_expansion.offset": (functions,), "sphere_points": (points, 3),
             "sphharm_weights.0": (points, (L + 1) ** 2)}  # fmt: skip
    for t in range(o["num_layers"]):
        layer = f"layer_blocks.{t}"
        message, edge = f"{layer}.message_block", f"{layer}.message_block.edge_block"
        _dense(found, f"{edge}.fc1_dist", E, functions), _dense(found, f"{edge}.fc1_edge_attr", E, E)
        found |= {f"{edge}.source_embedding.weight": (Z, E), f"{edge}.target_embedding.weight": (Z, E)}
        for atom in ("source", "target"):
            so2 = f"{message}.so2_block_{atom}"
            _dense(found, f"{so2}.fc1_dist0", H, E)
            _dense(found, f"{so2}.fc1_m0", H, (L + 1) * C, False), _dense(found, f"{so2}.fc2_m0", (L + 1) * C, H, False)
            for m in range(1, M + 1):
                name, width = f"{so2}.so2_conv.{m - 1}", (L + 1 - m) * C
                _dense(found, f"{name}.fc1_dist", 2 * H, E)
                for part in "ri":
                    _dense(found, f"{name}.fc1_{part}", H, width, False), _dense(found, f"{name}.fc2_{part}", width, H, False)
        for k, width in ((1, 2 * C), (2, C), (3, C)):
            _dense(found, f"{layer}.fc{k}_sphere", C, width, False)
    for block in ("energy_block", "force_block"):
        for k, out in ((1, C), (2, C), (3, 1)):
            _dense(found, f"{block}.fc{k}", out, C, k < 3)
    return found


KINDS = {"equiformer_v2": (EQUIFORMER, shapes_of_equiformer), "escn": (ESCN, shapes_of_escn)}
# Makes forces of about 1 eV/Angstrom.
ENLARGED = {"energy_block.so3_linear_2.weight": 6.0, "energy_block.fc3.weight": 1000.0, "force_block.fc3.weight": 30.0}


def checkpoint(kind, seed=1, rmsd=1.423, mean=0.0, **options):
    """The content of a trainer's file, as a dict."""
    defaults, shapes = KINDS[kind]
    options = {**defaults, **options}
    rng, state = np.random.default_rng(seed), {}
    for name, shape in shapes(options).items():
        values = rng.standard_normal(shape)
        if len(shape) >= 2 and "embedding" not in name and "affine" not in name:
            values /= np.sqrt(shape[-1])
            if kind == "escn" and name != "sphere_points":
                values *= 1.7
        elif name.endswith(("affine_weight", "alpha_norm.weight")) or (
            ".net." in name and name.split(".")[-2] in "14" and name.endswith("weight")
        ):
            values = 1 + 0.2 * values
        elif name.endswith("bias"):
            values *= 0.2
        state[f"module.{name}"] = torch.tensor(values * ENLARGED.get(name, 1.0), dtype=torch.float32)
    scale = {"mean": torch.tensor(mean), "rmsd": torch.tensor(rmsd)}
    return {
        "state_dict": state, "normalizers": {"energy": scale, "forces": {"mean": torch.tensor(0.0), "rmsd": torch.tensor(0.7)}},
        "elementrefs": {"energy": {"element_references": torch.tensor(rng.normal(0, 3, options["max_num_elements"]))}},
        "config": {"trainer": "ocp", "task": {}, "model": {**options, "name": kind}},
    }  # fmt: skip
