#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The convolution kernels on this CPU, against e3nn's tensor product with its radial network and sum over neighbors.

For each problem the two take turns on the same cores, first on one, then on all. The table has nanoseconds per edge;
the fastest evaluation of each side counts. All problems run on a crystal, some also on the graphs of graphs.py.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import common
import graphs

CRYSTAL = "crystal"
ON_GRAPHS = ["mace-large"]  # the problem of the public benchmark of convolutions
FLUSHED = 256 << 20  # bytes that e3nn's process writes before an evaluation with cold caches


class Peer:
    """e3nn in its own process."""

    def __init__(self, args):
        environment = dict(os.environ)
        environment.pop("OMP_NUM_THREADS", None)
        if args.peer_malloc == "tuned":
            environment.update(common.PEER_MALLOC)
        self.messages = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("e3nn_peer.py"))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.messages,
            text=True,
        )

    def times(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.messages.seek(0)
            sys.exit(f"e3nn failed:\n{self.messages.read()[-3000:]}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def bench_kernels(args, graph, *options):
    program = Path(args.build_dir).resolve() / "bin" / "bench_kernels"
    if not program.is_file():
        sys.exit(f"{program} is missing: configure with -DEQUI_BENCH=ON and build the target bench_kernels")
    options = [*options, f"--equi_graph={graph}" if graph else f"--equi_neighbors={args.neighbors}"]
    if args.flush:
        options.append("--equi_flush")
    if args.isa:
        options.append(f"--equi_isa={args.isa}")
    environment = dict(os.environ, OMP_NUM_THREADS=str(args.cores))
    done = subprocess.run([str(program), *options], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench_kernels ended with status {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def measure(args, graph, pattern):
    """Counters of bench_kernels for the names that match: {(part of the name, ...): counters}."""
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        file = Path(folder) / "out.json"
        bench_kernels(
            args,
            graph,
            f"--benchmark_filter={pattern}",
            f"--benchmark_min_time={args.min_time}",
            f"--benchmark_out={file}",
            "--benchmark_out_format=json",
        )
        content = json.loads(file.read_text())
    found = {}
    for result in content["benchmarks"]:
        parts = [p for p in result["run_name"].split("/") if p not in ("real_time", "iterations:1")]
        parts[-1] = int(parts[-1].removeprefix("threads:"))
        found[tuple(parts)] = result
    if not found:
        sys.exit(f"bench_kernels has nothing that matches {pattern}")
    return content["context"], found


def measure_problem(args, problem, number_type, peer, thread_counts, bounds):
    """Rows of the table, one for each number of threads; raises a bound if it was measured higher."""
    graph = problem.get("graph")
    equi, e3nn = {}, {}
    for _ in range(args.rounds):
        for threads in thread_counts if peer else []:
            request = dict(problem, type=number_type, threads=threads, evaluations=args.evaluations)
            if args.flush:
                request["flush"] = FLUSHED
            for name, times in peer.times(request).items():
                key = name, threads
                e3nn[key] = min([e3nn.get(key, float("inf")), *times])
        _, found = measure(args, graph, f"^{problem['name']}/.*/{number_type}/")
        for (_, direction, _, kernels, threads), result in found.items():
            bound = "peak", number_type, threads
            bounds[bound] = max(bounds[bound], result["peak"])
            key = direction, kernels, threads
            if key not in equi or result["ns/edge"] < equi[key]["ns/edge"]:
                equi[key] = result
    rows = []
    for threads in thread_counts:
        row = {
            "cpu": common.cpu_name(),
            "graph": problem["on"],
            "problem": problem["name"],
            "type": number_type,
            "threads": threads,
            "edges": problem["edges"],
        }
        for kernels in ("generated", "generic"):
            for direction in ("forward", "backward"):
                result = equi.get((direction, kernels, threads), {})
                speed = result.get("GFLOP/s")
                row[f"{kernels}_{direction}_ns_per_edge"] = result.get("ns/edge")
                row[f"{kernels}_{direction}_cold_ns_per_edge"] = result.get("cold_ns/edge")
                row[f"{kernels}_{direction}_gflops"] = speed
                row[f"{kernels}_{direction}_of_peak"] = speed and speed / bounds["peak", number_type, threads]
                row[f"{direction}_flops_per_edge"] = result.get("flop/edge", row.get(f"{direction}_flops_per_edge"))
                row[f"{direction}_bytes_per_edge"] = result.get("B/edge", row.get(f"{direction}_bytes_per_edge"))
                row[f"{direction}_loads_per_edge"] = result.get("loadB/edge", row.get(f"{direction}_loads_per_edge"))
                row["table"] = result.get("label", row.get("table"))
        best = "generated" if row["generated_forward_ns_per_edge"] else "generic"
        forward = row[f"{best}_forward_ns_per_edge"]
        both = forward + row[f"{best}_backward_ns_per_edge"]
        row["e3nn_forward_ns_per_edge"] = e3nn.get(("forward", threads))
        row["e3nn_both_ns_per_edge"] = e3nn.get(("both", threads))
        row["e3nn_forward_cold_ns_per_edge"] = e3nn.get(("cold_forward", threads))
        row["e3nn_both_cold_ns_per_edge"] = e3nn.get(("cold_both", threads))
        row["speedup_forward"] = e3nn[("forward", threads)] / forward if e3nn else None
        row["speedup_both"] = e3nn[("both", threads)] / both if e3nn else None
        rows.append(row)
    return rows


COLD_COLUMNS = [
    ("cold fwd", "generated_forward_cold_ns_per_edge", "{:.0f}"),
    ("cold bwd", "generated_backward_cold_ns_per_edge", "{:.0f}"),
    ("e3nn cold", "e3nn_forward_cold_ns_per_edge", "{:.0f}"),
    ("fwd+bwd", "e3nn_both_cold_ns_per_edge", "{:.0f}"),
]
COLUMNS = [
    ("forward", "generated_forward_ns_per_edge", "{:.0f}"),
    ("backward", "generated_backward_ns_per_edge", "{:.0f}"),
    ("% peak", "generated_forward_of_peak", "{:.0%}"),
    ("% peak", "generated_backward_of_peak", "{:.0%}"),
    ("gen.fwd", "generic_forward_ns_per_edge", "{:.0f}"),
    ("gen.bwd", "generic_backward_ns_per_edge", "{:.0f}"),
    ("e3nn fwd", "e3nn_forward_ns_per_edge", "{:.0f}"),
    ("fwd+bwd", "e3nn_both_ns_per_edge", "{:.0f}"),
    ("x fwd", "speedup_forward", "{:.1f}"),
    ("x both", "speedup_both", "{:.1f}"),
]


def print_row(row, columns):
    cells = [form.format(row[name]) if row[name] is not None else "-" for _, name, form in columns]
    print(f"{label(row):<18} {row['type']:<6} {row['threads']:>3}", *(f"{cell:>9}" for cell in cells), flush=True)


def label(row):
    return row["problem"] if row["graph"] == CRYSTAL else f"{row['problem']} {row['graph']}"


def plot_speed(pyplot, rows, file):
    """Bars: how many times faster than e3nn, on a logarithmic axis."""
    groups = sorted({(row["type"], row["threads"]) for row in rows}, key=lambda g: (g[0] != "float", g[1]))
    names = list(dict.fromkeys(map(label, rows)))
    figure, axes = pyplot.subplots(2, 1, figsize=(max(7, 0.75 * len(names) + 2), 8), sharex=True, layout="constrained")
    width = 0.8 / len(groups)
    for axis, name, title in ((axes[0], "speedup_forward", "forward"), (axes[1], "speedup_both", "forward + backward")):
        for g, (number_type, threads) in enumerate(groups):
            values = {label(r): r[name] for r in rows if (r["type"], r["threads"]) == (number_type, threads)}
            places = [n + (g - 0.5 * (len(groups) - 1)) * width for n, p in enumerate(names) if p in values]
            title_of_group = f"{number_type}, {threads} thread{'s' if threads > 1 else ''}"
            axis.bar(places, [values[p] for p in names if p in values], width, label=title_of_group)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_yscale("log")
        axis.set_ylabel("times e3nn's speed")
        axis.set_title(title)
        axis.grid(axis="y", which="both", alpha=0.3)
    axes[0].legend(ncols=2)
    axes[1].set_xticks(range(len(names)), names, rotation=45, ha="right")
    figure.suptitle(rows[0]["cpu"])
    figure.savefig(file, dpi=150)
    print(f"written: {file}")


def plot_roofline(pyplot, rows, bounds, file):
    """GFLOP/s against flops per byte, each tensor counted once, under the measured peak and bandwidth."""
    import numpy as np

    types = list(dict.fromkeys(row["type"] for row in rows))
    figure, axes = pyplot.subplots(1, len(types), figsize=(7 * len(types), 6), squeeze=False, layout="constrained")
    for axis, number_type in zip(axes[0], types):
        of_type = [row for row in rows if row["type"] == number_type]
        directions = ("forward", "backward")
        intensities = [r[f"{d}_flops_per_edge"] / r[f"{d}_bytes_per_edge"] for r in of_type for d in directions]
        x = np.geomspace(min(0.3, min(intensities) / 2), 2 * max(intensities), 200)
        for t, threads in enumerate(sorted({row["threads"] for row in of_type})):
            color = f"C{t}"
            peak, triad = bounds["peak", number_type, threads], bounds["triad", threads]
            bound = f"{threads} thr.: {peak:.0f} GFLOP/s, {triad:.1f} GB/s"
            axis.plot(x, np.minimum(peak, triad * x), color=color, label=bound)
            for direction, marker in (("forward", "o"), ("backward", "s")):
                for kernels, fill in (("generated", color), ("generic", "none")):
                    points = [
                        (row[f"{direction}_flops_per_edge"] / row[f"{direction}_bytes_per_edge"], speed)
                        for row in of_type
                        if row["threads"] == threads and (speed := row[f"{kernels}_{direction}_gflops"])
                    ]
                    kind = f"{direction}, {kernels}" if t == 0 else None
                    if points:
                        axis.scatter(*zip(*points), marker=marker, facecolors=fill, edgecolors=color, label=kind, s=25)
        axis.set(xscale="log", yscale="log", title=number_type, ylabel="GFLOP/s")
        axis.set_xlabel("flops per byte, each tensor once")
        axis.grid(which="both", alpha=0.3)
        axis.legend(fontsize="small", loc="upper left")
    figure.suptitle(rows[0]["cpu"])
    figure.savefig(file, dpi=150)
    print(f"written: {file}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build-dir", default="build", metavar="DIR", help="build folder (default: %(default)s)")
    parser.add_argument("--problems", nargs="+", metavar="NAME", help="names or beginnings of names (default: all)")
    parser.add_argument("--types", nargs="+", choices=["float", "double"], default=["float", "double"])
    parser.add_argument("--cores", type=int, help="cores of the runs on more than one (default: all)")
    parser.add_argument("--neighbors", type=int, default=26, help="per atom, at most 26 (default: %(default)s)")
    parser.add_argument(
        "--graphs",
        nargs="+",
        choices=[CRYSTAL, *graphs.CUTOFFS],
        default=[CRYSTAL, *graphs.CUTOFFS],
        help=f"whose edges the convolutions take; others than the crystal for {', '.join(ON_GRAPHS)} (default: all)",
    )
    parser.add_argument("--flush", action="store_true", help="measure with caches flushed before each evaluation too")
    parser.add_argument("--isa", choices=["avx512", "avx2", "generic"], help="default: the best that the CPU has")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each side (default: %(default)s)")
    parser.add_argument("--min-time", type=float, default=0.2, help="s per kernel and turn (default: %(default)s)")
    parser.add_argument("--evaluations", type=int, default=3, help="by e3nn per turn (default: %(default)s)")
    parser.add_argument(
        "--peer-malloc",
        choices=["tuned", "default"],
        default="tuned",
        help="whether glibc keeps e3nn's memory between evaluations (default: %(default)s)",
    )
    parser.add_argument("--no-peer", action="store_true", help="measure the kernels alone")
    parser.add_argument("--out", metavar="DIR", help="folder for the CSV file and the plots (default: none is written)")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)
    args.cores = args.cores or common.usable_cores()
    thread_counts = [1] + ([args.cores] if args.cores > 1 else [])

    folder = tempfile.TemporaryDirectory(prefix="equi-bench-")
    problems = []
    for name in args.graphs:
        graph = None if name == CRYSTAL else Path(folder.name) / name
        if graph:
            graphs.write_graph(name, graph)
        for line in bench_kernels(args, graph, "--equi_list").splitlines():
            problem = dict(json.loads(line), on=name) | ({"graph": str(graph)} if graph else {})
            if not graph or problem["name"] in ON_GRAPHS:
                problems.append(problem)
    if args.problems:
        for name in args.problems:
            if not any(p["name"].startswith(name) for p in problems):
                sys.exit(f"no problem '{name}': expected {', '.join(dict.fromkeys(p['name'] for p in problems))}")
        problems = [p for p in problems if p["name"].startswith(tuple(args.problems))]

    common.warn_if_busy()
    context, found = measure(args, None, "^(peak|triad)/")
    bounds = {key: result.get("GFLOP/s", result.get("GB/s")) for key, result in found.items()}
    print(f"{common.cpu_name()}, {args.cores} cores, {context['equi_isa']}, {args.neighbors} neighbors per atom")
    for threads in thread_counts:
        peaks = ", ".join(f"{bounds['peak', t, threads]:.0f} GFLOP/s {t}" for t in ("float", "double"))
        print(f"bounds of {threads} thread{'s' if threads > 1 else ''}: {peaks}, {bounds['triad', threads]:.1f} GB/s")
    print("\nns/edge of the generated kernels, their share of the peak (forward, backward), ns/edge of the")
    print("generic kernels and of e3nn, and how many times faster we are\n")
    columns = COLUMNS + (COLD_COLUMNS if args.flush else [])
    print(f"{'problem':<18} {'type':<6} {'thr':>3}", *(f"{title:>9}" for title, _, _ in columns), flush=True)

    peer = None if args.no_peer else Peer(args)
    rows = []
    with contextlib.suppress(KeyboardInterrupt):  # keep what was measured so far
        for problem in problems:
            for number_type in args.types:
                for row in measure_problem(args, problem, number_type, peer, thread_counts, bounds):
                    print_row(row, columns)
                    rows.append(row)
    if peer:
        peer.close()
    if args.out is None or not rows:
        return
    common.write_csv(args.out, "kernels.csv", rows)
    pyplot = common.plotting()
    if peer:
        plot_speed(pyplot, rows, Path(args.out) / "kernels_speed.png")
    plot_roofline(pyplot, rows, bounds, Path(args.out) / "kernels_roofline.png")


if __name__ == "__main__":
    main()
