# SPDX-License-Identifier: MIT
"""Makes checkpoints with the installed version of sevenn, in float64, and stores the results of its own modules.

`python made_by_sevenn.py DIR` writes DIR/NAME.pth and DIR/NAME.npz for each of sevenn_models.VARIANTS that the version
can build, and DIR/left_out.json with the reasons for the others.
"""

import inspect
import json
import sys
import warnings
from pathlib import Path

import old_versions
import tensornet_laws as laws
import torch
from ase.calculators.calculator import all_changes
from equi_tools.frameworks.common.oracle import Oracle
from equi_tools.frameworks.sevenn import checkpoint as sevenn_checkpoint
from equi_tools.frameworks.sevenn import oracle as sevenn_oracle
from test_models import sevenn as sevenn_models

# In random models the factors between its features and the energy are zero to rounding.
WITHOUT_FORCES = ("odd_scalars_only",)


def own_options(options):
    """The options of a variant for the version's builder; raises KeyError for an option that the builder does not
    know."""
    from sevenn import _const, _keys

    known = {value for value in vars(_keys).values() if isinstance(value, str)}
    known |= set(_const.DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG)
    unknown = [key for key in options if key not in known and key not in ("elements", "modalities")]
    if options.get("modalities") and "use_modality" not in known:
        unknown.append("use_modality")
    if unknown:
        raise KeyError(f"option {unknown[0]}")
    if hasattr(_keys, "USE_SPECIES_WISE_SHIFT_SCALE"):
        options = {"use_species_wise_shift_scale": "shift" not in options} | options
    return options


def has_shift_option():
    """Whether vectors of edges are those of the graph, as they are since 0.10."""
    from sevenn.train.dataload import unlabeled_atoms_to_graph

    return "with_shift" in inspect.signature(unlabeled_atoms_to_graph).parameters


class Modules(Oracle):
    """The version's modules in float64 on the version's own graphs."""

    implemented_properties = ["energy", "forces", "stress"]

    def __init__(self, model, checkpoint, modality):
        super().__init__()
        self.model, self.modality = model, modality
        self.elements, self.cutoff = checkpoint.elements, checkpoint.config["cutoff"]

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        from sevenn import _keys as KEY
        from sevenn.atom_graph_data import AtomGraphData
        from sevenn.train.dataload import unlabeled_atoms_to_graph

        words = {"with_shift": False} if has_shift_option() else {}
        graph = unlabeled_atoms_to_graph(self.atoms, self.cutoff, **words)
        graph = graph if isinstance(graph, dict) else graph.to_dict()
        data = AtomGraphData(**{key: torch.as_tensor(value) for key, value in graph.items() if key != getattr(KEY, "INFO", "data_info")})
        for key, value in data.to_dict().items():
            if torch.is_tensor(value) and value.is_floating_point():
                data[key] = value.double()
        if not words:
            # Older versions computed vectors within the model, from cells and shifts, and looked up species outside
            # it.
            species = [self.model.type_map[int(number)] for number in self.atoms.numbers]
            data[KEY.NODE_FEATURE] = torch.tensor(species)
            data[KEY.CELL_SHIFT] = data[KEY.CELL_SHIFT].double()
            data[KEY.BATCH] = torch.zeros(len(self.atoms), dtype=torch.long)
            data[KEY.POS].requires_grad_(True)
        if self.modality is not None:
            data[KEY.DATA_MODALITY] = self.modality
        out = self.model(data)
        self.results = {"energy": out[KEY.PRED_TOTAL_ENERGY].item(), "forces": out[KEY.PRED_FORCE].detach().numpy()}
        if self.atoms.pbc.all():
            self.results["stress"] = -out[KEY.PRED_STRESS].detach().numpy().reshape(6)[[0, 1, 2, 4, 5, 3]]


def in_double(module, inputs, data):
    """The one-hot encoding is float32, whatever the dtype of the model."""
    for key, value in data.to_dict().items():
        if torch.is_tensor(value) and value.dtype == torch.float32:
            data[key] = value.double()
    return data


def make(name, folder):
    options = own_options(sevenn_models.VARIANTS[name])
    source = sevenn_models.make_checkpoint(folder / f"{name}.pth", **options)
    raw = torch.load(source, weights_only=False)
    model = sevenn_oracle.build(raw["config"])
    model.load_state_dict(raw["model_state_dict"])
    for key, module in model._modules.items():
        if "onehot_idx" in key:
            module.register_forward_hook(in_double)
    (model.set_is_batch_data if hasattr(model, "set_is_batch_data") else lambda _: None)(False)
    checkpoint = sevenn_checkpoint.load(source)
    modality = sevenn_models.modality_of(name)
    calculator = Modules(model.eval(), checkpoint, modality)
    # sevenn sees no atoms without neighbors. Before 0.10 the volume of a left-handed cell was negative.
    named = [(title, atoms) for title, atoms in laws.structures(checkpoint.elements, calculator.cutoff)
             if not old_versions.is_single(atoms) and title != "one_of_three_lonely"]  # fmt: skip
    old_versions.store(
        folder / f"{name}.npz", calculator, named, lambda atoms: atoms.pbc.all() and (atoms.cell.handedness > 0 or has_shift_option())
    )


def main(folder):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    left_out = {}
    for name in set(sevenn_models.VARIANTS) - set(WITHOUT_FORCES):
        try:
            make(name, Path(folder))
        except (KeyError, ValueError, NotImplementedError) as error:
            left_out[name] = f"{type(error).__name__}: {error}"
    Path(folder, "left_out.json").write_text(json.dumps(left_out))


if __name__ == "__main__":
    main(sys.argv[1])
