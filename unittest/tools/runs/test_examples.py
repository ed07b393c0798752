# SPDX-License-Identifier: MIT
"""The scripts of examples that read the results of a run: without them, and after too short a run, they say so in one
line."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
# What a run of a few steps leaves, by script: files and their content.
SHORT = {
    "elastic/equation_of_state.py": {"energies.dat": "20 -5 10\n21 -5 9\n", "elastic.dat": "1 2 3 4 5 6\n"},
    "heat_conduction/green_kubo.py": {"flux.dat": "".join(f"{8 * k} 4900 600 1 2 3 1 2 3\n" for k in range(6))},
    "lithium/arrhenius.py": {
        f"positions_{t}.dump": "".join(
            f"ITEM: TIMESTEP\n{20 * k}\nITEM: NUMBER OF ATOMS\n2\nITEM: BOX BOUNDS pp pp pp\n0 9\n0 9\n0 9\nITEM: ATOMS id type xu yu zu\n"
            f"1 1 0 0 {k}\n2 2 5 5 5\n"
            for k in range(4)
        )
        for t in (500, 600)
    },
    "melting/melting.py": {f"temperature_{t}.dat": "# a\n# b\n0 1000 -5\n10 1001 -5\n" for t in (1050, 1180)},
    "phonons/phonons.py": {name: "" for name in ("exact.dyn", "crystal.dyn", "differences.dyn")},
    "surface/adsorption.py": {"energies.dat": "without surface -5\n", "heights.dat": "without 0.0 -5\n"},
    "tensornet/expansion.py": {f"lattice_tensornet_{t}.dat": "# a\n0 4.2\n10 4.3\n" for t in (300, 600, 900)},
    "vacancy/barrier.py": {"log.lammps": "LAMMPS\n   Step  Temp\n 0 300\n"},
    "water/water.py": {"rdf.dat": "# a\n# b\n# c\n", "msd.dat": "# a\n20 0.1\n40 0.2\n"},
}


@pytest.mark.parametrize("script", SHORT)
@pytest.mark.parametrize("has_files", [False, True])
def test_a_script_without_its_data_says_so_in_one_line(script, has_files, tmp_path):
    for name, text in SHORT[script].items() if has_files else ():
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, EXAMPLES / script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert " error: " in done.stderr.splitlines()[-1] and not list(tmp_path.glob("*.png"))


def test_no_script_is_left_out():
    scripts = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*/*.py")}
    assert scripts == SHORT.keys() | {"training/train.py"}  # which needs no run before
