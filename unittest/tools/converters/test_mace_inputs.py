# SPDX-License-Identifier: MIT
"""MACE models that read numbers of the whole system (`embedding_specs`): files that are fixed at conversion and files
for all systems against mace itself, in LAMMPS and by a second reader.

Runs in the Python environment of MACE (tools/requirements-mace.txt).
"""

from functools import lru_cache

import numpy as np
import pytest
import tensornet_laws as laws
from ase import Atoms
from ase.calculators.calculator import CalculationFailed
from equi_tools import compare, equi_file, info, lammps_runner
from equi_tools.ase import EquiCalculator
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.common.oracle import default_dtype
from equi_tools.frameworks.mace import checkpoint as mace_checkpoint
from equi_tools.frameworks.mace import oracle as mace_oracle
from test_mace import differences
from test_models import mace as mace_models

mace_oracle.import_mace()
import torch  # noqa: E402

# Two evaluations in float64 through at most three layers of sums over some dozen channels, and sums of the inputs.
ENERGY, FORCE, STRESS = 1e-10, 1e-9, 1e-9
FRAMEWORK = 1e-11  # mace's own calculator on its own neighbor list
NOTICEABLE = 1e-3  # eV

CHARGE = {"total_charge": dict(type="categorical", per="graph", num_classes=21, offset=10, emb_dim=5)}
SPIN = {"total_spin": dict(type="categorical", per="graph", num_classes=7, emb_dim=3)}
TEMPERATURE = {"elec_temp": dict(type="continuous", per="graph", in_dim=1, emb_dim=4)}
SMOOTH = {"total_charge": dict(type="continuous", per="graph", in_dim=1, emb_dim=7, use_bias=False)}
TWO_HEADS = dict(heads=["pbe", "r2scan"], mlp=4)

# (options of the model, systems as options of `equi convert`); the first system is the usual one.
MODELS = {
    "one_step": (
        dict(embedding_specs=CHARGE | SPIN, use_embedding_readout=True, num_interactions=1, hidden="5x0e"),
        ({}, {"charge": -1, "spin": 2}, {"charge": 10, "spin": 6}, {"charge": -10, "spin": 0}),
    ),
    "order": (
        dict(embedding_specs=SPIN | TEMPERATURE | CHARGE, hidden="13x0e+13x1o", use_embedding_readout=True, zbl=True, **TWO_HEADS),
        ({}, {"spin": 3, "system": {"elec_temp": 2.5}}, {"charge": 1}),
    ),
    "continuous": (
        dict(embedding_specs=SMOOTH | TEMPERATURE, num_interactions=3, hidden="5x0e+5x1o", **TWO_HEADS),
        ({}, {"charge": -3}, {"system": {"total_charge": 0.25, "elec_temp": -7.125}}),
    ),
    "mace_class": (
        dict(embedding_specs=CHARGE, use_embedding_readout=True, scale_shift=False, hidden="33x0e+33x1o"),
        ({}, {"charge": 4}),
    ),
    "float32": (
        dict(embedding_specs=CHARGE | SPIN | TEMPERATURE, use_embedding_readout=True, dtype="float32", first=mace_models.PLAIN),
        ({}, {"charge": 2, "spin": 1, "system": {"elec_temp": 0.5}}),
    ),
}  # fmt: skip
STRUCTURES = ("rocksalt", "sheared", "cluster", "isolated", "one_atom_cell")
SLOW = ("continuous",)  # of many layers, whose compilation by torch takes long


def quick_and_slow(names):
    return [pytest.param(*words, marks=[pytest.mark.slow] if words[0] in SLOW else []) for words in names]


CASES = quick_and_slow((name, number) for name, (_, systems) in MODELS.items() for number in range(len(systems)))
NAMES = quick_and_slow((name,) for name in MODELS)


def keywords_of(system):
    words = [word for name in ("charge", "spin") if name in system for word in (name, str(system[name]))]
    return tuple(words + [word for name, value in system.get("system", {}).items() for word in ("system", name, str(value))])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("inputs")


@pytest.fixture(scope="module")
def model(folder):
    """(path of the .model file, its last head or None)."""

    @lru_cache(maxsize=None)
    def make(name):
        options = MODELS[name][0]
        path = mace_models.make_model(folder / f"{name}.model", elements=[8, 11, 17], neighbors=3.0, **options)
        return path, options["heads"][-1] if "heads" in options else None

    return make


@pytest.fixture(scope="module")
def file_of(folder, model):
    """The converted file of a model, for all systems or fixed for one of its systems."""

    @lru_cache(maxsize=None)
    def make(name, number=None):
        path, head = model(name)
        target = folder / f"{name}_{number}.equi"
        # The usual system is stated, too: a file is fixed only if the user asks for it.
        system = {} if number is None else {"charge": 0, **MODELS[name][1][number]}
        if "total_charge" in system.get("system", {}):
            del system["charge"]
        convert(path, target, head=head, quiet=True, license="MIT", citation="none: random numbers", **system)
        return target

    return make


@pytest.fixture(scope="module")
def oracle(model):
    @lru_cache(maxsize=None)
    def make(name, number):
        path, head = model(name)
        return mace_oracle.float64_calculator(mace_checkpoint.load(path, **MODELS[name][1][number]), head)

    return make


def named(*names):
    return [(name, atoms) for name, atoms in laws.structures(["O", "Na", "Cl"], 4.2) if name in (names or STRUCTURES)]


@pytest.mark.parametrize("name, number", CASES)
def test_both_forms_of_a_file_are_mace_itself(name, number, file_of, oracle):
    calculator, system = oracle(name, number), MODELS[name][1][number]
    found = laws.differences(file_of(name), calculator, named(), radial="exact", keywords=keywords_of(system))
    laws.assert_within_bars(found)
    energy, force, stress = differences(file_of(name, number), calculator, [atoms for _, atoms in named()])
    assert energy < ENERGY and force < FORCE and stress < STRESS


@pytest.mark.parametrize("name, number", CASES)
def test_a_fixed_file_is_the_file_of_all_systems_to_the_bit(name, number, file_of):
    document, _ = equi_file.read(file_of(name, number))
    assert "mixture" not in document and "mixture" in equi_file.read(file_of(name))[0]
    keywords = keywords_of(MODELS[name][1][number])
    for _, atoms in named("sheared", "cluster"):
        fixed = laws.native(file_of(name, number))(atoms)
        kept = laws.native(file_of(name), keywords=keywords)(atoms)
        assert fixed.energy == kept.energy and np.array_equal(fixed.energies, kept.energies)
        assert np.array_equal(fixed.forces, kept.forces) and np.array_equal(fixed.stress, kept.stress)


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_is_mace_as_its_users_run_it(name, model):
    path, head = model(name)
    for system in MODELS[name][1]:
        loaded = mace_checkpoint.load(path, **system)
        exact, users = mace_oracle.float64_calculator(loaded, head), mace_oracle.framework_calculator(loaded, head)
        tolerance = 2e-5 if name == "float32" else FRAMEWORK
        for _, atoms in named("rocksalt", "cluster"):
            results = []
            # The product of charges in mace's pair repulsion has torch's default dtype, not the model's: in float32 its
            # rounding changes forces by some 1e-9 eV/Angstrom.
            with default_dtype(torch.float32 if name == "float32" else torch.float64):
                for calculator in (exact, users):
                    atoms = atoms.copy()
                    atoms.calc = calculator
                    results.append((atoms.get_potential_energy(), atoms.get_forces()))
            (e, f), (energy, forces) = results
            assert abs(e - energy) < tolerance * max(1.0, abs(e)) * len(atoms)
            assert np.abs(f - forces).max() < tolerance * max(1.0, np.abs(f).max())


@pytest.mark.parametrize("name", NAMES)
def test_systems_differ_and_atoms_sum_to_the_energy(name, file_of):
    atoms = dict(named("cluster"))["cluster"]
    results = [laws.native(file_of(name), keywords=keywords_of(system))(atoms) for system in MODELS[name][1]]
    for result in results:
        assert abs(result.energies.sum() - result.energy) < 1e-11 * max(1.0, abs(result.energy))
    energies = [result.energy for result in results]
    assert np.diff(np.sort(energies)).min() > NOTICEABLE
    if not MODELS[name][0].get("use_embedding_readout"):
        return
    # Atoms alone have energies that only the readout of the embedding and the embedding itself give.
    alone = [laws.native(file_of(name), keywords=keywords_of(s))(dict(named("isolated"))["isolated"]) for s in MODELS[name][1]]
    assert np.diff(np.sort([result.energy for result in alone])).min() > NOTICEABLE


def test_reference_mixed_precision_and_ranks(file_of, oracle):
    path, system = file_of("order"), MODELS["order"][1][1]
    atoms, keywords = dict(named("sheared"))["sheared"], keywords_of(system)
    exact = laws.native(path, radial="exact", keywords=keywords)(atoms)
    for changes in ({"ranks": 2}, {"ranks": 4}, {"keywords": (*keywords, "reference", "yes")}):
        result = laws.native(path, radial="exact", **{"keywords": keywords} | changes)(atoms)
        assert abs(result.energy - exact.energy) < 1e-11 and np.abs(result.forces - exact.forces).max() < 1e-10
    laws.assert_mixed(laws.differences(path, oracle("order", 1), named(), "mixed", keywords=keywords))


def test_a_committee_is_the_mean_of_its_members(file_of):
    atoms, keywords = dict(named("cluster"))["cluster"], ["charge", "-1"]
    paths = [file_of("one_step"), file_of("mace_class")]
    each = [laws.native(path, radial="exact", keywords=keywords)(atoms) for path in paths]
    symbols = sorted(set(atoms.get_chemical_symbols()))
    style = f"pair_style equi precision double radial exact {' '.join(keywords)}"
    pair = [style, f"pair_coeff * * {paths[0]} {paths[1]} {' '.join(symbols)}"]
    plugin = lammps_runner.find_plugin(laws.native("").build_dir)
    mean = lammps_runner.evaluate(atoms, pair_commands=pair, plugin=plugin)
    assert abs(mean.energy - (each[0].energy + each[1].energy) / 2) < 1e-11
    assert np.abs(mean.forces - (each[0].forces + each[1].forces) / 2).max() < 1e-10
    # A member that does not read a number of the system refuses it.
    pair[0] += " spin 2"
    with pytest.raises(EquiError, match="mace_class.* no spin"):
        lammps_runner.evaluate(atoms, pair_commands=pair, plugin=plugin)


def box_of(atoms, path, keywords=""):
    lines = ["units metal", "atom_style atomic", "atom_modify map array", "boundary f f f", "region box block -9 9 -9 9 -9 9"]
    lines += ["create_box 2 box", "mass 1 15.999", "mass 2 22.98977"]
    for symbol, position in zip(atoms.get_chemical_symbols(), atoms.positions):
        lines.append(f"create_atoms {1 if symbol == 'O' else 2} single " + " ".join(f"{x:.12f}" for x in position))
    return [*lines, f"pair_style equi precision double {keywords}", f"pair_coeff * * {path} O Na"]


def test_a_change_between_runs_is_noticed(file_of):
    path = file_of("one_step")
    atoms = Atoms("ONaNa", positions=[[0, 0, 0], [1.9, 0.1, 0], [0.2, 2.0, 0.1]])
    expected = [laws.native(path, keywords=words)(atoms).energy for words in ((), ("charge", "-1", "spin", "2"))]
    session = lammps_runner.LammpsSession()
    try:
        for command in [*box_of(atoms, path), "run 0 post no"]:
            session.command(command)
        found = [session._lmp.get_thermo("pe")]
        for keywords in ("charge -1 spin 2", "", "charge -1 spin 2"):
            session.command(f"pair_style equi precision double {keywords}")
            session.command(f"pair_coeff * * {path} O Na")
            session.command("run 0 post no")
            found.append(session._lmp.get_thermo("pe"))
    finally:
        session.close()
    assert np.allclose(found, [expected[0], expected[1], expected[0], expected[1]], rtol=0, atol=1e-11)


def test_the_parity_of_electrons_and_spin_is_checked(file_of, tmp_path):
    atoms = Atoms("ONa", positions=[[0, 0, 0], [1.9, 0.1, 0]])  # 19 electrons
    for keywords, is_odd in (("", True), ("spin 2", False), ("charge 1", False), ("charge -2 spin 2", False), ("charge 1 spin 4", True)):
        session, log = lammps_runner.LammpsSession(), tmp_path / "log"
        try:
            for command in [f"log {log}", *box_of(atoms, file_of("one_step"), keywords), "run 0 post no", "log none"]:
                session.command(command)
        finally:
            session.close()
        text = log.read_text()
        assert ("cannot have the spin multiplicity" in text) == is_odd, keywords
        assert "a file for all systems, used for charge" in text


REFUSED_KEYWORDS = {
    ("charge", "11"): "total_charge 11: the model knows those from -10 to 10",
    ("spin", "7"): "total_spin 7: the model knows those from 0 to 6",
    ("system", "total_charge", "0.5"): "the model knows only whole numbers",
    ("system", "elec_temp", "1"): "no input elec_temp: the model has total_charge, total_spin",
    ("charge", "1", "system", "total_charge", "1"): "two values of total_charge",
    ("system", "total_charge", "x"): "must be a number",
    ("system", "total_charge"): "needs a value",
    ("system", "total_spin", "1", "system", "total_spin", "2"): "twice",
    ("system", "total_charge", "1e9"): "at most 1000000",
}  # fmt: skip


@pytest.mark.parametrize("keywords", REFUSED_KEYWORDS)
def test_wrong_keywords_are_refused(keywords, file_of):
    atoms = dict(named("cluster"))["cluster"]
    with pytest.raises(EquiError, match=REFUSED_KEYWORDS[keywords]):
        laws.native(file_of("one_step"), keywords=keywords)(atoms)


def test_a_fixed_file_has_no_keywords(file_of):
    with pytest.raises(EquiError, match="fixed when it is converted"):
        laws.native(file_of("one_step", 1), keywords=("charge", "0"))(dict(named("cluster"))["cluster"])


REFUSED_OPTIONS = {
    "range": ({"charge": 11}, "total_charge 11: the model knows those from -10 to 10"),
    "below": ({"charge": -11}, "total_charge -11"),
    "fraction": ({"charge": 0.5}, "only whole numbers"),
    "name": ({"system": {"pressure": 1.0}}, "--system pressure: the model has no such input; it has total_charge, total_spin"),
    "twice": ({"charge": 1, "system": {"total_charge": 1.0}}, "--system total_charge: it is the charge"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_OPTIONS)
def test_wrong_options_are_refused(name, model, tmp_path):
    options, reason = REFUSED_OPTIONS[name]
    with pytest.raises(EquiError, match=reason):
        convert(model("one_step")[0], tmp_path / "file.equi", quiet=True, **options)
    assert not (tmp_path / "file.equi").exists()


@pytest.mark.parametrize("options", [{"charge": 1}, {"spin": 1}, {"system": {"elec_temp": 1.0}}])
def test_models_without_inputs_accept_none(options, tmp_path):
    path = mace_models.make_model(tmp_path / "plain.model", hidden="5x0e", num_interactions=1)
    with pytest.raises(EquiError, match="no number of the whole system|it has none"):
        convert(path, tmp_path / "file.equi", quiet=True, **options)


def changed_specs(**changes):
    return {"total_charge": CHARGE["total_charge"] | changes}


def with_specs(specs):
    def change(module):
        module.embedding_specs = specs
        module.joint_embedding.specs = specs

    return change


def other_class(module):
    module.joint_embedding.__class__ = torch.nn.ModuleDict


REFUSED_MODELS = {
    "per_atom": (with_specs(changed_specs(per="atom")), "total_charge: an input per atom is not supported"),
    "in_dim": (with_specs({"total_charge": dict(type="continuous", per="graph", in_dim=3, emb_dim=5)}), "in_dim 3 per graph"),
    "type": (with_specs(changed_specs(type="ordinal")), "type ordinal is not supported"),
    "offset": (with_specs(changed_specs(offset=0.5)), "offset 0.5 is not a whole number"),
    "unknown": (with_specs(changed_specs(scale=2.0)), "scale is not known"),
    "classes": (with_specs(changed_specs(num_classes=20)), "21 rows, and num_classes is 20"),
    "name": (with_specs({"pore size": CHARGE["total_charge"]}), "characters that a keyword"),
    "no specs": (lambda module: delattr(module, "embedding_specs"), "embedding_specs: expected a dictionary"),
    "no embedding": (lambda module: delattr(module, "joint_embedding"), "has no joint_embedding"),
    "other class": (other_class, "joint_embedding: ModuleDict"),
}  # fmt: skip


@pytest.fixture(scope="module")
def small(folder):
    return mace_models.make_model(folder / "small.model", embedding_specs=CHARGE, hidden="5x0e", num_interactions=1)


@pytest.mark.parametrize("name", REFUSED_MODELS)
def test_models_that_are_not_supported_are_refused_by_name(name, small, tmp_path):
    change, reason = REFUSED_MODELS[name]
    module, path = torch.load(small, weights_only=False), tmp_path / "one.model"
    change(module)
    torch.save(module, path)
    with pytest.raises(EquiError, match=reason):
        convert(path, tmp_path / "file.equi", quiet=True)


def test_what_mace_itself_cannot_evaluate_is_refused(tmp_path):
    options = dict(embedding_specs=CHARGE, use_embedding_readout=True, scale_shift=False, hidden="5x0e", num_interactions=1)
    path = mace_models.make_model(tmp_path / "heads.model", **options, **TWO_HEADS)
    with pytest.raises(EquiError, match="mace itself fails for the class MACE with several heads"):
        convert(path, tmp_path / "file.equi", head="pbe", quiet=True)


@pytest.mark.slow
def test_radial_networks_that_read_inputs_need_a_fixed_file(tmp_path):
    options = dict(embedding_specs=CHARGE, first=mace_models.ATTENTION, neighbors=3.0, use_embedding_readout=True)
    path = mace_models.make_model(tmp_path / "attention.model", **options)
    with pytest.raises(EquiError, match="fix them by --charge"):
        convert(path, tmp_path / "file.equi", quiet=True)
    convert(path, tmp_path / "file.equi", quiet=True, charge=-2)
    calculator = mace_oracle.float64_calculator(mace_checkpoint.load(path, charge=-2))
    structures = [atoms for _, atoms in laws.structures(["Na", "Cl"], 4.2)][:4]
    energy, force, stress = differences(tmp_path / "file.equi", calculator, structures)
    assert energy < ENERGY and force < FORCE and stress < STRESS


def test_units_elements_and_stored_values(model, tmp_path, oracle):
    path, target = model("one_step")[0], tmp_path / "file.equi"
    convert(path, target, quiet=True, elements=["Cl", "O"], unit="Hartree", reference=True)
    document, _ = equi_file.read(target)
    assert document["elements"] == ["Cl", "O"] and len(document["self_check"]) > 0
    assert not compare.check(laws.native(target, radial="exact"), quiet=True, write=lambda line: None)
    atoms = Atoms("ClOO", positions=[[0, 0, 0], [1.9, 0.1, 0], [0.2, 2.0, 0.1]])
    found = laws.native(target, radial="exact", keywords=("charge", "-1", "spin", "2"))(atoms)
    atoms.calc = oracle("one_step", 1)
    assert abs(found.energy / 27.211386024367243 - atoms.get_potential_energy()) < 1e-10
    fixed = tmp_path / "fixed.equi"
    convert(path, fixed, quiet=True, elements=["Cl", "O"], unit="Hartree", reference=True, charge=-1, spin=2)
    assert not compare.check(laws.native(fixed, radial="exact"), quiet=True, write=lambda line: None)
    assert float(equi_file.read(fixed)[0]["provenance"]["charge"]) == -1.0


def test_info_names_the_inputs(file_of):
    facts = info.summary(file_of("order"))
    assert facts["mixture"]["keywords"] == ["charge", "spin", "system elec_temp"]
    assert [one["name"] for one in facts["mixture"]["inputs"]] == ["total_spin", "elec_temp", "total_charge"]
    text = info.text(file_of("order"), facts)
    assert "input total_charge: keyword charge, whole numbers from -10 to 10, by default 0" in text
    assert "input elec_temp: keyword system elec_temp, any number, by default 0" in text


def test_the_commands_accept_inputs(model, file_of, tmp_path, capsys):
    path, head = model("order")
    structure = tmp_path / "cluster.xyz"
    dict(named("cluster"))["cluster"].write(structure)
    target = tmp_path / "fixed.equi"
    words = ["--head", head, "--spin", "3", "--system", "elec_temp=2.5"]
    assert main(["convert", path, "-o", str(target), "--quiet", *words]) == 0
    assert equi_file.read(target)[0]["provenance"]["system"] == '{"elec_temp": 2.5}'
    build = ["--build-dir", laws.native(target).build_dir, "--radial", "exact", "--quiet"]
    assert main(["compare", str(target), path, str(structure), *build]) == 0  # by the stored settings
    assert main(["compare", str(file_of("order")), path, str(structure), *words, *build]) == 0
    assert main(["compare", str(file_of("order")), path, str(structure), "--store", *words, *build]) == 1
    assert "a file for all systems stores values of neutral ones" in capsys.readouterr().err
    assert main(["convert", path, "-o", str(target), "--quiet", "--head", head, "--system", "elec_temp"]) == 1
    assert "expected NAME=VALUE" in capsys.readouterr().err


def test_the_ase_calculator_accepts_inputs(file_of):
    atoms = dict(named("cluster"))["cluster"]
    expected = laws.native(file_of("order"), keywords=keywords_of(MODELS["order"][1][1]))(atoms)
    calculator = EquiCalculator(file_of("order"), spin=3, system={"elec_temp": 2.5})
    atoms.calc = calculator
    assert abs(atoms.get_potential_energy() - expected.energy) < 1e-11
    calculator.set(system=None, spin=None)
    assert abs(atoms.get_potential_energy() - expected.energy) > NOTICEABLE
    calculator.close()
    atoms.calc = EquiCalculator(file_of("order"), radial="exact", spin=3, system={"elec_temp": 2.5})
    exact = laws.native(file_of("order"), radial="exact", keywords=keywords_of(MODELS["order"][1][1]))(atoms)
    assert np.abs(atoms.get_forces() - exact.forces).max() < 1e-10
    assert "used for charge 0, spin 3, elec_temp 2.5" in atoms.calc.describe()
    assert "cannot have the spin multiplicity" not in atoms.calc.describe()
    atoms.calc.set(spin=2)
    atoms.get_potential_energy()
    assert "atoms with 64 electrons cannot have the spin multiplicity 2" in atoms.calc.describe()
    atoms.calc = EquiCalculator(file_of("order"), system={"pressure": 1.0})
    with pytest.raises(CalculationFailed, match="no input pressure: the model has total_spin, elec_temp, total_charge"):
        atoms.get_potential_energy()
    for wrong in ({"": 1.0}, {"a b": 1.0}, {"elec_temp": "1"}, {"elec_temp": np.nan}, [1.0]):
        with pytest.raises(Exception, match="system must be"):
            EquiCalculator(file_of("order"), system=wrong)
