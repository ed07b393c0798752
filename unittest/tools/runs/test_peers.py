# SPDX-License-Identifier: MIT
"""The driver bench/peers.py, with pair_style equi itself in place of other pair styles."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from built_models import built

BENCH = Path(__file__).resolve().parents[3] / "bench"
BUILD = os.environ["EQUI_BUILD_DIR"]
MODEL = "tiny/plain.equi"
# eV/Angstrom: with exact radial functions and float64 only the order of sums differs; float32 has seven digits.
EXACT = 1e-12
FLOAT32 = 1e-8
# sevenn's float32 against equi's float64, where forces are of order 0.1.
FRAMEWORK = 1e-5


def peers(*words, model=MODEL):
    command = [sys.executable, BENCH / "peers.py", "--build-dir", BUILD, "--model", built(model), "--cells", 2]
    command += ["--rounds", 2, "--steps", 3, "--warm-up", 1, "--cores", 2, *words]
    environment = dict(os.environ, OMP_WAIT_POLICY="passive")
    return subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True)


def input_file(folder, name, *lines):
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def equi_file(folder, precision, more="", coeff="${symbols}"):
    """A file in a user's form: with its own data file, comments, a continued line, and a model next to it."""
    link = folder / "model.equi"
    if not link.exists():
        link.symlink_to(built(MODEL))
    return input_file(
        folder, f"in.{precision}", "units metal  # as the model", "atom_modify map yes", "read_data data.of_my_own",
        f"pair_style equi &\n precision {precision} {more}", f"pair_coeff * * model.equi {coeff}",
    )  # fmt: skip


def test_sides_run_in_turn_and_are_compared_with_exact_forces(tmp_path):
    exact, other = equi_file(tmp_path, "double", "radial exact"), equi_file(tmp_path, "mixed", "radial 1e-3", coeff="Cl Na")
    done = peers(
        "--precision", "mixed", "--out", tmp_path,
        "--lmp-input", exact, "--lmp-name", "exact", "--lmp-ranks", 2, "--lmp-environment", "MALLOC_TOP_PAD_=1000000",
        "--lmp-input", other, "--lmp", os.path.relpath(Path(BUILD) / "bin" / "lmp"), "--lmp-name", "other", "--lmp-threads", 1,
        "--lmp-arguments=-echo none",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    with open(tmp_path / "peers.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["side"], row["turn"]) for row in rows] == [(s, t) for s in ("equi", "exact", "other") for t in "01"]
    side = {row["side"]: row for row in rows}
    assert [side[s]["precision"] for s in side] == ["mixed", "double", "mixed"]
    assert [(side[s]["ranks"], side[s]["threads"]) for s in side] == [("1", "2"), ("2", "1"), ("1", "1")]
    error = {s: float(side[s]["force_error_max"]) for s in side}
    assert error["exact"] < EXACT < FLOAT32 < error["other"]
    assert all(float(row["force_error_rms"]) <= float(row["force_error_max"]) for row in rows)
    # LAMMPS, the plugin and the model need tens of MB in each rank.
    memory = {s: float(side[s]["memory_MB"]) for s in side}
    assert 20 < memory["other"] < 1.6 * memory["other"] < memory["exact"]
    assert "MALLOC_TOP_PAD_=1000000 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive" in side["exact"]["variables"]
    assert "MALLOC_TOP_PAD_" not in side["other"]["variables"]
    # The table agrees with the samples.
    for name in side:
        samples = [float(row["us_per_atom_step"]) for row in rows if row["side"] == name]
        found = re.search(rf"^{name} +\d x \d +\w+ +([\d.]+) +([\d.]+)", done.stdout, re.M)
        np.testing.assert_allclose([float(word) for word in found.groups()], [min(samples), np.median(samples)], atol=0.01)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["units real", "pair_style lj/cut 5.0"], "expected units metal, found units real"),
        (["pair_style lj/cut 5.0", "pair_coeff * * 0.1 3.0", "run 5"], "'run' is given by the driver"),
        (["pair_coeff * * 0.1 3.0"], "has no pair_style"),
        (["pair_style lj/cutt 5.0", "pair_coeff * * 0.1 3.0"], "Unrecognized pair style 'lj/cutt'"),
    ],
)
def test_inputs_that_cannot_be_run_are_refused(tmp_path, lines, message):
    done = peers("--lmp-input", input_file(tmp_path, "in.wrong", *lines))
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_options_and_names_must_belong_to_one_peer(tmp_path):
    assert "belongs to the --lmp-input before it" in peers("--lmp-ranks", 2).stderr
    file = input_file(tmp_path, "in.twice", "pair_style zero 5.0", "pair_coeff * *")
    done = peers("--lmp-input", file, "--lmp-input", file)
    assert done.returncode == 1 and "names of sides must differ" in done.stderr


@pytest.mark.slow
def test_the_frameworks_calculator_is_a_side_as_well(tmp_path):
    done = peers("--source", built("tiny/plain.pth"), "--evaluations", 1, "--precision", "double", "--out", tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    with open(tmp_path / "peers.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    framework = [row for row in rows if row["side"] == "sevenn"]
    assert len(framework) == 2 and len(rows) == 4
    assert framework[0]["precision"] == "float32" and "MALLOC_TOP_PAD_" in framework[0]["variables"]
    assert FLOAT32 < float(framework[0]["force_error_max"]) < FRAMEWORK
