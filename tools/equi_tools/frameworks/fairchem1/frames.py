# SPDX-License-Identifier: MIT
"""Frames of edges for the modules of EquiformerV2 and eSCN, and the neighbors that fairchem keeps. The frames replace
those that fairchem draws at random and does not differentiate."""

import types

import numpy as np

from .direct import DEGENERACY_TOLERANCE

# Tolerance of the format for components of a unit vector (doc/model_file.rst).
ALMOST = 1e-3


def nearest_neighbors(receivers, squared_distances, count, strictly):
    """Which pairs fairchem keeps if an atom has more than `count` neighbors."""
    kept = np.ones(len(receivers), bool)
    for atom in np.unique(receivers):
        pairs = np.flatnonzero(receivers == atom)
        if len(pairs) <= count:
            continue
        order = pairs[np.argsort(squared_distances[pairs], kind="stable")]
        if strictly:
            kept[order[count:]] = False
        else:
            kept[pairs] = squared_distances[pairs] <= squared_distances[order[count]] + DEGENERACY_TOLERANCE
    return kept


def rotations(vectors):
    """Matrices whose y axes are along vectors. The x axis is near the first coordinate axis along which the vector's
    component is least, within a tolerance. Rounding therefore does not decide between two axes for directions of high
    symmetry."""
    import torch

    n = vectors / vectors.norm(dim=1, keepdim=True)
    parts = n.detach().abs()
    is_least = parts <= parts.min(1, keepdim=True).values + ALMOST
    axis = torch.nn.functional.one_hot((is_least * torch.tensor([3, 2, 1])).argmax(1), 3).to(n.dtype)
    x = axis - (axis * n).sum(1, keepdim=True) * n
    x = x / x.norm(dim=1, keepdim=True)
    return torch.stack([x, n, torch.linalg.cross(x, n)], 1)


class Matrices:
    """Block-diagonal matrices that rotate e3nn's harmonics up to lmax, differentiable: Y(R p) = D Y(p) at some points
    p."""

    def __init__(self, lmax):
        import torch

        points = np.random.default_rng(5).standard_normal((4 * lmax + 4, 3))
        self.lmax, self.points = lmax, torch.tensor(points / np.linalg.norm(points, axis=1)[:, None])
        self.inverses = [torch.linalg.pinv(self.harmonics(l, self.points)) for l in range(lmax + 1)]

    @staticmethod
    def harmonics(l, points):
        from e3nn import o3

        return o3.spherical_harmonics(l, points, normalize=False, normalization="component")

    def __call__(self, turns):
        import torch

        points = torch.einsum("eab,pb->epa", turns.double(), self.points)
        found = torch.zeros(len(turns), (self.lmax + 1) ** 2, (self.lmax + 1) ** 2, dtype=turns.dtype)
        for l, inverse in enumerate(self.inverses):
            rows = slice(l * l, (l + 1) ** 2)
            found[:, rows, rows] = torch.einsum("epm,np->emn", self.harmonics(l, points), inverse).to(turns.dtype)
        return found


def fix_of_equiformer(model, lmax):
    """Gives an EquiformerV2 these frames."""
    matrices = Matrices(lmax)

    def set_wigner(self, turns):
        self.wigner = matrices(turns)
        self.wigner_inv = self.wigner.transpose(1, 2)

    model._init_edge_rot_mat = lambda data, edge_index, vectors: rotations(vectors)
    for rotation in model.SO3_rotation:
        rotation.set_wigner = types.MethodType(set_wigner, rotation)


def fix_of_escn(model, lmax, module):
    """Gives an eSCN, of this module, these frames."""
    import torch

    matrices = Matrices(lmax)

    class Rotation(module.SO3_Rotation):
        def __init__(self, turns, lmax):
            torch.nn.Module.__init__(self)
            self.device, self.dtype, self.wigner = turns.device, turns.dtype, matrices(turns)
            self.wigner_inv = self.wigner.transpose(1, 2)
            self.set_lmax(lmax)

    module.SO3_Rotation = Rotation
    model._init_edge_rot_mat = lambda data, edge_index, vectors: rotations(vectors)
