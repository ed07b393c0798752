# SPDX-License-Identifier: MIT
"""The ASE calculator returns the results of the pair style in a new LAMMPS, whatever it evaluated before, and those that
the frameworks stored. It loads no LAMMPS."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import bulk
from ase.calculators.calculator import CalculationFailed, InputError, PropertyNotImplementedError
from ase.calculators.fd import calculate_numerical_forces, calculate_numerical_stress
from ase.calculators.socketio import SocketIOCalculator
from ase.filters import FrechetCellFilter
from ase.io import write
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS
from built_models import built
from equi_tools import equi_file, lammps_runner, library, self_check, structures
from equi_tools.ase import EquiCalculator
from equi_tools.compare import bars_for, difference

# Rounding: LAMMPS rotates the cell, and its atoms have another order.
ROUNDING = 1e-12
# The same with features in float32, whose harmonics are those of the rotated cell.
ROUNDING_MIXED = 1e-7
# Relative errors of central differences with steps of 1e-4, for energies with rounding errors of 1e-15.
DIFFERENCES = 2e-6

KINDS = ["NaCl", "W_1_atom_cell", "CaF2_strongly_triclinic", "KBr_left_handed", "Cu_O_slab", "C_wire", "water_molecule",
         "isolated_Au"]  # fmt: skip


@pytest.fixture
def calculator():
    """A file of a random model of 89 elements."""
    made = EquiCalculator(built("tiny/many_elements.equi"))
    yield made
    made.close()


def free_direction_first():
    """A slab whose free direction is the first one, in a left-handed cell."""
    atoms = structures.BUILTIN["Cu_O_slab"]()
    atoms.set_cell(atoms.cell.array[[2, 1, 0]], scale_atoms=False)
    atoms.pbc = [False, True, True]
    return atoms


def structure(kind):
    return free_direction_first() if kind == "free_direction_first" else structures.BUILTIN[kind]()


def disturbed(atoms, seed, amplitude=0.05, strain=0.03):
    """Other positions, some of them outside the cell, and with `strain` another cell."""
    rng = np.random.default_rng(seed)
    atoms.set_cell(atoms.cell.array @ (np.eye(3) + strain * rng.uniform(-1, 1, (3, 3))), scale_atoms=True)
    atoms.positions += amplitude * rng.standard_normal((len(atoms), 3))
    atoms.positions += rng.integers(-1, 2, (len(atoms), 3)) * atoms.pbc @ atoms.cell.array


def assert_as_new(atoms):
    """The calculator of these atoms agrees with a LAMMPS that has evaluated nothing else."""
    p = atoms.calc.parameters
    new = lammps_runner.evaluate(atoms, p.model, p.precision, p.radial)
    rounding = ROUNDING if p.precision == "double" else ROUNDING_MIXED
    scale = max(1.0, np.abs(new.forces).max())
    assert abs(atoms.get_potential_energy() - new.energy) <= rounding * max(1.0, abs(new.energy))
    assert atoms.get_potential_energy(force_consistent=True) == atoms.get_potential_energy()
    assert np.abs(atoms.get_forces() - new.forces).max() <= rounding * scale
    assert np.abs(atoms.get_potential_energies() - new.energies).max() <= rounding * max(scale, np.abs(new.energies).max())
    if new.stress is None:
        with pytest.raises(PropertyNotImplementedError):
            atoms.get_stress()
    else:
        assert np.abs(atoms.get_stress() - new.stress).max() <= rounding * max(1.0, np.abs(new.stress).max())


@pytest.mark.parametrize("kind", [*KINDS, "free_direction_first"])
def test_moves_and_strains_give_what_a_new_lammps_gives(calculator, kind, monkeypatch):
    atoms = structure(kind)
    atoms.calc = calculator
    assert_as_new(atoms)

    def read_again(*_):
        raise AssertionError("the model was read anew")

    monkeypatch.setattr(library.LibraryCalculator, "__init__", read_again)
    disturbed(atoms, 1, strain=0.0)
    assert_as_new(atoms)
    disturbed(atoms, 2)
    assert_as_new(atoms)


def test_any_order_of_structures_gives_what_a_new_lammps_gives(calculator):
    for kind in [*KINDS, *KINDS[::2]]:
        atoms = structure(kind)
        atoms.calc = calculator
        assert_as_new(atoms)


def test_the_number_and_the_elements_of_atoms_and_the_boundaries_may_change(calculator):
    atoms = structure("NaCl")
    atoms.calc = calculator
    assert_as_new(atoms)
    del atoms[3]
    assert_as_new(atoms)
    atoms.symbols[[0, 1]] = ["Cl", "K"]
    assert_as_new(atoms)
    atoms.pbc = [True, False, True]
    assert_as_new(atoms)


def test_atoms_without_periodicity_may_go_anywhere(calculator):
    atoms = structure("water_molecule")
    atoms.calc = calculator
    atoms.get_forces()
    atoms.positions[1] += [70.0, -3.0, 0.0]
    assert_as_new(atoms)
    atoms.positions[1] -= [69.0, -3.0, 0.0]
    assert_as_new(atoms)


@pytest.mark.parametrize("model", ["sevennet-0.equi", "tiny/lmax3.equi", "mace/plain.equi", "nequip/plain.equi"])
def test_the_values_of_the_frameworks_are_met(model):
    calculator = EquiCalculator(built(model), radial="exact")
    bars = bars_for("double", "exact")
    stored = equi_file.read(built(model))[0]["self_check"]
    assert stored
    for entry in stored:
        atoms = self_check.to_atoms(entry)
        calculator.get_potential_energy(atoms)
        found = lammps_runner.Result(*(calculator.results.get(key) for key in ("energy", "forces", "stress", "energies")))
        missed = difference(entry["name"], found, entry["energy"], entry["forces"], entry["stress"], bars).missed()
        assert missed == [], entry["name"]


def relative(values, expected):
    return np.abs(values - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("kind", ["CaF2_strongly_triclinic", "KBr_left_handed", "Cu_O_slab"])
def test_forces_and_stress_are_derivatives_of_the_energy(calculator, kind):
    atoms = structure(kind)
    atoms.calc = calculator
    assert relative(calculate_numerical_forces(atoms, eps=1e-4, iatoms=[0, 1]), atoms.get_forces()[:2]) < DIFFERENCES
    assert atoms.get_potential_energies().sum() == pytest.approx(atoms.get_potential_energy(), rel=ROUNDING)
    assert relative(calculate_numerical_stress(atoms, eps=1e-4), atoms.get_stress()) < DIFFERENCES


@pytest.mark.parametrize("kind", ["KBr_left_handed", "water_molecule", "free_direction_first"])
def test_the_hessian_is_the_derivative_of_the_forces(calculator, kind):
    atoms = structure(kind)
    atoms.calc = calculator
    energy = atoms.get_potential_energy()
    hessian = calculator.hessian(atoms)
    assert hessian.shape == (3 * len(atoms), 3 * len(atoms))
    rows = []
    for k in range(3):
        displaced = []
        for step in (1e-4, -1e-4):
            moved = atoms.copy()
            moved.calc = calculator
            moved.positions[1, k] += step
            displaced.append(moved.get_forces().ravel())
        rows.append((displaced[1] - displaced[0]) / 2e-4)
    assert relative(hessian[3:6], np.array(rows)) < DIFFERENCES
    assert relative(hessian, hessian.T) < 1e-9    # radial tables and sums in another order
    assert atoms.get_potential_energy() == energy


def rock_salt(length, cubic):
    atoms = bulk("NaCl", "rocksalt", length, cubic=cubic)
    atoms.calc = EquiCalculator(built("sevennet-0.equi"))
    return atoms


def test_rock_salt_relaxes_to_the_cell_without_stress():
    atoms = rock_salt(5.5, cubic=False)
    strain = np.array([[0.02, 0, 0], [0.03, 0, 0], [0, -0.02, 0.01]])
    atoms.set_cell(atoms.cell.array @ (np.eye(3) + strain), scale_atoms=True)
    atoms.positions[1] += [0.1, 0.05, -0.08]
    assert BFGS(FrechetCellFilter(atoms), logfile=None).run(fmax=1e-4, steps=60)
    assert np.abs(atoms.get_stress()).max() < 1e-5
    assert_as_new(atoms)
    # The relaxed crystal has the least energy of the cubic ones.
    length = (4 * atoms.cell.volume) ** (1 / 3)
    lengths = np.linspace(0.99, 1.01, 5) * length
    energies = [atoms.calc.get_potential_energy(bulk("NaCl", "rocksalt", trial)) for trial in lengths]
    fit = np.polyfit(lengths - length, energies, 4)
    least = min(np.roots(np.polyder(fit)), key=abs)
    assert abs(least) < 1e-4 * length
    assert atoms.get_potential_energy() == pytest.approx(np.polyval(fit, 0.0), abs=1e-5)


def excursion(step, steps):
    """Largest change of the total energy, eV, in a run of `steps` time steps of `step` fs."""
    atoms = rock_salt(5.64, cubic=True)
    spread = np.sqrt(atoms.get_masses() * units.kB * 600)
    atoms.set_momenta(spread[:, None] * np.random.default_rng(7).standard_normal((len(atoms), 3)))
    energies = []
    motion = VelocityVerlet(atoms, timestep=step * units.fs)
    motion.attach(lambda: energies.append(atoms.get_total_energy()))
    motion.run(steps)
    return np.ptp(energies)


def test_the_total_energy_is_conserved_to_second_order_in_the_time_step():
    coarse, fine = excursion(4.0, 25), excursion(1.0, 100)
    assert fine < 2e-4 * 8
    assert 12 < coarse / fine < 20


@pytest.mark.parametrize(
    "bad, text",
    [
        (Atoms("Po"), "does not know element Po"),
        (Atoms(), "no atoms"),
        (Atoms("Na2", [[0, 0, 0], [0, 0, 0]]), "on top of each other: atoms 0 and 1"),
        (Atoms("Na2", [[0, 0, 0], [0, 0, np.nan]]), "not finite"),
        (Atoms("Na", pbc=True), "periodic direction 1 without a cell vector"),
    ],
    ids=["element", "none", "overlap", "nan", "cell"],
)
def test_an_error_says_what_is_wrong_and_leaves_the_calculator_usable(calculator, bad, text):
    atoms = structure("NaCl")
    atoms.calc = calculator
    before = atoms.get_forces()
    bad = bad.copy()
    bad.calc = calculator
    for _ in range(2):
        with pytest.raises(CalculationFailed, match=text):
            bad.get_potential_energy()
        with pytest.raises(CalculationFailed, match=text):
            calculator.hessian(bad)
    assert (atoms.get_forces() == before).all()


def test_atoms_that_meet_on_their_way_end_in_an_error(calculator):
    atoms = structure("NaCl")
    atoms.calc = calculator
    atoms.get_forces()
    free = atoms.positions.copy()
    atoms.positions[1] = atoms.positions[0]
    with pytest.raises(CalculationFailed, match="on top of each other"):
        atoms.get_forces()
    atoms.positions = free
    assert_as_new(atoms)


def test_two_calculators_do_not_know_of_each_other():
    models = ["tiny/plain.equi", "tiny/many_elements.equi"]
    atoms = [structure("NaCl") for _ in models]
    for one, model in zip(atoms, models):
        one.calc = EquiCalculator(built(model))
    for seed in range(3):
        for one in atoms:
            one.rattle(0.03, rng=np.random.default_rng(seed))
            assert_as_new(one)
    assert atoms[0].get_potential_energy() != atoms[1].get_potential_energy()
    atoms[0].calc.close()
    disturbed(atoms[1], 5)
    assert_as_new(atoms[1])
    assert_as_new(atoms[0])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda c: pickle.loads(pickle.dumps(c))],
                         ids=["deepcopy", "copy", "pickle"])  # fmt: skip
def test_copies_read_the_model_themselves(calculator, duplicate):
    atoms = structure("NaCl")
    atoms.calc = calculator
    energy = atoms.get_potential_energy()
    other = atoms.copy()
    other.calc = duplicate(calculator)
    assert other.get_potential_energy() == energy
    disturbed(other, 3)
    assert_as_new(other)
    assert atoms.get_potential_energy() == energy
    disturbed(atoms, 4)
    assert_as_new(atoms)


def test_atoms_with_the_calculator_can_be_copied_whole(calculator):
    atoms = structure("NaCl")
    atoms.calc = calculator
    atoms.get_forces()
    for other in (copy.deepcopy(atoms), pickle.loads(pickle.dumps(atoms))):
        other.rattle(0.01)
        assert_as_new(other)


def test_parameters_can_be_changed_and_are_checked(calculator):
    atoms = structure("NaCl")
    atoms.calc = calculator
    exact = atoms.get_potential_energy()
    calculator.set(precision="mixed", radial=1e-6)
    assert_as_new(atoms)
    assert 0 < abs(atoms.get_potential_energy() - exact) < 1e-5 * len(atoms)
    EquiCalculator(built("tiny/plain.equi"), threads=np.int64(1), radial=np.float32(1e-6), charge=np.int64(0))
    for wrong in (
        {"precision": "half"},
        {"radial": -1},
        {"radial": "table"},
        {"radial": True},
        {"threads": 0},
        {"threads": True},
        {"cutoff": 5},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            EquiCalculator(built("tiny/plain.equi"), **wrong)
        with pytest.raises(InputError, match=next(iter(wrong))):
            calculator.set(**wrong)
    assert calculator.parameters.precision == "mixed"


def test_the_model_is_searched_for_as_the_pair_style_does(monkeypatch, tmp_path):
    atoms = structure("NaCl")
    atoms.calc = EquiCalculator("plain.equi")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAMMPS_POTENTIALS", raising=False)
    with pytest.raises(CalculationFailed, match="plain.equi: .* it was searched for in .*not set"):
        atoms.get_forces()
    monkeypatch.setenv("LAMMPS_POTENTIALS", str(built("tiny/plain.equi").parent))
    found = atoms.get_forces()
    atoms.calc = EquiCalculator(built("tiny/plain.equi"))
    assert (atoms.get_forces() == found).all()


def test_another_folder_has_no_other_model(monkeypatch, tmp_path):
    for folder, model in (("one", "plain"), ("other", "parity")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.equi").symlink_to(built(f"tiny/{model}.equi"))
    monkeypatch.chdir(tmp_path / "one")
    calculator = EquiCalculator("model.equi")
    atoms = structure("NaCl")
    calculator.calculate(atoms)
    energy = calculator.results["energy"]
    monkeypatch.chdir(tmp_path / "other")
    calculator.calculate(atoms * (2, 1, 1))
    assert calculator.results["energy"] == pytest.approx(2 * energy, rel=1e-10)
    calculator.set(model="model.equi")
    with pytest.raises(CalculationFailed, match="does not know element"):
        calculator.calculate(atoms)


THREADS = """
import os, sys
from ase.build import bulk
from equi_tools.ase import EquiCalculator

os.environ["OMP_NUM_THREADS"] = "3"
atoms = bulk("NaCl", "rocksalt", 5.6)
for threads in (2, 2, 1, None):
    atoms.calc = EquiCalculator(sys.argv[1], threads=threads)
    try:
        print(threads, atoms.get_potential_energy() < 0)
    except Exception as error:
        print(threads, error)
print(os.environ["OMP_NUM_THREADS"])
"""


def test_the_first_evaluation_chooses_the_threads_of_the_process():
    done = subprocess.run(
        [sys.executable, "-c", THREADS, str(built("tiny/plain.equi"))], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second, refused, free, variable = done.stdout.splitlines()
    assert first == second == "2 True" and free == "None True"
    assert refused.startswith("1 1 threads are asked for and 2 in use")
    assert variable == "3"


CLIENT = """
import sys
from ase.calculators.socketio import SocketClient
from ase.io import read
from equi_tools.ase import EquiCalculator

atoms = read(sys.argv[1])
atoms.calc = EquiCalculator(sys.argv[2])
SocketClient(unixsocket=sys.argv[3]).run(atoms, use_stress=True)
"""


def test_a_driver_gets_the_values_of_lammps_through_the_socket_of_ipi(tmp_path):
    """The client of the page about the C interface, asked twice by a server that speaks i-PI's protocol."""
    file, atoms = built("tiny/plain.equi"), bulk("NaCl", "rocksalt", 5.6, cubic=True)
    write(tmp_path / "start.extxyz", atoms)
    (tmp_path / "client.py").write_text(CLIENT)
    name = f"equi-{os.getpid()}"
    with SocketIOCalculator(unixsocket=name, timeout=120) as server:
        client = subprocess.Popen([sys.executable, "client.py", "start.extxyz", str(file), name], cwd=tmp_path)
        atoms.calc = server
        for seed in (1, 2):
            atoms.rattle(0.1, seed=seed)
            wanted = lammps_runner.evaluate(atoms, file, plugin=lammps_runner.find_plugin())
            # The protocol is in atomic units.
            assert abs(atoms.get_potential_energy() - wanted.energy) < 1e-10
            assert np.abs(atoms.get_forces() - wanted.forces).max() < 1e-10
            assert np.abs(atoms.get_stress() - wanted.stress).max() < 1e-10
    assert client.wait(60) == 0
