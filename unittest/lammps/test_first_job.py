# SPDX-License-Identifier: MIT
"""From a structure to a run: `equi data` and LAMMPS, and the messages of LAMMPS if symbols, labels, masses or the
timestep do not fit together."""

import itertools
import os
import re
import subprocess

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.data import atomic_masses, atomic_numbers, covalent_radii
from ase.io import write
from ase.neighborlist import neighbor_list
from equi_tools import structures
from equi_tools.ase import EquiCalculator

# An energy of some hundred eV, summed in the same order.
SAME = 1e-9
ORDER = "pair_coeff names one symbol per type, in the order of the types"


@pytest.fixture
def poscar(lammps):
    """Strontium titanate, in the order Sr Ti O."""
    atoms = Atoms(
        "SrTiO3", cell=[3.905] * 3, pbc=True,
        scaled_positions=[[0, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]],
    )  # fmt: skip
    write(lammps.folder / "POSCAR", atoms, format="vasp")
    return "POSCAR"


@pytest.fixture
def command(lammps):
    """Runs a program of the build in the test's folder, in the environment of a user without any settings."""

    def run(program, *words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("EQUI_", "LAMMPS_"))}
        done = subprocess.run([lammps.build_dir / "bin" / program, *map(str, words)], cwd=lammps.folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def thermo(output):
    """Rows of the last table of thermodynamic output."""
    table = output.split("Step ")[-1].split("Loop time")[0].splitlines()
    names = table[0].split()
    return [dict(zip(["Step", *names], map(float, line.split()))) for line in table[1:] if line.split()]


def test_from_a_poscar_to_constant_pressure_in_three_commands(lammps, poscar, command):
    """The first of the three commands, which makes the model, is one of the build's."""
    told = command("equi", "data", poscar, "-o", "data.sto", "--supercell", 2, 2, 2, "--model", "sevennet-0.equi", "--run", "npt")
    assert "pair_coeff * * sevennet-0.equi Sr Ti O" in told
    told = command("lmp", "-in", "in.npt", "-var", "steps", 100, "-log", "none")
    assert "WARNING" not in told
    first, last = thermo(told)
    assert first["Lx"] == pytest.approx(7.81) and last["Step"] == 100
    assert 20 < last["Temp"] < 600 and abs(last["Lx"] - 7.81) < 0.3 and last["Lx"] != first["Lx"]
    assert last["PotEng"] == pytest.approx(first["PotEng"], abs=40 * 0.1)  # the energy at some hundred kelvin
    assert "ITEM: ATOMS id type element" in (lammps.folder / "npt.dump").read_text()


def test_a_relaxation_ends_without_forces(lammps, poscar, command):
    command("equi", "data", poscar, "-o", "data.sto", "--model", "sevennet-0.equi", "--run", "relax")
    told = command("lmp", "-in", "in.relax", "-log", "none")
    last = thermo(told)[-1]
    assert last["Fmax"] < 1e-3 and abs(last["Press"]) < 100 and 3.8 < last["Lx"] < 4.05
    assert (lammps.folder / "data.sto.relax").is_file()


ISOTOPES = 2.014, 1.008, 17.999


@pytest.fixture
def heavy_water(lammps):
    """Molecules in which each atom has another mass, in a sheared left-handed cell."""
    atoms = Atoms("OHH" * 2, positions=[[1, 1, 1], [1.96, 1, 1], [0.76, 1.93, 1], [4, 4, 3], [4.9, 4.2, 3], [3.8, 4, 3.9]],
                  cell=[[0.5, 6, 0], [7, 0, 0.4], [3, 1, 8]], pbc=True)  # fmt: skip
    atoms.set_masses([15.999, ISOTOPES[0], ISOTOPES[1], ISOTOPES[2], ISOTOPES[1], ISOTOPES[0]])
    write(lammps.folder / "heavy.extxyz", atoms, columns=["symbols", "positions", "masses"])
    return atoms


SHOW = [
    "run 0", 'print "ENERGY $(pe:%.17g)"',
    "dump all all custom 1 dump.all id type mass x y z fx fy fz", "dump_modify all sort id format float %.17g", "run 0",
]  # fmt: skip


def test_lammps_reads_the_structure_that_was_given(lammps, heavy_water, command):
    """Compares positions, types, masses and energies of a data file of `equi data` with the calculator's, on the
    structure itself."""
    told = command("equi", "data", "heavy.extxyz", "-o", "data.heavy", "--model", "sevennet-0.equi")
    symbols = re.search(r"pair_coeff \* \* sevennet-0.equi (.*)", told)[1].split()
    assert symbols == ["O", "H", "H", "O"]
    run = lammps.run(["units metal", "boundary p p p", "read_data data.heavy", *lammps.pair("sevennet-0", symbols, "precision double"), *SHOW])
    heavy_water.calc = EquiCalculator(str(lammps.model("sevennet-0")))
    assert abs(run.values("ENERGY") - heavy_water.get_potential_energy()) < SAME
    found = run.dump("dump.all")
    assert found[:, 1].tolist() == [1, 2, 3, 4, 3, 2] and np.allclose(found[:, 2], heavy_water.get_masses(), atol=1e-9)
    assert np.allclose(np.linalg.norm(found[:, 6:9], axis=1), np.linalg.norm(heavy_water.get_forces(), axis=1), atol=1e-8)
    distances = heavy_water.get_all_distances(mic=True)
    ((_, read),) = structures.read_files([lammps.folder / "data.heavy"])
    assert np.abs(read.get_all_distances(mic=True) - distances).max() < SAME and np.allclose(read.positions, found[:, 3:6])
    warned = about_types(run)
    assert len(warned) == 2 and "type 2 is mapped to H but has mass 2.014 instead of 1.008 (an isotope?)" in warned[0] and "17.999" in warned[1]


# By style: the commands that make a system of it.
STYLES = {
    "atomic": [], "charge": ["set type 1 charge 0.5"], "full": ["set type 2 charge -0.5", "set type 1 mol 3"], "molecular": [],
    "dipole": ["set type 1 dipole 0 0 1"], "spin": ["set type 1 spin/atom 2 0 0 1"], "hybrid charge spin": ["set type 2 charge 1"],
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("box", ["0 9 0 8 0 7 1 -2 1.5", "0 9 0 8 0 7 0 0 0"])
def test_what_lammps_writes_is_read_in_every_style(lammps, style, box):
    """With labels and without, with images."""
    lines = [
        "units real", f"atom_style {style}", "atom_modify map yes", f"region box prism {box}", "create_box 2 box",
        "create_atoms 1 single 0.5 0.25 0.125", "create_atoms 2 single 3 3 3", "create_atoms 1 single 5 3 4", "mass 1 22.99", "mass 2 35.453",
        "labelmap atom 1 Na 2 Cl", *STYLES[style], "pair_style zero 3.0", "pair_coeff * *", "set atom 1 image 1 -1 2", "run 0",
        "write_data labels nocoeff types labels", "write_data numbers nocoeff types numeric",
        "dump all all custom 1 dump.all id x y z", "dump_modify all sort id format float %.17g", "run 0",
    ]  # fmt: skip
    run = lammps.run(lines)
    expected = run.dump("dump.all")[:, 1:]
    xy, xz, yz = (float(word) for word in box.split()[6:])
    vectors = [[9, 0, 0], [xy, 8, 0], [xz, yz, 7]]
    for name in ("labels", "numbers"):
        ((_, atoms),) = structures.read_files([lammps.folder / name])
        assert atoms.get_chemical_symbols() == ["Na", "Cl", "Na"] and atoms.get_masses().tolist() == [22.99, 35.453, 22.99]
        assert np.allclose(atoms.positions, expected, atol=1e-9) and np.allclose(atoms.cell.array, vectors, atol=1e-9)


def test_general_triclinic_boxes_are_read_as_lammps_reads_them(lammps):
    text = (
        "general\n\n3 atoms\n2 atom types\n0.5 6 0 avec\n-7 0 0.4 bvec\n3 1 8 cvec\n0.1 0.2 0.3 abc origin\n\nMasses\n\n1 22.99\n2 35.453\n\n"
        "Atoms # atomic\n\n3 1 1 1 1\n1 2 -2 3 5\n2 2 0 2 3.5\n"
    )
    (lammps.folder / "general").write_text(text)
    lammps.run([
        "units metal", "read_data general", "pair_style zero 3.0", "pair_coeff * *", "run 0",
        "write_data again nocoeff triclinic/general", "write_data restricted nocoeff",
    ])  # fmt: skip
    found = [structures.read_files([lammps.folder / name])[0][1] for name in ("general", "again", "restricted")]
    for atoms in found:
        assert atoms.get_chemical_symbols() == ["Cl", "Cl", "Na"]
        assert np.allclose(atoms.get_all_distances(mic=True), found[0].get_all_distances(mic=True), atol=1e-9)
        assert np.allclose(atoms.cell.cellpar(), found[0].cell.cellpar(), atol=1e-9)


def lines(lammps, symbols, change=lambda text: text, units="metal", extra=()):
    """An input for the data file of `equi data`, changed."""
    path = lammps.folder / "data.sto"
    (lammps.folder / "data.changed").write_text(change(path.read_text()))
    return [
        f"units {units}", "read_data data.changed", *lammps.pair("sevennet-0", symbols, "precision mixed"), *extra, "run 0",
        'print "ENERGY $(pe:%.17g)"',
    ]  # fmt: skip


def without_labels(text):
    return re.sub(r"Atom Type Labels\n\n(.+\n)+\n", "", text)


def with_masses_of_the_wrong_order(text):
    """Replaces the masses of Ti and Sr; their labels stay."""
    return text.replace("1 87.62 ", "1 47.867 ").replace("2 47.867 ", "2 87.62 ")


def about_types(run):
    return [line for line in run.warnings if "Atom type" in line]


@pytest.fixture
def data(poscar, command):
    command("equi", "data", poscar, "-o", "data.sto")


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_right_order_gives_no_warning(lammps, data, ranks):
    run = lammps.run(lines(lammps, ["Sr", "Ti", "O"]), ranks=ranks)
    assert about_types(run) == []
    plain = lammps.run(lines(lammps, ["Sr", "Ti", "O"], without_labels), ranks=ranks)
    assert about_types(plain) == []
    assert abs(run.values("ENERGY") - plain.values("ENERGY")) < SAME


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_alphabetical_order_is_noticed_by_masses(lammps, data, ranks):
    right = lammps.run(lines(lammps, ["Sr", "Ti", "O"]), ranks=ranks)
    run = lammps.run(lines(lammps, ["O", "Sr", "Ti"], without_labels), ranks=ranks)
    found = about_types(run)
    assert len(found) == 3 and ORDER in found[0]
    assert "Atom type 1 is mapped to O but has mass 87.62 instead of 15.999, which is that of Sr" in found[0]
    assert "Atom type 3 is mapped to Ti but has mass 15.999 instead of 47.867, which is that of O" in found[2]
    assert abs(run.values("ENERGY") - right.values("ENERGY")) > 1.0  # the error that the warning reports


def test_the_wrong_order_is_noticed_by_labels_alone(lammps, data):
    """The masses were given in the same wrong order."""
    run = lammps.run(lines(lammps, ["Ti", "Sr", "O"], with_masses_of_the_wrong_order))
    found = about_types(run)
    assert len(found) == 2
    assert f"Atom type 1 is mapped to Ti but has the label Sr: {ORDER}" in found[0]
    assert f"Atom type 2 is mapped to Sr but has the label Ti: {ORDER}" in found[1]


def test_labels_and_masses_are_named_together(lammps, data):
    found = about_types(lammps.run(lines(lammps, ["Ti", "Sr", "O"])))
    assert "Atom type 1 is mapped to Ti but has the label Sr and mass 87.62 instead of 47.867" in found[0]


def test_labels_that_are_no_elements_mean_nothing(lammps, data):
    def rename(text):
        return text.replace("1 Sr\n2 Ti\n3 O\n", "1 big\n2 Ti\n3 o2\n")

    assert about_types(lammps.run(lines(lammps, ["Sr", "Ti", "O"], rename))) == []


def without_masses_and_labels(text):
    """A data file without elements; masses then come from the input script."""
    return re.sub(r"Masses\n\n(.+\n)+\n", "", without_labels(text))


def about_the_start(run):
    return [line for line in run.warnings if "first structure" in line]


WRONG_ORDERS = [order for order in itertools.permutations(("Sr", "Ti", "O")) if order != ("Sr", "Ti", "O")]


@pytest.mark.parametrize("order", WRONG_ORDERS, ids="".join)
def test_the_wrong_order_is_noticed_by_the_symbols_alone(lammps, data, order):
    """Neither labels nor masses contradict: masses have the same wrong order."""
    masses = [f"mass {t} {atomic_masses[atomic_numbers[symbol]]}" for t, symbol in enumerate(order, 1)]
    run = lammps.run(lines(lammps, order, without_masses_and_labels, extra=masses))
    assert about_types(run) == []
    (found,) = about_the_start(run)
    assert f"the symbols of pair_coeff, {' '.join(order)}, stand in the order" in found
    assert "eV per atom (a pressure of " in found or "of the sum of their covalent radii" in found
    # If masses and labels exist, each contradicts as well.
    run = lammps.run(lines(lammps, order))
    assert len(about_types(run)) >= 2 and len(about_the_start(run)) == 1


def beginning(lammps, atoms, order, symbols, units="metal"):
    """An input up to the pair style; order: the elements of the structure by atom type; symbols: those of
    pair_coeff."""
    return [f"units {units}", *lammps.write(atoms, order), *lammps.pair("sevennet-0", symbols, "precision mixed")]


def test_the_wrong_order_in_molecules_without_a_box(lammps):
    """Ethanol with exchanged carbon and hydrogen: there is no pressure, but strained bonds."""
    atoms = molecule("CH3CH2OH")
    atoms.center(vacuum=6.0)
    assert about_the_start(lammps.run([*beginning(lammps, atoms, ["C", "O", "H"], ["C", "O", "H"]), "run 0"])) == []
    (found,) = about_the_start(lammps.run([*beginning(lammps, atoms, ["C", "O", "H"], ["H", "O", "C"]), "run 0"]))
    assert "eV per atom. Do" in found and "GPa" not in found


def test_a_layer_in_two_dimensions_has_no_pressure(lammps):
    """A layer of rock salt with short bonds, in a box whose height means nothing."""
    atoms = Atoms("MgOMgO", cell=[3.4, 3.4, 20.0], pbc=True, positions=[[0, 0, 0], [1.7, 0, 0], [1.7, 1.7, 0], [0, 1.7, 0]])
    text = beginning(lammps, atoms, ["Mg", "O"], ["Mg", "O"])
    path = lammps.folder / "data.structure"
    path.write_text(re.sub(r"^.* zlo zhi$", "-10.0 10.0 zlo zhi", path.read_text(), flags=re.M))
    (found,) = about_the_start(lammps.run([text[0], "dimension 2", *text[1:], "run 0"]))
    assert "a virial of" in found and "GPa" not in found


@pytest.mark.parametrize("units, ranks", [("metal", 1), ("metal", 3), ("real", 1), ("real", 2)])
def test_the_numbers_of_the_first_structure(lammps, units, ranks):
    """Compared with the framework's radii and LAMMPS's own pressure, whether or not thermodynamic output contains
    it."""
    atoms = bulk("MgO", "rocksalt", 3.8, cubic=True) * (2, 1, 1)
    atoms.positions[5] += 0.62 * (atoms.positions[4] - atoms.positions[5])
    neighbors = neighbor_list("ijd", atoms, 3.0)
    i, j, distance = min(zip(*neighbors), key=lambda pair: pair[2] / covalent_radii[atoms.numbers[list(pair[:2])]].sum())
    ratio = distance / covalent_radii[atoms.numbers[[i, j]]].sum()
    text = beginning(lammps, atoms, ["Mg", "O"], ["Mg", "O"], units)
    # Without pressure in the output the first evaluation computes it only for the warning.
    run = lammps.run([*text, "thermo_style custom step pe", "run 0", "run 0",
                      "thermo_style custom step pe press", "run 0", 'print "PRESS $(press)"'], ranks=ranks)  # fmt: skip
    (found,) = about_the_start(run)
    pressure = run.values("PRESS")[0, 0] * (1e-4 if units == "metal" else 1.01325e-4)
    told = float(re.search(r"a pressure of (\S+) GPa", found)[1])
    assert told == pytest.approx(pressure, rel=6e-3)
    volume = atoms.get_volume() / len(atoms)
    assert float(re.search(r"a virial of (\S+) eV", found)[1]) == pytest.approx(pressure * volume / 160.2177, rel=6e-3)
    pair = re.search(r"atoms (\d+) \((\w+)\) and (\d+) \((\w+)\) at (\S+) Angstrom, (\S+) of", found)
    assert {int(pair[1]), int(pair[3])} == {i + 1, j + 1}
    assert [pair[2], pair[4]] == [atoms.symbols[int(pair[k]) - 1] for k in (1, 3)]
    assert float(pair[5]) == pytest.approx(distance, rel=6e-3) and float(pair[6]) == pytest.approx(ratio, abs=6e-3)


def test_a_second_pair_coeff_is_looked_at_again(lammps, data):
    text = lines(lammps, ["Ti", "O", "Sr"])
    again = [line for line in text if line.startswith("pair_coeff")]
    right = [again[0].replace("Ti O Sr", "Sr Ti O")]
    assert len(about_the_start(lammps.run([*text, "run 0", *again, "run 0", *right, "run 0"]))) == 2


def test_atoms_of_other_styles_are_not_looked_at(lammps):
    """Two argon atoms of NULL types on top of each other, next to rock salt; elements without radii are never
    close."""
    atoms = bulk("NaCl", "rocksalt", 5.64, cubic=True) * (2, 1, 1)
    atoms += Atoms("Ar2", positions=[[1.4, 1.4, 1.4], [1.4, 1.4, 1.6]])
    text = lammps.write(atoms, ["Na", "Cl", "Ar"])
    model = lammps.model("sevennet-0")
    pair = ["pair_style hybrid/overlay equi precision mixed zero 6.0", "pair_coeff * * zero"]
    assert about_the_start(lammps.run(["units metal", *text, *pair, f'pair_coeff * * equi "{model}" Na Cl NULL', "run 0"])) == []
    (found,) = about_the_start(lammps.run(["units metal", *text, *pair, f'pair_coeff * * equi "{model}" Na Cl Ar', "run 0"]))
    assert "(Ar)" in found


@pytest.mark.parametrize("name", structures.BUILTIN)
def test_sound_structures_give_no_warning(lammps, name):
    atoms = structures.BUILTIN[name]()
    symbols = sorted(set(atoms.get_chemical_symbols()))
    assert about_the_start(lammps.run([*beginning(lammps, atoms, symbols, symbols), "run 0"])) == []


@pytest.mark.parametrize(
    "units, timestep, warned",
    [
        ("metal", "1.0", "1000 fs is too long"), ("metal", "0.02", "20 fs is too long"), ("metal", "0.002", ""),
        ("metal", "0.000001", "0.001 fs is too short"), ("real", "1.0", ""), ("real", "0.001", "0.001 fs is too short"),
        ("real", "20.0", "20 fs is too long"),
    ],
)  # fmt: skip
def test_a_timestep_of_other_units_is_noticed(lammps, data, units, timestep, warned):
    # At rest in a perfect crystal nothing moves far even in a wrong step. The second run repeats no warning.
    text = lines(lammps, ["Sr", "Ti", "O"], units=units, extra=[f"timestep {timestep}", "fix 1 all nve"])
    run = lammps.run([*text, "run 1", "run 1"])
    found = [line for line in run.warnings if "timestep" in line]
    assert len(found) == bool(warned)
    if warned:
        usual = {"metal": "with units metal it is in ps, and 0.001 is usual", "real": "with units real it is in fs, and 1 is usual"}
        assert warned in found[0] and usual[units] in found[0]


def test_a_timestep_is_nothing_to_a_minimization(lammps, data):
    text = lines(lammps, ["Sr", "Ti", "O"], extra=["timestep 1.0"])
    run = lammps.run([*text[:-2], "minimize 0 1 1 1"])
    assert not [line for line in run.warnings if "timestep" in line]
