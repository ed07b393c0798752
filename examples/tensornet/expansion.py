# SPDX-License-Identifier: MIT
"""Thermal expansion from the lattice constants that in.expansion writes.

Reads lattice_NAME_TEMPERATURE.dat (step, Angstrom) of all available models; prints the lattice constants with standard
errors and the mean coefficient of expansion, and draws a picture. Needs numpy and matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

BLOCKS = 5  # of a run, for the error of its mean


def mean_and_error(values):
    blocks = [block.mean() for block in np.array_split(values, BLOCKS)]
    return values.mean(), np.std(blocks, ddof=1) / BLOCKS**0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("-o", "--picture", default="expansion.png")
    words = parser.parse_args()

    found = {}
    for path in words.folder.glob("lattice_*.dat"):
        _, name, temperature = path.stem.split("_")
        try:
            table = np.loadtxt(path, ndmin=2)
        except ValueError as error:
            parser.error(f"{path} is no table of numbers: {error}")
        if len(table) < 2 * BLOCKS:
            parser.error(f"{path} holds {len(table)} rows, and {2 * BLOCKS} are needed: the run is too short")
        found.setdefault(name, {})[float(temperature)] = mean_and_error(table[:, 1])
    few = [name for name, temperatures in found.items() if len(temperatures) < 3]
    if few or not found:
        parser.error(f"{words.folder} holds fewer than three files lattice_NAME_TEMPERATURE.dat of a name; in.expansion writes them")

    figure, axes = pyplot.subplots(figsize=(5, 3.6))
    for k, name in enumerate(sorted(found, reverse=True)):
        temperature = np.array(sorted(found[name]))
        constant, error = np.array([found[name][t] for t in temperature]).T
        scale = 1e6 / constant.mean() / (temperature[-1] - temperature[0])
        expansion, uncertainty = scale * (constant[-1] - constant[0]), scale * np.hypot(error[0], error[-1])
        for t, a, e in zip(temperature, constant, error):
            print(f"{name}, {t:.0f} K: {a:.4f} +- {e:.4f} Angstrom")
        print(f"{name}: expansion {expansion:.1f} +- {uncertainty:.1f} 1e-6/K between {temperature[0]:.0f} and {temperature[-1]:.0f} K")
        axes.errorbar(temperature, constant, error, fmt="o" if k == 0 else "s", color=f"C{k}", label=name, mfc="none" if k else None)
        fine = np.linspace(temperature[0], temperature[-1], 100)
        parabola = np.polyfit(temperature, constant, 2, w=1 / error)
        axes.plot(fine, np.polyval(parabola, fine), f"C{k}", lw=1, ls="-" if k == 0 else "--")
    axes.set(xlabel="temperature (K)", ylabel=r"lattice constant ($\mathrm{\AA}$)", title="MgO at no pressure")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(words.picture, dpi=150)


if __name__ == "__main__":
    main()
