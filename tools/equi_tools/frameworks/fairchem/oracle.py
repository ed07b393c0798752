# SPDX-License-Identifier: MIT
"""FAIRChemCalculator of fairchem 2 as the accuracy oracle of tests and of `equi compare`.

Packages that fairchem imports only for training on clusters need not be installed: empty modules replace them.
"""

import contextlib
import logging
import sys
import types
import warnings

import numpy as np
from ase import Atoms
from ase.calculators.calculator import all_changes

from ..common.oracle import Oracle, importing, loaded
from . import checkpoint as fairchem_checkpoint

NOT_NEEDED = ("wandb", "numba", "clusterscope", "pkg_resources")


def _placeholder(name):
    module = types.ModuleType(name)
    # Stands for numba: a decorator that returns the function.
    module.njit = lambda function=None, **_: function if function is not None else lambda inner: inner
    return module


def import_fairchem():
    """The package `fairchem.core`, without what it imports only for training."""
    placeholders = [name for name in NOT_NEEDED if name not in sys.modules and not _is_there(name)]
    sys.modules.update({name: _placeholder(name) for name in placeholders})
    try:
        with importing("fairchem models need its package: pip install fairchem-core"):
            import fairchem.core
    finally:
        for name in placeholders:
            del sys.modules[name]
    return fairchem.core


def _is_there(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None


@contextlib.contextmanager
def quiet():
    """Suppresses the warnings by which fairchem reports its settings."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class FairChemModel(Oracle):
    """FAIRChemCalculator for the task, charge and spin of a checkpoint, with forces and stresses as derivatives of the energy."""

    implemented_properties = ["energy", "free_energy", "forces", "stress"]

    def __init__(self, checkpoint, task, dtype):
        super().__init__()
        core = import_fairchem()
        import torch

        self.checkpoint, self.elements, self.cutoff = checkpoint, checkpoint.elements, checkpoint.cutoff
        self.task, self.dtype = checkpoint.task_name(task), getattr(torch, dtype)
        self._core = core
        self._make_calculator(execution_mode="general")

    def _make_calculator(self, **settings):
        from fairchem.core.units.mlip_unit import InferenceSettings, MLIPPredictUnit

        with quiet():
            settings = InferenceSettings(
                activation_checkpointing=False, base_precision_dtype=self.dtype, predict_untrained_forces={self.task},
                predict_untrained_stress={self.task}, **settings,
            )  # fmt: skip
            unit = MLIPPredictUnit(str(self.checkpoint.path), device="cpu", inference_settings=settings)
            self.calculator = self._core.FAIRChemCalculator(unit, task_name=self.task)

    def run_fastest(self):
        """Switches to fairchem's fastest way on CPUs, for structures of one composition: its experts are merged."""
        self._make_calculator(execution_mode="umas_fast_pytorch", merge_mole=bool(self.checkpoint.num_experts))

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        atoms = self.atoms.copy()
        atoms.info = {"charge": self.checkpoint.charge, "spin": self.checkpoint.spin_of(self.task)}
        if len(atoms) == 1 and not atoms.pbc.any():
            # fairchem looks up a single atom in a table; in a large box it evaluates the network.
            atoms = Atoms(atoms, cell=np.eye(3) * 4 * self.cutoff, pbc=True, info=atoms.info)
        elif atoms.pbc.any():
            # Directions without a cell vector, in which nothing is periodic.
            atoms.cell = atoms.cell.complete()
        with quiet():
            self.calculator.calculate(atoms, ["energy", "forces", "stress"], all_changes)
        self.results = {key: self.calculator.results[key] for key in ("energy", "free_energy", "forces")}
        if self.atoms.cell.volume > 1e-3:
            self.results["stress"] = self.calculator.results["stress"]


def float64_calculator(source, task=None):
    """ASE calculator of a file or a loaded Checkpoint in float64."""
    return FairChemModel(loaded(source, fairchem_checkpoint.load), task, "float64")


def framework_calculator(source, task=None):
    """The same in float32, as users run it."""
    return FairChemModel(loaded(source, fairchem_checkpoint.load), task, "float32")
