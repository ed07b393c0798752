# SPDX-License-Identifier: MIT
"""Reads structures by ASE's readers, and ensures that these invent nothing.

Some of ASE's readers guess elements from names of another meaning, or drop a cell without a message. What can be read
correctly is read, and the rest is refused. Each reader here returns a list of Atoms.
"""

import io
import re

import numpy as np
from ase import units
from ase.cell import Cell
from ase.data import atomic_numbers
from ase.io import read as read_by_ase
from ase.io.formats import filetype, open_with_compression

from . import lammps_data
from .errors import EquiError
from .masses import NAMED_ISOTOPES, element_of_mass, species

# Formats that number their atoms by type, or name them after a force field.
WITHOUT_ELEMENTS = {
    "lammps-dump-binary": "atom types", "netcdftrajectory": "numbers that may be atom types", "gromos": "the names of a force field",
}  # fmt: skip
# As i-PI writes and reads it, with brackets of any kind.
IPI_CELL = re.compile(r"\bCELL[({\[](abcABC|H|GENH)[)}\]]:\s*([-+0-9.Ee ]*)")
IPI_UNITS = {"angstrom": 1.0, "atomic_unit": units.Bohr, "nanometer": 10.0, "ase": 1.0}
# Space groups whose origin or axes depend on the setting; symmetry operations decide it.
SEVERAL_SETTINGS = {
    48, 50, 59, 68, 70, 85, 86, 88, 125, 126, 129, 130, 133, 134, 137, 138, 141, 142, 146, 148, 155, 160, 161, 166, 167, 201, 203,
    222, 224, 227, 228,
}  # fmt: skip


def _ase(source, form, **options):
    return read_by_ase(source, index=":", format=form, do_not_split_by_at_sign=True, **options)


def _text(path):
    with open_with_compression(str(path), "rb") as file:
        return file.read().decode("utf-8", errors="replace")


def _plain(path, form, symbols):
    return _ase(str(path), form)


# XYZ files.


class _Columns:
    """The columns that the Properties of an extended xyz comment declare."""

    def __init__(self, comment):
        found = re.search(r"\bProperties\s*=\s*[\"']?([^\s\"']+)", comment)
        self.words = (found.group(1) if found else "species:S:1:pos:R:3").split(":")

    def find(self, name):
        """(type, first column), or None."""
        column = 0
        for key, kind, count in zip(self.words[::3], self.words[1::3], self.words[2::3]):
            if key == name:
                return kind, column
            column += int(count)
        return None


def _ipi_cell(comment):
    """(cell in Angstrom, unit of the positions in Angstrom) of a comment of i-PI, None for another comment. The cell
    is None if i-PI has none."""
    found = IPI_CELL.search(comment)
    if found is None:
        return None
    scales = {}
    for name in ("cell", "positions"):
        unit = re.search(rf"\b{name}{{(\w+)}}", comment)
        unit = unit.group(1) if unit else "atomic_unit"
        if unit not in IPI_UNITS:
            raise EquiError(f"the unit {name}{{{unit}}} of its comment is not known")
        scales[name] = IPI_UNITS[unit]
    other = re.search(r"\b(velocities|forces|momenta)\{", comment)
    if other:
        raise EquiError(f"it holds {other.group(1)}, not positions")
    kind = found.group(1)
    count = 6 if kind == "abcABC" else 9
    numbers = np.array(found.group(2).split()[:count], float)
    if len(numbers) < count:
        raise EquiError(f"the cell of its comment has {len(numbers)} numbers")
    if kind == "abcABC":
        cell = Cell.fromcellpar(numbers).array
    else:
        cell = numbers.reshape(3, 3)
        cell = cell.T if kind == "H" else cell  # the columns of H are the vectors
    has_cell = np.linalg.det(cell) > 0
    return (cell * scales["cell"] if has_cell else None), scales["positions"]


def _check_comment(comment, columns):
    """Refuses cells and elements that ASE would ignore."""
    key = re.search(r"(?:^|\s)(lattice|LATTICE|[Cc]ell|CELL|[Bb]ox|BOX)\s*=", comment)
    if key and not re.search(r"\bLattice\s*=", comment):
        raise EquiError(f"its comment gives a cell as {key.group(1)}=, which extended xyz calls Lattice=")
    if re.search(r"(?:^|\s)(properties|PROPERTIES)\s*=", comment):
        raise EquiError("its comment names columns as properties=, which extended xyz calls Properties=")
    if len(comment.split()) in (3, 6, 9) and re.fullmatch(r"[-+0-9.Ee\s]+", comment):
        raise EquiError('its comment may be a cell: write Lattice="..." of extended xyz, or some word into it if it is none')
    if columns.find("species") is not None and columns.find("species")[0] == "I":
        raise EquiError("its column species holds numbers: atomic numbers belong into Z:I:1")


def _xyz_symbols(lines, columns):
    """Replaces D and T in the lines of a frame, and returns their masses by atom."""
    masses = {}
    if columns.find("species") is None:
        return masses
    column, number = columns.find("species")[1], columns.find("Z")
    for n, line in enumerate(lines):
        words = line.split()
        name = words[column].capitalize() if len(words) > column else ""
        if name.isdigit():
            raise EquiError(f"it names an atom {name}: write chemical symbols, or atomic numbers into the column Z:I:1 of extended xyz")
        if species(name) is None and name != "X":
            raise EquiError(f"it names an atom {words[column] if words else ''}, which is no chemical symbol")
        if name in NAMED_ISOTOPES:
            words[column], masses[n] = NAMED_ISOTOPES[name]
            lines[n] = " ".join(words)
        if number is not None and atomic_numbers[words[column].capitalize()] != int(words[number[1]]):
            raise EquiError(f"its columns species and Z contradict each other: {words[column]} and {words[number[1]]}")
    return masses


def _xyz(path, form, symbols):
    lines = _text(path).splitlines()
    comments, masses, n = [], [], 0
    while n < len(lines) and re.fullmatch(r"\s*\d+\s*", lines[n]):
        count, comment = int(lines[n]), lines[n + 1] if n + 1 < len(lines) else ""
        columns = _Columns(comment)
        _check_comment(comment, columns)
        atoms = lines[n + 2 : n + 2 + count]
        masses.append(_xyz_symbols(atoms, columns))
        lines[n + 2 : n + 2 + count] = atoms
        comments.append(comment)
        n += 2 + count
        while n < len(lines) and lines[n].lstrip().startswith("VEC"):
            n += 1
    if any(line.strip() for line in lines[n:]):
        raise EquiError(f"line {n + 1} ('{lines[n].strip()[:40]}') is no number of atoms")
    frames = _ase(io.StringIO("\n".join(lines) + "\n"), "extxyz")
    for atoms, comment, of_isotopes in zip(frames, comments, masses, strict=True):
        _set_xyz_masses(atoms, of_isotopes)
        found = _ipi_cell(comment)
        if found is not None:
            cell, scale = found
            atoms.positions *= scale
            atoms.set_cell(cell)
            atoms.pbc = cell is not None
    return frames


def _set_xyz_masses(atoms, of_isotopes):
    """Masses of a column that ASE does not know, and of D and T."""
    if "mass" in atoms.arrays and not atoms.has("masses"):
        given = atoms.arrays.pop("mass")
        for symbol, mass in zip(atoms.symbols, given):
            try:
                fits = element_of_mass(float(mass), symbol) == symbol
            except EquiError:
                fits = False
            if not fits:
                raise EquiError(
                    f"its column mass has {mass:g} for {symbol}, which is not its mass in u: call it masses, in u, or "
                    "leave it out"
                )
        atoms.set_masses(given)
    if of_isotopes and not atoms.has("masses"):
        found = atoms.get_masses()
        found[list(of_isotopes)] = list(of_isotopes.values())
        atoms.set_masses(found)


# Crystallography.


def _cif(path, form, symbols):
    frames = _ase(str(path), form, store_tags=True)
    for atoms in frames:
        _check_cif(atoms.info)
        if atoms.has("masses"):  # of deuterium; ASE uses the mass of its nucleus
            numbers, found = atoms.numbers, atoms.get_masses()
            found[(numbers == 1) & (found > 2.0)] = NAMED_ISOTOPES["D"][1]
            atoms.set_masses(found)
        note = _missing_atoms(atoms)
        atoms.info = {key: atoms.info[key] for key in ("occupancy",) if key in atoms.info} | ({"note": note} if note else {})
    return frames


def _missing_atoms(atoms):
    """A note if the formula of the file has elements that its sites lack, most often hydrogen; or None."""
    found = re.findall(r"([A-Z][a-z]?)\d*\.?\d*", str(atoms.info.get("_chemical_formula_sum", "")))
    elements = {species(name)[0] for name in found if species(name)}
    missing = sorted(elements - set(atoms.symbols))
    return f"the formula of the file has {', '.join(missing)}, but there are no such atoms" if missing else None


def _listed(tags, name):
    value = tags.get(name, [])
    return value if isinstance(value, list) else [value]


def _check_cif(tags):
    groups = {}
    assemblies = _listed(tags, "_atom_site_disorder_assembly")
    for n, group in enumerate(_listed(tags, "_atom_site_disorder_group")):
        if str(group) not in (".", "?", "0", ""):
            groups.setdefault(str(assemblies[n]) if n < len(assemblies) else "", set()).add(str(group))
    if any(len(found) > 1 or any(group.startswith("-") for group in found) for found in groups.values()):
        raise EquiError("it has alternative sites of disordered atoms (_atom_site_disorder_group): keep one group, and delete the others")
    if any(str(flag).lower() == "dum" for flag in _listed(tags, "_atom_site_calc_flag")):
        raise EquiError("it has dummy sites (_atom_site_calc_flag dum): delete them")
    if any(str(value) == "?" for value in _listed(tags, "_atom_site_occupancy")):
        raise EquiError("the occupancy of a site is not known (?): write a number")
    for name in _listed(tags, "_atom_site_type_symbol") or _listed(tags, "_atom_site_label"):
        _check_cif_name(str(name), "_atom_site_type_symbol" in tags)
    operations = ("_space_group_symop_operation_xyz", "_space_group_symop.operation_xyz", "_symmetry_equiv_pos_as_xyz")
    group = tags.get("spacegroup")
    if group is not None and group.no in SEVERAL_SETTINGS and not any(tags.get(name) for name in operations):
        raise EquiError(
            f"it names the space group {group.symbol}, which has several settings, without its operations: add them "
            "(_space_group_symop_operation_xyz)"
        )


def _check_cif_name(name, is_symbol):
    """ASE reads a capital letter and a small one: NA is nitrogen to it."""
    letters = re.match(r"[A-Za-z]*", name).group(0)
    taken = re.search(r"[A-Z][a-z]?", name)
    if taken is None or species(taken.group(0)) is None:
        raise EquiError(f"it names an atom {name}, which is no chemical symbol")
    if is_symbol and letters != taken.group(0):
        raise EquiError(f"it has the type symbol {name}, which is no chemical symbol: write {letters.capitalize()} or another one")
    other = letters[:2].capitalize()
    if not is_symbol and other != taken.group(0) and species(other) is not None:
        raise EquiError(f"its label {name} may be {taken.group(0)} or {other}: add _atom_site_type_symbol")


def _pdb(path, form, symbols):
    lines = _text(path).splitlines()
    cells = [line for line in lines if line.startswith("CRYST1")]
    for line in lines:
        if line.startswith(("ATOM", "HETATM")):
            if species(line[76:78].strip().capitalize()) is None:
                raise EquiError("it has atoms without a chemical symbol in columns 77 and 78: names alone (CA) do not tell the element")
            if line[16:17].strip() and line[16] != "A":
                raise EquiError("it has alternate locations of atoms: keep one of them")
    frames = [atoms for atoms in _ase(str(path), form) if len(atoms)]
    for line in cells:
        if line[55:66].strip().replace(" ", "") not in ("", "P1", "1"):
            raise EquiError(f"it holds the asymmetric unit of the space group {line[55:66].strip()}: write all atoms of the cell, in P 1")
    for atoms in frames:
        if len(cells) == 1:  # before the first of several models it is the cell of all
            atoms.set_cell([float(cells[0][k : k + n]) for k, n in ((6, 9), (15, 9), (24, 9), (33, 7), (40, 7), (47, 7))])
            atoms.pbc = True
        if (atoms.cell.lengths() <= 1.0 + 1e-6).all():  # the format's sign that there is no crystal
            atoms.set_cell(None)
            atoms.pbc = False
        occupancies = atoms.arrays.get("occupancy", np.ones(1))
        if ((occupancies > 0) & (occupancies < 1)).any():
            raise EquiError("it has atoms with occupancies below 1")
    return frames


# Names of atoms.


def _symbols_of_names(names):
    found = [re.fullmatch(r"([A-Z][a-z]?)\d*", name) for name in names]
    for name, match in zip(names, found):
        if match is None or species(match.group(1)) is None:
            raise EquiError(f"it has no elements, and the name {name} is no chemical symbol with a number: rename its atoms, as Na and H1")
    return [match.group(1) for match in found]


def _dl_poly(path, form, symbols):
    lines = _text(path).split("\n", 1)[1:]  # after the title
    _symbols_of_names(re.findall(r"^\s*(?!timestep)([A-Za-z]\S*)", "".join(lines), re.M))
    return _ase(str(path), form)


def _gromacs(path, form, symbols):
    lines = _text(path).rstrip().splitlines()
    if len(lines) < 3 or not lines[1].strip().isdigit() or len(lines) != int(lines[1]) + 3:
        raise EquiError("it does not hold one structure: the number of atoms in its second line does not fit its lines")
    frames = _ase(io.StringIO("\n".join(lines) + "\n"), form)
    for atoms in frames:
        _set_species(atoms, _symbols_of_names(atoms.arrays["atomtypes"].tolist()))
        if not atoms.cell.array.any():
            atoms.pbc = False
    return frames


def _set_species(atoms, names):
    """Elements, and masses for D and T."""
    atoms.symbols = [species(name)[0] for name in names]
    if any(name in NAMED_ISOTOPES for name in names):
        atoms.set_masses([species(name)[1] for name in names])


def _vasp(path, form, symbols):
    """VASP 5 introduced the line of symbols; before, the comment had them only by convention."""
    lines = _text(path).splitlines()
    counts = lines[5].split() if len(lines) > 5 else []
    if counts and counts[0].isdigit():
        counts = [word for word in counts if word.isdigit()]
        names = lines[0].split()
        if form == "vasp-xdatcar" or len(names) != len(counts) or any(species(name) is None for name in names):
            raise EquiError("it has no line of chemical symbols above the numbers of atoms: add it")
    return _ase(str(path), form)


# Dump files of LAMMPS.


def _dump_species(columns, row, symbols):
    """(element, mass) of an atom."""
    words = dict(zip(columns, row))
    if symbols is not None:
        number = int(words["type"])
        if not 1 <= number <= len(symbols):
            raise EquiError(f"--symbols: expected a symbol for atom type {number}, found {','.join(symbols)}")
        found = species(symbols[number - 1])
    elif "element" in words:
        found = species(words["element"])
        if found is None:
            raise EquiError(f"it names an atom {words['element']}, which is no chemical symbol")
    else:
        found = element_of_mass(float(words["mass"])), None
    return found[0], float(words["mass"]) if "mass" in words else found[1]


def _dump_table(columns, rows, symbols):
    """Header and rows with what ASE needs: an element and a mass for each atom, in columns of ASE's names."""
    if symbols is None and "element" not in columns and "mass" not in columns:
        raise EquiError(f"it has no columns element or mass, and so no elements: {lammps_data.NAME_THEM}")
    if symbols is not None and "type" not in columns:
        raise EquiError("--symbols: it has no column type")
    kept = [n for n, name in enumerate(columns) if name == "id" or re.fullmatch("[xyz]s?u?", name)]
    found = [_dump_species(columns, row, symbols) for row in rows]
    if symbols is None and "element" in columns and "type" in columns and {symbol for symbol, _ in found} == {"C"}:
        if len({row[columns.index("type")] for row in rows}) > 1:
            raise EquiError(f"all its atoms are C, as LAMMPS writes without dump_modify element: {lammps_data.NAME_THEM}")
    lines = [" ".join([*(row[n] for n in kept), symbol, f"{mass:.17g}"]) for row, (symbol, mass) in zip(rows, found)]
    return " ".join(["ITEM: ATOMS", *(columns[n] for n in kept), "element", "v_mass"]), lines


def _lammps_dump(path, form, symbols):
    lines = _text(path).splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("ITEM:")] + [len(lines)]
    if symbols is not None:
        lammps_data.check_symbols(symbols, len(symbols))
    text, note = [], None
    for start, end in zip(starts, starts[1:]):
        header, rows = lines[start], lines[start + 1 : end]
        if header.startswith("ITEM: UNITS") and rows[0].strip() not in ("metal", "real"):
            raise EquiError(f"its units are {rows[0].strip()}: only metal and real are read")
        if header.startswith("ITEM: BOX BOUNDS") and not re.search(r"(\s[pfsm]{2}){3}\s*$", header):
            header, note = f"{header} pp pp pp", "the dump file does not say which directions are periodic: all are assumed to be"
        if header.startswith("ITEM: ATOMS"):
            header, rows = _dump_table(header.split()[2:], [row.split() for row in rows], symbols)
        text += [header, *rows]
    frames = _ase(io.StringIO("\n".join(text) + "\n"), form)
    for atoms in frames:
        atoms.set_masses(atoms.arrays.pop("v_mass"))
        atoms.info = {"note": note} if note else {}
    return frames


READERS = {
    "extxyz": _xyz, "xyz": _xyz, "cif": _cif, "proteindatabank": _pdb, "gromacs": _gromacs, "vasp": _vasp, "vasp-xdatcar": _vasp,
    "lammps-dump-text": _lammps_dump, "dlp4": _dl_poly, "dlp-history": _dl_poly,
}  # fmt: skip
TYPED = ("lammps-dump-text",)


def is_dump(path):
    """Whether a file begins as the text dumps of LAMMPS do."""
    with open(path, "rb") as stream:
        return stream.read(5) == b"ITEM:"


def has_atom_types(path):
    """Whether a file has atom types, whose elements may be named."""
    return lammps_data.is_data_file(path) or filetype(str(path)) in TYPED


def read(path, symbols=None):
    """All structures of a file. symbols: elements by atom type, of LAMMPS data and dump files."""
    if lammps_data.is_data_file(path):
        return [lammps_data.read(path, symbols)]
    form = filetype(str(path))
    if form in WITHOUT_ELEMENTS:
        raise EquiError(f"cannot read {path}: atoms have {WITHOUT_ELEMENTS[form]} in it and no elements: convert it to extended xyz first")
    try:
        return READERS.get(form, _plain)(path, form, symbols)
    except EquiError as error:
        raise EquiError(f"cannot read {path}: {error}") from None
