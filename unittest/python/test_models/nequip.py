# SPDX-License-Identifier: MIT
"""Tiny random models for tests: genuine NequIP files, built and written by nequip's own code.

`python -m test_models.nequip DIR [NAME ...]` writes DIR/NAME.nequip.zip (or .ckpt, .nequip.pth) and
DIR/NAME.equi for the named variants (all by default).
"""

import importlib
import sys
import warnings
from pathlib import Path

import numpy as np
from equi_tools.frameworks.nequip import oracle as nequip_oracle

from . import command, many_elements

SUFFIXES = {"package": ".nequip.zip", "checkpoint": ".ckpt", "torchscript": ".nequip.pth"}


# Hidden irreps in allowed notations: blocks of an irrep apart and adjacent, in any order, and without channels.
HIDDEN = dict(
    type_names=["Na", "Cl"], irreps_edge_sh=2, type_embed_num_features=3, radial_mlp_depth=[1, 2, 1, 1],
    radial_mlp_width=[7, 5, 9, 3], convnet_nonlinearity_scalars={"e": "ssp", "o": "abs"},
    convnet_nonlinearity_gates={"e": "tanh", "o": "abs"},
    feature_irreps_hidden=[
        "3x2e+5x0e+3x1o+2x0e", "2x0e+3x0e+0x0e+2x0o+3x1o+2x1o+1x1e", "2x0o+5x0e+0x1o+3x1o+2x2e+2x1o+5x0e", "4x0e",
    ],
)  # fmt: skip
NO_SCALARS = dict(
    type_names=["Na", "Cl"], irreps_edge_sh=2, type_embed_num_features=3, radial_mlp_depth=[1, 1], radial_mlp_width=[7, 5],
    feature_irreps_hidden=["3x1o+2x2e", "4x0e"], scales=20.0,
)  # fmt: skip

# Together these reach every option of the converter. Multiplicities are odd on purpose, because kernels handle
# channels in groups of 4, 8 or 16. "kind" is that of the file, "types" the elements of the types' names.
VARIANTS = {
    "plain": dict(type_names=["Na", "Cl"], num_layers=2, l_max=1, parity=False, num_features=5),
    "parity": dict(type_names=["H", "C", "O"], num_layers=3, l_max=2, parity=True, num_features=5),
    "no_parity": dict(type_names=["Na", "Cl"], num_layers=3, l_max=2, parity=False, num_features=[13, 5, 3]),
    "lmax0": dict(type_names=["Na", "Cl"], num_layers=3, l_max=0, num_features=13, parity=False),
    "one_type": dict(type_names=["Si"], num_layers=1, l_max=1, num_features=[5, 3], parity=True),
    "lmax3_parity": dict(type_names=["Na", "O"], num_layers=3, l_max=3, parity=True, num_features=[5, 3, 2, 2]),
    "lmax3": dict(type_names=["Na", "O"], num_layers=3, l_max=3, parity=False, num_features=[33, 13, 5, 5]),
    "lmax4": dict(type_names=["Na", "Cl"], num_layers=2, l_max=4, parity=False, num_features=[5, 3, 3, 2, 1]),
    "five_layers": dict(type_names=["Cu", "Zr"], num_layers=5, l_max=1, parity=True, num_features=[5, 3]),
    "float64": dict(type_names=["Na", "Cl"], num_layers=2, l_max=2, num_features=5, model_dtype="float64"),
    "cutoffs": dict(
        type_names=["Na", "Cl", "O"], num_layers=2, l_max=1, num_features=5,
        per_edge_type_cutoff={"Na": 3.1, "Cl": {"Na": 4.0, "Cl": 3.5}},
    ),
    "zbl": dict(type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, zbl=["Na", "Cl"]),
    "zbl_cutoffs": dict(
        type_names=["a", "b"], num_layers=2, l_max=1, num_features=5, zbl=["O", "H"], zbl_p=4.5,
        per_edge_type_cutoff={"a": {"b": 3.3}, "b": {"a": 3.3, "b": 2.9}},
    ),
    "type_neighbors": dict(
        type_names=["Na", "Cl", "O"], num_layers=3, l_max=1, num_features=[5, 3], parity=False,
        avg_num_neighbors={"Na": 7.5, "Cl": 21.0, "O": 3.25},
    ),
    "scale_only": dict(type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, shifts=None, scales=1.75),
    "shift_only": dict(type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, scales=None, shifts=-1.25),
    "no_scale_shift": dict(type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, scales=None, shifts=None),
    "trainable": dict(
        type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, per_type_energy_scales_trainable=True,
        per_type_energy_shifts_trainable=True, bessel_trainable=True, scales=1.5, shifts=-2.0,
    ),
    "basis": dict(type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, num_bessels=5, polynomial_cutoff_p=9, r_max=3.7),
    "radial_linear": dict(type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, radial_mlp_depth=0),
    "radial_deep": dict(
        type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, radial_mlp_depth=3, radial_mlp_width=11
    ),
    "readout": dict(
        type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, readout_mlp_hidden_layers_depth=2,
        readout_mlp_hidden_layers_width=7, readout_mlp_nonlinearity="silu",
    ),
    "readout_product": dict(
        type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, readout_mlp_hidden_layers_depth=2,
        readout_mlp_nonlinearity=None,
    ),
    "readout_mish": dict(
        type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, readout_mlp_hidden_layers_depth=2,
        readout_mlp_hidden_layers_width=7, readout_mlp_nonlinearity="mish",
    ),
    "readout_gelu": dict(
        type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, readout_mlp_hidden_layers_depth=1,
        readout_mlp_hidden_layers_width=7, readout_mlp_nonlinearity="gelu",
    ),
    "readout_with_gains": dict(
        type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, readout_mlp_hidden_layers_depth=2,
        readout_mlp_hidden_layers_width=7, readout_mlp_nonlinearity="None",
    ),
    "embedding": dict(
        type_names=["Na", "Cl", "Si"], num_layers=3, l_max=1, num_features=[13, 5], type_embed_num_features=3
    ),
    "no_connection": dict(type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, convnet_sc=False),
    "learnable_shift": dict(type_names=["Na", "Cl"], num_layers=2, l_max=1, num_features=5, learnable_shift=True),
    "activations": dict(
        type_names=["Na", "Cl"], num_layers=4, l_max=1, num_features=5, parity=True,
        convnet_nonlinearity_scalars={"e": "ssp", "o": "abs"}, convnet_nonlinearity_gates={"e": "tanh", "o": "abs"},
    ),
    "type_names": dict(type_names=["a", "b"], types={"a": "Na", "b": "Cl"}, num_layers=2, l_max=1, num_features=5),
    "many_types": dict(type_names=many_elements, num_layers=2, l_max=1, num_features=4, parity=False),
    "preset": dict(
        type_names=["Na", "Cl"], num_layers=2, l_max=1, parity=False, num_features=[13, 5], type_embed_num_features=7,
        scales={"Na": 1.5, "Cl": 0.75}, zbl=["Na", "Cl"],
    ),
    "checkpoint": dict(type_names=["Na", "Cl"], num_layers=2, l_max=2, num_features=5, kind="checkpoint"),
    "checkpoint_options": dict(
        type_names=["Na", "Cl", "O"], num_layers=2, l_max=2, num_features=[5, 3, 2], kind="checkpoint", zbl=["Na", "Cl", "O"],
        per_edge_type_cutoff={"Na": 3.1, "Cl": {"Na": 4.0}}, avg_num_neighbors={"Na": 7.5, "Cl": 21.0, "O": 3.25},
    ),
    "torchscript": dict(type_names=["Na", "Cl"], num_layers=3, l_max=2, num_features=5, kind="torchscript"),
    "torchscript_options": dict(
        type_names=["Na", "Cl", "O"], num_layers=2, l_max=3, num_features=[5, 3, 2, 1], kind="torchscript",
        zbl=["Na", "Cl", "O"], per_edge_type_cutoff={"Na": 3.1, "Cl": {"Na": 4.0}},
        avg_num_neighbors={"Na": 7.5, "Cl": 21.0, "O": 3.25}, readout_mlp_hidden_layers_depth=1, scales=None,
    ),
    "hidden": HIDDEN,
    "checkpoint_hidden": dict(HIDDEN, kind="checkpoint"),
    "torchscript_hidden": dict(HIDDEN, kind="torchscript"),
    "no_scalars": NO_SCALARS,
    "checkpoint_no_scalars": dict(NO_SCALARS, kind="checkpoint"),
}  # fmt: skip

# A shape for benchmarks: as large as a typical model for one material.
BENCH = {
    "bench": dict(
        type_names=["Na", "Cl"], num_layers=4, l_max=2, parity=True, num_features=64, r_max=5.0, radial_mlp_width=128,
        avg_num_neighbors=30.0,
    ),
    "bench_no_parity": dict(
        type_names=["Na", "Cl"], num_layers=4, l_max=2, parity=False, num_features=[128, 64, 32], r_max=6.0,
        radial_mlp_width=128, avg_num_neighbors=60.0, type_embed_num_features=32,
    ),
}  # fmt: skip


def energy_options(
    type_names, seed=1, model_dtype="float32", zbl=None, zbl_p=6, scales="random", shifts="random", **options
):
    """Arguments of a builder that all models of nequip have, with random scales and shifts per type by default."""
    type_names = type_names() if callable(type_names) else type_names
    rng = np.random.default_rng(len(type_names))
    if scales == "random":
        scales = {name: float(v) for name, v in zip(type_names, rng.uniform(0.5, 1.5, len(type_names)))}
    if shifts == "random":
        shifts = {name: float(v) for name, v in zip(type_names, rng.uniform(-5, -1, len(type_names)))}
    config = dict(
        seed=seed, model_dtype=model_dtype, type_names=type_names, r_max=4.2, avg_num_neighbors=12.5, per_type_energy_scales=scales,
        per_type_energy_shifts=shifts,
    )  # fmt: skip
    if zbl is not None:
        config["pair_potential"] = {
            "_target_": "nequip.nn.pair_potential.ZBL",
            "units": "metal",
            "chemical_species": zbl,
            "polynomial_cutoff_p": zbl_p,
        }
    config.update(options)
    return config


def builder_options(**options):
    """Arguments of nequip's model builder."""
    return {"radial_mlp_width": 9, **energy_options(**options)}


def _builder(config):
    """Name of the builder of nequip that takes these options."""
    return "FullNequIPGNNModel" if "feature_irreps_hidden" in config else "NequIPGNNModel"


def _shake(model):
    """Random numbers in place of nequip's regular initial ones."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bessel_weights", ".scales", ".shifts")):
                parameter.mul_(1 + 0.05 * torch.rand_like(parameter))
            # Atoms must differ by electron volts, and distances must matter in every layer.
            elif "edge_mlp.mlp.0." in name:
                parameter.mul_(6.0)
            elif "readout" in name and "mlp.0." in name:
                parameter.mul_(5.0)


def make_model(path, seed=1, kind="package", types=None, **options):
    """Writes a model with random numbers; options are those of builder_options. Returns its path as a string."""
    config = builder_options(seed=seed, **options)
    return write_model(path, kind, f"nequip.model.{_builder(config)}", config, _shake)


def write_model(path, kind, target, config, shake):
    """Writes the model that the builder `target` makes of its arguments, with numbers that `shake` has changed. Returns
    its path as a string."""
    import torch

    with warnings.catch_warnings(), nequip_oracle.nequip_state():
        warnings.simplefilter("ignore")
        if kind == "checkpoint":
            _write_checkpoint(path, target, config, shake)
            return str(path)
        module, name = target.rsplit(".", 1)
        model = getattr(importlib.import_module(module), name)(**config).eval()
        torch.manual_seed(config["seed"])
        shake(model)
        if kind == "torchscript":
            from nequip.model.inference_models.torchscript import save_torchscript_model

            save_torchscript_model(model, {**model.metadata, "allow_tf32": "0"}, str(path), "cpu")
        else:
            _write_package(path, model)
    return str(path)


def _write_package(path, model):
    """The file that `nequip-package build` makes, without its example of the training data."""
    import torch
    import yaml
    from nequip.scripts import _package_utils as packages
    from nequip.utils.versions import get_current_code_versions

    metadata = {
        "versions": get_current_code_versions(verbose=False),
        "package_version_id": 2,
        "available_models": ["eager"],
        "atom_types": dict(enumerate(model.type_names)),
    }
    with torch.package.PackageExporter(str(path)) as exporter:
        exporter.mock([f"{name}.**" for name in packages._MOCK_MODULES])
        exporter.extern([f"{name}.**" for name in packages._EXTERNAL_MODULES])
        exporter.intern([f"{name}.**" for name in packages._INTERNAL_MODULES])
        exporter.save_pickle("model", "example_data.pkl", {}, dependencies=True)
        exporter.save_text("model", "config.yaml", "")
        exporter.save_text("model", "package_metadata.txt", yaml.dump(metadata))
        exporter.save_pickle("model", "eager_model.pkl", torch.nn.ModuleDict({"sole_model": model}), dependencies=True)


def _write_checkpoint(path, target, config, shake):
    """The file that Lightning writes during `nequip-train`."""
    import lightning
    import torch
    from nequip.train import NequIPLightningModule
    from nequip.utils.versions import get_current_code_versions

    model = {"_target_": target, **config}
    training = {"model": model, "num_datasets": {"train": 1, "val": 1, "test": 0, "predict": 0}}
    info = {
        "versions": get_current_code_versions(verbose=False),
        "training_module": {"_target_": "nequip.train.NequIPLightningModule", **training},
    }
    module = NequIPLightningModule(**training, info_dict=info)
    torch.manual_seed(config["seed"])
    shake(module.model["sole_model"])
    trainer = lightning.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    )
    trainer.strategy.connect(module)
    trainer.save_checkpoint(str(path))


def make_named(options, make_model, name, directory, seed):
    """(path, types or None) of a model that make_model(path, seed=SEED, **options) writes."""
    path = Path(directory) / f"{name}{SUFFIXES[options.get('kind', 'package')]}"
    return make_model(path, seed=seed, **options), options.get("types")


def command_of_variants(argv, description, variants, others, make_model):
    """The command of a module whose models have the options `variants` and `others`, by name."""

    def source(name, directory, seed):
        path, types = make_named({**variants, **others}[name], make_model, name, directory, seed)
        return path, {"types": types}

    command(argv, description, variants, others, source)


def make_variant(name, directory, seed=1):
    """(path, types or None) of one of VARIANTS."""
    return make_named(VARIANTS[name], make_model, name, directory, seed)


def main(argv=None):
    command_of_variants(argv, __doc__, VARIANTS, BENCH, make_model)


if __name__ == "__main__":
    sys.exit(main())
