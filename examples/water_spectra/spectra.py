# SPDX-License-Identifier: MIT
"""Infrared and Raman spectra from the dipoles and polarizabilities that in.spectra writes.

Reads columns step, volume (Angstrom^3), temperature (K), the dipole (e Angstrom; x, y, z) and the polarizability (xx,
yy, zz, xy, xz, yz) of the box; prints the positions of the bands, for the whole run and for its halves, and draws a
picture. Needs numpy and matplotlib.

The motion is classical. Both spectra have the correction for harmonic oscillators, x / (1 - exp(-x)) with
x = hbar w / kT. With it the absorption, refractive index times absorption coefficient, is

    n(w) a(w) = 1 / (6 eps0 c V kT) * integral of <dM/dt(0) . dM/dt(t)> exp(-i w t) dt

and Raman intensities are w / (1 - exp(-x)) * integral of <A(0) A(t)> exp(-i w t) dt. A is the isotropic part of the polarizability;
with its anisotropic part B, VH is that of <Tr B(0) B(t)> / 10, and VV = isotropic + 4/3 VH. The fourth power of the frequency of
the scattered light is left out.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

LIGHT = 2.99792458e-2  # cm/ps
BOLTZMANN = 8.617333262e-5  # eV/K
PLANCK = 6.582119569e-4  # h/2pi, eV ps
VACUUM = 5.526349406e-3  # permittivity, e/(V Angstrom)
BANDS = {"libration": (300, 1100), "bend": (1450, 1850), "stretch": (2800, 4200)}  # 1/cm
PARTS = {"VV": "C3", "VH": "C1"}
# A band's position is the mean frequency of what is above this part of its maximum, which noise moves less than the maximum.
TOP = 0.8
LEAST_PARTS = 4  # windows that a run must have


def power(series, interval, window):
    """[numbers] integral of <x'(0) x'(t)> exp(-i w t) dt, summed over the columns of x, for the frequencies of `axis`.

    series: [samples, columns]; x' is the derivative by time. The autocorrelation ends after `window` samples, where a cosine
    takes it to zero.
    """
    rate = np.diff(series, axis=0) / interval
    n = len(rate)
    transform = np.fft.rfft(rate, 2 * n, axis=0)
    correlation = np.fft.irfft((np.abs(transform) ** 2).sum(1))[:window] / (n - np.arange(window))
    correlation *= (1 + np.cos(np.pi * np.arange(window) / window)) / 2
    found = interval * (2 * np.fft.rfft(correlation, 8 * window).real - correlation[0])
    # The difference of two samples is the derivative times sin(w interval / 2) / (w interval / 2).
    return found / np.sinc(axis(interval, window) * LIGHT * interval) ** 2


def axis(interval, window):
    """Frequencies in 1/cm."""
    return np.fft.rfftfreq(8 * window, interval) / LIGHT


def spectra(table, interval, window):
    """Frequencies in 1/cm, n(w) a(w) in 1/cm, and the Raman parts VV and VH in common units."""
    volume, temperature = table[:, 1].mean(), table[:, 2].mean()
    frequency = axis(interval, window)[1:]
    unit = 6 * VACUUM * volume * BOLTZMANN * temperature * LIGHT  # of ps/(e Angstrom)^2 in cm
    absorption = power(table[:, 3:6], interval, window)[1:] / unit
    xx, yy, zz, xy, xz, yz = table[:, 6:12].T
    mean = (xx + yy + zz) / 3
    parts = [xx - mean, yy - mean, zz - mean] + [np.sqrt(2) * one for one in (xy, xz, yz)]
    w = 2 * np.pi * LIGHT * frequency  # 1/ps
    # The integrals of `power` are those of derivatives, which have a factor of w^2 more.
    bose = 1 / (w * (1 - np.exp(-PLANCK * w / (BOLTZMANN * temperature))))
    isotropic = power(mean[:, None], interval, window)[1:] * bose
    vh = power(np.transpose(parts), interval, window)[1:] * bose / 10
    return frequency, {"infrared": absorption, "VV": isotropic + 4 / 3 * vh, "VH": vh}


def position(frequency, spectrum, band):
    """Where the top of the band is, 1/cm."""
    inside = (frequency > band[0]) & (frequency < band[1])
    f, s = frequency[inside], spectrum[inside]
    top = np.where(s > TOP * s.max(), s, 0.0)
    return (f * top).sum() / top.sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="spectra.dat")
    parser.add_argument("--timestep", type=float, default=0.0005, help="ps (default: %(default)s)")
    parser.add_argument("--window", type=float, default=0.4, help="longest time of the autocorrelation, ps; bands are at least "
                        "1/window wide (default: %(default)s)")  # fmt: skip
    parser.add_argument("-o", "--picture", default="spectra.png")
    words = parser.parse_args()

    if not Path(words.data).is_file():
        parser.error(f"there is no {words.data}, which in.spectra writes")
    try:
        table = np.loadtxt(words.data, ndmin=2)
    except ValueError as error:
        parser.error(f"{words.data} is no table of numbers: {error}")
    if len(table) < 2 or table.shape[1] != 12:
        parser.error(f"{words.data} has not two rows of 12 numbers, which in.spectra writes: the run is too short")
    interval = (table[1, 0] - table[0, 0]) * words.timestep
    window = int(words.window / interval)
    if len(table) < 2 * LEAST_PARTS * window:
        parser.error(f"{words.data} has {len(table)} rows, and needs {2 * LEAST_PARTS * window}: the run is too short")

    frequency, found = spectra(table, interval, window)
    halves = [spectra(half, interval, window)[1] for half in np.array_split(table, 2)]
    print(f"{len(table) * interval:.1f} ps at {table[:, 2].mean():.0f} K, bands in 1/cm (halves of the run):")
    for name, spectrum in found.items():
        text = []
        for label, band in BANDS.items():
            parts = ", ".join(f"{position(frequency, half[name], band):.0f}" for half in halves)
            if label == "libration" and name != "infrared":
                continue  # a shoulder of the slow motions
            text.append(f"{label} {position(frequency, spectrum, band):.0f} ({parts})")
        print(f"{name}: {', '.join(text)}")

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    left.plot(frequency, found["infrared"] / 1000, "C0")
    left.set(title="infrared", ylabel=r"$n(\omega)\,\alpha(\omega)$ ($10^3$ cm$^{-1}$)")
    highest = max(found["VV"][frequency > BANDS["stretch"][0]])
    for name, color in PARTS.items():
        right.plot(frequency, found[name] / highest, color, label=name)
    right.set(title="Raman", ylabel="intensity", ylim=(0, 1.1))
    right.legend(frameon=False)
    for axes in (left, right):
        axes.set(xlabel=r"wave number (cm$^{-1}$)", xlim=(0, 4200))
    left.set_ylim(0, None)
    figure.tight_layout()
    figure.savefig(words.picture, dpi=150)


if __name__ == "__main__":
    main()
