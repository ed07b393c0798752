# SPDX-License-Identifier: MIT
"""Tiny random models for tests: checkpoints in the form of fairchem 1's trainers, of eSEN, EquiformerV2 and V3 and
eSCN, built by their own constructors.

`python -m test_models.fairchem1 DIR [NAME ...]` writes DIR/NAME.pt and DIR/NAME.equi for the named variants (all by
default).
"""

import sys
from pathlib import Path

from equi_tools.frameworks.fairchem1.oracle import build_direct, build_equiformer, build_esen, import_model, quiet

from . import command
from .fairchem import shake

# Together these reach every option of the converter. "wrappers": the `module.` before names; "rmsd", "references": of
# the trainer; "old": the names of older files.
VARIANTS = {
    "l3m2": dict(lmax=3, mmax=2, sphere_channels=13, hidden_channels=5, wrappers=1),
    "l1": dict(lmax=1, mmax=1, sphere_channels=5, hidden_channels=6, norm_type="layer_norm", references=False),
    "l2m0": dict(lmax=2, mmax=0, sphere_channels=6, hidden_channels=33, norm_type="layer_norm_sh", old=True),
    "bessel": dict(
        lmax=2, mmax=1, sphere_channels=10, hidden_channels=7, distance_function="bessel", num_distance_basis=6, wrappers=2, cutoff=3.7,
    ),
    "l5m3": dict(lmax=5, mmax=3, sphere_channels=4, hidden_channels=5, num_layers=1, ema=True),
    "no_layers": dict(num_layers=0, sphere_channels=6, hidden_channels=5, rmsd=5.0),
    "grid": dict(lmax=3, mmax=1, mlp_type="grid", sphere_channels=13, hidden_channels=7),
    "grid_of_12": dict(
        lmax=2, mmax=2, mlp_type="grid", grid_resolution=12, sphere_channels=6, hidden_channels=17, norm_type="layer_norm_sh",
    ),
}  # fmt: skip
# EquiformerV3: changes of EQUIFORMER.
EQUIFORMERS = {
    "equiformer": dict(wrappers=1),
    "equiformer_all_m": dict(
        lmax=2, mmax=2, attn_grid_resolution_list=[8, 8], ffn_grid_resolution_list=[8, 8], norm_type="sep_layer_norm",
        attn_hidden_channels=9, attn_alpha_channels=33, num_channels=13, ffn_hidden_channels=17, references=False,
    ),
    "equiformer_l4": dict(
        lmax=4, mmax=2, attn_grid_resolution_list=[14, 8], ffn_grid_resolution_list=[14, 14], num_layers=1,
        attn_activation="sep-merge_gates2_swiglu_mem", ffn_hidden_channels=12, avg_degree=3.3,
    ),
    "equiformer_m1": dict(
        lmax=3, mmax=1, attn_grid_resolution_list=[10, 4], norm_type="equivariant_layer_norm", num_heads=1, attn_value_channels=5,
        wrappers=2, old=True, avg_num_nodes=7.0,
    ),
}  # fmt: skip
# EquiformerV2 and eSCN: changes of DIRECT. "hydra": with separate heads.
DIRECTS = {
    "equiformer_v2": dict(kind="equiformer_v2", use_grid_mlp=True, grid_resolution=12, wrappers=2),
    "equiformer_v2_hydra": dict(
        kind="equiformer_v2", hydra=True, lmax_list=[2], mmax_list=[2], sphere_channels=13, attn_hidden_channels=9,
        ffn_hidden_channels=17, norm_type="layer_norm_sh", share_atom_edge_embedding=True, mean=0.4,
    ),
    "equiformer_v2_shared_m": dict(
        kind="equiformer_v2", lmax_list=[3], mmax_list=[1], norm_type="layer_norm", use_m_share_rad=True, num_heads=1,
        use_sep_s2_act=False, enforce_max_neighbors_strictly=False, use_atom_edge_embedding=False,
    ),
    "equiformer_v2_l4": dict(
        kind="equiformer_v2", lmax_list=[4], mmax_list=[3], use_grid_mlp=True, use_sep_s2_act=False, num_layers=1,
        enforce_max_neighbors_strictly=False, max_neighbors=7, avg_num_nodes=7.0, avg_degree=3.3, use_energy_lin_ref=True,
        load_energy_lin_ref=True, old=True,
    ),
    "equiformer_v2_l6": dict(
        kind="equiformer_v2", lmax_list=[6], mmax_list=[2], use_grid_mlp=True, grid_resolution=18, num_layers=1, sphere_channels=5,
    ),
    "escn": dict(kind="escn", wrappers=1),
    "escn_hydra": dict(
        kind="escn", hydra=True, lmax_list=[2], mmax_list=[1], sphere_channels=5, hidden_channels=7, basis_width_scalar=1.7,
        max_neighbors=300,
    ),
    "escn_m0": dict(kind="escn", lmax_list=[2], mmax_list=[0], hidden_channels=4, num_layers=1, old=True, mean=-0.7),
    "escn_all_m": dict(kind="escn", lmax_list=[2], mmax_list=[2], resolution=10, references=False),
}  # fmt: skip
# The shapes of eSEN-30M, eqV2-31M and eSCN-L4-M2-Lay12.
BENCH = {
    "equiformer_v2_31m": dict(
        kind="equiformer_v2", lmax_list=[4], mmax_list=[2], num_layers=8, sphere_channels=128, attn_hidden_channels=64, num_heads=8,
        attn_alpha_channels=64, attn_value_channels=16, ffn_hidden_channels=128, norm_type="layer_norm_sh", grid_resolution=18,
        edge_channels=128, use_grid_mlp=True, max_radius=12.0, max_neighbors=20, enforce_max_neighbors_strictly=False,
    ),
    "escn_l4": dict(
        kind="escn", lmax_list=[4], mmax_list=[2], num_layers=12, sphere_channels=128, hidden_channels=256, edge_channels=128,
        num_sphere_samples=128, cutoff=12.0, max_neighbors=20, distance_resolution=0.02, basis_width_scalar=2.0, enlarged=1.7,
    ),
    "esen_30m": dict(
        lmax=3, mmax=2, num_layers=10, sphere_channels=128, hidden_channels=128, edge_channels=128, num_distance_basis=64, cutoff=6.0,
        wrappers=1,
    ),
}  # fmt: skip

DEFAULTS = {
    "max_num_elements": 30, "lmax": 2, "mmax": 2, "num_layers": 2, "cutoff": 4.2, "edge_channels": 13, "num_distance_basis": 9,
    "distance_function": "gaussian", "norm_type": "rms_norm_sh", "act_type": "gate", "mlp_type": "spectral", "use_envelope": True,
    "max_neighbors": 300,
}  # fmt: skip


EQUIFORMER = {
    "max_num_elements": 30, "lmax": 3, "mmax": 2, "num_layers": 2, "max_radius": 4.2, "edge_channels": 13, "num_radial_basis": 9,
    "num_channels": 6, "attn_hidden_channels": 5, "num_heads": 3, "attn_alpha_channels": 7, "attn_value_channels": 4,
    "ffn_hidden_channels": 10, "norm_type": "merge_layer_norm", "attn_grid_resolution_list": [10, 8], "ffn_grid_resolution_list": [10, 10],
    "direct_prediction": False, "max_neighbors": 300, "avg_num_nodes": 1, "attn_weights_drop": 0.0, "drop_path_rate": 0.0,
}  # fmt: skip


# Options of both kinds, without those of only one.
DIRECT = {
    "equiformer_v2": {
        "max_num_elements": 30, "lmax_list": [3], "mmax_list": [2], "num_layers": 2, "max_radius": 4.2, "edge_channels": 13,
        "sphere_channels": 6, "attn_hidden_channels": 5, "num_heads": 3, "attn_alpha_channels": 7, "attn_value_channels": 4,
        "ffn_hidden_channels": 10, "max_neighbors": 9, "avg_num_nodes": 1.0,
    },
    "escn": {
        "max_num_elements": 30, "lmax_list": [3], "mmax_list": [2], "num_layers": 2, "cutoff": 4.2, "edge_channels": 11,
            "sphere_channels": 6,
        "hidden_channels": 9, "num_sphere_samples": 20, "distance_resolution": 0.3, "max_neighbors": 9,
    },
}  # fmt: skip


def make_direct(path, kind, seed=1, wrappers=1, rmsd=1.423, mean=0.0, references=True, old=False, hydra=False, enlarged=3.5,
                **options):  # fmt: skip
    """Writes a checkpoint of EquiformerV2 or eSCN with random numbers, including those of its heads for forces.
    Returns its path as a string."""
    import torch

    options = {**DIRECT[kind], **options}
    flags = {"otf_graph": True, "regress_forces": True}
    with quiet():
        torch.manual_seed(seed)
        if hydra:
            module = import_model({"escn": "core.models.escn.escn", "equiformer_v2": "core.models.equiformer_v2.equiformer_v2"}[kind])
            backbone = {"escn": "eSCNBackbone", "equiformer_v2": "EquiformerV2Backbone"}[kind]
            heads = {"escn": ("eSCNEnergyHead", "eSCNForceHead"), "equiformer_v2": ("EqV2ScalarHead", "EqV2VectorHead")}[kind]
            names = {
                "escn": ("escn_energy_head", "escn_force_head"),
                "equiformer_v2": ("equiformerV2_scalar_head", "equiformerV2_rank1_head"),
            }[kind]
            backbone = getattr(module, backbone)(**options, regress_forces=True)
            parts = {"backbone.": backbone} | {f"output_heads.{n}.": getattr(module, head)(backbone) for n, head in zip(("e", "f"), heads)}
            config = {"name": "hydra", "backbone": {**options, **flags, "model": f"{kind}_backbone"},
                      "heads": {n: {"module": name} for n, name in zip(("e", "f"), names)}, "otf_graph": True}  # fmt: skip
        else:
            parts, config = {"": build_direct(kind, options, True)}, {**options, **flags, "name": kind}
        for module in parts.values():
            shake(module)
            if kind == "escn":
                _enlarge(module, enlarged)
    model = {"model": kind, "model_attributes": {**options, **flags}} if old else {"model": config}
    return _save(path, parts, model, seed, wrappers, rmsd, mean, references, old, options["max_num_elements"])


def _enlarge(escn, factor):
    """Without norms, fairchem's initial matrices make numbers smaller from layer to layer."""
    import torch

    with torch.no_grad():
        for name, parameter in escn.named_parameters():
            if parameter.dim() == 2 and ".fc" in name:
                parameter.mul_(300.0 if "energy_block.fc3" in name else factor)


def make_checkpoint(path, seed=1, wrappers=1, rmsd=1.423, references=True, old=False, ema=False, is_equiformer=False, **options):
    """Writes a checkpoint of eSEN or EquiformerV3 with random numbers. Returns its path as a string."""
    import torch

    flags = {"otf_graph": True, "regress_forces": True, "regress_stress": True}
    with quiet():
        torch.manual_seed(seed)
        if is_equiformer:
            options = {**EQUIFORMER, **options}
            model = build_equiformer(options)
            parts, config = {"": model}, {**options, **flags, "name": "equiformer_v3"}
        else:
            options = {**DEFAULTS, **options}
            model, head = build_esen(options)
            parts = {"backbone.": model, "output_heads.efs.": head}
            backbone = {**options, **flags, "model": "esen_backbone", "direct_forces": False}
            config = {"name": "hydra", "backbone": backbone, "heads": {"efs": {"module": "esen_mlp_efs_head"}},
                      "pass_through_head_outputs": True, "otf_graph": True}  # fmt: skip
        for module in parts.values():
            shake(module)
    more = {"ema": {"decay": 0.999, "shadow_params": [value + 1.0 for value in model.parameters()]}} if ema else {}
    return _save(path, parts, {"model": config}, seed, wrappers, rmsd, 0.0, references, old, options["max_num_elements"], more)


def _save(path, parts, config, seed, wrappers, rmsd, mean, references, old, num_elements, more=None):
    """Writes the content of a trainer's file; parts: modules by the prefix of their numbers."""
    import numpy as np
    import torch

    state = {prefix + name: value for prefix, module in parts.items() for name, value in module.state_dict().items()}
    scales = {"mean": torch.tensor(0.0), "std" if old else "rmsd": torch.tensor(rmsd)}
    names = ("target", "grad_target") if old else ("energy", "forces", "stress")
    checkpoint = {
        "state_dict": {"module." * wrappers + name: value for name, value in state.items()},
        "normalizers": {name: scales | ({"mean": torch.tensor(mean)} if name == names[0] else {}) for name in names},
        "elementrefs": {},
        "config": {
            "task": {}, "trainer": "mlip_trainer", **config,
            "outputs": {"energy": {"property": "energy", "level": "system"}, "forces": {"property": "forces", "level": "atom"}},
        },
        "val_metrics": None, "amp": None,
    }  # fmt: skip
    if references:
        numbers = np.random.default_rng(seed).normal(0, 3, num_elements)
        checkpoint["elementrefs"]["energy"] = {"element_references": torch.tensor(numbers)}
    torch.save(checkpoint | (more or {}), path)
    return str(path)


def make_variant(name, directory, seed=1):
    """Path of the checkpoint of one of VARIANTS, EQUIFORMERS, DIRECTS or BENCH."""
    options = {**VARIANTS, **EQUIFORMERS, **DIRECTS, **BENCH}[name]
    if "kind" in options:
        return make_direct(Path(directory) / f"{name}.pt", seed=seed, **options)
    return make_checkpoint(Path(directory) / f"{name}.pt", seed=seed, is_equiformer=name in EQUIFORMERS, **options)


def main(argv=None):
    command(
        argv,
        __doc__,
        {**VARIANTS, **EQUIFORMERS, **DIRECTS},
        BENCH,
        lambda name, directory, seed: (make_variant(name, directory, seed), {}),
    )


if __name__ == "__main__":
    sys.exit(main())
