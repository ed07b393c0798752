# SPDX-License-Identifier: MIT
"""Runs LAMMPS input scripts, each in its own folder, and reads their output; provides small systems for them.

Every run has a time limit, so a rank that waits for ever fails a test instead of stopping it.
"""

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk
from equi_tools.lammps_runner import lammps_box, write_data

# Arguments of every LAMMPS; they run the same tests in another mode of LAMMPS.
ARGUMENTS = os.environ.get("EQUI_LMP_ARGUMENTS", "").split()
# Keywords of every pair_style equi; they run the same tests with other kernels.
KEYWORDS = os.environ.get("EQUI_PAIR_KEYWORDS", "").split()

# A run that takes this long hangs: the longest default one takes some ten seconds on a busy machine.
TIMEOUT = 240


@dataclass
class Run:
    """The results of a finished LAMMPS."""

    returncode: int
    output: str  # screen of rank 0 and messages of the launcher
    folder: Path

    @property
    def errors(self):
        return [line for line in self.output.splitlines() if line.startswith("ERROR")]

    @property
    def warnings(self):
        return [line for line in self.output.splitlines() if line.startswith("WARNING")]

    def values(self, name):
        """Numbers of the lines `name v1 v2 ...` that the input printed: [lines, numbers]."""
        found = re.findall(rf"^{name} (.*)$", self.output, re.M)
        assert found, f"the input printed no {name}:\n{self.output[-3000:]}"
        return np.array([[float(v) for v in line.split()] for line in found])

    def frames(self, file):
        """Frames of a dump of style custom: a list of [N, columns]."""
        text = (self.folder / file).read_text()
        return [
            np.loadtxt(frame.splitlines()[1:], ndmin=2)
            for frame in (part.split("ITEM: TIMESTEP")[0] for part in text.split("ITEM: ATOMS")[1:])
        ]

    def dump(self, file):
        """The only frame of a dump."""
        (frame,) = self.frames(file)
        return frame


class Lammps:
    def __init__(self, build_dir, folder):
        self.build_dir, self.folder = Path(build_dir), Path(folder)
        self.models = self.build_dir / "models"
        self.lmp = self.build_dir / "bin" / "lmp"

    def model(self, name):
        """Path of a model: `sevennet-0`, `mace/plain`, or the name of a tiny one."""
        tiny = self.models / "tiny" / f"{name}.equi"
        path = tiny if tiny.exists() else self.models / f"{name}.equi"
        assert path.is_file(), f"no model {path}"
        return path

    def write(self, atoms, symbols=None, name="data.structure"):
        """Data file of a structure; returns the commands that read it, without units."""
        symbols = symbols or sorted(set(atoms.get_chemical_symbols()))
        box = lammps_box(atoms)
        write_data(self.folder / name, atoms, symbols, box)
        return [
            "atom_style atomic",
            "boundary " + " ".join("p" if p else "f" for p in box.periodic),
            "atom_modify map yes",
            f"read_data {name}",
            "neighbor 1.0 bin",
        ]

    def pair(self, model, symbols, keywords="precision double"):
        return [" ".join(["pair_style equi", keywords, *KEYWORDS]), f'pair_coeff * * "{self.model(model)}" {" ".join(symbols)}']

    def try_run(self, lines, ranks=1, threads=1, arguments=(), timeout=TIMEOUT, wrapper=()):
        """Runs an input that may fail; `wrapper` are words before those that start a rank."""
        (self.folder / "in.test").write_text("\n".join(lines) + "\n")
        command = [self.build_dir / "bin" / "mpirun", "-np", str(ranks)] if ranks > 1 else []
        command += [*wrapper, self.lmp, "-in", "in.test", "-log", "log.lammps", "-nocite", *ARGUMENTS, *arguments]
        process = subprocess.Popen(
            [str(word) for word in command], cwd=self.folder, env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the ranks as well as the launcher
            output, _ = process.communicate()
            pytest.fail(f"LAMMPS on {ranks} ranks did not end within {timeout} s:\n{output[-3000:]}", pytrace=False)
        return Run(process.returncode, output, self.folder)

    def run(self, lines, **options):
        """Runs an input that must succeed."""
        result = self.try_run(lines, **options)
        assert result.returncode == 0 and not result.errors, result.output[-4000:]
        return result


def rock_salt(repeat=(1, 1, 1), seed=1, amplitude=0.12, length=5.64):
    """NaCl with every atom displaced, so no component vanishes by symmetry."""
    atoms = bulk("NaCl", "rocksalt", length, cubic=True) * repeat
    atoms.positions += amplitude * np.random.default_rng(seed).standard_normal((len(atoms), 3))
    return atoms


FORCE_DUMP = [
    "dump forces all custom 1 dump.forces id fx fy fz",
    "dump_modify forces sort id format float %.17g",
]
