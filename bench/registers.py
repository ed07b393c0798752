#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Registers and spills of the generated device kernels, from the messages of nvcc while it compiled them.

    registers.py LOG... [--out FILE.csv] [--most-bytes N]

The build of the preset cuda prints these messages. Kernels with a bound on their registers, so that more warps fit,
may spill some bytes and still be faster (doc/gpu_roofline.rst). Ends with status 1 if a kernel spills more than N
bytes (default: 80).
"""

import argparse
import csv
import re
import subprocess
import sys
from pathlib import Path

ENTRY = re.compile(
    r"Compiling entry function '(\S+)' for '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads.*?Used (\d+) registers",
    re.S,
)
# Pass, type, rows per bin, and the path groups of the launch, separated by __.
KERNEL = re.compile(r"PathGroupsWork<\(equi::PathGroupPass\)(\d), (?:equi::)?(float|double|Dual<\w+>), (\d), equi::device_(?:edge_|dual_)?path_groups_(\w+)::")
PASSES = ("forward", "backward", "gather", "fused")    # of PathGroupPass
CONTRACTION = re.compile(r"ContractionLane<equi::device_(contraction_\w+)::.*?Body, (float|double), (true|false)>")
COLUMNS = ("architecture", "path_groups", "kernel", "type", "rows_per_bin", "registers", "stack_bytes", "spill_stores", "spill_loads")


def kernels(text):
    """Rows of the table, COLUMNS each."""
    found = ENTRY.findall(text)
    names = subprocess.run(
        ["c++filt"], input="\n".join(f[0] for f in found), capture_output=True, text=True, check=True
    ).stdout.splitlines()
    rows = set()
    for name, (_, architecture, stack, stores, loads, registers) in zip(names, found):
        path_group_match, contraction_match = KERNEL.search(name), CONTRACTION.search(name)
        if path_group_match:
            number_of_pass, number, rows_per_bin, path_groups = path_group_match.groups()
            path_groups = path_groups.replace("__", "+")
            kernel = PASSES[int(number_of_pass)]
        elif contraction_match:
            path_groups, number, is_backward = contraction_match.groups()
            kernel, rows_per_bin = "backward" if is_backward == "true" else "forward", ""
        else:
            continue
        rows.add((architecture, path_groups, kernel, number, rows_per_bin, int(registers), int(stack), int(stores), int(loads)))  # fmt: skip
    return sorted(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--out", type=Path, metavar="FILE.csv")
    parser.add_argument("--most-bytes", type=int, default=80, metavar="N", help="that a kernel may spill (default: %(default)s)")
    args = parser.parse_args()
    rows = kernels("\n".join(log.read_text(errors="replace") for log in args.logs))
    if not rows:
        print("no kernels in these files", file=sys.stderr)
        return 2
    if args.out:
        with args.out.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(rows)
    for group in sorted({(r[0], r[2], r[3]) for r in rows}):
        worst = max((r for r in rows if (r[0], r[2], r[3]) == group), key=lambda r: r[5])
        print(f"{group[0]} {group[1]:8} {group[2]:6}  at most {worst[5]:3} registers ({worst[1]})")
    spilling = [r for r in rows if any(r[6:])]
    for r in spilling:
        print("memory beyond registers:", *r)
    over = sum(r[7] > args.most_bytes for r in rows)
    print(f"{len(rows)} kernels, {len(spilling)} that spill, {over} of them more than {args.most_bytes} bytes")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
