# SPDX-License-Identifier: MIT
"""Tiny random models for tests: checkpoints as the trainers of fairchem 1 write them, of eSEN built by its own constructors.

`python -m equi_tools.frameworks.fairchem1_testing DIR [NAME ...]` writes DIR/NAME.pt and DIR/NAME.equi for the named variants (all by
default).
"""

import sys
from pathlib import Path

from .. import variants
from .fairchem1_oracle import build_esen, quiet

# Together these reach every option of the converter. "wrappers": the `module.` before names; "rmsd", "references": of the trainer;
# "old": the names of older files.
VARIANTS = {
    "l3m2": dict(lmax=3, mmax=2, sphere_channels=13, hidden_channels=5, wrappers=1),
    "l1": dict(lmax=1, mmax=1, sphere_channels=5, hidden_channels=6, norm_type="layer_norm", references=False),
    "l2m0": dict(lmax=2, mmax=0, sphere_channels=6, hidden_channels=33, norm_type="layer_norm_sh", old=True),
    "bessel": dict(lmax=2, mmax=1, sphere_channels=10, hidden_channels=7, distance_function="bessel", num_distance_basis=6, wrappers=2, cutoff=3.7),
    "l5m3": dict(lmax=5, mmax=3, sphere_channels=4, hidden_channels=5, num_layers=1, ema=True),
    "no_layers": dict(num_layers=0, sphere_channels=6, hidden_channels=5, rmsd=1.0),
}  # fmt: skip
# The shape of eSEN-30M.
BENCH = {
    "esen_30m": dict(lmax=3, mmax=2, num_layers=10, sphere_channels=128, hidden_channels=128, edge_channels=128, num_distance_basis=64, cutoff=6.0,
                     wrappers=1),
}  # fmt: skip

DEFAULTS = {
    "max_num_elements": 30, "lmax": 2, "mmax": 2, "num_layers": 2, "cutoff": 4.2, "edge_channels": 13, "num_distance_basis": 9,
    "distance_function": "gaussian", "norm_type": "rms_norm_sh", "act_type": "gate", "mlp_type": "spectral", "use_envelope": True,
    "max_neighbors": 300,
}  # fmt: skip


def _shake(module):
    """Random numbers where fairchem begins with regular ones; distances and species must matter."""
    import torch

    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith(("source_embedding.weight", "target_embedding.weight")):
                parameter.normal_()
            elif name.endswith("energy_block.4.weight"):
                parameter.mul_(10.0)    # for forces of about 1 eV/A
            elif parameter.dim() == 1 or "affine_weight" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))


def make_checkpoint(path, seed=1, wrappers=1, rmsd=1.423, references=True, old=False, ema=False, **options):
    """Writes a checkpoint with random numbers. Returns its path as a string."""
    import numpy as np
    import torch

    options = {**DEFAULTS, **options}
    # The state of a model does not say what a constructor without these options would take.
    sizes = {"sphere_channels": 128, "hidden_channels": 128} | options
    with quiet():
        torch.manual_seed(seed)
        backbone, head = build_esen(sizes)
        _shake(backbone), _shake(head)
    state = {f"backbone.{k}": v for k, v in backbone.state_dict().items()} | {f"output_heads.efs.{k}": v for k, v in head.state_dict().items()}
    backbone_config = {**options, "model": "esen_backbone", "otf_graph": True, "direct_forces": False, "regress_forces": True, "regress_stress": True}
    scales = {"mean": torch.tensor(0.0), "std" if old else "rmsd": torch.tensor(rmsd)}
    names = ("target", "grad_target") if old else ("energy", "forces", "stress")
    checkpoint = {
        "state_dict": {"module." * wrappers + name: value for name, value in state.items()},
        "normalizers": {name: dict(scales) for name in names},
        "elementrefs": {},
        "config": {
            "task": {}, "trainer": "mlip_trainer",
            "model": {"name": "hydra", "backbone": backbone_config, "heads": {"efs": {"module": "esen_mlp_efs_head"}},
                      "pass_through_head_outputs": True, "otf_graph": True},
            "outputs": {"energy": {"property": "energy", "level": "system"}, "forces": {"property": "forces", "level": "atom"}},
        },
        "val_metrics": None, "amp": None,
    }  # fmt: skip
    if references:
        numbers = np.random.default_rng(seed).normal(0, 3, options["max_num_elements"])
        checkpoint["elementrefs"]["energy"] = {"element_references": torch.tensor(numbers)}
    if ema:
        checkpoint["ema"] = {"decay": 0.999, "shadow_params": [value + 1.0 for value in backbone.parameters()]}
    torch.save(checkpoint, path)
    return str(path)


def make_variant(name, directory, seed=1):
    """Path of the checkpoint of one of VARIANTS or BENCH."""
    return make_checkpoint(Path(directory) / f"{name}.pt", seed=seed, **{**VARIANTS, **BENCH}[name])


def main(argv=None):
    variants.make(argv, __doc__, VARIANTS, BENCH, lambda name, directory, seed: (make_variant(name, directory, seed), {}))


if __name__ == "__main__":
    sys.exit(main())
