# SPDX-License-Identifier: MIT
"""Reads NequIP models (package nequip 0.7 and newer) and Allegro models (nequip-allegro 0.4 and newer) into one
canonical form.

A model comes as a package (.nequip.zip), as TorchScript (.nequip.pth) or as a Lightning checkpoint (.ckpt). The first
two hold a tree of modules, from which options are read; every module must be known, or the model is refused by name.
The last holds the options themselves. nequip_model or allegro_model derives the model from the options; the numbers
come from the file.
Files are read as data; neither nequip nor torch is needed.
"""

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np

from ... import torch_archive, torch_modules
from ...errors import EquiError
from ..common.state import State
from . import allegro_audit, allegro_model, legacy
from . import model as nequip_model
from .audit import Audit
from .contents import AllegroCheckpoint, Checkpoint, elements_of
from .files import MAX_TEXT_BYTES, is_training, kind_of
from .modules import CONSTANT, convnets, declared, norm_constants, path_signs_of

# Names of tensors in files of older versions.
RENAMED = re.compile(r"\.conv\.tp\.")


def _renamed(name):
    return RENAMED.sub(".conv.tp_scatter.tp.", name)


def _norm_names(options):
    """Names of the numbers of neighbors in the state."""
    return [f"model.func.layer{t}_convnet.conv.avg_num_neighbors_norm.norm_const" for t in range(len(options["feature_irreps_hidden"]))]


def _read(model):
    """(options, parameters and buffers under today's names) of a tree of modules."""
    options, found = Audit(model).options(), {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.size:
            found[_renamed(name)] = tensor
    return options, found | dict(zip(_norm_names(options), [norm_constants(layer.conv) for layer in convnets(model)]))


def _state(network, raw, is_constant):
    """Numbers of the file for every parameter and buffer of the model; refuses numbers that the model does not
    have."""
    for name in ("scales", "shifts"):
        name = f"model.func.per_type_energy_scale_shift.{name}"
        if name in raw:
            raw[name] = raw[name].reshape(-1, 1)
    named = [(f"model.func.{name}", tensor.shape) for name, tensor in [*network.named_parameters(), *network.named_buffers()]]
    shapes = {name: shape for name, shape in named if not is_constant(name)}
    return State(raw, "the model that its modules describe").fitted(shapes, is_constant)


def _path_signs(network, raw, tree):
    """Signs of the couplings in the file relative to ours, after a check of the irreps of its modules. A checkpoint has
    no tree and stores no couplings."""
    layers = [module for name, module in network.named_children() if name.endswith("_convnet")]
    if tree is not None:
        _check_irreps(layers, convnets(tree))
    return path_signs_of(layers, raw, "model.func.", stored_there=tree is not None)


def _check_irreps(layers, stored):
    """Refuses a file whose layers have other irreps or paths than those of nequip_model. Its tensors may have equal
    numbers of entries in another order."""
    for t, (own, theirs) in enumerate(zip(layers, stored)):
        own, theirs = declared(own), declared(theirs)
        for name in [*own, *theirs]:
            if own.get(name) != theirs.get(name):
                raise EquiError(f"layer{t}_convnet.{name} is {theirs.get(name)}, expected {own.get(name)}")


@dataclass(frozen=True)
class Family:
    """What the readers of the three kinds of files need to know about a family of models that nequip trains."""

    package: str
    builders: tuple
    full_options: Callable  # (options, builder, version) -> options of the full builder
    build: Callable  # options of the full builder -> tree of modules with shapes of numbers
    read: Callable  # tree of modules of a file -> (options, tensors)
    renamed: Callable  # name of a tensor in a file -> today's name
    norm_names: Callable  # options -> names of the numbers of neighbors
    path_signs: Callable  # (network, tensors, tree of the file or None) -> signs of couplings
    is_constant: Callable  # whether the buffer of a name follows from the options
    checkpoint: type


BUILDERS = ("NequIPGNNModel", "PresetNequIPGNNModel", "FullNequIPGNNModel")
NEQUIP = Family(
    "nequip", BUILDERS, nequip_model.full_options, nequip_model.build, _read, _renamed, _norm_names, _path_signs,
    CONSTANT.search, Checkpoint,
)  # fmt: skip
ALLEGRO = Family(
    "allegro", allegro_model.BUILDERS, allegro_model.full_options, allegro_model.build, allegro_audit.read,
    allegro_audit.renamed, lambda options: allegro_audit.NORMS, lambda network, raw, tree: allegro_audit.path_signs(network, raw),
    allegro_audit.CONSTANT.search, AllegroCheckpoint,
)  # fmt: skip


def _family_of(tree):
    return ALLEGRO if allegro_audit.is_allegro(tree) else NEQUIP


def _load_package(path):
    """(options, tensors, version, tree of modules, family) of a package."""
    with zipfile.ZipFile(path) as archive:
        # Before nequip 0.8 versions were in a separate file.
        ends = ("/model/package_metadata.txt", "/model/versions.txt")
        name = next(name for end in ends for name in archive.namelist() if name.endswith(end))
        version = re.search(r"^ *nequip: *['\"]?([^'\"\s]+)", torch_archive.entry(archive, name, MAX_TEXT_BYTES).decode(), re.M)
    models = torch_modules.read_package(path, "model", "eager_model")
    model = _sole(dict(models.named_children()))
    family = _family_of(model)
    return *family.read(model), version.group(1) if version else "unknown", model, family


def _load_torchscript(path):
    """The same for TorchScript."""
    model = torch_modules.read(path)
    family = _family_of(model)
    return *family.read(model), torch_modules.extra_file(path, "nequip_version") or "unknown", model, family


PACKAGE_IT = "run nequip-package on the checkpoint and give the package (.nequip.zip)"
# Modifiers that change how a model is evaluated, not its results.
ACCELERATIONS = (
    "enable_OpenEquivariance", "enable_CuEquivariance", "enable_LAMMPSMLIAPGhostExchange", "enable_TritonContracter",
    "enable_CuEquivarianceContracter",
)  # fmt: skip


def _model_options(target, options):
    """(family, builder, its options) from a checkpoint's description of its model."""
    if target == "nequip.model.modify":
        for modifier in options.get("modifiers", []):
            name = modifier.get("modifier") if isinstance(modifier, dict) else modifier
            if name not in ACCELERATIONS:
                raise EquiError(f"modifier {name}: {PACKAGE_IT}")
        options = options["model"]
        target = options.get("_target_", "")
    package, builder = target.split(".")[0], target.rsplit(".", 1)[-1]
    family = next((family for family in (NEQUIP, ALLEGRO) if family.package == package), None)
    if family is None:
        raise EquiError(f"model {target}: only models of nequip and allegro are supported")
    if builder not in family.builders:
        raise EquiError(f"model {target}: {PACKAGE_IT}")
    return family, builder, options


def _averaged(state, names):
    """Replaces the weights by their moving averages, which are numbered in the order of the model's parameters, `names`."""
    extra = state.get("ema._extra_state")
    if isinstance(extra, dict) and not extra.get("is_holding_ema_weights", True):
        raise EquiError("the checkpoint was written while its weights and their averages were exchanged")
    for n, name in enumerate(names):
        state[name] = state[f"ema.ema_weight_{n}"]


def _load_lightning(path):
    """The same for a checkpoint. Its options are those from which its modules were built; it has no tree (None)."""
    raw = torch_archive.read(path)
    info = raw["hyper_parameters"]["info_dict"]
    training = info["training_module"]
    family, builder, given = _model_options(training["model"].get("_target_", ""), training["model"])
    version = str(info["versions"].get("nequip", "unknown"))
    options = family.full_options(given, builder, version_numbers(version))
    options["r_max"] = float(options["r_max"])
    options["type_names"] = list(options["type_names"])
    options["per_edge_type_cutoff"] = nequip_model.full_cutoffs(options["per_edge_type_cutoff"], options["type_names"], options["r_max"])
    network, state, prefix = family.build(options), dict(raw["state_dict"]), "model.sole_model."
    today = {name: family.renamed(name.removeprefix(prefix)) for name in state if name.startswith(prefix)}
    if training["_target_"].endswith(".EMALightningModule"):
        trained = {f"model.func.{name}" for name, _ in network.named_parameters()}
        _averaged(state, [name for name in today if today[name] in trained])
    elif not training["_target_"].endswith(".NequIPLightningModule"):
        raise EquiError(f"training module {training['_target_']}: {PACKAGE_IT}")
    tensors = {today[name]: state[name] for name in today if state[name].size}
    # Only the options have the numbers of neighbors; their roots have the dtype of the model.
    neighbors = options["avg_num_neighbors"]
    if neighbors is None:
        raise EquiError("avg_num_neighbors: the checkpoint does not say it")
    neighbors = [neighbors[name] for name in options["type_names"]] if isinstance(neighbors, dict) else [neighbors]
    norms = np.array([[1 / sqrt(n)] for n in neighbors], given.get("model_dtype", "float32"))
    return options, tensors | dict.fromkeys(family.norm_names(options), norms), version, None, family


def version_numbers(version):
    """The first two numbers of a version of nequip, which decide what a checkpoint's options mean."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if not found:
        raise EquiError(f"the checkpoint does not say which nequip wrote it, whose defaults it means: {PACKAGE_IT}")
    return tuple(map(int, found.groups()))


LOADERS = {"package": _load_package, "checkpoint": _load_lightning, "torchscript": _load_torchscript}


def _sole(models):
    """The model of a dictionary of models."""
    if len(models) != 1:
        raise EquiError(f"holds {len(models)} models ({', '.join(models)}): only files with one are supported")
    return next(iter(models.values()))


def load(source, ignore_keys=(), types=None):
    """The model in a file; types: dict from its type names to chemical symbols, if they are not symbols."""
    path = Path(source)
    if not path.is_file() and not is_training(path):
        raise EquiError(f"{source} is not a file")
    kind = kind_of(path)
    if kind == "aotinductor" or path.name.endswith(".pt2"):
        raise EquiError(
            f"{source} is compiled by AOTInductor (.nequip.pt2): its architecture cannot be read back; "
            "give the package (.nequip.zip) or the checkpoint (.ckpt) that it was compiled from"
        )
    if kind is None:
        raise EquiError(f"{source} is neither a NequIP package, a NequIP checkpoint nor a deployed NequIP model")
    try:
        if kind == "training":
            return legacy.load_training(source, types)
        if kind == "torchscript":
            model = torch_modules.read(path)
            if legacy.is_legacy(model):
                return legacy.checkpoint_of(source, path, model, types)
        return _checkpoint(source, path, kind, types)
    except EquiError as error:
        raise EquiError(str(error) if str(error).startswith(f"{source}: ") else f"{source}: {error}") from error
    except (OSError, MemoryError):
        raise
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise EquiError(f"{source}: cannot read it: {type(error).__name__}: {first}") from error


def _checkpoint(source, path, kind, types):
    config, raw, version, tree, family = LOADERS[kind](path)
    network = family.build(config)
    path_signs = family.path_signs(network, raw, tree)
    return family.checkpoint(
        source=source,
        path=path,
        version=version,
        kind=kind,
        type_names=config["type_names"],
        elements=elements_of(config["type_names"], types, config["pair_potential"]),
        config=config,
        state=_state(network, raw, family.is_constant),
        path_signs=path_signs,
        stages=dict(network.named_children()),
    )
