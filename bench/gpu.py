#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Correctness and speed of the evaluation on an NVIDIA GPU, on a machine that may have no network and no compiler.

    gpu.py pack FILE.tar.xz [--also MODEL.equi:ELEMENT,ELEMENT[:tf32]...]
                                         what the preset cuda has built, with the libraries it needs and models
    gpu.py pack FILE.tar.xz --lammps     the LAMMPS in build-lammps-cuda (CONTRIBUTING.md) with its plugin and SevenNet-0
    gpu.py run FILE.tar.xz [PART...] [--out DIR]

Each part ends within some minutes and writes its tables and the output of its programs into DIR. By default all run:

    check      whole models against the kernels of the host, and against themselves bit by bit
    directions derivatives of forces along several directions at a time, likewise
    layers     convolutions one by one
    steps      evaluations from 64 atoms to as many as fit, by size of the batches, with recorded steps and without
    families   the same for the models of --also, in mixed precision and where it is requested in tf32
    tests      the tests of the device evaluation
    sanitizer  a small evaluation under compute-sanitizer, if the machine has it and allows it
    lammps     for the second archive: equi/kk against plain equi on the host, with second derivatives, and dynamics

An archive of a build without CUDA (--build-dir build) runs in the same way on the CPU, as a rehearsal. Plain equi with
`kernels device` then replaces equi/kk, or plain equi itself if the plugin has no such kernels. A LAMMPS with its
package KOKKOS still runs equi/kk.
"""

import argparse
import array
import csv
import functools
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import common

MOST_MEGABYTES = 55
ALSO = "also"  # folder of the archive
PROGRAMS = ("bench_device", "unittest/test_device")
# Libraries of the system, and those of the driver or the toolkit.
ELSEWHERE = ("libc.", "libm.", "libmvec.", "libdl.", "librt.", "libpthread.", "ld-linux", "linux-vdso")
ELSEWHERE += ("libcu", "libnv", "libstdc++", "libgcc_s")
# Largest differences from the host's float64: eV/atom, eV/Angstrom, eV/atom.
BARS = {"mixed": dict(energy=1e-6, force=1e-5, virial=1e-5), "double": dict(energy=1e-9, force=1e-9, virial=1e-9)}
# Models with the two elements of the crystal.
MODELS = {
    "sevennet-0": ("Na", "Cl"),
    "tiny/lmax3": ("Na", "Cl"),
    "tiny/parity": ("C", "O"),
    "tiny/nequip": ("Na", "Cl"),
    "mace/plain": ("Na", "Cl"),
    "mace/density": ("K", "Rb"),
    "matgl/bessel": ("Na", "Cl"),
    "fairchem/l3m2": ("Na", "Cl"),
}
# Only the preset `slow` makes these; packed if they exist.
OPTIONAL_MODELS = ("fairchem/l3m2",)
# Bars of derivatives of forces, relative to the largest one.
DIRECTIONS_BARS = {"mixed": 3e-4, "double": 1e-9}
# Bars of a part that ends in LAMMPS: energies per atom and forces of two evaluations, eV/atom and eV/Angstrom.
LAMMPS_BARS = {"mixed": (1e-6, 1e-5), "double": (1e-9, 1e-9)}
LAMMPS_CELLS = (2, 5, 10, 20, 40, 50)  # of 8 atoms, per direction
LAMMPS_STEPS = 50
# Receivers of a launch; 0: the default.
BATCHES = {"mixed": (0, 32768), "double": (0,)}
SECONDS = 60  # limit of a program of the part steps; four times as long for molecular dynamics
TIMEOUT = 290  # limit of any program


def add_program(source, folder, search=""):
    """Copies a program or library into the folder, and the libraries it needs into lib/. search: folders to search
    first."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / source.name
    shutil.copy(source, target)
    subprocess.run(["strip", target], check=True)
    found = subprocess.run(
        ["ldd", source], capture_output=True, text=True, check=True, env=dict(os.environ, LD_LIBRARY_PATH=search)
    )
    for line in found.stdout.splitlines():
        name, _, path = (part.strip() for part in line.partition("=>"))
        path = path.split(" (")[0]
        if Path(path).is_file() and not name.startswith(ELSEWHERE):
            (folder / "lib").mkdir(exist_ok=True)
            shutil.copy(path, folder / "lib" / name)


def add_programs(build, folder):
    for program in PROGRAMS:
        source = build / program if "/" in program else build / "bin" / program
        if not source.is_file():
            sys.exit(f"{source} is missing: build it with 'cmake --workflow --preset cuda'")
        add_program(source, folder)


def add_lammps(build, folder):
    """The program that the build's lmp starts, and the plugin."""
    wrapper = build / "bin" / "lmp"
    if not wrapper.is_file():
        sys.exit(f"{wrapper} is missing: CONTRIBUTING.md says how it is built")
    text = wrapper.read_text()
    program = Path(re.search(r"^exec '([^']+)'", text, re.M)[1])
    runtime = re.search(r"^runtime='([^']*)'", text, re.M)[1]
    search = f"{runtime}:{build / 'lib'}"
    add_program(program, folder, search)
    add_program(build / "lib" / "equiplugin.so", folder, search)


def model_and_elements(text):
    """The file, elements and precisions of an argument of --also."""
    found = re.fullmatch(r"(.+?):(\w+),(\w+)(:tf32)?", text)
    if not found or not Path(found[1]).is_file():
        raise argparse.ArgumentTypeError(f"{text} is not MODEL.equi:ELEMENT,ELEMENT[:tf32] of an existing file")
    return Path(found[1]), found.group(2, 3), ["mixed", "tf32"] if found[4] else ["mixed"]


def pack(args):
    build = Path(args.build_dir or ("build-lammps-cuda" if args.lammps else "build-cuda")).resolve()
    with tempfile.TemporaryDirectory(prefix="equi-gpu-") as folder:
        folder = Path(folder)
        (add_lammps if args.lammps else add_programs)(build, folder)
        for name in ["sevennet-0"] if args.lammps else MODELS:
            source = Path(args.models) / f"{name}.equi"
            if not source.is_file() and name in OPTIONAL_MODELS:
                print(f"without {source}, which the workflow slow makes")
                continue
            if not source.is_file():
                sys.exit(f"{source} is missing: 'cmake --workflow --preset test' makes the models of the tests")
            target = folder / "models" / f"{name}.equi"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        for file, elements, precisions in args.also:
            target = folder / ALSO / file.stem
            target.mkdir(parents=True)
            shutil.copy(file, target / "model.equi")
            (target / "elements").write_text(" ".join(elements))
            (target / "precisions").write_text(" ".join(precisions))
        with tarfile.open(args.archive, "w:xz") as archive:
            archive.add(folder, arcname="equi-gpu")
    megabytes = Path(args.archive).stat().st_size / 2**20
    print(f"{args.archive}: {megabytes:.1f} MiB")
    if megabytes > MOST_MEGABYTES:
        sys.exit(f"more than {MOST_MEGABYTES} MiB")


class Machine:
    """The unpacked archive on a machine with a GPU. The output of a part's programs goes to a file in `out`."""

    def __init__(self, archive, folder, out, seconds):
        self.seconds = seconds
        self.logs = Path(out) / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.part = ""
        self.has_device = True  # False for a plugin without the package KOKKOS, after it has reported that
        with tarfile.open(archive) as content:
            content.extractall(folder)
        self.folder = Path(folder) / "equi-gpu"
        # The toolkit's libraries, or those in Torch's packages.
        libraries = [self.folder / "lib", *Path("/usr/local/cuda").glob("lib64")]
        for place in sys.path:
            libraries += Path(place).glob("nvidia/*/lib") if place else []
        self.environment = dict(
            os.environ,
            LD_LIBRARY_PATH=":".join([*map(str, libraries), os.environ.get("LD_LIBRARY_PATH", "")]),
            EQUI_MODELS_DIR=str(self.folder / "models"),
            LAMMPS_PLUGIN_PATH=str(self.folder),
            OMP_WAIT_POLICY="passive",
        )

    def parts(self):
        """The parts for which the archive has programs."""
        has_lammps = (self.folder / "lmp").is_file()
        return [part for part in PARTS if (part == "lammps") == has_lammps]

    def models(self):
        return [name for name in MODELS if (self.folder / "models" / f"{name}.equi").is_file()]

    def model(self):
        return self.folder / "models/sevennet-0.equi"

    @functools.cache
    def has_kokkos(self):
        _, _, packages = self.start(self.folder / "lmp", "-h")[1].partition("Installed packages:")
        return "KOKKOS" in packages.split()

    def device_side(self):
        """The measured side, as arguments of LAMMPS and keywords of the pair style: equi/kk. On a CPU, a rehearsal
        without the package KOKKOS uses the kernels for devices, or plain equi if the plugin has none of them."""
        if not self.has_kokkos():
            return ("equi, kernels device", [], "kernels device") if self.has_device else ("equi", [], "")
        where = ["g", "1"] if gpu_name() != "none" else ["t", str(len(os.sched_getaffinity(0)))]
        return "equi/kk", ["-k", "on", *where, "-sf", "kk", "-pk", "kokkos", "newton", "on", "neigh", "half"], ""

    def start(self, *command):
        """(status, output) of a program; 124 if it did not end in time."""
        print("+", *command, flush=True)
        command = [str(word) for word in command]
        try:
            done = subprocess.run(
                command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT
            )
            status, text = done.returncode, done.stdout
        except subprocess.TimeoutExpired as e:
            print(f"ended after {TIMEOUT} s", flush=True)
            status, text = 124, (e.stdout or b"").decode(errors="replace")
        with open(self.logs / f"{self.part}.log", "a") as log:
            log.write(f"+ {' '.join(command)}\n{text}status {status}\n")
        return status, text

    def table(self, model, *words):
        """The rows that bench_device prints, with the name of the model, and whether it ended well."""
        return self.table_of_file(model, self.folder / "models" / f"{model}.equi", MODELS[model], *words)

    def table_of_file(self, model, file, elements, *words):
        status, text = self.start(self.folder / "bench_device", file, *elements, *words)
        print(text, end="", flush=True)
        if status != 0:
            print(f"status {status}")
        lines = [line for line in text.splitlines() if "," in line]
        return [{"model": model, **row} for row in csv.DictReader(lines)], status == 0


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


def all_agree(machine, out, mode, bars_of):
    """Whether each number of each model is within its bar and repeats; bars_of: by precision, then by column."""
    good, rows = True, []
    for model in machine.models():
        for precision, bars in bars_of.items():
            found, ended = machine.table(model, mode, precision)
            for row in found:
                reached = all(float(row[key]) <= bar for key, bar in bars.items())
                row["agrees"] = "yes" if reached and row["repeats"] == "yes" else "NO"
            good = good and ended and bool(found) and all(row["agrees"] == "yes" for row in found)
            rows += found
    write(out, f"gpu_{mode}.csv", rows)
    print("all agrees" if good else "NOT all agrees")
    return good


def check(machine, out):
    """Whether everything agrees. The other parts return whether their programs ended well."""
    return all_agree(machine, out, "check", BARS)


def directions(machine, out):
    bars = {precision: {"tangent": bar} for precision, bar in DIRECTIONS_BARS.items()}
    return all_agree(machine, out, "directions", bars)


def tests(machine, out):
    status, text = machine.start(machine.folder / "test_device", "--gtest_brief=1")
    print(text[-3000:])
    return status == 0


def sanitizer(machine, out):
    if not shutil.which("compute-sanitizer"):
        print("compute-sanitizer: not on this machine")
        return True
    words = ("compute-sanitizer", "--error-exitcode", "9", machine.folder / "bench_device")
    words += (machine.folder / "models/tiny/lmax3.equi", "Na", "Cl", "check", "mixed", "2")
    status, text = machine.start(*words)
    # A machine may not allow it if several users share a GPU.
    refused = "not supported" in text or "ERR_NVGPUCTRPERM" in text
    outcome = "clean" if status == 0 else "refused by the machine" if refused else f"status {status}"
    print(text[-1000:], "compute-sanitizer:", outcome)
    write(out, "gpu_sanitizer.csv", [{"outcome": outcome}])
    return status == 0 or refused


def layers(machine, out):
    rows, good = [], True
    for model in ("sevennet-0", "mace/plain"):
        for precision in ("mixed", "double"):
            found, ended = machine.table(model, "layers", precision)
            rows += found
            good = good and ended
    write(out, "gpu_layers.csv", rows)
    return good


def steps(machine, out):
    rows, good = [], True
    for precision, batches in BATCHES.items():
        for batch in batches:
            found, ended = machine.table("sevennet-0", "steps", precision, machine.seconds, batch)
            rows += found
            good = good and ended
    write(out, "gpu_steps.csv", rows)
    return good


def families(machine, out):
    rows, good = [], True
    for folder in sorted((machine.folder / ALSO).glob("*")):
        elements, precisions = ((folder / name).read_text().split() for name in ("elements", "precisions"))
        for precision in precisions:
            if precision == "tf32" and gpu_name() == "none":
                continue  # a rehearsal
            found, ended = machine.table_of_file(
                folder.name, folder / "model.equi", elements, "steps", precision, machine.seconds
            )
            rows += found
            good = good and ended
    write(out, "gpu_families.csv", rows)
    return good


LAMMPS_INPUT = """\
units metal
atom_style atomic
atom_modify map array sort 0 0.0
lattice custom {spacing} a1 1 0 0 a2 0 1 0 a3 0 0 1 &
  basis 0 0 0 basis 0 0.5 0.5 basis 0.5 0 0.5 basis 0.5 0.5 0 &
  basis 0.5 0 0 basis 0 0.5 0 basis 0 0 0.5 basis 0.5 0.5 0.5
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 2 box
create_atoms 1 box basis 5 2 basis 6 2 basis 7 2 basis 8 2
mass 1 22.99
mass 2 35.45
displace_atoms all random 0.1 0.1 0.1 5
pair_style equi precision {precision} {keywords}
pair_coeff * * {model} Na Cl
timestep 0.001
thermo_modify norm no format float %.17g
"""


def run_lammps(machine, side, precision, cells, lines):
    """(time in s or None, output) of LAMMPS; side: "host", or "device" for the measured side."""
    name, words, keywords = machine.device_side() if side == "device" else ("equi", [], "kernels host")
    script = machine.folder / f"in.{side}"
    script.write_text(
        LAMMPS_INPUT.format(spacing=5.64, cells=cells, precision=precision, keywords=keywords, model=machine.model())
        + "\n".join(lines)
        + "\n"
    )
    begin = time.monotonic()
    status, text = machine.start(machine.folder / "lmp", *words, "-log", "none", "-in", script)
    if status == 0:
        return time.monotonic() - begin, text
    if side == "device" and "needs a build with EQUI_DEVICE=ON" in text:
        machine.has_device = False
        return run_lammps(machine, side, precision, cells, lines)
    print(text[-2000:], f"{name}: status {status}")
    return None, text


def forces_of(path):
    with open(path) as file:
        lines = file.read().splitlines()
    begin = max(k for k, line in enumerate(lines) if line.startswith("ITEM: ATOMS")) + 1
    return [[float(word) for word in line.split()] for line in lines[begin:]]


def matrix_of(path):
    """The numbers of a dynamical matrix in LAMMPS's binary format."""
    numbers = array.array("d")
    numbers.frombytes(path.read_bytes())
    return numbers


def compare_lammps(machine):
    rows, good = [], True
    for precision, bars in LAMMPS_BARS.items():
        energy, forces, matrix = {}, {}, {}
        for side in ("host", "device"):
            dump, rows_of_atoms = machine.folder / f"forces.{side}", machine.folder / f"matrix.{side}"
            lines = [f"dump 1 all custom 1 {dump} fx fy fz", "dump_modify 1 sort id format float %.17g", "run 0"]
            lines += ['print "ENERGY $(pe:%.17g)"', "undump 1", "group some id 1 5 9"]
            lines += [f"equi_dynamical_matrix some regular 1e-3 binary yes file {rows_of_atoms}"]
            seconds, text = run_lammps(machine, side, precision, 3, lines)
            if seconds is None:
                return rows, False
            energy[side] = float(re.search(r"^ENERGY (\S+)", text, re.M)[1])
            forces[side] = forces_of(dump)
            matrix[side] = matrix_of(rows_of_atoms)
        by_energy = abs(energy["device"] - energy["host"]) / len(forces["host"])
        pairs = zip(forces["device"], forces["host"])
        by_force = max(abs(x - y) for a, b in pairs for x, y in zip(a, b))
        largest = max(map(abs, matrix["host"]))
        by_second = max(abs(x - y) for x, y in zip(matrix["device"], matrix["host"])) / largest
        agrees = by_energy <= bars[0] and by_force <= bars[1] and by_second <= DIRECTIONS_BARS[precision]
        agrees = agrees and len(matrix["device"]) == len(matrix["host"])
        row = {"precision": precision, "energy": f"{by_energy:.2e}", "force": f"{by_force:.2e}", "second": f"{by_second:.2e}"}
        rows.append({**row, "agrees": "yes" if agrees else "NO"})
        print(rows[-1], flush=True)
        good = good and agrees
    return rows, good


def lammps(machine, out):
    rows, good = compare_lammps(machine)
    write(out, "gpu_lammps_check.csv", rows)
    steps, spent, last = [], 0.0, None
    for cells in LAMMPS_CELLS if good else ():
        atoms = 8 * cells**3
        # The time of a run is proportional to the atoms; the time of the start is the same.
        if last and spent + last * atoms / steps[-1]["atoms"] > 4 * machine.seconds:
            break
        seconds, text = run_lammps(
            machine, "device", "mixed", cells, ["velocity all create 600.0 1", "fix 1 all nve", "run 10", f"run {LAMMPS_STEPS}"]
        )
        if seconds is None:
            good = False
            break
        spent, last = spent + seconds, seconds
        loop = float(re.findall(r"^Loop time of (\S+)", text, re.M)[-1])
        steps.append({"atoms": atoms, "ms_per_step": f"{1e3 * loop / LAMMPS_STEPS:.3f}", "us_per_atom_step": f"{1e6 * loop / LAMMPS_STEPS / atoms:.4f}"})  # fmt: skip
        print(steps[-1], flush=True)
    write(out, "gpu_lammps.csv", [{"side": machine.device_side()[0], **row} for row in steps])
    return good and bool(steps)


PARTS = {
    "check": check,
    "directions": directions,
    "layers": layers,
    "steps": steps,
    "families": families,
    "tests": tests,
    "sanitizer": sanitizer,
    "lammps": lammps,
}


def read_table(folder, name):
    path = Path(folder) / name
    if not path.is_file():
        return []
    with open(path) as file:
        return list(csv.DictReader(file))


def plot(out):
    """The times of the parts so far."""
    layers, steps = read_table(out, "gpu_layers.csv"), read_table(out, "gpu_steps.csv")
    if not layers and not steps:
        return
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
    for precision, batch in dict.fromkeys((row["precision"], row["batch"]) for row in steps):
        curve = [row for row in steps if (row["precision"], row["batch"]) == (precision, batch)]
        label = precision if batch == "0" else f"{precision}, batches of {batch}"
        right.plot([int(row["atoms"]) for row in curve], [float(row["us_per_atom"]) for row in curve], marker="o", label=label)
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
    packing.add_argument("--build-dir", metavar="DIR", help="default: that of the preset")
    packing.add_argument("--lammps", action="store_true", help="LAMMPS and its plugin, for the part lammps")
    packing.add_argument(
        "--also",
        nargs="*",
        default=[],
        type=model_and_elements,
        metavar="MODEL.equi:ELEMENT,ELEMENT[:tf32]",
        help="models for the part families, in crystals of two elements, which may be the same",
    )
    packing.add_argument("--models", default="build/models", metavar="DIR", help="default: %(default)s")
    running = commands.add_parser("run", help="run parts of it")
    running.add_argument("archive", metavar="FILE.tar.xz")
    running.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    running.add_argument("--out", default="results", metavar="DIR", help="of the tables and logs (default: %(default)s)")
    running.add_argument(
        "--seconds",
        type=int,
        default=SECONDS,
        metavar="S",
        help="how long sizes grow: a program of the part steps so long, LAMMPS four times as long (default: %(default)s)",
    )
    args = parser.parse_args()
    if args.command == "pack":
        pack(args)
        return
    unknown = [part for part in args.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}: expected some of {', '.join(PARTS)}")
    failed = []
    with tempfile.TemporaryDirectory(prefix="equi-gpu-") as folder:
        machine = Machine(args.archive, folder, args.out, args.seconds)
        print(f"GPU: {gpu_name()}", flush=True)
        for part in args.parts or machine.parts():
            if part not in machine.parts():
                sys.exit(f"{args.archive} has no programs for the part {part}")
            machine.part = part
            if not PARTS[part](machine, args.out):
                failed.append(part)
    plot(args.out)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
