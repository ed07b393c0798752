# SPDX-License-Identifier: MIT
"""`equi doctor`: reports what a run finds on this machine, and what would slow it or stop it."""

import os
import re
import subprocess
from dataclasses import asdict, dataclass

from . import frameworks, kernels, lammps_runner
from .errors import EquiError
from .instruction_sets import TARGETS
from .printable import printable

OK, SLOW, BROKEN = "ok", "slow", "broken"
TIME_LIMIT = 60  # seconds for LAMMPS to start
BUSY = 0.5  # share of the cores that others may use before it is worth a word


@dataclass
class Finding:
    subject: str
    found: str
    state: str = OK
    advice: str = ""


# Messages of the dynamic loader: about a plugin through LAMMPS, about a program directly.
NOT_LOADED = re.compile(r"^(?:Open of file .* failed|.*error while loading shared libraries): (.*)$", re.M)


def _not_loaded(told, subject):
    """The finding that a shared library cannot be loaded, in the loader's words; None if it reported nothing."""
    reason = NOT_LOADED.search(told)
    if not reason:
        return None
    if "libcuda.so" in reason.group(1):
        advice = ("this build is for GPUs (EQUI_CUDA=ON) and needs the driver of NVIDIA: run it on a machine with a GPU, or "
                  "build with EQUI_CUDA=OFF for this one")  # fmt: skip
    else:
        advice = "the build needs this library: LD_LIBRARY_PATH can name its folder; if it has gone or changed, build again"
    return Finding(subject, f"cannot be loaded: {reason.group(1)}", BROKEN, advice)


def _processor(machine):
    found = f"{machine['cpu']}, {machine['cores']} cores for this process"
    if float(machine["quota"]) < int(machine["cores"]):
        found += f", computing time of {float(machine['quota']):.3g} (control group)"
    load, cores = os.getloadavg()[0], min(float(machine["cores"]), float(machine["quota"]))
    found += f", load {load:.1f}"
    # The load counts all cores of the machine, and this process may have some of them.
    busy = load - ((os.cpu_count() or 1) - cores)
    if busy > BUSY * cores:
        advice = f"other processes keep about {min(busy, cores):.1f} of the {cores:.3g} cores busy: runs and timings will be slower until they end"
        return Finding("processor", found, SLOW, advice)
    return Finding("processor", found)


def _kernels(machine):
    found = f"{machine['kernels']} of {machine['built']}"
    if "products" in machine:
        found += f", dense products by {machine['products']}"
    if machine["kernels"] in TARGETS and "cache" in machine:
        own, others = kernels.own_libraries(machine["kernels"])
        found += f"; {own} libraries of yours in {machine['cache']}"
        if others:
            found += f", and {others} of another version, which are not used"
    if machine["cpu"] != machine["kernels"]:
        targets = ";".join(TARGETS)
        advice = f"the CPU has {machine['cpu']}: configure with EQUI_INSTRUCTION_SETS='{targets}' and build again"
        return Finding("kernels", found, SLOW, advice)
    if "cache_note" in machine:
        return Finding("kernels", found, SLOW, machine["cache_note"])
    return Finding("kernels", found)


def _threads(machine):
    asked = os.environ.get("OMP_NUM_THREADS")
    shown = "not set" if asked is None else printable(asked, 60)
    found = f"{machine['threads']} for a single rank (OMP_NUM_THREADS is {shown})"
    if "threads_note" in machine:
        return Finding("threads", found, SLOW, machine["threads_note"])
    cores, threads = int(min(float(machine["cores"]), float(machine["quota"]))), int(machine["threads"])
    if cores > threads:
        idle = f"{cores - threads} core{'s' if cores - threads > 1 else ''}"
        advice = f"a run of one rank leaves {idle} idle: unset OMP_NUM_THREADS, or start {cores // threads} ranks"
        return Finding("threads", found, OK, advice)
    return Finding("threads", found)


def _answer(command):
    """The output of a program that should end at once, in the user's environment, without the folder that the command
    equi of a build adds to it."""
    own = str(lammps_runner.build_folder() / "lib")
    folders = [folder for folder in os.environ.get("LAMMPS_PLUGIN_PATH", "").split(":") if folder and folder != own]
    environment = dict(os.environ, LAMMPS_PLUGIN_PATH=":".join(folders))
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT,
                              stdin=subprocess.DEVNULL, check=False, env=environment)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EquiError(f"cannot run {command[0]}: {error}") from error
    return done.stdout + done.stderr


def _lammps(build_dir):
    lmp, mpirun = lammps_runner.lammps_programs(build_dir)
    told = _answer([lmp, "-help"])
    version = re.search(r"Parallel Simulator - (.*)", told)
    if not version:
        return [Finding("LAMMPS", lmp, BROKEN, printable(told.strip() or "it prints nothing", 300))]
    mpi = re.search(r"^MPI v.*?:\s*(.*)$", told, re.M)
    kokkos = "with KOKKOS" if "KOKKOS package API" in told else "without KOKKOS (preset lammps-kokkos has it)"
    findings = [Finding("LAMMPS", f"{version.group(1).strip()}, {kokkos}: {lmp}")]
    if mpirun is None:
        findings.append(Finding("MPI", "no mpirun", SLOW, "runs are limited to one rank"))
    else:
        findings.append(Finding("MPI", f"{' '.join(mpi.group(1).split()) if mpi else 'not known'}: {mpirun}"))
    with lammps_runner._working_folder() as folder:
        (folder / "in.style").write_text("units metal\npair_style equi\nprint 'EQUI FOUND'\n")
        told = _answer([lmp, "-in", str(folder / "in.style"), "-log", "none", "-nocite"])
    if "EQUI FOUND" in told.splitlines():
        plugin = Finding("plugin", "LAMMPS finds pair style equi")
    else:
        plugin = _not_loaded(told, "plugin") or Finding(
            "plugin", lammps_runner._lammps_message(told), BROKEN,
            "set LAMMPS_PLUGIN_PATH to the folder of equiplugin.so, or use the lmp of the build")  # fmt: skip
    return [*findings, plugin]


def _frameworks():
    found = []
    for framework in frameworks.FRAMEWORKS.values():
        try:
            found.append(f"{framework.name} {framework.installed_version()}")
        except ImportError:  # metadata of the package is missing
            if framework.interpreter:
                found.append(f"{framework.name} ({framework.interpreter})")
    return Finding("frameworks", ", ".join(found) or "none: models can be converted, but not compared with their frameworks")


def _reference(build_dir):
    """Whether the build can evaluate with LibTorch."""
    folder = lammps_runner.build_folder(build_dir) / "lib"
    if list(folder.glob("libequi_torch.*")):
        return Finding("reference", "LibTorch, for reference yes of pair_style")
    return Finding("reference", "no LibTorch in this build: reference yes of pair_style stops with an error, all else works")


def examine(build_dir):
    """List of findings; EquiError if there is nothing to examine."""
    try:
        machine = kernels.machine(build_dir=build_dir)
        of_machine = [_processor(machine), _kernels(machine), _threads(machine)]
    except EquiError as error:  # a program of a build for GPUs also needs their driver
        not_loaded = _not_loaded(str(error), "kernels")
        if not not_loaded:
            raise
        of_machine = [not_loaded]
    return [*of_machine, *_lammps(build_dir), _reference(build_dir), _frameworks()]


def facts(findings):
    return [asdict(finding) for finding in findings]


def text(findings):
    lines = []
    for finding in findings:
        mark = "" if finding.state == OK else f"{finding.state.upper()}: "
        lines.append(f"{finding.subject:<12} {mark}{printable(finding.found)}")
        if finding.advice:
            lines.append(f"{'':<12} {printable(finding.advice)}")
    bad = [finding.subject for finding in findings if finding.state != OK]
    lines.append(f"look at: {', '.join(bad)}" if bad else "nothing is in the way of a fast run")
    return "\n".join(lines)
