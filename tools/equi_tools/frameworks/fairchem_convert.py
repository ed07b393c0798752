# SPDX-License-Identifier: MIT
"""eSEN models of fairchem 2 (the backbone eSCNMDBackbone without experts, an energy head) -> document and tensors of an
.equi file (doc/model_file.rst).

Charge, spin and task are those of the choice: what their embeddings add is folded into the embedding of the species and
the biases of norms, in float64. All other numbers are fairchem's, transposed where its matrices are.
"""

import numpy as np

from ..errors import EquiError
from .e3nn_layers import TensorTable

# fairchem's constants: the width of a Gaussian in spacings, what divides the sum of the edge degrees, the norms' epsilon.
WIDTH_IN_SPACINGS = 2.0
EDGE_DEGREE_SCALE = 0.2
EPSILON = 1e-5
# The options of the backbone that the layers below stand for, and the only value that they may have.
FIXED_OPTIONS = {
    "distance_function": "gaussian",
    "act_type": "gate",
    "ff_type": "spectral",
    "chg_spin_emb_type": "rand_emb",
    "direct_forces": False,
    "charge_balanced_channels": [],
    "spin_balanced_channels": [],
}


def silu(x):
    return x / (1.0 + np.exp(-x))


class Converter:
    """checkpoint: options of the backbone with all defaults, its tensors as arrays by name (`backbone.` and `head.`),
    elements, normalizer (rmsd) and reference energies by element, all of one task.
    """

    def __init__(self, checkpoint, elements=None):
        self.checkpoint, self.options, self.state = checkpoint, checkpoint.options, checkpoint.state
        for name, value in FIXED_OPTIONS.items():
            if (self.options[name] or type(value)()) != value:
                raise EquiError(f"{name}: '{self.options[name]}' is not supported, only '{value or None}'")
        if any(".weights" in name for name in self.state):
            raise EquiError("mixtures of experts (UMA) are not supported yet")
        self.lmax, self.mmax = self.options["lmax"], self.options["mmax"]
        self.channels = self.options["sphere_channels"]
        self.elements = elements or list(checkpoint.elements)
        unknown = [e for e in self.elements if e not in checkpoint.elements]
        if unknown:
            raise EquiError(f"--elements: {checkpoint.source} does not know {', '.join(unknown)}")
        if len(set(self.elements)) != len(self.elements):
            raise EquiError("--elements: an element is named twice")
        self.numbers = [checkpoint.numbers[e] for e in self.elements]
        self.table = TensorTable()
        self.layers = []

    # ---- pieces of layers

    def irreps(self, channels):
        return "+".join(f"{channels}x{l}e" for l in range(self.lmax + 1))

    def add(self, kind, source, irreps_in, target, irreps_out, **fields):
        self.layers.append(
            {"type": kind, "input": source, "irreps_in": irreps_in, "output": target, "irreps_out": irreps_out, **fields}
        )

    def tensor(self, name):
        return self.table.add(name, self.state[name])

    def identity(self, channels):
        name = f"identity.{channels}"
        return name if name in self.table.tensors else self.table.add(name, np.eye(channels, dtype=np.float32))

    def linear(self, source, irreps_in, target, irreps_out, weights, bias=None, accumulate=False):
        """weights: {(i, j): name of a tensor}; bias: that of block 0."""
        blocks = [{"in": i, "out": j, "weight": weight, "scale": 1.0} for (i, j), weight in weights.items()]
        biases = [] if bias is None else [{"out": 0, "tensor": bias, "scale": 1.0}]
        self.add("linear", source, irreps_in, target, irreps_out, blocks=blocks, biases=biases, per_species=False,
                 accumulate=accumulate)  # fmt: skip

    def copy(self, source, target, accumulate=False):
        """target (+)= source, block by block."""
        irreps, one = self.irreps(self.channels), self.identity(self.channels)
        self.linear(source, irreps, target, irreps, {(l, l): one for l in range(self.lmax + 1)}, accumulate=accumulate)

    def radial(self, name):
        """A radial network on distance and species of both atoms."""
        net = f"{name}.rad_func.net"
        weights = [self.table.add(f"{net}.{n}.weight", self.state[f"{net}.{n}.weight"].T) for n in (0, 3, 6)]
        biases = [{"tensor": self.tensor(f"{net}.{n}.bias"), "scale": 1.0} for n in (0, 3, 6)]
        norms = [
            {"weight": self.tensor(f"{net}.{n}.weight"), "bias": self.tensor(f"{net}.{n}.bias"), "epsilon": EPSILON}
            for n in (1, 4)
        ]
        return {
            "weights": weights, "scales": [1.0] * 3, "biases": biases, "activation": "silu", "activation_scale": 1.0,
            "norms": norms + [None], "sender": "backbone.source_embedding.weight",
            "receiver": "backbone.target_embedding.weight",
        }  # fmt: skip

    def norm(self, name, source, target, extra=None):
        """extra: added to the scalars behind it."""
        kind, channels, orders = self.options["norm_type"], self.channels, range(self.lmax + 1)
        if kind == "rms_norm_sh":
            groups = [(orders, [1.0 / ((2 * l + 1) * (self.lmax + 1)) for l in orders])]
        elif kind == "layer_norm_sh":
            groups = [([0], [1.0])]
            if self.lmax > 0:
                groups.append((orders[1:], [1.0 / ((2 * l + 1) * self.lmax) for l in orders[1:]]))
        elif kind == "layer_norm":
            groups = [([l], [1.0 / (2 * l + 1)]) for l in orders]
        else:
            raise EquiError(f"norm_type: '{kind}' is not supported")
        if kind == "layer_norm_sh":
            scale = np.concatenate([self.state[f"{name}.norm_l0.weight"][None], self.state[f"{name}.affine_weight"]])
            bias = self.state[f"{name}.norm_l0.bias"]
        else:
            scale, bias = self.state[f"{name}.affine_weight"], self.state[f"{name}.affine_bias"]
        if extra is not None:
            bias = bias.astype(np.float64) + extra
        irreps = self.irreps(channels)
        self.add("spherical_norm", source, irreps, target, irreps,
                 groups=[{"blocks": list(blocks), "weights": [w / channels for w in weights], "center": 0 in blocks}
                         for blocks, weights in groups],
                 epsilon=EPSILON, scale=self.table.add(f"{name}.scale", scale),
                 bias=self.table.add(f"{name}.bias", bias))  # fmt: skip

    def so2_linear(self, name, channels, gate):
        weights = [self.table.add(f"{name}.fc_m0.weight", self.state[f"{name}.fc_m0.weight"].T)]
        for m in range(1, self.mmax + 1):
            # Rows of the real and of the imaginary part.
            real, imaginary = np.split(self.state[f"{name}.so2_m_conv.{m - 1}.fc.weight"], 2)
            weights.append(self.table.add(f"{name}.so2_m_conv.{m - 1}", np.stack([real.T, imaginary.T])))
        linear = {"channels": channels, "weights": weights, "bias": self.tensor(f"{name}.fc_m0.bias")}
        return linear | ({"gate": {"scalars": "silu", "gates": "sigmoid"}} if gate else {})

    # ---- the model

    def system_embedding(self):
        """What charge, spin and task add to the scalars, in float64."""
        rows = [self.state["backbone.charge_embedding.rand_emb.weight"][100 + self.checkpoint.charge]]
        rows.append(self.state["backbone.spin_embedding.rand_emb.weight"][self.checkpoint.spin])
        if self.options["use_dataset_embedding"]:
            name = self.options["dataset_mapping"][self.checkpoint.task]
            rows.append(self.state[f"backbone.dataset_embedding.dataset_emb_dict.{name}.weight"][0])
        weight = self.state["backbone.mix_csd.weight"].astype(np.float64)
        return silu(weight @ np.concatenate(rows).astype(np.float64) + self.state["backbone.mix_csd.bias"])

    def species_embedding(self, name, target, weight):
        self.layers.append(
            {"type": "species_embedding", "output": target, "irreps": f"{self.channels}x0e",
             "weight": self.table.add(name, weight), "scale": 1.0}
        )  # fmt: skip

    def initial_features(self, csd, target):
        """The embedding of the species, and a convolution of 1 in all channels with the harmonics of edges."""
        scalars, irreps = f"{self.channels}x0e", self.irreps(self.channels)
        weight = self.state["backbone.sphere_embedding.weight"][self.numbers].astype(np.float64) + csd
        self.species_embedding("backbone.sphere_embedding.weight", "embedding", weight)
        self.species_embedding("ones", "ones", np.ones((len(self.numbers), self.channels), np.float32))
        paths = [{"in": 0, "l": l, "out": l, "scale": EDGE_DEGREE_SCALE} for l in range(self.lmax + 1)]
        radial = self.radial("backbone.edge_degree_embedding") | {"times_cutoff": True}
        self.add("convolution", "ones", scalars, "edge_degrees", irreps, paths=paths, radial=radial)
        self.copy("edge_degrees", target)
        self.linear("embedding", scalars, target, irreps, {(0, 0): self.identity(self.channels)}, accumulate=True)

    def block(self, t, csd, source, target):
        name, irreps = f"backbone.blocks.{t}", self.irreps(self.channels)
        hidden = self.options["hidden_channels"]
        normed, messages, middle = f"y{t}", f"m{t}", f"z{t}"
        self.norm(f"{name}.norm_1", source, normed, csd)
        conv = f"{name}.edge_wise.so2_conv"
        self.add("so2_convolution", normed, irreps, messages, irreps, mmax=self.mmax, radial=self.radial(f"{conv}_1"),
                 linears=[self.so2_linear(f"{conv}_1", hidden, True),
                          self.so2_linear(f"{conv}_2", self.channels, False)])  # fmt: skip
        self.copy(source, middle)
        self.copy(messages, middle, accumulate=True)

        name = f"{name}.atom_wise"
        scalars, gates, wide = f"{self.channels}x0e", f"{self.lmax * hidden}x0e", self.irreps(hidden)
        normed, h = f"v{t}", f"h{t}"
        self.norm(f"backbone.blocks.{t}.norm_2", middle, normed)
        orders = range(self.lmax + 1)
        per_order = {
            n: {(l, l): self.table.add(f"{name}.so3_linear_{n}.weight.{l}", self.state[f"{name}.so3_linear_{n}.weight"][l].T)
                for l in orders}
            for n in (1, 2)
        }  # fmt: skip
        # The gates, which are activated twice, then beside the features as a gate has them.
        weight = self.table.add(f"{name}.scalar_mlp.0.weight", self.state[f"{name}.scalar_mlp.0.weight"].T)
        self.linear(normed, irreps, f"s{t}", gates, {(0, 0): weight}, self.tensor(f"{name}.scalar_mlp.0.bias"))
        activated = {"out": 0, "in": 0, "offset": 0, "activation": "silu", "scale": 1.0}
        self.add("gate", f"s{t}", gates, f"a{t}", gates, terms=[activated])
        both = f"{wide}+{gates}"
        bias = self.tensor(f"{name}.so3_linear_1.bias")
        self.linear(normed, irreps, f"u{t}", both, per_order[1], bias)
        last = self.lmax + 1
        self.linear(f"a{t}", gates, f"u{t}", both, {(0, last): self.identity(self.lmax * hidden)}, accumulate=True)
        terms = [activated] + [
            {"out": l, "in": l, "offset": 0, "gate_in": last, "gate_offset": (l - 1) * hidden, "activation": "sigmoid",
             "scale": 1.0}
            for l in orders[1:]
        ]  # fmt: skip
        self.add("gate", f"u{t}", both, h, wide, terms=terms)
        self.copy(middle, target)
        self.linear(h, wide, target, irreps, per_order[2], self.tensor(f"{name}.so3_linear_2.bias"), accumulate=True)

    def energies(self, source):
        irreps = self.irreps(self.channels)
        self.norm("backbone.norm", source, "last")
        names = [f"head.energy_block.{n}" for n in (0, 2, 4)]
        network = {
            "weights": [self.table.add(f"{name}.weight", self.state[f"{name}.weight"].T) for name in names],
            "scales": [1.0] * 3,
            "biases": [{"tensor": self.tensor(f"{name}.bias"), "scale": 1.0} for name in names],
            "activation": "silu",
            "activation_scale": 1.0,
        }
        self.layers.append({"type": "readout", "input": "last", "irreps_in": irreps, "block": 0, "network": network})
        shift = np.array([self.checkpoint.references.get(e, 0.0) for e in self.elements], np.float64)
        scale = np.full(len(self.elements), self.checkpoint.rmsd, np.float64)
        self.layers.append({"type": "scale_shift", "scale": self.table.add("scale", scale),
                            "shift": self.table.add("shift", shift)})  # fmt: skip

    def document(self):
        cutoff, num = float(self.options["cutoff"]), self.options["num_distance_basis"]
        for name in ("source", "target"):
            rows = self.state[f"backbone.{name}_embedding.weight"][self.numbers]
            self.table.add(f"backbone.{name}_embedding.weight", rows)
        csd, x = self.system_embedding(), "x0"
        self.initial_features(csd, x)
        for t in range(self.options["num_layers"]):
            self.block(t, csd, x, f"x{t + 1}")
            x = f"x{t + 1}"
        self.energies(x)
        return {
            "architecture": "eSEN",
            "elements": self.elements,
            "cutoff": cutoff,
            "lmax_edge": max(self.lmax, 1),
            "edge_parity": False,
            "radial_basis": {
                "kind": "gaussian",
                "centres": self.table.add("backbone.distance_expansion.offset", self.checkpoint.centers),
                "width": WIDTH_IN_SPACINGS * float(self.checkpoint.centers[1] - self.checkpoint.centers[0]),
                "cutoff_function": {"kind": "polynomial", "p": 5},
                "apply_cutoff": False,
            },
            "layers": self.layers,
        }


def convert(checkpoint, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    converter = Converter(checkpoint, elements)
    document = converter.document()
    return document, converter.table.tensors
