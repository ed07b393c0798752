# SPDX-License-Identifier: MIT
"""The Coulomb energy of latent charges (MACELES models of mace-torch) for training and tests, from the published formulas.

`install()` makes it importable under the name of the library that mace imports. It shares no text with that library, whose
license does not allow commercial use.
"""

import sys
import types

import numpy as np
import torch

PREFACTOR = 180.95128169  # 1/eps0, eV Angstrom


class Les(torch.nn.Module):
    """The energy of charges with a width. les_arguments: `spread` (the width) and `grid` (2 pi over the largest wave number),
    Angstrom."""

    def __init__(self, les_arguments):
        super().__init__()
        self.spread = les_arguments.get("spread", 1.0)
        self.grid = les_arguments.get("grid", 2.0)

    def forward(self, latent_charges, positions, cell, batch, compute_energy=True, compute_bec=False, bec_output_index=None):
        energies = []
        for g in range(int(batch.max()) + 1):
            mine = batch == g
            energies.append(self.energy(latent_charges[mine], positions[mine], cell[g]))
        return {"E_lr": torch.stack(energies), "BEC": None}

    def energy(self, q, r, cell):
        """In eV, of the charges q [N] in e at r [N,3] in a cell [3,3]; over all pairs if the cell is zero."""
        if not torch.any(cell):
            d = r[:, None] - r[None, :] + 1e3 * torch.eye(len(q), dtype=r.dtype)[:, :, None]
            distance = d.norm(dim=2)
            kernel = torch.erf(distance / (np.sqrt(2.0) * self.spread)) / distance * (1 - torch.eye(len(q), dtype=r.dtype))
            return PREFACTOR / (8 * np.pi) * (q @ kernel @ q)
        reach = 2 * np.pi / self.grid
        most = np.floor(reach * np.linalg.norm(cell.detach().numpy(), axis=1) / (2 * np.pi)).astype(int)
        axes = [np.arange(-n, n + 1) for n in most]
        grid = torch.tensor(np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3), dtype=r.dtype)
        k = 2 * np.pi * grid @ torch.linalg.inv(cell).T
        square = k.square().sum(1)
        k = k[(square > 1e-12) & (square < reach**2)]
        square = k.square().sum(1)
        phase = k @ r.T
        factor = (torch.cos(phase) @ q).square() + (torch.sin(phase) @ q).square()
        volume = torch.abs(torch.linalg.det(cell))
        energy = PREFACTOR / (2 * volume) * (torch.exp(-self.spread**2 * square / 2) / square * factor).sum()
        return energy - 0.5 * PREFACTOR / ((2 * np.pi) ** 1.5 * self.spread) * q.square().sum()


Les.__module__ = "les"


def install():
    """Makes `from les import Les` work, and files with this class readable."""
    module = types.ModuleType("les")
    module.Les = Les
    sys.modules["les"] = module
