# SPDX-License-Identifier: MIT
"""`equi check` names properties of a model: models that have them by construction, and models that have none."""

import json
import os

import numpy as np
import pytest
from ase.calculators.calculator import Calculator, all_changes
from built_models import built
from equi_evaluator import SecondReader
from equi_tools import equi_file, info, model_properties, self_check
from equi_tools.ase import EquiCalculator
from equi_tools.cli import main

BUILD = os.environ.get("EQUI_BUILD_DIR")


def names_of(file):
    """The properties of a model by name."""
    document, _ = equi_file.read(file)
    calculator = EquiCalculator(file, radial="exact")
    try:
        return {one.name: one for one in model_properties.examine(document, calculator)}
    finally:
        calculator.close()


def changed(name, folder, change):
    """A copy of a built model whose document and tensors `change` has changed."""
    document, tensors = equi_file.read(built(name))
    tensors = {key: np.array(values) for key, values in tensors.items()}
    change(document, tensors)
    path = str(folder / "changed.equi")
    equi_file.write(path, {**document, "self_check": []}, tensors)
    return path


@pytest.mark.parametrize("name", ["tiny/parity.equi", "tiny/xplor.equi", "tiny/one_element.equi", "mace/ell3.equi"])
def test_a_smooth_model_with_parity_has_none(name):
    assert names_of(str(built(name))) == {}
    assert info.summary(built(name))["has_mirror_symmetry"]


def test_a_cutoff_function_that_does_not_vanish_makes_a_jump(tmp_path):
    def without_cutoff_function(document, tensors):
        document["radial_basis"]["cutoff_function"] = {"kind": "none"}

    found = names_of(changed("tiny/parity.equi", tmp_path, without_cutoff_function))
    numbers = found["jump_at_cutoff"].numbers
    assert numbers["energy_eV"] > 1e3 * model_properties.JUMP_OF_ENERGY
    assert " jumps by " in found["jump_at_cutoff"].sentence and " ".join(numbers["pair"]) in found["jump_at_cutoff"].sentence
    # The same two energies, from an evaluation that shares no code with the pair style.
    evaluator, cutoff = SecondReader(str(tmp_path / "changed.equi")), equi_file.read(tmp_path / "changed.equi")[0]["cutoff"]
    energies = [model_properties.pair_at(evaluator, numbers["pair"], cutoff + shift)[0] for shift in (-1e-9, 1e-9)]
    assert abs(abs(energies[1] - energies[0]) - numbers["energy_eV"]) < 1e-4 * numbers["energy_eV"]


@pytest.mark.parametrize("name", ["tiny/plain.equi", "mace/so3.equi"])
def test_products_that_mix_parities_have_no_mirror_symmetry(name):
    found = names_of(str(built(name)))
    assert found["no_mirror_symmetry"].numbers["energy_eV_per_atom"] > model_properties.MIRROR
    assert "no mirror symmetry" in found["no_mirror_symmetry"].sentence
    assert "energies may differ, SO(3)" in info.text(name, info.summary(built(name)))


def add_repulsion(document, tensors, prefactor):
    """Adds the layer pair_repulsion, with which two atoms have the energy of `prefactor` in eV Angstrom."""
    species = len(document["elements"])
    for name, value in (("prefactor", prefactor), ("length", 0.1), ("cutoff", 0.9 * document["cutoff"])):
        tensors[f"repulsion.{name}"] = np.full((species, species), value)
    document["layers"].append(
        {"type": "pair_repulsion", "p": 6, "coefficients": [1.0], "exponents": [0.2],
         **{name: f"repulsion.{name}" for name in ("prefactor", "length", "cutoff")}}
    )  # fmt: skip


@pytest.mark.parametrize("prefactor, has_holes", [(-100.0, True), (100.0, False)])
def test_attraction_at_short_distance_is_a_hole(prefactor, has_holes, tmp_path):
    path = changed("tiny/parity.equi", tmp_path, lambda document, tensors: add_repulsion(document, tensors, prefactor))
    found = names_of(path)
    assert list(found) == (["hole"] if has_holes else [])
    if has_holes:
        assert found["hole"].numbers["holes"] == found["hole"].numbers["pairs"] == 6
        assert found["hole"].numbers["fall_eV"] > 50.0


class Curve(Calculator):
    """Pairs whose energy is a function of the distance."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, energy):
        super().__init__()
        self.energy = energy

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        self.results = {"energy": self.energy(atoms.get_distance(0, 1)), "forces": np.zeros((2, 3))}


def test_a_hole_is_measured_from_its_barrier():
    radius = model_properties.bond_length(("O", "O"))

    def energy(distance):
        x = distance / radius
        return 100 * (x - 1) ** 2 - (60 * (0.6 - x) / 0.2 if x < 0.6 else 0.0)

    barrier, fall, distance = model_properties.hole_of(Curve(energy), ("O", "O"), 5.0)
    # 16 eV above the bond at 0.6 of its length; at 0.4 of it the energy is 36 - 60 eV.
    assert abs(distance - 0.6 * radius) < 1.01 * model_properties.STEP * radius
    assert abs(barrier - 16.0) < 2.0 and abs(fall - 40.0) < 2.0
    barrier, fall, _ = model_properties.hole_of(Curve(lambda distance: 100 * (distance / radius - 1) ** 2), ("O", "O"), 5.0)
    assert fall == 0.0


def test_the_hole_with_the_lowest_barrier_is_named():
    falls = {("H", "H"): (8.0, 20.0, 0.4), ("H", "O"): (3.0, 5.0, 0.6), ("O", "O"): (9.0, 0.2, 0.7)}
    found = model_properties.hole(falls)
    assert found.numbers["pair"] == ["H", "O"] and "2 of 3 examined pairs" in found.sentence
    assert model_properties.hole({("O", "O"): (9.0, 0.2, 0.7)}) is None


def test_falls_are_from_the_highest_energy_before():
    assert model_properties.largest_fall([0.0, 1.0, 5.0, 3.0, 4.0, 1.0, 9.0]) == (2, 4.0)
    assert model_properties.largest_fall([0.0, 1.0, 2.0])[1] == 0.0


def test_pairs_are_of_few_elements():
    assert model_properties.pairs_of(["Si"]) == [("Si", "Si")]
    assert len(model_properties.pairs_of(["H", "C", "N", "O", "F", "Na", "Cl"])) == 15
    document = {"elements": ["Na"], "mixture": {"experts": {}}}
    assert "composition" in model_properties.not_examined(document) and not model_properties.not_examined({"elements": []})
    # Models with charges hold for two neutral atoms.
    assert not model_properties.not_examined({"elements": ["Na"], "mixture": {"tensors": {"total_charge": "charge"}}})


def test_jumps_are_looked_for_at_the_cutoffs_of_all_layers():
    """A Coulomb energy that is cut off at a distance of its own."""
    layers = [{"type": "readout"}, {"type": "coulomb", "cutoff": 12.0}, {"type": "pair_repulsion", "cutoff": "repulsion.cutoff"}]
    assert model_properties.cutoffs_of({"cutoff": 4.5, "layers": layers}) == [4.5, 12.0]
    curve = Curve(lambda distance: 0.25 / distance if distance < 12.0 else 0.0)
    document = {"elements": ["Na", "Cl"], "cutoff": 4.5, "layers": [*layers, {"type": "grid_network"}]}
    (found,) = [one for one in model_properties.examine(document, curve) if one.name == "jump_at_cutoff"]
    assert found.sentence.startswith("At the cutoff of 12 A") and abs(found.numbers["energy_eV"] - 0.25 / 12) < 1e-6


def test_a_calculator_without_stress_gives_values_to_store():
    """Deployed models of some frameworks have none."""

    class Deployed(Calculator):
        implemented_properties = ["energy", "forces"]

        def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
            super().calculate(atoms, properties, system_changes)
            self.results = {"energy": 1.0, "forces": np.zeros((len(atoms), 3))}

    document = {"elements": ["Na", "Cl"], "cutoff": 5.0, "layers": []}
    entries = self_check.entries(document, Deployed())
    assert entries and all(entry["stress"] is None and entry["energy"] == 1.0 for entry in entries)


def test_check_reports_properties_and_they_are_no_failures(tmp_path, capsys):
    def without_cutoff_function(document, tensors):
        document["radial_basis"]["cutoff_function"] = {"kind": "none"}

    path = changed("tiny/plain.equi", tmp_path, without_cutoff_function)
    words = ["--build-dir", BUILD] if BUILD else []
    assert main(["check", "-q", "--json", path, *words]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["properties"]}
    assert {"jump_at_cutoff", "no_mirror_symmetry"} <= found.keys()
    assert main(["check", "-q", path, *words]) == 0
    text = capsys.readouterr().out
    assert all(one["sentence"] in text for one in found.values())
    assert main(["check", "-q", str(built("tiny/parity.equi")), *words]) == 0
    assert "no jump at the cutoff" in capsys.readouterr().out


def test_sentences_are_stored_for_the_logs_of_runs(tmp_path):
    words = ["--build-dir", BUILD] if BUILD else []
    path = changed("tiny/plain.equi", tmp_path, lambda document, tensors: None)
    before, tensors = equi_file.read(path)
    assert main(["check", "-q", "--store", path, *words]) == 0
    document, same = equi_file.read(path)
    found = names_of(path)["no_mirror_symmetry"]
    assert found.sentence in document["provenance"].pop("properties")
    assert document == before and all((same[key] == tensors[key]).all() for key in tensors)
    assert "properties" not in model_properties.stored({"provenance": {"properties": "of an earlier version"}}, [])["provenance"]
