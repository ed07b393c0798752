# SPDX-License-Identifier: MIT
"""NequIP of mlip: its options, and the layers of an .equi file that stand for it (doc/model_file.rst).

Messages are products of copies of irreps. A copy has as many channels as all multiplicities of a feature have in common, and
channel c of copy k of a block with n copies is the block's channel c n + k.
"""

from math import gcd

import numpy as np

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
        raise EquiError(f"option gate_nonlinearities: o {printable(str(activations['o']), 60)} is no odd function, only {', '.join(ODD)} are")


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

    def reachable(self, irreps):
        """Those of the target that products with harmonics lead to."""
        harmonics = [Irrep(l, (-1) ** l) for l in range(self.lmax + 1)]
        made = {out for _, ir in irreps for harmonic in harmonics for out in ir * harmonic}
        return Irreps(block for block in self.target if block.ir in made)

    def gate(self, source, irreps_in, target, irreps_out):
        """Scalars, then the others times even scalars, which are the last ones of the input."""
        block_of = {ir: n for n, (_, ir) in enumerate(irreps_in)}
        even, odd = self.gate_activation("e"), self.gate_activation("o")
        offset, terms = irreps_out.count(SCALAR), []
        for n, (mul, ir) in enumerate(irreps_out):
            if ir.l == 0:
                terms.append(activated(n, *(even if ir == SCALAR else odd), block_of[ir]))
            else:
                terms.append(gated(n, block_of[ir], 0, block_of[SCALAR], offset, *even))
                offset += mul
        self.add_gate(source, irreps_in, target, irreps_out, terms)

    def layer(self, t, source, irreps_in, target):
        """Returns the irreps of the output."""
        name, y, z = f"NequipLayer_{t}", f"y{t}", f"z{t}"
        irreps_out = self.reachable(irreps_in)
        gates = sum(mul for mul, ir in irreps_out if ir.l > 0)
        irreps_z = Irreps((mul + gates if ir == SCALAR else mul, ir) for mul, ir in irreps_out)
        has_residual = bool(self.options["use_residual_connection"])
        if has_residual:
            self.linear(f"{name}#residual_block", source, irreps_in, z, irreps_z, per_species=True)
        block = f"{name}#convolution_block"
        self.linear(f"{block}#linear_in", source, irreps_in, y, irreps_in)
        self.messages(block, y, irreps_in, z, irreps_z, gcd(*(mul for mul, _ in irreps_in)), accumulate=has_residual)
        self.gate(z, irreps_z, target, irreps_out)
        return irreps_out

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
        block = "JointNodeEmbeddingBlock_0" if self.options["use_total_charge_embedding"] else "NodeEmbeddingBlock_0"
        rows, scale = self.embedding(f"NequipEmbeddingBlock_0#{block}", width)
        self.add_species_embedding("x0", "embedding", rows, scale)
        irreps = Irreps([(width, SCALAR)])
        for t in range(self.options["num_layers"]):
            irreps = self.layer(t, f"x{t}", irreps, f"x{t + 1}")
        self.readout(f"x{self.options['num_layers']}", irreps)
        self.scale_shift()
        self.state.finish()
        return self.finished("NequIP", self.checkpoint.cutoff, self.lmax, True, radial_basis)
