# SPDX-License-Identifier: MIT
"""Energy of adsorption with and without dispersion from the energies that in.adsorption writes.

Prints the energies of adsorption and draws those of the molecule at several heights. Needs numpy and matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

SYSTEMS = ("surface", "molecule", "both")
LABELS = {"without": "SevenNet-0", "with": "SevenNet-0 and D3"}


def rows(path):
    with open(path, errors="replace") as file:
        return [line.split() for line in file if not line.startswith("#")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--energies", default="energies.dat")
    parser.add_argument("--heights", default="heights.dat")
    parser.add_argument("-o", "--picture", default="adsorption.png")
    words = parser.parse_args()

    for path in (words.energies, words.heights):
        if not Path(path).is_file():
            parser.error(f"there is no {path}, which in.adsorption writes")
    try:
        energies = {(dispersion, system): float(energy) for dispersion, system, energy in rows(words.energies)}
        lifted = {row[0] for row in rows(words.heights)}
    except (ValueError, IndexError) as error:
        parser.error(f"{words.energies} or {words.heights} is not what in.adsorption writes: {error}")
    missing = [d for d in LABELS if d not in lifted or any((d, system) not in energies for system in SYSTEMS)]
    if missing:
        parser.error(f"{words.energies} and {words.heights} lack results {' and '.join(missing)} dispersion: the run has not ended")
    figure, axes = pyplot.subplots(figsize=(5, 3.6))
    for k, (dispersion, label) in enumerate(LABELS.items()):
        of = {system: energies[dispersion, system] for system in SYSTEMS}
        adsorption = of["both"] - of["surface"] - of["molecule"]
        height, energy = np.array([row[1:] for row in rows(words.heights) if row[0] == dispersion], float).T
        energy -= energy[-1]
        print(f"{label}: energy of adsorption {adsorption:.3f} eV, of the molecule as it lies {energy.min():.3f} eV")
        axes.plot(height, energy, f"C{k}o-", lw=1, ms=3, label=label)
    axes.axhline(0, color="k", lw=0.5)
    axes.set(xlabel=r"height above the place at rest ($\mathrm{\AA}$)", ylabel="energy (eV)", title="Water on MgO(001)", xlim=(None, 7))
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(words.picture, dpi=150)


if __name__ == "__main__":
    main()
