# SPDX-License-Identifier: MIT
"""eSEN and EquiformerV3 models of fairchem 1 -> .equi: LAMMPS with the file against the tests' own evaluation of the
checkpoint (esen_reference.py) or of the file. The slow tests compare with the packages' own modules. All models have
random numbers.

The slow tests run in the environment of tools/requirements-fairchem.txt, the others need no framework.
"""

import copy
import subprocess
import sys
from functools import lru_cache

import numpy as np
import pytest
import tensornet_laws as laws
from ase import Atoms
from equi_evaluator import EquiEvaluator, SecondReader
from equi_tools import equi_file, frameworks
from equi_tools.ase import EquiCalculator
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.fairchem1 import checkpoint as fairchem1_checkpoint
from equi_tools.frameworks.fairchem1 import oracle as fairchem1_oracle
from equiformer_checkpoint import checkpoint as equiformer
from esen_reference import TrainerCheckpoint
from test_models.fairchem1 import EQUIFORMERS, VARIANTS, make_variant

# All numbers of both evaluations are in float64.
SAME = 1e-12
ELEMENTS = ["Na", "Cl", "O"]
CASES = {
    "bessel": dict(lmax=3, mmax=2, distance_function="bessel", num_distance_basis=6),
    "gaussian": dict(sphere_channels=13, hidden_channels=5, norm_type="layer_norm_sh"),
    "grid": dict(ff_type="grid", grid_resolution=8, hidden_channels=9),
}


@pytest.fixture(autouse=True)
def alone(monkeypatch, request):
    """Hides all interpreters that have fairchem."""
    monkeypatch.delenv("EQUI_PYTHON_FAIRCHEM", raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fairchem1")


@lru_cache(maxsize=None)
def converted(name, folder):
    convert(TrainerCheckpoint(**CASES[name]).save(folder / f"{name}.pt"), folder / f"{name}.equi", quiet=True)
    return folder / f"{name}.equi"


def structures(cutoff):
    """Also with edges along y, where fairchem's own derivatives lack a part."""
    along = Atoms("NaCl2Na", [[0, 0, 0], [2.3, 0, 0], [0, 2.1, 0], [0, 0, -2.5]], cell=[5.1, 5.6, 6.0], pbc=True)
    return [*laws.structures(ELEMENTS, cutoff), ("axes", along)]


@pytest.mark.parametrize("name", CASES)
def test_energies_forces_and_stresses_are_those_of_the_checkpoint(name, folder):
    calculator, named = TrainerCheckpoint(**CASES[name]).calculator(), structures(4.0)
    laws.assert_within_bars(laws.differences(converted(name, folder), calculator, named, radial="exact"))
    laws.assert_within_bars(laws.differences(converted(name, folder), calculator, named))
    atoms = dict(named)["rocksalt"]
    atoms.calc = calculator
    assert np.abs(atoms.get_forces()).max() > 1e-2 and np.abs(atoms.get_stress()).max() > 1e-4, "the model does not test forces"


def test_the_file_says_the_same_to_a_second_reader(folder):
    evaluator, calculator = EquiEvaluator(converted("bessel", folder)), TrainerCheckpoint(**CASES["bessel"]).calculator()
    named = dict(structures(4.0))
    for label in ("sheared", "wire", "cluster", "one_of_three_lonely"):
        atoms = named[label]
        cell = atoms.cell.complete().array if atoms.pbc.any() else None
        energy, forces, _, _ = evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, cell, atoms.pbc)
        atoms.calc = calculator
        assert abs(energy - atoms.get_potential_energy()) < SAME * len(atoms), label
        assert np.abs(forces - atoms.get_forces()).max() < SAME * max(1, np.abs(forces).max()), label


def test_files_are_recognized_and_read_without_running_them(folder):
    source = TrainerCheckpoint().save(folder / "model.pt")
    assert frameworks.detect(source) is frameworks.FAIRCHEM1
    script = (
        "import sys; sys.modules['torch'] = sys.modules['fairchem'] = sys.modules['equiformer_v3'] = None\n"
        "from equi_tools.frameworks.fairchem1 import checkpoint as fairchem1_checkpoint\n"
        "from equi_tools.frameworks.fairchem import convert as fairchem_convert\n"
        f"body, _ = fairchem_convert.convert(fairchem1_checkpoint.load({source!r}))\n"
        "print(len(body['layers']), body['architecture'], body['max_neighbors'], 'mixture' in body)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split()[1:] == ["eSEN", "300", "False"], done.stderr


def test_provenance_names_the_framework_and_the_license(folder):
    document, _ = equi_file.read(converted("bessel", folder))
    assert document["framework"] == {"name": "fairchem1", "version": "none"} and document["self_check"] == []
    assert "task" not in document["provenance"] and document["provenance"]["licence"] == "unknown"
    TrainerCheckpoint().save(folder / "esen_30m_oam.pt")
    document = convert(folder / "esen_30m_oam.pt", folder / "published.equi", quiet=True)
    assert document["provenance"]["licence"] == fairchem1_checkpoint.OMAT24_LICENSE


def test_older_names_mean_the_same(folder):
    """Normalizers of targets and their standard deviations, and names without wrappers."""
    made = TrainerCheckpoint(**CASES["bessel"])
    scale = made.checkpoint["normalizers"]["energy"]
    scale = {"mean": scale["mean"], "std": scale["rmsd"]}
    made.checkpoint |= {"normalizers": {"target": scale, "grad_target": scale}, "state_dict": made.state}
    convert(made.save(folder / "old.pt"), folder / "old.equi", quiet=True)
    assert equi_file.read(folder / "old.equi")[0]["data_hash"] == equi_file.read(converted("bessel", folder))[0]["data_hash"]


BACKBONE = {
    "s2": (dict(act_type="s2"), "act_type s2.*at random"),
    "network": (dict(mlp_type="s2"), "mlp_type s2 is not known, only spectral and grid"),
    "grid": (dict(grid_resolution=7), "grid_resolution: expected an even number from 6 to 64, found 7"),
    "envelope": (dict(use_envelope=False), "use_envelope False.*jumps where a neighbor crosses"),
    "norm": (dict(norm_type="rms_norm"), "norm_type rms_norm is not known"),
    "basis": (dict(distance_function="sigmoid"), "distance_function sigmoid is not known"),
    "order": (dict(mmax=3), "mmax 3 is greater"),
    "options": (dict(a=1, b=2), "options a of the backbone, b of the backbone are not known.*--ignore-key a --ignore-key b lets them pass"),
    "size": (dict(sphere_channels=8), "expected the shape"),
    "layers": (dict(num_layers=1), "blocks.1.* are not part of eSEN or UMA"),
    "other": (dict(model="gemnet_oc_backbone"), "backbone gemnet_oc_backbone is not supported"),
}  # fmt: skip


@pytest.mark.parametrize("case", BACKBONE)
def test_options_that_are_not_supported_are_refused_by_name(case, tmp_path):
    options, expected = BACKBONE[case]
    made = TrainerCheckpoint()
    made.checkpoint["config"]["model"]["backbone"].update(options)
    source = made.save(tmp_path / "refused.pt")
    with pytest.raises(EquiError, match=expected) as error:
        convert(source, tmp_path / "refused.equi", quiet=True)
    assert source in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "refused.equi").exists()


def test_what_a_checkpoint_does_not_say_is_what_fairchem_takes(tmp_path):
    """The defaults are activations and networks on grids, and no envelope."""
    for key, expected in (("act_type", "act_type s2"), ("mlp_type", "grid_mlp.0.weight"), ("use_envelope", "use_envelope False")):
        made = TrainerCheckpoint()
        del made.checkpoint["config"]["model"]["backbone"][key]
        with pytest.raises(EquiError, match=expected):
            convert(made.save(tmp_path / "model.pt"), tmp_path / "model.equi", quiet=True)


WHOLE = {
    "equiformer": ({"config.model.name": "gemnet_oc"}, "model gemnet_oc is not supported, of fairchem 1 only eSEN"),
    "head": ({"config.model.heads.efs.module": "esen_mlp_energy_head"}, "heads esen_mlp_energy_head: expected esen_mlp_efs_head alone"),
    "two heads": ({"config.model.heads.other": {"module": "esen_linear_force_head"}}, "heads .*esen_linear_force_head: expected"),
    "outputs": ({"config.model.pass_through_head_outputs": False}, "pass_through_head_outputs False"),
    "option of the model": ({"config.model.dispersion": 1, "config.model.backbone.more": 1},
        "dispersion of config.model, more of the backbone are not known"),
    "no backbone": ({"config.model.backbone": None}, "expected a backbone and heads"),
    "mean": ({"normalizers.energy.mean": np.float64(0.5)}, "the mean is 0.5, which fairchem adds once"),
    "forces": ({"normalizers.forces.rmsd": np.float64(2.0)}, "not the derivative of the energy"),
    "stress": ({"normalizers.stress.mean": np.float64(1.0)}, "not the derivative of the energy"),
    "normalizer": ({"normalizers.energy": {"mean": 0.0}}, "normalizers: energy: expected mean and rmsd"),
    "reference of forces": ({"elementrefs.forces": {}}, "elementrefs: forces: only references of the energy"),
    "reference": ({"elementrefs.energy": {"coefficients": 1}}, "elementrefs: energy: expected a list of numbers"),
    "no numbers": ({"state_dict": {}}, "no state_dict in it"),
    "no config": ({"config": None}, "expected the options of a model"),
}  # fmt: skip


@pytest.mark.parametrize("case", WHOLE)
def test_checkpoints_that_are_no_such_potentials_are_refused(case, tmp_path):
    import torch

    changes, expected = WHOLE[case]
    made = TrainerCheckpoint()
    made.checkpoint = copy.deepcopy(made.checkpoint)
    for place, value in changes.items():
        *path, last = place.split(".")
        node = made.checkpoint
        for key in path:
            node = node[key]
        node[last] = torch.tensor(value) if isinstance(value, np.float64) else value
    with pytest.raises(EquiError, match=expected):
        convert(made.save(tmp_path / "refused.pt"), tmp_path / "refused.equi", quiet=True)


def test_settings_of_other_models_are_refused(folder):
    source = TrainerCheckpoint().save(folder / "settings.pt")
    for settings, expected in ((dict(task="omat"), "--task omat: fairchem 1 models have no task"), (dict(charge=1), "take no total charge"),
                               (dict(composition="NaCl"), "do not depend on the composition")):  # fmt: skip
        with pytest.raises(EquiError, match=expected):
            convert(source, folder / "settings.equi", **settings, quiet=True)


# ---- EquiformerV3

# Second derivatives relative to the largest; the edge degree embedding is interpolated to 1e-10.
SECOND = 1e-8


@pytest.fixture(scope="module")
def equiformer_model(folder):
    import torch

    torch.save(equiformer(), folder / "equiformer.pt")
    convert(folder / "equiformer.pt", folder / "equiformer.equi", quiet=True)
    return folder / "equiformer.equi"


def test_equiformer_is_evaluated_as_by_a_second_reader(equiformer_model):
    named = [pair for pair in structures(4.0) if pair[0] not in ("slab", "left_handed", "rocksalt")]
    calculator = SecondReader(equiformer_model)
    laws.assert_within_bars(laws.differences(equiformer_model, calculator, named, radial="exact"))
    laws.assert_within_bars(laws.differences(equiformer_model, calculator, named))
    atoms = dict(named)["sheared"]
    atoms.calc = calculator
    assert np.abs(atoms.get_forces()).max() > 1e-2, "the model does not test forces"
    laws.assert_mixed(laws.differences(equiformer_model, calculator, [("sheared", dict(named)["sheared"])], "mixed"))


def test_ranks_of_equiformer_agree(equiformer_model):
    atoms = dict(structures(4.0))["rocksalt"] * (2, 1, 1)
    assert laws.rank_error(equiformer_model, atoms, 3) < laws.RANKS * 10


def test_the_virial_of_equiformer_is_the_derivative_by_a_strain(equiformer_model):
    assert laws.strain_error(equiformer_model, dict(structures(4.0))["sheared"]) < laws.STRAIN


def test_second_derivatives_of_equiformer_are_those_of_a_second_reader(equiformer_model):
    atoms = dict(structures(4.0))["cluster"]
    calculator = EquiCalculator(equiformer_model)
    hessian = calculator.hessian(atoms)
    calculator.close()
    direction = np.random.default_rng(4).standard_normal(atoms.positions.shape)
    expected = EquiEvaluator(equiformer_model).hessian_vector(atoms.get_chemical_symbols(), atoms.positions, direction, None, atoms.pbc)
    assert np.abs((hessian @ direction.ravel()).reshape(-1, 3) - expected).max() < SECOND * np.abs(expected).max()


EQUIFORMER = {
    "direct": (dict(direct_prediction=True), "direct_prediction True.*not the gradient"),
    "activation": (dict(attn_activation="sep_s2"), "attn_activation sep_s2.*at random"),
    "network": (dict(ffn_activation="gate"), "ffn_activation gate"),
    "norm": (dict(norm_type="merge_rms_norm"), "norm_type merge_rms_norm is not supported"),
    "envelope": (dict(use_envelope=False), "use_envelope False"),
    "add": (dict(use_add_merge=True), "use_add_merge True"),
    "softcap": (dict(softcap=5.0), "softcap 5.0"),
    "epsilon": (dict(attn_eps=1e-3), "attn_eps 0.001 is not supported"),
    "coarse": (dict(attn_grid_resolution_list=[6, 4]), "attn_grid_resolution_list .*above 6 and longitudes above 3"),
    "coarse points": (dict(ffn_grid_resolution_list=[8, 6]), "ffn_grid_resolution_list .*longitudes above 6"),
    "grid": (dict(attn_grid_resolution_list=8), "expected two whole numbers"),
    "option": (dict(dispersion=True), "option dispersion of equiformer_v3 is not known"),
    "heads": (dict(num_heads=0), "num_heads: expected a whole number"),
    "size": (dict(num_channels=8), "expected the shape"),
    "layers": (dict(num_layers=1), "blocks.1.* are not part of EquiformerV3"),
}  # fmt: skip


@pytest.mark.parametrize("case", EQUIFORMER)
def test_options_of_equiformer_that_are_not_supported_are_refused(case, tmp_path):
    import torch

    options, expected = EQUIFORMER[case]
    made = equiformer()
    made["config"]["model"].update(options)
    torch.save(made, tmp_path / "refused.pt")
    with pytest.raises(EquiError, match=expected):
        convert(tmp_path / "refused.pt", tmp_path / "refused.equi", quiet=True)


# ---- with the packages' own modules


@lru_cache(maxsize=None)
def made(name, folder):
    source = make_variant(name, folder)
    convert(source, folder / f"{name}.equi", quiet=True)
    return source, folder / f"{name}.equi"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VARIANTS, *EQUIFORMERS])
def test_every_option_is_converted_exactly(name, folder):
    source, model = made(name, folder)
    calculator = fairchem1_oracle.float64_calculator(source)
    named = structures(calculator.cutoff)
    laws.assert_within_bars(laws.differences(model, calculator, named, radial="exact"))
    laws.assert_within_bars(laws.differences(model, calculator, named))
    atoms = dict(named)["rocksalt"]
    atoms.calc = calculator
    assert np.abs(atoms.get_forces()).max() > 1e-2, "the model does not test forces"


@pytest.mark.slow
def test_the_shape_of_esen_30m(folder):
    source, model = made("esen_30m", folder)
    atoms = Atoms(
        "Si4", [[0, 0, 0], [2.3, 0.1, 0], [0.2, 2.2, 0.1], [0.1, 0.4, 2.4]], cell=[[4.4, 0, 0], [0.3, 4.5, 0], [0.1, 0.2, 4.7]], pbc=True
    )
    named, calculator = [("cell", atoms), ("cluster", Atoms("Si4", atoms.positions))], fairchem1_oracle.float64_calculator(source)
    laws.assert_within_bars(laws.differences(model, calculator, named, radial="exact"))
    laws.assert_mixed(laws.differences(model, calculator, named, "mixed"))


@pytest.mark.slow
def test_the_command_compares(folder):
    source, model = made("l3m2", folder)
    assert main(["compare", "-q", str(model), source, "--builtin", "--radial", "exact"]) == 0


@pytest.mark.slow
def test_a_turn_of_the_structure_turns_what_fairchem_finds(folder):
    """The result does not depend on the angle that fairchem draws for the frame of an edge."""
    calculator = fairchem1_oracle.float64_calculator(made("l3m2", folder)[0])
    atoms = dict(structures(calculator.cutoff))["cluster"]
    atoms.calc = calculator
    first = atoms.get_forces()
    turned = atoms.copy()
    turned.rotate(67, (0.3, -0.5, 0.8), center=(0, 0, 0))
    turned.calc = calculator
    rotation = np.linalg.lstsq(atoms.positions, turned.positions, rcond=None)[0]
    assert np.abs(first @ rotation - turned.get_forces()).max() < SAME * 10
