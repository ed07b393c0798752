# SPDX-License-Identifier: MIT
"""`equi info`: what is inside an .equi file."""

from collections import Counter

from . import document as document_rules
from . import equi_file, kernels, reference_values
from .errors import EquiError
from .printable import printable


# Number of neighbors of an atom in the table of operations: a crystal of NaCl has about as many within 5 Angstrom.
NEIGHBORS = 30
OPERATIONS = ("atom", "atom_with_forces", "edge", "edge_with_forces")
# What is known of mirror images without an evaluation.
MIRROR = {True: "the same energy, O(3)", False: "energies may differ, SO(3); equi check measures by how much"}
# Longer lines are cut: no valid model has a table of paths of this length.
MAX_LINE = 20_000


def _kind(spec):
    """The kind of a field, or of what a list holds."""
    while spec["kind"] == "list":
        spec = spec["item"]
    return spec["kind"]


def _fields(spec, value):
    """The fields of an object: of the alternative that has its keys and words."""
    if "fields" in spec:
        return spec["fields"]
    for one in spec["alternatives"] if isinstance(value, dict) else []:
        known = {field["name"]: field.get("words") for field in one.get("fields", [])}
        if value.keys() <= known.keys() and all(word in (known[key] or [word]) for key, word in value.items()):
            return one["fields"]
    return []


def _is_place(spec):
    """Whether a number says where something is: a feature, a block or a channel."""
    return spec["meaning"].startswith("number of the ") or any(words in spec["meaning"] for words in ("block", "first channel"))


def _of_items(spec, values):
    """What distinguishes the items of a list: their words, and the largest of their whole numbers."""
    objects = [value for value in values if isinstance(value, dict)]
    fields = {one["name"]: one for value in objects for one in _fields(spec["item"], value)}
    for name, one in fields.items():
        found = [value[name] for value in objects if value.get(name)]
        if one["kind"] in ("word", "activation"):
            yield " ".join(sorted(set(found)))
        elif one["kind"] == "integer" and found and not _is_place(one):
            yield f"{name.replace('_', ' ')} to {max(found)}"
        elif one["kind"] == "list":
            yield from _of_items(one, [item for values in found for item in values])
        else:
            yield from dict.fromkeys(detail for value in found for detail in _details([one], {name: value}, inner=True))


def _details(specs, value, inner=False):
    """The fields of a layer besides features and tensors as texts; inner: without factors, which normalize."""
    for spec in specs:
        if spec["name"] not in value:
            continue
        name, field, kind = spec["name"].replace("_", " "), value[spec["name"]], spec["kind"]
        if kind == "boolean":
            yield from [name] * field
        elif kind in ("number", "integer") and not _is_place(spec) and not (inner and spec["meaning"].startswith("factor")):
            yield f"{name} {field:g}"
        elif kind in ("word", "activation"):
            yield field
        elif kind == "list" and _kind(spec) not in ("text", "irreps", "number") and any(field):
            yield ", ".join([f"{name} {len(list(filter(None, field)))}", *filter(None, _of_items(spec, field))])
        elif isinstance(field, dict):
            yield f"{name} ({', '.join(_details(_fields(spec, field), field, inner=True))})".replace(" ()", "")


def _layer_line(layer):
    """What a layer reads and writes, and its fields, as its registration in src/layers describes them."""
    specs = document_rules.LAYER_FIELDS[layer["type"]]
    texts = {"text": [], "irreps": []}
    for spec in specs:
        if _kind(spec) in texts:
            words = layer[spec["name"]]
            texts[_kind(spec)].append(", ".join(words) if spec["kind"] == "list" else words)
    # Earlier lines have the irreps of what is read and written here.
    features = " ".join([" -> ".join(texts["text"]), *(f"({words})" for words in texts["irreps"][-1:])]).strip()
    return ", ".join(filter(None, [features, *_details(specs, layer)]))


def path_labels(layer):
    """The paths of a convolution, as `0x1->1`: degrees of the input, the harmonics and the output."""

    def text_of(p):
        connection = "" if p.get("connection", "uvu") == "uvu" else f" ({p['connection']})"
        return f"{ins[p['in']]}x{p['l']}->{outs[p['out']]}{connection}"

    ins, outs = document_rules.degrees(layer["irreps_in"]), document_rules.degrees(layer["irreps_out"])
    return list(map(text_of, layer["paths"]))


def _operations(path, layers):
    """Operations of each kind of layer, of all layers, and of all as they are evaluated, by the keys OPERATIONS, or
    {"missing": why}."""
    try:
        *counts, folded = kernels.operations(path)
    except EquiError as error:
        return {"missing": str(error)}
    sums = {}
    for layer, count in zip(layers, counts, strict=True):
        sums.setdefault(layer["type"], []).append(count)
    sums["all"] = counts
    sums["all, folded"] = [folded]
    return {kind: dict(zip(OPERATIONS, map(sum, zip(*rows)))) for kind, rows in sums.items()}


def _operation_lines(operations):
    if "missing" in operations:
        return [f"  not counted: {printable(operations['missing'], MAX_LINE)}"]

    def row(kind, count):
        of_atom = [count["atom" + key] + NEIGHBORS * count["edge" + key] for key in ("", "_with_forces")]
        return f"  {kind:<22}" + "".join(f" {number:>11}" for number in [*(count[key] for key in OPERATIONS), *of_atom])

    heads = ("atom", "and forces", "edge", "and forces", f"{NEIGHBORS} edges", "and forces")
    return [f"  {'':<22}" + "".join(f" {head:>11}" for head in heads)] + [
        row(kind, count) for kind, count in operations.items() if any(count.values())
    ]


def summary(path):
    """The facts as a dict, for --json."""
    document, tensors = equi_file.read(path)
    facts = {key: document[key] for key in ("format_version", "framework", "architecture", "elements", "cutoff",
                                            "lmax_edge", "edge_parity", "provenance", "units")}  # fmt: skip
    facts["has_mirror_symmetry"] = document["edge_parity"] or document["lmax_edge"] == 0
    basis = document["radial_basis"]
    names = [basis[key] for key in ("wave_numbers", "centres", "means", "log_coefficients") if key in basis]
    facts["radial_basis"] = {
        "kind": basis["kind"],
        "size": int(tensors[names[0]].size) if names else basis["size"],
        "cutoff_function": basis["cutoff_function"],
        "transform": basis["transform"]["kind"] if "transform" in basis else None,
    }
    if "nearest_neighbors" in document:
        facts["nearest_neighbors"] = document["nearest_neighbors"]
    if "mixture" in document:
        experts = document["mixture"].get("experts", {})
        tasks = [task["name"] for task in document["mixture"].get("tasks", [])]
        kinds = {"task", "charge", "spin"} if tasks else {*document["mixture"]["tensors"].values(), *document["mixture"].get("shares", {})}
        inputs = document["mixture"].get("inputs", {}).get("values", [])
        kinds |= {"charge", "spin"} if "spin_charges" in kinds else set()
        kinds |= {one["meaning"] if one["meaning"] != "other" else f"system {one['name']}" for one in inputs}
        facts["mixture"] = {
            "tasks": tasks,
            "keywords": sorted(kinds - {"shares", "inputs", "inputs_energy", "spin_charges"}),
            "experts": int(tensors[experts["biases"][-1]].size) if experts else 0,
            "composition": "composition" in experts,
        } | ({"inputs": [_input(one, tensors) for one in inputs]} if inputs else {})
    # Couplings of products are mathematical constants, not parameters.
    couplings = {
        term["coupling"]
        for layer in document["layers"]
        if layer["type"] == "symmetric_contraction"
        for block in layer["blocks"]
        for term in block["terms"]
    }
    facts["num_parameters"] = int(sum(t.size for name, t in tensors.items() if name not in couplings))
    facts["layers"] = [
        {"type": layer["type"], "text": _layer_line(layer)}
        | ({"paths": " ".join(path_labels(layer))} if layer["type"] == "convolution" else {})
        for layer in document["layers"]
    ]
    facts["operations"] = _operations(path, document["layers"])
    facts["self_check"] = [
        {
            "name": s["name"],
            "symbols": s["symbols"],
            "periodic": any(s["pbc"]),
            "energy": s["energy"],
            "largest_force": max(abs(c) for f in s["forces"] for c in f),
        }
        for s in document.get("self_check", [])
    ]
    return facts


def _input(one, tensors):
    """A number of the whole system: its name, what it is, the usual number and, for whole numbers, their range."""
    facts = {key: one[key] for key in ("name", "meaning", "usual")}
    if "rows" in one:
        facts["range"] = [one["first"], one["first"] + len(tensors[one["rows"]]) - 1]
    return facts


def _mixture_lines(mixture):
    if mixture is None:
        return
    for one in mixture.get("inputs", []):
        known = "whole numbers from {} to {}".format(*one["range"]) if "range" in one else "any number"
        keyword = one["meaning"] if one["meaning"] != "other" else f"system {one['name']}"
        yield f"input {one['name']}: keyword {keyword}, {known}, by default {one['usual']:g}"
    if not mixture["tasks"]:
        words = mixture["keywords"]
        yield f"for all systems: {' and '.join(words)} {'is a keyword' if len(words) == 1 else 'are keywords'} of pair_style"
        return
    by = "task, charge, spin and composition" if mixture["composition"] else "task, charge and spin"
    yield f"for all systems: {mixture['experts']} experts, mixed by {by} when a run starts; tasks {' '.join(mixture['tasks'])}"


def _formula(symbols):
    return "".join(f"{e}{count if count > 1 else ''}" for e, count in Counter(symbols).items())


def _neighbor_lines(rule):
    if rule is not None:
        more = f" and those whose squared distance is up to {rule['tolerance']:g} Angstrom^2 greater than that of the next" if "tolerance" in rule else ""
        yield f"an atom sees its {rule['count']} nearest neighbors{more}"


def text(path, f):
    """The facts of summary() as text for people."""
    basis, cutoff_function = f["radial_basis"], f["radial_basis"]["cutoff_function"]
    kind = {"polynomial": " (p {p})", "xplor": " (from {r_on} Angstrom)", "cosine": "", "none": ""}[cutoff_function["kind"]]
    kind = kind.format(**cutoff_function)
    parity = "harmonics of natural parity" if f["edge_parity"] else "even harmonics"
    lines = [
        f"{path}: {f['architecture']}, a model of {f['framework']['name']}",
        f"elements ({len(f['elements'])}): {' '.join(f['elements'])}",
        f"cutoff {f['cutoff']} Angstrom, {cutoff_function['kind'].replace('none', 'no')} cutoff function{kind}, "
        f"{basis['size']} {basis['kind']} functions"
        + (f" of a distance transformed by {basis['transform']}" if basis["transform"] else ""),
        f"lmax of edges {f['lmax_edge']}, {parity}; {f['num_parameters']} parameters",
        f"mirror images: {MIRROR[f['has_mirror_symmetry']]}",
        *_neighbor_lines(f.get("nearest_neighbors")),
        *_mixture_lines(f.get("mixture")),
        "",
        "layers",
    ]
    for layer in f["layers"]:
        lines.append(f"  {layer['type']:<22} {layer['text']}")
        if "paths" in layer:
            lines.append(f"  {'':<22} {layer['paths']}")
    lines += ["", "floating-point operations per atom and per edge, of energies alone and of energies and forces"]
    lines += _operation_lines(f["operations"])
    lines += ["", "provenance"]
    lines += [f"  {key:<18} {value}" for key, value in f["provenance"].items()]
    framework = f"{f['framework']['name']} {f['framework']['version']}"
    lines += ["", f"self-check (values of {framework} in float64)" if f["self_check"] else "self-check"]
    if not f["self_check"]:
        lines.append(f"  {reference_values.missing(f)}")
    for s in f["self_check"]:
        where = "periodic" if s["periodic"] else "in vacuum"
        lines.append(
            f"  {s['name']:<18} {_formula(s['symbols']):<16} {where:<10} energy {s['energy']:.8f} eV, "
            f"largest force {s['largest_force']:.6f} eV/A"
        )
    return "\n".join(printable(line, MAX_LINE) for line in lines)
