#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Steps of molecular dynamics with pair_style equi over sizes and threads, against the framework's own calculator.

Ends with the bars that a release must pass: the same cost per atom at all sizes, two threads at nearly twice the speed
of one, and little memory per atom. At each size the sides and the numbers of threads take turns on the same cores. The
fastest turn counts, because other work on the machine can only lengthen a turn.
"""

import statistics
import sys
import tempfile
from pathlib import Path

import common
import memory
import step

MOST_SPREAD = 0.15  # spread of the cost per atom over all sizes
LEAST_SPEEDUP = 1.85  # speed of two threads relative to one
MOST_MEMORY = 60.0  # kB per atom
MEMORY_SIZES = (4000, 20000)  # atoms


def cells_for(system, num_atoms):
    return max(1, round((num_atoms / common.ATOMS_PER_CELL[system]) ** (1 / 3)))


def measure_size(args, cells, rows):
    """Turns of both sides at one size, each with all numbers of threads; adds to rows."""
    atoms = common.make_system(args.system, cells)
    n = len(atoms)
    # A sample of a small system has many steps, one of a large system few, so their times are similar.
    args.steps = min(args.max_steps, max(args.min_steps, args.atom_steps // n))
    args.warm_up = max(2, args.steps // 5)
    samples = {}

    def record(turn, side, threads, times):
        for seconds in times:
            samples.setdefault((side, threads), []).append(1e6 * seconds / n)
            rows.append(
                {
                    "cpu": common.cpu_name(),
                    "system": args.system,
                    "atoms": n,
                    "precision": args.precision,
                    "threads": threads,
                    "turn": turn,
                    "side": side,
                    "us_per_atom_step": f"{1e6 * seconds / n:.4f}",
                }
            )

    peer = step.Peer(args, cells, max(args.threads)) if n <= args.peer_atoms else None
    if peer:
        peer.times(args.evaluations)  # warm up
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        folder = Path(folder)
        lines = common.input_lines(folder, atoms, args.system, args)
        for turn in range(args.rounds):
            for threads in args.threads:
                if peer:
                    record(turn, "peer", threads, peer.times(args.evaluations, threads))
                record(turn, "equi", threads, [step.equi_time(folder, lines, args, threads)])
    if peer:
        peer.close()
    for threads in args.threads:
        equi = samples["equi", threads]
        text = f"{n:>8} {threads:>8} {min(equi):>10.2f} {statistics.median(equi):>10.2f}"
        if peer:
            own = samples["peer", threads]
            text += f" {min(own):>10.1f} {statistics.median(own):>10.1f} {min(own) / min(equi):>8.1f}"
        print(text, flush=True)


def fastest(rows, side):
    """{(threads, atoms): us per atom and step}"""
    best = {}
    for row in rows:
        if row["side"] == side:
            key = row["threads"], row["atoms"]
            best[key] = min(best.get(key, float("inf")), float(row["us_per_atom_step"]))
    return best


def bar(text, is_reached):
    print(f"{'reached' if is_reached else 'MISSED':<8} {text}", flush=True)


def check_times(rows):
    best = fastest(rows, "equi")
    sizes = sorted({n for _, n in best})
    for threads in sorted({t for t, _ in best}):
        cost = {n: best[threads, n] for n in sizes}
        low, high = min(cost, key=cost.get), max(cost, key=cost.get)
        spread = cost[high] / cost[low] - 1
        text = f"cost per atom, {threads} thread{'s' if threads > 1 else ''}, {sizes[0]} to {sizes[-1]} atoms: "
        text += f"spread {spread:.1%} ({cost[low]:.2f} at {low}, {cost[high]:.2f} us at {high}), "
        bar(text + f"target {MOST_SPREAD:.0%}", spread <= MOST_SPREAD)
    if all((t, sizes[0]) in best for t in (1, 2)):
        speedup = {n: best[1, n] / best[2, n] for n in sizes}
        text = ", ".join(f"{value:.2f} at {n}" for n, value in speedup.items())
        bar(f"2 threads against 1: {text}; target {LEAST_SPEEDUP}", min(speedup.values()) >= LEAST_SPEEDUP)


def check_memory(args):
    args.steps = 5
    rows = []
    for wanted in MEMORY_SIZES:
        n, peak = memory.peak_kb(args, cells_for(args.system, wanted), max(args.threads))
        rows.append({"system": args.system, "precision": args.precision, "threads": max(args.threads)})
        rows[-1].update(atoms=n, peak_kB=peak)
    (n1, p1), (n2, p2) = ((row["atoms"], row["peak_kB"]) for row in rows)
    growth = (p2 - p1) / (n2 - n1)
    bar(f"memory, {n1} to {n2} atoms: {growth:.1f} kB/atom, target {MOST_MEMORY:.0f}", growth <= MOST_MEMORY)
    return rows


def plot(rows, file):
    pyplot = common.plotting()
    sides = {row["side"] for row in rows}
    figure, axes = pyplot.subplots(1, len(sides), figsize=(6 * len(sides), 5), layout="constrained", squeeze=False)
    all_sides, ours = axes[0, 0], axes[0, -1]
    for side, marker in (("peer", "s"), ("equi", "o")):
        best = fastest(rows, side)
        for t, threads in enumerate(sorted({t for t, _ in best})):
            sizes = sorted(n for k, n in best if k == threads)
            style = {"marker": marker, "color": f"C{t}", "linestyle": "-" if side == "equi" else "--"}
            label = f"{side}, {threads} thread{'s' if threads > 1 else ''}"
            values = [best[threads, n] for n in sizes]
            if len(sides) > 1:
                all_sides.plot(sizes, values, label=label, **style)
            if side == "equi":
                ours.plot(sizes, values, label=label, **style)
                ours.axhspan(min(values), (1 + MOST_SPREAD) * min(values), color=f"C{t}", alpha=0.15)
    if len(sides) > 1:
        all_sides.set(xscale="log", yscale="log", title="both sides")
    ours.set(xscale="log", title=f"pair_style equi; bands: {MOST_SPREAD:.0%} above the fastest size")
    ours.set_ylim(bottom=0)
    for axis in axes[0]:
        axis.set_xlabel("atoms")
        axis.set_ylabel("us per atom and step")
        axis.grid(which="both", alpha=0.3)
        axis.legend()
    figure.suptitle(f"{rows[0]['cpu']}; {rows[0]['system']}, {rows[0]['precision']} precision")
    figure.savefig(file, dpi=150)
    print(f"written: {file}")


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    parser.add_argument(
        "--atoms",
        type=int,
        nargs="+",
        default=[64, 216, 512, 1000, 4000, 20000],
        help="sizes; the nearest cube of cells is taken (default: 64 216 512 1000 4000 20000)",
    )
    parser.add_argument("--threads", type=int, nargs="+", help="numbers of threads (default: 1 2, where there are 2)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side (default: %(default)s)")
    parser.add_argument(
        "--atom-steps", type=int, default=40000, help="steps of a turn, times atoms (default: %(default)s)"
    )
    parser.add_argument("--min-steps", type=int, default=5, help="of a turn (default: %(default)s)")
    parser.add_argument("--max-steps", type=int, default=200, help="of a turn (default: %(default)s)")
    parser.add_argument("--evaluations", type=int, default=2, help="by the framework per turn (default: %(default)s)")
    parser.add_argument(
        "--peer-atoms",
        type=int,
        default=1000,
        help="largest size for the framework, which needs some MB per atom (default: %(default)s; 0: none)",
    )
    common.add_peer_arguments(parser)
    parser.add_argument("--no-memory", action="store_true", help="leave the memory per atom out")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)

    args.ranks = 1
    args.threads = sorted(set(args.threads or [1, min(2, common.usable_cores())]))
    if min(args.threads) < 1 or max(args.threads) > common.usable_cores():
        sys.exit(f"--threads: expected 1 to {common.usable_cores()}, found {args.threads}")
    common.warn_if_busy()
    print(f"{common.cpu_name()}; {args.system}, {args.precision}; us per atom and step\n")
    print(f"{'atoms':>8} {'threads':>8} {'equi min':>10} {'median':>10} {'peer min':>10} {'median':>10} {'ratio':>8}")
    rows = []
    for cells in sorted({cells_for(args.system, n) for n in args.atoms}):
        measure_size(args, cells, rows)
    print()
    check_times(rows)
    memory_rows = [] if args.no_memory else check_memory(args)
    if args.out is None:
        return
    common.write_csv(args.out, "sweep.csv", rows)
    if memory_rows:
        common.write_csv(args.out, "sweep_memory.csv", memory_rows)
    plot(rows, Path(args.out) / "sweep.png")


if __name__ == "__main__":
    main()
