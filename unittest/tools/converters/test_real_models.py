# SPDX-License-Identifier: MIT
"""Trained models that others published, in the folder that EQUI_REAL_MODELS names: each is converted and compared with
its framework through LAMMPS, or is refused with the reason.

The files are not part of this repository. A row of ROWS is a file of the folder; `ctest` includes this test if CMake's
EQUI_REAL_MODELS is set. The comparisons run in the frameworks' own environments (EQUI_PYTHON_MACE, ...), like those of
`equi compare`.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import old_versions
import pytest
from ase.io import write
from equi_tools import equi_file, self_check

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Agrees:
    """Largest differences from the framework's modules in float64; forces and stresses are relative if they exceed
    one. None: the file has no such value."""

    energy: float = 1e-8  # eV/atom
    force: float = 1e-6  # eV/A
    stress: float = 1e-6  # eV/A^3


@dataclass(frozen=True)
class Refused:
    """Part of the message with which `equi convert` fails."""

    words: str


@dataclass(frozen=True)
class Row:
    file: str  # file or folder below EQUI_REAL_MODELS
    expected: object  # Agrees or Refused
    settings: tuple = ()  # arguments of `equi convert`; those of `equi compare` are in the converted file
    packages: tuple = ()  # older versions that precede those of the framework's environment (old_versions.py)


ROWS = [
    Row("mace/GeSbTe_mace_swa.model", Agrees()),
    Row("mace/MACE_SPICE.model", Agrees()),
    Row("mace/ani500k_small_CC.model", Agrees()),
    Row("matgl/TensorNet-ANI-1x-Subset-PES", Refused("@model_version 1 of TensorNet")),
    Row("matgl/QET-MatQ-PES", Agrees()),
    Row("nequip/toluene-deployed.pth", Agrees(stress=None), ("--unit", "kcal/mol")),
    Row("nequip/emt_copper_deployed.pth", Agrees()),
    Row("nequip/LiBC", Agrees(), packages=("nequip==0.6.2", "e3nn==0.4.4", "torch-runstats==0.2.0", "torch-ema==0.3")),
    Row("nequix/nequix-mp-1.nqx", Agrees()),
    Row("nequix/nequix-omat-1.nqx", Agrees()),
    Row("sevenn/HfO2_cp_0.pth", Agrees()),
    Row("sevenn/example_deployed_serial.pt", Refused("give the checkpoint")),
]


def source_of(row):
    folder = os.environ.get("EQUI_REAL_MODELS")
    if not folder:
        pytest.fail("EQUI_REAL_MODELS must name the folder of the published models", pytrace=False)
    path = Path(folder) / row.file
    if not path.exists():
        pytest.fail(f"no {path}", pytrace=False)
    return path


def equi(*words, packages=()):
    command = [sys.executable, "-m", "equi_tools", *map(str, words)]
    before = [str(old_versions.folder_of(*packages))] if packages else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*before, *filter(None, [os.environ.get("PYTHONPATH")])])}
    if packages:
        environment["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # older versions do not request it
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_every_file_of_the_folder_has_a_row():
    folder = source_of(Row("", None))
    known = [folder / row.file for row in ROWS]
    families = {Path(row.file).parts[0] for row in ROWS}
    found = [path for family in families for path in (folder / family).iterdir()]
    assert [path for path in found if path not in known] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.file)
def test_a_published_model_agrees_with_its_framework_or_is_refused(row, tmp_path):
    source, target = source_of(row), tmp_path / "converted.equi"
    done = equi("convert", "-q", source, "-o", target, *row.settings)
    if isinstance(row.expected, Refused):
        assert done.returncode == 1 and not target.exists()
        assert done.stderr.startswith("equi: error: ") and done.stderr.count("\n") == 1
        assert row.expected.words in done.stderr
        return
    assert done.returncode == 0, done.stderr
    document, _ = equi_file.read(target)
    named = {f"{name}.xyz": atoms for name, atoms in self_check.structures_of(document)}
    for name, atoms in named.items():
        write(tmp_path / name, atoms)
    done = equi("compare", "-q", "--json", "--radial", "exact", target, source, *(tmp_path / name for name in named), packages=row.packages)
    # The status applies bars for files in float64, which a row may widen.
    assert done.stdout, done.stderr
    found = {entry["name"]: entry for entry in json.loads(done.stdout)["structures"]}
    assert found.keys() == named.keys()
    for name, entry in found.items():
        print(row.file, entry)
        # Null is a number that is not finite, or the stress of a molecule.
        for quantity in ("energy", "force", "stress") if named[name].pbc.any() else ("energy", "force"):
            bar = getattr(row.expected, quantity)
            assert (entry[quantity] is None) == (bar is None), (name, quantity)
            assert bar is None or entry[quantity] <= bar, (name, quantity)
