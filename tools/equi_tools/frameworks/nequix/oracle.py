# SPDX-License-Identifier: MIT
"""Nequix's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import numpy as np
from ase.calculators.calculator import all_changes
from ase.neighborlist import neighbor_list

from ..common.jax_numbers import capacity, float64, prepare_jax
from ..common.oracle import Oracle, default_dtype, importing, loaded, quiet
from . import checkpoint as nequix_checkpoint

NEED = "Nequix models need the package nequix: pip install nequix"


class NequixModules(Oracle):
    """The back end that wrote the file in float64, on edges of ASE: those of the package have no images unless all directions are
    periodic."""

    def __init__(self, checkpoint):
        super().__init__()
        self.elements = checkpoint.elements
        self.cutoff = checkpoint.cutoff
        self.evaluate = (_of_jax if checkpoint.backend == "jax" else _of_torch)(checkpoint)

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        i, j, vectors = neighbor_list("ijD", self.atoms, self.cutoff)
        species = np.array([self.elements.index(symbol) for symbol in self.atoms.get_chemical_symbols()])
        energies, slopes = self.evaluate(vectors, species, j, i)
        self.set_results_of_edges(energies, slopes, i, j, vectors)


def _of_jax(checkpoint):
    """A function (vectors, species, senders, receivers) -> (energies of atoms, derivatives by the vectors)."""
    prepare_jax()
    with importing(NEED):
        import equinox
        import jax

        from nequix.model import load_model
    with float64(False):
        model, _ = load_model(str(checkpoint.path))
    with float64(True):
        model = jax.tree.map(lambda leaf: leaf.astype(float) if equinox.is_inexact_array(leaf) else leaf, model)

    @jax.jit
    def evaluate(vectors, species, senders, receivers, is_atom):
        def energy(vectors):
            energies = model.node_energies(vectors, species, senders, receivers)[:, 0]
            return (energies * is_atom).sum(), energies

        return jax.grad(energy, has_aux=True)(vectors)

    def padded(vectors, species, senders, receivers):
        """With edges beyond the cutoff at an atom that is not there."""
        atoms, edges = len(species), len(senders)
        more_atoms, more_edges = capacity(atoms + 1) - atoms, capacity(edges) - edges
        far = np.tile([2 * checkpoint.cutoff, 0.0, 0.0], (more_edges, 1))
        nobody = np.full(more_edges, atoms)
        with float64(True):
            slopes, energies = evaluate(
                np.concatenate([vectors, far]), np.pad(species, (0, more_atoms)), np.concatenate([senders, nobody]),
                np.concatenate([receivers, nobody]), np.arange(atoms + more_atoms) < atoms,
            )  # fmt: skip
        return np.array(energies)[:atoms], np.array(slopes)[:edges]

    return padded


def _of_torch(checkpoint):
    """The same of the back end torch."""
    with importing(NEED):
        import torch

        from nequix.torch_impl.model import load_model
    with default_dtype(torch.float64), quiet():
        model, _ = load_model(str(checkpoint.path))

    def evaluate(vectors, species, senders, receivers):
        vectors = torch.tensor(vectors, requires_grad=True)
        with default_dtype(torch.float64):
            energies = model.node_energies(vectors, *(torch.tensor(array) for array in (species, senders, receivers)))
        (slopes,) = torch.autograd.grad(energies.sum(), vectors)
        return energies.detach().numpy()[:, 0], slopes.numpy()

    return evaluate


def float64_calculator(source, choice=None):
    """ASE calculator of a source (file or loaded Checkpoint) in float64."""
    return NequixModules(loaded(source, nequix_checkpoint.load))


def framework_calculator(source, choice=None):
    """The package's own calculator, as users run it."""
    checkpoint = loaded(source, nequix_checkpoint.load)
    prepare_jax()
    with importing(NEED):
        from nequix.calculator import NequixCalculator
    with quiet():
        return NequixCalculator(model_path=str(checkpoint.path), backend=checkpoint.backend, use_kernel=False)
