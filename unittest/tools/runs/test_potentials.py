# SPDX-License-Identifier: MIT
"""potentials/: the scripts that label and train, in each framework's environment, and the files that they made."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk
from ase.io import read, write
from equi_tools import document as document_rules
from equi_tools import equi_file, model_properties
from equi_tools.ase import EquiCalculator

FOLDER = Path(__file__).resolve().parents[3] / "potentials"
TEACHER = FOLDER / "nacl-nequip.equi"
FILES = sorted(FOLDER.glob("*.equi"))
# Models of dipoles and polarizabilities have no energy.
POTENTIALS = [file for file in FILES if document_rules.has_energy(equi_file.read(file)[0])]
# The environments of the families; None is the main one.
FAMILIES = {"mace": "EQUI_PYTHON_MACE", "nequip": "EQUI_PYTHON_NEQUIP", "allegro": "EQUI_PYTHON_NEQUIP", "sevennet": None, 
            "tensornet": "EQUI_PYTHON_MATGL"}  # fmt: skip
# Largest size of a file of this folder, bytes.
LARGEST = 350_000
# Rounding of float64 in an energy per atom, eV, with some room.
MIRROR = 1e-9
# Errors of the table, which are printed as whole meV/Angstrom, in float32.
ROUNDING = 0.6


def call(script, *words, python=sys.executable, fails=False):
    done = subprocess.run([python, FOLDER / script, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout


def label(output, start, *words):
    return call("label.py", output, start, "--teacher", TEACHER, *words)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "nacl.xyz"
    write(path, bulk("NaCl", "rocksalt", 5.64) * (2, 2, 2))
    return path


@pytest.fixture(scope="module")
def data(start):
    """Three files: crystals, a trajectory, held-out crystals."""
    files = [start.parent / name for name in ("crystal.xyz", "pool.xyz", "held-out.xyz")]
    label(files[0], start, "--rattle", 0.1, 0.2, "--rattled", 2, "--kind", "crystal")
    label(files[1], start, "--temperature", 900, "--settle", 4, "--steps", 12, "--every", 4, "--melt", 1200, "--volume", 1.1)
    label(files[2], start, "--rattle", 0.15, "--rattled", 2, "--seed", 2)
    return files


def test_labels_are_the_teacher_s(data):
    for file, kinds in zip(data, ({"crystal, moved by 0.1 A", "crystal, moved by 0.2 A"}, {"900 K"}, {"moved by 0.15 A"})):
        found = read(file, ":")
        assert {atoms.info["kind"] for atoms in found} == kinds
        for atoms in found:
            again = atoms.copy()
            again.calc = EquiCalculator(TEACHER, threads=1)
            assert atoms.get_potential_energy() == pytest.approx(again.get_potential_energy(), abs=1e-4)
            assert np.allclose(atoms.get_forces(), again.get_forces(), atol=1e-4)
            assert np.allclose(atoms.get_stress(), again.get_stress(), atol=1e-5)


def test_a_trajectory_moves_at_its_volume(start, data):
    one, *_, last = read(data[1], ":")
    assert np.abs(one.positions - last.positions).max() > 0.01
    assert one.get_volume() == pytest.approx(1.1 * read(start).get_volume())


def test_the_seed_is_that_of_all_random_numbers(start, data, tmp_path):
    words = ("--rattle", 0.1, 0.2, "--rattled", 2, "--kind", "crystal")
    label(tmp_path / "same.xyz", start, *words)
    label(tmp_path / "other.xyz", start, *words, "--seed", 2)
    assert (tmp_path / "same.xyz").read_text() == data[0].read_text()
    assert (tmp_path / "other.xyz").read_text() != data[0].read_text()


def test_data_files_of_lammps_and_repeated_cells(start, tmp_path):
    write(tmp_path / "data.nacl", read(start), format="lammps-data", specorder=["Na", "Cl"])
    label(tmp_path / "out.xyz", tmp_path / "data.nacl", "--types", "Na", "Cl", "--atoms", 20, "--rattle", 0.1, "--rattled", 1)
    assert read(tmp_path / "out.xyz").get_chemical_formula() == "Cl16Na16"


def test_structures_with_huge_forces_are_left_out(start, tmp_path):
    text = label(tmp_path / "out.xyz", start, "--rattle", 0.01, 1.5, "--rattled", 3)
    kept, left_out = map(int, re.search(r"(\d) structures, (\d) left out for their forces", text).groups())
    assert kept + left_out == 6 and kept >= 3 and left_out >= 1
    found = read(tmp_path / "out.xyz", ":")
    assert len(found) == kept and max(np.abs(atoms.get_forces()).max() for atoms in found) < 40


def train_words(family, data):
    return ("--family", family, "--data", data[0], "--pool", data[1], "--held-out", data[2], "--rounds", 2, "--add", 1, "--round-epochs", 1,
            "--channels", 4, "--cutoff", 4.0, "--epochs", 3, "--report", 1)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_training_ends_in_a_file_with_the_errors_of_its_table(family, data, tmp_path):
    text = call("train.py", tmp_path / "out.equi", *train_words(family, data), python=python_of(family))
    assert "round 2: 1 of 2 structures join" in text
    row = re.search(r"^\| all \| 2 \| ([\d.]+) \| (\d+) \| ([\d.]+) \|", text, re.M)
    differences = []
    for atoms in read(data[2], ":"):
        again = atoms.copy()
        again.calc = EquiCalculator(tmp_path / "out.equi", threads=1)
        differences.append((again.get_forces() - atoms.get_forces()).ravel())
    assert 1000 * np.concatenate(differences).std() == pytest.approx(float(row[2]), abs=ROUNDING)


def python_of(family):
    python = os.environ.get(FAMILIES[family], "") if FAMILIES[family] else sys.executable
    if not python:  # a build without this framework
        pytest.fail(f"{FAMILIES[family]} names no interpreter", pytrace=False)
    return python


def root_mean_square(parts):
    return np.sqrt(np.square(np.concatenate([np.ravel(part) for part in parts])).mean())


def test_latent_charges_are_learned_with_forces_and_stresses(data, tmp_path):
    words = ("--family", "mace", "--latent-charges", "Na=0.6", "Cl=-0.6", "--operators", "framework", "--data", data[0], "--held-out", data[2],
             "--channels", 4, "--cutoff", 4.0, "--epochs", 2, "--charge-grid", 2.0)  # fmt: skip
    text = call("train.py", tmp_path / "out.equi", *words, python=python_of("mace"))
    row = re.search(r"^\| all \| 2 \| ([\d.]+) \| (\d+) \| ([\d.]+) \|", text, re.M)
    mean = {element: float(charge) for element, charge in re.findall(r"(Na|Cl) (-?\d\.\d+)", text.split("charges, e:")[1].splitlines()[0])}
    forces, stresses, charges = [], [], []
    for atoms in read(data[2], ":"):
        again = atoms.copy()
        again.calc = EquiCalculator(tmp_path / "out.equi", threads=1)
        forces.append(again.get_forces() - atoms.get_forces())
        stresses.append(again.get_stress(voigt=False) - atoms.get_stress(voigt=False))
        charges.append([again.get_charges()[again.symbols == element].mean() for element in mean])
    assert 1000 * root_mean_square(forces) == pytest.approx(float(row[2]), abs=ROUNDING)
    assert root_mean_square(stresses) * 160.21766 == pytest.approx(float(row[3]), abs=0.006)
    assert np.mean(charges, 0) == pytest.approx(list(mean.values()), abs=0.001)
    assert mean["Na"] == pytest.approx(0.6, abs=0.1) and mean["Cl"] == pytest.approx(-0.6, abs=0.1)


@pytest.mark.parametrize("exists, resume, build, told", [
    (True, False, None, "is of an earlier training: continue it with --resume"),
    (False, True, None, "there is no "),
    (False, False, "empty", "the workflow 'test' builds it"),
])  # fmt: skip
def test_a_training_that_cannot_begin_says_why_in_one_line(exists, resume, build, told, data, tmp_path, monkeypatch):
    if exists:
        (tmp_path / "out.equi.checkpoint").write_text("of a week")
    if build:
        monkeypatch.setenv("EQUI_BUILD_DIR", str(tmp_path / build))
    words = [*train_words("sevennet", data), *(["--resume"] if resume else [])]
    done = subprocess.run([sys.executable, FOLDER / "train.py", *map(str, (tmp_path / "out.equi", *words))], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert told in done.stderr.splitlines()[-1]
    assert not exists or (tmp_path / "out.equi.checkpoint").read_text() == "of a week"


def energies(file, structures, **settings):
    calculator = EquiCalculator(file, threads=1, **settings)
    found = []
    for atoms in structures:
        atoms = atoms.copy()
        atoms.calc = calculator
        found.append(atoms.get_potential_energy() / len(atoms))
    return np.array(found)


def start_words(data):
    return ("--family", "sevennet", "--layers", 3, "--lmax", 2, "--channels", 5, "--cutoff", 4.0, "--epochs", 1, "--data", data[0],
            "--held-out", data[2])  # fmt: skip


def mirror_difference(file):
    """The largest difference of the energies of mirror images, eV/atom. They are rotated too, so their digits differ."""
    document, _ = equi_file.read(file)
    structures = [atoms for _, atoms in model_properties.structures_of(document)]
    images = [model_properties.mirrored(atoms) for atoms in structures]
    for atoms in images:
        atoms.rotate(40, (1, 2, 3), rotate_cell=True)
    one, other = (energies(file, some, precision="double") for some in (structures, images))
    return np.abs(one - other).max()


@pytest.fixture(scope="module")
def without_parity(data):
    file = data[0].parent / "without-parity.equi"
    call("train.py", file, *start_words(data), "--no-parity")
    return file


def test_a_training_starts_from_a_file(data, without_parity, tmp_path):
    held_out = read(data[2], ":")
    words = (*start_words(data), "--start", without_parity, "--epochs", 0)
    call("train.py", tmp_path / "same.equi", *words, "--no-parity")
    assert np.allclose(energies(tmp_path / "same.equi", held_out), energies(without_parity, held_out), rtol=0, atol=2e-6)
    call("train.py", tmp_path / "parity.equi", *words)
    assert mirror_difference(without_parity) > 1e-7
    assert mirror_difference(tmp_path / "parity.equi") < MIRROR
    # The mean of a model and of its mirror image is not the model without these paths, but close to it.
    change = energies(tmp_path / "parity.equi", held_out) - energies(without_parity, held_out)
    assert 0 < np.abs(change).max() < 0.1
    # A file with parity lacks paths: it starts the same model again, but none without parity.
    again = (*start_words(data), "--start", tmp_path / "parity.equi", "--epochs", 0)
    call("train.py", tmp_path / "again.equi", *again)
    assert np.allclose(energies(tmp_path / "again.equi", held_out), energies(tmp_path / "parity.equi", held_out), rtol=0, atol=2e-6)
    assert "and no --no-parity if it has parity" in call("train.py", tmp_path / "none.equi", *again, "--no-parity", fails=True)


@pytest.mark.parametrize("words, told", [
    (("--channels", 6), "give the file's own layers, channels, lmax and width"),
    (("--cutoff", 4.5), "its cutoff is 4, the model's 4.5"),
    (("--layers", 2), "it has 3 layers, the model 2"),
    (("--family", "tensornet"), "--start is for --family sevennet only"),
    (("--pool", "pool.xyz"), "--start does not go with --pool"),
])  # fmt: skip
def test_a_file_of_another_shape_is_refused(words, told, data, without_parity, tmp_path):
    whole = (tmp_path / "out.equi", *start_words(data), "--start", without_parity, *words)
    done = subprocess.run([sys.executable, FOLDER / "train.py", *map(str, whole)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and told in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_training_that_was_killed_continues_to_the_same_numbers(data, tmp_path):
    words = (*train_words("sevennet", data), "--epochs", 30)
    call("train.py", tmp_path / "whole.equi", *words)
    command = [sys.executable, FOLDER / "train.py", *map(str, (tmp_path / "parts.equi", *words))]
    begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in begun.stdout:
        if line.startswith("epoch 2 of 30,"):
            begun.kill()
    assert begun.wait() != 0
    assert torch.load(tmp_path / "parts.equi.checkpoint", weights_only=True)["epoch"] < 30
    assert not (tmp_path / "parts.equi").exists()
    call("train.py", tmp_path / "parts.equi", *words, "--resume")
    whole, parts = (equi_file.read(tmp_path / f"{name}.equi")[1] for name in ("whole", "parts"))
    assert whole.keys() == parts.keys() and all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_starting_structures(tmp_path):
    for name, atoms, formula in (("NaCl", 20, "Cl16Na16"), ("Si", 8, "Si8"), ("H2O", 20, "H14O7")):
        call("start.py", name, tmp_path / "start.xyz", "--atoms", atoms)
        found = read(tmp_path / "start.xyz")
        assert found.get_chemical_formula() == formula
        distances = found.get_all_distances(mic=True)[np.triu_indices(len(found), 1)]
        assert distances.min() > 0.9


@pytest.mark.parametrize("file", POTENTIALS, ids=lambda file: file.stem)
def test_mirror_images_have_one_energy(file):
    assert mirror_difference(file) < MIRROR


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_potential_says_where_it_is_from(file):
    document, _ = equi_file.read(file)
    assert document["provenance"]["licence"] == "MIT"
    assert ("SevenNet-0" if file in POTENTIALS else "PySCF") in document["provenance"]["citation"]
    assert file.stat().st_size < LARGEST
    assert f"`{file.name}`" in (FOLDER / "README.md").read_text()


@pytest.fixture(scope="module")
def dielectric(tmp_path_factory):
    """The module dielectric, and clusters of water with labels of rigid point charges and of one polarizability for each atom."""
    sys.path.insert(0, str(FOLDER))
    try:
        import dielectric
        from start import water
    finally:
        sys.path.remove(str(FOLDER))
    rng, file = np.random.default_rng(1), tmp_path_factory.mktemp("dielectric") / "clusters.xyz"
    box = water(81, rng)
    box.wrap()  # breaks molecules at the boundary
    clusters = []
    for size in (1, 1, 1, 2, 2, 2, 4, 9):
        clusters.append(dielectric.cluster(box, size, rng))
        charges = np.where(clusters[-1].symbols == "O", -0.8, 0.4)
        alpha = 0.5 * len(charges) * np.eye(3) + 0.1 * charges @ clusters[-1].positions**2
        clusters[-1].info = {"REF_dipole": charges @ clusters[-1].positions, "REF_polarizability": alpha.ravel(), "molecules": size, "kind": f"{size}"}
    write(file, clusters, format="extxyz")
    return dielectric, file


def test_clusters_are_whole_molecules_next_to_each_other(dielectric):
    for atoms in read(dielectric[1], ":"):
        size = atoms.info["molecules"]
        assert atoms.get_chemical_formula() == Atoms("OHH" * size).get_chemical_formula() and not atoms.pbc.any()
        _, molecules = dielectric[0].molecules_of(atoms)
        assert len(molecules) == size
        assert all(np.abs(atoms.positions[one] - atoms.positions[one[0]]).max() < 1.1 for one in molecules)
        # The center, with six of a dozen neighbors or with the nearest ones.
        assert np.linalg.norm(atoms[molecules[0]].get_center_of_mass()) < 1e-7  # eight digits of the file
        assert max(np.linalg.norm(atoms[one].get_center_of_mass()) for one in molecules) < 6.0


def test_a_training_of_dipoles_ends_in_a_file_with_the_errors_of_its_table(dielectric, tmp_path):
    output = tmp_path / "out.equi"
    words = ("--data", dielectric[1], "--held-out", dielectric[1], "--channels", 4, "--width", 8, "--cutoff", 4.0, "--epochs", 2)
    text = call("dielectric.py", "train", output, *words, python=python_of("mace"))
    row = [float(cell) for cell in re.search(r"^\| all \| 8 \| (.*) \|$", text, re.M)[1].split("|")]
    dipoles, alphas = [], []
    for atoms in read(dielectric[1], ":"):
        expected, size = atoms.info, atoms.info["molecules"]
        atoms.calc = EquiCalculator(output, precision="double", threads=1)
        assert np.all(atoms.get_charges() == 0.0)
        dipoles.append((atoms.get_dipole_moment() - expected["REF_dipole"]) / size)
        alphas.append((atoms.calc.get_property("polarizability", atoms) - np.reshape(expected["REF_polarizability"], (3, 3))) / size)
    assert root_mean_square(dipoles) == pytest.approx(row[0], abs=1e-4)
    assert root_mean_square(dipoles) / 0.20819434 == pytest.approx(row[1], abs=1e-3)
    assert root_mean_square(alphas) == pytest.approx(row[3], abs=1e-4)


def test_densities_of_the_data_sheet_are_those_of_natural_hydrogen(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import datasheet

    assert datasheet.masses(["O", "H"]) == pytest.approx([15.999, 2.014])
    assert datasheet.natural_share(Atoms("OHHOHH")) == pytest.approx(18.015 / 20.027, rel=1e-4)
    assert datasheet.natural_share(Atoms("NaCl")) == pytest.approx(1.0, rel=1e-12)


def test_the_data_sheet_compares_dynamics(tmp_path, start):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, FOLDER / "datasheet.py", FOLDER / "nacl-mace.equi", "--elements", "Na", "Cl", "--state", f"crystal,300,{start}",
         "--teacher", TEACHER, "--time", "1", "--teacher-time", "1", "--folder", tmp_path / "runs", "-o", tmp_path / "sheet.png"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout
    row = [cell.strip() for cell in done.stdout.splitlines()[-1].split("|")]
    assert row[1] == "crystal, 300 K"
    own, teacher = (float(cell.split()[0]) for cell in row[2:4])
    assert own == pytest.approx(teacher, rel=0.05) and own == pytest.approx(2.07, rel=0.05)
    assert abs(float(row[5])) < 1.0
    assert (tmp_path / "sheet.png").stat().st_size > 10_000
