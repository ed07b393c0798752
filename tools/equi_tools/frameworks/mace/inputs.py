# SPDX-License-Identifier: MIT
"""The numbers of a whole system that a MACE model may read (`embedding_specs`): total charge, total spin, temperature,
or others. They add one vector to the first features of all atoms and, with an `embedding_readout`, an energy to each
atom.

`describe` writes them as the field `mixture` of a file for all systems (doc/model_file.rst), from which the pair style
computes vector and energies when a run starts. `fixed` computes them here, in the order of the pair style's sums.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...errors import EquiError
from ...printable import printable

# What the inputs of these names are, and their numbers if the user of mace states none. All others are 0 then.
MEANINGS = {"total_charge": "charge", "total_spin": "spin"}
USUAL = {"total_spin": 1.0}
KNOWN = {"type", "per", "key", "emb_dim", "num_classes", "offset", "in_dim", "use_bias"}
# The bounds of the pair style (src/base/model_limits.h).
MAX_INPUTS, LARGEST = 64, 10**6


@dataclass(frozen=True)
class Input:
    name: str
    is_categorical: bool
    first: int  # the number of the first row of the table, if it is categorical
    count: int  # and the number of rows

    @property
    def meaning(self):
        return MEANINGS.get(self.name, "other")

    @property
    def usual(self):
        return USUAL.get(self.name, 0.0)

    @property
    def option(self):
        return f"--{self.meaning}" if self.meaning != "other" else f"--system {self.name}=VALUE"

    def check(self, value):
        """Refuses a number that the model does not know."""
        where = f"{self.name} {value:g}"
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise EquiError(f"{where}: expected a number of at most {LARGEST}")
        if self.is_categorical and value != math.floor(value):
            raise EquiError(f"{where}: the model knows only whole numbers (mace itself would cut off the fraction)")
        last = self.first + self.count - 1
        if self.is_categorical and not self.first <= value <= last:
            raise EquiError(f"{where}: the model knows those from {self.first} to {last}")


# The net charge of AtomicDielectricMACE, whose numbers have no range.
NET_CHARGE = Input("total_charge", False, 0, 0)


def read(model):
    """The list of Input of a model, in the order of its embedding; refuses by name what is not supported."""
    children = dict(model.named_children())
    specs = getattr(model, "embedding_specs", None) or {}
    if "joint_embedding" not in children:
        if specs:
            raise EquiError(f"embedding_specs: the model states inputs ({', '.join(map(str, specs))}), and has no joint_embedding")
        return []
    if model.is_script:
        raise EquiError(
            "joint_embedding: TorchScript does not show which inputs of the whole system the model reads: give the .model file"
        )
    embedding = children["joint_embedding"]
    if embedding.class_name != "GenericJointEmbedding":
        raise EquiError(f"joint_embedding: {embedding.class_name} is not supported, only GenericJointEmbedding")
    ordered = getattr(embedding, "specs", None)
    if not isinstance(ordered, dict) or set(ordered) != set(specs) or not ordered or len(ordered) > MAX_INPUTS:
        raise EquiError(f"embedding_specs: expected a dictionary of up to {MAX_INPUTS} inputs, the same as that of joint_embedding")
    heads = len(list(getattr(model, "heads", None) or ["Default"]))
    if "embedding_readout" in children and model.class_name != "ScaleShiftMACE" and heads > 1:
        raise EquiError(
            f"embedding_readout: mace itself fails for the class {model.class_name} with several heads; only ScaleShiftMACE has both"
        )
    return [_read_input(printable(str(name), 60), spec) for name, spec in ordered.items()]


def _read_input(name, spec):
    where = f"embedding_specs.{name}"
    if not isinstance(spec, dict) or not {"type", "per", "emb_dim"} <= set(spec):
        raise EquiError(f"{where}: expected type, per and emb_dim")
    unknown = sorted(map(str, set(spec) - KNOWN))
    if unknown:
        raise EquiError(f"{where}: {', '.join(unknown)} is not known")
    if not name or set(name) & set(" \t\n$&#\"'=,"):
        raise EquiError(f"{where}: the name has characters that a keyword of pair_style cannot have")
    if spec["per"] != "graph":
        raise EquiError(
            f"{where}: an input per {spec['per']} is not supported, only those of the whole system (per graph): "
            "a LAMMPS pair style has no such property of atoms"
        )
    if spec["type"] == "continuous":
        if int(spec.get("in_dim", 0)) != 1:
            raise EquiError(f"{where}: in_dim {spec.get('in_dim')} per graph is not supported, only 1 (mace itself fails for others)")
        return Input(name, False, 0, 0)
    if spec["type"] != "categorical":
        raise EquiError(f"{where}: type {spec['type']} is not supported, only categorical and continuous")
    offset = spec.get("offset", 0)
    if offset != math.floor(offset) or abs(offset) > LARGEST:
        raise EquiError(f"{where}: offset {offset} is not a whole number")
    return Input(name, True, -int(offset), int(spec["num_classes"]))


def values_of(inputs, charge=None, spin=None, system=None):
    """Numbers by name for which a model is converted: None if the user states none, else those and the usual ones.
    Refuses those that the model does not read or know."""
    given = {name: value for name, value in (("charge", charge), ("spin", spin)) if value is not None}
    system = dict(system or {})
    if not given and not system:
        return None
    by_meaning = {one.meaning: one.name for one in inputs if one.meaning != "other"}
    for meaning, value in given.items():
        if meaning not in by_meaning:
            names = ", ".join(one.name for one in inputs) or "no number of the whole system"
            raise EquiError(f"--{meaning}: the model does not depend on it; it reads {names}")
        if by_meaning[meaning] in system:
            raise EquiError(f"--system {by_meaning[meaning]}: it is the {meaning}, which --{meaning} states, too")
        system[by_meaning[meaning]] = value
    unknown = sorted(set(system) - {one.name for one in inputs})
    if unknown:
        names = ", ".join(one.name for one in inputs) or "none"
        raise EquiError(f"--system {printable(unknown[0], 60)}: the model has no such input; it has {names}")
    values = {one.name: float(system.get(one.name, one.usual)) for one in inputs}
    for one in inputs:
        one.check(values[one.name])
    return values


def usual_values(inputs):
    return {one.name: one.usual for one in inputs}


def _tensors(inputs, take):
    """The tensors of the embedding: for each input [rows] or [W_1, W_2, b_1, b_2] with matrices [in, out], and that of
    the projection."""
    found = []
    for one in inputs:
        name = f"joint_embedding.embedders.{one.name}"
        if one.is_categorical:
            rows = take(f"{name}.weight")
            if len(rows) != one.count:
                raise EquiError(f"{name}.weight: {len(rows)} rows, and num_classes is {one.count}")
            found.append([rows])
            continue
        biases = [take(f"{name}.{n}.bias", True) for n in (0, 2)]
        found.append([take(f"{name}.0.weight").T, take(f"{name}.2.weight").T, *[bias for bias in biases if bias is not None]])
    return found, take("joint_embedding.project.0.weight").T


def describe(inputs, take, table, readout=None):
    """The field `inputs` of a mixture. take(name, optional): a tensor of the model, or None; readout: the derivative of
    an atom's energy by its first features [channels], or None."""
    values = []
    tensors, projection = _tensors(inputs, take)
    for one, found in zip(inputs, tensors):
        entry, place = {"name": one.name, "meaning": one.meaning, "usual": one.usual}, f"inputs.{one.name}"
        if one.is_categorical:
            entry |= {"rows": table(f"{place}.rows", found[0]), "first": one.first}
        else:
            entry["weights"] = [table(f"{place}.weight.{n}", matrix) for n, matrix in enumerate(found[:2])]
            if len(found) > 2:
                entry["biases"] = [table(f"{place}.bias.{n}", bias) for n, bias in enumerate(found[2:])]
        values.append(entry)
    field = {"values": values, "weight": table("inputs.weight", projection)}
    return field | ({} if readout is None else {"readout": table("inputs.readout", readout)})


def _silu(x):
    def of(number):
        try:
            return number / (1.0 + math.exp(-number))
        except OverflowError:
            return -0.0

    return np.array([of(float(number)) for number in x])


def _add_product(x, matrix, y):
    """y + x W, one row of W after the other, as the pair style adds them."""
    y = np.array(y, np.float64)
    for number, row in zip(x, np.asarray(matrix, np.float64)):
        y += number * row
    return y


def fixed(inputs, take, values):
    """[channels]: the vector that is added to the first features of all atoms, for numbers by name."""
    x = []
    tensors, projection = _tensors(inputs, take)
    for one, found in zip(inputs, tensors):
        value = values[one.name]
        if one.is_categorical:
            x.extend(np.asarray(found[0][int(value) - one.first], np.float64))
            continue
        first, second, *biases = found
        b1, b2 = biases or (np.zeros(first.shape[1]), np.zeros(second.shape[1]))
        x.extend(_add_product(_silu(_add_product([value], first, b1)), second, b2))
    return _silu(_add_product(x, projection, np.zeros(projection.shape[1])))


def energies_of(rows, readout):
    """[species]: the energy that is read from the first features of each species [species, channels]."""
    energies = []
    for row in rows:
        energy = 0.0
        for r, x in zip(readout, row):
            energy += float(r) * float(x)
        energies.append(energy)
    return np.array(energies)
