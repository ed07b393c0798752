#!/usr/bin/env python3
"""Time of a step of molecular dynamics with pair_style equi/kk, against plain equi in the same LAMMPS.

The two take turns on the same cores, so that a change of the machine's speed meets both.
"""

import statistics
import tempfile
from pathlib import Path

import common
from step import equi_time


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    parser.set_defaults(build_dir="build-lammps-kokkos")
    parser.add_argument("--cells", type=int, help="cells per direction (default: 4 nacl, 5 cu, 6 water)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="steps of LAMMPS per turn (default: %(default)s)")
    parser.add_argument("--warm-up", type=int, default=10, help="steps before them (default: %(default)s)")
    parser.add_argument(
        "--ranks", type=int, default=1, help="MPI ranks; each gets its share of the cores (default: %(default)s)"
    )
    parser.add_argument("--cores", type=int, help="cores for either side (default: all)")
    parser.add_argument("--comm", choices=["no", "host", "device"], default="no", help="of package kokkos (default: no)")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)

    cores = args.cores or common.usable_cores()
    threads = max(1, cores // args.ranks)
    atoms = common.make_system(args.system, args.cells or common.DEFAULT_CELLS[args.system])
    n = len(atoms)
    print(f"{common.cpu_name()}, {cores} cores; {args.system}, {n} atoms; ", end="")
    print(f"{args.ranks} x {threads} (ranks x threads), {args.precision}, comm {args.comm}", flush=True)
    common.warn_if_busy()

    kokkos = ["-k", "on", "t", str(threads), "-sf", "kk", "-pk", "kokkos", "newton", "on", "neigh", "half"]
    sides = {"equi": [], "equi/kk": [*kokkos, "comm", args.comm]}
    samples = {side: [] for side in sides}
    rows = []
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        folder = Path(folder)
        lines = common.input_lines(folder, atoms, args.system, args)
        for turn in range(args.rounds):
            for side, words in sides.items():
                samples[side].append(1e6 / n * equi_time(folder, lines, args, threads, words))
                rows.append(
                    {
                        "cpu": common.cpu_name(),
                        "cores": cores,
                        "system": args.system,
                        "atoms": n,
                        "precision": args.precision,
                        "ranks": args.ranks,
                        "threads": threads,
                        "comm": args.comm,
                        "turn": turn,
                        "side": side,
                        "us_per_atom_step": f"{samples[side][-1]:.4f}",
                    }
                )
            print(f"turn {turn + 1}: " + ", ".join(f"{s} {v[-1]:.1f} us/atom/step" for s, v in samples.items()), flush=True)

    print(f"\n{'us/atom/step':<14} {'minimum':>10} {'median':>10} {'samples':>8}")
    for side, values in samples.items():
        print(f"{side:<14} {min(values):>10.2f} {statistics.median(values):>10.2f} {len(values):>8}")
    a, b = samples["equi"], samples["equi/kk"]
    print(f"{'ratio':<14} {min(a) / min(b):>10.3f} {statistics.median(a) / statistics.median(b):>10.3f}")
    common.write_csv(args.out, "kokkos.csv", rows)


if __name__ == "__main__":
    main()
