# SPDX-License-Identifier: MIT
"""What a model itself does where a user would not expect it: jumps at the cutoff, different energies of mirror images,
and holes at short distance. These are properties of the model; every machine and every program reproduces them."""

import os
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from ase import Atoms
from ase.calculators.calculator import CalculationFailed
from ase.data import atomic_numbers, covalent_radii

from .ase import EquiCalculator
from .document import is_invariant, needs_periodic_cell
from .printable import printable
from .self_check import pick_elements, structures_of

MAX_ELEMENTS = 5  # whose pairs are examined
DIRECTION = np.array([0.48, 0.64, 0.6])  # of a pair: no axis
# A jump is the difference of two values this far on either side of the cutoff, in Angstrom. Slopes of forces are at
# most 1e3 eV/A^2 there, with cutoff functions that end steeply.
NEXT_TO_CUTOFF = 1e-6
JUMP_OF_ENERGY = 1e-6  # eV
JUMP_OF_FORCE = 1e-3  # eV/A
MIRROR = 1e-7  # eV/atom; rounding is a hundred million times smaller
# In units of the sum of covalent radii: a bond has its least energy within BONDED, and SHORTEST is shorter than what
# atoms reach in simulations.
BONDED = (0.65, 1.3)
SHORTEST = 0.4
STEP = 0.02
HOLE = 1.0  # eV


@dataclass(frozen=True)
class Property:
    """A property of which the user should know."""

    name: str  # jump_at_cutoff, no_mirror_symmetry, hole
    sentence: str
    numbers: dict  # of the worst case, by name with unit


def pairs_of(elements):
    """The pairs of elements that are examined."""
    chosen = list(dict.fromkeys(pick_elements(elements, MAX_ELEMENTS)))
    return list(combinations_with_replacement(chosen, 2))


def pair_at(calculator, pair, distance, box=None):
    """Energy of two atoms, and the force that pulls them apart. box: edge of a periodic box, by default none."""
    atoms = Atoms(list(pair), positions=[np.zeros(3), distance * DIRECTION], cell=box and [box] * 3, pbc=box is not None)
    atoms.calc = calculator
    return atoms.get_potential_energy(), float(atoms.get_forces()[1] @ DIRECTION)


def bond_length(pair):
    """The sum of the covalent radii."""
    return float(sum(covalent_radii[atomic_numbers[symbol]] for symbol in pair))


def mirrored(atoms):
    """The mirror image, with the cell."""
    image = atoms.copy()
    mirror = np.diag([1.0, 1.0, -1.0])
    image.set_cell(atoms.cell.array @ mirror)
    image.positions = atoms.positions @ mirror
    return image


def largest_fall(energies):
    """(place of the maximum before it, fall): the largest amount by which energies fall below an earlier one."""
    energies = np.asarray(energies)
    highest = np.maximum.accumulate(energies)
    end = int(np.argmax(highest - energies))
    return int(np.argmax(energies[: end + 1])), float(highest[end] - energies[end])


def jump_of(calculator, pair, cutoff, box=None):
    """(jump of the energy in eV, jump of the force in eV/A) of a pair at the cutoff."""
    (e1, f1), (e2, f2) = (pair_at(calculator, pair, cutoff + shift, box) for shift in (-NEXT_TO_CUTOFF, NEXT_TO_CUTOFF))
    return abs(e2 - e1), abs(f2 - f1)


def cutoffs_of(document):
    """The cutoff of a model, and those of its long-range layers, in Angstrom."""
    others = (layer["cutoff"] for layer in document["layers"] if isinstance(layer.get("cutoff"), float | int))
    return list(dict.fromkeys([document["cutoff"], *others]))


def jump_at_cutoff(jumps, cutoff):
    """The largest jump, a Property or None. jumps: results of jump_of() by pair. Energies count before forces."""
    pair, (energy, force) = max(jumps.items(), key=lambda one: one[1] if one[1][0] > JUMP_OF_ENERGY else (0.0, one[1][1]))
    if not (energy > JUMP_OF_ENERGY or force > JUMP_OF_FORCE):
        return None
    return Property(
        "jump_at_cutoff",
        f"At the cutoff of {cutoff:g} A the energy of the pair {' '.join(pair)} jumps by {energy:.2g} eV and its force by "
        f"{force:.2g} eV/A, so runs at constant energy drift.",
        {"energy_eV": energy, "force_eV_per_A": force, "pair": list(pair)},
    )


def mirror_difference(calculator, named):
    """(largest difference of the energies of mirror images in eV/atom, name of the structure)."""
    found = []
    for name, atoms in named:
        energies = []
        for one in (atoms.copy(), mirrored(atoms)):
            one.calc = calculator
            energies.append(one.get_potential_energy())
        found.append((abs(energies[1] - energies[0]) / len(atoms), name))
    return max(found)


def no_mirror_symmetry(calculator, named):
    """A Property if energies of mirror images differ, or None."""
    difference, name = mirror_difference(calculator, named)
    if not difference > MIRROR:
        return None
    return Property(
        "no_mirror_symmetry",
        f"The energies of a structure and of its mirror image differ by {1000 * difference:.2g} meV/atom: the model has no "
        "mirror symmetry.",
        {"energy_eV_per_atom": difference, "structure": name},
    )


def hole_of(calculator, pair, cutoff, box=None):
    """(barrier in eV, fall in eV, distance of the barrier): from the bond on, towards shorter distances."""
    radius = bond_length(pair)
    longest = min(BONDED[1], 0.99 * cutoff / radius)
    distances = radius * np.arange(longest, SHORTEST - STEP / 2, -STEP)
    energies = np.array([pair_at(calculator, pair, distance, box)[0] for distance in distances])
    bonded = distances >= BONDED[0] * radius
    start = int(np.argmin(energies[bonded])) if bonded.any() else 0
    place, fall = largest_fall(energies[start:])
    return float(energies[start + place] - energies[start]), fall, float(distances[start + place])


def hole(falls):
    """The hole with the lowest barrier, a Property or None. falls: results of hole_of() by pair."""
    holes = [(*numbers, pair) for pair, numbers in falls.items() if numbers[1] > HOLE]
    if not holes:
        return None
    barrier, fall, distance, pair = min(holes)
    return Property(
        "hole",
        f"Below {distance:.2f} A the energy of the pair {' '.join(pair)} falls by {fall:.3g} eV, behind a barrier of {barrier:.3g} eV; "
        f"{len(holes)} of {len(falls)} examined pairs have such holes.",
        {"barrier_eV": barrier, "fall_eV": fall, "distance_A": distance, "pair": list(pair), "holes": len(holes), "pairs": len(falls)},
    )


def not_examined(document):
    """Why a model cannot be examined, or nothing: two atoms are another system than the one that it holds for. Files
    whose numbers depend on the charge, the spin or other inputs hold for two neutral atoms, too."""
    if "composition" in document or document.get("mixture", {}).keys() & {"experts", "tasks"}:
        return "the model depends on the composition of a system, and a pair of atoms has another one"
    return ""


def examine(document, calculator):
    """The list of Property of a model. calculator: of ASE, in float64 and with exact radial functions."""
    cutoffs, falls = cutoffs_of(document), {}
    jumps = {cutoff: {} for cutoff in cutoffs}
    # A sum over wave vectors needs a cell, whose images are beyond all cutoffs.
    box = 2.5 * max(cutoffs) if needs_periodic_cell(document) else None
    for pair in pairs_of(document["elements"]):  # all that needs one pair together: another one sets LAMMPS up anew
        for cutoff in cutoffs:
            jumps[cutoff][pair] = jump_of(calculator, pair, cutoff, box)
        falls[pair] = hole_of(calculator, pair, document["cutoff"], box)
    found = [jump_at_cutoff(jumps[cutoff], cutoff) for cutoff in cutoffs]
    if is_invariant(document):
        found.append(no_mirror_symmetry(calculator, structures_of(document)))
    found.append(hole(falls))
    return [one for one in found if one is not None]


def examined(document, native):
    """(list of Property of a model, why it was not examined). native: a compare.Native with the file."""
    why = not_examined(document)
    if why:
        return [], why
    if native.build_dir is not None:
        os.environ["EQUI_BUILD_DIR"] = native.build_dir
    calculator = EquiCalculator(native.model_file, radial="exact")
    try:
        return examine(document, calculator), ""
    except CalculationFailed as error:  # such as without LAMMPS's Python module
        return [], str(error)
    finally:
        calculator.close()


def stored(document, found):
    """The document with these properties, which the pair style prints."""
    provenance = {key: value for key, value in document["provenance"].items() if key != "properties"}
    if found:
        provenance["properties"] = " ".join(one.sentence for one in found)
    return document | {"provenance": provenance}


def text(found, why):
    """The same for people. why: the reason, if the model was not examined."""
    if why:
        return f"the properties of the model were not examined: {printable(why, 300)}"
    if not found:
        return "properties of the model: no jump at the cutoff, mirror images have the same energy, pairs have no holes"
    return "\n".join(["properties of the model, on every machine:", *(f"  {one.sentence}" for one in found)])
