# SPDX-License-Identifier: MIT
"""The readouts of MACE models with dipoles and polarizabilities: AtomicDipolesMACE, EnergyDipolesMACE and
AtomicDielectricMACE.

Each layer's readout adds scalars, vectors and tensors of its features. Readouts of vectors and tensors are summed in one
feature, which layers `observable` read; scalars of an energy go through readouts in float64. The first two classes have
dipoles in Debye, the last one in e Angstrom. Dipoles of fixed charges of the training data, which mace's own calculator
leaves out, are not part of a file.
"""

from math import sqrt

import numpy as np

from ...errors import EquiError
from ...irreps import SCALAR, Irreps
from ..common.layers import irreps_text, network

LINEAR = ("LinearDipoleReadoutBlock", "LinearDipolePolarReadoutBlock")
NONLINEAR = ("NonLinearDipoleReadoutBlock", "NonLinearDipolePolarReadoutBlock")
FEATURE, BALANCED = "observables", "observables_balanced"

# By class: the irreps of a readout; (block, channel) of each block of the summed feature; the block with the energy.
KINDS = {
    "AtomicDipolesMACE": ("1x1o", [(0, 0)], None),
    "EnergyDipolesMACE": ("1x0e+1x1o", [(1, 0)], 0),
    "AtomicDielectricMACE": ("2x0e+1x1o+1x2e", [(0, 0), (0, 1), (1, 0), (2, 0)], None),
}
# Tensors of AtomicDielectricMACE that mace does not use.
UNUSED = ("dipole_mean", "dipole_std", "polarizability_mean", "polarizability_std")
POLARIZABILITY_UNIT = "unknown"


def audit(model):
    """Refuses by name what this module does not represent exactly."""
    expected = Irreps(KINDS[model.class_name][0])
    for t, block in enumerate(model.readouts.children()):
        where = f"readouts.{t}"
        if block.class_name not in (*LINEAR, *NONLINEAR):
            raise EquiError(f"{where}: block {block.class_name} is not supported, only {', '.join((*LINEAR, *NONLINEAR))}")
        if Irreps(block.irreps_out) != expected:
            raise EquiError(f"{where}: irreps {irreps_text(Irreps(block.irreps_out))} are not {irreps_text(expected)}")
    if model.class_name == "AtomicDielectricMACE" and not bool(getattr(model, "use_polarizability", True)):
        raise EquiError(
            "use_polarizability: without polarizabilities mace takes a scalar and two components of a vector for the dipole: "
            "AtomicDipolesMACE is the class for dipoles alone"
        )


def is_dead(block):
    """Whether a nonlinear readout is zero because its gates have no input."""
    if block.class_name not in NONLINEAR:
        return False
    return all(ir != SCALAR for _, ir in Irreps(block.linear_1.irreps_in)) and not Irreps(block.equivariant_nonlin.irreps_scalars)


def tensor_basis():
    """Tensors [6, 3, 3] of the numbers of a polarizability, those of the format (doc/model_file.rst)."""
    expected = np.zeros((6, 3, 3))
    expected[0] = np.eye(3) / sqrt(3)
    for n, (a, b) in ((1, (0, 2)), (2, (0, 1)), (4, (1, 2))):
        expected[n, a, b] = expected[n, b, a] = sqrt(0.5)
    expected[3] = np.diag([-1.0, 2.0, -1.0]) / sqrt(6)
    expected[5] = np.diag([-1.0, 0.0, 1.0]) / sqrt(2)
    return expected


def check_tensor_basis(basis):
    """Refuses other tensors than those of the format."""
    expected = tensor_basis()
    if basis.shape != expected.shape or not np.abs(basis - expected).max() < 1e-5:
        raise EquiError("change_of_basis: other tensors of a polarizability than those of e3nn are not supported")


class DipoleReadouts:
    """Adds the readouts to a converter (convert._Converter)."""

    def __init__(self, converter):
        self.converter = converter
        self.kind = converter.model.class_name
        irreps, self.chosen, self.energy_block = KINDS[self.kind]
        self.irreps = Irreps([(1, Irreps(irreps)[block].ir) for block, _ in self.chosen])
        self.has_feature = False

    def add(self, n, source, irreps_x):
        """The readout of layer n, whose features are `source`."""
        name, block = f"readouts.{n}", getattr(self.converter.model.readouts, str(n))
        if block.class_name in LINEAR:
            parts = self.parts(f"{name}.linear", block.linear, irreps_x)
            self.observe(f"{name}.linear", parts, source)
            if self.energy_block is not None:
                ((matrix, scale),) = self.matrices_of_energy(f"{name}.linear", parts)
                self.energy(f"{name}.energy", source, irreps_x, [matrix[:, :1]], [scale])
            return
        first = self.parts(f"{name}.linear_1", block.linear_1, irreps_x)
        irreps_z = first[1]
        every = [(j, slice(None)) for j in range(len(irreps_z))]
        self.converter.linear_columns(f"{name}.linear_1", first, source, f"z{n}", every)
        gated = self.converter.gate(f"{name}.equivariant_nonlin", block.equivariant_nonlin, irreps_z, f"z{n}", f"g{n}")
        second = self.parts(f"{name}.linear_2", block.linear_2, gated)
        self.observe(f"{name}.linear_2", second, f"g{n}")
        if self.energy_block is not None:
            # Scalars come first among the outputs of the first matrix, then the gates.
            width = sum(mul for mul, _ in Irreps(block.equivariant_nonlin.irreps_scalars))
            ((one, scale),), ((two, other),) = (self.matrices_of_energy(f"{name}.linear_{k}", p) for k, p in ((1, first), (2, second)))
            acts = self.converter.scalar_activation(f"{name}.equivariant_nonlin", block.equivariant_nonlin)
            self.energy(f"{name}.energy", source, irreps_x, [one[:, :width], two[:, :1]], [scale, other], *acts)

    def parts(self, name, module, irreps):
        found = self.converter.linear_parts(name, module)
        if found[0] != irreps or found[3]:
            raise EquiError(f"{name}: irreps {irreps_text(found[0])} of a feature {irreps_text(irreps)}, or biases, are not supported")
        return found

    def observe(self, name, parts, source):
        columns = [(block, slice(channel, channel + 1)) for block, channel in self.chosen]
        self.converter.linear_columns(name, parts, source, FEATURE, columns, accumulate=self.has_feature)
        self.has_feature = True

    def matrices_of_energy(self, name, parts):
        """(matrix, scale) of the map from scalars to the first block of scalars."""
        irreps_in, irreps_out, matrices, _ = parts
        found = [(matrix, scale) for i, j, matrix, scale in matrices if irreps_in[i].ir == SCALAR and irreps_out[j].ir == SCALAR]
        if len(found) != 1:
            raise EquiError(f"{name}: {len(found)} matrices of scalars, not one")
        return found

    def energy(self, name, source, irreps_x, matrices, scales, *activation):
        converter = self.converter
        scalars = [i for i, (_, ir) in enumerate(irreps_x) if ir == SCALAR]
        weights = [converter.tensor(f"{name}.{k}", np.ascontiguousarray(matrix)) for k, matrix in enumerate(matrices)]
        converter.add_readout(source, irreps_x, scalars[0], network(weights, *(activation or ("identity", 1.0)), scales))

    def finish(self):
        """The observables of the summed feature."""
        converter = self.converter
        if not self.has_feature:
            raise EquiError("readouts: all of them are zero, because no layer but the last has vectors")
        source, unit = FEATURE, "Debye"
        if self.kind == "AtomicDielectricMACE":
            # The sum of the charges is that of the system.
            charge = converter.charge_of_dipoles
            target = converter.tensor("total_charge", np.array([1.0 if charge is None else float(charge)]))
            converter.add("channel_balance", FEATURE, self.irreps, BALANCED, self.irreps, block=0, first=0, target=target)
            if charge is None:
                converter.mixture = {"tensors": {target: "charge"}}
            source, unit = BALANCED, "e*Angstrom"
            converter.add_observable(source, self.irreps, "charge", [0], "e")
            converter.add_observable(source, self.irreps, "polarizability", [1, 3], POLARIZABILITY_UNIT)
        converter.add_observable(source, self.irreps, "dipole", [len(self.irreps) - 1 if unit == "Debye" else 2], unit)
