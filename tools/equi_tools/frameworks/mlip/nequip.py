# SPDX-License-Identifier: MIT
"""NequIP of mlip: its options, and the layers of an .equi file that stand for it (doc/model_file.rst).

Messages are products of copies of irreps. A copy has as many channels as all multiplicities of a feature have in common, and
channel c of copy k of a block with n copies is the block's channel c n + k.
"""

from math import gcd

from ...errors import EquiError
from ...irreps import SCALAR, Irrep, Irreps
from ...printable import printable
from ..common.layers import activated, gated, network
from . import options as mlip_options
from .layers import ACTIVATIONS, MessagePassing, place

KIND, MODEL = "mlip's NequIP", "Nequip"
TAKEN = {
    "add_atomic_energies", "num_layers", "target_irreps", "l_max", "num_rbf", "radial_mlp_hidden", "radial_mlp_activation",
    "num_readout_heads", "avg_num_neighbors", "use_residual_connection", "gate_nonlinearities",
}  # fmt: skip
# The size of the first numbers of a training.
IGNORED = {"radial_mlp_variance_scale"}
# Options with one supported value, and why.
REFUSED = {"radial_envelope": ("polynomial_envelope", "the .equi format has no other of mlip's envelopes of Bessel functions")}
# Activations that are odd functions, as odd scalars need.
ODD = ("tanh", "none")
PSEUDOSCALAR = Irrep(0, -1)


def check(options):
    """Refuses what the converter does not represent."""
    mlip_options.known_alone(options, KIND, TAKEN, IGNORED, REFUSED)
    for key in ("num_layers", "num_rbf", "num_readout_heads"):
        mlip_options.whole(options, key, 1)
    mlip_options.whole(options, "l_max", 0)
    mlip_options.widths(options, "radial_mlp_hidden")
    if options["avg_num_neighbors"] is not None:
        mlip_options.number(options, "avg_num_neighbors", 0, "config")
    irreps = target_irreps(options)
    activations = options["gate_nonlinearities"]
    if not isinstance(activations, dict) or set(activations) != {"e", "o"}:
        raise EquiError(f"option gate_nonlinearities: expected activations of e and o, found {printable(str(activations), 60)}")
    if PSEUDOSCALAR in irreps and activations["o"] not in ODD:
        odd = printable(str(activations["o"]), 60)
        raise EquiError(f"option gate_nonlinearities: o {odd} is no odd function, only {' and '.join(ODD)} are")


def target_irreps(options):
    """The irreps that each layer makes if it can."""
    text = options["target_irreps"]
    irreps = Irreps(text) if isinstance(text, str) else Irreps()
    keys = [place(ir) for _, ir in irreps]
    if any(first >= second for first, second in zip(keys, keys[1:])) or any(mul < 1 for mul, _ in irreps):
        raise EquiError(f"option target_irreps {printable(str(text), 60)} is not supported: expected different irreps in mlip's order")
    if irreps.count(SCALAR) < 2:
        raise EquiError(f"option target_irreps {printable(str(text), 60)} is not supported: mlip's readout needs two scalars 0e")
    return irreps


class Converter(MessagePassing):
    kind = KIND

    def __init__(self, checkpoint, head, elements):
        super().__init__(checkpoint, head, elements)
        if self.options["avg_num_neighbors"] is not None:
            self.num_neighbors = float(self.options["avg_num_neighbors"])
        self.target = target_irreps(self.options)

    def gate_activation(self, parity):
        value = str(self.options["gate_nonlinearities"][parity])
        if value not in ACTIVATIONS:
            raise EquiError(f"option gate_nonlinearities: {parity} {value} is not supported, only {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def radial_network(self, name, matrices):
        """mlip leaves these activations and matrices as they are."""
        activation = self.activation("radial_mlp_activation")[0] if len(matrices) > 1 else "identity"
        return network([self.table.add(f"{name}.layer{n}", matrix) for n, matrix in enumerate(matrices)], activation)

    def products(self, ir):
        """Irreps of products with harmonics."""
        return {out for l in range(self.lmax + 1) for out in ir * Irrep(l, (-1) ** l)}

    def features(self):
        """[(irreps of mlip, those that the energy depends on)] of the features before the first layer and behind each."""
        found = [Irreps([(self.target.count(SCALAR), SCALAR)])]
        for _ in range(self.options["num_layers"]):
            made = {out for _, ir in found[-1] for out in self.products(ir)}
            found.append(Irreps(block for block in self.target if block.ir in made))
        needed = [{SCALAR}]
        for irreps in reversed(found[:-1]):
            # Gates are scalars, and the energy depends on scalars of each layer.
            needed.insert(0, {ir for _, ir in irreps if ir in needed[0] or self.products(ir) & needed[0]})
        return [(irreps, Irreps(block for block in irreps if block.ir in kept)) for irreps, kept in zip(found, needed)]

    def gate(self, source, irreps_in, target, full, irreps_out):
        """Scalars, then the others times even scalars, which are the last ones of the input; full: irreps that have gates."""
        block_of = {ir: n for n, (_, ir) in enumerate(irreps_in)}
        place_of = {ir: n for n, (_, ir) in enumerate(irreps_out)}
        even, odd = self.gate_activation("e"), self.gate_activation("o")
        offset, terms = full.count(SCALAR), []
        for mul, ir in full:
            if ir in place_of and ir.l == 0:
                terms.append(activated(place_of[ir], *(even if ir == SCALAR else odd), block_of[ir]))
            elif ir in place_of:
                terms.append(gated(place_of[ir], block_of[ir], 0, block_of[SCALAR], offset, *even))
            offset += mul if ir.l > 0 else 0
        self.add_gate(source, irreps_in, target, irreps_out, terms)

    def layer(self, t, source, target, before, behind):
        """before, behind: of features(); what the energy does not depend on is left out."""
        name, y, z = f"NequipLayer_{t}", f"y{t}", f"z{t}"
        (full_in, irreps_in), (full_out, irreps_out) = before, behind
        gates = sum(mul for mul, ir in full_out if ir.l > 0)
        full_z = Irreps((mul + gates if ir == SCALAR else mul, ir) for mul, ir in full_out)
        has_gates = any(ir.l > 0 for _, ir in irreps_out)
        irreps_z = Irreps((mul + gates if ir == SCALAR and has_gates else mul, ir) for mul, ir in irreps_out)
        has_residual = bool(self.options["use_residual_connection"])
        if has_residual:
            self.linear(f"{name}#residual_block", source, irreps_in, z, irreps_z, per_species=True, stored=(full_in, full_z))
        block, channels = f"{name}#convolution_block", gcd(*(mul for mul, _ in full_in))
        self.linear(f"{block}#linear_in", source, irreps_in, y, irreps_in, stored=(full_in, full_in))
        self.messages(block, y, irreps_in, z, irreps_z, channels, accumulate=has_residual, stored=(full_in, full_z))
        self.gate(z, irreps_z, target, full_out, irreps_out)

    def readout(self, source, irreps):
        """Two linear maps of the scalars, of the chosen head."""
        width = irreps.count(SCALAR)
        sizes = [width, width // 2, 1]
        for head in range(self.options["num_readout_heads"]):
            name = f"NequipMultiHeadReadoutBlock_0#MultiHeadReadoutBlock_0#ReadoutBlock_{head}"
            parts = [self.weight(f"{name}#Linear_{n}", SCALAR, rows, columns).T for n, (columns, rows) in enumerate(zip(sizes, sizes[1:]))]
            if head == self.head_of_readout:
                matrices = parts
        block = [ir for _, ir in irreps].index(SCALAR)
        self.add_readout(source, irreps, block, self.dense("readout", matrices))

    def document(self):
        radial_basis = self.bessel_functions()
        width = self.target.count(SCALAR)
        block = "JointNodeEmbeddingBlock_0" if self.options.get("use_total_charge_embedding") else "NodeEmbeddingBlock_0"
        rows, scale = self.embedding(f"NequipEmbeddingBlock_0#{block}", width)
        self.add_species_embedding("x0", "embedding", rows, scale)
        features = self.features()
        for t, (before, behind) in enumerate(zip(features, features[1:])):
            self.layer(t, f"x{t}", f"x{t + 1}", before, behind)
        self.readout(f"x{self.options['num_layers']}", features[-1][1])
        self.scale_shift()
        self.state.finish()
        return self.finished("NequIP", self.checkpoint.cutoff, self.lmax, True, radial_basis)
