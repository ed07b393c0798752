# SPDX-License-Identifier: MIT
"""The charges of PolarMACE (MACE-POLAR-1): multipoles of two spins, updated in the field of all atoms.

Every step of the update has layers of its own. A feature of charges has the blocks q, f and, with dipoles, p: charges of
both spins, the shares by which they are brought to the charge and spin of the system, and dipoles. mace orders vectors as
y, z, x; since its weights act on channels alone, the layers have them as x, y, z.
"""

from math import pi, sqrt

import numpy as np

from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ..common.layers import added, irreps_text, network
from .inputs import Input

CLASS = "PolarMACE"
# In open systems graph-longrange adds this length to distances.
SOFTENING = 1e-6  # Angstrom
PREFACTOR = 1.0 / 5.526349406e-3  # 1/eps0, eV Angstrom per squared elementary charge, as graph-longrange has it
# Charge and spin of the system: any number is known.
INPUTS = [Input("total_charge", False, 0, 0), Input("total_spin", False, 0, 0)]
CHILDREN = {
    "lr_source_maps", "electric_potential_descriptor", "fukui_source_map", "field_dependent_charges_maps", "local_electron_energy",
    "external_field_contribution", "coulomb_energy", "layer_feature_mixer", "_charges_to_mul_ir", "_charges_from_mul_ir",
    "_field_from_mul_ir", "_fukui_to_mul_ir",
}  # fmt: skip
# Tensors that mace computes with and drops, or that repeat numbers which the file has elsewhere.
UNUSED = ("pair_repulsion_fn.", "joint_embedding.", "embedding_readout.", "external_field_contribution.")
UNUSED_ENDS = (".field_norm_factor", ".select_indices", ".output_permutation")
BASES = (".density_basis.", ".feature_basis.", ".realspace_features.", ".realspace_energy.", ".non_periodic_correction_terms.")


def is_unused(name):
    return name.startswith(UNUSED) or name.endswith(UNUSED_ENDS) or any(part in name for part in (*BASES, ".monopole_dipole_correction."))


def audit(model):
    """Refuses by name what this module does not represent exactly."""
    expected = {
        "electric_potential_descriptor": "GTOElectrostaticFeatures", "coulomb_energy": "GTOElectrostaticEnergy",
        "fukui_source_map": "NonLinearBiasReadoutBlock", "layer_feature_mixer": "MultiLayerFeatureMixer",
        "local_electron_energy": "OneBodyMLPFieldReadout",
    }  # fmt: skip
    for name, kind in expected.items():
        if getattr(model, name).class_name != kind:
            raise EquiError(f"{name}: {getattr(model, name).class_name} is not supported, only {kind}")
    for t, block in enumerate(model.lr_source_maps.children()):
        if block.class_name != "EnvironmentDependentSpinSourceBlock" or bool(getattr(block, "zero_charges", False)):
            raise EquiError(f"lr_source_maps.{t}: {block.class_name} is not supported, or has zero_charges")
    for n, block in enumerate(model.field_dependent_charges_maps.children()):
        where, embedding = f"field_dependent_charges_maps.{n}", getattr(block, "potential_embedding", None)
        if block.class_name != "AgnosticEmbeddedOneBodyVariableUpdate":
            raise EquiError(f"{where}: {block.class_name} is not supported, only AgnosticEmbeddedOneBodyVariableUpdate")
        if embedding.class_name != "AgnosticChargeBiasedLinearPotentialEmbedding":
            raise EquiError(f"{where}.potential_embedding: {embedding.class_name} is not supported")
    for name in ("atomic_multipoles_max_l", "field_feature_max_l"):
        if int(getattr(model, name)) not in (0, 1):
            raise EquiError(f"{name}: {getattr(model, name)} is not supported, only 0 and 1")
    if int(model.num_recursion_steps) < 1:
        raise EquiError("num_recursion_steps: at least one step is expected")
    if bool(getattr(model, "return_electrostatic_potentials", False)):
        raise EquiError("return_electrostatic_potentials is not supported")
    if bool(getattr(model, "quadrupole_feature_corrections", False)):
        raise EquiError("quadrupole_feature_corrections is not supported")


class PolarLayers:
    """Writes the layers with a _Converter of convert.py."""

    def __init__(self, converter):
        self.converter, model = converter, converter.model
        self.model = model
        self.has_dipoles, self.has_gradients = int(model.atomic_multipoles_max_l) > 0, int(model.field_feature_max_l) > 0
        self.widths = [float(w) for w in model.field_feature_widths]
        n = 2 * len(self.widths)
        self.irreps_c = Irreps("2x0e+2x0e" + "+2x1o" * self.has_dipoles)
        self.irreps_s = Irreps("2x0e" + "+2x1o" * self.has_dipoles)
        self.irreps_v = Irreps(f"{n}x0e" + f"+{n}x1o" * self.has_gradients)
        # (block, channel) of the blocks of mace: of charges, of those with shares behind them, and of potentials.
        degrees = range(2 if self.has_dipoles else 1)
        self.of_charges = [((0, 2)[l], spin) for spin in range(2) for l in degrees]
        self.of_update = [*self.of_charges, (1, 0)]
        self.of_potential = [
            (l, spin * len(self.widths)) for spin in range(2) for l in range(2 if self.has_gradients else 1)
        ]
        # Energies before scale_shift are scaled, and those of charges are not.
        self.scale = converter.of_head("scale_shift.scale")
        if self.scale == 0.0:
            raise EquiError("scale_shift.scale is zero")

    def add(self, features):
        """features: (name, irreps) of the features of each interaction."""
        model = self.model
        self.target_of_balance()
        for t, (x, irreps) in enumerate(features):
            name, module = f"lr_source_maps.{t}.linear", getattr(model.lr_source_maps, str(t)).linear
            self.merged(name, self.parts(name, module, irreps), x, irreps, "d0", self.irreps_c, self.of_charges, accumulate=t > 0)
            name = f"layer_feature_mixer.linears.{t}"
            parts = self.parts(name, getattr(model.layer_feature_mixer.linears, str(t)), irreps)
            self.merged(name, parts, x, irreps, "mixed", irreps, accumulate=t > 0)
        self.last, self.irreps_x = features[-1]
        self.channels = self.irreps_x[0].mul
        if any(mul != self.channels for mul, _ in self.irreps_x) or self.irreps_x[0].ir != SCALAR:
            raise EquiError(f"hidden_irreps: {irreps_text(self.irreps_x)} are not supported with charges")
        if len({ir for _, ir in self.irreps_x}) != len(self.irreps_x):
            raise EquiError(f"hidden_irreps: {irreps_text(self.irreps_x)} have several blocks of one irrep")
        self.first_shares()
        self.balance("d0", "c0")
        for n in range(int(model.num_recursion_steps)):
            self.update(n)
        steps = int(model.num_recursion_steps)
        if bool(model.add_local_electron_energy):
            self.local_energy(f"c{steps}", f"v{steps - 1}")
        else:
            self.converter.state.taken.update(name for name in self.converter.state.source if name.startswith("local_electron_energy."))
        self.coulomb_energy(f"c{steps}")

    # Parts

    def parts(self, name, module, irreps_in):
        found = self.converter.linear_parts(name, module)
        if found[0] != irreps_in:
            raise EquiError(f"{name}: irreps {irreps_text(found[0])} of a feature {irreps_text(irreps_in)}")
        return found

    def merged(self, name, parts, source, irreps_in, target, irreps_out, places_out=None, places_in=None, accumulate=False, mix=None):
        """A linear layer of an e3nn Linear (linear_parts). places: (block of the layer, first channel) of each block of
        the Linear; all blocks of its own order if absent. mix: matrices [out, new out] by block, which follow."""
        _, _, matrices, biases = parts

        def place(places, j):
            return (j, 0) if places is None else places[j]

        weights, offsets = {}, {}
        for i, j, matrix, scale in matrices:
            (a, row), (b, column) = place(places_in, i), place(places_out, j)
            width = irreps_out[b].mul if mix is None else mix[b].shape[0]
            whole = weights.setdefault((a, b), np.zeros((irreps_in[a].mul, width)))
            whole[row : row + matrix.shape[0], column : column + matrix.shape[1]] += matrix.astype(np.float64) * scale
        for j, (bias, scale) in biases.items():
            b, column = place(places_out, j)
            width = irreps_out[b].mul if mix is None else mix[b].shape[0]
            whole = offsets.setdefault(b, np.zeros(width))
            whole[column : column + len(bias)] += bias.astype(np.float64) * scale
        if mix is not None:
            weights = {(a, b): whole @ mix[b] for (a, b), whole in weights.items()}
            offsets = {b: whole @ mix[b] for b, whole in offsets.items()}
        self.linear(name, source, irreps_in, target, irreps_out, weights, offsets, accumulate)

    def linear(self, name, source, irreps_in, target, irreps_out, weights, offsets=None, accumulate=False):
        """weights: float64 matrices by (block in, block out); offsets: vectors by block out."""
        tensor = self.converter.tensor
        self.converter.add_linear(
            source, irreps_in, target, irreps_out,
            [(a, b, tensor(f"{name}.{target}.weight.{a}.{b}", matrix), 1.0) for (a, b), matrix in weights.items()],
            [(b, tensor(f"{name}.{target}.bias.{b}", bias), 1.0) for b, bias in (offsets or {}).items()], accumulate=accumulate,
        )  # fmt: skip

    def product_parts(self, name, module, mode):
        """Matrices [channels of the first, channels of the second] and factors by block of a SparseUvuTensorProduct."""
        if module.class_name != "SparseUvuTensorProduct" or getattr(module, "layout", "mul_ir") != "mul_ir":
            raise EquiError(f"{name}: {module.class_name} is not supported, only SparseUvuTensorProduct")
        flat, found = self.converter.take(f"{name}.weight").astype(np.float64).reshape(-1), []
        starts = np.cumsum([0, *(mul * ir.dim for mul, ir in self.irreps_x)]).tolist()
        for path in module._path_meta:
            begin, end, factor, first, second = path[6], path[7], path[8], path[10], path[11]
            block = starts.index(path[0])
            dim = self.irreps_x[block].ir.dim
            if block != len(found) or path[12] != dim or (first, second) != (self.channels, self.channels) or path[9] not in (mode, 0):
                raise EquiError(f"{name}: path {tuple(path)} is not supported")
            found.append((flat[begin:end].reshape(first, second), float(factor)))
        if len(found) != len(self.irreps_x) or path[7] != len(flat):
            raise EquiError(f"{name}: {len(found)} paths of {irreps_text(self.irreps_x)}")
        return found

    def dots(self, first, second, target, parts):
        """Dot products of each channel; `second` has been mixed by the matrices of parts."""
        count = len(self.irreps_x)
        paths = [{"in": [l, count + l], "out": 0, "scale": factor} for l, (_, factor) in enumerate(parts)]
        self.converter.add_node_product([first, second], [self.irreps_x] * 2, target, Irreps(f"{self.channels}x0e"), paths=paths)

    def perceptron(self, name, stack, source_of, last):
        """Hidden layers of a RadialMLP. source_of(weight, bias, target): writes the first linear layer; returns the name
        of the last hidden feature, its irreps, and the last matrix [in, out] and bias."""
        take, tensor = self.converter.take, self.converter.tensor
        kinds = [module.class_name for module in stack]
        hidden = (len(stack) - 1) // 3
        if kinds != ["Linear", "LayerNorm", "SiLU"] * hidden + ["Linear"] or hidden < 1:
            raise EquiError(f"{name}: layers {', '.join(kinds)} are not those of a RadialMLP")
        source, irreps = None, None
        for n in range(hidden):
            weight = take(f"{name}.net.{3 * n}.weight").astype(np.float64).T
            bias = take(f"{name}.net.{3 * n}.bias").astype(np.float64)
            target, width = f"{last}_h{n}", Irreps(f"{len(bias)}x0e")
            if n == 0:
                source_of(weight, bias, target, width)
            else:
                self.linear(f"{name}.net.{3 * n}", source, irreps, target, width, {(0, 0): weight}, {0: bias})
            place = f"{name}.net.{3 * n + 1}"
            norm = [tensor(f"{place}.{key}", take(f"{place}.{key}")) for key in ("weight", "bias")]
            self.converter.add_layer_norm(target, width, f"{target}_norm", *norm, float(stack[3 * n + 1].eps))
            source, irreps = f"{target}_active", width
            self.converter.add_activation(f"{target}_norm", source, irreps, "silu")
        return (
            source, irreps, take(f"{name}.net.{3 * hidden}.weight").astype(np.float64).T,
            take(f"{name}.net.{3 * hidden}.bias").astype(np.float64),
        )  # fmt: skip

    # Charges

    def target_of_balance(self):
        values, converter = self.converter.checkpoint.values, self.converter
        if values is None:
            self.target = converter.tensor("spin_charges", np.array([0.5, 0.5]))
            converter.mixture = {"tensors": {self.target: "spin_charges"}}
            return
        charge, spin = values["total_charge"], values["total_spin"]
        self.target = converter.tensor("spin_charges", np.array([(charge + spin - 1) / 2, (charge - spin + 1) / 2]))

    def balance(self, source, target):
        self.converter.add(
            "channel_balance", source, self.irreps_c, target, self.irreps_c, block=0, first=0, target=self.target,
            shares={"block": 1, "first": 0, "power": 1},
        )  # fmt: skip

    def first_shares(self):
        name, block, converter = "fukui_source_map", self.model.fukui_source_map, self.converter
        hidden = Irreps(block.hidden_irreps)
        if [ir for _, ir in hidden] != [SCALAR]:
            raise EquiError(f"{name}: hidden irreps {irreps_text(hidden)}, only one block of scalars 0e is supported")
        acts = list(block.non_linearity.acts.children())
        activation, constant = converter.activation(acts[0] if acts else None, name)
        source, irreps = self.last, self.irreps_x
        for part in ("linear_1", "linear_mid"):
            target = f"fukui_{part}"
            self.merged(f"{name}.{part}", self.parts(f"{name}.{part}", getattr(block, part), irreps), source, irreps, target, hidden)
            converter.add_gate(target, hidden, f"{target}_active", hidden, [{"out": 0, "in": 0, "offset": 0, "activation": activation, "scale": constant}])
            source, irreps = f"{target}_active", hidden
        parts = self.parts(f"{name}.linear_2", block.linear_2, hidden)
        self.merged(f"{name}.linear_2", parts, source, hidden, "d0", self.irreps_c, [(1, 0)], accumulate=True)

    def chosen(self, name, source, target, irreps_out, weights, accumulate=False):
        self.linear(name, source, self.irreps_c, target, irreps_out, weights, accumulate=accumulate)

    def update(self, n):
        converter, block = self.converter, getattr(self.model.field_dependent_charges_maps, str(n))
        name, count, charges = f"field_dependent_charges_maps.{n}", len(self.irreps_x), f"c{n}"
        both = {(0, 0): np.eye(2)} | ({(2, 1): np.eye(2)} if self.has_dipoles else {})
        self.chosen("spins", charges, f"s{n}", self.irreps_s, both)
        self.potential(f"s{n}", f"v{n}")
        dots = self.product_parts(f"{name}.dot_products", block.dot_products, 0)
        mix, embedding, m = [matrix.T for matrix, _ in dots], block.potential_embedding, f"embedded{n}"
        irreps_q, irreps_p = self.irreps_of_mace()
        place = f"{name}.potential_embedding"
        for part, source, irreps, own, places in (
            ("potential_linear", f"v{n}", self.irreps_v, irreps_p, self.of_potential),
            ("node_feats_linear", "mixed", self.irreps_x, self.irreps_x, None),
            ("charge_embedding", charges, self.irreps_c, irreps_q, self.of_charges),
        ):
            parts = self.parts(f"{place}.{part}", getattr(embedding, part), own)
            self.merged(f"{place}.{part}", parts, source, irreps, m, self.irreps_x, None, places, part != "potential_linear", mix)
        self.dots("mixed", m, f"a{n}_dots", dots)

        def first_layer(weight, bias, target, irreps):
            half = self.channels
            scalars, species = Irreps(f"{half}x0e"), f"species{n}"
            rows = converter.species_rows(f"{name}.source_embedding", block.source_embedding, np.eye(len(converter.checkpoint.elements)))
            converter.add_species_embedding(species, f"{name}.source_embedding.rows", rows)
            self.linear(f"{name}.nonlinearity.dots", f"a{n}_dots", scalars, target, irreps, {(0, 0): weight[:half]}, {0: bias})
            self.linear(f"{name}.nonlinearity.species", species, scalars, target, irreps, {(0, 0): weight[half:]}, accumulate=True)

        stack = list(block.nonlinearity.net.children())
        source, irreps, weight, bias = self.perceptron(f"{name}.nonlinearity", stack, first_layer, f"update{n}")
        out = self.product_parts(f"{name}.tp_out", block.tp_out, 1)
        factors = Irreps([(self.channels, SCALAR)] * count)
        self.linear(
            f"{name}.tp_out", source, irreps, f"scales{n}", factors,
            {(0, l): weight @ matrix.T for l, (matrix, _) in enumerate(out)}, {l: bias @ matrix.T for l, (matrix, _) in enumerate(out)},
        )  # fmt: skip
        paths = [{"in": [l, count + l], "out": l, "scale": factor} for l, (_, factor) in enumerate(out)]
        converter.add_node_product(["mixed", f"scales{n}"], [self.irreps_x, factors], f"y{n}_polar", self.irreps_x, paths=paths)
        readout, place = block.readout, f"{name}.readout"
        irreps_z = converter.linear(f"{place}.linear_1", readout.linear_1, f"y{n}_polar", f"o{n}_1")
        nonlinear = f"{place}.equivariant_nonlin"
        converter.gate(nonlinear, readout.equivariant_nonlin, irreps_z, f"o{n}_1", f"o{n}_1_gated")
        irreps_z = converter.linear(f"{place}.linear_mid", readout.linear_mid, f"o{n}_1_gated", f"o{n}_2")
        gated = converter.gate(nonlinear, readout.equivariant_nonlin, irreps_z, f"o{n}_2", f"o{n}_2_gated")
        parts, d = self.parts(f"{place}.linear_2", readout.linear_2, gated), f"d{n + 1}"
        self.merged(f"{place}.linear_2", parts, f"o{n}_2_gated", gated, d, self.irreps_c, self.of_update)
        kept = {(0, 0): np.eye(2)} | ({(2, 2): np.eye(2)} if self.has_dipoles else {})
        self.chosen("kept", charges, d, self.irreps_c, kept, accumulate=True)
        self.balance(d, f"c{n + 1}")

    def irreps_of_mace(self):
        """mace's irreps of charges and potentials."""
        charges = Irreps("1x0e" + "+1x1o" * self.has_dipoles)
        n = len(self.widths)
        potentials = Irreps(f"{n}x0e" + f"+{n}x1o" * self.has_gradients)
        return charges + charges, potentials + potentials

    def potential(self, source, target):
        n = len(self.widths)
        degrees = 2 if self.has_gradients else 1
        norms = self.of_degrees("field_feature_norms", degrees, n)
        place = "electric_potential_descriptor.self_interaction_terms.overlap_constants"
        own, found = np.zeros((degrees, n)), self.of_degrees(place, min(degrees, 2 if self.has_dipoles else 1), n)
        own[: len(found)] = found
        factors = np.array([np.full(n, sqrt(4 * pi)), pi * sqrt(1.5) * np.array(self.widths)])[:degrees]
        offset = self.offset(self.model.electric_potential_descriptor.realspace_features)
        # mace has half of a field's potential in either spin.
        self.add_potential(source, self.irreps_s, target, self.irreps_v, self.widths, factors / norms, own / norms,
                           bool(self.model.field_si), offset, {"share": 0.5, "origin": "mean"})  # fmt: skip

    @staticmethod
    def offset(module):
        offset = float(module.offset)
        if not 0.0 < offset < 10.0:
            raise EquiError(f"{module.class_name}: offset {offset} is not supported")
        return offset

    def of_degrees(self, name, degrees, n):
        """[degrees, n] of a buffer with equal numbers for the components of each degree and width."""
        flat = self.converter.take(name).astype(np.float64).reshape(-1)
        if flat.size != n * degrees**2:
            raise EquiError(f"{name}: {flat.size} numbers, expected {n * degrees**2}")
        parts = [flat[n * l**2 : n * (l + 1) ** 2].reshape(n, 2 * l + 1) for l in range(degrees)]
        if any(np.ptp(part, axis=1).max() > 0 for part in parts):
            raise EquiError(f"{name}: different numbers for the components of one degree")
        return np.array([part[:, 0] for part in parts])

    def add_potential(self, source, irreps_in, target, irreps_out, widths, factors, own, keeps_own, offset, field):
        """own [degrees, n]: factors of an atom's own multipoles, which a sum over wave vectors has and one over pairs of
        atoms has not. keeps_own: whether they are part of the potential."""
        tensor = self.converter.tensor
        self.converter.add(
            "potential", source, irreps_in, target, irreps_out, prefactor=PREFACTOR,
            width=float(self.model.atomic_multipoles_smearing_width), widths=tensor(f"{target}.widths", np.array(widths)),
            factors=tensor(f"{target}.factors", np.asarray(factors)), own=tensor(f"{target}.own", own * (not keeps_own)),
            k_cutoff=float(self.converter.take("kspace_cutoff")), k_set="sphere",
            open={"offset": offset, "softening": SOFTENING, "added": tensor(f"{target}.added", own * keeps_own)}, field=field,
        )  # fmt: skip

    # Energies

    def add_energy(self, name, source, irreps, weight, bias=None):
        tensor = self.converter.tensor
        biases = None if bias is None else [added(tensor(f"{name}.bias", bias / self.scale))]
        self.converter.add_readout(source, irreps, 0, network([tensor(f"{name}.weight", weight / self.scale)], biases=biases))

    def local_energy(self, charges, potentials):
        name, block = "local_electron_energy", self.model.local_electron_energy
        irreps_q, irreps_p = self.irreps_of_mace()
        dots = {key: self.product_parts(f"{name}.dot_products_{key}", getattr(block, f"dot_products_{key}"), 0) for key in "qv"}
        parts = self.parts(f"{name}.linear_up_q", block.linear_up_q, irreps_q)
        mix = [matrix.T for matrix, _ in dots["q"]]
        self.merged(f"{name}.linear_up_q", parts, charges, self.irreps_c, "up_q", self.irreps_x, None, self.of_charges, False, mix)
        without = (*parts[:3], {})
        self.merged(f"{name}.linear_up_q0", without, "c0", self.irreps_c, "up_q", self.irreps_x, None, self.of_charges, True, mix)
        parts = self.parts(f"{name}.linear_up_v", block.linear_up_v, irreps_p)
        mix = [matrix.T for matrix, _ in dots["v"]]
        self.merged(f"{name}.linear_up_v", parts, potentials, self.irreps_v, "up_v", self.irreps_x, None, self.of_potential, False, mix)
        for key in "qv":
            self.dots(self.last, f"up_{key}", f"local_{key}", dots[key])

        def first_layer(weight, bias, target, irreps):
            half, scalars = self.channels, Irreps(f"{self.channels}x0e")
            self.linear(f"{name}.mlp.q", "local_q", scalars, target, irreps, {(0, 0): weight[:half]}, {0: bias})
            self.linear(f"{name}.mlp.v", "local_v", scalars, target, irreps, {(0, 0): weight[half:]}, accumulate=True)

        found = self.perceptron(f"{name}.mlp", list(block.mlp.net.children()), first_layer, "local")
        self.add_energy(f"{name}.mlp", *found)

    def coulomb_energy(self, charges):
        """The energy of both spins' charges, and the observables."""
        converter, irreps = self.converter, Irreps("1x0e" + "+1x1o" * self.has_dipoles)
        both = {(0, 0): np.ones((2, 1))} | ({(2, 1): np.ones((2, 1))} if self.has_dipoles else {})
        self.chosen("density", charges, "density", irreps, both)
        degrees = 2 if self.has_dipoles else 1
        own = self.of_degrees("coulomb_energy.self_interaction_terms.overlap_constants", degrees, 1)
        width = float(self.model.atomic_multipoles_smearing_width)
        keeps_own, offset = bool(self.model.include_electrostatic_self_interaction), self.offset(self.model.coulomb_energy.realspace_energy)
        # Half of charges times potentials is the energy. mace multiplies a field and positions without their mean there.
        self.add_potential("density", irreps, "felt", irreps, [width], np.ones((degrees, 1)), own, keeps_own, offset,
                           {"share": 2.0, "origin": "zero"})  # fmt: skip
        paths = [{"in": [l, degrees + l], "out": 0, "scale": sqrt(2 * l + 1)} for l in range(degrees)]
        converter.add_node_product(["density", "felt"], [irreps, irreps], "coulomb", Irreps("1x0e"), paths=paths)
        self.add_energy("coulomb", "coulomb", Irreps("1x0e"), np.full((1, 1), 0.5))
        converter.add_observable("density", irreps, "charge", [0], "e")
        if self.has_dipoles:
            converter.add_observable("density", irreps, "dipole", [1], "e*Angstrom")
        scalar = Irreps("1x0e")
        self.chosen("spin_density", charges, "spin_density", scalar, {(0, 0): np.array([[1.0], [-1.0]])})
        converter.add_observable("spin_density", scalar, "spin", [0], "electrons")
