# SPDX-License-Identifier: MIT
"""Radial distribution functions and self-diffusion of water from the files that in.water writes.

Prints the first peak of O-O, the hydrogens in the first shell of an oxygen's bond and the diffusion coefficient of oxygen;
draws a picture. Needs numpy and matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

PAIRS = ("O-O", "O-H", "H-H")
BOND = 1.3  # Angstrom; hydrogens closer to an oxygen are bound to it
CM2_PER_S = 1e-4  # of one Angstrom^2/ps
LEAST_ROWS = 5  # of the mean square displacement


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rdf", default="rdf.dat")
    parser.add_argument("--msd", default="msd.dat")
    parser.add_argument("--timestep", type=float, default=0.001, help="ps")
    parser.add_argument("-o", "--picture", default="water.png")
    words = parser.parse_args()

    for path in (words.rdf, words.msd):
        if not Path(path).is_file():
            parser.error(f"there is no {path}, which in.water writes")
    lines = [line for line in Path(words.rdf).read_text(errors="replace").splitlines() if not line.startswith("#")]
    try:
        displacements = np.loadtxt(words.msd, ndmin=2)
    except ValueError as error:
        parser.error(f"{words.msd} is no table of numbers: {error}")
    if not lines or len(displacements) < LEAST_ROWS:
        parser.error(f"{words.rdf} has no table, or {words.msd} fewer than {LEAST_ROWS} rows: the run is too short")
    try:
        rows = int(lines[0].split()[1])
        table = np.array([line.split() for line in lines[-rows:]], float)
        distance = table[:, 1]
    except (ValueError, IndexError):
        parser.error(f"{words.rdf} is no table of fix ave/time, which in.water writes")
    step, msd = displacements.T
    time = step * words.timestep
    is_linear = time >= time[-1] / 5  # past the vibrations in the cage of the neighbors
    slope, offset = np.polyfit(time[is_linear], msd[is_linear], 1)

    oxygen = table[:, 2]
    peak = distance[oxygen.argmax()]
    bound = np.interp(BOND, distance, table[:, 5])
    print(f"O-O peak {oxygen.max():.2f} at {peak:.2f} Angstrom, {bound:.2f} H within {BOND} Angstrom of an O, "
          f"D = {slope / 6 * CM2_PER_S:.1e} cm^2/s over {time[-1]:.1f} ps")  # fmt: skip

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    for k, pair in enumerate(PAIRS):
        left.plot(distance, table[:, 2 + 2 * k], label=pair)
    left.axhline(1, color="k", lw=0.5)
    left.set(xlabel=r"distance ($\mathrm{\AA}$)", ylabel="radial distribution function", xlim=(0, 5), ylim=(0, 4))
    left.legend(frameon=False)
    right.plot(time, msd, "C0")
    right.plot(time, slope * time + offset, "k--", lw=1)
    right.set(xlabel="time (ps)", ylabel=r"mean square displacement of O ($\mathrm{\AA}^2$)", xlim=(0, time[-1]), ylim=(0, None))
    figure.tight_layout()
    figure.savefig(words.picture, dpi=150)


if __name__ == "__main__":
    main()
