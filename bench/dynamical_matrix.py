#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of a row of the dynamical matrix by equi_dynamical_matrix, against LAMMPS's dynamical_matrix.

Both commands take turns with the same pair style. Atoms are off their sites, so no translation helps. The rows of a
few atoms are written, and of only one atom; the difference excludes what a run does once.
"""

import statistics
import tempfile
import time
from pathlib import Path

import common


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    parser.set_defaults(precision="double")
    parser.add_argument("--cells", type=int, default=3, help="cells per direction (default: %(default)s)")
    parser.add_argument("--atoms", type=int, default=20, help="whose rows are timed (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side (default: %(default)s)")
    parser.add_argument("--ranks", type=int, default=1, help="MPI ranks (default: %(default)s)")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)

    atoms, cores, threads = common.start(args, args.cells)
    common.warn_if_busy()

    sides = ["dynamical_matrix", "equi_dynamical_matrix"]
    samples = {side: [] for side in sides}
    rows = []
    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        folder = Path(folder)
        lines = common.input_lines(folder, atoms, args.system, args)
        lines.insert(2, "atom_modify map array")

        def seconds(side, num_atoms):
            command = [f"group some id 1:{num_atoms}", f"{side} some regular 1e-3 file {side}.dyn fold yes"]
            start = time.perf_counter()
            common.run_lammps(folder, lines + command, args.build_dir, args.ranks, threads)
            return time.perf_counter() - start

        for turn in range(args.rounds):
            for side in sides:
                row = (seconds(side, 1 + args.atoms) - seconds(side, 1)) / (3 * args.atoms)
                samples[side].append(row)
                figure = {"ms_per_row": f"{1e3 * row:.3f}"}
                rows.append(common.sample_row(args, len(atoms), cores, threads, turn, side, figure))
            print(f"turn {turn + 1}: " + ", ".join(f"{s} {1e3 * v[-1]:.1f} ms/row" for s, v in samples.items()), flush=True)

    theirs, ours = (samples[side] for side in sides)
    print(f"ratio: {min(theirs) / min(ours):.2f} by minima, {statistics.median(theirs) / statistics.median(ours):.2f} by medians")
    common.write_csv(args.out, "dynamical_matrix.csv", rows)


if __name__ == "__main__":
    main()
