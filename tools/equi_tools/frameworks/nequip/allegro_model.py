# SPDX-License-Identifier: MIT
"""The modules that allegro builds from the options of its model, as torch_modules.Module: irreps, paths, constants and
shapes of numbers.

Follows the builders AllegroModel and FullAllegroModel of nequip-allegro 0.4 to 0.8, with today's names of their
modules. The options are those of FullAllegroModel of 0.8.
"""

from math import sqrt

import numpy as np

from ...coupling import coupling
from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ...printable import printable
from .model import LMAX_SUPPORTED, NONLINEARITIES, WITHOUT_EFFECT, check_lmax, complete, mlp, module, pair_potential, scale_shift, shape

BUILDERS = ("AllegroModel", "AllegroEnergyModel", "FullAllegroModel", "FullAllegroEnergyModel")
BESSEL, SPLINE = "allegro.nn.TwoBodyBesselScalarEmbed", "allegro.nn.TwoBodySplineScalarEmbed"
EMBEDDINGS = {
    BESSEL: {"num_bessels": 8, "bessel_trainable": False, "polynomial_cutoff_p": 6},
    SPLINE: {"num_splines": 16, "spline_span": 12},
}
# Options of the full builder that have a default.
FULL = {
    "radial_chemical_embed_dim": None, "per_edge_type_cutoff": None, "scalar_embed_mlp_hidden_layers_depth": 1,
    "scalar_embed_mlp_hidden_layers_width": 64, "scalar_embed_mlp_nonlinearity": "silu", "num_layers": 2, "num_scalar_features": 64,
    "num_tensor_features": 16, "allegro_mlp_hidden_layers_depth": 1, "allegro_mlp_hidden_layers_width": 64,
    "allegro_mlp_nonlinearity": "silu", "tp_path_channel_coupling": True, "readout_mlp_hidden_layers_depth": 1,
    "readout_mlp_hidden_layers_width": 32, "readout_mlp_nonlinearity": "silu", "avg_num_neighbors": None,
    "weight_individual_irreps": True, "per_type_energy_scales": None, "per_type_energy_shifts": None,
    "per_type_energy_scales_trainable": False, "per_type_energy_shifts_trainable": False, "pair_potential": None,
    "forward_normalize": True,
}  # fmt: skip
NEEDED = ("r_max", "type_names", "irreps_edge_sh", "tensor_track_allowed_irreps", "radial_chemical_embed")
# Defaults of 0.4, and its options of the two-body network, with today's names.
OLD = {
    "num_tensor_features": 64, "allegro_mlp_hidden_layers_depth": 2, "readout_mlp_hidden_layers_depth": 2,
    "readout_mlp_nonlinearity": None,
}  # fmt: skip
OLD_TWO_BODY = {
    "two_body_embedding_dim": ("radial_chemical_embed_dim", 32),
    "two_body_mlp_hidden_layers_depth": ("scalar_embed_mlp_hidden_layers_depth", 2),
    "two_body_mlp_hidden_layers_width": ("scalar_embed_mlp_hidden_layers_width", 64),
    "two_body_mlp_nonlinearity": ("scalar_embed_mlp_nonlinearity", "silu"),
}  # fmt: skip
OLD_PARITIES = {"o3_full": (True, -1), "o3_restricted": (False, -1), "so3": (False, 1)}
OLD_SPLINE = "Allegro 0.4: its spline embedding, which has no network behind it, is not supported"
SCATTERED = "scatter_features: models that sum features in place of the environment are not supported"
# Values at zero of these are not zero, so a neighbor at the cutoff would contribute to the energy.
NOT_ZERO = ("sigmoid", "softplus")
MLPS = ("scalar_embed_mlp", "allegro_mlp", "readout_mlp")
# Options that are integers, with their least values. More than the largest value has no kernels.
COUNTS = {"num_layers": 1, "num_scalar_features": 1, "num_tensor_features": 1} | {f"{name}_hidden_layers_depth": 0 for name in MLPS}
MAX_COUNT = 4096


def full_options(given, builder, version):
    """The options of FullAllegroModel for those of one of the builders, defaults included; EquiError names an unknown
    option. version: of nequip, whose pair potential has changed."""
    options = {key: value for key, value in given.items() if key != "_target_" and key not in WITHOUT_EFFECT}
    if options.pop("scatter_features", False):
        raise EquiError(SCATTERED)
    is_old = "scalar_embed" in options
    if not builder.startswith("Full"):
        irreps = _irreps_of(options, is_old)
        options = irreps | {key: options[key] for key in options if key not in ("l_max", "parity", "parity_setting")}
    if is_old:
        options = OLD | _old_two_body(options)
    options = complete(options, builder, FULL, NEEDED)
    options["radial_chemical_embed"] = _embedding(options["radial_chemical_embed"])
    if version < (0, 17) and options["pair_potential"] is not None:
        power = options["radial_chemical_embed"].get("polynomial_cutoff_p", 6)
        options["pair_potential"] = options["pair_potential"] | {"polynomial_cutoff_p": power}
    return options


def _count(options, key, low, high=MAX_COUNT):
    value = options[key]
    if not isinstance(value, int) or not low <= value <= high:
        raise EquiError(f"{key}: expected an integer from {low} to {high}, found {printable(str(value), 60)}")
    return value


def _irreps_of(options, is_old):
    if "l_max" not in options:
        raise EquiError("option l_max of AllegroModel is missing")
    parity, odd = options.get("parity", True), -1
    if is_old:
        setting = options.get("parity_setting", "o3_full")
        if setting not in OLD_PARITIES:
            raise EquiError(f"parity_setting: '{setting}' is not known, only {', '.join(OLD_PARITIES)}")
        parity, odd = OLD_PARITIES[setting]
    edge = Irreps.spherical_harmonics(_count(options, "l_max", 0, LMAX_SUPPORTED), odd)
    allowed = Irreps((1, (ir.l, p)) for _, ir in edge for p in (1, -1)) if parity else edge
    return {"irreps_edge_sh": str(edge), "tensor_track_allowed_irreps": str(allowed)}


def _old_two_body(options):
    options = dict(options)
    embedding, dim = dict(options.pop("scalar_embed")), options.pop("scalar_embed_output_dim", None)
    if embedding.get("_target_", "").endswith(".TwoBodySplineScalarEmbed"):
        raise EquiError(OLD_SPLINE)
    if dim is not None and dim != options.get("num_scalar_features", FULL["num_scalar_features"]):
        raise EquiError(f"scalar_embed_output_dim: {dim} is not supported, only num_scalar_features")
    two_body = {new: embedding.pop(old, default) for old, (new, default) in OLD_TWO_BODY.items()}
    return options | two_body | {"radial_chemical_embed": embedding}


def _embedding(given):
    """Its options, with their defaults."""
    target = f"allegro.nn.{str(given.get('_target_', '')).rsplit('.', 1)[-1]}"
    if target not in EMBEDDINGS:
        raise EquiError(f"radial_chemical_embed: {given.get('_target_')} is not supported, only {', '.join(EMBEDDINGS)}")
    unknown = [key for key in given if key != "_target_" and key not in EMBEDDINGS[target]]
    if unknown:
        raise EquiError(f"option {unknown[0]} of radial_chemical_embed is not known")
    return {"_target_": target} | EMBEDDINGS[target] | {key: given[key] for key in given if key != "_target_"}


def tracks(edge, allowed, num_layers):
    """Irreps of the tensors of edges before and after each layer."""
    found = [edge]
    for t in range(num_layers):
        candidates = Irreps([(1, SCALAR)]) if t + 1 == num_layers else allowed
        found.append(Irreps(c for c in candidates if any(c.ir in a.ir * e.ir for a in found[-1] for e in edge)))
    for t in reversed(range(num_layers)):
        found[t] = Irreps(b for b in found[t] if any(ir in found[t + 1] for e in edge for ir in b.ir * e.ir))
    if found[0] != edge or any(not len(irreps) or irreps[0].ir != SCALAR for irreps in found):
        given = f"tensor_track_allowed_irreps: {allowed} with harmonics {edge}"
        raise EquiError(f"{given} is not supported: 0e is not the first irrep of all layers")
    return found


def paths_of(irreps_in, edge, irreps_out):
    """(block in, block of the harmonics, block out) of the paths, in the order of their weights."""
    blocks = [list(enumerate(irreps)) for irreps in (irreps_out, irreps_in, edge)]
    return [(i, j, k) for k, out in blocks[0] for i, a in blocks[1] for j, e in blocks[2] if out.ir in a.ir * e.ir]


def couplings_of(product):
    """allegro's buffer w3j with our signs and all axes: [paths, in, harmonics, out]."""
    irreps = [Irreps(i) for i in (product.irreps_in1, product.irreps_in2, product.irreps_out)]
    begins = [np.cumsum([0, *(b.ir.dim for b in blocks)]) for blocks in irreps]
    whole = np.zeros((len(product.paths), *(blocks.dim for blocks in irreps)))
    for p, path in enumerate(product.paths):
        ls = [blocks[n].ir.l for blocks, n in zip(irreps, path)]
        place = tuple(slice(b[n], b[n + 1]) for b, n in zip(begins, path))
        whole[(p, *place)] = sqrt(2 * ls[2] + 1) * np.array(coupling(*ls))
    return whole


def _product(irreps_in, edge, irreps_out, mul, is_coupled):
    paths = paths_of(irreps_in, edge, irreps_out)
    sizes = (mul,) * is_coupled + (len(paths),) * (len(paths) > 1)
    return module(
        "Contracter", {"weights": shape(*sizes)}, irreps_in1=irreps_in, irreps_in2=edge, irreps_out=irreps_out, paths=paths, mul=mul,
        path_channel_coupling=is_coupled,
    )  # fmt: skip


def _checked_mlps(options):
    """Options of the three kinds of networks: (hidden layers, class of the activation)."""
    found = {}
    for name in MLPS:
        activation = options[f"{name}_nonlinearity"]
        depth, width = options[f"{name}_hidden_layers_depth"], options[f"{name}_hidden_layers_width"]
        if depth and activation in NOT_ZERO:
            why = "it is not 0 at 0, so energies would jump at the cutoff"
            raise EquiError(f"{name}_nonlinearity: {activation} is not supported: {why}")
        if depth and activation not in NONLINEARITIES:
            raise EquiError(f"{name}_nonlinearity: {activation} is not supported")
        found[name] = [width] * depth, NONLINEARITIES.get(activation)
    return found


def _radial_chemical_embed(embedding, types, dim, forward):
    if embedding["_target_"] == SPLINE:
        n = _count(embedding, "num_splines", 1)
        span = _count(embedding, "spline_span", 1, n)
        lower = np.arange(-span, n - span) / n
        children = {"class_embed": module("Embedding", {"weight": shape(types**2, dim * n)})}
        spline = module("PerClassSpline", buffers={"lower": lower, "upper": lower + (span + 1) / n}, children=children)
        return module("TwoBodySplineScalarEmbed", children={"spline": spline})
    if dim % 2:
        raise EquiError(f"radial_chemical_embed_dim: {dim} is odd")
    basis = {"bessel_weights": shape(1, embedding["num_bessels"])}
    is_trained = bool(embedding["bessel_trainable"])
    cutoff = module("PolynomialCutoff", p=float(embedding["polynomial_cutoff_p"]))
    bessel = module("BesselEdgeLengthEncoding", basis if is_trained else {}, {} if is_trained else basis, {"cutoff": cutoff})
    embeds = {f"{name}_embed": module("Embedding", {"weight": shape(types, dim // 2)}) for name in ("center", "neighbor")}
    linear = mlp([embedding["num_bessels"], dim], None, forward)
    product = module("ProductTypeEmbedding", children={**embeds, "basis_linear": linear})
    return module("SequentialGraphNetwork", children={"bessel_encode": bessel, "type_embed": product})


def _weighter(edge, mul, is_individual):
    count = mul * (len(edge) if is_individual else 1)
    return module("MakeWeightedChannels", alpha=1.0, weight_individual_irreps=is_individual, weight_numel=count)


def build(options):
    """The energy model (SequentialGraphNetwork) of the full builder's options."""
    edge = options["irreps_edge_sh"]
    edge = Irreps.spherical_harmonics(edge) if isinstance(edge, int) else Irreps(str(edge))
    allowed = Irreps(str(options["tensor_track_allowed_irreps"]))
    for irreps in (edge, allowed):
        check_lmax(irreps)
    for key, low in COUNTS.items():
        _count(options, key, low)
    if any(b.mul != 1 for b in edge) or len({b.ir for b in edge}) != len(edge):
        raise EquiError(f"irreps_edge_sh: {edge} is not supported: an irrep stands twice")
    if any(b.mul != 1 for b in allowed):
        raise EquiError(f"tensor_track_allowed_irreps: {allowed} is not supported, only one of each irrep")
    if not isinstance(options["forward_normalize"], bool):
        raise EquiError(f"forward_normalize: {options['forward_normalize']} is neither true nor false")
    layers, forward = options["num_layers"], options["forward_normalize"]
    scalars, mul = options["num_scalar_features"], options["num_tensor_features"]
    dim = scalars if options["radial_chemical_embed_dim"] is None else options["radial_chemical_embed_dim"]
    networks = _checked_mlps(options)
    types = len(options["type_names"])
    cutoffs = () if options["per_edge_type_cutoff"] is None else (types**2,)
    neighbors = options["avg_num_neighbors"]
    norms = shape(len(neighbors) if isinstance(neighbors, dict) else 1, 1)
    track = tracks(edge, allowed, layers)
    first = _weighter(edge, mul, True)
    weighter = _weighter(edge, mul, bool(options["weight_individual_irreps"]))

    def network(name, size, out):
        hidden, activation = networks[name]
        return mlp([size, *hidden, out], activation, forward)

    latents, products = {}, {}
    for t in range(layers):
        out = scalars + (weighter.weight_numel if t + 1 < layers else 0)
        latents[str(t)] = network("allegro_mlp", scalars * (t + 1) + mul, out)
        products[str(t)] = _product(track[t], edge, track[t + 1], mul, bool(options["tp_path_channel_coupling"]))
    stages = {
        "edge_norm": module("EdgeLengthNormalizer", buffers={"_rmax_recip": shape(*cutoffs)}, r_max=float(options["r_max"])),
        "radial_chemical_embed": _radial_chemical_embed(options["radial_chemical_embed"], types, dim, forward),
        "scalar_embed_mlp": module("ScalarMLP", children={"mlp_module": network("scalar_embed_mlp", dim, scalars)}),
        "tensor_embed": module(
            "TwoBodySphericalHarmonicTensorEmbed",
            children={
                "sh": module("SphericalHarmonics", irreps_out=edge), "_edge_weighter": first,
                "env_embed_linear": mlp([scalars, first.weight_numel], None, forward),
            },
        ),
        "allegro": module(
            "Allegro_Module",
            children={
                "_env_weighter": weighter,
                # The framework makes it without the option forward_normalize.
                "first_layer_env_embed_projection": mlp([scalars, scalars + weighter.weight_numel], None),
                "avg_num_neighbors_norm": module("AvgNumNeighborsNorm", buffers={"norm_const": norms}),
                "latents": module("ModuleList", children=latents),
                "tps": module("ModuleList", children=products),
            },
            tensor_track_allowed_irreps=allowed,
        ),
        "edge_readout": module("ScalarMLP", children={"mlp_module": network("readout_mlp", scalars * (layers + 1), 1)}),
        "edge_eng_sum": module(
            "EdgewiseReduce", children={"norm_module": module("AvgNumNeighborsNorm", buffers={"norm_const": norms})}
        ),
        "per_type_energy_scale_shift": scale_shift(options, types),
    }  # fmt: skip
    if options["pair_potential"] is not None:
        stages["pair_potential"] = pair_potential(options["pair_potential"], types)
    stages["total_energy_sum"] = module("AtomwiseReduce")
    return module("SequentialGraphNetwork", children=stages)
