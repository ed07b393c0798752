# SPDX-License-Identifier: MIT
"""eSEN of mlip in float64 Torch, which is fairchem's (esen_reference.py) with edges in the other direction, and random files in mlip's
form."""

import esen_reference
import mlip_reference
import numpy as np
import torch
from mlip_reference import ACTIVATIONS, ForceField, embedding

# mlip's own defaults but for sizes.
DEFAULTS = {
    "add_atomic_energies": True, "num_species": None, "num_layers": 2, "sphere_channels": 6, "hidden_channels": 7, "edge_channels": 5,
    "l_max": 2, "m_max": 2, "radial_envelope": "polynomial_envelope", "radial_basis": "gauss", "num_rbf": 8, "basis_width_scalar": 2.0,
    "cosine_cutoff": False, "norm_type": "rms_norm_sh", "act_type": "gate", "trainable_rbf": False, "num_readout_heads": 1, "moe": None,
    "predict_partial_charges": False, "use_coulomb_term": False, "use_total_charge_embedding": False, "embed_activation": "silu",
    "deterministic_scatter_ops": False, "use_remat_edgewise": False, "use_quaternion": True,
}  # fmt: skip
EXPERTS = {
    "num_experts": 3, "routing_globals": ["charge", "spin_multiplicity", "dataset_idx"], "embed_dim": 4, "router_hidden_dims": [5, 6],
    "router_activation": "silu", "embedding_type": "pos_emb", "embedding_scale": 1.0,
}  # fmt: skip
# All options that are converted; odd numbers of channels.
VARIANTS = {
    "gaussians": {"sphere_channels": 13, "hidden_channels": 5},
    "truncated": {"l_max": 3, "m_max": 1, "norm_type": "layer_norm_sh", "hidden_channels": 17, "trainable_rbf": True},
    "bessel": {"l_max": 1, "m_max": 1, "norm_type": "layer_norm", "radial_basis": "bessel", "num_layers": 3},
    "bessel_cosine": {"radial_basis": "bessel", "cosine_cutoff": True, "radial_envelope": "cosine_cutoff", "m_max": 0, "num_layers": 1},
    "gaussians_cosine": {"radial_envelope": "cosine_cutoff", "basis_width_scalar": 1.3, "use_quaternion": False, "num_layers": 1},
    "exp_normal": {"radial_basis": "expnorm", "radial_envelope": "cosine_cutoff", "add_atomic_energies": False, "num_layers": 1},
    "trained_exp_normal": {
        "radial_basis": "expnorm", "radial_envelope": "cosine_cutoff", "cosine_cutoff": True, "trainable_rbf": True, "num_layers": 1,
    },
    "experts": {"moe": EXPERTS},
    "experts_by_rows": {
        "moe": EXPERTS | {"embedding_type": "rand_emb", "routing_globals": ["spin_multiplicity"], "router_activation": "tanh"},
        "num_layers": 1,
    },
    "charged_experts": {
        "moe": EXPERTS | {"embedding_type": "lin_emb", "routing_globals": ["charge"], "router_hidden_dims": []},
        "use_total_charge_embedding": True, "num_layers": 1,
    },
}  # fmt: skip
SYSTEM = ("charge_embedding", "spin_embedding", "dataset_embedding", "mix_csd", "routing_mlp", "composition_embedding", "sphere_embedding")


def for_fairchem(options):
    """The options under fairchem's names, too."""
    return options | {
        "lmax": options["l_max"], "mmax": options["m_max"], "num_distance_basis": options["num_rbf"], "ff_type": "spectral",
        "dataset_mapping": {}, "max_num_elements": 3,
    }  # fmt: skip


def fairchem_shapes(options):
    """Shape by name of the tensors that both have, by fairchem's names."""
    experts = options["moe"]["num_experts"] if options["moe"] else 0
    found = esen_reference.shapes(for_fairchem(options), "head", experts)
    found = {name.removeprefix("backbone."): shape for name, shape in found.items()}
    return {name: shape for name, shape in found.items() if name.split(".")[0] not in (*SYSTEM, "head")}


def own_names(options):
    """{fairchem's name: (mlip's name, whether the matrix is transposed)}"""
    found = {}

    def dense(ours, own, bias=True):
        found[f"{ours}.weight"], found[f"{ours}.weights"] = (f"{own}#kernel", True), (f"{own}#expert_kernel", True)
        if bias:
            found[f"{ours}.bias"] = (f"{own}#bias", False)

    def radial(ours, own):
        for n in range(3):
            dense(f"{ours}.rad_func.net.{3 * n}", f"{own}#rad_func#layers_{n}")
        for n in range(2):
            found[f"{ours}.rad_func.net.{3 * n + 1}.weight"] = (f"{own}#rad_func#layer_norms_{n}#scale", False)
            found[f"{ours}.rad_func.net.{3 * n + 1}.bias"] = (f"{own}#rad_func#layer_norms_{n}#bias", False)

    def norm(ours, own):
        for key in ("affine_weight", "affine_bias"):
            found[f"{ours}.{key}"] = (f"{own}#{key}", False)
        found[f"{ours}.norm_l0.weight"], found[f"{ours}.norm_l0.bias"] = (f"{own}#norm_l0#scale", False), (f"{own}#norm_l0#bias", False)

    for kind in ("source", "target"):
        found[f"{kind}_embedding.weight"] = (f"embedding_block#{kind}_embedding#embed#embedding", False)
    radial("edge_degree_embedding", "embedding_block#edge_degree_embedding")
    for t in range(options["num_layers"]):
        ours, own = f"blocks.{t}", f"esen_layers_{t}"
        norm(f"{ours}.norm_1", f"{own}#norm_1"), norm(f"{ours}.norm_2", f"{own}#norm_2")
        radial(f"{ours}.edge_wise.so2_conv_1", f"{own}#edge_wise#so2_conv_1")
        for k in (1, 2):
            dense(f"{ours}.edge_wise.so2_conv_{k}.fc_m0", f"{own}#edge_wise#so2_conv_{k}#fc_m0")
            for m in range(options["m_max"]):
                dense(f"{ours}.edge_wise.so2_conv_{k}.so2_m_conv.{m}.fc", f"{own}#edge_wise#so2_conv_{k}#so2_m_conv_{m}#fc", False)
        dense(f"{ours}.atom_wise.scalar_mlp.0", f"{own}#atom_wise#scalar_dense")
        for k in (1, 2):
            for key in ("weight", "bias"):
                found[f"{ours}.atom_wise.so3_linear_{k}.{key}"] = (f"{own}#atom_wise#so3_linear_{k}#{key}", False)
    norm("norm", "pre_readout_norm")
    return found


def own_shapes(options, statistics):
    """Arrays that fairchem does not have: (name, shape)."""
    yield from embedding("embedding_block#node_embedding", options["sphere_channels"], statistics, options["use_total_charge_embedding"])
    widths = (options["sphere_channels"], options["sphere_channels"], options["hidden_channels"], 1)
    for head in range(options["num_readout_heads"]):
        for n, shape in enumerate(zip(widths, widths[1:])):
            yield f"readout_block#ReadoutBlock_{head}#MLP_0#layers_{n}#kernel", shape
            yield f"readout_block#ReadoutBlock_{head}#MLP_0#layers_{n}#bias", shape[1:]
    experts = options["moe"]
    if not experts:
        return
    for kind in experts["routing_globals"]:
        if experts["embedding_type"] == "rand_emb":
            yield f"globals_embedding#embedding_table_{kind}", (201, experts["embed_dim"])
        elif experts["embedding_type"] == "pos_emb":
            yield f"globals_embedding#frequencies_{kind}", (experts["embed_dim"] // 2,)
        else:
            yield f"globals_embedding#linear_embedding_{kind}#kernel", (1, experts["embed_dim"])
            yield f"globals_embedding#linear_embedding_{kind}#bias", (experts["embed_dim"],)
    widths = [experts["embed_dim"] * len(experts["routing_globals"]), *experts["router_hidden_dims"], experts["num_experts"]]
    for n, shape in enumerate(zip(widths, widths[1:])):
        name = f"router#hidden_{n}" if n + 2 < len(widths) else "router#logits"
        yield f"{name}#kernel", shape
        yield f"{name}#bias", shape[1:]


def write(path, options=None, statistics=None, seed=1, change=lambda hyperparameters, arrays: None):
    """A file with random numbers."""
    options = DEFAULTS | (options or {})
    statistics = mlip_reference.statistics_of(options) | (statistics or {})
    names, arrays = own_names(options), {}
    for name, value in esen_reference.random_state(fairchem_shapes(options), seed).items():
        own, transposed = names[name]
        arrays[own] = value.numpy().swapaxes(-1, -2) if transposed else value.numpy()
    rng = np.random.default_rng(seed)
    for name, shape in own_shapes(options, statistics):
        scale = 0.3 if name.endswith("bias") or "frequencies" in name else len(arrays) and shape[0] ** -0.5
        arrays[name] = rng.normal(0, 6 * scale if name.endswith("layers_2#kernel") else 1.0 if name.endswith("embedding") else scale, shape)
    if options["trainable_rbf"] and options["radial_basis"] == "gauss":
        arrays["embedding_block#radial_embedding#offset"] = np.linspace(0.2, statistics["graph_cutoff_angstrom"], options["num_rbf"])
        arrays["embedding_block#radial_embedding#coeff"] = np.array(-0.8)
    elif options["trainable_rbf"] and options["radial_basis"] == "expnorm":
        arrays["embedding_block#radial_embedding#means"] = np.linspace(0.1, 1.0, options["num_rbf"])
        arrays["embedding_block#radial_embedding#betas"] = np.linspace(15.0, 20.0, options["num_rbf"])
    return mlip_reference.save(path, options, statistics, arrays, change)


class EsenReference(esen_reference.Reference, ForceField):
    epsilon = 1e-12
    degrees = 5.0 + 1e-12

    def __init__(self, path, head=0, charge=None, spin=None):
        ForceField.__init__(self, path, head, charge or 0)
        self.options = for_fairchem(self.options)
        self.lmax, self.mmax, self.C = (self.options[key] for key in ("l_max", "m_max", "sphere_channels"))
        self.spin, self.experts = spin or 0, self.options["moe"]
        self.num_experts = self.experts["num_experts"] if self.experts else 0
        self.system = torch.zeros(self.C, dtype=torch.float64)
        self.p = {}
        for name, (own, transposed) in own_names(self.options).items():
            if own in self.arrays:
                self.p[name] = self.arrays[own].transpose(-1, -2) if transposed else self.arrays[own]

    def weight_of_order(self, l, count):
        """In float32, a product with the rounded reciprocal of the count."""
        return float(np.float32(1 / (2 * l + 1)) * np.float32(1 / count))

    def cosine(self, r):
        return (1 + torch.cos(np.pi * r / self.cutoff)) / 2

    def envelope(self, r):
        return self.cosine(r) if self.options["radial_envelope"] == "cosine_cutoff" else self.polynomial(r)

    def basis(self, r):
        options, count, name = self.options, self.options["num_rbf"], "embedding_block#radial_embedding"
        if options["radial_basis"] == "bessel":
            return self.bessel(r) * (self.cosine(r) if options["cosine_cutoff"] else self.polynomial(r))[:, None]
        if options["radial_basis"] == "expnorm":
            start = np.exp(-self.cutoff)
            means, factors = torch.linspace(start, 1, count, dtype=torch.float64), (2 / count * (1 - start)) ** -2
            if options["trainable_rbf"]:
                means, factors = self.arrays[f"{name}#means"], self.arrays[f"{name}#betas"]
            return self.cosine(r)[:, None] * torch.exp(-factors * (torch.exp(-5 / self.cutoff * r[:, None]) - means) ** 2)
        centers = torch.linspace(0, self.cutoff, count, dtype=torch.float64)
        factor = -0.5 / (options["basis_width_scalar"] * (centers[1] - centers[0]) + 1e-12) ** 2
        if options["trainable_rbf"]:
            centers, factor = self.arrays[f"{name}#offset"], self.arrays[f"{name}#coeff"]
        return torch.exp(factor * (r[:, None] - centers) ** 2)

    def scalars(self, species):
        return self.embedding("embedding_block#node_embedding", species, scaled=False)

    def own_dense(self, name, x):
        return x @ self.arrays[f"{name}#kernel"] + self.arrays[f"{name}#bias"]

    def readout(self, h, species):
        name = f"readout_block#ReadoutBlock_{min(self.head, self.options['num_readout_heads'] - 1)}#MLP_0#layers_"
        for n in range(2):
            h = self.silu(self.own_dense(f"{name}{n}", h))
        return self.own_dense(f"{name}2", h)[:, 0]

    def coefficients(self, species):
        experts, inputs = self.experts, []
        values = {"charge": self.charge, "spin_multiplicity": self.spin, "dataset_idx": self.head}
        for kind in experts["routing_globals"]:
            if experts["embedding_type"] == "rand_emb":
                inputs.append(self.arrays[f"globals_embedding#embedding_table_{kind}"][100 + values[kind]])
            elif experts["embedding_type"] == "pos_emb":
                angles = 2 * np.pi * values[kind] * self.arrays[f"globals_embedding#frequencies_{kind}"]
                inputs += [torch.sin(angles), torch.cos(angles)]
            else:
                number = torch.tensor([float(values[kind])], dtype=torch.float64)
                inputs.append(self.own_dense(f"globals_embedding#linear_embedding_{kind}", number))
        x = torch.cat(inputs)
        for n in range(len(experts["router_hidden_dims"])):
            x = ACTIVATIONS[experts["router_activation"]](self.own_dense(f"router#hidden_{n}", x))
        return torch.softmax(self.own_dense("router#logits", x), 0)

    def energy(self, numbers, receiver, sender, vectors):
        energies = super().energy(self.species(numbers), receiver, sender, -vectors)
        return self.total(energies, numbers)
