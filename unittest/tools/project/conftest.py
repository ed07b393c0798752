# SPDX-License-Identifier: MIT
"""What tests of the installation share."""

import os
import shutil
import subprocess

import pytest


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """A folder into which CMake has installed this build."""
    folder = tmp_path_factory.mktemp("prefix")
    cmake = os.environ.get("EQUI_CMAKE") or shutil.which("cmake")
    command = [cmake, "--install", os.environ["EQUI_BUILD_DIR"], "--prefix", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder
