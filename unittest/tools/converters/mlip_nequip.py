# SPDX-License-Identifier: MIT
"""NequIP of mlip in float64 Torch, written from its formulas and sharing no code with equi_tools, and random files in mlip's form.

Products are made of copies of irreps with the channels that all multiplicities have in common, which are an axis of their own.
"""

import math

import mlip_reference
import torch
from equi_evaluator import coupling, harmonics
from mlip_reference import ACTIVATIONS, ForceField, embedding, key, natural, products_of

# mlip's own defaults but for sizes.
DEFAULTS = {
    "add_atomic_energies": True, "num_layers": 2, "target_irreps": "10x0e+5x0o+15x1o+5x1e+10x2e", "l_max": 2, "num_rbf": 6,
    "radial_envelope": "polynomial_envelope", "radial_mlp_hidden": [9, 7], "radial_mlp_activation": "swish",
    "radial_mlp_variance_scale": 4.0, "num_readout_heads": 1, "avg_num_neighbors": None, "num_species": None,
    "predict_partial_charges": False, "use_coulomb_term": False, "use_total_charge_embedding": False, "embed_activation": "silu",
    "use_residual_connection": True, "gate_nonlinearities": {"e": "swish", "o": "tanh"}, "deterministic_scatter_ops": False,
}  # fmt: skip
# Multiplicities with common factors and without, all options that are converted.
VARIANTS = {
    "copies": {},
    "no_common_factor": {"target_irreps": "13x0e+5x1o+3x2e+2x3o", "l_max": 3, "radial_mlp_hidden": [8]},
    "parities": {"target_irreps": "13x0e+5x0o+5x1o+3x1e", "l_max": 1, "num_layers": 3, "radial_mlp_activation": "tanh"},
    "equal": {"target_irreps": "8x0e+8x1o+8x2e", "avg_num_neighbors": 0.5, "use_residual_connection": False},
    "scalars": {"target_irreps": "7x0e", "l_max": 0, "num_layers": 1, "radial_mlp_hidden": [], "add_atomic_energies": False},
    "activations": {
        "target_irreps": "6x0e+4x0o+2x1o+4x1e", "l_max": 1, "num_layers": 3, "gate_nonlinearities": {"e": "sigmoid", "o": "none"},
        "radial_mlp_activation": "relu",
    },
    "odd_orders": {"target_irreps": "5x0e+10x1o+15x2o", "num_layers": 3},
    "charged": {"target_irreps": "4x0e+2x1o", "use_total_charge_embedding": True, "embed_activation": "tanh"},
}  # fmt: skip


def parsed(text):
    """{irrep: channels}"""
    found = {}
    for part in text.replace(" ", "").split("+"):
        mul, ir = part.split("x")
        found[int(ir[:-1]), 1 if ir[-1] == "e" else -1] = int(mul)
    return found


def layer_irreps(options):
    """Irreps with channels before the first layer, and behind each: those of the target that products with harmonics make."""
    target = parsed(options["target_irreps"])
    found = [{(0, 1): target[0, 1]}]
    for _ in range(options["num_layers"]):
        made = {ir for a in found[-1] for b in natural(options["l_max"]) for ir in products_of(a, b)}
        found.append({ir: mul for ir, mul in target.items() if ir in made})
    return found


def with_gates(irreps):
    """What the gate takes in: a further scalar for each channel that is none."""
    return {ir: mul + (sum(m for other, m in irreps.items() if other[0] > 0) if ir == (0, 1) else 0) for ir, mul in irreps.items()}


def paths(options, source, target):
    """(irrep of the sender, l of the harmonic, irrep of the message), in mlip's order."""
    found = [
        (a, l2, ir) for a in source for l2 in range(options["l_max"] + 1) for ir in products_of(a, (l2, (-1) ** l2)) if ir in target
    ]  # fmt: skip
    return sorted(found, key=lambda path: key(path[2]))


def shapes_of(options, statistics):
    irreps, species = layer_irreps(options), (len(mlip_reference.species_of(statistics)),)
    charged = options["use_total_charge_embedding"]
    block = f"NequipEmbeddingBlock_0#{'Joint' if charged else ''}NodeEmbeddingBlock_0"
    yield from embedding(block, irreps[0][0, 1], statistics, charged)
    for t, (source, target) in enumerate(zip(irreps, irreps[1:])):
        name, z = f"NequipLayer_{t}", with_gates(target)
        if options["use_residual_connection"]:
            yield from mlip_reference.linear(f"{name}#residual_block", source, z, species)
        made = {}
        for a, _, ir in paths(options, source, z):
            made[ir] = made.get(ir, 0) + source[a]
        sizes = [options["num_rbf"], *options["radial_mlp_hidden"], sum(made.values())]
        for n, shape in enumerate(zip(sizes, sizes[1:])):
            yield f"{name}#convolution_block#radial_mlp#layers_{n}#kernel", shape
        yield from mlip_reference.linear(f"{name}#convolution_block#linear_in", source, source)
        yield from mlip_reference.linear(f"{name}#convolution_block#linear_out", made, z)
    width = irreps[-1][0, 1]
    for head in range(options["num_readout_heads"]):
        name = f"NequipMultiHeadReadoutBlock_0#MultiHeadReadoutBlock_0#ReadoutBlock_{head}#Linear_"
        yield from mlip_reference.linear(f"{name}0", irreps[-1], {(0, 1): width // 2})
        yield from mlip_reference.linear(f"{name}1", {(0, 1): width // 2}, {(0, 1): 1})


def write(path, options=None, statistics=None, seed=1, change=lambda hyperparameters, arrays: None):
    """A file with random numbers."""
    options = DEFAULTS | (options or {})
    statistics = mlip_reference.statistics_of(options) | (statistics or {})
    arrays = mlip_reference.random_arrays(shapes_of(options, statistics), seed)
    for name, array in arrays.items():
        if name.endswith("kernel"):
            array /= math.sqrt(len(array))  # which mlip does not do
    return mlip_reference.save(path, options, statistics, arrays, change)


class NequipReference(ForceField):
    def messages(self, name, x, target, y, radial, sender, receiver):
        options = self.options
        x = self.linear(f"{name}#linear_in", x, list(x))
        h, hidden = radial, len(options["radial_mlp_hidden"])
        for n in range(hidden + 1):
            h = h @ self.arrays[f"{name}#radial_mlp#layers_{n}#kernel"]
            h = ACTIVATIONS[options["radial_mlp_activation"]](h) if n < hidden else h
        channels = math.gcd(*(value.shape[1] for value in x.values()))
        weights, first, sums = h.unflatten(1, (-1, channels)), 0, {}
        # [N, channels, copies, 2l+1]
        x = {ir: value.unflatten(1, (channels, -1)) for ir, value in x.items()}
        for a, l2, ir in paths(options, x, target):
            copies = x[a].shape[2]
            w = math.sqrt(2 * ir[0] + 1) * coupling(a[0], l2, ir[0])
            message = torch.einsum("ekc,ecka,eb,abd->eckd", weights[:, first : first + copies], x[a][sender], y[l2], w)
            first += copies
            total = torch.zeros(len(x[a]), *message.shape[1:], dtype=torch.float64).index_add(0, receiver, message)
            sums.setdefault(ir, []).append(total / (options["avg_num_neighbors"] or self.statistics["avg_num_neighbors"]))
        made = {ir: torch.cat(parts, 2).flatten(1, 2) for ir, parts in sums.items()}
        return self.linear(f"{name}#linear_out", made, list(target))

    def gate(self, z, irreps):
        first, out = irreps[0, 1], {}
        for ir, mul in irreps.items():
            if ir[0] == 0:
                out[ir] = self.activate(self.options["gate_nonlinearities"]["e" if ir[1] == 1 else "o"], z[ir][:, :mul])
            else:
                out[ir] = z[ir] * self.activate(self.options["gate_nonlinearities"]["e"], z[0, 1][:, first : first + mul])
                first += mul
        return out

    def energy(self, numbers, receiver, sender, vectors):
        options, irreps = self.options, layer_irreps(self.options)
        species, r = self.species(numbers), vectors.norm(dim=1)
        y, radial = harmonics(options["l_max"], -vectors / r[:, None]), self.bessel(r) * self.polynomial(r)[:, None]
        block = f"NequipEmbeddingBlock_0#{'Joint' if options['use_total_charge_embedding'] else ''}NodeEmbeddingBlock_0"
        x = {(0, 1): self.embedding(block, species)[:, :, None]}
        for t in range(options["num_layers"]):
            name, target = f"NequipLayer_{t}", with_gates(irreps[t + 1])
            z = self.messages(f"{name}#convolution_block", x, target, y, radial, sender, receiver)
            if options["use_residual_connection"]:
                for ir, value in self.linear(f"{name}#residual_block", x, list(target), species).items():
                    z[ir] = z[ir] + value
            x = self.gate(z, irreps[t + 1])
        head = min(self.head, options["num_readout_heads"] - 1)
        name = f"NequipMultiHeadReadoutBlock_0#MultiHeadReadoutBlock_0#ReadoutBlock_{head}#Linear_"
        hidden = self.linear(f"{name}0", x, [(0, 1)])
        return self.total(self.linear(f"{name}1", hidden, [(0, 1)])[0, 1][:, 0, 0], numbers)
