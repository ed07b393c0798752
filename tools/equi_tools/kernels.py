# SPDX-License-Identifier: MIT
"""Kernels for a model: their schedule, and those that the build does not have.

The program equi_kernels of the build folder provides them; this module shows its output, compiles it and installs the
result.
"""

import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import EquiError
from .instruction_sets import TARGETS
from .lammps_runner import build_folder
from .printable import printable
from .progress import Steps

# Status of a program that lacks a library, such as that of a GPU's driver.
NOT_LOADED = 127


def _program(build_dir=None):
    return build_folder(build_dir) / "bin" / "equi_kernels"


def _run(command, environment=None):
    try:
        return subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, errors="replace", check=False,
            stdin=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
    except OSError as error:
        raise EquiError(f"cannot run {command[0]}: {error.strerror}") from error


def _missing(program):
    return (
        f"{program} is missing: 'cmake --build {program.parents[1]} --target equi_kernels' makes it, and "
        "EQUI_BUILD_DIR names another build folder"
    )


def _kernels(*words, build_dir=None, environment=None):
    program = _program(build_dir)
    if not program.is_file():
        raise EquiError(_missing(program))
    done = _run([program, *words], environment)
    if done.returncode != 0:
        raise EquiError(done.stderr.strip() or f"{program} ended with status {done.returncode}")
    return done.stdout


def try_file(file, name=None):
    """Reads a file as the pair style does and evaluates a small structure; if one of them fails, EquiError repeats the
    reader's words. name: the name of the file in messages. Returns why the file could not be tried, or nothing."""
    program = _program()
    if not program.is_file():
        return _missing(program)
    try:
        # A process with one thread needs a fraction of a second.
        done = _run([program, "try", file], os.environ | {"OMP_NUM_THREADS": "1"})
    except EquiError as error:
        return str(error)
    words = printable(" ".join(done.stderr.split())).replace(str(file), str(name or file))
    if done.returncode == -signal.SIGKILL:
        return f"{program} was killed, as by a system that is short of memory"
    if done.returncode == NOT_LOADED:
        return words
    if done.returncode != 0 and words.startswith("usage: "):
        return f"{program} is older than this tool: build it anew"
    if done.returncode < 0:
        raise EquiError(f"{name or file}: its reader or its evaluation ends with signal {-done.returncode}")
    if done.returncode != 0:
        raise EquiError(words or f"{program} ended with status {done.returncode}")
    return ""


def not_tried(file, why):
    """The note about a file that try_file() could not try."""
    return f"{printable(str(file))} was not tried: {why}. Where the pair style is built, 'equi check' tries a file"


def schedule(file, target):
    """The table of `equi schedule`."""
    return _kernels("schedule", target, file)


def operations(file):
    """Floating-point operations of each layer, in the order of the file: a list of [per atom for energies, per atom
    for energies and forces, the same two per edge], as kokkos/plan/operation_count.h counts them. Then the same for
    all layers together, with the linear maps multiplied that are multiplied when a model is loaded."""
    return [[int(word) for word in line.split()] for line in _kernels("operations", file).splitlines()]


def radial(file, receiver, sender, count):
    """Radial functions of the convolutions, by the position of the layer: (distances [count], values [count, paths,
    3]). The values of a path are the root mean square over its channels, the least and the largest; None if they
    depend on features."""
    found = {}
    for line in _kernels("radial", file, receiver, sender, count).splitlines():
        if line.startswith("convolution "):
            layer, paths = map(int, line.split()[1:])
            found[layer] = [] if paths else None
        else:
            found[layer].append([float(word) for word in line.split()])
    tables = {layer: None if rows is None else np.array(rows) for layer, rows in found.items()}
    return {layer: None if t is None else (t[:, 0], t[:, 1:].reshape(len(t), -1, 3)) for layer, t in tables.items()}


def machine(ranks=1, build_dir=None, environment=None):
    """This machine as a run on `ranks` ranks finds it: a dict of texts, whose keys tools/equi_kernels.cpp explains."""
    lines = _kernels("machine", ranks, build_dir=build_dir, environment=environment).splitlines()
    return dict(line.split(" ", 1) for line in lines)


def processor_name():
    """What the system calls the processor."""
    try:
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return printable(found[1], 80) if found else platform.processor() or "unknown CPU"


@dataclass(frozen=True)
class MachineCheck:
    """A check of a model on this machine. Numbers are null if they are not finite."""

    instruction_set: str
    precision: str  # None for kernels
    name: str
    measured: float
    allowed: float
    unit: str  # None: relative to the largest number
    passed: bool
    remark: str


def check(file, build_dir=None):
    """The checks of a model without a user's system: its kernels for each instruction set that the CPU can run, and,
    for each precision, the laws of energies and forces on small structures. A list of MachineCheck."""

    def number(word):
        return float(word) if np.isfinite(float(word)) else None

    found = []
    for line in _kernels("selfcheck", file, build_dir=build_dir).splitlines():
        target, precision, name, measured, allowed, unit, verdict, remark = line.split("\t")
        found.append(MachineCheck(
            target, None if precision == "-" else precision, name, number(measured), number(allowed),
            None if unit == "-" else unit, verdict == "ok", remark,
        ))  # fmt: skip
    return found


def check_text(checks):
    """A table of the checks: for kernels the broken ones and the number of the others, for laws each one."""
    lines = [f"{'kernels':<8} {'precision':<9} {'check':<36} {'measured':>9} {'allowed':>9}"]
    for target in dict.fromkeys(c.instruction_set for c in checks):
        of_kernels = [c for c in checks if c.instruction_set == target and c.precision is None]
        good = [c for c in of_kernels if c.passed]
        lines.append(f"{target:<8} {'':<9} {len(good)} of {len(of_kernels)} checks of kernels")
        for c in checks:
            if c.instruction_set != target or (c in good):
                continue
            verdict = "" if c.passed else f"  FAILED{': ' if c.remark else ''}{printable(c.remark, 300)}"
            measured = "-" if c.measured is None else f"{c.measured:.2e}"
            lines.append(f"{target:<8} {c.precision or '':<9} {c.name:<36} {measured:>9} {c.allowed:9.2e} {c.unit or ''}{verdict}")
    failed = sum(not c.passed for c in checks)
    lines.append(f"{failed} of {len(checks)} checks of this machine fail" if failed else f"this machine passes all {len(checks)} checks")
    return "\n".join(lines)


def _compiler():
    named = os.environ.get("CXX", "")
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise EquiError(f"the environment variable CXX: expected a command, found '{named}'") from error
    for candidate in (command, ["c++"], ["g++"], ["clang++"]):
        if candidate and shutil.which(candidate[0]):
            return candidate
    raise EquiError("no C++ compiler was found: name one in the environment variable CXX")


def _state(target, key, file):
    """The state of a library's file: "missing", "good" or "broken: " and why."""
    done = _run([_program(), "check", target, key, file])
    if done.returncode < 0:
        return f"broken: it ends the process that loads it with signal {-done.returncode}"
    return _kernels("check", target, key, file).strip()


def _make(compiler, target, key, file, folder):
    """Compiles the library and moves it to its place; a run that starts meanwhile finds either nothing or the whole
    file."""
    source, library = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
    _kernels("library", target, key, file, source)
    command = [*compiler, *_kernels("flags", target).split()]
    done = _run([*command, "-I", _program().parents[1] / "include" / "equi", source, "-o", library])
    if done.returncode != 0:
        raise EquiError(f"{compiler[0]} could not compile the kernels {key}: {done.stderr.strip()[-500:]}")
    _kernels("store", target, key, library, file)


def own_libraries(target):
    """(those of this version, those of others): numbers of libraries of an instruction set in the user's cache
    folder."""
    key = "1_11"
    place = Path(_kernels("place", target, key).splitlines()[0])
    all_of_target = len(list(place.parent.glob(f"kernel-{target}-*.so")))
    of_version = len(list(place.parent.glob(place.name.replace(key, "*"))))
    return of_version, all_of_target - of_version


def targets(named=None):
    """The instruction sets that `--target` names; by default the one of this machine's kernels."""
    if named is not None:
        return TARGETS if named == "all" else (named,)
    own = machine()["kernels"]
    if own not in TARGETS:
        raise EquiError(f"this machine uses {own} kernels, which are in every build: name another one with --target")
    return (own,)


def compile_missing(file, target=None, force=False, quiet=False):
    """Compiles the libraries of the kernels that `file` needs beyond those of the build; returns lines that report
    them."""
    keys = _kernels("missing", file).split()
    if not keys:
        return ["the build has all kernels of this model"]
    work = [(t, key) for t in targets(target) for key in keys]
    compiler = _compiler()
    lines = []
    try:
        with Steps(len(work), quiet) as steps, tempfile.TemporaryDirectory() as folder:
            for t, key in work:
                steps.next(f"kernels {key} for {t}")
                place, *notes = _kernels("place", t, key).splitlines()
                lines += [note for note in notes if note not in lines]
                state = _state(t, key, file)
                if state == "good" and not force:
                    lines.append(f"{place} exists already")
                    continue
                _make(compiler, t, key, file, folder)
                lines.append(f"made {place}" + (f" anew ({state})" if state.startswith("broken") else ""))
    except OSError as error:
        raise EquiError(f"cannot make kernels: {error.filename or ''}: {error.strerror}") from error
    return lines
