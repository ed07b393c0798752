# SPDX-License-Identifier: MIT
"""Older versions of the frameworks: each in a folder of its own, which stands before the packages of its framework's environment.

The folders are made when they are needed, by pip, below EQUI_VERSIONS_DIR (by default .cache/versions of this repository), and are
kept. A script makes models with such a version and stores what it computes for them; a test converts them and compares.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import tensornet_laws as laws
from ase import Atoms
from equi_tools import compare
from equi_tools.convert import convert

HERE = Path(__file__).resolve().parent
TOOLS = HERE.parents[1] / "tools"


def folder_of(*requirements):
    """The folder of some packages, each named as PACKAGE==VERSION, without what they need."""
    base = os.environ.get("EQUI_VERSIONS_DIR") or HERE.parents[1] / ".cache" / "versions"
    folder = Path(base, "+".join(requirements).replace("==", "-"))
    if not folder.is_dir():
        fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--ignore-requires-python", "--target", str(fresh)]
        subprocess.run([*pip, *requirements], check=True)
        fresh.rename(folder)
    return folder


def run(script, requirements, target, environment=(), interpreter=sys.executable):
    """Runs a script of this folder with older versions, which writes into the folder `target`."""
    paths = [str(folder_of(*requirements)), str(TOOLS), str(HERE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **dict(environment)}
    done = subprocess.run([interpreter, str(HERE / script), str(target)], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def store(path, computed):
    """Stores structures with results: name -> (Atoms, energy, forces, stress or None)."""
    entries = {}
    for name, (atoms, energy, forces, stress) in computed.items():
        arrays = {"numbers": atoms.numbers, "positions": atoms.positions, "cell": atoms.cell.array, "pbc": atoms.pbc, "energy": energy,
                  "forces": forces, "stress": np.zeros(0) if stress is None else stress}  # fmt: skip
        entries |= {f"{name}/{key}": np.asarray(value) for key, value in arrays.items()}
    np.savez(path, **entries)


def stored(path):
    """What `store` has written, as name -> (Atoms, energy, forces, stress or None)."""
    found, names = np.load(path), {}
    for key in found.files:
        names.setdefault(key.rpartition("/")[0], None)
    for name in names:
        part = {key: found[f"{name}/{key}"] for key in ("numbers", "positions", "cell", "pbc", "energy", "forces", "stress")}
        atoms = Atoms(part["numbers"], part["positions"], cell=part["cell"], pbc=part["pbc"])
        yield name, (atoms, float(part["energy"]), part["forces"], part["stress"] if part["stress"].size else None)


def differences(source, results, target, **settings):
    """compare.Difference of LAMMPS, with a file converted from the source, from the results that an older version stored."""
    convert(str(source), target, quiet=True, **settings)
    native, bars, found, largest = laws.native(target, radial="exact"), compare.bars_for("double", "exact"), [], 0.0
    for name, (atoms, energy, forces, stress) in stored(results):
        largest = max(largest, np.abs(forces).max())
        found.append(compare.difference(f"{Path(source).name}: {name}", native(atoms), energy, forces, stress, bars))
    assert largest > 1e-3, "the model does not test forces"
    return found
