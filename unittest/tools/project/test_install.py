# SPDX-License-Identifier: MIT
"""`pip install ./tools`: the package installs, is complete, and its command runs."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import equi_tools
import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("equi_tools", "equi_torch")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder that pip has installed a copy of the package into; nothing is fetched."""
    folder = tmp_path_factory.mktemp("install")
    # setuptools writes beside what it builds.
    source = shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index"]
    command += ["--disable-pip-version-check", "--target", str(folder / "target"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "target"


def files_below(folder):
    return {
        path.relative_to(folder).as_posix()
        for package in PACKAGES
        for path in (folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_what_is_installed_is_the_whole_package(installed):
    assert files_below(installed) == files_below(ROOT / "tools")


def test_the_installed_command_runs(installed, tmp_path):
    environment = dict(os.environ, PYTHONPATH=str(installed), PYTHONSAFEPATH="1")
    environment.pop("EQUI_BUILD_DIR", None)

    def run(*words):
        return subprocess.run([installed / "bin" / "equi", *words], capture_output=True, text=True, cwd=tmp_path, env=environment)

    assert run("--version").stdout == f"equi {equi_tools.__version__}\n"
    done = run("info", str(ROOT / "potentials" / "nacl-mace.equi"))
    assert done.returncode == 0, done.stderr
    assert "elements (2)" in done.stdout
    # The command is that of the installed package, not of this tree.
    where = subprocess.run([sys.executable, "-c", "import equi_tools; print(equi_tools.__file__)"],
                           capture_output=True, text=True, cwd=tmp_path, env=environment)  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(installed)


def project():
    return tomllib.loads((ROOT / "tools" / "pyproject.toml").read_text())["project"]


def pins(name):
    lines = (ROOT / "tools" / name).read_text().splitlines()
    return {line.split("==")[0]: line.split()[0] for line in lines if line and line[0] not in "# "}


def test_versions_agree_with_those_of_a_build():
    assert project()["version"] == equi_tools.__version__
    assert f"project(equi VERSION {equi_tools.__version__} " in (ROOT / "CMakeLists.txt").read_text()
    extras = project()["optional-dependencies"]
    assert extras["sevenn"] == [pins("requirements-torch.txt")["sevenn"]] == [pins("requirements-weights.txt")["sevenn"]]
    assert extras["mace"] == [pins("requirements-mace.txt")["mace-torch"]]
    assert extras["nequip"] == [pins("requirements-nequip.txt")["nequip"]]
