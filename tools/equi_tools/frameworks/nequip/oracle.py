# SPDX-License-Identifier: MIT
"""NequIP's and Allegro's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import contextlib
import copy
import re
from pathlib import Path

import numpy as np
from ase.calculators.calculator import all_changes

from ... import self_check
from ...coupling import coupling
from ...errors import EquiError
from ...yaml_options import yaml_options
from ..common.e3nn_layers import sign_of_coupling
from ..common.oracle import Oracle, importing, loaded, quiet
from .checkpoint import load
from .contents import AllegroCheckpoint, LegacyCheckpoint
from .files import FIRST, training_files
from .legacy import BUILDERS
from .modules import convnets, tensor_product

# Allowed difference of the file's own modules in float32 from float64, relative to the largest force. It is generous,
# because a misread option causes differences of order one.
FLOAT32_ERROR = 1e-3


def import_nequip():
    """The package, with its import noise silenced."""
    with importing("NequIP's own results need the package nequip: pip install nequip"):
        import nequip
        import nequip.model  # noqa: F401
    return nequip


@contextlib.contextmanager
def nequip_state():
    """nequip requires global settings of torch and e3nn; they hold only inside this context."""
    import random

    import e3nn
    import torch

    import_nequip()
    from nequip.utils.global_state import set_global_state

    dtype, defaults = torch.get_default_dtype(), e3nn.get_optimization_defaults()
    seeds = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        with quiet():
            set_global_state()
            # A second call does not change these.
            torch.set_default_dtype(torch.float64)
            e3nn.set_optimization_defaults(specialized_code=True, optimize_einsums=True, jit_mode="eager")
            yield
    finally:
        torch.set_default_dtype(dtype)
        e3nn.set_optimization_defaults(**defaults)
        random.setstate(seeds[0])
        np.random.set_state(seeds[1])
        torch.set_rng_state(seeds[2])


def _load_package(path):
    with nequip_state():
        from nequip.model.saved_models.package import ModelFromPackage

        return next(iter(ModelFromPackage(path).values()))


def _load_lightning(path):
    with nequip_state():
        from nequip.model.modify_utils import only_apply_persistent_modifiers
        from nequip.model.saved_models.checkpoint import ModelFromCheckpoint

        with only_apply_persistent_modifiers(persistent_only=True):
            return next(iter(ModelFromCheckpoint(path).values()))


def _load_torchscript(path):
    import torch

    return torch.jit.load(path, map_location="cpu")


def _load_training(path):
    """The modules of a training by nequip 0.5 or 0.6, which only these versions can build, with forces and stresses
    whatever its purpose."""
    nequip = import_nequip()
    if not nequip.__version__.startswith(("0.5.", "0.6.")):
        raise EquiError(
            "its modules are those of nequip 0.5 and 0.6: name a Python interpreter that has one of these in " "EQUI_PYTHON_NEQUIP"
        )
    import torch

    from nequip.model import model_from_config
    from nequip.utils import Config

    path, configuration = training_files(Path(path))
    state = torch.load(path, map_location="cpu", weights_only=True)
    config = {key: value for key, value in yaml_options(configuration).items() if value is not None}
    for key in ("scales", "shifts"):
        config[f"per_species_rescale_{key}"] = 1.0 if any(name.endswith(f"_rescale.{key}") for name in state) else None
    builders = [name for name in config["model_builders"] if name in BUILDERS]
    last = [name for name in builders if name == "RescaleEnergyEtc"]
    config["model_builders"] = [*(name for name in builders if name not in last), "StressForceOutput", *last]
    model = model_from_config(Config.from_dict(config), initialize=False)
    prefix, own = (_prefix_of_energy(names) for names in (state, model.state_dict()))
    with torch.no_grad():
        named = dict([*model.named_parameters(), *model.named_buffers()])
        for name, tensor in state.items():
            place = own + name.removeprefix(prefix) if name.startswith(prefix) else name
            if tensor.numel():
                named[place].copy_(tensor)
    return model


def _prefix_of_energy(names):
    end = FIRST
    return next(name.removesuffix(end) for name in names if name.endswith(end))


LOADERS = {
    "package": _load_package, "checkpoint": _load_lightning, "torchscript": _load_torchscript, "legacy": _load_torchscript,
    "training": _load_training,
}  # fmt: skip


def modules_of(checkpoint):
    """The file's own modules, as its users run them: this runs the code of the file."""
    nequip = import_nequip()
    try:
        with quiet():
            model = LOADERS[checkpoint.kind](str(checkpoint.path)).eval()
    except EquiError as error:
        raise EquiError(f"{checkpoint.source}: {error}") from error
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise EquiError(f"{checkpoint.source}: nequip {nequip.__version__} cannot read it: {type(error).__name__}: {first}") from error
    if checkpoint.kind == "package" and hasattr(model.model, "do_derivatives"):
        # A model of energies only has the same modules.
        model.model.do_derivatives = True
    return model


def build(config):
    """nequip's or allegro's modules in float64 for these options; their numbers are still to be filled in."""
    with nequip_state():
        if "radial_chemical_embed" in config:
            with importing("Allegro's own results need the package allegro: pip install nequip-allegro"):
                from allegro.model.allegro_models import FullAllegroModel as builder
        else:
            from nequip.model.nequip_models import FullNequIPGNNModel as builder

        return builder(seed=0, model_dtype="float64", **config)


def _in_float64(checkpoint):
    """The framework's modules with the numbers of the file and exact couplings of our signs. A path trained with the
    other coupling has its sign on its weights."""
    import torch

    model = build(checkpoint.config)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if name in checkpoint.state:
                tensor.copy_(torch.tensor(np.array(checkpoint.state[name])))
        if isinstance(checkpoint, AllegroCheckpoint):
            for product, signs in zip(model.model.func.allegro.tps, checkpoint.path_signs):
                product.weights.mul_(torch.tensor(signs if len(signs) > 1 else signs[0], dtype=torch.float64))
            return model.eval()
        for layer, signs in zip(convnets(model), checkpoint.path_signs):
            product = tensor_product(layer.conv)
            mul = [m for m in (product.irreps_in1[path[0]].mul for path in product.instructions) if m]
            columns = np.repeat(np.array(signs, float), mul)
            [weight for _, weight in layer.conv.edge_mlp.named_parameters()][-1].mul_(torch.from_numpy(columns))
    return model.eval()


def _legacy_in_float64(original):
    """The modules of an old file in float64 with exact couplings, whose signs are those of the file."""
    import torch

    model = copy.deepcopy(original).double()
    if hasattr(model, "model_dtype"):
        model.model_dtype = torch.float64
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            coupled = re.search(r"_w3j_(\d+)_(\d+)_(\d+)$", name)
            if coupled:
                ls = tuple(map(int, coupled.groups()))
                sign = sign_of_coupling(buffer.numpy(), *ls, name, "float32")
                buffer.copy_(sign * torch.tensor(np.array(coupling(*ls))))
    return model


class NequIPModules(Oracle):
    """nequip's calculator for a tree of its modules, with chemical symbols for the types of the model."""

    def __init__(self, model, checkpoint):
        super().__init__()
        self.elements = checkpoint.elements
        self.cutoff = checkpoint.cutoff
        with nequip_state():
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
        import torch

        # TorchScript's profiling costs more than it saves in a handful of evaluations.
        with nequip_state(), torch.jit.optimized_execution(False):
            self.calculator.calculate(atoms)
        found = self.calculator.results
        stress = np.asarray(found["stress"]) if "stress" in found else None
        self.set_results(float(found["energy"]), np.asarray(found["forces"]), found["energies"], stress)


class LegacyModules(Oracle):
    """A model of nequip 0.6 or older as ASE calculator."""

    def __init__(self, model, checkpoint):
        super().__init__()
        self.model, self.elements, self.cutoff = model, checkpoint.elements, checkpoint.cutoff
        self.dtype = next(model.parameters()).dtype

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        import torch
        from ase.neighborlist import neighbor_list

        atoms = self.atoms
        i, j, shift = neighbor_list("ijS", atoms, self.cutoff, self_interaction=False)
        cell = atoms.cell.complete().array
        data = {
            "pos": torch.tensor(atoms.positions, dtype=self.dtype),
            "edge_index": torch.tensor(np.stack([i, j]), dtype=torch.long),
            "edge_cell_shift": torch.tensor(shift, dtype=self.dtype),
            "cell": torch.tensor(cell, dtype=self.dtype),
            "atom_types": torch.tensor([[self.elements.index(s)] for s in atoms.get_chemical_symbols()]),
        }
        # TorchScript's profiling costs more than it saves in a handful of evaluations.
        with torch.jit.optimized_execution(False):
            out = self.model(data)
        found = {key: value.detach().double().numpy() for key, value in out.items() if key not in data}
        energy, forces = float(found["total_energy"].reshape(())), found["forces"].reshape(-1, 3)
        virial = found["stress"].reshape(3, 3) * atoms.cell.volume if "stress" in found else None
        self.set_results(energy, forces, found["atomic_energy"], virial=virial)


def _calculator(model, checkpoint):
    return (LegacyModules if isinstance(checkpoint, LegacyCheckpoint) else NequIPModules)(model, checkpoint)


def float64_calculator(source, choice=None, types=None):
    """ASE calculator of a source (file or loaded Checkpoint) in float64 with exact coupling coefficients."""
    checkpoint = loaded(source, lambda path: load(path, types=types))
    original = modules_of(checkpoint)
    model = _legacy_in_float64(original) if isinstance(checkpoint, LegacyCheckpoint) else _in_float64(checkpoint)
    calculator = _calculator(model, checkpoint)
    _agree(calculator, _calculator(original, checkpoint), checkpoint.source)
    return calculator


def framework_calculator(source, choice=None, types=None):
    """The file's own modules in its own precision, as its users run them."""
    checkpoint = loaded(source, lambda path: load(path, types=types))
    return _calculator(modules_of(checkpoint), checkpoint)


def _agree(built, original, source):
    """Refuses a file whose own modules compute something else than those built from its options and numbers."""
    for name, atoms in self_check.structures(built.elements, built.cutoff):
        forces = []
        for calculator in (built, original):
            atoms.calc = calculator
            try:
                with quiet():
                    forces.append(atoms.get_forces())
            except Exception as error:
                raise EquiError(
                    f"{source}: its own modules do not run here, so nothing can be checked: "
                    f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                ) from error
        if not np.abs(forces[0] - forces[1]).max() <= FLOAT32_ERROR * max(1.0, np.abs(forces[0]).max()):
            raise EquiError(f"{source}: its own modules give other forces than its options and numbers do ({name})")
