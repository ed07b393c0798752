# SPDX-License-Identifier: MIT
"""NequIP models of nequip 0.6 and older: deployed (TorchScript, `nequip-deploy build`), or as trained
(`best_model.pth` with the `config.yaml` of its training).

They differ from later ones in a one-hot encoding of the types, e3nn's radial networks, two matrices as readout and
factors for the whole model.
"""

import re
from pathlib import Path

import numpy as np

from ... import torch_archive, torch_modules
from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ...printable import printable
from ...yaml_options import yaml_options
from ..common.state import State
from .allegro_audit import OLD_ALLEGRO, is_allegro
from .contents import LegacyCheckpoint, elements_of
from .files import CONFIGURATION, FIRST, training_files
from .model import irreps_with_channels, layer_parts, linear, module, normalized, shape, species_product
from .modules import CONSTANT, path_signs_of

STAGES = {
    "one_hot": "OneHotAtomEncoding",
    "spharm_edges": "SphericalHarmonicEdgeAttrs",
    "radial_basis": "RadialBasisEdgeEncoding",
    "chemical_embedding": "AtomwiseLinear",
    "conv_to_output_hidden": "AtomwiseLinear",
    "output_hidden_to_scalar": "AtomwiseLinear",
    "per_species_rescale": "PerSpeciesScaleShift",
    "pair_potential": "ZBL",
    "total_energy_sum": "AtomwiseReduce",
}
OPTIONAL = ("per_species_rescale", "pair_potential")
OUTPUTS = ("StressOutput", "ForceOutput", "GradientOutput", "StressForceOutput")


def is_legacy(model):
    return any("radial_basis.basis" in name or ".conv.fc" in name for name, _ in model.named_modules())


def _unwrapped(model):
    """(energy model with its prefix, factor of the whole model) inside GraphModel, RescaleOutput and the forces."""
    module, prefix, factor = model, "", 1.0
    while module.class_name != "SequentialGraphNetwork":
        name, child = module.class_name, "func" if module.class_name in OUTPUTS else "model"
        if name == "RescaleOutput":
            if module.has_shift and float(module.shift_by) != 0.0:
                raise EquiError("global_rescale_shift: a shift of the total energy, whatever the atoms, is not supported")
            if module.has_scale:
                factor *= float(module.scale_by)
        elif name != "GraphModel" and name not in OUTPUTS:
            raise EquiError(f"module {name} is not supported")
        module, prefix = getattr(module, child), f"{prefix}{child}."
    return module, prefix, factor


def _audit(stages):
    for name, stage in stages.items():
        found = stage.class_name
        expected = "ConvNetLayer" if re.fullmatch(r"layer\d+_convnet", name) else STAGES.get(name)
        if found != expected:
            raise EquiError(f"module {name} ({found}) is not supported: it is not a part of NequIP's interatomic potential")
    missing = [name for name in STAGES if name not in stages and name not in OPTIONAL]
    if missing:
        raise EquiError(f"modules {', '.join(missing)} are missing: not a NequIP potential")
    order = list(stages)
    if set(OPTIONAL) <= set(order) and order.index("pair_potential") < order.index("per_species_rescale"):
        raise EquiError("pair_potential: a potential that is scaled per species is not supported")
    for name, stage in stages.items():
        if not name.endswith("_convnet"):
            continue
        if stage.resnet:
            raise EquiError(f"{name}: resnet: residual connections around a layer are not supported")
        for part, expected in ((stage.equivariant_nonlin, "Gate"), (stage.conv, "InteractionBlock")):
            if part.class_name != expected:
                raise EquiError(f"{name}: {part.class_name} is not supported, only {expected}")
    basis, cutoff = stages["radial_basis"].basis, stages["radial_basis"].cutoff
    for part, expected in ((basis, "BesselBasis"), (cutoff, "PolynomialCutoff")):
        if part.class_name != expected:
            raise EquiError(f"radial_basis: {part.class_name} is not supported, only {expected}")
    if abs(cutoff._factor * basis.r_max - 1) > 1e-9:
        raise EquiError("radial_basis: cutoff function and basis have different cutoffs")
    sphere = stages["spharm_edges"].sh
    if sphere.normalization != "component" or not sphere.normalize:
        raise EquiError("spharm_edges: only normalized harmonics with component normalization are supported")


def checkpoint_of(source, path, model, types):
    if is_allegro(model):
        raise EquiError(OLD_ALLEGRO)
    network, prefix, factor = _unwrapped(model)
    stages = dict(network.named_children())
    _audit(stages)
    raw = dict([*model.named_parameters(), *model.named_buffers()])
    type_names = torch_modules.extra_file(path, "type_names").split()
    version = torch_modules.extra_file(path, "nequip_version") or "unknown"
    return _checkpoint(source, path, "legacy", version, stages, raw, prefix, factor, type_names, types)


def _checkpoint(source, path, kind, version, stages, raw, prefix, factor, type_names, types):
    layers = [m for n, m in stages.items() if n.endswith("_convnet")]
    path_signs = path_signs_of(layers, raw, prefix)
    state = {name.removeprefix(prefix): t for name, t in raw.items() if name.startswith(prefix)}
    numbers = None
    if "pair_potential" in stages:
        from ase.data import chemical_symbols

        numbers = {"chemical_species": [chemical_symbols[int(z)] for z in state["pair_potential.atomic_numbers"]]}
    return LegacyCheckpoint(
        source=source,
        path=path,
        version=version,
        kind=kind,
        type_names=type_names,
        elements=elements_of(type_names, types, numbers),
        config={"r_max": float(stages["radial_basis"].basis.r_max), "per_edge_type_cutoff": None},
        state=state,
        path_signs=path_signs,
        stages=stages,
        scale_by=factor,
    )


# Builders that `model_builders` of a configuration may name: parts of the energy, builders that only choose or set
# numbers, and (by their ending) quantities that follow from the energy.
BUILDERS = ("SimpleIrrepsConfig", "EnergyModel", "PerSpeciesRescale", "RescaleEnergyEtc", "PairPotentialTerm")
INITIALIZERS = re.compile(r"(initialize_from_state|load_model_state|\w*_initialize_\w+|\w*_init)$")
OUTPUT = re.compile(r"[A-Z]\w*Output$")
# Options of the energy model with the defaults of both versions; other names of the same options are refused.
DEFAULTS = {
    "num_layers": 3, "num_basis": 8, "invariant_layers": 1, "invariant_neurons": 8, "use_sc": True, "resnet": False,
    "nonlinearity_type": "gate", "PolynomialCutoff_p": 6, "edge_sh_normalization": "component", "edge_sh_normalize": True,
    "pair_style": "ZBL",
}  # fmt: skip
# Options for which the converter's layers represent only these values.
FIXED = {
    "resnet": False, "nonlinearity_type": "gate", "edge_sh_normalization": "component", "edge_sh_normalize": True, "pair_style": "ZBL",
}  # fmt: skip
# Defaults of nequip 0.6; nequip 0.5 had others.
NONLINEARITIES = {"nonlinearity_scalars": {"e": "silu", "o": "tanh"}, "nonlinearity_gates": {"e": "silu", "o": "tanh"}}
OLD_NONLINEARITIES = {"nonlinearity_scalars": {"e": "ssp", "o": "tanh"}, "nonlinearity_gates": {"e": "ssp", "o": "abs"}}
# Options that would name other modules than nequip's own.
MODULES = ("basis", "cutoff", "convolution")


def _options(config):
    """The options of the energy model, completed; refuses those that would change it in an unknown way."""
    builders = config.get("model_builders")
    if not isinstance(builders, list):
        raise EquiError("model_builders: the configuration does not list them")
    for name in builders:
        if not isinstance(name, str) or name not in BUILDERS and not INITIALIZERS.match(name) and not OUTPUT.match(name):
            if "llegro" in str(name):
                raise EquiError(OLD_ALLEGRO)
            raise EquiError(f"model_builders: {printable(str(name), 60)} is not supported")
    if "EnergyModel" not in builders:
        raise EquiError("model_builders: only those with an EnergyModel are supported")
    known = {*DEFAULTS, *NONLINEARITIES, "r_max", "avg_num_neighbors", "p"}
    for key in config:
        # Names of options of only one module begin with the module's name.
        is_own = key not in known and any(key.endswith(f"_{name}") for name in known | set(MODULES))
        if is_own and not key.startswith(("dataset_", "validation_dataset_")) or key in MODULES:
            raise EquiError(f"{key}: options of a single module are not supported")
    old = {"PolynomialCutoff_p": config["p"]} if "p" in config else {}
    options = DEFAULTS | old | {key: value for key, value in config.items() if key in known}
    for key, least in (("num_layers", 1), ("num_basis", 1), ("invariant_layers", 0), ("invariant_neurons", 1)):
        if type(options[key]) is not int or not least <= options[key] <= 4096:
            raise EquiError(f"{key}: expected a whole number from {least} on, found {printable(str(options[key]), 60)}")
    for key in ("r_max", "PolynomialCutoff_p"):
        if type(options.get(key)) not in (int, float) or not 0 < options[key] < 1e6:
            raise EquiError(f"{key}: expected a positive number, found {printable(str(options.get(key)), 60)}")
    for key, expected in FIXED.items():
        if options[key] != expected:
            raise EquiError(f"{key}: {printable(str(options[key]), 60)} is not supported, only {expected}")
    neighbors = options.setdefault("avg_num_neighbors", None)
    if neighbors is not None and (type(neighbors) not in (int, float) or not neighbors > 0):
        raise EquiError(
            f"avg_num_neighbors: '{printable(str(neighbors), 60)}' is not a number: take the {CONFIGURATION} that the "
            "training wrote, which has it"
        )
    return options, builders


def _irreps(config):
    """(embedding, edge, hidden, readout) irreps; nequip states them, or derives them from a few numbers."""
    if {"l_max", "num_features", "parity"} <= config.keys() and "SimpleIrrepsConfig" in config["model_builders"]:
        l_max, channels, parity = config["l_max"], config["num_features"], config["parity"]
        if type(l_max) is not int or type(channels) is not int or not 0 <= l_max <= 16 or channels < 1:
            raise EquiError("l_max, num_features: expected whole numbers")
        hidden = Irreps((channels, (l, p)) for p in ((1, -1) if parity else (1,)) for l in range(l_max + 1))
        edge = Irreps((1, (l, (-1) ** l if parity else 1)) for l in range(l_max + 1))
        made = Irreps([(channels, SCALAR)]), edge, hidden, Irreps([(max(1, channels // 2), SCALAR)])
    else:
        made = (None,) * 4
    found = []
    for key, default in zip(
        ("chemical_embedding_irreps_out", "irreps_edge_sh", "feature_irreps_hidden", "conv_to_output_hidden_irreps_out"), made
    ):
        value = config.get(key, default)
        if value is None:
            raise EquiError(f"{key}: the configuration does not say it")
        found.append(Irreps.spherical_harmonics(value) if type(value) is int else Irreps(str(value)))
    return found


def _type_names(config):
    from ase.data import atomic_numbers

    names = config.get("type_names")
    symbols = config.get("chemical_symbols")
    if names is None and isinstance(symbols, list) and all(s in atomic_numbers for s in symbols):
        names = sorted(symbols, key=atomic_numbers.get)
    if names is None and isinstance(config.get("chemical_symbol_to_type"), dict):
        names = sorted(config["chemical_symbol_to_type"], key=config["chemical_symbol_to_type"].get)
    if not isinstance(names, list) or not names:
        raise EquiError("type_names: the configuration names no types")
    return [str(name) for name in names]


def _built(config, version):
    """(modules of the energy model by name, names of types), as nequip 0.5 and 0.6 build them from a configuration."""
    options, builders = _options(config)
    embedding, edge, hidden, readout = _irreps(config)
    types = _type_names(config)
    defaults = OLD_NONLINEARITIES if version == "0.5" else NONLINEARITIES
    activations = [options.get(key, defaults[key]) for key in NONLINEARITIES]
    if any(not isinstance(names, dict) or {"e", "o"} - names.keys() for names in activations):
        raise EquiError("nonlinearity_scalars, nonlinearity_gates: expected the names of activations for e and o")
    r_max, one_hot = float(options["r_max"]), Irreps([(len(types), SCALAR)])
    basis = module("BesselBasis", {"bessel_weights": shape(options["num_basis"])}, r_max=r_max, prefactor=2.0 / r_max)
    cutoff = module("PolynomialCutoff", p=float(options["PolynomialCutoff_p"]), _factor=1.0 / r_max)
    stages = {
        "one_hot": module("OneHotAtomEncoding"),
        "spharm_edges": module(
            "SphericalHarmonicEdgeAttrs",
            children={"sh": module("SphericalHarmonics", irreps_out=edge, normalization="component", normalize=True)},
        ),
        "radial_basis": module("RadialBasisEdgeEncoding", children={"basis": basis, "cutoff": cutoff}),
        "chemical_embedding": module("AtomwiseLinear", children={"linear": linear(one_hot, embedding)}),
    }
    irreps = embedding
    for t in range(options["num_layers"]):
        stages[f"layer{t}_convnet"] = _convnet(options, activations, irreps, edge, irreps_with_channels(hidden), len(types))
        irreps = stages[f"layer{t}_convnet"].equivariant_nonlin.irreps_out
    stages["conv_to_output_hidden"] = module("AtomwiseLinear", children={"linear": linear(irreps, readout)})
    stages["output_hidden_to_scalar"] = module("AtomwiseLinear", children={"linear": linear(readout, Irreps("1x0e"))})
    for builder in builders:
        if builder == "PerSpeciesRescale":
            stages["per_species_rescale"] = module("PerSpeciesScaleShift")
        elif builder == "PairPotentialTerm":
            buffers = {"atomic_numbers": shape(len(types)), "_qqr2exesquare": shape()}
            stages["pair_potential"] = module("ZBL", buffers=buffers)
    stages["total_energy_sum"] = module("AtomwiseReduce")
    return stages, types


def _convnet(options, activations, irreps_in, edge, hidden, num_types):
    gate, product, weights = layer_parts(hidden, activations, irreps_in, edge)
    name = activations[0]["e"]
    if name not in ("silu", "ssp"):
        raise EquiError(f"nonlinearity_scalars: '{printable(str(name), 60)}' in radial networks is not supported, only silu and ssp")
    sizes = [options["num_basis"], *[options["invariant_neurons"]] * options["invariant_layers"], weights]
    layers = {}
    for n, size in enumerate(zip(sizes, sizes[1:])):
        layers[f"layer{n}"] = module("_Layer", {"weight": shape(*size)}, children={"act": normalized(name)})
    children = {
        "linear_1": linear(irreps_in, irreps_in), "fc": module("FullyConnectedNet", children=layers), "tp": product,
        "linear_2": linear(product.irreps_out.simplify(), gate.irreps_in),
    }  # fmt: skip
    if options["use_sc"]:
        children["sc"] = species_product(irreps_in, num_types, gate.irreps_in)
    conv = module("InteractionBlock", children=children, use_sc=bool(options["use_sc"]), avg_num_neighbors=options["avg_num_neighbors"])
    return module("ConvNetLayer", children={"equivariant_nonlin": gate, "conv": conv}, resnet=False, feature_irreps_hidden=hidden)


def _check_numbers(stages, state):
    """Refuses numbers whose shapes differ from those of the modules, and numbers that no module has."""
    expected = {}
    for stage, found in stages.items():
        for name, tensor in [*found.named_parameters(), *found.named_buffers()]:
            expected[f"{stage}.{name}"] = tensor.shape
    for key in ("scales", "shifts"):
        name = f"per_species_rescale.{key}"
        if state.get(name, np.zeros(0)).size:
            width = Irreps(stages["chemical_embedding"].linear.irreps_out).dim
            expected[name] = (len(state["chemical_embedding.linear.weight"]) // width,)
    State(state, f"the model that {CONFIGURATION} describes").fitted(expected, CONSTANT.search)


def load_training(source, types):
    """The model of a training by nequip 0.5 or 0.6, from one of training_files()."""
    path, configuration = training_files(Path(source))
    if not path.is_file():
        raise EquiError(f"no {path.name} next to {CONFIGURATION}: it has the weights of the model")
    if not configuration.is_file():
        raise EquiError(
            f"weights of nequip 0.6 or older, which do not say what they belong to: put the {CONFIGURATION} of the "
            "training next to the file, "
            "or run nequip-deploy of that version on the training and give the deployed .pth"
        )
    config = yaml_options(configuration)
    raw = torch_archive.read(path)
    if not isinstance(raw, dict) or not all(isinstance(tensor, np.ndarray) for tensor in raw.values()):
        raise EquiError("it is not a dictionary of tensors")
    prefix = next((name.removesuffix(FIRST) for name in raw if name.endswith(FIRST)), None)
    if prefix is None:
        raise EquiError(f"tensor {FIRST} is missing")
    builders = config.get("model_builders") or []
    # Since 0.6 the whole model is a module inside another one, GraphModel.
    depth = ("RescaleEnergyEtc" in builders) + any(OUTPUT.match(str(name)) is not None for name in builders)
    version = "0.6" if prefix.count(".") > depth else "0.5"
    stages, type_names = _built(config, version)
    _audit(stages)
    factor = 1.0
    for name, tensor in raw.items():
        if name.startswith(prefix) or not tensor.size:
            continue
        if name.rsplit(".", 1)[-1] == "shift_by" and float(tensor) != 0.0:
            raise EquiError("global_rescale_shift: a shift of the total energy, whatever the atoms, is not supported")
        if name.rsplit(".", 1)[-1] not in ("shift_by", "scale_by"):
            raise EquiError(f"tensor {name} is not a part of the model that {CONFIGURATION} describes")
        if name.endswith("scale_by"):
            factor *= float(tensor)
    version = str(config.get("nequip_version", f"{version} (or a neighboring version)"))
    _check_numbers(stages, {name.removeprefix(prefix): tensor for name, tensor in raw.items() if name.startswith(prefix)})
    return _checkpoint(source, path, "training", version, stages, raw, prefix, factor, type_names, types)
