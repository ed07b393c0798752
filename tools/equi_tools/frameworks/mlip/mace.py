# SPDX-License-Identifier: MIT
"""MACE of mlip: its options, and the layers of an .equi file that stand for it (doc/model_file.rst).

mlip's couplings are ours.  The signals of its Gaunt products are sums over harmonics of norm 1, which are ours divided by
sqrt(2l+1).
"""

from functools import lru_cache
from itertools import groupby
from math import pi, sqrt

import numpy as np

from ... import symmetric_basis
from ...coupling import coupling
from ...document import LMAX_SUPPORTED
from ...errors import EquiError
from ...irreps import SCALAR, Irrep, Irreps
from ...printable import printable
from . import options as mlip_options
from .layers import MessagePassing, natural, place, times

KIND, MODEL = "mlip's MACE", "Mace"
TAKEN = {
    "add_atomic_energies", "num_layers", "num_channels", "l_max", "node_symmetry", "correlation", "readout_irreps",
    "num_readout_heads", "include_pseudotensors", "num_rbf", "activation", "radial_mlp_hidden", "radial_mlp_activation",
    "residual_connection_first_layer", "symmetric_contraction_backend", "use_gaunt_tp_message_passing",
}  # fmt: skip
IGNORED = {"avg_num_neighbors", "avg_r_min"}
# Options with one supported value, and why.
REFUSED = {
    "gate_nodes": (False, "the product basis would be multiplied by gates, which no layer does"),
    "soft_normalization": (None, "features would be divided by a function of their norms, which no layer does"),
    "radial_envelope": ("polynomial_envelope", "only the polynomial one is supported"),
}  # fmt: skip
BACKENDS = ("e3j", "gaunt_tp")
# Couplings of a product that are projected at a time, which bounds the memory.
AT_A_TIME = 16


def check(options):
    """Refuses what the converter does not represent."""
    mlip_options.known_alone(options, KIND, TAKEN, IGNORED, REFUSED)
    backend = options["symmetric_contraction_backend"]
    if backend not in BACKENDS:
        raise EquiError(
            f"option symmetric_contraction_backend {printable(str(backend), 60)} is not supported: its basis is not in the file; "
            f"only {' and '.join(BACKENDS)} are"
        )
    for key in ("num_layers", "num_channels", "correlation", "num_readout_heads", "num_rbf"):
        mlip_options.whole(options, key, 1)
    for key in ("l_max", "node_symmetry"):
        mlip_options.whole(options, key, 0)
    if options["correlation"] > 4:
        raise EquiError(f"option correlation {options['correlation']} is not supported, at most 4")
    if options["node_symmetry"] > options["l_max"]:
        raise EquiError("option node_symmetry is larger than l_max")
    mlip_options.widths(options, "radial_mlp_hidden")
    has_gaunt = options["use_gaunt_tp_message_passing"] or backend == "gaunt_tp"
    if has_gaunt and options["include_pseudotensors"]:
        raise EquiError("option include_pseudotensors: Gaunt products have no pseudotensors")


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


class Converter(MessagePassing):
    kind = KIND

    def __init__(self, checkpoint, head, elements):
        super().__init__(checkpoint, head, elements)
        self.channels = self.options["num_channels"]

    # Messages

    def radial_network(self, name, matrices):
        return self.dense(name, matrices, "radial_mlp_activation")

    def messages_to(self, name, source, irreps_in, target, irreps_out):
        """The convolution and the linear map after it."""
        if self.options["use_gaunt_tp_message_passing"]:
            self.gaunt_messages(name, source, irreps_in, target, irreps_out)
        else:
            self.messages(name, source, irreps_in, target, irreps_out, self.channels)

    def gaunt_messages(self, name, source, irreps_in, target, irreps_out):
        """A weight of each path that is a product of one for the order of the harmonics and a function for that of the message."""
        found = self.paths(name, irreps_in, irreps_out)
        middle = Irreps((self.channels, ir) for _, _, ir in found)
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
                tensor = self.table.add(f"{name}#linear_out.{j}", weight)
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
                tensor = self.table.add(f"{name}#linear_in_{c}.{b}", weight)
                blocks.append((b, b, tensor, 1 / sqrt(self.channels * ir.dim)))
            bias = self.state.take(f"{name}#gaunt_symmetric_contraction_bias_{c}", self.channels)
            # mlip has a number for the first function too, which it does not use.
            biases = [(0, self.table.add(f"{name}#bias_{c}", bias), 1.0)] if c > 0 else []
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
                "weight": self.table.add(f"{name}#linear_out.{b}.weight", weights[:, None]),
                "coupling": self.table.add(f"{name}#linear_out.{b}.coupling", np.array(rows, float)),
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
            if head == self.head_of_readout:
                matrices = parts
        self.add_readout(source, irreps_x, 0, self.dense(name, matrices, "activation"))

    def document(self):
        options, channels = self.options, self.channels
        radial_basis = self.bessel_functions(prefactor(self.checkpoint))
        rows, scale = self.embedding("embedding_block#node_embedding_block", channels)
        x, irreps_x = "x0", Irreps([(channels, SCALAR)])
        self.add_species_embedding(x, "embedding", rows, scale)
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
            self.messages_to(f"{block}#interaction_block", y, irreps_x, a, messages)
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
