# SPDX-License-Identifier: MIT
"""Reads LAMMPS data files, recognized by their content, with type labels, in every box and every atom style of atoms.

A data file names no elements. They come from the user, from the masses, or from type labels that are chemical symbols.
They are never guessed from the numbers of the types.
"""

import re

import numpy as np
from ase import Atoms
from ase.calculators.lammps import convert
from ase.io.formats import open_with_compression

from .errors import EquiError
from .masses import element_of_mass, species

HEADER_BYTES = 65536  # bytes that contain the whole header
# By atom style: the columns of the type and of x, and the number of columns without image flags. Columns of a hybrid
# style follow those of atomic.
STYLES = {
    "atomic": (1, 2, 5), "charge": (1, 3, 6), "bond": (2, 3, 6), "angle": (2, 3, 6), "molecular": (2, 3, 6), "full": (2, 4, 7),
    "amoeba": (2, 4, 7), "dipole": (1, 3, 9), "spin": (1, 2, 9), "hybrid": (1, 2, None),
}  # fmt: skip
# Their particles are not atoms, or their columns depend on the input script.
OTHER_STYLES = (
    "apip", "body", "bpm/sphere", "dielectric", "dpd", "edpd", "electron", "ellipsoid", "line", "mdpd", "oxdna", "peri", "rheo",
    "rheo/thermal", "smd", "sph", "sphere", "tdpd", "template", "tri", "wavepacket",
)  # fmt: skip
SECTION = re.compile(
    r"(Atoms|Velocities|Masses|Ellipsoids|Lines|Triangles|Bodies|Bonds|Angles|Dihedrals|Impropers|.* Coeffs|.* Type Labels)$"
)
NAME_THEM = "name the elements of its types, as in --symbols O,H"
BOX = ("xlo xhi", "ylo yhi", "zlo zhi")
VECTORS = ("avec", "bvec", "cvec")


def is_data_file(path):
    with open_with_compression(str(path), "rb") as file:
        head = file.read(HEADER_BYTES)
    has_box = re.search(rb"^[^#\n]*(\b[xyz]lo\s+[xyz]hi|\s[abc]vec)\b", head, re.M)
    return bool(has_box and re.search(rb"^\s*(\d+\s+atoms|Atoms)\b", head, re.M))


def _parts(lines):
    """(header, sections): numbers by keyword, and (comment, rows of words) by name."""
    header, sections, rows = {}, {}, None
    texts = [line.split("#", 1)[0].split() for line in lines]
    for n in range(1, len(lines)):  # LAMMPS skips the first line
        words = texts[n]
        if not words:
            continue
        name = " ".join(words)
        # Sections of fixes have their own names. The first row of a section may also begin with a letter: a type
        # label.
        alone = not texts[n - 1] and (n + 1 == len(lines) or not texts[n + 1]) and rows != []
        if SECTION.match(name) or (alone and words[0][0].isalpha()):
            rows = []
            sections[name] = (lines[n].partition("#")[2].strip(), rows)
        elif rows is not None:
            rows.append(words)
        else:
            first = next((k for k, word in enumerate(words) if word[0].isalpha()), len(words))
            header[" ".join(words[first:])] = words[:first]
    return header, sections


def _numbers(words, kind, count, what):
    try:
        numbers = [kind(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise EquiError(
            f"expected {count} {'whole ' if kind is int else ''}number{'s' if count > 1 else ''} ({what}), found "
            f"'{' '.join(words)}'"
        )
    return numbers


def _count(header, keyword):
    if keyword not in header:
        raise EquiError(f"its header has no line 'N {keyword}' (LAMMPS skips the first line of the file)")
    return _numbers(header[keyword], int, 1, keyword)[0]


def _cell(header):
    if any(name in header for name in VECTORS):
        missing = [name for name in VECTORS if name not in header]
        if missing:
            raise EquiError(f"its header has no {missing[0]}")
        return np.array([_numbers(header[name], float, 3, name) for name in VECTORS])
    missing = [name for name in BOX if name not in header]
    if missing:
        raise EquiError(f"its header has no {missing[0]}")
    low, high = np.array([_numbers(header[name], float, 2, name) for name in BOX]).T
    if not (high > low).all():
        raise EquiError("its box has no volume")
    xy, xz, yz = _numbers(header.get("xy xz yz", ["0"] * 3), float, 3, "xy xz yz")
    (lx, ly, lz) = high - low
    return np.array([[lx, 0, 0], [xy, ly, 0], [xz, yz, lz]])


class _Types:
    """The atom types of a file: numbers and labels."""

    def __init__(self, header, sections):
        self.count = _count(header, "atom types")
        self.labels = {}
        for words in sections.get("Atom Type Labels", ("", []))[1]:
            if len(words) != 2:
                raise EquiError(f"its section Atom Type Labels has the line '{' '.join(words)}'")
            self.labels[words[1]] = self.number(words[0])

    def number(self, word):
        if word in self.labels:
            return self.labels[word]
        if not word.isdigit():
            raise EquiError(f"the type {word} is neither a whole number nor a label of its section Atom Type Labels")
        if not 1 <= int(word) <= self.count:
            raise EquiError(f"the type {word} is not within the {self.count} atom types of its header")
        return int(word)

    def label(self, number):
        return next((label for label, n in self.labels.items() if n == number), None)


def _style(comment, rows):
    """The atom style that the section Atoms names. Only atomic has five columns."""
    word = comment.split()[0] if comment else None
    if word in STYLES:
        return word
    if word in OTHER_STYLES:
        raise EquiError(f"its atom style {word} is not read, only {', '.join(STYLES)}")
    if all(len(row) == 5 for row in rows):
        return "atomic"
    found = f"the line 'Atoms # {word}' names no atom style" if word else "its section Atoms does not name the atom style"
    fitting = next((style for style, (*_, columns) in STYLES.items() if columns in (len(rows[0]), len(rows[0]) - 3)), "full")
    raise EquiError(f"{found}: write that of the input script there, for {len(rows[0])} columns perhaps 'Atoms # {fitting}'")


def _atoms(rows, comment, types):
    """(types, positions), in the order of the IDs."""
    style = _style(comment, rows)
    type_column, x, columns = STYLES[style]
    fitting = (columns, columns + 3) if columns else range(5, 100)
    for row in rows:
        if len(row) not in fitting or len(row) != len(rows[0]):
            expected = f"{columns}, or {columns + 3} with image flags" if columns else "5 or more, the same in each line"
            raise EquiError(
                f"a line of its section Atoms ('{' '.join(row)}') has {len(row)} columns, the atom style {style} has "
                f"{expected}"
            )
    if columns and len(rows[0]) > columns and not all(re.fullmatch(r"[-+]?\d+", word) for row in rows for word in row[columns:]):
        raise EquiError(f"the image flags of its section Atoms are no whole numbers: the atom style may not be {style}")
    ids = np.array([_numbers(row[:1], int, 1, "atom IDs")[0] for row in rows])
    if len(set(ids)) < len(ids) and ids.any():
        raise EquiError("several of its atoms have the same ID")
    numbers = np.array([types.number(row[type_column]) for row in rows])
    try:
        positions = np.array([row[x : x + 3] for row in rows], float)
    except ValueError as error:
        raise EquiError(f"a position of its section Atoms is no number ({error})") from None
    order = np.argsort(ids, kind="stable")
    return numbers[order], positions[order]


def _in_ase_units(values, quantity, unit):
    # LAMMPS's constants for its units have other digits than ASE's.
    return values if unit in ("metal", "real") else convert(values, quantity, unit, "ASE")


def _masses(sections, types, unit):
    """Masses in u by type, or None."""
    if "Masses" not in sections:
        return None
    masses = {}
    for words in sections["Masses"][1]:
        masses[types.number(words[0])] = float(_in_ase_units(_numbers(words[1:], float, 1, "Masses")[0], "mass", unit))
    missing = [n for n in range(1, types.count + 1) if n not in masses]
    if missing:
        raise EquiError(f"its section Masses has no mass of atom type {missing[0]}")
    return masses


def check_symbols(symbols, count):
    """Elements that a user gives for `count` atom types."""
    unknown = [symbol for symbol in symbols if species(symbol) is None]
    if unknown:
        raise EquiError(f"--symbols: {unknown[0]} is no chemical symbol")
    if len(symbols) != count:
        raise EquiError(f"--symbols: expected a symbol for each of the {count} atom types, found {','.join(symbols)}")


def _given_species(symbols, used, masses):
    """By type, from the user's symbols. A type may have the mass of another element, unless the user names that
    element for another type."""
    for n in used if masses is not None else ():
        try:
            likely = element_of_mass(masses[n])
        except EquiError:
            continue
        if likely != species(symbols[n - 1])[0] and likely in symbols:
            raise EquiError(
                f"--symbols: atom type {n} is {symbols[n - 1]}, but has the mass of {likely}, {masses[n]:g}: name them "
                "in the order of the types"
            )
    return {n: species(symbols[n - 1]) for n in used}


def _species_of_labels(types, used):
    if not types.labels:
        raise EquiError(f"it has neither masses nor type labels, and so no elements: {NAME_THEM}")
    foreign = [types.label(n) for n in used if species(types.label(n)) is None]
    if foreign:
        raise EquiError(f"it has no masses, and the type label {foreign[0]} is no element: {NAME_THEM}")
    return {n: species(types.label(n)) for n in used}


def _species_of_masses(types, used, masses):
    if len(used) > 1 and all(masses[n] == 1.0 for n in used):
        raise EquiError(f"all its masses are 1, as in reduced units: {NAME_THEM}")
    found = {}
    for n in used:
        labeled = species(types.label(n)) or (None,)
        try:
            found[n] = element_of_mass(masses[n], labeled[0]), masses[n]
        except EquiError as error:
            raise EquiError(f"atom type {n}: {error}: {NAME_THEM}; the masses stay") from None
        if labeled[0] not in (None, found[n][0]):
            raise EquiError(f"atom type {n} has the label {types.label(n)}, but the mass of {found[n][0]}: {NAME_THEM}")
    return found


def _read(lines, symbols):
    header, sections = _parts(lines)
    said = re.search(r"\bunits = (\w+)", lines[0])
    unit = said.group(1) if said else "metal"
    if unit == "lj":
        raise EquiError("its first line says units = lj, in which nothing has a size")
    boundary = re.search(r"\bboundary = ([pfsm]+) ([pfsm]+) ([pfsm]+)", lines[0])
    types = _Types(header, sections)
    count = _count(header, "atoms")
    comment, rows = sections.get("Atoms", ("", []))
    if len(rows) != count or not count:
        raise EquiError(f"its section Atoms has {len(rows)} lines, its header {count} atoms")
    numbers, positions = _atoms(rows, comment, types)
    used = sorted(set(numbers.tolist()))
    masses = _masses(sections, types, unit)
    if symbols is not None:
        check_symbols(symbols, types.count)
        found = _given_species(symbols, used, masses)
    else:
        found = _species_of_labels(types, used) if masses is None else _species_of_masses(types, used, masses)
    atoms = Atoms(
        [found[n][0] for n in numbers], positions=_in_ase_units(positions, "distance", unit),
        cell=_in_ase_units(_cell(header), "distance", unit),
        pbc=["p" in word for word in boundary.groups()] if boundary else True,
        masses=[found[n][1] if masses is None else masses[n] for n in numbers],
    )  # fmt: skip
    assumed = ([] if said else ["lengths are in Angstrom"]) + ([] if boundary else ["all directions are periodic"])
    if assumed:
        atoms.info["note"] = f"the data file does not say so, but it is assumed that {' and '.join(assumed)}"
    return atoms


def read(path, symbols=None):
    """Atoms in the order of their IDs, with the masses of the file if it has any. symbols: elements by atom type.
    Velocities, charges and image flags are not read. The first line may contain "units = real", as LAMMPS writes it,
    and "boundary = p p f". Without them units are metal or real, and all directions periodic."""
    with open_with_compression(str(path), "rb") as file:
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    try:
        return _read(lines, symbols)
    except EquiError as error:
        raise EquiError(f"cannot read {path}: {error}") from None
