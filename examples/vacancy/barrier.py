# SPDX-License-Identifier: MIT
"""The energy along the path that in.vacancy finds, from the log of its partitions.

Prints the barrier and draws a picture. Needs numpy, scipy and matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from scipy.interpolate import PchipInterpolator

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

BEFORE_IMAGES = 9  # columns of LAMMPS's table before those of the images: step, forces, barriers and the length of the path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", default="log.lammps", help="of all partitions, not of one")
    parser.add_argument("-o", "--picture", default="barrier.png")
    words = parser.parse_args()

    if not Path(words.log).is_file():
        parser.error(f"there is no {words.log}, which in.vacancy writes with several partitions (-partition 7x1)")
    rows = [line.split() for line in Path(words.log).read_text(errors="replace").splitlines() if line.split()[:1] and line.split()[0].isdigit()]
    if not rows or len(rows[-1]) < BEFORE_IMAGES + 4:
        parser.error(f"{words.log} has no table of images: it is the log of a single partition, or the run has not begun")
    last = np.array(rows[-1], float)
    places, energies = last[BEFORE_IMAGES:].reshape(-1, 2).T
    length, energies = last[BEFORE_IMAGES - 1], energies - energies[0]
    print(f"{len(places)} images, path of {length:.2f} Angstrom: barrier {energies.max():.3f} eV")

    fine = np.linspace(0, 1, 300)
    figure, axes = pyplot.subplots(figsize=(5, 3.6))
    axes.plot(fine * length, PchipInterpolator(places, energies)(fine), "k", lw=1)
    axes.plot(places * length, energies, "C0o")
    axes.axhline(energies.max(), color="C0", lw=0.5, ls="--")
    axes.set(xlabel=r"path of all atoms ($\mathrm{\AA}$)", ylabel="energy (eV)", title="Na into a vacancy of NaCl, SevenNet-0")
    figure.tight_layout()
    figure.savefig(words.picture, dpi=150)


if __name__ == "__main__":
    main()
