# SPDX-License-Identifier: MIT
"""Thermal conductivity from the fluxes that in.green_kubo writes: running integrals of their autocorrelations.

Reads columns step, volume (Angstrom^3), temperature (K), and x, y and z of two heat fluxes times volume (eV Angstrom/ps); writes a
picture and prints the mean of the three directions with the standard error of parts of the run. Needs numpy and matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

BOLTZMANN = 8.617333262e-5  # eV/K
WATT = 1602.176634  # of one eV/(ps Angstrom), W/m
FLUXES = {"compute equi/heat/flux": ("C0", slice(3, 6)), "compute heat/flux, centroid stress": ("C1", slice(6, 9))}


def autocorrelation(flux, length):
    """[length, 3] mean of flux(t) flux(t + lag), for lags 0 to length - 1; flux: [samples, 3]."""
    n = len(flux)
    spectrum = np.fft.rfft(flux, 2 * n, axis=0)
    return np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:length] / (n - np.arange(length))[:, None]


def conductivity(flux, length, interval, volume, temperature, window=1):
    """[length - window + 1] running integral in W/(m K), mean of the directions and of `window` upper limits side by side.

    flux: [samples, 3], in eV Angstrom/ps; interval between samples in ps; volume in Angstrom^3, temperature in K.
    """
    mean = autocorrelation(flux, length).mean(1)
    integral = np.concatenate([[0.0], np.cumsum((mean[1:] + mean[:-1]) / 2)]) * interval
    return np.convolve(integral, np.full(window, 1 / window), "valid") * WATT / (volume * BOLTZMANN * temperature**2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flux", default="flux.dat")
    parser.add_argument("--timestep", type=float, default=0.001, help="ps")
    parser.add_argument("--length", type=float, default=8.0, help="longest time between two fluxes, ps")
    parser.add_argument("--window", type=float, default=0.4, help="of a running mean over the swings of optical modes, ps")
    parser.add_argument("--parts", type=int, default=4, help="into which the run is cut for the standard error")
    parser.add_argument("-o", "--picture", default="green_kubo.png")
    words = parser.parse_args()

    if not Path(words.flux).is_file():
        parser.error(f"there is no {words.flux}, which in.green_kubo writes")
    try:
        table = np.loadtxt(words.flux, ndmin=2)
    except ValueError as error:
        parser.error(f"{words.flux} is no table of numbers: {error}")
    # Each part is longer than the running mean.
    least = 2 if len(table) < 2 else words.parts * (int(words.window / ((table[1, 0] - table[0, 0]) * words.timestep)) + 2)
    if len(table) < least:
        parser.error(f"{words.flux} holds {len(table)} rows, and {words.parts} parts need {least}: the run is too short")
    volume, temperature = table[:, 1].mean(), table[:, 2].mean()
    interval = (table[1, 0] - table[0, 0]) * words.timestep
    length = min(int(words.length / interval) + 1, len(table) // words.parts)
    window = min(int(words.window / interval) + 1, length)
    times = (np.arange(length - window + 1) + (window - 1) / 2) * interval
    figure, axes = pyplot.subplots(figsize=(6, 4))
    for name, (color, columns) in FLUXES.items():
        flux = table[:, columns]
        whole = conductivity(flux, length, interval, volume, temperature, window)
        parts = np.array([conductivity(part, length, interval, volume, temperature, window)
                          for part in np.array_split(flux, words.parts)])  # fmt: skip
        error = parts.std(0, ddof=1) / np.sqrt(words.parts)
        axes.plot(np.arange(length) * interval, conductivity(flux, length, interval, volume, temperature), color, lw=0.3)
        axes.plot(times, whole, color, label=name)
        axes.fill_between(times, whole - error, whole + error, color=color, alpha=0.2, lw=0)
        print(f"{name}: {whole[-1]:.2f} +- {error[-1]:.2f} W/(m K) at {temperature:.0f} K, integral to {length * interval:.1f} ps")
    axes.axhline(0, color="k", lw=0.5)
    axes.set(xlabel="upper limit of the integral (ps)", ylabel="thermal conductivity (W/(m K))", xlim=(0, length * interval))
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(words.picture, dpi=150)


if __name__ == "__main__":
    main()
