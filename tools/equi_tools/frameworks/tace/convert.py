# SPDX-License-Identifier: MIT
"""TACE model -> document and tensors of an .equi file (doc/model_file.rst).

A layer has an interaction, which makes the atomic basis of an atom, and products of this basis with itself, which linear
maps for each element add up. Of equal products only one is evaluated, with the sum of their matrices. The package's
vector of an edge is r_i - r_j, opposite to the format's: each path has the sign (-1)^l2.
"""

from math import pi, sqrt

import numpy as np

from ... import symmetric_basis
from ...coupling import coupling
from ...document import LMAX_SUPPORTED
from ...errors import EquiError
from ...irreps import SCALAR, Irrep, Irreps, gate_input
from ..common.e3nn_layers import ACTIVATION_CONSTANTS, expect_used, gate_terms, split_rows
from ..common.elements import chosen_elements
from ..common.layers import Layers, activated, gated, network, path
from . import model as tace_model
from .checkpoint import is_constant, option

# e3nn's factors of activations; the identity has none.
CONSTANTS = ACTIVATION_CONSTANTS | {"identity": 1.0}
# The package's own factor of silu in networks of the kind mlp_v2, which it states in digits.
SCALED_SILU = 1.6791767923989418
NORM_EPSILON = 1e-5
RMS_EPSILON = float(np.finfo(np.float64).eps)  # of torch for numbers in float64
# Constants of the repulsion, which the package has only in its code: eV Angstrom, Angstrom.
ZBL_EXPONENTS = [3.2, 0.9423, 0.4028, 0.2016]
COULOMB, BOHR = 14.3996, 0.529
# Blocks and components of one channel that a product of features may have (src/base/model_limits.h).
MAX_BLOCKS, MAX_COMPONENTS = 24, 64
MAX_NORMALIZED_BLOCKS = 8
NEGLIGIBLE = 1e-12


def _irreps(mul, irs):
    return Irreps((mul, ir) for ir in irs)


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


class _Converter(Layers):
    def __init__(self, checkpoint, head, elements):
        super().__init__(chosen_elements(elements, checkpoint.elements, checkpoint.source))
        self.checkpoint, self.config, self.state = checkpoint, checkpoint.config, checkpoint.state
        self.head = checkpoint.head_index(head)
        self.species = [checkpoint.elements.index(e) for e in self.elements]
        self.count = len(checkpoint.elements)  # of the model's own elements
        self.channels = self.config["num_channel"]
        product = self.config["product_basis"]
        self.experts = product["num_expert"] or 1
        self.per_expert = product["num_channel_per_expert"] or self.channels
        self.hidden = self.experts * self.per_expert

    def option(self, name):
        return option(self.config, name)

    def numbers(self, name):
        """Floating-point numbers of any shape."""
        return self.state.take(name, *self.state.array(name).shape)

    # ---- numbers of the package's linear maps

    def flat(self, name, shapes, *lead):
        """All weights [*lead, n] of a linear map, which the file has as one tensor or as one for each path."""
        if f"{name}.weight.0" not in self.state:
            return self.state.take(f"{name}.weight", *lead, sum(a * b for a, b in shapes))
        parts = [self.state.take(f"{name}.weight.{n}", *lead, *shape).reshape(*lead, -1) for n, shape in enumerate(shapes)]
        return np.concatenate(parts, axis=-1)

    def parts(self, name, irreps_in, irreps_out, kind="plain"):
        """({(i, j): (matrix [..., in, out], scale)}, {j: bias [..., channels]}) of a linear map between irreps.

        kind: plain, element (matrices and biases have a first axis, the model's elements) or expert (and a second one).
        """
        lead = {"plain": (), "element": (self.count,), "expert": (self.count, self.experts)}[kind]
        pairs = [(i, j) for i, (_, ir) in enumerate(irreps_in) for j, block in enumerate(irreps_out) if block.ir == ir]
        shapes = [(irreps_in[i].mul, irreps_out[j].mul) for i, j in pairs]
        weights, offset, matrices = self.flat(name, shapes, *lead), 0, {}
        for (i, j), shape in zip(pairs, shapes):
            size = shape[0] * shape[1]
            matrix = weights[..., offset : offset + size].reshape(*lead, *shape)
            matrices[i, j] = matrix, 1.0 / sqrt(irreps_in.count(irreps_out[j].ir))
            offset += size
        expect_used(f"{name}.weight", weights[(0,) * len(lead)], offset)
        scalars = [j for j, (_, ir) in enumerate(irreps_out) if ir == SCALAR]
        biases, width = {}, sum(irreps_out[j].mul for j in scalars)
        if f"{name}.bias" in self.state and width:
            # With separate matrices the biases of all elements are one row.
            array = self.numbers(f"{name}.bias")
            expect_used(f"{name}.bias", array, int(np.prod(lead)) * width)
            array, offset = array.reshape(*lead, width), 0
            for j in scalars:
                biases[j] = array[..., offset : offset + irreps_out[j].mul]
                offset += irreps_out[j].mul
        return matrices, biases

    def one(self):
        """The name of a feature that is 1, from which biases of elements are made."""
        if not any(layer.get("output") == "one" for layer in self.layers):
            self.add_species_embedding("one", "one", np.ones((len(self.elements), 1), np.float32))
        return "one"

    def element_biases(self, name, biases, target, irreps, factor=1.0):
        """Adds {block: [the model's elements, channels]} to a feature."""
        found = [(0, j, self.table.add(f"{name}.bias.{j}", bias[self.species][:, None]), factor) for j, bias in biases.items() if np.any(bias)]
        if found:
            self.add_linear(self.one(), "1x0e", target, irreps, found, per_species=True, accumulate=True)

    def linear(self, name, source, irreps_in, target, irreps_out, pieces=None, pieces_out=None, of_elements=False, accumulate=False, factor=1.0):
        """One linear map of the package as a layer. pieces, pieces_out: irreps of the features, if these are finer than those of the map."""
        kind = "element" if of_elements else "plain"
        irreps_in, irreps_out = Irreps(irreps_in), Irreps(irreps_out)
        pieces, pieces_out = Irreps(pieces or irreps_in), Irreps(pieces_out or irreps_out)
        matrices, biases = self.parts(name, irreps_in, irreps_out, kind)
        rows, columns = split_rows(name, irreps_in, pieces), split_rows(name, irreps_out, pieces_out)
        found = []
        for (i, j), (matrix, scale) in matrices.items():
            matrix = matrix[self.species] if of_elements else matrix
            found += [
                (k, q, self.table.add(f"{name}.{k}.{q}", matrix[..., a:b, c:d]), factor * scale) for k, a, b in rows[i] for q, c, d in columns[j]
            ]
        split = {q: bias[..., c:d] for j, bias in biases.items() for q, c, d in columns[j]}
        own = [] if of_elements else [(q, self.table.add(f"{name}.bias.{q}", bias), factor) for q, bias in split.items()]
        self.add_linear(source, pieces, target, pieces_out, found, own, per_species=of_elements, accumulate=accumulate)
        if of_elements:
            self.element_biases(name, split, target, pieces_out, factor)

    # ---- networks of edges

    def radial_basis(self):
        options, prefix = self.config["radial_basis"], "representation.radial_basis"
        if options["radial_basis"] == "gaussian":
            # The package makes the centers from the cutoff of the options.
            centers = np.linspace(0.0, float(self.config["cutoff"]), options["num_radial_basis"])
            basis = {"kind": "gaussian", "centres": self.table.add("centres", centers), "width": float(options["gaussian_width"] * centers[1])}
        else:
            numbers = self.state.take(f"{prefix}.radial_fn.bessel_weights", options["num_radial_basis"])
            basis = {
                "kind": "bessel", "wave_numbers": self.table.add("wave_numbers", numbers),
                "prefactor": self.state.number(f"{prefix}.radial_fn.prefactor"),
            }  # fmt: skip
        p = int(self.state.array(f"{prefix}.cutoff_fn.p"))
        basis["cutoff_function"] = {"kind": "polynomial", "p": p}
        if p < 2:
            raise EquiError(f"tensor {prefix}.cutoff_fn.p: {p} gives a cutoff function without a second derivative at 0")
        if not options["apply_cutoff"]:
            basis["apply_cutoff"] = False
        if options["distance_transform"] == "Agnesi":
            name = f"{prefix}.distance_transform"
            numbers = {key: self.state.number(f"{name}.{key}") for key in ("q", "p", "a")}
            basis["transform"] = {"kind": "agnesi", "r0": self.table.add("r0", 0.5 * self.pair_radii(f"{name}.covalent_radii"))} | numbers
        return basis

    def atomic_numbers(self):
        return self.state.array("atomic_numbers").reshape(-1)[self.species]

    def pair_radii(self, name):
        """Sum of the covalent radii of each pair of species."""
        radii = self.numbers(name).astype(np.float64)[self.atomic_numbers()]
        return radii[:, None] + radii[None, :]

    def dense(self, name, kind, widths, tag, first=None, has_norms=None, has_biases=False):
        """[(matrix, scale, bias or None, norm or None, factor of the activation)] of one of the package's networks.

        kind: mlp or mlp_v2. first: the first matrix, if it is another one than that of the file. has_norms: layer_norm, rms_norm or None.
        """
        steps, stride = [], 3 if has_norms else 2
        for n, (rows, columns) in enumerate(zip(widths, widths[1:])):
            place, is_last = f"{name}.mlp.{n * stride}", n == len(widths) - 2
            matrix = self.state.take(f"{place}.weight", rows, columns)
            bias = self.state.take(f"{place}.bias", columns) if has_biases else None
            gain = sqrt(2) if kind == "mlp" and n > 0 else 1.0
            norm = None
            if has_norms and not is_last:
                place = f"{name}.mlp.{n * stride + 1}"
                norm = [self.state.take(f"{place}.weight", columns)]
                norm.append(self.state.take(f"{place}.bias", columns) if has_norms == "layer_norm" else None)
            steps.append([matrix, gain / sqrt(rows), bias, norm, SCALED_SILU if kind == "mlp_v2" else 1.0])
        return steps

    def network_of(self, tag, steps, **more):
        """Steps of `dense` as a network of the format, activated by silu. Factors of activations go into the next scale."""
        weights, scales, biases, norms = [], [], [], []
        factor, doubled = 1.0, False
        for n, (matrix, scale, bias, norm, constant) in enumerate(steps):
            if doubled:
                # Of the doubled layer only the first half goes on.
                matrix = np.concatenate([matrix, np.zeros_like(matrix)])
            doubled = norm is not None and norm[1] is None
            if doubled:
                # The mean of z and -z is zero and their variance is the mean square of z: a norm without centering.
                matrix = np.concatenate([matrix, -matrix], axis=1)
                bias = None if bias is None else np.concatenate([bias, -bias])
                norm = [np.concatenate([norm[0], norm[0]]), np.zeros(2 * len(norm[0]), np.float32)]
            weights.append(self.table.add(f"{tag}.{n}", matrix))
            scales.append(scale * factor)
            biases.append(None if bias is None else self.table.add(f"{tag}.{n}.bias", bias))
            if norm is not None:
                names = {key: self.table.add(f"{tag}.{n}.norm.{key}", array) for key, array in zip(("weight", "bias"), norm)}
                norms.append(names | {"epsilon": RMS_EPSILON if doubled else NORM_EPSILON})
            else:
                norms.append(None)
            factor = constant
        more |= {"norms": norms} if any(norms) else {}
        return network(weights, "silu" if len(weights) > 1 else "identity", 1.0, scales, biases if any(biases) else None, **more)

    def edge_features(self, t):
        """What the networks of edges of layer t read: (width, width of the basis in it, their factor, rows of senders and receivers)."""
        of_basis = self.option("radial_basis.num_radial_basis") if self.option("edge_embedding.type") == "identity" else self.channels
        kind = self.option("edge_update.type")
        if kind == "identity":
            return of_basis, of_basis, 1.0, None
        width, rows = of_basis + 2 * self.channels, []
        for end in ("source", "target"):
            name = f"representation.edge_updates.{t}.{end}_embedding"
            if kind == "element2":
                found, scale = self.flat(name, [(self.count, self.channels)]).reshape(self.count, self.channels), 1 / sqrt(self.count)
                if f"{name}.bias" in self.state:
                    raise EquiError(f"tensor {name}.bias: biases of elements are not part of a TACE model of these options")
            else:
                found, scale = self.state.take(f"{name}.weight", self.count, self.channels), sqrt(width / self.channels)
            rows.append(found[self.species].astype(np.float64) * scale)
        return width, of_basis, sqrt(width / of_basis) if kind == "element2_v2" else 1.0, rows

    def edge_network(self, t, name, tag, hidden, outputs, kind, norms, has_biases, times_cutoff):
        """The radial network `name` of layer t, behind the embedding of edges."""
        width, of_basis, factor, rows = self.edge_features(t)
        steps = self.dense(name, kind, [width, *hidden, outputs], tag, has_norms=norms, has_biases=has_biases)
        more = {"times_cutoff": True} if times_cutoff else {}
        first, embedding = steps[0][0], self.option("edge_embedding.type")
        of_radial, others = first[:of_basis], first[of_basis:]
        if factor != 1.0:
            of_radial = factor * of_radial.astype(np.float64)
        if embedding != "identity":
            functions = self.option("radial_basis.num_radial_basis")
            own = self.flat("representation.edge_embedding.radial_proj", [(functions, self.channels)]).reshape(functions, self.channels)
            if embedding == "nonlinear":
                steps.insert(0, [own, 1 / sqrt(functions), None, None, CONSTANTS["silu"]])
            else:
                of_radial = own.astype(np.float64) @ of_radial / sqrt(functions)
        if rows is not None:
            # The package's inputs are those of the receiver and of the sender, in this order.
            steps[0][0] = np.concatenate([of_radial, others[self.channels :], others[: self.channels]])
            for key, array in zip(("sender", "receiver"), rows):
                more[key] = self.once(f"representation.edge_updates.{t}.{key}", array)
        elif embedding == "linear":
            steps[0][0] = of_radial
        return self.network_of(tag, steps, **more)

    def once(self, name, array):
        return name if name in self.table.tensors else self.table.add(name, array)

    def norms_of_networks(self, width):
        """The norm of hidden layers of a network with so many inputs: layer_norm, rms_norm or None."""
        options = self.config["radial_basis"]
        if options["mlp_norm"] is not None:
            return options["mlp_norm"]
        return "layer_norm" if options["mlp_type"] == "mlp" and width != options["num_radial_basis"] else None

    # ---- node embedding

    def embedding(self):
        """Writes x0; returns its irreps, each with all channels."""
        kind, prefix = self.option("node_embedding.type"), "representation.node_embedding"
        if kind == "linear":
            if f"{prefix}.embedding.weight" in self.state:
                rows, scale = self.state.take(f"{prefix}.embedding.weight", self.count, self.channels), 1.0
            else:  # of version 0.2.0
                rows = self.flat(f"{prefix}.elem_emb1", [(self.count, self.channels)]).reshape(self.count, self.channels)
                scale = 1 / sqrt(self.count)
            self.add_species_embedding("x0", "embedding", rows[self.species], scale)
            return [SCALAR]
        rows = self.flat(f"{prefix}.node_embedding", [(self.count, self.channels)]).reshape(self.count, self.channels)[self.species]
        self.add_species_embedding("embedding", "embedding", rows, 1 / sqrt(self.count))
        options, functions = self.config["radial_basis"], self.option("radial_basis.num_radial_basis")
        irs = [Irrep(l, (-1) ** l) for l in range(min(self.config["Lmax"], self.config["lmax"]) + 1)]
        with_elements = kind.endswith("_element2")
        width, more = functions, {} if options["apply_cutoff"] else {"times_cutoff": True}
        if with_elements:
            width += 2 * self.channels
            of_species = self.table.add("embedding.rows", rows.astype(np.float64) / sqrt(self.count))
            more |= {"sender": of_species, "receiver": of_species}
        norms = self.norms_of_networks(width)
        widths = [width, *options["hidden"], len(irs) * self.channels]
        steps = self.dense(f"{prefix}.edge_info", options["mlp_type"], widths, "embedding.radial", has_norms=norms)
        scale = sqrt(self.checkpoint.average_neighbors)
        paths = [path(0, ir.l, n, (-1) ** ir.l * sqrt(ir.dim) / scale) for n, ir in enumerate(irs)]
        self.add_convolution(
            "embedding", f"{self.channels}x0e", "x0", _irreps(self.channels, irs), paths, self.network_of("embedding.radial", steps, **more)
        )
        return irs

    # ---- interactions

    def norm(self, name, kind, source, irs, target):
        """A norm of all blocks together."""
        if len(irs) > MAX_NORMALIZED_BLOCKS:
            raise EquiError(f"{name}: a norm of {len(irs)} irreps is not supported, at most {MAX_NORMALIZED_BLOCKS}")
        scale = self.table.add(f"{name}.scale", self.state.take(f"{name}.affine_weight", len(irs), self.channels))
        centered = kind == "merge_layer_norm" and SCALAR in irs
        bias = {"bias": self.table.add(f"{name}.bias", self.state.take(f"{name}.affine_bias", self.channels))} if centered else {}
        # The file has the weights of the squares, one for each component, in the precision of the training.
        firsts = np.cumsum([0, *(ir.dim for ir in irs)])[:-1]
        balance = self.state.take(f"{name}.balance_degree_weight", 1, sum(ir.dim for ir in irs))[0].astype(np.float64)
        weights = [float(balance[first] / self.channels) for first in firsts]
        groups = [(range(len(irs)), weights, centered)]
        self.add_spherical_norm(source, _irreps(self.channels, irs), target, groups, NORM_EPSILON, scale, **bias)

    def residual(self, name, source, irs_in, target, irs_out, accumulate=True):
        """What passes an interaction or a product unchanged or by a linear map."""
        kind = self.option("resnet.linear_type")
        irreps_in, irreps_out = _irreps(self.channels, irs_in), _irreps(self.channels, irs_out)
        if kind == "identity":
            identity = self.once(f"identity.{self.channels}", np.eye(self.channels, dtype=np.float32))
            blocks = [(i, irs_out.index(ir), identity, 1.0) for i, ir in enumerate(irs_in) if ir in irs_out]
            self.add_linear(source, irreps_in, target, irreps_out, blocks, accumulate=accumulate)
            return
        self.linear(name, source, irreps_in, target, irreps_out, of_elements=kind == "aware", accumulate=accumulate)

    def activations(self, irs):
        """(those of scalars by irrep, that of gates): names with factors; with gate_m0 there are only gates."""
        options = self.config["atomic_basis"]
        even, odd = options["scalar_act"] if isinstance(options["scalar_act"], list) else (options["scalar_act"], None)
        if options["gate_m0"]:
            return None, (even or "sigmoid", CONSTANTS[even or "sigmoid"])
        names = {1: even or "silu", -1: odd or "tanh"}
        if any(ir == (0, -1) for ir in irs) and names[-1] not in ("tanh", "identity"):
            raise EquiError(f"option atomic_basis.scalar_act: {names[-1]} is no odd function, which scalars 0o need")
        gate = options["tensor_act"] or "sigmoid"
        return [(names[ir.p], CONSTANTS[names[ir.p]]) for ir in irs if ir.l == 0], (gate, CONSTANTS[gate])

    def gate_layout(self, name, irs):
        """(irreps of the input, terms, irreps of the output) of the gate behind an interaction."""
        of_scalars, of_gates = self.activations(irs)
        irreps = _irreps(self.channels, irs)
        if of_scalars is not None:
            others = [ir for ir in irs if ir.l > 0]
            irreps_z = gate_input(_irreps(self.channels, irs[: len(of_scalars)]), _irreps(self.channels, [SCALAR] * len(others)), _irreps(self.channels, others))
            return irreps_z, gate_terms(name, irreps_z, irreps, SCALAR, of_scalars, [of_gates] * len(others)), irreps
        # All blocks have gates, which stand before the scalars 0e.
        irreps_z = gate_input(Irreps(), _irreps(self.channels, [SCALAR] * len(irs)), irreps)
        block_of = {ir: n for n, (_, ir) in enumerate(irreps_z)}
        terms = []
        for k, ir in enumerate(irs):
            offset = len(irs) * self.channels if ir == SCALAR else 0
            terms.append(gated(k, block_of[ir], offset, block_of[SCALAR], k * self.channels, *of_gates))
        return irreps_z, terms, irreps

    def convolution(self, block, name, source, target):
        """The sum over neighbors; returns its irreps, a block for each path."""
        options = self.config["radial_basis"]
        paths = [path(i, l2, q, (-1) ** l2 * sqrt(ir.dim)) for q, (i, l2, ir) in enumerate(block.paths)]
        mid = _irreps(self.channels, [ir for _, _, ir in block.paths])
        width = self.edge_features(block.number)[0]
        radial = self.edge_network(
            block.number, f"{name}.edge_info", f"{name}.radial", options["hidden"], len(paths) * self.channels, options["mlp_type"],
            self.norms_of_networks(width), options["bias"], not options["apply_cutoff"],
        )  # fmt: skip
        self.add_convolution(source, _irreps(self.channels, block.inputs), target, mid, paths, radial)
        return mid

    def density(self, block, name, source, irreps, target):
        options, kind = self.config["radial_basis"], self.option("atomic_basis.scatter_norm")
        has_norms = "layer_norm" if self.edge_features(block.number)[0] != options["num_radial_basis"] else None
        radial = self.edge_network(
            block.number, f"{name}.edge_density", f"{name}.radial", [64], 1, "mlp", has_norms, options["bias"],
            kind == "density" and not options["apply_cutoff"],
        )  # fmt: skip
        offset, factor = (self.state.number(f"{name}.{key}") for key in ("alpha", "beta"))
        self.add("density_normalization", source, irreps, target, irreps, radial=radial, offset=offset, factor=factor)

    def interaction(self, block, x):
        """Layers up to the input of the products; returns its name."""
        t = block.number
        name, connection = f"representation.interactions.{t}", self.option("resnet.type")
        is_connected = t > 0 or self.option("resnet.use_first_resnet")
        norm = self.option("layer_norm.pre_norm_type") if t > 0 or self.option("layer_norm.use_first_pre_norm") else None
        irreps_in, irreps = _irreps(self.channels, block.inputs), _irreps(self.channels, block.mid)
        source = x
        if norm is not None and connection in ("BB", "BAB"):
            source = f"n{t}"
            self.norm(f"{name}.norm1", norm, x, block.inputs, source)
        self.linear(f"{name}.linear_up", source, irreps_in, f"y{t}", irreps_in)
        mid = self.convolution(block, name, f"y{t}", f"m{t}")
        scatter, average = self.option("atomic_basis.scatter_norm"), self.checkpoint.average_neighbors
        factor = {"avg_num_neighbors": 1 / average, "sqrt_avg_num_neighbors": average**-0.5}.get(scatter, 1.0)
        has_gate = self.config["atomic_basis"]["nonlinear"][t] is not None
        irreps_z, terms, gated_irreps = self.gate_layout(name, block.mid) if has_gate else (irreps, None, None)
        a = f"a{t}"
        steps = [f"{a}_sum"] * (scatter in ("density", "no_cutoff_density")) + [f"{a}_gate", f"{a}_gated"] * has_gate
        names = iter([*steps, a])
        last = next(names)
        self.linear(f"{name}.linear_down", f"m{t}", mid.simplify(), last, irreps_z, pieces=mid, factor=factor)
        if scatter in ("density", "no_cutoff_density"):
            source, last = last, next(names)
            self.density(block, f"{name}.scatter_norm", source, irreps_z, last)
        if has_gate:
            source, last = last, next(names)
            self.add_gate(source, irreps_z, last, gated_irreps, terms)
            source, last = last, next(names)
            self.linear(f"{name}.linear_nonlinearity", source, gated_irreps, last, irreps)
        if is_connected and connection == "BAB":
            self.residual(f"{name}.resnetBA", x, block.inputs, a, block.mid)
        return a, is_connected, norm

    # ---- products

    def coefficients(self, name, irs, target, kind, factor=1.0):
        """What a linear map does with products of the irreps `irs`, hidden channels each.

        Returns ([for each product {block of the target: (matrix [(elements,) hidden, channels], scale)}], {block: bias}). The target has a
        block for each irrep, or one for each irrep and expert.
        """
        merged = _irreps(self.hidden, irs).simplify()
        experts = self.experts if kind == "expert" else 1
        of_expert = Irreps((mul // experts, ir) for mul, ir in merged)
        outputs = _irreps(self.hidden // experts, target)
        matrices, biases = self.parts(name, of_expert, outputs, kind)
        found = [{} for _ in irs]
        rows = split_rows(name, merged, _irreps(self.hidden, irs))
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
                shifts[j * self.experts + e] = factor * (bias[:, e] if kind == "expert" else bias[..., e * split : (e + 1) * split]).astype(np.float64)
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
        self.add_linear(source, _irreps(self.hidden, irs), target, pieces, blocks, own, per_species=of_elements, accumulate=accumulate)

    def product(self, block, a):
        """Products of the atomic basis `a`, up to the linear map behind them, which writes x{t+1}."""
        t, options = block.number, self.config["product_basis"]
        name, irs, last = f"representation.products.{t}", block.mid, block.outputs
        has_gates = options["nonlinear"] is not None
        irreps_in, hidden = _irreps(self.channels, irs), _irreps(self.hidden, irs)
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
        self.linear(f"{name}.linear", sums, _irreps(self.hidden, last), f"x{t + 1}", _irreps(self.channels, last), pieces=pieces)

    def product_stages(self, block, has_gates):
        """For each degree from 2 on [(factors, irrep)] of its products. Factors: the number of a product of the degree before, or of an
        irrep, and that of an irrep; None in place of the second one is the constant."""
        options, lmax, parity = self.config["product_basis"], self.config["lmax"], self.config["parity"]
        irs, restriction = block.mid, options["l1l2"]
        stages, before = [], list(irs)
        for nu in range(2, block.correlation + 1):
            outputs = block.outputs if nu == block.correlation else tace_model.product_irreps(before, irs, parity, lmax)
            second = [*irs, SCALAR] if has_gates else irs
            paths = tace_model.paths_between(before, second, outputs, restriction, identical=nu == 2 and not has_gates)
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
            self.add_node_product([source], [hidden], feature, _irreps(self.hidden, outs), paths=listed)
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
                terms.append([self.contraction_term(f"{name}.degree{nu}.{begin + n}", described, unit, np.array([k]), np.ones((1, self.hidden)))])
            self.add_contraction(source, hidden, feature, _irreps(self.hidden, outs), terms, per_species=False)
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
            both, feature = _irreps(self.hidden, [*outs, *[SCALAR] * num]), f"{target}_2_{begin}"
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
            own = [] if biases is None else [(k, self.table.add(f"{name}.gates.{begin}.{k}.bias", biases[columns]), 1.0) for k, columns in places]
            self.add_linear(a, irreps_in, f"{feature}_gates", both, blocks, own, accumulate=True)
            self.add_gate(f"{feature}_gates", both, feature, _irreps(self.hidden, outs), [gated(k, k, 0, num + k, 0, act) for k in range(num)])
            for label, kind, numbers in found:
                of_chunk = [[(1.0, numbers[q])] for q in range(begin, end)]
                self.add_products(f"{name}.{label}.1.{begin}", feature, outs, of_chunk, target, pieces, kind != "plain")

    # ---- energy

    def readout(self, n, layer, source, irs):
        prefix, is_last = f"energy_readouts.{n}", layer == self.config["num_layers"] - 1
        heads, hidden = len(self.checkpoint.heads), self.config["readout_emlp"]["hidden"] if is_last else []
        widths = [None, *(width * heads for width in hidden), heads]
        irreps_in, weights, scales, biases = _irreps(self.channels, irs), [], [], []
        rows = slice(None)
        for k, width in enumerate(widths[1:]):
            name = f"{prefix}.linear{2 if is_last else 1}.{k}"
            matrices, found = self.parts(name, irreps_in, Irreps([(width, SCALAR)]))
            ((matrix, scale),) = matrices.values()
            columns = slice(self.head * width // heads, (self.head + 1) * width // heads)
            weights.append(self.table.add(name, matrix[rows, columns]))
            scales.append(scale)
            biases.append(self.table.add(f"{name}.bias", found[0][columns]) if found else None)
            irreps_in, rows = Irreps([(width, SCALAR)]), columns
        act = ("silu", CONSTANTS["silu"]) if len(weights) > 1 else ("identity", 1.0)
        self.add_readout(source, _irreps(self.channels, irs), irs.index(SCALAR), network(weights, *act, scales, biases if any(biases) else None))

    def of_head(self, name, missing):
        """Numbers of the chosen level of theory by species."""
        if name not in self.state:
            return np.full(len(self.species), missing)
        found = np.atleast_2d(self.numbers(name)).astype(np.float64)
        if found.shape[1] != self.count or self.head >= len(found):
            raise EquiError(f"tensor {name}: shape {list(found.shape)} does not fit {self.count} elements and head {self.head}")
        return found[self.head][self.species]

    def repulsion(self):
        z = self.atomic_numbers().astype(np.float64)
        powers = z ** self.state.number("zbl.a_exp")
        length = self.state.number("zbl.a_prefactor") * BOHR / (powers[:, None] + powers[None, :])
        cutoff = self.pair_radii("zbl.covalent_radii")
        if np.any(cutoff > self.checkpoint.cutoff):
            raise EquiError("option short_range.zbl.enable: radii of two elements reach beyond the cutoff, where the package cuts their repulsion off")
        coefficients = [float(c) for c in self.state.take("zbl.c", 4)]
        p = int(self.state.array("zbl.p"))
        self.add_pair_repulsion("zbl", 0.5 * COULOMB * np.outer(z, z), length, cutoff, p, coefficients, ZBL_EXPONENTS)

    def energy(self):
        has_repulsion, is_scaled = self.option("short_range.zbl.enable"), self.option("scale_shift.scale_zbl")
        if has_repulsion and is_scaled:
            self.repulsion()
        scale, shift = (self.of_head(f"scale_shift.{key}", value) for key, value in (("scale", 1.0), ("shift", 0.0)))
        shift = shift + self.of_head("atomic_energy_layer.atomic_energy", 0.0)
        self.add_scale_shift(self.table.add("scale", scale), self.table.add("shift", shift))
        if has_repulsion and not is_scaled:
            self.repulsion()

    def document(self):
        lmax = self.config["lmax"]
        for key in ("lmax", "Lmax"):
            if self.config[key] > LMAX_SUPPORTED:
                raise EquiError(f"option {key} {self.config[key]} is not supported, at most {LMAX_SUPPORTED}")
        basis, x = self.radial_basis(), "x0"
        irs = self.embedding()
        for block in tace_model.blocks(self.config, irs):
            t = block.number
            a, is_connected, norm = self.interaction(block, x)
            name, connection, target = f"representation.interactions.{t}", self.option("resnet.type"), f"x{t + 1}"
            source = a
            if norm is not None and connection in ("AB", "BAB"):
                source = f"{a}_norm"
                self.norm(f"{name}.norm2", norm, a, block.mid, source)
            self.product(block, source)
            if is_connected and connection == "BB":
                self.residual(f"{name}.resnetBB", x, block.inputs, target, block.outputs)
            elif is_connected:
                self.residual(f"{name}.resnetAB", a, block.mid, target, block.outputs)
            x, irs = target, block.outputs
            is_last = t == self.config["num_layers"] - 1
            if is_last and self.option("layer_norm.final_norm_type") is not None:
                x = f"{target}_norm"
                self.norm("representation.final_norm", self.option("layer_norm.final_norm_type"), target, irs, x)
            if is_last or self.option("readout_emlp.use_alllayer"):
                self.readout(t if self.option("readout_emlp.use_alllayer") else 0, t, x, irs)
        self.energy()
        self.state.finish(is_constant)
        return self.finished("TACE", self.checkpoint.cutoff, lmax, True, basis)


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    return _Converter(checkpoint, choice, elements).document()
