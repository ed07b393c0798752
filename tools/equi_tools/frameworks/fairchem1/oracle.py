# SPDX-License-Identifier: MIT
"""Models of fairchem 1 as the accuracy oracle of tests and of `equi compare`: their own modules, from the package
equiformer-v3 (core/models), on the graph that ASE finds.

Only the modules of a model are imported, under the names by which they import one another. The other parts of fairchem
require compiled extensions of Torch; a few lines here provide what the modules use of them.
"""

import functools
import importlib
import importlib.util
import logging
import sys
import types

import numpy as np
from ase import Atoms
from ase.calculators.calculator import all_changes
from ase.neighborlist import primitive_neighbor_list
from ase.stress import full_3x3_to_voigt_6_stress
from ase.utils import rotate as matrix_of_turns

from ...model_units import DIRECT_FORCES
from ..common.oracle import Oracle, default_dtype, importing, loaded, quiet
from . import checkpoint as fairchem1_checkpoint
from .direct import has_forces
from .equiformer import STATED
from .frames import fix_of_equiformer, fix_of_escn, nearest_neighbors

# fairchem treats edges that are nearly parallel to the y axis as parallel, and omits how they turn. Structures are
# therefore turned by these angles about x, y and z, in degrees, so that no edge of a crystal is nearly parallel.
TURN = "17.3x,41.9y,23.1z"


def _conditional_grad(decorate):
    def decorator(function):
        @functools.wraps(function)
        def method(self, *args, **kwargs):
            return (decorate(function) if self.regress_forces else function)(self, *args, **kwargs)

        return method

    return decorator


def _module(name, path=None, **members):
    module = types.ModuleType(name)
    if path is not None:
        module.__path__ = [str(path)]
    vars(module).update(members)
    return module


class _Data(dict):
    """The input of a model; some models read attributes, others entries."""

    __getattr__, __setattr__ = dict.__getitem__, dict.__setitem__


class _GraphOfData:
    """Replaces the search for the edges of a structure: returns those that it has."""

    def generate_graph(self, data, *args, **kwargs):
        j, i = data.edge_index
        vectors = data.pos[j] - data.pos[i] + data.cell_offsets.to(data.pos.dtype) @ data.cell[0]
        return types.SimpleNamespace(
            edge_index=data.edge_index, edge_distance=vectors.norm(dim=1), edge_distance_vec=vectors, cell_offsets=data.cell_offsets,
            offset_distances=None, neighbors=None, atomic_numbers_full=data.atomic_numbers_full, batch_full=data.batch_full, node_offset=0,
        )  # fmt: skip


def _scatter(src, index, dim=0, dim_size=None, reduce="sum"):
    import torch

    name = {"sum": "sum", "max": "amax"}[reduce]
    shape = (dim_size, *src.shape[1:])
    wide = index.view(-1, *[1] * (src.dim() - 1)).expand_as(src)
    return torch.zeros(shape, dtype=src.dtype).scatter_reduce(0, wide, src, name, include_self=False)


def _softmax(src, index):
    """Sums over the entries of each index."""
    import torch

    size = int(index.max()) + 1
    exponentials = torch.exp(src - _scatter(src.detach(), index, dim_size=size, reduce="max")[index])
    return exponentials / (_scatter(exponentials, index, dim_size=size)[index] + 1e-16)


def _stand_ins():
    """What the modules of models import from packages with compiled code."""
    utils = _module("torch_geometric.utils", scatter=_scatter, segment=None, softmax=_softmax)
    utils.num_nodes = _module("torch_geometric.utils.num_nodes", maybe_num_nodes=lambda index, num_nodes=None: num_nodes)
    modules = [utils, utils.num_nodes, _module("torch_geometric", utils=utils), _module("torch_scatter", scatter=_scatter)]
    return {module.__name__: module for module in modules}


def import_model(name):
    """A module below fairchem, from fairchem/core/models or fairchem/experimental/models."""
    with importing("models of fairchem 1 need its modules: pip install --no-deps equiformer-v3, and e3nn"):
        found = importlib.util.find_spec("equiformer_v3")
        if found is None:
            raise ImportError("No module named 'equiformer_v3'")
        root = found.submodule_search_locations[0]
        replaced = ("fairchem", "torch_geometric", "torch_scatter")
        before = {key: sys.modules.pop(key) for key in list(sys.modules) if key.split(".")[0] in replaced}
        experimental = ("", ".models", ".models.equiformer_v3")
        for key in ("", ".core", ".core.common", ".core.models", *(f".experimental{part}" for part in experimental)):
            sys.modules[f"fairchem{key}"] = _module(f"fairchem{key}", root + key.replace(".", "/"))
        sys.modules.update(_stand_ins())
        sys.modules["fairchem.core.common.utils"] = _module("utils", conditional_grad=_conditional_grad)
        sys.modules["fairchem.core.models.base"] = _module(
            "base", GraphModelMixin=_GraphOfData, HeadInterface=object, BackboneInterface=object, GraphData=object
        )
        try:
            return importlib.import_module(f"fairchem.{name}")
        finally:
            for key in [key for key in sys.modules if key.split(".")[0] in replaced]:
                del sys.modules[key]
            sys.modules.update(before)


def build_esen(options, regress_stress=True):
    """(backbone, head) for the options of a checkpoint, with random numbers."""
    module = import_model("core.models.esen.esen")
    backbone = module.eSEN_Backbone(**options, otf_graph=False, direct_forces=False, regress_forces=True, regress_stress=regress_stress)
    return backbone, module.MLP_EFS_Head(backbone)


def build_direct(kind, options, with_forces):
    """The model for the options of a checkpoint, with random numbers and our frames; with_forces: with its own head
    for forces."""
    if kind == "escn":
        module = import_model("core.models.escn.escn")
        model = module.eSCN(**options, regress_forces=with_forces)
        fix_of_escn(model, options["lmax_list"][0], module)
    else:
        module = import_model("core.models.equiformer_v2.equiformer_v2_deprecated")
        # The constructor warns that the class is old.
        logging.disable(logging.WARNING)
        try:
            model = module.EquiformerV2(**options, regress_forces=with_forces)
        finally:
            logging.disable(logging.NOTSET)
        fix_of_equiformer(model, options["lmax_list"][0])
    return model


def build_equiformer(options):
    """The EquiformerV3 for the options of a checkpoint, with random numbers."""
    module = import_model("experimental.models.equiformer_v3.equiformer_v3")
    return module.EquiformerV3_OC(**options, regress_forces=True, regress_stress=True)


def turn_grid(backbone):
    """Turns the points at which networks of atoms are evaluated by TURN, like the structures. These networks depend on
    them a little."""
    import torch
    from e3nn import o3

    grid = backbone.SO3_grid["lmax_lmax"]
    turn = torch.tensor(matrix_of_turns(TURN).T.copy(), dtype=grid.to_grid_mat.dtype)
    d = torch.block_diag(*(o3.Irrep(l, 1).D_from_matrix(turn) for l in range(grid.lmax + 1)))
    grid.to_grid_mat, grid.from_grid_mat = grid.to_grid_mat @ d.T, grid.from_grid_mat @ d.T


class TrainedModel(Oracle):
    """The model of a checkpoint, with forces and stresses as derivatives of the energy. Results also have
    direct_forces if the checkpoint has its own head for them."""

    implemented_properties = ["energy", "free_energy", "forces", "stress"]

    def __init__(self, checkpoint, dtype):
        super().__init__()
        import torch

        self.checkpoint, self.elements, self.cutoff = checkpoint, checkpoint.elements, checkpoint.cutoff
        (self.task,) = checkpoint.tasks.values()
        self.dtype = getattr(torch, dtype)
        with quiet(), default_dtype(self.dtype):
            self.is_direct = checkpoint.architecture in fairchem1_checkpoint.DIRECT
            if self.is_direct:
                module = fairchem1_checkpoint.DIRECT[checkpoint.architecture]
                options = {key: checkpoint.options[STATED][key] for key in module.DEFAULTS}
                self.model = build_direct(checkpoint.architecture, options, has_forces(checkpoint.state))
                parts = [("", self.model)]
            elif checkpoint.architecture == fairchem1_checkpoint.EQUIFORMER:
                self.model = build_equiformer(checkpoint.options[STATED])
                parts = [("", self.model)]
            else:
                backbone, head = build_esen({key: checkpoint.options[key] for key in fairchem1_checkpoint.DEFAULTS})
                self.model = lambda data: head(data, backbone(data))
                parts = [("backbone.", backbone), (checkpoint.head_prefix, head)]
            for prefix, module in parts:
                state = {k.removeprefix(prefix): torch.tensor(np.array(v)) for k, v in checkpoint.state.items() if k.startswith(prefix)}
                # The centers of Gaussians and similar constants are computed anew in float64.
                kept = dict(module.named_parameters())
                module.load_state_dict({k: v for k, v in state.items() if k in kept}, strict=False)
                module.to(self.dtype).eval()
                if self.is_direct:
                    module.requires_grad_(False)
            if checkpoint.architecture == "esen":
                turn_grid(backbone)

    def _evaluate(self, atoms):
        """(energy in eV without references, forces, stress) of the network."""
        import torch

        i, j, shifts = primitive_neighbor_list("ijS", atoms.pbc, atoms.cell.complete(), atoms.positions, self.cutoff)
        if len(i) == 0:
            return self._without_edges(atoms)
        if self.is_direct:
            return self._differentiate(atoms, i, j, shifts)
        turn = matrix_of_turns(TURN)
        cell = torch.tensor(atoms.cell.complete().array @ turn, dtype=self.dtype)[None]
        found = self._run(atoms, torch.tensor(atoms.positions @ turn, dtype=self.dtype), cell, i, j, shifts)
        energy, forces, stress = (found[key].detach().numpy().astype(float) for key in ("energy", "forces", "stress"))
        rmsd = self.task.rmsd
        return rmsd * energy.item(), rmsd * forces @ turn.T, rmsd * turn @ stress.reshape(3, 3) @ turn.T

    def _run(self, atoms, positions, cell, i, j, shifts):
        """The raw results of the model."""
        import torch

        numbers, batch = torch.tensor(atoms.numbers), torch.zeros(len(atoms), dtype=torch.long)
        data = _Data({
            "pos": positions, "cell": cell, "natoms": torch.tensor([len(atoms)]), "batch": batch, "atomic_numbers": numbers,
            "atomic_numbers_full": numbers, "batch_full": batch, "edge_index": torch.tensor(np.stack([j, i])),
            "cell_offsets": torch.tensor(shifts), "nedges": torch.tensor([len(i)]),
        })  # fmt: skip
        with default_dtype(self.dtype):
            return self.model(data)

    def _differentiate(self, atoms, i, j, shifts):
        """The energy of a model with the nearest neighbors, and its derivatives. The structure is not turned, because
        the energy depends on its orientation."""
        import torch

        vectors = atoms.positions[j] - atoms.positions[i] + shifts @ atoms.cell.complete().array
        options = self.checkpoint.options
        kept = nearest_neighbors(i, (vectors**2).sum(1), options["max_neighbors"], options["enforce_max_neighbors_strictly"])
        positions = torch.tensor(atoms.positions, dtype=self.dtype, requires_grad=True)
        strain = torch.zeros(3, 3, dtype=self.dtype, requires_grad=True)
        deformation = torch.eye(3, dtype=self.dtype) + (strain + strain.T) / 2
        cell = torch.tensor(atoms.cell.complete().array, dtype=self.dtype) @ deformation
        found = self._run(atoms, positions @ deformation, cell[None], i[kept], j[kept], shifts[kept])
        energy = found["energy"].sum()
        if "forces" in found:
            self._direct_forces = self.checkpoint.forces_rmsd * found["forces"].detach().numpy().astype(float)
        gradient, virial = torch.autograd.grad(energy, (positions, strain))
        rmsd, volume = self.task.rmsd, max(abs(np.linalg.det(atoms.cell.array)), 1e-30)
        return rmsd * energy.item(), -rmsd * gradient.numpy().astype(float), rmsd * virial.numpy().astype(float) / volume

    def _without_edges(self, atoms):
        """fairchem omits the blocks if a whole structure has no edge. Here a distant pair is added, so atoms without
        neighbors are evaluated as they are in other structures."""
        apart = np.abs(atoms.positions).max() + 10 * self.cutoff
        pair = Atoms([atoms.symbols[0]] * 2, [[apart, apart, apart], [apart + 0.5 * self.cutoff, apart, apart]])
        both = Atoms(atoms.numbers, atoms.positions) + pair
        (of_pair, _, _), (energy, forces, stress) = self._evaluate(pair), self._evaluate(both)
        if self._direct_forces is not None:
            self._direct_forces = self._direct_forces[: len(atoms)]
        return energy - of_pair, forces[: len(atoms)], 0.0 * stress

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        self._direct_forces = None
        with quiet():
            energy, forces, stress = self._evaluate(self.atoms)
        if self.task.references is not None:
            energy += self.task.references[self.atoms.numbers].sum()
        self.set_results(energy, forces, stress=full_3x3_to_voigt_6_stress(stress))
        if self._direct_forces is not None:
            self.results[DIRECT_FORCES] = self._direct_forces


def float64_calculator(source, choice=None):
    """ASE calculator of a file or a loaded Checkpoint in float64."""
    return TrainedModel(loaded(source, fairchem1_checkpoint.load), "float64")


def framework_calculator(source, choice=None):
    """The same in float32, as users run it."""
    return TrainedModel(loaded(source, fairchem1_checkpoint.load), "float32")
