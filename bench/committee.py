#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of a step of molecular dynamics with a committee of models, against one model: the sides take turns."""

import tempfile
from pathlib import Path

import common
from step import equi_time


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    common.add_step_arguments(parser, rounds=7)
    parser.add_argument("--members", type=int, default=4, help="the model so many times (default: %(default)s)")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)

    atoms, cores, threads = common.start(args, args.cells or common.DEFAULT_CELLS[args.system], f", {args.members} members")
    common.warn_if_busy()
    file = f'"{common.model_file(args)}"'
    sides = {"committee": " ".join([file] * args.members), "one model": file}
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        folder = Path(folder)
        lines = common.input_lines(folder, atoms, args.system, args)

        def run(side):
            return equi_time(folder, [line.replace(file, sides[side]) for line in lines], args, threads)

        common.steps_in_turn(args, len(atoms), cores, threads, sides, run, "committee.csv", members=args.members)


if __name__ == "__main__":
    main()
