# SPDX-License-Identifier: MIT
"""Equivariant polynomials of one channel's components: bases of symmetrized couplings with few entries.

A product basis multiplies components of one feature, so only the part of a coupling that is symmetric in its factors
counts. It is written over ascending monomials `(i_1 <= ... <= i_n)` of the components, which are numbered block after
block. All equivariant couplings of degree n split by type, the multiset of blocks from which the factors come. For
each type the space is small, and its reduced row echelon form has few entries.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from .coupling import coupling

# Smaller entries are zeros of the algebra with rounding errors; the others are of order one.
NEGLIGIBLE = 1e-12
# Pivot sets to try for a sparser form.
TRIALS = 40


@dataclass(frozen=True)
class Piece:
    """Basis of one type: `vectors` [size, 2l+1, monomials] over the rows of `monomials` [monomials, degree]."""

    monomials: np.ndarray
    vectors: np.ndarray


def _offsets(irreps):
    return np.cumsum([0] + [2 * l + 1 for l, _ in irreps])


def _coupled(ls, l_out):
    """All couplings of the irreps ls, in this order, to l_out: array [paths, 2 l_out+1, dims...]."""
    states = [(ls[0], np.eye(2 * ls[0] + 1))]
    for n, l in enumerate(ls[1:], 2):
        last = n == len(ls)
        following = []
        for left, tensor in states:
            for l3 in range(abs(left - l), left + l + 1):
                if not last or l3 == l_out:
                    following.append((l3, np.einsum("a...,abc->c...b", tensor, coupling(left, l, l3))))
        states = following
    found = [tensor for l, tensor in states if l == l_out]
    return np.array(found).reshape(len(found), 2 * l_out + 1, *(2 * l + 1 for l in ls))


def monomials_of(indices):
    """(unique ascending rows, position of each row of `indices` [rows, degree] among them)."""
    unique, place = np.unique(np.sort(indices, axis=1), axis=0, return_inverse=True)
    return unique, place.reshape(-1)


def _sum_by(place, count, columns):
    """Sums of the columns [rows, n] that share a place: [count, n]."""
    out = np.zeros((count, columns.shape[1]))
    np.add.at(out, place, columns)
    return out


def _sparse_rows(matrix):
    """Rows with the span of `matrix` [rows, n]: identity on some pivot columns, few entries elsewhere."""
    _, singular, rows = np.linalg.svd(matrix, full_matrices=False)
    rank = int((singular > 1e-9 * max(1.0, singular.max(initial=0.0))).sum())
    rows = rows[:rank]
    if rank == 0:
        return rows
    rng = np.random.default_rng(rank)
    best, best_cost = None, None
    candidates = np.flatnonzero(np.abs(rows).max(axis=0) > 1e-6)
    for trial in range(TRIALS if rank > 1 else 1):
        # Greedy choice of well-conditioned pivots, the first trial in order of size, the others in random order.
        left, pivots = rows.copy(), []
        order = rng.permutation(candidates)
        for _ in range(rank):
            norm = np.sqrt((left**2).sum(axis=0))
            if trial == 0:
                pivot = int(np.argmax(norm))
            else:
                fit = [c for c in order[:200] if norm[c] > 0.3 * norm.max()]
                pivot = int(fit[0]) if fit else int(np.argmax(norm))
            pivots.append(pivot)
            direction = left[:, pivot] / norm[pivot]
            left = left - np.outer(direction, direction @ left)
        form = np.linalg.solve(rows[:, pivots], rows)
        form[np.abs(form) < NEGLIGIBLE] = 0.0
        cost = (np.count_nonzero(form), np.abs(form).max())
        if best is None or cost < best_cost:
            best, best_cost = form, cost
    return best


@lru_cache(maxsize=None)
def symmetric_basis(irreps, out, degree):
    """List of Piece for the polynomials of this degree that transform as `out`, (l, p); irreps is a tuple of (l, p)."""
    offsets = _offsets(irreps)
    pieces = []
    for blocks in combinations_with_replacement(range(len(irreps)), degree):
        parity = np.prod([irreps[b][1] for b in blocks])
        if parity != out[1]:
            continue
        tensors = _coupled([irreps[b][0] for b in blocks], out[0])
        if len(tensors) == 0:
            continue
        dims = tensors.shape[2:]
        grid = np.stack(np.meshgrid(*(np.arange(d) for d in dims), indexing="ij"), -1).reshape(-1, degree)
        monomials, place = monomials_of(grid + offsets[list(blocks)])
        paths = tensors.reshape(len(tensors) * (2 * out[0] + 1), -1).T
        rows = _sum_by(place, len(monomials), paths).T.reshape(len(tensors), -1)
        vectors = _sparse_rows(rows).reshape(-1, 2 * out[0] + 1, len(monomials))
        if len(vectors):
            pieces.append(Piece(monomials, vectors))
    return pieces


def _flat(monomials, dim):
    return np.ravel_multi_index(tuple(monomials.T), (dim,) * monomials.shape[1])


def symmetrize(tensor, degree):
    """Monomials [m, degree] and coefficients [2l+1, m, paths] of a coupling tensor [2l+1, D, ..., D, paths]."""
    components, dim, paths = tensor.shape[0], tensor.shape[1], tensor.shape[-1]
    grid = np.stack(np.unravel_index(np.arange(dim**degree), (dim,) * degree), -1)
    monomials, place = monomials_of(grid)
    flat = tensor.reshape(components, dim**degree, paths)
    return monomials, np.stack([_sum_by(place, len(monomials), flat[m]) for m in range(components)])


def project(tensor, irreps, out, degree):
    """(matrix [size of the basis, paths], largest error): a coupling tensor in terms of symmetric_basis.

    The error is relative to the tensor's largest entry.
    """
    pieces = symmetric_basis(irreps, out, degree)
    monomials, wanted = symmetrize(tensor, degree)
    dim = tensor.shape[1]
    place_of = {key: n for n, key in enumerate(_flat(monomials, dim))}
    matrices, rest = [np.zeros((0, tensor.shape[-1]))], wanted.copy()
    for piece in pieces:
        places = [place_of[key] for key in _flat(piece.monomials, dim)]
        vectors = piece.vectors.reshape(len(piece.vectors), -1)
        target = wanted[:, places].reshape(vectors.shape[1], -1)
        matrix = np.linalg.lstsq(vectors.T, target, rcond=None)[0]
        matrices.append(matrix)
        rest[:, places] -= (vectors.T @ matrix).reshape(wanted.shape[0], len(places), -1)
    return np.concatenate(matrices), float(np.abs(rest).max() / np.abs(tensor).max())


def expand(matrix, irreps, out, degree):
    """The symmetric coupling tensor [2l+1, D, ..., D, paths] of a matrix [size of the basis, paths]: the inverse of
    project."""
    dim = int(_offsets(irreps)[-1])
    grid = np.stack(np.unravel_index(np.arange(dim**degree), (dim,) * degree), -1)
    monomials, place = monomials_of(grid)
    orders = np.bincount(place, minlength=len(monomials))
    place_of = {key: n for n, key in enumerate(_flat(monomials, dim))}
    coefficients = np.zeros((2 * out[0] + 1, len(monomials), matrix.shape[1]))
    begin = 0
    for piece in symmetric_basis(irreps, out, degree):
        part = matrix[begin : begin + len(piece.vectors)]
        begin += len(piece.vectors)
        places = [place_of[key] for key in _flat(piece.monomials, dim)]
        coefficients[:, places] += np.einsum("sMm,sk->Mmk", piece.vectors, part)
    coefficients /= orders[:, None]
    return coefficients[:, place].reshape(2 * out[0] + 1, *(dim,) * degree, matrix.shape[1])


def rows(irreps, out, degree):
    """The basis as rows (M, k, i_1, ..., i_n, coefficient), where k numbers its members over all pieces."""
    found, k = [], 0
    for piece in symmetric_basis(irreps, out, degree):
        for vector in piece.vectors:
            components, places = np.nonzero(vector)
            found.append(
                np.column_stack(
                    [components, np.full(len(places), k), piece.monomials[places], vector[components, places]]
                )
            )
            k += 1
    return np.concatenate(found) if found else np.zeros((0, degree + 3))
