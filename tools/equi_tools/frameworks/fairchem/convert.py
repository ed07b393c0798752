# SPDX-License-Identifier: MIT
"""eSEN and UMA models of fairchem (the backbones eSCNMDBackbone of fairchem 2 and esen_backbone of fairchem 1, an energy head) ->
document and tensors of an .equi file (doc/model_file.rst).

A file of a UMA model without a composition is one for all systems, with the matrices of all experts. In others charge, spin and task
are folded into the embedding of the species and the biases of norms, and the matrices of experts are mixed for one composition, in
float64. All other numbers are fairchem's, transposed where its matrices are.
"""

import numpy as np
from ase.data import atomic_numbers

from ...errors import EquiError
from ..common.layers import Layers, activated, gated, network, path
from ..common.sphere_points import equal_angle_points
from ..common.state import State
from .system import composition_of, describe, merge

# fairchem's constants: the width of a Gaussian in spacings, the power of the envelope, what divides the sum of the edge degrees, the
# norms' epsilon.
WIDTH_IN_SPACINGS = 2.0
ENVELOPE_POWER = 5
EDGE_DEGREE_SCALE = 0.2
EPSILON = 1e-5
# Numbers that fairchem makes anew, which older files hold.
MADE_ANEW = ("expand_index", "offset", "balance_degree_weight", "coefficient_index")


def grid_of(options):
    """(latitudes, longitudes) of the grid on which networks of atoms are evaluated."""
    both, lmax = options["grid_resolution"], options["lmax"]
    return (both, both) if both is not None else (2 * (lmax + 1), 2 * (lmax + 1) + 1)


class Converter(Layers):
    """checkpoint: of fairchem_checkpoint; task: the data set whose energy is meant, None where there is one."""

    kind = "eSEN or UMA"

    def __init__(self, checkpoint, task=None, elements=None):
        self.checkpoint, self.options = checkpoint, checkpoint.options
        self.lmax, self.mmax = self.options["lmax"], self.options["mmax"]
        self.channels, self.hidden = self.options["sphere_channels"], self.options["hidden_channels"]
        chosen = [checkpoint.task_name(task)] if task is not None or not checkpoint.is_for_all_systems else sorted(checkpoint.tasks)
        self.tasks, self.heads = {name: checkpoint.tasks[name] for name in chosen}, [checkpoint.head(name) for name in chosen]
        self.state = State(self._numbers_of_the_tasks(), self.kind)
        self.composition = composition_of(checkpoint)
        super().__init__(self._elements(elements))
        self.numbers = [atomic_numbers[e] for e in self.elements]
        self.made = {}  # tensors that depend on the system: by name "embedding", "experts", "task", "charge" or "spin"

    def _numbers_of_the_tasks(self):
        """All numbers but those of other heads and other data sets."""
        kept = {}
        for name, value in self.checkpoint.state.items():
            last = name.rsplit(".", 1)[-1]
            other_head = name.startswith("output_heads.") and not name.startswith(tuple(head.prefix for head in self.heads))
            if not other_head and last not in MADE_ANEW and not last.startswith("Jd_"):
                kept[name] = value
        return kept

    def _elements(self, elements):
        known = list(self.checkpoint.elements)
        for task in self.tasks.values():
            if task.references is not None:
                known = known[: len(task.references) - 1]
        composition = self.composition
        if composition is not None:
            known = [e for e in known if e in composition]
        elements = elements or known
        unknown = [e for e in elements if e not in known]
        if unknown:
            why = "its composition has no" if composition is not None else "does not know"
            raise EquiError(f"--elements: {self.checkpoint.source}: {why} {', '.join(unknown)}")
        if len(set(elements)) != len(elements):
            raise EquiError("--elements: an element is named twice")
        if composition is not None and len(elements) != len(composition):
            raise EquiError(f"--elements: the composition has {', '.join(composition)}, all of which are needed")
        return elements

    # ---- pieces of layers

    def irreps(self, channels):
        return "+".join(f"{channels}x{l}e" for l in range(self.lmax + 1))

    def tensor(self, name, *shape):
        return self.table.add(name, self.state.take(name, *shape))

    def rows_of_elements(self, name, width):
        return self.state.take(name, self.options["max_num_elements"], width)[self.numbers]

    def identity(self, channels):
        name = f"identity.{channels}"
        return name if name in self.table.tensors else self.table.add(name, np.eye(channels, dtype=np.float32))

    def linear(self, source, irreps_in, target, irreps_out, weights, bias=None, accumulate=False):
        """weights: {(i, j): name of a tensor}; bias: that of block 0."""
        blocks = [(i, j, weight, 1.0) for (i, j), weight in weights.items()]
        biases = [] if bias is None else [(0, bias, 1.0)]
        self.add_linear(source, irreps_in, target, irreps_out, blocks, biases, accumulate=accumulate)

    def copy(self, source, target, accumulate=False):
        """target (+)= source, block by block."""
        irreps, one = self.irreps(self.channels), self.identity(self.channels)
        self.linear(source, irreps, target, irreps, {(l, l): one for l in range(self.lmax + 1)}, accumulate=accumulate)

    def dense(self, name, numbers, widths):
        """(names of the matrices, names of the biases) of the dense layers name.NUMBER between these widths."""
        parts = []
        for n, width, out in zip(numbers, widths, widths[1:]):
            matrix = self.table.add(f"{name}.{n}.weight", self.state.take(f"{name}.{n}.weight", out, width).T)
            parts.append((matrix, self.tensor(f"{name}.{n}.bias", out)))
        return zip(*parts)

    def norms_between(self, net, width):
        """Those behind the first and the second layer of a radial network."""
        norms = [{key: self.tensor(f"{net}.{n}.{key}", width) for key in ("weight", "bias")} | {"epsilon": EPSILON} for n in (1, 4)]
        return [*norms, None]

    def radial(self, name, num_out):
        """A radial network on distance and species of both atoms."""
        net, edge = f"{name}.rad_func.net", self.options["edge_channels"]
        weights, biases = self.dense(net, (0, 3, 6), [self.options["num_distance_basis"] + 2 * edge, edge, edge, num_out])
        return network(
            weights, "silu", biases=biases, norms=self.norms_between(net, edge), sender="backbone.source_embedding.weight",
            receiver="backbone.target_embedding.weight",
        )  # fmt: skip

    def norm(self, name, source, target, with_system=False):
        """with_system: the embedding of the system is added to the scalars behind it."""
        kind, channels, orders = self.options["norm_type"], self.channels, list(range(self.lmax + 1))
        groups = {
            "rms_norm_sh": [(orders, [1.0 / ((2 * l + 1) * (self.lmax + 1)) for l in orders])],
            "layer_norm_sh": [([0], [1.0]), (orders[1:], [1.0 / ((2 * l + 1) * self.lmax) for l in orders[1:]])],
            "layer_norm": [([l], [1.0 / (2 * l + 1)]) for l in orders],
        }[kind]
        if kind == "layer_norm_sh":
            first = self.state.take(f"{name}.norm_l0.weight", channels)
            scale = np.concatenate([first[None], self.state.take(f"{name}.affine_weight", self.lmax, channels)])
            bias = self.state.take(f"{name}.norm_l0.bias", channels)
        else:
            scale = self.state.take(f"{name}.affine_weight", self.lmax + 1, channels)
            bias = self.state.take(f"{name}.affine_bias", channels)
        if with_system:
            self.made[f"{name}.bias"] = "embedding"
        irreps = self.irreps(channels)
        self.add_spherical_norm(
            source, irreps, target, [(blocks, [w / channels for w in weights], 0 in blocks) for blocks, weights in groups],
            EPSILON, self.table.add(f"{name}.scale", scale), bias=self.table.add(f"{name}.bias", bias),
        )  # fmt: skip

    def so2_linear(self, name, channels_in, channels, gate):
        def matrix(of_m, orders, orders_out, parts=1):
            """Name of the tensor [in, out], or one for each of the parts that its rows have."""
            source, shape = f"{name}.{of_m}", (orders_out * channels, orders * channels_in)
            experts = f"{source}.weights" in self.state.source
            if experts and not self.checkpoint.num_experts:
                raise EquiError(f"tensor {source}.weights: matrices of experts in a model without experts")
            lead = (self.checkpoint.num_experts,) if experts else ()
            found = self.state.take(f"{source}.weights" if experts else f"{source}.weight", *lead, *shape)
            found = found.reshape(*lead, parts, shape[0] // parts, shape[1]).swapaxes(-1, -2)
            target = self.table.add(source, found if parts > 1 else found.reshape(*lead, shape[1], shape[0]))
            if experts:
                self.made[target] = "experts"
            return target

        rows = self.lmax + 1 + (self.lmax if gate else 0)
        weights = [matrix("fc_m0", self.lmax + 1, rows)]
        for m in range(1, self.mmax + 1):
            orders = self.lmax + 1 - m
            # Rows of the real and of the imaginary part.
            weights.append(matrix(f"so2_m_conv.{m - 1}.fc", orders, 2 * orders, 2))
        linear = {"channels": channels, "weights": weights, "bias": self.tensor(f"{name}.fc_m0.bias", rows * channels)}
        return linear | ({"gate": {"scalars": "silu", "gates": "sigmoid"}} if gate else {})

    # ---- the model

    def initial_features(self, target):
        """The embedding of the species, and a convolution of 1 in all channels with the harmonics of edges."""
        scalars, irreps = f"{self.channels}x0e", self.irreps(self.channels)
        name = "backbone.sphere_embedding.weight"
        self.add_species_embedding("embedding", name, self.rows_of_elements(name, self.channels))
        self.made[name] = "embedding"
        self.add_species_embedding("ones", "ones", np.ones((len(self.numbers), self.channels), np.float32))
        paths = [path(0, l, l, EDGE_DEGREE_SCALE) for l in range(self.lmax + 1)]
        radial = self.radial("backbone.edge_degree_embedding", (self.lmax + 1) * self.channels) | {"times_cutoff": True}
        self.add_convolution("ones", scalars, "edge_degrees", irreps, paths, radial)
        self.copy("edge_degrees", target)
        self.linear("embedding", scalars, target, irreps, {(0, 0): self.identity(self.channels)}, accumulate=True)

    def block(self, t, source, target):
        """Messages of edges, then a network of each atom, each added to what it begins with."""
        name, irreps = f"backbone.blocks.{t}", self.irreps(self.channels)
        normed, messages, middle = f"y{t}", f"m{t}", f"z{t}"
        self.norm(f"{name}.norm_1", source, normed, with_system=True)
        conv = f"{name}.edge_wise.so2_conv"
        num_factors = sum(self.lmax + 1 - m for m in range(self.mmax + 1)) * 2 * self.channels
        self.add("so2_convolution", normed, irreps, messages, irreps, mmax=self.mmax,
                 radial=self.radial(f"{conv}_1", num_factors),
                 linears=[self.so2_linear(f"{conv}_1", 2 * self.channels, self.hidden, True),
                          self.so2_linear(f"{conv}_2", self.hidden, self.channels, False)])  # fmt: skip
        self.copy(source, middle)
        self.copy(messages, middle, accumulate=True)

        self.norm(f"{name}.norm_2", middle, f"v{t}")
        wide = self.irreps(self.hidden)
        if self.options["ff_type"] == "grid":
            self.grid_network(f"{name}.atom_wise.grid_mlp", f"v{t}", f"h{t}")
            self.copy(middle, target)
            self.copy(f"h{t}", target, accumulate=True)
            return
        self.gated_linear(t, f"{name}.atom_wise", f"v{t}", f"h{t}")
        self.copy(middle, target)
        self.linear_per_order(f"{name}.atom_wise.so3_linear_2", f"h{t}", wide, target, irreps, accumulate=True)

    def grid_network(self, name, source, target):
        """Three matrices with silu between them at the points of a grid, with e3nn's harmonics of the normalization "integral"."""
        latitudes, longitudes = grid_of(self.options)
        values, weights = equal_angle_points(self.lmax, latitudes, longitudes)
        norm = np.sqrt(4.0 * np.pi)
        for key, array in (("to", values / norm), ("from", norm * weights[:, None] * values)):
            if f"grid.{key}" not in self.table.tensors:
                self.table.add(f"grid.{key}", array)
        widths, matrices = (self.channels, self.hidden, self.hidden, self.channels), []
        for k, n in enumerate((0, 2, 4)):
            matrix = self.state.take(f"{name}.{n}.weight", widths[k + 1], widths[k])
            matrices.append(self.table.add(f"{name}.{n}.weight", matrix.T))
        irreps = self.irreps(self.channels)
        self.add("grid_network", source, irreps, target, irreps, points=latitudes * longitudes, to="grid.to",
                 **{"from": "grid.from"}, network=network(matrices, "silu"))  # fmt: skip

    def balance(self, source, t):
        """The name of the feature with sums over all atoms that are the charge of the system, and the spin multiplicity less one."""
        for kind in ("charge", "spin"):
            channels = self.options[f"{kind}_balanced_channels"]
            if not channels:
                continue
            target, name = f"{kind}{t}", f"ones.{len(channels)}.{kind}"
            if name not in self.table.tensors:
                self.made[self.table.add(name, np.ones(len(channels)))] = kind
            irreps = self.irreps(self.channels)
            self.add("channel_balance", source, irreps, target, irreps, block=0, first=channels[0], target=name)
            source = target
        return source

    def linear_per_order(self, name, source, irreps_in, target, irreps_out, accumulate=False):
        """A matrix for each l and a bias of the scalars; irreps_out may have further blocks."""
        widths = [int(irreps.split("x")[0]) for irreps in (irreps_in, irreps_out)]
        matrices = self.state.take(f"{name}.weight", self.lmax + 1, widths[1], widths[0])
        weights = {(l, l): self.table.add(f"{name}.weight.{l}", matrix.T) for l, matrix in enumerate(matrices)}
        bias = self.tensor(f"{name}.bias", widths[1])
        self.linear(source, irreps_in, target, irreps_out, weights, bias, accumulate)

    def gated_linear(self, t, name, source, target):
        """so3_linear_1 and its gates, which are activated twice: by silu, then by sigmoid."""
        irreps, hidden = self.irreps(self.channels), self.hidden
        gates, wide = f"{self.lmax * hidden}x0e", self.irreps(hidden)
        matrix = self.state.take(f"{name}.scalar_mlp.0.weight", self.lmax * hidden, self.channels)
        weight = self.table.add(f"{name}.scalar_mlp.0.weight", matrix.T)
        bias = self.tensor(f"{name}.scalar_mlp.0.bias", self.lmax * hidden)
        self.linear(source, irreps, f"s{t}", gates, {(0, 0): weight}, bias)
        self.add_activation(f"s{t}", f"a{t}", gates, "silu")
        # Beside the features, as a gate has them.
        both, last = f"{wide}+{gates}", self.lmax + 1
        self.linear_per_order(f"{name}.so3_linear_1", source, irreps, f"u{t}", both)
        self.linear(f"a{t}", gates, f"u{t}", both, {(0, last): self.identity(self.lmax * hidden)}, accumulate=True)
        terms = [activated(0, "silu")] + [gated(l, l, 0, last, (l - 1) * hidden, "sigmoid") for l in range(1, last)]
        self.add_gate(f"u{t}", both, target, wide, terms)

    def of_tasks(self, name, arrays):
        """The tensor of an array for each task, which is stored once if all of them are the same."""
        if any(not np.array_equal(array, arrays[0]) for array in arrays):
            self.made[name] = "task"
            return self.table.add(name, np.stack(arrays))
        return self.table.add(name, arrays[0])

    def head_matrix(self, head, name, out, width):
        """A matrix [in, out] of a head, which may have one for each kind of data set."""
        if not head.experts:
            return self.state.take(f"{head.prefix}{name}.weight", out, width).T
        return self.state.take(f"{head.prefix}{name}.weights", head.experts, out, width)[head.expert].T

    def energies(self, source):
        irreps = self.irreps(self.channels)
        self.norm("backbone.norm", source, "last")
        widths, weights, biases = (self.channels, self.hidden, self.hidden, 1), [], []
        for k, n in enumerate((0, 2, 4)):
            name, shape = f"energy_block.{n}", (widths[k + 1], widths[k])
            weights.append(self.of_tasks(f"head.{n}.weight", [self.head_matrix(head, name, *shape) for head in self.heads]))
            bias = self.of_tasks(f"head.{n}.bias", [self.state.take(f"{head.prefix}{name}.bias", shape[0]) for head in self.heads])
            biases.append(bias)
        self.add_readout("last", irreps, 0, network(weights, "silu", biases=biases))
        ones, references = np.ones(len(self.elements)), [task.references for task in self.tasks.values()]
        scales = [task.rmsd * ones for task in self.tasks.values()]
        shifts = [0.0 * ones if found is None else found[self.numbers] for found in references]
        self.add_scale_shift(self.of_tasks("scale", scales), self.of_tasks("shift", shifts))

    def document(self):
        """The architecture part of the document, and the tensors."""
        cutoff = self.checkpoint.cutoff
        for name in ("source", "target"):
            name = f"backbone.{name}_embedding.weight"
            self.table.add(name, self.rows_of_elements(name, self.options["edge_channels"]))
        x = "x0"
        self.initial_features(x)
        for t in range(self.options["num_layers"]):
            self.block(t, x, f"x{t + 1}")
            x = self.balance(f"x{t + 1}", t + 1)
        self.energies(x)
        name, neighbors = "UMA" if self.checkpoint.num_experts else "eSEN", self.options["max_neighbors"]
        body, tensors = self.finished(name, cutoff, self.lmax, False, self.radial_basis(cutoff), max_neighbors=neighbors)
        if not self.checkpoint.has_system:
            self.state.finish()
            return body, tensors
        mixture = describe(self.checkpoint, self.state, list(self.tasks), self.numbers, self.table)
        self._leave_other_systems()
        self.state.finish()
        body["mixture"] = mixture | {"tensors": self.made}
        if self.checkpoint.is_for_all_systems:
            return body, tensors
        (task,) = self.tasks
        return merge(body, tensors, task, self.checkpoint.charge, self.checkpoint.spin_of(task), self.composition)

    def radial_basis(self, cutoff):
        size, envelope = self.options["num_distance_basis"], {"kind": "polynomial", "p": ENVELOPE_POWER}
        if self.options["distance_function"] == "bessel":
            name = "backbone.distance_expansion.rbf.frequencies"
            frequencies = self.state.take(name, size).astype(np.float64)
            # sqrt(2/c^3) / (r/c) sin(f r/c) times the envelope.
            return {"kind": "bessel", "wave_numbers": self.table.add(name, frequencies / cutoff), "prefactor": float(np.sqrt(2.0 / cutoff)),
                    "cutoff_function": envelope}  # fmt: skip
        centers = np.linspace(0.0, cutoff, size)
        return {
            "kind": "gaussian",
            "centres": self.table.add("backbone.distance_expansion.offset", centers),
            "width": WIDTH_IN_SPACINGS * float(centers[1] - centers[0]),
            "cutoff_function": envelope,
            "apply_cutoff": False,
        }

    def _leave_other_systems(self):
        """Embeddings of other data sets are no part of this model."""
        for name in self.state.source:
            if name.startswith("backbone.dataset_embedding.dataset_emb_dict."):
                self.state.taken.add(name)


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    return Converter(checkpoint, choice, elements).document()
