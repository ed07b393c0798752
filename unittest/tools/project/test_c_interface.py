# SPDX-License-Identifier: MIT
"""Programs in C outside of this project use the installed libequi.so and agree with the pair style; errors of the C
interface have a text, and its manual names all of it."""

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk
from built_models import built
from equi_tools import lammps_runner, library, structures
from equi_tools.errors import EquiError

ROOT = Path(__file__).resolve().parents[3]
CMAKE = os.environ.get("EQUI_CMAKE") or shutil.which("cmake")
HEADER = (ROOT / "src" / "library" / "equi.h").read_text()
FUNCTIONS = re.findall(r"^EQUI_API .*?(equi_\w+)\(", HEADER, re.M)
ROUNDING = 1e-12  # LAMMPS rotates the cell, and its atoms have another order


@pytest.fixture(scope="module")
def programs(prefix, tmp_path_factory):
    """The folder with programs that a compiler for C, without one for C++, made of find_package(equi)."""
    folder = tmp_path_factory.mktemp("programs")
    options = ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_COMPILER=/bin/false"]
    for command in ([CMAKE, "-S", ROOT / "unittest" / "installed" / "c", "-B", folder, *options], [CMAKE, "--build", folder]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def run(program, *words, text=""):
    return subprocess.run([program, *map(str, words)], input=text, capture_output=True, text=True, check=False)


def structure_text(atoms, symbols):
    lines = [" ".join(f"{number:.17g}" for number in atoms.cell.array.ravel()), " ".join(str(int(p)) for p in atoms.pbc)]
    lines += [f"{symbols.index(a.symbol)} {a.x:.17g} {a.y:.17g} {a.z:.17g}" for a in atoms]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "kind", ["NaCl", "W_1_atom_cell", "CaF2_strongly_triclinic", "KBr_left_handed", "Cu_O_slab", "C_wire", "water_molecule"]
)
def test_a_program_in_c_agrees_with_the_pair_style(programs, kind):
    atoms, model = structures.BUILTIN[kind](), built("tiny/many_elements.equi")
    symbols = sorted(set(atoms.symbols))
    done = run(programs / "energy", model, " ".join(symbols), "precision double threads 1", text=structure_text(atoms, symbols))
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    energy = float(found[0][1])
    rows = np.array([line[1:] for line in found if line[0] == "atom"], float)
    expected = lammps_runner.evaluate(atoms, model, "double")
    assert abs(energy - expected.energy) <= ROUNDING * len(atoms)
    assert np.abs(rows[:, 0] - expected.energies).max() <= ROUNDING * max(1.0, np.abs(expected.energies).max())
    assert np.abs(rows[:, 1:] - expected.forces).max() <= ROUNDING * max(1.0, np.abs(expected.forces).max())
    stress = np.array([line[1] for line in found if line[0] == "stress"], float)
    assert len(stress) == (6 if atoms.pbc.all() else 0)
    if len(stress):
        assert np.abs(stress - expected.stress).max() <= ROUNDING


def test_calculators_in_two_threads_give_one_energy(programs):
    done = run(programs / "threads", built("tiny/many_elements.equi"), "Na", 2.5)
    first, second = map(float, done.stdout.split())
    assert first == second != 0.0


@pytest.mark.parametrize(
    "model, symbols, keywords, text",
    [
        ("none.equi", "Na", "", "none.equi: .* it was searched for in .*LAMMPS_POTENTIALS"),
        (None, "Na Po", "", "does not know element Po; its elements are"),
        (None, "na", "", "did you mean Na"),
        (None, "Na", "precision single", "keyword precision must be mixed or double, not single"),
        (None, "Na", "radial", "keyword radial needs a value: table TOLERANCE"),
        (None, "Na", "radial table 2", "radial must be table .* not 2"),
        (None, "Na", "memory -1", "memory must be GB, auto, lean or unlimited, not -1"),
        (None, "Na", "threads 0", "threads must be a whole number above 0, not 0"),
        (None, "Na", "charge 0.5", "charge must be a whole number, not 0.5"),
        (None, "Na", "charge 1", "charge"),
        (None, "Na", "forces direct", "direct"),
        (None, "Na", "system elec_temp", "system needs a value: the name of an input and a number"),
        (None, "Na", "system elec_temp warm", "system must be the name of an input and a number, not warm"),
        (None, "Na", "system elec_temp 1 system elec_temp 2", "system sets elec_temp twice"),
        (None, "Na", "system elec_temp 1", "expected no task, charge, spin or other input"),
        (None, "Na", "field 0 0", "field needs a value: three numbers"),
        (None, "Na", "field 0 nan 0", "field must be three numbers, V/Angstrom, not nan"),
        (None, "Na", "field 0 0 1", "the model has no dipole"),
        (None, "Na", "reference yes", "reference belongs to runs of LAMMPS: use pair_style equi"),
        (None, "Na", "skin 2", "unknown keyword skin; known are precision, radial, .*, threads"),
    ],
)
def test_what_cannot_be_created_is_explained(model, symbols, keywords, text):
    with pytest.raises(EquiError, match=text):
        library.LibraryCalculator(model or built("tiny/many_elements.equi"), symbols.split(), keywords)


def test_null_pointers_and_wrong_numbers_are_errors():
    c = library._loaded(library.library_file())

    def reason():
        return c.equi_last_error().decode()

    assert c.equi_create(None, None, None) is None and "null pointer" in reason()
    assert c.equi_compute(None, *[None] * 5) == 1 and "null pointer" in reason()
    c.equi_free(None)
    handle = c.equi_create(os.fsencode(built("tiny/many_elements.equi")), b"Na Cl", b"precision double")
    assert c.equi_compute(handle, *[None] * 5) == 1 and "no atoms are set" in reason()
    types, positions = np.array([0, 2], np.intc), np.array([[0.0, 0, 0], [2.5, 0, 0]])
    arrays = types.ctypes.data, positions.ctypes.data
    assert c.equi_set_atoms(handle, 2, *arrays, None, None) == 1 and "atom 1 has type 2" in reason()
    assert c.equi_set_atoms(handle, 0, *arrays, None, None) == 1 and "no atoms" in reason()
    types[1] = 1
    assert c.equi_set_atoms(handle, 2, None, positions.ctypes.data, None, None) == 1 and "null" in reason()
    periodic = np.ones(3, np.intc)
    assert c.equi_set_atoms(handle, 2, *arrays, None, periodic.ctypes.data) == 1 and "need a cell" in reason()
    flat = np.array([[5.0, 0, 0], [0, 5, 0], [5, 5, 0]])
    assert c.equi_set_atoms(handle, 2, *arrays, flat.ctypes.data, periodic.ctypes.data) == 1 and "no volume" in reason()
    tiny = np.eye(3) * 1e-4
    assert c.equi_set_atoms(handle, 2, *arrays, tiny.ctypes.data, periodic.ctypes.data) == 1 and "so small" in reason()
    far = np.array([[0.0, 0, 0], [1e12, 0, 0]])
    cube = np.eye(3) * 5
    assert c.equi_set_atoms(handle, 2, arrays[0], far.ctypes.data, cube.ctypes.data, periodic.ctypes.data) == 1
    assert "too many lattice vectors" in reason()
    assert c.equi_set_atoms(handle, 2, *arrays, None, None) == 0
    stress = np.zeros(6)
    assert c.equi_compute(handle, None, None, None, None, stress.ctypes.data) == 1 and "volume" in reason()
    assert c.equi_compute(handle, None, None, None, stress.ctypes.data, None) == 0 and stress[0] != 0
    c.equi_free(handle)


def test_all_elements_of_a_file_are_types_if_none_are_named():
    c = library._loaded(library.library_file())
    c.equi_symbol.restype, c.equi_symbol.argtypes = ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int]
    c.equi_num_types.argtypes = [ctypes.c_void_p]
    c.equi_cutoff.restype, c.equi_cutoff.argtypes = ctypes.c_double, [ctypes.c_void_p]
    handle = c.equi_create(os.fsencode(ROOT / "potentials" / "nacl-mace.equi"), None, None)
    assert [c.equi_symbol(handle, k) for k in range(-1, c.equi_num_types(handle) + 1)] == [None, b"Na", b"Cl", None]
    assert c.equi_cutoff(handle) > 3 and c.equi_num_threads() >= 1
    c.equi_free(handle)


def test_the_neighbor_list_is_kept_and_made_again_without_a_difference():
    """A walk of atoms, in which the list is kept for some steps, gives the energies of fresh lists."""
    atoms = bulk("NaCl", "rocksalt", 5.6, cubic=True)
    model, rng = built("tiny/many_elements.equi"), np.random.default_rng(5)
    kept = library.LibraryCalculator(model, ["Cl", "Na"], "precision double")
    for _ in range(12):
        atoms.positions += rng.normal(scale=0.08, size=(8, 3))
        kept.set_atoms(atoms)
        fresh = library.LibraryCalculator(model, ["Cl", "Na"], "precision double")
        fresh.set_atoms(atoms)
        one, other = kept.compute(True), fresh.compute(True)
        assert abs(one.energy - other.energy) < 8 * ROUNDING
        assert np.abs(one.forces - other.forces).max() < ROUNDING


def test_the_library_shows_the_functions_of_its_header_only():
    names = subprocess.run(
        ["nm", "-D", "--defined-only", library.library_file()], capture_output=True, text=True, check=True
    ).stdout.split()  # fmt: skip
    shown = {name.split("@")[0] for name in names if not re.fullmatch(r"[0-9a-f]{16}|[A-Z]", name)} - {"EQUI_1"}
    assert len(FUNCTIONS) == 16
    assert {name for name in shown if not name.startswith("_Z")} == set(FUNCTIONS)


def test_the_manual_has_each_function_and_keyword():
    page = (ROOT / "doc" / "c_interface.rst").read_text()
    for name in FUNCTIONS:
        assert name in page, name
    source = (ROOT / "src" / "library" / "calculator_settings.cpp").read_text()
    keywords = re.findall(r'^    \{"(\w+)", "', source, re.M)
    assert len(keywords) == 13
    for name in keywords:
        assert f"``{name}" in page, name
