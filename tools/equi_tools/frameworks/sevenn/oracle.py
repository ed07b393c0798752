# SPDX-License-Identifier: MIT
"""SevenNet's own modules as ASE calculators: the accuracy oracle of tests and of `equi compare`."""

import copy
import logging
import re

import numpy as np
from ase.calculators.calculator import all_changes

from ...coupling import coupling
from ...errors import EquiError
from ..common.oracle import Oracle, importing, loaded, quiet
from . import checkpoint as sevenn_checkpoint


def import_sevenn():
    """The package, with its import noise silenced."""
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)
    # Importing sevenn raises a ValueError if e3nn is too old.
    with importing("SevenNet's own results need the package sevenn: pip install sevenn", (ImportError, ValueError)):
        import sevenn
        import sevenn.model_build
    return sevenn


def build(config):
    """sevenn's modules of a complete configuration, with random numbers."""
    import_sevenn()
    from sevenn.model_build import build_E3_equivariant_model

    with quiet():
        return build_E3_equivariant_model(copy.deepcopy(config)).eval()


def modules_of(checkpoint):
    """sevenn's modules, before the numbers of the checkpoint are loaded."""
    import_sevenn()
    with quiet():
        try:
            from sevenn.checkpoint import _config_cp_routine

            config = _config_cp_routine(copy.deepcopy(checkpoint.stored_config))
            # The accelerated back ends compute the same function from the same numbers.
            config.update(cuequivariance_config={}, use_flash_tp=False, use_oeq=False)
            return build(config)
        except Exception as error:
            raise EquiError(f"{checkpoint.source}: sevenn cannot build its model: {type(error).__name__}: {error}") from error


class Float64Calculator(Oracle):
    """The framework's modules and its graph in float64.

    The coupling coefficients are exact, not the rounded buffers of the file. If a path was trained with the other sign
    of its coupling, its radial weights have this sign instead.
    """

    def __init__(self, checkpoint, modality=None):
        super().__init__()
        import torch

        from sevenn import _keys as KEY

        checkpoint.modality_index(modality)
        self.modality = modality
        self.elements = checkpoint.elements
        self.cutoff = checkpoint.config["cutoff"]
        model = modules_of(checkpoint).double()
        state = model.state_dict()
        for name in state:
            coupled = re.search(r"_w3j_(\d+)_(\d+)_(\d+)$", name)
            if coupled:
                state[name] = torch.tensor(np.array(coupling(*map(int, coupled.groups()))))
        for name, numbers in checkpoint.state.items():
            state[name] = torch.tensor(np.asarray(numbers, np.float64)).reshape(state[name].shape)
        for t, signs in enumerate(checkpoint.path_signs):
            module = model._modules[f"{t}_convolution"]
            irreps_in = module.convolution_kwargs["irreps_in1"]
            muls = [irreps_in[path[0]].mul for path in module.convolution_kwargs["instructions"]]
            columns = np.repeat(np.array(signs, float), muls)
            key = f"{t}_convolution.weight_nn.layer{len(module.weight_nn.hs) - 2}.weight"
            state[key] = state[key] * torch.from_numpy(columns)
        model.load_state_dict(state, strict=True)

        def to_double(module, inputs, data):
            # The framework uses float32 for the one-hot encoding, whatever the dtype of the model.
            for key in (module.key_output, module.key_additional_output):
                if key is not None:
                    data[key] = data[key].double()
            return data

        model._modules["onehot_idx_to_onehot"].register_forward_hook(to_double)
        model.set_is_batch_data(False)
        model.eval()
        self.model = model
        self.keys = KEY

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        import torch

        from sevenn.atom_graph_data import AtomGraphData
        from sevenn.train.dataload import unlabeled_atoms_to_graph

        KEY, atoms = self.keys, self.atoms
        graph = unlabeled_atoms_to_graph(atoms, self.cutoff, with_shift=False)
        data = AtomGraphData(**{k: torch.as_tensor(v) for k, v in graph.items() if k != KEY.INFO})
        data[KEY.EDGE_VEC] = data[KEY.EDGE_VEC].double()
        if self.modality is not None:
            data[KEY.DATA_MODALITY] = self.modality
        out = self.model(data)
        forces = np.zeros((len(atoms), 3))
        stress = np.zeros(6)
        if graph[KEY.EDGE_IDX].shape[1] > 0:
            forces = out[KEY.PRED_FORCE].detach().numpy()
            # The framework writes minus dE/dstrain / volume in the order xx yy zz xy yz zx.
            stress = -out[KEY.PRED_STRESS].detach().numpy().reshape(6)[[0, 1, 2, 4, 5, 3]]
        energy = out[KEY.PRED_TOTAL_ENERGY].item()
        self.set_results(energy, forces, out[KEY.ATOMIC_ENERGY].detach().numpy(), stress)


def float64_calculator(source, modality=None):
    """ASE calculator of a source (name, file or loaded Checkpoint) in float64 with exact coupling coefficients."""
    return Float64Calculator(loaded(source, sevenn_checkpoint.load), modality)


def framework_calculator(source, modality=None):
    """sevenn's own float32 calculator, as its users run it."""
    import_sevenn()
    from sevenn.calculator import SevenNetCalculator

    if isinstance(source, sevenn_checkpoint.Checkpoint):
        source = source.source
    path, _, _ = sevenn_checkpoint.resolve(source)
    with quiet():
        try:
            return SevenNetCalculator(str(path), modal=modality, device="cpu")
        except ValueError as error:
            raise EquiError(f"{source}: {error}") from error
