#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""L1 wavefronts per edge of the convolution kernels for NVIDIA GPUs, counted in their machine code.

    wavefronts.py FILE... [--layer KEY:CHANNELS,...] [--rows-per-bin 6] [--precision float]
    wavefronts.py FILE... --check

FILE: cubins, or objects and libraries with the generated kernels (build-cuda-sm90/lib/static/libequi_device.a). The layer
is SevenNet-0's main one unless named. Needs nvdisasm, and cuobjdump for files that are no cubins; they come with the CUDA
toolkit or with PyPI's nvidia-cuda-nvdisasm and nvidia-cuda-cuobjdump.

The first-level cache serves 128 bytes to one load or store of a warp in a wavefront. What all lanes read together takes
one, the coefficients of 32 channels as many as they have lines, a shuffle, a store and a spilled register one each. Lines
that are fetched into the cache ahead of their use are counted by themselves: they serve nothing to a register. Of an edge
each channel block of 32 is a warp's; so a warp's loads in the loop over edges, times the channel blocks, are those of an
edge. So are its instructions, of which a multiprocessor issues four in a cycle.

With --check the status is 1 if a pass over SevenNet-0's main layer, in float by quintic tables, takes more wavefronts than it may.
"""

import argparse
import collections
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from registers import KERNEL, PASSES

SEVENNET_0 = "0_00_11_22:128,1_01_10_11_12_21_22:64,2_02_11_12_20_21_22:32"
MOST_WAVEFRONTS = {"forward": 240, "backward": 450, "gather": 330, "fused": 600}    # of it, for --check
LANES = 32
LINE = 128
LOAD_BYTES = 16    # of a lane, at most
NUMBER_BYTES = {"float": 4, "double": 8}


def disassembled(path, folder):
    """The machine code of the kernels in a file, as nvdisasm prints it."""
    cubins = [path]
    if path.suffix != ".cubin":
        subprocess.run(["cuobjdump", "-xelf", "all", path.resolve()], cwd=folder, check=True, capture_output=True)
        cubins = sorted(folder.glob("*.cubin"))
    texts = [subprocess.run(["nvdisasm", "-c", c], capture_output=True, text=True, check=True).stdout for c in cubins]
    return "\n".join(texts)


def functions(text):
    """(mangled name, instructions, {label: index of the next instruction}) of each kernel."""
    for section in re.split(r"\n\s*\.section\s+\.text\.", text)[1:]:
        instructions, labels = [], {}
        for line in section.splitlines():
            if label := re.match(r"(\.L_x_\d+):", line):
                labels[label[1]] = len(instructions)
            elif instruction := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\d+ )?(.*?);", line):
                instructions.append(instruction[1].strip())
        yield section.split(",")[0], instructions, labels


def edge_loops(instructions, labels):
    """Each innermost loop that loads records of edges: its number of instructions, and {name and width: number} of those
    that the first-level cache serves."""
    loops = []
    for k, instruction in enumerate(instructions):
        target = re.search(r"BRA.*?`\((\.L_x_\d+)\)", instruction)
        if target and labels.get(target[1], k + 1) <= k:
            loops.append((labels[target[1]], k))
    for first, last in loops:
        if any((a, b) != (first, last) and first <= a and b <= last for a, b in loops):
            continue
        counts = collections.Counter()
        for instruction in instructions[first : last + 1]:
            name, *modifiers = instruction.split()[0].split(".")
            if name in ("LDG", "STG", "SHFL", "LDL", "STL"):
                width = next((m for m in modifiers if m in ("64", "128")), "32")
                counts[name, int(width) // 8] += 1
        if counts["LDG", LOAD_BYTES]:    # at least the record of the edge
            yield last - first + 1, counts


def piece_widths(rows, number_bytes):
    """Bytes of the loads by which a lane takes the coefficients of a weight (TablePiece)."""
    most = LOAD_BYTES // number_bytes
    return [min(most, rows - k) * number_bytes for k in range(0, rows, most)]


def num_exchanges(num):
    """Of a warp that adds up so many numbers over its lanes (store_lane_sums)."""

    def by_halves(carried):
        return carried - 1 + (LANES // carried).bit_length() - 1

    def power_of_two(n):
        return 1 << (n - 1).bit_length()

    every, half = power_of_two(num), power_of_two(num) // 2
    if half == 0 or by_halves(half) + by_halves(power_of_two(num - half)) >= by_halves(every):
        return by_halves(every)
    return by_halves(half) + num_exchanges(num - half)


def num_harmonics(paths):
    return sum(2 * l2 + 1 for l2 in {l2 for l2, _ in paths if l2})


def components(kernel, l1, paths):
    """That a loop over edges reads of the atom at the other end: the sender's, or the receiver's cotangents, or both."""
    cotangents = sum(2 * l3 + 1 for _, l3 in paths)
    return (kernel != "gather") * (2 * l1 + 1) + (kernel in ("gather", "fused")) * cotangents


def loads_of_numbers(kernel, l1, paths, number_bytes):
    """Loads of single numbers in such a loop; of four bytes is also the row of the atom two edges ahead."""
    harmonics = num_harmonics(paths) if kernel in ("backward", "fused") else 0
    return components(kernel, l1, paths) + harmonics + (number_bytes == 4)


def lines_ahead(kernel, l1, paths, number_bytes):
    """That the lanes fetch of the next edge (edges_ahead.h), each a wavefront: components, coupled harmonics, harmonics."""
    arrays = {"forward": 1, "backward": 1, "gather": 1, "fused": 2}[kernel]
    edges = arrays if num_harmonics(paths) else 0
    return components(kernel, l1, paths) * LANES * number_bytes // LINE + edges


def loops_by_path_group(loops, kernel, keys, widths, number_bytes):
    """The loops of each path group with the weights that they read: {key: [(instructions, counts, weights, lines
    fetched ahead)]}. They are told apart by the numbers that they load one by one; of the coupled harmonics' last load
    some may be left over, as few as possible."""
    has_runs = kernel in ("backward", "fused")
    most_over = 0 if kernel == "backward" else 4
    best = None
    for order in itertools.permutations(loops):
        rest, found, spare = list(order), {}, 0
        for key in keys:
            (l1,), *paths = ([int(digit) for digit in word] for word in key.split("_"))
            found[key] = []
            while paths and rest:
                length, counts = rest.pop(0)
                fits = [
                    (counts["LDG", number_bytes] - loads_of_numbers(kernel, l1, paths[:n], number_bytes), n)
                    for n in range(1 if has_runs else len(paths), len(paths) + 1)
                    if all(counts["LDG", width] >= n * widths.count(width) for width in set(widths))
                ]
                fits = [fit for fit in fits if 0 <= fit[0] <= most_over]
                if has_runs:    # one sum for each harmonic of the run and one for the fraction of the bin
                    words = number_bytes // 4
                    sums = {n: words * num_exchanges(1 + num_harmonics(paths[:n])) for _, n in fits}
                    fits = [fit for fit in fits if sums[fit[1]] == counts["SHFL", 4]]
                if not fits:
                    break
                over, weights = min(fits, key=lambda fit: (fit[0], -fit[1]))
                spare += over
                found[key].append((length, counts, weights, lines_ahead(kernel, l1, paths[:weights], number_bytes)))
                paths = paths[weights:]
            if paths:
                break
        else:
            if not rest and (best is None or spare < best[0]):
                best = spare, found
    if best is None:
        raise ValueError(f"the {len(loops)} loops over edges are not those of {', '.join(keys)} (unrolled?)")
    return best[1]


def wavefronts(loops, widths):
    """Of a warp at an edge; loops: of a path group, as above."""
    table = sum(w * LANES // LINE for w in widths) - len(widths)
    return sum(sum(counts.values()) + weights * table for _, counts, weights, _ in loops)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--layer", default=SEVENNET_0, metavar="KEY:CHANNELS,...")
    parser.add_argument("--rows-per-bin", default="6", choices=["2", "4", "6"])
    parser.add_argument("--precision", default="float", choices=NUMBER_BYTES)
    parser.add_argument("--check", action="store_true", help="status 1 if the main layer takes more wavefronts than it may")
    args = parser.parse_args()
    if args.check and (args.layer, args.rows_per_bin, args.precision) != (SEVENNET_0, "6", "float"):
        parser.error("--check is for SevenNet-0's main layer in float with 6 rows per bin")
    for program in ("nvdisasm", "cuobjdump"):
        if not shutil.which(program) and (program == "nvdisasm" or any(f.suffix != ".cubin" for f in args.files)):
            print(f"{program} is not in PATH", file=sys.stderr)
            return 2
    channels = {key: int(c) for key, c in (group.split(":") for group in args.layer.split(","))}
    widths = piece_widths(int(args.rows_per_bin), NUMBER_BYTES[args.precision])
    totals, ahead_of, instructions_of = collections.Counter(), collections.Counter(), collections.Counter()
    found = set()
    for path in args.files:
        with tempfile.TemporaryDirectory() as folder:
            kernels = list(functions(disassembled(path, Path(folder))))
        names = subprocess.run(["c++filt"], input="\n".join(k[0] for k in kernels), capture_output=True, text=True, check=True)
        for name, (_, instructions, labels) in zip(names.stdout.splitlines(), kernels):
            match = KERNEL.search(name)
            if not match or match[2] != args.precision or match[3] != args.rows_per_bin:
                continue
            kernel, keys = PASSES[int(match[1])], match[4].split("__")
            if set(keys) != set(channels) or kernel in found:
                continue
            found.add(kernel)
            loops = list(edge_loops(instructions, labels))
            number_bytes = NUMBER_BYTES[args.precision]
            for key, of_key in loops_by_path_group(loops, kernel, keys, widths, number_bytes).items():
                blocks, number = -(-channels[key] // LANES), wavefronts(of_key, widths)
                length, ahead = sum(loop[0] for loop in of_key), sum(loop[3] for loop in of_key)
                totals[kernel] += blocks * number
                ahead_of[kernel] += blocks * ahead
                instructions_of[kernel] += blocks * length
                each = f"{number} wavefronts, {ahead} lines ahead, {length} instructions"
                print(f"{kernel:8}  {key:24} {blocks} channel blocks x {each}")
    if found != set(PASSES):
        print(f"no kernel of {', '.join(channels)} in these files", file=sys.stderr)
        return 2
    for kernel in PASSES:
        of_edge = f"{ahead_of[kernel]} lines ahead, {instructions_of[kernel]} instructions"
        print(f"{kernel:8}  {totals[kernel]} wavefronts per edge, {of_edge}")
    over = [kernel for kernel in PASSES if args.check and totals[kernel] > MOST_WAVEFRONTS[kernel]]
    for kernel in over:
        print(f"{kernel}: more than {MOST_WAVEFRONTS[kernel]} wavefronts per edge")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
