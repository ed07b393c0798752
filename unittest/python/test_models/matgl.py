# SPDX-License-Identifier: MIT
"""Tiny random models for tests: genuine potentials of matgl, built and saved by matgl's own code.

`python -m test_models.matgl DIR [NAME ...]` writes DIR/NAME (a folder) and DIR/NAME.equi for the named
variants (all by default).
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from equi_tools.frameworks.matgl.oracle import import_matgl

from . import command, many_elements


SMOOTH = dict(rbf_type="SphericalBessel", use_smooth=True)

# Together these reach every option of the converter. Numbers of channels are odd on purpose, because kernels handle
# channels in groups of 4, 8 or 16. Options that no TensorNet has are those of the Potential.
VARIANTS = {
    "smooth": dict(units=5, nblocks=2, **SMOOTH),
    "gaussian": dict(units=13, nblocks=1, num_rbf=16, width=0.7),
    "exp_normal": dict(units=8, nblocks=2, num_rbf=12, rbf_type="ExpNorm"),
    "bessel": dict(units=5, nblocks=1, rbf_type="SphericalBessel", max_l=1, max_n=5),
    "so3": dict(units=5, nblocks=2, equivariance_invariance_group="SO(3)", **SMOOTH),
    "no_blocks": dict(units=33, nblocks=0, max_n=4, **SMOOTH),
    "three_blocks": dict(units=5, nblocks=3, cutoff=3.7, max_n=2, **SMOOTH),
    "tanh": dict(units=5, nblocks=1, activation_type="tanh", **SMOOTH),
    "softplus": dict(units=5, nblocks=2, activation_type="softplus2", num_rbf=8, equivariance_invariance_group="SO(3)"),
    "sigmoid": dict(units=5, nblocks=1, activation_type="sigmoid", num_rbf=8, rbf_type="ExpNorm"),
    "repulsion": dict(units=5, nblocks=1, calc_repuls=True, **SMOOTH),
    "no_references": dict(units=5, nblocks=1, element_refs=None, data_std=1.0, **SMOOTH),
    "warp": dict(units=5, nblocks=2, merged=True, **SMOOTH),
    "many_elements": dict(units=5, nblocks=1, element_types=many_elements, **SMOOTH),
}  # fmt: skip

# The shape of the published models, for benchmarks and for a test of the size.
BENCH = {
    "published": dict(units=128, nblocks=2, cutoff=5.0, element_types=many_elements, **SMOOTH),
    "published_64": dict(units=64, nblocks=2, cutoff=5.0, element_types=many_elements, **SMOOTH),
}  # fmt: skip


def _shake(potential):
    """Random numbers in place of matgl's regular initial ones; atoms must differ by electron volts, and distances must
    matter."""
    import torch

    with torch.no_grad():
        for name, parameter in potential.named_parameters():
            if ".rbf." in name or name.startswith("repuls."):
                parameter.mul_(1 + 0.05 * torch.rand_like(parameter))
            elif name.endswith("norm.weight"):
                parameter.add_(0.3 * torch.randn_like(parameter))
            elif name.endswith("bias"):
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif "distance_proj" in name or "linears_scalar.0" in name:
                parameter.mul_(4.0)
            elif "final_layer" in name:
                parameter.mul_(2.0)


def make_model(
    path, seed=1, element_types=("Na", "Cl", "O"), merged=False, element_refs="random", data_std=1.75, calc_repuls=False, **options
):  # fmt: skip
    """Writes a folder with a random potential. Returns its path as a string."""
    import_matgl()
    import torch
    from matgl.apps.pes import Potential
    from matgl.models import TensorNet

    elements = tuple(element_types() if callable(element_types) else element_types)
    rng = np.random.default_rng(len(elements))
    if isinstance(element_refs, str):
        element_refs = [float(v) for v in rng.uniform(-5, -1, len(elements))]
    options = {"cutoff": 4.2, "is_intensive": False, "use_warp": False, "element_types": elements, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        potential = Potential(TensorNet(**options), data_std=data_std, element_refs=element_refs, calc_repuls=calc_repuls)
        _shake(potential)
        potential.save(path)
    if merged:
        state = torch.load(Path(path) / "state.pt", weights_only=True)
        for kind in ("weight", "bias"):
            names = [f"model.tensor_embedding.distance_proj{k}.{kind}" for k in (1, 2, 3)]
            state[f"model.tensor_embedding.distance_proj.{kind}"] = torch.cat([state.pop(name) for name in names])
        torch.save(state, Path(path) / "state.pt")
    return str(path)


def make_variant(name, directory, seed=1):
    """Path of the folder of one of VARIANTS or BENCH."""
    return make_model(Path(directory) / name, seed=seed, **{**VARIANTS, **BENCH}[name])


def main(argv=None):
    def source(name, directory, seed):
        return make_variant(name, directory, seed), {}

    command(argv, __doc__, VARIANTS, BENCH, source)


if __name__ == "__main__":
    sys.exit(main())
