# SPDX-License-Identifier: MIT
"""The scripts of examples that read the results of a run: without them, and after too short a run, they say so in one
line."""

import subprocess
import sys
from pathlib import Path

import numpy as np
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
    "polar_crystal/polar.py": {"crystal.dyn": "", "vacancy.txt": ""},
    "surface/adsorption.py": {"energies.dat": "without surface -5\n", "heights.dat": "without 0.0 -5\n"},
    "tensornet/expansion.py": {f"lattice_tensornet_{t}.dat": "# a\n0 4.2\n10 4.3\n" for t in (300, 600, 900)},
    "vacancy/barrier.py": {"log.lammps": "LAMMPS\n   Step  Temp\n 0 300\n"},
    "water_spectra/spectra.py": {"spectra.dat": "# a\n# b\n" + "".join(f"{4 * k} 1900 300 1 2 3 4 5 6 7 8 9\n" for k in range(20))},
    "water/water.py": {"rdf.dat": "# a\n# b\n# c\n", "msd.dat": "# a\n20 0.1\n40 0.2\n"},
}


def long_runs(rng):
    """What longer runs leave, by script: files, and words of the result."""
    flux = "".join(f"{8 * k} 4900 600 0 0 0 " + " ".join(f"{x:.6f}" for x in rng.standard_normal(6)) + "\n" for k in range(400))
    dumps, temperatures, lattices = {}, {}, {}
    for t in (500, 700):
        walk = np.cumsum(rng.standard_normal((40, 3)) * t / 1000, axis=0)
        dumps[f"positions_{t}.dump"] = "".join(
            f"ITEM: TIMESTEP\n{20 * k}\nITEM: NUMBER OF ATOMS\n2\nITEM: BOX BOUNDS pp pp pp\n0 9\n0 9\n0 9\nITEM: ATOMS id type xu yu zu\n"
            f"1 1 {x} {y} {z}\n2 2 5 5 5\n"
            for k, (x, y, z) in enumerate(walk)
        )
    for t in (1050, 1180):
        temperatures[f"temperature_{t}.dat"] = "".join(f"{10 * k} {1100 + rng.standard_normal():.4f} -5\n" for k in range(100))
        temperatures[f"profile_{t}.dat"] = "# a\n# b\n# c\n100 4 8\n" + "".join(f"  {n + 1} {n / 4 + 0.125} 2 0.05\n" for n in range(4))
    for t in (300, 600, 900):
        constants = 4.2 + 1.4e-5 * t + 1e-4 * rng.standard_normal(50)
        lattices[f"lattice_tensornet_{t}.dat"] = "".join(f"{k} {constant:.6f}\n" for k, constant in enumerate(constants))
    return {
        "heat_conduction/green_kubo.py": ({"flux.dat": flux}, "W/(m K) at 600 K"),
        "lithium/arrhenius.py": (dumps, "activation energy"),
        "melting/melting.py": (temperatures, "melting temperature 1100 "),
        "tensornet/expansion.py": (lattices, "1e-6/K between 300 and 900 K"),
    }


@pytest.mark.parametrize("script", long_runs(np.random.default_rng(0)))
def test_a_longer_run_has_a_result_and_a_picture(script, tmp_path):
    files, words = long_runs(np.random.default_rng(0))[script]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, EXAMPLES / script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and words in done.stdout, done.stdout + done.stderr
    assert list(tmp_path.glob("*.png"))


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
    assert scripts == SHORT.keys() | {"training/train.py", "polar_crystal/ions.py"}  # which need no run before
