# SPDX-License-Identifier: MIT
"""The package's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import logging
import os
from unittest import mock

import numpy as np
from ase.calculators.calculator import all_changes

from ...errors import EquiError
from ..common.oracle import Oracle, importing, loaded, quiet
from . import checkpoint as tace_checkpoint

NEED = "models of TACE need this package: pip install tace"


def import_tace():
    """The package, whose advice on accelerators is not shown."""
    with importing(NEED):
        import tace.interface.ase
    logging.getLogger().setLevel(max(logging.getLogger().level, logging.ERROR))
    return tace


# With this models have e3nn's products. The derivatives of the package's own products of three factors are wrong if `parity` is true.
PLAIN_PRODUCTS = {"TACE_USE_EQT": "0"}


def model_of(checkpoint, properties, dtype="float64"):
    """The package's modules of a checkpoint, by default with couplings in float64."""
    import_tace()
    from tace.lightning import load_tace

    try:
        with quiet(), mock.patch.dict(os.environ, PLAIN_PRODUCTS):
            model = load_tace(str(checkpoint.path), device="cpu", target_property=list(properties), dtype=dtype)
    except Exception as error:
        raise EquiError(f"{checkpoint.source}: tace cannot build its model: {type(error).__name__}: {error}") from error
    for parameter in model.parameters():
        parameter.requires_grad = False
    return model.eval()


class Float64Calculator(Oracle):
    """The package's modules in float64 on the package's own edges."""

    PROPERTIES = ("energy", "forces", "virials")

    def __init__(self, checkpoint, head):
        super().__init__()
        self.elements, self.head = checkpoint.elements, checkpoint.head_index(head)
        self.model = model_of(checkpoint, self.PROPERTIES)
        from tace.dataset.quantity import KEYS, KeySpecification, update_keyspec_from_kwargs

        self.keys = KeySpecification()
        update_keyspec_from_kwargs(self.keys, KEYS)

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        import torch
        from tace.dataset.graph import from_atoms
        from torch_geometric.data import Batch

        atoms = self.atoms.copy()
        atoms.info["fidelity_idx"] = self.head
        with quiet():
            data = from_atoms(
                self.model.get_torch_element(), atoms, self.model.get_cutoff(), max_neighbors=None, target_property=list(self.PROPERTIES),
                embedding_property=[], keyspec=self.keys, training=False, dtype=torch.float64,
            )  # fmt: skip
            found = self.model(Batch.from_data_list([data]))
        found = {key: found[key].detach().numpy() for key in ("energy", "node_energy", "forces", "virials")}
        # The package's virial is minus the derivative of the energy by a strain.
        virial = -np.asarray(found["virials"]).reshape(3, 3)
        self.set_results(float(found["energy"].item()), found["forces"], found["node_energy"], virial=0.5 * (virial + virial.T))


def float64_calculator(source, choice=None):
    """ASE calculator of a source (file or loaded Checkpoint) in float64 with exact coupling coefficients."""
    return Float64Calculator(loaded(source, tace_checkpoint.load), choice)


def framework_calculator(source, choice=None):
    """The package's own calculator in float32, as its users run it."""
    checkpoint = loaded(source, tace_checkpoint.load)
    import_tace()
    from tace.interface.ase import TACEAseCalc

    with quiet():
        return TACEAseCalc(str(checkpoint.path), dtype="float32", device="cpu", fidelity_idx=checkpoint.head_index(choice))
