# SPDX-License-Identifier: MIT
"""MACE of mlip in float64 Torch, written from its formulas and sharing no code with equi_tools, random files in mlip's form, and
what mlip_nequip.py and mlip_esen.py have in common with it.

Couplings are evaluated power by power, Gaunt products as means over points of the sphere.
"""

import io
import json
import math
import zipfile
from itertools import groupby

import numpy as np
import torch
from edge_calculator import EdgeCalculator
from equi_evaluator import coupling, harmonics

PREFIX = "params#mlip_network#"
# mlip's own defaults.
DEFAULTS = {
    "add_atomic_energies": True, "num_layers": 2, "num_channels": 5, "l_max": 2, "node_symmetry": 1, "correlation": 2,
    "readout_irreps": ["7x0e", "0e"], "num_readout_heads": 1, "include_pseudotensors": False, "num_rbf": 6,
    "activation": "silu", "radial_envelope": "polynomial_envelope", "radial_mlp_hidden": [9, 7],
    "radial_mlp_activation": "silu", "avg_num_neighbors": None, "avg_r_min": None, "num_species": None, "gate_nodes": False,
    "residual_connection_first_layer": False, "soft_normalization": None, "predict_partial_charges": False,
    "use_coulomb_term": False, "use_total_charge_embedding": False, "embed_activation": "silu",
    "deterministic_scatter_ops": False, "symmetric_contraction_backend": "e3j", "use_gaunt_tp_message_passing": False,
}  # fmt: skip
STATISTICS = {
    "dataset_name": None, "num_graphs": None, "atomic_energies_map": {"8": -3.5, "11": -1.25, "17": -2.0},
    "total_charge_set": None, "graph_cutoff_angstrom": 4.2, "long_range_cutoff_angstrom": None, "avg_num_neighbors": 1.75,
    "avg_r_min_angstrom": None, "scaling_mean": 0.3, "scaling_stdev": 1.2, "atomic_energies_removed": False,
}  # fmt: skip
CHARGES = [-1, 0, 2]
GAUNT = {"symmetric_contraction_backend": "gaunt_tp", "use_gaunt_tp_message_passing": True}
# All options that are converted, with odd numbers of channels.
VARIANTS = {
    "couplings": {"num_channels": 13, "correlation": 3},
    "gaunt": {"num_channels": 13, "correlation": 3} | GAUNT,
    "gaunt_messages": {"use_gaunt_tp_message_passing": True, "l_max": 3, "node_symmetry": 2},
    "gaunt_products": {"symmetric_contraction_backend": "gaunt_tp", "correlation": 4, "num_layers": 3},
    "gaunt_high": {"l_max": 4, "node_symmetry": 3, "num_channels": 3} | GAUNT,
    "gaunt_pairs": {"num_channels": 33, "correlation": 2, "node_symmetry": 2} | GAUNT,
    "gaunt_linear": {"correlation": 1} | GAUNT,
    "wide": {"num_channels": 33, "node_symmetry": 0, "l_max": 3},
    "correlation4": {"correlation": 4, "l_max": 1},
    "pseudotensors": {"include_pseudotensors": True, "correlation": 3, "l_max": 1},
    "one_layer": {"num_layers": 1, "radial_mlp_hidden": [], "activation": "tanh", "add_atomic_energies": False},
    "charged": {"use_total_charge_embedding": True, "num_layers": 1, "embed_activation": "sigmoid"},
    "residual_first": {"residual_connection_first_layer": True, "radial_mlp_activation": "tanh", "num_layers": 3},
}  # fmt: skip


def key(ir):
    return ir[0], ir[1] != (-1) ** ir[0]


def natural(lmax):
    return [(l, (-1) ** l) for l in range(lmax + 1)]


def products_of(a, b):
    return [(l, a[1] * b[1]) for l in range(abs(a[0] - b[0]), a[0] + b[0] + 1)]


def node_irreps(options, layer):
    """Irreps of the input of a layer; after the last layer there are only scalars."""
    if layer == 0 or layer == options["num_layers"]:
        return natural(0)
    return natural(options["node_symmetry"])


def message_irreps(options):
    found = natural(options["l_max"])
    return sorted(found + [(l, -p) for l, p in found], key=key) if options["include_pseudotensors"] else found


def message_paths(options, layer):
    """(irrep of the sender, l of the harmonic, irrep of the message), in mlip's order."""
    wanted = message_irreps(options)
    found = [
        (a, l2, ir) for a in node_irreps(options, layer) for l2 in range(options["l_max"] + 1)
        for ir in products_of(a, (l2, (-1) ** l2)) if ir in wanted
    ]  # fmt: skip
    return sorted(found, key=lambda path: key(path[2]))


def powers(x, outs, correlation, multiply):
    """The powers of a feature, in mlip's order: [[(irrep, value)] by degree]. x: [(irrep, value)]."""
    found = [list(x)]
    for degree in range(2, correlation + 1):
        kept, frontier = set(outs), set(outs)
        for _ in range(correlation - degree):
            frontier = {ir for out in frontier for a, _ in x for ir in products_of(out, a)}
            kept |= frontier
        made = [
            (ir, multiply(a, v, b, w, ir))
            for a, copies in groupby(found[-1], lambda entry: entry[0]) for copies in [list(copies)]
            for b, w in x for ir in products_of(a, b) if ir in kept for _, v in copies
        ]  # fmt: skip
        found.append(sorted(made, key=lambda entry: key(entry[0])))
    return found


def linear(name, source, target, species=()):
    """Arrays of a linear map, (name, shape). source, target: {irrep: channels}"""
    for n, ir in enumerate(sorted({*source, *target}, key=key)):
        yield f"{name}#weight{n}_{ir[0]}_{ir[1]}", (*species, target.get(ir, 0), source.get(ir, 0))


def embedding(name, width, statistics, with_charge):
    """Arrays of the embedding of species, or of species and total charge."""
    if not with_charge:
        yield f"{name}#embed#embedding", (len(species_of(statistics)), width)
        return
    yield f"{name}#species_embedder#embed#embedding", (len(species_of(statistics)), width)
    yield f"{name}#charge_embedder#embed#embedding", (len(statistics["total_charge_set"]) + 1, width)
    yield f"{name}#joint_embedding_projection#kernel", (2 * width, width)


def species_of(statistics):
    """Atomic numbers, sorted."""
    tables = statistics["atomic_energies_map"]
    return sorted({int(number) for table in (tables if isinstance(tables, list) else [tables]) for number in table})


def shapes_of(options, statistics):
    """The arrays of a file: (name, shape)."""
    channels, s = options["num_channels"], len(species_of(statistics))
    yield from embedding("embedding_block#node_embedding_block", channels, statistics, options["use_total_charge_embedding"])

    for t in range(options["num_layers"]):
        block = f"layers_{t}"
        source = {ir: channels for ir in node_irreps(options, t)}
        messages = {ir: channels for ir in message_irreps(options)}
        target = {ir: channels for ir in node_irreps(options, t + 1)}
        found = message_paths(options, t)
        gaunt = options["use_gaunt_tp_message_passing"]
        count = len({ir for _, _, ir in found}) if gaunt else len(found)
        sizes = [options["num_rbf"], *options["radial_mlp_hidden"], count * channels]
        for n, shape in enumerate(zip(sizes, sizes[1:])):
            yield f"{block}#interaction_block#radial_mlp#layers_{n}#kernel", shape
        yield from linear(f"{block}#interaction_block#linear_in", source, source)
        if gaunt:
            harmonics = natural(options["l_max"])
            yield from linear(f"{block}#interaction_block#linear_proj", {ir: 1 for ir in harmonics}, {ir: channels for ir in harmonics})
        made = {ir: channels * (1 if gaunt else sum(path[2] == ir for path in found)) for _, _, ir in found}
        yield from linear(f"{block}#interaction_block#linear_out", made, messages)
        if t > 0 or options["residual_connection_first_layer"]:
            yield from linear(f"{block}#residual_block", source, target, (s,))
        else:
            yield from linear(f"{block}#linear_by_species_block", messages, messages, (s,))
        product = f"{block}#expansion_block#symmetric_contraction"
        if options["symmetric_contraction_backend"] == "gaunt_tp":
            for c in range(options["correlation"]):
                yield f"{product}#gaunt_symmetric_contraction_bias_{c}", (channels,)
                for n, (l, p) in enumerate(messages):
                    text = f"{channels}x{l}{'e' if p == 1 else 'o'}"
                    yield f"{product}#linear_in_{c}#w[{n},{n}] {text},{text}", (channels, channels)
            for n, (l, p) in enumerate(target):
                yield f"{product}#linear_out#weight{n}_{l}_{p}", (s, channels, 1, 1)
        else:
            x = [(ir, None) for ir in messages]
            made = powers(x, list(target), options["correlation"], lambda *_: None)
            for n, ir in enumerate(target):
                size = sum(found == ir for degree in made for found, _ in degree)
                yield f"{product}#LinearIndexwise_0#weight{n}_{ir[0]}_{ir[1]}", (s, channels, 1, size)
        yield from linear(f"{block}#expansion_block#linear_block", target, target)
        width = int(options["readout_irreps"][0].split("x")[0])
        for head in range(options["num_readout_heads"]):
            name = f"{block}#readout_block#ReadoutBlock_{head}#Linear_"
            if t + 1 < options["num_layers"]:
                yield from linear(f"{name}0", target, {(0, 1): 1})
            else:
                yield from linear(f"{name}0", target, {(0, 1): width})
                yield from linear(f"{name}1", {(0, 1): width}, {(0, 1): 1})


def random_arrays(named_shapes, seed):
    """Random numbers with which energies are of order eV."""
    rng, arrays = np.random.default_rng(seed), {}
    for name, shape in named_shapes:
        # Larger embeddings make forces of order eV/Angstrom.
        scale = 4.0 if name.endswith("embedding") else 1.0
        if "#LinearIndexwise_0#" in name:
            scale = max(1, shape[-1]) ** -0.5
        dtype = np.float32 if name.endswith(("kernel", "embedding")) else np.float64
        arrays[name] = (scale * rng.normal(0, 1, shape)).astype(dtype)
    return arrays


def save(path, options, statistics, arrays, change=lambda hyperparameters, arrays: None):
    """A file as mlip writes it. change: what else is done to its two parts."""
    arrays = {PREFIX + name: array for name, array in arrays.items()}
    hyperparameters = {"dataset_info": statistics, "config": options, "available_properties": {"energy": True}, "version": "0.2.5"}
    change(hyperparameters, arrays)
    content = io.BytesIO()
    np.savez(content, **arrays)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hyperparams.json", json.dumps(hyperparameters))
        archive.writestr("params.npz", content.getvalue())
    return path


def statistics_of(options):
    """Statistics of the data set of a random model."""
    return STATISTICS | ({"total_charge_set": CHARGES} if options["use_total_charge_embedding"] else {})


def write(path, options=None, statistics=None, seed=1, change=lambda hyperparameters, arrays: None):
    """A file of a MACE with random numbers."""
    options = DEFAULTS | (options or {})
    statistics = statistics_of(options) | (statistics or {})
    return save(path, options, statistics, random_arrays(shapes_of(options, statistics), seed), change)


def points_of_sphere(degree, lmax):
    """Weights of sum 1 and harmonics of mean square 1/(2l+1) by l, exact to this degree."""
    y, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
    angles = 2 * np.pi * np.arange(degree + 1) / (degree + 1)
    y, angles = np.meshgrid(y, angles, indexing="ij")
    r = np.sqrt(1 - y**2)
    points = torch.tensor(np.stack([r * np.sin(angles), y, r * np.cos(angles)], -1)).reshape(-1, 3)
    weights = torch.tensor(np.repeat(weights, degree + 1) / (2 * (degree + 1)))
    return weights, [h / math.sqrt(2 * l + 1) for l, h in enumerate(harmonics(lmax, points))]


ACTIVATIONS = {
    "silu": torch.nn.functional.silu, "swish": torch.nn.functional.silu, "tanh": torch.tanh, "relu": torch.relu,
    "sigmoid": torch.sigmoid, "none": lambda x: x,
}  # fmt: skip


class ForceField(EdgeCalculator):
    """The arrays and options of a file, and what its architectures have in common. head: number of a data set."""

    elements = ()

    def __init__(self, path, head=0, charge=None):
        super().__init__()
        self.head, self.charge = head, charge
        with zipfile.ZipFile(path) as archive:
            hyperparameters = json.loads(archive.read("hyperparams.json"))
            with np.load(io.BytesIO(archive.read("params.npz"))) as arrays:
                self.arrays = {name.removeprefix(PREFIX): torch.tensor(arrays[name]).double() for name in arrays.files}
        self.options, self.statistics = hyperparameters["config"], hyperparameters["dataset_info"]
        self.cutoff = self.statistics["graph_cutoff_angstrom"]
        tables = self.statistics["atomic_energies_map"]
        tables = tables if isinstance(tables, list) else [tables]
        self.numbers = torch.tensor(species_of(self.statistics))
        self.energies = {int(number): energy for number, energy in tables[min(head, len(tables) - 1)].items()}
        quantiles = math.sqrt(2) * torch.erfinv(torch.linspace(-1, 1, 1_000_003, dtype=torch.float64)[1:-1])
        self.constants = {name: (f(quantiles) ** 2).mean().sqrt() for name, f in ACTIVATIONS.items()}

    def species(self, numbers):
        return torch.searchsorted(self.numbers, numbers)

    def embedding(self, name, species, scaled=True):
        """[N, channels]: rows of species, or a layer of rows of species and charge. scaled: divided by the root of their number."""
        def rows(part):
            table = self.arrays[f"{name}#{part}embed#embedding"]
            return table / math.sqrt(len(table)) if scaled else table

        if not self.options["use_total_charge_embedding"]:
            return rows("")[species]
        charge = rows("charge_embedder#")[1 + sorted(self.statistics["total_charge_set"]).index(self.charge)]
        both = torch.cat([rows("species_embedder#")[species], charge.expand(len(species), -1)], 1)
        return ACTIVATIONS[self.options["embed_activation"]](both @ self.arrays[f"{name}#joint_embedding_projection#kernel"])

    def total(self, energy, numbers):
        """Energies of atoms from those of the network."""
        energy = self.statistics["scaling_stdev"] * energy + self.statistics["scaling_mean"]
        if self.options["add_atomic_energies"]:
            energy = energy + torch.tensor([self.energies[int(z)] for z in numbers], dtype=torch.float64)
        return energy

    def bessel(self, r):
        """[E, functions]: Bessel functions without an envelope."""
        n = torch.arange(1, self.options["num_rbf"] + 1, dtype=torch.float64)
        return math.sqrt(2 / self.cutoff) * torch.sin(n * math.pi * r[:, None] / self.cutoff) / r[:, None]

    def polynomial(self, r):
        u = r / self.cutoff
        return 1 - 21 * u**5 + 35 * u**6 - 15 * u**7

    def evaluate(self, atoms):
        """Energy, forces."""
        atoms = atoms.copy()
        atoms.calc = self
        return atoms.get_potential_energy(), atoms.get_forces()

    def activate(self, name, x):
        return ACTIVATIONS[name](x) / self.constants[name]

    def matrix(self, name, ir):
        """Weights of one irrep of a linear map, none if a side lacks it."""
        (found,) = [a for k, a in self.arrays.items() if k.startswith(f"{name}#weight") and k.endswith(f"_{ir[0]}_{ir[1]}")] or [None]
        return found if found is not None and found.numel() else None

    def linear(self, name, x, irreps, species=None):
        """x: {irrep: [N, channels, 2l+1]}."""
        out = {}
        for ir in irreps:
            w = self.matrix(name, ir)
            if w is None or ir not in x:
                continue
            w = w / math.sqrt(w.shape[-1])
            out[ir] = torch.einsum("oi,nim->nom", w, x[ir]) if species is None else torch.einsum("noi,nim->nom", w[species], x[ir])
        return out



class MlipReference(ForceField):
    def messages(self, t, x, y, radial, sender, receiver):
        o, name = self.options, f"layers_{t}#interaction_block"
        h = radial
        sizes = len(o["radial_mlp_hidden"]) + 1
        for n in range(sizes):
            w = self.arrays[f"{name}#radial_mlp#layers_{n}#kernel"]
            h = h @ w / math.sqrt(w.shape[0])
            if n + 1 < sizes:
                h = self.activate(o["radial_mlp_activation"], h)
        x = self.linear(f"{name}#linear_in", x, list(x))
        count = len(next(iter(x.values())))
        weights = h.unflatten(1, (-1, o["num_channels"]))
        found = message_paths(o, t)
        sums = {}

        def add(ir, message):
            total = torch.zeros(count, *message.shape[1:], dtype=message.dtype)
            sums.setdefault(ir, []).append(total.index_add(0, receiver, message) / self.statistics["avg_num_neighbors"])

        if o["use_gaunt_tp_message_passing"]:
            lmax = o["l_max"]
            q, points = points_of_sphere(3 * lmax, lmax)
            first = sum(torch.einsum("eum,pm->eup", x[ir][sender], points[ir[0]]) for ir in x)
            factors = [self.matrix(f"{name}#linear_proj", ir)[:, 0] for ir in natural(lmax)]
            second = sum(torch.einsum("em,pm,u->eup", y[l], points[l], factors[l]) for l in range(lmax + 1))
            for k, ir in enumerate(sorted({ir for _, _, ir in found}, key=key)):
                add(ir, weights[:, k, :, None] * torch.einsum("eup,p,pm->eum", first * second, q, points[ir[0]]))
        else:
            for k, (a, l2, ir) in enumerate(found):
                w = math.sqrt(2 * ir[0] + 1) * coupling(a[0], l2, ir[0])
                add(ir, weights[:, k, :, None] * torch.einsum("eua,eb,abc->euc", x[a][sender], y[l2], w))
        made = {ir: torch.stack(parts, 2).flatten(1, 2) for ir, parts in sums.items()}
        return self.linear(f"{name}#linear_out", made, message_irreps(o))

    def products(self, t, a, species, outs):
        o, name = self.options, f"layers_{t}#expansion_block#symmetric_contraction"
        if o["symmetric_contraction_backend"] == "gaunt_tp":
            lmax, channels = o["l_max"], o["num_channels"]
            q, points = points_of_sphere((o["correlation"] + 1) * lmax, lmax)
            signal = 1.0
            for c in range(o["correlation"]):
                factor = 0.0
                for n, ir in enumerate(natural(lmax)):
                    text = f"{channels}x{ir[0]}{'e' if ir[1] == 1 else 'o'}"
                    w = self.arrays[f"{name}#linear_in_{c}#w[{n},{n}] {text},{text}"] / math.sqrt(channels)
                    factor = factor + torch.einsum("num,uv,pm->nvp", a[ir], w, points[ir[0]])
                if c > 0:
                    factor = factor + self.arrays[f"{name}#gaunt_symmetric_contraction_bias_{c}"][:, None]
                signal = signal * factor
            return {
                ir: self.matrix(f"{name}#linear_out", ir)[species, :, :, 0] * torch.einsum("nup,p,pm->num", signal, q, points[ir[0]])
                for ir in outs
            }

        def multiply(l, v, m, w, out):
            return torch.einsum("nua,nub,abc->nuc", v, w, coupling(l[0], m[0], out[0]))

        zero = torch.zeros_like(a[0, 1])
        x = [(ir, a.get(ir, zero.expand(-1, -1, 2 * ir[0] + 1))) for ir in message_irreps(o)]
        made = powers(x, outs, o["correlation"], multiply)
        out = {}
        for ir in outs:
            values = torch.stack([v for degree in made for found, v in degree if found == ir], 2)
            out[ir] = torch.einsum("nuk,nukm->num", self.matrix(f"{name}#LinearIndexwise_0", ir)[species, :, 0], values)
        return out

    def energy(self, numbers, receiver, sender, vectors):
        o = self.options
        species, r = self.species(numbers), vectors.norm(dim=1)
        y = harmonics(o["l_max"], -vectors / r[:, None])
        radial = self.bessel(r) * self.polynomial(r)[:, None]
        x = {(0, 1): self.embedding("embedding_block#node_embedding_block", species)[:, :, None]}
        energy = torch.zeros(len(species), dtype=torch.float64)
        for t in range(o["num_layers"]):
            outs = node_irreps(o, t + 1)
            has_residual = t > 0 or o["residual_connection_first_layer"]
            a = self.messages(t, x, y, radial, sender, receiver)
            if not has_residual:
                a = self.linear(f"layers_{t}#linear_by_species_block", a, message_irreps(o), species)
            b = self.products(t, a, species, outs)
            b = self.linear(f"layers_{t}#expansion_block#linear_block", b, outs)
            if has_residual:
                for ir, value in self.linear(f"layers_{t}#residual_block", x, outs, species).items():
                    b[ir] = b[ir] + value
            x = b
            head = f"layers_{t}#readout_block#ReadoutBlock_{min(self.head, o['num_readout_heads'] - 1)}#Linear_"
            out = self.linear(f"{head}0", x, [(0, 1)])
            if t + 1 == o["num_layers"]:
                out = self.linear(f"{head}1", {(0, 1): self.activate(o["activation"], out[0, 1])}, [(0, 1)])
            energy = energy + out[0, 1][:, 0, 0]
        return self.total(energy, numbers)
