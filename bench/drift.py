#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The drift of the total energy in dynamics at constant energy (NVE), for each precision.

The drift is the slope of a line through the total energy over time, by least squares. Velocities are drawn once and
are the same for all precisions. They are drawn for atoms near their sites in the crystal, so about half of this
kinetic energy becomes potential energy.

The least and the greatest number of pairs within the model's cutoff are printed, and how many pairs came or went
between two energies. Atoms cross the cutoff all the time, and no energy may be lost there.
"""

import re
import sys
import tempfile
from pathlib import Path

import common

PRECISIONS = ("mixed", "double")
EVERY = 20  # steps between two energies


def energies(args, atoms):
    """Times in ps, and total energies in eV/atom, temperatures in K and pairs within the cutoff at them."""
    timestep = common.DYNAMICS[args.system][1]
    from equi_tools import equi_file

    with tempfile.TemporaryDirectory(prefix="equi-bench-") as folder:
        lines = common.input_lines(Path(folder), atoms, args.system, args)
        cutoff = equi_file.read(common.model_file(args))[0]["cutoff"]
        lines += [f"compute neighbors all coord/atom cutoff {cutoff}", "compute within all reduce sum c_neighbors"]
        lines += [f"thermo {EVERY}", "thermo_style custom step etotal temp c_within", "thermo_modify norm no format float %.14g"]
        lines += [f"run {round(args.picoseconds / timestep)}"]
        output = common.run_lammps(Path(folder), lines, args.build_dir, 1, args.threads)
    rows = [[float(word) for word in match] for match in re.findall(r"^ *(\d+) +(\S+) +(\S+) +(\S+) *$", output, re.M)]
    if len(rows) < 10:
        sys.exit(f"LAMMPS did not tell its energies:\n{output[-3000:]}")
    return [r[0] * timestep for r in rows], [r[1] / len(atoms) for r in rows], [r[2] for r in rows], [r[3] / 2 for r in rows]


def main():
    parser = common.arguments(__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=2, help="cells per direction (default: %(default)s)")
    parser.add_argument("--picoseconds", type=float, default=20.0, help="default: %(default)s")
    parser.add_argument("--temperature", type=float, metavar="K", help="of the velocities (default: that of the system)")
    parser.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    args = parser.parse_args()
    common.enter_environment(args.build_dir)
    import numpy as np

    atoms = common.make_system(args.system, args.cells)
    timestep = common.DYNAMICS[args.system][1]
    print(f"{common.model_file(args).stem}; {args.system}, {len(atoms)} atoms, {args.picoseconds:g} ps in steps of {1000 * timestep:g} fs\n")
    print(f"{'':<8} {'drift':>14} {'deviations':>14} {'temperature':>12} {'pairs within the cutoff':>32}")
    print(f"{'':<8} {'ueV/atom/ps':>14} {'ueV/atom':>14} {'K':>12} {'least to greatest, changes':>32}")
    rows = []
    for args.precision in PRECISIONS:
        time, energy, temperature, pairs = (np.array(values) for values in energies(args, atoms))
        slope, height = np.polyfit(time, energy - energy[0], 1)
        deviation = np.std(energy - energy[0] - height - slope * time)
        late = temperature[len(temperature) // 2 :].mean()
        changes = int(np.abs(np.diff(pairs)).sum())
        between = f"{pairs.min():.0f} to {pairs.max():.0f}, {changes}"
        print(f"{args.precision:<8} {1e6 * slope:>14.3f} {1e6 * deviation:>14.3f} {late:>12.0f} {between:>32}", flush=True)
        rows.append(
            {"model": common.model_file(args).stem, "system": args.system, "atoms": len(atoms), "ps": args.picoseconds, "timestep_ps": timestep,
             "precision": args.precision, "drift_ueV_per_atom_per_ps": f"{1e6 * slope:.4f}", "deviation_ueV_per_atom": f"{1e6 * deviation:.4f}",
             "temperature_K": f"{late:.1f}", "least_pairs": int(pairs.min()), "most_pairs": int(pairs.max()), "changes_of_pairs": changes}
        )  # fmt: skip
    common.write_csv(args.out, "drift.csv", rows)


if __name__ == "__main__":
    main()
