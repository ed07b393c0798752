# SPDX-License-Identifier: MIT
"""Phonon bands and densities of states of a crystal from the dynamical matrices of a supercell.

The matrices are those of equi_dynamical_matrix or dynamical_matrix of LAMMPS with style eskm and binary yes, of all atoms. The
dump has the columns id, type, mass, x, y, z and is sorted by id. The primitive cell is found by the translations that map atoms
onto atoms of the same type and mass.

Needs numpy, matplotlib and ASE, which knows the paths through Brillouin zones. The Coulomb field of long waves, which splits
longitudinal from transverse optical modes at Gamma, is no part of a potential with a cutoff.
"""

import argparse
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
from ase import Atoms
from ase.cell import Cell
from ase.data import atomic_masses_iupac2016
from ase.io import write

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

POINTS = 200  # of the path
MESH = 16  # of the density of states, per direction
WIDTH = 0.06  # of its Gaussians, THz
SAME_PLACE = 1e-3  # Angstrom
MASS_PER_SQUARED_TIME = 1.0364269656e-4  # of one g/(mol ps^2), eV/Angstrom^2
SHIFTS = np.array(np.meshgrid(*3 * [[-1, 0, 1]])).reshape(3, -1).T
STYLES = [{"color": "C0", "lw": 2}, {"color": "k", "lw": 1, "ls": (0, (4, 4))}, {"color": "C1", "lw": 1, "ls": ":"}]


def read_dump(file):
    """(cell [3,3], types, masses, positions) of the only frame."""
    lines = Path(file).read_text().splitlines()
    bounds = np.array([[float(x) for x in line.split()] for line in lines[5:8]])
    xy, xz, yz = bounds[:, 2] if bounds.shape[1] > 2 else (0.0, 0.0, 0.0)
    # The bounds of a triclinic box are those of the smallest orthogonal box around it.
    low = bounds[:, 0] - [min(0, xy, xz, xy + xz), min(0, yz), 0]
    high = bounds[:, 1] - [max(0, xy, xz, xy + xz), max(0, yz), 0]
    table = np.array([[float(x) for x in line.split()] for line in lines[9:]])
    return np.diag(high - low) + [[0, 0, 0], [xy, 0, 0], [xz, yz, 0]], table[:, 1].astype(int), table[:, 2], table[:, 3:6]


class Crystal:
    """A supercell of a crystal, whose atoms lie where the crystal's translations put them.

    cell: [3,3], rows are its vectors, Angstrom; kinds: a number for each atom, equal for atoms that a translation may exchange.
    """

    def __init__(self, cell, kinds, positions):
        self.cell, self.kinds, self.positions = np.asarray(cell), np.asarray(kinds), np.asarray(positions)
        translations = self.translations()
        self.primitive = self.shortest_basis(translations)
        # Atoms of one class are translations of its first one.
        self.first, self.atoms_of_class = [], []
        left = set(range(len(self.kinds)))
        while left:
            i = min(left)
            self.first.append(i)
            self.atoms_of_class.append(sorted({self.atom_at(self.positions[i] + t) for t in translations}))
            left -= set(self.atoms_of_class[-1])
        # The images of each atom that are nearest to the first atom of a class share the force constant.
        self.nearest = []
        for i in self.first:
            vectors = self.wrapped(self.positions - self.positions[i])[:, None] + SHIFTS @ self.cell
            distances = np.linalg.norm(vectors, axis=2)
            near = distances < distances.min(1, keepdims=True) + SAME_PLACE
            self.nearest.append((vectors, near / near.sum(1, keepdims=True)))

    def wrapped(self, vectors):
        fractions = np.linalg.solve(self.cell.T, np.asarray(vectors).T).T
        return (fractions - np.round(fractions)) @ self.cell

    def atom_at(self, position):
        """The atom at this place or at an image of it, None if there is none."""
        distances = np.linalg.norm(self.wrapped(self.positions - position), axis=1)
        return int(distances.argmin()) if distances.min() < SAME_PLACE else None

    def translations(self):
        """Those that map each atom onto one of its kind, each once, without those of the supercell."""
        found = []
        for j in np.flatnonzero(self.kinds == self.kinds[0]):
            t = self.positions[j] - self.positions[0]
            images = [self.atom_at(position + t) for position in self.positions]
            if None not in images and (self.kinds[images] == self.kinds).all():
                found.append(t)
        return np.array(found)

    def shortest_basis(self, translations):
        """Three short vectors [3,3] that span the primitive cell, right-handed."""
        volume = abs(np.linalg.det(self.cell)) / len(translations)
        vectors = (self.wrapped(translations)[:, None] + SHIFTS @ self.cell).reshape(-1, 3)
        lengths = np.linalg.norm(vectors, axis=1)
        shortest = vectors[np.argsort(lengths, kind="stable")][(np.sort(lengths) > SAME_PLACE)]
        for count in range(3, len(shortest) + 1):  # the last of them is the longest of the three
            for pair in combinations(range(count - 1), 2):
                basis = shortest[[*pair, count - 1]]
                if abs(abs(np.linalg.det(basis)) - volume) < 1e-3 * volume:
                    return basis * np.sign(np.linalg.det(basis))
        raise ValueError("no primitive cell was found")

    def frequencies(self, matrix, q):
        """In THz, [3 * atoms of the primitive cell], of a wave vector in 1/Angstrom (with 2 pi); imaginary ones negative.

        matrix: [3N,3N] dynamical matrix of the supercell in 1/ps^2.
        """
        size = len(self.first)
        d = np.zeros((size, 3, size, 3), complex)
        for a, i in enumerate(self.first):
            vectors, weights = self.nearest[a]
            phases = (weights * np.exp(1j * (vectors @ np.asarray(q)))).sum(1)
            rows = matrix[3 * i : 3 * i + 3].reshape(3, -1, 3)
            for b, atoms in enumerate(self.atoms_of_class):
                d[a, :, b] = np.einsum("xjy,j->xy", rows[:, atoms], phases[atoms])
        d = d.reshape(3 * size, 3 * size)
        values = np.linalg.eigvalsh((d + d.conj().T) / 2)
        return np.sign(values) * np.sqrt(np.abs(values)) / (2 * np.pi)


def sum_rule_error(matrix, masses):
    """Largest sum of force constants over the atoms that move, relative to the largest force constant."""
    roots = np.sqrt(np.repeat(masses, 3))
    h = matrix * roots[:, None] * roots
    return np.abs(h.reshape(-1, 3, len(h)).sum(0)).max() / np.abs(h).max()


def print_quality(matrices, masses):
    reference_name, reference = next(iter(matrices.items()))
    for name, matrix in matrices.items():
        largest = np.abs(matrix).max()
        print(f"{name}: acoustic sum rule {sum_rule_error(matrix, masses):.1e}, asymmetry "
              f"{np.abs(matrix - matrix.T).max() / largest:.1e}, largest difference to {reference_name} "
              f"{np.abs(matrix - reference).max() / largest:.1e}")  # fmt: skip


def write_phonopy(folder, crystal, masses, matrix):
    """POSCAR of the supercell, elements by their masses, and FORCE_CONSTANTS of all pairs of atoms in eV/Angstrom^2.

    matrix: [3N,3N] dynamical matrix in 1/ps^2. phonopy takes the supercell for the unit cell and finds the primitive one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    elements = [int(np.abs(atomic_masses_iupac2016 - mass).argmin()) for mass in masses]
    atoms = Atoms(elements, cell=crystal.cell, positions=crystal.positions, pbc=True)
    write(folder / "POSCAR", atoms, format="vasp", direct=True)
    n = len(masses)
    roots = np.sqrt(np.repeat(masses, 3))
    constants = (matrix + matrix.T) / 2 * roots[:, None] * roots * MASS_PER_SQUARED_TIME
    with open(folder / "FORCE_CONSTANTS", "w") as file:
        file.write(f"{n} {n}\n")
        for i in range(n):
            for j in range(n):
                block = constants[3 * i : 3 * i + 3, 3 * j : 3 * j + 3]
                file.write(f"{i + 1} {j + 1}\n" + "".join("%22.15f%22.15f%22.15f\n" % tuple(row) for row in block))
    print(f'in {folder}: phonopy.load(unitcell_filename="POSCAR", supercell_matrix=[1, 1, 1], primitive_matrix="auto", '
          'force_constants_filename="FORCE_CONSTANTS")')  # fmt: skip


def draw(crystal, matrices, title, file):
    path = Cell(crystal.primitive).bandpath(npoints=POINTS)
    x, ticks, labels = path.get_linear_kpoint_axis()
    mesh = (np.array(np.meshgrid(*3 * [np.arange(MESH) + 0.5])).reshape(3, -1).T / MESH) @ Cell(crystal.primitive).reciprocal()
    figure, (left, right) = pyplot.subplots(1, 2, sharey=True, width_ratios=[3, 1], figsize=(9, 5))
    for (name, matrix), style in zip(matrices.items(), STYLES):
        bands = [crystal.frequencies(matrix, 2 * np.pi * q) for q in path.cartesian_kpts()]
        lines = left.plot(x, bands, **style)
        lines[0].set_label(name)
        found = np.concatenate([crystal.frequencies(matrix, 2 * np.pi * q) for q in mesh])
        grid = np.linspace(found.min() - 0.5, found.max() + 0.5, 400)
        density = np.exp(-0.5 * ((grid[:, None] - found) / WIDTH) ** 2).sum(1) / (len(mesh) * WIDTH * np.sqrt(2 * np.pi))
        right.plot(density, grid, **style)
        acoustic = np.sort(np.abs(crystal.frequencies(matrix, (0, 0, 0))))[:3]
        print(f"{name}: acoustic modes at Gamma {acoustic.max():.1e} THz, highest mode {found.max():.4f} THz")
    for t in ticks:
        left.axvline(t, color="0.8", lw=0.8)
    left.set_xticks(ticks, [label.replace("G", "$\\Gamma$") for label in labels])
    left.set_xlim(0, ticks[-1])
    left.set_ylim(bottom=min(0, left.get_ylim()[0]))
    left.set_ylabel("frequency (THz)")
    left.legend(loc="upper right", fontsize=8)
    left.set_title(title)
    right.set_xlabel("states per THz and cell")
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("matrices", nargs="*", default=["exact.dyn", "crystal.dyn", "differences.dyn"], metavar="FILE.dyn",
                        help="the first is the reference for differences (default: those of in.phonons)")  # fmt: skip
    parser.add_argument("--atoms", default="atoms.dump", metavar="DUMP", help="default: %(default)s")
    parser.add_argument("--title", default="", help="of the picture")
    parser.add_argument("--out", default="phonons.png", metavar="FILE", help="default: %(default)s")
    parser.add_argument("--phonopy", type=Path, metavar="FOLDER", help="write the first matrix there for phonopy")
    args = parser.parse_args()
    for path in (args.atoms, *args.matrices):
        if not Path(path).is_file():
            parser.error(f"there is no {path}; in.phonons writes {parser.get_default('atoms')} and {' '.join(parser.get_default('matrices'))}")

    cell, types, masses, positions = read_dump(args.atoms)
    kinds = np.unique(np.column_stack([types, masses]), axis=0, return_inverse=True)[1].ravel()
    crystal = Crystal(cell, kinds, positions)
    print(f"{len(types)} atoms, {len(crystal.first)} of the primitive cell with the vectors (Angstrom)")
    print("\n".join("  " + " ".join(f"{x:9.5f}" for x in vector) for vector in crystal.primitive))
    size = 3 * len(types)
    for path in args.matrices:
        if Path(path).stat().st_size != 8 * size**2:
            parser.error(f"{path} is no matrix of the {len(types)} atoms of {args.atoms}: the run has not ended, or was of other atoms")
    matrices = {Path(file).stem: np.fromfile(file).reshape(size, size) for file in args.matrices}
    print_quality(matrices, masses)
    if args.phonopy:
        write_phonopy(args.phonopy, crystal, masses, next(iter(matrices.values())))
    draw(crystal, matrices, args.title, args.out)


if __name__ == "__main__":
    main()
