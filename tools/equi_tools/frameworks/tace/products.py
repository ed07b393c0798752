# SPDX-License-Identifier: MIT
"""Products of a TACE model as layers of an .equi file: of the atomic basis with itself, added up by linear maps.

Equal products are evaluated once, with the sum of their matrices.
"""

from math import sqrt

import numpy as np

from ... import symmetric_basis
from ...coupling import coupling
from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ..common.e3nn_layers import split_rows
from ..common.layers import gated
from .layers import TaceLayers, with_channels
from .model import paths_between, product_irreps

# Blocks and components of one channel that a product of features may have (src/base/model_limits.h).
MAX_BLOCKS, MAX_COMPONENTS = 24, 64
NEGLIGIBLE = 1e-12


def _chunks(irs, per_block=1):
    """Ranges of irreps that a product's output can hold, with per_block - 1 further scalars for each."""
    first, blocks, components = 0, 0, 0
    for n, ir in enumerate(irs):
        more = ir.dim + per_block - 1
        if blocks + per_block > MAX_BLOCKS or components + more > MAX_COMPONENTS:
            yield first, n
            first, blocks, components = n, 0, 0
        blocks, components = blocks + per_block, components + more
    if first < len(irs):
        yield first, len(irs)


class Products(TaceLayers):
    def coefficients(self, name, irs, target, kind, factor=1.0):
        """What a linear map does with products of the irreps `irs`, hidden channels each.

        Returns ([for each product {block of the target: (matrix [(elements,) hidden, channels], scale)}], {block: bias}). The target has a
        block for each irrep, or one for each irrep and expert.
        """
        merged = with_channels(self.hidden, irs).simplify()
        experts = self.experts if kind == "expert" else 1
        of_expert = Irreps((mul // experts, ir) for mul, ir in merged)
        outputs = with_channels(self.hidden // experts, target)
        matrices, biases = self.parts(name, of_expert, outputs, kind)
        found = [{} for _ in irs]
        rows = split_rows(name, merged, with_channels(self.hidden, irs))
        split = self.hidden // self.experts
        for (i, j), (matrix, scale) in matrices.items():
            for k, begin, end in rows[i]:
                for e in range(self.experts):
                    if kind == "expert":
                        # Experts divide the channels of all products of one irrep, in order.
                        size = matrix.shape[-2]
                        low, high = max(begin, e * size), min(end, (e + 1) * size)
                        if low >= high:
                            continue
                        piece = np.zeros((self.count, self.hidden, split), matrix.dtype)
                        piece[:, low - begin : high - begin] = matrix[:, e, low - e * size : high - e * size]
                    else:
                        piece = matrix[..., begin:end, e * split : (e + 1) * split]
                    found[k][j * self.experts + e] = piece, factor * scale
        shifts = {}
        for j, bias in biases.items():
            for e in range(self.experts):
                own = bias[:, e] if kind == "expert" else bias[..., e * split : (e + 1) * split]
                shifts[j * self.experts + e] = factor * own.astype(np.float64)
        return found, shifts

    def add_products(self, name, source, irs, members, target, pieces, of_elements, accumulate=True, biases=None):
        """Adds products, blocks of a feature, by linear maps. members: for each block [(factor, coefficients of one product)]."""
        blocks = []
        for k, member in enumerate(members):
            for j in dict.fromkeys(j for _, found in member for j in found):
                parts = [(factor, *found[j]) for factor, found in member if j in found]
                if [factor for factor, _, _ in parts] == [1.0]:
                    matrix = parts[0][1]
                else:
                    matrix = sum(factor * matrix.astype(np.float64) for factor, matrix, _ in parts)
                blocks.append((k, j, self.table.add(f"{name}.{k}.{j}", matrix[self.species] if of_elements else matrix), parts[0][2]))
        own = [(j, self.table.add(f"{name}.bias.{j}", bias), 1.0) for j, bias in (biases or {}).items()]
        self.add_linear(source, with_channels(self.hidden, irs), target, pieces, blocks, own, per_species=of_elements, accumulate=accumulate)

    def product(self, block, a):
        """Products of the atomic basis `a`, up to the linear map behind them, which writes x{t+1}."""
        t, options = block.number, self.config["product_basis"]
        name, irs, last = f"representation.products.{t}", block.mid, block.outputs
        has_gates = options["nonlinear"] is not None
        irreps_in, hidden = with_channels(self.channels, irs), with_channels(self.hidden, irs)
        kind = "plain" if options["agnostic"] else "expert" if self.experts > 1 else "element"
        shared = options["use_shared_expert"] and self.experts > 1
        factor = 1 / sqrt(2) if shared else 1.0
        kinds = [("coefs", kind)] + [("shared_coefs", "plain")] * shared
        pieces = Irreps((self.per_expert, ir) for ir in last for _ in range(self.experts))
        sums, sources, partner = f"p{t}", a, None
        if has_gates:
            sources, partner = f"u{t}", f"v{t}"
        elif self.hidden != self.channels:
            sources = f"u{t}"
            self.linear(f"{name}.linear_up", a, irreps_in, sources, hidden)
        stages = self.product_stages(block, has_gates)
        if has_gates:
            gates = self.linear_to_factors(name, a, irreps_in, sources, partner, hidden, len(stages[0]))
        degrees = [irs, *([ir for _, ir in paths] for paths in stages)]
        found, biases = {}, {}
        for label, kind in kinds:
            parts = [self.coefficients(f"{name}.{label}.{n}", degree, last, kind, factor) for n, degree in enumerate(degrees)]
            found[label] = [numbers for numbers, _ in parts]
            biases[label] = {j: sum(shift[j] for _, shift in parts) for j in parts[0][1]}
        for n, (label, kind) in enumerate(kinds):
            members = [[(1.0, one)] for one in found[label][0]]
            own = biases[label] if kind == "plain" else {}
            self.add_products(f"{name}.{label}.0", sources, irs, members, sums, pieces, kind != "plain", accumulate=n > 0, biases=own)
        for nu, paths in enumerate(stages, 2):
            of_degree = [(label, kind, found[label][nu - 1]) for label, kind in kinds]
            if has_gates:
                self.gated_products(name, paths, sources, partner, hidden, a, irreps_in, gates, of_degree, sums, pieces)
            elif nu == 2:
                self.pair_products(name, paths, sources, hidden, of_degree, sums, pieces)
            else:
                self.higher_products(name, stages, paths, nu, sources, hidden, of_degree, sums, pieces)
        for label, kind in kinds:
            if kind != "plain":
                self.element_biases(f"{name}.{label}", biases[label], sums, pieces)
        self.linear(f"{name}.linear", sums, with_channels(self.hidden, last), f"x{t + 1}", with_channels(self.channels, last), pieces=pieces)

    def product_stages(self, block, has_gates):
        """For each degree from 2 on [(factors, irrep)] of its products. Factors: the number of a product of the degree before, or of an
        irrep, and that of an irrep; None in place of the second one is the constant."""
        options, lmax, parity = self.config["product_basis"], self.config["lmax"], self.config["parity"]
        irs, restriction = block.mid, options["l1l2"]
        stages, before = [], list(irs)
        for nu in range(2, block.correlation + 1):
            outputs = block.outputs if nu == block.correlation else product_irreps(before, irs, parity, lmax)
            second = [*irs, SCALAR] if has_gates else irs
            paths = paths_between(before, second, outputs, restriction, identical=nu == 2 and not has_gates)
            paths = [((i, j if j < len(irs) else None), ir) for i, j, ir in paths]
            if block.correlation > 2:
                paths = self.not_zero(stages, paths, irs, nu)
            stages.append(paths)
            before = [ir for _, ir in paths]
        return stages

    def tensors_of(self, stages, paths, irs, nu):
        """Couplings [2l+1, components, ...] of the products of one degree, in the order of the paths."""
        offsets = np.cumsum([0, *(ir.dim for ir in irs)])
        total = offsets[-1]
        if nu == 1:
            return [np.eye(total)[offsets[k] : offsets[k + 1]] for k in range(len(irs))]
        before = self.tensors_of(stages, stages[nu - 3] if nu > 2 else None, irs, nu - 1)
        sources = irs if nu == 2 else [ir for _, ir in stages[nu - 3]]
        found = []
        for (i, j), ir in paths:
            w = sqrt(ir.dim) * coupling(sources[i].l, irs[j].l, ir.l)
            tensor = np.zeros((ir.dim, *(total,) * nu))
            tensor[..., offsets[j] : offsets[j + 1]] = np.einsum("a...,abc->c...b", before[i], w)
            found.append(tensor)
        return found

    def symmetric(self, stages, paths, irs, nu):
        """{irrep: (numbers of its paths, matrix [members of symmetric_basis, paths])}."""
        tensors, found = self.tensors_of(stages, paths, irs, nu), {}
        for ir in dict.fromkeys(ir for _, ir in paths):
            own = [q for q, (_, one) in enumerate(paths) if one == ir]
            matrix, error = symmetric_basis.project(np.stack([tensors[q] for q in own], axis=-1), tuple(map(tuple, irs)), tuple(ir), nu)
            if error > NEGLIGIBLE:
                raise EquiError(f"internal: products to {ir} of degree {nu} are no symmetric polynomials ({error})")
            matrix[np.abs(matrix) < NEGLIGIBLE] = 0.0
            found[ir] = own, matrix
        return found

    def not_zero(self, stages, paths, irs, nu):
        """Paths whose products of one feature with itself are not zero; the package has no others."""
        kept = set()
        for own, matrix in self.symmetric(stages, paths, irs, nu).values():
            kept |= {q for n, q in enumerate(own) if matrix[:, n].any()}
        return [one for q, one in enumerate(paths) if q in kept]

    def pair_products(self, name, paths, source, hidden, found, target, pieces):
        """Products of two. Those of the same pair of blocks are equal up to a sign."""
        irs, members = [ir for _, ir in hidden], {}
        for q, ((i, j), ir) in enumerate(paths):
            sign = (-1) ** (irs[i].l + irs[j].l + ir.l) if i > j else 1
            members.setdefault((min(i, j), max(i, j), ir), []).append((sign, q))
        keys = list(members)
        for begin, end in _chunks([ir for _, _, ir in keys]):
            chunk = keys[begin:end]
            outs = [ir for _, _, ir in chunk]
            feature = f"{target}_2_{begin}"
            listed = [{"in": [i, j], "out": k, "scale": sqrt(ir.dim)} for k, (i, j, ir) in enumerate(chunk)]
            self.add_node_product([source], [hidden], feature, with_channels(self.hidden, outs), paths=listed)
            for label, kind, numbers in found:
                of_chunk = [[(float(sign), numbers[q]) for sign, q in members[key]] for key in chunk]
                self.add_products(f"{name}.{label}.1.{begin}", feature, outs, of_chunk, target, pieces, kind != "plain")

    def higher_products(self, name, stages, paths, nu, source, hidden, found, target, pieces):
        """Products of three and more, by independent polynomials."""
        irs = [ir for _, ir in hidden]
        members = []  # (irrep, number in the basis, [(factor, path)])
        for ir, (own, matrix) in self.symmetric(stages, paths, irs, nu).items():
            members += [(ir, k, [(float(row[n]), own[n]) for n in np.flatnonzero(row)]) for k, row in enumerate(matrix) if row.any()]
        for begin, end in _chunks([ir for ir, _, _ in members]):
            chunk = members[begin:end]
            outs, feature, terms = [ir for ir, _, _ in chunk], f"{target}_{nu}_{begin}", []
            for n, (ir, k, _) in enumerate(chunk):
                described = (tuple(map(tuple, irs)), tuple(ir), nu)
                size = sum(len(piece.vectors) for piece in symmetric_basis.symmetric_basis(*described))
                unit = np.zeros((size, 1))
                unit[k] = 1.0
                tag, ones = f"{name}.degree{nu}.{begin + n}", np.ones((1, self.hidden))
                terms.append([self.contraction_term(tag, described, unit, np.array([k]), ones)])
            self.add_contraction(source, hidden, feature, with_channels(self.hidden, outs), terms, per_species=False)
            for label, kind, numbers in found:
                of_chunk = [[(factor, numbers[q]) for factor, q in parts] for _, _, parts in chunk]
                self.add_products(f"{name}.{label}.{nu - 1}.{begin}", feature, outs, of_chunk, target, pieces, kind != "plain")

    def linear_to_factors(self, name, a, irreps_in, first, second, hidden, num_gates):
        """Both factors of gated products, blocks of hidden channels; returns the parts of the linear map that make the gates."""
        width = num_gates * self.hidden
        up = Irreps([(width, SCALAR), *((2 * mul, ir) for mul, ir in hidden)])
        matrices, biases = self.parts(f"{name}.linear_up", irreps_in, up)
        for half, target in enumerate((first, second)):
            columns = slice(half * self.hidden, (half + 1) * self.hidden)
            blocks = [
                (i, j - 1, self.table.add(f"{name}.linear_up.{target}.{i}", matrix[:, columns]), scale)
                for (i, j), (matrix, scale) in matrices.items() if j > 0
            ]  # fmt: skip
            own = [(j - 1, self.table.add(f"{name}.linear_up.{target}.bias", bias[columns]), 1.0) for j, bias in biases.items() if j > 0]
            self.add_linear(a, irreps_in, target, hidden, blocks, own)
        return [(i, matrix, scale) for (i, j), (matrix, scale) in matrices.items() if j == 0], biases.get(0)

    def gated_products(self, name, paths, first, second, hidden, a, irreps_in, gates, found, target, pieces):
        """Products of two factors, each with a gate in each channel."""
        matrices, biases = gates
        act = self.option("product_basis.scalar_act") or "silu"
        count = len(hidden)
        for begin, end in _chunks([ir for _, ir in paths], per_block=2):
            chunk = paths[begin:end]
            outs, num = [ir for _, ir in chunk], end - begin
            both, feature = with_channels(self.hidden, [*outs, *[SCALAR] * num]), f"{target}_2_{begin}"
            listed = [
                {"in": [i], "out": k, "scale": 1.0} if j is None else {"in": [i, count + j], "out": k, "scale": sqrt(ir.dim)}
                for k, ((i, j), ir) in enumerate(chunk)
            ]
            self.add_node_product([first, second], [hidden, hidden], f"{feature}_gates", both, paths=listed)
            places = [(num + k, slice((begin + k) * self.hidden, (begin + k + 1) * self.hidden)) for k in range(num)]
            blocks = [
                (i, k, self.table.add(f"{name}.gates.{begin}.{i}.{k}", matrix[:, columns]), scale)
                for k, columns in places for i, matrix, scale in matrices
            ]  # fmt: skip
            rows = [] if biases is None else [(k, biases[columns]) for k, columns in places]
            own = [(k, self.table.add(f"{name}.gates.{begin}.{k}.bias", bias), 1.0) for k, bias in rows]
            self.add_linear(a, irreps_in, f"{feature}_gates", both, blocks, own, accumulate=True)
            terms = [gated(k, k, 0, num + k, 0, act) for k in range(num)]
            self.add_gate(f"{feature}_gates", both, feature, with_channels(self.hidden, outs), terms)
            for label, kind, numbers in found:
                of_chunk = [[(1.0, numbers[q])] for q in range(begin, end)]
                self.add_products(f"{name}.{label}.1.{begin}", feature, outs, of_chunk, target, pieces, kind != "plain")
