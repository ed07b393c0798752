#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of a step, memory and numbers of two builds of the plugin, one of them of other sources.

The two take turns on the same cores, so a change of the machine's speed affects both.
"""

import re
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import common
from step import equi_run

# Results of the first step, with all digits.
NUMBERS = ["thermo_style custom step pe pxx pyy pzz pxy pxz pyz", "thermo_modify format float %.16g"]


def first_numbers(output):
    """Energy and the six components of the pressure at step 0."""
    found = re.search(r"^\s*Step\s+PotEng.*\n\s*0((?:\s+\S+){7})\s*$", output, re.M)
    if not found:
        sys.exit(f"LAMMPS printed no energy:\n{output[-3000:]}")
    return [float(word) for word in found.group(1).split()]


def difference(numbers, others):
    """(relative difference of the energy, of the pressures relative to the largest one)."""
    pressure = max(abs(a - b) for a, b in zip(numbers[1:], others[1:]))
    return abs(numbers[0] - others[0]) / abs(others[0]), pressure / max(abs(b) for b in others[1:])


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    parser.add_argument("other", metavar="DIR", help="the other build folder; both read the same model file")
    common.add_step_arguments(parser, rounds=10)
    args = parser.parse_args()
    common.enter_environment(args.build_dir)

    cells = args.cells or common.DEFAULT_CELLS[args.system]
    atoms, cores, threads = common.start(args, cells, f", {common.model_file(args).name}")
    common.warn_if_busy()

    sides = {"this": args.build_dir, "other": args.other}
    numbers, memory = {}, {}
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        folder = Path(folder)
        lines = common.input_lines(folder, atoms, args.system, args) + NUMBERS

        def run(side):
            seconds, output = equi_run(folder, lines, Namespace(**{**vars(args), "build_dir": sides[side]}), threads)
            numbers[side] = first_numbers(output)
            memory[side] = float(re.search(r"([\d.]+) kB/atom", output).group(1))
            return seconds

        common.steps_in_turn(args, len(atoms), cores, threads, sides, run, "builds.csv")
    energy, pressure = difference(*numbers.values())
    print(f"relative differences at step 0: {energy:.1e} (energy), {pressure:.1e} (pressures)")
    print(f"memory: {memory['this']:.1f} and {memory['other']:.1f} kB/atom")


if __name__ == "__main__":
    main()
