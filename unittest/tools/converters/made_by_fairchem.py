# SPDX-License-Identifier: MIT
"""Makes inference checkpoints with the version of fairchem 2 on the path, and stores its results for them.

`python made_by_fairchem.py DIR` writes DIR/NAME.pt and DIR/NAME.npz. The results are in float64 if the version has an
option for it, or else in float32; NAME.txt states which.
"""

import dataclasses
import inspect
import sys
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import old_versions
import tensornet_laws as laws
from ase import Atoms
from equi_tools.frameworks.fairchem import oracle as fairchem_oracle
from test_models import fairchem as fairchem_models

OPTIONS = {
    "esen": dict(lmax=2, mmax=2, sphere_channels=10, hidden_channels=7, num_layers=2),
    "layer_norm_sh": dict(lmax=3, mmax=2, sphere_channels=6, hidden_channels=9, norm_type="layer_norm_sh"),
    "grid": dict(lmax=2, mmax=2, ff_type="grid", sphere_channels=10, hidden_channels=17),
    "waves": dict(chg_spin_emb_type="pos_emb", sphere_channels=6, hidden_channels=5),
    "uma": dict(heads="experts", tasks=("omol", "omat"), num_experts=8, sphere_channels=6, hidden_channels=5, model_id="UMA-S-1.1"),
}
# What versions of fairchem import only for training, servers and data sets.
NOT_NEEDED = ("lmdb", "wandb", "numba", "clusterscope", "pkg_resources", "ray", "torch_scatter", "pymatgen", "pydantic",
    "torch.utils.tensorboard", "websockets",
              "torch_geometric.nn")  # fmt: skip
NAMES = ("sheared", "left_handed", "cluster", "rocksalt")


class AnyName(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return AnyName(name, (Anything,), {})


class Anything(metaclass=AnyName):
    """The attribute of a module that is not needed, by any name: it is called, used as a decorator, and subclassed."""

    def __new__(cls, *arguments, **_):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else super().__new__(cls)

    def __init__(self, *_, **__):
        pass

    def __call__(self, inner=None, **_):
        return inner


class Placeholder(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return AnyName(name, (Anything,), {})


class Placeholders(MetaPathFinder, Loader):
    """Finds modules that are not needed, if they are not installed."""

    def find_spec(self, name, path, target=None):
        known = any(name == module or name.startswith(f"{module}.") for module in NOT_NEEDED)
        return ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        return Placeholder(spec.name)

    def exec_module(self, module):
        pass


def of_version(model_config, has_mapping, has_model_id):
    """Makes configurations like the version."""

    def changed(*arguments):
        config = model_config(*arguments)
        if not has_mapping:
            config["backbone"]["dataset_list"] = list(config["backbone"].pop("dataset_mapping"))
        if not has_model_id:
            config.pop("model_id", None)
        return config

    return changed


def structures(name):
    """Structures without atoms whose neighbors lie along an axis. They have one composition, for experts that are
    mixed by it."""
    named = dict(laws.structures(["Na", "Cl", "O"], 4.2))
    if name != "uma":
        return [(title, named[title]) for title in NAMES]
    rng = np.random.default_rng(5)
    points = np.array([[x, y, z] for x in range(3) for y in range(2) for z in range(2)]) * 2.4
    cell = [[7.2, 0, 0], [0.7, 4.9, 0], [-0.4, 0.3, 5.0]]
    return [("random", Atoms("NaCl" * 6, points + 0.2 * rng.standard_normal((12, 3)), cell=cell, pbc=True))]


def main(folder):
    sys.modules["torch.utils.tensorboard"] = Placeholder("torch.utils.tensorboard")
    sys.meta_path.append(Placeholders())
    core = fairchem_oracle.import_fairchem()
    import torch
    from fairchem.core.models.base import HydraModel
    from fairchem.core.models.uma.escn_md import eSCNMDBackbone
    from fairchem.core.units.mlip_unit import MLIPPredictUnit
    from fairchem.core.units.mlip_unit.api.inference import InferenceSettings

    parameters = [inspect.signature(kind).parameters for kind in (eSCNMDBackbone, HydraModel)]
    fairchem_models.model_config = of_version(fairchem_models.model_config, "dataset_mapping" in parameters[0], "model_id" in parameters[1])
    known = {field.name for field in dataclasses.fields(InferenceSettings)}
    wanted = {"activation_checkpointing": False, "execution_mode": "general", "base_precision_dtype": torch.float64}
    settings = {key: value for key, value in wanted.items() if key in known}
    for name, options in OPTIONS.items():
        path = fairchem_models.make_checkpoint(Path(folder) / f"{name}.pt", **options)
        with fairchem_oracle.quiet():
            unit = MLIPPredictUnit(path, device="cpu", inference_settings=InferenceSettings(**settings))
            calculator = core.FAIRChemCalculator(unit, task_name="omat")
            named = structures(name)
            for _, atoms in named:
                atoms.info = {"charge": 0, "spin": 0}
            old_versions.store(Path(folder) / f"{name}.npz", calculator, named, old_versions.is_periodic)
    (Path(folder) / "precision.txt").write_text("double" if "base_precision_dtype" in settings else "single")


if __name__ == "__main__":
    main(sys.argv[1])
