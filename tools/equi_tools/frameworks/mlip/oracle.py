# SPDX-License-Identifier: MIT
"""mlip's own force fields as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import numpy as np
from ase.calculators.calculator import all_changes

from ..common.jax_numbers import capacity, float64, prepare_jax
from ..common.oracle import Oracle, importing, loaded
from . import checkpoint as mlip_checkpoint


def import_mlip():
    """The package, with its import noise silenced."""
    prepare_jax("mlip")
    with importing("models of mlip need the package mlip: pip install mlip"):
        import mlip
        import mlip.models
    return mlip


class MlipModules(Oracle):
    """mlip's force field in float64, or in float32, on its own neighbor list."""

    def __init__(self, checkpoint, head, is_float64):
        super().__init__()
        mlip = import_mlip()
        import jax

        from mlip.data import DatasetInfo
        from mlip.models import ForceField
        from mlip.typing.properties import Properties
        from mlip.utils.dict_flatten import unflatten_dict

        self.elements = checkpoint.elements
        self.cutoff = checkpoint.cutoff
        self.charge, self.spin = checkpoint.charge, checkpoint.spin
        self.is_float64 = is_float64
        self.head = checkpoint.head_index(head)
        statistics = checkpoint.statistics
        model = getattr(mlip.models, mlip_checkpoint.ARCHITECTURES[checkpoint.architecture].MODEL)
        with float64(is_float64):
            network = model(model.Config(**checkpoint.options), DatasetInfo(**statistics))
            properties = Properties(stress=True)
            predictor = ForceField.get_predictor_class(properties, network.config)(
                mlip_network=network,
                required_properties=properties,
                energy_head=ForceField.get_energy_head(network.config, properties, network),
            )
            dtype = np.float64 if is_float64 else np.float32
            arrays = {
                tuple((mlip_checkpoint.PREFIX + name).split("#")): jax.numpy.asarray(array, dtype)
                for name, array in {**checkpoint.empty, **checkpoint.state}.items()
            }
            self.parameters = unflatten_dict(arrays)
            self.evaluate = jax.jit(predictor.apply)

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        from mlip.data import ChemicalSystem
        from mlip.data.helpers.dynamically_batch import dynamically_batch
        from mlip.graph import Graph

        atoms = self.atoms.copy()
        is_periodic = bool(atoms.pbc.any())
        if is_periodic:
            atoms.cell = atoms.cell.complete()
        with float64(self.is_float64):
            system = ChemicalSystem(
                atomic_numbers=atoms.numbers,
                positions=atoms.positions,
                cell=atoms.cell.array if is_periodic else None,
                pbc=tuple(bool(p) for p in atoms.pbc) if is_periodic else None,
                charge=self.charge,
                spin_multiplicity=self.spin,
            )
            graph = Graph.from_chemical_system(system, self.cutoff)
            graph = graph.replace_globals(dataset_idx=np.array([self.head]))
            n = len(atoms)
            rooms = {"n_node": capacity(n + 1), "n_edge": capacity(len(graph.senders) + 1, least=512)}
            padded = next(dynamically_batch([graph], **rooms, n_graph=2))
            found = self.evaluate(self.parameters, padded)
            energies, forces = (np.array(array, float)[:n] for array in (found.nodes.features["energy"], found.nodes.forces))
            # mlip divides by the determinant of the cell, which may be negative, and by 1 without a cell.
            virial = np.array(found.globals.stress, float)[0] * (np.linalg.det(atoms.cell.array) if is_periodic else 1.0)
            self.set_results(float(found.globals.energy[0]), forces, energies, virial=virial)


def float64_calculator(source, head=None):
    """ASE calculator of a source (file or loaded Checkpoint) in float64."""
    return MlipModules(loaded(source, mlip_checkpoint.load), head, True)


def framework_calculator(source, head=None):
    """The same force field in float32, as users run it."""
    return MlipModules(loaded(source, mlip_checkpoint.load), head, False)
