#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Memory per atom of a run with pair_style equi: growth of the peak resident size between two sizes of a system.

The difference excludes what does not depend on the number of atoms: LAMMPS itself, the plugin, the model. Loading a
model needs, for a moment, more memory than some hundred atoms, and would hide them. The peak is therefore reset after
loading.
"""

import re
import sys
import tempfile
from pathlib import Path

import common


def peak_kb(args, cells, threads):
    """(atoms, peak resident size in kB) of a run in one process."""
    atoms = common.make_system(args.system, cells)
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        lines = common.input_lines(Path(folder), atoms, args.system, args)
        # The shell expands $PPID within the quotes; its parent is LAMMPS. Writing 5 resets the kernel's maximum to the
        # present size. (The maximum that a parent reads after the end of a process can be the parent's own.)
        lines += ["run 0 post no", "shell echo 5 > '/proc/$PPID/clear_refs'"]
        lines += [f"run {args.steps}", "shell grep VmHWM '/proc/$PPID/status'"]
        output = common.run_lammps(Path(folder), lines, args.build_dir, 1, threads)
    found = re.search(r"^VmHWM:\s+(\d+) kB", output, re.M)
    if not found or "returned with non-zero status" in output:
        sys.exit(f"LAMMPS did not tell its peak resident size:\n{output[-3000:]}")
    return len(atoms), int(found.group(1))


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    parser.add_argument(
        "--small", type=int, help="cells per direction of the small system (default: 4 nacl, 5 cu, 6 water)"
    )
    parser.add_argument("--large", type=int, help="of the large one (default: twice as many)")
    parser.add_argument("--steps", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--threads", type=int, help="default: all cores")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)

    threads = args.threads or common.usable_cores()
    small = args.small or common.DEFAULT_CELLS[args.system]
    large = args.large or 2 * small
    if large <= small:
        sys.exit(f"--large {large} is not larger than --small {small}")
    rows, sizes = [], []
    print(f"{args.system}, {args.precision}, {threads} threads\n\n{'atoms':>8} {'peak MB':>10}")
    for cells in (small, large):
        n, peak = peak_kb(args, cells, threads)
        sizes.append((n, peak))
        rows.append(
            {"model": Path(args.model or "sevennet-0").stem, "system": args.system, "precision": args.precision, "threads": threads,
             "atoms": n, "peak_kB": peak}  # fmt: skip
        )
        print(f"{n:>8} {peak / 1000:>10.1f}", flush=True)
    (n1, p1), (n2, p2) = sizes
    print(f"\ngrowth: {(p2 - p1) / (n2 - n1):.1f} kB/atom")
    common.write_csv(args.out, "memory.csv", rows)


if __name__ == "__main__":
    main()
