# SPDX-License-Identifier: MIT
"""eSEN and UMA models of fairchem -> .equi without fairchem: LAMMPS with the file against the tests' own evaluation of
the checkpoint (esen_reference.py). The checkpoints have random numbers and are written by the tests as data."""

import os
import subprocess
import sys
from functools import lru_cache

import numpy as np
import pytest
import tensornet_laws as laws
from ase import Atoms
from ase.build import bulk
from equi_evaluator import EquiEvaluator
from equi_tools import compare, equi_file, frameworks, lammps_runner
from equi_tools import structures as structures_of_tools
from equi_tools.ase import EquiCalculator
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.fairchem import checkpoint as fairchem_checkpoint
from esen_reference import Checkpoint

# All numbers of both evaluations are in float64.
SAME = 1e-12
# Second derivatives relative to the largest; the edge degree embedding is interpolated to 1e-10.
SECOND = 1e-8
# Forces against central differences of fourth order.
DIFFERENCES = 1e-7

CASES = {
    "plain": ({}, {"task": "omat"}),
    "one_order": (dict(lmax=1, mmax=1, sphere_channels=4, norm_type="layer_norm"), {"task": "omat"}),
    "truncated": (dict(lmax=3, mmax=1, norm_type="layer_norm_sh", hidden_channels=17), {"task": "omat"}),
    "many_orders": (dict(lmax=6, mmax=4, sphere_channels=4, hidden_channels=3, num_layers=1), {"task": "omat"}),
    "grid": (dict(lmax=3, mmax=2, ff_type="grid", sphere_channels=5, hidden_channels=19), {"task": "omat"}),
    "charged": (dict(wrapped=False, dataset_mapping={"omat": "omat"}), {"charge": -3, "spin": 2}),
    "uma": (dict(num_experts=5, sphere_channels=18), {"task": "omol", "composition": "Na4Cl4", "charge": 1, "spin": 2}),
    "balanced": (
        dict(charge_balanced_channels=[2, 0, 1], spin_balanced_channels=[5], sphere_channels=8), {"task": "omol", "charge": 2, "spin": 3},
    ),
    "uma_balanced": (
        dict(num_experts=4, sphere_channels=18, charge_balanced_channels=[0, 1, 2]),
        {"task": "omol", "composition": "Na4Cl4", "charge": 1, "spin": 2},
    ),
}  # fmt: skip
ELEMENTS = ["Na", "Cl", "O"]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Hides all interpreters that have fairchem."""
    monkeypatch.delenv("EQUI_PYTHON_FAIRCHEM", raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("esen")


def checkpoint(name):
    options = dict(CASES[name][0])
    made = Checkpoint(**options)
    if not options.get("wrapped", True):
        made.tasks = [{**task, "name": task["property"]} for task in made.tasks if task["datasets"] == ["omat"]]
        for task in made.tasks:
            task["datasets"] = ["omat"]
    return made


@lru_cache(maxsize=None)
def converted(name, folder):
    """Path of the file of one of CASES."""
    os.environ.pop("EQUI_PYTHON_FAIRCHEM", None)
    source = checkpoint(name).save(folder / f"{name}.pt", as_omegaconf=name in ("plain", "uma"))
    convert(source, folder / f"{name}.equi", **CASES[name][1], quiet=True)
    return folder / f"{name}.equi"


def calculator(name):
    settings = CASES[name][1]
    return checkpoint(name).calculator(settings.get("task", "omat"), settings.get("charge", 0), settings.get("spin", 0))


def structures(name, folder):
    document, _ = equi_file.read(converted(name, folder))
    named = laws.structures(ELEMENTS, document["cutoff"])
    # Edges along every axis, between atoms without symmetry. Where symmetry makes a whole norm vanish, its derivative
    # multiplies rounding errors by some hundreds in each block.
    named.append(("axes", Atoms("NaCl2Na", [[0, 0, 0], [2.3, 0, 0], [0, 2.1, 0], [0, 0, -2.5]], cell=[5.1, 5.6, 6.0], pbc=True)))
    named += [(f"along_{axis}", Atoms("NaCl", [[0, 0, 0], np.eye(3)[k] * 2.3])) for k, axis in enumerate("xyz")]
    return [(label, atoms) for label, atoms in named if structures_of_tools.fits(document, atoms)]


@pytest.mark.parametrize("name", CASES)
def test_energies_forces_and_stresses_are_those_of_the_checkpoint(name, folder):
    named = structures(name, folder)
    assert len(named) >= 5
    laws.assert_within_bars(laws.differences(converted(name, folder), calculator(name), named, radial="exact"))
    atoms = dict(named)["rocksalt"]
    atoms.calc = calculator(name)
    assert np.abs(atoms.get_forces()).max() > 1e-2 and np.abs(atoms.get_stress()).max() > 1e-4, "the model does not test forces"


@pytest.mark.parametrize("name", CASES)
def test_tables_and_mixed_precision_stay_within_their_bars(name, folder):
    laws.assert_within_bars(laws.differences(converted(name, folder), calculator(name), structures(name, folder)))
    # layer_norm divides each l by its own size, which is small where atoms are nearly symmetric: float32 is not
    # precise enough.
    if checkpoint(name).backbone["norm_type"] != "layer_norm":
        found = laws.differences(converted(name, folder), calculator(name), structures(name, folder), "mixed")
        # For two atoms at twelve distances along y, this model's energies differ by 7e-7 in the mean square and by at
        # most 1.7e-6, with tables and without: one structure does not show the rounding of float32.
        laws.assert_mixed(found, energies_in_mean_square=name == "grid")


@pytest.mark.parametrize("name", CASES)
def test_the_file_says_the_same_to_a_second_reader(name, folder):
    evaluator = EquiEvaluator(converted(name, folder))
    for label, atoms in structures(name, folder):
        cell = atoms.cell.complete().array if atoms.pbc.any() else None
        energy, forces, _, _ = evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, cell, atoms.pbc)
        atoms.calc = calculator(name)
        assert abs(energy - atoms.get_potential_energy()) < SAME * len(atoms), label
        assert np.abs(forces - atoms.get_forces()).max() < SAME * max(1, np.abs(forces).max()), label


@pytest.mark.parametrize("name, ranks", [("plain", 2), ("truncated", 4), ("uma", 3), ("balanced", 3), ("uma_balanced", 8)])
def test_ranks_agree(name, ranks, folder):
    atoms = dict(structures(name, folder))["rocksalt"] * (2, 1, 1)
    assert laws.rank_error(converted(name, folder), atoms, ranks) < laws.RANKS * 10


def test_the_virial_is_the_derivative_by_a_strain(folder):
    assert laws.strain_error(converted("plain", folder), dict(structures("plain", folder))["sheared"]) < laws.STRAIN


def test_forces_are_the_derivative_of_the_energy(folder):
    run, step = laws.native(converted("uma", folder), radial="exact"), 2e-3
    atoms = dict(structures("uma", folder))["sheared"]
    forces = run(atoms).forces
    for k in range(3):
        found = 0.0
        for factor, weight in ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12)):
            moved = atoms.copy()
            moved.positions[3, k] += factor * step
            found -= weight / step * run(moved).energy
        assert abs(found - forces[3, k]) < DIFFERENCES * max(1, np.abs(forces).max())


@pytest.mark.parametrize("name", ["plain", "truncated", "many_orders", "balanced"])
def test_second_derivatives_are_those_of_a_second_reader(name, folder):
    """Compares LAMMPS's whole matrix with autograd's products."""
    named = dict(structures(name, folder))
    atoms = named["axes"]
    calculator = EquiCalculator(converted(name, folder))
    hessian = calculator.hessian(atoms)
    calculator.close()
    assert np.abs(hessian - hessian.T).max() < SECOND * np.abs(hessian).max()
    evaluator = EquiEvaluator(converted(name, folder))
    direction = np.random.default_rng(4).standard_normal(atoms.positions.shape)
    expected = evaluator.hessian_vector(atoms.get_chemical_symbols(), atoms.positions, direction, atoms.cell.array, atoms.pbc)
    found = (hessian @ direction.ravel()).reshape(-1, 3)
    assert np.abs(found - expected).max() < SECOND * np.abs(expected).max()


def test_a_rotation_turns_forces(folder):
    atoms = dict(structures("many_orders", folder))["cluster"]
    turned = atoms.copy()
    turned.rotate(67, (0.3, -0.5, 0.8), center=(0, 0, 0))
    run = laws.native(converted("many_orders", folder), radial="exact")
    one, two = run(atoms), run(turned)
    rotation = np.linalg.lstsq(atoms.positions, turned.positions, rcond=None)[0]
    assert abs(one.energy - two.energy) < SAME * 10
    assert np.abs(one.forces @ rotation - two.forces).max() < SAME * 10 * max(1, np.abs(one.forces).max())


# ---- one composition, and the neighbors that a model uses


def script(folder, model, atoms, after, ranks=1):
    """Output and status of LAMMPS for the structure and further commands."""
    symbols = ["Na", "Cl"]
    lammps_runner.write_data(folder / "data.system", atoms, symbols, lammps_runner.lammps_box(atoms))
    lines = ["units metal", "box tilt large", "atom_modify map yes", "read_data data.system", "pair_style equi",
             f"pair_coeff * * {model} {' '.join(symbols)}", "timestep 0.0005", "run 0", *after]  # fmt: skip
    (folder / "in.system").write_text("\n".join(lines) + "\n")
    lmp, mpirun = lammps_runner.lammps_programs(os.environ["EQUI_BUILD_DIR"])
    command = [str(mpirun), "-np", str(ranks), str(lmp), "-in", "in.system", "-log", "none"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr, done.returncode


@pytest.mark.parametrize("ranks", [1, 2])
def test_another_composition_is_refused(ranks, folder, tmp_path):
    atoms = bulk("NaCl", "rocksalt", 5.0, cubic=True) * (2, 1, 1)
    output, status = script(tmp_path, converted("uma", folder), atoms, [], ranks)
    assert status == 0, output
    atoms.symbols[3] = "Na"
    output, status = script(tmp_path, converted("uma", folder), atoms, [], ranks)
    assert status != 0 and "holds for the composition NaCl alone" in output and "are Na9Cl7 on step 0" in output, output
    assert "--composition" in output


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_composition_that_changes_in_a_run_is_noticed(ranks, folder, tmp_path):
    atoms = bulk("NaCl", "rocksalt", 5.0, cubic=True) * (2, 1, 1)
    swap = [
        "velocity all create 300 1",
        "fix move all nve",
        "run 3",
        "fix swap all atom/swap 1 20 5 1e9 ke no semi-grand yes types 1 2 mu 0 0",
        "run 5",
    ]
    output, status = script(tmp_path, converted("uma", folder), atoms, swap, ranks)
    assert status != 0 and "holds for the composition NaCl alone" in output, output
    # The result is the same if atoms only change places.
    kept = [line.replace("semi-grand yes types 1 2 mu 0 0", "types 1 2") for line in swap]
    output, status = script(tmp_path, converted("uma", folder), atoms, kept, ranks)
    assert status == 0, output


def test_more_neighbors_than_the_model_takes_are_refused(tmp_path):
    Checkpoint(max_neighbors=6).save(tmp_path / "few.pt")
    convert(tmp_path / "few.pt", tmp_path / "few.equi", task="omat", quiet=True)
    atoms = bulk("NaCl", "rocksalt", 5.0, cubic=True)  # 6 neighbors within 3.5 A, 18 within 4 A
    for keywords in ((), ("reference", "yes")):
        run = compare.Native(str(tmp_path / "few.equi"), keywords=keywords, build_dir=os.environ["EQUI_BUILD_DIR"])
        with pytest.raises(EquiError, match="an atom has 18 neighbors within the cutoff, and the model takes at most 6.*ID"):
            run(atoms)
        stretched = atoms.copy()
        stretched.set_cell(atoms.cell.array * 1.2, scale_atoms=True)
        assert np.isfinite(run(stretched).energy)


# ---- files and messages


def test_files_are_recognized_and_read_without_running_them(tmp_path):
    source = Checkpoint().save(tmp_path / "model.pt", as_omegaconf=True)
    assert frameworks.detect(source) is frameworks.FAIRCHEM
    script = (
        "import sys; sys.modules['torch'] = sys.modules['omegaconf'] = sys.modules['fairchem'] = None\n"
        "from equi_tools.frameworks.fairchem import checkpoint as fairchem_checkpoint\n"
        "from equi_tools.frameworks.fairchem import convert as fairchem_convert\n"
        f"body, _ = fairchem_convert.convert(fairchem_checkpoint.load({source!r}), 'omol')\n"
        "print(len(body['layers']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout) > 20, done.stderr


def test_a_file_without_self_check_says_so(folder, capsys):
    document, _ = equi_file.read(converted("plain", folder))
    assert document["self_check"] == [] and document["framework"] == {"name": "fairchem", "version": "none"}
    assert main(["check", "--stored", "-q", str(converted("plain", folder))]) == 1
    assert "stores no values of fairchem" in capsys.readouterr().err


def test_provenance_has_what_the_user_said_and_the_license(folder):
    document, _ = equi_file.read(converted("uma", folder))
    stated = document["provenance"]
    assert stated["task"] == "omol" and stated["composition"] == "Na4Cl4" and stated["charge"] == "1" and stated["spin"] == "2"
    assert stated["licence"] == fairchem_checkpoint.FAIR_LICENSE and "NaCl alone" in stated["notes"]
    assert document["composition"] == {"Na": 1, "Cl": 1} and document["architecture"] == "UMA"
    document, _ = equi_file.read(converted("plain", folder))
    assert document["provenance"]["licence"] == "unknown" and document["max_neighbors"] == 300 and document["architecture"] == "eSEN"


def test_tasks_charges_and_spins_are_different_models(tmp_path):
    source = Checkpoint().save(tmp_path / "model.pt")
    found = {}
    for task, charge, spin in (("omat", None, None), ("omol", None, None), ("omol", 0, 1), ("omol", 0, 0), ("omol", 1, 1), ("omol", -1, 1)):
        convert(source, tmp_path / "model.equi", task=task, charge=charge, spin=spin, elements=["O", "Na"], quiet=True)
        energy, _, _, _ = EquiEvaluator(tmp_path / "model.equi").evaluate(["Na", "O"], [[0, 0, 0], [2, 0, 0]])
        found[task, charge, spin] = round(energy, 9)
    assert found.pop(("omol", None, None)) == found["omol", 0, 1], "the default of omol is a singlet"
    assert len(set(found.values())) == len(found)


REFUSED = {
    "direct forces": (dict(direct_forces=True), "direct_forces True.*not the gradient"),
    "direct stress": (dict(direct_stress=True), "direct_stress True"),
    "s2": (dict(act_type="s2"), "act_type s2.*at random"),
    "network": (dict(ff_type="s2"), "ff_type s2 is not known, only spectral and grid"),
    "grid": (dict(grid_resolution=4), "grid_resolution: expected an even number from 6 to 64, found 4"),
    "basis": (dict(distance_function="bessel"), "distance_function bessel"),
    "norm": (dict(norm_type="rms_norm"), "norm_type rms_norm is not known"),
    "balanced": (dict(charge_balanced_channels=[0, 2]),
        r"charge_balanced_channels: expected channels from 0 to 5 that follow one another, found \[0, 2\]"),
    "spin": (dict(spin_balanced_channels=[6]), "spin_balanced_channels: expected channels from 0 to 5"),
    "linear": (dict(chg_spin_emb_type="lin_emb"), "chg_spin_emb_type lin_emb"),
    "order": (dict(lmax=2, mmax=3), "mmax 3 is greater"),
    "option": (dict(dispersion=True), "option dispersion of the backbone is not known.*--ignore-key dispersion"),
    "options": (dict(a=1, b=2), "options a of the backbone, b of the backbone are not known.*--ignore-key a --ignore-key b lets them pass"),
    "version": (dict(model="eSCNMDMoeBackbone", dispersion=True), r"without a model_id \(UMA 1.0\)"),
    "size": (dict(sphere_channels=8), "expected the shape"),
    "layers": (dict(num_layers=1), "blocks.1.* are not part of eSEN or UMA"),
    "more layers": (dict(num_layers=3), "blocks.2.* is missing"),
    "other": (dict(model="fairchem.core.models.allscaip.AllScAIP.AllScAIPBackbone"), "AllScAIPBackbone is not supported"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused_by_name(case, tmp_path):
    options, expected = REFUSED[case]
    made = Checkpoint()
    made.config["backbone"].update(options)
    source = made.save(tmp_path / "refused.pt")
    with pytest.raises(EquiError, match=expected) as error:
        convert(source, tmp_path / "refused.equi", task="omat", quiet=True)
    assert source in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "refused.equi").exists()


SETTINGS = {
    "no task": ({}, {}, "several tasks, choose one: --task omat | omol"),
    "task": ({}, dict(task="oc20"), "--task oc20: the model has omat, omol"),
    "composition of eSEN": ({}, dict(task="omat", composition="NaCl"), "--composition NaCl: the model has no experts"),
    "formula": (dict(num_experts=3), dict(task="omat", composition="Na(Cl"), "--composition Na(Cl: expected a chemical formula"),
    "heavy": (dict(num_experts=3), dict(task="omat", composition="PbO"), "the model does not know Pb"),
    "elements": (dict(num_experts=3), dict(task="omat", composition="NaCl", elements=["Na"]), "all of which are needed"),
    "half a charge": ({}, dict(task="omat", charge=0.5), "--charge 0.5: expected a whole number"),
    "spin": ({}, dict(task="omat", spin=101), "--spin 101: expected a whole number from 0 to 100"),
    "unit": ({}, dict(task="omat", unit="eV"), "--unit"),
    "head": ({}, dict(head="omat"), "--head omat: fairchem models have no head"),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_do_not_fit_are_refused(case, tmp_path):
    options, settings, expected = SETTINGS[case]
    source = Checkpoint(**options).save(tmp_path / "model.pt")
    with pytest.raises(EquiError) as error:
        convert(source, tmp_path / "model.equi", **settings, quiet=True)
    assert expected in str(error.value)


def test_tasks_that_are_no_derivatives_are_refused(tmp_path):
    for kind, key, value, expected in (
        ("energy", "mean", 0.5, "fairchem adds once to the energy of a structure"),
        ("forces", "rmsd", 2.0, "not the derivative of the energy"),
        ("stress", "mean", 1.0, "not the derivative of the energy"),
    ):
        made = Checkpoint()
        for task in made.tasks:
            if task["property"] == kind:
                task["normalizer"] = {**task["normalizer"], key: value}
        with pytest.raises(EquiError, match=expected):
            fairchem_checkpoint.load(made.save(tmp_path / "model.pt"))


def test_uma_files_of_other_generations_are_refused(tmp_path):
    made = Checkpoint(num_experts=3)
    del made.config["backbone"]["model_version"]
    with pytest.raises(EquiError, match="UMA 1.0"):
        fairchem_checkpoint.load(made.save(tmp_path / "model.pt"))
    made.config["model_id"] = "UMA-S-1.2"
    with pytest.raises(EquiError, match="by the number of atoms, too; leave it out"):
        fairchem_checkpoint.load(made.save(tmp_path / "model.pt"), composition="NaCl")


def test_files_of_others_are_refused(tmp_path):
    import torch

    torch.save({"so2.so2_m_conv.": torch.ones(2)}, tmp_path / "other.pt")
    assert frameworks.detect(tmp_path / "other.pt") is frameworks.FAIRCHEM
    with pytest.raises(EquiError, match="is not an inference checkpoint of fairchem 2"):
        convert(tmp_path / "other.pt", tmp_path / "other.equi", quiet=True)
