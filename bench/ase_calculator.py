#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of an evaluation by the ASE calculator, in turn with a new LAMMPS for each structure.

All atoms have moved before each evaluation; in the second row the cell has changed too.
"""

import os
import statistics
import sys
import time

import common


def sample(evaluate, atoms, rng, strain):
    """Seconds of one evaluation after a change of the structure."""
    import numpy as np

    atoms.set_cell(atoms.cell.array @ (np.eye(3) + strain * rng.uniform(-1, 1, (3, 3))), scale_atoms=True)
    atoms.positions += 0.005 * rng.standard_normal((len(atoms), 3))
    start = time.perf_counter()
    evaluate(atoms)
    return time.perf_counter() - start


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, nargs="+", default=[1, 2, 4], help="cells per direction (default: 1 2 4)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side (default: %(default)s)")
    args = parser.parse_args()
    if args.keywords:
        sys.exit("the calculator has no further keywords")
    common.enter_environment(args.build_dir)
    os.environ["EQUI_BUILD_DIR"] = args.build_dir
    import numpy as np
    from equi_tools import lammps_runner
    from equi_tools.ase import EquiCalculator

    model = common.model_file(args)
    calculator = EquiCalculator(model, precision=args.precision)
    sides = {
        "calculator": calculator.get_potential_energy,
        "new LAMMPS": lambda atoms: lammps_runner.evaluate(atoms, model, args.precision),
    }
    print(f"{common.cpu_name()}, {common.usable_cores()} cores, {args.system}, {args.precision}, {model.name}")
    common.warn_if_busy()
    print(f"\n{'medians in ms':<20} {'atoms':>6} {'calculator':>12} {'new LAMMPS':>12} {'ratio':>7}")
    rows = []
    for cells in args.cells:
        atoms = common.make_system(args.system, cells)
        calculator.get_potential_energy(atoms)
        for change, strain in (("positions", 0.0), ("positions and cell", 0.001)):
            rng = np.random.default_rng(1)
            times = {side: [] for side in sides}
            for turn in range(args.rounds):
                for side, evaluate in sides.items():
                    times[side].append(1e3 * sample(evaluate, atoms, rng, strain))
                    rows.append(
                        {"cpu": common.cpu_name(), "cores": common.usable_cores(), "system": args.system,
                         "precision": args.precision, "change": change, "atoms": len(atoms), "turn": turn, "side": side,
                         "ms": f"{times[side][-1]:.3f}"}
                    )  # fmt: skip
            kept, new = (statistics.median(values) for values in times.values())
            print(f"{change:<20} {len(atoms):>6} {kept:>12.1f} {new:>12.1f} {new / kept:>7.1f}", flush=True)
    common.write_csv(args.out, "ase_calculator.csv", rows)


if __name__ == "__main__":
    main()
