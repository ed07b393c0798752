# SPDX-License-Identifier: MIT
"""The package's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import contextlib
import io

import numpy as np
from ase.calculators.calculator import all_changes
from ase.neighborlist import neighbor_list

from ...errors import EquiError
from ..common.oracle import Oracle, default_dtype, importing, loaded, quiet
from . import checkpoint as so3krates_checkpoint

NEED = "models of so3krates-torch need this package: pip install so3krates-torch"


def modules_of(checkpoint):
    """The package's own module in float64. A file that holds one is read by torch, which runs the code of the file."""
    with importing(NEED):
        import torch

        from so3krates_torch.modules import models
    with default_dtype(torch.float64), quiet():
        try:
            if checkpoint.is_module:
                model = torch.load(checkpoint.path, map_location="cpu", weights_only=False)
            else:
                model = _made_for(models, checkpoint)
                model.load_state_dict({name: torch.tensor(np.asarray(array)) for name, array in checkpoint.state.source.items()})
        except Exception as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise EquiError(f"{checkpoint.source}: torch cannot read it: {first}") from error
        model = model.to("cpu").double().eval()
    if hasattr(model, "use_lr"):
        model.r_max_lr = checkpoint.options["r_max_lr"]
        model.dispersion_energy_cutoff_lr_damping = checkpoint.options["dispersion_energy_cutoff_lr_damping"]
    for parameter in model.parameters():
        parameter.requires_grad = False
    return model


def _made_for(models, checkpoint):
    """A module with the settings of a checkpoint, in float64."""
    options = dict(checkpoint.options)
    if checkpoint.heads:
        return models.MultiHeadSO3LR(**options, num_output_heads=len(checkpoint.heads), dtype="float64")
    if "zbl_repulsion.a1_raw" in checkpoint.state:
        return models.SO3LR(**options, dtype="float64")
    return models.So3krates(**{key: options[key] for key in so3krates_checkpoint.NETWORK}, dtype="float64")


class SO3LRModules(Oracle):
    """The modules in float64 on edges of ASE, for a charge and spin multiplicity of the whole structure."""

    def __init__(self, checkpoint, head=None):
        super().__init__()
        self.checkpoint = checkpoint
        self.elements = checkpoint.known
        self.cutoff = checkpoint.cutoff
        self.head = checkpoint.head_index(head)
        self.model = modules_of(checkpoint)

    def edges(self, cutoff, tensor):
        """(receivers and senders [2, E], shifts [E, 3] in numbers of cell vectors) of all pairs within a cutoff."""
        import torch

        i, j, shifts = neighbor_list("ijS", self.atoms, cutoff)
        return torch.tensor(np.array([i, j])), tensor(shifts)

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        import torch

        def tensor(value):
            return torch.tensor(np.asarray(value), dtype=torch.float64)

        atoms, checkpoint = self.atoms, self.checkpoint
        number = len(atoms)
        strain = torch.zeros((3, 3), dtype=torch.float64, requires_grad=True)
        deformed = torch.eye(3, dtype=torch.float64) + 0.5 * (strain + strain.T)
        positions = tensor(atoms.positions).requires_grad_(True)
        cell = tensor(atoms.cell.array)
        data = {
            "positions": positions @ deformed, "cell": cell, "batch": torch.zeros(number, dtype=torch.long),
            "head": torch.zeros(1, dtype=torch.long), "ptr": torch.tensor([0, number]), "atomic_numbers": torch.tensor(atoms.numbers),
            "node_attrs": torch.nn.functional.one_hot(torch.tensor(atoms.numbers) - 1, checkpoint.options["num_elements"]).double(),
            "total_charge": tensor([checkpoint.charge or 0]), "total_spin": tensor([((checkpoint.spin or 1) - 1) / 2]),
        }  # fmt: skip
        for end, cutoff in (("", checkpoint.cutoff), ("_lr", checkpoint.options["r_max_lr"])):
            if not end or getattr(self.model, "use_lr", False):
                data[f"edge_index{end}"], shifts = self.edges(cutoff, tensor)
                data[f"shifts{end}"] = shifts @ cell @ deformed
        with default_dtype(torch.float64), contextlib.redirect_stdout(io.StringIO()):
            found = self.model(data, compute_force=False)
        energies = found.get("node_energy")  # So3krates has none
        if energies is not None:
            energies = energies[:, self.head, 0] if checkpoint.heads else energies[:, 0]
        energy = found["energy"].sum() if energies is None else energies.sum()
        by_position, by_strain = torch.autograd.grad(energy, [positions, strain])
        self.set_results(
            float(energy.detach()), -by_position.numpy(), None if energies is None else energies.detach().numpy(), virial=by_strain.numpy()
        )
        for name in ("partial_charges", "hirshfeld_ratios"):
            if found.get(name) is not None:
                self.results[name] = found[name].detach().numpy()


def float64_calculator(source, choice=None):
    """ASE calculator of a source (file or loaded Checkpoint) in float64."""
    return SO3LRModules(loaded(source, so3krates_checkpoint.load), choice)


def framework_calculator(source, choice=None):
    """The package's own calculator, as users run it."""
    checkpoint = loaded(source, so3krates_checkpoint.load)
    if checkpoint.heads or not checkpoint.is_module:
        raise EquiError("the package's own calculator is that of files with a module of one head: leave out --calculator framework")
    with importing(NEED):
        import torch

        from so3krates_torch.calculator.so3 import TorchkratesCalculator
    options = checkpoint.options
    with quiet(), contextlib.redirect_stdout(io.StringIO()):
        model = torch.load(checkpoint.path, map_location="cpu", weights_only=False)
        calculator = TorchkratesCalculator(
            models=model, r_max_lr=options["r_max_lr"], compute_stress=True,
            dispersion_energy_cutoff_lr_damping=options["dispersion_energy_cutoff_lr_damping"],
            model_type="so3lr" if hasattr(model, "use_lr") else "so3krates",
        )  # fmt: skip
    return _OfSystem(calculator, checkpoint)


class _OfSystem(Oracle):
    """The package's calculator for the charge and spin multiplicity of a checkpoint."""

    def __init__(self, calculator, checkpoint):
        super().__init__()
        self.calculator, self.checkpoint = calculator, checkpoint
        self.elements, self.cutoff = checkpoint.known, checkpoint.cutoff

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        theirs = self.atoms.copy()
        theirs.info = {"charge": self.checkpoint.charge or 0, "total_spin": ((self.checkpoint.spin or 1) - 1) / 2}
        self.calculator.calculate(theirs, list(properties), all_changes)
        self.results = dict(self.calculator.results)
