# SPDX-License-Identifier: MIT
"""The Python wheel of this build (EQUI_WHEEL): pip installs it into an empty environment, LAMMPS finds its plugin
there, and nothing remains when it is removed. Packages come from the folder EQUI_WHEELHOUSE; there is no network."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import equi_tools
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ["EQUI_BUILD_DIR"])
MODEL = ROOT / "potentials" / "nacl-mace.equi"
INPUT = """\
units metal
read_data {data}
pair_style equi
pair_coeff * * {model} Na Cl
velocity all create 300 4711
fix move all nve
thermo_style custom step pe press
thermo_modify format float %.17g
run 2
print "ENERGY $(pe:%.17g) $(press:%.17g)"
"""


def clean_environment():
    """This process's environment without the additions of this build and of a user's settings."""
    left_out = ("EQUI_", "LAMMPS_", "PYTHON", "PIP_", "OMP_", "LD_LIBRARY_PATH")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment["PATH"] = "/usr/bin:/bin"
    return dict(environment, OMP_NUM_THREADS="1")


def run(*words, folder=None):
    return subprocess.run([str(word) for word in words], cwd=folder, env=clean_environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)  # fmt: skip


def output(*words, folder=None):
    done = run(*words, folder=folder)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def wheel():
    (found,) = (BUILD / "wheel").glob("*.whl")
    return found


def pip(environment, *words):
    return output(environment / "bin" / "python", "-m", "pip", "--isolated", "--disable-pip-version-check", *words)


def own_files(environment):
    """Names below the environment that can only be those of the wheel."""
    found = {path.relative_to(environment).as_posix() for path in environment.rglob("*")}
    return {name for name in found if re.search(r"(^|/)(lib)?equi(plugin|_tools|_plugin|_kernels)?\b", name)}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with LAMMPS, MPI and the wheel, installed by the command of the documentation."""
    folder = tmp_path_factory.mktemp("wheel") / "environment"
    output(sys.executable, "-m", "venv", folder)
    assert own_files(folder) == set()
    pip(folder, "install", "--no-index", "--find-links", os.environ["EQUI_WHEELHOUSE"], f"{wheel()}[lammps]")
    return folder


@pytest.fixture(scope="module")
def without_lammps(tmp_path_factory):
    """An environment with the wheel and no LAMMPS."""
    folder = tmp_path_factory.mktemp("alone") / "environment"
    output(sys.executable, "-m", "venv", folder)
    pip(folder, "install", "--no-index", "--find-links", os.environ["EQUI_WHEELHOUSE"], wheel())
    return folder


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nacl")
    (folder / "in.nacl").write_text(INPUT.format(data=ROOT / "examples" / "nacl" / "data.nacl", model=MODEL))
    return folder


def energy(folder, programs, ranks):
    """Energy and pressure after the run, with all digits, and the whole output."""
    launcher = [] if ranks == 1 else [programs / "mpirun", "-np", ranks]
    text = output(*launcher, programs / "lmp", "-in", "in.nacl", "-log", "none", folder=folder)
    (found,) = re.findall(r"^ENERGY (\S+) (\S+)$", text, re.M)
    return found, text


@pytest.mark.parametrize("ranks", [1, 2])
def test_lammps_of_the_environment_gives_the_result_of_the_build(environment, script, ranks):
    found, text = energy(script, environment / "bin", ranks)
    expected, _ = energy(script, BUILD / "bin", ranks)
    assert found == expected
    assert float(found[0]) < 0
    assert re.search(rf"^Loop time of \S+ on {ranks} procs ", text, re.M)


def test_the_small_models_are_inside(environment, tmp_path):
    """LAMMPS and the model tool find them by their names, as in a build."""
    (tmp_path / "in.nacl").write_text(INPUT.format(data=ROOT / "examples" / "nacl" / "data.nacl", model=MODEL.name))
    (expected, _), (found, _) = energy(tmp_path, BUILD / "bin", 1), energy(tmp_path, environment / "bin", 1)
    assert found == expected
    for model in (ROOT / "potentials").glob("*.equi"):
        assert "elements" in output(environment / "bin" / "equi", "info", model.name, folder=tmp_path)


def test_the_python_module_of_lammps_finds_the_plugin(environment, script):
    code = "from lammps import lammps; print('FOUND', lammps(cmdargs=['-log', 'none']).has_style('pair', 'equi'))"
    # Without the program lmp the loader does not search the folder of its MPI library.
    (library,) = environment.rglob("libmpi.so.12")
    told = output("env", f"LD_LIBRARY_PATH={library.parent}", environment / "bin" / "python", "-c", code, folder=script)
    assert "FOUND True" in told


def test_the_plugin_and_its_libraries_are_those_of_the_wheel(environment, script):
    """Nothing of this build, of its cache or of the source tree is loaded."""
    log = output("env", "LD_DEBUG=files", environment / "bin" / "lmp", "-in", "in.nacl", "-log", "none", folder=script)
    loaded = {Path(name) for name in re.findall(r"calling init: (\S+)", log)}
    names = [path.name for path in loaded if path.is_relative_to(environment.resolve()) or path.is_relative_to(environment)]
    for wanted in ("equiplugin.so", "libmpi.so.12"):
        assert names.count(wanted) == 1, (wanted, sorted(names))
    assert not [path for path in loaded if path.is_relative_to(ROOT) or path.is_relative_to(BUILD)]
    assert not [path for path in loaded if path.name == "libgomp.so.1"]


def test_the_model_tool_runs(environment, script):
    equi = environment / "bin" / "equi"
    assert output(equi, "--version", folder=script) == f"equi {equi_tools.__version__}\n"
    assert "elements (2)" in output(equi, "info", MODEL, folder=script)
    # Commands that need programs of a build find them in the wheel, and those of LAMMPS in the environment.
    assert "the build has all kernels of this model" in output(equi, "compile", MODEL, folder=script)
    told = output(equi, "doctor", folder=script)
    assert "LAMMPS finds pair style equi" in told and str(environment / "bin" / "mpirun") in told
    output(equi, "check", MODEL, "--ranks", "2", folder=script)    # status 0: within the tolerances


CALCULATOR = """
import sys
from ase.build import bulk
from equi_tools.ase import EquiCalculator
atoms = bulk("NaCl", "rocksalt", 5.6)
atoms.calc = EquiCalculator("nacl-mace.equi")
print("FOUND", repr(atoms.get_potential_energy()), "lammps" in sys.modules)
"""


def test_without_lammps_there_are_the_model_tool_and_the_calculator(environment, without_lammps, script):
    assert not list(without_lammps.rglob("site-packages/lammps"))
    found = [output(folder / "bin" / "python", "-c", CALCULATOR, folder=script) for folder in (environment, without_lammps)]
    assert found[0] == found[1] and re.search(r"FOUND -\S+ False", found[0])
    equi = without_lammps / "bin" / "equi"
    assert "elements (2)" in output(equi, "info", "nacl-mace.equi", folder=script)
    assert "the build has all kernels of this model" in output(equi, "compile", "nacl-mace.equi", folder=script)
    done = run(equi, "check", "nacl-mace.equi", folder=script)
    assert done.returncode != 0 and "lammps" in done.stdout


def binaries(folder):
    """The libraries and programs of the wheel."""
    found = [path for path in (folder / "lib").rglob("*") if re.search(r"equi[^/]*(\.libs|_plugin)/", str(path)) and path.is_file()]
    return [path for path in found if path.read_bytes()[:4] == b"\x7fELF"]


def test_no_binary_needs_a_newer_system_or_knows_the_folders_of_the_build(without_lammps):
    found = binaries(without_lammps)
    names = {path.name.split("-")[0].split(".")[0] for path in found}
    assert names == {"equiplugin", "libequi", "equi_kernels", "libgomp"}
    limits = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}
    for path in found:
        table = output("readelf", "--dyn-syms", "-W", path)
        for name, limit in limits.items():
            versions = {tuple(map(int, v.split("."))) for v in re.findall(rf"@{name}_([0-9.]+)", table)}
            assert max(versions, default=limit) <= limit, (path, versions)
        # What a linker found nowhere would have no version; the plugin gets such symbols from LAMMPS and its MPI.
        loose = re.findall(r" UND ((?!_ITM_|__gmon_|__cxa_finalize)\w+)$", table, re.M)
        assert all(re.search("LAMMPS_NS|lammps_|MPI_|4equi|equi_|fmt", name) for name in loose), (path, loose)
        text = path.read_bytes()
        for place in {str(ROOT), str(BUILD), os.environ["EQUI_CACHE_DIR"]}:
            assert place.encode() not in text, (path, place)


def test_the_kernels_are_in_one_library(without_lammps):
    sizes = {path.name: path.stat().st_size for path in binaries(without_lammps)}
    assert sizes["libequi.so.1"] > 10e6 and sizes["equiplugin.so"] < 3e6 and sizes["equi_kernels"] < 1e5


def test_the_wheel_says_what_it_is(environment):
    with zipfile.ZipFile(wheel()) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    project = re.search(r"^project\(equi VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
    assert f"\nVersion: {project}\n" in metadata and project == equi_tools.__version__
    assert re.search(r"^License-Expression: .*\bGPL-2\.0-only\b", metadata, re.M)
    texts = re.findall(r"^License-File: (\S+)$", metadata, re.M)
    assert len(texts) == 6 and all(any(name.endswith(f"/licenses/{text}") for name in names) for text in texts)
    code = "from importlib import metadata; print(metadata.version('lammps'))"
    installed = output(environment / "bin" / "python", "-c", code).strip()
    (pinned,) = re.findall(r"^Requires-Dist: lammps\[mpi\]==(\S+?)\.\*; extra == .lammps.$", metadata, re.M)
    assert installed.startswith(pinned + ".")
    assert wheel().name == f"equi-{project}-py3-none-manylinux_2_28_x86_64.whl"
    assert "\nRequires-Python: >=3.10\n" in metadata


# This test is the last one, because it removes the wheel from the environment of the others.
def test_nothing_is_left_when_it_is_removed(environment, script):
    assert len(own_files(environment)) > 50
    pip(environment, "uninstall", "--yes", "equi")
    assert own_files(environment) == set()
    done = run(environment / "bin" / "lmp", "-in", "in.nacl", "-log", "none", folder=script)
    assert done.returncode != 0 and "Unrecognized pair style 'equi'" in done.stdout, done.stdout
