# SPDX-License-Identifier: MIT
"""Tiny random models for tests: genuine potentials of matgl, built and saved by matgl's own code.

`python -m test_models.matgl DIR [NAME ...]` writes DIR/NAME (a folder) and DIR/NAME.equi for the named
variants (all by default).
"""

import importlib.util
import json
import os
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
    "before_2_2": dict(units=5, nblocks=2, written_by="2.1.0 dgl", **SMOOTH),
    "before_2_2_pyg": dict(units=13, nblocks=1, written_by="2.1.0 pyg", num_rbf=8, equivariance_invariance_group="SO(3)"),
    "qet": dict(kind="QET", units=5, nblocks=2, is_hardness_envs=True, **SMOOTH),
    "qet_elements": dict(kind="QET", units=13, nblocks=1, is_sigma_train=True, include_magmom=True, num_rbf=8, width=0.7),
    "qet_before_2_2": dict(kind="QET", units=5, nblocks=2, is_hardness_envs=True, written_by="2.1.0 dgl", **SMOOTH),
}  # fmt: skip

# Variants that files of older versions need.
SETTINGS = {name: {"framework_version": options["written_by"].split()[0]} for name, options in VARIANTS.items() if "written_by" in options}

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
            elif name in ("model.sigma", "model.hardness_readout"):
                parameter.mul_(0.5 + torch.rand_like(parameter))
            elif name.startswith("model.chi_readout"):
                parameter.mul_(2.0)
            elif "distance_proj" in name or "linears_scalar.0" in name:
                parameter.mul_(4.0)
            elif "final_layer" in name:
                parameter.mul_(2.0)


def class_of(kind):
    """TensorNet or QET of the installed version, or None. Older versions do not export QET."""
    import matgl.models

    module = f"matgl.models._{kind.lower()}_dgl"
    if hasattr(matgl.models, kind):
        return getattr(matgl.models, kind)
    has_dgl = os.environ.get("MATGL_BACKEND") == "DGL" and importlib.util.find_spec(module)
    return getattr(importlib.import_module(module), kind) if has_dgl else None


def make_model(
    path, seed=1, element_types=("Na", "Cl", "O"), merged=False, element_refs="random", data_std=1.75, calc_repuls=False, kind="TensorNet",
    written_by=None, **options,
):  # fmt: skip
    """Writes a folder with a random potential. Returns its path as a string. written_by: version and back end of matgl that
    its model.json names, instead of those that are installed."""
    import_matgl()
    import torch
    from matgl.apps.pes import Potential

    elements = tuple(element_types() if callable(element_types) else element_types)
    rng = np.random.default_rng(len(elements))
    if isinstance(element_refs, str):
        element_refs = [float(v) for v in rng.uniform(-5, -1, len(elements))]
    options = {"cutoff": 4.2, "is_intensive": False, "use_warp": False, "element_types": elements, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        model = class_of(kind)(**options)
        potential = Potential(
            model, data_std=data_std, element_refs=element_refs, calc_repuls=calc_repuls, calc_charge=kind == "QET"
        )
        _shake(potential)
        potential.save(path)
    if written_by:
        document = json.loads((Path(path) / "model.json").read_text())
        backend = written_by.split()[1]
        document["kwargs"]["model"] |= {"@module": f"matgl.models._{kind.lower()}_{backend}", "@model_version": 1}
        (Path(path) / "model.json").write_text(json.dumps(document))
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
        return make_variant(name, directory, seed), SETTINGS.get(name, {})

    command(argv, __doc__, VARIANTS, BENCH, source)


if __name__ == "__main__":
    sys.exit(main())
