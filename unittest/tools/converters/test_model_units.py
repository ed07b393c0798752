# SPDX-License-Identifier: MIT
"""Models in other units than eV and Angstrom: the conversion of documents, by a second reader of files, and the
messages about it."""

import json

import numpy as np
import pytest
from ase import Atoms, units
from built_models import built
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file, model_units
from equi_tools.document import is_of_clusters
from equi_tools.errors import EquiError
from equi_tools.model_units import ModelUnits

# Two evaluations in float64 of the same function, with other roundings of its factors.
SAME = 1e-12
# Together these have every quantity with a unit: harmonics that are not normalized, cutoff functions, bases and
# transforms of distances, cutoffs of pairs, repulsion before and after the scale, charges.
MODELS = (
    "tiny/raw_harmonics", "tiny/xplor", "nequip/zbl_cutoffs", "mace/agnesi", "mace/soft", "mace/gaussian", "matgl/exp_normal",
    "matgl/repulsion", "torchmd/charges", "torchmd/charges_of_clusters", "torchmd/old_gauss",
)  # fmt: skip


def test_factors_are_those_of_ase():
    known = {"eV": 1.0, "meV": 1e-3, "Hartree": units.Hartree, "kcal/mol": units.kcal / units.mol, "kJ/mol": units.kJ / units.mol}
    assert model_units.ENERGIES == pytest.approx(known, rel=1e-14)
    assert model_units.LENGTHS == pytest.approx({"Angstrom": 1.0, "Bohr": units.Bohr, "nm": units.nm}, rel=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_other_units_is_the_same_function(name, tmp_path):
    path = built(f"{name}.equi")
    document, tensors = equi_file.read(path)
    document.pop("self_check", None), document.pop("data_hash")
    other, theirs = ModelUnits("kcal/mol", "Bohr"), json.loads(json.dumps(document))
    E, L = other.factors
    scaled = dict(tensors)
    other.convert(theirs, scaled)
    assert theirs["cutoff"] == pytest.approx(L * document["cutoff"], rel=1e-15)
    equi_file.write(tmp_path / "bohr.equi", theirs, scaled)
    symbols = [document["elements"][n % len(document["elements"])] for n in (0, 1, 2, 0)]
    positions = np.array([[0, 0, 0], [1.7, 0.1, 0.2], [0.3, 1.9, 0.1], [0.2, 0.4, 0.93 * document["cutoff"]]])
    cell, pbc = np.diag([4.1, 4.3, 4.7]), not is_of_clusters(document)
    cell = cell if pbc else None
    energy, forces, stress, _ = EquiEvaluator(path).evaluate(symbols, positions, cell, [pbc] * 3)
    found = EquiEvaluator(tmp_path / "bohr.equi").evaluate(symbols, L * positions, L * cell if pbc else None, [pbc] * 3)
    assert np.abs(forces).max() > 1e-6, "the structure does not test the model"
    assert found[0] == pytest.approx(E * energy, rel=SAME)
    assert np.abs(found[1] - E / L * forces).max() < SAME * max(1.0, np.abs(forces).max())
    if pbc:
        assert np.abs(found[2] - E / L**3 * stress).max() < SAME * max(1.0, np.abs(stress).max())


def test_polynomials_of_a_distance_have_no_other_unit():
    body = {"cutoff": 5.0, "radial_basis": {"kind": "chebyshev", "size": 3, "cutoff_function": {"kind": "none"}},
            "layers": [{"type": "scale_shift", "scale": "scale", "shift": "shift"}]}  # fmt: skip
    tensors = {"scale": np.ones(1), "shift": np.ones(1)}
    ModelUnits("kJ/mol").convert(json.loads(json.dumps(body)), dict(tensors))
    with pytest.raises(EquiError, match="--length-unit: polynomials"):
        ModelUnits("eV", "nm").convert(body, tensors)


@pytest.mark.parametrize("options, expected", [(("ev",), "--unit ev: expected eV, meV"), (("eV", "pm"), "--length-unit pm: expected")])
def test_unknown_units_are_refused(options, expected):
    with pytest.raises(EquiError, match=expected):
        ModelUnits(*options)


def test_results_of_a_calculator_become_ours():
    """A harmonic bond between an atom and its image, in kJ/mol and nm, written by hand."""
    from ase.calculators.calculator import Calculator

    class Bond(Calculator):
        implemented_properties = ["energy", "forces", "stress"]

        def calculate(self, atoms, properties, changes):
            length = atoms.cell.lengths()[0]
            self.results = {"energy": 7.0 * length**2, "forces": np.array([[2.0, 0.0, 0.0]]), "stress": np.arange(6.0)}

    atoms = Atoms("H", cell=[3.0, 4.0, 5.0], pbc=True)
    atoms.calc = ModelUnits("kJ/mol", "nm").calculator(Bond())
    unit = units.kJ / units.mol
    assert atoms.get_potential_energy() == pytest.approx(7.0 * 0.3**2 * unit, rel=1e-14)
    assert atoms.get_forces()[0, 0] == pytest.approx(2.0 * unit / 10, rel=1e-14)
    assert atoms.get_stress() == pytest.approx(np.arange(6.0) * unit / 1000, rel=1e-14)
    same = Bond()
    assert ModelUnits().calculator(same) is same


def doubt(elements, shift, scale=1.0):
    tensors = {"shift": np.broadcast_to(shift, len(elements)), "scale": np.full(len(elements), scale)}
    return model_units.doubt({"elements": elements, "layers": [{"type": "scale_shift", "shift": "shift", "scale": "scale"}]}, tensors)


def test_energies_below_those_of_all_electrons_are_doubted():
    """Atoms of density functionals with all electrons in eV, the smallest possible energies, and the mean of a
    molecule."""
    electrons = {"H": -13.6, "C": -1029.8, "O": -2042.5, "Fe": -34600.0, "Au": -518000.0, "U": -763000.0}
    kcal = units.mol / units.kcal
    for symbol, energy in electrons.items():
        assert not doubt([symbol], energy)
        assert f"an atom of {symbol} is shifted" in doubt([symbol], energy * kcal)
        assert doubt(["H", symbol], [electrons["H"] * kcal, energy * kcal])
    assert not doubt(["H", "C"], -493.0) and doubt(["H", "C"], -493.0 * kcal)  # toluene's mean for both elements
    # Least squares for water only, which assign more to hydrogen.
    assert not doubt(["H", "O"], [2 * -2081.0 / 5, -2081.0 / 5])
    assert not doubt(["Li", "C"], -137.1, 12.7) and not doubt(["Cu"], 0.1)
    assert "energies of atoms are scaled by 30.6" in doubt(["H", "C"], 0.0, 30.6)
