# SPDX-License-Identifier: MIT
"""The files of the reference trajectories: their content, units, and how to read and write them."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent

# eV per amu (Angstrom/ps)^2, with LAMMPS's digits for `units metal`. ASE's differ from the seventh digit on, which
# would be visible after a few steps.
MVV2E = 1.0364269e-4
TIMESTEP = 0.001  # ps

ARRAYS = ("symbols", "masses", "cell", "pbc", "steps", "positions", "velocities", "forces", "energies", "stresses")


@dataclass
class Trajectory:
    """Frames of a run at constant energy, in the frame of LAMMPS: the first cell vector along x, the second in the xy
    plane. Atoms of the first frame are inside the cell; later they may leave it."""

    symbols: np.ndarray  # [N]
    masses: np.ndarray  # [N], g/mol
    cell: np.ndarray  # [3, 3], rows; a vector with free space around the atoms for a direction that is not periodic
    pbc: np.ndarray  # [3] of bool
    steps: np.ndarray  # [F], numbers of the steps that are stored
    positions: np.ndarray  # [F, N, 3], Angstrom
    velocities: np.ndarray  # [F, N, 3], Angstrom/ps
    forces: np.ndarray  # [F, N, 3], eV/Angstrom
    energies: np.ndarray  # [F], potential energy, eV
    stresses: np.ndarray  # [F, 6], xx yy zz yz xz xy as in ASE, without the kinetic part, eV/Angstrom^3
    made: dict  # how: model and its sha256, calculator, versions, date, command

    def save(self, name):
        arrays = {key: getattr(self, key) for key in ARRAYS}
        np.savez_compressed(path(name), made=json.dumps(self.made, indent=1), **arrays)


def path(name):
    return FOLDER / f"{name}.npz"


def load(name):
    with np.load(path(name)) as stored:
        return Trajectory(made=json.loads(str(stored["made"])), **{key: stored[key] for key in ARRAYS})
