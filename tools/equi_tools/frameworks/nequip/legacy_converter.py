# SPDX-License-Identifier: MIT
"""Layers of models of nequip 0.6 and older: the differences from later ones."""

import numpy as np

from ...errors import EquiError
from ...irreps import Irreps
from ..common.layers import fan_in, network
from .converter import Converter
from .modules import activation_of, norm_constants


class LegacyConverter(Converter):
    def per_species(self, cube):
        return cube.transpose(1, 0, 2)[self.species]

    def neighbor_norms(self, t):
        return norm_constants(self.conv(t)).reshape(-1)

    def species_embedding(self, target):
        name = "chemical_embedding.linear"
        ((_, (weight, scale)),) = self.matrices(name, self.stages["chemical_embedding"].linear).items()
        self.add_species_embedding(target, f"{name}.weight", weight[self.species], scale)

    def radial_network(self, t, columns):
        """e3nn's FullyConnectedNet."""
        name, module = f"layer{t}_convnet.conv.fc", self.conv(t).fc
        layers = [layer for _, layer in module.named_children()]
        weights = [self.state[f"{name}.layer{n}.weight"] for n in range(len(layers))]
        weights[-1] = weights[-1][:, columns]
        kind = activation_of(layers[0].act) if len(layers) > 1 else ()
        tensors = [self.table.add(f"{name}.layer{n}.weight", w) for n, w in enumerate(weights)]
        return network(tensors, *kind, scales=fan_in(weights))

    def output_irreps(self, t):
        if t + 1 < self.checkpoint.num_layers:
            return super().output_irreps(t)
        return Irreps(self.stages["conv_to_output_hidden"].linear.irreps_in)

    def readout(self, source, irreps_x):
        """Two matrices: the first collects the scalars, the second maps them to one number."""
        name = "conv_to_output_hidden.linear"
        hidden = self.stages["conv_to_output_hidden"].linear
        if len(hidden.irreps_out) != 1 or Irreps(hidden.irreps_out).lmax != 0:
            raise EquiError(f"{name}: {Irreps(hidden.irreps_out)} is not one block of scalars")
        blocks = []
        for (i, j), (matrix, scale) in self.matrices(name, hidden).items():
            blocks.append((i, j, self.table.add(f"{name}.{i}.{j}", matrix), scale))
        self.add_linear(source, irreps_x, "readout", Irreps(hidden.irreps_out), blocks)
        name = "output_hidden_to_scalar.linear"
        ((_, (matrix, scale)),) = self.matrices(name, self.stages["output_hidden_to_scalar"].linear).items()
        energies = network([self.table.add(f"{name}.weight", matrix)], scales=[scale])
        self.add_readout("readout", f"{matrix.shape[0]}x0e", 0, energies)

    def scale_shift(self):
        """Scales and shifts per species, and the factor of the whole model on both."""
        names = []
        for key, default in (("scale", 1.0), ("shift", 0.0)):
            values = self.state.get(f"per_species_rescale.{key}s", np.zeros(0))
            values = values if values.size else np.full(len(self.checkpoint.type_names), default)
            values = self.checkpoint.scale_by * values.astype(np.float64)[self.species]
            names.append(self.table.add(f"per_species_rescale.{key}s", values))
        self.add_scale_shift(*names)

    def harmonics(self):
        return Irreps(self.stages["spharm_edges"].sh.irreps_out)

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
