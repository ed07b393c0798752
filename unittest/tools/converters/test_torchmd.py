# SPDX-License-Identifier: MIT
"""TensorNet models of torchmd-net -> .equi: LAMMPS with the file against torchmd-net's own modules in float64.

Runs in the environment of tools/requirements-torchmd.txt.
"""

import subprocess
import sys
from functools import lru_cache

import numpy as np
import old_versions
import pytest
import tensornet_laws as laws
import torch
from ase import Atoms, units
from ase.build import bulk
from ase.calculators.calculator import CalculationFailed
from built_models import built, built_copy
from equi_tools import equi_file, frameworks, model_units
from equi_tools.ase import EquiCalculator
from equi_tools.cli import main
from equi_tools.errors import EquiError
from equi_tools.frameworks.torchmd import checkpoint as torchmd_checkpoint
from equi_tools.frameworks.torchmd import oracle as torchmd_oracle
from test_models import convert_with_reference as convert
from test_models.torchmd import (
    ELEMENTS,
    VARIANTS,
    is_of_clusters,
    make_checkpoint,
    make_variant,
    settings_of,
)

IN_EVERY_PRECISION = ("exp_normal", "old_gauss", "charged", "references", "charges")
REST = [pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS if name not in IN_EVERY_PRECISION]
# Two evaluations in float64 that differ only in the order of sums.
SAME = 1e-12
# A change of 1e-3 in any tensor changes energies or forces by more than this.
NOTICED = 1e-10


def source_of(name):
    return built(f"torchmd/{name}.ckpt")


def converted(name):
    return built(f"torchmd/{name}.equi")


@lru_cache(maxsize=None)
def oracle(name):
    settings = {key: value for key, value in settings_of(name).items() if value is not None}
    checkpoint, units_of_model = model_units.load(frameworks.TORCHMD, source_of(name), settings=settings)
    return units_of_model.calculator(torchmd_oracle.float64_calculator(checkpoint))


def structures(name):
    """The structures that a model holds for: clusters of 30 Angstrom, if its Coulomb energy includes all pairs of
    atoms."""
    named = laws.structures(ELEMENTS, oracle(name).cutoff)
    if not is_of_clusters(name):
        return named
    return [(structure, atoms) for structure, atoms in named if not atoms.pbc.any() and structure != "one_of_three_lonely"]


@pytest.fixture
def changed(tmp_path):
    """A checkpoint of a variant with changed hyper-parameters or tensors."""

    def change(name, options=None, tensors=None):
        raw = torch.load(source_of(name), weights_only=False)
        raw["hyper_parameters"].update(options or {})
        for key, function in (tensors or {}).items():
            raw["state_dict"][key] = function(raw["state_dict"][key])
        torch.save(raw, tmp_path / f"{name}.ckpt")
        return str(tmp_path / f"{name}.ckpt")

    return change


@pytest.mark.parametrize("name", VARIANTS)
def test_every_option_is_converted_exactly(name):
    laws.assert_within_bars(laws.differences(converted(name), oracle(name), structures(name), radial="exact"))
    atoms = structures(name)[0][1]
    atoms.calc = oracle(name)
    assert np.abs(atoms.get_forces()).max() > 1e-3, "the model does not test forces"
    assert is_of_clusters(name) or np.abs(atoms.get_stress()).max() > 1e-4, "the model does not test stresses"


@pytest.mark.parametrize("name", [*IN_EVERY_PRECISION, *REST])
def test_tables_and_mixed_precision_stay_within_their_bars(name):
    laws.assert_within_bars(laws.differences(converted(name), oracle(name), structures(name)))
    laws.assert_mixed(laws.differences(converted(name), oracle(name), structures(name), "mixed"))


@pytest.mark.slow
def test_the_shape_of_published_models(tmp_path):
    """128 channels, 2 layers, atomic numbers below 100."""
    source = make_variant("published", tmp_path)
    document = convert(source, tmp_path / "published.equi", unit="eV", quiet=True)
    assert len(document["elements"]) == 99
    calculator = torchmd_oracle.float64_calculator(torchmd_checkpoint.load(source))
    named = laws.structures(ELEMENTS, calculator.cutoff)
    laws.assert_within_bars(laws.differences(tmp_path / "published.equi", calculator, named, radial="exact"))
    laws.assert_within_bars(laws.differences(tmp_path / "published.equi", calculator, named))
    laws.assert_mixed(laws.differences(tmp_path / "published.equi", calculator, named, "mixed"))


@pytest.mark.parametrize(
    "name, ranks",
    [("exp_normal", 2), ("charged", 4), ("charges", 8), ("charges_of_clusters", 3), pytest.param("old", 2, marks=pytest.mark.slow)],
)
def test_ranks_agree(name, ranks):
    """Some of eight ranks have no atoms of a cluster."""
    named = dict(structures(name))
    atoms = named["cluster"] if is_of_clusters(name) else named["rocksalt"] * (2, 1, 1)
    assert laws.rank_error(converted(name), atoms, ranks) < laws.RANKS


@pytest.mark.parametrize("name", ["exp_normal", "charges", pytest.param("charged", marks=pytest.mark.slow)])
def test_the_virial_is_the_derivative_by_a_strain(name):
    # The derivative of a reaction field jumps at its cutoff; no pair crosses it in strains as small as the second.
    step = 2e-3 if name != "charges" else 3e-4
    assert laws.strain_error(converted(name), dict(structures(name))["sheared"], step) < laws.STRAIN


def test_oracle_is_torchmd_nets_model_with_all_pairs_of_a_molecule():
    """torchmd-net's own loader and forward, with the neighbors that its list would find."""
    calculator = oracle("charged")
    model = torchmd_oracle.load_model(calculator.checkpoint).double()
    positions = torch.tensor(np.random.default_rng(1).uniform(0, 2.5, (6, 3)), requires_grad=True)
    numbers = torch.tensor([11, 17, 8, 11, 17, 8])
    i, j = (index.reshape(-1) for index in torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij"))

    def all_pairs(positions, batch, box):
        vectors = positions[i] - positions[j]
        return torch.stack([i, j]), torch.where(i == j, 0.0, (vectors + (i == j)[:, None]).norm(dim=1)), vectors

    del model.representation_model.distance
    model.representation_model.distance = all_pairs
    energy, _ = model(numbers, positions, q=torch.tensor([2.0], dtype=torch.float64))
    energy.sum().backward()
    atoms = Atoms(numbers.tolist(), positions=positions.detach().numpy())
    atoms.calc = calculator
    assert abs(atoms.get_potential_energy() - energy.item()) < SAME * 10
    assert np.abs(atoms.get_forces() + positions.grad.numpy()).max() < SAME * 10


def test_a_supercell_has_the_energy_of_its_cells():
    """The replicas of the oracle: a cell below the cutoff, and four of them."""
    for name in ("primitive", "one_atom_cell", "slab"):
        atoms = dict(structures("exp_normal"))[name]
        atoms.calc = oracle("exp_normal")
        larger = atoms * (2, 2, 1)
        larger.calc = oracle("exp_normal")
        assert abs(larger.get_potential_energy() / 4 - atoms.get_potential_energy()) < SAME * 100
        assert np.abs(larger.get_forces()[: len(atoms)] - atoms.get_forces()).max() < SAME * 100


@pytest.mark.parametrize(
    "name", ["exp_normal", "gauss", "charged", *(pytest.param(name, marks=pytest.mark.slow) for name in ("charges", "charges_old"))]
)
def test_every_number_matters(name, tmp_path):
    laws.assert_every_number_matters(converted(name), tmp_path, NOTICED)


def test_both_orders_of_dimensions_are_one_function(tmp_path):
    """The same random numbers, stored in torchmd-net's present and its former order."""
    options = dict(embedding_dimension=5, num_layers=2)
    for name, old in (("new", False), ("old", True)):
        make_checkpoint(tmp_path / f"{name}.ckpt", old=old, **options)
        convert(tmp_path / f"{name}.ckpt", tmp_path / f"{name}.equi", unit="eV", elements=ELEMENTS, quiet=True)
    new, old = (equi_file.read(tmp_path / f"{name}.equi")[1] for name in ("new", "old"))
    assert all(np.array_equal(new[key], old[key]) for key in new)
    raw = [torch.load(tmp_path / f"{name}.ckpt", weights_only=False)["state_dict"] for name in ("new", "old")]
    key = "model.representation_model.layers.1.linears_scalar.2.weight"
    assert not torch.equal(raw[0][key], raw[1][key])


UNITS = {"eV": 1.0, "Hartree": units.Hartree, "kcal/mol": units.kcal / units.mol, "kJ/mol": units.kJ / units.mol, "meV": 1e-3}


@pytest.mark.parametrize("unit, factor", UNITS.items())
def test_units_are_those_of_ase(unit, factor, tmp_path):
    assert model_units.ENERGIES[unit] == pytest.approx(factor, rel=1e-14)
    document = convert(source_of("references"), tmp_path / "model.equi", unit=unit, elements=["Na"], quiet=True)
    _, tensors = equi_file.read(tmp_path / "model.equi")
    raw = torch.load(source_of("references"), weights_only=False)["state_dict"]
    assert tensors["scale"][0] == pytest.approx(1.75 * factor, rel=1e-6)
    assert tensors["shift"][0] == pytest.approx(raw["model.prior_model.0.atomref.weight"][11].item() * factor, rel=1e-12)
    assert document["provenance"]["energy_unit"] == unit and document["provenance"]["length_unit"] == "Angstrom"


def test_a_unit_must_be_said(tmp_path):
    for unit, expected in ((None, "does not store the unit of energies"), ("Rydberg", "--unit Rydberg")):
        with pytest.raises(EquiError, match=expected):
            convert(source_of("exp_normal"), tmp_path / "model.equi", unit=unit, quiet=True)


def test_charges_change_the_model_and_are_kept(tmp_path):
    entries = []
    for charge in (None, 2.0, -1.0):
        document = convert(source_of("charged"), tmp_path / "model.equi", unit="eV", charge=charge, elements=ELEMENTS, quiet=True)
        entries.append(document["self_check"][1]["energy"])
        assert document["provenance"].get("charge") == (None if charge is None else str(charge))
    assert len({round(energy, 8) for energy in entries}) == 3
    with pytest.raises(EquiError, match="trained without charges"):
        convert(source_of("exp_normal"), tmp_path / "none.equi", unit="eV", charge=1.0, quiet=True)


def test_the_total_charge_of_equilibrated_charges_is_that_of_the_file(tmp_path):
    """Without the option the charge is zero; the oracle has the same."""
    energies = []
    for charge in (None, 1.0, -1.0):
        document = convert(source_of("charges"), tmp_path / "model.equi", unit="eV", charge=charge, elements=ELEMENTS, quiet=True)
        energies.append(document["self_check"][1]["energy"])
        _, tensors = equi_file.read(tmp_path / "model.equi")
        assert np.all(tensors["total_charge"] == (1.0 if charge is None else charge)) and ("mixture" in document) == (charge is None)
    assert len({round(energy, 8) for energy in energies}) == 3


def test_the_total_charge_of_equilibrated_charges_is_a_keyword(tmp_path, capsys):
    """The charge of a file that was converted without one; the oracle has the same charge."""
    source, target = built_copy("torchmd/charges.ckpt", tmp_path), str(tmp_path / "model.equi")
    assert main(["convert", "-q", source, "-o", target, "--unit", "eV"]) == 0
    atoms = {name: atoms for name, atoms in laws.structures(ELEMENTS, 4.2) if name in ("sheared", "cluster")}
    found = {}
    for charge in (None, 0, 2, -1):
        calculator, oracle_of = EquiCalculator(target, radial="exact", charge=charge), torchmd_checkpoint.load(source, charge=charge)
        for name, structure in atoms.items():
            structure.calc = calculator
            found[charge, name] = structure.get_potential_energy()
            structure.calc = torchmd_oracle.float64_calculator(oracle_of)
            assert abs(found[charge, name] - structure.get_potential_energy()) < 1e-10 * len(structure)
        calculator.close()
    for name in atoms:
        assert found[None, name] == found[0, name] and len({round(found[charge, name], 8) for charge in (0, 2, -1)}) == 3
    assert main(["compare", "-q", target, source, "--builtin", "--radial", "exact", "--charge", "2"]) == 0
    assert main(["compare", "-q", target, source, "--builtin", "--charge", "0.5"]) == 1 and "whole numbers" in capsys.readouterr().err
    assert main(["info", target]) == 0 and "for all systems: charge is a keyword of pair_style" in capsys.readouterr().out
    for keywords, expected in ((dict(spin=2), "no spin: the model does not depend on it"), (dict(task="omol"), "the model has no tasks")):
        with pytest.raises(CalculationFailed, match=expected):
            EquiCalculator(target, **keywords).get_potential_energy(atoms["cluster"])


def test_a_coulomb_cutoff_may_be_chosen(tmp_path):
    """A checkpoint without a cutoff is only for clusters; with one it has a reaction field, like that of torchmd-net's
    loader."""
    target, charge = tmp_path / "model.equi", settings_of("charges_of_clusters")["charge"]
    convert(source_of("charges_of_clusters"), target, unit="eV", charge=charge, coulomb_cutoff=6.1, elements=ELEMENTS, quiet=True)
    document, _ = equi_file.read(target)
    assert document["provenance"]["coulomb_cutoff"] == "6.1"
    (layer,) = (layer for layer in document["layers"] if layer["type"] == "coulomb")
    assert layer["cutoff"] == 6.1 and layer["permittivity"] == 78.3
    calculator = torchmd_oracle.float64_calculator(
        torchmd_checkpoint.load(source_of("charges_of_clusters"), charge=charge, coulomb_cutoff=6.1)
    )
    named = [(name, atoms) for name, atoms in laws.structures(ELEMENTS, calculator.cutoff) if name in ("sheared", "slab", "cluster")]
    laws.assert_within_bars(laws.differences(target, calculator, named, radial="exact"))
    for name, given, expected in (
        ("exp_normal", 6.0, "the model has no Coulomb energy"), ("charges", -1.0, "expected a positive number of Angstrom"),
    ):  # fmt: skip
        with pytest.raises(EquiError, match=expected):
            convert(source_of(name), target, unit="eV", coulomb_cutoff=given, elements=ELEMENTS, quiet=True)


def test_a_coulomb_energy_of_all_pairs_refuses_periodic_images():
    """An atom with images at 25 Angstrom, a crystal with more images than a list holds, and an atom farther than 30
    Angstrom from others."""
    alone = Atoms("Na", cell=[25.0, 40.0, 40.0], pbc=[True, False, False])
    crystal = bulk("NaCl", "rocksalt", 5.64)
    for atoms in (alone, crystal, dict(laws.structures(ELEMENTS, 4.2))["one_of_three_lonely"]):
        with pytest.raises(EquiError, match="nearer than 30 Angstrom to each other.*--coulomb-cutoff"):
            laws.native(converted("charges_of_clusters"))(atoms)
    atoms = Atoms("NaCl", positions=[[0, 0, 0], [2.1, 0.3, 0]], cell=[40.0, 40.0, 40.0], pbc=True)
    result = laws.native(converted("charges_of_clusters"))(atoms)
    atoms.pbc = False
    assert abs(result.energy - laws.native(converted("charges_of_clusters"))(atoms).energy) < SAME


def test_elements_without_a_reference_are_refused(tmp_path):
    """The prior of this model ends at calcium."""
    with pytest.raises(EquiError, match="no energy for Ca; keep other elements"):
        convert(source_of("references"), tmp_path / "model.equi", unit="eV", quiet=True)
    document = convert(source_of("exp_normal"), tmp_path / "all.equi", unit="eV", quiet=True)
    assert document["elements"][0] == "H" and len(document["elements"]) == 39


def test_files_are_recognized_and_read_without_the_framework(tmp_path):
    assert frameworks.detect(source_of("exp_normal")) is frameworks.TORCHMD
    script = (
        "import sys; sys.modules['torch'] = sys.modules['torchmdnet'] = None\n"
        "from equi_tools.frameworks.torchmd import checkpoint as torchmd_checkpoint\n"
        "from equi_tools.frameworks.torchmd import convert as torchmd_convert\n"
        f"body, _ = torchmd_convert.convert(torchmd_checkpoint.load({str(source_of('exp_normal'))!r}))\n"
        "print(len(body['layers']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout) > 20, done.stderr


def test_the_commands_convert_and_compare(tmp_path, capsys):
    source, target = built_copy("torchmd/charged.ckpt", tmp_path), str(tmp_path / "model.equi")
    assert main(["convert", "-q", source, "-o", target]) == 1
    assert "--unit eV | meV" in capsys.readouterr().err
    assert main(["convert", "-q", source, "-o", target, "--unit", "eV", "--charge", "-1"]) == 0
    # Unit and charge are those of the file.
    assert main(["compare", "-q", target, source, "--builtin", "--radial", "exact"]) == 0
    assert main(["compare", "-q", target, source, "--builtin", "--radial", "exact", "--charge", "2"]) == 1
    assert main(["compare", "-q", target, source, "--builtin", "--calculator", "framework"]) == 0
    assert main(["convert", "-q", source, "-o", target, "--unit", "eV", "--types", "a=Na"]) == 1
    assert "--types" in capsys.readouterr().err


REFUSED = {
    "no charges": (dict(model="tensornet2"), "q_dim: expected a whole number"),
    "charges of another model": (dict(model="tensornet-nqe", q_dim=3), "charge_predict_0.* is missing"),
    "numbers of charges": (dict(model="tensornet2", q_dim=-1), "q_dim.*found -1"),
    "coulomb cutoff": (dict(model="tensornet2", q_dim=3, output_model="ScalarPlusWeightedCoulomb", coulomb_cutoff=0), "coulomb_cutoff"),
    "output layers": (
        dict(model="tensornet2", q_dim=3, output_model="ScalarPlusWeightedCoulomb", output_mlp_num_layers=-2), "output_mlp_num_layers",
    ),
    "transformer": (dict(model="equivariant-transformer"), "another architecture"),
    "unknown": (dict(model="other"), "other is not supported.*not known"),
    "coulomb": (dict(output_model="ScalarPlusWeightedCoulomb"), "its charges and Coulomb energies belong to TensorNet2"),
    "dipole": (dict(output_model="DipoleMoment"), "DipoleMoment is not supported"),
    "mean": (dict(reduce_op="mean"), "reduce_op mean"),
    "so3": (dict(equivariance_invariance_group="SO(3)"), "opposite orders and disagree"),
    "group": (dict(equivariance_invariance_group="SU(2)"), "not known"),
    "lower cutoff": (dict(cutoff_lower=1.0), "cutoff_lower 1.0 is not supported.*atoms nearer than that"),
    "filter": (dict(atom_filter=3), "atom_filter"),
    "box": (dict(box_vecs=[[9, 0, 0], [0, 9, 0], [0, 0, 9]]), "box_vecs"),
    "mish": (dict(activation="mish"), "activation mish"),
    "basis": (dict(rbf_type="bessel"), "rbf_type bessel"),
    "zbl": (dict(prior_model="ZBL", prior_args={}), "prior_model ZBL"),
    "d2": (dict(prior_model=["D2"]), "prior_model D2"),
    "coulomb prior": (dict(prior_model=[{"Coulomb": {}}]), "prior_model Coulomb"),
    "learnable": (dict(prior_model="LearnableAtomref"), "cannot make it"),
    "key": (dict(dispersion=True), "hyper-parameter dispersion is not known.*--ignore-key dispersion"),
    "keys": (dict(a=1, b=2), "hyper-parameters a, b are not known.*--ignore-key a --ignore-key b lets them pass"),
    "size": (dict(embedding_dimension=7), "expected the shape"),
    "layers": (dict(num_layers=1), "layers.1.* are not part of a TensorNet"),
    "more layers": (dict(num_layers=3), "layers.2.* is missing"),
}  # fmt: skip


# All versions on PyPI.
VERSIONS = ["2.4.9", "2.4.10", "2.5.0", "2.6.0", "2.6.1", "2.6.2", "3.0.0", "3.0.1", "3.0.2", "3.0.3", "3.1.0"]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_older_versions_agree(version, tmp_path):
    old_versions.run("made_by_torchmd.py", [f"torchmd-net=={version}"], tmp_path)
    results = sorted(tmp_path.glob("*.npz"))
    # Versions with charges: of clusters since 2.6, with a cutoff since 3.0.
    assert len(results) == (4 if version < "2.6" else 5 if version < "3" else 6)
    for result in results:
        settings = dict(unit="eV", charge=2.0 if result.stem == "charged" else None, elements=ELEMENTS)
        if version == "2.6.2":
            settings["framework_version"] = version
        found = old_versions.differences(result.with_suffix(".ckpt"), result, result.with_suffix(".equi"), **settings)
        laws.assert_within_bars(found)


def test_a_version_may_say_the_order_of_dimensions(changed, tmp_path, capsys):
    """torchmd-net 2.6.2 has the order of older versions and no option that shows it."""
    source = changed("exp_normal", {})
    words = ["convert", "-q", source, "--unit", "eV", "--elements", ",".join(ELEMENTS), "-o"]
    assert main([*words, str(tmp_path / "new.equi")]) == 0
    assert "whether torchmd-net 2.6.2 wrote it" in capsys.readouterr().err
    for version, order in (("2.6.2", "old"), ("3.0.1", "new")):
        assert main([*words, str(tmp_path / f"{version}.equi"), "--framework-version", version]) == 0
        assert "2.6.2" not in capsys.readouterr().err
        document, found = equi_file.read(tmp_path / f"{version}.equi")
        assert document["provenance"]["framework_version"] == version
        expected = equi_file.read(tmp_path / "new.equi")[1]
        name = "layers.0.linears_scalar.2.weight"
        assert np.array_equal(found[name], expected[name]) == (order == "new")
        command = ["compare", "-q", str(tmp_path / f"{version}.equi"), source, "--builtin", "--radial", "exact"]
        assert main(command) == 0
    assert main([*words, str(tmp_path / "x.equi"), "--framework-version", "new"]) == 1
    assert "--framework-version new: expected a version such as 2.6.2" in capsys.readouterr().err


@pytest.mark.parametrize("name,is_open", [("charges", False), ("charges_of_clusters", True)])
def test_a_cutoff_of_charges_says_the_order_of_dimensions(name, is_open):
    """torchmd-net 2.6.2 has no such option."""
    remarks = list(torchmd_checkpoint.load(source_of(name)).remarks)
    assert any("whether torchmd-net 2.6.2 wrote it" in remark for remark in remarks) == is_open


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused_by_name(case, changed, tmp_path):
    options, expected = REFUSED[case]
    source = changed("exp_normal", options)
    with pytest.raises(EquiError, match=expected) as error:
        convert(source, tmp_path / "refused.equi", unit="eV", elements=ELEMENTS, quiet=True)
    assert source in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "refused.equi").exists()


def test_an_unknown_key_may_be_let_pass(changed, tmp_path):
    source = changed("exp_normal", {"note": "text"})
    convert(source, tmp_path / "model.equi", unit="eV", elements=ELEMENTS, ignore_keys=["note"], quiet=True)
    assert (tmp_path / "model.equi").exists()


@pytest.mark.parametrize(
    "tensors, expected",
    [
        ({"model.mean": lambda t: t + 0.5}, "mean is 0.5: torchmd-net adds it once"),
        ({"model.representation_model.distance_expansion.betas": lambda t: -t}, "grow with the distance"),
        ({"model.representation_model.linear.weight": lambda t: t[:-1]}, "expected the shape"),
    ],
)
def test_numbers_that_cannot_be_represented_are_refused(tensors, expected, changed, tmp_path):
    with pytest.raises(EquiError, match=expected):
        convert(changed("exp_normal", tensors=tensors), tmp_path / "refused.equi", unit="eV", elements=ELEMENTS, quiet=True)


def test_other_checkpoints_are_not_ours(tmp_path):
    torch.save({"state_dict": {"a": torch.ones(2)}}, tmp_path / "other.ckpt")
    with pytest.raises(EquiError, match="not a checkpoint of torchmd-net"):
        torchmd_checkpoint.load(tmp_path / "other.ckpt")
    assert frameworks.detect(tmp_path / "other.ckpt") is not frameworks.TORCHMD
    with pytest.raises(EquiError, match="no such file"):
        torchmd_checkpoint.load(tmp_path / "absent.ckpt")
