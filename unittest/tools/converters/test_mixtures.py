# SPDX-License-Identifier: MIT
"""Files for all systems, of UMA models: LAMMPS mixes the experts when a run starts, by the keywords of pair_style and
the atoms. Compared with the tests' own evaluation of the checkpoint (esen_reference.py), and with files that `equi
convert` has merged."""

import os
import subprocess

import numpy as np
import pytest
import tensornet_laws as laws
from ase import Atoms
from ase.build import bulk
from ase.calculators.calculator import InputError
from equi_tools import equi_file, info, lammps_runner
from equi_tools.ase import EquiCalculator
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.common.numbers import activate
from esen_reference import Checkpoint

# Both evaluations are in float64.
SAME = 1e-12
SYSTEMS = [("omat", 0, 0), ("omol", 0, 1), ("omol", -2, 3), ("omol", 1, 2)]
ELEMENTS = ["Na", "Cl", "O"]


def test_activations_of_the_converters_take_any_number():
    x = np.array([-1e30, -1e4, -750.0, -1.0, 0.0, 1.0, 750.0, 1e30])
    with np.errstate(over="raise", invalid="raise"):
        found = {name: activate(name, x) for name in ("silu", "sigmoid", "tanh", "ssp", "relu", "identity")}
    far, near = [0, 1, 2, 6, 7], [3, 4, 5]
    sigmoid = 1 / (1 + np.exp(-x[near]))
    np.testing.assert_allclose(found["silu"][far], [0, 0, 0, 750, 1e30], atol=1e-300)
    np.testing.assert_allclose(found["silu"][near], x[near] * sigmoid, rtol=1e-15)
    np.testing.assert_allclose(found["sigmoid"][near], sigmoid, rtol=1e-15)
    ends_by_name = {"sigmoid": (0, 1), "tanh": (-1, 1), "ssp": (-np.log(2), 1e30), "relu": (0, 1e30), "identity": (-1e30, 1e30)}
    for name, ends in ends_by_name.items():
        np.testing.assert_allclose(found[name][[0, -1]], ends, rtol=1e-15, err_msg=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mixtures")


@pytest.fixture(scope="module")
def checkpoint():
    return Checkpoint(num_experts=5, sphere_channels=18)


@pytest.fixture(scope="module")
def source(folder, checkpoint):
    return checkpoint.save(folder / "uma.pt", as_omegaconf=True)


@pytest.fixture(scope="module")
def whole(folder, source):
    convert(source, folder / "whole.equi", quiet=True)
    return folder / "whole.equi"


def keywords(task, charge, spin):
    return ("task", task, "charge", str(charge), "spin", str(spin))


def native(path, system=("omat", 0, 0), extra=(), **options):
    return laws.native(path, keywords=keywords(*system) + tuple(extra), **options)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_composition_has_its_own_mixture(system, whole, checkpoint):
    named = laws.structures(ELEMENTS, checkpoint.backbone["cutoff"])
    calculator, words = checkpoint.calculator(*system), keywords(*system)
    laws.assert_within_bars(laws.differences(whole, calculator, named, radial="exact", keywords=words))
    some = [pair for pair in named if pair[0] in ("sheared", "slab", "cluster")]
    laws.assert_within_bars(laws.differences(whole, calculator, some, keywords=words))
    laws.assert_mixed(laws.differences(whole, calculator, some, "mixed", keywords=words))


def test_what_is_not_said_is_what_fairchem_takes(whole, checkpoint):
    """A charge of 0; a spin of 1 for molecules, or else 0."""
    atoms = dict(laws.structures(ELEMENTS, checkpoint.backbone["cutoff"]))["cluster"]
    for task, spin in (("omat", 0), ("omol", 1)):
        run = laws.native(whole, radial="exact", keywords=("task", task))
        atoms.calc = checkpoint.calculator(task, 0, spin)
        assert abs(run(atoms).energy - atoms.get_potential_energy()) < SAME * 100
        other = checkpoint.calculator(task, 0, 1 - spin).get_potential_energy(atoms)
        assert abs(run(atoms).energy - other) > 1e-6, "the model does not test spins"


@pytest.mark.parametrize("extra", [(), ("reference", "yes"), ("check", "yes"), ("deterministic", "yes")])
def test_a_merged_file_gives_the_same(extra, folder, source, whole):
    merged = folder / "merged.equi"
    convert(source, merged, task="omol", charge=1, spin=2, composition="Na3Cl", quiet=True)
    atoms = bulk("NaCl", "rocksalt", 5.0, cubic=True)
    atoms.symbols[[1, 3]] = "Na"
    atoms.positions += 0.1 * np.random.default_rng(3).standard_normal((8, 3))
    one = native(whole, ("omol", 1, 2), extra)(atoms)
    two = laws.native(merged)(atoms)
    assert abs(one.energy - two.energy) < SAME * 100
    assert np.abs(one.forces - two.forces).max() < SAME * 100


@pytest.mark.parametrize("model_id", ["UMA-S-1.2", "UMA-S-1.2.1"])
def test_charges_are_balanced_over_all_atoms(model_id, folder):
    """The mixture of UMA-S-1.2 also depends on the number of atoms."""
    made = Checkpoint(
        num_experts=5, sphere_channels=18, model_id=model_id, charge_balanced_channels=[0, 1, 2], spin_balanced_channels=[4, 5]
    )
    convert(made.save(folder / f"{model_id}.pt"), folder / f"{model_id}.equi", quiet=True)
    named = laws.structures(ELEMENTS, made.backbone["cutoff"])
    for system in (("omol", -2, 3), ("omat", 0, 0)):
        words = keywords(*system)
        laws.assert_within_bars(
            laws.differences(folder / f"{model_id}.equi", made.calculator(*system), named, radial="exact", keywords=words)
        )
    atoms = dict(named)["slab"] * (2, 2, 1)
    atoms.calc = made.calculator("omol", 1, 2)
    for ranks, extra in ((1, ("reference", "yes")), (2, ()), (2, ("reference", "yes")), (5, ("check", "yes")), (5, ("deterministic", "yes"))):
        found = native(folder / f"{model_id}.equi", ("omol", 1, 2), extra + ("radial", "exact"), ranks=ranks)(atoms)
        assert abs(found.energy - atoms.get_potential_energy()) < SAME * len(atoms) * 10, (ranks, extra)
        assert np.abs(found.forces - atoms.get_forces()).max() < SAME * 1000, (ranks, extra)


def test_the_heat_flux_is_refused_where_energies_depend_on_all_atoms(folder, tmp_path):
    made = Checkpoint(charge_balanced_channels=[0, 1, 2])
    convert(made.save(folder / "balanced.pt"), folder / "balanced.equi", task="omat", quiet=True)
    commands = ["pair_style equi", f"pair_coeff * * {folder / 'balanced.equi'} Na Cl", "compute ke all ke/atom",
                "compute flux all equi/heat/flux", "thermo_style custom step c_flux[1]", "run 0"]  # fmt: skip
    output, status = script(tmp_path, commands)
    assert status != 0 and "sums over all atoms" in output, output


def test_ranks_agree(whole):
    atoms = dict(laws.structures(ELEMENTS, 4.0))["slab"] * (2, 2, 1)
    one, several = (native(whole, ("omol", 1, 2), ranks=n)(atoms) for n in (1, 3))
    assert abs(one.energy - several.energy) < SAME * len(atoms) * 10
    assert np.abs(one.forces - several.forces).max() < SAME * 100


# ---- scripts


def script(folder, commands, atoms=None, ranks=1):
    """(output, status) of LAMMPS for a crystal of Na and Cl and these commands."""
    atoms = atoms or bulk("NaCl", "rocksalt", 5.0, cubic=True) * (2, 1, 1)
    lammps_runner.write_data(folder / "data.system", atoms, ["Na", "Cl"], lammps_runner.lammps_box(atoms))
    lines = ["units metal", "box tilt large", "atom_modify map yes", "read_data data.system", "timestep 0.0005", *commands]
    (folder / "in.system").write_text("\n".join(lines) + "\n")
    lmp, mpirun = lammps_runner.lammps_programs(os.environ["EQUI_BUILD_DIR"])
    command = [str(mpirun), "-np", str(ranks), str(lmp), "-in", "in.system", "-log", "none"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr, done.returncode


def energies(output):
    return [float(line.split()[1]) for line in output.splitlines() if line.startswith("energy ")]


PRINT = ["variable e equal pe", 'print "energy $(v_e:%.15g)"']


@pytest.mark.parametrize("ranks", [1, 2])
def test_each_run_has_the_mixture_of_its_atoms(ranks, whole, checkpoint, tmp_path):
    atoms = bulk("NaCl", "rocksalt", 5.0, cubic=True) * (2, 1, 1)
    atoms.positions += 0.1 * np.random.default_rng(1).standard_normal(atoms.positions.shape)
    fewer = atoms[[k for k in range(len(atoms)) if k not in (2, 5)]]
    style = "pair_style equi precision double radial exact task omol"
    commands = [style, f"pair_coeff * * {whole} Na Cl", "thermo_modify norm no", "run 0", *PRINT,
                "group gone id 3 6", "delete_atoms group gone compress no", "run 0", *PRINT,
                f"{style} charge 1 spin 2", "run 0", *PRINT]  # fmt: skip
    output, status = script(tmp_path, commands, atoms, ranks)
    assert status == 0, output
    systems = ((0, 1, atoms), (0, 1, fewer), (1, 2, fewer))
    expected = [checkpoint.calculator("omol", charge, spin).get_potential_energy(which) for charge, spin, which in systems]
    assert np.abs(np.array(energies(output)) - expected).max() < 1e-10, (energies(output), expected)
    assert "a file for all systems, used for task omol, charge 0, spin 1 and the composition Na8Cl8" in output
    assert "used for task omol, charge 1, spin 2" in output
    assert "FAIR Chemistry License" in output


def test_more_atoms_of_the_same_fractions_have_the_same_mixture(whole, tmp_path):
    commands = ["pair_style equi precision double radial exact task omat", f"pair_coeff * * {whole} Na Cl", "thermo_modify norm no",
                "run 0", *PRINT, "replicate 1 2 1", "run 0", *PRINT]  # fmt: skip
    output, status = script(tmp_path, commands)
    assert status == 0 and output.count("a file for all systems, used for") == 1, output
    one, two = energies(output)
    assert abs(two - 2 * one) < 1e-10


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_composition_that_changes_in_a_run_is_noticed(ranks, whole, tmp_path):
    commands = ["pair_style equi task omat", f"pair_coeff * * {whole} Na Cl", "velocity all create 300 1", "fix move all nve",
                "run 3", "fix swap all atom/swap 1 20 5 1e9 ke no semi-grand yes types 1 2 mu 0 0", "run 5"]  # fmt: skip
    output, status = script(tmp_path, commands, ranks=ranks)
    assert status != 0 and "holds for the composition Na8Cl8 alone" in output and "start it anew" in output, output


def test_a_script_names_the_task_charge_and_spin(whole, tmp_path, capsys):
    bulk("NaCl", "rocksalt", 5.0, cubic=True).write(tmp_path / "POSCAR")
    command = ["data", str(tmp_path / "POSCAR"), "-o", str(tmp_path / "data.nacl"), "--model", str(whole), "--run", "relax"]
    assert main(command) == 1 and "--task omat | omol" in capsys.readouterr().err
    assert main([*command, "--task", "omol", "--charge", "-1", "--spin", "2"]) == 0
    text = (tmp_path / "in.relax").read_text()
    assert "pair_style      equi precision double task omol charge -1 spin 2\n" in text
    lmp, _ = lammps_runner.lammps_programs(os.environ["EQUI_BUILD_DIR"])
    done = subprocess.run(
        [str(lmp), "-in", "in.relax", "-var", "steps", "2", "-log", "none"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and "task omol, charge -1, spin 2" in done.stdout, done.stdout + done.stderr


def test_a_structure_of_another_composition_gets_no_script(folder, source, tmp_path, capsys):
    convert(source, tmp_path / "merged.equi", task="omat", composition="Na3Cl", quiet=True)
    bulk("NaCl", "rocksalt", 5.0, cubic=True).write(tmp_path / "POSCAR")
    command = ["data", str(tmp_path / "POSCAR"), "-o", str(tmp_path / "data.nacl"), "--model", str(tmp_path / "merged.equi")]
    assert main(command) == 1
    assert "holds for the composition Na3Cl alone, the structure is Cl4Na4" in capsys.readouterr().err
    assert main([*command, "--task", "omat"]) == 1


def test_two_files_are_a_committee(folder, whole, tmp_path):
    convert(Checkpoint(num_experts=3, sphere_channels=18, seed=2).save(folder / "second.pt"), folder / "second.equi", quiet=True)
    files = [whole, folder / "second.equi"]
    outputs = [
        script(tmp_path, ["pair_style equi precision double task omat", f"pair_coeff * * {' '.join(map(str, chosen))} Na Cl",
                          "thermo_modify norm no", "run 0", *PRINT])
        for chosen in (files[:1], files[1:], files)
    ]  # fmt: skip
    assert all(status == 0 for _, status in outputs), outputs
    one, two, both = (energies(output)[0] for output, _ in outputs)
    assert abs(one - two) > 1e-3 and abs(both - (one + two) / 2) < 1e-10


@pytest.mark.parametrize(
    "words, message",
    [
        ("", "has several tasks: choose one by the keyword task: omat omol"),
        ("task oc20", "no task oc20; the model has omat, omol"),
        ("task omol charge 101", "charge 101: the model knows those from -100 to 100"),
        ("task omol spin -1", "spin -1: the model knows those from 0 to 100"),
        ("task omol charge 0.5", "keyword charge must be a whole number, not 0.5"),
        ("task omol charge", "keyword charge needs a value"),
    ],
)
def test_what_the_model_does_not_know_is_refused(words, message, whole, tmp_path):
    output, status = script(tmp_path, [f"pair_style equi {words}", f"pair_coeff * * {whole} Na Cl", "run 0"])
    assert status != 0 and message in output, output


def test_other_files_take_no_charge(folder, source, tmp_path):
    convert(source, folder / "fixed.equi", task="omol", composition="NaCl", quiet=True)
    output, status = script(tmp_path, ["pair_style equi charge 1", f"pair_coeff * * {folder / 'fixed.equi'} Na Cl", "run 0"])
    assert status != 0 and "expected no task, charge, spin or other input" in output, output


# ---- the tool


def test_the_tool_says_what_the_file_is_for(whole, source, tmp_path, capsys):
    text = info.text(whole, info.summary(whole))
    mixed = "5 experts, mixed by task, charge, spin and composition when a run starts"
    assert f"for all systems: {mixed}; tasks omat omol" in text
    assert info.summary(whole)["mixture"] == {
        "tasks": ["omat", "omol"], "keywords": ["charge", "spin", "task"], "experts": 5, "composition": True,
    }  # fmt: skip
    with pytest.raises(EquiError, match="keyword of pair_style; name a --composition"):
        convert(source, tmp_path / "model.equi", charge=1, quiet=True)
    assert main(["convert", "-q", source, "-o", str(tmp_path / "omol.equi"), "--task", "omol"]) == 0
    assert info.summary(tmp_path / "omol.equi")["mixture"]["tasks"] == ["omol"]
    assert "energy jumps" not in capsys.readouterr().err
    run = laws.native(tmp_path / "omol.equi")
    atoms = Atoms("NaCl", [[0, 0, 0], [2.3, 0, 0]])
    assert abs(run(atoms).energy - native(whole, ("omol", 0, 1))(atoms).energy) < SAME * 100


def test_the_calculator_of_ase_takes_task_charge_and_spin(whole, checkpoint):
    atoms = Atoms("NaCl", [[0, 0, 0], [2.3, 0, 0.1]])
    atoms.calc = EquiCalculator(whole, radial="exact", task="omol")
    for charge, spin in ((0, 1), (1, 2)):
        atoms.calc.set(charge=charge, spin=spin)
        expected = checkpoint.calculator("omol", charge, spin).get_potential_energy(atoms)
        assert abs(atoms.get_potential_energy() - expected) < SAME * 100
    atoms.calc.close()
    for wrong in ({"charge": 0.5}, {"spin": "2"}, {"task": "omat check yes"}, {"task": ""}):
        with pytest.raises(InputError):
            EquiCalculator(whole, **wrong)


@pytest.mark.parametrize("changed", ["tensors", "tasks", "experts", "embedding"])
def test_damaged_files_are_refused(changed, whole, tmp_path):
    document, tensors = equi_file.read(whole)
    document.pop("data_hash")
    mixture = document["mixture"]
    if changed == "tensors":  # a tensor that is not made
        del mixture["tensors"]["backbone.sphere_embedding.weight"], mixture["tensors"]["backbone.blocks.0.edge_wise.so2_conv_1.fc_m0"]
        message = "of shape"
    elif changed == "tasks":
        mixture["tasks"].append({"name": "oc20", "spin": 0})
        message = "of shape [3, n]"
    elif changed == "experts":
        mixture["experts"]["weights"].reverse()
        message = "mixture.experts.weights[0]"
    else:
        tensors[mixture["embedding"]["bias"]] = tensors[mixture["embedding"]["bias"]][:-1]
        message = "mixture.embedding.bias"
    equi_file.write(tmp_path / "damaged.equi", document, tensors)
    output, status = script(tmp_path, ["pair_style equi task omat", f"pair_coeff * * {tmp_path / 'damaged.equi'} Na Cl", "run 0"])
    assert status != 0 and message in output, output
