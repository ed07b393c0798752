# SPDX-License-Identifier: MIT
"""Writes the layers of an .equi file (doc/model_file.rst): one function for each type of layer and for each part of
it.

A document refers to tensors by name. Irreps are text, or lists of (mul, ir).
"""

from math import sqrt

import numpy as np

from ... import symmetric_basis
from ...errors import EquiError


def irreps_text(irreps):
    return irreps if isinstance(irreps, str) else "+".join(f"{mul}x{ir}" for mul, ir in irreps)


class TensorTable:
    """The tensors of a file by name."""

    def __init__(self):
        self.tensors = {}

    def add(self, name, array):
        array = np.ascontiguousarray(array)
        if array.dtype not in (np.float32, np.float64):
            raise EquiError(f"tensor {name}: dtype {array.dtype} is not supported, only float32 and float64")
        if name in self.tensors:
            raise EquiError(f"internal: tensor {name} written twice")
        self.tensors[name] = array
        return name


# Parts of layers


def path(source, l, out, scale, **more):
    """A path of a convolution: block of the sender, order of the harmonics, block of the output."""
    return {"in": source, "l": l, "out": out, "scale": scale, **more}


def activated(block, activation, scale=1.0, source=None, offset=0):
    """Term of a gate that activates scalars. source: the block of the input, if it is not that of the output."""
    return {"out": block, "in": block if source is None else source, "offset": offset, "activation": activation, "scale": scale}


def gated(block, source, offset, gate, gate_offset, activation, scale=1.0):
    """Term of a gate that multiplies a block of the input by activated channels of another one."""
    return {
        "out": block, "in": source, "offset": offset, "gate_in": gate, "gate_offset": gate_offset, "activation": activation, "scale": scale
    }  # fmt: skip


def added(tensor, scale=1.0):
    """The bias of a network."""
    return {"tensor": tensor, "scale": scale}


def network(weights, activation="identity", activation_scale=1.0, scales=None, biases=None, **more):
    """Matrices [in, out], with an activation between them. biases: names of tensors, results of added(), or None for a
    matrix without bias."""
    found = {"weights": list(weights), "scales": [1.0] * len(weights) if scales is None else list(scales)}
    if biases is not None:
        found["biases"] = [added(bias) if isinstance(bias, str) else bias for bias in biases]
    return found | {"activation": activation, "activation_scale": activation_scale} | more


def fan_in(matrices):
    """The scales by which e3nn divides matrices [in, out] of a network."""
    return [1.0 / sqrt(matrix.shape[0]) for matrix in matrices]


class Layers:
    """A document under construction: its layers in the order of their evaluation, and its tensors."""

    def __init__(self, elements):
        self.elements = elements
        self.table = TensorTable()
        self.layers = []

    def add_layer(self, kind, **fields):
        self.layers.append({"type": kind, **fields})

    def add(self, kind, source, irreps_in, target, irreps_out, /, **fields):
        """A layer between two features."""
        self.add_layer(kind, input=source, irreps_in=irreps_text(irreps_in), output=target, irreps_out=irreps_text(irreps_out), **fields)

    def add_linear(self, source, irreps_in, target, irreps_out, blocks, biases=(), per_species=False, accumulate=False):
        """blocks: (block of the input, block of the output, name of a tensor, scale); biases: (block, name of a tensor, scale)."""
        self.add(
            "linear", source, irreps_in, target, irreps_out,
            blocks=[{"in": i, "out": out, "weight": weight, "scale": scale} for i, out, weight, scale in blocks],
            biases=[{"out": out, "tensor": tensor, "scale": scale} for out, tensor, scale in biases], per_species=per_species,
            accumulate=accumulate,
        )  # fmt: skip

    def add_convolution(self, source, irreps_in, target, irreps_out, paths, radial):
        self.add("convolution", source, irreps_in, target, irreps_out, paths=paths, radial=radial)

    def add_gate(self, source, irreps_in, target, irreps_out, terms):
        self.add("gate", source, irreps_in, target, irreps_out, terms=terms)

    def add_activation(self, source, target, irreps, activation, blocks=1):
        """Activates all blocks of scalars."""
        self.add_gate(source, irreps, target, irreps, [activated(block, activation) for block in range(blocks)])

    def add_spherical_norm(self, source, irreps, target, groups, epsilon, scale, **bias):
        """groups: (blocks, weights of their squares, whether their scalars are centered); weights: a number for each block, or the name
        of a tensor of its channels. scale: the name of a tensor [blocks, channels], or a list of names of tensors [channels]."""
        found = [{"blocks": list(blocks), "weights": list(weights), "center": center} for blocks, weights, center in groups]
        self.add("spherical_norm", source, irreps, target, irreps, groups=found, epsilon=epsilon, scale=scale, **bias)

    def add_layer_norm(self, source, irreps, target, weight, bias, epsilon):
        """weight, bias: names of tensors of all channels."""
        self.add("layer_norm", source, irreps, target, irreps, weight=weight, bias=bias, epsilon=epsilon)

    def add_contraction(self, source, irreps_in, target, irreps_out, blocks, per_species=True):
        """blocks: lists of terms by block of the output; empty lists are skipped."""
        self.add(
            "symmetric_contraction", source, irreps_in, target, irreps_out, per_species=per_species,
            blocks=[{"out": out, "terms": terms} for out, terms in enumerate(blocks) if terms],
        )  # fmt: skip

    def contraction_term(self, name, coupling, matrix, kept, weights):
        """A term of a contraction. coupling: (irreps of the input, irrep of the output, degree). matrix: [size of the
        basis of symmetric_basis, paths], whose rows `kept` are not zero. weights: [species, paths, channels], or
        without species."""
        rows = symmetric_basis.rows(*coupling)
        rows = rows[np.isin(rows[:, 1], kept)]
        rows[:, 1] = np.searchsorted(kept, rows[:, 1])
        return {
            "degree": coupling[2],
            "weight": self.table.add(f"{name}.weight", np.einsum("sk,...kc->...sc", matrix[kept], weights)),
            "coupling": self.table.add(f"{name}.coupling", rows),
        }

    def add_node_product(self, inputs, irreps_in, target, irreps_out, **fields):
        """fields: paths, or the blocks of both factors of a Gaunt product."""
        self.add_layer(
            "node_product", inputs=inputs, irreps_in=[irreps_text(irreps) for irreps in irreps_in], output=target,
            irreps_out=irreps_text(irreps_out), **fields,
        )  # fmt: skip

    def add_gaunt_product(self, inputs, irreps_in, target, irreps_out, counts):
        """counts: numbers of blocks of both factors."""
        first, both = counts[0], sum(counts)
        self.add_node_product(inputs, irreps_in, target, irreps_out, gaunt=[list(range(first)), list(range(first, both))])

    def add_species_embedding(self, target, name, rows, scale=1.0):
        """rows: [species, channels] of scalars, which become a tensor."""
        self.add_layer("species_embedding", output=target, irreps=f"{rows.shape[1]}x0e", weight=self.table.add(name, rows), scale=scale)

    def add_readout(self, source, irreps, block, network):
        self.add_layer("readout", input=source, irreps_in=irreps_text(irreps), block=block, network=network)

    def add_observable(self, source, irreps, name, blocks, unit):
        """name: charge, dipole or polarizability; blocks: numbers of blocks with one channel."""
        self.add_layer("observable", input=source, irreps_in=irreps_text(irreps), name=name, blocks=list(blocks), unit=unit)

    def add_scale_shift(self, scale, shift):
        """Names of tensors with a number for each species."""
        self.add_layer("scale_shift", scale=scale, shift=shift)

    def add_pair_repulsion(self, name, prefactor, length, cutoff, p, coefficients, exponents, **switch):
        """prefactor, length, cutoff: arrays [species, species]. p: power of the polynomial cutoff function, or the name of another one."""
        pairs = {"prefactor": prefactor, "length": length, "cutoff": cutoff}
        self.add_layer(
            "pair_repulsion", **{key: self.table.add(f"{name}.{key}", array) for key, array in pairs.items()},
            **{"cutoff_function" if isinstance(p, str) else "p": p}, coefficients=coefficients, exponents=exponents, **switch,
        )  # fmt: skip

    def finished(self, architecture, cutoff, lmax_edge, edge_parity, radial_basis, **neighbors):
        """(architecture part of the document, tensors)."""
        body = {
            "architecture": architecture, "elements": list(self.elements), "cutoff": cutoff, **neighbors, "lmax_edge": lmax_edge,
            "edge_parity": edge_parity, "radial_basis": radial_basis, "layers": self.layers,
        }  # fmt: skip
        return body, self.table.tensors
