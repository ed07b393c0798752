# SPDX-License-Identifier: MIT
"""torchmd-net's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`.

The oracle uses torchmd-net's Python path, whose constants are as precise as its numbers, with neighbors from ASE.
torchmd-net's own list needs the package warp-lang, and boxes of at least twice the cutoff.
"""

import math
import sys
import types

import numpy as np
from ase.calculators.calculator import all_changes

from ..common.oracle import Oracle, importing, loaded, quiet
from . import checkpoint as torchmd_checkpoint

NEIGHBORS = "torchmdnet.extensions.ops"


def import_torchmdnet():
    """The modules of TensorNet, without the neighbor search that needs warp-lang."""
    placeholder = NEIGHBORS not in sys.modules
    if placeholder:
        sys.modules[NEIGHBORS] = types.ModuleType(NEIGHBORS)
        sys.modules[NEIGHBORS].get_neighbor_pairs_kernel = None
    try:
        with importing("models of torchmd-net need its package: pip install torchmd-net"):
            from torchmdnet.models import model, tensornet, utils

            tensornet.OPT = False  # set before other modules copy it
            from torchmdnet.models import tensornet2  # noqa: F401
    finally:
        if placeholder:
            del sys.modules[NEIGHBORS]
    tensornet.decompose_tensor, tensornet.compose_tensor = tensornet._decompose_tensor, tensornet._compose_tensor
    tensornet.tensor_matmul_o3, tensornet.tensor_matmul_so3 = tensornet._tensor_matmul_o3, tensornet._tensor_matmul_so3
    return model, utils


def load_model(checkpoint):
    """torchmd-net's model, loaded by its own loader."""
    model, _ = import_torchmdnet()
    with quiet():
        options = {"coulomb_cutoff": checkpoint.coulomb_cutoff} if checkpoint.has_coulomb else {}
        if checkpoint.version != "unknown":
            # The loader's own choice does not know files of 2.6.2.
            options["compatibility_load"] = checkpoint.is_channel_first
        loaded = model.load_model(str(checkpoint.path), derivative=False, static_shapes=False, **options)
    for parameter in loaded.parameters():
        parameter.requires_grad = False
    return loaded.eval()


def replicas(atoms, cutoff):
    """A supercell in which no atom is within the cutoff of its own image; torchmd-net could not distinguish the
    two."""
    counts = [1, 1, 1]
    cell = atoms.cell.complete()
    heights = cell.volume / np.linalg.norm([np.cross(cell[k - 2], cell[k - 1]) for k in range(3)], axis=1) if atoms.pbc.any() else None
    for k in np.flatnonzero(atoms.pbc):
        counts[k] = int(math.floor(cutoff / heights[k])) + 1
    return atoms * counts, int(np.prod(counts))


class TorchMDModules(Oracle):
    """torchmd-net's modules in float64, or in float32, on a neighbor list of ASE."""

    implemented_properties = ["energy", "free_energy", "forces", "stress"]

    def __init__(self, checkpoint, dtype):
        super().__init__()
        import torch

        self.elements, self.cutoff, self.checkpoint = checkpoint.elements, checkpoint.cutoff, checkpoint
        self.dtype = getattr(torch, dtype)
        self.model = load_model(checkpoint).to(self.dtype)
        if dtype == "float64":
            _, utils = import_torchmdnet()
            for module in self.model.modules():
                if isinstance(module, utils.ShiftedSoftplus):
                    module.shift = math.log(2.0)  # otherwise rounded to float32
        self.edges = self.far_edges = None
        if checkpoint.has_coulomb and checkpoint.coulomb_cutoff is not None:
            del self.model.output_model.distance
            self.model.output_model.distance = lambda *_, **__: self.far_edges
        del self.model.representation_model.distance
        self.model.representation_model.distance = lambda *_: self.edges

    def sum_over_a_cell(self, copies):
        """TensorNet2 assigns the total charge to the cell of a supercell, and sums over the atoms of a cell."""
        for module in self.model.modules():
            if type(module).__name__ == "ChargePredict":
                module.mol_sum = lambda x, batch: x.sum(dim=0, keepdim=True) / copies

    def energy(self, atoms):
        """(energy of a structure, its positions, a strain), for differentiation."""
        import torch
        from ase.neighborlist import neighbor_list

        tensor = lambda values: torch.tensor(values, dtype=self.dtype)  # noqa: E731
        positions = tensor(atoms.positions).requires_grad_()
        strain = torch.zeros(3, 3, dtype=self.dtype, requires_grad=True)
        deformation = torch.eye(3, dtype=self.dtype) + (strain + strain.T) / 2
        moved = positions @ deformation

        def pairs(cutoff):
            receiver, sender, shift = neighbor_list("ijS", atoms, cutoff)
            return receiver, sender, shift, moved[receiver] - moved[sender] - tensor(shift @ atoms.cell.array) @ deformation

        receiver, sender, _, vectors = pairs(self.cutoff)
        if self.checkpoint.has_coulomb and self.checkpoint.coulomb_cutoff is not None:
            # Each pair counts once.
            i, j, shift, far = pairs(self.checkpoint.coulomb_cutoff)
            signs = np.sign(shift) @ [9, 3, 1]
            once = (i < j) | ((i == j) & (signs > 0))
            self.far_edges = torch.tensor(np.array([i[once], j[once]]), dtype=torch.long), far[once].norm(dim=1), None
        alone = np.arange(len(atoms))
        self.edges = (
            torch.tensor(np.array([np.concatenate([receiver, alone]), np.concatenate([sender, alone])]), dtype=torch.long),
            torch.cat([vectors.norm(dim=1), torch.zeros(len(atoms), dtype=self.dtype)]),
            torch.cat([vectors, torch.zeros(len(atoms), 3, dtype=self.dtype)]),
        )
        energy, _ = self.model(torch.tensor(atoms.numbers), moved, q=tensor([self.checkpoint.charge or 0.0]))
        return energy.sum(), positions, strain

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        atoms = self.atoms
        supercell, copies = replicas(atoms, self.cutoff)
        self.sum_over_a_cell(copies)
        value, positions, strain = self.energy(supercell)
        value.backward()
        self.set_results(value.item() / copies, -positions.grad.numpy()[: len(atoms)], virial=strain.grad.numpy() / copies)


def float64_calculator(source, choice=None):
    """ASE calculator of a source (file or loaded Checkpoint) in float64, in the model's units."""
    return TorchMDModules(loaded(source, torchmd_checkpoint.load), "float64")


def framework_calculator(source, choice=None):
    """The same modules in float32, as users run them."""
    return TorchMDModules(loaded(source, torchmd_checkpoint.load), "float32")
