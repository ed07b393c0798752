# SPDX-License-Identifier: MIT
"""A plugin that was compiled for another LAMMPS reports this and registers nothing, because it would corrupt
memory."""

import json
import os
import re
import subprocess

import pytest

OTHERS = {
    "version": r"compiled for LAMMPS 29 Aug 2024, and this one is of another version, 20\d{6}",
    "integers": r"compiled for a LAMMPS whose tagint has (32|64) bits, and that of this one has (32|64) \(smallbig or bigbig\)",
    "mpi": "compiled for a LAMMPS with Open MPI as its MPI, and this one has another, MPICH",
}


@pytest.fixture
def load(lammps):
    return lambda name, **options: lammps.try_run([f"plugin load {lammps.build_dir}/unittest/compatibility_plugin_{name}.so", "print done"], **options)


def test_a_plugin_for_this_lammps_fits(load):
    run = load("same")
    assert run.returncode == 0 and "The plugin fits" in run.output and "WARNING" not in run.output, run.output


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("other", OTHERS)
def test_a_plugin_for_another_lammps_is_not_used(other, ranks, load):
    run = load(other, ranks=ranks)
    assert run.returncode == 0 and "done" in run.output, run.output
    (line,) = [line for line in run.output.splitlines() if line.startswith("WARNING: The plugin equi")]
    assert re.search(OTHERS[other], line) and "LAMMPS_ROOT" in line, line
    assert "The plugin fits" not in run.output


def test_names_that_versions_of_lammps_do_not_share_are_not_needed(lammps):
    # Otherwise LAMMPS could not load the plugin of another version, and the plugin could not report the fault.
    symbols = subprocess.run(["nm", "-DC", "--undefined-only", lammps.build_dir / "lib" / "equiplugin.so"], check=True, capture_output=True, text=True)
    found = re.findall(r"(\w) LAMMPS_NS::LabelMap::(\w+)\(", symbols.stdout)
    assert sorted(found) == [("w", "find"), ("w", "find_type")]


def test_the_command_of_a_build_runs_in_the_lammps_of_that_build(lammps):
    # By LAMMPS's Python module, which may belong to another LAMMPS in the environment of Python.
    done = subprocess.run([lammps.build_dir / "bin" / "equi", "check", lammps.model("plain"), "--stored", "--json"],
                          env={"PATH": os.environ["PATH"]}, cwd=lammps.folder, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0 and json.loads(done.stdout)["failed"] == 0, done.stdout + done.stderr
