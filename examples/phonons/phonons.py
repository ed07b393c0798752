# SPDX-License-Identifier: MIT
"""Phonon bands and densities of states of a crystal from the dynamical matrices of a supercell.

The matrices are those of equi_dynamical_matrix or dynamical_matrix of LAMMPS with style eskm and binary yes, of all atoms. The
dump has the columns id, type, mass, x, y, z and is sorted by id. The primitive cell is found by the translations that map atoms
onto atoms of the same type and mass.

Needs numpy, matplotlib and ASE, which knows the paths through Brillouin zones. The Coulomb field of long waves, which
splits longitudinal from transverse optical modes at Gamma, is no part of a potential with a cutoff. With the option
--born it comes from a dump of compute equi/born.
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
COULOMB = 14.399645  # e^2/(4 pi eps0), eV Angstrom
NEAR_GAMMA = 1e-6  # 1/Angstrom, for the limit along a band
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
        self.field = None  # of long waves, from set_born_charges()
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

    def set_born_charges(self, born, masses, permittivity=1.0, neutral=True):
        """Adds the field of long waves to later frequencies.

        born: [N,3,3] of the supercell, e, the second index is that of the polarization; masses: [N] g/mol;
        permittivity: of the electrons. Charges of atoms of one class are averaged; neutral: and their mean over the
        cell is removed.
        """
        of_class = np.array([np.mean(np.asarray(born)[atoms], axis=0) for atoms in self.atoms_of_class])
        of_class -= of_class.mean(0) * neutral
        roots = np.sqrt(np.asarray(masses)[self.first])
        factor = 4 * np.pi * COULOMB / (MASS_PER_SQUARED_TIME * permittivity * abs(np.linalg.det(self.primitive)))
        self.field = (of_class / roots[:, None, None], factor)

    def field_of_waves(self, q, phases):
        """The part of the field [classes, 3, classes, 3], shared by all pairs of cells; waves that fit into the supercell
        and are not long have none.

        phases: [classes, N] of the atoms.
        """
        charges, factor = self.field
        length = np.linalg.norm(q)
        if length < NEAR_GAMMA / 2:
            return 0.0
        along = np.einsum("x,axy->ay", np.asarray(q) / length, charges)
        shares = np.array([[phases[a, atoms].mean() for atoms in self.atoms_of_class] for a in range(len(self.first))])
        return factor * np.einsum("ax,by,ab->axby", along, along, shares)

    def frequencies(self, matrix, q):
        """In THz, [3 * atoms of the primitive cell], of a wave vector in 1/Angstrom (with 2 pi); imaginary ones negative.

        matrix: [3N,3N] dynamical matrix of the supercell in 1/ps^2.
        """
        size = len(self.first)
        d = np.zeros((size, 3, size, 3), complex)
        all_phases = np.array([(w * np.exp(1j * (vectors @ np.asarray(q)))).sum(1) for vectors, w in self.nearest])
        for a, (i, phases) in enumerate(zip(self.first, all_phases)):
            rows = matrix[3 * i : 3 * i + 3].reshape(3, -1, 3)
            for b, atoms in enumerate(self.atoms_of_class):
                d[a, :, b] = np.einsum("xjy,j->xy", rows[:, atoms], phases[atoms])
        if self.field is not None:
            d += self.field_of_waves(q, all_phases)
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


def read_born_charges(file):
    """[N,3,3] of a dump with the columns id and those of compute equi/born, sorted by id."""
    lines = Path(file).read_text().splitlines()
    table = np.array([[float(x) for x in line.split()] for line in lines[9:]])
    if table.ndim != 2 or table.shape[1] != 10:
        raise SystemExit(f"{file} needs the columns id c_ID[1] to c_ID[9] of compute equi/born")
    return table[np.argsort(table[:, 0]), 1:].reshape(-1, 3, 3)


def write_phonopy(folder, crystal, masses, matrix, born=None, permittivity=1.0):
    """POSCAR of the supercell, elements by their masses, and FORCE_CONSTANTS of all pairs of atoms in eV/Angstrom^2.

    matrix: [3N,3N] dynamical matrix in 1/ps^2. phonopy takes the supercell for the unit cell and finds the primitive one.
    born: physical Born charges [N,3,3] for a file BORN, of the first atom of each class, or None.
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
    more = ""
    if born is not None:
        # Without symmetries, phonopy expects all atoms of the primitive cell.
        of_class = np.array([born[atoms].mean(0) for atoms in crystal.atoms_of_class])
        of_class -= of_class.mean(0)
        rows = [permittivity * np.eye(3), *of_class]
        lines = [f"{COULOMB:.6f}"] + [" ".join(f"{x:14.8f}" for x in np.ravel(row)) for row in rows]
        (folder / "BORN").write_text("\n".join(lines) + "\n")
        more = ', born_filename="BORN", is_symmetry=False'
    print(f'in {folder}: phonopy.load(unitcell_filename="POSCAR", supercell_matrix=[1, 1, 1], primitive_matrix="auto", '
          f'force_constants_filename="FORCE_CONSTANTS"{more})')  # fmt: skip


def wave_vectors(path):
    """Those of a path in 1/Angstrom (with 2 pi); a point at Gamma moves towards its neighbor on the path."""
    q = 2 * np.pi * path.cartesian_kpts()
    for k in np.flatnonzero(np.linalg.norm(q, axis=1) < NEAR_GAMMA):
        # A corner appears twice, once for each of its lines, so the nearest point that is not Gamma decides.
        others = sorted((j for j in range(len(q)) if np.linalg.norm(q[j]) > NEAR_GAMMA), key=lambda j: (abs(j - k), j > k))
        q[k] = NEAR_GAMMA * q[others[0]] / np.linalg.norm(q[others[0]])
    return q


def draw(crystal, matrices, title, file):
    path = Cell(crystal.primitive).bandpath(npoints=POINTS)
    x, ticks, labels = path.get_linear_kpoint_axis()
    mesh = (np.array(np.meshgrid(*3 * [np.arange(MESH) + 0.5])).reshape(3, -1).T / MESH) @ Cell(crystal.primitive).reciprocal()
    figure, (left, right) = pyplot.subplots(1, 2, sharey=True, width_ratios=[3, 1], figsize=(9, 5))
    for (name, matrix), style in zip(matrices.items(), STYLES):
        bands = [crystal.frequencies(matrix, q) for q in wave_vectors(path)]
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
    parser.add_argument("--born", metavar="DUMP", help="Born charges of compute equi/born, columns id c_ID[1] to c_ID[9]")
    parser.add_argument("--permittivity", type=float, default=1.0, metavar="EPS", help="of the electrons, default: %(default)s")
    parser.add_argument("--latent", action="store_true",
                        help="the charges are those of an Ewald sum, which divides them by the root of the permittivity")  # fmt: skip
    args = parser.parse_args()
    for path in (args.atoms, *args.matrices, *([args.born] if args.born else [])):
        if not Path(path).is_file():
            parser.error(f"there is no {path}; in.phonons writes {parser.get_default('atoms')} and {' '.join(parser.get_default('matrices'))}")

    try:
        cell, types, masses, positions = read_dump(args.atoms)
    except (ValueError, IndexError):
        parser.error(f"{args.atoms} is no dump with the columns id type mass x y z, as in.phonons writes it")
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
    born = None
    if args.born:
        born = read_born_charges(args.born) * (np.sqrt(args.permittivity) if args.latent else 1.0)
        if len(born) != len(types):
            parser.error(f"{args.born} has {len(born)} atoms, and {args.atoms} has {len(types)}")
        print(f"largest component of the sum of Born charges: {np.abs(born.sum(0)).max():.1e} e")
        crystal.set_born_charges(born, masses, args.permittivity)
    if args.phonopy:
        write_phonopy(args.phonopy, crystal, masses, next(iter(matrices.values())), born, args.permittivity)
    draw(crystal, matrices, args.title, args.out)


if __name__ == "__main__":
    main()
