# SPDX-License-Identifier: MIT
"""The static quantities of bench/data_sheet.py by any ASE calculator: crystals, phonons, a molecule, pairs, mirror images.

As a program it runs the own calculator of a model's framework, in the framework's Python environment. It reads a request
and writes the values, both in JSON: `python sheet_values.py SOURCE CHOICE REQUEST VALUES`.
"""

import contextlib
import json
import sys
from dataclasses import dataclass

import md_systems
import numpy as np

THZ = 15.633302  # of the square root of eV/(Angstrom^2 u), over 2 pi
EOS_STRAIN, EOS_POINTS, EOS_ROUNDS = 0.015, 7, 12  # of lattice constants
DISPLACEMENT = 0.01  # Angstrom
PAIR_STEP = 0.02  # Angstrom
BOX = 25.0  # Angstrom; frameworks may refuse structures without a cell
LAST = 0.5  # Angstrom before the cutoff


@dataclass(frozen=True)
class Crystal:
    """A cubic crystal and what experiments at room temperature give, rounded."""

    structure: str  # of ase.build.bulk, or perovskite
    lattice: float  # Angstrom
    modulus: float  # GPa

    def atoms(self, formula, lattice):
        """The primitive cell."""
        from ase.build import bulk

        if self.structure == "perovskite":
            return md_systems.cubic(formula, md_systems.PEROVSKITE, lattice, 1)
        return bulk(formula, self.structure, lattice)


CRYSTALS = {
    "C": Crystal("diamond", 3.567, 443), "Si": Crystal("diamond", 5.431, 98), "GaAs": Crystal("zincblende", 5.653, 75),
    "Al": Crystal("fcc", 4.050, 76), "Cu": Crystal("fcc", 3.615, 140), "W": Crystal("bcc", 3.165, 310),
    "NaCl": Crystal("rocksalt", 5.640, 24), "MgO": Crystal("rocksalt", 4.212, 160), "CaF2": Crystal("fluorite", 5.463, 82),
    "SrTiO3": Crystal("perovskite", 3.905, 174),
}  # fmt: skip
PHONONS = ("Si", "NaCl", "Cu")
# Points of the zone of face-centered cubic lattices, in 2 pi over the lattice constant.
POINTS = {"Gamma": (0.0, 0.0, 0.0), "X": (1.0, 0.0, 0.0), "L": (0.5, 0.5, 0.5)}
PAIRS = (("O", "O"), ("Na", "Cl"), ("Cu", "Cu"), ("H", "C"))
MOST_PAIRS = 3


def known(formulas, elements):
    """Those whose elements a model knows."""
    from ase import Atoms

    return [formula for formula in formulas if set(Atoms(formula).symbols) <= set(elements)]


def pairs_of(elements):
    return [pair for pair in PAIRS if set(pair) <= set(elements)][:MOST_PAIRS]


def equation_of_state(volumes, energies):
    """(volume at no pressure, bulk modulus): Birch and Murnaghan's energy, a polynomial of third order in V^(-2/3), by least
    squares. None if it has no minimum within the volumes."""
    volumes = np.asarray(volumes, float)
    middle = volumes.mean()
    x = (volumes / middle) ** (-2 / 3)
    energy = np.polynomial.Polynomial.fit(x, energies, 3)
    slope, curvature = energy.deriv(), energy.deriv(2)
    places = [root.real for root in slope.roots() if abs(root.imag) < 1e-9 and x.min() <= root.real <= x.max()]
    minima = [place for place in places if curvature(place) > 0]
    if not minima:
        return None
    volume = middle * minima[0] ** -1.5
    return volume, 4 / 9 * curvature(minima[0]) * minima[0] ** 3.5 / middle


def crystal_values(calculator, formula):
    """Lattice constant in Angstrom and bulk modulus in GPa, None if no minimum was found."""
    from ase.units import GPa

    crystal = CRYSTALS[formula]
    per_cell = crystal.atoms(formula, 1.0).get_volume()  # of a lattice constant of 1
    lattice, found = crystal.lattice, None
    for _ in range(EOS_ROUNDS):
        lengths = lattice * np.linspace(1 - EOS_STRAIN, 1 + EOS_STRAIN, EOS_POINTS)
        energies = []
        for length in lengths:
            atoms = crystal.atoms(formula, length)
            atoms.calc = calculator
            energies.append(atoms.get_potential_energy())
        found = equation_of_state(per_cell * lengths**3, energies)
        before = lattice
        lattice = (found[0] / per_cell) ** (1 / 3) if found else lengths[int(np.argmin(energies))]
        if found and abs(lattice / before - 1) < 1e-3:
            return {"lattice_A": float(lattice), "modulus_GPa": float(found[1] / GPa)}
    return None


def frequencies(calculator, primitive, lattice, repeats=2):
    """Frequencies in THz, in ascending order, at POINTS; imaginary ones are negative. By central differences of forces
    in `repeats` cubic cells along each axis. primitive: of a face-centered cubic lattice; POINTS belong to this
    supercell, so its periodic images change nothing."""
    from ase.build import make_supercell

    # cubic @ primitive.cell is the cubic cell.
    cubic = np.round(lattice * np.linalg.inv(primitive.cell.array)).astype(int)
    supercell = make_supercell(primitive, repeats * cubic)
    supercell.calc = calculator
    kinds, sites = owners(supercell, primitive)
    firsts = [int(np.flatnonzero((kinds == k) & (np.abs(sites).max(axis=1) < 1e-6))[0]) for k in range(len(primitive))]
    rows = np.zeros((len(primitive), 3, len(supercell), 3))  # second derivatives
    start = supercell.positions.copy()
    for k, atom in enumerate(firsts):
        for axis in range(3):
            for sign in (1, -1):
                supercell.positions = start
                supercell.positions[atom, axis] += sign * DISPLACEMENT
                rows[k, axis] -= sign * supercell.get_forces() / (2 * DISPLACEMENT)
    masses = primitive.get_masses()
    result = {}
    for name, point in POINTS.items():
        phases = np.exp(2j * np.pi / lattice * (sites @ np.array(point)))
        matrix = np.zeros((len(primitive), 3, len(primitive), 3), complex)
        for n, kind in enumerate(kinds):
            matrix[:, :, kind, :] += phases[n] * rows[:, :, n, :]
        matrix /= np.sqrt(masses)[:, None, None, None] * np.sqrt(masses)[None, None, :, None]
        matrix = matrix.reshape(3 * len(primitive), -1)
        squares = np.linalg.eigvalsh((matrix + matrix.conj().T) / 2)
        result[name] = (THZ * np.sign(squares) * np.sqrt(np.abs(squares))).tolist()
    return result


def owners(supercell, primitive):
    """(kind [N], site [N, 3]): for each atom the atom of the primitive cell, and the lattice vector from there."""
    kinds, sites = np.full(len(supercell), -1), np.zeros((len(supercell), 3))
    for k, place in enumerate(primitive.positions):
        offsets = supercell.positions - place
        cells = offsets @ np.linalg.inv(primitive.cell.array)
        is_kind = np.abs(cells - np.round(cells)).max(axis=1) < 1e-6
        kinds[is_kind] = k
        sites[is_kind] = np.round(cells[is_kind]) @ primitive.cell.array
    return kinds, sites


def molecule_values(calculator):
    """Water at rest: length of its bonds in Angstrom, angle in degrees."""
    from ase.build import molecule
    from ase.optimize import BFGS

    water = molecule("H2O", cell=[BOX] * 3, pbc=True)
    water.calc = calculator
    BFGS(water, logfile=None).run(fmax=2e-3, steps=200)
    lengths = [water.get_distance(0, n) for n in (1, 2)]
    return {"bond_A": float(np.mean(lengths)), "angle_deg": float(water.get_angle(1, 0, 2))}


def pair_curve(calculator, pair, cutoff):
    """Energies and forces that pull two atoms apart, from half of their bond to 0.1 Angstrom before the cutoff."""
    from equi_tools import model_properties

    distances = np.arange(0.5 * model_properties.bond_length(pair), cutoff - 0.1, PAIR_STEP)
    values = [model_properties.pair_at(calculator, pair, distance, BOX) for distance in distances]
    return {"distance_A": distances.tolist(), "energy_eV": [v[0] for v in values], "force_eV_per_A": [v[1] for v in values]}


def smoothness(curve):
    """What a pair curve does beyond its least energy: the largest difference of the energy and of the work of the force, in
    meV, the number of other places without a force, the largest force within the last LAST Angstrom."""
    distance, energy, force = (np.array(curve[key]) for key in ("distance_A", "energy_eV", "force_eV_per_A"))
    from scipy.interpolate import CubicSpline  # its integral has an error of the fourth order of the step

    start = int(np.argmin(energy))
    work = CubicSpline(distance, force).antiderivative()(distance)
    difference = (energy - energy[start]) + (work - work[start])
    beyond = force[start + 1 :]
    turns = int((np.sign(beyond[1:]) * np.sign(beyond[:-1]) < 0).sum())
    return {
        "energy_minus_work_meV": float(1000 * np.abs(difference[start:]).max()),
        "further_extrema": turns,
        "force_before_cutoff_eV_per_A": float(np.abs(force[distance > distance[-1] - LAST]).max()),
    }


def pair_values(calculator, pair, cutoff):
    curve = pair_curve(calculator, pair, cutoff)
    return curve | smoothness(curve)


def static_values(calculator, request, report=lambda text: None):
    """The values of the parts that a request names, each by formula or pair."""
    from equi_tools import model_properties, self_check

    elements, cutoff, parts = request["elements"], request["cutoff"], request["parts"]
    values = {}
    if "crystals" in parts or "phonons" in parts:
        formulas = known(CRYSTALS if "crystals" in parts else PHONONS, elements)
        values["crystals"] = {}
        for formula in formulas:
            values["crystals"][formula] = crystal_values(calculator, formula)
            report(f"{formula}: {values['crystals'][formula]}")
    if "phonons" in parts:
        values["phonons"] = {}
        for formula in known(PHONONS, elements):
            found = values["crystals"][formula]
            if found is None:
                continue
            # Whatever calculator: displaced at its own lattice constant.
            primitive = CRYSTALS[formula].atoms(formula, found["lattice_A"])
            values["phonons"][formula] = frequencies(calculator, primitive, found["lattice_A"])
            report(f"{formula}: {values['phonons'][formula]}")
    if "molecule" in parts and {"H", "O"} <= set(elements):
        values["molecule"] = molecule_values(calculator)
        report(f"H2O: {values['molecule']}")
    if "pairs" in parts:
        values["pairs"] = {}
        for pair in pairs_of(elements):
            values["pairs"]["-".join(pair)] = pair_values(calculator, pair, cutoff)
            report("-".join(pair))
    if "mirror" in parts:
        difference, name = model_properties.mirror_difference(calculator, self_check.structures(elements, cutoff)[:3])
        values["mirror_eV_per_atom"] = difference
        report(f"mirror images: {difference:.2e} eV/atom ({name})")
    return values


def framework_calculator(framework, source, choice, provenance):
    """The framework's own calculator with the settings of the conversion, in eV and Angstrom."""
    from equi_tools import model_units
    from equi_tools.convert import stored_settings

    settings = stored_settings(framework, provenance)
    if not settings:
        return framework.framework_calculator(source, choice or None)
    checkpoint, units = model_units.load(framework, source, settings=settings)
    return units.calculator(framework.framework_calculator(checkpoint, choice or None))


def main():
    source, choice, request, output = sys.argv[1:5]
    import common

    sys.path.insert(0, str(common.SOURCE_TREE / "tools"))
    from equi_tools import frameworks

    with open(request) as stream:
        wanted = json.load(stream)
    framework = frameworks.require(source)
    calculator = framework_calculator(framework, source, choice, wanted["provenance"])
    values = static_values(calculator, wanted, report=lambda text: print(text, file=sys.stderr, flush=True))
    with open(output, "w") as stream:
        json.dump({"name": framework.name, "version": framework.installed_version(), **values}, stream)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
