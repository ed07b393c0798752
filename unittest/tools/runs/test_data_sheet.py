# SPDX-License-Identifier: MIT
"""bench/data_sheet.py: its formulas on energies and forces with known answers, its driver with a tiny model, and the page
that is made from its results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.calculators.calculator import Calculator, all_changes
from ase.neighborlist import neighbor_list
from ase.units import GPa
from built_models import built

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
import data_sheet  # noqa: E402
import sheet_values  # noqa: E402

BUILD = os.environ["EQUI_BUILD_DIR"]
# Relative errors for energies that are a parabola of the lattice constant, which is no equation of state of third order.
LATTICE, MODULUS = 1e-5, 3e-3


def birch_murnaghan(volume, volume0, modulus, slope):
    x = (volume0 / volume) ** (2 / 3)
    return 9 / 16 * volume0 * modulus * ((x - 1) ** 3 * slope + (x - 1) ** 2 * (6 - 4 * x))


@pytest.mark.parametrize("volume, modulus, slope", [(40.0, 0.6, 4.5), (160.0, 0.15, 5.2)])
def test_an_equation_of_state_is_recovered(volume, modulus, slope):
    volumes = volume * np.linspace(0.93, 1.04, 7)
    found = sheet_values.equation_of_state(volumes, birch_murnaghan(volumes, volume, modulus, slope) - 7.0)
    assert np.allclose(found, (volume, modulus), rtol=1e-8)
    # Only volumes beyond the minimum.
    volumes = volume * np.linspace(1.05, 1.2, 7)
    assert sheet_values.equation_of_state(volumes, birch_murnaghan(volumes, volume, modulus, slope)) is None


class Springs(Calculator):
    """Harmonic springs between neighbors nearer than `reach`, at rest at `length`."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, constant, length, reach):
        super().__init__()
        self.numbers = constant, length, reach

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        constant, length, reach = self.numbers
        i, distances, vectors = neighbor_list("idD", self.atoms, reach)
        pulls = constant * (distances - length)
        forces = np.zeros((len(self.atoms), 3))
        np.add.at(forces, i, pulls[:, None] * vectors / distances[:, None])
        self.results = {"energy": constant * ((distances - length) ** 2).sum() / 4, "forces": forces}


def test_crystal_of_springs_has_their_length_and_modulus():
    """Copper at a length that differs from the start by 8 %: V d^2E/dV^2 = 12/2 k d^2 / (9 V) with V = a^3/4."""
    lattice, constant = 3.9, 2.0
    found = sheet_values.crystal_values(Springs(constant, lattice / 2**0.5, 3.2), "Cu")
    modulus = 6 * constant * lattice**2 / 2 / (9 * lattice**3 / 4) / GPa
    assert abs(found["lattice_A"] / lattice - 1) < LATTICE and abs(found["modulus_GPa"] / modulus - 1) < MODULUS


def test_phonons_of_springs():
    """Frequencies of central forces between nearest neighbors in a face-centered cubic crystal; squares times mass over
    constant are 8, 4 at X and 8, 2 at L."""
    lattice, constant = 3.6, 1.7
    primitive = bulk("Cu", "fcc", lattice)
    found = sheet_values.frequencies(Springs(constant, lattice / 2**0.5, 3.0), primitive, lattice)
    unit = sheet_values.THZ * (constant / primitive.get_masses()[0]) ** 0.5
    assert np.abs(found["Gamma"]).max() < 1e-3
    assert np.allclose(found["X"], unit * np.sqrt([4, 4, 8]), rtol=1e-4)
    assert np.allclose(found["L"], unit * np.sqrt([2, 2, 8]), rtol=1e-4)
    # With two atoms of the same mass in its primitive cell the zone is half as large: Gamma has the frequencies of X.
    salt = bulk("NaCl", "rocksalt", lattice)
    salt.set_masses([50.0, 50.0])
    found = sheet_values.frequencies(Springs(constant, lattice / 2, 2.0), salt, lattice)
    unit = sheet_values.THZ * (constant / 50.0) ** 0.5
    assert np.allclose(found["Gamma"][3:], unit * 2**0.5 * np.sqrt([2, 2, 2]), rtol=1e-4)


def test_thz():
    from ase import units

    assert abs(np.sqrt(units._e / units._amu) * 1e10 / (2 * np.pi) / 1e12 / sheet_values.THZ - 1) < 1e-6


def morse(distance):
    decay = np.exp(-1.5 * (distance - 1.5))
    return 3.0 * (decay**2 - 2 * decay), 6.0 * 1.5 * (decay**2 - decay)


def curve_of(function):
    distance = np.arange(1.0, 6.0, sheet_values.PAIR_STEP)
    energy, force = function(distance)
    return {"distance_A": distance.tolist(), "energy_eV": energy.tolist(), "force_eV_per_A": force.tolist()}


def test_a_smooth_pair_curve():
    found = sheet_values.smoothness(curve_of(morse))
    assert found["energy_minus_work_meV"] < 1e-3 and found["further_extrema"] == 0
    assert abs(found["force_before_cutoff_eV_per_A"] / abs(morse(5.48)[1]) - 1) < 0.1


def test_waves_and_steps_of_a_pair_curve_are_noticed():
    def waves(distance):
        energy, force = morse(distance)
        return energy + 0.05 * np.sin(20 * distance), force - np.cos(20 * distance)

    assert sheet_values.smoothness(curve_of(waves))["further_extrema"] > 10

    def step(distance):
        energy, force = morse(distance)
        return energy + 0.01 * (distance > 3.0), force

    assert abs(sheet_values.smoothness(curve_of(step))["energy_minus_work_meV"] - 10.0) < 1e-2


def test_facts_of_a_radial_distribution_function():
    """Twelve neighbors at 3 Angstrom and others beyond 4."""
    distance, density = np.linspace(0.02, 7.0, 350), 0.03
    peak = np.exp(-((distance - 3.0) ** 2) / (2 * 0.15**2)) / (0.15 * (2 * np.pi) ** 0.5)
    g = 12 * peak / (4 * np.pi * density * distance**2) + 1 / (1 + np.exp(-(distance - 4.5) / 0.1))
    found = data_sheet.rdf_facts(distance, g, density)
    assert abs(found["maximum_A"] - 3.0) < 0.03 and 3.4 < found["minimum_A"] < 4.2
    assert abs(found["neighbors"] - 12.0) < 0.1


def test_a_line_and_its_deviations():
    time = np.linspace(0.0, 20.0, 1001)
    slope, deviation = data_sheet.line_of(time, -3.0 + 2e-6 * time + 1e-5 * np.sqrt(2) * np.sin(2 * np.pi * time))
    assert abs(slope - 2e-6) < 1e-7 and abs(deviation / 1e-5 - 1) < 0.02


def test_crystals_are_what_they_are_called():
    atoms = {formula: crystal.atoms(formula, crystal.lattice) for formula, crystal in sheet_values.CRYSTALS.items()}
    assert len(atoms) == 10
    for formula, cell in atoms.items():
        assert cell.symbols.formula.reduce()[0].count() == Atoms(formula).symbols.formula.count()
    assert len(atoms["SrTiO3"]) == 5 and atoms["SrTiO3"].get_distance(1, 2, mic=True) == pytest.approx(3.905 / 2)
    assert sheet_values.known(["NaCl", "Cu"], ["Cl", "Na"]) == ["NaCl"]


def test_frequencies_of_the_page_have_no_repetitions():
    assert data_sheet.branches([-0.014, 0.0, 0.002, 4.2749, 4.2751, 4.28]) == "4.27, 4.28"
    assert data_sheet.branches([-1.2, 3.0]) == "-1.20, 3.00" and data_sheet.branches(None) == ""


def test_sheets_are_written_with_seven_digits():
    sheet = {"model": "a", "equi": {"crystals": {"Cu": None}, "pairs": [1.23456789, 2]}}
    assert json.loads(data_sheet.text_of(sheet)) == {"model": "a", "equi": {"crystals": {"Cu": None}, "pairs": [1.234568, 2]}}


@pytest.mark.slow
def test_the_driver_measures_a_tiny_model_next_to_its_framework(tmp_path):
    command = [sys.executable, ROOT / "bench" / "data_sheet.py", "--build-dir", BUILD, "--model", built("tiny/plain.equi"), "--out", tmp_path]
    command += ["--source", built("tiny/plain.pth"), "--quick", "--picoseconds", 0.4, "--liquid-picoseconds", 0.2, "--rounds", 1]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=dict(os.environ, OMP_WAIT_POLICY="passive"))
    assert done.returncode == 0, done.stdout + done.stderr
    sheet = json.loads((tmp_path / "data_sheet_plain.json").read_text())
    # Random numbers make no crystals, but pairs and mirror images are those of the framework, in its float32.
    own, other = sheet["equi"], sheet["framework"]
    assert other["name"] == "sevenn" and own["crystals"].keys() == {"NaCl"} and own["pairs"].keys() == {"O-O", "Na-Cl"}
    for pair, curve in own["pairs"].items():
        assert np.allclose(curve["energy_eV"], other["pairs"][pair]["energy_eV"], atol=1e-5), pair
        assert 0 <= curve["jump_of_energy_eV"] < 1e-6 and 0 <= curve["jump_of_force_eV_per_A"] < 1e-3
        assert np.allclose(curve["force_eV_per_A"], other["pairs"][pair]["force_eV_per_A"], atol=1e-4), pair
    assert {one["name"] for one in sheet["properties"]} >= {"no_mirror_symmetry"}
    assert len(sheet["liquid"]["g"]) == data_sheet.BINS and sheet["liquid"]["neighbors"] > 0
    assert sheet["speed"]["us_per_atom"] > 0 and sheet["speed"]["kB_per_atom"] > 0 and sheet["speed"]["framework_us_per_atom"] > 0
    assert abs(sheet["dynamics"]["drift_ueV_per_atom_per_ps"]) < 1e3
    # The page of this sheet, written twice, is the same.
    page = tmp_path / "page.rst"
    page.write_text(f"Sheets\n======\n\n{data_sheet.BEGIN}\n")
    (tmp_path / "pictures").mkdir()
    texts = []
    for _ in range(2):
        data_sheet.write_page(page, tmp_path)
        texts.append(page.read_text())
    assert texts[0] == texts[1] and data_sheet.section(sheet) in texts[0]
    assert "<svg" in (tmp_path / "pictures" / "data_sheet_plain.svg").read_text()


def test_the_page_has_the_stored_sheets():
    sheets = [json.loads(path.read_text()) for path in sorted((ROOT / "bench" / "results").glob("data_sheet_*.json"))]
    page = (ROOT / "doc" / "data_sheets.rst").read_text()
    assert len(sheets) >= 2 and page == data_sheet.with_sections(page, sheets)
    for sheet in sheets:
        assert (ROOT / "doc" / "pictures" / f"data_sheet_{sheet['model']}.svg").stat().st_size < 200_000
