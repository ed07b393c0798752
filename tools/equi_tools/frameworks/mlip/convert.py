# SPDX-License-Identifier: MIT
"""MACE of mlip -> document and tensors of an .equi file (doc/model_file.rst).

mlip's couplings are ours; its vector of an edge is r_i - r_j, opposite to the format's, so that each path of a message has
the sign (-1)^l2.  The signals of its Gaunt products are sums over harmonics of norm 1, which are ours divided by
sqrt(2l+1).  Blocks of one irrep are sorted by l, p = (-1)^l first, and in the order in which their products are made.
"""

import re
from functools import lru_cache
from itertools import groupby
from math import pi, sqrt

import numpy as np

from ... import symmetric_basis
from ...coupling import coupling
from ...document import LMAX_SUPPORTED
from ...errors import EquiError
from ...irreps import SCALAR, Irrep, Irreps
from ..common.elements import chosen_elements
from ..common.layers import Layers, fan_in, irreps_text, network, path
from ..common.state import State

# mlip divides an activation by its root mean square over a million quantiles of the normal distribution; these are the
# factors, with JAX in float64.
ACTIVATIONS = {
    "silu": ("silu", float.fromhex("0x1.ad332bc093dedp+0")), "swish": ("silu", float.fromhex("0x1.ad332bc093dedp+0")),
    "tanh": ("tanh", float.fromhex("0x1.97b09ccbb67b8p+0")), "relu": ("relu", float.fromhex("0x1.6a0b109d1a15bp+0")),
    "sigmoid": ("sigmoid", float.fromhex("0x1.d8a279ae45fe2p+0")), "none": ("identity", 1.0),
}  # fmt: skip
# Couplings of a product that are projected at a time, which bounds the memory.
AT_A_TIME = 16


def natural(lmax):
    return Irreps.spherical_harmonics(lmax)


def place(ir):
    """By which e3nn for JAX sorts irreps."""
    return ir.l, ir.p != (-1) ** ir.l


def times(channels, irreps):
    return Irreps((channels, ir) for _, ir in irreps)


def paths_to(irreps, lmax, target):
    """[(block, l2, ir)] of the products with harmonics to lmax that make one of `target`, in mlip's order."""
    found = [
        (i, l2, ir)
        for i, (_, source) in enumerate(irreps)
        for l2 in range(lmax + 1)
        for ir in source * Irrep(l2, (-1) ** l2)
        if ir in [wanted for _, wanted in target]
    ]
    return sorted(found, key=lambda path: place(path[2]))


def reachable(irreps, outs, products):
    """Irreps that lead to one of outs by at most so many further products with one of irreps."""
    found, frontier = set(outs), set(outs)
    for _ in range(products):
        frontier = {ir for out in frontier for factor in irreps for ir in out * factor}
        found |= frontier
    return found


@lru_cache(maxsize=None)
def power_couplings(irreps, outs, correlation):
    """{out: [(degree, matrix [size of the basis, paths])]}: what the powers of a feature hold of each irrep, in mlip's order.

    mlip multiplies a power by the feature again, and keeps every product that may lead to `outs`.
    """
    offsets = np.cumsum([0] + [ir.dim for ir in irreps])
    dim = int(offsets[-1])
    power = []  # of (ir, tensor [2l+1, D, ..., D])
    for b, ir in enumerate(irreps):
        unit = np.zeros((ir.dim, dim))
        unit[:, offsets[b] : offsets[b + 1]] = np.eye(ir.dim)
        power.append((ir, unit))
    found = {out: [] for out in outs}

    def add(degree, out, tensors):
        matrices = []
        for first in range(0, len(tensors), AT_A_TIME):
            part = np.stack(tensors[first : first + AT_A_TIME], -1)
            matrix, error = symmetric_basis.project(part, tuple(irreps), tuple(out), degree) if np.any(part) else (None, 0.0)
            if error > 1e-10:
                raise EquiError(f"internal: a coupling of degree {degree} to {out} is not equivariant, {error:.1e}")
            matrices.append(matrix)
        if matrices and all(matrix is not None for matrix in matrices):
            found[out].append((degree, np.concatenate(matrices, 1)))

    for out in outs:
        add(1, out, [tensor for ir, tensor in power if ir == out])
    for degree in range(2, correlation + 1):
        kept = reachable(irreps, outs, correlation - degree)
        following, last = [], degree == correlation
        collected = {out: [] for out in outs}
        # The copies of an irrep stay together: mlip has them as one block.
        for left, group in groupby(power, lambda entry: entry[0]):
            tensors = [tensor for _, tensor in group]
            for b, ir in enumerate(irreps):
                for out in left * ir:
                    if out not in kept:
                        continue
                    for tensor in tensors:
                        product = np.zeros((out.dim, *tensor.shape[1:], dim))
                        product[..., offsets[b] : offsets[b + 1]] = np.einsum("a...,abc->c...b", tensor, coupling(left.l, ir.l, out.l))
                        if last:
                            collected[out].append(product)
                        else:
                            following.append((out, product))
        power = sorted(following, key=lambda entry: place(entry[0]))
        for out in outs:
            add(degree, out, collected[out] if last else [tensor for ir, tensor in power if ir == out])
    return found


def members(matrix):
    """Those of the basis that a coupling contains."""
    return np.flatnonzero(np.abs(matrix).max(axis=1) > 1e-12)


class _Converter(Layers):
    def __init__(self, checkpoint, head, elements):
        self.checkpoint = checkpoint
        self.options = checkpoint.options
        self.head = checkpoint.head_index(head)
        super().__init__(chosen_elements(elements, checkpoint.elements, checkpoint.source))
        self.species = [checkpoint.elements.index(e) for e in self.elements]
        self.num_species = len(checkpoint.elements)
        self.channels = self.options["num_channels"]
        self.lmax = self.options["l_max"]
        if self.lmax > LMAX_SUPPORTED:
            raise EquiError(f"option l_max {self.lmax} is not supported, at most {LMAX_SUPPORTED}")
        self.state = State(checkpoint.state, "mlip's MACE")
        self.tensor = self.table.add

    def activation(self, key):
        value = str(self.options[key])
        if value not in ACTIVATIONS:
            raise EquiError(f"option {key} {value} is not supported, only {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    # Linear maps

    def weight(self, name, ir, *shape):
        """The matrix of one irrep, whose name begins with a number that depends on the irreps of both sides."""
        pattern = re.compile(re.escape(name) + rf"#weight\d+_{ir.l}_{ir.p}")
        found = [key for key in self.checkpoint.state if pattern.fullmatch(key)]
        if len(found) != 1:
            raise EquiError(f"tensor {name}#weight*_{ir.l}_{ir.p} is missing")
        return self.state.take(found[0], *shape)

    def linear(self, name, source, irreps_in, target, irreps_out, per_species=False, accumulate=False):
        """mlip's Linear: the channels of several blocks of one irrep alternate in its matrix."""
        blocks = []
        for j, (mul_out, ir) in enumerate(irreps_out):
            inputs = [i for i, block in enumerate(irreps_in) if block.ir == ir]
            if not inputs:
                continue
            rows = sum(irreps_in[i].mul for i in inputs)
            shape = (self.num_species, mul_out, rows) if per_species else (mul_out, rows)
            matrix = self.weight(name, ir, *shape)
            matrix = matrix[self.species] if per_species else matrix
            for k, i in enumerate(inputs):
                weight = np.swapaxes(matrix[..., k :: len(inputs)], -1, -2)
                blocks.append((i, j, self.tensor(f"{name}.{i}.{j}", weight), 1 / sqrt(rows)))
        self.add_linear(source, irreps_in, target, irreps_out, blocks, (), per_species, accumulate)

    # Messages

    def radial_matrices(self, name, outputs):
        sizes = [self.options["num_rbf"], *self.options["radial_mlp_hidden"], outputs]
        return [self.state.take(f"{name}#layers_{n}#kernel", *shape) for n, shape in enumerate(zip(sizes, sizes[1:]))]

    def dense(self, name, matrices, activation):
        """A network of matrices [in, out]. activation: the option with that between them."""
        kind = self.activation(activation) if len(matrices) > 1 else ()
        return network([self.tensor(f"{name}{n}", matrix) for n, matrix in enumerate(matrices)], *kind, scales=fan_in(matrices))

    def message_convolution(self, name, source, irreps_in, target, irreps_out, paths, matrices):
        """paths: (block, order of the harmonics, scale) for each block of the output."""
        denominator = float(self.checkpoint.statistics["avg_num_neighbors"])
        paths = [path(i, l2, q, (-1) ** l2 * scale / denominator, r_power=0) for q, (i, l2, scale) in enumerate(paths)]
        radial = self.dense(f"{name}.layer", matrices, "radial_mlp_activation")
        self.add_convolution(source, irreps_in, target, irreps_out, paths, radial)

    def messages(self, name, source, irreps_in, target, irreps_out):
        """The convolution and the linear map after it."""
        found = paths_to(irreps_in, self.lmax, irreps_out)
        if not found:
            raise EquiError(f"{name}: no path leads to {irreps_text(irreps_out)}")
        middle = Irreps((self.channels, ir) for _, _, ir in found)
        if self.options["use_gaunt_tp_message_passing"]:
            return self.gaunt_messages(name, source, irreps_in, target, irreps_out, found, middle)
        matrices = self.radial_matrices(f"{name}#radial_mlp", len(found) * self.channels)
        paths = [(i, l2, sqrt(ir.dim)) for i, l2, ir in found]
        self.message_convolution(name, source, irreps_in, f"{target}_sum", middle, paths, matrices)
        self.linear(f"{name}#linear_out", f"{target}_sum", middle, target, irreps_out)

    def gaunt_messages(self, name, source, irreps_in, target, irreps_out, found, middle):
        """A weight of each path that is a product of one for the order of the harmonics and a function for that of the message."""
        made = sorted({ir for _, _, ir in found}, key=place)
        matrices = self.radial_matrices(f"{name}#radial_mlp", len(made) * self.channels)
        factors = [self.weight(f"{name}#linear_proj", Irrep(l, (-1) ** l), self.channels, 1)[:, 0] for l in range(self.lmax + 1)]
        last = matrices[-1].reshape(-1, len(made), self.channels)
        columns = [last[:, made.index(ir)].astype(np.float64) * factors[l2] for _, l2, ir in found]
        paths = []
        for i, l2, ir in found:
            l1 = irreps_in[i].ir.l
            paths.append((i, l2, coupling(l1, l2, ir.l)[l1, l2, ir.l]))  # the 3j symbol of m = 0, which is that of the mean
        self.message_convolution(name, source, irreps_in, f"{target}_sum", middle, paths, [*matrices[:-1], np.concatenate(columns, 1)])
        blocks = []
        for j, (_, ir) in enumerate(irreps_out):
            inputs = [q for q, block in enumerate(middle) if block.ir == ir]
            if inputs:
                weight = self.weight(f"{name}#linear_out", ir, self.channels, self.channels).T
                tensor = self.tensor(f"{name}#linear_out.{j}", weight)
                blocks += [(q, j, tensor, 1 / sqrt(self.channels)) for q in inputs]
        self.add_linear(f"{target}_sum", middle, target, irreps_out, blocks)

    # Products

    def products(self, name, source, irreps_in, target, irreps_out):
        if self.options["symmetric_contraction_backend"] == "gaunt_tp":
            return self.gaunt_products(name, source, irreps_in, target, irreps_out)
        irreps, outs = tuple(ir for _, ir in irreps_in), tuple(ir for _, ir in irreps_out)
        couplings, blocks = power_couplings(irreps, outs, self.options["correlation"]), []
        for b, ir in enumerate(outs):
            counts = [matrix.shape[1] for _, matrix in couplings[ir]]
            weights = self.weight(f"{name}#LinearIndexwise_0", ir, self.num_species, self.channels, 1, sum(counts))
            weights = np.swapaxes(weights[self.species, :, 0].astype(np.float64), 1, 2)
            terms, first = [], 0
            for (degree, matrix), count in zip(couplings[ir], counts):
                kept = members(matrix)
                mine = weights[:, first : first + count]
                first += count
                if not len(kept):
                    continue
                terms.append(self.contraction_term(f"{name}.{b}.degree{degree}", (irreps, tuple(ir), degree), matrix, kept, mine))
            blocks.append(terms)
        self.add_contraction(source, irreps_in, target, irreps_out, blocks)

    def gaunt_products(self, name, source, irreps_in, target, irreps_out):
        """The product of `correlation` functions, each a linear map of the feature, and weights of species."""
        correlation, lmax_out = self.options["correlation"], irreps_out.lmax
        functions = []
        for c in range(correlation):
            blocks = []
            for b, (_, ir) in enumerate(irreps_in):
                text = f"{self.channels}x{ir}"
                weight = self.state.take(f"{name}#linear_in_{c}#w[{b},{b}] {text},{text}", self.channels, self.channels)
                tensor = self.tensor(f"{name}#linear_in_{c}.{b}", weight)
                blocks.append((b, b, tensor, 1 / sqrt(self.channels * ir.dim)))
            bias = self.state.take(f"{name}#gaunt_symmetric_contraction_bias_{c}", self.channels)
            # mlip has a number for the first function too, which it does not use.
            biases = [(0, self.tensor(f"{name}#bias_{c}", bias), 1.0)] if c > 0 else []
            function = f"{target}_f{c}"
            self.add_linear(source, irreps_in, function, irreps_in, blocks, biases)
            functions.append((function, irreps_in))

        def multiply(first, second, product, lmax):
            if lmax > LMAX_SUPPORTED:
                raise EquiError(
                    f"option correlation {correlation} with l_max {self.lmax}: a product of orders to {lmax}, at most "
                    f"{LMAX_SUPPORTED} are supported"
                )
            made = times(self.channels, natural(lmax))
            self.add_gaunt_product([first[0], second[0]], [first[1], second[1]], product, made, (len(first[1]), len(second[1])))
            return product, made

        if correlation == 4:  # two pairs
            functions = [multiply(*functions[k : k + 2], f"{target}_p{k}", 2 * self.lmax) for k in (0, 2)]
        elif correlation == 3:  # of the first product only orders that the third function can bring to the output
            lmax = min(2 * self.lmax, self.lmax + lmax_out)
            functions = [multiply(functions[0], functions[1], f"{target}_p0", lmax), functions[2]]
        if len(functions) == 2:
            functions = [multiply(functions[0], functions[1], f"{target}_g", lmax_out)]
        ((feature, irreps),) = functions
        blocks, offsets = [], np.cumsum([0] + [ir.dim for _, ir in irreps])
        for b, (_, ir) in enumerate(irreps_out):
            weights = self.weight(f"{name}#linear_out", ir, self.num_species, self.channels, 1, 1)[self.species, :, 0, 0]
            rows = [[m, 0, offsets[ir.l] + m, 1 / sqrt(ir.dim)] for m in range(ir.dim)]
            terms = {
                "degree": 1,
                "weight": self.tensor(f"{name}#linear_out.{b}.weight", weights[:, None]),
                "coupling": self.tensor(f"{name}#linear_out.{b}.coupling", np.array(rows, float)),
            }
            blocks.append([terms])
        self.add_contraction(feature, irreps, target, irreps_out, blocks)

    # Energy

    def readout(self, t, source, irreps_x, last):
        name = f"layers_{t}#readout_block"
        hidden, out = (Irreps(text) for text in self.options["readout_irreps"])
        if any(ir != SCALAR for _, ir in hidden) or not hidden or out != Irreps("1x0e"):
            raise EquiError(
                f"option readout_irreps {self.options['readout_irreps']} is not supported: only scalars 0e, of which one is the energy"
            )
        width = hidden.num_channels
        matrices = []
        for head in range(self.options["num_readout_heads"]):
            sizes = [self.channels, width, 1] if last else [self.channels, 1]
            parts = [
                self.weight(f"{name}#ReadoutBlock_{head}#Linear_{n}", SCALAR, rows, columns).T
                for n, (columns, rows) in enumerate(zip(sizes, sizes[1:]))
            ]
            # Several data sets may share a head; only their energies of atoms then differ.
            if head == min(self.head, self.options["num_readout_heads"] - 1):
                matrices = parts
        self.add_readout(source, irreps_x, 0, self.dense(f"{name}.", matrices, "activation"))

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
        self.add_scale_shift(self.tensor("scale", scale), self.tensor("shift", np.array(shifts)))

    def radial_basis(self):
        cutoff, count = self.checkpoint.cutoff, self.options["num_rbf"]
        return {
            "kind": "bessel",
            "wave_numbers": self.tensor("wave_numbers", pi / cutoff * np.arange(1, count + 1)),
            "prefactor": sqrt(2 / cutoff) * prefactor(self.checkpoint),
            "cutoff_function": {"kind": "polynomial", "p": 5},
        }

    def document(self):
        options, channels = self.options, self.channels
        radial_basis = self.radial_basis()
        embedding = self.state.take("embedding_block#node_embedding_block#embed#embedding", self.num_species, channels)
        x, irreps_x = "x0", Irreps([(channels, SCALAR)])
        self.add_species_embedding(x, "embedding", embedding[self.species], 1 / sqrt(self.num_species))
        message_irreps = natural(self.lmax)
        if options["include_pseudotensors"]:
            message_irreps = Irreps((1, (l, p * (-1) ** l)) for l in range(self.lmax + 1) for p in (1, -1))
        messages = times(channels, message_irreps)
        for t in range(options["num_layers"]):
            block, last = f"layers_{t}", t + 1 == options["num_layers"]
            y, a, b, following = f"y{t}", f"a{t}", f"b{t}", f"x{t + 1}"
            irreps_out = times(channels, natural(0 if last else options["node_symmetry"]))
            has_residual = t > 0 or bool(options["residual_connection_first_layer"])
            if has_residual:
                self.linear(f"{block}#residual_block", x, irreps_x, following, irreps_out, per_species=True)
            self.linear(f"{block}#interaction_block#linear_in", x, irreps_x, y, irreps_x)
            self.messages(f"{block}#interaction_block", y, irreps_x, a, messages)
            if not has_residual:
                self.linear(f"{block}#linear_by_species_block", a, messages, f"{a}_species", messages, per_species=True)
                a = f"{a}_species"
            self.products(f"{block}#expansion_block#symmetric_contraction", a, messages, b, irreps_out)
            self.linear(f"{block}#expansion_block#linear_block", b, irreps_out, following, irreps_out, accumulate=has_residual)
            x, irreps_x = following, irreps_out
            self.readout(t, x, irreps_x, last)
        self.scale_shift()
        self.state.finish()
        return self.finished("MACE", self.checkpoint.cutoff, self.lmax, True, radial_basis)


def prefactor(checkpoint):
    """What mlip multiplies its radial functions by, so that their mean square beyond a distance is 1: of numbers in float32, as
    there."""
    start, cutoff, count = checkpoint.statistics.get("avg_r_min_angstrom"), checkpoint.cutoff, checkpoint.options["num_rbf"]
    if start is None:
        return 1.0
    r = np.linspace(start, cutoff, 1000).astype(np.float32)
    n = np.arange(1, count + 1, dtype=np.float32)
    functions = np.float32(sqrt(2 / cutoff)) * np.sin(n * np.float32(pi / cutoff) * r[:, None]) / r[:, None]
    u = r / np.float32(cutoff)
    envelope = (1 - 21 * u**5 + 35 * u**6 - 15 * u**7) * (r < cutoff)
    return float(np.mean((functions * envelope[:, None]).astype(np.float64) ** 2)) ** -0.5


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded force field."""
    return _Converter(checkpoint, choice, elements).document()
