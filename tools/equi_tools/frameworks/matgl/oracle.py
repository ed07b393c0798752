# SPDX-License-Identifier: MIT
"""matgl's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import copy
import logging
import types
from math import pi, sqrt

import numpy as np
from ase.calculators.calculator import all_changes

from ...errors import EquiError
from ..common.oracle import Oracle, importing, loaded, quiet
from . import checkpoint as matgl_checkpoint


def import_matgl():
    """The package, with its import noise silenced."""
    logging.getLogger("matgl").setLevel(logging.ERROR)
    with importing("models of matgl need the package matgl: pip install matgl"):
        import matgl
        from matgl.apps.pes import Potential  # noqa: F401
    return matgl


def build_potential(checkpoint, dtype):
    """matgl's Potential from the options and numbers of a folder. Unlike matgl's own loader, it accepts files of its
    Warp modules if these are not installed, and needs no third file."""
    import_matgl()
    import matgl.models
    import torch
    from matgl.apps.pes import Potential

    options = {key: value for key, value in checkpoint.options.items() if key != "dtype"}
    options |= {"element_types": tuple(checkpoint.elements), "use_warp": False}
    state = {name.replace("_orig_mod.", ""): torch.tensor(np.array(value)) for name, value in checkpoint.state.items()}
    references = state.get("element_refs.property_offset")
    for kind in ("weight", "bias"):
        merged = state.pop(f"model.tensor_embedding.distance_proj.{kind}", None)
        if merged is not None:
            state |= {f"model.tensor_embedding.distance_proj{k + 1}.{kind}": piece for k, piece in enumerate(merged.chunk(3))}
    with quiet():
        model = getattr(matgl.models, checkpoint.kind)(**options)  # versions before 3.0 have no QET for PyG
        potential = Potential(
            model, element_refs=references, calc_repuls=bool(checkpoint.potential.get("calc_repuls")), calc_charge=checkpoint.kind == "QET"
        )
        potential = potential.to(dtype)
        missing, unexpected = potential.load_state_dict(state, strict=False)
    wrong = [*missing, *(name for name in unexpected if not name.startswith(matgl_checkpoint.INERT))]
    if wrong:
        raise EquiError(f"{checkpoint.source}: matgl's modules and the file differ in the tensor {wrong[0]}")
    _with_distances(potential)
    return potential.eval()


def _with_distances(potential):
    """matgl's repulsion reads distances from the graph, but its TensorNet does not store them there."""
    if not potential.calc_repuls:
        return
    from matgl.graph._compute import compute_pair_vector_and_distance

    forward = potential.repuls.forward

    def with_distances(self, element_types, graph):
        if graph.edge_index.shape[1] == 0:
            return graph.pos.sum() * 0.0
        graph = copy.copy(graph)
        graph.bond_dist = compute_pair_vector_and_distance(graph.pos, graph.edge_index, graph.pbc_offshift)[1]
        # matgl's sum ends at the last atom that has a neighbor.
        graph.batch = graph.edge_index.new_zeros(int(graph.edge_index[0].max()) + 1)
        return forward(element_types, graph)

    potential.repuls.forward = types.MethodType(with_distances, potential.repuls)


def _make_exact(potential, checkpoint):
    """Replaces constants of the basis that matgl rounds to float32."""
    import torch

    rbf = potential.model.bond_expansion.rbf
    if hasattr(rbf, "roots_slice"):
        with torch.no_grad():
            rbf.cutoff.fill_(checkpoint.cutoff)
            rbf.roots_slice.copy_(pi * torch.arange(1, rbf.max_n + 1, dtype=torch.float64)[None])
            # 1/|j_1(n pi)| = n pi.
            rbf.inv_norm.copy_(sqrt(2 / checkpoint.cutoff**3) * rbf.roots_slice)
    if hasattr(rbf, "alpha"):
        rbf.cutoff = torch.tensor(checkpoint.cutoff, dtype=torch.float64)


def _reverse_messages(potential, checkpoint):
    """Makes modules sum the messages of edges at their other atoms, as matgl before 2.2.0 did. Each edge has a reverse,
    so an atom's potential of other charges becomes that of its own charge at their places. Returns a dict in which the
    index of these atoms must be before an evaluation."""
    model, place = potential.model, {}

    def reverse(module):
        aggregate = module.aggregate
        module.aggregate = lambda messages, index, dim_size: aggregate(messages, place["index"], dim_size)

    reverse(model.tensor_embedding)
    for layer in model.layers if checkpoint.has_reversed_interactions else ():
        reverse(layer)
    if checkpoint.kind == "QET":
        forward = model.elec_pot.forward
        model.elec_pot.forward = lambda graph, charge, sigma: charge * forward(graph, charge=charge * 0 + 1, sigma=sigma)
    return place


class MatGLModules(Oracle):
    """matgl's modules in float64, or in the file's precision, on a neighbor list of ASE."""

    implemented_properties = ["energy", "free_energy", "forces", "stress", "charges"]

    def __init__(self, checkpoint, dtype):
        super().__init__()
        import torch

        self.elements = checkpoint.elements
        self.cutoff = checkpoint.cutoff
        self.dtype = getattr(torch, dtype)
        self.potential = build_potential(checkpoint, self.dtype)
        self.charge = torch.tensor([checkpoint.charge or 0.0], dtype=self.dtype)
        self.place = _reverse_messages(self.potential, checkpoint) if checkpoint.is_reversed else {}
        if dtype == "float64":
            _make_exact(self.potential, checkpoint)

    def graph(self, atoms):
        import torch
        from ase.neighborlist import neighbor_list
        from torch_geometric.data import Data

        receiver, sender, shift = neighbor_list("ijS", atoms, self.cutoff)
        cell = atoms.cell.complete().array if atoms.pbc.any() else np.eye(3)
        graph = Data(num_nodes=len(atoms), edge_index=torch.tensor(np.array([receiver, sender]), dtype=torch.long))
        graph.pbc_offset = torch.tensor(shift, dtype=self.dtype)
        graph.node_type = torch.tensor([self.elements.index(s) for s in atoms.get_chemical_symbols()])
        graph.frac_coords = torch.tensor(np.linalg.solve(cell.T, atoms.positions.T).T, dtype=self.dtype)
        return graph, torch.tensor(cell, dtype=self.dtype)[None]

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        atoms = self.atoms
        from matgl.utils.constants import EV_PER_ANG3_TO_GPA

        graph, cell = self.graph(atoms)
        self.place["index"] = graph.edge_index[1]
        with quiet():
            energy, forces, stress, _, *charges = self.potential(graph, cell, total_charge=self.charge)
        virial = abs(np.linalg.det(cell[0].numpy())) / EV_PER_ANG3_TO_GPA * stress.detach().numpy().reshape(3, 3)
        self.set_results(energy.item(), forces.detach().numpy(), virial=virial)
        if charges:
            self.results["charges"] = charges[0].detach().numpy().reshape(-1)


def float64_calculator(source, choice=None):
    """ASE calculator of a source (folder or loaded Checkpoint) in float64."""
    return MatGLModules(loaded(source, matgl_checkpoint.load), "float64")


def framework_calculator(source, choice=None):
    """The same modules in float32, as users run them. matgl's PESCalculator treats partly periodic structures as
    molecules; this one keeps their periodicity."""
    return MatGLModules(loaded(source, matgl_checkpoint.load), "float32")
