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
# Longer lines are cut: no valid model has a table of paths of this length.
MAX_LINE = 20_000


def _map(layer):
    return f"{layer['input']} -> {layer['output']} ({layer['irreps_out']})"


def _embedding(layer):
    return f"species -> {layer['output']} ({layer['irreps']})"


def _linear(layer):
    kinds = {"per_species": "per species", "accumulate": "added", "biases": "bias"}
    return ", ".join([_map(layer), *(words for key, words in kinds.items() if layer.get(key))])


def _convolution(layer):
    # No table then holds its weights.
    reads = [key for key in ("sender", "receiver") if isinstance(layer["radial"].get(key), dict)]
    extra = f", radial network on features of {' and '.join(reads)}" if reads else ""
    return f"{layer['input']} ({layer['irreps_in']}) -> {layer['output']}, {len(layer['paths'])} paths{extra}"


def _local_network(layer):
    products = [step for step in layer["steps"] if step["step"] == "product"]
    paths = sum(len(step["paths"]) for step in products)
    channels = {layer["features"][step["output"]].split("x")[0] for step in products}
    return f"{len(layer['steps'])} steps, {len(products)} products of {paths} paths, {', '.join(sorted(channels))} channels"


def _so2_convolution(layer):
    channels = ", ".join(str(linear["channels"]) for linear in layer["linears"])
    points = [f", activation at {linear['at_points']['points']} points" for linear in layer["linears"] if "at_points" in linear]
    return f"{layer['input']} ({layer['irreps_in']}) -> {layer['output']}, m to {layer['mmax']}, linears of {channels} channels{''.join(points)}"


def _density_normalization(layer):
    return f"{layer['input']} -> {layer['output']} / ({layer['offset']:g} + {layer['factor']:g} density)"


def _balance(layer):
    return f"{_map(layer)}, sums over all atoms"


def _coulomb(layer):
    field = "all pairs" if "permittivity" not in layer else f"reaction field {layer['permittivity']:g}"
    if "kernel" in layer:
        field = f"charges of width {layer['kernel']['sigma']:g} Angstrom"
    return f"{_far_pairs(layer)}, {field}"


def _far_pairs(layer):
    return f"{layer['input']} ({layer['irreps_in']}), within {layer['cutoff']:g} Angstrom"


def _grid_network(layer):
    return f"{_map(layer)}, {len(layer['network']['weights'])} matrices at {layer['points']} points of the sphere"


def _norm_scale(layer):
    return f"{layer['input']} -> {layer['output']} / ({layer['offset']:g} + {layer['factor']:g} |{layer['input']}|^2)"


def _node_product(layer):
    products = "Gaunt product" if "gaunt" in layer else f"{len(layer['paths'])} paths"
    return f"{', '.join(layer['inputs'])} -> {layer['output']} ({layer['irreps_out']}), {products}"


def _contraction(layer):
    degree = max((term["degree"] for block in layer["blocks"] for term in block["terms"]), default=0)
    return f"{_map(layer)}, products up to degree {degree}{', per species' if layer['per_species'] else ''}"


def _gate(layer):
    return f"{_map(layer)}, {', '.join(sorted({term['activation'] for term in layer['terms']}))}"


def _readout(layer):
    return f"{layer['input']}, {len(layer['network']['weights'])} matrices, {layer['network']['activation']}"


# The facts about layers besides their type; for other layers, what they read and write.
LINES = {
    "species_embedding": _embedding,
    "linear": _linear,
    "convolution": _convolution,
    "local_network": _local_network,
    "so2_convolution": _so2_convolution,
    "density_normalization": _density_normalization,
    "channel_balance": _balance,
    "coulomb": _coulomb,
    "dispersion": _far_pairs,
    "grid_network": _grid_network,
    "norm_scale": _norm_scale,
    "node_product": _node_product,
    "symmetric_contraction": _contraction,
    "direct_forces": lambda layer: f"{layer['input']}, with the keyword forces direct of pair_style",
    "pair_repulsion": lambda layer: f"{len(layer['coefficients'])} exponentials",
    "gate": _gate,
    "readout": _readout,
}


def _layer_line(layer):
    if layer["type"] in LINES:
        return LINES[layer["type"]](layer)
    return _map(layer) if "irreps_out" in layer else layer.get("input", "")


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
        facts["mixture"] = {
            "tasks": tasks,
            "keywords": sorted(kinds - {"shares"}),
            "experts": int(tensors[experts["biases"][-1]].size) if experts else 0,
            "composition": "composition" in experts,
        }
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


def _mixture_lines(mixture):
    if mixture is None:
        return
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
    parity = "harmonics of natural parity" if f["edge_parity"] else "even harmonics (rotations only)"
    lines = [
        f"{path}: {f['architecture']}, a model of {f['framework']['name']}",
        f"elements ({len(f['elements'])}): {' '.join(f['elements'])}",
        f"cutoff {f['cutoff']} Angstrom, {cutoff_function['kind'].replace('none', 'no')} cutoff function{kind}, "
        f"{basis['size']} {basis['kind']} functions"
        + (f" of a distance transformed by {basis['transform']}" if basis["transform"] else ""),
        f"lmax of edges {f['lmax_edge']}, {parity}; {f['num_parameters']} parameters",
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
