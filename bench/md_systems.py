# SPDX-License-Identifier: MIT
"""What universal potentials are used for: seventeen systems of molecular dynamics, for bench/step.py --system md-NAME.

They imitate the reference set of the molecular dynamics task of Matbench Discovery (DynaMat 1.0: 17 systems at 293 to 1500 K:
pure metals, alloys, high-entropy alloys, transition-metal dichalcogenides, perovskites, molecular crystals). No file of that
set is used. The systems that its public text names are marked; the others are of the same kinds, and sizes are those
usual for dynamics by density functional theory. All are made by rule from lattice constants.
"""

from dataclasses import dataclass
from functools import partial
from typing import Callable


@dataclass(frozen=True)
class System:
    kind: str
    build: Callable  # atoms of the whole system, without thermal motion
    atoms: int
    temperature: float  # K
    timestep: float = 0.001  # ps
    motion: float = 0.08  # Angstrom, the random displacements of the start
    is_named: bool = False  # whether the set's public text has this system, at this temperature

    def make(self, copies):
        """The system, so many times along each direction."""
        import numpy as np

        atoms = self.build() * (copies, copies, copies)
        atoms.positions += self.motion * np.random.default_rng(1).standard_normal((len(atoms), 3))
        return atoms


def lattice(symbols, places, cell, repeats):
    """A crystal from the fractional places of its atoms."""
    from ase import Atoms

    return Atoms(symbols, scaled_positions=places, cell=cell, pbc=True) * repeats


FCC = ((0, 0, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0))
BCC = ((0, 0, 0), (0.5, 0.5, 0.5))
PEROVSKITE = ((0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0), (0.5, 0, 0.5), (0, 0.5, 0.5))


def cubic(symbols, places, edge, repeats):
    return lattice(symbols, places, [edge] * 3, [repeats] * 3)


def solution(elements, places, edge, repeats):
    """A random solid solution with as many atoms of each element as possible."""
    import numpy as np

    atoms = cubic([elements[0]] * len(places), places, edge, repeats)
    symbols = [elements[n % len(elements)] for n in range(len(atoms))]
    atoms.set_chemical_symbols(np.random.default_rng(3).permutation(symbols).tolist())
    return atoms


def dichalcogenide(metal, other, a, c, height, repeats, is_2h):
    """Layers in trigonal prisms, two a cell (2H), or in octahedra, one a cell (1T). height: of the other element over the
    metal, Angstrom."""
    cell, z = [a, a, c, 90, 90, 120], height / c
    first, second = (1 / 3, 2 / 3), (2 / 3, 1 / 3)
    if not is_2h:
        return lattice([metal, other, other], [(0, 0, 0), (*first, z), (*second, 1 - z)], cell, repeats)
    places = [(*first, 0.25), (*second, 0.75), (*second, 0.25 - z), (*second, 0.25 + z), (*first, 0.75 - z), (*first, 0.75 + z)]
    return lattice([metal] * 2 + [other] * 4, places, cell, repeats)


def acene(rings):
    """Rings of benzene in a row along x, in the plane of x and y, around the origin: (symbols, positions [N, 3])."""
    import numpy as np

    bond, to_hydrogen = 1.40, 1.09
    width = 3**0.5 * bond
    corners = bond * np.array([[np.cos(t), np.sin(t)] for t in np.pi / 6 + np.arange(6) * np.pi / 3])
    carbon = np.concatenate([corners + [width * (n - (rings - 1) / 2), 0] for n in range(rings)])
    carbon = np.unique(np.round(carbon, 6), axis=0)
    distances = np.linalg.norm(carbon[:, None] - carbon[None], axis=2)
    hydrogen = []
    for place, row in zip(carbon, distances):
        bonded = carbon[(row > 0) & (row < 1.1 * bond)]
        if len(bonded) == 2:  # hydrogen completes the third direction
            outward = 2 * place - bonded.sum(axis=0)
            hydrogen.append(place + to_hydrogen * outward / np.linalg.norm(outward))
    flat = np.concatenate([carbon, hydrogen])
    return ["C"] * len(carbon) + ["H"] * len(hydrogen), np.column_stack([flat, np.zeros(len(flat))])


def herringbone(rings, a, b, c, beta, repeats, turn=26.6):
    """A monoclinic crystal of two acenes a cell. Their long axes are along c; their planes are turned by `turn` degrees
    about it, to either side of the plane of a and c."""
    import numpy as np
    from ase import Atoms

    symbols, positions = acene(rings)
    angle = np.radians(beta)
    cell = np.array([[a, 0, 0], [0, b, 0], [c * np.cos(angle), 0, c * np.sin(angle)]])
    along = cell[2] / c
    across = np.cross([0, 1, 0], along)  # in the plane of a and c
    atoms = Atoms(cell=cell, pbc=True)
    for place, sign in ((np.zeros(3), 1), ((cell[0] + cell[1]) / 2, -1)):
        short = np.cos(np.radians(turn)) * across + sign * np.sin(np.radians(turn)) * np.array([0, 1, 0])
        atoms += Atoms(symbols, positions=place + positions[:, :1] * along + positions[:, 1:2] * short)
    return atoms * repeats


METALS, ALLOYS, HIGH_ENTROPY = "metal", "alloy", "high-entropy alloy"
LAYERS, PEROVSKITES, MOLECULES = "dichalcogenide", "perovskite", "molecular crystal"
MD_SYSTEMS = {
    "md-cu": System(METALS, partial(cubic, "Cu4", FCC, 3.615, 3), 108, 1000.0, is_named=True),
    "md-ag": System(METALS, partial(cubic, "Ag4", FCC, 4.086, 3), 108, 600.0, is_named=True),
    "md-al": System(METALS, partial(cubic, "Al4", FCC, 4.050, 3), 108, 600.0),
    "md-w": System(METALS, partial(cubic, "W2", BCC, 3.165, 4), 128, 1500.0),
    "md-cuau": System(ALLOYS, partial(lattice, ["Cu", "Au", "Au", "Cu"], FCC, [3.96, 3.96, 3.67], (3, 3, 3)), 108, 500.0, is_named=True),
    "md-cu3au": System(ALLOYS, partial(cubic, "AuCu3", FCC, 3.75, 3), 108, 500.0),
    "md-nial": System(ALLOYS, partial(cubic, "NiAl", BCC, 2.887, 4), 128, 1000.0),
    "md-crmnfeconi": System(HIGH_ENTROPY, partial(solution, ("Cr", "Mn", "Fe", "Co", "Ni"), FCC, 3.60, 3), 108, 1200.0),
    "md-nbmotaw": System(HIGH_ENTROPY, partial(solution, ("Nb", "Mo", "Ta", "W"), BCC, 3.22, 4), 128, 1500.0),
    "md-tise2": System(LAYERS, partial(dichalcogenide, "Ti", "Se", 3.54, 6.01, 1.55, (4, 4, 2), False), 96, 400.0, is_named=True),
    "md-mos2": System(LAYERS, partial(dichalcogenide, "Mo", "S", 3.16, 12.30, 1.59, (4, 4, 1), True), 96, 300.0),
    "md-wse2": System(LAYERS, partial(dichalcogenide, "W", "Se", 3.28, 12.96, 1.68, (4, 4, 1), True), 96, 300.0),
    "md-cssni3": System(PEROVSKITES, partial(cubic, "CsSnI3", PEROVSKITE, 6.22, 3), 135, 500.0, is_named=True),
    "md-cspbbr3": System(PEROVSKITES, partial(cubic, "CsPbBr3", PEROVSKITE, 5.87, 3), 135, 500.0),
    "md-srtio3": System(PEROVSKITES, partial(cubic, "SrTiO3", PEROVSKITE, 3.905, 3), 135, 300.0),
    "md-naphthalene": System(MOLECULES, partial(herringbone, 2, 8.24, 6.00, 8.66, 122.9, (2, 2, 1)), 144, 293.0, 0.0005, 0.03),
    "md-anthracene": System(
        MOLECULES, partial(herringbone, 3, 8.56, 6.04, 11.16, 124.7, (2, 2, 1)), 192, 293.0, 0.0005, 0.03, is_named=True
    ),
}
