#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of a step of molecular dynamics with pair_style equi/kk, against plain equi in the same LAMMPS.

The two take turns on the same cores, so a change of the machine's speed affects both.
"""

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

    atoms, cores, threads = common.start(args, args.cells or common.DEFAULT_CELLS[args.system], f", comm {args.comm}")
    common.warn_if_busy()

    kokkos = ["-k", "on", "t", str(threads), "-sf", "kk", "-pk", "kokkos", "newton", "on", "neigh", "half"]
    sides = {"equi": [], "equi/kk": [*kokkos, "comm", args.comm]}
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        folder = Path(folder)
        lines = common.input_lines(folder, atoms, args.system, args)

        def run(side):
            return equi_time(folder, lines, args, threads, sides[side])

        common.steps_in_turn(args, len(atoms), cores, threads, sides, run, "kokkos.csv", comm=args.comm)


if __name__ == "__main__":
    main()
