# SPDX-License-Identifier: MIT
"""Options and numbers of an Allegro model, read from the modules of a file. Every module must be known, and its
constants must be those that its options imply, or the model is refused by name."""

import re

import numpy as np

from ... import torch_archive
from ...errors import EquiError
from ...irreps import Irreps
from ..common.e3nn_layers import ROUNDED
from . import allegro_model
from .modules import cutoffs_of, harmonics_of, mlp_options, power_of, scale_shift_of, zbl_of

# Modules of the energy model by name, with the names of allegro 0.5 and newer.
STAGES = {
    "edge_norm": ("EdgeLengthNormalizer",),
    "radial_chemical_embed": ("SequentialGraphNetwork", "TwoBodySplineScalarEmbed"),
    "scalar_embed_mlp": ("ScalarMLP",),
    "tensor_embed": ("TwoBodySphericalHarmonicTensorEmbed",),
    "allegro": ("Allegro_Module",),
    "edge_readout": ("ScalarMLP",),
    "edge_eng_sum": ("EdgewiseReduce",),
    "per_type_energy_scale_shift": ("PerTypeScaleShift",),
    "cutoff": ("AddRadialCutoffToData",),
    "pair_potential": ("ZBL",),
    "total_energy_sum": ("AtomwiseReduce",),
}
OPTIONAL = ("cutoff", "pair_potential")
# The product of tensors; the last two are faster kernels of the same product.
PRODUCTS = ("Contracter", "TritonContracter", "CuEquivarianceContracter")
# In 0.4 the two-body network was a part of the embedding.
OLD_STAGE, OLD_NETWORK = "scalar_embed", "twobody_mlp"
RENAMED = (
    (re.compile(r"^model\.(?!func\.)"), "model.func."),  # without forces, nothing is around the energy model
    (re.compile(rf"^model\.func\.{OLD_STAGE}\.{OLD_NETWORK}\."), "model.func.scalar_embed_mlp."),
    (re.compile(rf"^model\.func\.{OLD_STAGE}\."), "model.func.radial_chemical_embed."),
)
# Buffers that are constants of the architecture; couplings, scales and grids are checked.
CONSTANT = re.compile(r"(^|\.)(_empty|alpha|w3j|lower|upper|_rtoi)$")
NORM = "model.func.{}.norm_const"
NORMS = tuple(NORM.format(name) for name in ("allegro.avg_num_neighbors_norm", "edge_eng_sum.norm_module"))
# Relative error of constants in float32.
ROUNDING = 1e-6
OLD_ALLEGRO = (
    "Allegro 0.3: models of allegro 0.3 and older have another architecture, which is not supported; models of 0.4 and newer are"
)


def is_allegro(tree):
    """Whether a tree of modules is one of Allegro, of any version."""
    return any(module.class_name == "Allegro_Module" for _, module in tree.named_modules())


def is_old(tree):
    """Whether a tree of modules is of allegro 0.3 or older, where weights of the environment had networks of their own."""
    return any(module.class_name == "Allegro_Module" and "env_embed_mlps" in module.submodules for _, module in tree.named_modules())


def renamed(name):
    """The name that today's modules give to a tensor of a file."""
    for pattern, today in RENAMED:
        name = pattern.sub(today, name)
    return name


def _stages(model):
    if model.class_name != "GraphModel":
        raise EquiError(f"module {model.class_name} is not supported, only GraphModel")
    energy = model.model.func if model.model.class_name == "ForceStressOutput" else model.model
    if energy.class_name != "SequentialGraphNetwork":
        raise EquiError(f"module {energy.class_name} is not supported: only energy, forces and stress are")
    found = dict(energy.named_children())
    if OLD_STAGE in found:
        embedding = found.pop(OLD_STAGE)
        if embedding.class_name == "TwoBodySplineScalarEmbed":
            raise EquiError(allegro_model.OLD_SPLINE)
        found = {"radial_chemical_embed": embedding, "scalar_embed_mlp": getattr(embedding, OLD_NETWORK), **found}
    return found


class Audit:
    """Options of the builder, read from a tree of modules; refuses unknown ones."""

    def __init__(self, model):
        self.stages, self.type_names = _stages(model), list(model.type_names)
        for name, module in self.stages.items():
            if module.class_name not in STAGES.get(name, ()):
                found = f"module {name} ({module.class_name})"
                raise EquiError(f"{found} is not supported: it is not a part of Allegro's interatomic potential")
        missing = [name for name in STAGES if name not in self.stages and name not in OPTIONAL]
        if missing:
            raise EquiError(f"modules {', '.join(missing)} are missing: not an Allegro potential")
        self.layers = self.stages["allegro"]
        for t, product in enumerate(self.layers.tps):
            if product.class_name not in PRODUCTS:
                raise EquiError(f"module allegro.tps.{t} ({product.class_name}) is not supported")
        if getattr(self.layers, "scatter_features", False):
            raise EquiError(allegro_model.SCATTERED)
        if self.stages["edge_eng_sum"].reduce != "sum":
            raise EquiError(f"edge_eng_sum: reduce: {self.stages['edge_eng_sum'].reduce} is not supported, only sum")

    def options(self):
        names, layers, edge_norm = self.type_names, self.layers, self.stages["edge_norm"]
        networks = {
            "scalar_embed_mlp": self.stages["scalar_embed_mlp"].mlp_module,
            "readout_mlp": self.stages["edge_readout"].mlp_module,
        }
        latents = list(layers.latents)
        config = {
            "r_max": float(edge_norm.r_max),
            "type_names": names,
            "per_edge_type_cutoff": cutoffs_of(edge_norm, names),
            "irreps_edge_sh": str(harmonics_of("tensor_embed", self.stages["tensor_embed"].sh)),
            "tensor_track_allowed_irreps": str(Irreps(layers.tensor_track_allowed_irreps)),
            "num_layers": len(latents),
            "num_scalar_features": int(layers.num_scalar_features),
            "num_tensor_features": int(layers.num_tensor_features),
            "weight_individual_irreps": bool(layers._env_weighter.weight_individual_irreps),
            "tp_path_channel_coupling": bool(next(iter(layers.tps)).path_channel_coupling),
            # Any numbers of the right shape: the state has the norms themselves.
            "avg_num_neighbors": {name: 1.0 for name in names} if self.norms().size > 1 else 1.0,
        }
        for option, function in networks.items():
            config |= mlp_options(option, function)
        of_layers = [mlp_options("allegro_mlp", function) for function in latents]
        if any(found != of_layers[0] for found in of_layers):
            raise EquiError("allegro_mlp: layers with different networks are not supported")
        config |= of_layers[0] | self.embedding(len(names))
        config |= scale_shift_of(self.stages["per_type_energy_scale_shift"], names)
        if "pair_potential" in self.stages:
            own = self.stages["cutoff"] if "cutoff" in self.stages else self.stages["radial_chemical_embed"].bessel_encode
            config["pair_potential"] = zbl_of(self.stages["pair_potential"], own.cutoff)
        config = allegro_model.FULL | config
        # Scales of matrices tell which of both normalizations they have; where both agree, it does not matter.
        fits = [forward for forward in (True, False) if not self.wrong_scales(config | {"forward_normalize": forward})]
        return config | {"forward_normalize": fits[0] if fits else True}

    def embedding(self, types):
        module = self.stages["radial_chemical_embed"]
        if module.class_name == "TwoBodySplineScalarEmbed":
            spline = module.spline
            numbers = {"num_splines": int(spline.num_splines), "spline_span": int(spline.spline_span)}
            dim = spline.class_embed.weight.shape[1] // numbers["num_splines"]
            return {"radial_chemical_embed_dim": dim, "radial_chemical_embed": {"_target_": allegro_model.SPLINE, **numbers}}
        children = dict(module.named_children())
        for name, kind in (("bessel_encode", "BesselEdgeLengthEncoding"), ("type_embed", "ProductTypeEmbedding")):
            found = children[name].class_name if name in children else "nothing"
            if found != kind:
                raise EquiError(f"radial_chemical_embed.{name}: {found} is not supported, only {kind}")
        bessel = children["bessel_encode"]
        options = {
            "num_bessels": int(bessel.bessel_weights.size),
            "bessel_trainable": "bessel_weights" in bessel.parameters,
            "polynomial_cutoff_p": power_of(bessel.cutoff),
        }
        dim = int(children["type_embed"].basis_linear.mlp.submodules["0"].weight.shape[1])
        return {"radial_chemical_embed_dim": dim, "radial_chemical_embed": {"_target_": allegro_model.BESSEL, **options}}

    def norms(self):
        """1/sqrt(number of neighbors), one or one per type [n, 1]; to 0.8.0 a number of each product."""
        if hasattr(self.layers, "avg_num_neighbors_norm"):
            return self.layers.avg_num_neighbors_norm.norm_const.reshape(-1, 1)
        factors = {float(product.scatter_factor) for product in self.layers.tps}
        if len(factors) != 1:
            raise EquiError("allegro.tps: layers with different numbers of neighbors are not supported")
        return np.array([[factors.pop()]])

    def energy_norms(self):
        """The same for the sum of the energies of edges."""
        module = self.stages["edge_eng_sum"]
        if hasattr(module, "norm_module"):
            return module.norm_module.norm_const.reshape(-1, 1)
        return np.array([[float(module._factor) * 2**0.5]])

    def wrong_scales(self, config):
        """Names of modules whose scale is not the one that these options imply."""
        own = _scales(allegro_model.build(config).named_modules())
        named = ((f"{stage}.{name}", module) for stage, tree in self.stages.items() for name, module in tree.named_modules())
        found = _scales(named)
        return [name for name, scale in own.items() if not abs(found.get(name, np.inf) / scale - 1) < ROUNDING]


def _scales(named_modules):
    kinds = ("ScalarLinearLayer", "DeepLinearMLP", "MakeWeightedChannels")
    return {name: float(module.alpha) for name, module in named_modules if module.class_name in kinds}


def read(model):
    """(options, tensors) of a tree of modules, after a check of all constants."""
    if is_old(model):
        raise EquiError(OLD_ALLEGRO)
    audit = Audit(model)
    options = audit.options()
    wrong = audit.wrong_scales(options)
    if wrong:
        raise EquiError(f"{wrong[0]}: the scale of its matrix is not the one that allegro computes")
    tensors = {renamed(name): array for name, array in [*model.named_parameters(), *model.named_buffers()] if array.size}
    norms = audit.norms(), audit.energy_norms()
    if norms[0].shape != norms[1].shape or not np.allclose(*norms, rtol=ROUNDING, atol=0.0):
        raise EquiError("edge_eng_sum: its number of neighbors is not that of the layers")
    _check_grid(allegro_model.build(options), tensors)
    return options, tensors | dict.fromkeys(NORMS, norms[0])


def _check_grid(network, tensors):
    for name, array in network.named_buffers():
        if name.endswith((".lower", ".upper")):
            stored = tensors.get(f"model.func.{name}")
            if stored is not None and not (stored.shape == array.shape and np.allclose(stored, array, rtol=0.0, atol=ROUNDING)):
                raise EquiError(f"{name} is not the grid that allegro computes")


def path_signs(network, raw):
    """Per layer the signs of the couplings stored in `raw` relative to ours, in the order of the framework's paths."""
    signs = []
    for t, product in enumerate(network.allegro.tps):
        name = f"model.func.allegro.tps.{t}.w3j"
        if name not in raw:
            raise EquiError(f"{name.removeprefix('model.func.')}: the couplings are missing in the file")
        exact, stored = allegro_model.couplings_of(product), np.asarray(raw[name], np.float64)
        tolerance = ROUNDED.get(torch_archive.precision(raw[name]), 0.0)
        # The axis of paths is missing where there is one path.
        stored = stored[None] if len(product.paths) == 1 else stored
        if stored.ndim == 3 and exact.shape[1] == exact.shape[2]:
            # Where all paths couple only equal components, the buffer has one axis for both.
            stored = np.einsum("pik,ij->pijk", stored, np.eye(exact.shape[1]))
        if stored.shape != exact.shape:
            raise EquiError(f"allegro.tps.{t}: couplings of the shape {list(stored.shape)}, expected {list(exact.shape)}")
        signs.append([])
        for path, ours, theirs in zip(product.paths, exact, stored):
            sign = 1 if (ours * theirs).sum() > 0 else -1
            if not np.abs(sign * theirs - ours).max() < tolerance * max(1.0, np.abs(ours).max()):
                raise EquiError(f"allegro.tps.{t}: the couplings of path {list(path)} are none of a known convention")
            signs[-1].append(sign)
    return signs
