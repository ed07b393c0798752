# SPDX-License-Identifier: MIT
"""Older versions of the frameworks, each in its own folder, which precedes the packages of its framework's
environment.

pip makes the folders when they are needed, below EQUI_VERSIONS_DIR (by default .cache/versions of this repository);
they are kept. A script makes models with such a version and stores its results; a test converts the models and
compares.
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
ROOT = HERE.parents[2]


def folder_of(*requirements):
    """The folder of some packages without their dependencies. Each requirement is PACKAGE==VERSION; if one has the
    hash of its wheel (--hash=sha256:...), all need theirs."""
    base = os.environ.get("EQUI_VERSIONS_DIR") or ROOT / ".cache" / "versions"
    folder = Path(base, "+".join(requirement.split()[0] for requirement in requirements).replace("==", "-"))
    if not folder.is_dir():
        fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
        fresh.mkdir(parents=True)
        listed = fresh.with_name(f"{fresh.name}.txt")
        listed.write_text("\n".join(requirements))
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--ignore-requires-python"]
        subprocess.run([*pip, "--target", fresh, "-r", listed], check=True)
        listed.unlink()
        fresh.rename(folder)
    return folder


def run(script, requirements, target, environment=(), interpreter=sys.executable, arguments=()):
    """Runs a script of this folder with older versions, which writes into the folder `target`. arguments: further ones of the script."""
    paths = [folder_of(*requirements), ROOT / "tools", ROOT / "unittest" / "python", HERE, *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **dict(environment)}
    done = subprocess.run([interpreter, str(HERE / script), str(target), *arguments], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def store(path, calculator, named, has_stress=lambda atoms: True):
    """Stores named structures with the results of a calculator. has_stress: whether its stress of a structure is
    right."""
    entries = {}
    for name, atoms in named:
        atoms.calc = calculator
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        stress = atoms.get_stress() if "stress" in calculator.results and has_stress(atoms) else np.zeros(0)
        arrays = {"numbers": atoms.numbers, "positions": atoms.positions, "cell": atoms.cell.array, "pbc": atoms.pbc, "energy": energy,
                  "forces": forces, "stress": stress}  # fmt: skip
        entries |= {f"{name}/{key}": np.asarray(value) for key, value in arrays.items()}
    np.savez(path, **entries)


def is_periodic(atoms):
    return atoms.pbc.all()


def is_single(atoms):
    """Whether a structure is one atom without neighbors."""
    return len(atoms) == 1 and not atoms.pbc.any()


def stored(path):
    """The content of a file of `store`, as name -> (Atoms, energy, forces, stress or None)."""
    found, names = np.load(path), {}
    for key in found.files:
        names.setdefault(key.rpartition("/")[0], None)
    for name in names:
        part = {key: found[f"{name}/{key}"] for key in ("numbers", "positions", "cell", "pbc", "energy", "forces", "stress")}
        atoms = Atoms(part["numbers"], part["positions"], cell=part["cell"], pbc=part["pbc"])
        yield name, (atoms, float(part["energy"]), part["forces"], part["stress"] if part["stress"].size else None)


def assert_stored(path, results, precision="double", radial=None, bars=laws.assert_within_bars, keywords=()):
    """LAMMPS with a converted file gives the results of a file of `store`, by one of the checks of tensornet_laws."""
    native, found = laws.native(path, precision, radial, keywords=keywords), []
    for name, (atoms, energy, forces, stress) in stored(results):
        found.append(compare.difference(name, native(atoms), energy, forces, stress, compare.bars_for(precision, radial)))
    bars(found)


def differences(source, results, target, **settings):
    """compare.Difference between LAMMPS, with a file converted from the source, and the results that an older version
    stored."""
    convert(str(source), target, quiet=True, **settings)
    native, bars, found, largest = laws.native(target, radial="exact"), compare.bars_for("double", "exact"), [], 0.0
    for name, (atoms, energy, forces, stress) in stored(results):
        largest = max(largest, np.abs(forces).max())
        found.append(compare.difference(f"{Path(source).name}: {name}", native(atoms), energy, forces, stress, bars))
    assert largest > 1e-3, "the model does not test forces"
    return found
