# SPDX-License-Identifier: MIT
"""PolarMACE (MACE-POLAR-1) in open systems, slabs and fields: files against mace itself, by a second reader and by the
library; the exact interaction of multipoles against integrals, turns and differences.

Runs in the Python environment of MACE (tools/requirements-mace.txt), whose graph-longrange has the version 0.4.0.
"""

import numpy as np
import pytest
from ase import Atoms
from ase.calculators.calculator import CalculationFailed, InputError
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file
from equi_tools.ase import EquiCalculator
from equi_tools.convert import convert
from equi_tools.frameworks.mace import checkpoint as mace_checkpoint
from equi_tools.frameworks.mace import oracle as mace_oracle
from test_mace_polar import (
    CHARGE_TOLERANCE,
    ENERGY_TOLERANCE,
    FORCE_TOLERANCE,
    QUICK,
    ROTATION_TOLERANCE,
    SUM_TOLERANCE,
    SYSTEM,
    VARIANTS,
    head_of,
    make,
)
from test_models import mace as mace_models

FIELD = (0.3, -0.2, 0.5)  # V/A
NONE = (0.0, 0.0, 0.0)
# Differences of energies of some eV, divided by steps of 1e-4 A: rounding, and the square of the step.
DIFFERENCE_TOLERANCE = 1e-7  # eV/A


def native(path, field=NONE, **options):
    return EquiCalculator(path, precision="double", radial="exact", **(options | ({"field": field} if any(field) else {})))


def clusters(elements, counts=(5, 8, 1, 2), seed=3):
    """Atoms on a grid with random displacements, anywhere in space."""
    rng = np.random.default_rng(seed)
    for count in counts:
        grid = np.array([[n // 4, n // 2 % 2, n % 2] for n in rng.permutation(8)[:count]])
        positions = 2.1 * grid + rng.normal(0, 0.2, (count, 3)) + rng.normal(0, 3, 3)
        yield Atoms([elements[n % len(elements)] for n in range(count)], positions=positions)


def slabs(elements, counts=(5, 8, 1), seed=4):
    for atoms in clusters(elements, counts, seed):
        atoms.cell, atoms.pbc = [[5.0, 0.3, 0], [-0.4, 5.5, 0], [0, 0, 14.0]], [True, True, False]
        yield atoms


def cells(elements, counts=(5, 1), seed=5):
    for atoms in clusters(elements, counts, seed):
        atoms.cell, atoms.pbc = [[5.0, 0.3, 0.2], [-0.4, 5.5, 0.1], [0.3, -0.2, 6.0]], True
        yield atoms


def answers(calculator, atoms):
    atoms = atoms.copy()
    atoms.calc = calculator
    return atoms.get_potential_energy(), atoms.get_forces()


def assert_same(found, expected, count):
    assert abs(found[0] - expected[0]) < ENERGY_TOLERANCE * count
    assert np.abs(found[1] - expected[1]).max() < FORCE_TOLERANCE * max(1.0, np.abs(expected[1]).max())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """name -> (source, file); files are converted for SYSTEM."""
    folder, made = tmp_path_factory.mktemp("open"), {}

    def get(name):
        if name not in made:
            source, path = make(folder, name), folder / f"{name}.equi"
            convert(source, path, quiet=True, head=head_of(name), **SYSTEM)
            made[name] = source, path
        return made[name]

    return get


CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]


@pytest.mark.parametrize("field", [NONE, FIELD])
@pytest.mark.parametrize("structures", [clusters, slabs, cells])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_mace(name, structures, field, model):
    source, path = model(name)
    oracle = mace_oracle.float64_calculator(mace_checkpoint.load(source, **SYSTEM), head_of(name))
    oracle.field = np.array(field)
    reader, calculator = EquiEvaluator(path, field=field), native(path, field)
    for atoms in structures(oracle.elements):
        expected = answers(oracle, atoms)
        found = reader.evaluate(atoms.get_chemical_symbols(), atoms.positions, atoms.cell.array, atoms.pbc)
        assert_same(found, expected, len(atoms))
        assert_same(answers(calculator, atoms), expected, len(atoms))
        atoms.calc, observed = calculator, oracle.observed
        size = max(1.0, np.abs(observed["charges"]).max())
        for mine, theirs in (
            (atoms.get_charges(), observed["charges"]),
            (atoms.get_magnetic_moments(), observed["spins"]),
            (atoms.get_dipole_moment(), np.reshape(observed["dipole"], 3)),
        ):
            scale = size * max(1.0, np.abs(atoms.positions).max())
            assert np.abs(mine - theirs).max() < CHARGE_TOLERANCE * scale
        assert abs(atoms.get_charges().sum() - SYSTEM["charge"]) < SUM_TOLERANCE * size * len(atoms)
        assert abs(atoms.get_magnetic_moments().sum() - (SYSTEM["spin"] - 1)) < SUM_TOLERANCE * size * len(atoms)
        if structures is slabs:  # mace's stress lacks parts; the second reader differentiates by the strain
            assert np.abs(atoms.get_stress() - found[2]).max() < 1e-10 * max(1.0, np.abs(found[2]).max())


@pytest.mark.parametrize("name", ["charges", "dipoles"])
def test_molecules_have_the_energies_of_mace_s_own_calculator(name, model):
    source, path = model(name)
    calculator = mace_oracle.framework_calculator(mace_checkpoint.load(source, **SYSTEM))
    for atoms in clusters([8, 11, 17]):
        assert_same(answers(native(path), atoms), answers(calculator, atoms), len(atoms))


def turn_of(angle, axis):
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


@pytest.mark.parametrize("name", ["charges", "dipoles"])
def test_exact_multipoles_do_not_depend_on_the_orientation(name, model):
    _, path = model(name)
    atoms, turn = next(clusters(["O", "Na", "Cl"], [7])), turn_of(0.9, [1, 2, -0.5])
    turned = atoms.copy()
    turned.positions = atoms.positions @ turn.T
    differences = {}
    for kind in ("framework", "exact"):
        (e, f), (e_turned, f_turned) = (answers(native(path, open=kind), a) for a in (atoms, turned))
        differences[kind] = abs(e_turned - e) / len(atoms), np.abs(f_turned - f @ turn.T).max() / max(1.0, np.abs(f).max())
    assert max(differences["exact"]) < ROTATION_TOLERANCE
    if name == "charges":
        assert max(differences["framework"]) < ROTATION_TOLERANCE
    else:
        assert differences["framework"][0] > 1e-6


@pytest.mark.parametrize("field", [NONE, FIELD])
@pytest.mark.parametrize("name", ["charges", "dipoles", pytest.param("self_kept", marks=pytest.mark.slow)])
def test_exact_multipoles_are_integrals_over_gaussian_functions(name, field, model):
    _, path = model(name)
    reader, calculator = EquiEvaluator(path, "exact", field), native(path, field, open="exact")
    for atoms in clusters([8, 11, 17] if name != "self_kept" else [14]):
        atoms = Atoms(atoms.numbers, positions=atoms.positions)
        assert_same(answers(calculator, atoms), reader.evaluate(atoms.get_chemical_symbols(), atoms.positions)[:2], len(atoms))


def test_short_displacements_of_charges_give_exact_multipoles(model, tmp_path):
    """With displacements h the difference is proportional to h."""
    _, path = model("dipoles")
    atoms = next(clusters(["O", "Na", "Cl"], [6]))
    exact, differences = answers(native(path, open="exact"), atoms)[0], []
    for step in (1.0, 0.1):
        document, tensors = equi_file.read(path)[:2]
        for layer in document["layers"]:
            if layer["type"] == "potential":
                layer["open"] |= {"offset": 0.02 * step, "softening": 0.0}
        document["self_check"] = []
        equi_file.write(tmp_path / "short.equi", document, dict(tensors))
        differences.append(answers(native(tmp_path / "short.equi"), atoms)[0] - exact)
    assert differences[0] / differences[1] == pytest.approx(10.0, rel=0.05)


@pytest.mark.parametrize(
    "structures, options",
    [(clusters, {}), (clusters, {"open": "exact"}), (clusters, {"open": "exact", "field": FIELD}), (slabs, {}),
     (slabs, {"field": FIELD}), (cells, {"field": FIELD})],
)  # fmt: skip
def test_forces_are_derivatives_of_the_energy(structures, options, model):
    _, path = model("dipoles")
    calculator = native(path, **options)
    atoms = next(structures(["O", "Na", "Cl"], [5]))
    forces = answers(calculator, atoms)[1]
    rng = np.random.default_rng(1)
    for _ in range(3):
        direction = rng.normal(0, 1, forces.shape)

        def energy(step):
            moved = atoms.copy()
            moved.positions = atoms.positions + step * direction
            return answers(calculator, moved)[0]

        h = 2e-3
        slope = (8 * (energy(h / 2) - energy(-h / 2)) - (energy(h) - energy(-h))) / (6 * h)
        assert abs(slope + (forces * direction).sum()) < DIFFERENCE_TOLERANCE * max(1.0, np.abs(forces).max())


@pytest.mark.parametrize(
    "structures, options",
    [(clusters, {}), (clusters, {"open": "exact"}), (clusters, {"field": FIELD}), (slabs, {"field": FIELD})],
)  # fmt: skip
def test_second_derivatives_are_those_of_autograd(structures, options, model):
    _, path = model("dipoles")
    atoms = next(structures(["O", "Na", "Cl"], [5]))
    hessian = native(path, **options).hessian(atoms)
    assert np.abs(hessian - hessian.T).max() < 1e-9 * np.abs(hessian).max()
    reader = EquiEvaluator(path, options.get("open", "framework"), options.get("field", NONE))
    direction = np.random.default_rng(2).normal(0, 1, (len(atoms), 3))
    expected = reader.hessian_vector(atoms.get_chemical_symbols(), atoms.positions, direction, atoms.cell.array, atoms.pbc)
    found = (hessian @ direction.ravel()).reshape(-1, 3)
    assert np.abs(found - expected).max() < 1e-9 * np.abs(expected).max()


def silence(model):
    """Updates of charges become constants."""
    for block in model.field_dependent_charges_maps:
        block.readout.linear_2.weight.data.zero_()


@pytest.mark.parametrize("name", ["charges", "dipoles"])
def test_a_slab_may_move(name, model):
    _, path = model(name)
    atoms = next(slabs(["O", "Na", "Cl"]))
    energy, forces = answers(native(path), atoms)
    moved = atoms.copy()
    moved.positions += [0.7, -0.4, 3.1]
    assert_same(answers(native(path), moved), (energy, forces), 1e-2 * len(atoms))
    assert np.abs(forces.sum(axis=0)).max() < ROTATION_TOLERANCE * max(1.0, np.abs(forces).max())


def test_a_slab_has_no_interaction_with_its_images(tmp_path):
    """The Coulomb energy of a slab in a high box does not depend on the height; that of a periodic cell does. Potentials
    relative to the mean of the cell do, so no update reads them."""
    options, polar = VARIANTS["dipoles"]
    polar = polar | {"kspace_cutoff_factor": 2.5, "add_local_electron_energy": False}
    source = mace_models.make_polar_model(tmp_path / "wide.model", polar=polar, change=silence, **options)
    convert(source, tmp_path / "wide.equi", quiet=True)
    atoms = next(slabs(["O", "Na", "Cl"], [6]))
    energies = {}
    for periodic in (False, True):
        for height in (30.0, 60.0):
            atoms.cell[2, 2], atoms.pbc[2] = height, periodic
            energies[periodic, height] = answers(native(tmp_path / "wide.equi"), atoms)[0]
    jump = {periodic: abs(energies[periodic, 60.0] - energies[periodic, 30.0]) for periodic in (False, True)}
    assert jump[True] > 1e-3
    assert jump[False] < 1e-6 * jump[True]


def test_the_energy_of_charges_that_a_field_does_not_change(tmp_path):
    """With potentials that no update reads, energies change by minus field times dipole, and charges feel a force."""
    options, polar = VARIANTS["dipoles"]
    source = mace_models.make_polar_model(
        tmp_path / "silent.model", polar=polar | {"add_local_electron_energy": False}, change=silence, **options
    )
    convert(source, tmp_path / "silent.equi", quiet=True, charge=1, spin=2)
    for atoms in (next(clusters([8, 11, 17], [6])), next(cells([8, 11, 17], [5]))):
        plain, in_field = native(tmp_path / "silent.equi"), native(tmp_path / "silent.equi", FIELD)
        (e, f), (e_field, f_field) = answers(plain, atoms), answers(in_field, atoms)
        atoms.calc = plain
        assert e_field - e == pytest.approx(-np.dot(FIELD, atoms.get_dipole_moment()), rel=1e-9)
        assert (f_field - f).sum(axis=0) == pytest.approx(np.array(FIELD), rel=1e-8)


def test_born_charges_of_a_molecule_are_derivatives_of_its_dipole(model):
    _, path = model("dipoles")
    atoms, calculator = next(clusters(["O", "Na", "Cl"], [5])), native(path)
    born, of_charge = calculator.born_charges(atoms)
    assert np.abs(of_charge).max() < 1e-10
    assert np.abs(born.sum(axis=0) - SYSTEM["charge"] * np.eye(3)).max() < 1e-9
    h = 1e-3
    for i, b in ((0, 0), (3, 2)):

        def dipole(step):
            moved = atoms.copy()
            moved.positions[i, b] += step
            moved.calc = calculator
            return moved.get_dipole_moment()

        slope = (8 * (dipole(h / 2) - dipole(-h / 2)) - (dipole(h) - dipole(-h))) / (6 * h)
        assert np.abs(slope - born[i, :, b]).max() < 1e-8


def test_born_charges_of_periodic_systems_are_refused(model):
    _, path = model("charges")
    with pytest.raises(CalculationFailed, match="need a system without periodic directions"):
        native(path).born_charges(next(cells(["O", "Na", "Cl"])))


def test_a_pole_of_the_model_is_an_error(tmp_path):
    """A constant is subtracted from the shares of two atoms, and their sum is 0."""
    options, polar = VARIANTS["charges"]
    atoms, seen = Atoms("ONa", positions=[[0, 0, 0], [2.1, 0.3, 0.2]]), []

    def calm_or_not(shift):
        def change(model):
            model.fukui_source_map.linear_2.bias.data -= shift

        source = mace_models.make_polar_model(tmp_path / "pole.model", polar=polar, change=change, **options)
        convert(source, tmp_path / "pole.equi", quiet=True, charge=0, spin=1)
        return source

    oracle = mace_oracle.float64_calculator(mace_checkpoint.load(calm_or_not(0.0), charge=0, spin=1))
    oracle.model.fukui_source_map.register_forward_hook(lambda module, given, result: seen.append(result.detach().mean(dim=0)))
    assert_same(answers(native(tmp_path / "pole.equi"), atoms), answers(oracle, atoms), 2)
    calm_or_not(seen[0])
    with pytest.raises(CalculationFailed, match="the model has a pole near this structure: the shares"):
        answers(native(tmp_path / "pole.equi"), atoms)


@pytest.mark.parametrize("wrong", ["both", 1])
def test_the_ase_calculator_refuses_unknown_kinds(wrong, model):
    with pytest.raises(InputError, match="open must be one of"):
        EquiCalculator(model("charges")[1], open=wrong)


def test_files_without_data_for_open_systems_are_refused_by_name(model, tmp_path):
    document, tensors = equi_file.read(model("charges")[1])[:2]
    tensors = dict(tensors)
    for layer in document["layers"]:
        if layer["type"] == "potential":
            del tensors[layer.pop("open")["added"]]
    document["self_check"] = []
    equi_file.write(tmp_path / "old.equi", document, tensors)
    with pytest.raises(CalculationFailed, match="periodic in three directions"):
        answers(native(tmp_path / "old.equi"), next(clusters(["O", "Na", "Cl"])))

