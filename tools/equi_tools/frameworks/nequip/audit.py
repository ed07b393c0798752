# SPDX-License-Identifier: MIT
"""Options of a NequIP model, read from the modules of a file; every module must be known, or the model is refused by
name."""

import re
from math import pi

import numpy as np

from ...errors import EquiError
from ...irreps import Irreps
from . import model as nequip_model
from .modules import (
    activation_of,
    check_bias,
    convnets,
    cutoffs_of,
    energy_model,
    harmonics_of,
    mlp_layers,
    mlp_options,
    norm_constants,
    power_of,
    scale_shift_of,
    zbl_of,
)

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


class Audit:
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
        config = {
            "r_max": float(edge_norm.r_max),
            "type_names": type_names,
            "irreps_edge_sh": str(harmonics_of("spharm", self.stages["spharm"].sh)),
            "type_embed_num_features": int(embed.embed_module.weight.shape[1]),
            "num_bessels": int(bessel.bessel_weights.size),
            "polynomial_cutoff_p": power_of(bessel.cutoff),
            "per_edge_type_cutoff": cutoffs_of(edge_norm, type_names),
            "feature_irreps_hidden": [],
            "radial_mlp_depth": [],
            "radial_mlp_width": [],
        }
        if abs(float(self.stages["factor"].factor) / (2 * pi / config["r_max"] ** 2) - 1) > 1e-6:
            raise EquiError(f"factor: {float(self.stages['factor'].factor)} is not the one that nequip computes")
        self.convnets(config)
        self.readout(config)
        config |= scale_shift_of(self.stages["per_type_energy_scale_shift"], type_names)
        if "pair_potential" in self.stages:
            config["pair_potential"] = zbl_of(self.stages["pair_potential"], bessel.cutoff)
        return nequip_model.FULL | config

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
            check_bias(where, linear)
            if abs(float(linear.alpha) / (gain / linear.weight.shape[0] ** 0.5) - 1) > 1e-6:
                raise EquiError(f"{where}: scale {float(linear.alpha)} of a matrix is not the one that nequip computes")
            gain = 2**0.5

    def readout(self, config):
        mlp = self.stages["per_atom_energy_readout"].mlp_module
        config |= mlp_options("readout_mlp", mlp)
        if mlp.mlp.class_name == "DeepLinearMLP":
            weights = [p for _, p in mlp.mlp.weights.named_parameters()]
            if abs(float(mlp.mlp.alpha) * np.prod([w.shape[0] for w in weights]) ** 0.5 - 1) > 1e-6:
                raise EquiError(f"per_atom_energy_readout: scale {float(mlp.mlp.alpha)} is not the one that nequip computes")
        else:
            self.check_alphas("per_atom_energy_readout", mlp_layers(mlp)[0])
