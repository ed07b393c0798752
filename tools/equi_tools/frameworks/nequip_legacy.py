# SPDX-License-Identifier: MIT
"""NequIP models that were deployed by nequip 0.6 and older (TorchScript, `nequip-deploy build`).

They differ from later ones in a one-hot encoding of the types, e3nn's radial networks, two matrices as readout and
factors for the whole model.
"""

import re
from dataclasses import dataclass
from math import sqrt

import numpy as np

from ..errors import EquiError
from . import nequip_checkpoint
from .nequip_checkpoint import class_name, irreps_of
from .nequip_convert import Converter
from .origin import digest

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


@dataclass
class LegacyCheckpoint(nequip_checkpoint.Checkpoint):
    """As its base, where `config` holds r_max and per_edge_type_cutoff only, and `stages` are modules of the file."""

    scale_by: float = 1.0

    @property
    def num_layers(self):
        return sum(name.endswith("_convnet") for name in self.stages)

    @property
    def half_qqr(self):
        # The modules have it divided by the scale of the whole model.
        return self.scale_by * float(self.state["pair_potential._qqr2exesquare"])


def is_legacy(model):
    return any("radial_basis.basis" in name or ".conv.fc" in name for name, _ in model.named_modules())


def _unwrapped(model):
    """(energy model with its prefix, factor of the whole model) inside GraphModel, RescaleOutput and the forces."""
    module, prefix, factor = model, "", 1.0
    while class_name(module) != "SequentialGraphNetwork":
        name, child = class_name(module), "func" if class_name(module) in OUTPUTS else "model"
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
    for name, module in stages.items():
        found = class_name(module)
        expected = "ConvNetLayer" if re.fullmatch(r"layer\d+_convnet", name) else STAGES.get(name)
        if found != expected:
            raise EquiError(f"module {name} ({found}) is not supported: it is not a part of NequIP's interatomic potential")
    missing = [name for name in STAGES if name not in stages and name not in OPTIONAL]
    if missing:
        raise EquiError(f"modules {', '.join(missing)} are missing: not a NequIP potential")
    order = list(stages)
    if set(OPTIONAL) <= set(order) and order.index("pair_potential") < order.index("per_species_rescale"):
        raise EquiError("pair_potential: a potential that is scaled per species is not supported")
    for name, module in stages.items():
        if not name.endswith("_convnet"):
            continue
        if module.resnet:
            raise EquiError(f"{name}: resnet: residual connections around a layer are not supported")
        for part, expected in ((module.equivariant_nonlin, "Gate"), (module.conv, "InteractionBlock")):
            if class_name(part) != expected:
                raise EquiError(f"{name}: {class_name(part)} is not supported, only {expected}")
    basis, cutoff = stages["radial_basis"].basis, stages["radial_basis"].cutoff
    for part, expected in ((basis, "BesselBasis"), (cutoff, "PolynomialCutoff")):
        if class_name(part) != expected:
            raise EquiError(f"radial_basis: {class_name(part)} is not supported, only {expected}")
    if abs(cutoff._factor * basis.r_max - 1) > 1e-9:
        raise EquiError("radial_basis: cutoff function and basis have different cutoffs")
    sphere = stages["spharm_edges"].sh
    if sphere.normalization != "component" or not sphere.normalize:
        raise EquiError("spharm_edges: only normalized harmonics with component normalization are supported")


def checkpoint_of(source, path, model, types):
    network, prefix, factor = _unwrapped(model)
    stages = dict(network.named_children())
    _audit(stages)
    layers = [m for n, m in stages.items() if n.endswith("_convnet")]
    raw = dict([*model.named_parameters(), *model.named_buffers()])
    path_signs = nequip_checkpoint.path_signs_of(layers, raw, prefix)
    type_names = nequip_checkpoint.extra_file(path, "type_names").split()
    numbers = None
    if "pair_potential" in stages:
        from ase.data import chemical_symbols

        numbers = {"chemical_species": [chemical_symbols[int(z)] for z in stages["pair_potential"].atomic_numbers]}
    return LegacyCheckpoint(
        source=str(source),
        path=path,
        sha256=digest(path),
        license="unknown",
        citation="unknown",
        version=nequip_checkpoint.extra_file(path, "nequip_version") or "unknown",
        kind="legacy",
        type_names=type_names,
        elements=nequip_checkpoint.elements_of(type_names, types, numbers),
        config={"r_max": float(stages["radial_basis"].basis.r_max), "per_edge_type_cutoff": None},
        state={name.removeprefix(prefix): t for name, t in raw.items() if name.startswith(prefix)},
        path_signs=path_signs,
        stages=stages,
        scale_by=factor,
    )


class LegacyConverter(Converter):
    def per_species(self, cube):
        return cube.transpose(1, 0, 2)[self.species]

    def neighbor_norms(self, t):
        return nequip_checkpoint.norm_constants(self.conv(t)).reshape(-1)

    def species_embedding(self, target):
        name = "chemical_embedding.linear"
        ((_, (weight, scale)),) = self.matrices(name, self.stages["chemical_embedding"].linear).items()
        self.layers.append(
            {
                "type": "species_embedding",
                "output": target,
                "irreps": f"{weight.shape[1]}x0e",
                "weight": self.table.add(f"{name}.weight", weight[self.species]),
                "scale": scale,
            }
        )

    def radial_network(self, t, columns):
        """e3nn's FullyConnectedNet."""
        name, module = f"layer{t}_convnet.conv.fc", self.conv(t).fc
        layers = [layer for _, layer in module.named_children()]
        weights = [self.state[f"{name}.layer{n}.weight"] for n in range(len(layers))]
        weights[-1] = weights[-1][:, columns]
        activation, constant = "identity", 1.0
        if len(layers) > 1:
            activation, constant = nequip_checkpoint.activation_of(layers[0].act)
        return {
            "weights": [self.table.add(f"{name}.layer{n}.weight", w) for n, w in enumerate(weights)],
            "scales": [1.0 / sqrt(w.shape[0]) for w in weights],
            "activation": activation,
            "activation_scale": constant,
        }

    def output_irreps(self, t):
        if t + 1 < self.checkpoint.num_layers:
            return super().output_irreps(t)
        return irreps_of(self.stages["conv_to_output_hidden"].linear.irreps_in)

    def readout(self, source, irreps_x):
        """Two matrices: the first collects the scalars, the second makes a number of them."""
        name = "conv_to_output_hidden.linear"
        hidden = self.stages["conv_to_output_hidden"].linear
        if len(hidden.irreps_out) != 1 or irreps_of(hidden.irreps_out).lmax != 0:
            raise EquiError(f"{name}: {irreps_of(hidden.irreps_out)} is not one block of scalars")
        blocks = []
        for (i, j), (matrix, scale) in self.matrices(name, hidden).items():
            blocks.append({"in": i, "out": j, "weight": self.table.add(f"{name}.{i}.{j}", matrix), "scale": scale})
        self.linear_layer(source, irreps_x, "readout", hidden.irreps_out, blocks)
        name = "output_hidden_to_scalar.linear"
        ((_, (matrix, scale)),) = self.matrices(name, self.stages["output_hidden_to_scalar"].linear).items()
        network = {
            "weights": [self.table.add(f"{name}.weight", matrix)],
            "scales": [scale],
            "activation": "identity",
            "activation_scale": 1.0,
        }
        self.layers.append(
            {
                "type": "readout",
                "input": "readout",
                "irreps_in": f"{matrix.shape[0]}x0e",
                "block": 0,
                "network": network,
            }
        )

    def scale_shift(self):
        """Scales and shifts per species, and the factor of the whole model on both."""
        layer = {"type": "scale_shift"}
        for key, default in (("scale", 1.0), ("shift", 0.0)):
            values = self.state.get(f"per_species_rescale.{key}s", np.zeros(0))
            values = values if values.size else np.full(len(self.checkpoint.type_names), default)
            values = self.checkpoint.scale_by * values.astype(np.float64)[self.species]
            layer[key] = self.table.add(f"per_species_rescale.{key}s", values)
        self.layers.append(layer)

    def harmonics(self):
        return irreps_of(self.stages["spharm_edges"].sh.irreps_out)

    def radial_basis(self):
        basis = self.stages["radial_basis"].basis
        numbers = self.state["radial_basis.basis.bessel_weights"].reshape(-1).astype(np.float64) / basis.r_max
        return {
            "kind": "bessel",
            "wave_numbers": self.table.add("radial_basis.wave_numbers", numbers),
            "prefactor": float(basis.prefactor),
            "cutoff_function": {"kind": "polynomial", "p": self.number(self.stages["radial_basis"].cutoff.p)},
        }

    def pair_cutoff_power(self):
        return self.number(self.stages["radial_basis"].cutoff.p)
