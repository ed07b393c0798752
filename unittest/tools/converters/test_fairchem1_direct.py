# SPDX-License-Identifier: MIT
"""EquiformerV2 and eSCN of fairchem 1 -> .equi: LAMMPS with the file against the tests' second reader of model files.
The slow tests compare both with fairchem's own modules. All models have random numbers.

The slow tests run in the environment of tools/requirements-fairchem.txt, the others need no framework.
"""

import subprocess
import sys
from functools import lru_cache

import numpy as np
import pytest
import tensornet_laws as laws
import torch
from ase import Atoms
from ase.calculators.calculator import InputError, PropertyNotImplementedError
from ase.neighborlist import primitive_neighbor_list
from direct_checkpoint import checkpoint
from equi_evaluator import SecondReader
from equi_tools import equi_file, frameworks, self_check
from equi_tools.ase import EquiCalculator
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.frameworks.fairchem1 import checkpoint as fairchem1_checkpoint
from equi_tools.frameworks.fairchem1 import frames as fairchem1_frames
from equi_tools.frameworks.fairchem1 import oracle as fairchem1_oracle
from test_models.fairchem1 import DIRECTS, make_variant

# All numbers of both evaluations are in float64; forces are larger than 1 eV/Angstrom.
SAME = 1e-12
# Relative to the largest force: central differences of fourth order.
DIFFERENCES = 1e-7
# LAMMPS and a second reader in float64, with sums in another order, relative to the largest force if that exceeds 1
# eV/Angstrom.
DIRECT = 1e-9
ELEMENTS = ["Na", "Cl", "O"]
CASES = {
    "equiformer": dict(kind="equiformer_v2"),
    "equiformer_nearest": dict(kind="equiformer_v2", max_neighbors=7),
    "escn": dict(kind="escn"),
    "escn_nearest": dict(kind="escn", max_neighbors=7, mmax_list=[2]),
}


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Hides all interpreters that have fairchem."""
    monkeypatch.delenv("EQUI_PYTHON_FAIRCHEM", raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("direct")


@lru_cache(maxsize=None)
def converted(name, folder):
    torch.save(checkpoint(**CASES[name]), folder / f"{name}.pt")
    convert(folder / f"{name}.pt", folder / f"{name}.equi", quiet=True)
    return folder / f"{name}.equi"


def _is_a_seam(document, atoms):
    """Whether rounding decides which neighbors an atom sees, or the frame of one of its edges."""
    cell, cutoff = atoms.cell.complete(), document["cutoff"]
    i, d, vectors = primitive_neighbor_list("idD", atoms.pbc, cell, atoms.positions, cutoff)
    sizes = np.abs(vectors / d[:, None])
    if (np.abs(sizes - sizes.min(1, keepdims=True) - 1e-3) < 1e-9).any():
        return True
    rule = document["nearest_neighbors"]
    for atom in range(len(atoms)):
        squares = np.sort(d[i == atom] ** 2)
        if len(squares) <= rule["count"]:
            continue
        last = squares[rule["count"] if "tolerance" in rule else rule["count"] - 1]
        beyond = squares - last - rule["tolerance"] if "tolerance" in rule else squares[rule["count"] :] - last
        if np.abs(beyond).min() < 1e-9:
            return True
    return False


def structures(path):
    """Also with edges along axes and diagonals, whose directions have equal components."""
    document = equi_file.read(path)[0]
    diagonal = Atoms("NaCl2Na", [[0.1, 0.2, 0.3], [1.5, 1.6, 1.7], [-1.4, 1.7, 0.3], [0.1, 0.2, -2.1]])
    found = [*laws.structures(ELEMENTS, document["cutoff"]), ("diagonal", diagonal)]
    return [(name, atoms) for name, atoms in found if name != "slab" and not _is_a_seam(document, atoms)]


@pytest.mark.parametrize("name", CASES)
def test_files_are_evaluated_as_by_a_second_reader(name, folder):
    path = converted(name, folder)
    calculator, named = SecondReader(path), structures(path)
    assert len(named) >= 6
    laws.assert_within_bars(laws.differences(path, calculator, named, radial="exact"))
    # Tables of 600 Gaussians need half a minute and more.
    if CASES[name]["kind"] == "escn":
        laws.assert_within_bars(laws.differences(path, calculator, named))
    atoms = dict(named)["rocksalt"]
    atoms.calc = calculator
    assert np.abs(atoms.get_forces()).max() > 1e-2, "the model does not test forces"


@pytest.mark.parametrize("name", ["equiformer_nearest", "escn_nearest"])
def test_ranks_agree(name, folder):
    atoms = dict(structures(converted(name, folder)))["rocksalt"] * (2, 1, 1)
    assert laws.rank_error(converted(name, folder), atoms, 3, radial="exact") < laws.RANKS * 10


def _direct_forces(path, atoms, ranks=0, radial="exact"):
    return laws.native(path, radial=radial, ranks=ranks, keywords=("forces", "direct"))(atoms)


@pytest.mark.parametrize("name", CASES)
def test_direct_forces_are_those_of_a_second_reader(name, folder):
    path, largest = converted(name, folder), 0.0
    reader, document = SecondReader(path), equi_file.read(path)[0]
    for label, atoms in self_check.oriented(document, structures(path)):
        found = _direct_forces(path, atoms)
        atoms.calc = reader
        energy, expected = atoms.get_potential_energy(), reader.results["direct_forces"]
        largest = max(largest, np.abs(expected).max())
        assert found.stress is None
        assert abs(found.energy - energy) < DIRECT * max(1, abs(energy)), label
        assert np.abs(found.forces - expected).max() < DIRECT * max(1, np.abs(expected).max()), label
    assert largest > 0.1, "the model does not test direct forces"


@pytest.mark.parametrize("name", ["equiformer_nearest", "escn_nearest"])
def test_ranks_agree_about_direct_forces(name, folder):
    path = converted(name, folder)
    atoms = dict(structures(path))["rocksalt"] * (2, 1, 1)
    one, three = (_direct_forces(path, atoms, ranks).forces for ranks in (1, 3))
    assert np.abs(one - three).max() < DIRECT * max(1, np.abs(one).max())


def test_the_calculator_gives_direct_forces_and_no_stress(folder):
    path = converted("escn", folder)
    (_, atoms), *_ = self_check.oriented(equi_file.read(path)[0], structures(path))
    expected = _direct_forces(path, atoms, radial=None)
    atoms.calc = EquiCalculator(path, forces="direct")
    for _ in range(2):  # the second time in the same LAMMPS
        assert np.abs(atoms.get_forces() - expected.forces).max() < DIRECT
        with pytest.raises(PropertyNotImplementedError):
            atoms.get_stress()
        atoms.positions += 1e-16
    atoms.calc.set(forces="energy")
    assert np.abs(atoms.get_forces() - expected.forces).max() > 1e-2 and np.isfinite(atoms.get_stress()).all()
    atoms.calc.close()
    with pytest.raises(InputError, match="forces must be one of energy, direct, not head"):
        EquiCalculator(path, forces="head")


def test_files_without_direct_forces_refuse_the_keyword(folder):
    made = checkpoint("escn")
    made["state_dict"] = {name: value for name, value in made["state_dict"].items() if "force_block" not in name}
    torch.save(made, folder / "energy.pt")
    convert(folder / "energy.pt", folder / "energy.equi", quiet=True)
    document = equi_file.read(folder / "energy.equi")[0]
    assert (
        not any(layer["type"] == "direct_forces" for layer in document["layers"])
        and "which are left out" in document["provenance"]["notes"]
    )
    with pytest.raises(EquiError, match="expected a layer direct_forces"):
        _direct_forces(folder / "energy.equi", Atoms("NaCl", [[0, 0, 0], [2, 0, 0]]))


@pytest.mark.parametrize("words", [["check"], ["check", "--stored"]])
def test_direct_forces_are_not_those_that_are_stored(words, folder, capsys):
    assert main([*words, str(converted("escn", folder)), "--keywords", "forces direct"]) == 1
    assert "stored forces are derivatives of the energy: leave out the keyword forces" in capsys.readouterr().err


def test_a_mean_of_direct_forces_is_refused(folder):
    made = checkpoint("escn")
    made["normalizers"]["forces"]["mean"] = torch.tensor(0.2)
    torch.save(made, folder / "mean_force.pt")
    with pytest.raises(EquiError, match="normalizers: forces: the mean is 0.2"):
        convert(folder / "mean_force.pt", folder / "mean_force.equi", quiet=True)


def test_files_are_recognized_and_read_without_running_them(folder):
    source = str(converted("escn", folder).with_suffix(".pt"))
    assert frameworks.detect(source) is frameworks.FAIRCHEM1
    script = (
        "import sys; sys.modules['torch'] = sys.modules['fairchem'] = sys.modules['equiformer_v3'] = None\n"
        "from equi_tools import frameworks\n"
        "from equi_tools.frameworks.fairchem1 import checkpoint as fairchem1_checkpoint\n"
        f"body, _ = frameworks.FAIRCHEM1.convert(fairchem1_checkpoint.load({source!r}))\n"
        "print(body['architecture'], body['nearest_neighbors']['count'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == ["eSCN", "300"], done.stderr


def test_the_document_says_what_is_left_out(folder, capsys):
    document = equi_file.read(converted("equiformer", folder))[0]
    assert document["architecture"] == "EquiformerV2" and "max_neighbors" not in document
    assert document["nearest_neighbors"] == {"count": 300, "tolerance": 0.01}
    assert equi_file.read(converted("escn", folder))[0]["nearest_neighbors"] == {"count": 300}
    torch.save(checkpoint("equiformer_v2", mean=-0.75), folder / "mean.pt")
    assert main(["convert", "-q", str(folder / "mean.pt"), "-o", str(folder / "mean.equi")]) == 0
    said = capsys.readouterr().err
    for notes in (said, equi_file.read(folder / "mean.equi")[0]["provenance"]["notes"]):
        assert "not those of the heads" in notes and "adds -0.75 eV once" in notes and "smooth" in notes


def test_info_says_which_neighbors_an_atom_sees(folder, capsys):
    assert main(["info", str(converted("equiformer", folder))]) == 0
    said = capsys.readouterr().out
    assert "no cutoff function, 600 gaussian functions" in said and "at points (points 64" in said
    assert "an atom sees its 300 nearest neighbors and those whose squared distance is up to 0.01 Angstrom^2 greater" in said
    assert main(["info", str(converted("escn_nearest", folder))]) == 0
    assert "an atom sees its 7 nearest neighbors\n" in capsys.readouterr().out


def test_older_files_and_backbones_with_heads_mean_the_same(folder):
    expected = equi_file.read(converted("equiformer", folder))[0]["data_hash"]
    made = checkpoint("equiformer_v2")
    options = made["config"].pop("model")
    made["config"] |= {"model": options.pop("name"), "model_attributes": options}
    scale = made["normalizers"]["energy"]
    made["normalizers"] = {"target": {"mean": scale["mean"], "std": scale["rmsd"]}}
    torch.save(made, folder / "old.pt")
    convert(folder / "old.pt", folder / "old.equi", quiet=True)
    assert equi_file.read(folder / "old.equi")[0]["data_hash"] == expected
    made["config"] = {"model": {"name": "hydra", "backbone": {**options, "model": "equiformer_v2_backbone"},
                                "heads": {"e": {"module": "equiformer_v2_energy_head"},
                                    "s": {"module": "rank2_symmetric_head"}}}}  # fmt: skip
    made["config"]["model"]["heads"]["f"] = {"module": "equiformer_v2_force_head"}
    state = {name.removeprefix("module."): value for name, value in made["state_dict"].items()}
    prefixes = {"energy_block": "output_heads.e.", "force_block": "output_heads.f."}
    made["state_dict"] = {prefixes.get(name.split(".")[0], "backbone.") + name: value for name, value in state.items()}
    made["state_dict"]["output_heads.s.weight"] = torch.ones(3)
    torch.save(made, folder / "hydra.pt")
    convert(folder / "hydra.pt", folder / "hydra.equi", quiet=True)
    assert equi_file.read(folder / "hydra.equi")[0]["data_hash"] == expected


REFUSED = {
    "resolutions": ("equiformer_v2", dict(lmax_list=[4, 2]), r"lmax_list \[4, 2\] is not supported, only one resolution"),
    "orders": ("escn", dict(mmax_list=[1, 1]), "mmax_list .*only one resolution"),
    "attention": ("equiformer_v2", dict(use_s2_act_attn=True), "use_s2_act_attn True"),
    "gate": ("equiformer_v2", dict(use_gate_act=True), "use_gate_act True"),
    "norm of attention": ("equiformer_v2", dict(use_attn_renorm=False), "use_attn_renorm False"),
    "norm": ("equiformer_v2", dict(norm_type="rms_norm"), "norm_type rms_norm is not known"),
    "basis": ("escn", dict(distance_function="sigmoid"), "distance_function sigmoid"),
    "odd": ("equiformer_v2", dict(grid_resolution=9), "grid_resolution: expected an even number from 6 to 64, found 9"),
    "coarse": ("escn", dict(resolution=4), "resolution: expected an even number from 6"),
    "references": ("equiformer_v2", dict(use_energy_lin_ref=True), "use_energy_lin_ref without"),
    "option": ("escn", dict(dispersion=True), "option dispersion of escn is not known"),
    "no cell": ("equiformer_v2", dict(use_pbc=False), "use_pbc False"),
    "size": ("equiformer_v2", dict(sphere_channels=8), "expected the shape"),
    "layers": ("escn", dict(num_layers=1), "layer_blocks.1.* are not part of eSCN"),
    "spacing": ("escn", dict(distance_resolution=0), "distance_resolution: expected a positive number"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_are_not_supported_are_refused_by_name(case, tmp_path):
    kind, options, expected = REFUSED[case]
    made = checkpoint(kind)
    made["config"]["model"].update(options)
    torch.save(made, tmp_path / "refused.pt")
    with pytest.raises(EquiError, match=expected):
        convert(tmp_path / "refused.pt", tmp_path / "refused.equi", quiet=True)


def test_an_option_of_old_versions_that_they_do_not_use_is_ignored(tmp_path):
    made, hashes = checkpoint("escn"), []
    for name, options in (("plain", {}), ("old", {"use_grid": True})):
        made["config"]["model"].update(options)
        torch.save(made, tmp_path / f"{name}.pt")
        convert(tmp_path / f"{name}.pt", tmp_path / f"{name}.equi", quiet=True)
        hashes.append(equi_file.read(tmp_path / f"{name}.equi")[0]["data_hash"])
    assert hashes[0] == hashes[1]


HEADS = {
    "none": ({"f": {"module": "escn_force_head"}}, "heads: expected one of escn_energy_head, found 0 of 1"),
    "mean": ({"e": {"module": "escn_energy_head", "reduce": "mean"}}, "reduce mean is not supported, only sum"),
    "option": ({"e": {"module": "escn_energy_head", "scale": 2}}, "option scale of head e is not known"),
}


@pytest.mark.parametrize("case", HEADS)
def test_heads_without_a_sum_of_energies_are_refused(case, tmp_path):
    heads, expected = HEADS[case]
    made = checkpoint("escn")
    options = made["config"]["model"]
    made["config"]["model"] = {"name": "hydra", "backbone": {**options, "model": "escn_backbone"}, "heads": heads}
    torch.save(made, tmp_path / "refused.pt")
    with pytest.raises(EquiError, match=expected):
        convert(tmp_path / "refused.pt", tmp_path / "refused.equi", quiet=True)


@pytest.mark.parametrize("strictly, expected", [(True, 2), (False, 4)])
def test_neighbors_are_those_that_fairchem_takes(strictly, expected):
    """For squared distances 1, 2, 2.005, 2.009, 3: the two nearest, or all within the tolerance of the third."""
    squares = np.array([3.0, 2.009, 2.005, 1.0, 2.0, 9.0])
    receivers = np.array([0, 0, 0, 0, 0, 1])
    kept = fairchem1_frames.nearest_neighbors(receivers, squares, 2, strictly)
    assert kept.sum() == expected + 1 and kept[-1] and not kept[0]


# ---- with fairchem's own modules


@lru_cache(maxsize=None)
def made(name, folder):
    source = make_variant(name, folder)
    convert(source, folder / f"{name}.equi", quiet=True)
    return source, folder / f"{name}.equi", fairchem1_oracle.float64_calculator(source)


@pytest.mark.slow
@pytest.mark.parametrize("name", DIRECTS)
def test_the_file_says_to_a_second_reader_what_fairchem_finds(name, folder):
    _, model, calculator = made(name, folder)
    reader, named, largest = SecondReader(model), structures(model), 0.0
    assert len(named) >= 6
    for label, atoms in named:
        results = []
        for source in (reader, calculator):
            atoms.calc = source
            results.append(
                (atoms.get_potential_energy(), atoms.get_forces(), atoms.get_stress() if atoms.cell.volume > 1e-3 else np.zeros(6))
            )
        (energy, forces, stress), (energy0, forces0, stress0) = results
        largest = max(largest, np.abs(forces).max())
        assert abs(energy - energy0) < SAME * max(1, abs(energy0)), label
        assert np.abs(forces - forces0).max() < SAME * max(1, np.abs(forces0).max()), label
        assert np.abs(stress - stress0).max() < SAME * max(1, np.abs(stress0).max()), label
        direct, direct0 = (source.results["direct_forces"] for source in (reader, calculator))
        assert np.abs(direct - direct0).max() < SAME * max(1, np.abs(direct0).max()), label
    assert largest > 1e-2, "the model does not test forces"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["equiformer_v2", "equiformer_v2_l4", "escn", "escn_all_m"])
def test_forces_are_the_differences_of_energies_with_the_matrices_of_fairchem(name, folder, monkeypatch):
    """With fairchem's own matrices of rotations, which it does not differentiate, in equi's frames."""
    source, _, calculator = made(name, folder)

    def frames_alone(model, *args):
        model._init_edge_rot_mat = lambda data, edge_index, vectors: fairchem1_frames.rotations(vectors)

    for kind in ("equiformer", "escn"):
        monkeypatch.setattr(fairchem1_oracle, f"fix_of_{kind}", frames_alone)
    own = fairchem1_oracle.float64_calculator(source)
    atoms = dict(laws.structures(ELEMENTS, calculator.cutoff))["cluster"]
    atoms.calc = calculator
    forces, energy, step = atoms.get_forces(), atoms.get_potential_energy(), 5e-5
    atoms.calc = own
    assert abs(atoms.get_potential_energy() - energy) < SAME * max(1, abs(energy))
    found = np.zeros(3)
    for k in range(3):
        for factor, weight in ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12)):
            moved = atoms.copy()
            moved.positions[3, k] += factor * step
            moved.calc = own
            found[k] -= weight / step * moved.get_potential_energy()
    assert np.abs(found - forces[3]).max() < DIFFERENCES * max(1, np.abs(forces).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", DIRECTS)
def test_every_option_is_converted_exactly(name, folder):
    _, model, calculator = made(name, folder)
    named = structures(model)
    laws.assert_within_bars(laws.differences(model, calculator, named, radial="exact"))
    if DIRECTS[name]["kind"] == "escn":
        laws.assert_within_bars(laws.differences(model, calculator, named))


@pytest.mark.slow
def test_the_command_compares(folder):
    source, model, _ = made("equiformer_v2_hydra", folder)
    structure = folder / "cluster.xyz"
    dict(structures(model))["cluster"].write(structure)
    assert main(["compare", "-q", str(model), source, str(structure), "--radial", "exact"]) == 0
    assert main(["compare", "-q", str(model), source, str(structure), "--radial", "exact", "--keywords", "forces direct"]) == 0
    assert fairchem1_checkpoint.load(source).architecture == "equiformer_v2"


def test_readers_of_frames_agree():
    """Frames of the oracle are rotations of a direction to the y axis."""
    vectors = torch.tensor(np.random.default_rng(2).standard_normal((20, 3)))
    turns = fairchem1_frames.rotations(vectors)
    turned = torch.einsum("eab,eb->ea", turns, vectors / vectors.norm(dim=1, keepdim=True))
    assert (turned - torch.tensor([0.0, 1.0, 0.0])).abs().max() < 1e-14 and (torch.linalg.det(turns) - 1).abs().max() < 1e-14
