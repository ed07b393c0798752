# SPDX-License-Identifier: MIT
"""A second, slow evaluation of an .equi file: float64, Torch autograd, written only from doc/model_file.rst.

It shares no code with equi_tools, so the converter, the file format and this text check each other.
"""

import json
import math
import struct
from functools import lru_cache

import numpy as np
import sympy.physics.quantum.cg as cg
import torch
from ase.calculators.calculator import Calculator, all_changes


@lru_cache(maxsize=None)
def coupling(l1, l2, l3):
    def to_complex(l):
        a = np.zeros((2 * l + 1, 2 * l + 1), complex)
        a[l, l] = 1
        for m in range(1, l + 1):
            a[l - m, [l + m, l - m]] = 1 / math.sqrt(2), -1j / math.sqrt(2)
            a[l + m, [l + m, l - m]] = (-1) ** m / math.sqrt(2), 1j * (-1) ** m / math.sqrt(2)
        return a * (-1j) ** l

    c = np.zeros((2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1))
    for m1 in range(-l1, l1 + 1):
        for m2 in range(max(-l2, -l3 - m1), min(l2, l3 - m1) + 1):
            c[l1 + m1, l2 + m2, l3 + m1 + m2] = float(cg.CG(l1, m1, l2, m2, l3, m1 + m2).doit())
    w = np.einsum("abc,ai,bj,ck->ijk", c, to_complex(l1), to_complex(l2), to_complex(l3).conj()).real
    return torch.tensor(w / np.linalg.norm(w))


def harmonics(lmax, n):
    """n [E, 3] unit vectors -> list over l of [E, 2l+1]; polar axis y, azimuth from z to x, sum over m of Y^2 = 2l+1."""
    x, y, z = n.unbind(1)
    cos, sin = [torch.ones_like(x)], [torch.zeros_like(x)]
    for _ in range(lmax):
        cos, sin = cos + [cos[-1] * z - sin[-1] * x], sin + [sin[-1] * z + cos[-1] * x]
    legendre = {}
    for a in range(lmax + 1):
        legendre[a, a] = torch.full_like(y, math.prod(range(1, 2 * a, 2)))
        for l in range(a + 1, lmax + 1):
            below = legendre[l - 2, a] if l - 2 >= a else 0.0
            legendre[l, a] = ((2 * l - 1) * y * legendre[l - 1, a] - (l + a - 1) * below) / (l - a)
    out = []
    for l in range(lmax + 1):
        columns = []
        for m in range(-l, l + 1):
            a = abs(m)
            norm = math.sqrt((2 * l + 1) * (1 if m == 0 else 2) * math.factorial(l - a) / math.factorial(l + a))
            columns.append(norm * legendre[l, a] * (cos[a] if m >= 0 else sin[a]))
        out.append(torch.stack(columns, 1))
    return out


ACTIVATIONS = {
    "silu": lambda x: x * torch.sigmoid(x),
    "mish": lambda x: x * torch.tanh(-torch.nn.functional.logsigmoid(-x)),
    "gelu": lambda x: x / 2 * (1 + torch.erf(x / math.sqrt(2))),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "abs": torch.abs,
    "ssp": lambda x: torch.log1p(torch.exp(-x.abs())) + torch.relu(x) - math.log(2.0),
    "identity": lambda x: x,
}


def neighbors(positions, cell, pbc, cutoff):
    """Receiver i, sender j, and the image's shift [E, 3] of every pair closer than the cutoff; visits all images."""
    reach = [0, 0, 0]
    if cell is not None and any(pbc):
        heights = [1 / np.linalg.norm(row) for row in np.linalg.inv(cell).T]
        spread = np.ptp(positions @ np.linalg.inv(cell), axis=0)
        reach = [int(math.ceil(cutoff / h + s)) if p else 0 for h, s, p in zip(heights, spread, pbc)]
    images = np.array([[a, b, c] for a in range(-reach[0], reach[0] + 1) for b in range(-reach[1], reach[1] + 1)
                       for c in range(-reach[2], reach[2] + 1)])  # fmt: skip
    shifts = images @ cell if cell is not None else np.zeros((1, 3))
    vectors = positions[None, :, None] + shifts[None, None] - positions[:, None, None]
    distance = np.linalg.norm(vectors, axis=-1)
    i, j, k = np.nonzero((distance < cutoff) & (distance > 1e-9))
    return i, j, shifts[k]


class EquiEvaluator:
    def __init__(self, path, open_sum="framework", field=(0.0, 0.0, 0.0)):
        """open_sum and field: keywords open and field of the pair style, for models with potentials of charges."""
        self.open, self.field = open_sum, field
        with open(path, "rb") as f:
            data = f.read()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        self.document = json.loads(header.pop("__metadata__")["equi"])
        self.tensors = {}
        for name, t in header.items():
            begin, end = (8 + length + o for o in t["data_offsets"])
            dtype = {"F32": "<f4", "F64": "<f8"}[t["dtype"]]
            array = np.frombuffer(data[begin:end], dtype).reshape(t["shape"])
            self.tensors[name] = torch.tensor(array.astype(np.float64))
        self.direct_forces = None  # [N, 3] of the last evaluation, if the file has them

    @staticmethod
    def irreps(text):
        blocks = []
        for part in text.split("+"):
            mul, ir = part.split("x")
            blocks.append((int(mul), int(ir[:-1])))
        return blocks

    def network(self, net, h):
        for n, name in enumerate(net["weights"]):
            h = h @ self.tensors[name] * net["scales"][n]
            bias = (net.get("biases") or [None] * len(net["weights"]))[n]
            if bias is not None:
                h = h + bias["scale"] * self.tensors[bias["tensor"]]
            if n + 1 < len(net["weights"]):
                norm = (net.get("norms") or [None] * len(net["weights"]))[n]
                if norm is not None:
                    mean = h.mean(dim=1, keepdim=True)
                    variance = ((h - mean) ** 2).mean(dim=1, keepdim=True)
                    h = (h - mean) / torch.sqrt(variance + norm["epsilon"])
                    h = self.tensors[norm["weight"]] * h + self.tensors[norm["bias"]]
                h = net["activation_scale"] * ACTIVATIONS[net["activation"]](h)
        if net.get("activate_last"):
            h = net["activation_scale"] * ACTIVATIONS[net["activation"]](h)
        return h

    def gated(self, gate, query, values, keys):
        norm = [self.tensors[gate["norm"][key]] for key in ("weight", "bias")]
        products = torch.nn.functional.layer_norm(gate["scale"] * query * keys, norm[0].shape, *norm, gate["norm"]["epsilon"])
        return values * torch.sigmoid(products)

    def radial_network(self, net, basis, species, i, j, x=None):
        """Outputs [E, h_out] without the cutoff function of `times_cutoff`; x: the input of a convolution."""
        inputs = [basis]
        for key, atoms in (("sender", j), ("receiver", i)):
            part = net.get(key)
            if isinstance(part, dict):
                inputs.append(x[part["block"]][atoms, :, 0])
            elif part is not None:
                inputs.append(self.tensors[part][species[atoms]])
        if "gate" not in net:
            outputs = self.network(net, torch.cat(inputs, dim=1))
        else:
            n = len(self.tensors[net["gate"]["norm"]["weight"]])
            query, inputs[-1] = inputs[-1][:, -n:], inputs[-1][:, :-n]
            outputs = self.gated(net["gate"], query, *self.network(net, torch.cat(inputs, dim=1)).split(n, dim=1))
        if "pair_factor" in net:
            rows = [self.tensors[net["pair_factor"][key]] for key in ("receiver", "sender")]
            outputs = outputs * (rows[0][species[i]] + rows[1][species[j]])
        return outputs

    @staticmethod
    def polynomial_cutoff(u, p):
        return 1 - (p + 1) * (p + 2) / 2 * u**p + p * (p + 2) * u ** (p + 1) - p * (p + 1) / 2 * u ** (p + 2)

    def cutoff_function(self, r):
        kind, c = self.document["radial_basis"]["cutoff_function"], self.document["cutoff"]
        if kind["kind"] == "polynomial":
            return self.polynomial_cutoff(r / c, kind["p"])
        if kind["kind"] == "none":
            return torch.ones_like(r)
        if kind["kind"] == "cosine":
            return (1 + torch.cos(math.pi * r / c)) / 2
        assert kind["kind"] == "xplor"
        on = kind["r_on"]
        f = (c**2 - r**2) ** 2 * (c**2 + 2 * r**2 - 3 * on**2) / (c**2 - on**2) ** 3
        return torch.where(r < on, torch.ones_like(r), f)

    def reach(self):
        """The largest cutoff."""
        far = (layer["cutoff"] for layer in self.document["layers"] if layer["type"] in ("coulomb", "dispersion"))
        return max([self.document["cutoff"], *far])

    def own_pairs(self, species, i, j, r):
        """Which edges are shorter than the cutoff of their pair of species."""
        basis = self.document["radial_basis"]
        if "cutoffs" not in basis:
            return r < self.document["cutoff"]
        return r < self.tensors[basis["cutoffs"]][species[i], species[j]]

    def nearest(self, i, r):
        """Which edges lead to the neighbors that count for an atom."""
        if "nearest_neighbors" not in self.document:
            return torch.ones_like(r, dtype=torch.bool)
        rule, seen = self.document["nearest_neighbors"], torch.zeros_like(r, dtype=torch.bool)
        for atom in i.unique():
            mine = torch.nonzero(i == atom)[:, 0]
            square, order = torch.sort(r.detach()[mine] ** 2, stable=True)
            count = min(rule["count"], len(mine))
            if "tolerance" in rule and count < len(mine):
                count = int((square <= square[count] + rule["tolerance"]).sum())
            seen[mine[order[:count]]] = True
        return seen

    def stretched(self, r, receivers, senders):
        """Distances in units of the cutoff of their pair of species, times the model's cutoff."""
        basis = self.document["radial_basis"]
        if "cutoffs" not in basis:
            return r
        assert "transform" not in basis
        return r * self.document["cutoff"] / self.tensors[basis["cutoffs"]][receivers, senders]

    def transformed(self, r, receivers, senders):
        transform = self.document["radial_basis"].get("transform")
        if transform is None:
            return r
        r0 = self.tensors[transform["r0"]][receivers, senders]
        if transform["kind"] == "agnesi":
            u, q, p = r / r0, transform["q"], transform["p"]
            return 1 / (1 + transform["a"] * u**q / (1 + u ** (q - p)))
        assert transform["kind"] == "soft"
        p0, p1 = 0.75 * r0, 4 / 3 * r0
        return p0 + (r - p0) * (1 + torch.tanh(transform["alpha"] / (p1 - p0) * (r - (p0 + p1) / 2))) / 2

    def radial_basis(self, r, receivers, senders):
        basis = self.document["radial_basis"]
        r = self.stretched(r, receivers, senders)
        x = self.transformed(r, receivers, senders)[:, None]
        if basis["kind"] == "bessel":
            values = basis["prefactor"] * torch.sin(x * self.tensors[basis["wave_numbers"]]) / x
        elif basis["kind"] == "gaussian":
            values = torch.exp(-((x - self.tensors[basis["centres"]]) ** 2) / (2 * basis["width"] ** 2))
        elif basis["kind"] == "exp_normal":
            distance = torch.exp(-basis["decay"] * x) - self.tensors[basis["means"]]
            values = torch.exp(-self.tensors[basis["factors"]] * distance**2)
        elif basis["kind"] == "bernstein":
            logarithms = self.tensors[basis["log_coefficients"]]
            k, z = torch.arange(len(logarithms)), torch.exp(-basis["gamma"] * x).clamp_min(1e-6)
            values = torch.exp(logarithms) * z**k * (1 - z) ** k.flip(0)
        elif basis["kind"] == "cosine_bump":
            n, span = basis["size"], basis["span"]
            begin, width = (torch.arange(n, dtype=torch.float64) - span) / n, (span + 1) / n
            place = torch.clamp(x / self.document["cutoff"] - begin, 0.0, width) / width
            values = (1 - torch.cos(2 * math.pi * place)) ** 2 / 4
        else:
            assert basis["kind"] == "chebyshev"
            polynomials = [torch.ones_like(x), x]
            for _ in range(basis["size"] - 1):
                polynomials.append(2 * x * polynomials[-1] - polynomials[-2])
            values = torch.cat(polynomials[1:], dim=1)
        return values * self.cutoff_function(r)[:, None] if basis.get("apply_cutoff", True) else values

    def contraction(self, layer, x, species, out):
        """Polynomials of the components of each channel; x and out are lists of [N, mul, 2l+1]."""
        components = torch.cat(x, dim=2)
        for block in layer["blocks"]:
            target = [torch.zeros_like(column) for column in out[block["out"]].unbind(2)]
            for term in block["terms"]:
                weight = self.tensors[term["weight"]]
                for row in self.tensors[term["coupling"]].numpy():
                    component, path, factors = int(row[0]), int(row[1]), [int(f) for f in row[2:-1]]
                    assert len(factors) == term["degree"] and factors == sorted(factors)
                    product = row[-1] * (weight[species, path] if layer["per_species"] else weight[path])
                    for factor in factors:
                        product = product * components[:, :, factor]
                    target[component] = target[component] + product
            out[block["out"]] = torch.stack(target, dim=2)
        return out

    def pair_attention(self, layer, x, basis, species, i, j, r, y):
        """What the neighbors of each atom add up to: blocks of the output."""
        query, key, value, group_query, group_key, *tensors = x
        cutoff = self.cutoff_function(r)[:, None]
        weights = cutoff * self.radial_network(layer["radial"], basis, species, i, j)
        if "difference_networks" in layer:
            differences = [((t[j] - t[i]) ** 2).sum(dim=(1, 2)) / math.sqrt(t.shape[2]) for t in tensors] or [0 * r] * len(layer["groups"])
            squares = torch.stack(differences, dim=1)
            weights = weights + cutoff * torch.cat([self.network(net, squares) for net in layer["difference_networks"]], dim=1)
        channels = query.shape[1]
        products = query[i, :, 0] * key[j, :, 0] * weights[:, :channels]
        scores = layer["scale"] * products.reshape(len(i), layer["heads"], -1).sum(dim=2)
        each = scores.repeat_interleave(channels // layer["heads"], dim=1)
        out = [torch.zeros_like(query).index_add(0, i, each[:, :, None] * value[j])]
        products, column = group_query[i, :, 0] * group_key[j, :, 0] * weights[:, channels:], 0
        for group in layer["groups"]:
            score = group["scale"] * products[:, column : column + group["channels"]].sum(dim=1)
            column += group["channels"]
            sums = torch.zeros(len(query), 2 * group["l"] + 1, dtype=torch.float64)
            out.append(sums.index_add(0, i, score[:, None] * y[group["l"]])[:, None])
        return out

    def so2_messages(self, layer, x, i, j, n, factors, cutoff):
        """Messages [E, channels, 2l+1] of each l, without the cutoff function at the end."""
        lmax, mmax = len(x) - 1, layer["mmax"]
        # A frame whose y axis is n, and the rotations from Y(R p) = D Y(p) at some points p.
        part = n.detach().abs()
        least = torch.eye(3, dtype=torch.float64)[[next(k for k in range(3) if row[k] <= min(row) + 1e-3) for row in part.tolist()]]
        first = least - (least * n).sum(1, keepdim=True) * n
        first = first / first.norm(dim=1, keepdim=True)
        frame = torch.stack([first, n, torch.linalg.cross(first, n)], 1)
        points = torch.tensor(np.random.default_rng(0).normal(size=(6 * lmax + 6, 3)))
        points = points / points.norm(dim=1, keepdim=True)
        turned = torch.einsum("eab,pb->epa", frame, points)
        of_turned = harmonics(lmax, turned.reshape(-1, 3))
        d = [
            torch.einsum("epm,np->emn", y.reshape(len(n), len(points), y.shape[-1]), torch.linalg.pinv(y0))
            for y, y0 in zip(of_turned, harmonics(lmax, points))
        ]
        u = [torch.einsum("emn,ecn->ecm", d[l], torch.cat([x[l][j], x[l][i]], 1)) for l in range(lmax + 1)]
        rows = {m: torch.cat([u[l][:, :, l + m] for l in range(abs(m), lmax + 1)], 1) for m in range(-mmax, mmax + 1)}
        scores = None
        for k, linear in enumerate(layer["linears"]):
            if k == layer.get("radial_linear", 0):
                by_order = torch.split(factors, [rows[m].shape[1] for m in range(mmax + 1)], 1)
                rows = {m: row * by_order[abs(m)] for m, row in rows.items()}
            mul, new = linear["channels"], {}
            for m in range(mmax + 1):
                w = self.tensors[linear["weights"][m]]
                if m == 0:
                    new[0] = rows[0] @ w + (self.tensors[linear["bias"]] if "bias" in linear else 0.0)
                else:
                    new[m] = rows[m] @ w[0] - rows[-m] @ w[1]
                    new[-m] = rows[m] @ w[1] + rows[-m] @ w[0]
            if "gate" in linear:
                scalars, gates = (ACTIVATIONS[linear["gate"][key]] for key in ("scalars", "gates"))
                gate = gates(new[0][:, : lmax * mul])
                new[0] = new[0][:, lmax * mul :]
                new[0] = torch.cat([scalars(new[0][:, :mul]), new[0][:, mul:] * gate], 1)
                for m in range(1, mmax + 1):
                    for side in (m, -m):
                        new[side] = new[side] * gate[:, (m - 1) * mul :]
            if "product" in linear:
                scores, new = self.so2_product(linear["product"], lmax, mmax, mul, new, scores)
                mul //= 2
            if "at_points" in linear:
                scores, new = self.so2_at_points(linear["at_points"], lmax, mmax, mul, new, scores)
            rows = new
        if "attention" in layer:
            weights = self.so2_weights(layer["attention"], scores, cutoff, i, len(x[0]), mul)
            rows = {m: row * weights.repeat(1, lmax + 1 - abs(m)) for m, row in rows.items()}
        out = []
        for l in range(lmax + 1):
            z = [
                rows[m][:, (l - abs(m)) * mul : (l + 1 - abs(m)) * mul] if abs(m) <= mmax else torch.zeros(len(n), mul)
                for m in range(-l, l + 1)
            ]
            out.append(torch.einsum("emn,emc->ecn", d[l], torch.stack(z, 1).to(torch.float64)))
        return out

    def so2_product(self, product, lmax, mmax, mul, rows, scores):
        """(scores, rows) after a product of functions at points."""
        half = mul // 2
        components = [(l, m) for l in range(lmax + 1) for m in range(-min(l, mmax), min(l, mmax) + 1)]
        first, middle = rows[0][:, : -(lmax + 1) * mul], rows[0][:, -(lmax + 1) * mul :]
        of = torch.stack([(middle if m == 0 else rows[m])[:, (l - abs(m)) * mul : (l - abs(m) + 1) * mul] for l, m in components], 1)
        to, back = self.tensors[product["to"]], self.tensors[product["from"]]
        values = torch.einsum("pk,ekc->epc", to, of)
        made = torch.einsum("pk,epc->ekc", back, values[:, :, :half] * values[:, :, half:])
        made = made * ACTIVATIONS[product["gates"]](first[:, mul : mul + half])[:, None]
        scalars = ACTIVATIONS[product["scalars"]](first[:, :half]) * first[:, half:mul]
        new = {m: torch.cat([made[:, components.index((l, m))] for l in range(abs(m), lmax + 1)], 1) for m in rows}
        new[0] = torch.cat([new[0][:, :half] + scalars, new[0][:, half:]], 1)
        return (first[:, 2 * mul :] if first.shape[1] > 2 * mul else scores), new

    def so2_at_points(self, made, lmax, mmax, mul, rows, scores):
        """(scores, rows) after an activation at points; scalars, then scores, precede the orders."""
        before, middle = rows[0][:, : -(lmax + 1) * mul], rows[0][:, -(lmax + 1) * mul :]
        x, where = [], []
        for l in range(lmax + 1):
            for m in range(-min(l, mmax), min(l, mmax) + 1):
                row = middle if m == 0 else rows[m]
                x.append(row[:, (l - abs(m)) * mul : (l - abs(m) + 1) * mul])
                where.append((l, m))
        values = ACTIVATIONS[made["activation"]](torch.einsum("pk,kec->epc", self.tensors[made["to"]], torch.stack(x)))
        x = dict(zip(where, torch.einsum("pk,epc->kec", self.tensors[made["from"]], values)))
        if "scalars" in made:
            x[0, 0] = ACTIVATIONS[made["scalars"]](before[:, :mul])
            before = before[:, mul:]
        new = {m: torch.cat([x[l, m] for l in range(abs(m), lmax + 1)], 1) for m in rows}
        return (before if before.shape[1] > 0 else scores), new

    def so2_weights(self, attention, scores, cutoff, i, num_receivers, mul):
        """Weights [E, channels]: the softmax of f exp(t) over the edges of each receiver i."""
        heads, channels = attention["heads"], attention["channels"]
        x = scores[:, : heads * channels].reshape(-1, heads, channels)
        y = torch.nn.functional.layer_norm(
            x, (channels,), self.tensors[attention["weight"]], self.tensors[attention["bias"]], attention["epsilon"]
        )
        t = ((0.2 * y + 0.8 * y * torch.sigmoid(y)) * self.tensors[attention["vector"]]).sum(2)
        largest = torch.full((num_receivers, heads), -torch.inf, dtype=t.dtype)
        largest = largest.index_reduce(0, i, (t + torch.log(cutoff)[:, None]).detach(), "amax")
        weight = cutoff[:, None] * torch.exp(t - largest[i])
        sums = torch.zeros((num_receivers, heads), dtype=t.dtype).index_add(0, i, weight)
        return (weight / sums[i]).repeat_interleave(mul // heads, 1)

    @staticmethod
    def mean_over_sphere(first, second, out):
        """Projections of a product of two functions, by Gauss's nodes along the polar axis times equal angles."""
        orders = [[block.shape[2] // 2 for block in blocks] for blocks in (first, second, out)]
        lmax, degree = max(map(max, orders)), sum(map(max, orders))
        nodes, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
        y, angles = np.meshgrid(nodes, 2 * np.pi * np.arange(degree + 1) / (degree + 1), indexing="ij")
        radius = np.sqrt(1 - y**2)
        points = np.stack([radius * np.sin(angles), y, radius * np.cos(angles)], -1).reshape(-1, 3)
        weights = torch.tensor(np.repeat(weights, degree + 1) / (2 * (degree + 1)))
        by_order = harmonics(lmax, torch.tensor(points))

        def values(blocks, ls):
            return sum(torch.einsum("num,pm->nup", block, by_order[l]) for block, l in zip(blocks, ls))

        product = weights * values(first, orders[0]) * values(second, orders[1])
        return [torch.einsum("nup,pm->num", product, by_order[l]) for l in orders[2]]

    def pair_repulsion(self, layer, num_atoms, species, i, j, r):
        """Energies [N] of the receivers."""
        prefactor, length, cutoff = (
            self.tensors[layer[k]][species[i], species[j]] for k in ("prefactor", "length", "cutoff")
        )
        screening = sum(c * torch.exp(-b * r / length) for c, b in zip(layer["coefficients"], layer["exponents"]))
        u = torch.clamp(r / cutoff, max=1.0)
        cosine = layer.get("cutoff_function") == "cosine"
        pair = prefactor / r * screening * ((1 + torch.cos(math.pi * u)) / 2 if cosine else self.polynomial_cutoff(u, layer["p"]))
        if "switch" in layer:
            pair = pair * self.switch(r, layer["switch"]["on"], layer["switch"]["off"])
        return torch.zeros(num_atoms, dtype=torch.float64).index_add(
            0, i, torch.where(r < cutoff, pair, torch.zeros_like(r))
        )

    @staticmethod
    def switch(r, on, off):
        """Falls from 1 to 0 between two distances."""
        c = (r - on) / (off - on)
        inner, outer = (torch.where(x > 0, torch.exp(-1 / x.clamp_min(1e-3)), torch.zeros_like(x)) for x in (1 - c, c))
        return inner / (inner + outer + 1e-12)

    @staticmethod
    def within(reach, i, j, vec):
        """The edges that are shorter than a cutoff, with their lengths."""
        r = vec.norm(dim=1)
        near = torch.nonzero(r < reach)[:, 0]
        return i[near], j[near], r[near]

    def dispersion(self, layer, ratio, species, i, j, vec):
        """Energies [N] of the receivers. The constants are those of atomic units."""
        reach, a0 = layer["cutoff"], 0.5291772105638411
        i, j, r = self.within(reach, i, j, vec)
        a, c = (self.tensors[layer[key]][species] for key in ("polarizability", "c6"))
        alpha, c6 = (a[i] * ratio[i] + a[j] * ratio[j]) / 2, ratio[i] * ratio[j] * 2 * c[i] * c[j] * a[i] * a[j]
        c6 = c6 / (a[i] ** 2 * c[j] + a[j] ** 2 * c[i])
        h = 0.0072973525693 ** (-4 / 21) * alpha ** (1 / 7)
        s2 = (-0.00433008 + 0.24428889 * h + 0.04125273 * h**2 - 0.00078893 * h**3) ** 2
        p = 2 * 2.54 * layer["scale"] * alpha ** (1 / 7)
        terms = zip((6, 8, 10), (1, 10 * s2, 122.5 * s2**2))
        pair = -27.211386245988 / 2 * c6 * sum(f / ((r / a0) ** n + p**n) for n, f in terms)
        pair = pair * self.switch(r, reach - layer["damping"], reach)
        return torch.zeros(len(ratio), dtype=torch.float64).index_add(0, i, pair)

    def coulomb(self, layer, charges, i, j, vec):
        """Energies [N] of the receivers."""
        reach = layer["cutoff"]
        i, j, r = self.within(reach, i, j, vec)
        kernel = 1 / r
        if layer.get("kernel", {}).get("kind") == "erf":
            assert len(i) == len(charges) * (len(charges) - 1)
            kernel = torch.erf(r / layer["kernel"]["sigma"]) / r
        elif "kernel" in layer:
            assert layer["kernel"]["kind"] == "erf_shifted"
            sigma, end = layer["kernel"]["sigma"], torch.tensor(reach, dtype=torch.float64, requires_grad=True)
            value = torch.erf(end / sigma) / end
            (slope,) = torch.autograd.grad(value, end)
            w = self.switch(r, layer["kernel"]["on"], reach)
            kernel = torch.erf(r / sigma) / r - value.detach() - (1 - w) * slope * (r - reach)
        elif "permittivity" in layer:
            p = layer["permittivity"]
            kernel = kernel + ((p - 1) * (r / reach) ** 2 - 3 * p) / ((2 * p + 1) * reach)
        else:
            assert len(i) == len(charges) * (len(charges) - 1)
        if "damping" in layer:
            u = torch.clamp(r / layer["damping"], max=0.9999999)
            kernel = kernel * (1 - torch.exp(1 - 1 / (1 - u**2)))
        pair = layer["prefactor"] / 2 * kernel * (charges[i] * charges[j] @ self.tensors[layer["weights"]])
        return torch.zeros(len(charges), dtype=torch.float64).index_add(0, i, pair)

    def waves(self, reach):
        """Phases [N, K] of atoms, wave vectors [K, 3] of length below `reach`, both of a pair, and the volume. Differentiable
        by self.places, and by self.strain, with which fractional coordinates are constant."""
        most = np.floor(reach * np.linalg.norm(self.cell, axis=1) / (2 * np.pi)).astype(int)
        grid = np.stack(np.meshgrid(*[np.arange(-n, n + 1) for n in most], indexing="ij"), -1).reshape(-1, 3)
        length = 2 * np.pi * np.linalg.norm(grid @ np.linalg.inv(self.cell).T, axis=1)
        n = torch.tensor(grid[(length > 0) & (length < reach * (1 - 1e-10))], dtype=torch.float64)
        cell = torch.tensor(self.cell)
        fractions = self.places @ torch.linalg.inv(cell)
        strained = cell @ (torch.eye(3, dtype=torch.float64) + self.strain).T
        return 2 * np.pi * fractions @ n.T, 2 * np.pi * n @ torch.linalg.inv(strained).T, torch.abs(torch.linalg.det(strained))

    def potential(self, layer, x):
        """The blocks of potentials and of their gradients [N, channels, 2l+1] that Gaussian probes feel of multipoles."""
        widths, own = self.tensors[layer["widths"]], layer["width"]
        factors, own_terms = self.tensors[layer["factors"]], self.tensors[layer["own"]]
        beside = self.beside_waves(layer, x, factors)
        if not any(self.pbc):
            return beside
        reach = layer["k_cutoff"]
        if layer["k_set"] == "converged":
            reach = max(reach, np.sqrt(-2 * np.log(1e-10)) / torch.sqrt(own**2 + widths**2).min().item())
        phase, k, volume = self.waves(reach)
        wave = torch.exp(1j * phase)
        sources = x[0][:, None, :, 0] + 0j
        if len(x) > 1:
            sources = sources - 1j * torch.einsum("kd,ncd->nkc", k, x[1])
        sums = (wave.conj()[:, :, None] * sources).sum(0)
        square = k.square().sum(1)
        scalars, vectors = [], []
        for c in range(x[0].shape[1]):
            for w, width in enumerate(widths):
                of_k = layer["prefactor"] / volume * torch.exp(-(own**2 + width**2) * square / 2) / square * sums[:, c]
                scalars.append(factors[0, w] * (wave @ of_k).real - own_terms[0, w] * x[0][:, c, 0])
                if len(factors) > 1:
                    felt = factors[1, w] * (wave @ (1j * k * of_k[:, None])).real
                    vectors.append(felt - own_terms[1, w] * x[1][:, c] if len(x) > 1 else felt)
        found = [torch.stack(scalars, 1)[:, :, None]] + ([torch.stack(vectors, 1)] if vectors else [])
        return [a + b for a, b in zip(found, beside)]

    def beside_waves(self, layer, x, factors):
        """The same of an open system's pairs of atoms, of a slab's dipole, and of a field."""
        n, channels = x[0].shape[:2]
        q, p = x[0][:, :, 0], x[1] if len(x) > 1 else torch.zeros(n, channels, 3, dtype=torch.float64)
        strain = torch.eye(3, dtype=torch.float64) + self.strain
        places = self.places @ strain.T
        relative = places - places.mean(0)
        scalars, vectors = [], []
        for c in range(channels):
            for w, width in enumerate(self.tensors[layer["widths"]]):
                potential, gradient = torch.zeros(n, dtype=torch.float64), torch.zeros(n, 3, dtype=torch.float64)
                if not any(self.pbc):
                    potential, gradient = self.of_pairs(layer, places, q[:, c], p[:, c], np.sqrt((layer["width"] ** 2 + width.item() ** 2) / 2))
                elif not all(self.pbc):
                    cell = torch.tensor(self.cell) @ strain.T
                    normal = torch.linalg.cross(cell[0], cell[1])
                    normal = normal / normal.norm()
                    dipole = (q[:, c] * (relative @ normal)).sum() + (p[:, c] @ normal).sum()
                    field = layer["prefactor"] / torch.abs(torch.linalg.det(cell)) * dipole
                    potential, gradient = field * (relative @ normal), (field * normal).expand(n, 3)
                if "field" in layer:
                    slope = -layer["field"]["share"] * torch.tensor(self.field, dtype=torch.float64)
                    potential = potential + (relative if layer["field"]["origin"] == "mean" else places) @ slope
                    gradient = gradient + slope
                added = self.tensors[layer["open"]["added"]] if not any(self.pbc) else torch.zeros_like(factors)
                scalars.append(factors[0, w] * potential + added[0, w] * q[:, c])
                if len(factors) > 1:
                    vectors.append(factors[1, w] * gradient + added[1, w] * p[:, c])
        return [torch.stack(scalars, 1)[:, :, None]] + ([torch.stack(vectors, 1)] if vectors else [])

    def of_pairs(self, layer, places, q, p, width):
        """Potentials [N] and gradients [N, 3] of the other atoms. Exact: as integrals over Gaussian functions of the
        distance."""
        n = len(q)
        first, second = (torch.tensor(k) for k in np.nonzero(~np.eye(n, dtype=bool)))
        vec = places[first] - places[second]

        def at(i, terms):
            return torch.zeros(n, *terms.shape[1:], dtype=torch.float64).index_add(0, i, layer["prefactor"] / (4 * np.pi) * terms)

        if self.open == "exact":
            nodes, weights = np.polynomial.legendre.leggauss(100)
            u, weights = torch.tensor((nodes + 1) / (4 * width)), torch.tensor(weights / (4 * width))
            gauss = 2 / np.sqrt(np.pi) * weights * torch.exp(-vec.square().sum(1)[:, None] * u**2)
            k, slope, curvature = gauss.sum(1), (-2 * u**2 * gauss).sum(1), (4 * u**4 * gauss).sum(1)
            along = (p[second] * vec).sum(1)
            potential = at(first, q[second] * k - slope * along)
            gradient = (q[second] * slope - curvature * along)[:, None] * vec - slope[:, None] * p[second]
            return potential, at(first, gradient)
        h = layer["open"]["offset"]
        steps = torch.tensor(h * np.concatenate([np.zeros((1, 3)), np.eye(3)]))
        charges = torch.cat([(q - p.sum(1) / h)[:, None], p / h], 1)
        felt = []
        for probe in steps:
            r = (vec[:, None] + probe - steps).norm(dim=2)
            felt.append(at(first, (charges[second] * torch.erf(r / (2 * width)) / (r + layer["open"]["softening"])).sum(1)))
        return felt[0], torch.stack([f - felt[0] for f in felt[1:]], 1) / h

    def ewald(self, layer, charges):
        """Energies [N] of charges and all their images, by direct sums over atoms and wave vectors."""
        reach = layer["k_cutoff"]
        if layer["k_set"] == "converged":
            reach = max(reach, np.sqrt(-2 * np.log(1e-10)) / layer["width"])
        phase, k, volume = self.waves(reach)
        square, c, s = k.square().sum(1), torch.cos(phase), torch.sin(phase)
        weight = layer["prefactor"] / volume * torch.exp(-(layer["width"] ** 2) * square / 2) / square
        potential = c @ (weight * (charges @ c)) + s @ (weight * (charges @ s))
        if layer["removes_self"]:
            potential = potential - layer["prefactor"] / ((2 * np.pi) ** 1.5 * layer["width"]) * charges
        return 0.5 * charges * potential

    def per_receiver(self, scale, species):
        """A number, or those of the species of the receivers."""
        return self.tensors[scale][species] if isinstance(scale, str) else torch.full((len(species),), scale, dtype=torch.float64)

    def local_network(self, layer, basis, y, species, i, j):
        """Energies [N] of the receivers. Features are lists of blocks [E or N, mul, 2l+1]."""
        features, energy = [None] * len(layer["features"]), 0.0

        def scalars(pairs):
            return torch.cat([features[f][b][:, :, 0] for f, b in pairs], 1)

        for step in layer["steps"]:
            kind = step["step"]
            if kind == "readout":
                of_edges = self.network(step["network"], scalars(step["inputs"]))[:, 0]
                sums = torch.zeros(len(species), dtype=torch.float64).index_add(0, i, of_edges)
                energy = energy + self.per_receiver(step["scale"], species) * sums
                continue
            blocks = self.irreps(layer["features"][step["output"]])
            muls = [mul for mul, _ in blocks]
            if kind == "scalars" and "pair_weights" in step:
                row = torch.einsum("en,enc->ec", basis, self.tensors[step["pair_weights"]][species[i], species[j]])
            elif kind == "scalars":
                types = torch.cat([self.tensors[step["receiver"]][species[i]], self.tensors[step["sender"]][species[j]]], 1)
                row = basis @ self.tensors[step["weights"]] * types
            if kind == "scalars":
                out = [step["scale"] * row[:, :, None]]
            elif kind == "dense":
                out = [part[:, :, None] for part in torch.split(self.network(step["network"], scalars(step["inputs"])), muls, 1)]
            elif kind == "tensor":
                weights = scalars([step["input"]])
                parts = [weights] * len(muls) if step["shared"] else torch.split(weights, muls, 1)
                out = [part[:, :, None] * y[l][:, None, :] for part, (_, l) in zip(parts, blocks, strict=True)]
            elif kind == "sum":
                scale = self.per_receiver(step["scale"], species)[:, None, None]
                out = [
                    scale * torch.zeros(len(species), *block.shape[1:], dtype=torch.float64).index_add(0, i, block)
                    for block in features[step["input"]]
                ]
            else:
                assert kind == "product"
                out = [torch.zeros(len(i), mul, 2 * l + 1, dtype=torch.float64) for mul, l in blocks]
                for path in step["paths"]:
                    a, b, k = (path[key] for key in ("input", "environment", "output"))
                    first, second = features[step["input"]][a], features[step["environment"]][b][i]
                    w = coupling(*(t.shape[2] // 2 for t in (first, second, out[k])))
                    term = torch.einsum("eua,eub,abc->euc", first, second, w)
                    out[k] = out[k] + path["scale"] * self.tensors[path["weights"]][:, None] * term
            features[step["output"]] = out
        return energy

    def atomic_energies(self, species, i, j, vec):
        doc, features, all_pairs = self.document, {}, (i, j, vec)
        own = self.own_pairs(species, i, j, vec.norm(dim=1))
        i, j, vec = i[own], j[own], vec[own]
        near = self.nearest(i, vec.norm(dim=1))
        i, j, vec = i[near], j[near], vec[near]
        r = vec.norm(dim=1)
        y, basis = harmonics(doc["lmax_edge"], vec / r[:, None]), self.radial_basis(r, species[i], species[j])
        num_atoms = len(species)
        energy = torch.zeros(num_atoms, dtype=torch.float64)
        latent = torch.zeros(num_atoms, dtype=torch.float64)  # of an Ewald sum, which is not scaled

        def zeros(text):
            return [torch.zeros(num_atoms, mul, 2 * l + 1, dtype=torch.float64) for mul, l in self.irreps(text)]

        for layer in doc["layers"]:
            kind = layer["type"]
            if kind == "species_embedding":
                features[layer["output"]] = [self.tensors[layer["weight"]][species][:, :, None] * layer["scale"]]
            elif kind == "linear":
                x, out = features[layer["input"]], zeros(layer["irreps_out"])
                if layer["accumulate"]:
                    out = features[layer["output"]]
                for b in layer["blocks"]:
                    weight = self.tensors[b["weight"]]
                    form = "auw,aum->awm" if layer["per_species"] else "uw,aum->awm"
                    weight = weight[species] if layer["per_species"] else weight
                    out[b["out"]] = out[b["out"]] + b["scale"] * torch.einsum(form, weight, x[b["in"]])
                for b in layer["biases"]:
                    out[b["out"]] = out[b["out"]] + b["scale"] * self.tensors[b["tensor"]][None, :, None]
                features[layer["output"]] = out
            elif kind == "convolution":
                x, out = features[layer["input"]], zeros(layer["irreps_out"])
                weights, column = self.radial_network(layer["radial"], basis, species, i, j, x), 0
                if layer["radial"].get("times_cutoff", False):
                    weights = weights * self.cutoff_function(self.stretched(r, species[i], species[j]))[:, None]
                if "charge_potential" in layer["radial"]:
                    potential, u = layer["radial"]["charge_potential"], r / doc["cutoff"]
                    p, width = potential["p"], self.tensors[potential["widths"]][species[i], species[j]]
                    envelope = 1 - u**p * ((p + 1) * (p + 2) / 2 - p * (p + 2) * u + p * (p + 1) / 2 * u**2)
                    weights = weights * (torch.erf(r / width) / r * envelope)[:, None]
                for path in layer["paths"]:
                    xi, target = x[path["in"]], out[path["out"]]
                    mul, l1, l3 = target.shape[1], xi.shape[2] // 2, target.shape[2] // 2
                    w = weights[:, column : column + mul] * (r ** path.get("r_power", 0))[:, None] * path["scale"]
                    column += mul
                    message = torch.einsum(
                        "eu,eua,eb,abc->euc", w, xi[j], y[path["l"]], coupling(l1, path["l"], l3)
                    )  # fmt: skip
                    out[path["out"]] = target.index_add(0, i, message)
                assert column == weights.shape[1]
                features[layer["output"]] = out
            elif kind == "so2_convolution":
                factors = self.radial_network(layer["radial"], basis, species, i, j)
                cutoff = self.cutoff_function(self.stretched(r, species[i], species[j]))
                out = zeros(layer["irreps_out"])
                messages = self.so2_messages(layer, features[layer["input"]], i, j, vec / r[:, None], factors, cutoff)
                features[layer["output"]] = [
                    target.index_add(0, i, cutoff[:, None, None] * message) for target, message in zip(out, messages)
                ]
            elif kind == "pair_attention":
                features[layer["output"]] = self.pair_attention(layer, features[layer["input"]], basis, species, i, j, r, y)
            elif kind == "local_network":
                energy = energy + self.local_network(layer, basis, y, species, i, j)
            elif kind == "density_normalization":
                q = self.radial_network(layer["radial"], basis, species, i, j)[:, 0]
                density = torch.tanh(q**2)
                if layer["radial"].get("times_cutoff", False):
                    density = density * self.cutoff_function(self.stretched(r, species[i], species[j]))
                density = torch.zeros(num_atoms, dtype=torch.float64).index_add(0, i, density)
                divisor = (layer["offset"] + layer["factor"] * density)[:, None, None]
                features[layer["output"]] = [block / divisor for block in features[layer["input"]]]
            elif kind == "layer_norm":
                x = torch.cat(features[layer["input"]], 1)[:, :, 0]
                x = torch.nn.functional.layer_norm(
                    x, x.shape[1:], self.tensors[layer["weight"]], self.tensors[layer["bias"]], layer["epsilon"]
                )
                widths = [block.shape[1] for block in features[layer["input"]]]
                features[layer["output"]] = [part[:, :, None] for part in torch.split(x, widths, 1)]
            elif kind == "channel_balance":
                out, target = list(features[layer["input"]]), self.tensors[layer["target"]]
                channels = slice(layer["first"], layer["first"] + len(target))
                block = out[layer["block"]].clone()
                share = torch.full((num_atoms, len(target)), 1 / num_atoms, dtype=torch.float64)
                if "hardness" in layer:
                    first = layer["hardness"]["first"]
                    share = 1 / out[layer["hardness"]["block"]][:, first : first + len(target), 0]
                    block[:, channels, 0] *= -share
                    share = share / share.sum(0)
                if "shares" in layer:
                    first = layer["shares"]["first"]
                    share = out[layer["shares"]["block"]][:, first : first + len(target), 0] ** layer["shares"].get("power", 2)
                    share = share / (share.sum(0) + layer["shares"].get("epsilon", 0.0))
                block[:, channels, 0] += (target - block[:, channels, 0].sum(0)) * share
                out[layer["block"]] = block
                features[layer["output"]] = out
            elif kind == "norm_scale":
                x = features[layer["input"]]
                square = sum((block**2).sum(dim=2, keepdim=True) for block in x)
                features[layer["output"]] = [block / (layer["offset"] + layer["factor"] * square) for block in x]
            elif kind == "spherical_norm":
                out = list(features[layer["input"]])
                scalars = [block.strip().endswith("0e") for block in layer["irreps_in"].split("+")]
                for group in layer["groups"]:
                    square = layer["epsilon"]
                    for b, weight in zip(group["blocks"], group["weights"]):
                        weight = self.tensors[weight][:, None] if isinstance(weight, str) else weight
                        if group["center"] and scalars[b]:
                            out[b] = out[b] - out[b].mean(dim=1, keepdim=True)
                        square = square + (weight * out[b] ** 2).sum(dim=(1, 2), keepdim=True)
                    for b in group["blocks"]:
                        scale = layer["scale"]
                        scale = self.tensors[scale[b]] if isinstance(scale, list) else self.tensors[scale][b]
                        out[b] = scale[:, None] * out[b] / torch.sqrt(square)
                        if "bias" in layer and scalars[b]:
                            out[b] = out[b] + self.tensors[layer["bias"]][:, None]
                features[layer["output"]] = out
            elif kind == "grid_network":
                x = torch.cat(features[layer["input"]], 2)
                values = torch.einsum("pk,nuk->npu", self.tensors[layer["to"]], x)
                results = self.network(layer["network"], values.reshape(-1, x.shape[1])).reshape(num_atoms, layer["points"], -1)
                out = torch.einsum("pk,npu->nuk", self.tensors[layer["from"]], results)
                features[layer["output"]] = list(torch.split(out, [2 * l + 1 for _, l in self.irreps(layer["irreps_out"])], 2))
            elif kind == "node_product":
                x = [block for name in layer["inputs"] for block in features[name]]
                out = zeros(layer["irreps_out"])
                if "gaunt" in layer:
                    out = self.mean_over_sphere(*([x[b] for b in blocks] for blocks in layer["gaunt"]), out)
                for path in layer.get("paths", []):
                    term, target = x[path["in"][0]], out[path["out"]]
                    if len(path["in"]) == 2:
                        second = x[path["in"][1]]
                        w = coupling(*(t.shape[2] // 2 for t in (term, second, target)))
                        term = torch.einsum("nua,nub,abc->nuc", term, second, w)
                    out[path["out"]] = target + path["scale"] * term
                features[layer["output"]] = out
            elif kind == "symmetric_contraction":
                out = self.contraction(layer, features[layer["input"]], species, zeros(layer["irreps_out"]))
                features[layer["output"]] = out
            elif kind == "gate":
                z, out = features[layer["input"]], zeros(layer["irreps_out"])
                for t in layer["terms"]:
                    mul = out[t["out"]].shape[1]
                    value = z[t["in"]][:, t["offset"] : t["offset"] + mul]
                    if "gate_in" in t:
                        gate = z[t["gate_in"]][:, t["gate_offset"] : t["gate_offset"] + mul]
                        out[t["out"]] = value * t["scale"] * ACTIVATIONS[t["activation"]](gate)
                    else:
                        out[t["out"]] = t["scale"] * ACTIVATIONS[t["activation"]](value)
                features[layer["output"]] = out
            elif kind == "readout":
                energy = (
                    energy + self.network(layer["network"], features[layer["input"]][layer["block"]][:, :, 0])[:, 0]
                )
            elif kind == "direct_forces":
                self.direct_forces = layer["scale"] * features[layer["input"]][layer["block"]][:, 0].detach().numpy()
            elif kind == "pair_repulsion":
                energy = energy + self.pair_repulsion(layer, num_atoms, species, i, j, r)
            elif kind == "coulomb":
                energy = energy + self.coulomb(layer, torch.cat(features[layer["input"]], 1)[:, :, 0], *all_pairs)
            elif kind == "ewald":
                charges = torch.cat(features[layer["input"]], 1)[:, :, 0].double() @ self.tensors[layer["weights"]].double()
                latent = latent + self.ewald(layer, charges)
            elif kind == "potential":
                features[layer["output"]] = self.potential(layer, features[layer["input"]])
            elif kind == "dispersion":
                ratio = features[layer["input"]][layer.get("block", 0)][:, 0, 0]
                energy = energy + self.dispersion(layer, ratio, species, *all_pairs)
            elif kind == "scale_shift":
                energy = self.tensors[layer["scale"]][species] * energy + self.tensors[layer["shift"]][species]
            elif kind == "observable":
                pass  # no part of the energy
            else:
                raise ValueError(kind)
        return energy + latent

    def evaluate(self, symbols, positions, cell=None, pbc=(False,) * 3):
        """energy, forces [N, 3], stress [6] (xx yy zz yz xz xy) or None, atomic energies [N]."""
        species = torch.tensor([self.document["elements"].index(s) for s in symbols])
        positions = np.asarray(positions, float)
        cell = None if cell is None or abs(np.linalg.det(cell)) < 1e-3 else np.asarray(cell, float)
        i, j, shift = neighbors(positions, cell, pbc, self.reach())
        i, j = torch.tensor(i, dtype=torch.long), torch.tensor(j, dtype=torch.long)
        r = torch.tensor(positions)
        vec = (r[j] - r[i] + torch.tensor(shift).reshape(-1, 3)).requires_grad_(True)
        self.cell, self.places, self.pbc = cell, torch.tensor(positions, requires_grad=True), pbc
        self.strain = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
        energies = self.atomic_energies(species, i, j, vec)
        leaves = (vec, self.places, self.strain)
        found = torch.autograd.grad(energies.sum(), leaves, allow_unused=True)
        g, of_places, of_strain = (torch.zeros_like(x) if d is None else d for x, d in zip(leaves, found))
        forces = torch.zeros_like(r).index_add(0, i, g).index_add(0, j, -g) - of_places
        stress = None
        if cell is not None:
            virial = (torch.einsum("ea,eb->ab", vec.detach(), g) + of_strain) / abs(np.linalg.det(cell))
            stress = ((virial + virial.T) / 2).numpy()[[0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]
        return energies.sum().item(), forces.numpy(), stress, energies.detach().numpy()

    def hessian_vector(self, symbols, positions, direction, cell=None, pbc=(False,) * 3):
        """The matrix of second derivatives times direction [N, 3], by differentiating twice."""
        species = torch.tensor([self.document["elements"].index(s) for s in symbols])
        positions = np.asarray(positions, float)
        i, j, shift = neighbors(positions, cell, pbc, self.reach())
        i, j = torch.tensor(i, dtype=torch.long), torch.tensor(j, dtype=torch.long)
        r = torch.tensor(positions).requires_grad_(True)
        self.cell, self.places, self.strain, self.pbc = cell, r, torch.zeros(3, 3, dtype=torch.float64), pbc
        energies = self.atomic_energies(species, i, j, r[j] - r[i] + torch.tensor(shift).reshape(-1, 3))
        (gradient,) = torch.autograd.grad(energies.sum(), r, create_graph=True)
        (product,) = torch.autograd.grad((gradient * torch.tensor(direction)).sum(), r)
        return product.numpy()


class SecondReader(Calculator):
    """The same as an ASE calculator."""

    implemented_properties = ["energy", "forces", "stress"]

    def __init__(self, path):
        super().__init__()
        self.evaluator = EquiEvaluator(path)

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        cell = self.atoms.cell.complete().array if self.atoms.pbc.any() else None
        energy, forces, stress, _ = self.evaluator.evaluate(self.atoms.get_chemical_symbols(), self.atoms.positions, cell, self.atoms.pbc)
        self.results = {"energy": energy, "forces": forces}
        if self.evaluator.direct_forces is not None:
            self.results["direct_forces"] = self.evaluator.direct_forces
        if stress is not None:
            self.results["stress"] = stress
