# SPDX-License-Identifier: MIT
"""eqnorm's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import argparse
import importlib

import numpy as np
from ase.calculators.calculator import all_changes
from ase.neighborlist import neighbor_list

from ..common.oracle import Oracle, default_dtype, importing, importing_scatter, loaded, quiet
from . import checkpoint as eqnorm_checkpoint

NEED = "eqnorm models need the package eqnorm: pip install --no-deps eqnorm, and e3nn"
# Settings that a module of eqnorm needs besides those of a checkpoint.
OF_MODULES = {"shift_trainable": False, "scale_trainable": False, "STRESS": True, "DIPOLE": False, "POLAR": False, "grad_mode": "edge"}


def import_module(variant):
    """The module of a model of eqnorm."""
    with importing(NEED), importing_scatter():
        return importlib.import_module(f"eqnorm.{variant}")


class EqnormModules(Oracle):
    """eqnorm's layers with the numbers of a checkpoint, on edges of ASE: those of the package are of periodic structures only."""

    def __init__(self, checkpoint, dtype):
        super().__init__()
        import torch

        self.elements = checkpoint.elements
        self.cutoff = checkpoint.cutoff
        self.dtype = getattr(torch, dtype)
        variant = next(name for name, times_cutoff in eqnorm_checkpoint.VARIANTS.items() if times_cutoff == checkpoint.times_cutoff)
        settings = argparse.Namespace(**checkpoint.settings | OF_MODULES)
        scales, shifts = (torch.tensor(array[:, None]).to(self.dtype) for array in (checkpoint.scales, checkpoint.shifts))
        with default_dtype(self.dtype), quiet():
            self.model = import_module(variant).HDNNP(settings, torch.arange(len(self.elements)), shifts, scales)
        state = self.model.state_dict()
        for name, array in checkpoint.state.source.items():
            # Couplings are those that e3nn makes in this precision.
            if "._w3j_" not in name:
                state[eqnorm_checkpoint.PREFIX + name] = torch.tensor(np.asarray(array))
        self.model.load_state_dict(state)
        self.model.eval()
        for parameter in self.model.parameters():
            parameter.requires_grad = False

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        import torch

        i, j, vectors = neighbor_list("ijD", self.atoms, self.cutoff)
        species = torch.tensor([self.elements.index(symbol) for symbol in self.atoms.get_chemical_symbols()])
        edge_vec = torch.tensor(vectors, dtype=self.dtype, requires_grad=True)
        data = {"atomic_numbers": species, "edge_index": torch.tensor(np.array([i, j])), "edge_vec": edge_vec}
        layers = self.model.e3nn_layer
        # The package's encoding of species is float32 in any precision.
        encode = layers.embedding.linear.register_forward_pre_hook(lambda module, inputs: (inputs[0].to(self.dtype),))
        with default_dtype(self.dtype):
            energies = layers(data)
        encode.remove()
        energies = (energies * self.model.scale[species] + self.model.shift[species])[:, 0]
        (slopes,) = torch.autograd.grad(energies.sum(), edge_vec)
        self.set_results_of_edges(energies.detach().double().numpy(), slopes.double().numpy(), i, j, vectors)


def float64_calculator(source, choice=None):
    """ASE calculator of a source (file or loaded Checkpoint) in float64."""
    return EqnormModules(loaded(source, eqnorm_checkpoint.load), "float64")


def framework_calculator(source, choice=None):
    """The same layers in float32, as users run them; the package's calculator reads no file but its own."""
    return EqnormModules(loaded(source, eqnorm_checkpoint.load), "float32")
