# SPDX-License-Identifier: MIT
"""The units of a trained model. Conversion changes its numbers to eV and Angstrom; comparison does the same with the
framework's results."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from ase.calculators.calculator import Calculator, all_changes
from ase.data import atomic_numbers

from .errors import EquiError
from .printable import printable

# ASE's constants: eV and Angstrom.
ENERGIES = {"eV": 1.0, "meV": 1e-3, "Hartree": 27.211386024367243, "kcal/mol": 0.04336410390059322, "kJ/mol": 0.010364269574711572}
LENGTHS = {"Angstrom": 1.0, "Bohr": 0.5291772105638411, "nm": 10.0}

# Forces of a data set, whose root mean square scales energies of atoms in training, do not reach this in eV/Angstrom.
# Those of one in kcal/mol usually exceed it.
LARGEST_SCALE = 20.0
# The result of an ASE calculator for forces that a model predicts directly.
DIRECT_FORCES = "direct_forces"
# Shifts of a fit that does not know how to divide an energy among the elements exceed those of the atoms, and heavy atoms are
# bound more strongly than the formula has it.
MARGIN = 1.25


@dataclass(frozen=True)
class ModelUnits:
    energy: str = "eV"
    length: str = "Angstrom"

    def __post_init__(self):
        for option, name, known in (("unit", self.energy, ENERGIES), ("length-unit", self.length, LENGTHS)):
            if name not in known:
                raise EquiError(f"--{option} {printable(name, 60)}: expected {', '.join(known)}")

    @property
    def factors(self):
        """eV per unit of energy, and Angstrom per unit of length."""
        return ENERGIES[self.energy], LENGTHS[self.length]

    @property
    def are_ours(self):
        return self.factors == (1.0, 1.0)

    def calculator(self, calculator):
        """Wraps an ASE calculator in the model's units as one in eV and Angstrom."""
        return calculator if self.are_ours else InOurUnits(calculator, self)

    def convert(self, body, tensors):
        """Converts the architecture part of a document and its tensors from the model's units to eV and Angstrom."""
        if not self.are_ours:
            _Conversion(body, tensors, *self.factors).run()


class _Conversion:
    """E, L: eV and Angstrom per unit of the model."""

    def __init__(self, body, tensors, E, L):
        self.body, self.tensors, self.E, self.L = body, tensors, E, L
        self.factor_of = {}  # by tensor

    def number(self, entry, key, factor):
        if key in entry:
            entry[key] *= factor

    def tensor(self, name, factor):
        if self.factor_of.setdefault(name, factor) != factor:
            raise EquiError(f"internal: tensor {name} has two units")

    def run(self):
        self.number(self.body, "cutoff", self.L)
        self.number(self.body.get("nearest_neighbors", {}), "tolerance", self.L**2)
        self.radial_basis(self.body["radial_basis"])
        inputs = self.body.get("mixture", {}).get("inputs", {})
        if "readout" in inputs:
            self.tensor(inputs["readout"], self.E)
        if any(layer["type"] == "observable" and layer["name"] != "charge" for layer in self.body["layers"]):
            raise EquiError("--unit, --length-unit: a model with dipoles or polarizabilities has the units of mace: eV and Angstrom")
        is_scaled = any(layer["type"] == "scale_shift" for layer in self.body["layers"])
        if not is_scaled:
            raise EquiError("internal: the model has no layer whose scale its unit could be")
        for layer in self.body["layers"]:
            kind = layer["type"]
            if kind == "convolution":
                for path in layer["paths"]:
                    path["scale"] *= self.L ** -path.get("r_power", 0)
            elif kind == "direct_forces":
                layer["scale"] *= self.E / self.L
            elif kind == "coulomb":
                # Like all energies before the layer that scales them, which has their unit.
                for key in ("prefactor", "cutoff", "damping"):
                    self.number(layer, key, self.L)
                for key in ("sigma", "on"):
                    self.number(layer.get("kernel", {}), key, self.L)
            elif kind == "ewald":
                # Its energy is not scaled. The squared unit of charge is that of the prefactor.
                layer["prefactor"] *= self.E * self.L
                layer["width"] *= self.L
                layer["k_cutoff"] /= self.L
            elif kind == "potential":
                raise EquiError("a model with potentials of charges (PolarMACE) has energies in eV and lengths in Angstrom: leave out the units")
            elif kind == "dispersion" and self.E != 1.0:
                raise EquiError("internal: the energy of a layer dispersion is in eV")
            elif kind == "dispersion":
                for key in ("cutoff", "damping"):
                    self.number(layer, key, self.L)
            elif kind == "pair_repulsion":
                self.tensor(layer["prefactor"], self.L * (1.0 if is_scaled else self.E))
                for key in ("length", "cutoff"):
                    self.tensor(layer[key], self.L)
                for key in ("on", "off"):
                    self.number(layer.get("switch", {}), key, self.L)
            elif kind == "scale_shift":
                is_scaled = False
                for key in ("scale", "shift"):
                    self.tensor(layer[key], self.E)
        for name, factor in self.factor_of.items():
            if factor != 1.0:
                self.tensors[name] = self.tensors[name].astype(np.float64) * factor

    def radial_basis(self, basis):
        if "cutoffs" in basis:
            self.tensor(basis["cutoffs"], self.L)
        self.number(basis["cutoff_function"], "r_on", self.L)
        transform = basis.get("transform")
        if transform is not None:
            self.tensor(transform["r0"], self.L)
            if transform["kind"] == "agnesi":
                return  # becomes a number without a unit
        if basis["kind"] == "bessel":
            self.tensor(basis["wave_numbers"], 1 / self.L)
            self.number(basis, "prefactor", self.L)
        elif basis["kind"] == "gaussian":
            self.tensor(basis["centres"], self.L)
            self.number(basis, "width", self.L)
        elif basis["kind"] == "exp_normal":
            self.number(basis, "decay", 1 / self.L)
        elif basis["kind"] == "bernstein":
            self.number(basis, "gamma", 1 / self.L)
        elif self.L != 1.0 and basis["kind"] != "cosine_bump":  # whose functions are those of r/cutoff
            raise EquiError(f"--length-unit: polynomials of a distance in other units than Angstrom ({basis['kind']}) are not supported")


def load(framework, source, ignore_keys=(), settings=None):
    """(checkpoint, ModelUnits) of a source, by the settings of convert."""
    settings = dict(settings or {})
    energy, length = settings.pop("unit", None), settings.pop("length_unit", "Angstrom")
    units = ModelUnits(energy or "eV", length)
    if "coulomb_cutoff" in settings:
        settings["coulomb_cutoff"] /= units.factors[1]
    checkpoint = framework.load(source, ignore_keys, **settings)
    energy = energy or checkpoint.stated_unit
    if energy is None:
        raise EquiError(
            f"{source}: {framework.title} does not store the unit of energies, name it: --unit {' | '.join(ENERGIES)}"
        )
    return checkpoint, ModelUnits(energy, length)


class InOurUnits(Calculator):
    """A framework's calculator in other units, whose results are in eV and Angstrom."""

    POWERS = {
        "energy": (1, 0), "free_energy": (1, 0), "energies": (1, 0), "forces": (1, -1), DIRECT_FORCES: (1, -1), "stress": (1, -3),
    }  # of the units of energy and length

    def __init__(self, calculator, units):
        super().__init__()
        self.calculator, self.units = calculator, units
        self.implemented_properties = calculator.implemented_properties

    @property
    def cutoff(self):
        return self.calculator.cutoff * self.units.factors[1]

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        E, L = self.units.factors
        theirs = self.atoms.copy()
        theirs.set_cell(self.atoms.cell / L, scale_atoms=False)
        theirs.positions = self.atoms.positions / L
        self.calculator.calculate(theirs, list(properties), all_changes)
        self.results = {
            key: value * E ** self.POWERS[key][0] * L ** self.POWERS[key][1]
            for key, value in self.calculator.results.items() if key in self.POWERS
        }  # fmt: skip


def of_all_electrons(symbol):
    """Energy in eV of an atom with all its electrons, to some per cent (20 % for the heaviest): the expansion of
    Thomas, Fermi, Scott and Schwinger."""
    z = atomic_numbers[symbol]
    return -ENERGIES["Hartree"] * (0.768745 * z ** (7 / 3) - 0.5 * z**2 + 0.2699 * z ** (5 / 3))


def doubt(body, tensors):
    """Why the energies of a document are hardly in eV, or an empty text."""
    layers = [layer for layer in body["layers"] if layer["type"] == "scale_shift"]
    for layer in layers:
        shifts, scales = (np.asarray(tensors[layer[key]], np.float64) for key in ("shift", "scale"))
        # The same shift for all elements, or shifts of a fit, may belong to any element: the bound is that of the most
        # strongly bound one.
        heaviest = max(body["elements"], key=lambda symbol: atomic_numbers[symbol])
        bound = MARGIN * sqrt(len(shifts)) * of_all_electrons(heaviest)
        if shifts.min() < bound:
            symbol = body["elements"][int(shifts.argmin())]
            return (
                f"an atom of {symbol} is shifted by {shifts.min():g}, and no atom of {heaviest} has less than "
                f"{of_all_electrons(heaviest):.0f} eV "
                "with all its electrons"
            )
        if np.abs(scales).max() > LARGEST_SCALE:
            return f"energies of atoms are scaled by {np.abs(scales).max():g}, more than forces in eV/Angstrom amount to"
    return ""
