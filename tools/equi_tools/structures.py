# SPDX-License-Identifier: MIT
"""Structures for comparisons: a built-in set, and all that ASE can read."""

import itertools
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.build import add_adsorbate, bulk, fcc111, molecule
from ase.geometry import minkowski_reduce
from ase.spacegroup import crystal
from scipy.spatial import cKDTree

from . import equi_file, foreign_files, structure_files
from .document import has_boundary
from .errors import EquiError

# Atoms closer than this, in Angstrom, are two sites of one atom: the shortest bond, that of hydrogen, has 0.74.
COINCIDENT = 0.25


def _rattled(atoms, seed, amplitude=0.08, strain=0.02):
    """Moves every atom and shears the cell a little, so that no component vanishes by symmetry."""
    rng = np.random.default_rng(seed)
    if atoms.cell.rank == 3:
        deformation = np.eye(3) + strain * rng.uniform(-1, 1, (3, 3))
        atoms.set_cell(atoms.cell.array @ deformation, scale_atoms=True)
    atoms.positions += amplitude * rng.standard_normal((len(atoms), 3))
    return atoms


def _perovskite(a, b, x, length, seed):
    atoms = Atoms(
        [a, b, x, x, x],
        scaled_positions=[[0, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]],
        cell=[length] * 3,
        pbc=True,
    )
    return _rattled(atoms, seed)


def _rutile():
    atoms = crystal(
        ["Ti", "O"], [(0, 0, 0), (0.305, 0.305, 0)], spacegroup=136, cellpar=[4.594, 4.594, 2.959, 90, 90, 90]
    )
    return _rattled(atoms, 7)


def _quartz():
    atoms = crystal(
        ["Si", "O"], [(0.4697, 0, 2 / 3), (0.4135, 0.2669, 0.7857)], spacegroup=154,
        cellpar=[4.913, 4.913, 5.405, 90, 90, 120],
    )  # fmt: skip
    return _rattled(atoms, 8)


def _corundum():
    atoms = crystal(
        ["Al", "O"], [(0, 0, 0.352), (0.306, 0, 0.25)], spacegroup=167, cellpar=[4.759, 4.759, 12.99, 90, 90, 120],
        primitive_cell=True,
    )  # fmt: skip
    return _rattled(atoms, 12)


def _slab():
    atoms = fcc111("Cu", (2, 2, 3), vacuum=6.0)
    add_adsorbate(atoms, "O", 1.3, "fcc")
    atoms.pbc = [True, True, False]
    return _rattled(atoms, 17, 0.06, 0.0)


def _sheared_fluorite():
    atoms = bulk("CaF2", "fluorite", 5.46, cubic=True)
    atoms.set_cell(atoms.cell.array + np.array([[0, 0, 0], [4.1, 0, 0], [-3.7, 4.9, 0]]), scale_atoms=False)
    return _rattled(atoms, 18, 0.06, 0.0)


def _left_handed():
    atoms = _rattled(bulk("KBr", "rocksalt", 6.6), 28)
    atoms.set_cell(atoms.cell.array[[1, 0, 2]], scale_atoms=False)
    return atoms


def _alloy():
    atoms = bulk("Ni", "fcc", 3.6, cubic=True)
    atoms.symbols[0] = "Pt"
    return _rattled(atoms, 21)


def _melt():
    atoms = bulk("NaCl", "rocksalt", 5.9, cubic=True) * (2, 2, 1)
    return _rattled(atoms, 24, 0.25, 0.05)


def _wire():
    atoms = Atoms("C4", positions=[[0, 0, 0], [1.28, 0.1, 0], [2.6, -0.1, 0.1], [3.9, 0, 0.2]], cell=[5.2, 0, 0])
    atoms.pbc = [True, False, False]
    return atoms


def _sandwich():
    atoms = _rattled(molecule("C6H6"), 30, 0.04)
    return atoms + Atoms("V", positions=[[0.2, 0.1, 1.8]])


BUILTIN = {
    "NaCl": lambda: _rattled(bulk("NaCl", "rocksalt", 5.64, cubic=True), 1),
    "MgO_2_atom_cell": lambda: _rattled(bulk("MgO", "rocksalt", 4.21), 2),
    "Si": lambda: _rattled(bulk("Si", "diamond", 5.43, cubic=True), 3),
    "Cu": lambda: _rattled(bulk("Cu", "fcc", 3.61, cubic=True), 4),
    "Fe_2_atom_cell": lambda: _rattled(bulk("Fe", "bcc", 2.87, cubic=True), 5),
    "Ti_hcp": lambda: _rattled(bulk("Ti", "hcp", 2.95, 4.68), 6),
    "TiO2_rutile": _rutile,
    "SiO2_quartz": _quartz,
    "GaAs": lambda: _rattled(bulk("GaAs", "zincblende", 5.65, cubic=True), 9),
    "BaTiO3": lambda: _perovskite("Ba", "Ti", "O", 4.01, 10),
    "LiF_high_pressure": lambda: _rattled(bulk("LiF", "rocksalt", 3.25, cubic=True), 11, 0.05),
    "Al2O3_corundum": _corundum,
    "CsCl": lambda: _rattled(bulk("CsCl", "cesiumchloride", 4.12), 13),
    "ZnS_wurtzite": lambda: _rattled(bulk("ZnS", "wurtzite", 3.82, 6.26), 14),
    "ethanol_molecule": lambda: _rattled(molecule("CH3CH2OH"), 15, 0.05),
    "water_molecule": lambda: _rattled(molecule("H2O"), 16, 0.05),
    "Cu_O_slab": _slab,
    "CaF2_strongly_triclinic": _sheared_fluorite,
    "isolated_Au": lambda: Atoms("Au", positions=[[0.3, -0.2, 0.1]]),
    "N2_dimer": lambda: Atoms("N2", positions=[[0, 0, 0], [0.7, 0.6, 0.7]]),
    "PtNi3": _alloy,
    "SrZrO3": lambda: _perovskite("Sr", "Zr", "O", 4.15, 22),
    "CsPbI3": lambda: _perovskite("Cs", "Pb", "I", 6.3, 23),
    "NaCl_hot": _melt,
    "W_1_atom_cell": lambda: bulk("W", "bcc", 3.16),
    "C_wire": _wire,
    "KBr_left_handed": _left_handed,
    "LaB6_rattled": lambda: _rattled(
        crystal(["La", "B"], [(0, 0, 0), (0.1993, 0.5, 0.5)], spacegroup=221, cellpar=[4.156] * 3 + [90] * 3), 29
    ),
    "V_benzene": _sandwich,
}


def builtin():
    """List of (name, Atoms): crystals, molecules, a surface, small, sheared, compressed and isolated ones."""
    return [(name, make()) for name, make in BUILTIN.items()]


def fits(document, atoms):
    """Whether a model knows all elements of a structure, holds for their fractions and, if it is a model of clusters,
    the structure is one."""
    if not has_boundary(document, atoms):
        return False
    symbols = atoms.get_chemical_symbols()
    counts = document.get("composition", {})
    formula = sum(counts.values())
    return set(symbols) <= set(document["elements"]) and all(
        symbols.count(symbol) * formula == n * len(symbols) for symbol, n in counts.items()
    )


def heights(cell):
    """Distances between opposite faces of a cell."""
    return 1 / np.linalg.norm(np.linalg.inv(cell), axis=0)


def near_pairs(atoms, cutoff):
    """(i, j, distance) of all pairs within a cutoff, images included. ASE's neighbor lists need a minute where this
    needs seconds."""
    cell, count = minkowski_reduce(atoms.cell.complete(), atoms.pbc)[0], len(atoms)
    scaled = np.linalg.solve(cell.T, atoms.positions.T).T
    scaled[:, atoms.pbc] -= np.floor(scaled[:, atoms.pbc])
    margins = np.where(atoms.pbc, cutoff / heights(cell), 0.0)
    all_scaled, origins = [scaled], [np.arange(count)]
    for shift in itertools.product(*(range(-n, n + 1) for n in np.ceil(margins).astype(int))):
        image = scaled + shift
        near = ((image >= -margins) & (image <= 1 + margins))[:, atoms.pbc].all(axis=1)
        if any(shift) and near.any():
            all_scaled.append(image[near])
            origins.append(np.flatnonzero(near))
    origins = np.concatenate(origins)
    pairs = cKDTree(scaled @ cell).sparse_distance_matrix(cKDTree(np.concatenate(all_scaled) @ cell), cutoff, output_type="ndarray")
    pairs = pairs[pairs["i"] != pairs["j"]]
    return pairs["i"], origins[pairs["j"]], pairs["v"]


def check(name, atoms):
    """Refuses what is not a structure of atoms."""
    if not len(atoms):
        raise EquiError(f"{name} holds no atoms")
    if not np.isfinite(atoms.positions).all() or not np.isfinite(atoms.cell.array).all():
        raise EquiError(f"{name}: the positions or the cell are not finite numbers")
    if 0 in atoms.numbers:
        raise EquiError(f"{name}: an atom is of no chemical element")
    if not (atoms.get_masses() > 0).all():
        raise EquiError(f"{name}: an atom has no positive mass")
    for site in (atoms.info.get("occupancy") or {}).values():
        if len(site) > 1 or any(part < 1.0 for part in site.values() if not isinstance(part, str)):
            raise EquiError(f"{name}: a site is occupied by {site} on average: make a supercell with whole atoms first")
    for k in np.flatnonzero(atoms.pbc):
        if np.linalg.norm(atoms.cell.array[k]) < 1e-6:
            raise EquiError(f"{name} is periodic along cell vector {k + 1}, which it does not give")
    cell = atoms.cell.complete()
    if abs(np.linalg.det(cell)) < 1e-6 or heights(cell)[atoms.pbc].min(initial=1) < COINCIDENT:
        raise EquiError(f"{name}: the cell has no volume")
    first, second, distances = near_pairs(atoms, COINCIDENT)
    if len(distances):
        n = np.argmin(distances)
        i, j = sorted((first[n], second[n]))
        raise EquiError(
            f"{name}: atoms {i + 1} ({atoms.symbols[i]}) and {j + 1} ({atoms.symbols[j]}) are {distances[n]:.2g} Angstrom apart: "
            "alternative sites, or another cell or unit than the file says"
        )


def _names_an_atom(error):
    return isinstance(error.args[0], str) and re.fullmatch(r"[A-Z][a-z]?\w?|\d+", error.args[0])


def read_files(paths, symbols=None):
    """List of (name, Atoms) of all frames of files that ASE reads; symbols by atom type, for the data and dump files
    of LAMMPS. Structures that no calculation can use are refused. Atoms have the masses of the file if it has any."""
    found = [pair for path in paths for pair in _read_file(path, symbols)]
    for name, atoms in found:
        check(name, atoms)
    return found


def read_last(path, symbols=None):
    """(name, Atoms, number of structures) of the last one in a file, as read_files reads it."""
    if symbols is not None and Path(path).is_file() and not structure_files.has_atom_types(path):
        raise EquiError(f"--symbols: {path} has no atom types, its atoms have names")
    found = _read_file(path, symbols)
    name, atoms = found[-1]
    check(name, atoms)
    return name, atoms, len(found)


def _read_file(path, symbols):
    path = Path(path)
    if path.is_dir():
        raise EquiError(f"cannot read {path}: it is a folder, name a file in it")
    if not path.is_file():
        raise EquiError(f"cannot read {path}: no such file")
    if equi_file.is_equi_file(path):
        raise EquiError(f"cannot read {path}: it is a model file and no structure")
    with suppress(OSError):  # the reader reports it
        found = foreign_files.what_stands_for_another(path)
        if found:
            raise EquiError(f"cannot read {path}: it {found}")
    try:
        frames = structure_files.read(path, symbols)
    except EquiError:
        raise
    except Exception as error:
        if isinstance(error, KeyError) and _names_an_atom(error):
            raise EquiError(f"cannot read {path}: it names an atom {error.args[0]}, which is no chemical symbol") from error
        raise EquiError(
            f"ASE cannot read {path}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        ) from error
    if not frames:
        raise EquiError(f"{path} holds no structure")
    return [(path.name if len(frames) == 1 else f"{path.name}#{n}", atoms) for n, atoms in enumerate(frames)]
