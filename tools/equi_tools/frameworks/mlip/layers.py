# SPDX-License-Identifier: MIT
"""What the converters of mlip's architectures share: activations, linear maps of e3j, messages, and energies of elements.

mlip's vector of an edge is r_i - r_j, opposite to the format's, so that each path of a message has the sign (-1)^l2.  Blocks
of one irrep are sorted by l, p = (-1)^l first, and in the order in which their products are made.
"""

import re
from math import pi, sqrt

import numpy as np

from ...document import LMAX_SUPPORTED
from ...errors import EquiError
from ...irreps import Irreps
from ..common.e3nn_layers import JAX_ACTIVATION_CONSTANTS, paths_to
from ..common.elements import chosen_elements
from ..common.layers import Layers, fan_in, irreps_text, network, path
from ..common.numbers import activate
from ..common.state import State

# Names of the format and factors of mlip's activations.
ACTIVATIONS = {
    **{name: (name, factor) for name, factor in JAX_ACTIVATION_CONSTANTS.items()},
    "swish": ("silu", JAX_ACTIVATION_CONSTANTS["silu"]),
    "none": ("identity", 1.0),
}


def natural(lmax):
    return Irreps.spherical_harmonics(lmax)


def place(ir):
    """By which e3nn for JAX sorts irreps."""
    return ir.l, ir.p != (-1) ** ir.l


def times(channels, irreps):
    return Irreps((channels, ir) for _, ir in irreps)


def alternating(first, copies, channels, all_copies):
    """Numbers of the channels of some copies of an irrep, from the copy `first` on, among those of all copies: copies alternate."""
    return (np.arange(channels)[:, None] * all_copies + first + np.arange(copies)).ravel()


class ForceField(Layers):
    """A converter of one architecture, whose name for messages is `kind`."""

    kind = ""

    def __init__(self, checkpoint, head, elements):
        self.checkpoint = checkpoint
        self.options = self.named(checkpoint.options)
        self.state = self.numbers(checkpoint.state)
        self.head = checkpoint.head_index(head)
        super().__init__(chosen_elements(elements, checkpoint.elements, checkpoint.source))
        self.species = [checkpoint.elements.index(e) for e in self.elements]
        self.num_species = len(checkpoint.elements)
        self.num_neighbors = float(checkpoint.statistics["avg_num_neighbors"])
        self.lmax = self.options["l_max"]
        if self.lmax > LMAX_SUPPORTED:
            raise EquiError(f"option l_max {self.lmax} is not supported, at most {LMAX_SUPPORTED}")

    def named(self, options):
        """The options under the names by which the converter reads them."""
        return options

    def numbers(self, source):
        return State(source, self.kind)

    def activation(self, key, options=None):
        """(activation, its factor) that an option names, by default one of the architecture."""
        value = str((options or self.options).get(key))
        if value not in ACTIVATIONS:
            raise EquiError(f"option {key} {value} is not supported, only {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def embedding(self, name, width, scaled=True):
        """(rows of the elements, scale): the embedding of the species, or that of species and charge, which is that of the charge
        stated. name: of mlip's block; scaled: whether mlip divides rows by the root of their number."""
        charges = sorted(set(self.checkpoint.statistics.get("total_charge_set") or []))
        scales = [1 / sqrt(count) if scaled else 1.0 for count in (self.num_species, len(charges) + 1)]
        if not self.options.get("use_total_charge_embedding"):
            return self.state.take(f"{name}#embed#embedding", self.num_species, width)[self.species], scales[0]
        rows = self.state.take(f"{name}#species_embedder#embed#embedding", self.num_species, width)[self.species]
        # The first row is that of charges that are not in the data set.
        row = 1 + charges.index(self.checkpoint.charge)
        charge = self.state.take(f"{name}#charge_embedder#embed#embedding", len(charges) + 1, width)[row]
        parts = [part.astype(np.float64) * scale for part, scale in zip((rows, np.tile(charge, (len(rows), 1))), scales)]
        matrix = self.state.take(f"{name}#joint_embedding_projection#kernel", 2 * width, width)
        return activate(self.activation("embed_activation")[0], np.concatenate(parts, axis=1) @ matrix), 1.0

    def bessel_functions(self, factor=1.0):
        """The radial basis, multiplied by a factor."""
        cutoff, count = self.checkpoint.cutoff, self.options["num_rbf"]
        return {
            "kind": "bessel",
            "wave_numbers": self.table.add("wave_numbers", pi / cutoff * np.arange(1, count + 1)),
            "prefactor": sqrt(2 / cutoff) * factor,
            "cutoff_function": {"kind": "polynomial", "p": 5},
        }

    @property
    def head_of_readout(self):
        """The number of the readout; several data sets may have one, with other energies of elements."""
        return min(self.head, self.options["num_readout_heads"] - 1)

    def scale_shift(self):
        from ase.data import atomic_numbers

        statistics = self.checkpoint.statistics
        energies = self.checkpoint.atomic_energies(self.head)
        shifts = []
        for element in self.elements:
            energy = energies.get(atomic_numbers[element]) if self.options["add_atomic_energies"] else 0.0
            if energy is None:
                raise EquiError(f"the data set of head {self.checkpoint.heads[self.head]} has no energy of {element}")
            shifts.append(float(statistics["scaling_mean"]) + energy)
        scale = np.full(len(shifts), float(statistics["scaling_stdev"]))
        self.add_scale_shift(self.table.add("scale", scale), self.table.add("shift", np.array(shifts)))


class MessagePassing(ForceField):
    """A converter of MACE or NequIP: radial_network(name, matrices) is what turns distances to weights."""

    # Linear maps

    def weight(self, name, ir, *shape):
        """The matrix of one irrep, whose name begins with a number that depends on the irreps of both sides."""
        pattern = re.compile(re.escape(name) + rf"#weight\d+_{ir.l}_{ir.p}")
        found = [key for key in self.checkpoint.state if pattern.fullmatch(key)]
        if len(found) != 1:
            raise EquiError(f"tensor {name}#weight*_{ir.l}_{ir.p} is missing")
        return self.state.take(found[0], *shape)

    def linear(self, name, source, irreps_in, target, irreps_out, per_species=False, accumulate=False, channels=None, stored=None):
        """e3j's Linear. channels: of a copy of an irrep, where several blocks of the input have the same one: in its matrix those of
        all copies alternate, and so do those of the copies in a block. stored: irreps of both sides of mlip's map, if some of them
        and the last channels of an output are left out."""
        stored_in, stored_out = stored or (irreps_in, irreps_out)
        lead = (self.num_species,) if per_species else ()
        matrices = {ir: self.weight(name, ir, *lead, mul, stored_in.count(ir)) for mul, ir in stored_out if ir in stored_in}
        blocks = []
        for j, (mul_out, ir) in enumerate(irreps_out):
            if ir not in matrices:
                continue
            matrix = matrices[ir][self.species] if per_species else matrices[ir]
            rows = matrix.shape[-1]
            size, first = channels or rows, 0
            for i, block in enumerate(irreps_in):
                if block.ir != ir:
                    continue
                copies = block.mul // size
                weight = matrix[..., :mul_out, alternating(first, copies, size, rows // size)]
                blocks.append((i, j, self.table.add(f"{name}.{i}.{j}", np.swapaxes(weight, -1, -2)), 1 / sqrt(rows)))
                first += copies
        self.add_linear(source, irreps_in, target, irreps_out, blocks, (), per_species, accumulate)

    def dense(self, name, matrices, activation=None):
        """A network of matrices [in, out]. activation: the option with that between them."""
        kind = self.activation(activation) if activation is not None and len(matrices) > 1 else ()
        return network([self.table.add(f"{name}.layer{n}", matrix) for n, matrix in enumerate(matrices)], *kind, scales=fan_in(matrices))

    # Messages

    def radial_matrices(self, name, outputs):
        sizes = [self.options["num_rbf"], *self.options["radial_mlp_hidden"], outputs]
        return [self.state.take(f"{name}#layers_{n}#kernel", *shape) for n, shape in enumerate(zip(sizes, sizes[1:]))]

    def paths(self, name, irreps_in, irreps_out):
        found = paths_to(irreps_in, self.lmax, irreps_out, place)
        if not found:
            raise EquiError(f"{name}: no path leads to {irreps_text(irreps_out)}")
        return found

    def message_convolution(self, name, source, irreps_in, target, irreps_out, paths, matrices):
        """paths: (block, order of the harmonics, scale) for each block of the output."""
        paths = [path(i, l2, q, (-1) ** l2 * scale / self.num_neighbors, r_power=0) for q, (i, l2, scale) in enumerate(paths)]
        self.add_convolution(source, irreps_in, target, irreps_out, paths, self.radial_network(name, matrices))

    def messages(self, name, source, irreps_in, target, irreps_out, channels, accumulate=False, stored=None):
        """The convolution and the linear map after it. channels: of a copy of an irrep, of which a block has one or several; mlip's
        radial network has a weight for each channel of each copy, path by path. stored: as for `linear`."""
        stored_in, stored_out = stored or (irreps_in, irreps_out)
        middle, kept, columns, paths, first = [], [], [], [], 0
        for i, l2, ir in self.paths(name, stored_in, stored_out):
            mul, source_ir = stored_in[i]
            middle.append((mul, ir))
            if ir in irreps_out:
                kept.append((mul, ir))
                paths.append(([block.ir for block in irreps_in].index(source_ir), l2, sqrt(ir.dim)))
                columns.append(first + np.arange(mul).reshape(-1, channels).T.ravel())
            first += mul
        matrices = self.radial_matrices(f"{name}#radial_mlp", first)
        matrices[-1] = matrices[-1][:, np.concatenate(columns)]
        sums = Irreps(kept)
        self.message_convolution(name, source, irreps_in, f"{target}_sum", sums, paths, matrices)
        self.linear(f"{name}#linear_out", f"{target}_sum", sums, target, irreps_out, accumulate=accumulate, channels=channels,
                    stored=(Irreps(middle), stored_out))  # fmt: skip
