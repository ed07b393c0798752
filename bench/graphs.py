# SPDX-License-Identifier: MIT
"""Graphs for kernels.py, of the kind and size of those in the public benchmark of convolutions (README.md)."""

CUTOFFS = {"protein": 6.0, "spike": 3.0, "carbon": 6.0}  # Angstrom


def packed_molecules(count, spacing):
    """Positions of `count` heavy atoms: a ball of benzene molecules in random directions on a cubic lattice."""
    import numpy as np
    from ase.build import molecule

    rng = np.random.default_rng(1)
    benzene = molecule("C6H6")
    del benzene[[atom.symbol == "H" for atom in benzene]]
    number = -(-count // len(benzene))
    side = int(1.3 * number ** (1 / 3)) + 3
    places = np.array(list(np.ndindex(side, side, side))) - (side - 1) / 2
    places = places[np.argsort((places**2).sum(axis=1), kind="stable")[:number]]
    positions = []
    for place in places:
        turned = benzene.copy()
        turned.euler_rotate(*rng.uniform(0, 360, 3), center="COP")
        positions.append(turned.positions - turned.positions.mean(axis=0) + spacing * place)
    return np.concatenate(positions)[:count]


def diamond():
    """Positions of 1000 carbon atoms, moved a little, and the side of their periodic cell."""
    from ase.build import bulk

    atoms = bulk("C", "diamond", 3.567, cubic=True) * (5, 5, 5)
    atoms.rattle(0.05, seed=1)
    atoms.wrap()
    return atoms.positions, atoms.cell[0, 0]


def make_graph(name):
    """(edge_begin [atoms + 1], sender [edges], vector [edges, 3] from the receiver to the sender)."""
    import numpy as np
    from scipy.spatial import cKDTree

    box = None
    if name == "carbon":
        positions, box = diamond()
    else:
        positions = packed_molecules(*{"protein": (1800, 5.17), "spike": (23000, 4.92)}[name])
    tree = cKDTree(positions, boxsize=box)
    pairs = tree.query_pairs(CUTOFFS[name], output_type="ndarray")
    receiver, sender = np.concatenate([pairs, pairs[:, ::-1]]).T
    order = np.lexsort((sender, receiver))
    receiver, sender = receiver[order], sender[order]
    vector = positions[sender] - positions[receiver]
    if box:
        vector -= box * np.round(vector / box)
    return np.searchsorted(receiver, np.arange(len(positions) + 1)), sender, vector


def write_graph(name, file):
    """Writes a file for `bench_kernels --equi_graph`: numbers of atoms and edges as int64, the cutoff as float64, then
    the arrays of make_graph as int64, int32 and float64."""
    import numpy as np

    edge_begin, sender, vector = make_graph(name)
    with open(file, "wb") as stream:
        for numbers, kind in (
            ([len(edge_begin) - 1, len(sender)], np.int64),
            ([CUTOFFS[name]], np.float64),
            (edge_begin, np.int64),
            (sender, np.int32),
            (vector, np.float64),
        ):
            stream.write(np.ascontiguousarray(numbers, kind).tobytes())


def read_graph(file):
    """(cutoff, edge_begin, sender, distance) of such a file."""
    import numpy as np

    with open(file, "rb") as stream:
        atoms, edges = np.fromfile(stream, np.int64, 2)
        cutoff = np.fromfile(stream, np.float64, 1)[0]
        edge_begin = np.fromfile(stream, np.int64, atoms + 1)
        sender = np.fromfile(stream, np.int32, edges)
        vector = np.fromfile(stream, np.float64, 3 * edges).reshape(edges, 3)
    return cutoff, edge_begin, sender, np.linalg.norm(vector, axis=1)
