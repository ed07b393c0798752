# SPDX-License-Identifier: MIT
"""Phonon bands and densities of states of rock salt from the dynamical matrices that in.phonons writes.

Needs numpy and matplotlib. The Coulomb field of long waves, which splits longitudinal from transverse optical modes at
Gamma, is no part of a potential with a cutoff.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

# Lines between corners of the Brillouin zone of a face-centered cubic crystal, in units of 2 pi over the lattice constant.
# (1, 1, 0) is another X.
LINES = np.array([[(0, 0, 0), (0, 1, 0)], [(1, 1, 0), (0.75, 0.75, 0)], [(0.75, 0.75, 0), (0, 0, 0)], [(0, 0, 0), (0.5, 0.5, 0.5)]])
CORNERS = ["$\\Gamma$", "X", "K", "$\\Gamma$", "L"]
POINTS = 60  # per piece of the path
MESH = 16  # of the density of states
WIDTH = 0.06  # of its Gaussians, THz


def read_atoms(file):
    lines = Path(file).read_text().splitlines()
    box = np.array([[float(x) for x in line.split()] for line in lines[5:8]])
    table = np.array([[float(x) for x in line.split()] for line in lines[9:]])
    return box[:, 1] - box[:, 0], table[:, 1].astype(int), table[:, 3:6]


class Crystal:
    def __init__(self, file, cells):
        self.length, kinds, self.places = read_atoms(file)
        self.constant = self.length[0] / cells
        # A primitive cell: atom 1 and the nearest of the other element.
        self.first = [0, int(np.argmin(np.where(kinds != kinds[0], np.linalg.norm(self.places - self.places[0], axis=1), 9e9)))]
        self.kinds = kinds
        # Images of atom j about atom i that are nearest, which share the force constant.
        self.nearest = []
        shifts = np.array(np.meshgrid(*3 * [[-1, 0, 1]])).reshape(3, -1).T * self.length
        for i in self.first:
            vectors = self.places[:, None] - self.places[i] + shifts
            distances = np.linalg.norm(vectors, axis=2)
            near = distances < distances.min(1, keepdims=True) + 1e-4
            self.nearest.append((vectors, near / near.sum(1, keepdims=True)))

    def frequencies(self, matrix, q):
        """In THz, of a wave vector in units of 2 pi over the lattice constant; imaginary ones negative."""
        d = np.zeros((6, 6), complex)
        for a, i in enumerate(self.first):
            vectors, weights = self.nearest[a]
            phases = (weights * np.exp(2j * np.pi / self.constant * (vectors @ np.asarray(q)))).sum(1)
            for b, k in enumerate(self.first):
                same = self.kinds == self.kinds[k]
                blocks = matrix[3 * i : 3 * i + 3].reshape(3, -1, 3)[:, same]
                d[3 * a : 3 * a + 3, 3 * b : 3 * b + 3] = np.einsum("xjy,j->xy", blocks, phases[same])
        values = np.linalg.eigvalsh((d + d.conj().T) / 2)
        return np.sign(values) * np.sqrt(np.abs(values)) / (2 * np.pi)


def sum_rule_error(matrix, masses):
    """Largest sum of force constants over the atoms that move, relative to the largest force constant."""
    roots = np.sqrt(np.repeat(masses, 3))
    h = matrix * roots[:, None] * roots
    return np.abs(h.reshape(-1, 3, len(h)).sum(0)).max() / np.abs(h).max()


def main(cells=3):
    crystal = Crystal("atoms.dump", cells)
    num = 3 * len(crystal.places)
    matrices = {name: np.fromfile(f"{name}.dyn").reshape(num, num) for name in ("crystal", "exact", "differences")}
    masses = np.where(crystal.kinds == 1, 22.98976928, 35.453)
    for name, matrix in matrices.items():
        print(f"{name}: acoustic sum rule {sum_rule_error(matrix, masses):.1e}, asymmetry "
              f"{np.abs(matrix - matrix.T).max() / np.abs(matrix).max():.1e}, largest difference to exact "
              f"{np.abs(matrix - matrices['exact']).max() / np.abs(matrix).max():.1e}")  # fmt: skip

    figure, (left, right) = pyplot.subplots(1, 2, sharey=True, width_ratios=[3, 1], figsize=(9, 5))
    styles = {"exact": dict(color="C0", lw=2, label="second derivatives"),
              "differences": dict(color="k", lw=1, ls=(0, (4, 4)), label="differences of forces, 0.01 $\\mathrm{\\AA}$")}  # fmt: skip
    lengths = np.linalg.norm(LINES[:, 1] - LINES[:, 0], axis=1)
    ticks = np.concatenate([[0.0], np.cumsum(lengths)])
    mesh = (np.array(np.meshgrid(*3 * [np.arange(MESH) + 0.5])).reshape(3, -1).T / MESH) @ np.array([[-1, 1, 1], [1, -1, 1], [1, 1, -1]])
    for name, style in styles.items():
        x, bands = [], []
        for k, (a, b) in enumerate(LINES):
            for t in np.linspace(0, 1, POINTS):
                x.append(ticks[k] + t * lengths[k])
                bands.append(crystal.frequencies(matrices[name], a + t * (b - a)))
        lines = left.plot(x, bands, **{**style, "label": None})
        lines[0].set_label(style["label"])
        found = np.concatenate([crystal.frequencies(matrices[name], q) for q in mesh])
        grid = np.linspace(-0.2, found.max() + 0.5, 400)
        density = np.exp(-0.5 * ((grid[:, None] - found) / WIDTH) ** 2).sum(1) / (len(mesh) * WIDTH * np.sqrt(2 * np.pi))
        right.plot(density, grid, **{**style, "label": None})
        acoustic = crystal.frequencies(matrices[name], (0, 0, 0))[:3]
        print(f"{name}: acoustic modes at Gamma {np.abs(acoustic).max():.1e} THz, highest mode {found.max():.4f} THz")
    for t in ticks:
        left.axvline(t, color="0.8", lw=0.8)
    left.set_xticks(ticks, CORNERS)
    left.set_xlim(0, ticks[-1])
    left.set_ylim(bottom=min(0, left.get_ylim()[0]))
    left.set_ylabel("frequency (THz)")
    left.legend(loc="upper right", fontsize=8)
    left.set_title(f"NaCl, SevenNet-0, a = {crystal.constant:.4f} $\\mathrm{{\\AA}}$")
    right.set_xlabel("states per THz and cell")
    figure.tight_layout()
    figure.savefig("phonons.png", dpi=120)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
