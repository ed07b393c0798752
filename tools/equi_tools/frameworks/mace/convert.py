# SPDX-License-Identifier: MIT
"""MACE model -> document and tensors of an .equi file (doc/model_file.rst).

Irreps, paths and constants come from the attributes of the modules. Normalization constants are stored next to the
weights as scales. MACE's vector of an edge is r_i - r_j, opposite to the format's: each path has the sign (-1)^l2, and
that of its stored coupling.
"""

from math import sqrt

import numpy as np

from ... import torch_modules
from ...document import LMAX_SUPPORTED
from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ..common.e3nn_layers import expect_used, gate_terms, sign_of_coupling, split_blocks, split_rows
from ..common.elements import chosen_elements
from ..common.layers import Layers, activated, added, fan_in, irreps_text, network, path
from ..common.state import State
from . import dipoles
from . import inputs as system_inputs
from . import polar

# Exponents of the screening function, which mace has only in its code.
ZBL_EXPONENTS = [3.2, 0.9423, 0.4028, 0.2016]
COULOMB = 14.3996  # eV Angstrom, mace's digits
BOHR = 0.529  # Angstrom, mace's digits
# 1/eps0 in eV Angstrom per squared elementary charge, and the cutoff of an energy of all pairs of a cluster.
LES_PREFACTOR = 180.95128169  # e/eps0 of CODATA, in V Angstrom
ALL_PAIRS = 50.0  # Angstrom

ACTIVATIONS = ("silu", "tanh", "abs", "sigmoid", "relu", "ssp")

# The interaction block whose radial networks read scalars of both atoms.
ATTENTION = "RealAgnosticAttResidualInteractionBlock"


def is_constant(name):
    """Whether a tensor only repeats constants of the modules."""
    known = name.endswith((".output_mask", "_zeroed", "._num_elements")) or "._w3j_" in name or ".U_matrix_" in name
    return known or name in ("num_interactions", "atomic_numbers", "r_max")


class _Converter(Layers):
    def __init__(self, checkpoint, head, elements):
        self.checkpoint = checkpoint
        self.model = checkpoint.model
        self.head = checkpoint.head_index(head)
        self.mixture, self.readout_of_inputs = None, None
        self.readout_networks = {}  # by number
        self.charge_of_dipoles = None if checkpoint.values is None else checkpoint.values.get("total_charge")
        super().__init__(chosen_elements(elements, checkpoint.elements, checkpoint.source))
        self.species = [checkpoint.elements.index(e) for e in self.elements]
        self.numbers = [int(self.model.atomic_numbers[n]) for n in self.species]
        numbers = {}
        for name, array in [*self.model.named_parameters(), *self.model.named_buffers()]:
            # The format has no half precision; float32 holds its numbers.
            numbers[name] = array.astype(np.float32) if array.dtype == np.float16 else np.asarray(array)
        self.state = State(numbers, "MACE")
        self.take, self.tensor = self.state.array, self.table.add

    def number(self, name):
        return float(self.take(name))

    @staticmethod
    def expect_class(module, where, *allowed):
        if module.class_name not in allowed:
            raise EquiError(f"{where}: {module.class_name} is not supported, only {', '.join(allowed)}")

    # Linear maps

    def linear_parts(self, name, module):
        """(irreps_in, irreps_out, [(i, j, matrix, scale)], {j: (bias, scale)}) of an e3nn Linear."""
        self.expect_class(module, name, "Linear")
        irreps_in, irreps_out = Irreps(module.irreps_in), Irreps(module.irreps_out)
        flat = self.take(f"{name}.weight").reshape(-1)
        bias = self.take(f"{name}.bias").reshape(-1) if f"{name}.bias" in self.state.source else np.zeros(0)
        matrices, biases, offset, bias_offset = [], {}, 0, 0
        for i, j, shape, scale in self.linear_instructions(module, irreps_in, irreps_out, bias.size):
            size = int(np.prod(shape))
            if i == -1:
                if irreps_out[j].ir != SCALAR:
                    raise EquiError(f"{name}: bias on irreps {irreps_text(irreps_out[j : j + 1])}")
                biases[j] = bias[bias_offset : bias_offset + size], float(scale)
                bias_offset += size
            else:
                matrices.append((i, j, flat[offset : offset + size].reshape(shape), float(scale)))
                offset += size
        expect_used(f"{name}.weight", flat, offset)
        expect_used(f"{name}.bias", bias, bias_offset)
        return irreps_in, irreps_out, matrices, biases

    @staticmethod
    def linear_instructions(module, irreps_in, irreps_out, num_biases):
        """(input block or -1 for a bias, output block, shape, constant), in the order of the flat weights."""
        if hasattr(module, "instructions"):
            return module.instructions
        # TorchScript does not store which outputs have biases; this is e3nn's rule.
        rows = [sum(mul for mul, ir in irreps_in if ir == ir_out) for _, ir_out in irreps_out]
        found = [
            (i, j, (mul_in, mul_out), rows[j] ** -0.5)
            for i, (mul_in, ir_in) in enumerate(irreps_in)
            for j, (mul_out, ir_out) in enumerate(irreps_out)
            if ir_in == ir_out
        ]
        if num_biases:
            found += [(-1, j, (mul,), 1.0) for j, (mul, ir) in enumerate(irreps_out) if ir == SCALAR]
        return found

    def linear(self, name, module, source, target, accumulate=False):
        return self.linears([(name, module)], source, target, accumulate)

    def linear_columns(self, name, parts, source, target, chosen, accumulate=False):
        """A linear layer of a part of an e3nn Linear (linear_parts): the blocks (number, slice of its channels) of its
        output, which become those of the layer."""
        irreps_in, irreps_out, matrices, _ = parts
        widths = [len(range(irreps_out[j].mul)[columns]) for j, columns in chosen]
        irreps = Irreps([(width, irreps_out[j].ir) for width, (j, _) in zip(widths, chosen)])
        blocks = [
            (i, k, self.tensor(f"{name}.weight.{i}.{k}.{target}", np.ascontiguousarray(matrix[:, columns])), scale)
            for k, (j, columns) in enumerate(chosen)
            for i, out, matrix, scale in matrices
            if out == j
        ]
        self.add_linear(source, irreps_in, target, irreps, blocks, accumulate=accumulate)

    def irreps_of_feature(self, name):
        layer = next(layer for layer in self.layers if layer.get("output") == name)
        return Irreps(layer.get("irreps_out") or layer["irreps"])

    def linears(self, modules, source, target, accumulate=False):
        """One layer for several (name, module) of the same input; its output has their blocks one after another."""
        blocks, biases, irreps_out = [], [], Irreps([])
        irreps_in = self.irreps_of_feature(source)
        for name, module in modules:
            merged, irreps, matrices, bias_of = self.linear_parts(name, module)
            # mace up to 0.3.8 merges the parts of one irrep of all paths of a convolution. A constant is that of all
            # its rows.
            pieces = split_rows(name, merged, irreps_in)
            first = len(irreps_out)
            found = split_blocks(self.table, f"{name}.weight", matrices, pieces)
            blocks += [(k, first + j, weight, scale) for k, j, weight, scale in found]
            biases += [(first + j, self.tensor(f"{name}.bias.{j}", bias), scale) for j, (bias, scale) in bias_of.items()]
            irreps_out = irreps_out + irreps
        self.add_linear(source, irreps_in, target, irreps_out, blocks, biases, accumulate=accumulate)
        return irreps_out

    def species_product(self, name, module, source, target):
        """e3nn's FullyConnectedTensorProduct with the one-hot of the species; returns whether it couples anything."""
        self.expect_class(module, name, "FullyConnectedTensorProduct")
        irreps_in, irreps_out = Irreps(module.irreps_in1), Irreps(module.irreps_out)
        flat = self.take(f"{name}.weight").reshape(-1)
        blocks, offset = [], 0
        for ins in module.instructions:
            i, j, k, mode, has_weight, scale, shape = ins
            if j != 0 or mode != "uvw" or not has_weight or irreps_in[i].ir != irreps_out[k].ir:
                raise EquiError(f"{name}: path {tuple(ins)} is not that of a species product")
            size = int(np.prod(shape))
            matrix = flat[offset : offset + size].reshape(shape)[:, self.species].transpose(1, 0, 2)
            offset += size
            # The coupling with the scalar of the one-hot is delta/sqrt(2l+1), which e3nn's constant contains.
            scale = float(scale) / sqrt(irreps_out[k].ir.dim)
            blocks.append((i, k, self.tensor(f"{name}.weight.{i}.{k}", matrix), scale))
        expect_used(f"{name}.weight", flat, offset)
        if blocks:
            self.add_linear(source, irreps_in, target, irreps_out, blocks, per_species=True)
        return bool(blocks)

    # Networks

    @staticmethod
    def activation(module, where):
        """(name, constant) of a normalized activation."""
        found = torch_modules.activation(module)
        if found is None:
            raise EquiError(f"{where}: activation is not supported, only {', '.join(ACTIVATIONS)}")
        return found

    def radial_network(self, name, module, tag, extra):
        """e3nn's FullyConnectedNet or mace's RadialMLP; `extra`: further keys, rows of the two species."""
        if module.class_name == "RadialMLP":
            found = self.radial_mlp(name, module, tag)
        else:
            self.expect_class(module, name, "FullyConnectedNet")
            found = self.plain_network(name, module, tag)
        return found | extra | ({} if self.apply_cutoff else {"times_cutoff": True})

    def plain_network(self, name, module, tag):
        weights, activations = [], []
        for n, layer in enumerate(module.children()):
            weight = self.take(f"{name}.layer{n}.weight")
            if (float(layer.var_in), float(layer.var_out)) != (1.0, 1.0) or int(layer.h_in) != weight.shape[0]:
                raise EquiError(f"{name}.layer{n}: a normalization that is not known")
            weights.append(weight)
            activations.append(getattr(layer, "act", None))
        if activations[-1] is not None:
            raise EquiError(f"{name}: activation behind its last layer")
        found = {self.activation(act, name) for act in activations[:-1]} or {("identity", 1.0)}
        if len(found) > 1:
            raise EquiError(f"{name}: several activations")
        ((activation, constant),) = found
        tensors = [self.tensor(f"{tag}.layer{n}", w) for n, w in enumerate(weights)]
        return network(tensors, activation, constant, fan_in(weights))

    def radial_mlp(self, name, module, tag):
        weights, biases, norms = [], [], []
        stack = list(module.net.children())
        kinds = [m.class_name for m in stack]
        hidden = (len(stack) - 1) // 3
        if kinds != ["Linear", "LayerNorm", "SiLU"] * hidden + ["Linear"]:
            raise EquiError(f"{name}: layers {', '.join(kinds)} are not those of a RadialMLP")
        for n in range(hidden + 1):
            place = f"{name}.net.{3 * n}"
            weights.append(self.tensor(f"{tag}.layer{n}", self.take(f"{place}.weight").T))
            biases.append(self.tensor(f"{tag}.layer{n}.bias", self.take(f"{place}.bias")))
            if n == hidden:
                norms.append(None)
                break
            place = f"{name}.net.{3 * n + 1}"
            norm = {key: self.tensor(f"{tag}.norm{n}.{key}", self.take(f"{place}.{key}")) for key in ("weight", "bias")}
            norms.append(norm | {"epsilon": float(stack[3 * n + 1].eps)})
        return network(weights, "silu" if hidden else "identity", biases=biases, norms=norms)

    # Layers

    def radial_basis(self):
        embedding = self.model.radial_embedding
        where = "radial_embedding"
        self.expect_class(embedding, where, "RadialEmbeddingBlock")
        self.apply_cutoff = bool(getattr(embedding, "apply_cutoff", True))
        basis, envelope = embedding.bessel_fn, embedding.cutoff_fn
        self.expect_class(basis, f"{where}.bessel_fn", "BesselBasis", "GaussianBasis", "ChebychevBasis")
        self.expect_class(envelope, f"{where}.cutoff_fn", "PolynomialCutoff")
        if basis.class_name == "BesselBasis":
            self.take(f"{where}.bessel_fn.r_max")
            numbers = self.tensor(f"{where}.wave_numbers", self.take(f"{where}.bessel_fn.bessel_weights").reshape(-1))
            document = {"kind": "bessel", "wave_numbers": numbers, "prefactor": self.number(f"{where}.bessel_fn.prefactor")}
        elif basis.class_name == "GaussianBasis":
            centers = self.tensor(f"{where}.centres", self.take(f"{where}.bessel_fn.gaussian_weights").reshape(-1))
            document = {"kind": "gaussian", "centres": centers, "width": sqrt(-0.5 / float(basis.coeff))}
        else:
            orders = self.take(f"{where}.bessel_fn.n").reshape(-1)
            if not np.array_equal(orders, np.arange(1, len(orders) + 1)):
                raise EquiError(f"{where}.bessel_fn.n: {orders} are not the polynomials 1 to {len(orders)}")
            document = {"kind": "chebyshev", "size": len(orders)}
        cutoff = self.number(f"{where}.cutoff_fn.r_max")
        p = int(self.take(f"{where}.cutoff_fn.p"))
        if cutoff != self.checkpoint.cutoff:
            raise EquiError(f"{where}.cutoff_fn.r_max: {cutoff} differs from the model's r_max, {self.checkpoint.cutoff}")
        if p < 2:
            raise EquiError(f"{where}.cutoff_fn.p: {p} gives a cutoff function without a second derivative at 0")
        document["cutoff_function"] = {"kind": "polynomial", "p": p}
        if not self.apply_cutoff:
            document["apply_cutoff"] = False
        transform = getattr(embedding, "distance_transform", None)
        if transform is not None:
            document["transform"] = self.transform(f"{where}.distance_transform", transform)
        return document

    def pair_radii(self, name):
        """Sum of the covalent radii of each pair of species."""
        radii = self.take(name).astype(np.float64)[self.numbers]
        return radii[:, None] + radii[None, :]

    def transform(self, name, module):
        self.expect_class(module, name, "AgnesiTransform", "SoftTransform")
        sums = self.pair_radii(f"{name}.covalent_radii")
        if module.class_name == "AgnesiTransform":
            numbers = {key: self.number(f"{name}.{key}") for key in ("q", "p", "a")}
            return {"kind": "agnesi", "r0": self.tensor(f"{name}.r0", 0.5 * sums)} | numbers
        if not hasattr(module, "alpha"):
            raise EquiError(
                f"{name}: the SoftTransform of mace 0.3.5 to 0.3.9 is another function than that of later versions, which do "
                "not evaluate it; only theirs is supported: train the model again"
            )
        return {"kind": "soft", "r0": self.tensor(f"{name}.r0", sums), "alpha": self.number(f"{name}.alpha")}

    def embedding(self, output):
        name = "node_embedding.linear"
        irreps_in, irreps_out, matrices, biases = self.linear_parts(name, self.model.node_embedding.linear)
        if len(irreps_out) != 1 or irreps_out[0].ir != SCALAR or len(matrices) != 1 or biases:
            raise EquiError(f"{name}: irreps {irreps_text(irreps_in)} -> {irreps_text(irreps_out)} are not those of an embedding")
        ((_, _, weight, scale),) = matrices
        self.embedded = weight.astype(np.float64) * scale
        if not self.checkpoint.inputs or self.model.class_name in (polar.CLASS, *dipoles.KINDS):
            self.add_species_embedding(output, f"{name}.weight", weight[self.species], scale)
            return irreps_out
        self.readout_of_inputs = self.embedding_readout(irreps_out)
        if self.checkpoint.values is not None:
            self.embedded = self.embedded + system_inputs.fixed(self.checkpoint.inputs, self.take_optional, self.checkpoint.values)
        else:
            described = system_inputs.describe(self.checkpoint.inputs, self.take_optional, self.tensor, self.readout_of_inputs)
            self.mixture = {"inputs": described, "tensors": {f"{name}.weight": "inputs"}}
        self.add_species_embedding(output, f"{name}.weight", self.embedded[self.species], 1.0)
        return irreps_out

    def take_optional(self, name, optional=False):
        return None if optional and name not in self.state.source else self.take(name)

    def embedding_readout(self, irreps):
        """[channels]: the derivative of an atom's energy by its first features, in float64; or None."""
        module = getattr(self.model, "embedding_readout", None)
        if module is None:
            return None
        name = "embedding_readout"
        self.expect_class(module, name, "LinearReadoutBlock")
        irreps_in, irreps_out, matrices, biases = self.linear_parts(f"{name}.linear", module.linear)
        if irreps_in != irreps or [ir for _, ir in irreps_out] != [SCALAR] or len(matrices) != 1 or biases:
            raise EquiError(f"{name}: irreps {irreps_text(irreps_in)} -> {irreps_text(irreps_out)} are not those of a readout")
        ((_, _, weight, scale),) = matrices
        return weight[:, self.head].astype(np.float64) * scale

    def species_rows(self, name, module, inputs):
        """Rows per species of a linear map of `inputs` [species of the model, n], including the constant: float64."""
        _, irreps_out, matrices, biases = self.linear_parts(name, module)
        if any(ir != SCALAR for _, ir in irreps_out) or len(matrices) != 1 or biases:
            raise EquiError(f"{name}: irreps {irreps_text(irreps_out)} are not scalars of the species alone")
        ((_, _, weight, scale),) = matrices
        return (inputs @ (weight.astype(np.float64) * scale))[self.species]

    def pair_inputs(self, t, block, irreps_up):
        """Further inputs of the radial networks: keys `sender` and `receiver`."""
        name, kind = f"interactions.{t}", block.class_name
        if kind == "RealAgnosticResidualNonLinearInteractionBlock":
            onehot = np.eye(len(self.checkpoint.elements))
            rows = {
                "sender": self.species_rows(f"{name}.source_embedding", block.source_embedding, onehot),
                "receiver": self.species_rows(f"{name}.target_embedding", block.target_embedding, onehot),
            }
        elif kind == ATTENTION and t > 0:
            # The last block of the convolution's input.
            return {key: {"block": len(irreps_up)} for key in ("sender", "receiver")}
        elif kind == ATTENTION and self.mixture:
            raise EquiError(
                f"{name}: radial networks of {kind} read the inputs of the system, which a file for all systems does not support: "
                f"fix them by {', '.join(one.option for one in self.checkpoint.inputs)}"
            )
        elif kind == ATTENTION:
            # The features of the first interaction depend only on the species.
            rows = self.species_rows(f"{name}.linear_down", block.linear_down, self.embedded)
            shared = self.tensor(f"{name}.linear_down.rows", rows)
            return {"sender": shared, "receiver": shared}
        else:
            return {}
        return {key: self.tensor(f"{name}.{key}", array) for key, array in rows.items()}

    def convolution(self, t, block, source, irreps_in, target, denominator):
        """irreps_in: of the input, which may have more blocks than the product reads."""
        name, product = f"interactions.{t}", block.conv_tp
        self.expect_class(product, f"{name}.conv_tp", "TensorProduct")
        irreps_up, irreps_edge, irreps_mid = map(Irreps, (product.irreps_in1, product.irreps_in2, product.irreps_out))
        if irreps_in[: len(irreps_up)] != irreps_up:
            raise EquiError(f"internal: {name}: irreps {irreps_text(irreps_up)} of a feature {irreps_text(irreps_in)}")
        self.check_harmonics(name, irreps_edge)
        buffers = dict(product.named_buffers())
        paths = []
        for q, (i, j, k, mode, has_weight, weight, _) in enumerate(product.instructions):
            l1, l2, l3 = irreps_in[i].ir.l, irreps_edge[j].ir.l, irreps_mid[k].ir.l
            if k != q or mode != "uvu" or not has_weight or irreps_mid[k].mul != irreps_in[i].mul:
                raise EquiError(f"internal: {name}.conv_tp: path {q} is not in sorted order")
            stored = buffers.get(f"_compiled_main_left_right._w3j_{l1}_{l2}_{l3}")
            # e3nn writes out couplings with l = 0; they have one sign.
            sign = 1 if stored is None else sign_of_coupling(stored, l1, l2, l3, f"{name}.conv_tp")
            if stored is None and 0 not in (l1, l2, l3):
                raise EquiError(f"{name}.conv_tp: coupling of ({l1},{l2},{l3}) is missing in the file")
            scale = sign * (-1) ** l2 * float(weight) / denominator
            paths.append(path(i, l2, q, scale, r_power=0))
        if not paths:
            raise EquiError(f"{name}: no path leads to {irreps_text(Irreps(block.target_irreps))}")
        radial = self.radial_network(f"{name}.conv_tp_weights", block.conv_tp_weights, f"{name}.radial", self.pair_rows)
        self.add_convolution(source, irreps_in, target, irreps_mid, paths, radial)
        return irreps_mid

    def check_harmonics(self, name, irreps):
        ls = [ir.l for _, ir in irreps]
        parities = [ir.p for _, ir in irreps]
        natural = [(-1) ** l for l in ls]
        if ls != list(range(len(ls))) or any(mul != 1 for mul, _ in irreps) or parities not in (natural, [1] * len(ls)):
            raise EquiError(f"{name}: edge harmonics {irreps_text(irreps)} are not supported")
        if len(ls) - 1 > LMAX_SUPPORTED:
            raise EquiError(f"max_ell: {len(ls) - 1} is not supported, at most {LMAX_SUPPORTED}")
        harmonics = self.model.spherical_harmonics
        is_component = getattr(harmonics, "normalization", "component") in ("component", None)
        if not bool(getattr(harmonics, "normalize", True)) or not is_component:
            raise EquiError("spherical_harmonics: only normalized ones in component normalization are supported")
        self.lmax_edge = len(ls) - 1
        self.edge_parity = parities == natural

    def density(self, t, block, source, target, irreps, offset, factor):
        name = f"interactions.{t}"
        radial = self.radial_network(f"{name}.density_fn", block.density_fn, f"{name}.density", self.pair_rows)
        self.add("density_normalization", source, irreps, target, irreps, radial=radial, offset=offset, factor=factor)

    def interaction(self, t, block, source):
        """Layers up to the input of the product basis; returns (its name, its irreps, whether x{t+1} has been
        started)."""
        name, kind = f"interactions.{t}", block.class_name
        y, m, a, x = f"y{t}", f"m{t}", f"a{t}", f"x{t + 1}"
        has_density = "Density" in kind or "NonLinear" in kind
        self.pair_rows = self.pair_inputs(t, block, Irreps(block.linear_up.irreps_out))
        connected = False
        if kind == "RealAgnosticResidualNonLinearInteractionBlock":
            self.linear(f"{name}.skip_tp", block.skip_tp, source, x)
            connected = True
        elif kind == ATTENTION:
            self.linear(f"{name}.skip_linear", block.skip_linear, source, x)
            connected = True
        elif "Residual" in kind:
            connected = self.species_product(f"{name}.skip_tp", block.skip_tp, source, x)
        # The exchange among ranks sends what the radial network reads of the atoms together with what the product
        # reads.
        up = [(f"{name}.linear_up", block.linear_up)]
        if kind == ATTENTION and t > 0:
            up.append((f"{name}.linear_down", block.linear_down))
        irreps_y = self.linears(up, source, y)
        denominator = 1.0 if has_density else float(block.avg_num_neighbors)
        if denominator == 0.0:
            raise EquiError(f"{name}.avg_num_neighbors is zero")
        self.convolution(t, block, y, irreps_y, m, denominator)
        if kind == "RealAgnosticResidualNonLinearInteractionBlock":
            irreps = self.linear(f"{name}.linear_1", block.linear_1, m, f"{a}_sum")
            offset, factor = self.number(f"{name}.alpha"), self.number(f"{name}.beta")
            self.density(t, block, f"{a}_sum", f"{a}_gate", irreps, offset, factor)
            self.linear(f"{name}.linear_res", block.linear_res, y, f"{a}_gate", accumulate=True)
            gated = self.gate(f"{name}.equivariant_nonlin", block.equivariant_nonlin, irreps, f"{a}_gate", f"{a}_gated")
            irreps = self.linear(f"{name}.linear_2", block.linear_2, f"{a}_gated", a)
            if Irreps(block.linear_2.irreps_in) != gated:
                raise EquiError(f"internal: {name}: irreps of the gate, {irreps_text(gated)}")
        else:
            target = f"{a}_sum" if has_density else a
            irreps = self.linear(f"{name}.linear", block.linear, m, target)
            if has_density:
                self.density(t, block, target, a, irreps, 1.0, 1.0)
            if "Residual" not in kind:
                if not self.species_product(f"{name}.skip_tp", block.skip_tp, a, f"{a}_species"):
                    raise EquiError(f"{name}.skip_tp couples nothing")
                a = f"{a}_species"
        return a, irreps, connected

    def scalar_activation(self, name, module):
        """(name, constant) of the activation of the scalars of mace's gate."""
        self.expect_class(module, name, "GatedEquivariantBlock")
        return self.activation(module._act_scalar, name)[0], float(module._scalar_cst)

    def gate(self, name, module, irreps_z, source, target):
        """mace's gate or, in files of some versions, e3nn's: the input is the sort of (scalars, gates, gated)."""
        self.expect_class(module, name, "GatedEquivariantBlock", "Gate")
        scalars, gated = Irreps(module.irreps_scalars), Irreps(module.irreps_gated)
        if module.class_name == "Gate":
            acts = {self.activation(a, name) for a in module.act_scalars.acts}
            gate_acts = {self.activation(a, name) for a in module.act_gates.acts}
            if len(acts) > 1 or len(gate_acts) > 1:
                raise EquiError(f"{name}: several activations")
            scalar_act = acts.pop()
            gate_act = gate_acts.pop() if gate_acts else ("identity", 1.0)
        else:
            if getattr(module, "_layout_is_ir_mul", False):
                raise EquiError(f"{name}: the layout ir_mul is that of an accelerator, give the .model file")
            constant = float(module._scalar_cst), float(module._gate_cst)
            scalar_act = self.activation(module._act_scalar, name)[0], constant[0]
            gate_act = self.activation(module._act_gate, name)[0], constant[1]
        irreps_x = scalars + gated
        gates = Irreps((mul, SCALAR) for mul, _ in gated)
        if module.class_name != "Gate" and (scalars + gates + gated).sort()[0] != scalars + gates + gated:
            # mace's own gate cuts one range each for scalars and gates.
            raise EquiError(f"{name}: irreps {irreps_text(irreps_x)} are not in sorted order")
        terms = gate_terms(
            name, irreps_z, irreps_x, SCALAR, [scalar_act] * len(scalars), [gate_act] * len(gated)
        )  # fmt: skip
        self.add_gate(source, irreps_z, target, irreps_x, terms)
        return irreps_x

    def product(self, t, source, irreps_a, connected):
        """Product basis and its linear map, added to the self-connection if there is one."""
        name, block = f"products.{t}", getattr(self.model.products, str(t))
        self.expect_class(block, name, "EquivariantProductBasisBlock")
        contraction = block.symmetric_contractions
        irreps_in, irreps_out = Irreps(contraction.irreps_in), Irreps(contraction.irreps_out)
        if irreps_in != irreps_a:
            raise EquiError(f"internal: {name}: irreps {irreps_text(irreps_in)} of a feature {irreps_text(irreps_a)}")
        if len({mul for mul, _ in irreps_in} | {mul for mul, _ in irreps_out}) != 1:
            blocks = f"{irreps_text(irreps_in)} -> {irreps_text(irreps_out)}"
            raise EquiError(f"{name}: {blocks}: blocks of different numbers of channels")
        per_species = not bool(getattr(block, "use_agnostic_product", False))
        expected = len(self.checkpoint.elements) if per_species else 1
        blocks = []
        for b in range(len(irreps_out)):
            prefix = f"{name}.symmetric_contractions.contractions.{b}"
            highest = 1 + sum(key.startswith(f"{prefix}.weights.") for key in self.state.source)
            terms = []
            for degree in range(1, highest + 1):
                key = "weights_max" if degree == highest else f"weights.{highest - 1 - degree}"
                weights = self.take(f"{prefix}.{key}").astype(np.float64)
                coupling = self.checkpoint.couplings.get((t, b, degree))
                if coupling is None:
                    continue
                if weights.shape[0] != expected or weights.shape[1] != coupling.matrix.shape[1]:
                    raise EquiError(f"tensor {prefix}.{key} has shape {weights.shape}")
                weights = weights[self.species] if per_species else weights[0]
                described, kept = (coupling.irreps, coupling.out, degree), np.flatnonzero(coupling.matrix.any(axis=1))
                terms.append(self.contraction_term(f"{prefix}.degree{degree}", described, coupling.matrix, kept, weights))
            blocks.append(terms)
        b = f"b{t}"
        self.add_contraction(source, irreps_in, b, irreps_out, blocks, per_species)
        connected = connected and bool(block.use_sc)
        return self.linear(f"{name}.linear", block.linear, b, f"x{t + 1}", accumulate=connected)

    # Energy

    def readout(self, n, source, irreps_x):
        scalars = [i for i, (_, ir) in enumerate(irreps_x) if ir == SCALAR]
        if len(scalars) != 1:
            raise EquiError(f"readouts.{n}: {irreps_text(irreps_x)} has {len(scalars)} blocks 0e to read the energy from, not one")
        if n not in self.readout_networks:
            self.readout_networks[n] = self.readout_network(n, irreps_x)
        self.add_readout(source, irreps_x, scalars[0], self.readout_networks[n])

    def readout_network(self, n, irreps_x):
        name, block = f"readouts.{n}", getattr(self.model.readouts, str(n))
        heads = len(self.checkpoint.heads)
        weights, scales, biases, activation = [], [], [], ("identity", 1.0)

        def stage(part, rows=slice(None), columns=slice(None)):
            irreps_in, irreps_out, matrices, found = self.linear_parts(f"{name}.{part}", getattr(block, part))
            if [ir for _, ir in irreps_out] != [SCALAR] or len(matrices) != 1:
                raise EquiError(f"{name}.{part}: irreps {irreps_text(irreps_out)} are not one block of scalars 0e")
            ((_, _, weight, scale),) = matrices
            weights.append(self.tensor(f"{name}.{part}.weight", weight[rows, columns]))
            scales.append(scale)
            biases.append(None)
            if found:
                ((values, bias_scale),) = found.values()
                biases[-1] = added(self.tensor(f"{name}.{part}.bias", values[columns]), bias_scale)
            return irreps_in

        mine = slice(self.head, self.head + 1)
        if block.class_name == "LinearReadoutBlock":
            irreps_in = stage("linear", columns=mine)
        else:
            hidden = Irreps(block.hidden_irreps)
            if [ir for _, ir in hidden] != [SCALAR]:
                raise EquiError(f"{name}: hidden irreps {irreps_text(hidden)}, only one block of scalars 0e is supported")
            width = hidden[0].mul
            channels = slice(None)
            if heads > 1 and int(getattr(block, "num_heads", 1)) > 1:
                channels = slice(self.head * width // heads, (self.head + 1) * width // heads)
            irreps_in = stage("linear_1", columns=channels)
            acts = list(block.non_linearity.acts.children())
            activation = self.activation(acts[0] if acts else None, name)
            if block.class_name == "NonLinearBiasReadoutBlock":
                stage("linear_mid", rows=channels, columns=channels)
            stage("linear_2", rows=channels, columns=mine)
        if irreps_in != irreps_x:
            raise EquiError(f"internal: {name}: irreps {irreps_text(irreps_in)} of a feature {irreps_text(irreps_x)}")
        return network(weights, *activation, scales, biases)

    # Charges

    def latent_charges(self, n, source, irreps_x, accumulate):
        """Adds the output of a readout of charges, in e, to the feature `latent`."""
        name, block = f"les_readouts.{n}", getattr(self.model.les_readouts, str(n))
        heads = len(self.checkpoint.heads)
        mine, channels = slice(self.head, self.head + 1), slice(None)

        def stage(part, source, irreps, target, accumulate=False, rows=None, columns=slice(None)):
            factor = self.checkpoint.latent.scale if target == "latent" else 1.0
            irreps_in, irreps_out, matrices, found = self.linear_parts(f"{name}.{part}", getattr(block, part))
            if (rows is None and irreps_in != irreps) or [ir for _, ir in irreps_out] != [SCALAR] or len(matrices) != 1:
                raise EquiError(f"{name}.{part}: irreps {irreps_text(irreps_in)} -> {irreps_text(irreps_out)} are not those of a readout")
            ((i, _, weight, scale),) = matrices
            tensor = self.tensor(f"{name}.{part}.weight", weight[rows or slice(None), columns])
            biases = [(0, self.tensor(f"{name}.{part}.bias", bias[columns]), factor * of_bias) for bias, of_bias in found.values()]
            irreps_out = Irreps(f"{self.table.tensors[tensor].shape[1]}x0e")
            self.add_linear(source, irreps, target, irreps_out, [(i, 0, tensor, factor * scale)], biases, accumulate=accumulate)
            return irreps_out

        if block.class_name == "LinearReadoutBlock":
            stage("linear", source, irreps_x, "latent", accumulate, columns=mine)
            return
        hidden = Irreps(block.hidden_irreps)
        if [ir for _, ir in hidden] != [SCALAR]:
            raise EquiError(f"{name}: hidden irreps {irreps_text(hidden)}, only one block of scalars 0e is supported")
        width = hidden[0].mul
        if heads > 1 and int(getattr(block, "num_heads", 1)) > 1:
            channels = slice(self.head * width // heads, (self.head + 1) * width // heads)
        acts = list(block.non_linearity.acts.children())
        activation, constant = self.activation(acts[0] if acts else None, name)
        parts = ["linear_1"] + ["linear_mid"] * (block.class_name == "NonLinearBiasReadoutBlock")
        last, irreps = source, irreps_x
        for part in parts:
            target = f"latent{n}_{part}"
            irreps = stage(part, last, irreps, target, rows=None if part == "linear_1" else channels, columns=channels)
            last = f"{target}_active"
            self.add_gate(target, irreps, last, irreps, [activated(0, activation, constant)])
        stage("linear_2", last, irreps, "latent", accumulate, rows=channels, columns=mine)

    def latent_ewald(self):
        """The energy of the charges, and the observable."""
        latent = self.checkpoint.latent
        self.add_observable("latent", Irreps("1x0e"), "charge", [0], "e")
        one = self.tensor("latent.weights", np.ones(1))
        if latent.is_open:
            # Energies before scale_shift are scaled with the others, and this one is not.
            scale = self.of_head("scale_shift.scale")
            self.add_layer(
                "coulomb", input="latent", irreps_in="1x0e", weights=one,
                prefactor=LES_PREFACTOR / (4 * np.pi) / scale, cutoff=ALL_PAIRS, kernel={"kind": "erf", "sigma": sqrt(2) * latent.sigma},
            )  # fmt: skip
            return
        self.add_layer(
            "ewald", input="latent", irreps_in="1x0e", weights=one,
            prefactor=LES_PREFACTOR, width=latent.sigma,
            k_cutoff=2 * np.pi / latent.dl, k_set="sphere", removes_self=latent.removes_self,
        )  # fmt: skip

    def pair_repulsion(self):
        module = getattr(self.model, "pair_repulsion_fn", None)
        if module is None:
            return
        name = "pair_repulsion_fn"
        self.expect_class(module, name, "ZBLBasis")
        # Files of mace up to 0.3.9 have a separate cutoff, which no version uses.
        self.state.taken.update(f"{name}.{unused}" for unused in ("r_max", "cutoff.r_max", "cutoff.p"))
        z = np.array(self.numbers, float)
        powers = z ** self.number(f"{name}.a_exp")
        length = self.number(f"{name}.a_prefactor") * BOHR / (powers[:, None] + powers[None, :])
        self.add_pair_repulsion(
            name, 0.5 * COULOMB * np.outer(z, z), length, self.pair_radii(f"{name}.covalent_radii"), int(self.take(f"{name}.p")),
            [float(c) for c in self.take(f"{name}.c")], ZBL_EXPONENTS,
        )  # fmt: skip

    def of_head(self, name):
        """A number per head, or one for all."""
        values = np.atleast_1d(self.take(name)).astype(np.float64)
        return float(values[self.head] if values.size > 1 else values[0])

    def scale_shift(self):
        energies = np.atleast_2d(self.take("atomic_energies_fn.atomic_energies")).astype(np.float64)
        if energies.shape != (len(self.checkpoint.heads), len(self.checkpoint.elements)):
            raise EquiError(f"atomic_energies_fn.atomic_energies: shape {energies.shape}")
        scale, shift = 1.0, 0.0
        if hasattr(self.model, "scale_shift"):
            scale, shift = self.of_head("scale_shift.scale"), self.of_head("scale_shift.shift")
        shifts = energies[self.head][self.species] + shift
        if self.mixture and self.readout_of_inputs is not None:
            self.mixture["tensors"]["scale_shift.shift"] = "inputs_energy"
        elif self.readout_of_inputs is not None:
            shifts = shifts + system_inputs.energies_of(self.embedded[self.species], self.readout_of_inputs)
        scales = np.full(len(self.species), scale)
        self.add_scale_shift(self.tensor("scale_shift.scale", scales), self.tensor("scale_shift.shift", shifts))

    def document(self):
        radial_basis = self.radial_basis()
        x, irreps_x = "x0", self.embedding("x0")
        features = []
        for t, block in enumerate(self.interactions_in_use()):
            a, irreps_a, connected = self.interaction(t, block, x)
            irreps_x = self.product(t, a, irreps_a, connected)
            x = f"x{t + 1}"
            features.append((x, irreps_x))
        if self.model.class_name in dipoles.KINDS:
            return self.document_of_dipoles(features, radial_basis)
        readouts = len(list(self.model.readouts.children()))
        if readouts not in (1, len(features)):
            raise EquiError(f"{readouts} readouts of {len(features)} interactions")
        is_polar = self.model.class_name == polar.CLASS
        # PolarMACE applies the last of its readouts to all interactions that have none of their own.
        for n, feature in enumerate(features[-1:] if readouts == 1 and not is_polar else features):
            self.readout(min(n, readouts - 1), *feature)
        if is_polar:
            polar.PolarLayers(self).add(features)
            self.state.taken.update(filter(polar.is_unused, self.state.source))
        else:
            self.pair_repulsion()
        if self.checkpoint.latent:
            for n, feature in enumerate(features[-1:] if readouts == 1 else features):
                self.latent_charges(n, *feature, accumulate=n > 0)
            self.latent_ewald()
        self.scale_shift()
        return self.finished_model(radial_basis)

    def interactions_in_use(self):
        """All blocks, except for a last one whose readout of vectors is zero."""
        blocks = list(self.model.interactions.children())
        if self.model.class_name not in dipoles.KINDS:
            return blocks
        last = len(blocks) - 1
        if dipoles.is_dead(list(self.model.readouts.children())[-1]):
            parts = tuple(f"{part}.{last}." for part in ("interactions", "products", "readouts"))
            self.state.taken.update(name for name in self.state.source if name.startswith(parts))
            return blocks[:-1]
        return blocks

    def document_of_dipoles(self, features, radial_basis):
        readouts = dipoles.DipoleReadouts(self)
        if len(list(self.model.readouts.children())) != len(list(self.model.interactions.children())):
            raise EquiError("a readout for each interaction is expected")
        for n, feature in enumerate(features):
            readouts.add(n, *feature)
        readouts.finish()
        if hasattr(self.model, "atomic_energies_fn"):
            self.scale_shift()
        self.state.taken.update(dipoles.UNUSED)
        if "change_of_basis" in self.state.source:
            dipoles.check_tensor_basis(self.take("change_of_basis"))
        return self.finished_model(radial_basis)

    def finished_model(self, radial_basis):
        self.state.finish(is_constant)
        if self.checkpoint.cutoff <= 0:
            raise EquiError(f"r_max: {self.checkpoint.cutoff}")
        more = {"mixture": self.mixture} if self.mixture else {}
        return self.finished("MACE", self.checkpoint.cutoff, self.lmax_edge, self.edge_parity, radial_basis, **more)


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    return _Converter(checkpoint, choice, elements).document()
