#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of a step of molecular dynamics with pair_style equi, against an evaluation by the framework's own calculator.

The two take turns (A B A B ...) on the same cores, so a change of the machine's speed affects both. Only one of them
runs at a time.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import common


class Peer:
    """The framework's calculator in its own process and in the framework's environment."""

    def __init__(self, args, cells, cores):
        environment = dict(os.environ, OMP_NUM_THREADS=str(cores))
        if args.peer_malloc == "tuned":
            environment.update(common.PEER_MALLOC)
        from equi_tools import frameworks

        framework = frameworks.detect(args.source)
        self.name = framework.name
        command = [framework.interpreter or sys.executable, str(Path(__file__).with_name("peer.py"))]
        command += [args.system, str(cells), args.source, args.choice, str(cores)]
        self.messages = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.messages, text=True
        )
        self.num_atoms = int(self.answer())

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.messages.seek(0)
            sys.exit(f"{self.name}'s calculator failed:\n{self.messages.read()[-3000:]}")
        return line

    def times(self, count, threads=""):
        self.process.stdin.write(f"{count} {threads}\n")
        self.process.stdin.flush()
        return [float(word) for word in self.answer().split()]

    def first_forces(self, path):
        """The precision of the framework's numbers; writes its forces on the atoms at their first positions, [N, 3],
        to `path`."""
        self.process.stdin.write(f"forces {path}\n")
        self.process.stdin.flush()
        return self.answer().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def equi_run(folder, lines, args, threads, arguments=()):
    """(seconds per step, LAMMPS's output) of one run."""
    output = common.run_lammps(folder, lines + common.run_lines(args), args.build_dir, args.ranks, threads, arguments)
    return common.seconds_per_step(output, args.steps), output


def equi_time(folder, lines, args, threads, arguments=()):
    """The seconds of equi_run()."""
    return equi_run(folder, lines, args, threads, arguments)[0]


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    common.add_step_arguments(parser, rounds=5)
    parser.add_argument(
        "--evaluations", type=int, default=3, help="evaluations by the framework per turn (default: %(default)s)"
    )
    common.add_peer_arguments(parser)
    parser.add_argument("--no-peer", action="store_true", help="measure pair_style equi alone")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)

    cells = args.cells or common.DEFAULT_CELLS[args.system]
    atoms, cores, threads = common.start(args, cells)
    n = len(atoms)

    peer = None if args.no_peer else Peer(args, cells, cores)
    rows, samples = [], {peer.name: [], "equi": []} if peer else {"equi": []}

    def record(turn, side, times):
        for seconds in times:
            samples[side].append(1e6 * seconds / n)
            rows.append(common.step_row(args, n, cores, threads, turn, side, samples[side][-1]))

    if peer:
        if peer.num_atoms != n:
            sys.exit(f"{peer.num_atoms} atoms there, {n} here")
        peer.times(args.evaluations)  # warm up
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        folder = Path(folder)
        lines = common.input_lines(folder, atoms, args.system, args)
        for turn in range(args.rounds):
            if peer:
                record(turn, peer.name, peer.times(args.evaluations))
            record(turn, "equi", [equi_time(folder, lines, args, threads)])
            latest = [f"{side} {values[-1]:.1f} us/atom/step" for side, values in samples.items() if values]
            print(f"turn {turn + 1}: {', '.join(latest)}", flush=True)
    if peer:
        peer.close()

    common.print_samples(samples)
    if peer:
        a, b = samples[peer.name], samples["equi"]
        print(f"{'ratio':<14} {min(a) / min(b):>10.2f} {statistics.median(a) / statistics.median(b):>10.2f}")
    common.write_csv(args.out, "step.csv", rows)


if __name__ == "__main__":
    main()
