# SPDX-License-Identifier: MIT
"""Makes checkpoints with the version of sevenn that is installed, in float64, and stores what its own modules compute for them.

`python made_by_sevenn.py DIR` writes DIR/NAME.pth and DIR/NAME.npz for each of testing.VARIANTS that the version can build, and
DIR/left_out.json with the reasons for the others.
"""

import inspect
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import old_versions
import tensornet_laws as laws
import torch
from ase.calculators.calculator import all_changes
from equi_tools import testing
from equi_tools.frameworks import sevenn_checkpoint, sevenn_oracle
from equi_tools.frameworks.oracle import Oracle

CUTOFF = 4.2


def own_options(options):
    """Those of a variant as the version's builder takes them; raises KeyError for one that it does not know."""
    from sevenn import _const, _keys

    known = {value for value in vars(_keys).values() if isinstance(value, str)}
    known |= set(_const.DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG)
    unknown = [key for key in options if key not in known and key not in ("elements", "modalities")]
    if options.get("modalities") and "use_modality" not in known:
        unknown.append("use_modality")
    if unknown:
        raise KeyError(f"option {unknown[0]}")
    return options


class Modules(Oracle):
    """The version's modules in float64 on the version's own graphs."""

    implemented_properties = ["energy", "forces", "stress"]

    def __init__(self, model, elements, modality):
        super().__init__()
        self.model, self.elements, self.modality = model, elements, modality

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        from sevenn import _keys as KEY
        from sevenn.atom_graph_data import AtomGraphData
        from sevenn.train.dataload import unlabeled_atoms_to_graph

        words = {"with_shift": False} if "with_shift" in inspect.signature(unlabeled_atoms_to_graph).parameters else {}
        graph = unlabeled_atoms_to_graph(self.atoms, CUTOFF, **words)
        graph = graph if isinstance(graph, dict) else graph.to_dict()
        data = AtomGraphData(**{key: torch.as_tensor(value) for key, value in graph.items() if key != getattr(KEY, "INFO", "data_info")})
        for key, value in data.to_dict().items():
            if torch.is_tensor(value) and value.is_floating_point():
                data[key] = value.double()
        if self.modality is not None:
            data[KEY.DATA_MODALITY] = self.modality
        out = self.model(data)
        self.results = {"energy": out[KEY.PRED_TOTAL_ENERGY].item(), "forces": out[KEY.PRED_FORCE].detach().numpy()}
        if self.atoms.pbc.all():
            self.results["stress"] = -out[KEY.PRED_STRESS].detach().numpy().reshape(6)[[0, 1, 2, 4, 5, 3]]


def in_double(module, inputs, data):
    """The one-hot encoding is float32 whatever the dtype of the model."""
    for key, value in data.to_dict().items():
        if torch.is_tensor(value) and value.dtype == torch.float32:
            data[key] = value.double()
    return data


def make(name, folder):
    options = own_options(testing.VARIANTS[name])
    source = testing.make_checkpoint(folder / f"{name}.pth", **options)
    raw = torch.load(source, weights_only=False)
    model = sevenn_oracle.build(raw["config"])
    model.load_state_dict(raw["model_state_dict"])
    for key, module in model._modules.items():
        if "onehot_idx" in key:
            module.register_forward_hook(in_double)
    (model.set_is_batch_data if hasattr(model, "set_is_batch_data") else lambda _: None)(False)
    checkpoint = sevenn_checkpoint.load(source)
    modality = testing.modality_of(name)
    calculator = Modules(model.eval(), checkpoint.elements, modality)
    computed = {}
    for title, atoms in laws.structures(checkpoint.elements, CUTOFF):
        # sevenn sees no atoms without neighbors.
        if len(atoms) == 1 and not atoms.pbc.any() or title == "one_of_three_lonely":
            continue
        atoms.calc = calculator
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        computed[title] = atoms, energy, forces, atoms.get_stress() if atoms.pbc.all() else None
    old_versions.store(folder / f"{name}.npz", computed)


def main(folder):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    left_out = {}
    for name in testing.VARIANTS:
        try:
            make(name, Path(folder))
        except (KeyError, ValueError, NotImplementedError) as error:
            left_out[name] = f"{type(error).__name__}: {error}"
    Path(folder, "left_out.json").write_text(json.dumps(left_out))


if __name__ == "__main__":
    main(sys.argv[1])
