#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of a step of molecular dynamics with pair_style equi/kk, against plain equi in the same LAMMPS.

The two take turns on the same cores, so that a change of the machine's speed meets both.
"""

import statistics
import tempfile
from pathlib import Path

import common
from step import equi_time


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    parser.set_defaults(build_dir="build-lammps-kokkos")
    common.add_step_arguments(parser, rounds=7)
    parser.add_argument("--comm", choices=["no", "host", "device"], default="no", help="of package kokkos (default: no)")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)

    cores = args.cores or common.usable_cores()
    threads = max(1, cores // args.ranks)
    atoms = common.make_system(args.system, args.cells or common.DEFAULT_CELLS[args.system])
    n = len(atoms)
    print(f"{common.cpu_name()}, {cores} cores; {args.system}, {n} atoms; ", end="")
    print(f"{args.ranks} x {threads} (ranks x threads), {args.precision}, comm {args.comm}", flush=True)
    common.warn_if_busy()

    kokkos = ["-k", "on", "t", str(threads), "-sf", "kk", "-pk", "kokkos", "newton", "on", "neigh", "half"]
    sides = {"equi": [], "equi/kk": [*kokkos, "comm", args.comm]}
    samples = {side: [] for side in sides}
    rows = []
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        folder = Path(folder)
        lines = common.input_lines(folder, atoms, args.system, args)
        for turn in range(args.rounds):
            for side, words in sides.items():
                samples[side].append(1e6 / n * equi_time(folder, lines, args, threads, words))
                rows.append(common.step_row(args, n, cores, threads, turn, side, samples[side][-1], comm=args.comm))
            print(f"turn {turn + 1}: " + ", ".join(f"{s} {v[-1]:.1f} us/atom/step" for s, v in samples.items()), flush=True)

    common.print_samples(samples)
    a, b = samples["equi"], samples["equi/kk"]
    print(f"{'ratio':<14} {min(a) / min(b):>10.3f} {statistics.median(a) / statistics.median(b):>10.3f}")
    common.write_csv(args.out, "kokkos.csv", rows)


if __name__ == "__main__":
    main()
