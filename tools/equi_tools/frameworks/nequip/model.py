# SPDX-License-Identifier: MIT
"""The modules that nequip builds from the options of its model, as torch_modules.Module: irreps, paths and shapes of
numbers.

Follows nequip's builders NequIPGNNModel, PresetNequIPGNNModel and FullNequIPGNNModel of the versions 0.7 to 0.19, with
today's names of their modules. Parameters and buffers have the right shapes; the file provides their numbers.
"""

from math import prod, sqrt

import numpy as np

from ...errors import EquiError
from ...irreps import SCALAR, Irrep, Irreps, gate_input
from ...torch_archive import Name
from ...torch_modules import Module
from ..common.e3nn_layers import ACTIVATION_CONSTANTS

PRESETS = {
    "S": {"num_layers": 2, "l_max": 1, "num_features": [128, 64]},
    "M": {"num_layers": 4, "l_max": 2, "num_features": [128, 64, 32]},
    "L": {"num_layers": 6, "l_max": 3, "num_features": [128, 64, 32, 32]},
    "XL": {"num_layers": 6, "l_max": 4, "num_features": [320, 96, 64, 32, 32]},
}
PRESET = {"parity": False, "type_embed_num_features": 32, "radial_mlp_depth": 1, "radial_mlp_width": 128}
SIMPLE = {
    "num_layers": 4, "l_max": 1, "parity": True, "num_features": 32, "type_embed_num_features": None, "radial_mlp_depth": 1,
    "radial_mlp_width": 128,
}  # fmt: skip
# Versions below these differed: other defaults, other orders of irreps, no separate cutoff function of the pair
# potential.
OLD_RADIAL = (0, 17), {"radial_mlp_depth": 2, "radial_mlp_width": 64}
OLD_IRREPS = OLD_NEIGHBORS = (0, 16)
OLD_PAIR_CUTOFF = (0, 17)
# Options of the full builder that have a default.
FULL = {
    "categorical_graph_field_embed": None, "readout_mlp_hidden_layers_depth": 0, "readout_mlp_hidden_layers_width": None,
    "readout_mlp_nonlinearity": "silu", "per_edge_type_cutoff": None, "num_bessels": 8, "bessel_trainable": False,
    "polynomial_cutoff_p": 6, "avg_num_neighbors": None, "per_type_energy_scales": None, "per_type_energy_shifts": None,
    "per_type_energy_scales_trainable": False, "per_type_energy_shifts_trainable": False, "pair_potential": None,
    "convnet_sc": True, "learnable_shift": False, "convnet_resnet": False, "convnet_nonlinearity_type": "gate",
    "convnet_nonlinearity_scalars": {"e": "silu", "o": "tanh"}, "convnet_nonlinearity_gates": {"e": "silu", "o": "tanh"},
}  # fmt: skip
NEEDED = (
    "r_max", "type_names", "radial_mlp_depth", "radial_mlp_width", "feature_irreps_hidden", "irreps_edge_sh",
    "type_embed_num_features",
)  # fmt: skip
WITHOUT_EFFECT = ("seed", "model_dtype", "compile_mode", "do_derivatives")
# Names of activations in MLPs: class of the module -> name in .equi files.
MLP_ACTIVATIONS = {
    "SiLU": "silu", "Mish": "mish", "GELU": "gelu", "Tanh": "tanh", "Sigmoid": "sigmoid", "ShiftedSoftplus": "ssp",
    "Identity": "identity",
}  # fmt: skip
# nequip's names of nonlinearities -> class of the module, or None. The text "None" is not None: the scales of matrices
# are then those of a network with activations.
NONLINEARITIES = {name: kind for kind, name in MLP_ACTIVATIONS.items() if name != "identity"} | {
    None: None, "None": "Identity", "null": "Identity"
}  # fmt: skip
# Even and odd functions; a scalar of odd parity allows only the odd ones.
PARITY_OF = {"abs": 1, "tanh": -1}
# Couplings of src/algebra/coupling.h are exact up to this degree.
LMAX_SUPPORTED = 8
ZBL = "nequip.nn.pair_potential.ZBL"
# nequip's names of units of ZBL: (unit of energies, half of the square of an elementary charge in it and Angstrom, by nequip's digits).
ZBL_UNITS = {"metal": ("eV", 0.5 * 14.399645), "real": ("kcal/mol", 0.5 * 332.06371)}


def complete(options, builder, defaults, needed):
    """The options of a builder with its defaults; EquiError names one that is unknown, or is needed and missing."""
    unknown = [key for key in options if key not in defaults and key not in needed]
    if unknown:
        raise EquiError(f"option {unknown[0]} of {builder} is not known")
    missing = [key for key in needed if key not in options]
    if missing:
        raise EquiError(f"option {missing[0]} of {builder} is missing")
    return defaults | options


def full_options(options, builder, version):
    """The options of the full builder for those of one of the builders of a version (two numbers), defaults included;
    EquiError names an unknown option."""
    options = {key: value for key, value in options.items() if key != "_target_" and key not in WITHOUT_EFFECT}
    if builder == "PresetNequIPGNNModel":
        preset = str(options.pop("preset", "")).upper()
        if preset not in PRESETS:
            raise EquiError(f"preset: '{preset}' is not known, only {', '.join(PRESETS)}")
        options = PRESET | PRESETS[preset] | options
    if builder != "FullNequIPGNNModel":
        defaults = SIMPLE | (OLD_RADIAL[1] if version < OLD_RADIAL[0] else {})
        simple = defaults | {key: options.pop(key) for key in SIMPLE if key in options}
        options = (_old_full if version < OLD_IRREPS else _full)(simple) | options
    options = complete(options, builder, FULL, NEEDED)
    if version < OLD_NEIGHBORS and options["avg_num_neighbors"] is None:
        options["avg_num_neighbors"] = 1.0
    if version < OLD_PAIR_CUTOFF and options["pair_potential"] is not None:
        options["pair_potential"] = options["pair_potential"] | {"polynomial_cutoff_p": options["polynomial_cutoff_p"]}
    return options


def _old_full(simple):
    """Like _full, for nequip before 0.16: irreps of even parity come first; without parity there are no others."""
    l_max, layers, channels = simple["l_max"], simple["num_layers"], simple["num_features"]
    parities = (1, -1) if simple["parity"] else (1,)
    hidden = Irreps((channels, (l, p)) for p in parities for l in range(l_max + 1))
    return {
        "irreps_edge_sh": str(Irreps.spherical_harmonics(l_max, -1 if simple["parity"] else 1)),
        "type_embed_num_features": channels,
        "feature_irreps_hidden": [str(hidden)] * (layers - 1) + [f"{channels}x0e"],
        "radial_mlp_depth": [simple["radial_mlp_depth"]] * layers,
        "radial_mlp_width": [simple["radial_mlp_width"]] * layers,
    }


def _full(simple):
    l_max, layers, features = simple["l_max"], simple["num_layers"], simple["num_features"]
    features = [features] * (l_max + 1) if isinstance(features, int) else list(features)
    if len(features) != l_max + 1:
        raise EquiError(f"num_features: {len(features)} numbers for l_max {l_max}")
    hidden = Irreps((features[l], (l, p)) for l in range(l_max + 1) for p in ((1, -1) if simple["parity"] else ((-1) ** l,)))
    embedded = simple["type_embed_num_features"]
    return {
        "irreps_edge_sh": str(Irreps.spherical_harmonics(l_max)),
        "type_embed_num_features": features[0] if embedded is None else embedded,
        "feature_irreps_hidden": [str(hidden)] * (layers - 1) + [f"{features[0]}x0e"],
        "radial_mlp_depth": [simple["radial_mlp_depth"]] * layers,
        "radial_mlp_width": [simple["radial_mlp_width"]] * layers,
    }


def full_cutoffs(partial, type_names, r_max):
    """The cutoff of each pair of types, some of which may be absent, or None."""
    if partial is None:
        return None
    found = {}
    for a in type_names:
        entry = partial.get(a, {})
        found[a] = {b: float(entry.get(b, r_max) if isinstance(entry, dict) else entry) for b in type_names}
    return found


def shape(*sizes):
    """A tensor whose numbers come from the file."""
    return np.broadcast_to(np.float64(0), sizes)


def module(kind, parameters=None, buffers=None, children=None, **attributes):
    return Module(kind, parameters or {}, buffers or {}, children or {}, attributes)


def linear(irreps_in, irreps_out):
    count = sum(a.mul * b.mul for a in irreps_in for b in irreps_out if a.ir == b.ir)
    return module("e3nn.Linear", {"weight": shape(count)}, irreps_in=irreps_in, irreps_out=irreps_out)


def species_product(irreps_in, num_features, irreps_out):
    attributes = Irreps([(num_features, SCALAR)])
    count = num_features * sum(a.mul * b.mul for a in irreps_in for b in irreps_out if a.ir == b.ir)
    return module(
        "e3nn.FullyConnectedTensorProduct", {"weight": shape(count)}, irreps_in1=irreps_in, irreps_in2=attributes,
        irreps_out=irreps_out,
    )  # fmt: skip


def mlp(sizes, activation, forward=True):
    """nequip's ScalarMLPFunction, and the scale of each of its matrices as `scales`. activation: class of the modules
    between the matrices, or None. forward: whether scales keep the variance of values, or that of gradients."""
    shapes = list(zip(sizes, sizes[1:]))
    without_gain = 0 if forward else len(shapes) - 1
    gains = [sqrt(2) if activation and n != without_gain else 1.0 for n in range(len(shapes))]
    scales = [gain / sqrt(size[0 if forward else 1]) for gain, size in zip(gains, shapes)]
    if activation is None and len(shapes) > 1:
        weights = module("ParameterList", {str(n): shape(*size) for n, size in enumerate(shapes)})
        matrices = module("DeepLinearMLP", buffers={"alpha": np.array(prod(scales))}, children={"weights": weights})
        return module("ScalarMLPFunction", children={"mlp": matrices}, scales=scales)
    children = {}
    for size, scale in zip(shapes, scales):
        if children:
            children[str(len(children))] = module(activation)
        children[str(len(children))] = module("ScalarLinearLayer", {"weight": shape(*size)}, {"alpha": np.array(scale)}, bias=None)
    return module("ScalarMLPFunction", children={"mlp": module("Sequential", children=children)}, scales=scales)


def check_lmax(irreps):
    if irreps.lmax > LMAX_SUPPORTED:
        raise EquiError(f"l_max: {irreps.lmax} is not supported, at most {LMAX_SUPPORTED}")


def normalized(name):
    function = Name("torch", "shifted_softplus" if name == "ssp" else name)
    return module("e3nn.normalize2mom", f=function, cst=ACTIVATION_CONSTANTS[name], _is_id=False)


def _activations(option, names, irreps):
    """(e3nn's Activation, irreps after it)."""
    acts, out = [], []
    for mul, ir in irreps:
        name = names["e" if ir.p == 1 else "o"]
        if name not in ACTIVATION_CONSTANTS:
            raise EquiError(f"{option}: '{name}' is not supported")
        if ir.p == -1 and name not in PARITY_OF:
            raise EquiError(f"{option}: '{name}' of an odd scalar has no parity")
        acts.append(normalized(name))
        out.append((mul, (0, 1 if ir.p == 1 else PARITY_OF[name])))
    children = {"acts": module("ModuleList", children={str(n): act for n, act in enumerate(acts)})}
    return module("e3nn.Activation", children=children), Irreps(out)


def gate_parts(hidden, irreps_in, edge):
    """(scalars, gates, gated) of a layer as nequip passes them to e3nn's Gate: the blocks of `hidden` that the layer
    reaches."""
    reachable = {ir for a in irreps_in for b in edge for ir in a.ir * b.ir}
    scalars = Irreps(b for b in hidden if b.ir.l == 0 and b.ir in reachable)
    gated = Irreps(b for b in hidden if b.ir.l > 0 and b.ir in reachable)
    kind = SCALAR if SCALAR in reachable else Irrep(0, -1)
    return scalars, Irreps((b.mul, kind) for b in gated), gated


def _gate(names, scalars, gates, gated):
    act_scalars, scalars_out = _activations("convnet_nonlinearity_scalars", names[0], scalars)
    act_gates, gates_out = _activations("convnet_nonlinearity_gates", names[1], gates)
    # After the gate the scalars are those of their activations, block by block; only the gated blocks are merged.
    gated_out = Irreps((b.mul, (b.ir.l, b.ir.p * gates_out[0].ir.p)) for b in gated.simplify())
    return module(
        "e3nn.Gate", children={"act_scalars": act_scalars, "act_gates": act_gates}, irreps_scalars=scalars.simplify(),
        irreps_gates=gates.simplify(), irreps_gated=gated.simplify(), irreps_in=gate_input(scalars, gates, gated),
        irreps_out=scalars_out + gated_out,
    )  # fmt: skip


def layer_parts(hidden, activations, irreps_in, edge):
    """(gate, tensor product, number of its weights) of a layer with these hidden irreps. activations: names of those of scalars
    and of gates by parity."""
    gate = _gate(activations, *gate_parts(hidden, irreps_in, edge))
    created, mid = [], []
    for i, (mul, ir_in) in enumerate(irreps_in):
        for j, (_, ir_edge) in enumerate(edge):
            for ir in ir_in * ir_edge:
                if ir in gate.irreps_in:
                    created.append((i, j, len(mid)))
                    mid.append((mul, ir))
    mid, places = Irreps(mid).sort()
    instructions = [(i, j, places[k], "uvu", True) for i, j, k in created]
    product = module("e3nn.TensorProduct", irreps_in1=irreps_in, irreps_in2=edge, irreps_out=mid, instructions=instructions)
    return gate, product, sum(irreps_in[i].mul for i, _, _ in created)


def irreps_with_channels(text):
    """Blocks without channels have no numbers, and a file does not contain them."""
    return Irreps(b for b in Irreps(str(text)) if b.mul)


def _convnet(options, t, irreps_in, edge):
    hidden = irreps_with_channels(options["feature_irreps_hidden"][t])
    activations = [options[f"convnet_nonlinearity_{key}"] for key in ("scalars", "gates")]
    gate, product, weights = layer_parts(hidden, activations, irreps_in, edge)
    depth, width = options["radial_mlp_depth"][t], options["radial_mlp_width"][t]
    use_sc = bool(options["convnet_sc"]) and (bool(options["learnable_shift"]) or t > 0)
    neighbors = options["avg_num_neighbors"]
    norms = len(neighbors) if isinstance(neighbors, dict) else 1
    children = {
        "avg_num_neighbors_norm": module("AvgNumNeighborsNorm", buffers={"norm_const": shape(norms, 1)}),
        "linear_1": linear(irreps_in, irreps_in),
        "tp_scatter": module("TensorProductScatter", children={"tp": product}),
        "edge_mlp": mlp([options["num_bessels"], *[width] * depth, weights], "SiLU"),
        "linear_2": linear(product.irreps_out.simplify(), gate.irreps_in),
    }
    if use_sc:
        children["sc"] = species_product(irreps_in, options["type_embed_num_features"], gate.irreps_in)
    conv = module("InteractionBlock", children=children, use_sc=use_sc)
    children = {"equivariant_nonlin": gate, "conv": conv}
    return module("ConvNetLayer", children=children, resnet=False, feature_irreps_hidden=hidden)


def _readout(options, irreps):
    if [ir for _, ir in irreps] != [SCALAR]:
        raise EquiError(f"feature_irreps_hidden: the last layer's, {irreps}, are not one block of scalars 0e")
    depth, width = options["readout_mlp_hidden_layers_depth"], options["readout_mlp_hidden_layers_width"]
    width = Irreps(str(options["feature_irreps_hidden"][-1])).dim if width is None else width
    wanted = options["readout_mlp_nonlinearity"]
    if depth and wanted not in NONLINEARITIES:
        raise EquiError(f"readout_mlp_nonlinearity: {wanted} is not supported")
    network = mlp([irreps[0].mul, *[width] * depth, 1], NONLINEARITIES.get(wanted))
    return module("ScalarMLP", children={"mlp_module": network})


def units_of_zbl(half_qqr):
    """nequip's name of the units in which half of the square of the elementary charge is this number."""
    for name, (_, known) in ZBL_UNITS.items():
        if abs(half_qqr / known - 1) < 1e-5:
            return name
    raise EquiError(f"pair_potential: ZBL in other units than {' and '.join(ZBL_UNITS)} is not supported")


def scale_shift(options, types):
    """nequip's PerTypeScaleShift for a number of types."""
    parameters, buffers = {}, {}
    for key in ("scales", "shifts"):
        values, is_trained = options[f"per_type_energy_{key}"], options[f"per_type_energy_{key}_trainable"]
        if values is not None:
            count = len(values) if isinstance(values, (dict, list)) else 1
            (parameters if is_trained else buffers)[key] = shape(types if is_trained else count, 1)
    return module("PerTypeScaleShift", parameters, buffers)


def build(options):
    """The energy model (SequentialGraphNetwork) of the full builder's options."""
    for key, text in (
        ("categorical_graph_field_embed", "inputs of the whole structure (charge, spin) are not supported"),
        ("convnet_resnet", "residual connections around a layer are not supported"),
    ):
        if options.get(key):
            raise EquiError(f"{key}: {text}")
    if options["convnet_nonlinearity_type"] != "gate":
        raise EquiError(f"convnet_nonlinearity_type: '{options['convnet_nonlinearity_type']}' is not supported, only gate")
    edge = options["irreps_edge_sh"]
    edge = Irreps.spherical_harmonics(edge) if isinstance(edge, int) else Irreps(str(edge))
    if edge not in [Irreps.spherical_harmonics(edge.lmax, p) for p in (-1, 1)]:
        raise EquiError(f"irreps_edge_sh: {edge} is not supported, only 1x0e+1x1o+1x2e+... and 1x0e+1x1e+1x2e+...")
    types, r_max = len(options["type_names"]), float(options["r_max"])
    power = float(options["polynomial_cutoff_p"])
    basis = {"bessel_weights": shape(1, options["num_bessels"])}
    trained = bool(options["bessel_trainable"])
    cutoffs = () if options["per_edge_type_cutoff"] is None else (types**2,)
    stages = {
        "type_embed": module(
            "NodeTypeEmbed",
            children={"embed_module": module("Embedding", {"weight": shape(types, options["type_embed_num_features"])})},
        ),
        "spharm": module("SphericalHarmonicEdgeAttrs", children={"sh": module("SphericalHarmonics", irreps_out=edge)}),
        "edge_norm": module("EdgeLengthNormalizer", buffers={"_rmax_recip": shape(*cutoffs)}, r_max=r_max),
        "bessel_encode": module(
            "BesselEdgeLengthEncoding", basis if trained else {}, {} if trained else basis,
            {"cutoff": module("PolynomialCutoff", p=power)},
        ),
        "factor": module("ApplyFactor", factor=2 * np.pi / (r_max * r_max)),
    }  # fmt: skip
    irreps = Irreps([(options["type_embed_num_features"], SCALAR)])
    for t in range(len(options["feature_irreps_hidden"])):
        stages[f"layer{t}_convnet"] = _convnet(options, t, irreps, edge)
        irreps = stages[f"layer{t}_convnet"].equivariant_nonlin.irreps_out
    stages["per_atom_energy_readout"] = _readout(options, irreps)
    stages["per_type_energy_scale_shift"] = scale_shift(options, types)
    if options["pair_potential"] is not None:
        stages["pair_potential"] = pair_potential(options["pair_potential"], types)
    stages["total_energy_sum"] = module("AtomwiseReduce")
    return module("SequentialGraphNetwork", children=stages)


def pair_potential(options, types):
    if options.get("_target_") != ZBL:
        kind = str(options.get("_target_", "")).rsplit(".", 1)[-1]
        raise EquiError(f"module pair_potential ({kind}) is not supported: only ZBL is")
    if options.get("units") not in ZBL_UNITS:
        raise EquiError(f"pair_potential: ZBL in units '{options.get('units')}' is not supported, only {', '.join(ZBL_UNITS)}")
    buffers = {"atomic_numbers": shape(types), "_qqr2exesquare": np.array(ZBL_UNITS[options["units"]][1])}
    cutoff = module("PolynomialCutoff", p=float(options.get("polynomial_cutoff_p", 6.0)))
    return module("ZBL", buffers=buffers, children={"cutoff": cutoff})
