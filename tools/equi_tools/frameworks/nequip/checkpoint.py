# SPDX-License-Identifier: MIT
"""Reads NequIP models (package nequip 0.7 and newer) into one canonical form.

A model comes as a package (.nequip.zip), as TorchScript (.nequip.pth) or as a Lightning checkpoint (.ckpt). The first
two hold a tree of modules, from which options are read; every module must be known, or the model is refused by name.
The last holds the options themselves. nequip_model derives the model from the options; the numbers come from the file.
Files are read as data; neither nequip nor torch is needed.
"""

import re
import zipfile
from math import pi, sqrt
from pathlib import Path

import numpy as np

from ... import torch_archive, torch_modules
from ...errors import EquiError
from ...irreps import Irreps
from ..common.state import State
from . import legacy
from . import model as nequip_model
from .contents import Checkpoint, elements_of
from .files import MAX_TEXT_BYTES, is_training, kind_of
from .model import MLP_ACTIVATIONS
from .modules import CONSTANT, activation_of, convnets, declared, energy_model, mlp_layers, norm_constants, path_signs_of

# Modules of the energy model by name; layers are layer0_convnet, layer1_convnet, ...
STAGES = {
    "type_embed": "NodeTypeEmbed",
    "spharm": "SphericalHarmonicEdgeAttrs",
    "edge_norm": "EdgeLengthNormalizer",
    "bessel_encode": "BesselEdgeLengthEncoding",
    "factor": "ApplyFactor",
    "per_atom_energy_readout": "ScalarMLP",
    "per_type_energy_scale_shift": "PerTypeScaleShift",
    "pair_potential": "ZBL",
    "total_energy_sum": "AtomwiseReduce",
}


class _Audit:
    """Options of the builder, read from a tree of modules; refuses unknown ones."""

    def __init__(self, model):
        top = model.class_name
        if top != "GraphModel":
            raise EquiError(f"module {top} is not supported, only GraphModel")
        output = model.model
        if output.class_name != "ForceStressOutput" or output.func.class_name != "SequentialGraphNetwork":
            raise EquiError(f"module {output.class_name} is not supported, only ForceStressOutput")
        self.stages = energy_model(model)
        self.model = model
        self.type_names = list(model.type_names)
        for name, module in self.stages.items():
            expected = "ConvNetLayer" if re.fullmatch(r"layer\d+_convnet", name) else STAGES.get(name)
            found = module.class_name
            if found == expected:
                continue
            if "llegro" in found or "allegro" in name:
                raise EquiError(f"module {name} ({found}): Allegro models are not supported")
            raise EquiError(f"module {name} ({found}) is not supported: it is not a part of NequIP's interatomic potential")
        self.layers = convnets(model)
        missing = [n for n in STAGES if n != "pair_potential" and n not in self.stages]
        if missing or not self.layers:
            raise EquiError(f"modules {', '.join(missing) or 'layer0_convnet'} are missing: not a NequIP potential")

    def options(self):
        type_names = self.type_names
        edge_norm, bessel, embed = (self.stages[n] for n in ("edge_norm", "bessel_encode", "type_embed"))
        fields = getattr(embed, "categorical_graph_field_embed_modules", None)
        if fields is not None and dict(fields.named_children()):
            raise EquiError("categorical_graph_field_embed: inputs of the whole structure (charge, spin) are not supported")
        sphere = self.stages["spharm"].sh
        if sphere.normalization != "component" or not sphere.normalize:
            raise EquiError("spharm: only normalized harmonics with component normalization are supported")
        config = {
            "r_max": float(edge_norm.r_max),
            "type_names": type_names,
            "irreps_edge_sh": str(Irreps(sphere.irreps_out)),
            "type_embed_num_features": int(embed.embed_module.weight.shape[1]),
            "num_bessels": int(bessel.bessel_weights.size),
            "polynomial_cutoff_p": self.power(bessel.cutoff),
            "per_edge_type_cutoff": self.cutoffs(type_names),
            "feature_irreps_hidden": [],
            "radial_mlp_depth": [],
            "radial_mlp_width": [],
        }
        if abs(float(self.stages["factor"].factor) / (2 * pi / config["r_max"] ** 2) - 1) > 1e-6:
            raise EquiError(f"factor: {float(self.stages['factor'].factor)} is not the one that nequip computes")
        self.convnets(config)
        self.readout(config)
        scale_shift = self.stages["per_type_energy_scale_shift"]
        for option, attribute in (("per_type_energy_scales", "scales"), ("per_type_energy_shifts", "shifts")):
            values = getattr(scale_shift, attribute).reshape(-1).tolist()
            if values:
                config[option] = dict(zip(type_names, values)) if len(values) > 1 else values[0]
        if "pair_potential" in self.stages:
            config["pair_potential"] = self.zbl()
        return nequip_model.FULL | config

    @staticmethod
    def power(cutoff):
        if cutoff.class_name != "PolynomialCutoff":
            raise EquiError(f"cutoff function {cutoff.class_name} is not supported, only PolynomialCutoff")
        return float(cutoff.p)

    def cutoffs(self, type_names):
        edge_norm = self.stages["edge_norm"]
        if not edge_norm._per_edge_type:
            return None
        n = len(type_names)
        values = np.minimum(1 / edge_norm._rmax_recip.astype(np.float64).reshape(n, n), float(edge_norm.r_max))
        return {a: {b: float(values[i, j]) for j, b in enumerate(type_names)} for i, a in enumerate(type_names)}

    def convnets(self, config):
        use_sc, resnet = [], []
        activations = {}
        edge = Irreps(config["irreps_edge_sh"])
        for t, layer in enumerate(self.layers):
            where, conv, gate = f"layer{t}_convnet", layer.conv, layer.equivariant_nonlin
            if gate.class_name != "Gate":
                raise EquiError(f"{where}: nonlinearity {gate.class_name} is not supported, only Gate")
            if conv.class_name != "InteractionBlock":
                raise EquiError(f"{where}: convolution {conv.class_name} is not supported, only InteractionBlock")
            # The gate merges its own irreps, but not those of its output.
            hidden = Irreps(layer.feature_irreps_hidden)
            scalars, gates, _ = nequip_model.gate_parts(hidden, Irreps(conv.linear_1.irreps_in), edge)
            config["feature_irreps_hidden"].append(str(hidden))
            for kind, irreps, acts in (("scalars", scalars, gate.act_scalars), ("gates", gates, gate.act_gates)):
                functions = [f for _, f in acts.acts.named_children()] if len(irreps) else []
                if len(functions) != len(irreps):
                    raise EquiError(f"{where}: {len(functions)} activations of {kind} {irreps}")
                # nequip chooses the activation of a gate by the parity of the gate of the gated block.
                for (_, ir), function in zip(irreps, functions):
                    name, _ = activation_of(function)
                    if activations.setdefault((kind, ir.p), name) != name:
                        raise EquiError(f"{where}: activations of {kind} differ between layers")
            linears, between = mlp_layers(conv.edge_mlp)
            if set(between) - {"SiLU"}:
                raise EquiError(f"{where}: radial networks with {', '.join(set(between))} are not supported")
            self.check_alphas(f"{where}.conv.edge_mlp", linears)
            config["radial_mlp_depth"].append(len(linears) - 1)
            config["radial_mlp_width"].append(int(linears[0].weight.shape[1]))
            use_sc.append(bool(conv.use_sc))
            resnet.append(bool(layer.resnet))
        config["convnet_sc"] = any(use_sc)
        config["learnable_shift"] = use_sc[0]
        if any(resnet):
            raise EquiError("convnet_resnet: residual connections around a layer are not supported")
        if any(use_sc[t] != use_sc[-1] for t in range(1, len(use_sc))):
            raise EquiError("convnet_sc: layers differ in their self-connection")
        # Any numbers of the right shape: the state has the norms themselves.
        per_type = norm_constants(self.layers[0].conv).size > 1
        config["avg_num_neighbors"] = {name: 1.0 for name in config["type_names"]} if per_type else 1.0
        for kind in ("scalars", "gates"):
            config[f"convnet_nonlinearity_{kind}"] = {
                "e": activations.get((kind, 1), "silu"), "o": activations.get((kind, -1), "tanh")
            }  # fmt: skip

    @staticmethod
    def check_alphas(where, linears):
        gain = 1.0
        for linear in linears:
            if linear.bias is not None:
                raise EquiError(f"{where}: biases are not supported")
            if abs(float(linear.alpha) / (gain / linear.weight.shape[0] ** 0.5) - 1) > 1e-6:
                raise EquiError(f"{where}: scale {float(linear.alpha)} of a matrix is not the one that nequip computes")
            gain = 2**0.5

    def readout(self, config):
        mlp = self.stages["per_atom_energy_readout"].mlp_module
        config["readout_mlp_nonlinearity"] = None
        if mlp.mlp.class_name == "DeepLinearMLP":
            weights = [p for _, p in mlp.mlp.weights.named_parameters()]
            if abs(float(mlp.mlp.alpha) * np.prod([w.shape[0] for w in weights]) ** 0.5 - 1) > 1e-6:
                raise EquiError(f"per_atom_energy_readout: scale {float(mlp.mlp.alpha)} is not the one that nequip computes")
            config["readout_mlp_hidden_layers_depth"] = len(weights) - 1
            config["readout_mlp_hidden_layers_width"] = int(weights[0].shape[1])
            return
        linears, between = mlp_layers(mlp)
        self.check_alphas("per_atom_energy_readout", linears)
        unknown = set(between) - set(MLP_ACTIVATIONS)
        if unknown:
            raise EquiError(f"readout_mlp_nonlinearity: {', '.join(unknown)} is not supported")
        config["readout_mlp_hidden_layers_depth"] = len(linears) - 1
        config["readout_mlp_hidden_layers_width"] = int(linears[0].weight.shape[1])
        if between:
            config["readout_mlp_nonlinearity"] = MLP_ACTIVATIONS[between[0]]

    def zbl(self):
        from ase.data import chemical_symbols

        module = self.stages["pair_potential"]
        return {
            "_target_": "nequip.nn.pair_potential.ZBL",
            "units": nequip_model.units_of_zbl(float(module._qqr2exesquare)),
            "chemical_species": [chemical_symbols[int(z)] for z in module.atomic_numbers],
            # Before nequip 0.17 the pair potential had no separate cutoff function.
            "polynomial_cutoff_p": self.power((module if hasattr(module, "cutoff") else self.stages["bessel_encode"]).cutoff),
        }


# Names of tensors in files of older versions.
RENAMED = re.compile(r"\.conv\.tp\.")


def _tensors_of(model):
    """Parameters and buffers of a tree under today's names."""
    found = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.size:
            found[RENAMED.sub(".conv.tp_scatter.tp.", name)] = tensor
    for t, layer in enumerate(convnets(model)):
        found[f"model.func.layer{t}_convnet.conv.avg_num_neighbors_norm.norm_const"] = norm_constants(layer.conv)
    return found


def _state(network, raw):
    """Numbers of the file for every parameter and buffer of the model; refuses numbers that the model does not
    have."""
    for name in ("scales", "shifts"):
        name = f"model.func.per_type_energy_scale_shift.{name}"
        if name in raw:
            raw[name] = raw[name].reshape(-1, 1)
    named = [(f"model.func.{name}", tensor.shape) for name, tensor in [*network.named_parameters(), *network.named_buffers()]]
    shapes = {name: shape for name, shape in named if not CONSTANT.search(name)}
    return State(raw, "the model that its modules describe").fitted(shapes, CONSTANT.search)


def _check_irreps(layers, stored):
    """Refuses a file whose layers have other irreps or paths than those of nequip_model. Its tensors may have equal
    numbers of entries in another order."""
    for t, (own, theirs) in enumerate(zip(layers, stored)):
        own, theirs = declared(own), declared(theirs)
        for name in [*own, *theirs]:
            if own.get(name) != theirs.get(name):
                raise EquiError(f"layer{t}_convnet.{name} is {theirs.get(name)}, expected {own.get(name)}")


def _load_package(path):
    """(options, tensors, version, tree of modules) of a package."""
    with zipfile.ZipFile(path) as archive:
        # Before nequip 0.8 versions were in a separate file.
        ends = ("/model/package_metadata.txt", "/model/versions.txt")
        name = next(name for end in ends for name in archive.namelist() if name.endswith(end))
        version = re.search(r"^ *nequip: *['\"]?([^'\"\s]+)", torch_archive.entry(archive, name, MAX_TEXT_BYTES).decode(), re.M)
    models = torch_modules.read_package(path, "model", "eager_model")
    model = _sole(dict(models.named_children()))
    return _Audit(model).options(), _tensors_of(model), version.group(1) if version else "unknown", model


def _load_torchscript(path):
    """The same for TorchScript."""
    model = torch_modules.read(path)
    return _Audit(model).options(), _tensors_of(model), torch_modules.extra_file(path, "nequip_version") or "unknown", model


BUILDERS = ("NequIPGNNModel", "PresetNequIPGNNModel", "FullNequIPGNNModel")
# Modifiers that change how a model is evaluated, not its results.
ACCELERATIONS = ("enable_OpenEquivariance", "enable_CuEquivariance", "enable_LAMMPSMLIAPGhostExchange")
PACKAGE_IT = "run nequip-package on the checkpoint and give the package (.nequip.zip)"


def _model_options(target, options):
    """(builder, its options) from a checkpoint's description of its model."""
    if target == "nequip.model.modify":
        for modifier in options.get("modifiers", []):
            name = modifier.get("modifier") if isinstance(modifier, dict) else modifier
            if name not in ACCELERATIONS:
                raise EquiError(f"modifier {name}: {PACKAGE_IT}")
        options = options["model"]
        target = options.get("_target_", "")
    builder = target.rsplit(".", 1)[-1]
    if not target.startswith("nequip."):
        kind = "Allegro models are not supported" if "allegro" in target else "only models of nequip are supported"
        raise EquiError(f"model {target}: {kind}")
    if builder not in BUILDERS:
        raise EquiError(f"model {target}: {PACKAGE_IT}")
    return builder, options


def _averaged(state, network):
    """Replaces the weights by their moving averages, which are numbered in the order of the model's parameters."""
    extra = state.get("ema._extra_state")
    if isinstance(extra, dict) and not extra.get("is_holding_ema_weights", True):
        raise EquiError("the checkpoint was written while its weights and their averages were exchanged")
    names = {f"model.sole_model.model.func.{name}" for name, _ in network.named_parameters()}
    for n, name in enumerate(name for name in state if name in names):
        state[name] = state[f"ema.ema_weight_{n}"]


def _load_lightning(path):
    """The same for a checkpoint. Its options are those from which its modules were built; it has no tree (None)."""
    raw = torch_archive.read(path)
    info = raw["hyper_parameters"]["info_dict"]
    training = info["training_module"]
    builder, given = _model_options(training["model"].get("_target_", ""), training["model"])
    version = str(info["versions"].get("nequip", "unknown"))
    options = nequip_model.full_options(given, builder, version_numbers(version))
    options["r_max"] = float(options["r_max"])
    options["type_names"] = list(options["type_names"])
    options["per_edge_type_cutoff"] = nequip_model.full_cutoffs(options["per_edge_type_cutoff"], options["type_names"], options["r_max"])
    network, state = nequip_model.build(options), dict(raw["state_dict"])
    if training["_target_"].endswith(".EMALightningModule"):
        _averaged(state, network)
    elif not training["_target_"].endswith(".NequIPLightningModule"):
        raise EquiError(f"training module {training['_target_']}: {PACKAGE_IT}")
    prefix = "model.sole_model."
    tensors = {
        RENAMED.sub(".conv.tp_scatter.tp.", name.removeprefix(prefix)): tensor
        for name, tensor in state.items() if name.startswith(prefix) and tensor.size
    }  # fmt: skip
    # Only the options have the numbers of neighbors; their roots have the dtype of the model.
    neighbors = options["avg_num_neighbors"]
    if neighbors is None:
        raise EquiError("avg_num_neighbors: the checkpoint does not say it")
    neighbors = [neighbors[name] for name in options["type_names"]] if isinstance(neighbors, dict) else [neighbors]
    norms = np.array([[1 / sqrt(n)] for n in neighbors], given.get("model_dtype", "float32"))
    for t in range(len(options["feature_irreps_hidden"])):
        tensors[f"model.func.layer{t}_convnet.conv.avg_num_neighbors_norm.norm_const"] = norms
    return options, tensors, version, None


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
    config, raw, version, tree = LOADERS[kind](path)
    network = nequip_model.build(config)
    stages = dict(network.named_children())
    layers = [module for name, module in stages.items() if name.endswith("_convnet")]
    if tree is not None:
        _check_irreps(layers, convnets(tree))
    path_signs = path_signs_of(layers, raw, "model.func.", stored_there=kind != "checkpoint")
    return Checkpoint(
        source=source,
        path=path,
        version=version,
        kind=kind,
        type_names=config["type_names"],
        elements=elements_of(config["type_names"], types, config["pair_potential"]),
        config=config,
        state=_state(network, raw),
        path_signs=path_signs,
        stages=stages,
    )
