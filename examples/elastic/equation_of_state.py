# SPDX-License-Identifier: MIT
"""Birch and Murnaghan's equation of state of the energies that in.elastic writes in addition to the elastic constants.

Reads volumes and energies per atom (Angstrom^3, eV) and pressures (bar), and the file of equi_elastic (GPa); writes a picture and
prints the bulk modulus by both. Needs numpy, scipy and matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from scipy.optimize import curve_fit

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

GIGAPASCAL = 160.2176634  # of one eV/Angstrom^3
BAR = 1e-4  # in GPa


def energy(volume, lowest, volume_0, modulus, slope):
    """Birch and Murnaghan's energy of third order; modulus: B in eV/Angstrom^3, slope: dB/dp."""
    strain = ((volume_0 / volume) ** (2 / 3) - 1) / 2
    return lowest + 9 / 2 * volume_0 * modulus * strain**2 * (1 + (slope - 4) * strain)


def pressure(volume, volume_0, modulus, slope):
    strain = ((volume_0 / volume) ** (2 / 3) - 1) / 2
    return 3 * modulus * strain * (1 + 2 * strain) ** (5 / 2) * (1 + 3 / 2 * (slope - 4) * strain)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--energies", default="energies.dat")
    parser.add_argument("--elastic", default="elastic.dat")
    parser.add_argument("-o", "--picture", default="equation_of_state.png")
    words = parser.parse_args()

    for path, least in ((words.energies, 5), (words.elastic, 12)):
        try:
            rows = len(np.loadtxt(path, ndmin=2)) if Path(path).is_file() else 0
        except ValueError as error:
            parser.error(f"{path} is no table of numbers: {error}")
        if rows < least:
            parser.error(f"there is no {path} with at least {least} rows: in.elastic writes it, and has not ended")
    volumes, energies, pressures = np.loadtxt(words.energies).T
    guess = (energies.min(), volumes[energies.argmin()], 1.0, 4.0)
    (lowest, volume_0, modulus, slope), _ = curve_fit(energy, volumes, energies, guess)
    relaxed = np.loadtxt(words.elastic).reshape(2, 6, 6)[0]
    c11, c12, c44 = relaxed[0, 0], relaxed[0, 1], relaxed[3, 3]
    print(f"equation of state: volume {volume_0:.3f} Angstrom^3 per atom, B {modulus * GIGAPASCAL:.2f} GPa, dB/dp {slope:.2f}")
    print(f"equi_elastic: C11 {c11:.1f}, C12 {c12:.1f}, C44 {c44:.1f} GPa, B = (C11 + 2 C12)/3 = {(c11 + 2 * c12) / 3:.2f} GPa")

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    fine = np.linspace(volumes.min(), volumes.max(), 200)
    left.plot(fine, energy(fine, lowest, volume_0, modulus, slope) - lowest, "k", lw=1)
    left.plot(volumes, energies - lowest, "C0o")
    left.set(xlabel=r"volume ($\mathrm{\AA}^3$/atom)", ylabel="energy (eV/atom)")
    right.plot(fine, pressure(fine, volume_0, modulus, slope) * GIGAPASCAL, "k", lw=1, label="slope of the fit")
    right.plot(volumes, pressures * BAR, "C0o", label="pressure of LAMMPS")
    right.plot(fine, -(c11 + 2 * c12) / 3 * (fine / volume_0 - 1), "C1", lw=1, ls="--", label="elastic constants")
    right.set(xlabel=r"volume ($\mathrm{\AA}^3$/atom)", ylabel="pressure (GPa)")
    right.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(words.picture, dpi=150)


if __name__ == "__main__":
    main()
