#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Scaling over ranks: a model of the time of a step, checked here and used to predict other machines.

A rank computes its own atoms' edges and sends the rows of border atoms: those within the cutoff and the skin of LAMMPS
of a neighbor's box. Each convolution whose input depends on more than the species sends once forward and once back.

    step = edges per rank * time per edge + launches * time of one
           + part not hidden of (messages * latency + bytes / bandwidth)

`check` runs LAMMPS on 1 to N ranks and compares bytes, messages and times with the model, whose time per atom is that
of the first run. `predict` prints weak and strong scaling for given figures of the network and a time per edge.
"""

import argparse
import math
import re
import tempfile
from pathlib import Path

import common

CHANNEL_PAD = 16  # src/generator/kernel_layout.h


# ---- what a model sends ----


def row_bytes(irreps, number_bytes):
    """Bytes of a row in a message, which counts in numbers of 8 bytes."""
    size = 0
    for block in irreps.split("+"):
        mul, irrep = block.split("x")
        size += math.ceil(int(mul) / CHANNEL_PAD) * CHANNEL_PAD * (2 * int(irrep[:-1]) + 1)
    return math.ceil(size * number_bytes / 8) * 8


def read_model(args):
    """The cutoff of the model, and the bytes of a row for each feature that is sent."""
    from equi_tools import equi_file

    model, _ = equi_file.read(common.model_file(args))
    number_bytes = 8 if args.precision == "double" else 4
    of_species, rows = set(), []
    for layer in model["layers"]:
        if layer["type"] == "species_embedding":
            of_species.add(layer["output"])
        elif layer["type"] in ("linear", "gate") and layer["input"] in of_species:
            of_species.add(layer["output"])
        elif layer["type"] == "convolution" and layer["input"] not in of_species:
            rows.append(row_bytes(layer["irreps_in"], number_bytes))
        else:  # a layer that adds to an output changes it
            of_species.discard(layer.get("output"))
    return model["cutoff"], rows


# ---- the model of a step ----


def halo_atoms(box, density, reach):
    """Ghosts of a rank with a box of these edges (Angstrom)."""
    return density * (math.prod(edge + 2 * reach for edge in box) - math.prod(box))


def halo_messages(box, reach):
    """Messages of one exchange by LAMMPS's brick communication: two per direction and layer of neighbors."""
    return sum(2 * math.ceil(reach / edge) for edge in box)


def traffic(rows, box, density, reach):
    """Bytes and messages that a rank sends in a step for features."""
    return 2 * sum(rows) * halo_atoms(box, density, reach), 2 * len(rows) * halo_messages(box, reach)


def grid_of(ranks, cell):
    """The most compact bricks, as LAMMPS chooses them."""
    best = None
    for x in range(1, ranks + 1):
        for y in range(1, ranks // x + 1):
            if ranks % (x * y):
                continue
            grid = (x, y, ranks // (x * y))
            box = [edge / n for edge, n in zip(cell, grid)]
            surface = box[0] * box[1] + box[1] * box[2] + box[0] * box[2]
            if best is None or surface < best[0] - 1e-9:
                best = (surface, grid)
    return best[1]


# ---- check ----


def run(args, cutoff, atoms, ranks):
    """(grid, reach, edges per atom, seconds per step, MB and messages of the busiest rank) of LAMMPS on some ranks."""
    threads = max(1, common.usable_cores() // ranks)
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        folder = Path(folder)
        lines = common.input_lines(folder, atoms, args.system, args)
        lines += ["compute edges all coord/atom cutoff " + str(cutoff), "compute mean all reduce ave c_edges"]
        lines += ["run 5 post no", f"run {args.steps}", "variable edges equal c_mean", 'run 0', 'print "EDGES $(v_edges)"']
        output = common.run_lammps(folder, lines, args.build_dir, ranks, threads)
    grid = tuple(int(n) for n in re.search(r"(\d+) by (\d+) by (\d+) MPI processor grid", output).groups())
    reach = float(re.search(r"ghost atom cutoff = ([\d.]+)", output).group(1))
    edges = float(re.search(r"^EDGES ([\d.]+)", output, re.M).group(1))
    loops = re.findall(r"Loop time of ([\d.eE+-]+) on \d+ procs for (\d+) steps", output)
    seconds = next(float(time) / int(steps) for time, steps in reversed(loops) if int(steps) == args.steps)
    sent = r"of .*at most ([\d.]+) MB/step and (\d+) messages/step from a rank"
    exchange = re.search(rf"^Pair style equi: exchange (not needed|{sent})", output, re.M)
    return grid, reach, edges, seconds, (float(exchange.group(2) or 0.0), int(exchange.group(3) or 0))


def check(args):
    cutoff, rows = read_model(args)
    atoms = common.make_system(args.system, args.cells or common.DEFAULT_CELLS[args.system])
    cell, density = atoms.cell.lengths(), len(atoms) / atoms.get_volume()
    cores = common.usable_cores()
    print(f"{common.cpu_name()}, {cores} cores; {args.system}, {len(atoms)} atoms, {args.precision}; rows of {rows} bytes")
    print(f"{'ranks':>5} {'grid':>8} {'MB/step':>9} {'model':>9} {'messages':>9} {'model':>6} {'ms/step':>9} {'model':>9}")
    table, per_atom = [], None
    for ranks in args.ranks:
        grid, reach, edges, seconds, (megabytes, messages) = run(args, cutoff, atoms, ranks)
        box = [edge / n for edge, n in zip(cell, grid)]
        expected_bytes, expected_messages = traffic(rows, box, density, reach) if ranks > 1 else (0.0, 0)
        # All cores work at any number of ranks. The time per edge is that of the first run, copies run at the
        # bandwidth of memory.
        per_atom = per_atom or seconds / len(atoms)
        expected_time = per_atom * len(atoms) + ranks / min(ranks, cores) * expected_bytes / (1e9 * args.bandwidth)
        print(
            f"{ranks:>5} {'x'.join(map(str, grid)):>8} {megabytes:>9.3f} {1e-6 * expected_bytes:>9.3f} {messages:>9} "
            f"{expected_messages:>6} {1e3 * seconds:>9.2f} {1e3 * expected_time:>9.2f}"
        )
        table.append(
            {
                "system": args.system,
                "atoms": len(atoms),
                "precision": args.precision,
                "ranks": ranks,
                "grid": "x".join(map(str, grid)),
                "edges_per_atom": f"{edges:.2f}",
                "MB_per_step": megabytes,
                "MB_of_model": f"{1e-6 * expected_bytes:.3f}",
                "messages": messages,
                "messages_of_model": expected_messages,
                "ms_per_step": f"{1e3 * seconds:.3f}",
                "ms_of_model": f"{1e3 * expected_time:.3f}",
            }
        )
    common.write_csv(args.out, "scaling_check.csv", table)


# ---- predict ----


def predict(args):
    cutoff, rows = read_model(args)
    reach = cutoff + args.skin
    neighbors = args.density * 4 / 3 * math.pi * cutoff**3
    print(
        f"{args.density} atoms/A^3, {neighbors:.0f} neighbors, rows of {rows} bytes; assumed: {args.ns_per_edge} ns/edge, "
        f"{args.us_per_launch} us x {args.launches} launches, {args.latency} us and {args.bandwidth} GB/s per rank, "
        f"{100 * args.overlap:.0f} % of the exchange hidden"
    )
    table = []

    def line(kind, ranks, atoms):
        edge = (atoms / args.density) ** (1 / 3)
        grid = grid_of(ranks, [edge] * 3)
        box = [edge / n for n in grid]
        sent, messages = traffic(rows, box, args.density, reach) if ranks > 1 else (0.0, 0)
        compute = atoms / ranks * neighbors * args.ns_per_edge * 1e-9 + args.launches * args.us_per_launch * 1e-6
        network = messages * args.latency * 1e-6 + sent / (args.bandwidth * 1e9)
        step = compute + max(0.0, network - args.overlap * min(network, compute))
        return {
            "scaling": kind,
            "ranks": ranks,
            "atoms": atoms,
            "MB_per_rank": round(sent * 1e-6, 3),
            "compute_ms": round(1e3 * compute, 3),
            "network_ms": round(1e3 * network, 3),
            "step_ms": round(1e3 * step, 3),
            "efficiency": None,
        }

    for kind in ("weak", "strong"):
        first = None
        print(f"\n{kind} scaling\n{'ranks':>6} {'atoms':>12} {'MB/rank':>9} {'compute ms':>11} {'network ms':>11} {'step ms':>9} {'efficiency':>10}")
        for ranks in args.ranks:
            atoms = args.atoms_per_rank * ranks if kind == "weak" else args.atoms
            row = line(kind, ranks, atoms)
            cost = row["step_ms"] * ranks / atoms
            first = first or cost
            row["efficiency"] = round(first / cost, 3)
            table.append(row)
            print(
                f"{ranks:>6} {atoms:>12} {row['MB_per_rank']:>9.2f} {row['compute_ms']:>11.3f} {row['network_ms']:>11.3f} "
                f"{row['step_ms']:>9.3f} {row['efficiency']:>10.3f}"
            )
    common.write_csv(args.out, "scaling_predicted.csv", table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    here = verbs.add_parser("check", parents=[common.arguments("")], add_help=False, help="against runs on this machine")
    here.add_argument("--cells", type=int, help="cells per direction (default: 4 nacl, 5 cu, 6 water)")
    here.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8], help="default: 1 2 4 8")
    here.add_argument("--steps", type=int, default=20, help="default: %(default)s")
    here.add_argument("--bandwidth", type=float, default=5.0, help="GB/s of copies in memory (default: %(default)s)")
    there = verbs.add_parser("predict", parents=[common.arguments("")], add_help=False, help="for another machine")
    there.add_argument("--ranks", type=int, nargs="+", default=[8, 16, 64, 256, 1024, 4096], help="default: 8 to 4096")
    there.add_argument("--atoms", type=int, default=10_000_000, help="of strong scaling (default: %(default)s)")
    there.add_argument("--atoms-per-rank", type=int, default=20_000, help="of weak scaling (default: %(default)s)")
    there.add_argument("--density", type=float, default=0.0446, help="atoms/Angstrom^3 (default: rock salt's, %(default)s)")
    there.add_argument("--skin", type=float, default=2.0, help="Angstrom (default: %(default)s)")
    there.add_argument("--ns-per-edge", type=float, required=True, help="measured time of a rank for an edge of the whole model")
    there.add_argument("--launches", type=int, default=0, help="kernel launches of a step (default: %(default)s)")
    there.add_argument("--us-per-launch", type=float, default=5.0, help="default: %(default)s")
    there.add_argument("--latency", type=float, default=5.0, help="microseconds per message (default: %(default)s)")
    there.add_argument("--bandwidth", type=float, default=25.0, help="GB/s per rank (default: %(default)s)")
    there.add_argument("--overlap", type=float, default=0.0, help="part of the exchange behind work (default: %(default)s)")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)
    {"check": check, "predict": predict}[args.verb](args)


if __name__ == "__main__":
    main()
