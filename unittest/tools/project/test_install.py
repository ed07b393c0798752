# SPDX-License-Identifier: MIT
"""`pip install ./tools` and `cmake --install`: the installed files are complete, and their commands and library
work."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import equi_tools
import pytest
from ase.build import bulk
from equi_tools import lammps_runner

ROOT = Path(__file__).resolve().parents[3]
CMAKE = os.environ.get("EQUI_CMAKE") or shutil.which("cmake")
PACKAGES = ("equi_tools", "equi_torch")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder into which pip has installed a copy of the package; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("install")
    # setuptools writes next to what it builds.
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
    # The command belongs to the installed package, not to this tree.
    where = subprocess.run([sys.executable, "-c", "import equi_tools; print(equi_tools.__file__)"],
                           capture_output=True, text=True, cwd=tmp_path, env=environment)  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(installed)


needs_plugin = pytest.mark.skipif(
    not (Path(os.environ["EQUI_BUILD_DIR"]) / "lib" / "equiplugin.so").exists(), reason="a build without the plugin"
)


@needs_plugin
def test_the_installation_is_where_packagers_look(prefix):
    for name in ("bin/equi", "bin/equi_kernels", "lib/equiplugin.so", "lib/cmake/equi/equi-config.cmake",
                 "include/equi/src/model/model_file.h", "share/equi/potentials/nacl-mace.equi"):  # fmt: skip
        assert (prefix / name).is_file(), name
    assert files_below(prefix / "share" / "equi" / "python") == files_below(ROOT / "tools")
    # Nothing names the folders of this build.
    for path in [*prefix.rglob("lib/cmake/equi/*"), prefix / "bin" / "equi"]:
        assert str(ROOT) not in path.read_text() and os.environ["EQUI_BUILD_DIR"] not in path.read_text(), path


@needs_plugin
def test_the_installed_model_tool_finds_its_program(prefix, tmp_path):
    environment = dict(os.environ, EQUI_PYTHON=sys.executable)
    for name in ("EQUI_BUILD_DIR", "PYTHONPATH"):
        environment.pop(name, None)
    (tmp_path / "moved").symlink_to(prefix)  # called by another name
    model = prefix / "share" / "equi" / "potentials" / "nacl-mace.equi"
    command = [tmp_path / "moved" / "bin" / "equi", "schedule", model]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0 and "convolution" in done.stdout, done.stderr


@needs_plugin
def test_a_program_outside_gets_the_energy_of_the_plugin(prefix, tmp_path):
    atoms = bulk("NaCl", "rocksalt", 5.64, cubic=True)
    atoms.rattle(0.1, seed=3)
    model = prefix / "share" / "equi" / "potentials" / "nacl-mace.equi"
    options = ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}"]
    sources = ROOT / "unittest" / "installed"
    for command in ([CMAKE, "-S", sources, "-B", tmp_path, *options], [CMAKE, "--build", tmp_path]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    lines = [" ".join(f"{component:.17g}" for component in atoms.cell.array.ravel())]
    lines += [f"{atom.symbol} {atom.x:.17g} {atom.y:.17g} {atom.z:.17g}" for atom in atoms]
    done = subprocess.run([tmp_path / "energy", model], input="\n".join(lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = lammps_runner.evaluate(atoms, model, plugin=prefix / "lib" / "equiplugin.so").energy
    # Both are in float64 with the same tables; LAMMPS rotates the cell and sums in another order.
    assert float(done.stdout) == pytest.approx(expected, rel=1e-9)


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
    assert extras["nequip"] == [pins("requirements-nequip.txt")[name] for name in ("nequip", "nequip-allegro")]
