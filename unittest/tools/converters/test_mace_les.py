# SPDX-License-Identifier: MIT
"""MACE models with latent Ewald summation (MACELES): the file against mace itself, with a stand-in for the library of
the long-range energy that is written from the published formulas.

Runs in the Python environment of MACE (tools/requirements-mace.txt).
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file, model_units, self_check
from equi_tools.ase import EquiCalculator
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.common.oracle import default_dtype
from equi_tools.frameworks.mace import checkpoint as mace_checkpoint
from equi_tools.frameworks.mace import oracle as mace_oracle
from test_models import mace as mace_models

sys.path.append(str(Path(__file__).resolve().parents[3] / "potentials"))
import latent_ewald  # noqa: E402

latent_ewald.install()
mace_oracle.import_mace()
import torch  # noqa: E402

extensions = pytest.importorskip("mace.modules.extensions", reason="MACELES is part of later versions of mace")

ENERGY_TOLERANCE = 1e-9  # eV/atom
FORCE_TOLERANCE = 1e-7  # eV/A
# Differences of mace's energy by a strain: energies of hundreds of eV are rounded.
STRESS_TOLERANCE = 1e-7  # eV/A^3

STATED = {"les_sigma": 1.1, "les_dl": 2.3}
VARIANTS = {
    "plain": dict(elements=[8, 11, 17], hidden="13x0e+13x1o"),
    "float32": dict(elements=[11, 17], hidden="5x0e+5x1o", dtype="float32"),
    "one_layer": dict(elements=[14], hidden="5x0e", num_interactions=1),
    "three_layers": dict(elements=[11, 17], hidden="33x0e+33x1o", num_interactions=3, gate="tanh", zbl=True),
    "heads": dict(elements=[11, 17], hidden="5x0e+5x1o", heads=["pbe", "r2scan", "ccsd"], mlp=4),
    "last_readout": dict(elements=[11, 17], hidden="5x0e+5x1o", num_interactions=2, last_readout_only=True),
    "keep_last": dict(elements=[11, 17], hidden="5x0e+5x1o", keep_last_layer_irreps=True),
}  # fmt: skip


def make(path, arguments=None, seed=1, change=None, **options):
    """Writes a MACELES model with random numbers; returns its path as a string."""
    rng, given = np.random.default_rng(seed), mace_models.DEFAULTS | options
    torch.manual_seed(seed)
    dtype = getattr(torch, given.pop("dtype"))
    kind, options = mace_models._options_of_mace(given, rng)
    with default_dtype(dtype), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = mace_models._options_of_this_version(kind, options)
        model = extensions.MACELES(les_arguments={"spread": 1.1, "grid": 2.3} | (arguments or {}), **options)
        mace_models._randomize(model, rng)
        for name, parameter in model.named_parameters():
            if name.startswith("les_readouts") and parameter.numel():
                with torch.no_grad():
                    parameter.copy_(torch.as_tensor(rng.normal(0, 1.0, parameter.shape), dtype=parameter.dtype))
        if change:
            change(model)
        torch.save(model, path)
    return str(path)


def head_of(options):
    heads = options.get("heads", ["Default"])
    return heads[-1] if len(heads) > 1 else None


def structures(elements, cutoff):
    periodic = [atoms for _, atoms in self_check.structures(elements, cutoff) if atoms.pbc.all()]
    symbols = self_check.pick_elements(sorted(elements), 4)
    tall = Atoms(symbols, positions=[[0, 0, 0], [1.9, 0.3, 1.4], [0.2, 2.1, 3.0], [1.7, 1.8, 5.2]], cell=[4, 4, 40], pbc=True)
    return [*periodic, tall]


@pytest.mark.parametrize("name", VARIANTS)
def test_energies_forces_and_stresses_are_those_of_mace(name, tmp_path):
    options, path = VARIANTS[name], tmp_path / f"{name}.equi"
    head = head_of(options)
    source = make(tmp_path / f"{name}.model", **options)
    convert(source, path, quiet=True, head=head, **STATED)
    found = mace_checkpoint.load(source, **STATED)
    calculator = mace_oracle.float64_calculator(found, head)
    evaluator = EquiEvaluator(path)
    for atoms in structures(found.elements, found.cutoff):
        energy, forces, stress, energies = evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, atoms.cell.array, atoms.pbc)
        atoms.calc = calculator
        assert abs(energy - atoms.get_potential_energy()) < ENERGY_TOLERANCE * len(atoms)
        size = max(1.0, np.abs(atoms.get_forces()).max())
        assert np.abs(forces - atoms.get_forces()).max() < FORCE_TOLERANCE * size
        assert np.abs(energies - atoms.get_potential_energies()).max() < 10 * ENERGY_TOLERANCE
        assert np.abs(stress - atoms.get_stress()).max() < STRESS_TOLERANCE * max(1.0, np.abs(stress).max())
        assert abs(calculator.model.les(**latent(calculator, atoms))["E_lr"].item()) > 1e-3


def latent(calculator, atoms):
    """Arguments of the stand-in for random charges: its energy must matter."""
    charges = torch.linspace(-1.0, 1.5, len(atoms), dtype=torch.float64)
    as_tensor = lambda array: torch.tensor(array, dtype=torch.float64)  # noqa: E731
    batch = torch.zeros(len(atoms), dtype=torch.long)
    return dict(latent_charges=charges, positions=as_tensor(atoms.positions), cell=as_tensor(atoms.cell.array)[None], batch=batch)


def test_clusters_have_the_energy_of_all_pairs(tmp_path):
    path = tmp_path / "open.equi"
    source = make(tmp_path / "open.model", **VARIANTS["plain"])
    convert(source, path, quiet=True, les_boundary="open", **STATED)
    assert [layer["kernel"]["kind"] for layer in equi_file.read(path)[0]["layers"] if layer["type"] == "coulomb"] == ["erf"]
    found = mace_checkpoint.load(source, les_boundary="open", **STATED)
    cluster = next(atoms for _, atoms in self_check.structures(found.elements, found.cutoff) if not atoms.pbc.any())
    energy, forces, _, _ = EquiEvaluator(path).evaluate(cluster.get_chemical_symbols(), cluster.positions)
    cluster.calc = mace_oracle.float64_calculator(found)
    assert abs(energy - cluster.get_potential_energy()) < ENERGY_TOLERANCE * len(cluster)
    assert np.abs(forces - cluster.get_forces()).max() < FORCE_TOLERANCE * max(1.0, np.abs(cluster.get_forces()).max())


@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_charges_are_printed_and_scaled(factor, tmp_path):
    source, path = str(tmp_path / "scaled.model"), tmp_path / "scaled.equi"
    make(source, change=lambda model: setattr(model, "les_output_scale", factor), **VARIANTS["plain"])
    convert(source, path, quiet=True, **STATED)
    calculator = mace_oracle.float64_calculator(mace_checkpoint.load(source, **STATED))
    native = EquiCalculator(path, precision="double", radial="exact")
    for atoms in structures(calculator.elements, calculator.cutoff):
        atoms.calc = calculator
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        # mace up to 0.3.16 does not know the factor.
        charges = factor * calculator.observed["charges"]
        assert np.abs(charges).max() > 0.01
        atoms.calc = native
        assert np.abs(atoms.get_charges() - charges).max() < 1e-9 * max(1.0, np.abs(charges).max())
        if factor != 1.0:
            continue
        assert abs(atoms.get_potential_energy() - energy) < ENERGY_TOLERANCE * len(atoms)
        assert np.abs(atoms.get_forces() - forces).max() < FORCE_TOLERANCE * max(1.0, np.abs(forces).max())


def charges_and_derivatives(calculator, atoms):
    """mace's latent charges [N], and their derivatives by positions [j, i, axis] by autograd."""
    kept, calculate = {}, calculator.calculate_latent
    calculator.calculate_latent = lambda data: kept.update(data) or calculate(data)
    try:
        calculator.calculate(atoms)
    finally:
        del calculator.calculate_latent
    positions = kept["positions"].detach().clone().requires_grad_(True)
    with default_dtype(torch.float64), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        charges = calculator.model(kept | {"positions": positions}, compute_force=True, training=True)["latent_charges"].reshape(-1)
        rows = [torch.autograd.grad(q, positions, retain_graph=True)[0] for q in charges]
    return charges.detach().numpy(), torch.stack(rows).numpy()


@pytest.mark.parametrize("name", ["plain", "keep_last", "one_layer"])
def test_born_charges_are_derivatives_of_the_charges_of_mace(name, tmp_path):
    source, path = make(tmp_path / "born.model", **VARIANTS[name]), tmp_path / "born.equi"
    convert(source, path, quiet=True, **STATED)
    calculator = mace_oracle.float64_calculator(mace_checkpoint.load(source, **STATED))
    edge = 4.2 * calculator.cutoff  # two layers, so no atom feels two images of another
    cluster = structures(calculator.elements, calculator.cutoff)[-1]
    atoms = Atoms(cluster.symbols, positions=cluster.positions + [0.0, edge - 1.0, 0.5 * edge], cell=[edge] * 3, pbc=True)
    atoms.wrap()
    charges, derivatives = charges_and_derivatives(calculator, atoms)
    vectors = atoms.get_all_distances(mic=True, vector=True)  # [i, j] from i to j
    expected = charges[:, None, None] * np.eye(3) + np.einsum("jib,ija->iab", derivatives, vectors)
    native = EquiCalculator(path, radial="exact")
    found, of_charge = native.born_charges(atoms)
    assert np.abs(expected).max() > 0.1 and np.abs(of_charge).max() > 1e-3
    assert np.abs(found - expected).max() < 1e-8 and np.abs(of_charge - derivatives.sum(0)).max() < 1e-8
    # The formula of waves of the box has this limit; its error falls with the square of the length.
    periodic = []
    for size in (1.0, 2.0, 4.0):
        k = 2 * np.pi / (size * edge)
        formula = charges[:, None, None] * np.eye(3) + np.einsum("jib,ija->iab", derivatives, np.sin(k * vectors) / k)
        periodic.append(np.abs(formula - found).max())
    assert periodic[2] < 0.3 * periodic[1] < 0.15 * periodic[0]
    neutral, _ = native.born_charges(atoms, neutral=True)
    assert np.abs(neutral.sum(0)).max() < 1e-10


def test_energies_in_another_unit_are_scaled_and_charges_are_not(tmp_path):
    source = make(tmp_path / "unit.model", **VARIANTS["plain"])
    found = []
    for unit in ("eV", "kcal/mol"):
        path = tmp_path / f"{unit[0]}.equi"
        convert(source, path, quiet=True, unit=unit, **STATED)
        atoms = structures(equi_file.read(path)[0]["elements"], 5.0)[0]
        atoms.calc = EquiCalculator(path, precision="double", radial="exact")
        found.append((atoms.get_potential_energy(), atoms.get_charges()))
    (energy, charges), (scaled, same) = found
    assert abs(scaled - energy * model_units.ENERGIES["kcal/mol"]) < 1e-12 * abs(energy)
    assert np.array_equal(charges, same)


def convert_alone(source, folder, **options):
    convert(source, folder / "alone.equi", quiet=True, **(STATED | options))
    return equi_file.read(folder / "alone.equi")[:2]


@pytest.mark.parametrize(
    "arguments, stated, message",
    [
        ({}, {"les_sigma": None}, "needs --les-sigma"),
        ({}, {"les_dl": None}, "holds grid = 2.3, spread = 1.1"),
        ({"use_atomwise": True}, {}, "use_atomwise"),
        ({"sigma": 1.5}, {}, "sigma = 1.5"),
        ({"dl": 2.0}, {}, "dl = 2"),
    ],
)
def test_refuses_what_the_file_does_not_state(arguments, stated, message, tmp_path):
    keep = lambda model: [setattr(model.les, key, value) for key, value in arguments.items()]  # noqa: E731
    source = make(tmp_path / "refused.model", change=keep)
    with pytest.raises(EquiError, match=message):
        convert_alone(source, tmp_path, **stated)


def test_refuses_a_library_with_weights(tmp_path):
    source = make(tmp_path / "weights.model", change=lambda model: model.les.register_buffer("table", torch.ones(3)))
    with pytest.raises(EquiError, match="table"):
        convert_alone(source, tmp_path)


def test_refuses_the_options_for_other_models(tmp_path):
    source = mace_models.make_model(tmp_path / "other.model")
    with pytest.raises(EquiError, match="les-sigma"):
        convert(source, tmp_path / "other.equi", quiet=True, **STATED)
