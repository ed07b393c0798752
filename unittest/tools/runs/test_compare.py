# SPDX-License-Identifier: MIT
"""`equi check`, `equi compare` and `equi demo`: what they compare, and that they notice a difference.

If the tested build has the plugin (EQUI_BUILD_DIR or LAMMPS_PLUGIN_PATH), the native evaluation itself is run.
"""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk
from ase.io import write
from built_models import built
from equi_evaluator import EquiEvaluator
from equi_tools import compare, demo, equi_file, kernels, lammps_runner, run_log, self_check, structures
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.lammps_runner import Result
from test_models import sevenn as sevenn_models

BUILD = os.environ.get("EQUI_BUILD_DIR")


@pytest.fixture(scope="module")
def model():
    """Paths of a model and of the checkpoint that it was converted from."""
    return str(built("tiny/plain.equi")), str(built("tiny/plain.pth"))


class Evaluated:
    """Replaces compare.Native and evaluates with the Python evaluator; adds a chosen error."""

    precision, radial = "double", "exact"

    def __init__(self, model_file, energy=0.0, force=0.0, stress=0.0):
        self.model_file = model_file
        self.evaluator = EquiEvaluator(model_file)
        self.errors = energy, force, stress

    def __call__(self, atoms):
        energy, forces, stress, energies = self.evaluator.evaluate(
            atoms.get_chemical_symbols(), atoms.positions, atoms.cell.array if atoms.cell.rank == 3 else None, atoms.pbc
        )
        forces[0, 1] += self.errors[1]
        stress = None if stress is None else stress + self.errors[2]
        return Result(energy + self.errors[0], forces, stress, energies)


def test_check_passes_on_equal_numbers(model):
    lines = []
    assert compare.check(Evaluated(model[0]), quiet=True, write=lines.append) == 0
    assert "within the bars" in lines[-1]


@pytest.mark.parametrize("error, quantity", [
    (dict(energy=1e-8), "energy"), (dict(force=1e-8), "force"), (dict(stress=1e-8), "stress"),
    (dict(energy=np.nan), "energy"), (dict(force=np.nan), "force"), (dict(stress=np.nan), "stress"),
])  # fmt: skip
def test_check_notices_each_quantity_and_nan(model, error, quantity):
    lines = []
    failures = compare.check(Evaluated(model[0], **error), quiet=True, write=lines.append)
    assert failures >= 1
    assert any(f"MISSED: {quantity}" in line for line in lines)


def test_compare_asks_the_oracle(model):
    from equi_tools.frameworks.sevenn import oracle as sevenn_oracle

    oracle = sevenn_oracle.float64_calculator(model[1])
    document, _ = equi_file.read(model[0])
    chosen = compare.select_builtin(document, write=lambda line: None)
    assert len(chosen) >= 2
    bars = compare.bars_for("double", "exact")
    assert compare.compare(Evaluated(model[0]), oracle, chosen, bars, True, lambda line: None) == 0
    assert compare.compare(Evaluated(model[0], force=1e-6), oracle, chosen, bars, True, lambda line: None) == len(
        chosen
    )


def test_large_forces_are_compared_relatively():
    bars = compare.bars_for("double", "table")
    forces = np.array([[50.0, 0, 0], [-50.0, 0, 0]])
    result = Result(1.0, forces + 2e-5, None, None)
    assert not compare.difference("x", result, 1.0, forces, None, bars).missed()
    result = Result(1.0, forces + 2e-4, None, None)
    assert compare.difference("x", result, 1.0, forces, None, bars).missed() == ["force"]


def test_builtin_set_is_wide_and_reproducible():
    first, second = structures.builtin(), structures.builtin()
    assert len(first) >= 20
    elements = {e for _, atoms in first for e in atoms.get_chemical_symbols()}
    assert len(elements) >= 15
    for (name, a), (_, b) in zip(first, second):
        assert np.array_equal(a.positions, b.positions) and np.array_equal(a.cell.array, b.cell.array), name
        distances = a.get_all_distances(mic=True)[np.triu_indices(len(a), 1)]
        assert len(a) == 1 or distances.min() > 0.7, name


@pytest.mark.parametrize(
    "name, form", [("a.extxyz", "extxyz"), ("POSCAR", "vasp"), ("a.cif", "cif"), ("data.nacl", "lammps-data")]
)
def test_structures_are_read_from_the_usual_files(name, form, tmp_path):
    atoms = bulk("NaCl", "rocksalt", 5.6, cubic=True)
    atoms.rattle(0.1, seed=4)
    options = {"masses": True, "specorder": ["Na", "Cl"]} if form == "lammps-data" else {}
    write(tmp_path / name, atoms, format=form, **options)
    ((found, read),) = structures.read_files([tmp_path / name], ["Na", "Cl"] if form == "lammps-data" else None)
    assert found == name and read.pbc.all()
    assert sorted(read.get_chemical_symbols()) == sorted(atoms.get_chemical_symbols())
    ours = np.sort(read.get_all_distances(mic=True)[read.symbols == "Na"][:, read.symbols == "Cl"].ravel())
    theirs = np.sort(atoms.get_all_distances(mic=True)[atoms.symbols == "Na"][:, atoms.symbols == "Cl"].ravel())
    assert np.allclose(ours, theirs, atol=1e-5)


def test_our_own_data_files_are_read_back(tmp_path):
    atoms = bulk("NaCl", "rocksalt", 5.6)
    atoms.rattle(0.1, seed=4)
    lammps_runner.write_data(tmp_path / "data.x", atoms, ["Na", "Cl"], lammps_runner.lammps_box(atoms))
    ((_, read),) = structures.read_files([tmp_path / "data.x"])
    assert read.get_chemical_symbols() == ["Na", "Cl"]
    assert abs(read.get_distance(0, 1, mic=True) - atoms.get_distance(0, 1, mic=True)) < 1e-12


@pytest.mark.parametrize("arguments, expected", [
    (["compare", "MODEL", "7net-0"], "no structures"),
    (["compare", "MODEL", "7net-0", "missing.xyz"], "no such file"),
    (["compare", "MODEL", "7net-0", "FOREIGN"], "does not know Si"),
    (["compare", "MODEL", "7net-0", "TYPES"], "--symbols O,H"),
    (["compare", "MODEL", "7net-0", "TYPES", "--symbols", "Na,Si"], "does not know Si"),
    (["check", "MODEL", "--radial", "fast"], "--radial"),
    (["check", "missing.equi"], "cannot read"),
    (["demo", "--build-dir", "no-such-folder", "--model", "MODEL"], "no "),
])  # fmt: skip
def test_wrong_arguments_are_one_line(model, arguments, expected, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    write(tmp_path / "si.xyz", bulk("Si"))
    rows = "1 1 1 1 1\n2 2 4 4 4\n"
    box = "0 8 xlo xhi\n0 8 ylo yhi\n0 8 zlo zhi\n"
    (tmp_path / "conf.lmp").write_text(f"no masses\n\n2 atoms\n2 atom types\n{box}\nAtoms # atomic\n\n{rows}")
    names = {"MODEL": model[0], "FOREIGN": str(tmp_path / "si.xyz"), "TYPES": str(tmp_path / "conf.lmp")}
    words = [names.get(a, a) for a in arguments]
    assert main([words[0], "-q", *words[1:]]) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1 and expected in message


def test_thermo_output_is_read(tmp_path):
    log = tmp_path / "log"
    log.write_text("units metal\nStep Temp PotEng\n 0 1.0 -3\n 20 2.5 -4\nLoop time of 1 on 1 procs for 20 steps with 8 atoms\n")
    row = run_log.read(log)[-1].last()
    assert row == {"Step": 20.0, "Temp": 2.5, "PotEng": -4.0}
    log.write_text("nothing")
    with pytest.raises(EquiError):
        run_log.read(log)


def test_demo_runs_the_example_and_reports_it(model, tmp_path, monkeypatch, capsys):
    """The whole driver with LAMMPS itself, and a Lennard-Jones crystal in place of the potential."""
    pair = ["pair_style lj/cut 6.0", "pair_coeff * * 0.2 2.4", 'print "  memory: 1.0 MB for 216 atoms, 4.6 kB/atom"']
    source = Path(__file__).resolve().parents[3] / "examples" / "nacl"
    text = (source / demo.SCRIPT).read_text()
    assert re.search(r"^pair_style +equi", text, re.M) and re.search(r"^pair_coeff .*Na Cl$", text, re.M)
    (tmp_path / demo.SCRIPT).write_text(re.sub(r"^pair_style.*\n^pair_coeff.*", "\n".join(pair), text, flags=re.M))
    (tmp_path / "data.nacl").write_text((source / "data.nacl").read_text())
    lmp, mpirun = shutil.which("lmp"), shutil.which("mpirun")
    monkeypatch.setattr(demo, "_example_folder", lambda build_dir: tmp_path)
    monkeypatch.setattr(lammps_runner, "equi_commands", lambda *args: pair)
    monkeypatch.setattr(lammps_runner, "lammps_programs", lambda build_dir: [lmp, mpirun])
    monkeypatch.setattr(compare, "check", lambda *args, **options: 0)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert demo.demo(BUILD, model[0], steps=40, quiet=True, picture=tmp_path / "run.png") == 0
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    output = capsys.readouterr().out
    # The threads that the pair style would plan, not LAMMPS's own single one.
    threads = kernels.machine(1, BUILD)["threads"]
    assert f"using {threads} OpenMP thread(s) per MPI task" in output and f"1 rank of {threads} thread" in output
    assert re.search(r"^atoms +216$", output, re.M)
    for quantity in ("potential energy", "temperature", "pressure", "density", "time per atom and step", "memory per atom"):
        assert re.search(rf"^{quantity} +-?[\d.]+ ", output, re.M), quantity
    assert demo.demo(BUILD, model[0], steps=40, quiet=True, as_json=True) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["atoms"] == 216 and facts["memory"] == 4.6 and facts["microseconds"] > 0 and facts["density"] > 0
    monkeypatch.setattr(compare, "check", lambda *args, **options: 2)
    assert demo.demo(BUILD, model[0], steps=40, quiet=True) != 0


def test_self_check_structures_reach_the_cutoff_and_stay_apart():
    for cutoff in (2.5, 4.0, 6.0):
        for name, atoms in self_check.structures(["Si"], cutoff):
            repeated = atoms * (2, 2, 2) if atoms.pbc.all() else atoms
            distances = repeated.get_all_distances(mic=True)[np.triu_indices(len(repeated), 1)]
            assert 0.4 * min(2.6, 0.7 * cutoff) < distances.min() < cutoff, name


needs_plugin = pytest.mark.skipif(
    BUILD is None and "LAMMPS_PLUGIN_PATH" not in os.environ and "EQUI_PLUGIN" not in os.environ,
    reason="the native evaluation is tested in a build (EQUI_BUILD_DIR)",
)


@needs_plugin
@pytest.mark.parametrize("name", sevenn_models.VARIANTS)
def test_native_evaluation_of_every_option(name):
    lines = []
    native = compare.Native(str(built(f"tiny/{name}.equi")), "double", "exact", build_dir=BUILD)
    assert compare.check(native, quiet=True, write=lines.append) == 0, "\n".join(lines)


@needs_plugin
def test_values_of_the_framework_are_stored_after_a_comparison_that_passes(model, tmp_path, capsys):
    converted, target = convert(model[1], tmp_path / "alone.equi", quiet=True), str(tmp_path / "alone.equi")
    assert converted["self_check"] == []
    assert main(["check", "--stored", "-q", target]) == 1
    assert "'equi compare FILE.equi SOURCE --store' adds them" in capsys.readouterr().err
    assert main(["info", target]) == 0
    assert "stores no values of sevenn" in capsys.readouterr().out
    command = ["compare", "-q", target, model[1], "--store", *(["--build-dir", BUILD] if BUILD else [])]
    assert main([*command, "--precision", "mixed"]) == 1 and "--store" in capsys.readouterr().err
    assert main(command) == 0
    capsys.readouterr()
    (document, tensors), (expected, same) = equi_file.read(target), equi_file.read(model[0])
    # The framework's own numbers are the same up to rounding: its products do not repeat every bit in another process.
    assert len(document["self_check"]) == len(expected["self_check"]) and document["framework"] == expected["framework"]
    for found, wanted in zip(document["self_check"], expected["self_check"]):
        assert found.keys() == wanted.keys()
        for key in found:
            if key in ("energy", "forces", "stress") and found[key] is not None:
                assert np.allclose(found[key], wanted[key], rtol=1e-12, atol=1e-12), key
            else:
                assert found[key] == wanted[key], key
    assert all(np.array_equal(tensors[name], same[name]) for name in same) and document["data_hash"] == expected["data_hash"]
    assert main(["check", "-q", target, *(["--build-dir", BUILD] if BUILD else [])]) == 0
    # No values are stored for a model that gives other numbers.
    name = next(name for name in tensors if "weight_nn" in name)
    equi_file.write(target, {**document, "self_check": []}, {**tensors, name: 1.01 * tensors[name]})
    assert main(command) == 1
    assert equi_file.read(target)[0]["self_check"] == []


@needs_plugin
@pytest.mark.parametrize(
    "source, file", [("7net-0", "sevennet-0.equi"), pytest.param("7net-l3i5", "sevennet-l3i5.equi", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "precision, radial", [("double", "exact"), pytest.param("double", None, marks=pytest.mark.slow), ("mixed", None)]
)
def test_accuracy_bar_on_the_builtin_structures(source, file, precision, radial):
    command = ["compare", "-q", str(built(file)), source, "--builtin", "--precision", precision]
    command += ["--radial", radial] if radial else []
    command += ["--build-dir", BUILD] if BUILD else []
    assert main(command) == 0
