"""Kernels for a model: their schedule, and those that the build does not have.

The program equi_generate of the build folder knows both; here its output is shown, compiled and put in its place.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .errors import EquiError
from .progress import Steps

TARGETS = ("avx2", "avx512")


def _build_dir():
    return Path(os.environ.get("EQUI_BUILD_DIR", "build"))


def _generate(*words):
    program = _build_dir() / "bin" / "equi_generate"
    if not program.is_file():
        raise EquiError(f"{program} is missing: it is found through EQUI_BUILD_DIR")
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EquiError(done.stderr.strip() or f"{program} ended with status {done.returncode}")
    return done.stdout


def schedule(file, target):
    """The table of `equi schedule`."""
    return _generate("schedule", target, file)


def _compiler():
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    raise EquiError("no C++ compiler: name one in the environment variable CXX")


def compile_missing(file, target=None, force=False, quiet=False):
    """Makes the libraries of the kernels that `file` needs beyond those of the build; returns lines that tell of them."""
    keys = _generate("missing", file).split()
    if not keys:
        return ["the build has all kernels of this model"]
    work = [(t, key) for t in ([target] if target else TARGETS) for key in keys]
    compiler = _compiler()
    lines = []
    with Steps(len(work), quiet) as steps, tempfile.TemporaryDirectory() as folder:
        for t, key in work:
            steps.next(f"kernels {key} for {t}")
            place = _generate("place", t, key).strip()
            if not place:
                raise EquiError("no cache folder: set HOME or XDG_CACHE_HOME")
            place = Path(place)
            if place.is_file() and not force:
                lines.append(f"{place} is there already")
                continue
            source, library = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
            _generate("library", t, key, file, source)
            command = [*compiler, *_generate("flags", t).split(), "-fPIC", "-shared", "-fvisibility=hidden"]
            command += ["-I", str(_build_dir() / "include" / "equi"), str(source), "-o", str(library)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise EquiError(f"{compiler[0]} could not compile the kernels {key}: {done.stderr.strip()[-500:]}")
            place.parent.mkdir(parents=True, exist_ok=True)
            # A run that starts meanwhile finds either nothing or the whole file.
            part = place.with_suffix(f".{os.getpid()}")
            shutil.copyfile(library, part)
            part.replace(place)
            lines.append(f"made {place}")
    return lines
