# SPDX-License-Identifier: MIT
"""NequIP models -> document and tensors of an .equi file (doc/model_file.rst).

Irreps, paths and constants are those of nequip_model for the options found in the file; the numbers are those of the
file. Matrices are sliced and permuted. Products with the embedding of a type, or with the root of its number of
neighbors, are stored in float64.
"""

from math import pi, sqrt

import numpy as np

from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ..common.e3nn_layers import gate_terms, matrices_of, split_blocks, split_rows
from ..common.elements import chosen_elements
from ..common.layers import Layers, network, path
from .model import MLP_ACTIVATIONS, check_lmax, gate_parts
from .modules import activation_of, mlp_layers, tensor_product

class Converter(Layers):
    def __init__(self, checkpoint, elements):
        self.checkpoint = checkpoint
        self.stages = checkpoint.stages
        self.state = {name.removeprefix("model.func."): array for name, array in checkpoint.state.items()}
        super().__init__(chosen_elements(elements, checkpoint.elements, checkpoint.source))
        self.species = [checkpoint.elements.index(e) for e in self.elements]

    def conv(self, t):
        return self.stages[f"layer{t}_convnet"].conv

    def matrices(self, name, module, width=None):
        """{(i, j): (matrix, scale)} of a Linear, or, with the width of the second operand, of a species product."""
        irreps_in = Irreps(module.irreps_in if width is None else module.irreps_in1)
        return matrices_of(f"{name}.weight", self.state[f"{name}.weight"], irreps_in, Irreps(module.irreps_out), width)

    def self_connection(self, t, source, target):
        """Product with the embedding of the type: a matrix per species."""
        name, module = f"layer{t}_convnet.conv.sc", self.conv(t).sc
        blocks = []
        for (i, j), (cube, scale) in self.matrices(name, module, Irreps(module.irreps_in2).dim).items():
            blocks.append((i, j, self.table.add(f"{name}.{i}.{j}", self.per_species(cube)), scale))
        self.add_linear(source, Irreps(module.irreps_in1), target, Irreps(module.irreps_out), blocks, per_species=True)

    def per_species(self, cube):
        """Matrices [species, in, out] of a weight [in, embedding, out]."""
        embedding = self.state["type_embed.embed_module.weight"][self.species]
        return np.einsum("uvw,sv->suw", cube.astype(np.float64), embedding.astype(np.float64))

    def linear_1(self, t, source, target):
        """The first matrix and the factor 1/sqrt(neighbors), one number or one per type of the sender."""
        name, module = f"layer{t}_convnet.conv.linear_1", self.conv(t).linear_1
        norms = self.neighbor_norms(t)
        per_species = norms.size > 1
        blocks = []
        for (i, j), (matrix, scale) in self.matrices(name, module).items():
            if per_species:
                matrix = norms[self.species, None, None] * matrix.astype(np.float64)
            else:
                scale *= norms[0]
            blocks.append((i, j, self.table.add(f"{name}.{i}.{j}", matrix), scale))
        self.add_linear(source, Irreps(module.irreps_in), target, Irreps(module.irreps_out), blocks, per_species=per_species)

    def neighbor_norms(self, t):
        return self.state[f"layer{t}_convnet.conv.avg_num_neighbors_norm.norm_const"].reshape(-1).astype(np.float64)

    def linear_2(self, t, source, irreps_mid, target, accumulate):
        name, module = f"layer{t}_convnet.conv.linear_2", self.conv(t).linear_2
        pieces = split_rows(name, Irreps(module.irreps_in), irreps_mid)
        blocks = split_blocks(self.table, name, ((*pair, *found) for pair, found in self.matrices(name, module).items()), pieces)
        irreps_out = Irreps(module.irreps_out)
        self.add_linear(source, irreps_mid, target, irreps_out, blocks, accumulate=accumulate)
        return irreps_out

    def network(self, name, mlp, columns=None):
        """nequip's scalar MLP; columns: order of the outputs."""
        if mlp.mlp.class_name == "DeepLinearMLP":
            names = [f"{name}.mlp.weights.{n}" for n in range(len(mlp.mlp.weights))]
            activation = "identity"
        else:
            linears, between = mlp_layers(mlp)
            names = [f"{name}.mlp.{n}.weight" for n, m in mlp.mlp.named_children() if m in linears]
            activation = MLP_ACTIVATIONS[between[0]] if between else "identity"
        weights = [self.state[n] for n in names]
        if columns is not None:
            weights[-1] = weights[-1][:, columns]
        return network([self.table.add(n, w) for n, w in zip(names, weights)], activation, scales=mlp.scales)

    def convolution(self, t, source, target):
        """Paths in the order of their outputs; nequip's weights are in the order of their creation."""
        where = f"layer{t}_convnet"
        product = tensor_product(self.conv(t))
        ins, edge, mid = (Irreps(i) for i in (product.irreps_in1, product.irreps_in2, product.irreps_out))
        begin, paths = 0, {}
        for (i, j, k, *_), sign in zip(product.instructions, self.checkpoint.path_signs[t]):
            mul, ir = mid[k]
            if k in paths or mul != ins[i].mul or edge[j].mul != 1:
                raise EquiError(f"internal: {where}: path {i},{j} does not have block {k} for itself")
            paths[k] = path(i, edge[j].ir.l, k, sign * sqrt(ir.dim), r_power=0), range(begin, begin + mul)
            begin += mul
        ordered = [paths[k] for k in range(len(mid))]
        columns = [c for _, own in ordered for c in own]
        self.add_convolution(source, ins, target, mid, [entry for entry, _ in ordered], self.radial_network(t, columns))
        return mid

    def radial_network(self, t, columns):
        return self.network(f"layer{t}_convnet.conv.edge_mlp", self.conv(t).edge_mlp, columns)

    def gate(self, t, irreps_z, irreps_x, source, target):
        """irreps_x: as declared after the activations, which may change the parity of scalars."""
        where, layer = f"layer{t}_convnet", self.stages[f"layer{t}_convnet"]
        module, hidden = layer.equivariant_nonlin, Irreps(layer.feature_irreps_hidden)
        parts = gate_parts(hidden, Irreps(self.conv(t).linear_1.irreps_in), self.harmonics())
        for name, part in zip(("irreps_scalars", "irreps_gates", "irreps_gated"), parts):
            found = Irreps(getattr(module, name))
            if found != part.simplify():
                raise EquiError(f"{where}.equivariant_nonlin: {name} is {found}, expected {part.simplify()}")
        scalars, gates, gated = parts
        # e3nn merges the gated blocks after the gate, but not the scalars.
        blocks = scalars + gated.simplify()
        if [(m, ir.l) for m, ir in irreps_x] != [(m, ir.l) for m, ir in blocks]:
            raise EquiError(f"internal: {where}: {irreps_x} is not the output of its gate")
        acts = []
        for part in (module.act_scalars, module.act_gates):
            acts.append([activation_of(f) for _, f in part.acts.named_children()])
        if len(set(acts[1])) > 1:
            raise EquiError(f"{where}: gates have different activations")
        acts[1] = acts[1][:1] * len(gated.simplify())
        gate_ir = gates[0].ir if len(gates) else SCALAR
        terms = gate_terms(f"{where}.equivariant_nonlin", irreps_z, blocks, gate_ir, *acts)
        self.add_gate(source, irreps_z, target, irreps_x, terms)

    def scale_shift(self):
        names = []
        for key, default in (("scale", 1.0), ("shift", 0.0)):
            values = self.state.get(f"per_type_energy_scale_shift.{key}s", np.array([default])).reshape(-1)
            values = np.repeat(values, len(self.species)) if values.size == 1 else values[self.species]
            names.append(self.table.add(f"per_type_energy_scale_shift.{key}s", values.astype(np.float64)))
        self.add_scale_shift(*names)

    def cutoffs(self):
        """[receiver, sender] in Angstrom, or None."""
        config = self.checkpoint.config
        if config["per_edge_type_cutoff"] is None:
            return None
        names = [self.checkpoint.type_names[s] for s in self.species]
        return np.array([[config["per_edge_type_cutoff"][i][j] for j in names] for i in names])

    def radial_basis(self):
        bessel = self.stages["bessel_encode"]
        return self.bessel("bessel_encode", bessel, float(self.stages["factor"].factor)) | self.own_cutoffs()

    def bessel(self, name, module, factor):
        """nequip's BesselEdgeLengthEncoding with a factor."""
        cutoff = self.checkpoint.cutoff
        numbers = self.state[f"{name}.bessel_weights"].reshape(-1).astype(np.float64) * pi / cutoff
        return {
            "kind": "bessel",
            "wave_numbers": self.table.add(f"{name}.wave_numbers", numbers),
            # The factor belongs to sin(pi b u) / (pi u) with u = r / cutoff.
            "prefactor": factor * cutoff / pi,
            "cutoff_function": {"kind": "polynomial", "p": self.number(module.cutoff.p)},
        }

    def own_cutoffs(self):
        """The part of the radial basis with the cutoffs of pairs, if there are any."""
        cutoffs = self.cutoffs()
        return {} if cutoffs is None else {"cutoffs": self.table.add("edge_norm.cutoffs", cutoffs)}

    @staticmethod
    def number(p):
        return int(p) if float(p).is_integer() else float(p)

    def pair_cutoff_power(self):
        return self.number(self.stages["pair_potential"].cutoff.p)

    def pair_repulsion(self):
        """The potential of Ziegler, Biersack and Littmark with LAMMPS's constants; each atom has half of it."""
        z = self.state["pair_potential.atomic_numbers"].astype(np.float64)[self.species]
        cutoffs = self.cutoffs()
        if cutoffs is None:
            cutoffs = np.full((len(z), len(z)), self.checkpoint.cutoff)
        length = 0.46850 / (z[:, None] ** 0.23 + z[None, :] ** 0.23)
        self.add_pair_repulsion(
            "pair_potential", self.checkpoint.half_qqr * z[:, None] * z[None, :], length, cutoffs, self.pair_cutoff_power(),
            [0.02817, 0.28022, 0.50986, 0.18175], [0.20162, 0.40290, 0.94229, 3.19980],
        )  # fmt: skip

    def species_embedding(self, target):
        name = "type_embed.embed_module.weight"
        self.add_species_embedding(target, name, self.state[name][self.species])

    def readout(self, source, irreps_x):
        energies = self.network("per_atom_energy_readout.mlp_module", self.stages["per_atom_energy_readout"].mlp_module)
        self.add_readout(source, irreps_x, 0, energies)

    def output_irreps(self, t):
        """The irreps that the next layer assigns to its input."""
        if t + 1 < self.checkpoint.num_layers:
            return Irreps(self.conv(t + 1).linear_1.irreps_in)
        return Irreps(self.stages[f"layer{t}_convnet"].equivariant_nonlin.irreps_out)

    def harmonics(self):
        return Irreps(self.stages["spharm"].sh.irreps_out)

    def document(self):
        harmonics = self.harmonics()
        check_lmax(harmonics)
        radial_basis, x = self.radial_basis(), "x0"
        self.species_embedding(x)
        for t in range(self.checkpoint.num_layers):
            z, y, m, x_next = f"z{t}", f"y{t}", f"m{t}", f"x{t + 1}"
            connected = bool(self.conv(t).use_sc)
            if connected:
                self.self_connection(t, x, z)
            self.linear_1(t, x, y)
            irreps_mid = self.convolution(t, y, m)
            irreps_z = self.linear_2(t, m, irreps_mid, z, accumulate=connected)
            irreps_x = self.output_irreps(t)
            self.gate(t, irreps_z, irreps_x, z, x_next)
            x = x_next
        self.readout(x, irreps_x)
        return self.with_atoms("NequIP", harmonics, radial_basis)

    def with_atoms(self, architecture, harmonics, radial_basis):
        """The document with what follows the network: energies of types, and the pair potential."""
        self.scale_shift()
        if "pair_potential" in self.stages:
            self.pair_repulsion()
        natural = all(ir.p == (-1) ** ir.l for _, ir in harmonics)
        return self.finished(architecture, self.checkpoint.cutoff, harmonics.lmax, natural, radial_basis)
