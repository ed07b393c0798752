# SPDX-License-Identifier: MIT
"""How charge, spin, task and composition of a system enter eSEN and UMA models: by a vector that is added to the
scalars, and by matrices that are mixed from those of experts.

`describe` writes the field `mixture` of an .equi file for all systems (doc/model_file.rst). The pair style makes a
model from it when a run starts. `merge` makes the file for one system from it, in float64.
"""

import numpy as np

from ...errors import EquiError
from ...printable import printable
from ..common.numbers import activate, mixed, softmax

CHARGES, SPINS = (-100, 100), (0, 100)
# fairchem adds this to each coefficient of the softmax.
LEAST_COEFFICIENT = 0.005


def formula_counts(text):
    """Numbers of atoms by symbol of a formula like NaCl or Na108Cl108."""
    from ase.formula import Formula

    try:
        counts = Formula(text).count()
    except Exception as error:  # ase raises several kinds
        raise EquiError(f"--composition {printable(text, 60)}: expected a chemical formula such as NaCl or Li6PS5Cl") from error
    if not counts or any(n < 1 for n in counts.values()):
        raise EquiError(f"--composition {printable(text, 60)}: expected a chemical formula such as NaCl or Li6PS5Cl")
    divisor = int(np.gcd.reduce(list(counts.values())))
    return {symbol: n // divisor for symbol, n in counts.items()}


def composition_of(checkpoint):
    """Numbers of atoms by symbol of the formula that the user named for a model that depends on it; None for other
    models."""
    if checkpoint.composition is None:
        return None
    counts = formula_counts(checkpoint.composition)
    unknown = [symbol for symbol in counts if symbol not in checkpoint.elements]
    if unknown:
        raise EquiError(f"--composition {checkpoint.composition}: the model does not know {', '.join(unknown)}")
    return counts


def _numbers(state, options, name, limits):
    """[numbers, channels]: the embeddings of all charges or spins."""
    width, prefix, count = options["sphere_channels"], f"backbone.{name}_embedding", limits[1] - limits[0] + 1
    if options["chg_spin_emb_type"] == "rand_emb":
        return state.take(f"{prefix}.rand_emb.weight", count, width)
    if width % 2:
        raise EquiError(f"sphere_channels {width}: embeddings of charge and spin have even numbers of channels")
    numbers = np.arange(limits[0], limits[1] + 1)
    angles = 2 * np.pi * numbers[:, None] * state.take(f"{prefix}.W", width // 2).astype(np.float64)
    rows = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    if name == "spin":
        rows[numbers == 0] = 0.0  # a spin of zero means that none is given
    return rows


def describe(checkpoint, state, tasks, numbers, table):
    """The field `mixture` without its `tensors`, for the names of `tasks` and the atomic `numbers` of the elements.
    Adds its tensors to `table`."""
    options = checkpoint.options
    width = options["sphere_channels"]
    embedding = {
        name: {"rows": table.add(f"system.{name}", _numbers(state, options, name, limits)), "first": limits[0]}
        for name, limits in (("charge", CHARGES), ("spin", SPINS))
    }
    if options["use_dataset_embedding"]:
        mapping = checkpoint.datasets()
        for task in tasks:
            if task not in mapping:
                raise EquiError(f"task {task} has no embedding; the model has those of {', '.join(mapping)}")
        names = [f"backbone.dataset_embedding.dataset_emb_dict.{mapping[task]}.weight" for task in tasks]
        embedding["task"] = table.add("system.task", np.concatenate([state.take(name, 1, width) for name in names]))

    def layer(name, out, width_in):
        matrix, bias = state.take(f"{name}.weight", out, width_in), state.take(f"{name}.bias", out)
        return {"weight": table.add(f"{name}.weight", matrix.T), "bias": table.add(f"{name}.bias", bias)}

    embedding |= layer("backbone.mix_csd", width, len(embedding) * width)
    mixture = {"tasks": [{"name": task, "spin": checkpoint.usual_spin(task)} for task in tasks], "embedding": embedding}
    if not checkpoint.num_experts:
        return mixture
    experts, width_in = {"least": LEAST_COEFFICIENT}, width
    if options["use_composition_embedding"]:
        rows = state.take("backbone.composition_embedding.weight", options["max_num_elements"], width)
        if checkpoint.extra_atoms:
            experts["extra_atoms"] = checkpoint.extra_atoms
        experts["composition"] = table.add("backbone.composition_embedding.weight", rows[numbers])
        width_in += width
    widths = [width_in, 2 * checkpoint.num_experts, 2 * checkpoint.num_experts, checkpoint.num_experts]
    layers = [layer(f"backbone.routing_mlp.{n}", widths[k + 1], widths[k]) for k, n in enumerate((0, 2, 4))]
    experts |= {"weights": [one["weight"] for one in layers], "biases": [one["bias"] for one in layers]}
    return mixture | {"experts": experts}


def _embedding(field, row, charge, spin, number):
    """[channels]: the vector that is added to the scalars of all atoms."""
    rows = [number(field[name]["rows"])[value - field[name]["first"]] for name, value in (("charge", charge), ("spin", spin))]
    if "task" in field:
        rows.append(number(field["task"])[row])
    return activate("silu", np.concatenate(rows) @ number(field["weight"]) + number(field["bias"]))


def _coefficients(field, embedding, counts, number):
    """[experts]: the softmax of a network of composition and embedding, plus a constant."""
    x = embedding
    if "composition" in field:
        fractions = np.array(counts, float) / (sum(counts) + field.get("extra_atoms", 0))
        x = np.concatenate([fractions @ number(field["composition"]), x])
    for weight, bias in zip(field["weights"], field["biases"]):
        x = activate("silu", x @ number(weight) + number(bias))
    return softmax(x) + field["least"]


def merge(body, tensors, task, charge, spin, counts=None):
    """(body, tensors) of a file for one system, made from those of a file for all. counts: atoms by symbol, of all
    elements of the body."""
    used = set()

    def number(name):
        used.add(name)
        return np.asarray(tensors[name], np.float64)

    body = dict(body)
    mixture = body.pop("mixture")
    row = [entry["name"] for entry in mixture["tasks"]].index(task)
    embedding = _embedding(mixture["embedding"], row, charge, spin, number)
    coefficients = None
    if "experts" in mixture:
        atoms = None if counts is None else [counts[symbol] for symbol in body["elements"]]
        coefficients = _coefficients(mixture["experts"], embedding, atoms, number)
        if atoms is not None:
            body["composition"] = dict(zip(body["elements"], atoms))
    made = {name: tensor for name, tensor in tensors.items() if name not in used}
    for name, kind in mixture["tensors"].items():
        if kind == "task":
            made[name] = tensors[name][row]
        elif kind == "embedding":
            made[name] = tensors[name] + embedding
        elif kind in ("charge", "spin"):
            made[name] = tensors[name] * float(charge if kind == "charge" else spin - 1)
        else:
            made[name] = mixed(coefficients, tensors[name])
    return body, made
