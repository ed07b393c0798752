# SPDX-License-Identifier: MIT
"""So3krates and SO3LR models -> document and tensors of an .equi file (doc/model_file.rst).

An atom has F scalars x and one channel of a tensor of each degree, chi. The package's harmonics are those of the format divided by
sqrt(4 pi), and of the opposite direction: only squares of chi and factors of it are formed, so the sign does not matter.
"""

from math import pi, sqrt

import numpy as np

from ...errors import EquiError
from ...irreps import SCALAR, Irrep, Irreps
from ..common.elements import chosen_elements
from ..common.layers import Layers, activated, gated, network, path
from ..common.numbers import softplus
from .checkpoint import ENERGY, ROWS_OF_CHARGES
from .free_atoms import C6, POLARIZABILITIES

EPSILON = 1e-6  # of the norms
LEAST_SHARE = 1e-6  # what is added to a sum over atoms of the embedding of a charge
COULOMB_CONSTANT = 14.399645351950548  # eV Angstrom, as the package has it
COULOMB_ON = 0.45  # of the long-range cutoff, where the shifted potential begins to become the one with a shifted force
REPULSION_OFF = 1.5  # Angstrom, where the repulsion ends
HARMONICS = 1 / sqrt(4 * pi)


def block_diagonal(matrices):
    """A matrix of the blocks [n, in, out], zero outside them."""
    matrices = [np.asarray(matrix) for matrix in matrices]
    rows, columns = (np.cumsum([0, *(matrix.shape[k] for matrix in matrices)]) for k in range(2))
    made = np.zeros((rows[-1], columns[-1]), np.result_type(*matrices))
    for i, j, matrix in zip(rows, columns, matrices):
        made[i : i + matrix.shape[0], j : j + matrix.shape[1]] = matrix
    return made


class _Converter(Layers):
    def __init__(self, checkpoint, choice, elements):
        known = chosen_elements(elements, checkpoint.known, checkpoint.source)
        super().__init__(known if elements else checkpoint.elements)
        from ase.data import atomic_numbers

        self.checkpoint, self.state, self.options = checkpoint, checkpoint.state, checkpoint.options
        self.head = checkpoint.head_index(choice)
        self.numbers = np.array([atomic_numbers[symbol] for symbol in self.elements])
        self.degrees, self.F = list(self.options["degrees"]), self.options["num_features"]
        self.scalars = Irreps([(self.F, SCALAR)])
        self.tensors = Irreps([(1, Irrep(l, (-1) ** l)) for l in self.degrees])
        self.made = {}  # tensors that depend on the system

    def matrix(self, name, rows, columns):
        """A trained matrix as [in, out]."""
        return self.state.take(f"{name}.weight", columns, rows).T

    def dense(self, name, source, rows, target, columns, activation="identity"):
        """A linear layer of scalars, and an activation of what it writes."""
        before = target if activation == "identity" else f"{target}_linear"
        weight = self.table.add(f"{name}.weight", self.matrix(name, rows, columns))
        bias = self.table.add(f"{name}.bias", self.state.take(f"{name}.bias", columns))
        self.add_linear(source, f"{rows}x0e", before, f"{columns}x0e", [(0, 0, weight, 1.0)], [(0, bias, 1.0)])
        if before != target:
            self.add_activation(before, target, f"{columns}x0e", activation)

    def copy(self, source, irreps, target, block=0):
        """A block of scalars by itself."""
        irreps = Irreps(irreps)
        self.add_gate(source, irreps, target, Irreps([irreps[block]]), [activated(0, "identity", source=block)])

    def pass_on(self, source, irreps, first, target, irreps_out, first_out, accumulate=False):
        """The tensors, one channel of each degree, from block `first` of a feature on."""
        if "unit" not in self.table.tensors:
            self.table.add("unit", np.ones((1, 1), np.float32))
        blocks = [(first + g, first_out + g, "unit", 1.0) for g in range(len(self.degrees))]
        self.add_linear(source, irreps, target, irreps_out, blocks, accumulate=accumulate)

    # Embedding

    def embedding(self):
        options, name = self.options, "inv_feature_embedding.embedding.weight"
        rows = self.of_species(name)
        kinds = [kind for kind in ("charge", "spin") if options[f"use_{kind}_embed"]]
        self.add_species_embedding("x0", name, rows, 1 / sqrt(1 + len(kinds)))
        if kinds:
            self.made[name] = "shares"
        shares = {kind: self.shares(f"{kind}_embedding") for kind in kinds}
        if not options["initialize_ev_to_zeros"]:
            self.first_tensors()
        return shares

    def of_species(self, name):
        """Rows of the chosen elements of a matrix [channels, elements]."""
        return self.state.take(name, self.F, self.options["num_elements"])[:, self.numbers - 1].T

    def shares(self, name):
        """How a charge or spin is divided among the atoms (the field `shares` of a mixture)."""
        table, F = self.table, self.F
        return {
            "query": table.add(f"{name}.Wq.weight", self.of_species(f"{name}.Wq.weight")),
            "key": table.add(f"{name}.Wk", self.state.take(f"{name}.Wk", 2, F)),
            "value": table.add(f"{name}.Wv", self.state.take(f"{name}.Wv", 2, F)),
            "scale": 1 / sqrt(F),
            "epsilon": LEAST_SHARE,
            "weights": [table.add(f"{name}.mlp.{n}.weight", self.matrix(f"{name}.mlp.{n}", F, F)) for n in (1, 3)],
        }

    def first_tensors(self):
        """Sums of the harmonics of all neighbors."""
        functions, groups = len(self.functions), len(self.degrees)
        self.add_species_embedding("one", "one", np.ones((len(self.elements), 1), np.float32))
        radial = network(
            [self.table.add("first_tensors.weight", np.zeros((functions, groups), np.float32))],
            biases=[self.table.add("first_tensors.bias", np.ones(groups, np.float32))], times_cutoff=True,
        )  # fmt: skip
        factor = HARMONICS / float(self.options["avg_num_neighbors"])
        paths = [path(0, l, g, sqrt(2 * l + 1) * factor) for g, l in enumerate(self.degrees)]
        self.add_convolution("one", "1x0e", "chi0", self.tensors, paths, radial)

    # Layers

    def attention(self, t, has_tensors):
        """Writes a{t}, what the neighbors add to x and chi."""
        name, F, heads, groups = f"euclidean_transformers.{t}", self.F, self.options["num_heads"], len(self.degrees)
        block = f"{name}.euclidean_attention_block"
        irreps = Irreps([*self.scalars * 5, *(self.tensors if has_tensors else ())])
        blocks = []
        parts = {"q_inv": heads, "k_inv": heads, "v_inv": heads, "q_ev": groups, "k_ev": groups}
        for k, (part, count) in enumerate(parts.items()):
            matrices = self.state.take(f"{block}.W_{part}", count, F // count, F // count)
            blocks.append((0, k, self.table.add(f"{block}.W_{part}", block_diagonal(matrices)), 1.0))
        self.add_linear(f"x{t}", self.scalars, f"q{t}", irreps, blocks)
        if has_tensors:
            self.pass_on(f"chi{t}", self.tensors, 0, f"q{t}", irreps, 5, accumulate=True)
        of_heads, of_groups = self.checkpoint.divisors[t]
        self.add(
            "pair_attention", f"q{t}", irreps, f"a{t}", self.scalars + self.tensors, heads=heads, scale=1 / of_heads,
            groups=[{"channels": F // groups, "l": l, "scale": HARMONICS / of_groups} for l in self.degrees],
            radial=self.radial_network(name), difference_networks=[self.difference_network(f"{name}.filter_net_{kind}", block)
                                                                   for kind in ("inv", "ev")],
        )  # fmt: skip

    def radial_network(self, name):
        """The networks of heads and of groups side by side."""
        F, functions = self.F, self.options["num_radial_basis_fn"]
        nets = [f"{name}.filter_net_{kind}.mlp_rbf" for kind in ("inv", "ev")]
        matrices = [
            np.concatenate([self.matrix(f"{net}.0", functions, F) for net in nets], axis=1)[self.functions],
            block_diagonal([self.matrix(f"{net}.mlp_rbf_layer_1.0", F, F) for net in nets]),
        ]
        biases = [
            np.concatenate([self.state.take(f"{net}.{layer}.bias", F) for net in nets]) for layer in ("0", "mlp_rbf_layer_1.0")
        ]
        weights = [self.table.add(f"{name}.radial.{n}.weight", matrix) for n, matrix in enumerate(matrices)]
        added = [self.table.add(f"{name}.radial.{n}.bias", bias) for n, bias in enumerate(biases)]
        return network(weights, self.options["activation_fn"], biases=added, times_cutoff=True)

    def difference_network(self, net, block):
        F, groups, name = self.F, len(self.degrees), f"{net}.mlp_ev"
        # The package's squares have factors that are rounded to float32.
        rounded = self.factors_of_squares(block) * np.sqrt(2.0 * np.array(self.degrees) + 1)
        first = self.matrix(f"{name}.0", groups, F // 4).astype(np.float64) * rounded[:, None]
        layers = [("0", first), ("mlp_ev_layer_1.0", self.matrix(f"{name}.mlp_ev_layer_1.0", F // 4, F))]
        weights = [self.table.add(f"{name}.{layer}.weight", matrix) for layer, matrix in layers]
        biases = [(f"{name}.{layer}.bias", matrix.shape[1]) for layer, matrix in layers]
        biases = [self.table.add(bias, self.state.take(bias, size)) for bias, size in biases]
        return network(weights, self.options["activation_fn"], biases=biases)

    def factors_of_squares(self, block):
        """1/sqrt(2 l + 1) for each degree, as the file has them."""
        dims = [2 * l + 1 for l in self.degrees]
        name = f"{block}.so3_conv_invariants.cg_rep"
        found = self.state.take(name, sum(dims)).astype(np.float64)
        factors = found[np.cumsum([0, *dims[:-1]])]
        if np.abs(found - np.repeat(1 / np.sqrt(dims), dims)).max() > 1e-6 or not np.array_equal(found, np.repeat(factors, dims)):
            raise EquiError(f"tensor {name}: expected 1/sqrt(2 l + 1)")
        return factors

    def norm(self, name, source, target):
        weight, bias = (self.table.add(f"{name}.{part}", self.state.take(f"{name}.{part}", self.F)) for part in ("weight", "bias"))
        self.add_layer_norm(source, self.scalars, target, weight, bias, EPSILON)

    def residual(self, name, source, target):
        """What a network of two matrices adds to its input, which it activates first."""
        F, activation = self.F, self.options["activation_fn"]
        self.add_activation(source, f"{target}_activated", self.scalars, activation)
        self.dense(f"{name}.1", f"{target}_activated", F, f"{target}_hidden", F, activation)
        self.copy(source, self.scalars, target)
        weight = self.table.add(f"{name}.3.weight", self.matrix(f"{name}.3", F, F))
        bias = self.table.add(f"{name}.3.bias", self.state.take(f"{name}.3.bias", F))
        self.add_linear(f"{target}_hidden", self.scalars, target, self.scalars, [(0, 0, weight, 1.0)], [(0, bias, 1.0)], accumulate=True)

    def layer(self, t, has_tensors, is_last):
        """From x{t} and chi{t} to those of the next layer; chi is not needed behind the last one."""
        name, options = f"euclidean_transformers.{t}", self.options
        self.attention(t, has_tensors)
        x = f"x{t}_attended"
        self.attended(t, x)
        self.pass_on(f"a{t}", self.scalars + self.tensors, 1, f"c{t}", self.tensors, 0)
        if has_tensors:
            self.pass_on(f"chi{t}", self.tensors, 0, f"c{t}", self.tensors, 0, accumulate=True)
        if options["layer_normalization_1"]:
            self.norm(f"{name}.layer_norm_inv_1", x, f"x{t}_norm_1")
            x = f"x{t}_norm_1"
        if options["residual_mlp_1"]:
            self.residual(f"{name}.mlp_1", x, f"x{t}_mlp_1")
            x = f"x{t}_mlp_1"
        steps = [f"x{t}_interaction"]
        if options["residual_mlp_2"]:
            steps.append(f"x{t}_mlp_2")
        if options["layer_normalization_2"]:
            steps.append(f"x{t}_norm_2")
        steps[-1] = f"x{t + 1}"
        self.interaction(t, x, steps[0], is_last)
        if options["residual_mlp_2"]:
            self.residual(f"{name}.mlp_2", steps[0], steps[1])
        if options["layer_normalization_2"]:
            self.norm(f"{name}.layer_norm_inv_2", steps[-2], steps[-1])

    def attended(self, t, target):
        """The scalars before attention and what it adds."""
        if t == 0:
            # These depend on the species alone: a linear map adds a row of the species.
            self.copy("a0", self.scalars + self.tensors, target)
            unit = self.table.add("unit_of_scalars", np.eye(self.F, dtype=np.float32))
            self.add_linear("x0", self.scalars, target, self.scalars, [(0, 0, unit, 1.0)], accumulate=True)
            return
        self.copy(f"a{t}", self.scalars + self.tensors, f"dx{t}")
        both = [{"in": [k], "out": 0, "scale": 1.0} for k in range(2)]
        self.add_node_product([f"x{t}", f"dx{t}"], [self.scalars] * 2, target, self.scalars, paths=both)

    def interaction(self, t, x, target, is_last):
        """A linear map of the scalars and the squares of the tensors. It is added to the scalars; its last channels multiply the
        tensors."""
        F, groups, block = self.F, len(self.degrees), f"euclidean_transformers.{t}.interaction_block"
        name = f"{block}.linear_layer"
        matrix = self.matrix(name, F + groups, F + groups).astype(np.float64) + np.eye(F + groups)
        matrix[F:] -= np.eye(F + groups)[F:]
        bias = np.zeros(F + groups)
        if self.options["interaction_bias"]:
            bias += self.state.take(f"{name}.bias", F + groups)
        bias[F:] += 1
        # The coupling of a node_product has the factor 1/sqrt(2 l + 1) itself.
        scales = self.factors_of_squares(block) * np.sqrt(2.0 * np.array(self.degrees) + 1)
        squares = "+".join(["1x0e"] * groups)
        paths = [{"in": [g, g], "out": g, "scale": float(scale)} for g, scale in enumerate(scales)]
        self.add_node_product([f"c{t}"], [self.tensors], f"s{t}", squares, paths=paths)
        outputs = [slice(0, F)] if is_last else [slice(0, F), slice(F, None)]
        irreps = self.scalars if is_last else Irreps([*self.scalars, (groups, SCALAR), *self.tensors])
        mixed = target if is_last else f"b{t}"

        def weights(rows, part, source):
            return [(source, k, self.table.add(f"{name}.{part}.{k}", matrix[rows, columns]), 1.0) for k, columns in enumerate(outputs)]

        biases = [(k, self.table.add(f"{name}.bias.{k}", bias[columns]), 1.0) for k, columns in enumerate(outputs)]
        self.add_linear(x, self.scalars, mixed, irreps, weights(slice(0, F), "scalars", 0), biases)
        of_squares = [weight for g in range(groups) for weight in weights(slice(F + g, F + g + 1), f"square_{g}", g)]
        self.add_linear(f"s{t}", squares, mixed, irreps, of_squares, accumulate=True)
        if is_last:
            return
        self.pass_on(f"c{t}", self.tensors, 0, mixed, irreps, 2, accumulate=True)
        self.copy(mixed, irreps, target)
        terms = [gated(g, 2 + g, 0, 1, g, "identity") for g in range(groups)]
        self.add_gate(mixed, irreps, f"chi{t + 1}", self.tensors, terms)

    # Energies

    def energies(self, x):
        """The network's energy, whose scale of each element is that of its last matrix."""
        options, head, count = self.options, self.head, self.options["num_elements"]
        activation, width, last = options["energy_activation_fn"], self.F, x
        several = bool(self.checkpoint.heads)
        dim = options["energy_regression_dim"] or self.F
        for n in range(options["final_mlp_layers"] - 1):
            name = f"{ENERGY}.layers.{n}"
            if several:
                heads = len(self.checkpoint.heads)
                matrix = self.state.take(f"{ENERGY}.layers_weights.{n}", heads, width, dim)[head]
                bias = self.state.take(f"{ENERGY}.layers_bias.{n}", heads, dim)[head]
            else:
                matrix, bias = self.matrix(name, width, dim), self.state.take(f"{name}.bias", dim)
            weight, added = self.table.add(f"{name}.weight", matrix), self.table.add(f"{name}.bias", bias)
            self.add_linear(last, f"{width}x0e", f"energy{n}_linear", f"{dim}x0e", [(0, 0, weight, 1.0)], [(0, added, 1.0)])
            self.add_activation(f"energy{n}_linear", f"energy{n}", f"{dim}x0e", activation)
            last, width = f"energy{n}", dim
        if several:
            matrix = self.state.take(f"{ENERGY}.final_layer_weights", len(self.checkpoint.heads), width, 1)[head]
            bias = self.state.take(f"{ENERGY}.final_layer_bias", len(self.checkpoint.heads), 1)[head]
            scales = self.state.take(f"{ENERGY}.energy_scales", count, 1)
        else:
            matrix, bias = self.matrix(f"{ENERGY}.final_layer", width, 1), self.state.take(f"{ENERGY}.final_layer.bias", 1)
            scales = self.state.take(f"{ENERGY}.energy_scales.weight", 1, count)
        rows = self.numbers - 1
        scales = scales.reshape(-1)[rows].astype(np.float64)
        shifts = self.state.take(f"{ENERGY}.energy_shifts", count)[rows].astype(np.float64) + scales * float(bias[0])
        weight = self.table.add("energy.weight", matrix[None] * scales[:, None, None])
        self.add_linear(last, f"{width}x0e", "energy", "1x0e", [(0, 0, weight, 1.0)], per_species=True)
        self.add_readout("energy", "1x0e", 0, network([self.table.add("energy.readout", np.ones((1, 1), np.float32))]))
        return shifts

    def far_energies(self, x):
        """Coulomb and dispersion energies. Charges and Hirshfeld ratios are blocks of one feature, which is exchanged once."""
        options, cutoff = self.options, float(self.options["r_max_lr"])
        parts = [part for part, key in (("charge", "electrostatic_energy_bool"), ("ratio", "dispersion_energy_bool")) if options[key]]
        if not parts:
            return
        heads = {part: getattr(self, f"{part}_head")(x) for part in parts}
        columns = {part: k for k, part in enumerate(parts)}
        width = len(parts)
        constants = np.stack([heads[part][3] for part in parts], axis=1)
        self.add_species_embedding("far_linear", "far.constants", constants)
        for part, (source, rows, vectors, _) in heads.items():
            matrices = np.zeros((*vectors.shape, width))
            matrices[..., columns[part]] = vectors
            weight = self.table.add(f"far.{part}", matrices)
            self.add_linear(source, f"{rows}x0e", "far_linear", f"{width}x0e", [(0, 0, weight, 1.0)], per_species=vectors.ndim == 2,
                            accumulate=True)  # fmt: skip
        irreps = "+".join(["1x0e"] * width)
        activations = {"charge": "identity", "ratio": "abs"}
        target = "far_unbalanced" if "charge" in parts else "far"
        terms = [activated(k, activations[part], source=0, offset=k) for k, part in enumerate(parts)]
        self.add_gate("far_linear", f"{width}x0e", target, irreps, terms)
        if "charge" in parts:
            self.made[self.table.add("total_charge", np.ones(1, np.float32))] = "charge"
            self.add("channel_balance", target, irreps, "far", irreps, block=0, first=0, target="total_charge")
            kernel = {"kind": "erf_shifted", "sigma": float(options["electrostatic_energy_scale"]), "on": COULOMB_ON * cutoff}
            weights = self.table.add("coulomb.weights", np.eye(width, dtype=np.float32)[0])
            self.add_layer(
                "coulomb", input="far", irreps_in=irreps, weights=weights, prefactor=COULOMB_CONSTANT, cutoff=cutoff, kernel=kernel
            )
            self.add_observable("far", irreps, "charge", [0], "e")
        if "ratio" in parts:
            rows = self.numbers - 1
            self.add_layer(
                "dispersion", input="far", irreps_in=irreps, block=columns["ratio"],
                polarizability=self.table.add("free_polarizability", POLARIZABILITIES[rows]), c6=self.table.add("free_c6", C6[rows]),
                scale=float(options["dispersion_energy_scale"]), cutoff=cutoff,
                damping=float(options["dispersion_energy_cutoff_lr_damping"]),
            )  # fmt: skip

    def hidden_of_atoms(self, name, x, middle, out, target):
        """(feature, its channels, last matrix, last bias) of a network of the scalars, whose last layer the caller adds."""
        if self.options["energy_regression_dim"] is None:
            return x, self.F, self.matrix(name, self.F, out), self.state.take(f"{name}.bias", out)
        self.dense(f"{name}.0", x, self.F, target, middle, self.options["energy_activation_fn"])
        return target, middle, self.matrix(f"{name}.2", middle, out), self.state.take(f"{name}.2.bias", out)

    def rows_of_charges(self, name, width):
        """Rows of the chosen elements of a table by atomic number."""
        return self.state.take(name, ROWS_OF_CHARGES, width)[self.numbers].astype(np.float64)

    def charge_head(self, x):
        """(feature, its channels, a vector of them, constants of the species), whose sum is a charge before the balance."""
        block = "partial_charges_output_block"
        dim = self.options["energy_regression_dim"]
        source, width, matrix, bias = self.hidden_of_atoms(f"{block}.transform_inv_features", x, dim, 1, "charge_hidden")
        return source, width, matrix[:, 0], self.rows_of_charges(f"{block}.atomic_embedding.weight", 1)[:, 0] + float(bias[0])

    def ratio_head(self, x):
        """The same of a Hirshfeld ratio before its absolute value, with a vector for each species."""
        block, half = "hirshfeld_output_block", self.F // 2
        middle = (self.options["energy_regression_dim"] or 0) // 2
        source, width, matrix, bias = self.hidden_of_atoms(f"{block}.transform_features", x, middle, half, "ratio_hidden")
        vectors = self.rows_of_charges(f"{block}.q_embedding.weight", half) / sqrt(half)
        shifts = self.rows_of_charges(f"{block}.v_shift_embedding.weight", 1)[:, 0]
        return source, width, vectors @ matrix.astype(np.float64).T, shifts + vectors @ bias.astype(np.float64)

    def repulsion(self):
        """The potential of Ziegler, Biersack and Littmark with trained constants."""

        def constants(*names):
            return np.concatenate([softplus(self.state.take(f"zbl_repulsion.{name}_raw", 1)) for name in names])

        exponents, coefficients = constants("a1", "a2", "a3", "a4"), constants("c1", "c2", "c3", "c4")
        (power,), (factor,) = constants("p"), constants("d")
        Z, cutoff_function = self.numbers.astype(np.float64), self.cutoff_function()
        self.add_pair_repulsion(
            "zbl", COULOMB_CONSTANT / 2 * np.outer(Z, Z), 1 / (np.add.outer(Z**power, Z**power) * factor),
            np.full((len(Z), len(Z)), self.checkpoint.cutoff), cutoff_function.get("p", cutoff_function["kind"]),
            (coefficients / coefficients.sum()).tolist(), exponents.tolist(), switch={"on": 0.0, "off": REPULSION_OFF},
        )  # fmt: skip

    # Functions of the distance

    def cutoff_function(self):
        kind = self.options["cutoff_fn"]
        if kind == "cosine":
            return {"kind": "cosine"}
        return {"kind": "polynomial", "p": 3.0 if kind == "phys" else float(self.options["cutoff_p"])}

    def radial_basis(self):
        """The basis, without a cutoff function; sets `functions`, those of the package's that are not zero everywhere."""
        options, name = self.options, "radial_embedding.radial_basis_fn"
        size, kind = options["num_radial_basis_fn"], options["radial_basis_fn"]
        basis = {"cutoff_function": self.cutoff_function(), "apply_cutoff": False}
        self.functions = list(range(size))
        if kind == "bernstein":
            logarithms = self.table.add("radial_basis.log_coefficients", self.state.take(f"{name}.b", size))
            return {"kind": "bernstein", "gamma": self.state.number(f"{name}.gamma"), "log_coefficients": logarithms} | basis
        if kind == "gaussian":
            widths = self.state.take(f"{name}.widths", size).astype(np.float64)
            if np.any(widths != widths[0]):
                raise EquiError(f"tensor {name}.widths: expected equal widths of all functions")
            return {"kind": "gaussian", "centres": self.table.add("radial_basis.centers", self.state.take(f"{name}.centers", size)),
                    "width": float(abs(widths[0]))} | basis  # fmt: skip
        frequencies = self.state.take(f"{name}.freqs", size)
        self.functions = [n for n in range(size) if frequencies[n]]
        wave_numbers = self.table.add("radial_basis.wave_numbers", frequencies[self.functions])
        return {"kind": "bessel", "wave_numbers": wave_numbers, "prefactor": 1.0} | basis

    def document(self):
        options, layers = self.options, self.options["num_layers"]
        radial_basis = self.radial_basis()
        shares = self.embedding()
        for t in range(layers):
            self.layer(t, t > 0 or not options["initialize_ev_to_zeros"], t + 1 == layers)
        x = f"x{layers}"
        shifts = self.energies(x)
        self.far_energies(x)
        self.add_scale_shift(self.table.add("scale", np.ones(len(shifts))), self.table.add("shift", shifts))
        if options["zbl_repulsion_bool"]:
            self.repulsion()
        self.state.finish(self.is_without_effect)
        name = "SO3LR" if self.checkpoint.has_far_energies else "So3krates"
        body, tensors = self.finished(name, self.checkpoint.cutoff, max(self.degrees), True, radial_basis)
        if self.made:
            body["mixture"] = ({"shares": shares} if shares else {}) | {"tensors": self.made}
        return body, tensors

    def is_without_effect(self, name):
        """Numbers that a module has, whether it uses them or not, and those that follow from its settings."""
        unused = {
            "zbl_repulsion.": "zbl_repulsion_bool", "partial_charges_output_block.": "electrostatic_energy_bool",
            "hirshfeld_output_block.": "dispersion_energy_bool",
        }  # fmt: skip
        last = name.rsplit(".", 1)[-1]
        return (
            any(name.startswith(prefix) and not self.options[key] for prefix, key in unused.items())
            or last in ("k", "k_rev", "degree_repeats", "cg_rep", "segment_ids", "segment_sum_matrix")
            or ".euclidean_attention_block.filter_net_" in name  # the same networks once more
            or (bool(self.checkpoint.heads) and name.startswith((f"{ENERGY}.layers.", f"{ENERGY}.final_layer.")))
        )


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    for name in ("charge", "spin"):
        if getattr(checkpoint, name) is not None:
            raise EquiError(f"--{name}: the file is one for all systems, whose {name} is a keyword of pair_style")
    return _Converter(checkpoint, choice, elements).document()
