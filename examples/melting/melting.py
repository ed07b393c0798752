# SPDX-License-Identifier: MIT
"""The melting temperature from the runs of crystal next to liquid that in.coexistence makes.

Reads temperature_BEGIN.dat (step, temperature in K, energy in eV/atom) and profile_BEGIN.dat (densities of layers) of each run; prints the
mean temperature of the second half of each with its standard error; draws a picture. Needs numpy and matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

BLOCKS = 4  # of the second half, for the error of its mean
WINDOW = 0.5  # ps, of the running mean in the picture


def last_profile(path):
    """(place along the box, density) of the layers in the last table of fix ave/chunk."""
    lines = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    count = int(lines[0][1])
    return np.array(lines[-count:], float)[:, [1, 3]].T


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--timestep", type=float, default=0.002, help="ps")
    parser.add_argument("-o", "--picture", default="melting.png")
    words = parser.parse_args()

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    means = []
    paths = {float(path.stem.split("_")[1]): path for path in words.folder.glob("temperature_*.dat")}
    if len(paths) < 2:
        parser.error(f"{words.folder} holds {len(paths)} files temperature_BEGIN.dat; in.coexistence writes two")
    for k, begin in enumerate(sorted(paths)):
        try:
            table = np.loadtxt(paths[begin], ndmin=2)
        except ValueError as error:
            parser.error(f"{paths[begin]} is no table of numbers: {error}")
        if len(table) < 4 * BLOCKS:
            parser.error(f"{paths[begin]} holds {len(table)} rows of the {4 * BLOCKS} that are needed: the run is too short")
        step, temperature, _ = table.T
        time = step * words.timestep
        half = temperature[len(temperature) // 2 :]
        blocks = [block.mean() for block in np.array_split(half, BLOCKS)]
        means.append(half.mean())
        print(f"begin at {begin:.0f} K: {half.mean():.0f} +- {np.std(blocks, ddof=1) / BLOCKS**0.5:.0f} K in the last {time[-1] / 2:.0f} ps")
        window = max(1, min(int(WINDOW / (time[1] - time[0])), len(time)))
        smooth = np.convolve(temperature, np.full(window, 1 / window), "valid")
        left.plot(time, temperature, f"C{k}", lw=0.3, alpha=0.5)
        left.plot(time[: len(smooth)] + (window - 1) / 2 * (time[1] - time[0]), smooth, f"C{k}", label=f"begin at {begin:.0f} K")
        place, density = last_profile(words.folder / f"profile_{begin:.0f}.dat")
        right.plot(place, density, f"C{k}", lw=1)
    values = np.array(means)
    melting, error = values.mean(), values.std(ddof=1) / len(values) ** 0.5
    print(f"melting temperature {melting:.0f} +- {error:.0f} K, from the difference of the runs")

    left.axhline(melting, color="k", lw=0.5, ls="--")
    left.set(xlabel="time (ps)", ylabel="temperature (K)", xlim=(0, None))
    left.legend(frameon=False)
    right.set(xlabel="part of the length of the box", ylabel=r"density of layers ($\mathrm{\AA}^{-3}$)", xlim=(0, 1), ylim=(0, None))
    figure.tight_layout()
    figure.savefig(words.picture, dpi=150)


if __name__ == "__main__":
    main()
