#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs clang-tidy, with the checks of .clang-tidy, and cppcheck over the sources in src/ and kokkos/.

    python unittest/checkers.py BUILD_FOLDER [FILE ...] [--only clang-tidy] [--jobs 2]

The build folder has been configured: its compile_commands.json states how each source is compiled. Without files all
sources of src/ and kokkos/ that this build compiles are checked. Prints the findings, and ends with a status other
than zero if there are any.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("src", "kokkos")
CPPCHECK = ["--enable=warning,performance,portability", "--inline-suppr", "--quiet", "--error-exitcode=1",
            # Structures that others fill have no initial values, and few numbers are passed by value: clang-tidy
            # reports the cases that matter. It also knows where cppcheck 2.10 continues after a return with its moved
            # argument.
            "--suppress=uninitMemberVar", "--suppress=passedByValue", "--suppress=accessMoved",
            "--suppress=useInitializationList",
            # An array of fewer rows is read as far as its degree says, and an exception is described while it is handled.
            "--suppress=uninitvar:*/src/numbers/hermite.h",
            "--suppress=rethrowNoCurrentException:*/src/lammps/faults/lammps_faults.cpp",
            "--suppress=legacyUninitvar:*/kokkos/host_kernels/host_*_impl.h",
            # Float32 coefficients lie in rows of float64 (src/generator/kernel_layout.h).
            "--suppress=invalidPointerCast:*/host_simd.h",
            # What version 2.10 cannot parse: a template among the parameters of a template, brackets of templates that
            # are no comparisons, and macros of LibTorch and CUDA.
            "--suppress=syntaxError:*/device_so2_convolution.cpp", "--suppress=syntaxError:*/kokkos/training/torch_*.cpp",
            "--suppress=compareBoolExpressionWithInt:*/host_product_impl.h",
            "--suppress=unknownMacro:*/device_lanes_cuda.h",
            f"--suppress=*:{(ROOT / '.cache').resolve()}/*", "--template={file}:{line}: {id}: {message}"]  # fmt: skip


def commands(folder, files):
    """The entries of the compilation database for these files, each source once."""
    entries = {}
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        path = Path(entry["directory"], entry["file"]).resolve()
        if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in ROOMS:
            continue
        if not files or path in files:
            entries.setdefault(path, entry)
    return entries


def clang_tidy(program, _, folder, path):
    done = subprocess.run([program, "-p", folder, "--quiet", path], capture_output=True, text=True, check=False, cwd=ROOT)
    return "" if done.returncode == 0 else done.stdout or done.stderr


def cppcheck(program, entries, _, path):
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch, "compile_commands.json")
        project.write_text(json.dumps([entries[path]]))
        done = subprocess.run([program, f"--project={project}", *CPPCHECK], capture_output=True, text=True, check=False, cwd=ROOT)
    return "" if done.returncode == 0 else done.stderr or done.stdout


CHECKERS = {"clang-tidy": clang_tidy, "cppcheck": cppcheck}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--only", choices=CHECKERS)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_intermixed_args()
    entries = commands(arguments.folder.resolve(), {file.resolve() for file in arguments.files})
    if not entries:
        sys.exit("none of these files is compiled in that folder")
    status = 0
    for name in [arguments.only] if arguments.only else CHECKERS:
        program = shutil.which(f"{name}-14") or shutil.which(name)
        if not program:
            sys.exit(f"{name} is not installed")
        begin, found = time.monotonic(), 0
        check = CHECKERS[name]
        with ThreadPoolExecutor(arguments.jobs) as pool:
            results = pool.map(lambda path: check(program, entries, arguments.folder.resolve(), path), entries)
            for path, errors in zip(entries, results, strict=True):
                if errors:
                    found += 1
                    print(f"{path.relative_to(ROOT)}:\n{errors}", flush=True)
        print(f"{name}: {found} of {len(entries)} files with findings, {time.monotonic() - begin:.0f} seconds", flush=True)
        status = status or found
    sys.exit(1 if status else 0)


if __name__ == "__main__":
    main()
