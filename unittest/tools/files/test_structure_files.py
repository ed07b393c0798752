# SPDX-License-Identifier: MIT
"""Structures are read as their files mean them, or refused in one line with advice. Elements, masses and cells are
never made up."""

import gzip
import re

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.io import write
from ase.neighborlist import neighbor_list
from ase.units import Bohr
from equi_tools import bench, lammps_data, lammps_runner, structures
from equi_tools.errors import EquiError
from equi_tools.masses import element_of_mass

# Positions of some Angstrom, written with 16 digits.
SAME = 1e-12
HEADER = "a line that LAMMPS skips\n\n3 atoms\n2 atom types\n\n0 8 xlo xhi\n-1 8 ylo yhi\n0 10 zlo zhi\n\n"
MASSES = "Masses\n\n1 22.99\n2 35.45  # Cl\n\n"
LABELS = "Atom Type Labels\n\n1 Na\n2 Cl\n\n"
PLACES = ["1 1 1", "4 1.5 1", "1 4 6.25"]


def only(path, text=None, symbols=None):
    """The one structure of a file with this text."""
    if text is not None:
        path.write_text(text)
    ((_, atoms),) = structures.read_files([path], symbols)
    return atoms


def refusal(path, text=None, symbols=None):
    with pytest.raises(EquiError) as refused:
        only(path, text, symbols)
    message = str(refused.value)
    assert path.name in message or "--symbols" in message
    assert "\n" not in message
    return message


def data(lines, comment=" # atomic", front=MASSES, header=HEADER):
    return header + front + f"Atoms{comment}\n\n" + "\n".join(lines) + "\n"


def atomic(types=("1", "2", "2")):
    return [f"{n} {kind} {place}" for n, (kind, place) in enumerate(zip(types, PLACES), 1)]


def assert_is_salt(atoms):
    assert atoms.get_chemical_symbols() == ["Na", "Cl", "Cl"] and atoms.pbc.all()
    assert np.abs(atoms.positions - [[float(x) for x in place.split()] for place in PLACES]).max() < SAME
    assert np.allclose(atoms.cell.array, np.diag([8, 9, 10]))


# Data files of LAMMPS.


@pytest.mark.parametrize("style, columns", [
    ("atomic", "{n} {t} {r}"), ("charge", "{n} {t} -0.5 {r}"), ("full", "{n} 7 {t} -0.5 {r}"), ("amoeba", "{n} 7 {t} 1 {r}"),
    ("molecular", "{n} 7 {t} {r}"), ("bond", "{n} 7 {t} {r}"), ("angle", "{n} 7 {t} {r}"), ("dipole", "{n} {t} -0.5 {r} 0 0 1"),
    ("spin", "{n} {t} {r} 0 0 1 2.0"), ("hybrid", "{n} {t} {r} 0.5 7"),
])  # fmt: skip
@pytest.mark.parametrize("images", ["", " 0 1 -2"])
@pytest.mark.parametrize("labels", [False, True])
def test_every_atom_style_of_atoms(style, columns, images, labels, tmp_path):
    names = ["Na", "Cl", "Cl"] if labels else [1, 2, 2]
    lines = [columns.format(n=n, t=t, r=r) + images for n, t, r in zip((30, 4, 17), names, PLACES)]
    front = LABELS + "Masses\n\nCl 35.45\nNa 22.99\n\n" if labels else MASSES
    atoms = only(tmp_path / "salt.any-name", data(lines, f"  # {style}", front))
    assert_is_salt(atoms[[2, 0, 1]])  # in the order of the IDs, which have gaps


@pytest.mark.parametrize("style", ["sphere", "body", "template", "electron", "ellipsoid"])
def test_other_atom_styles_are_refused(style, tmp_path):
    assert f"atom style {style} is not read" in refusal(tmp_path / "x", data(atomic(), f" # {style}"))


@pytest.mark.parametrize("comment", ["", " # metal", " # written by hand"])
def test_an_atom_style_is_not_guessed(comment, tmp_path):
    assert_is_salt(only(tmp_path / "five_columns", data(atomic(), comment)))
    for columns, style in ((6, "charge"), (7, "full"), (8, "atomic"), (10, "full")):
        lines = [line.replace(" ", " 1" * (columns - 5) + " ", 1) for line in atomic()]
        assert f"for {columns} columns perhaps 'Atoms # {style}'" in refusal(tmp_path / "more_columns", data(lines, comment))


@pytest.mark.parametrize("text, expected", [
    (data(atomic(), front=""), "neither masses nor type labels.*--symbols O,H"),
    (data(atomic(), front="Atom Type Labels\n\n1 Na\n2 opls_1\n\n"), "the type label opls_1 is no element.*--symbols"),
    (data(atomic(), front=LABELS + "Masses\n\n1 35.45\n2 22.99\n\n"), "type 1 has the label Na, but the mass of Cl.*--symbols"),
    (data(atomic(), front="Masses\n\n1 14.027\n2 15.035\n\n"), "type 1: the mass 14.027 is that of no element.*N with 14.007.*--symbols"),
    (data(atomic(), front="Masses\n\n1 1.0\n2 1.0\n\n"), "all its masses are 1.*--symbols"),
    (data(atomic(), front="Masses\n\n1 22.99\n\n"), "no mass of atom type 2"),
    (data(atomic(), front="Masses\n\n1 22.99\n2 heavy\n\n"), "found 'heavy'"),
    (data(atomic(("1", "Cl", "2"))), "the type Cl is neither a whole number nor a label"),
    (data(atomic(("1", "2", "3"))), "the type 3 is not within the 2 atom types"),
    (data(atomic()[:2]), "has 2 lines, its header 3 atoms"),
    (data([*atomic()[:2], "3 2 1 4"]), "has 4 columns, the atom style atomic has 5"),
    (data([*atomic()[:2], "3 2 1 4 1 0 0.5 0"]), "has 8 columns"),
    (data([line + " 0 0.5 0" for line in atomic()]), "image flags"),
    (data([*atomic()[:2], "2 2 1 4 6"]), "same ID"),
    (data([*atomic()[:2], "3 2 1 four 6"]), "a position of its section Atoms is no number"),
    (data([*atomic()[:2], "3 2 1 nan 6"]), "not finite"),
    (data([*atomic()[:2], "3 2 4.1 1.5 1"]), "atoms 2 .Cl. and 3 .Cl. are 0.1 Angstrom apart"),
    (data(atomic(), header=HEADER.replace("0 8 xlo xhi\n", "")), "no xlo xhi"),
    (data(atomic(), header=HEADER.replace("0 8 xlo xhi", "8 8 xlo xhi")), "no volume"),
    (data(atomic(), header=HEADER.replace("2 atom types\n", "")), "N atom types"),
    (data(atomic(), header=HEADER.replace("skips", "skips, units = lj")), "units = lj"),
    (HEADER + MASSES, "has 0 lines, its header 3 atoms"),
])  # fmt: skip
def test_what_a_data_file_leaves_open_is_refused(text, expected, tmp_path):
    assert re.search(expected, refusal(tmp_path / "conf.lmp", text))


def test_symbols_name_the_elements_and_masses_stay(tmp_path):
    assert_is_salt(only(tmp_path / "x", data(atomic(), front=""), ["Na", "Cl"]))
    assert only(tmp_path / "x", symbols=["Na", "Cl"]).get_masses()[0] == pytest.approx(22.98976928)
    atoms = only(tmp_path / "y", data(atomic(), front="Masses\n\n1 14.027\n2 3.024\n\n"), ["C", "H"])
    assert atoms.get_chemical_symbols() == ["C", "H", "H"] and atoms.get_masses().tolist() == [14.027, 3.024, 3.024]
    assert only(tmp_path / "x", symbols=["O", "D"]).get_masses().tolist() == [15.999, 2.014, 2.014]
    (tmp_path / "z").write_text(data(atomic()))
    assert "atom type 1 is Cl, but has the mass of Na" in refusal(tmp_path / "z", symbols=["Cl", "Na"])
    assert "a symbol for each of the 2 atom types" in refusal(tmp_path / "z", symbols=["Na"])
    assert "Xy is no chemical symbol" in refusal(tmp_path / "z", symbols=["Na", "Xy"])


def test_labels_alone_name_elements(tmp_path):
    assert_is_salt(only(tmp_path / "x", data(atomic(), front=LABELS)))
    atoms = only(tmp_path / "x", data(atomic(), front="Atom Type Labels\n\n1 O\n2 D\n\n"))
    assert atoms.get_chemical_symbols() == ["O", "H", "H"] and atoms.get_masses()[1] == 2.014


def test_other_sections_and_compression(tmp_path):
    more = "\nVelocities\n\n1 0 0 1\n2 0 0 1\n3 0 0 1\n\nBonds # harmonic\n\n1 1 1 2\n\nMolecules\n\n1 1\n2 1\n3 2\n"
    coefficients = "Pair Coeffs # lj/cut\n\n1 0.1 2.0\n2 0.1 2.0\n\n"
    text = data(atomic(), front=MASSES + coefficients, header=HEADER.replace("3 atoms", "3 atoms\n1 bonds\n1 bond types")) + more
    assert_is_salt(only(tmp_path / "x", text.replace("\n", "\r\n")))
    (tmp_path / "x.gz").write_bytes(gzip.compress(text.encode()))
    assert_is_salt(only(tmp_path / "x.gz"))
    one = HEADER.replace("3 atoms", "1 atoms").replace("2 atom types", "1 atom types")
    assert len(only(tmp_path / "one", data(["1 Na 1 1 1"], front="Atom Type Labels\n\n1 Na\n\nMasses\n\nNa 22.99\n\n", header=one))) == 1


def test_boxes_and_units_of_data_files(tmp_path):
    tilted = HEADER.replace("zlo zhi", "zlo zhi\n1 -2 3 xy xz yz")
    assert only(tmp_path / "x", data(atomic(), header=tilted)).cell.array.tolist() == [[8, 0, 0], [1, 9, 0], [-2, 3, 10]]
    general = "x\n\n3 atoms\n2 atom types\n0 8 0 avec\n9 1 0 bvec\n1 1 10 cvec\n0 0 0 abc origin\n\n"
    assert only(tmp_path / "x", data(atomic(), header=general)).cell.array.tolist() == [[0, 8, 0], [9, 1, 0], [1, 1, 10]]
    electron = HEADER.replace("skips", "skips, units = electron")
    assert only(tmp_path / "x", data(atomic(), header=electron)).cell[0, 0] == pytest.approx(8 * Bohr, rel=1e-6)
    real = HEADER.replace("skips", "skips, timestep = 0, units = real")
    assert_is_salt(only(tmp_path / "x", data(atomic(), header=real)))


def test_our_own_data_files_keep_their_boundary(tmp_path):
    atoms = structures.BUILTIN["Cu_O_slab"]()
    lammps_runner.write_data(tmp_path / "slab", atoms, ["Cu", "O"], lammps_runner.lammps_box(atoms))
    found = only(tmp_path / "slab")
    assert found.pbc.tolist() == [True, True, False] and "note" not in found.info
    assert "all directions are periodic" in only(tmp_path / "other", data(atomic())).info["note"]


def test_other_files_are_no_data_files(tmp_path):
    for name, form in (("data.xyz", "extxyz"), ("data.POSCAR", "vasp"), ("data.cif", "cif")):
        write(tmp_path / name, bulk("NaCl", "rocksalt", 5.6, cubic=True), format=form)
        assert not lammps_data.is_data_file(tmp_path / name)
        assert len(only(tmp_path / name)) == 8


# Masses.


@pytest.mark.parametrize("mass, symbol", [
    (1.0, "H"), (1.008, "H"), (1.00794, "H"), (2.014, "H"), (12.0, "C"), (12.01, "C"), (13.003, "C"), (14.0, "N"), (14.0067, "N"),
    (16, "O"), (15.9949, "O"), (6.94, "Li"), (7.016, "Li"), (35.5, "Cl"), (39.95, "Ar"), (40.08, "Ca"), (47.9, "Ti"), (55.85, "Fe"),
    (58.69, "Ni"), (58.93, "Co"), (72.59, "Ge"), (127.6, "Te"), (208.98, "Bi"), (238.03, "U"),
])  # fmt: skip
def test_masses_of_elements_and_isotopes(mass, symbol):
    assert element_of_mass(mass) == symbol


# United atoms, hydrogen and oxygen after repartitioning, virtual sites, whole numbers between elements.
@pytest.mark.parametrize(
    "mass", [14.027, 14.02, 15.035, 15.0, 16.043, 13.019, 17.007, 3.024, 2.016, 4.032, 2.0, 11.967, 0.0, 1e-10, 72.0, -1.0]
)
def test_masses_of_no_element(mass):
    with pytest.raises(EquiError, match="is that of no element"):
        element_of_mass(mass)


@pytest.mark.parametrize("mass, names", [(40.0, ("Ar", "Ca")), (59.0, ("Co", "Ni")), (3.016, ("H", "He")), (209.0, ("Bi", "Po"))])
def test_ambiguous_masses_are_decided_by_labels_alone(mass, names):
    with pytest.raises(EquiError, match="may be that of"):
        element_of_mass(mass)
    for name in names:
        assert element_of_mass(mass, name) == name


# Dump files of LAMMPS.


def dump(columns, rows, bounds="pp pp ff"):
    return (
        f"ITEM: TIMESTEP\n7\nITEM: NUMBER OF ATOMS\n{len(rows)}\nITEM: BOX BOUNDS {bounds}\n0 8\n0 8\n0 8\nITEM: ATOMS {columns}\n"
        + "\n".join(rows) + "\n"
    )  # fmt: skip


def test_dumps_name_elements_or_are_refused(tmp_path):
    path = tmp_path / "run.lammpstrj"
    rows = ["2 2 1 1 1", "1 1 4 4 4"]
    assert "no columns element or mass" in refusal(path, dump("id type x y z", rows))
    atoms = only(path, symbols=["O", "D"])
    assert atoms.get_chemical_symbols() == ["O", "H"] and atoms.pbc.tolist() == [True, True, False]
    assert atoms.get_masses().tolist() == [15.999, 2.014] and atoms.positions.tolist() == [[4, 4, 4], [1, 1, 1]]
    assert "a symbol for atom type 2" in refusal(path, symbols=["O"])
    atoms = only(path, dump("id element xs ys zs vx", ["2 Cl 0.5 0.5 0.5 1", "1 Na 0 0 0 1"]))
    assert atoms.get_chemical_symbols() == ["Na", "Cl"] and atoms.positions[1].tolist() == [4, 4, 4]
    atoms = only(path, dump("id type mass x y z", ["2 2 2.014 1 1 1", "1 1 15.999 4 4 4"]))
    assert atoms.get_chemical_symbols() == ["O", "H"] and atoms.get_masses().tolist() == [15.999, 2.014]
    assert "the mass 14.027" in refusal(path, dump("id type mass x y z", ["1 1 14.027 1 1 1"]))
    assert "without dump_modify element" in refusal(path, dump("id type element x y z", ["1 1 C 1 1 1", "2 2 C 4 4 4"]))
    assert "ca, which is no chemical symbol" in refusal(path, dump("id element x y z", ["1 ca 1 1 1"]))
    assert "units are lj" in refusal(path, "ITEM: UNITS\nlj\n" + dump("id element x y z", ["1 Ar 1 1 1"]))
    for bounds in ("", "xy xz yz"):
        tilted = dump("id element x y z", ["1 Na 1 1 1"], bounds)
        atoms = only(path, tilted.replace("0 8\n", "0 8 0\n") if bounds else tilted)
        assert atoms.pbc.all() and atoms.cell.lengths().tolist() == [8, 8, 8] and "all are assumed" in atoms.info["note"]
    path.write_text(dump("id element x y z", ["1 Na 1 1 1"]) + dump("id element x y z", ["1 Na 2 1 1"]))
    assert [atoms.positions[0, 0] for _, atoms in structures.read_files([path])] == [1, 2]


# XYZ files.

CUBE = 'Lattice="8 0 0 0 8 0 0 0 8" Properties='


@pytest.mark.parametrize("comment, rows, expected", [
    ("", ["1 0 0 0", "8 1 0 0"], "names an atom 1: write chemical symbols"),
    (CUBE + "species:I:1:pos:R:3", ["1 0 0 0", "8 1 0 0"], "column species holds numbers.*Z:I:1"),
    (CUBE + "species:S:1:pos:R:3:Z:I:1", ["H 0 0 0 1", "O 1 0 0 7"], "contradict each other: O and 7"),
    (CUBE + "species:S:1:pos:R:3:mass:R:1", ["H 0 0 0 104.5", "O 1 0 0 1658.2"], "column mass has 104.5 for H"),
    (CUBE + "species:S:1:pos:R:3:masses:R:1", ["H 0 0 0 0", "O 1 0 0 16"], "no positive mass"),
    ('lattice="8 0 0 0 8 0 0 0 8"', ["H 0 0 0", "O 1 0 0"], "lattice=, which extended xyz calls Lattice="),
    ('Lattice="8 0 0 0 8 0 0 0 8" properties=id:I:1:species:S:1:pos:R:3', ["1 H 0 0 0", "2 O 1 0 0"], "extended xyz calls Properties="),
    ('pbc="T T T"', ["H 0 0 0", "O 1 0 0"], "periodic along cell vector 1, which it does not give"),
    ("8.0 8.0 8.0", ["H 0 0 0", "O 1 0 0"], "comment may be a cell"),
    ("", ["C1 0 0 0", "O 1 0 0"], "names an atom C1"),
    ("", ["X 0 0 0", "O 1 0 0"], "an atom is of no chemical element"),
    ("", ["H 0 0 0", "O 0.05 0 0"], "0.05 Angstrom apart"),
    ("# CELL(abcABC): 8 8 8 90 90 90 positions{furlong}", ["H 0 0 0", "O 1 0 0"], "unit positions{furlong}"),
    ("# CELL(abcABC): 8 8 8 90 90 90 velocities{atomic_unit}", ["H 0 0 0", "O 1 0 0"], "it holds velocities"),
])  # fmt: skip
def test_what_an_xyz_file_leaves_open_is_refused(comment, rows, expected, tmp_path):
    assert re.search(expected, refusal(tmp_path / "a.xyz", "\n".join([str(len(rows)), comment, *rows]) + "\n"))


def test_numbers_and_isotopes_of_xyz_files(tmp_path):
    atoms = only(tmp_path / "a.xyz", f"2\n{CUBE}Z:I:1:pos:R:3\n1 0 0 0\n8 1 0 0\n")
    assert atoms.get_chemical_symbols() == ["H", "O"] and atoms.pbc.all()
    for kind in ("mass", "masses"):
        atoms = only(tmp_path / "a.xyz", f"2\n{CUBE}species:S:1:pos:R:3:{kind}:R:1\nH 0 0 0 2.014\nO 1 0 0 17.999\n")
        assert atoms.get_masses().tolist() == [2.014, 17.999]
    atoms = only(tmp_path / "a.xyz", f"3\n{CUBE}id:I:1:species:S:1:pos:R:3\n1 D 0 0 0\n2 O 1 0 0\n3 T 2 0 0\n")
    assert atoms.get_chemical_symbols() == ["H", "O", "H"] and atoms.get_masses().tolist() == [2.014, 15.999, 3.016]
    mixed = only(tmp_path / "a.xyz", f'1\n{CUBE}species:S:1:pos:R:3 pbc="T F T"\nCu 0 0 0\n')
    assert mixed.pbc.tolist() == [True, False, True]


@pytest.mark.parametrize("comment, scale, cell_scale", [
    ("# CELL(abcABC):    8.0  9.0  10.0  90.0  80.0  90.0  Step:   1  Bead:     0  positions{angstrom}  cell{angstrom}", 1, 1),
    ("# CELL(abcABC):    8.0  9.0  10.0  90.0  80.0  90.0  Traj: positions{angstrom} Step:   1  Bead:     0  cell{atomic_unit}", 1, Bohr),
    ("# bead: 0 CELL[abcABC]:    8.0  9.0  10.0  90.0  80.0  90.0 Energies: 3", Bohr, Bohr),
    ("# CELL{H}: 8 0 1.7364817766693035 0 9 0 0 0 9.84807753012208 cell{angstrom} positions{angstrom}", 1, 1),
    ("# CELL(GENH): 8 0 0 0 9 0 1.7364817766693035 0 9.84807753012208 cell{angstrom} positions{angstrom}", 1, 1),
])  # fmt: skip
def test_cells_of_i_pi(comment, scale, cell_scale, tmp_path):
    path = tmp_path / "i-pi.xyz"
    path.write_text(f"2\n{comment}\nH 2 0 0\nO 1 0 0\n" * 2)
    for _, atoms in structures.read_files([path]):
        assert atoms.pbc.all() and np.allclose(atoms.positions, np.array([[2, 0, 0], [1, 0, 0]]) * scale)
        assert np.allclose(atoms.cell.lengths(), np.array([8, 9, 10]) * cell_scale)
        assert np.allclose(atoms.cell.angles(), [90, 80, 90])


def test_i_pi_without_a_cell(tmp_path):
    atoms = only(tmp_path / "a.xyz", "1\n# CELL(abcABC): -1 -1 -1 90 90 90 positions{angstrom} cell{angstrom}\nH 1 0 0\n")
    assert not atoms.pbc.any()


def test_at_signs_in_names(tmp_path):
    salt = bulk("NaCl", "rocksalt", 5.6, cubic=True)
    for name, form in (("AB_cF8@Na-Cl.POSCAR", "vasp"), ("a@0.xyz", "extxyz"), ("b@1:2.cif", "cif")):
        write(tmp_path / "plain", salt, format=form)
        (tmp_path / "plain").rename(tmp_path / name)
        assert len(only(tmp_path / name)) == 8


# VASP.


def poscar(comment, symbols="", counts="1 1"):
    return f"{comment}\n1.0\n5 0 0\n0 5 0\n0 0 5\n{symbols}{counts}\nDirect\n0 0 0\n.5 .5 .5\n"


@pytest.mark.parametrize("comment", ["POSCAR file", "InP, cubic", "my structure of In As", "a cell", "Na"])
def test_comments_of_vasp_files_are_no_symbols(comment, tmp_path):
    assert "no line of chemical symbols" in refusal(tmp_path / "POSCAR", poscar(comment))
    assert only(tmp_path / "CONTCAR", poscar(comment, "K Br\n")).get_chemical_symbols() == ["K", "Br"]
    assert "no line of chemical symbols" in refusal(tmp_path / "XDATCAR", poscar("Na Cl").replace("Direct", "Direct configuration= 1"))


def test_a_comment_that_is_the_symbols_is_read(tmp_path):
    assert only(tmp_path / "POSCAR", poscar("Na Cl")).get_chemical_symbols() == ["Na", "Cl"]


# Crystallography.

CIF = """\
data_x
_cell_length_a 5.4
_cell_length_b 5.4
_cell_length_c 5.4
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
_symmetry_space_group_name_H-M '{group}'
{operations}loop_
_atom_site_label
{columns}_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
"""
OPERATIONS = "loop_\n_symmetry_equiv_pos_as_xyz\nx,y,z\n-x,-y,-z\n"


def cif(rows, columns="_atom_site_type_symbol\n", group="P 1", operations=""):
    return CIF.format(group=group, operations=operations, columns=columns) + "\n".join(rows) + "\n"


@pytest.mark.parametrize("columns, rows, expected", [
    ("_atom_site_disorder_group\n", ["C1 1 0 0 0", "C2 2 .13 0 0"], "disorder_group"),
    ("_atom_site_disorder_group\n", ["C1 . 0 0 0", "C2 -1 .3 0 0"], "disorder_group"),
    ("_atom_site_occupancy\n", ["C1 0.5 0 0 0", "C2 1 .3 0 0"], "occupied by"),
    ("_atom_site_occupancy\n", ["C1 ? 0 0 0", "C2 1 .3 0 0"], "occupancy of a site is not known"),
    ("_atom_site_calc_flag\n", ["C1 dum 0 0 0", "C2 d .3 0 0"], "dummy sites"),
    ("_atom_site_type_symbol\n", ["NA1 NA 0 0 0", "CL1 CL .5 0 0"], "type symbol NA.*write Na"),
    ("", ["SI1 0 0 0", "C2 .3 0 0"], "label SI1 may be S or Si"),
    ("_atom_site_type_symbol\n", ["C1 C 0 0 0", "C2 C .03 0 0"], "0.16 Angstrom apart"),
])  # fmt: skip
def test_what_a_cif_leaves_open_is_refused(columns, rows, expected, tmp_path):
    assert re.search(expected, refusal(tmp_path / "x.cif", cif(rows, columns)))


def test_whole_structures_of_cifs_are_read(tmp_path):
    atoms = only(tmp_path / "x.cif", cif(["O1 O .1 .1 .1", "D1 D .27 .1 .1", "H1 H .1 .27 .1"], group="P -1", operations=OPERATIONS))
    assert atoms.get_chemical_symbols() == ["O"] * 2 + ["H"] * 4
    assert atoms.get_masses().tolist() == [15.999] * 2 + [2.014] * 2 + [1.008] * 2
    one_group = cif(["C1 C3+ 1 0 0 0", "C2 C . .3 0 0"], "_atom_site_type_symbol\n_atom_site_disorder_group\n")
    assert only(tmp_path / "x.cif", one_group).get_chemical_symbols() == ["C", "C"]
    hydrate = one_group.replace("loop_", "_chemical_formula_sum 'C2 H4 D2'\nloop_", 1)
    assert "has H, but there are no such atoms" in only(tmp_path / "x.cif", hydrate).info["note"]
    default = cif(["OW1 . 0 0 0", "Cab2 1 .3 0 0"], "_atom_site_occupancy\n")
    assert only(tmp_path / "x.cif", default).get_chemical_symbols() == ["O", "Ca"]


def test_settings_of_space_groups_are_not_guessed(tmp_path):
    """Diamond with the origin at a center of inversion is another crystal in the other setting."""
    text = cif(["Si1 Si .125 .125 .125"], group="F d -3 m")
    assert "several settings" in refusal(tmp_path / "x.cif", text)
    write(tmp_path / "y.cif", bulk("Si", "diamond", 5.43, cubic=True))
    assert len(only(tmp_path / "y.cif")) == 8
    assert len(only(tmp_path / "z.cif", cif(["Na1 Na 0 0 0", "Cl1 Cl .5 .5 .5"], group="F m -3 m"))) == 8


# Names of atoms that are not symbols.


def pdb(atoms, head="CRYST1   20.000   21.000   22.000  90.00  90.00  90.00 P 1           1\n"):
    return head + "".join(f"ATOM  {n:5d} {line}\n" for n, line in enumerate(atoms, 1)) + "END\n"


CARBON = " CA  ALA A   1       1.000   1.000   1.000  1.00  0.00           C"
OXYGEN = " O   ALA A   1       2.200   1.000   1.000  1.00  0.00           O"


def test_pdb_files(tmp_path):
    path = tmp_path / "x.pdb"
    atoms = only(path, pdb([CARBON, OXYGEN]))
    assert atoms.get_chemical_symbols() == ["C", "O"] and atoms.pbc.all() and atoms.cell.lengths().tolist() == [20, 21, 22]
    assert "columns 77 and 78" in refusal(path, pdb([CARBON[:-12], OXYGEN]))
    assert "asymmetric unit of the space group P 21" in refusal(path, pdb([CARBON, OXYGEN]).replace("P 1 ", "P 21", 1))
    assert "occupancies below 1" in refusal(path, pdb([CARBON.replace("1.00  0.00", "0.50  0.00"), OXYGEN]))
    assert "alternate locations" in refusal(path, pdb([CARBON.replace(" CA  ", " CA B", 1), OXYGEN]))
    dummy = "CRYST1    1.000    1.000    1.000  90.00  90.00  90.00 P 1           1\n"
    assert not only(path, pdb([CARBON, OXYGEN], dummy)).pbc.any()
    assert not only(path, pdb([CARBON, OXYGEN], "")).pbc.any()
    models = pdb([CARBON, OXYGEN]).replace("END\n", "ENDMDL\n") + pdb([CARBON, OXYGEN], "").replace("END\n", "ENDMDL\nEND\n")
    path.write_text(models)
    found = structures.read_files([path])
    assert len(found) == 2 and all(atoms.pbc.all() and len(atoms) == 2 for _, atoms in found)


def test_gromacs_files_have_no_elements(tmp_path):
    def gro(*names, box="   2.00000   2.10000   2.20000   0.0 0.0 0.5 0.0 0.0 0.1"):
        rows = [f"    1SOL  {name:>5}{n:5d}{0.1 * n:8.3f}   0.100   0.100\n" for n, name in enumerate(names, 1)]
        return f"t\n{len(names)}\n{''.join(rows)}{box}\n"

    path = tmp_path / "x.gro"
    atoms = only(path, gro("O1", "H12", "D", "Na"))
    assert atoms.get_chemical_symbols() == ["O", "H", "H", "Na"] and atoms.get_masses()[2] == 2.014
    assert np.allclose(atoms.cell.array, [[20, 0, 0], [5, 21, 0], [0, 1, 22]])
    for name in ("OW", "NA", "MW", "CA", "CL"):
        assert f"the name {name} is no chemical symbol" in refusal(path, gro("O1", name))
    assert not only(path, gro("O1", "H1", box="   0.0 0.0 0.0")).pbc.any()
    assert only(path, gro("O1", "H1") + "\n\n").pbc.all()
    assert "does not hold one structure" in refusal(path, gro("O1", "H1") * 2)


def test_dl_poly_files_have_no_elements(tmp_path):
    text = "title\n 0 1 2\n 9 0 0\n 0 9 0\n 0 0 9\nO1 1\n 1 1 1\nNA 2\n 3 3 3\n"
    assert "the name NA is no chemical symbol" in refusal(tmp_path / "CONFIG", text)
    assert only(tmp_path / "CONFIG", text.replace("NA", "Na")).get_chemical_symbols() == ["O", "Na"]


def test_formats_that_number_atoms_by_type_are_refused(tmp_path):
    text = "TITLE\nx\nEND\nPOSITION\n    1 SOL   OW         1    0.1    0.1    0.1\nEND\n"
    assert "names of a force field" in refusal(tmp_path / "x.g96", text)


@pytest.mark.parametrize("form", ["xsf", "json", "traj"])
def test_other_formats_are_what_was_written(form, tmp_path):
    atoms = Atoms("OHH", positions=[[1, 1, 1], [1.9, 1.1, 1], [0.8, 1.9, 1]], cell=[[5, 0, 0], [1, 6, 0], [0, 2, 7]], pbc=True)
    atoms.set_masses([15.999, 2.014, 1.008])
    write(tmp_path / f"x.{form}", atoms)
    found = only(tmp_path / f"x.{form}")
    assert found.get_chemical_symbols() == ["O", "H", "H"] and found.pbc.all()
    assert np.allclose(found.positions, atoms.positions) and np.allclose(found.cell.array, atoms.cell.array)
    if form != "xsf":
        assert found.get_masses().tolist() == [15.999, 2.014, 1.008]


# Properties of all files.


def test_a_benchmark_reads_its_structure_in_the_same_way(tmp_path):
    document = {"elements": ["Na", "Cl"], "cutoff": 4.0}
    (tmp_path / "conf.lmp").write_text(data(atomic(), front=""))
    with pytest.raises(EquiError, match="--symbols"):
        bench.system(document, 3, tmp_path / "conf.lmp")
    assert_is_salt(bench.system(document, 3, tmp_path / "conf.lmp", ["Na", "Cl"])[1])


@pytest.mark.parametrize("name", structures.BUILTIN)
def test_near_pairs_are_those_of_a_neighbor_list(name):
    atoms = structures.BUILTIN[name]()
    atoms.positions += 7.3  # outside of the cell
    expected = np.sort(neighbor_list("d", atoms, 3.4))
    first, second, distances = structures.near_pairs(atoms, 3.4)
    assert len(distances) == len(expected) and np.abs(np.sort(distances) - expected).max(initial=0) < 1e-10
    assert sorted(zip(first, second)) == sorted(zip(*neighbor_list("ij", atoms, 3.4)))


@pytest.mark.parametrize("cell, expected", [
    ("5 0 0 5 0 0 0 0 5", "no volume"), ("5 0 0 0 0.1 0 0 0 5", "no volume"), ("5 0 0 0 nan 0 0 0 5", "not finite"),
    ("0 0 0 0 5 0 0 0 5", "periodic along cell vector 1"),
])  # fmt: skip
def test_cells_that_are_none_are_refused(cell, expected, tmp_path):
    assert expected in refusal(tmp_path / "a.xyz", f'1\nLattice="{cell}" Properties=species:S:1:pos:R:3\nCu 0 0 0\n')
