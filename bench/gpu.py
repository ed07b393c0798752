#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Correctness and speed of the evaluation on an NVIDIA GPU, on a machine that may have no network and no compiler.

`pack` puts what the presets cuda-sm90 or cuda-sm80 have built, with the libraries it needs and some models, into one
archive. `run` takes the archive to results: the tests of the device evaluation, whole models against the host's kernels,
compute-sanitizer where it is installed, the layers one by one, and evaluations from 64 atoms to as many as fit. `check` and
`speed` are the two halves of `run`; each ends within ten minutes.
"""

import argparse
import csv
import functools
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import common

MOST_MEGABYTES = 64
PROGRAMS = ("bench_device", "unittest/test_device")
# Libraries of the system, and those that come with the driver or the toolkit.
ELSEWHERE = ("libc.", "libm.", "libmvec.", "libdl.", "librt.", "libpthread.", "ld-linux", "linux-vdso")
ELSEWHERE += ("libcu", "libnv", "libstdc++", "libgcc_s")
# Largest differences from the host's float64: eV/atom, eV/Angstrom, eV/atom.
BARS = {"mixed": (1e-6, 1e-5, 1e-5), "double": (1e-9, 1e-9, 1e-9)}
# With the two elements of the crystal.
MODELS = {
    "sevennet-0": ("Na", "Cl"),
    "tiny/lmax3": ("Na", "Cl"),
    "tiny/parity": ("C", "O"),
    "tiny/nequip": ("Na", "Cl"),
    "mace/plain": ("Na", "Cl"),
    "mace/density": ("K", "Rb"),
}
SECONDS_OF_STEPS = 150


def pack(args):
    build = Path(args.build_dir)
    with tempfile.TemporaryDirectory(prefix="equi-gpu-") as folder:
        folder = Path(folder)
        for program in PROGRAMS:
            source = build / program if "/" in program else build / "bin" / program
            if not source.is_file():
                sys.exit(f"{source} is missing: build it with 'cmake --workflow --preset cuda-sm90'")
            target = folder / source.name
            shutil.copy(source, target)
            subprocess.run(["strip", target], check=True)
            for line in subprocess.run(["ldd", source], capture_output=True, text=True, check=True).stdout.splitlines():
                name, _, path = (part.strip() for part in line.partition("=>"))
                path = path.split(" (")[0]
                if Path(path).is_file() and not name.startswith(ELSEWHERE):
                    (folder / "lib").mkdir(exist_ok=True)
                    shutil.copy(path, folder / "lib" / name)
        for name in MODELS:
            source = Path(args.models) / f"{name}.equi"
            if not source.is_file():
                sys.exit(f"{source} is missing: 'cmake --workflow --preset test' makes the models of the tests")
            target = folder / "models" / f"{name}.equi"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        with tarfile.open(args.archive, "w:xz") as archive:
            archive.add(folder, arcname="equi-gpu")
    megabytes = Path(args.archive).stat().st_size / 2**20
    print(f"{args.archive}: {megabytes:.1f} MiB")
    if megabytes > MOST_MEGABYTES:
        sys.exit(f"more than {MOST_MEGABYTES} MiB")


class Machine:
    """The unpacked archive on a machine with a GPU."""

    def __init__(self, archive, folder):
        with tarfile.open(archive) as content:
            content.extractall(folder)
        self.folder = Path(folder) / "equi-gpu"
        # The toolkit's libraries, or those that Torch's packages bring.
        libraries = [self.folder / "lib", *Path("/usr/local/cuda").glob("lib64")]
        for place in sys.path:
            libraries += Path(place).glob("nvidia/*/lib") if place else []
        self.environment = dict(
            os.environ,
            LD_LIBRARY_PATH=":".join([*map(str, libraries), os.environ.get("LD_LIBRARY_PATH", "")]),
            EQUI_MODELS_DIR=str(self.folder / "models"),
            OMP_WAIT_POLICY="passive",
        )

    def start(self, *command, timeout=500):
        print("+", *command, flush=True)
        try:
            done = subprocess.run(
                [str(word) for word in command], env=self.environment, stdout=subprocess.PIPE, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired as e:
            print(f"ended after {timeout} s", flush=True)
            return 124, (e.stdout or b"").decode() if isinstance(e.stdout, bytes) else e.stdout or ""
        return done.returncode, done.stdout

    def table(self, model, *words, timeout=500):
        """The rows that bench_device prints, with the name of the model."""
        status, text = self.start(
            self.folder / "bench_device", self.folder / "models" / f"{model}.equi", *MODELS[model], *words, timeout=timeout
        )
        print(text, end="", flush=True)
        if status != 0:
            print(f"status {status}")
        return [{"model": model, **row} for row in csv.DictReader(io.StringIO(text))], status == 0


def write(folder, name, rows):
    if rows:
        common.write_csv(folder, name, [{"gpu": gpu_name(), **row} for row in rows])


@functools.cache
def gpu_name():
    try:
        return subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "none"


def check(machine, args):
    """Whether everything agrees."""
    status, text = machine.start(machine.folder / "test_device", "--gtest_brief=1")
    print(text[-3000:])
    good = status == 0
    rows = []
    for model in MODELS:
        for precision, bars in BARS.items():
            found, ended = machine.table(model, "check", precision)
            for row in found:
                reached = all(float(row[key]) <= bar for key, bar in zip(("energy", "force", "virial"), bars))
                row["agrees"] = "yes" if reached and row["repeats"] == "yes" else "NO"
            good = good and ended and all(row["agrees"] == "yes" for row in found)
            rows += found
    write(args.out, "gpu_check.csv", rows)
    if shutil.which("compute-sanitizer"):
        words = ("compute-sanitizer", "--error-exitcode", "9", machine.folder / "bench_device")
        words += (machine.folder / "models/tiny/lmax3.equi", "Na", "Cl", "check", "mixed", "2")
        status, text = machine.start(*words, timeout=120)
        print(text[-1000:], "compute-sanitizer:", "clean" if status == 0 else f"status {status}")
        good = good and status == 0
    print("all agrees" if good else "NOT all agrees")
    return good


def speed(machine, args):
    layers, steps = [], []
    good = True
    for model in ("sevennet-0", "mace/plain"):
        for precision in ("mixed", "double"):
            rows, ended = machine.table(model, "layers", precision)
            layers += rows
            good = good and ended
    for precision in ("mixed", "double"):
        rows, ended = machine.table("sevennet-0", "steps", precision, SECONDS_OF_STEPS)
        steps += rows
        good = good and ended
    write(args.out, "gpu_layers.csv", layers)
    write(args.out, "gpu_steps.csv", steps)
    plot(args.out, layers, steps)
    return good


def plot(out, layers, steps):
    try:
        pyplot = common.plotting()
    except ImportError:
        print("no plot: there is no matplotlib")
        return
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5), layout="constrained")
    shown = [row for row in layers if row["precision"] == "mixed" and row["model"] == "sevennet-0"]
    bottom = [0.0] * len(shown)
    for kind in ("forward", "backward", "gather"):
        heights = [float(row[f"{kind}_ns_per_edge"]) for row in shown]
        left.bar([row["layer"] for row in shown], heights, bottom=bottom, label=kind)
        bottom = [a + b for a, b in zip(bottom, heights)]
    left.set(title="convolutions of SevenNet-0, mixed", xlabel="layer", ylabel="ns per edge")
    left.legend()
    for precision in ("mixed", "double"):
        points = [(int(row["atoms"]), float(row["us_per_atom"])) for row in steps if row["precision"] == precision]
        right.plot(*zip(*points), marker="o", label=precision) if points else None
    right.set(xscale="log", yscale="log", title="energy, forces and virial", xlabel="atoms", ylabel="us per atom")
    right.grid(which="both", alpha=0.3)
    right.legend()
    figure.suptitle(gpu_name())
    figure.savefig(Path(out) / "gpu.png", dpi=150)
    print(f"written: {Path(out) / 'gpu.png'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="make the archive")
    packing.add_argument("archive", metavar="FILE.tar.xz")
    packing.add_argument("--build-dir", default="build-cuda-sm90", metavar="DIR", help="default: %(default)s")
    packing.add_argument("--models", default="build/models", metavar="DIR", help="default: %(default)s")
    for name, text in (("run", "check and speed"), ("check", "whether results agree"), ("speed", "times")):
        command = commands.add_parser(name, help=text)
        command.add_argument("archive", metavar="FILE.tar.xz")
        command.add_argument("--out", default="results", metavar="DIR", help="of the tables (default: %(default)s)")
    args = parser.parse_args()
    if args.command == "pack":
        pack(args)
        return
    with tempfile.TemporaryDirectory(prefix="equi-gpu-") as folder:
        machine = Machine(args.archive, folder)
        print(f"GPU: {gpu_name()}", flush=True)
        good = args.command == "speed" or check(machine, args)
        good = (args.command == "check" or speed(machine, args)) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
