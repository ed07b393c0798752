#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pictures of this folder: phonons and a charged vacancy of the potential, next to its teacher.

    python polar.py

reads what in.phonons (crystal.dyn, atoms.dump, born.dump), in.charged (vacancy.txt) and `python ions.py reference` (ions.dyn,
ions.dump, ions_born.dump, vacancy_ions.json) have written, prints frequencies at Gamma and energies, and writes polar.png.
"""

import argparse
import json
import sys
from pathlib import Path

import matplotlib
import numpy as np
from ase.cell import Cell

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[1] / "phonons"))
import phonons  # noqa: E402

NEEDED = ["crystal.dyn", "atoms.dump", "born.dump", "vacancy.txt", "ions.dyn", "ions.dump", "ions_born.dump", "vacancy_ions.json"]


def crystal_of(matrix, atoms, born):
    """(Crystal with Born charges, dynamical matrix) of a run."""
    cell, types, masses, positions = phonons.read_dump(atoms)
    crystal = phonons.Crystal(cell, types, positions)
    charges = phonons.read_born_charges(born)
    crystal.set_born_charges(charges, masses, 1.0)
    print(f"{matrix}: Born charge of sodium {charges[types == 1].mean(0).trace() / 3:.4f} e")
    return crystal, np.fromfile(matrix).reshape(3 * len(types), -1)


def near_gamma(crystal, matrix):
    """TO and LO at Gamma, THz."""
    found = np.sort(crystal.frequencies(matrix, np.array([phonons.NEAR_GAMMA, 0.0, 0.0])))
    return found[3], found[5]


def draw_bands(axis, crystal, matrix, color, label):
    path = Cell(crystal.primitive).bandpath(npoints=phonons.POINTS)
    x, ticks, names = path.get_linear_kpoint_axis()
    lines = axis.plot(x, [crystal.frequencies(matrix, q) for q in phonons.wave_vectors(path)], **color)
    lines[0].set_label(label)
    axis.set_xticks(ticks, [name.replace("G", "$\\Gamma$") for name in names])
    axis.set_xlim(0, ticks[-1])
    axis.set_ylim(bottom=0)
    axis.set_ylabel("frequency (THz)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    missing = [name for name in NEEDED if not Path(name).is_file()]
    if missing:
        parser.error(f"there is no {', '.join(missing)}: run in.phonons, in.charged and 'ions.py reference' first")
    figure, (left, right) = pyplot.subplots(1, 2, width_ratios=[3, 2], figsize=(10, 4.5))
    styles = [{"color": "k", "lw": 2.5, "alpha": 0.35}, {"color": "C0", "lw": 1.2}]
    for (matrix, atoms, born, label), style in zip(
        [("ions.dyn", "ions.dump", "ions_born.dump", "rigid ions"), ("crystal.dyn", "atoms.dump", "born.dump", "potential")], styles
    ):
        crystal, matrix = crystal_of(matrix, atoms, born)
        print("  TO {:.3f} THz, LO {:.3f} THz".format(*near_gamma(crystal, matrix)))
        draw_bands(left, crystal, matrix, style, label)
    left.legend(loc="upper right", fontsize=8)
    left.set_title("phonons of NaCl")

    teacher = [(1 / entry["length"], entry["frozen"], entry["relaxed"]) for entry in json.loads(Path("vacancy_ions.json").read_text()).values()]
    lines = [line.split() for line in Path("vacancy.txt").read_text().splitlines() if line.startswith("vacancy")]
    potential = [(1 / float(words[2]), float(words[3]), float(words[4])) for words in lines]
    for points, style, label in ((teacher, styles[0], "rigid ions"), (potential, styles[1], "potential")):
        x, *energies = np.array(sorted(points)).T
        for y, kind, mark in zip(energies, ("atoms at their places", "relaxed"), "os"):
            fit = np.polyfit(x, y, 1)
            print(f"{label}, {kind}: {fit[1]:.3f} eV for L to infinity, slope {fit[0]:.2f} eV Angstrom")
            right.plot(x, y, mark, **style)
            right.plot([0, max(x)], np.polyval(fit, [0, max(x)]), **style, label=f"{label}, {kind}")
    right.set_xlim(left=0)
    right.set_xlabel("1/L (1/Angstrom)")
    right.set_ylabel("energy (eV)")
    right.set_title("vacancy of Na$^+$")
    right.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig("polar.png", dpi=110)


if __name__ == "__main__":
    main()
