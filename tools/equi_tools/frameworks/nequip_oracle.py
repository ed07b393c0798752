# SPDX-License-Identifier: MIT
"""NequIP's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import warnings

import numpy as np
from ase.calculators.calculator import Calculator, all_changes

from .. import self_check
from ..errors import EquiError
from . import nequip_checkpoint

# A model evaluated in float32 by its own modules against float64, relative to the largest force; generous, because
# a misread option is of order one.
FLOAT32_ERROR = 1e-3


class NequIPModules(Calculator):
    """nequip's calculator for a tree of its modules, with chemical symbols for the types of the model."""

    implemented_properties = ["energy", "free_energy", "energies", "forces", "stress"]

    def __init__(self, model, checkpoint):
        super().__init__()
        self.elements = checkpoint.elements
        self.cutoff = checkpoint.cutoff
        with nequip_checkpoint.nequip_state():
            from nequip.integrations.ase import NequIPCalculator
            from nequip.integrations.utils import basic_transforms

            pairs = checkpoint.config["per_edge_type_cutoff"]
            transforms = basic_transforms(
                {} if pairs is None else {"per_edge_type_cutoff": pairs},
                checkpoint.cutoff,
                checkpoint.type_names,
                dict(zip(checkpoint.elements, checkpoint.type_names)),
            )
            self.calculator = NequIPCalculator(model, "cpu", transforms=transforms)

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        atoms = self.atoms
        unknown = sorted(set(atoms.get_chemical_symbols()) - set(self.elements))
        if unknown:
            raise EquiError(f"the model does not know {', '.join(unknown)}")
        import torch

        # A handful of evaluations is not worth TorchScript's profiling.
        with nequip_checkpoint.nequip_state(), torch.jit.optimized_execution(False):
            self.calculator.calculate(atoms)
        found = self.calculator.results
        energy = float(found["energy"])
        self.results = {
            "energy": energy,
            "free_energy": energy,
            "energies": np.asarray(found["energies"]).reshape(-1),
            "forces": np.asarray(found["forces"]),
        }
        if atoms.cell.volume > 1e-3:
            self.results["stress"] = np.asarray(found["stress"])


def _calculator(model, checkpoint):
    if checkpoint.kind == "legacy":
        from .nequip_legacy import LegacyModules

        return LegacyModules(model, checkpoint)
    return NequIPModules(model, checkpoint)


def float64_calculator(source, modality=None, types=None):
    """ASE calculator of a source (file or loaded Checkpoint) in float64 with exact coupling coefficients."""
    if not isinstance(source, nequip_checkpoint.Checkpoint):
        source = nequip_checkpoint.load(source, types)
    source.modality_index(modality)
    calculator = _calculator(source.model, source)
    _agree(calculator, _calculator(source.original, source), source.source)
    return calculator


def framework_calculator(source, modality=None, types=None):
    """The file's own modules in its own precision, as its users run them."""
    if not isinstance(source, nequip_checkpoint.Checkpoint):
        source = nequip_checkpoint.load(source, types)
    source.modality_index(modality)
    return _calculator(source.original, source)


def _agree(built, original, source):
    """Refuses a file whose own modules compute something else than those built from its options and numbers."""
    for name, atoms in self_check.structures(built.elements, built.cutoff):
        forces = []
        for calculator in (built, original):
            atoms.calc = calculator
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    forces.append(atoms.get_forces())
            except Exception as error:
                raise EquiError(
                    f"{source}: its own modules do not run here, so nothing can be checked: "
                    f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                ) from error
        if not np.abs(forces[0] - forces[1]).max() <= FLOAT32_ERROR * max(1.0, np.abs(forces[0]).max()):
            raise EquiError(f"{source}: its own modules give other forces than its options and numbers do ({name})")
