# SPDX-License-Identifier: MIT
"""Nequix model -> document and tensors of an .equi file (doc/model_file.rst).

Its layers are those of NequIP, with a norm of all blocks in front of the gate, gates included. Activations of gates have the
constants of e3nn for JAX in both back ends, those of radial networks none.
"""

from math import pi, sqrt

import numpy as np

from ...document import LMAX_SUPPORTED
from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ..common.e3nn_layers import JAX_ACTIVATION_CONSTANTS, gate_terms, split_blocks, split_rows
from ..common.elements import chosen_elements
from ..common.layers import Layers, network, path

EPSILON = 1e-12
SILU = ("silu", JAX_ACTIVATION_CONSTANTS["silu"])


class _Converter(Layers):
    def __init__(self, checkpoint, elements):
        super().__init__(chosen_elements(elements, checkpoint.elements, checkpoint.source))
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self.species = [checkpoint.elements.index(e) for e in self.elements]
        # The first layer sees the species as scalars, of which the elements that are left out have none.
        self.numbers = dict(checkpoint.numbers)
        for name in ("layers.0.linear_1", "layers.0.skip"):
            self.numbers[name] = {pair: (matrix[..., self.species, :], scale) for pair, (matrix, scale) in self.numbers[name].items()}

    def linear(self, name, source, irreps_in, target, irreps_out, pieces=None, per_species=False, accumulate=False):
        """pieces: irreps of the source, if these are finer than irreps_in."""
        rows = split_rows(name, irreps_in, pieces or irreps_in)
        matrices = ((i, j, matrix[self.species] if per_species else matrix, scale) for (i, j), (matrix, scale) in self.numbers[name].items())
        blocks = split_blocks(self.table, name, matrices, rows)
        self.add_linear(source, pieces or irreps_in, target, irreps_out, blocks, per_species=per_species, accumulate=accumulate)

    def convolution(self, t, source, target):
        convolution, name = self.checkpoint.convolutions[t], f"layers.{t}.radial_mlp.layers"
        if not convolution.paths:
            raise EquiError(f"layer {t}: no path leads to {convolution.irreps_out}")
        mid, scale = convolution.irreps_mid, sqrt(self.config["avg_n_neighbors"])
        paths = [path(i, l2, q, sqrt(ir.dim) / scale) for q, (i, l2, ir) in enumerate(convolution.paths)]
        matrices = [f"{name}.{n}.weights" for n in range(self.config["radial_mlp_layers"] + 1)]
        radial = network([self.table.add(key, self.numbers[key]) for key in matrices], "silu" if len(matrices) > 1 else "identity")
        self.add_convolution(source, convolution.irreps_in, target, mid, paths, radial)

    def norm(self, t, source, target):
        irreps, name = self.checkpoint.convolutions[t].irreps_z, f"layers.{t}.layer_norm.affine_weight"
        scales = [self.table.add(f"{name}.{b}", self.numbers[f"{name}.{b}"]) for b in range(len(irreps))]
        weights = [1 / (ir.dim**2 * len(irreps)) for _, ir in irreps]
        self.add_spherical_norm(source, irreps, target, [(range(len(irreps)), weights, False)], EPSILON, scales)

    def layer(self, t, x, irreps_x, target):
        """A convolution, what skips it, the norm and the gate."""
        convolution, name = self.checkpoint.convolutions[t], f"layers.{t}"
        z, y, m = f"z{t}", f"y{t}", f"m{t}"
        self.linear(f"{name}.skip", x, irreps_x, z, convolution.irreps_z, per_species=self.config["index_weights"])
        self.linear(f"{name}.linear_1", x, irreps_x, y, convolution.irreps_in)
        self.convolution(t, y, m)
        mid = convolution.irreps_mid
        self.linear(f"{name}.linear_2", m, mid.simplify(), z, convolution.irreps_z, pieces=mid, accumulate=True)
        if self.config["layer_norm"]:
            self.norm(t, z, f"{z}_norm")
            z += "_norm"
        irreps = convolution.irreps_out
        others = sum(1 for _, ir in irreps if ir.l > 0)
        terms = gate_terms(name, convolution.irreps_z, irreps, SCALAR, [SILU] * (len(irreps) - others), [SILU] * others)
        self.add_gate(z, convolution.irreps_z, target, irreps, terms)

    def document(self):
        config, cutoff = self.config, self.checkpoint.cutoff
        if config["lmax"] > LMAX_SUPPORTED:
            raise EquiError(f"option lmax {config['lmax']} is not supported, at most {LMAX_SUPPORTED}")
        radial_basis = {
            "kind": "bessel",
            "wave_numbers": self.table.add("wave_numbers", pi / cutoff * np.arange(1, config["radial_basis_size"] + 1)),
            "prefactor": 2 / cutoff,
            "cutoff_function": {"kind": "polynomial", "p": config["radial_polynomial_p"]},
        }
        count = len(self.species)
        self.add_species_embedding("x0", "species", np.eye(count, dtype=np.float32))
        irreps = Irreps([(count, SCALAR)])
        for t, convolution in enumerate(self.checkpoint.convolutions):
            self.layer(t, f"x{t}", irreps, f"x{t + 1}")
            irreps = convolution.irreps_out
        ((matrix, scale),) = self.numbers["readout"].values()
        self.add_readout(f"x{config['n_layers']}", irreps, 0, network([self.table.add("readout.weight", matrix)], scales=[scale]))
        shifts = config["shift"] + self.numbers["atom_energies"][self.species].astype(np.float64)
        scales = np.full(len(shifts), float(config["scale"]))
        self.add_scale_shift(self.table.add("scale", scales), self.table.add("shift", shifts))
        return self.finished("Nequix", cutoff, config["lmax"], True, radial_basis)


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    return _Converter(checkpoint, elements).document()
