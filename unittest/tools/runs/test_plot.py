# SPDX-License-Identifier: MIT
"""Pictures, without a display: `equi plot` and `equi compare --plot`, and comparisons of the numbers in them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk
from built_models import built
from equi_evaluator import EquiEvaluator
from equi_tools import info, kernels, plot, run_log
from equi_tools.cli import main
from equi_tools.errors import EquiError

ROOT = Path(__file__).resolve().parents[3]
BUILD = os.environ["EQUI_BUILD_DIR"]
LOG = ROOT / "examples" / "nacl" / "log.21Nov2026.nvt.1"
# Relative rounding of six printed digits.
PRINTED = 1e-5


def is_picture(path):
    data = Path(path).read_bytes()
    return len(data) > 5000 and (data.startswith((b"\x89PNG", b"%PDF")) or b"<svg" in data[:2000])


@pytest.mark.parametrize("name", ["tiny/plain.equi", "mace/plain.equi", "nequip/basis.equi"])
def test_radial_functions_are_those_of_the_other_evaluator(name):
    import torch

    evaluator = EquiEvaluator(built(name))
    elements = evaluator.document["elements"]
    receiver, sender = elements[0], elements[-1]
    tables = kernels.radial(built(name), receiver, sender, 7)
    convolutions = {k: layer for k, layer in enumerate(evaluator.document["layers"]) if layer["type"] == "convolution"}
    assert tables.keys() == convolutions.keys() and tables
    species = torch.tensor([0, len(elements) - 1])
    for k, layer in convolutions.items():
        distances, values = tables[k]
        r = torch.tensor(distances)
        i, j = torch.zeros(len(r), dtype=torch.long), torch.ones(len(r), dtype=torch.long)
        net = layer["radial"]
        basis = evaluator.radial_basis(r, species[i], species[j])
        weights = evaluator.radial_network(net, basis, species, i, j)
        if net.get("times_cutoff"):
            weights = weights * evaluator.cutoff_function(r)[:, None]
        blocks_in, blocks_out = evaluator.irreps(layer["irreps_in"]), evaluator.irreps(layer["irreps_out"])
        column = 0
        for path, found in zip(layer["paths"], values.transpose(1, 0, 2), strict=True):
            size = blocks_in[path["in"]][0]
            if path.get("connection", "uvu") == "uvw":
                size *= blocks_out[path["out"]][0]
            w = (weights[:, column : column + size] * r[:, None] ** path.get("r_power", 0)).numpy()
            column += size
            expected = np.stack([np.sqrt((w**2).mean(axis=1)), w.min(axis=1), w.max(axis=1)], axis=1)
            np.testing.assert_allclose(found, expected, rtol=PRINTED, atol=PRINTED * np.abs(w).max())
        assert column == weights.shape[1]


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_a_model_is_drawn_without_a_display(suffix, tmp_path):
    """Uses the command of the build, in an environment that names a window toolkit and no display."""
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"} | {"MPLBACKEND": "TkAgg"}
    picture = tmp_path / f"radial{suffix}"
    done = subprocess.run([Path(BUILD) / "bin" / "equi", "plot", built("tiny/plain.equi"), "-o", picture, "--json"], text=True,
                          env=environment, capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    layers = [layer for layer in info.summary(built("tiny/plain.equi"))["layers"] if "paths" in layer]
    assert [" ".join(c["paths"]) for c in facts["convolutions"]] == [layer["paths"] for layer in layers]
    assert is_picture(picture)


def test_radial_networks_that_read_features_have_no_functions(monkeypatch, tmp_path):
    table = (np.linspace(0.5, 5, 4), np.arange(36.0).reshape(4, 3, 3))
    layers = [k for k, layer in enumerate(info.summary(built("tiny/plain.equi"))["layers"]) if "paths" in layer]
    monkeypatch.setattr(kernels, "radial", lambda *words: {layers[0]: table, layers[1]: None})
    facts = plot.make(built("tiny/plain.equi"), tmp_path / "a.png")
    assert facts["convolutions"][1]["largest"] is None and "depends on features" in plot.text(facts)


def log_of(energies, units="metal", timestep=None, name="TotEng", command="run", step=10, ended=True):
    """A log as LAMMPS writes it."""
    rows = "".join(f"{step * k:10d} {300.0:14.6f} {energy:22.15g}\n" for k, energy in enumerate(energies))
    end = "Loop time of 2.5 on 1 procs for 40 steps with 64 atoms\n\nMPI task timing breakdown:\n" \
          "Section |  min time  |  avg time  |  max time  |%varavg| %total\n---------\n" \
          "Pair    | 2.0        | 2.0        | 2.0        |   0.0 | 80.00\nOther   |            | 0.5        |            |       | 20.00\n\n"  # fmt: skip
    step_line = "" if timestep is None else f"timestep        {timestep}\n"
    return (
        f"units           {units}\n  64 atoms\n{step_line}{command}             40\n   Step          Temp          {name}\n{rows}"
        + end * ended
    )


@pytest.mark.parametrize("units, timestep, picoseconds, ev", [
    ("metal", None, 0.001, 1.0), ("metal", 0.002, 0.002, 1.0), ("real", None, 0.001, 0.0433641), ("real", 0.5, 0.0005, 0.0433641),
])  # fmt: skip
def test_the_drift_is_the_slope_per_atom_and_picosecond(units, timestep, picoseconds, ev, tmp_path):
    slope = -3.2e-4  # of the log's unit of energy per step
    (tmp_path / "log").write_text(log_of([-200 + slope * 10 * k for k in range(5)], units, timestep))
    (run,) = run_log.read(tmp_path / "log")
    assert run.atoms == 64 and run.breakdown == {"Pair": (2.0, 80.0), "Other": (0.5, 20.0)}
    assert run.drift() == pytest.approx(1e3 * slope * ev / picoseconds / 64, rel=1e-9)


def test_the_conserved_quantity_comes_before_the_energy_and_a_running_job_is_read(tmp_path):
    (tmp_path / "log").write_text(log_of([0, 1, 2, 3], name="Econserve", ended=False))
    (run,) = run_log.read(tmp_path / "log")
    assert run.conserved()[0] == "Econserve" and run.breakdown == {}
    assert plot.make(tmp_path / "log", tmp_path / "a.png")["breakdown"] == {}


def test_a_minimization_has_no_drift_and_the_last_run_is_drawn(tmp_path):
    (tmp_path / "log").write_text(log_of([1, 2, 3]) + log_of([5, 4, 3, 2], command="minimize"))
    runs = run_log.read(tmp_path / "log")
    assert [run.drift() is None for run in runs] == [False, True]
    assert plot.make(tmp_path / "log", tmp_path / "a.png")["picoseconds"] == pytest.approx(0.02)


def test_a_log_of_the_examples(tmp_path, capsys):
    assert main(["plot", str(LOG), "-o", str(tmp_path / "a.png"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["atoms"] == 216 and facts["picoseconds"] == pytest.approx(0.3)
    assert facts["breakdown"]["Pair"] == 99.79 and is_picture(tmp_path / "a.png")
    # The energy of a run with a thermostat is no measure of anything.
    assert facts["quantity"] is None and facts["drift"] is None and facts["thermostats"] == ["nvt"]
    assert main(["plot", str(LOG), "-o", str(tmp_path / "a.png")]) == 0
    assert "216 atoms, 0.3 ps: the drift is not known, because fix nvt changes the energy: add econserve" in capsys.readouterr().out


@pytest.mark.parametrize("fixes, styles", [
    ("fix 1 all nve\n", ()),
    ("fix 1 all nve\nfix 2 all langevin 300 300 0.1 5\n", ("langevin",)),
    ("fix 1 all npt/kk temp 300 300 0.1 iso 0 0 1\nunfix 1\nfix 1 all nve\n", ()),
    ("fix 1 all nve\nfix 1 all nvt temp 300 300 0.1\n", ("nvt",)),
    ("fix 1 all nve\nfix f all ave/time 1 1 1 c_thermo_temp\nfix t all temp/csvr 300 300 0.1 5\n", ("temp/csvr",)),
])  # fmt: skip
def test_a_thermostat_makes_the_energy_no_conserved_quantity(fixes, styles, tmp_path):
    (tmp_path / "log").write_text(log_of([0, 1, 2, 3]).replace("run  ", f"{fixes}run  "))
    (run,) = run_log.read(tmp_path / "log")
    assert run.thermostats == styles and (run.conserved() is None) == bool(styles)


def test_temperature_pressure_and_density_are_drawn(tmp_path, capsys):
    rows = "".join(f"{10 * k:10d} {300.0 + k:10.4f} {5.0 * k:10.4f} {2.0 + k:10.4f} {-200.0:12.5f}\n" for k in range(4))
    (tmp_path / "log").write_text(
        f"units           real\n  64 atoms\nfix 1 all npt temp 300 300 100 iso 0 0 1000\nrun             30\n"
        f"   Step          Temp     Press    Density   Econserve\n{rows}"
    )
    assert main(["plot", str(tmp_path / "log"), "-o", str(tmp_path / "a.png"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["means"] == {"Temp": 302.5, "Press": 12.5, "Density": 4.5} and facts["drift"] == pytest.approx(0.0, abs=1e-9)
    assert is_picture(tmp_path / "a.png")
    assert main(["plot", str(tmp_path / "log"), "-o", str(tmp_path / "a.png"), "--symbols", "Na"]) == 1
    assert "--symbols: " in capsys.readouterr().err


def test_distributions_of_a_dump_are_those_of_its_crystal(tmp_path, capsys):
    """Rock salt: 6 neighbors at a/2, 12 of the same element at a/sqrt 2, and the volumes of shells."""
    crystal = bulk("NaCl", "rocksalt", 5.64, cubic=True) * (3, 3, 3)
    lines = []
    for step in range(4):
        lines += [f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{len(crystal)}\nITEM: BOX BOUNDS pp pp pp"]
        lines += [f"0 {3 * 5.64}"] * 3 + ["ITEM: ATOMS id type element x y z"]
        lines += [f"{n + 1} {1 + (atom.symbol == 'Cl')} {atom.symbol} {atom.x} {atom.y} {atom.z}" for n, atom in enumerate(crystal)]
    (tmp_path / "run.dump").write_text("\n".join(lines) + "\n")
    frames = [crystal, crystal]
    for pair, distance, count in ((("Na", "Cl"), 2.82, 6), (("Na", "Na"), 5.64 / 2**0.5, 12), (("Cl", "Na"), 2.82, 6)):
        r, g = plot.distribution(frames, pair, 8.0)
        shells = 4 * np.pi * (r**2 + (r[1] - r[0]) ** 2 / 12) * (r[1] - r[0])
        counts = np.cumsum(g * shells * 4 / 5.64**3)
        between = np.searchsorted(r, distance + 0.5)
        assert counts[between] == pytest.approx(count, rel=1e-9), pair
    assert main(["plot", str(tmp_path / "run.dump"), "-o", str(tmp_path / "a.png"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["frames"] == 2 and facts["atoms"] == 216 and is_picture(tmp_path / "a.png")
    assert {tuple(d["pair"]): round(d["first_peak_A"], 1) for d in facts["distributions"]}["Cl", "Na"] == 2.8


@pytest.mark.parametrize("text, found", [
    ("no table", "no table of thermodynamic output"),
    (log_of([1, 2, 3], units="lj"), "expected units metal or real, found lj"),
    (log_of([1, 2, 3], name="Lx").replace("Temp", "Vol"), "add econserve, temp, press"),
])  # fmt: skip
def test_a_log_without_what_is_needed_is_refused(text, found, tmp_path):
    (tmp_path / "log").write_text(text)
    with pytest.raises(EquiError, match=found):
        plot.make(tmp_path / "log", tmp_path / "a.png")


@pytest.mark.parametrize("words, found", [
    (["tiny/plain.equi", "-o", "a.jpeg"], "expected a name that ends with .png, .pdf, .svg"),
    (["tiny/plain.equi", "-o", "none/a.png"], "no such folder"),
    (["tiny/plain.equi", "-o", "a.png", "--elements", "Xx"], "does not know Xx"),
    (["tiny/plain.equi", "-o", "a.png", "--elements", "Na,Cl,Na"], "expected a receiver and a sender"),
    (["tiny.stamp", "-o", "a.png", "--elements", "Na"], "is not an .equi file"),
])  # fmt: skip
def test_a_wrong_command_is_refused(words, found, tmp_path, monkeypatch, capsys):
    model = str(Path(BUILD).resolve() / "models" / words[0])
    monkeypatch.chdir(tmp_path)
    assert main(["plot", model, *words[1:]]) == 1
    assert found in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_without_matplotlib_the_error_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["plot", str(LOG), "-o", str(tmp_path / "a.png")]) == 1
    assert "pip install matplotlib" in capsys.readouterr().err


def test_a_comparison_is_drawn(tmp_path, monkeypatch):
    """The points are the results from which the table is made."""
    from equi_tools import compare

    drawn = []
    original = plot.comparison
    monkeypatch.setattr(plot, "comparison", lambda points, *rest: (drawn.extend(points), original(points, *rest)))
    words = ["-q", "compare", str(built("tiny/plain.equi")), str(built("tiny/plain.pth")), str(tmp_path / "a.xyz"), "--build-dir", BUILD]
    from ase.build import bulk
    from ase.io import write

    elements = info.summary(built("tiny/plain.equi"))["elements"]
    atoms = bulk(elements[0] + elements[1], "rocksalt", 5.6, cubic=True)
    atoms.rattle(0.1, seed=1)
    write(tmp_path / "a.xyz", [atoms, atoms * (2, 1, 1)])
    assert main([*words, "--plot", str(tmp_path / "a.png")]) == 0
    assert is_picture(tmp_path / "a.png") and [len(p.forces[0]) for p in drawn] == [8, 16]
    bar = compare.BARS["double", "table"]
    for point in drawn:
        assert abs(point.energies[0] - point.energies[1]) < bar.energy
        assert np.abs(point.forces[0] - point.forces[1]).max() < bar.force
    # The same structure twice has the same energy per atom.
    assert drawn[0].energies[0] == pytest.approx(drawn[1].energies[0], abs=bar.energy)
    assert main([*words, "--plot", str(tmp_path / "a.gif")]) == 1


def test_differences_that_are_nothing_or_no_numbers_are_drawn(tmp_path):
    from equi_tools.compare import BARS

    forces = np.zeros((2, 3))
    points = [plot.Point((1.0, 1.0), (forces, forces)), plot.Point((float("nan"), 1.0), (forces, forces + 0.1))]
    plot.comparison(points, BARS["double", "exact"], tmp_path / "a.png")
    assert is_picture(tmp_path / "a.png")
