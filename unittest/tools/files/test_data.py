# SPDX-License-Identifier: MIT
"""`equi data`: the data file is the given structure, its types have the printed order, and what cannot be written is
refused in one line."""

import json
import re
import resource
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.cell import Cell
from ase.constraints import FixAtoms
from ase.io import write
from ase.neighborlist import neighbor_list
from built_models import built
from equi_tools import data, structures
from equi_tools.cli import main
from equi_tools.errors import EquiError

# A distance of some Angstrom, through a file with 16 digits in another frame.
SAME = 1e-9
CUTOFF = 5.0
PEROVSKITE = Atoms(
    "SrTiO3", cell=[3.905] * 3, pbc=True,
    scaled_positions=[[0, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]],
)  # fmt: skip


def surroundings(atoms):
    """For each pair of elements all distances within the cutoff, sorted: two equal crystals have the same."""
    first, second, distances = neighbor_list("ijd", atoms, CUTOFF)
    symbols = np.array(atoms.get_chemical_symbols())
    found = {}
    for a, b, d in zip(symbols[first], symbols[second], distances):
        found.setdefault((a, b), []).append(d)
    return {pair: np.sort(values) for pair, values in found.items()}


def assert_same(atoms, others):
    mine, theirs = surroundings(atoms), surroundings(others)
    assert mine.keys() == theirs.keys()
    for pair in mine:
        assert mine[pair].shape == theirs[pair].shape, pair
        assert np.abs(mine[pair] - theirs[pair]).max() < SAME, pair


def numbers_before(word, path):
    """The numbers of the line of the header that ends with a word."""
    (found,) = re.findall(rf"^(.*) {word}$", path.read_text(), re.M)
    return np.array([float(text) for text in found.split()])


@pytest.mark.parametrize("name", ["SiO2_quartz", "CaF2_strongly_triclinic", "KBr_left_handed", "Ti_hcp", "NaCl", "Cu_O_slab", "C_wire"])
@pytest.mark.parametrize("supercell", [(1, 1, 1), (2, 1, 1)])
def test_the_data_file_is_the_same_structure(name, supercell, tmp_path):
    atoms = dict(structures.builtin())[name]
    write(tmp_path / "a.extxyz", atoms)
    ((_, given),) = structures.read_files([tmp_path / "a.extxyz"])
    job = data.make(tmp_path / "a.extxyz", tmp_path / "data.x", supercell)
    assert job.boundary == " ".join("p" if p else "f" for p in atoms.pbc)
    symbols = list(job.types.values())
    assert symbols == list(dict.fromkeys(atoms.get_chemical_symbols()))
    ((_, read),) = structures.read_files([tmp_path / "data.x"], symbols)
    read.pbc = atoms.pbc
    assert read.get_chemical_symbols() == (given * supercell).get_chemical_symbols()
    assert_same(given * supercell, read)


@pytest.mark.parametrize("name", ["CaF2_strongly_triclinic", "SiO2_quartz", "KBr_left_handed"])
def test_boxes_are_as_little_skewed_as_they_can_be(name, tmp_path):
    write(tmp_path / "a.extxyz", dict(structures.builtin())[name])
    data.make(tmp_path / "a.extxyz", tmp_path / "data.x")
    xy, xz, yz = numbers_before("xy xz yz", tmp_path / "data.x")
    (_, lx), (_, ly) = numbers_before("xlo xhi", tmp_path / "data.x"), numbers_before("ylo yhi", tmp_path / "data.x")
    assert max(abs(xy / lx), abs(xz / lx), abs(yz / ly)) <= 0.5 + 1e-6


def test_types_masses_and_labels_follow_the_order_of_the_file(tmp_path, capsys):
    write(tmp_path / "POSCAR", PEROVSKITE, format="vasp")
    words = ["data", str(tmp_path / "POSCAR"), "-o", str(tmp_path / "data.x"), "--supercell", "2", "1", "1"]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "pair_coeff * * FILE.equi Sr Ti O" in told and "10 atoms" in told
    text = (tmp_path / "data.x").read_text()
    assert "1 Sr\n2 Ti\n3 O\n" in text
    assert re.search(r"^1 87\.62 .*\n2 47\.867 .*\n3 15\.999 ", text, re.M)
    assert "xy xz yz" not in text  # the box is orthogonal
    assert main([*words, "--order", "O,Sr,Ti", "--json"]) == 0
    job = json.loads(capsys.readouterr().out)
    assert job["types"] == {"1": "O", "2": "Sr", "3": "Ti"} and job["pair_coeff"].endswith("O Sr Ti")
    assert "1 O\n2 Sr\n3 Ti\n" in (tmp_path / "data.x").read_text()


def test_scripts_suit_the_structure(tmp_path):
    """A script for each kind; npt has the freedom of the box."""
    write(tmp_path / "POSCAR", PEROVSKITE, format="vasp")
    write(tmp_path / "quartz.cif", dict(structures.builtin())["SiO2_quartz"])
    write(tmp_path / "water.xyz", molecule("H2O"))
    model = str(built("sevennet-0.equi"))

    def script(source, run, **options):
        return open(data.make(tmp_path / source, tmp_path / f"data.{run}", model=model, run=run, **options).script).read()

    text = script("POSCAR", "npt", temperature=450, pressure=100)
    assert "aniso ${pressure}" in text and "temperature index 450" in text and "pressure index 100" in text
    assert f'index "{model}"' in text and "pair_coeff      * * ${model} Sr Ti O" in text
    assert "box/relax aniso" in script("POSCAR", "relax")
    (tmp_path / "in.npt").unlink()
    assert "tri ${pressure}" in script("quartz.cif", "npt")
    text = script("water.xyz", "nvt")
    assert "boundary        f f f" in text and "0.0005" in text
    (tmp_path / "in.relax").unlink()
    assert "box/relax" not in script("water.xyz", "relax")
    with pytest.raises(EquiError, match="not periodic in all"):
        script("water.xyz", "npt")


def test_a_script_that_was_changed_stays(tmp_path):
    write(tmp_path / "POSCAR", PEROVSKITE, format="vasp")
    options = dict(model=str(built("sevennet-0.equi")), run="nvt")
    script = data.make(tmp_path / "POSCAR", tmp_path / "data.x", **options).script
    data.make(tmp_path / "POSCAR", tmp_path / "data.x", **options)
    with open(script, "a") as file:
        file.write("# mine\n")
    with pytest.raises(EquiError, match="exists already"):
        data.make(tmp_path / "POSCAR", tmp_path / "data.x", **options)
    assert open(script).read().endswith("# mine\n")
    data.make(tmp_path / "POSCAR", tmp_path / "data.x", force=True, **options)
    assert not open(script).read().endswith("# mine\n")


def test_a_cell_replaces_that_of_the_file(tmp_path):
    write(tmp_path / "a.xyz", molecule("H2O"))
    job = data.make(tmp_path / "a.xyz", tmp_path / "data.x", cell=[5, 6, 7])
    assert job.boundary == "p p p" and not job.notes
    found = structures.read_last(tmp_path / "data.x")[1]
    np.testing.assert_allclose(found.cell.lengths(), [5, 6, 7], atol=1e-9)
    data.make(tmp_path / "a.xyz", tmp_path / "data.x", cell=[5, 5, 6, 80, 95, 120], supercell=(2, 1, 1))
    found = structures.read_last(tmp_path / "data.x")[1]
    assert len(found) == 6 and found.cell.volume == pytest.approx(2 * Cell.new([5, 5, 6, 80, 95, 120]).volume)
    with pytest.raises(EquiError, match="Angstrom apart"):
        data.make(tmp_path / "a.xyz", tmp_path / "data.x", cell=[5, 1.5, 5])


def test_atoms_are_rattled_by_their_standard_deviation(tmp_path):
    write(tmp_path / "POSCAR", PEROVSKITE, format="vasp")
    positions = []
    for rattle in (0.0, 0.05, 0.05):
        data.make(tmp_path / "POSCAR", tmp_path / "data.x", supercell=(6, 6, 6), rattle=rattle)
        positions.append(structures.read_last(tmp_path / "data.x")[1].positions)
    moved, edge = positions[1] - positions[0], 6 * 3.905
    assert np.std(moved - edge * np.round(moved / edge)) == pytest.approx(0.05, rel=0.05)
    np.testing.assert_array_equal(positions[1], positions[2])


@pytest.mark.parametrize("run", ["nvt", "npt"])
def test_dynamics_may_begin_with_a_relaxation(run, tmp_path):
    write(tmp_path / "POSCAR", PEROVSKITE, format="vasp")
    lines = open(data.make(tmp_path / "POSCAR", tmp_path / "data.x", model=str(built("sevennet-0.equi")), run=run, relaxed=True).script)
    commands = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    order = [commands.index(word) for word in ("pair_coeff", "minimize", "reset_timestep", "velocity", "run")]
    assert order == sorted(order) and ("unfix" in commands) == (run == "npt")


def test_the_last_of_several_structures_is_taken_and_told_of(tmp_path):
    fixed = bulk("Cu", cubic=True)
    fixed.set_constraint(FixAtoms([0]))
    write(tmp_path / "a.extxyz", [bulk("Cu"), bulk("Cu", cubic=True)])
    job = data.make(tmp_path / "a.extxyz", tmp_path / "data.x")
    assert job.atoms == 4 and "holds 2 structures" in job.notes[0]
    write(tmp_path / "POSCAR", fixed, format="vasp")
    assert "fixed atoms" in data.make(tmp_path / "POSCAR", tmp_path / "data.x").notes[0]


HEAVY_WATER = '''5
Lattice="8 0 0 0 8 0 0 0 8" Properties=species:S:1:pos:R:3:masses:R:1
O 1.00 1.00 1 15.999
H 1.96 1.00 1 2.014
H 0.76 1.93 1 1.008
H 5.00 5.00 5 2.0141
C 6.10 5.00 5 13.003
'''


def section(name, path):
    """Rows of words of a section of a data file, without comments."""
    (rows,) = re.findall(rf"^{name}.*\n\n((?:.+\n)+)", path.read_text(), re.M)
    return [row.split("#")[0].split() for row in rows.splitlines()]


@pytest.mark.parametrize("order, labels, symbols", [
    (None, "O D H C13", "O H H C"), (["H", "O", "C"], "D H O C13", "H H O C"), (["H", "O", "C", "D"], "H O C13 D", "H O C H"),
    (["C", "Na", "O", "D", "H"], "C13 Na O D H", "C Na O H H"),
])  # fmt: skip
def test_isotopes_have_types_of_their_own(order, labels, symbols, tmp_path, capsys):
    (tmp_path / "heavy.xyz").write_text(HEAVY_WATER)
    model = str(built("sevennet-0.equi"))
    words = ["data", str(tmp_path / "heavy.xyz"), "-o", str(tmp_path / "data.x"), "--model", model, "--run", "nvt"]
    assert main(words + (["--order", ",".join(order)] if order else [])) == 0
    told = capsys.readouterr().out
    assert re.search(rf"^pair_coeff \* \* \S+ {symbols}$", told, re.M) and "masses of the file are kept" in told
    assert [label for _, label in section("Atom Type Labels", tmp_path / "data.x")] == labels.split()
    expected = {"O": 15.999, "D": 2.014, "H": 1.008, "C13": 13.003, "Na": 22.98976928}
    assert [float(mass) for _, mass in section("Masses", tmp_path / "data.x")] == [expected[label] for label in labels.split()]
    kinds = [labels.split()[int(row[1]) - 1] for row in section("Atoms", tmp_path / "data.x")]
    assert kinds == ["O", "D", "H", "D", "C13"]
    script = (tmp_path / "in.nvt").read_text()
    assert re.search(rf"^pair_coeff .* {symbols}$", script, re.M) and f"element {symbols}\n" in script and "0.0005" in script
    ((_, read),) = structures.read_files([tmp_path / "data.x"])
    assert read.get_chemical_symbols() == ["O", "H", "H", "H", "C"]
    assert read.get_masses().tolist() == [15.999, 2.014, 1.008, 2.014, 13.003]


def test_masses_that_the_user_names_elements_for_are_kept(tmp_path, capsys):
    rows = "1 1 1 1 1\n2 2 2.54 1 1\n3 3 1 4 1\n4 4 1 4 2\n"
    masses = "1 14.027\n2 15.035\n3 12.05\n4 12.1"
    box = "0 8 xlo xhi\n0 8 ylo yhi\n0 8 zlo zhi"
    text = f"x\n\n4 atoms\n4 atom types\n{box}\n\nMasses\n\n{masses}\n\nAtoms # atomic\n\n{rows}"
    (tmp_path / "hexane").write_text(text)
    words = ["data", str(tmp_path / "hexane"), "-o", str(tmp_path / "data.x")]
    assert main(words) == 1 and "the mass 14.027 is that of no element" in capsys.readouterr().err
    assert main([*words, "--symbols", "C,C,C,C", "--json"]) == 0
    job = json.loads(capsys.readouterr().out)
    assert job["types"] == dict.fromkeys("1234", "C") and job["masses"] == {"1": 14.027, "2": 15.035, "3": 12.05, "4": 12.1}
    assert job["labels"] == {"1": "C14", "2": "C15", "3": "C", "4": "C_2"}
    assert "lengths are in Angstrom and all directions are periodic" in job["notes"][0]


def test_symbols_are_for_atom_types(tmp_path, capsys):
    write(tmp_path / "POSCAR", PEROVSKITE, format="vasp")
    assert main(["data", str(tmp_path / "POSCAR"), "-o", str(tmp_path / "data.x"), "--symbols", "Sr,Ti,O"]) == 1
    assert "has no atom types" in capsys.readouterr().err


def test_short_distances_and_lost_cells_are_told_of(tmp_path):
    atoms = Atoms("CCH", positions=[[0, 0, 0], [0.6, 0, 0], [3, 0, 0]], cell=[9, 9, 9])
    write(tmp_path / "a.extxyz", atoms)
    notes = data.make(tmp_path / "a.extxyz", tmp_path / "data.x").notes
    assert any("atoms 1 (C) and 2 (C) are only 0.6 Angstrom apart" in note for note in notes)
    assert any("the cell of the file is dropped" in note for note in notes)
    write(tmp_path / "a.xyz", molecule("H2O"))
    (note,) = data.make(tmp_path / "a.xyz", tmp_path / "data.x").notes
    assert note.startswith("the file has no cell: no direction is periodic") and "--cell" in note


MIXED_SITE = """\
data_x
_cell_length_a 3.6
_cell_length_b 3.6
_cell_length_c 3.6
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 90
_symmetry_space_group_name_H-M 'P 1'
loop_
_atom_site_label
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
_atom_site_occupancy
Cu1 Cu 0 0 0 0.5
Au1 Au 0 0 0 0.5
"""


@pytest.mark.parametrize("words, expected", [
    (["missing"], "no such file"),
    (["mixed.cif"], "occupied by"),
    (["POSCAR", "--order", "Sr,Ti"], "O of the structure is missing"),
    (["POSCAR", "--order", "Sr,Ti,O,Xx"], "expected chemical symbols"),
    (["POSCAR", "--supercell", "0", "1", "1"], "three positive numbers"),
    (["water.xyz", "--supercell", "2", "1", "1"], "not periodic"),
    (["POSCAR", "--model", "MODEL"], "does not know Sr, Ti"),
    (["POSCAR", "--run", "nvt"], "--model"),
    (["water.xyz", "--cell", "5", "5"], "--cell: expected three lengths"),
    (["water.xyz", "--cell", "5", "5", "-5"], "--cell: expected three lengths"),
    (["water.xyz", "--cell", "5", "5", "5", "10", "20", "170"], "--cell: no cell has these angles"),
    (["POSCAR", "--relaxed"], "--relaxed: only scripts of dynamics"),
])  # fmt: skip
def test_what_cannot_be_written_is_one_line(words, expected, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed.cif").write_text(MIXED_SITE)
    write("POSCAR", PEROVSKITE, format="vasp")
    write("water.xyz", molecule("H2O"))
    words = [str(built("tiny/plain.equi")) if word == "MODEL" else word for word in words]
    assert main(["data", *words, "-o", "data.x"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1 and expected in message
    assert not (tmp_path / "data.x").exists()


@pytest.mark.parametrize("output, options, expected", [
    ("POSCAR", {}, "it is what is read from"),
    ("link", {}, "it is what is read from"),
    ("model.equi", {"model": "model.equi"}, "it is what is read from"),
    ("in.nvt", {"model": "model.equi", "run": "nvt"}, "the script has this name"),
])  # fmt: skip
def test_nothing_that_is_read_or_written_is_overwritten(output, options, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("POSCAR", PEROVSKITE, format="vasp")
    Path("link").symlink_to("POSCAR")
    Path("model.equi").write_bytes(built("sevennet-0.equi").read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(EquiError, match=f"cannot write {output}: {expected}"):
        data.make("POSCAR", output, **options)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_full_disk_leaves_the_old_file(tmp_path):
    write(tmp_path / "POSCAR", PEROVSKITE, format="vasp")
    (tmp_path / "data.x").write_text("the old file")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        with pytest.raises(EquiError, match="cannot write .*data.x: File too large"):
            data.make(tmp_path / "POSCAR", tmp_path / "data.x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "data.x").read_text() == "the old file" and len(list(tmp_path.iterdir())) == 2


def test_models_are_found_where_lammps_finds_them(tmp_path, monkeypatch):
    write(tmp_path / "POSCAR", PEROVSKITE, format="vasp")
    monkeypatch.setenv("LAMMPS_POTENTIALS", f"/nowhere:{built('sevennet-0.equi').parent}")
    job = data.make(tmp_path / "POSCAR", tmp_path / "data.x", model="sevennet-0.equi", run="nvt")
    assert job.pair_coeff == "pair_coeff * * sevennet-0.equi Sr Ti O"
    monkeypatch.delenv("LAMMPS_POTENTIALS")
    with pytest.raises(EquiError, match="cannot read sevennet-0.equi"):
        data.make(tmp_path / "POSCAR", tmp_path / "data.y", model="sevennet-0.equi", run="nvt")


def test_the_pair_style_has_the_radii_and_masses_of_ase():
    """The radii are those of Cordero, up to curium, like ASE's."""
    from ase.data import atomic_masses, atomic_numbers, covalent_radii

    text = (Path(__file__).resolve().parents[3] / "src" / "model" / "chemical_elements.cpp").read_text()
    table = re.findall(r'\{"(\w+)", ([\d.]+), ([\d.]+)\}', text)
    assert [atomic_numbers[symbol] for symbol, _, _ in table] == list(range(1, 119))
    for number, (_, mass, radius) in enumerate(table, 1):
        assert float(radius) == (pytest.approx(covalent_radii[number], abs=1e-9) if number <= 96 else 0.0)
        if number <= 83:  # those of other elements depend on the isotope
            assert float(mass) == pytest.approx(atomic_masses[number], rel=1e-3)
