# SPDX-License-Identifier: MIT
"""An ASE calculator of energies that are functions of the vectors of edges, in float64 with Torch's autograd."""

import torch
from ase.calculators.calculator import Calculator, all_changes
from equi_evaluator import neighbors


class EdgeCalculator(Calculator):
    """`cutoff` and energy(numbers, i, j, vectors), energies of atoms; i: receivers, j: senders, vectors from receivers to senders."""

    implemented_properties = ["energy", "forces", "stress"]

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        atoms = self.atoms
        cell = atoms.cell.complete().array if atoms.pbc.any() else None
        i, j, shift = neighbors(atoms.positions, cell, atoms.pbc, self.cutoff)
        i, j = torch.tensor(i, dtype=torch.long), torch.tensor(j, dtype=torch.long)
        r = torch.tensor(atoms.positions)
        vectors = (r[j] - r[i] + torch.tensor(shift).reshape(-1, 3)).requires_grad_(True)
        energies = self.energy(torch.tensor(atoms.numbers), i, j, vectors)
        (g,) = torch.autograd.grad(energies.sum(), vectors)
        forces = torch.zeros_like(r).index_add(0, i, g).index_add(0, j, -g)
        self.results = {"energy": energies.sum().item(), "forces": forces.numpy()}
        if atoms.cell.volume > 1e-3:
            virial = torch.einsum("ea,eb->ab", vectors.detach(), g) / atoms.cell.volume
            self.results["stress"] = ((virial + virial.T) / 2).numpy()[[0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]
