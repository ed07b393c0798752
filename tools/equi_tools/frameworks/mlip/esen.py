# SPDX-License-Identifier: MIT
"""eSEN of mlip: its options, and the layers of an .equi file that stand for it (doc/model_file.rst).

It is fairchem's eSEN but for names, small constants and the edges' vectors, which are r_i - r_j: a half turn of their frames
gives components of order l the sign (-1)^l, and takes those of m > 0 to their complex conjugates.
"""

import re
from math import sqrt

import numpy as np

from ...errors import EquiError
from ...printable import printable
from ..common.esen_layers import EsenLayers
from ..common.layers import network
from ..common.numbers import activate, mixed, softmax
from ..common.state import State
from . import options as mlip_options
from .layers import ForceField

KIND, MODEL = "mlip's eSEN", "Esen"
TAKEN = {
    "add_atomic_energies", "num_layers", "sphere_channels", "hidden_channels", "edge_channels", "l_max", "m_max", "radial_envelope",
    "radial_basis", "num_rbf", "basis_width_scalar", "cosine_cutoff", "norm_type", "trainable_rbf", "num_readout_heads",
    "moe",
}  # fmt: skip
IGNORED = {"use_remat_edgewise", "use_quaternion"}
# Options with one supported value, and why.
REFUSED = {
    "act_type": ("gate", "mlip has no other activation either"),
}  # fmt: skip
# Options of the experts, and what they may be mixed by.
EXPERTS = {"num_experts", "routing_globals", "embed_dim", "router_hidden_dims", "router_activation", "embedding_type", "embedding_scale"}
ROUTES = ("charge", "spin_multiplicity", "dataset_idx")
ROWS, FIRST_ROW = 201, -100  # of an embedding of numbers by a table
NORMS = ("rms_norm_sh", "layer_norm_sh", "layer_norm")
BASES = ("gauss", "bessel", "expnorm")
ENVELOPES = {"polynomial_envelope": {"kind": "polynomial", "p": 5}, "cosine_cutoff": {"kind": "cosine"}}
# Norms that divide orders by their own size, and when that is nearly zero.
SHARP_NORMS = {"layer_norm_sh": "all orders above 0 vanish", "layer_norm": "an order vanishes"}
# mlip's constants: what it adds to divisors and to the width of a Gaussian, and the epsilon of norms.
ADDED = EPSILON = 1e-12
# Tensors of fairchem's names: patterns, mlip's names, and whether mlip's matrices are transposed.
PREFIXES = (
    (r"(source|target)_embedding\.weight", r"embedding_block#\1_embedding#embed#embedding"),
    (r"edge_degree_embedding", "embedding_block#edge_degree_embedding"),
    (r"blocks\.(\d+)", r"esen_layers_\1"),
    (r"norm(?=[.#])", "pre_readout_norm"),
)
ENDINGS = (
    (r"\.net\.([036])\.weight", lambda found: f"#layers_{int(found[1]) // 3}#kernel", True),
    (r"\.net\.([036])\.bias", lambda found: f"#layers_{int(found[1]) // 3}#bias", False),
    (r"\.net\.([14])\.weight", lambda found: f"#layer_norms_{int(found[1]) // 3}#scale", False),
    (r"\.net\.([14])\.bias", lambda found: f"#layer_norms_{int(found[1]) // 3}#bias", False),
    (r"\.norm_l0\.weight", "#norm_l0#scale", False),
    (r"\.so2_m_conv\.(\d+)\.fc\.weight", r"#so2_m_conv_\1#fc#kernel", True),
    (r"\.so2_m_conv\.(\d+)\.fc\.weights", r"#so2_m_conv_\1#fc#expert_kernel", True),
    (r"\.fc_m0\.weight", "#fc_m0#kernel", True),
    (r"\.fc_m0\.weights", "#fc_m0#expert_kernel", True),
    (r"\.scalar_mlp\.0\.weight", "#scalar_dense#kernel", True),
    (r"\.scalar_mlp\.0\.bias", "#scalar_dense#bias", False),
)


def check(options):
    """Refuses what the converter does not represent."""
    mlip_options.known_alone(options, KIND, TAKEN, IGNORED, REFUSED)
    for key in ("num_layers", "sphere_channels", "hidden_channels", "edge_channels", "l_max", "num_readout_heads"):
        mlip_options.whole(options, key, 1)
    mlip_options.whole(options, "m_max", 0)
    mlip_options.whole(options, "num_rbf", 2)
    mlip_options.number(options, "basis_width_scalar", 0, "config")
    if options["m_max"] > options["l_max"]:
        raise EquiError("option m_max is larger than l_max")
    for key, known in (("norm_type", NORMS), ("radial_basis", BASES), ("radial_envelope", ENVELOPES)):
        if options[key] not in known:
            raise EquiError(f"option {key} {printable(str(options[key]), 60)} is not supported, only {', '.join(known)}")
    if options["moe"] is not None:
        _check_experts(options["moe"])
    basis, envelope = options["radial_basis"], envelope_of_basis(options)
    if envelope is not None and basis == "gauss":
        raise EquiError("option cosine_cutoff with radial_basis gauss is not supported: mlip cuts each Gaussian at a distance of its own")
    if envelope is not None and envelope != options["radial_envelope"]:
        raise EquiError(
            f"option radial_envelope {options['radial_envelope']} is not supported with radial_basis {basis}, which mlip multiplies by "
            f"{envelope}: a model has one envelope"
        )


def _check_experts(experts):
    if not isinstance(experts, dict) or set(experts) != EXPERTS:
        raise EquiError(f"option moe: expected {', '.join(sorted(EXPERTS))}, found {printable(str(experts), 80)}")
    mlip_options.whole(experts, "num_experts", 1)
    mlip_options.whole(experts, "embed_dim", 1)
    mlip_options.widths(experts, "router_hidden_dims")
    routes = experts["routing_globals"]
    if not isinstance(routes, list) or not routes or len(set(routes) & set(ROUTES)) != len(routes):
        raise EquiError(f"option moe: routing_globals: expected some of {', '.join(ROUTES)}, found {printable(str(routes), 60)}")
    if experts["embedding_type"] not in ("pos_emb", "lin_emb", "rand_emb"):
        raise EquiError(f"option moe: embedding_type {printable(str(experts['embedding_type']), 60)} is not known")


def envelope_of_basis(options):
    """The name of what mlip multiplies its radial functions by, or None; messages are multiplied by radial_envelope."""
    if options["cosine_cutoff"] or options["radial_basis"] == "expnorm":
        return "cosine_cutoff"
    return None if options["radial_basis"] == "gauss" else "polynomial_envelope"


def own_name(name):
    """(mlip's name, whether its matrix is transposed) of a tensor of fairchem's name; other names are mlip's already."""
    transposed = False
    for pattern, ending, turned in ENDINGS:
        name, count = re.subn(rf"{pattern}$", ending, name)
        if count:
            transposed = turned
            break
    for pattern, prefix in PREFIXES:
        name, count = re.subn(rf"^{pattern}", prefix, name)
        if count:
            break
    return name.replace(".", "#"), transposed


class Numbers(State):
    """mlip's numbers as those of fairchem: by its names, in its order of rows and columns, for edges r_j - r_i."""

    def __init__(self, source, kind, lmax):
        super().__init__(source, kind)
        self.lmax = lmax

    def __contains__(self, name):
        return own_name(name)[0] in self.source

    def array(self, name, shape=None):
        own, transposed = own_name(name)
        if not transposed:
            return self.turned(name, super().array(own, shape))
        shape = shape if shape is None else (*shape[:-2], shape[-1], shape[-2])
        return self.turned(name, super().array(own, shape).swapaxes(-1, -2))

    def signs(self, m, count):
        """(-1)^l for l from m on, for so many components and channels of all l."""
        orders = np.arange(m, self.lmax + 1)
        return np.repeat((-1.0) ** orders, count // len(orders))

    def turned(self, name, array):
        """What the half turn of frames makes of numbers, which stay those that they are but for signs."""
        m, rows, columns = 0, None, None
        if re.search(r"edge_degree_embedding\.rad_func\.net\.6\.", name) or re.search(r"so2_conv_2\.fc_m0\.bias", name):
            return array * self.signs(0, array.shape[0]).reshape(-1, *[1] * (array.ndim - 1)).astype(array.dtype)
        found = re.search(r"so2_conv_([12])\.(?:fc_m0|so2_m_conv\.(\d+)\.fc)\.weights?$", name)
        if not found:
            return array
        m = 0 if found[2] is None else int(found[2]) + 1
        rows, columns = np.ones(array.shape[-2]), np.ones(array.shape[-1])
        if m > 0:
            rows[len(rows) // 2 :] = -1.0  # the imaginary part
        if found[1] == "1":
            columns = self.signs(m, len(columns))
        else:
            parts = 1 if m == 0 else 2
            rows = rows * np.tile(self.signs(m, len(rows) // parts), parts)
        return array * np.outer(rows, columns).astype(array.dtype)


class Converter(ForceField, EsenLayers):
    kind = KIND
    epsilon = EPSILON
    edge_degree_scale = 1.0 / (5.0 + ADDED)

    def named(self, options):
        """Besides its own options those that all eSEN have, by fairchem's names."""
        return options | {
            "lmax": options["l_max"], "mmax": options["m_max"], "num_distance_basis": options["num_rbf"], "ff_type": "spectral",
        }  # fmt: skip

    def numbers(self, source):
        return Numbers(source, self.kind, self.options["l_max"])

    def __init__(self, checkpoint, head, elements):
        super().__init__(checkpoint, head, elements)
        self.experts = self.options["moe"]
        self.num_experts = self.experts["num_experts"] if self.experts else 0

    def rows_of_elements(self, name, width):
        if name == "sphere_embedding.weight":
            return self.embedding("embedding_block#node_embedding", width, scaled=False)[0]
        return self.state.take(name, self.num_species, width)[self.species]

    def weight_of_order(self, l, count):
        """mlip has these weights in float32, and XLA multiplies by the rounded reciprocal of a constant where it divides by it."""
        return float(np.float32(1.0 / (2 * l + 1)) * (np.float32(1.0) / np.float32(count)))

    def energies(self, source):
        self.norm("norm", source, "last")
        sizes = [self.channels, self.channels, self.hidden, 1]
        for head in range(self.options["num_readout_heads"]):
            name, parts = f"readout_block#ReadoutBlock_{head}#MLP_0", []
            for n, shape in enumerate(zip(sizes, sizes[1:])):
                parts.append((self.state.take(f"{name}#layers_{n}#kernel", *shape), self.state.take(f"{name}#layers_{n}#bias", shape[1])))
            if head == self.head_of_readout:
                layers = parts
        weights = [self.table.add(f"readout.{n}.weight", weight) for n, (weight, _) in enumerate(layers)]
        biases = [self.table.add(f"readout.{n}.bias", bias) for n, (_, bias) in enumerate(layers)]
        self.add_readout("last", self.irreps(self.channels), 0, network(weights, "silu", biases=biases))
        self.scale_shift()

    def radial_basis(self):
        options, cutoff, count = self.options, self.checkpoint.cutoff, self.options["num_rbf"]
        envelope, name = ENVELOPES[options["radial_envelope"]], "embedding_block#radial_embedding"
        if options["radial_basis"] == "bessel":
            return self.bessel_functions() | {"cutoff_function": envelope}
        if options["radial_basis"] == "expnorm":
            start = np.exp(-cutoff)
            means, factors = np.linspace(start, 1.0, count), np.full(count, (2.0 / count * (1.0 - start)) ** -2)
            if options["trainable_rbf"]:
                means, factors = (self.state.take(f"{name}#{key}", count) for key in ("means", "betas"))
            return {
                "kind": "exp_normal", "means": self.table.add("radial_basis.means", means),
                "factors": self.table.add("radial_basis.factors", factors), "decay": 5.0 / cutoff, "cutoff_function": envelope,
            }  # fmt: skip
        centers = np.linspace(0.0, cutoff, count)
        width = options["basis_width_scalar"] * float(centers[1] - centers[0]) + ADDED
        if options["trainable_rbf"]:
            centers, factor = self.state.take(f"{name}#offset", count), self.state.number(f"{name}#coeff")
            if not factor < 0.0:
                raise EquiError(f"tensor {name}#coeff: {factor:g} is not negative, and the functions are no Gaussians")
            width = sqrt(-0.5 / factor)
        return {
            "kind": "gaussian", "centres": self.table.add("radial_basis.centers", centers), "width": width, "cutoff_function": envelope,
            "apply_cutoff": False,
        }  # fmt: skip

    def embedded(self, kind, value):
        """The embedding of a number that experts are mixed by."""
        name, width, type_ = "globals_embedding", self.experts["embed_dim"], self.experts["embedding_type"]
        if type_ == "rand_emb":
            row = min(max(value - FIRST_ROW, 0), ROWS - 1)
            return self.state.take(f"{name}#embedding_table_{kind}", ROWS, width)[row]
        if type_ == "lin_emb":
            kernel = self.state.take(f"{name}#linear_embedding_{kind}#kernel", 1, width)[0].astype(np.float64)
            return value * kernel + self.state.take(f"{name}#linear_embedding_{kind}#bias", width)
        angles = 2 * np.pi * value * self.state.take(f"{name}#frequencies_{kind}", width // 2).astype(np.float64)
        return np.concatenate([np.sin(angles), np.cos(angles)])

    def coefficients(self):
        """[experts]: for the charge and the spin that the user states, and the data set of the head."""
        values = {"charge": self.checkpoint.charge, "spin_multiplicity": self.checkpoint.spin, "dataset_idx": self.head}
        kinds, hidden = self.experts["routing_globals"], self.experts["router_hidden_dims"]
        x = np.concatenate([self.embedded(kind, values[kind]) for kind in kinds]).astype(np.float64)
        activation = self.activation("router_activation", self.experts)[0]
        for n, width in enumerate([*hidden, self.num_experts]):
            name = f"router#hidden_{n}" if n < len(hidden) else "router#logits"
            x = x @ self.state.take(f"{name}#kernel", len(x), width) + self.state.take(f"{name}#bias", width)
            x = activate(activation, x) if n < len(hidden) else softmax(x)
        return x

    def mix_experts(self):
        coefficients = self.coefficients()
        for name, kind in self.made.items():
            if kind == "experts":
                self.table.tensors[name] = mixed(coefficients, self.table.tensors[name])

    def note_sharp_norms(self):
        vanishing = SHARP_NORMS.get(self.options["norm_type"])
        if vanishing:
            self.checkpoint.remarks += (
                f"norm_type {self.options['norm_type']}: where {vanishing} by symmetry, mlip's norms multiply deviations from it, and errors "
                f"of rounding, by {EPSILON**-0.5:.0e}: forces change within {EPSILON**0.5:.0e} Angstrom; use precision double",
            )  # fmt: skip

    def document(self):
        radial_basis = self.radial_basis()
        self.energies(self.add_features())
        if self.num_experts:
            self.mix_experts()
        self.state.finish()
        self.note_sharp_norms()
        return self.finished("eSEN", self.checkpoint.cutoff, self.lmax, False, radial_basis)
