# SPDX-License-Identifier: MIT
"""What the readers of NequIP files return."""

from dataclasses import dataclass

from ...errors import EquiError
from ..common.origin import Origin
from . import model as nequip_model


@dataclass
class Checkpoint(Origin):
    kind: str  # package, checkpoint or torchscript; for nequip 0.6 and older legacy (TorchScript) or training
    type_names: list  # of the model
    elements: list  # chemical symbols by species index
    config: dict  # options of nequip's FullNequIPGNNModel, or of allegro's FullAllegroModel
    state: dict  # name -> array in the dtype of the training
    path_signs: list  # per layer: list of +1 or -1 per path in nequip's order, stored coupling relative to ours
    stages: dict  # modules of the energy model by name, as nequip builds them

    @property
    def cutoff(self):
        return self.config["r_max"]

    @property
    def num_layers(self):
        return len(self.config["feature_irreps_hidden"])

    @property
    def stated_unit(self):
        """The unit of energies, which only a pair potential knows."""
        if "pair_potential" not in self.stages:
            return "eV"
        return nequip_model.ZBL_UNITS[nequip_model.units_of_zbl(self.half_qqr)][0]

    @property
    def half_qqr(self):
        """Half of the square of the elementary charge of the pair potential."""
        return float(self.state["model.func.pair_potential._qqr2exesquare"])


class AllegroCheckpoint(Checkpoint):
    """The same for Allegro."""

    @property
    def num_layers(self):
        return self.config["num_layers"]


def elements_of(type_names, types, zbl):
    """Chemical symbol of each type: by `types`, by its name, or by the pair potential's species."""
    from ase.data import chemical_symbols

    types = dict(types or {})
    unknown = [name for name in types if name not in type_names]
    if unknown:
        raise EquiError(f"--types: no type {', '.join(unknown)} in the model, only {', '.join(type_names)}")
    elements = []
    for n, name in enumerate(type_names):
        symbol = types.get(name, name)
        if symbol not in chemical_symbols[1:] and name not in types and zbl:
            symbol = zbl["chemical_species"][n]
        if symbol not in chemical_symbols[1:]:
            if name in types:
                raise EquiError(f"--types: {symbol} is not a chemical symbol")
            raise EquiError(f"type {name} is not a chemical symbol: say what it stands for with --types {name}=ELEMENT")
        elements.append(symbol)
    twice = sorted({e for e in elements if elements.count(e) > 1})
    if twice:
        names = [n for n, e in zip(type_names, elements) if e == twice[0]]
        raise EquiError(f"types {', '.join(names)} all stand for {twice[0]}: one type per element is supported")
    return elements


@dataclass
class LegacyCheckpoint(Checkpoint):
    """Like its base, but `config` holds only r_max and per_edge_type_cutoff, and `stages` are modules of the file."""

    scale_by: float = 1.0

    @property
    def num_layers(self):
        return sum(name.endswith("_convnet") for name in self.stages)

    @property
    def half_qqr(self):
        # The modules have it divided by the scale of the whole model.
        return self.scale_by * float(self.state["pair_potential._qqr2exesquare"])
