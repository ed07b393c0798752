# SPDX-License-Identifier: MIT
"""eSEN and UMA models of fairchem -> .equi: LAMMPS with the file against FAIRChemCalculator in float64. The random
models are built by fairchem's own constructors.

Runs in the environment of tools/requirements-fairchem.txt. test_esen.py needs no fairchem.
"""

from functools import lru_cache

import numpy as np
import old_versions
import pytest
import tensornet_laws as laws
from ase import Atoms
from built_models import built, built_copy
from equi_tools import equi_file
from equi_tools import structures as structures_of_tools
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.frameworks.fairchem import checkpoint as fairchem_checkpoint
from equi_tools.frameworks.fairchem import oracle as fairchem_oracle
from test_models.fairchem import COUNTED, VARIANTS, make_variant, settings_of

pytestmark = pytest.mark.slow

# A change of 1e-3 in any tensor changes energies or forces by more than this.
NOTICED = 1e-10
SAME = 1e-12
# fairchem merges experts in float32.
MERGED = 1e-6
ELEMENTS = ["Na", "Cl", "O"]


def source_of(name):
    return built(f"fairchem/{name}.pt")


def converted(name):
    return built(f"fairchem/{name}.equi")


def loaded(path, name):
    settings = settings_of(name)
    task = settings.pop("task")
    return fairchem_checkpoint.load(path, **settings), task


@lru_cache(maxsize=None)
def oracle(name):
    return fairchem_oracle.float64_calculator(*loaded(source_of(name), name))


def structures(path):
    document, _ = equi_file.read(path)
    named = laws.structures(ELEMENTS, document["cutoff"])
    # Edges along every axis, between atoms without symmetry.
    named.append(("axes", Atoms("NaCl2Na", [[0, 0, 0], [2.3, 0, 0], [0, 2.1, 0], [0, 0, -2.5]], cell=[5.1, 5.6, 6.0], pbc=True)))
    named += [(f"along_{axis}", Atoms("NaCl", [[0, 0, 0], np.eye(3)[k] * 2.3])) for k, axis in enumerate("xyz")]
    if "composition" in document:
        formula = [s for s, n in document["composition"].items() for _ in range(n)]
        named = [(label, atoms) for label, atoms in named if structures_of_tools.fits(document, atoms)]
        rng = np.random.default_rng(5)
        for label, pbc in (("random_cell", True), ("random_cluster", False)):
            points = np.array([[x, y, z] for x in range(3) for y in range(2) for z in range(2)]) * 2.4
            symbols = (formula * 12)[: 12 // len(formula) * len(formula)]
            atoms = Atoms(symbols, points[: len(symbols)] + 0.2 * rng.standard_normal((len(symbols), 3)))
            if pbc:
                atoms.set_cell([[7.2, 0, 0], [0.7, 4.9, 0], [-0.4, 0.3, 5.0]])
                atoms.pbc = True
            named.append((label, atoms))
    return named


@pytest.mark.parametrize("name", VARIANTS)
def test_every_option_is_converted_exactly(name):
    named = structures(converted(name))
    laws.assert_within_bars(laws.differences(converted(name), oracle(name), named, radial="exact"))
    laws.assert_within_bars(laws.differences(converted(name), oracle(name), named))
    atoms = named[-1][1]
    atoms.calc = oracle(name)
    assert np.abs(atoms.get_forces()).max() > 1e-2, "the model does not test forces"


@pytest.mark.parametrize("name", [name for name in VARIANTS if VARIANTS[name].get("norm_type") != "layer_norm"])
def test_mixed_precision_stays_within_its_bars(name):
    laws.assert_mixed(laws.differences(converted(name), oracle(name), structures(converted(name)), "mixed"))


# Energies per atom and forces of versions that compute only in float32.
SINGLE = 5e-6, 5e-5
VERSIONS = ["2.4.0", "2.8.0", "2.11.0", "2.13.0", "2.14.0", "2.15.0", "2.16.0", "2.18.0", "2.20.0", "2.22.0", "2.23.0"]


@pytest.mark.parametrize("version", VERSIONS)
def test_older_versions_agree(version, tmp_path):
    old_versions.run("made_by_fairchem.py", [f"fairchem-core=={version}"], tmp_path)
    is_double = (tmp_path / "precision.txt").read_text() == "double"
    for results in sorted(tmp_path.glob("*.npz")):
        settings = {"task": "omat"} | ({"composition": "NaCl"} if results.stem == "uma" else {})
        found = old_versions.differences(results.with_suffix(".pt"), results, results.with_suffix(".equi"), **settings)
        if is_double:
            laws.assert_within_bars(found)
        else:
            energy, force, stress = laws.worst(found)
            assert energy < SINGLE[0] and max(force, stress) < SINGLE[1]


@pytest.mark.parametrize("name, ranks", [("l2m2", 2), ("l3m2", 3), ("uma_charged", 4), ("l6m3", 2), ("balanced", 3), ("uma_balanced", 2)])
def test_ranks_agree(name, ranks):
    atoms = next(atoms for _, atoms in structures(converted(name)) if atoms.pbc.all() and len(atoms) > 2) * (2, 1, 1)
    assert laws.rank_error(converted(name), atoms, ranks) < laws.RANKS * 10


# With layer_norm_sh the last block's orders above zero would have no effect.
@pytest.mark.parametrize("name", ["l3m3", "task_heads", "uma", "waves"])
def test_every_number_matters(name, tmp_path):
    laws.assert_every_number_matters(converted(name), tmp_path, NOTICED)


@pytest.mark.parametrize("name", ["uma", "uma_charged", "uma_balanced"])
def test_experts_merged_by_fairchem_are_the_same_within_its_rounding(name):
    """fairchem's own merge, which rounds the mixed matrices to float32."""
    calculator = fairchem_oracle.float64_calculator(*loaded(source_of(name), name))
    predictor = calculator.calculator.predictor
    predictor.inference_settings.merge_mole = True
    label, atoms = structures(converted(name))[-1]
    result = laws.native(converted(name), radial="exact")(atoms)
    atoms.calc = calculator
    assert predictor.lazy_model_intialized is False
    assert abs(atoms.get_potential_energy() - result.energy) < MERGED * len(atoms)
    assert np.abs(atoms.get_forces() - result.forces).max() < MERGED
    assert type(predictor.model.module.backbone).__name__ == "eSCNMDBackbone"


@pytest.mark.parametrize("name", ["uma", "uma_charged", "uma_balanced", "uma_counted"])
def test_a_file_for_all_systems_is_mixed_for_each(name, tmp_path):
    """Every composition and every task, each with its own heads and references."""
    source = make_variant(name, tmp_path) if name in COUNTED else source_of(name)
    convert(source, tmp_path / "whole.equi", quiet=True)
    for task, charge, spin in (("omat", 0, 0), ("omol", 0, 1), ("omol", -1, 2)):
        calculator = fairchem_oracle.float64_calculator(fairchem_checkpoint.load(source, charge=charge, spin=spin), task)
        named = laws.structures(ELEMENTS, 4.2)
        keywords = ("task", task, "charge", str(charge), "spin", str(spin))
        laws.assert_within_bars(laws.differences(tmp_path / "whole.equi", calculator, named, radial="exact", keywords=keywords))


def test_a_file_for_all_systems_is_compared_by_the_command(tmp_path, capsys):
    source, target = built_copy("fairchem/uma.pt", tmp_path), str(tmp_path / "whole.equi")
    assert main(["convert", "-q", source, "-o", target]) == 0
    assert main(["compare", "-q", target, source, "--builtin", "--radial", "exact"]) == 1
    assert "--task omat | omol" in capsys.readouterr().err
    assert main(["compare", "-q", target, source, "--builtin", "--radial", "exact", "--task", "omol", "--charge", "1", "--spin", "2"]) == 0
    assert main(["compare", "-q", target, source, "--builtin", "--radial", "exact", "--task", "omat"]) == 0


@pytest.mark.parametrize("shape", ["esen_30m", "uma_s"])
def test_the_shapes_of_published_models(shape, tmp_path):
    """Channels, layers and orders of eSEN-30M and UMA-S; random numbers."""
    source = make_variant(shape, tmp_path)
    composition = settings_of(shape).get("composition")
    convert(source, tmp_path / "model.equi", **settings_of(shape), elements=None if composition else ["Si", "Na"], quiet=True)
    calculator = fairchem_oracle.float64_calculator(*loaded(source, shape))
    atoms = Atoms(
        "Si4", [[0, 0, 0], [2.3, 0.1, 0], [0.2, 2.2, 0.1], [0.1, 0.4, 2.4]], cell=[[4.4, 0, 0], [0.3, 4.5, 0], [0.1, 0.2, 4.7]], pbc=True
    )
    named = [("cell", atoms), ("cluster", Atoms("Si4", atoms.positions))]
    laws.assert_within_bars(laws.differences(tmp_path / "model.equi", calculator, named, radial="exact"))
    laws.assert_within_bars(laws.differences(tmp_path / "model.equi", calculator, named))
    laws.assert_mixed(laws.differences(tmp_path / "model.equi", calculator, named, "mixed"))


def test_the_commands_convert_and_compare(tmp_path, capsys):
    source, target = built_copy("fairchem/tasks.pt", tmp_path), str(tmp_path / "model.equi")
    assert main(["convert", "-q", source, "-o", target]) == 1
    assert "--task oc20 | omat | omol" in capsys.readouterr().err
    assert main(["convert", "-q", source, "-o", target, "--task", "omol", "--charge", "-1", "--spin", "2"]) == 0
    # Task, charge and spin are those of the file.
    assert main(["compare", "-q", target, source, "--builtin", "--radial", "exact"]) == 0
    assert main(["compare", "-q", target, source, "--builtin", "--radial", "exact", "--task", "oc20"]) == 1
    assert main(["compare", "-q", target, source, "--builtin", "--radial", "exact", "--charge", "0"]) == 1
    assert main(["compare", "-q", target, source, "--builtin", "--calculator", "framework"]) == 0


def test_experts_are_compared_for_their_composition(tmp_path, capsys):
    source, target = built_copy("fairchem/uma.pt", tmp_path), str(tmp_path / "model.equi")
    assert main(["convert", "-q", source, "-o", target, "--task", "omat", "--composition", "Na108Cl108"]) == 0
    assert "NaCl alone" in capsys.readouterr().err
    assert main(["compare", "-q", target, source, "--builtin", "--radial", "exact"]) == 0
    assert "left out, of another composition: MgO_2_atom_cell" in capsys.readouterr().out


def test_one_atom_is_evaluated_as_in_a_large_box():
    """fairchem looks up a single atom in a table, unless it has a box."""
    atoms = Atoms("Na", cell=np.eye(3) * 30, pbc=True)
    atoms.calc = oracle("l2m2")
    alone = Atoms("Na")
    alone.calc = oracle("l2m2")
    assert abs(atoms.get_potential_energy() - alone.get_potential_energy()) < SAME
