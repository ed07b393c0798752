# SPDX-License-Identifier: MIT
"""Diffusion of lithium and its activation energy from the positions that in.diffusion writes.

Reads positions_TEMPERATURE.dump; prints the diffusion coefficients with standard errors from parts of each run, the activation energy
and the conductivity that both give at 300 K after Nernst and Einstein; draws a picture. Needs numpy and matplotlib.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

BOLTZMANN = 8.617333262e-5  # eV/K
CM2_PER_S = 1e-4  # of one Angstrom^2/ps
# (elementary charge)^2/(Boltzmann's constant Angstrom^3 K) times one cm^2/s, in S/cm.
SIEMENS = 1.602176634e-19**2 / 1.380649e-23 * 1e24
LITHIUM = 1  # the type
LEAST_FRAMES = 6  # of a part


def read_dump(path):
    """(steps, types, positions [frames, atoms, 3], volume) of a dump that is sorted by id, of an orthogonal box."""
    lines = path.read_text().splitlines()
    atoms = int(lines[3])
    frames = [lines[k : k + atoms + 9] for k in range(0, len(lines) - atoms - 8, atoms + 9)]  # whole ones
    steps = np.array([int(frame[1]) for frame in frames])
    edges = np.array([line.split() for line in frames[0][5:8]], float)
    numbers = np.array([[line.split() for line in frame[9:]] for frame in frames], float)
    return steps, numbers[0, :, 1].astype(int), numbers[:, :, 2:], np.prod(edges[:, 1] - edges[:, 0])


def displacements(positions, types):
    """Positions of lithium with respect to the mean of all other atoms."""
    is_lithium = types == LITHIUM
    return positions[:, is_lithium] - positions[:, ~is_lithium].mean(1, keepdims=True)


def mean_square(positions, length):
    """[length + 1] of the displacements in 0 to `length` frames, over all begins and ions."""
    return np.array([((positions[lag:] - positions[: len(positions) - lag]) ** 2).sum(2).mean() for lag in range(length + 1)])


def diffusion(square, interval):
    """From the slope over the last three quarters of the times, Angstrom^2/ps."""
    last = len(square) - 1
    first = last // 4
    return (square[last] - square[first]) / (6 * (last - first) * interval)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--timestep", type=float, default=0.002, help="ps")
    parser.add_argument("--length", type=float, default=2.0, help="longest time of a displacement, ps")
    parser.add_argument("--parts", type=int, default=4, help="into which a run is cut for the standard error")
    parser.add_argument("-o", "--picture", default="arrhenius.png")
    words = parser.parse_args()

    paths = {float(path.stem.split("_")[1]): path for path in words.folder.glob("positions_*.dump")}
    if len(paths) < 2:
        parser.error(f"{words.folder} holds {len(paths)} files positions_TEMPERATURE.dump; in.diffusion writes one for each temperature")
    temperatures = np.array(sorted(paths))
    coefficients, errors = [], []
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    for k, temperature in enumerate(temperatures):
        try:
            steps, types, positions, volume = read_dump(paths[temperature])
        except (ValueError, IndexError):
            parser.error(f"{paths[temperature]} has no whole frame of a dump: the run is too short, or the file is another one")
        if len(steps) < LEAST_FRAMES * words.parts:
            parser.error(f"{paths[temperature]} holds {len(steps)} frames, and {words.parts} parts need {LEAST_FRAMES * words.parts}: "
                         "the run is too short")  # fmt: skip
        interval = (steps[1] - steps[0]) * words.timestep
        ions = displacements(positions, types)
        length = min(int(words.length / interval), len(ions) // words.parts - 1)
        parts = [diffusion(mean_square(part, length), interval) for part in np.array_split(ions, words.parts)]
        square = mean_square(ions, length)
        coefficients.append(CM2_PER_S * diffusion(square, interval))
        errors.append(CM2_PER_S * np.std(parts, ddof=1) / words.parts**0.5)
        left.plot(np.arange(length + 1) * interval, square, f"C{k}", label=f"{temperature:.0f} K")
        print(f"{temperature:.0f} K: D = ({1e5 * coefficients[-1]:.2f} +- {1e5 * errors[-1]:.2f}) 1e-5 cm^2/s "
              f"over {(steps[-1] - steps[0]) * words.timestep:.0f} ps")  # fmt: skip
    coefficients, errors = np.array(coefficients), np.array(errors)

    # ln D = ln D0 - E/(k T), each point with its own error.
    inverse = 1 / (BOLTZMANN * temperatures)
    (slope, offset), covariance = np.polyfit(inverse, np.log(coefficients), 1, w=coefficients / errors, cov="unscaled")
    at_room = np.array([1 / (BOLTZMANN * 300), 1.0])
    logarithm, spread = np.array([slope, offset]) @ at_room, (at_room @ covariance @ at_room) ** 0.5
    conductivity = SIEMENS * (types == LITHIUM).sum() / volume / 300 * np.exp(logarithm)
    print(f"activation energy {-slope:.3f} +- {covariance[0, 0] ** 0.5:.3f} eV; 300 K: D = {np.exp(logarithm):.1e} cm^2/s, "
          f"conductivity {1000 * conductivity:.1f} mS/cm, within a factor of {np.exp(spread):.1f}")  # fmt: skip

    left.set(xlabel="time (ps)", ylabel=r"mean square displacement of Li ($\mathrm{\AA}^2$)", xlim=(0, None), ylim=(0, None))
    left.legend(frameon=False)
    fine = np.linspace(inverse.min(), inverse.max(), 2)
    right.errorbar(BOLTZMANN * inverse * 1000, coefficients, errors, fmt="C0o", capsize=2)
    right.plot(BOLTZMANN * fine * 1000, np.exp(slope * fine + offset), "k", lw=1, label=f"{-slope:.2f} eV")
    right.set(xlabel=r"1000 K/temperature", ylabel=r"diffusion coefficient (cm$^2$/s)", yscale="log")
    right.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(words.picture, dpi=150)


if __name__ == "__main__":
    main()
