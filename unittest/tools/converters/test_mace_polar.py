# SPDX-License-Identifier: MIT
"""PolarMACE (MACE-POLAR-1): files against mace itself, by a second reader and by the library.

Runs in the Python environment of MACE (tools/requirements-mace.txt), whose graph-longrange has the version 0.4.0.
"""

import numpy as np
import pytest
from ase import Atoms
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file
from equi_tools.ase import EquiCalculator
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.mace import checkpoint as mace_checkpoint
from equi_tools.frameworks.mace import oracle as mace_oracle
from test_models import mace as mace_models

mace_oracle.import_mace()
pytest.importorskip("mace.modules.extensions", reason="PolarMACE is part of later versions of mace")

ENERGY_TOLERANCE = 1e-9  # eV/atom
FORCE_TOLERANCE = 1e-7  # eV/A
CHARGE_TOLERANCE = 1e-10  # e
SUM_TOLERANCE = 1e-12  # e, of all charges
ROTATION_TOLERANCE = 1e-10
# Differences of mace's energy by a strain: energies of hundreds of eV are rounded.
STRESS_TOLERANCE = 1e-7  # eV/A^3
SYSTEM = {"charge": -1, "spin": 2}

CHARGES = dict(atomic_multipoles_max_l=0, atomic_multipoles_smearing_width=1.5, field_feature_max_l=0)
DIPOLES = dict(atomic_multipoles_max_l=1, atomic_multipoles_smearing_width=1.1, field_feature_max_l=1)
WIDE = dict(first=mace_models.NONLINEAR, blocks=mace_models.NONLINEAR, apply_cutoff=False)
# (options of the model, options of the class)
VARIANTS = {
    "charges": (dict(elements=[8, 11, 17], hidden="13x0e+13x1o"),
                CHARGES | dict(field_feature_widths=[1.5, 2.5], num_recursion_steps=2, add_local_electron_energy=True,
                               field_feature_norms=[0.7, 1.9])),
    "dipoles": (dict(elements=[8, 11, 17], hidden="5x0e+5x1o"),
                DIPOLES | dict(field_feature_widths=[1.2, 1.9, 2.5], add_local_electron_energy=True, kspace_cutoff_factor=1.2,
                               field_feature_norms=[0.7, 1.9, 1.1, 0.4, 2.0, 0.8])),
    "published_shape": (WIDE | dict(elements=[1, 8], hidden="33x0e", num_interactions=1),
                        CHARGES | dict(field_feature_widths=[1.0, 2.0], num_recursion_steps=2, add_local_electron_energy=True)),
    "three_layers": (WIDE | dict(elements=[11, 17], hidden="5x0e+5x1o+5x2e", num_interactions=3),
                     DIPOLES | dict(field_feature_widths=[1.0], num_recursion_steps=3, add_local_electron_energy=True)),
    "fields_of_charges": (dict(elements=[11, 17], hidden="5x0e+5x1o"),
                          CHARGES | dict(field_feature_max_l=1, field_feature_widths=[1.5, 2.0], num_recursion_steps=2)),
    "potentials_of_dipoles": (dict(elements=[11, 17], hidden="5x0e+5x1o"),
                              DIPOLES | dict(field_feature_max_l=0, field_feature_widths=[1.3], num_recursion_steps=1,
                                             add_local_electron_energy=True)),
    "self_kept": (dict(elements=[14], hidden="5x0e"),
                  CHARGES | dict(field_feature_widths=[1.5], field_si=True, include_electrostatic_self_interaction=True,
                                 add_local_electron_energy=True)),
    "float32": (dict(elements=[11, 17], hidden="5x0e+5x1o", dtype="float32"),
                DIPOLES | dict(field_feature_widths=[1.4, 2.1], add_local_electron_energy=True)),
    "heads": (dict(elements=[11, 17], hidden="5x0e+5x1o", heads=["pbe", "r2scan"], mlp=6),
              CHARGES | dict(field_feature_widths=[1.4], add_local_electron_energy=True)),
    "one_readout": (dict(elements=[11, 17], hidden="5x0e+5x1o", last_readout_only=True, num_interactions=3),
                    CHARGES | dict(field_feature_widths=[1.4], add_local_electron_energy=True)),
    "repulsion": (dict(elements=[11, 17], hidden="5x0e+5x1o", zbl=True),
                  CHARGES | dict(field_feature_widths=[1.4])),
}  # fmt: skip


def make(folder, name):
    options, polar = VARIANTS[name]
    return mace_models.make_polar_model(folder / f"{name}.model", polar=polar, **options)


def head_of(name):
    heads = VARIANTS[name][0].get("heads", ["Default"])
    return heads[-1] if len(heads) > 1 else None


def structures(elements, seed=5):
    """Triclinic cells of 1 to 7 atoms, some of them out of the cell."""
    rng = np.random.default_rng(seed)
    for count, length in ((3, 5.0), (7, 6.5), (1, 4.0)):
        cell = length * np.eye(3) + rng.normal(0, 0.4, (3, 3))
        places = rng.permutation(8)[:count]
        grid = np.array([[n // 4, n // 2 % 2, n % 2] for n in places]) / 2 + rng.normal(0, 0.06, (count, 3))
        yield Atoms([elements[n % len(elements)] for n in range(count)], scaled_positions=grid + 0.7, cell=cell, pbc=True)


QUICK = ("charges", "dipoles", "published_shape")
CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]


@pytest.mark.parametrize("name", CASES)
def test_energies_forces_and_stresses_are_those_of_mace(name, tmp_path):
    source, path = make(tmp_path, name), tmp_path / "polar.equi"
    convert(source, path, quiet=True, head=head_of(name), **SYSTEM)
    calculator = mace_oracle.float64_calculator(mace_checkpoint.load(source, **SYSTEM), head_of(name))
    evaluator, native = EquiEvaluator(path), EquiCalculator(path, precision="double", radial="exact")
    for atoms in structures(calculator.elements):
        atoms.calc = calculator
        energy, forces, stress = atoms.get_potential_energy(), atoms.get_forces(), atoms.get_stress()
        charges, size = calculator.observed["charges"], max(1.0, np.abs(forces).max())
        assert abs(charges.sum() - SYSTEM["charge"]) < SUM_TOLERANCE * max(1.0, np.abs(charges).max()) * len(atoms)
        found = evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, atoms.cell.array, atoms.pbc)
        atoms.calc = native
        for e, f, s in (found[:3], (atoms.get_potential_energy(), atoms.get_forces(), atoms.get_stress())):
            assert abs(e - energy) < ENERGY_TOLERANCE * len(atoms)
            assert np.abs(f - forces).max() < FORCE_TOLERANCE * size
            assert np.abs(s - stress).max() < STRESS_TOLERANCE * max(1.0, np.abs(stress).max())
        mine = atoms.get_charges()
        assert np.abs(mine - charges).max() < CHARGE_TOLERANCE * max(1.0, np.abs(charges).max())
        assert abs(mine.sum() - SYSTEM["charge"]) < SUM_TOLERANCE * max(1.0, np.abs(charges).max()) * len(atoms)


@pytest.mark.parametrize("name", ["charges", "dipoles"])
def test_one_file_serves_all_charges_and_spins(name, tmp_path):
    source, path = make(tmp_path, name), tmp_path / "all.equi"
    convert(source, path, quiet=True)
    energies = []
    for charge, spin in ((0, 1), (-1, 2), (2, 3)):
        calculator = mace_oracle.float64_calculator(mace_checkpoint.load(source, charge=charge, spin=spin))
        atoms = next(structures(calculator.elements))
        atoms.calc = calculator
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        atoms.calc = EquiCalculator(path, precision="double", radial="exact", charge=charge, spin=spin)
        assert abs(atoms.get_potential_energy() - energy) < ENERGY_TOLERANCE * len(atoms)
        assert np.abs(atoms.get_forces() - forces).max() < FORCE_TOLERANCE * max(1.0, np.abs(forces).max())
        energies.append(energy)
    assert np.ptp(energies) > 1e-3


def test_a_turn_turns_forces(tmp_path):
    path = tmp_path / "turned.equi"
    convert(make(tmp_path, "dipoles"), path, quiet=True, **SYSTEM)
    calculator = EquiCalculator(path, precision="double", radial="exact")
    atoms = next(structures(["O", "Na", "Cl"]))
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1.0]])
    turn = turn @ turn[[1, 2, 0]][:, [1, 2, 0]]
    other = Atoms(atoms.get_chemical_symbols(), positions=atoms.positions @ turn.T, cell=atoms.cell.array @ turn.T, pbc=True)
    atoms.calc = other.calc = calculator
    energy, forces = atoms.get_potential_energy(), atoms.get_forces()
    assert abs(other.get_potential_energy() - energy) < ROTATION_TOLERANCE * len(atoms)
    assert np.abs(other.get_forces() - forces @ turn.T).max() < ROTATION_TOLERANCE * max(1.0, np.abs(forces).max())


def set_attribute(name, value):
    return lambda model: setattr(model, name, value)


@pytest.mark.parametrize(
    "change, message",
    [
        (set_attribute("return_electrostatic_potentials", True), "return_electrostatic_potentials"),
        (set_attribute("quadrupole_feature_corrections", True), "quadrupole_feature_corrections"),
        (set_attribute("field_feature_max_l", 2), "field_feature_max_l: 2"),
        (lambda model: setattr(model.lr_source_maps[0], "zero_charges", True), "zero_charges"),
    ],
)  # fmt: skip
def test_refuses_by_name(change, message, tmp_path):
    options, polar = VARIANTS["charges"]
    source = mace_models.make_polar_model(tmp_path / "refused.model", polar=polar, change=change, **options)
    with pytest.raises(EquiError, match=message):
        convert(source, tmp_path / "refused.equi", quiet=True)


def test_refuses_one_periodic_direction(tmp_path):
    source, path = make(tmp_path, "charges"), tmp_path / "wire.equi"
    convert(source, path, quiet=True, **SYSTEM)
    assert sum(layer["type"] == "potential" for layer in equi_file.read(path)[0]["layers"]) == 3
    wire = Atoms("ONa", positions=[[0, 0, 0], [2.0, 0, 0]], cell=[4, 9, 9], pbc=[True, False, False])
    wire.calc = EquiCalculator(path, precision="double", radial="exact")
    with pytest.raises(Exception, match="three directions, in the first two, or in none"):
        wire.get_potential_energy()
