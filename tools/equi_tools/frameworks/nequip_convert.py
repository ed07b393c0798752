"""NequIP models -> document and tensors of an .equi file (doc/model_file.rst).

Irreps, paths and constants are read from the modules that nequip builds from the options found in the file, the numbers
from the file.  Matrices are sliced and permuted; where the embedding of a type or the root of its number of neighbours
is multiplied into them, the products are stored in float64.
"""

from math import pi, sqrt

import numpy as np
from e3nn.o3 import Irrep

from ..errors import EquiError
from . import nequip_checkpoint
from .e3nn_layers import TensorTable, gate_terms, irreps_text, split_rows

# The couplings of src/coupling.h are exact up to here.
LMAX_SUPPORTED = 8


class _Converter:
    def __init__(self, checkpoint, modality, elements):
        checkpoint.modality_index(modality)
        self.checkpoint = checkpoint
        self.stages = nequip_checkpoint.energy_model(checkpoint.model)
        self.state = {name.removeprefix("model.func."): t.numpy() for name, t in checkpoint.state.items()}
        self.elements = elements or list(checkpoint.elements)
        unknown = [e for e in self.elements if e not in checkpoint.elements]
        if unknown:
            raise EquiError(f"--elements: {checkpoint.source} does not know {', '.join(unknown)}")
        if len(set(self.elements)) != len(self.elements):
            raise EquiError("--elements: an element is named twice")
        self.species = [checkpoint.elements.index(e) for e in self.elements]
        self.embedding = self.state["type_embed.embed_module.weight"][self.species]
        self.table = TensorTable()
        self.layers = []

    def linear_layer(self, source, irreps_in, target, irreps_out, blocks, per_species=False, accumulate=False):
        self.layers.append(
            {
                "type": "linear",
                "input": source,
                "irreps_in": irreps_text(irreps_in),
                "output": target,
                "irreps_out": irreps_text(irreps_out),
                "blocks": blocks,
                "biases": [],
                "per_species": per_species,
                "accumulate": accumulate,
            }
        )

    def matrices(self, name, module, width=None):
        """{(i, j): (matrix, scale)} of a Linear, or with the width of the second operand of a species product."""
        flat, offset, found = self.state[f"{name}.weight"], 0, {}
        irreps_in = module.irreps_in if width is None else module.irreps_in1
        for i, (mul_in, ir_in) in enumerate(irreps_in):
            for j, (mul_out, ir_out) in enumerate(module.irreps_out):
                if ir_in != ir_out:
                    continue
                shape = (mul_in, mul_out) if width is None else (mul_in, width, mul_out)
                size = int(np.prod(shape))
                fan_in = (width or 1) * sum(mul for mul, ir in irreps_in if ir == ir_out)
                found[i, j] = flat[offset : offset + size].reshape(shape), 1.0 / sqrt(fan_in)
                offset += size
        if offset != flat.size:
            raise EquiError(f"tensor {name}.weight has {flat.size} numbers, its irreps ask for {offset}")
        return found

    def self_connection(self, t, source, target):
        """Product with the learned embedding of the type: a matrix per species."""
        name = f"layer{t}_convnet.conv.sc"
        module = self.stages[f"layer{t}_convnet"].conv.sc
        blocks = []
        for (i, j), (cube, scale) in self.matrices(name, module, self.embedding.shape[1]).items():
            weight = np.einsum("uvw,sv->suw", cube.astype(np.float64), self.embedding.astype(np.float64))
            blocks.append({"in": i, "out": j, "weight": self.table.add(f"{name}.{i}.{j}", weight), "scale": scale})
        self.linear_layer(source, module.irreps_in1, target, module.irreps_out, blocks, per_species=True)

    def linear_1(self, t, source, target):
        """The first matrix and the factor 1/sqrt(neighbours), one number or one per type of the sender."""
        name = f"layer{t}_convnet.conv.linear_1"
        module = self.stages[f"layer{t}_convnet"].conv.linear_1
        norms = self.state[f"layer{t}_convnet.conv.avg_num_neighbors_norm.norm_const"].reshape(-1).astype(np.float64)
        per_species = norms.size > 1
        blocks = []
        for (i, j), (matrix, scale) in self.matrices(name, module).items():
            if per_species:
                matrix = norms[self.species, None, None] * matrix.astype(np.float64)
            else:
                scale *= norms[0]
            blocks.append({"in": i, "out": j, "weight": self.table.add(f"{name}.{i}.{j}", matrix), "scale": scale})
        self.linear_layer(source, module.irreps_in, target, module.irreps_out, blocks, per_species)

    def linear_2(self, t, source, irreps_mid, target, accumulate):
        name = f"layer{t}_convnet.conv.linear_2"
        module = self.stages[f"layer{t}_convnet"].conv.linear_2
        pieces = split_rows(name, module.irreps_in, irreps_mid)
        blocks = []
        for (i, j), (matrix, scale) in self.matrices(name, module).items():
            for k, begin, end in pieces[i]:
                weight = self.table.add(f"{name}.{k}.{j}", matrix[begin:end])
                blocks.append({"in": k, "out": j, "weight": weight, "scale": scale})
        self.linear_layer(source, irreps_mid, target, module.irreps_out, blocks, accumulate=accumulate)
        return module.irreps_out

    def network(self, name, mlp, columns=None):
        """nequip's scalar MLP; columns: order of the outputs."""
        if nequip_checkpoint.class_name(mlp.mlp) == "DeepLinearMLP":
            names = [f"{name}.mlp.weights.{n}" for n in range(len(mlp.mlp.weights))]
            activation, gain = "identity", 1.0
        else:
            linears, between = nequip_checkpoint.mlp_layers(mlp)
            names = [f"{name}.mlp.{n}.weight" for n, m in mlp.mlp.named_children() if m in linears]
            activation, gain = (nequip_checkpoint.MLP_ACTIVATIONS[between[0]], sqrt(2)) if between else ("identity", 1.0)
        weights = [self.state[n] for n in names]
        scales = [(gain if n else 1.0) / sqrt(w.shape[0]) for n, w in enumerate(weights)]
        if columns is not None:
            weights[-1] = weights[-1][:, columns]
        return {
            "weights": [self.table.add(n, w) for n, w in zip(names, weights)],
            "scales": scales,
            "activation": activation,
            "activation_scale": 1.0,
        }

    def convolution(self, t, source, target):
        """Paths in the order of their outputs; nequip's weights come in the order of their creation."""
        where = f"layer{t}_convnet"
        product = self.stages[where].conv.tp_scatter.tp
        mid, begin, paths = product.irreps_out, 0, {}
        for path, sign in zip(product.instructions, self.checkpoint.path_signs[t]):
            mul, ir = mid[path.i_out]
            if path.i_out in paths or mul != product.irreps_in1[path.i_in1].mul:
                raise EquiError(f"internal: {where}: two paths lead to block {path.i_out}")
            entry = {
                "in": path.i_in1,
                "l": product.irreps_in2[path.i_in2].ir.l,
                "out": path.i_out,
                "scale": sign * sqrt(ir.dim),
                "r_power": 0,
            }
            paths[path.i_out] = entry, range(begin, begin + mul)
            begin += mul
        ordered = [paths[k] for k in range(len(mid))]
        columns = [c for _, own in ordered for c in own]
        self.layers.append(
            {
                "type": "convolution",
                "input": source,
                "irreps_in": irreps_text(product.irreps_in1),
                "output": target,
                "irreps_out": irreps_text(mid),
                "paths": [entry for entry, _ in ordered],
                "radial": self.network(f"{where}.conv.edge_mlp", self.stages[where].conv.edge_mlp, columns),
            }
        )
        return mid

    def gate(self, t, irreps_z, source, target):
        module = self.stages[f"layer{t}_convnet"].equivariant_nonlin
        irreps_x = module.irreps_out
        gate_ir = module.irreps_gates[0].ir if len(module.irreps_gates) else Irrep("0e")
        acts = []
        for part in (module.act_scalars, module.act_gates):
            acts.append([nequip_checkpoint.activation_of(f) for f in part.acts if f is not None])
        terms = gate_terms(f"layer{t}_convnet.equivariant_nonlin", irreps_z, irreps_x, gate_ir, *acts)
        self.layers.append(
            {
                "type": "gate",
                "input": source,
                "irreps_in": irreps_text(irreps_z),
                "output": target,
                "irreps_out": irreps_text(irreps_x),
                "terms": terms,
            }
        )
        return irreps_x

    def scale_shift(self):
        layer = {"type": "scale_shift"}
        for key, default in (("scale", 1.0), ("shift", 0.0)):
            values = self.state.get(f"per_type_energy_scale_shift.{key}s", np.array([default])).reshape(-1)
            values = np.repeat(values, len(self.species)) if values.size == 1 else values[self.species]
            layer[key] = self.table.add(f"per_type_energy_scale_shift.{key}s", values.astype(np.float64))
        self.layers.append(layer)

    def cutoffs(self):
        """[receiver, sender] in Angstrom, or None."""
        config = self.checkpoint.config
        if config["per_edge_type_cutoff"] is None:
            return None
        names = [self.checkpoint.type_names[s] for s in self.species]
        return np.array([[config["per_edge_type_cutoff"][i][j] for j in names] for i in names])

    def radial_basis(self):
        cutoff = self.checkpoint.cutoff
        numbers = self.state["bessel_encode.bessel_weights"].reshape(-1).astype(np.float64) * pi / cutoff
        basis = {
            "kind": "bessel",
            "wave_numbers": self.table.add("bessel_encode.wave_numbers", numbers),
            # nequip's factor belongs to sin(pi b u) / (pi u) with u = r / cutoff.
            "prefactor": float(self.stages["factor"].factor) * cutoff / pi,
            "cutoff_function": {"kind": "polynomial", "p": self.number(self.stages["bessel_encode"].cutoff.p)},
        }
        cutoffs = self.cutoffs()
        if cutoffs is not None:
            basis["cutoffs"] = self.table.add("edge_norm.cutoffs", cutoffs)
        return basis

    @staticmethod
    def number(p):
        return int(p) if float(p).is_integer() else float(p)

    def pair_repulsion(self):
        """The potential of Ziegler, Biersack and Littmark with the numbers of LAMMPS, half of it on each atom."""
        module = self.stages["pair_potential"]
        z = self.state["pair_potential.atomic_numbers"].astype(np.float64)[self.species]
        half_qqr = float(self.state["pair_potential._qqr2exesquare"])
        cutoffs = self.cutoffs()
        if cutoffs is None:
            cutoffs = np.full((len(z), len(z)), self.checkpoint.cutoff)
        length = 0.46850 / (z[:, None] ** 0.23 + z[None, :] ** 0.23)
        self.layers.append(
            {
                "type": "pair_repulsion",
                "prefactor": self.table.add("pair_potential.prefactor", half_qqr * z[:, None] * z[None, :]),
                "length": self.table.add("pair_potential.length", length),
                "cutoff": self.table.add("pair_potential.cutoff", cutoffs),
                "p": self.number(module.cutoff.p),
                "coefficients": [0.02817, 0.28022, 0.50986, 0.18175],
                "exponents": [0.20162, 0.40290, 0.94229, 3.19980],
            }
        )

    def document(self):
        lmax = self.stages["spharm"].irreps_edge_sh.lmax
        if lmax > LMAX_SUPPORTED:
            raise EquiError(f"l_max: {lmax} is not supported, at most {LMAX_SUPPORTED}")
        radial_basis = self.radial_basis()
        irreps_x, x = self.stages["layer0_convnet"].conv.linear_1.irreps_in, "x0"
        self.layers.append(
            {
                "type": "species_embedding",
                "output": x,
                "irreps": irreps_text(irreps_x),
                "weight": self.table.add("type_embed.embed_module.weight", self.embedding),
                "scale": 1.0,
            }
        )
        for t in range(self.checkpoint.num_layers):
            z, y, m, x_next = f"z{t}", f"y{t}", f"m{t}", f"x{t + 1}"
            connected = self.stages[f"layer{t}_convnet"].conv.sc is not None
            if connected:
                self.self_connection(t, x, z)
            self.linear_1(t, x, y)
            irreps_mid = self.convolution(t, y, m)
            irreps_z = self.linear_2(t, m, irreps_mid, z, accumulate=connected)
            irreps_x, x = self.gate(t, irreps_z, z, x_next), x_next
        readout = self.network("per_atom_energy_readout.mlp_module", self.stages["per_atom_energy_readout"].mlp_module)
        self.layers.append(
            {"type": "readout", "input": x, "irreps_in": irreps_text(irreps_x), "block": 0, "network": readout}
        )
        self.scale_shift()
        if "pair_potential" in self.stages:
            self.pair_repulsion()
        return {
            "architecture": "NequIP",
            "elements": self.elements,
            "cutoff": self.checkpoint.cutoff,
            "lmax_edge": lmax,
            "edge_parity": True,
            "radial_basis": radial_basis,
            "layers": self.layers,
        }


def convert(checkpoint, modality=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    with nequip_checkpoint.nequip_state():
        converter = _Converter(checkpoint, modality, elements)
        document = converter.document()
    return document, converter.table.tensors
