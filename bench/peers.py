#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time, memory and force errors of molecular dynamics with pair_style equi and with other pair styles for a model.

All sides run the same steps (data file, velocities, NVE) by LAMMPS, in turn (A B C A B C ...) on the same cores, each
with its own LAMMPS, number of ranks and threads. Only one side runs at a time. Next to the elapsed time the table has
the user time of all cores, which other work on the machine affects less. On several cores it includes the time that
ranks and threads wait for one another. With --source, the calculator of the model's own framework is a side, too.
"""

import argparse
import os
import re
import shlex
import statistics
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

import common
from step import Peer

# Before a side's first run the driver sets the atoms' positions and the dynamics.
COMMANDS_OF_THE_DRIVER = {"clear", "create_atoms", "create_box", "minimize", "read_restart", "rerun", "run", "timestep", "velocity"}
PRECISIONS = {"mixed", "double", "float32", "float64", "fp32", "fp64"}
# Variables that select how threads wait, where memory comes from and which dense products are used.
VARIABLES = ("OMP_", "GOMP_", "KMP_", "KOKKOS_", "MALLOC_", "MKL_", "OPENBLAS_")
# A sample is the largest size until then. After a longer pause a short run could have grown and ended.
SECONDS_BETWEEN_LOOKS = 0.002


@dataclass
class Side:
    """A way to run the dynamics by LAMMPS. A None is replaced by the value of the side of equi."""

    input: Path = None  # lines of the potential; None: pair_style equi with the given arguments
    lmp: str = None
    mpirun: str = None
    name: str = None
    ranks: int = None
    threads: int = None
    arguments: str = ""
    environment: str = ""
    precision: str = None
    before: list = field(default_factory=list)  # lines that come before the atoms are read
    potential: list = None  # lines after them
    elapsed: list = field(default_factory=list)  # us/atom/step of each turn
    user: list = field(default_factory=list)  # the same, as user time of all cores
    memory: float = None  # MB
    error: tuple = None  # largest, rms, eV/Angstrom

    def variables(self):
        """Those of VARIABLES that are set, as NAME=VALUE."""
        found = {name: value for name, value in os.environ.items() if name.startswith(VARIABLES)}
        found |= {"OMP_NUM_THREADS": str(self.threads)} | self.own_variables()
        return [f"{name}={value}" for name, value in sorted(found.items())]

    def own_variables(self):
        return dict(word.split("=", 1) for word in shlex.split(self.environment))


class NewPeer(argparse.Action):
    def __call__(self, parser, namespace, value, option=None):
        namespace.peers = [*namespace.peers, Side(input=Path(value).resolve())]


class OfLatestPeer(argparse.Action):
    """The option that applies to the --lmp-input before it."""

    def __call__(self, parser, namespace, value, option=None):
        if not namespace.peers:
            parser.error(f"{option} belongs to the --lmp-input before it, and there is none")
        setattr(namespace.peers[-1], self.dest.removeprefix("lmp_"), value)


def add_arguments(parser):
    parser.set_defaults(peers=[])
    parser.add_argument("--threads", type=int, help="threads of each rank of equi (default: its share of the cores)")
    peer = parser.add_argument_group("peers", "Each option belongs to the --lmp-input before it.")
    peer.add_argument("--lmp-input", metavar="FILE", action=NewPeer, help="lines that set up the potential of a peer; again for each")

    def add(name, text, **more):
        peer.add_argument(name, action=OfLatestPeer, default=argparse.SUPPRESS, help=text, **more)

    add("--lmp", "LAMMPS program that has the pair style (default: that of the build folder)", metavar="PROGRAM")
    add("--lmp-mpirun", "mpirun of its MPI (default: that of the build folder)", metavar="PROGRAM")
    add("--lmp-name", "name in the table (default: the pair style)", metavar="NAME")
    add("--lmp-ranks", "MPI ranks (default: as equi)", metavar="N", type=int)
    add("--lmp-threads", "threads of each rank, as OMP_NUM_THREADS (default: its share of the cores)", metavar="N", type=int)
    add("--lmp-arguments", "arguments of its LAMMPS, in quotes after an equals sign", metavar="WORDS")
    add("--lmp-environment", "further variables, NAME=VALUE, in quotes", metavar="WORDS")
    add("--lmp-precision", "precision (default: the word for one in the line pair_style)", metavar="TEXT")


def commands_of(file):
    """The commands of an input script, without comments, each on one line."""
    text = re.sub(r"&[ \t]*\n", " ", file.read_text())
    lines = [re.sub(r"#.*", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def read_input(side, symbols):
    """Fills in what a peer's file contains. Its lines are divided into those before and after the atoms are read: at
    read_data if the file has it, or else at its pair_style."""
    if not side.input.is_file():
        sys.exit(f"{side.input} is missing")
    lines = commands_of(side.input)
    names = [line.split()[0] for line in lines]
    refused = [name for name in names if name in COMMANDS_OF_THE_DRIVER]
    if refused:
        sys.exit(f"{side.input}: '{refused[0]}' is given by the driver, the file sets up the potential alone")
    if "pair_style" not in names:
        sys.exit(f"{side.input} has no pair_style")
    if ["units", "real"] in [line.split()[:2] for line in lines]:
        sys.exit(f"{side.input}: expected units metal, found units real")
    style = lines[names.index("pair_style")].split()[1:]
    at = names.index("read_data") if "read_data" in names else names.index("pair_style")
    side.before = [f'variable symbols string "{" ".join(symbols)}"', *lines[:at]]
    side.potential = [line for line, name in zip(lines[at:], names[at:]) if name != "read_data"]
    side.name = side.name or style[0]
    stated = [word for word in re.split(r"[\s/_]", " ".join(style)) if word in PRECISIONS]
    side.precision = side.precision or (stated[0] if stated else "not stated")


class PeakMemory:
    """Sum of the peak resident sizes of the ranks that a process starts, sampled until the process ends."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.peaks = {}  # kB by process
        self.thread = None

    def watch(self, process):
        self.thread = threading.Thread(target=self.look, args=(process,), daemon=True)
        self.thread.start()

    def look(self, process):
        pause = threading.Event()
        while self.add(process):
            pause.wait(SECONDS_BETWEEN_LOOKS)

    def add(self, process):
        """Whether the process exists; adds its size and those of its descendants."""
        size = peak_kb(process)
        if size is None:
            return False
        self.peaks[process] = size
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            try:
                for child in children.read_text().split():
                    self.add(int(child))
            except OSError:  # it has ended
                pass
        return True

    def megabytes(self):
        """The ranks are larger than the process that starts them."""
        self.thread.join()
        return sum(sorted(self.peaks.values())[-self.ranks :]) / 1000


def peak_kb(process):
    """The peak resident size of a process, or None if it has ended."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.M)
    except OSError:
        return None
    return int(found.group(1)) if found else None


class Driver:
    """Runs the sides on one system."""

    def __init__(self, args, atoms, folder):
        self.args, self.atoms, self.folder = args, atoms, folder

    def run(self, side, lines, started=None):
        begin = common.input_lines(self.folder, self.atoms, self.args.system, self.args, side.before, side.potential)
        return common.run_program(
            self.folder, begin + lines, side.lmp, side.mpirun, side.ranks, side.threads, shlex.split(side.arguments),
            side.own_variables(), side.input.parent if side.input else None, started,
        )  # fmt: skip

    def take_turn(self, side):
        output, steps = self.run(side, common.run_lines(self.args)), self.args.steps
        per_atom = 1e6 / len(self.atoms)
        side.elapsed.append(per_atom * common.seconds_per_step(output, steps))
        side.user.append(per_atom * common.user_seconds_per_step(output, steps, side.ranks))

    def first_forces(self, side):
        """The forces on the atoms at their first positions, [N, 3], and the peak memory in MB of this and some
        steps."""
        import numpy as np

        file, peak = self.folder / "forces", PeakMemory(side.ranks)
        dump = f'write_dump all custom "{file}" id fx fy fz modify sort id format float %.17g'
        # At the end all ranks wait for the first one, so that a busy machine has the time to look at each.
        wait = f"shell sleep {250 * SECONDS_BETWEEN_LOOKS:g}"
        self.run(side, ["run 0 post no", dump, f"run {self.args.warm_up}", wait], peak.watch)
        return np.loadtxt(file, skiprows=9)[:, 1:], peak.megabytes()


def force_error(forces, reference):
    """The largest difference of a component, and the rms over all."""
    difference = forces - reference
    return abs(difference).max(), (difference**2).mean() ** 0.5


def program(name, args, default):
    """The program to start: a path, which must not depend on the working folder, a name that the shell would find, or
    that of the build."""
    if name is None:
        return Path(args.build_dir).resolve() / "bin" / default
    return Path(name).resolve() if "/" in name else name


def complete(side, args, cores, symbols):
    """Fills in what was not given; side.input shows whether it is a peer."""
    if side.input:
        read_input(side, symbols)
    side.lmp, side.mpirun = program(side.lmp, args, "lmp"), program(side.mpirun, args, "mpirun")
    side.ranks = side.ranks or args.ranks
    side.threads = side.threads or max(1, cores // side.ranks)
    return side


def print_table(sides):
    """Ratios are to the first side."""
    width = max(12, *(len(side.name) for side in sides))
    print(f"\n{'us/atom/step':<{width}} {'ranks x':>8} {'':>10}", end="")
    for what in ("elapsed", "user time"):
        print(f" {what:>17} {'ratio':>13}", end="")
    print(f" {'force error':>19} {'memory':>7}\n{'side':<{width}} {'threads':>8} {'precision':>10}", end="")
    for _ in range(2):
        print(f" {'minimum':>8} {'median':>8} {'min.':>6} {'med.':>6}", end="")
    print(f" {'largest':>9} {'rms':>9} {'MB':>7}")
    for side in sides:
        print(f"{side.name:<{width}} {f'{side.ranks} x {side.threads}':>8} {side.precision:>10}", end="")
        for samples, first in ((side.elapsed, sides[0].elapsed), (side.user, sides[0].user)):
            columns = [(of(samples), of(first)) for of in (min, statistics.median)]
            # The clock of user time does not advance in a very short run.
            ratios = [value / reference if reference else float("nan") for value, reference in columns]
            print("".join(f" {value:>8.2f}" for value, _ in columns) + "".join(f" {ratio:>6.2f}" for ratio in ratios), end="")
        print(f" {side.error[0]:>9.1e} {side.error[1]:>9.1e} {side.memory:>7.0f}")
    print("\nset:")
    for side in sides:
        print(f"{side.name:<{width}} {' '.join(side.variables())}")


def csv_rows(args, num_atoms, cores, sides):
    return [
        common.step_row(
            args, num_atoms, cores, side.threads, turn, side.name, elapsed, precision=side.precision, ranks=side.ranks,
            model=common.model_file(args).name, force_error_max=f"{side.error[0]:.3e}", force_error_rms=f"{side.error[1]:.3e}",
            memory_MB=f"{side.memory:.0f}", variables=" ".join(side.variables()), user_us_per_atom_step=f"{user:.4f}",
        )
        for side in sides
        for turn, (elapsed, user) in enumerate(zip(side.elapsed, side.user))
    ]  # fmt: skip


class FrameworkSide:
    """The framework's own calculator, as a side of the table."""

    def __init__(self, args, cells, cores):
        self.peer = Peer(args, cells, cores)
        self.evaluations, self.atoms = args.evaluations, self.peer.num_atoms
        malloc = common.PEER_MALLOC if args.peer_malloc == "tuned" else {}
        variables = " ".join(f"{name}={value}" for name, value in malloc.items())
        self.side = Side(name=self.peer.name, ranks=1, threads=cores, environment=variables)

    def compare(self, folder, reference):
        import numpy as np

        file = folder / "framework.npy"
        self.side.precision = self.peer.first_forces(file)
        self.side.error = force_error(np.load(file), reference)
        self.peer.times(self.evaluations)  # warm up

    def take_turn(self):
        """A turn has one sample, the mean of its evaluations: the system measures a process's time in hundredths of a
        second."""
        before = self.user_seconds()
        seconds = self.peer.times(self.evaluations)
        per_atom = 1e6 / self.evaluations / self.atoms
        self.side.elapsed.append(per_atom * sum(seconds))
        self.side.user.append(per_atom * (self.user_seconds() - before))

    def user_seconds(self):
        words = Path(f"/proc/{self.peer.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(words[11]) / os.sysconf("SC_CLK_TCK")  # user time, as LAMMPS reports it

    def close(self):
        self.side.memory = peak_kb(self.peer.process.pid) / 1000
        self.peer.close()


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    common.add_step_arguments(parser, rounds=5)
    common.add_peer_arguments(parser)
    parser.set_defaults(source=None)
    parser.add_argument("--evaluations", type=int, default=3, help="evaluations by the framework per turn (default: %(default)s)")
    add_arguments(parser)
    args = parser.parse_args()
    common.enter_environment(args.build_dir)

    cells = args.cells or common.DEFAULT_CELLS[args.system]
    atoms, cores, threads = common.start(args, cells, f", {common.model_file(args).name}")
    symbols = sorted(set(atoms.get_chemical_symbols()))
    equi = Side(name="equi", precision=args.precision, threads=threads)
    sides = [complete(side, args, cores, symbols) for side in [equi, *args.peers]]
    names = [side.name for side in sides]
    if len(set(names)) < len(names):
        sys.exit(f"names of sides must differ, and these do not: {', '.join(names)}; give others with --lmp-name")
    common.warn_if_busy()
    framework = FrameworkSide(args, cells, cores) if args.source else None
    table = [*sides, framework.side] if framework else sides
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        driver = Driver(args, atoms, Path(folder))
        exact = argparse.Namespace(**{**vars(args), "precision": "double", "keywords": f"{args.keywords} radial exact"})
        reference, _ = Driver(exact, atoms, Path(folder)).first_forces(equi)
        for side in sides:
            forces, side.memory = driver.first_forces(side)
            side.error = force_error(forces, reference)
        if framework:
            framework.compare(Path(folder), reference)
        for turn in range(args.rounds):
            for side in sides:
                driver.take_turn(side)
            if framework:
                framework.take_turn()
            print(f"turn {turn + 1}: {', '.join(f'{s.name} {s.elapsed[-1]:.1f}' for s in table)} us/atom/step", flush=True)
    if framework:
        framework.close()
    size = (reference**2).mean() ** 0.5
    print(f"\nforce errors: to equi in double precision with exact radial functions, eV/Angstrom; rms of the forces {size:.2f}")
    print_table(table)
    common.write_csv(args.out, "peers.csv", csv_rows(args, len(atoms), cores, table))


if __name__ == "__main__":
    main()
