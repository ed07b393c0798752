# SPDX-License-Identifier: MIT
"""What the model tool requires of the document of an .equi file (doc/model_file.rst): kinds of values, their ranges,
and the existence of the tensors that are named. The pair style, which evaluates the layers, judges whether they fit
each other.

A rule is a function of a value, its place in the document and the tensors of the file; it raises EquiError.
"""

import json
import re
from pathlib import Path

from ase.data import chemical_symbols

from .errors import EquiError
from .printable import printable

# Bounds of the pair style (src/base/model_limits.h) on what is read or printed here in a time that grows with it.
MAX_MAGNITUDE = 1e30  # any number; float32 must hold it
CUTOFFS = (0.1, 50.0)  # Angstrom
MAX_ELEMENTS = 118
MAX_PROVENANCE = 64
MAX_LAYERS = 1024
LMAX_SUPPORTED = 8  # features and harmonics
MAX_BLOCKS = 2048
MAX_STRUCTURES = 64
MAX_STRUCTURE_ATOMS = 1024

# A block has at least one channel.
IRREPS_BLOCK = re.compile(r" *(?:(?!0+x)[0-9]{1,9}x)?([0-9]{1,3})[eo] *", re.ASCII)


def shown(value):
    """A value of a document in a few words."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return f"'{printable(value, 60)}'"
    return printable(json.dumps(value), 60)


def _fail(where, expected, value):
    raise EquiError(f"{where}: expected {expected}, found {shown(value)}")


def is_number(value):
    """Whether it is a finite number that floats can hold; JSON has integers of any size."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -MAX_MAGNITUDE <= value <= MAX_MAGNITUDE


def number(value, where, tensors=None):
    if not is_number(value):
        _fail(where, "a number", value)


def number_between(low, high):
    def rule(value, where, tensors=None):
        if not is_number(value) or not low <= value <= high:
            _fail(where, f"a number from {low:g} to {high:g}", value)

    return rule


def whole(low=0, high=2**31 - 1):
    def rule(value, where, tensors=None):
        if type(value) is not int or not low <= value <= high:
            _fail(where, f"a whole number from {low} to {high}", value)

    return rule


def flag(value, where, tensors=None):
    if not isinstance(value, bool):
        _fail(where, "true or false", value)


def text(value, where, tensors=None):
    if not isinstance(value, str):
        _fail(where, "text", value)


def one_of(*words):
    def rule(value, where, tensors=None):
        if value not in words:
            _fail(where, " or ".join(f"'{word}'" for word in words), value)

    return rule


def is_chemical_symbol(value):
    """Whether it is the symbol of a chemical element; isotopes and ASE's X are not."""
    return isinstance(value, str) and value in chemical_symbols[1:]


def symbol(value, where, tensors=None):
    if not is_chemical_symbol(value):
        _fail(where, "a chemical symbol", value)


def tensor(value, where, tensors):
    if not isinstance(value, str) or value not in tensors:
        _fail(where, "the name of a tensor in the file", value)


def degrees(irreps):
    """The l of each block of irreps in text, None if the text is not irreps."""
    found = [IRREPS_BLOCK.fullmatch(block) for block in irreps.split("+")]
    return [int(block.group(1)) for block in found] if all(found) else None


def irreps(value, where, tensors=None):
    if isinstance(value, str) and value.count("+") >= MAX_BLOCKS:
        raise EquiError(f"{where}: expected irreps of at most {MAX_BLOCKS} blocks, found {value.count('+') + 1}")
    if not isinstance(value, str) or degrees(value) is None:
        _fail(where, "irreps like 16x0e+8x1o", value)


def nothing_or(rule):
    return lambda value, where, tensors: None if value is None else rule(value, where, tensors)


def list_of(rule, least=0, most=None):
    def check(value, where, tensors):
        if not isinstance(value, list):
            _fail(where, "a list", value)
        if len(value) < least or (most is not None and len(value) > most):
            count = str(least) if least == most else f"{least} or more" if most is None else f"{least} to {most}"
            raise EquiError(f"{where}: expected a list of {count}, found {len(value)}")
        for n, item in enumerate(value):
            rule(item, f"{where}[{n}]", tensors)

    return check


def record(required, optional=None):
    """Checks required and optional keys; ignores others."""
    optional = optional or {}

    def check(value, where, tensors):
        if not isinstance(value, dict):
            _fail(where, "an object", value)
        prefix = f"{where}." if where else ""
        for key, rule in required.items():
            if key not in value:
                raise EquiError(f"{prefix}{key} is missing")
            rule(value[key], prefix + key, tensors)
        for key, rule in optional.items():
            if key in value:
                rule(value[key], prefix + key, tensors)

    return check


def only_keys(keys):
    """Refuses other keys than these: a misspelled option would change the model."""

    def check(value, where):
        for key in value:
            if key not in keys:
                prefix = f"{where}: " if where else ""
                raise EquiError(f"{prefix}expected only the fields {', '.join(keys)}, found '{printable(key, 60)}'")

    return check


def kinds(key, rules):
    """Checks an object whose `key` selects one of the rules."""

    def check(value, where, tensors):
        record({key: one_of(*rules)})(value, where, tensors)
        rules[value[key]](value, where, tensors)

    return check


def text_values(value, where, tensors=None):
    if not isinstance(value, dict):
        _fail(where, "an object", value)
    if len(value) > MAX_PROVENANCE:
        raise EquiError(f"{where}: expected at most {MAX_PROVENANCE} entries, found {len(value)}")
    for key, item in value.items():
        text(item, f"{where}.{printable(key, 60)}")


def counts_of_atoms(value, where, tensors=None):
    """Numbers of atoms of a formula by symbol."""
    if not isinstance(value, dict) or not value:
        _fail(where, "numbers of atoms by chemical symbol", value)
    for key, item in value.items():
        symbol(key, where)
        whole(1, 10**6)(item, f"{where}.{key}")


def kinds_of_tensors(value, where, tensors):
    """What tensors of a mixture depend on, by name."""
    if not isinstance(value, dict):
        _fail(where, "an object", value)
    for key, item in value.items():
        tensor(key, where, tensors)
        one_of("embedding", "experts", "shares", "inputs", "inputs_energy", "task", "charge", "spin", "spin_charges")(item, f"{where}.{printable(key, 60)}", tensors)


CUTOFF_FUNCTION = kinds("kind", {"polynomial": record({"p": number}), "xplor": record({"r_on": number}), "cosine": record({}), "none": record({})})
BASIS = {"cutoff_function": CUTOFF_FUNCTION}
BASIS_OPTIONS = {"transform": record({"kind": text})}
RADIAL_BASIS = kinds(
    "kind",
    {
        "bessel": record(BASIS | {"wave_numbers": tensor}, BASIS_OPTIONS),
        "gaussian": record(BASIS | {"centres": tensor}, BASIS_OPTIONS),
        "chebyshev": record(BASIS | {"size": whole(1)}, BASIS_OPTIONS),
        "exp_normal": record(BASIS | {"means": tensor, "factors": tensor, "decay": number}, BASIS_OPTIONS),
        "bernstein": record(BASIS | {"gamma": number, "log_coefficients": tensor}),
        "cosine_bump": record(BASIS | {"size": whole(1), "span": whole(1)}),
    },
)

def nothing(value, where, tensors=None):
    if value is not None:
        _fail(where, "null", value)


def mark_of(spec):
    """The field that tells an object from other alternatives: the first one, if it is a single word."""
    first = spec["fields"][0] if spec["kind"] == "object" else {}
    return first if len(first.get("words", ())) == 1 else None


def first_that_fits(alternatives):
    """The rule of the first alternative whose kind, or mark, a value has; the last one reports the error."""
    if mark := mark_of(alternatives[0]):
        return kinds(mark["name"], {mark_of(spec)["words"][0]: rule_of(spec) for spec in alternatives})
    types = {"object": dict, "list": list, "null": type(None)}
    rules = [(types.get(spec["kind"], str), rule_of(spec)) for spec in alternatives]

    def check(value, where, tensors):
        next((rule for kind, rule in rules if isinstance(value, kind)), rules[-1][1])(value, where, tensors)

    return check


# Kinds of fields whose rule needs only the kind.
KINDS = {
    "text": text, "activation": text, "irreps": irreps, "tensor": tensor, "boolean": flag, "number": number, "null": nothing,
}  # fmt: skip


def rule_of(spec):
    """The rule of a field by its entry in layer_fields.json (src/document/field_spec.h)."""
    kind = spec["kind"]
    if kind == "integer":
        return whole(spec["lowest"], spec.get("highest", 2**31 - 1))
    if kind == "number" and ("lowest" in spec or "highest" in spec):
        return number_between(spec.get("lowest", -MAX_MAGNITUDE), spec.get("highest", MAX_MAGNITUDE))
    if kind == "word":
        return one_of(*spec["words"])
    if kind == "list":
        return list_of(rule_of(spec["item"]), spec.get("least", 0), spec.get("most"))
    if kind == "object":
        return fields_of(spec["fields"])
    if kind == "any_of":
        return first_that_fits(spec["alternatives"])
    return KINDS[kind]


def fields_of(specs, also=()):
    """An object with these fields and the keys `also`, and no others."""
    rules = {spec["name"]: rule_of(spec) for spec in specs}
    keys = only_keys((*also, *rules))

    def check(value, where, tensors):
        if not isinstance(value, dict):
            _fail(where, "an object", value)
        keys(value, where)
        for spec in specs:
            name = spec["name"]
            if name in value:
                rules[name](value[name], f"{where}.{name}", tensors)
            elif spec.get("required", True) and spec.get("unless") not in value:
                raise EquiError(f"{where}.{name} is missing")

    return check


# The fields of each type of layer, as the reader of the pair style declares them.
LAYER_FIELDS = json.loads(Path(__file__).with_name("layer_fields.json").read_text(encoding="utf-8"))
LAYERS = {kind: fields_of(specs, also=("type",)) for kind, specs in LAYER_FIELDS.items()}
ROWS_OF_NUMBERS = record({"rows": tensor, "first": whole(-(10**6))})
TASKS = {
    "tasks": list_of(record({"name": text, "spin": whole()}), 1),
    "embedding": record({"charge": ROWS_OF_NUMBERS, "spin": ROWS_OF_NUMBERS, "weight": tensor, "bias": tensor}, {"task": tensor}),
}
EXPERTS = record(
    {"weights": list_of(tensor, 1), "biases": list_of(tensor, 1), "least": number}, {"composition": tensor, "extra_atoms": whole()}
)


SHARE = record({"query": tensor, "key": tensor, "value": tensor, "scale": number, "epsilon": number, "weights": list_of(tensor, 2, 2)})
SHARES = record({}, {"charge": SHARE, "spin": SHARE})
INPUT = {"name": text, "meaning": one_of("charge", "spin", "other"), "usual": number}
TABLE_INPUT = record(INPUT | {"rows": tensor, "first": whole(-(10**6))})
NETWORK_INPUT = record(INPUT | {"weights": list_of(tensor, 2, 2)}, {"biases": list_of(tensor, 2, 2)})


def system_input(value, where, tensors):
    (TABLE_INPUT if isinstance(value, dict) and "rows" in value else NETWORK_INPUT)(value, where, tensors)


INPUTS = record({"values": list_of(system_input, 1, 64), "weight": tensor}, {"readout": tensor})


def mixture(value, where, tensors):
    """Checks a mixture of tasks, or one whose numbers depend only on the charge, the spin and the numbers of atoms."""
    has_tasks = isinstance(value, dict) and not {*TASKS, "experts"}.isdisjoint(value)
    required, optional = (TASKS, {"experts": EXPERTS}) if has_tasks else ({}, {"shares": SHARES, "inputs": INPUTS})
    record({"tensors": kinds_of_tensors} | required, optional)(value, where, tensors)


VECTOR = list_of(number, 3, 3)
STRUCTURE = record(
    {
        "name": text,
        "symbols": list_of(symbol, 1, MAX_STRUCTURE_ATOMS),
        "cell": nothing_or(list_of(VECTOR, 3, 3)),
        "pbc": list_of(flag, 3, 3),
        "positions": list_of(VECTOR),
        "energy": number,
        "forces": list_of(VECTOR),
        "stress": nothing_or(list_of(number, 6, 6)),
    }
)
NEAREST = record({"count": whole(1)}, {"tolerance": number})
DOCUMENT = record(
    {
        "framework": record({"name": text, "version": text}),
        "architecture": text,
        "elements": list_of(symbol, 1, MAX_ELEMENTS),
        "cutoff": number_between(*CUTOFFS),
        "lmax_edge": whole(0, LMAX_SUPPORTED),
        "edge_parity": flag,
        "radial_basis": RADIAL_BASIS,
        "layers": list_of(kinds("type", LAYERS), 1, MAX_LAYERS),
        "provenance": text_values,
        "units": record({"energy": text, "length": text}),
    },
    {
        "self_check": list_of(STRUCTURE, 0, MAX_STRUCTURES), "max_neighbors": whole(1), "nearest_neighbors": NEAREST,
        "composition": counts_of_atoms, "mixture": mixture,
    },  # fmt: skip
)


HEAD = only_keys(("format", "format_version", "framework", "architecture", "elements", "cutoff", "lmax_edge", "edge_parity",
                  "max_neighbors", "nearest_neighbors", "composition", "mixture", "radial_basis",
                  "layers", "provenance", "units", "self_check", "data_hash"))  # fmt: skip


def has_energy(document):
    """Whether a model has an energy, and not only dipoles or polarizabilities."""
    kinds = {layer["type"] for layer in document["layers"]}
    return "observable" not in kinds or "readout" in kinds


def is_of_clusters(document):
    """Whether a model has a Coulomb energy over all pairs of atoms, which periodic structures do not have."""
    return any(
        layer["type"] == "coulomb" and "permittivity" not in layer and layer.get("kernel", {}).get("kind") != "erf_shifted"
        for layer in document["layers"]
    )


def needs_periodic_cell(document):
    """Whether a model has a sum over wave vectors, and knows only cells that are periodic in three directions."""
    return any(layer["type"] == "ewald" or (layer["type"] == "potential" and "open" not in layer) for layer in document["layers"])


def has_potentials(document):
    """Whether a model has potentials of charges, which know cells that are periodic in three or two directions, or in none."""
    return any(layer["type"] == "potential" for layer in document["layers"])


def has_boundary(document, atoms):
    """Whether a model holds for the periodic directions of a structure."""
    pbc = tuple(map(bool, atoms.pbc))
    if has_potentials(document) and pbc not in ((True, True, True), (True, True, False), (False, False, False)):
        return False
    return not (is_of_clusters(document) and any(pbc)) and not (needs_periodic_cell(document) and not all(pbc))


def is_invariant(document):
    """Whether the energy of a model does not depend on how a structure is turned."""
    # Charges at a distance from the atom stand for dipoles in open systems.
    for layer in document["layers"]:
        if layer["type"] == "potential" and "open" in layer and "1o" in layer["irreps_in"] + layer["irreps_out"]:
            return False
    at_points = (layer["type"] == "grid_network" or any("at_points" in linear for linear in layer.get("linears", [])) for layer in document["layers"])
    return not any(at_points)


def check(document, tensors):
    """Raises EquiError with the place if `document` is not as described."""
    HEAD(document, "")
    DOCUMENT(document, "", tensors)
    for n, layer in enumerate(document["layers"]):
        if layer["type"] == "convolution":
            for key, feature in (("in", "irreps_in"), ("out", "irreps_out")):
                is_block = whole(0, layer[feature].count("+"))
                for q, path in enumerate(layer["paths"]):
                    is_block(path[key], f"layers[{n}].paths[{q}].{key}")
    unknown = sorted(set(document.get("composition", document["elements"])) ^ set(document["elements"]))
    if unknown:
        raise EquiError(f"composition: expected the elements of the model, each once, found a difference in {', '.join(unknown)}")
    for n, structure in enumerate(document.get("self_check", [])):
        where, atoms = f"self_check[{n}]", len(structure["symbols"])
        for key in ("positions", "forces"):
            if len(structure[key]) != atoms:
                raise EquiError(f"{where}.{key}: expected a vector for each of {atoms} atoms, found {len(structure[key])}")
        unknown = sorted(set(structure["symbols"]) - set(document["elements"]))
        if unknown:
            raise EquiError(f"{where}.symbols: expected elements of the model, found {', '.join(unknown)}")
        if structure["cell"] is None and any(structure["pbc"]):
            raise EquiError(f"{where}.cell: expected three vectors of a periodic structure, found null")
