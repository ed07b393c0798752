# SPDX-License-Identifier: MIT
"""The models of the build: random models of the frameworks and their conversions, made by cmake/EquiModels.cmake.

Tests read these instead of making and converting the same models again. The build makes them anew when a source that
decides their content changes.
"""

import os
import shutil
from pathlib import Path

import pytest


def built(name):
    """Path of a read-only file below EQUI_MODELS_DIR: `sevennet-0.equi`, `tiny/plain.pth`, `mace/plain.model`."""
    folder = os.environ.get("EQUI_MODELS_DIR")
    if not folder:
        pytest.fail("EQUI_MODELS_DIR must name the folder of the models of a build", pytrace=False)
    path = Path(folder) / name
    if not path.is_file():
        pytest.fail(f"no {path}: build the models first (target test_models)", pytrace=False)
    return path


def built_copy(name, folder):
    """Path, as text, of a copy under the same name; a test may write next to it."""
    path = built(name)
    if not (folder / path.name).exists():
        shutil.copyfile(path, folder / path.name)
    return str(folder / path.name)
