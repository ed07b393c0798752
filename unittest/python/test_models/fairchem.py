# SPDX-License-Identifier: MIT
"""Tiny random models for tests: inference checkpoints of eSEN and UMA, built by fairchem's own constructors.

`python -m test_models.fairchem DIR [NAME ...]` writes DIR/NAME.pt and DIR/NAME.equi for the named variants (all
by default).
"""

import sys
from pathlib import Path

from equi_tools.frameworks.fairchem.oracle import import_fairchem, quiet

from . import command

# Together these reach every option of the converter; numbers of channels are not multiples of 16. "heads": how the
# model computes energies; "settings": the user's statements about the system; "rmsd" of the normalizers; "published":
# with the configuration of omegaconf.
VARIANTS = {
    "l1": dict(lmax=1, mmax=1, sphere_channels=6, hidden_channels=5),
    "l2m0": dict(lmax=2, mmax=0, sphere_channels=10, hidden_channels=7, norm_type="layer_norm"),
    "l2m1": dict(lmax=2, mmax=1, sphere_channels=6, hidden_channels=33, norm_type="layer_norm"),
    "l2m2": dict(lmax=2, mmax=2, sphere_channels=34, hidden_channels=17, num_layers=3),
    "l3m1": dict(lmax=3, mmax=1, sphere_channels=8, hidden_channels=9, norm_type="layer_norm_sh"),
    "l3m2": dict(lmax=3, mmax=2, sphere_channels=14, hidden_channels=17, norm_type="layer_norm_sh", cutoff=3.7),
    "l3m3": dict(lmax=3, mmax=3, sphere_channels=6, hidden_channels=6, num_distance_basis=23),
    "l4m2": dict(lmax=4, mmax=2, sphere_channels=16, hidden_channels=16, edge_channels=16),
    "l4m4": dict(lmax=4, mmax=4, sphere_channels=8, hidden_channels=8, norm_type="layer_norm"),
    "l5m3": dict(lmax=5, mmax=3, sphere_channels=4, hidden_channels=5),
    "l5m5": dict(lmax=5, mmax=5, sphere_channels=6, hidden_channels=5, norm_type="layer_norm_sh"),
    "l6m3": dict(lmax=6, mmax=3, sphere_channels=10, hidden_channels=5),
    "l6m6": dict(lmax=6, mmax=6, sphere_channels=4, hidden_channels=3, num_layers=1, norm_type="layer_norm"),
    "grid": dict(lmax=2, mmax=2, ff_type="grid", sphere_channels=10, hidden_channels=17),
    "grid_of_10": dict(
        lmax=4, mmax=2, ff_type="grid", grid_resolution=10, sphere_channels=6, hidden_channels=6, norm_type="layer_norm_sh",
    ),
    "no_layers": dict(num_layers=0, sphere_channels=6, hidden_channels=5),
    "charged": dict(settings={"charge": -2, "spin": 3}, sphere_channels=6, hidden_channels=5, configs="omegaconf"),
    "waves": dict(
        settings={"charge": 1, "spin": 2}, chg_spin_emb_type="pos_emb", sphere_channels=6, hidden_channels=5,
        use_dataset_embedding=False,
    ),
    "tasks": dict(heads="single", tasks=("omol", "omat", "oc20"), task="omol", sphere_channels=6, hidden_channels=5, configs="omegaconf"),
    "task_heads": dict(heads="experts", tasks=("omol", "omat", "oc20"), task="oc20", sphere_channels=6, hidden_channels=5),
    "uma": dict(
        heads="experts", tasks=("omol", "omat"), task="omat", num_experts=8, settings={"composition": "NaCl"}, sphere_channels=6,
        hidden_channels=5, configs="omegaconf",
    ),
    "uma_charged": dict(
        heads="single", tasks=("omol", "omat"), task="omol", num_experts=32, lmax=3, sphere_channels=10, hidden_channels=7,
        settings={"composition": "Na2O", "charge": 1, "spin": 2},
    ),
    "uma_no_composition": dict(tasks=("omat",), num_experts=3, use_composition_embedding=False, sphere_channels=6, hidden_channels=5),
    "balanced": dict(
        heads="single", tasks=("omol", "omat"), task="omol", sphere_channels=10, hidden_channels=7, settings={"charge": -1, "spin": 3},
        charge_balanced_channels=[0, 1, 2], spin_balanced_channels=[4],
    ),
    "uma_balanced": dict(
        heads="experts", tasks=("omol", "omat"), task="omol", num_experts=8, sphere_channels=6, hidden_channels=5,
        settings={"composition": "NaCl", "charge": 1, "spin": 2}, model_id="UMA-S-1.2.1", charge_balanced_channels=[0, 1, 2],
    ),
    "one_expert": dict(num_experts=1, settings={"composition": "Na"}, sphere_channels=6, hidden_channels=5),
}  # fmt: skip

# The experts are also mixed by the number of atoms, so there is no file for one composition.
COUNTED = {
    "uma_counted": dict(
        heads="single", tasks=("omol", "omat"), task="omol", num_experts=8, sphere_channels=6, hidden_channels=5, model_id="UMA-S-1.2",
        charge_balanced_channels=[0, 1, 2],
    ),
}  # fmt: skip

# The shapes of published models: eSEN-30M, and UMA-S and UMA-M with few experts.
BENCH = {
    "esen_30m": dict(
        lmax=3, mmax=2, num_layers=10, sphere_channels=128, hidden_channels=128, edge_channels=128, num_distance_basis=64, cutoff=6.0,
    ),
    "uma_s": dict(
        lmax=2, mmax=2, num_layers=4, sphere_channels=128, hidden_channels=128, edge_channels=128, num_distance_basis=64, cutoff=6.0,
        num_experts=4, tasks=("omat", "omol"), task="omat", heads="single", settings={"composition": "Si"},
    ),
}  # fmt: skip

DEFAULTS = {
    "max_num_elements": 30, "lmax": 2, "mmax": 2, "num_layers": 2, "cutoff": 4.2, "edge_channels": 13, "num_distance_basis": 9,
    "distance_function": "gaussian", "direct_forces": False, "regress_forces": True, "regress_stress": True, "norm_type": "rms_norm_sh",
    "act_type": "gate", "ff_type": "spectral", "chg_spin_emb_type": "rand_emb", "otf_graph": True, "max_neighbors": 300,
}  # fmt: skip


def settings_of(name):
    """The user's statements about one of VARIANTS or BENCH: keywords of convert."""
    options = {**VARIANTS, **BENCH}[name]
    return {"task": options.get("task"), **options.get("settings", {})}


def model_config(tasks, heads, num_experts, use_composition_embedding, model_id, options):
    """The configuration from which fairchem makes a model."""
    core = "fairchem.core.models.uma"
    backbone = {**DEFAULTS, **options, "model": f"{core}.escn_md.eSCNMDBackbone"}
    if options.get("use_dataset_embedding", True):
        backbone["dataset_mapping"] = {name: name for name in tasks}
    if num_experts:
        backbone |= {"model": f"{core}.escn_moe.eSCNMDMoeBackbone", "num_experts": num_experts, "model_version": 1.1,
                     "use_composition_embedding": use_composition_embedding}  # fmt: skip
    head = {"module": f"{core}.escn_md.MLP_EFS_Head"}
    if heads != "plain":
        wrapper = {"single": "DatasetSpecificSingleHeadWrapper", "experts": "DatasetSpecificMoEWrapper"}[heads]
        head = {"module": f"{core}.escn_moe.{wrapper}", "head_cls": head["module"], "head_kwargs": {"wrap_property": False},
                "dataset_names": list(tasks)}  # fmt: skip
    return {
        "_target_": "fairchem.core.models.base.HydraModel", "backbone": backbone, "heads": {"efs": head},
        "pass_through_head_outputs": True, "otf_graph": True, **({"model_id": model_id} if model_id else {}),
    }  # fmt: skip


def tasks_config(tasks, heads, max_num_elements, rmsd=1.423):
    """Energies, forces and stresses of the data sets."""
    import numpy as np

    normalizer = {"_target_": "fairchem.core.modules.normalization.normalizer.Normalizer", "mean": 0.0, "rmsd": rmsd}
    found, levels = [], (("energy", "system", [1]), ("forces", "atom", [3]), ("stress", "system", [1, 9]))
    for n, dataset in enumerate(tasks):
        references = np.random.default_rng(n).normal(0, 3, max_num_elements).tolist()
        for kind, level, dim in levels:
            task = {
                "_target_": "fairchem.core.units.mlip_unit.mlip_unit.Task", "level": level, "property": kind, "datasets": [dataset],
                "name": kind if heads == "plain" else f"{dataset}_{kind}", "out_spec": {"dim": dim, "dtype": "float32"},
                "normalizer": normalizer, "metrics": ["mae"],
            }  # fmt: skip
            if kind == "energy":
                kind = "fairchem.core.modules.normalization.element_references.ElementReferences"
                task["element_references"] = {
                    "_target_": kind,
                    "element_references": {"_target_": "torch.DoubleTensor", "_args_": [references]},
                }
            found.append(task)
    return found


def shake(model):
    """Random numbers in place of fairchem's regular initial ones; distances, charges and species must matter."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("source_embedding.weight", "target_embedding.weight")):
                parameter.normal_()
            elif name.endswith(("energy_block.4.weight", "energy_block.4.weights", "energy_block.linear_2.weight")):
                parameter.mul_(10.0)  # makes forces of about 1 eV/A
            elif parameter.dim() == 1 or "affine_weight" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))


def make_checkpoint(
    path, seed=1, tasks=("omat",), heads="plain", num_experts=0, use_composition_embedding=True, configs="plain", task=None,
    settings=None, model_id=None, **options,
):  # fmt: skip
    """Writes an inference checkpoint with random numbers. Returns its path as a string."""
    import_fairchem()
    import hydra
    import omegaconf
    import torch
    from fairchem.core.units.mlip_unit.api.inference import MLIPInferenceCheckpoint

    config = model_config(tasks, heads, num_experts, use_composition_embedding, model_id, options)
    all_tasks = tasks_config(tasks, heads, config["backbone"]["max_num_elements"])
    with quiet():
        torch.manual_seed(seed)
        model = hydra.utils.instantiate(config)
        shake(model)
    state = model.state_dict()
    ema = {"n_averaged": torch.tensor(7)} | {f"module.{name}": value.clone() for name, value in state.items()}
    # Numbers that are not averaged must not be used.
    state = {name: value + 1.0 if value.is_floating_point() else value for name, value in state.items()}
    if configs == "omegaconf":
        whole = omegaconf.OmegaConf.create({"cutoff": config["backbone"]["cutoff"], "model": config, "tasks": all_tasks})
        whole.model.backbone.cutoff = "${cutoff}"
        config, all_tasks = whole.model, whole.tasks
    torch.save(MLIPInferenceCheckpoint(config, state, ema, all_tasks), path)
    return str(path)


def make_variant(name, directory, seed=1):
    """Path of the checkpoint of one of VARIANTS or BENCH."""
    return make_checkpoint(Path(directory) / f"{name}.pt", seed=seed, **{**VARIANTS, **COUNTED, **BENCH}[name])


def main(argv=None):
    def source(name, directory, seed):
        return make_variant(name, directory, seed), settings_of(name)

    command(argv, __doc__, VARIANTS, BENCH, source)


if __name__ == "__main__":
    sys.exit(main())
