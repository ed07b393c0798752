#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""L1 wavefronts per edge of the convolution kernels for NVIDIA GPUs, counted in their machine code.

    wavefronts.py FILE... [--layer KEY:CHANNELS,...] [--rows-per-bin 6] [--precision float]
    wavefronts.py FILE... --check

FILE: cubins, or objects and libraries with the generated kernels (build-cuda/lib/static/libequi_device.a). The default
layer is SevenNet-0's main one. Needs nvdisasm, and cuobjdump for files that are not cubins. Both come with the CUDA
toolkit or with PyPI's nvidia-cuda-nvdisasm and nvidia-cuda-cuobjdump.

The first-level cache serves 128 bytes to one load or store of a warp in a wavefront. What all lanes read together
needs one wavefront. The coefficients of 32 channels need one for each of their lines; a shuffle, a store and a spilled
register need one each. Lines that are fetched into the cache ahead of their use are counted separately: they serve no
register.

Deliveries are the registers of warps that the cache fills, shuffles and stores included, also if all lanes get the
same number. The cache fills one in a cycle.

One warp computes each channel block of 32 of an edge, or two of them if lanes have two channels. The loads of a warp
in the loop over edges, times the number of warps, are therefore those of an edge. The same holds for instructions, of
which a multiprocessor issues four in a cycle.

With --check the status is 1 if a pass over SevenNet-0's main layer, in float by quintic tables, needs more wavefronts
than its limit.
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
MOST_WAVEFRONTS = {"forward": 240, "backward": 450, "gather": 330, "fused": 600}  # limits of that layer, for --check
LANES = 32
LINE = 128
LOAD_BYTES = 16  # of a lane, at most
NUMBER_BYTES = {"float": 4, "double": 8}
COUNTS = ("wavefronts", "lines_ahead", "deliveries", "instructions")    # of a Loop


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
    """Each innermost loop that loads records of edges: its number of instructions, and {name and width: number} of
    those that the first-level cache serves."""
    loops = []
    for k, instruction in enumerate(instructions):
        target = re.search(r"BRA.*?`\((\.L_x_\d+)\)", instruction)
        if target and labels.get(target[1], k + 1) <= k:
            loops.append((labels[target[1]], k))
    for first, last in loops:
        if any((a, b) != (first, last) and first <= a and b <= last for a, b in loops):
            continue
        counts, fetches = collections.Counter(), False
        for instruction in instructions[first : last + 1]:
            name, *modifiers = instruction.split()[0].split(".")
            if name in ("LDG", "STG", "SHFL", "LDL", "STL"):
                width = next((m for m in modifiers if m in ("64", "128")), "32")
                counts[name, int(width) // 8] += 1
            fetches = fetches or name == "CCTL"
        if fetches:  # fetches for the next edge
            yield last - first + 1, counts


def piece_widths(rows, number_bytes):
    """Bytes of the loads by which a lane reads the coefficients of a weight (TablePiece)."""
    most = LOAD_BYTES // number_bytes
    return [min(most, rows - k) * number_bytes for k in range(0, rows, most)]


def power_of_two(n):
    """The least power of two that is not less than n."""
    return 1 << (n - 1).bit_length()


def num_exchanges(num):
    """Number of shuffles of a warp that adds up this many numbers over its lanes (store_lane_sums)."""

    def by_halves(carried):
        return carried - 1 + (LANES // carried).bit_length() - 1

    every, half = power_of_two(num), power_of_two(num) // 2
    if half == 0 or by_halves(half) + by_halves(power_of_two(num - half)) >= by_halves(every):
        return by_halves(every)
    return by_halves(half) + num_exchanges(num - half)


def harmonics(paths):
    """The harmonics from order 1 on that the paths read, by their numbers."""
    return [h for l2 in {l2 for l2, _ in paths if l2} for h in range(l2**2, (l2 + 1) ** 2)]


def components(kernel, l1, paths):
    """The number of components that a loop over edges reads of the atom at the other end: the sender's, or the
    receiver's cotangents, or both."""
    cotangents = sum(2 * l3 + 1 for _, l3 in paths)
    return (kernel != "gather") * (2 * l1 + 1) + (kernel in ("gather", "fused")) * cotangents


def loads_of_edge(kernel, l1, paths, widths, number_bytes, lane_channels):
    """{width: number} of the loads in such a loop, by lanes of this many channels: of numbers one by one, of the
    harmonics, of the table, of the record of the edge, and of the row of the atom two edges ahead."""
    loads = collections.Counter({number_bytes: components(kernel, l1, paths) * lane_channels})
    in_load = LOAD_BYTES // number_bytes
    for together in collections.Counter((h - 1) // in_load for h in harmonics(paths)).values():
        loads[number_bytes * power_of_two(together)] += 1
    for width in widths:
        loads[width] += len(paths) * lane_channels
    loads.update([8, 4] if number_bytes == 4 else [8, 4, 4])
    return loads


def lines_ahead(kernel, l1, paths, number_bytes, lane_channels):
    """What the lanes fetch for the next edge (edges_ahead.h): components, harmonics."""
    edges = 1 if harmonics(paths) else 0
    return components(kernel, l1, paths) * lane_channels * LANES * number_bytes // LINE + edges


class Loop:
    """A loop over edges, for some paths of a path group, by lanes of this many channels."""

    def __init__(self, length, counts, weights, ahead, lane_channels, widths):
        self.instructions, self.lines_ahead = length, ahead
        table = sum(w * LANES // LINE for w in widths) - len(widths)
        self.wavefronts = sum(counts.values()) + weights * lane_channels * table
        self.deliveries = sum(n * (width // 4 if name == "LDG" else 1) for (name, width), n in counts.items())


def in_words(counts):
    return ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in COUNTS)


def match_loops(loops, kernel, variants, widths, number_bytes):
    """{(key, channels of a lane): loops} if the loops are those of the variants in this order, else None. Their loads
    and their sums over lanes identify them."""
    rest, found = list(loops), {}
    for key, lane_channels in variants:
        (l1,), *paths = ([int(digit) for digit in word] for word in key.split("_"))
        of_variant = found[key, lane_channels] = []
        while paths and rest:
            length, counts = rest.pop(0)

            def fits(n):
                sums = 0
                if kernel in ("backward", "fused"):    # by each harmonic of the run and by the fraction of the bin
                    sums = number_bytes // 4 * num_exchanges(1 + len(harmonics(paths[:n])))
                loads = loads_of_edge(kernel, l1, paths[:n], widths, number_bytes, lane_channels)
                return counts["SHFL", 4] == sums and all(counts["LDG", w] == loads[w] for w in (4, 8, 16))

            weights = next((n for n in range(len(paths), 0, -1) if fits(n)), 0)
            if weights == 0:
                return None
            ahead = lines_ahead(kernel, l1, paths[:weights], number_bytes, lane_channels)
            of_variant.append(Loop(length, counts, weights, ahead, lane_channels, widths))
            paths = paths[weights:]
        if paths:
            return None
    return None if rest else found


def loops_by_path_group(loops, kernel, keys, widths, number_bytes):
    """The loops of each path group: {(key, channels of a lane): [Loop]}. Some have loops for two channels, too."""
    for with_two in itertools.product((False, True), repeat=len(keys)):
        variants = [(key, n) for key, two in zip(keys, with_two) for n in ((1, 2) if two else (1,))]
        if len(variants) > len(loops):
            continue
        for order in itertools.permutations(loops):
            found = match_loops(order, kernel, variants, widths, number_bytes)
            if found:
                return found
    raise ValueError(f"the {len(loops)} loops over edges are not those of {', '.join(keys)} (unrolled?)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--layer", default=SEVENNET_0, metavar="KEY:CHANNELS,...")
    parser.add_argument("--rows-per-bin", default="6", choices=["2", "4", "6", "8"])
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
    totals = {kernel: collections.Counter() for kernel in PASSES}
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
            of_variants = loops_by_path_group(loops, kernel, keys, widths, number_bytes)
            for key in keys:
                lane_channels = 2 if (key, 2) in of_variants and channels[key] > LANES else 1
                warps = -(-channels[key] // (LANES * lane_channels))
                counts = collections.Counter()
                for loop in of_variants[key, lane_channels]:
                    for count in COUNTS:
                        counts[count] += getattr(loop, count)
                for count in COUNTS:
                    totals[kernel][count] += warps * counts[count]
                print(f"{kernel:8}  {key:24} {warps} warps x {in_words(counts)}")
    if found != set(PASSES):
        print(f"no kernel of {', '.join(channels)} in these files", file=sys.stderr)
        return 2
    for kernel in PASSES:
        print(f"{kernel:8}  of an edge {in_words(totals[kernel])}")
    over = [kernel for kernel in PASSES if args.check and totals[kernel]["wavefronts"] > MOST_WAVEFRONTS[kernel]]
    for kernel in over:
        print(f"{kernel}: more than {MOST_WAVEFRONTS[kernel]} wavefronts per edge")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
