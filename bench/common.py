# SPDX-License-Identifier: MIT
"""What the drivers of this folder share: the build folder, the systems, runs of LAMMPS."""

import argparse
import csv
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

from md_systems import MD_SYSTEMS

SOURCE_TREE = Path(__file__).resolve().parents[1]

# glibc returns large blocks to the system at every step and faults them in again at the next one. These settings
# prevent that, so a framework is at its best.
PEER_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}


def enter_environment(build_dir):
    """Starts this script again in the Python environment of the build folder, which has ASE and sevenn, and adopts the
    environments of the other frameworks."""
    wrapper = Path(build_dir) / "bin" / "equi"
    if not wrapper.is_file():
        sys.exit(f"{wrapper} is missing: build the project first, or name its build folder with --build-dir")
    text = wrapper.read_text()
    for python, name in re.findall(r"^python='(.+)'\n.* export (EQUI_PYTHON_\w+)=", text, re.M):
        if Path(python).exists():
            os.environ.setdefault(name, python)
    found = re.search(r"^exec '([^']+)'", text, re.M)
    if not found:
        sys.exit(f"{wrapper} does not name its Python")
    # A virtual environment's python is a link, so paths are compared without resolving links.
    if sys.executable != found.group(1):
        os.execv(found.group(1), [found.group(1), *sys.argv])
    sys.path.insert(0, str(SOURCE_TREE / "tools"))


def enter_torch_environment(build_dir):
    """enter_environment() for drivers that run Torch in their own process. PEER_MALLOC is set from its start, for both
    sides."""
    if not os.environ.keys() >= PEER_MALLOC.keys():
        os.environ.update(PEER_MALLOC, OMP_WAIT_POLICY="passive")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    enter_environment(build_dir)
    os.environ["EQUI_BUILD_DIR"] = build_dir


def arguments(description):
    """A parser with the options that all drivers have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build-dir", default="build", metavar="DIR", help="build folder (default: %(default)s)")
    parser.add_argument("--model", metavar="FILE.equi", help="default: models/sevennet-0.equi in the build folder")
    parser.add_argument(
        "--system", choices=[*CELLS, *MD_SYSTEMS], default="nacl", metavar="NAME",
        help=f"{', '.join(CELLS)}, or one of md_systems.py: {', '.join(MD_SYSTEMS)} (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--precision", choices=["mixed", "double"], default="mixed", help="default: %(default)s"
    )
    parser.add_argument(
        "--keywords", default="", metavar="WORDS", help="further keywords of pair_style equi, in quotes"
    )
    parser.add_argument("--out", metavar="DIR", help="folder for the CSV file (default: none is written)")
    return parser


def add_step_arguments(parser, rounds):
    """The options of the drivers that time steps of molecular dynamics in turn."""
    parser.add_argument("--cells", type=int, help="cells per direction (default: 4 nacl, 5 cu, 6 water; copies of others, 1)")
    parser.add_argument("--rounds", type=int, default=rounds, help="turns of each side (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="steps of LAMMPS per turn (default: %(default)s)")
    parser.add_argument("--warm-up", type=int, default=10, help="steps before them (default: %(default)s)")
    parser.add_argument(
        "--ranks", type=int, default=1, help="MPI ranks; each gets its share of the cores (default: %(default)s)"
    )
    parser.add_argument("--cores", type=int, help="cores for either side (default: all)")


def sample_row(args, atoms, cores, threads, turn, side, figure, **more):
    """A row of the CSV file of a driver that times sides in turn; figure: the sample, by the name of its column."""
    return {
        "cpu": cpu_name(),
        "cores": cores,
        "system": args.system,
        "atoms": atoms,
        "precision": args.precision,
        "ranks": args.ranks,
        "threads": threads,
        **more,
        "turn": turn,
        "side": side,
        **figure,
    }


def step_row(args, atoms, cores, threads, turn, side, microseconds, **more):
    """The same for a sample in microseconds per atom and step."""
    return sample_row(args, atoms, cores, threads, turn, side, {"us_per_atom_step": f"{microseconds:.4f}"}, **more)


def start(args, cells, more=""):
    """(atoms, cores, threads of a rank) of a driver, after printing what it measures; more: the end of that line."""
    cores = getattr(args, "cores", None) or usable_cores()
    threads = getattr(args, "threads", None) or max(1, cores // args.ranks)
    atoms = make_system(args.system, cells)
    print(f"{cpu_name()}, {cores} cores; {args.system}, {len(atoms)} atoms; ", end="")
    print(f"{args.ranks} x {threads} (ranks x threads), {args.precision}{more}", flush=True)
    return atoms, cores, threads


def steps_in_turn(args, num_atoms, cores, threads, sides, run, file_name, **columns):
    """Calls run(side) -> seconds per step for the two sides in turn, `args.rounds` times, prints samples and ratios, and writes
    the CSV file, with more columns if they are named."""
    samples, rows = {side: [] for side in sides}, []
    for turn in range(args.rounds):
        for side in sides:
            samples[side].append(1e6 / num_atoms * run(side))
            rows.append(step_row(args, num_atoms, cores, threads, turn, side, samples[side][-1], **columns))
        print(f"turn {turn + 1}: " + ", ".join(f"{s} {v[-1]:.1f} us/atom/step" for s, v in samples.items()), flush=True)
    print_samples(samples)
    a, b = samples.values()
    print(f"{'ratio':<14} {min(a) / min(b):>10.3f} {statistics.median(a) / statistics.median(b):>10.3f}")
    write_csv(args.out, file_name, rows)


def print_samples(samples):
    """Minimum and median of each side that has samples."""
    print(f"\n{'us/atom/step':<14} {'minimum':>10} {'median':>10} {'samples':>8}")
    for side, values in samples.items():
        if values:
            print(f"{side:<14} {min(values):>10.2f} {statistics.median(values):>10.2f} {len(values):>8}")


def add_peer_arguments(parser):
    """The options of drivers that also run the framework's own calculator."""
    parser.add_argument(
        "--source", default="7net-0", help="what the model was converted from, a name or file (default: %(default)s)"
    )
    parser.add_argument("--choice", default="", help="modality or head, where the source has several")
    parser.add_argument(
        "--peer-malloc",
        choices=["tuned", "default"],
        default="tuned",
        help="whether glibc keeps the framework's memory between evaluations (default: %(default)s)",
    )


def model_file(args):
    path = Path(args.model or Path(args.build_dir) / "models" / "sevennet-0.equi").resolve()
    if not path.is_file():
        sys.exit(f"{path} is missing: make it with 'equi convert', or name another with --model")
    return path


# Cells per direction that give about 500 atoms. A cell of one of MD_SYSTEMS is the whole system.
CELLS = {"nacl": 4, "mgo": 4, "cu": 5, "si": 3, "water": 6}
DEFAULT_CELLS = CELLS | dict.fromkeys(MD_SYSTEMS, 1)
ATOMS_PER_CELL = {"nacl": 8, "mgo": 8, "cu": 4, "si": 8, "water": 3} | {name: s.atoms for name, s in MD_SYSTEMS.items()}
# The usual temperature (K) and time step (ps) for molecular dynamics of the system.
DYNAMICS = {"nacl": (1000.0, 0.001), "mgo": (1000.0, 0.001), "cu": (600.0, 0.002), "si": (1000.0, 0.001), "water": (300.0, 0.0005)}
DYNAMICS |= {name: (system.temperature, system.timestep) for name, system in MD_SYSTEMS.items()}


def make_system(name, cells):
    """ASE Atoms: rock salt of NaCl or MgO (8 atoms per cell), fcc copper (4), silicon (8), molecules of water in random
    directions (3), or one of MD_SYSTEMS."""
    if name in MD_SYSTEMS:
        return MD_SYSTEMS[name].make(cells)
    import numpy as np
    from ase import Atoms
    from ase.build import bulk, molecule

    rng = np.random.default_rng(1)
    if name == "water":
        spacing = 3.107  # Angstrom: 0.997 g/cm^3
        positions = []
        for place in np.ndindex(cells, cells, cells):
            water = molecule("H2O")
            water.euler_rotate(*rng.uniform(0, 360, 3), center="COP")
            water.translate(spacing * (np.array(place) + 0.5))
            positions.append(water.positions)
        # All at once: an object that grows copies all its atoms for each molecule.
        symbols = molecule("H2O").get_chemical_symbols() * cells**3
        return Atoms(symbols, np.concatenate(positions), cell=[spacing * cells] * 3, pbc=True)
    crystals = {"nacl": ("NaCl", "rocksalt", 5.64), "mgo": ("MgO", "rocksalt", 4.21), "cu": ("Cu", "fcc", 3.61), "si": ("Si", "diamond", 5.43)}
    atoms = bulk(*crystals[name], cubic=True) * (cells, cells, cells)
    atoms.positions += 0.08 * rng.standard_normal((len(atoms), 3))  # about as much as thermal motion
    return atoms


def input_lines(folder, atoms, system, args, before=(), potential=None):
    """Writes the data file to `folder`; the lines of an input script up to the first run.

    before: lines that come before the atoms are read; potential: those after them, by default pair_style equi as args say.
    """
    from equi_tools import lammps_runner

    symbols = sorted(set(atoms.get_chemical_symbols()))
    data = Path(folder) / "data.system"
    lammps_runner.write_data(data, atoms, symbols, lammps_runner.lammps_box(atoms))
    temperature, timestep = DYNAMICS[system]
    temperature = getattr(args, "temperature", None) or temperature
    if potential is None:
        potential = [
            f"pair_style equi precision {args.precision} {args.keywords}",
            f'pair_coeff * * "{model_file(args)}" {" ".join(symbols)}',
        ]
    return [
        "units metal",
        "atom_style atomic",
        *before,
        f'read_data "{data}"',
        *potential,
        f"velocity all create {temperature} 4928459 mom yes rot no dist gaussian",
        "fix 1 all nve",
        f"timestep {timestep}",
        "thermo 0",
    ]


def run_lammps(folder, lines, build_dir, ranks, threads, arguments=()):
    """The output of the build folder's LAMMPS for these lines, started with these arguments."""
    programs = Path(build_dir).resolve() / "bin"
    return run_program(folder, lines, programs / "lmp", programs / "mpirun", ranks, threads, arguments)


def run_program(folder, lines, lmp, mpirun, ranks, threads, arguments=(), environment=(), working_folder=None, started=None):
    """The output of the LAMMPS `lmp` for these lines, which are written to `folder`.

    environment: further variables; working_folder: by default `folder`; started: called with the number of the
    process.
    """
    script = Path(folder) / "in.bench"
    script.write_text("\n".join(lines) + "\n")
    command = [str(mpirun), "-np", str(ranks)] if ranks > 1 else []
    command += [str(lmp), "-in", str(script), "-log", str(script.with_name("log.bench")), "-nocite", *arguments]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads)) | dict(environment)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=working_folder or folder, env=environment, **pipes) as process:
        if started:
            started(process.pid)
        output, messages = process.communicate()
    if process.returncode != 0:
        sys.exit(f"LAMMPS ended with status {process.returncode}:\n{(output + messages)[-3000:]}")
    return output


def run_lines(args):
    """The runs of a turn; the steps before the timed ones are a warm-up."""
    return [f"run {args.warm_up} post no", f"run {args.steps}"]


def seconds_per_step(output, steps):
    """LAMMPS's loop time of the last run, divided by its steps."""
    loops = re.findall(r"Loop time of ([\d.eE+-]+) on \d+ procs for (\d+) steps", output)
    if not loops or int(loops[-1][1]) != steps:
        sys.exit(f"LAMMPS printed no loop time:\n{output[-3000:]}")
    return float(loops[-1][0]) / steps


def user_seconds_per_step(output, steps, ranks):
    """User time of all cores in the last run, divided by its steps, from the share of the elapsed time that LAMMPS
    prints for a rank."""
    shares = re.findall(r"^([\d.]+)% CPU use with", output, re.M)
    if not shares:
        sys.exit(f"LAMMPS printed no use of the processor:\n{output[-3000:]}")
    return seconds_per_step(output, steps) * float(shares[-1]) / 100 * ranks


def usable_cores():
    return len(os.sched_getaffinity(0))


def cpu_name():
    from equi_tools import kernels

    return kernels.processor_name()


def warn_if_busy():
    """Threads wait for one another: on a busy machine two can be slower than one."""
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"warning: {load:.1f} processes ran on this machine during the last minute; times will not be the best")


def write_csv(folder, name, rows):
    """rows: list of dicts with the same keys."""
    if folder is None:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / name
    with open(path, "w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"written: {path}")


def plotting():
    """Matplotlib's pyplot, without a display. It is in the environment because ASE needs it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
