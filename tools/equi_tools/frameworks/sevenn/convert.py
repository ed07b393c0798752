# SPDX-License-Identifier: MIT
"""SevenNet checkpoint -> document and tensors of an .equi file (doc/model_file.rst).

The irreps, paths and constants are those of sevenn_model; the numbers are those of the canonical state of
sevenn_checkpoint. Tensors are sliced and permuted. Sums of a bias, or of the row of a modality, and other numbers are
stored in float64.
"""

from math import sqrt

import numpy as np

from ...errors import EquiError
from ..common.e3nn_layers import ACTIVATION_CONSTANTS, expect_used, gate_terms, matrices_of, split_blocks, split_rows
from ..common.elements import chosen_elements
from ..common.layers import Layers, added, fan_in, irreps_text, network, path
from . import model as sevenn_model

# Couplings of src/algebra/coupling.h are exact up to this degree.
LMAX_SUPPORTED = 8


def _is_0e(ir):
    return ir.l == 0 and ir.p == 1


class Converter(Layers):
    """Layers of a checkpoint; models that begin with other layers override `first_features`."""

    architecture = "SevenNet"

    def __init__(self, checkpoint, modality, elements):
        self.checkpoint = checkpoint
        self.model = checkpoint.model
        self.state = checkpoint.state
        self.linears = checkpoint.model.linears()
        self.modality = checkpoint.modality_index(modality)
        self.config = checkpoint.config
        # Universal models reserve index 0 for "X", which is not an element.
        known = [e for e in checkpoint.elements if e != "X"]
        super().__init__(chosen_elements(elements or known, checkpoint.elements, checkpoint.source))
        self.species = [checkpoint.elements.index(e) for e in self.elements]
        self.num_convolutions = self.config["num_convolution_layer"]

    @staticmethod
    def irreps(irreps, where):
        """Irreps without empty blocks, which the format does not have."""
        if any(mul == 0 for mul, _ in irreps):
            raise EquiError(f"{where}: block without channels in {irreps}")
        return irreps

    def linear_parts(self, name):
        """Pieces of an IrrepsLinear: (irreps_in without modality, irreps_out, {(i, j): matrix}, {j: (bias, scale)},
        {j: scale}).

        The one-hot of the modality is an additional last input block. Its row becomes a bias, but the scale includes
        it.
        """
        linear = self.linears[name]
        irreps_in, irreps_out = self.irreps(linear.irreps_in, name), self.irreps(linear.irreps_out, name)
        flat = self.state[f"{name}.linear.weight"]
        found = matrices_of(f"{name}.linear.weight", flat, linear.blocks_in, irreps_out)
        scales = {j: scale for (_, j), (_, scale) in found.items()}
        matrices = {(i, j): matrix for (i, j), (matrix, _) in found.items() if i < len(irreps_in)}
        modal_rows = {j: matrix[self.modality] for (i, j), (matrix, _) in found.items() if i >= len(irreps_in)}
        bias = self.state[f"{name}.linear.bias"]
        biases, offset = {j: (row, scales[j]) for j, row in modal_rows.items()}, 0
        if bias.size:
            for j, (mul, ir) in enumerate(irreps_out):
                if not _is_0e(ir):
                    continue
                own = bias[offset : offset + mul]
                offset += mul
                if j in biases:
                    own = own.astype(np.float64) + scales[j] * biases[j][0].astype(np.float64)
                biases[j] = (own, 1.0)
        expect_used(f"{name}.linear.bias", bias, offset if bias.size else 0)
        return irreps_in, irreps_out, matrices, biases, scales

    def linear(self, name, source, target, accumulate=False, split=None):
        """Layer of an IrrepsLinear or of a linear self connection; split: irreps of the input feature, if they are
        finer than the framework's merged blocks."""
        irreps_in, irreps_out, matrices, biases, scales = self.linear_parts(name)
        pieces = split_rows(name, irreps_in, split or irreps_in)
        parts = ((i, j, matrix, scales[j]) for (i, j), matrix in matrices.items())
        blocks = split_blocks(self.table, f"{name}.weight", parts, pieces)
        biases = [(j, self.table.add(f"{name}.bias.{j}", bias), scale) for j, (bias, scale) in biases.items()]
        self.add_linear(source, split or irreps_in, target, irreps_out, blocks, biases, accumulate=accumulate)
        return irreps_out

    def embedding(self, output):
        """One row of scalars per species."""
        name = "onehot_to_feature_x"
        irreps_in, irreps_out, matrices, biases, scales = self.linear_parts(name)
        scalars = [(j, mul) for j, (mul, ir) in enumerate(irreps_out) if _is_0e(ir)]
        if not scalars:
            raise EquiError(f"irreps_manual: the first entry, {irreps_out}, has no 0e block")
        rows = [matrices[0, j][self.species] for j, _ in scalars]
        scale = scales[scalars[0][0]]
        if biases:
            rows = [
                (
                    row.astype(np.float64) * scale + np.float64(biases[j][1]) * biases[j][0].astype(np.float64)
                    if j in biases
                    else row.astype(np.float64) * scale
                )
                for row, (j, _) in zip(rows, scalars)
            ]
            scale = 1.0
        mul = sum(mul for _, mul in scalars)
        one_block = len(irreps_out) == 1
        rows = np.concatenate(rows, axis=1)
        self.add_species_embedding(output if one_block else "species", f"{name}.weight", rows, scale)
        if not one_block:
            self.distribute("species", mul, output, irreps_out)
        return irreps_out

    def distribute(self, source, mul, target, irreps):
        """Copies the channels of one 0e block to the 0e blocks of `irreps`, in order; other blocks are zero."""
        blocks, begin = [], 0
        for j, (mul_j, ir) in enumerate(irreps):
            if _is_0e(ir):
                weight = np.eye(mul, mul_j, -begin, dtype=np.float32)
                blocks.append((0, j, self.table.add(f"{target}.copy.{j}", weight), 1.0))
                begin += mul_j
        self.add_linear(source, f"{mul}x0e", target, irreps, blocks)

    def collect(self, source, irreps, target):
        """Joins the 0e blocks of a feature into one; returns its number of channels."""
        mul = sum(m for m, ir in irreps if _is_0e(ir))
        blocks, begin = [], 0
        for i, (mul_i, ir) in enumerate(irreps):
            if _is_0e(ir):
                weight = np.eye(mul_i, mul, begin, dtype=np.float32)
                blocks.append((i, 0, self.table.add(f"{target}.copy.{i}", weight), 1.0))
                begin += mul_i
        self.add_linear(source, irreps, target, f"{mul}x0e", blocks)
        return mul

    def self_connection(self, t, source, irreps_x, target):
        name = f"{t}_self_connection_intro"
        connection = self.model.self_connections[t]
        per_species = connection.num_species > 0
        irreps_out = self.irreps(connection.irreps_out, name)
        flat = self.state[f"{name}.{'fc_tensor_product' if per_species else 'linear'}.weight"]
        blocks = []
        # The fan-in includes all species of the training, also those that --elements removed.
        width = connection.num_species if per_species else None
        for (i, j), (weight, scale) in matrices_of(f"{name}.weight", flat, irreps_x, irreps_out, width).items():
            weight = weight.transpose(1, 0, 2)[self.species] if per_species else weight
            blocks.append((i, j, self.table.add(f"{name}.weight.{i}.{j}", weight), scale))
        self.add_linear(source, irreps_x, target, irreps_out, blocks, per_species=per_species)

    def network(self, prefix, described):
        """A bias-free FullyConnectedNet."""
        weights = [self.state[name] for name in described.shapes(prefix)]
        tensors = [self.table.add(f"{prefix}.layer{n}", w) for n, w in enumerate(weights)]
        kind = (described.activation, ACTIVATION_CONSTANTS[described.activation]) if len(weights) > 1 else ()
        return network(tensors, *kind, scales=fan_in(weights))

    def convolution(self, t, source, target):
        name = f"{t}_convolution"
        convolution = self.model.convolutions[t]
        irreps_in, irreps_edge, irreps_mid = convolution.irreps_in, convolution.irreps_edge, convolution.irreps_mid
        denominator = float(self.state[f"{name}.denominator"][0])
        if denominator == 0.0:
            raise EquiError(f"{name}.denominator is zero")
        normalized = self.config["_normalize_sph"]
        paths = []
        for q, (i, j, k) in enumerate(convolution.paths):
            if k != q or irreps_mid[k].mul != irreps_in[i].mul or irreps_edge[j].mul != 1:
                raise EquiError(f"internal: {name}: path {q} is not in sorted order")
            l2 = irreps_edge[j].ir.l
            scale = self.checkpoint.path_signs[t][q] * sqrt(irreps_mid[k].ir.dim) / denominator
            paths.append(path(i, l2, q, scale, r_power=0 if normalized else l2))
        if not paths:
            raise EquiError(f"{name}: no path leads to the irreps of layer {t + 1}")
        radial = self.network(f"{name}.weight_nn", convolution.network)
        self.add_convolution(source, irreps_in, target, irreps_mid, paths, radial)
        return irreps_mid

    def gate(self, t, irreps_z, irreps_x, source, target):
        """e3nn's Gate: the input is the stable sort of (scalars, gates, gated), the output is scalars, then gated."""
        gate = self.model.gates[t]
        scalars = [b for b in irreps_x if b.ir.l == 0]
        if [b.ir.l for b in irreps_x[: len(scalars)]] != [0] * len(scalars):
            raise EquiError(f"irreps_manual: {irreps_x} has a scalar block after a non-scalar one, which sevenn itself misreads")
        terms = gate_terms(f"{t}_equivariant_gate", irreps_z, irreps_x, gate.gates, gate.scalar_acts, gate.gate_acts)
        self.add_gate(source, irreps_z, target, irreps_x, terms)

    def readout(self, source, irreps_x):
        block = 0
        scalars = [i for i, (_, ir) in enumerate(irreps_x) if _is_0e(ir)]
        if not scalars:
            raise EquiError(f"irreps_manual: the last entry, {irreps_x}, has no 0e block to read the energy from")
        text = irreps_text(irreps_x)
        if len(scalars) == 1:
            block = scalars[0]
        else:
            text = f"{self.collect(source, irreps_x, 'readout_scalars')}x0e"
            source = "readout_scalars"
        if len(self.model.readout) == 1:
            energies = self.network("readout_FCN.fcn", self.model.readout[0])
        else:
            weights, factors, shifts = [], [], []
            for name in ("reduce_input_to_hidden", "reduce_hidden_to_energy"):
                _, irreps_out, matrices, biases, scales = self.linear_parts(name)
                if len(irreps_out) != 1 or irreps_out.dim == 0:
                    raise EquiError(f"channel: {irreps_x} is too small for a readout with hidden scalars")
                weight = np.concatenate([matrices[i, 0] for i, _ in sorted(matrices)])
                weights.append(self.table.add(f"{name}.weight", weight))
                factors.append(scales[0])
                shifts.append(added(self.table.add(f"{name}.bias", biases[0][0]), biases[0][1]) if 0 in biases else None)
            energies = network(weights, scales=factors, biases=shifts)
        self.add_readout(source, text, block, energies)

    def scale_shift(self):
        names = []
        for key in ("scale", "shift"):
            values = self.state[f"rescale_atomic_energy.{key}"]
            if values.ndim == 2:
                values = values[self.modality]
            if values.size == 1:
                values = np.repeat(values.reshape(1), len(self.species))
            else:
                values = values[self.species]
            names.append(self.table.add(f"rescale_atomic_energy.{key}", values))
        self.add_scale_shift(*names)

    def radial_basis(self):
        # The wave numbers are a parameter if they are trained.
        numbers = self.state.get("edge_embedding.basis_function.coeffs")
        if numbers is None:
            numbers = sevenn_model.wave_numbers(self.model)
        options, cutoff = self.config["cutoff_function"], self.config["cutoff"]
        if options["cutoff_function_name"] == "XPLOR":
            if not options.get("cutoff_on", cutoff) < cutoff:
                raise EquiError(f"cutoff_on: {options.get('cutoff_on')} is not below the cutoff {cutoff}")
            cutoff_function = {"kind": "xplor", "r_on": float(options["cutoff_on"])}
        else:
            p = options.get("poly_cut_p_value", 6)
            if not p >= 2:
                raise EquiError(f"poly_cut_p_value: {p} gives a cutoff function without a second derivative at 0")
            cutoff_function = {"kind": "polynomial", "p": p}
        return {
            "kind": "bessel",
            "wave_numbers": self.table.add("edge_embedding.wave_numbers", numbers),
            "prefactor": 2.0 / cutoff,
            "cutoff_function": cutoff_function,
        }

    def first_features(self):
        """(irreps, name of the feature) that the first convolution reads."""
        return self.embedding("x0"), "x0"

    def document(self):
        lmax_edge = self.model.irreps_edge.lmax
        if lmax_edge > LMAX_SUPPORTED:
            raise EquiError(f"lmax: {lmax_edge} is not supported, at most {LMAX_SUPPORTED}")
        radial_basis = self.radial_basis()
        irreps_x, x = self.first_features()
        for t in range(self.num_convolutions):
            z, y, m, x_next = f"z{t}", f"y{t}", f"m{t}", f"x{t + 1}"
            self.self_connection(t, x, irreps_x, z)
            self.linear(f"{t}_self_interaction_1", x, y)
            irreps_mid = self.convolution(t, y, m)
            irreps_z = self.linear(f"{t}_self_interaction_2", m, z, accumulate=True, split=irreps_mid)
            # The irreps that the next layer assigns to its input; sevenn computes with them.
            irreps_x = self.irreps(self.model.outputs[t], x_next)
            self.gate(t, irreps_z, irreps_x, z, x_next)
            x = x_next
        self.readout(x, irreps_x)
        self.scale_shift()
        return self.finished(self.architecture, float(self.config["cutoff"]), lmax_edge, bool(self.config["is_parity"]), radial_basis)


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded checkpoint."""
    return Converter(checkpoint, choice, elements).document()
