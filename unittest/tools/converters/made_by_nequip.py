# SPDX-License-Identifier: MIT
"""Makes models with the installed version of nequip (0.7 or newer), in float64, and stores the results of its own
modules.

`python made_by_nequip.py DIR` writes, for each of OPTIONS that the version has, DIR/NAME.ckpt, DIR/NAME.nequip.pth and
DIR/NAME.nequip.zip of the same model, and DIR/NAME.npz.
"""

import sys
import warnings
from pathlib import Path

import e3nn
import lightning
import nequip
import numpy as np
import old_versions
import tensornet_laws as laws
import torch
import yaml
from ase.calculators.calculator import all_changes
from ase.neighborlist import neighbor_list
from e3nn.util.jit import script
from equi_tools.frameworks.common.oracle import Oracle
from equi_tools.frameworks.nequip.model import full_cutoffs
from test_models.nequip import _builder, _shake, builder_options

VERSION = tuple(map(int, nequip.__version__.split(".")[:2]))
NA_CL = {"type_names": ["Na", "Cl"]}
# Options with given values, and options that are left to the version's defaults: widths of radial networks, the order
# of irreps.
OPTIONS = {
    "parity": dict(**NA_CL, num_layers=3, l_max=2, parity=True, num_features=3),
    "no_parity": dict(**NA_CL, num_layers=3, l_max=2, parity=False, num_features=5),
    "defaults": dict(**NA_CL, num_layers=2, num_features=4),
    "no_neighbors": dict(**NA_CL, num_layers=2, num_features=4, avg_num_neighbors=None),
    "trained": dict(**NA_CL, num_layers=2, l_max=1, num_features=5, per_type_energy_scales_trainable=True,
                    per_type_energy_shifts_trainable=True, bessel_trainable=True, num_bessels=5, polynomial_cutoff_p=9),
    "zbl": dict(**NA_CL, num_layers=2, l_max=1, num_features=5, polynomial_cutoff_p=8, scales=1.5,
                pair_potential={"_target_": "nequip.nn.pair_potential.ZBL", "units": "metal", "chemical_species": ["Na", "Cl"]}),
    "cutoffs": dict(type_names=["Na", "Cl", "O"], num_layers=2, l_max=1, num_features=5,
                    per_edge_type_cutoff={"Na": 3.1, "Cl": {"Na": 4.0, "Cl": 3.5}}),
    "irreps": dict(
        **NA_CL, irreps_edge_sh="1x0e+1x1o+1x2e", type_embed_num_features=3, radial_mlp_depth=[1, 2], radial_mlp_width=[7, 5],
        feature_irreps_hidden=["3x2e+5x0e+3x1o+2x0o", "4x0e"], convnet_nonlinearity_scalars={"e": "ssp", "o": "abs"},
        convnet_nonlinearity_gates={"e": "tanh", "o": "abs"},
    ),
}  # fmt: skip


class Modules(Oracle):
    """The version's modules in float64 on a neighbor list of ASE."""

    implemented_properties = ["energy", "forces", "stress"]

    def __init__(self, model, elements, cutoff):
        super().__init__()
        self.model, self.elements, self.cutoff = model, elements, cutoff

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        atoms, double = self.atoms, torch.float64
        i, j, shift = neighbor_list("ijS", atoms, self.cutoff, self_interaction=False)
        data = {
            "pos": torch.tensor(atoms.positions, dtype=double),
            "cell": torch.tensor(atoms.cell.complete().array, dtype=double).unsqueeze(0),
            "edge_index": torch.tensor(np.stack([i, j]), dtype=torch.long),
            "edge_cell_shift": torch.tensor(shift, dtype=double),
            "atom_types": torch.tensor([self.elements.index(symbol) for symbol in atoms.get_chemical_symbols()]),
            "batch": torch.zeros(len(atoms), dtype=torch.long),
            "num_atoms": torch.tensor([len(atoms)]),
        }
        out = self.model(data)
        self.results = {"energy": out["total_energy"].item(), "forces": out["forces"].detach().numpy()}
        if atoms.pbc.all():
            self.results["stress"] = out["stress"].detach().numpy().reshape(3, 3)[[0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]


def write_checkpoint(path, target, config, shake):
    """Writes the checkpoint of a training by Lightning of the model of a builder; returns this model."""
    from nequip.train import NequIPLightningModule

    model = {"_target_": target, **config}
    training = {
        "model": model, "num_datasets": {"train": 1, "val": 1, "test": 0, "predict": 0},
        "loss": {"_target_": "nequip.train.EnergyForceLoss", "per_atom_energy": True, "coeffs": {"total_energy": 1.0, "forces": 1.0}},
        "val_metrics": {"_target_": "nequip.train.EnergyForceMetrics", "coeffs": {"total_energy_mae": 1.0, "forces_mae": 1.0}},
    }  # fmt: skip
    info = {"versions": {"nequip": nequip.__version__, "e3nn": e3nn.__version__},
            "training_module": {"_target_": "nequip.train.NequIPLightningModule", **training}}  # fmt: skip
    module = NequIPLightningModule(**training, info_dict=info)
    torch.manual_seed(config["seed"])
    shake(module.model)
    trainer = lightning.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    )
    trainer.strategy.connect(module)
    trainer.save_checkpoint(str(path))
    return (module.model["sole_model"] if isinstance(module.model, torch.nn.ModuleDict) else module.model).eval()


def write_package(path, model, packages):
    """Writes the package of nequip-package, without its example of the training data."""
    versions = {"nequip": nequip.__version__, "e3nn": e3nn.__version__}
    with torch.package.PackageExporter(str(path)) as exporter:
        exporter.mock(["matplotlib.**"])
        exporter.extern([f"{name}.**" for name in ("triton", "io", "opt_einsum_fx", "numpy", "packaging", "openequivariance", "scipy")])
        exporter.intern([f"{name}.**" for name in ("e3nn", "nequip", *packages)])
        exporter.save_text("model", "config.yaml", "")
        metadata = {"versions": versions, "package_version_id": 1, "available_models": ["eager"]}
        exporter.save_text("model", "package_metadata.txt", yaml.dump(metadata))
        exporter.save_pickle("model", "eager_model.pkl", torch.nn.ModuleDict({"sole_model": model}), dependencies=True)


def make(folder, name, target, config, shake, packages=()):
    """Writes the files of a model of a builder. packages: that contain modules of the model, besides nequip."""
    if VERSION < (0, 10):
        # In these versions the order is that of the types, with cutoffs of all pairs.
        for key in ("per_type_energy_scales", "per_type_energy_shifts"):
            config[key] = list(config[key].values()) if isinstance(config[key], dict) else config[key]
        if "per_edge_type_cutoff" in config:
            config["per_edge_type_cutoff"] = full_cutoffs(config["per_edge_type_cutoff"], config["type_names"], config["r_max"])
    model = write_checkpoint(folder / f"{name}.ckpt", target, config, shake)
    # Before 0.8 parts of a model are TorchScript, which today's Torch cannot put into a package.
    if VERSION >= (0, 8):
        write_package(folder / f"{name}.nequip.zip", model, packages)
    # A single atom has no edges.
    named = [(title, atoms) for title, atoms in laws.structures(config["type_names"], config["r_max"]) if not old_versions.is_single(atoms)]
    calculator = Modules(model, config["type_names"], config["r_max"])
    old_versions.store(folder / f"{name}.npz", calculator, named, old_versions.is_periodic)
    records = {"r_max": str(config["r_max"]), "type_names": " ".join(config["type_names"]), "nequip_version": nequip.__version__}
    scripted = script(model)  # this changes the model itself
    torch.jit.save(scripted, str(folder / f"{name}.nequip.pth"), _extra_files={key: text.encode() for key, text in records.items()})


def prepare():
    """The settings of torch and e3nn with which models are made."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from nequip.utils.global_state import set_global_state

    set_global_state()
    torch.set_default_dtype(torch.float64)
    # Without them modules are TorchScript, which a package cannot contain.
    if "jit_mode" in e3nn.get_optimization_defaults():
        e3nn.set_optimization_defaults(jit_mode="eager")
    elif "jit_script_fx" in e3nn.get_optimization_defaults():
        e3nn.set_optimization_defaults(jit_script_fx=False)


def main(folder):
    prepare()
    for name, options in OPTIONS.items():
        if VERSION >= (0, 16) and name == "no_neighbors":
            continue
        config = builder_options(model_dtype="float64", **options)
        if name == "defaults":
            del config["radial_mlp_width"]
        make(Path(folder), name, f"nequip.model.{_builder(config)}", config, _shake)


if __name__ == "__main__":
    main(sys.argv[1])
