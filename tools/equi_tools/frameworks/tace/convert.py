# SPDX-License-Identifier: MIT
"""TACE model -> document and tensors of an .equi file (doc/model_file.rst).

A layer has an interaction, which makes the atomic basis of an atom, and products of this basis. The package's vector of
an edge is r_i - r_j, opposite to the format's: each path has the sign (-1)^l2.
"""

from math import sqrt

import numpy as np

from ...document import LMAX_SUPPORTED
from ...errors import EquiError
from ...irreps import SCALAR, Irrep, Irreps, gate_input
from ..common.e3nn_layers import gate_terms
from ..common.layers import gated, network, path
from .checkpoint import is_constant
from .layers import CONSTANTS, with_channels
from .model import blocks
from .products import Products

# Constants of the repulsion, which the package has only in its code: eV Angstrom, Angstrom.
ZBL_EXPONENTS = [3.2, 0.9423, 0.4028, 0.2016]
COULOMB, BOHR = 14.3996, 0.529


class _Converter(Products):
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
        steps = self.dense(f"{prefix}.edge_info", options["mlp_type"], widths, norms)
        scale = sqrt(self.checkpoint.average_neighbors)
        paths = [path(0, ir.l, n, (-1) ** ir.l * sqrt(ir.dim) / scale) for n, ir in enumerate(irs)]
        radial = self.network_of("embedding.radial", steps, **more)
        self.add_convolution("embedding", f"{self.channels}x0e", "x0", with_channels(self.channels, irs), paths, radial)
        return irs

    # ---- interactions

    def residual(self, name, source, irs_in, target, irs_out, accumulate=True):
        """What passes an interaction or a product unchanged or by a linear map."""
        kind = self.option("resnet.linear_type")
        irreps_in, irreps_out = with_channels(self.channels, irs_in), with_channels(self.channels, irs_out)
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
        irreps = with_channels(self.channels, irs)
        if of_scalars is not None:
            others = [ir for ir in irs if ir.l > 0]
            parts = (irs[: len(of_scalars)], [SCALAR] * len(others), others)
            irreps_z = gate_input(*(with_channels(self.channels, part) for part in parts))
            return irreps_z, gate_terms(name, irreps_z, irreps, SCALAR, of_scalars, [of_gates] * len(others)), irreps
        # All blocks have gates, which stand before the scalars 0e.
        irreps_z = gate_input(Irreps(), with_channels(self.channels, [SCALAR] * len(irs)), irreps)
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
        mid = with_channels(self.channels, [ir for _, _, ir in block.paths])
        width = self.edge_features(block.number)[0]
        radial = self.edge_network(
            block.number, f"{name}.edge_info", f"{name}.radial", options["hidden"], len(paths) * self.channels, options["mlp_type"],
            self.norms_of_networks(width), options["bias"], not options["apply_cutoff"],
        )  # fmt: skip
        self.add_convolution(source, with_channels(self.channels, block.inputs), target, mid, paths, radial)
        return mid

    def density(self, block, name, source, irreps, target):
        options, kind = self.config["radial_basis"], self.option("atomic_basis.scatter_norm")
        norms = "layer_norm" if self.edge_features(block.number)[0] != options["num_radial_basis"] else None
        radial = self.edge_network(
            block.number, f"{name}.edge_density", f"{name}.radial", [64], 1, "mlp", norms, options["bias"],
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
        irreps_in, irreps = with_channels(self.channels, block.inputs), with_channels(self.channels, block.mid)
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

    # ---- energy

    def readout(self, n, layer, source, irs):
        prefix, is_last = f"energy_readouts.{n}", layer == self.config["num_layers"] - 1
        heads, hidden = len(self.checkpoint.heads), self.config["readout_emlp"]["hidden"] if is_last else []
        widths = [None, *(width * heads for width in hidden), heads]
        irreps_in, weights, scales, biases = with_channels(self.channels, irs), [], [], []
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
        energies = network(weights, *act, scales, biases if any(biases) else None)
        self.add_readout(source, with_channels(self.channels, irs), irs.index(SCALAR), energies)

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
            raise EquiError("option short_range.zbl.enable: radii of two elements reach beyond the cutoff, which cuts their repulsion off")
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
        for block in blocks(self.config, irs):
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
