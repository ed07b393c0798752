# SPDX-License-Identifier: MIT
import os
from pathlib import Path

import pytest
from lammps_script import Lammps


@pytest.fixture(scope="session")
def build_dir():
    """The build folder that EQUI_BUILD_DIR names; without it the tests fail."""
    folder = os.environ.get("EQUI_BUILD_DIR")
    if not folder:
        pytest.fail("EQUI_BUILD_DIR must name a build folder", pytrace=False)
    for needed in ("bin/lmp", "bin/mpirun", "models/tiny", "models/sevennet-0.equi"):
        if not (Path(folder) / needed).exists():
            pytest.fail(f"{folder} holds no {needed}: build the project and its models first", pytrace=False)
    return Path(folder).resolve()


@pytest.fixture(scope="session", autouse=True)
def one_thread_per_rank():
    """Ranks share the cores of the machine, so threads that wait for each other must not spin."""
    patch = pytest.MonkeyPatch()
    patch.setenv("OMP_NUM_THREADS", "1")
    patch.setenv("OMP_WAIT_POLICY", "passive")
    yield
    patch.undo()


@pytest.fixture
def lammps(build_dir, tmp_path):
    """Runs input scripts in the test's own folder."""
    return Lammps(build_dir, tmp_path)
