# SPDX-License-Identifier: MIT
"""The structures inside an .equi file with the framework's own results."""

from contextlib import suppress

import numpy as np
from ase import Atoms
from ase.calculators.calculator import PropertyNotImplementedError

from .document import has_boundary, is_invariant
from .lammps_runner import turned_as_in_lammps

# Elements of the stored structures, if the model has them: light and heavy, metal and non-metal.
PREFERRED = ("Na", "Cl", "O", "Si", "H", "C", "Fe", "Ti", "Ba", "Pb")


def pick_elements(elements, count):
    chosen = [e for e in PREFERRED if e in elements]
    chosen += [e for e in elements if e not in chosen]
    return [chosen[n % len(chosen)] for n in range(count)]


def of_composition(counts, cutoff):
    """Structures like those of `structures`, with the fractions of a formula's elements."""
    rng = np.random.default_rng(20240711)
    a = min(2.6, 0.7 * cutoff)
    unit = [symbol for symbol, n in counts.items() for _ in range(n)]
    found = []
    for name, least in (("small_cell", 1), ("triclinic", 8), ("cluster", 5)):
        symbols = unit * -(-least // len(unit))
        side = int(np.ceil(len(symbols) ** (1 / 3) - 1e-9))
        layers = -(-len(symbols) // side**2)
        grid = np.array([[x, y, z] for z in range(layers) for x in range(side) for y in range(side)])[: len(symbols)]
        shear = a * np.array([[1.35, 0.05, 0.0], [0.25, 1.25, 0.02], [-0.15, 0.3, 1.2]])
        positions = grid @ shear + 0.1 * rng.standard_normal((len(symbols), 3))
        cell = shear * np.array([[side], [side], [layers]])
        found.append((name, Atoms(symbols, positions=positions, cell=None if name == "cluster" else cell, pbc=name != "cluster")))
    return found


def structures(elements, cutoff, composition=None):
    """Small deterministic structures (name, Atoms) with distances between 1.7 A and the cutoff. composition: numbers
    of atoms of a formula, the only one that the model holds for."""
    if composition is not None:
        return of_composition(composition, cutoff)
    rng = np.random.default_rng(20240711)
    # About one atom per cube of edge a: atoms do not touch, and are within the cutoff.
    a = min(2.6, 0.7 * cutoff)
    pair = Atoms(
        pick_elements(elements, 2),
        cell=a * np.array([[1.35, 0.05, 0.0], [0.45, 1.25, 0.02], [0.40, 0.35, 1.30]]),
        scaled_positions=[[0.02, 0.01, 0.03], [0.47, 0.54, 0.52]],
        pbc=True,
    )
    grid = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) / 2
    triclinic = Atoms(
        pick_elements(elements, 8),
        cell=2 * a * np.array([[1.0, 0.0, 0.0], [0.25, 1.05, 0.0], [-0.15, 0.3, 0.95]]),
        scaled_positions=grid + 0.03 * rng.standard_normal((8, 3)),
        pbc=True,
    )
    cluster = Atoms(
        pick_elements(elements, 5),
        positions=a * (np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.2], [0.1, 0.2, 1], [1, 1, 0.9]]))
        + 0.1 * rng.standard_normal((5, 3)),
    )
    # A pair at a distance where the cutoff function falls off.
    edge = Atoms(pick_elements(elements, 2), positions=[[0.1, 0.2, 0.3], [0.1 + 0.93 * cutoff, 0.25, 0.2]])
    return [("small_cell", pair), ("triclinic", triclinic), ("cluster", cluster), ("near_cutoff", edge)]


def oriented(document, named):
    """The structures in LAMMPS's frame, if the model's energy depends on their orientation: a framework must evaluate
    what LAMMPS does."""
    return named if is_invariant(document) else [(name, turned_as_in_lammps(atoms)) for name, atoms in named]


def structures_of(document):
    """The structures of a model's document."""
    named = oriented(document, structures(document["elements"], document["cutoff"], document.get("composition")))
    return [(name, atoms) for name, atoms in named if has_boundary(document, atoms)]


def stress_of(atoms):
    """The calculator's stress of a structure in eV/A^3, [6]; None without a cell, or if the calculator has none, as those of
    deployed models."""
    if not atoms.pbc.any():
        return None
    with suppress(PropertyNotImplementedError):
        return atoms.get_stress()


def entries(document, calculator):
    """The document's `self_check` list, evaluated by an ASE calculator in float64."""
    result = []
    for name, atoms in structures_of(document):
        atoms.calc = calculator
        energy, forces, stress = atoms.get_potential_energy(), atoms.get_forces(), stress_of(atoms)
        result.append(
            {
                "name": name,
                "symbols": atoms.get_chemical_symbols(),
                "cell": atoms.cell.array.tolist() if atoms.pbc.any() else None,
                "pbc": [bool(p) for p in atoms.pbc],
                "positions": atoms.positions.tolist(),
                "energy": energy,
                "forces": forces.tolist(),
                "stress": None if stress is None else stress.tolist(),
            }
        )
    return result


def to_atoms(entry):
    """ASE Atoms of a stored structure."""
    return Atoms(entry["symbols"], positions=entry["positions"], cell=entry["cell"], pbc=entry["pbc"])
