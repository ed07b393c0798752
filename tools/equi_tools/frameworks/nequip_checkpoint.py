# SPDX-License-Identifier: MIT
"""Reads NequIP models (package nequip 0.7 and newer) into one canonical form.

A model comes as a package (.nequip.zip), as a Lightning checkpoint (.ckpt) or as TorchScript (.nequip.pth).  All three
hold the same tree of modules.  `load` audits this tree (every module is known, or the model is refused by name), reads
its options, builds the installed nequip's own modules from them and keeps the numbers beside it.  At the end it asks the
model of the file and the one built anew for the same forces.
"""

import contextlib
import hashlib
import pickletools
import re
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import EquiError
from .e3nn_layers import sign_of_coupling

ACTIVATIONS = ("silu", "tanh", "abs", "ssp")
# Names of activations in MLPs: class of the module -> name in .equi files.
MLP_ACTIVATIONS = {"SiLU": "silu", "Tanh": "tanh", "Sigmoid": "sigmoid", "ShiftedSoftplus": "ssp"}

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
# Buffers that are constants of the architecture; couplings are checked for their sign.
CONSTANT = r"(^|\.)(output_mask|_empty|alpha|_tensor_constant\d+|_w3j_\d+_\d+_\d+)$"


@dataclass
class Checkpoint:
    source: str  # as the user named it
    path: Path
    sha256: str
    license: str
    citation: str
    version: str  # of the nequip that wrote it
    kind: str  # package, checkpoint or torchscript
    type_names: list  # of the model
    elements: list  # chemical symbols by species index
    config: dict  # options of nequip's FullNequIPGNNModel
    state: dict  # name -> tensor in the trainer's dtype
    path_signs: list  # per layer: list of +1 or -1 per path in nequip's order, stored coupling against ours
    original: object  # the file's own modules, as its users run them
    model: object  # nequip's modules in float64 with the numbers of the file and exact couplings of our signs

    framework = "nequip"
    modalities = {}

    @property
    def cutoff(self):
        return self.config["r_max"]

    @property
    def num_layers(self):
        return len(self.config["feature_irreps_hidden"])

    def modality_index(self, name):
        if name is not None:
            raise EquiError(f"{self.source} has no modalities: leave out '--modality {name}'")


def import_nequip():
    """The package, with its import noise silenced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import nequip
            import nequip.model  # noqa: F401
        except ImportError as error:
            raise EquiError(f"NequIP sources need the package nequip: pip install nequip ({error})") from error
    return nequip


@contextlib.contextmanager
def nequip_state():
    """nequip asks for global settings of torch and e3nn; they hold inside this context only."""
    import random

    import e3nn
    import torch

    import_nequip()
    from nequip.utils.global_state import set_global_state

    dtype, defaults = torch.get_default_dtype(), e3nn.get_optimization_defaults()
    seeds = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            set_global_state()
            # Its second call leaves these as it finds them.
            torch.set_default_dtype(torch.float64)
            e3nn.set_optimization_defaults(specialized_code=True, optimize_einsums=True, jit_mode="eager")
            yield
    finally:
        torch.set_default_dtype(dtype)
        e3nn.set_optimization_defaults(**defaults)
        random.setstate(seeds[0])
        np.random.set_state(seeds[1])
        torch.set_rng_state(seeds[2])


def detect(path):
    """Kind of a NequIP (or Allegro) file: package, checkpoint, torchscript, weights (of nequip 0.6 and older),
    aotinductor; None for others. Runs nothing."""
    path = Path(path)
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        names = [name.split("/", 1)[1] for name in archive.namelist() if "/" in name]
        top = {name.split("/", 1)[0] for name in archive.namelist()}
        if "model/package_metadata.txt" in names and ".data/extern_modules" in names:
            return "package"
        if any("aotinductor" in name for name in names):
            texts = (archive.read(n) for n in archive.namelist() if n.endswith("metadata.json"))
            return "aotinductor" if any(b"r_max" in t and b"type_names" in t for t in texts) else None
        if {"extra/r_max", "extra/type_names"} <= set(names):
            return "torchscript"
        if len(top) == 1 and "data.pkl" in names and "constants.pkl" not in names:
            words = _pickle_strings(archive.read(f"{next(iter(top))}/data.pkl"))
            if {"pytorch-lightning_version", "hyper_parameters", "info_dict"} <= words:
                if any(word.startswith(("nequip.", "allegro.")) for word in words):
                    return "checkpoint"
            if any(word.endswith("radial_basis.basis.bessel_weights") for word in words):
                return "weights"
    return None


def _pickle_strings(data):
    """Strings in a pickle, read without running it."""
    return {argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)}


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def class_name(module):
    return getattr(module, "original_name", type(module).__name__)


def energy_model(model):
    """Children of the energy model (name -> module) of a GraphModel."""
    return dict(model.model.func.named_children())


def convnets(model):
    return [module for name, module in energy_model(model).items() if name.endswith("_convnet")]


def norm_constants(conv):
    """1/sqrt(number of neighbors) of a convolution, one or one per type; nequip 0.7 to 0.16 kept a number or None."""
    import torch

    if hasattr(conv, "avg_num_neighbors_norm"):
        return conv.avg_num_neighbors_norm.norm_const.detach().reshape(-1, 1)
    if hasattr(conv, "scatter_norm_factor"):
        factor = conv.scatter_norm_factor
    else:
        factor = None if conv.avg_num_neighbors is None else float(conv.avg_num_neighbors) ** -0.5
    return torch.tensor([[1.0 if factor is None else float(factor)]], dtype=torch.float64)


def mlp_layers(mlp):
    """([linear or its stand-in], [activation class]) of a ScalarMLPFunction; linears have weight and alpha."""
    if class_name(mlp.mlp) != "Sequential":
        raise EquiError(f"module {class_name(mlp.mlp)} is not supported")
    children = [module for _, module in mlp.mlp.named_children()]
    linears = [m for m in children if class_name(m) == "ScalarLinearLayer"]
    return linears, [class_name(m) for m in children if class_name(m) != "ScalarLinearLayer"]


def tensor_product(conv):
    """The product of features and harmonics of a convolution; nequip 0.7 and older kept it without its sum."""
    return conv.tp_scatter.tp if hasattr(conv, "tp_scatter") else conv.tp


def last_matrix(mlp):
    """Last matrix of a ScalarMLPFunction, also of one without activations."""
    return [p for _, p in mlp.named_parameters()][-1]


def irreps_of(stored):
    """e3nn's Irreps of this process from those of a package or of TorchScript."""
    from e3nn.o3 import Irreps

    return Irreps([(int(mul), (int(ir[0]), int(ir[1]))) for mul, ir in stored])


def activation_of(function):
    """(name, constant) of an activation, found by its values: TorchScript and packages keep no name."""
    import torch

    from nequip.nn.nonlinearities import shifted_softplus

    functions = {"silu": torch.nn.functional.silu, "tanh": torch.tanh, "abs": torch.abs, "ssp": shifted_softplus}
    x = torch.tensor([-2.3, -0.7, 0.4, 1.9], dtype=torch.float64)
    with torch.no_grad():
        y = function(x)
    for name in ACTIVATIONS:
        ratio = y / functions[name](x)
        if torch.all(torch.isfinite(ratio)) and ratio.max() - ratio.min() < 1e-5:
            return name, float(ratio.mean())
    raise EquiError("an activation of a gate is none of " + ", ".join(ACTIVATIONS))


class _Audit:
    """Options of the builder, read from a tree of modules; refuses what is not known."""

    def __init__(self, model):
        top = class_name(model)
        if top != "GraphModel":
            raise EquiError(f"module {top} is not supported, only GraphModel")
        output = model.model
        if class_name(output) != "ForceStressOutput" or class_name(output.func) != "SequentialGraphNetwork":
            raise EquiError(f"module {class_name(output)} is not supported, only ForceStressOutput")
        self.stages = energy_model(model)
        self.model = model
        self.type_names = list(model.type_names)
        for name, module in self.stages.items():
            expected = "ConvNetLayer" if re.fullmatch(r"layer\d+_convnet", name) else STAGES.get(name)
            found = class_name(module)
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
            "irreps_edge_sh": str(irreps_of(sphere.irreps_out)),
            "type_embed_num_features": int(embed.embed_module.weight.shape[1]),
            "num_bessels": int(bessel.bessel_weights.numel()),
            "polynomial_cutoff_p": self.power(bessel.cutoff),
            "per_edge_type_cutoff": self.cutoffs(type_names),
            "feature_irreps_hidden": [],
            "radial_mlp_depth": [],
            "radial_mlp_width": [],
        }
        if config["irreps_edge_sh"] != str(_spherical(sphere.irreps_out)):
            raise EquiError(f"irreps_edge_sh: {config['irreps_edge_sh']} is not supported, only 1x0e+1x1o+1x2e+...")
        self.convnets(config)
        self.readout(config)
        scale_shift = self.stages["per_type_energy_scale_shift"]
        for option, attribute in (("per_type_energy_scales", "scales"), ("per_type_energy_shifts", "shifts")):
            values = getattr(scale_shift, attribute).detach().reshape(-1).tolist()
            if values:
                config[option] = dict(zip(type_names, values)) if len(values) > 1 else values[0]
        if "pair_potential" in self.stages:
            config["pair_potential"] = self.zbl()
        return config

    @staticmethod
    def power(cutoff):
        if class_name(cutoff) != "PolynomialCutoff":
            raise EquiError(f"cutoff function {class_name(cutoff)} is not supported, only PolynomialCutoff")
        return float(cutoff.p)

    def cutoffs(self, type_names):
        edge_norm = self.stages["edge_norm"]
        if not edge_norm._per_edge_type:
            return None
        n = len(type_names)
        values = np.minimum(1 / edge_norm._rmax_recip.double().numpy().reshape(n, n), float(edge_norm.r_max))
        return {a: {b: float(values[i, j]) for j, b in enumerate(type_names)} for i, a in enumerate(type_names)}

    def convnets(self, config):
        use_sc, resnet = [], []
        activations = {}
        for t, layer in enumerate(self.layers):
            where, conv, gate = f"layer{t}_convnet", layer.conv, layer.equivariant_nonlin
            if class_name(gate) != "Gate":
                raise EquiError(f"{where}: nonlinearity {class_name(gate)} is not supported, only Gate")
            if class_name(conv) != "InteractionBlock":
                raise EquiError(f"{where}: convolution {class_name(conv)} is not supported, only InteractionBlock")
            scalars, gated = irreps_of(gate.irreps_scalars), irreps_of(gate.irreps_gated)
            gates = irreps_of(gate.irreps_gates)
            config["feature_irreps_hidden"].append(str(scalars + gated))
            for kind, irreps, acts in (("scalars", scalars, gate.act_scalars), ("gates", gates, gate.act_gates)):
                functions = [f for _, f in acts.acts.named_children()] if len(irreps) else []
                # nequip chooses the activation of a gate by the parity of the gated block's gate.
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
        # Any numbers of the right shape: the norms themselves are part of the state.
        per_type = norm_constants(self.layers[0].conv).numel() > 1
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
        if class_name(mlp.mlp) == "DeepLinearMLP":
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
        if abs(float(module._qqr2exesquare) - 0.5 * 14.399645) > 1e-6:
            raise EquiError("pair_potential: ZBL in other units than 'metal' is not supported")
        return {
            "_target_": "nequip.nn.pair_potential.ZBL",
            "units": "metal",
            "chemical_species": [chemical_symbols[int(z)] for z in module.atomic_numbers],
            # Before nequip 0.17 the pair potential had no cutoff function of its own.
            "polynomial_cutoff_p": self.power((module if hasattr(module, "cutoff") else self.stages["bessel_encode"]).cutoff),
        }


def _spherical(irreps):
    from e3nn.o3 import Irreps

    return Irreps.spherical_harmonics(irreps_of(irreps).lmax)


def _build(config):
    """nequip's modules in float64 for these options, with numbers still to be filled in."""
    with nequip_state():
        from nequip.model.nequip_models import FullNequIPGNNModel

        return FullNequIPGNNModel(seed=0, model_dtype="float64", **config)


def _named(model):
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _numbers(original):
    """Parameters and buffers of the file under today's names."""
    found = {}
    for name, tensor in _named(original).items():
        if tensor.numel():
            found[re.sub(r"\.conv\.tp\.", ".conv.tp_scatter.tp.", name)] = tensor.detach().cpu()
    for t, layer in enumerate(convnets(original)):
        found[f"model.func.layer{t}_convnet.conv.avg_num_neighbors_norm.norm_const"] = norm_constants(layer.conv)
    for name in ("scales", "shifts"):
        name = f"model.func.per_type_energy_scale_shift.{name}"
        if name in found:
            found[name] = found[name].reshape(-1, 1)
    return found


def _state(model, raw):
    """Numbers of the file for every parameter and buffer of the model; all of them find their place."""
    state = {}
    for name, tensor in _named(model).items():
        if re.search(CONSTANT, name) or tensor.numel() == 0:
            continue
        if name not in raw:
            raise EquiError(f"tensor {name} is missing")
        if raw[name].shape != tensor.shape:
            raise EquiError(f"tensor {name} has shape {tuple(raw[name].shape)}, expected {tuple(tensor.shape)}")
        state[name] = raw[name].clone()
    unknown = [name for name in raw if name not in state and not re.search(CONSTANT, name)]
    if unknown:
        raise EquiError(f"tensor {unknown[0]} is not a part of the model that its modules describe")
    return state


def _fill(model, state, path_signs):
    """Puts the numbers of the file into the modules; a path trained with the other coupling has its sign on its weights."""
    import torch

    with torch.no_grad():
        for name, tensor in _named(model).items():
            if name in state:
                tensor.copy_(state[name])
        for layer, signs in zip(convnets(model), path_signs):
            product = tensor_product(layer.conv)
            mul = [product.irreps_in1[path[0]].mul for path in product.instructions]
            columns = np.repeat(np.array(signs, float), mul)
            last_matrix(layer.conv.edge_mlp).mul_(torch.from_numpy(columns))
    return model.eval()


def path_signs_of(layers, raw, prefix):
    """Per layer the signs of the couplings stored in `raw` against ours, in the order of the framework's paths."""
    signs = []
    for t, layer in enumerate(layers):
        product, own = tensor_product(layer.conv), []
        irreps = [irreps_of(i) for i in (product.irreps_in1, product.irreps_in2, product.irreps_out)]
        for path in product.instructions:
            ls = [blocks[i].ir.l for blocks, i in zip(irreps, path)]
            begin, end = f"{prefix}layer{t}_convnet.conv.", "_w3j_{}_{}_{}".format(*ls)
            stored = [b for n, b in raw.items() if n.startswith(begin) and n.endswith(end)]
            # Couplings with l = 0 are written out by e3nn and have one sign.
            special = 0 in ls or not stored
            own.append(1 if special else sign_of_coupling(stored[0], *ls, f"layer{t}_convnet"))
        signs.append(own)
    return signs


def elements_of(type_names, types, zbl):
    """Chemical symbol of each type: by `types`, by its name, or by the pair potential's species."""
    from ase.data import chemical_symbols

    types = dict(types or {})
    unknown = [name for name in types if name not in type_names]
    if unknown:
        raise EquiError(f"--types: no type {', '.join(unknown)} in the model, only {', '.join(type_names)}")
    elements = []
    for n, name in enumerate(type_names):
        symbol = types.get(name, name)
        if symbol not in chemical_symbols[1:] and name not in types and zbl:
            symbol = zbl["chemical_species"][n]
        if symbol not in chemical_symbols[1:]:
            if name in types:
                raise EquiError(f"--types: {symbol} is not a chemical symbol")
            raise EquiError(f"type {name} is not a chemical symbol: say what it stands for with --types {name}=ELEMENT")
        elements.append(symbol)
    twice = sorted({e for e in elements if elements.count(e) > 1})
    if twice:
        names = [n for n, e in zip(type_names, elements) if e == twice[0]]
        raise EquiError(f"types {', '.join(names)} all stand for {twice[0]}: one type per element is supported")
    return elements


def _load_package(path):
    import torch
    import yaml

    with nequip_state():
        from nequip.model.saved_models.package import ModelFromPackage

        metadata = yaml.safe_load(torch.package.PackageImporter(str(path)).load_text("model", "package_metadata.txt"))
        version = str(metadata.get("versions", {}).get("nequip", "unknown"))
        return _sole(ModelFromPackage(str(path))), version


def _load_lightning(path):
    import torch

    with nequip_state():
        from nequip.model.modify_utils import only_apply_persistent_modifiers
        from nequip.model.saved_models.checkpoint import ModelFromCheckpoint

        raw = torch.load(path, map_location="cpu", weights_only=False)
        info = raw["hyper_parameters"]["info_dict"]
        target = info["training_module"]["model"].get("_target_", "")
        if not target.startswith("nequip."):
            kind = "Allegro models are not supported" if "allegro" in target else "only models of nequip are supported"
            raise EquiError(f"model {target}: {kind}")
        with only_apply_persistent_modifiers(persistent_only=True):
            model = ModelFromCheckpoint(str(path))
        return _sole(model), str(info["versions"].get("nequip", "unknown"))


def _load_torchscript(path):
    import torch

    extra = {"nequip_version": "", "config": ""}
    model = torch.jit.load(str(path), _extra_files=extra, map_location="cpu")
    return model, extra["nequip_version"].decode() if extra["nequip_version"] else "unknown"


LOADERS = {"package": _load_package, "checkpoint": _load_lightning, "torchscript": _load_torchscript}


def _sole(models):
    """The model of a dictionary of models."""
    if len(models) != 1:
        raise EquiError(f"holds {len(models)} models ({', '.join(models)}): only files with one are supported")
    return next(iter(models.values()))


def load(source, types=None):
    """The model behind a file; types: dict from its type names to chemical symbols, where these are none."""
    nequip = import_nequip()
    path = Path(source)
    if not path.is_file():
        raise EquiError(f"{source} is not a file")
    kind = detect(path)
    if kind == "aotinductor" or path.name.endswith(".pt2"):
        raise EquiError(
            f"{source} is compiled by AOTInductor (.nequip.pt2): its architecture cannot be read back; "
            "give the package (.nequip.zip) or the checkpoint (.ckpt) that it was compiled from"
        )
    if kind == "weights":
        raise EquiError(
            f"{source} holds the weights of nequip 0.6 or older without their model: "
            "run nequip-deploy of that version on its training and give the deployed .pth"
        )
    if kind is None:
        raise EquiError(f"{source} is neither a NequIP package, a NequIP checkpoint nor a deployed NequIP model")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            original, version = LOADERS[kind](path)
        original.eval()
    except EquiError as error:
        raise EquiError(f"{source}: {error}") from error
    except Exception as error:
        raise EquiError(
            f"{source}: nequip {nequip.__version__} cannot read it: {type(error).__name__}: {str(error).splitlines()[0]}"
        ) from error
    try:
        if kind == "torchscript":
            from . import nequip_legacy

            if nequip_legacy.is_legacy(original):
                return nequip_legacy.checkpoint_of(source, path, version, original, types)
        return _audited(source, path, kind, version, original, types)
    except EquiError as error:
        raise EquiError(f"{source}: {error}") from error


def _audited(source, path, kind, version, original, types):
    with nequip_state():
        config = _Audit(original).options()
    model = _build(config)
    raw = _numbers(original)
    state, path_signs = _state(model, raw), path_signs_of(convnets(model), raw, "model.func.")
    return Checkpoint(
        source=str(source),
        path=path,
        sha256=digest(path),
        license="unknown",
        citation="unknown",
        version=version,
        kind=kind,
        type_names=config["type_names"],
        elements=elements_of(config["type_names"], types, config.get("pair_potential")),
        config=config,
        state=state,
        path_signs=path_signs,
        original=original,
        model=_fill(model, state, path_signs),
    )
