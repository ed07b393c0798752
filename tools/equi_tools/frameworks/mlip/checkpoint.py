# SPDX-License-Identifier: MIT
"""Reads the zip files in which mlip saves force fields: hyperparams.json and params.npz.

Both are read as data; neither mlip nor JAX is needed.  What the converter does not represent is refused by name.
"""

import io
import json
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ...errors import EquiError
from ...printable import printable
from ..common.origin import Origin, file_of, naming
from ..common.unknown_keys import refuse_unknown

HYPERPARAMETERS, PARAMETERS = "hyperparams.json", "params.npz"
MAX_JSON_BYTES = 1 << 24
MAX_NUMBERS = 1 << 30  # bytes of all arrays
PREFIX = "params#mlip_network#"
# Options of a MaceConfig. Those with a value are refused if they have another one, and why.
REFUSED = {
    "gate_nodes": (False, "the product basis would be multiplied by gates, which no layer does"),
    "soft_normalization": (None, "features would be divided by a function of their norms, which no layer does"),
    "predict_partial_charges": (False, "charges are not part of the .equi format"),
    "use_coulomb_term": (False, "charges are not part of the .equi format"),
    "use_total_charge_embedding": (False, "the model takes a total charge, which a LAMMPS pair style does not have"),
    "radial_envelope": ("polynomial_envelope", "only the polynomial one is supported"),
}  # fmt: skip
BACKENDS = ("e3j", "gaunt_tp")
TAKEN = {
    "add_atomic_energies", "num_layers", "num_channels", "l_max", "node_symmetry", "correlation", "readout_irreps",
    "num_readout_heads", "include_pseudotensors", "num_rbf", "activation", "radial_mlp_hidden", "radial_mlp_activation",
    "residual_connection_first_layer", "symmetric_contraction_backend", "use_gaunt_tp_message_passing",
}  # fmt: skip
# These choose how mlip computes, or are superseded by the statistics of the data set.
IGNORED = {"avg_num_neighbors", "avg_r_min", "num_species", "embed_activation", "deterministic_scatter_ops"}
# Options by which the other architectures of mlip show themselves.
OTHER_MODELS = {
    "vecnorm_type": "ViSNet", "attn_activation": "ViSNet", "num_heads": "ViSNet", "target_irreps": "NequIP",
    "gate_nonlinearities": "NequIP", "use_residual_connection": "NequIP", "sphere_channels": "eSEN", "edge_channels": "eSEN",
    "m_max": "eSEN",
}  # fmt: skip


@dataclass
class Checkpoint(Origin):
    elements: list
    cutoff: float
    options: dict  # of the MaceConfig
    statistics: dict  # of the DatasetInfo
    heads: list
    state: dict  # arrays by name
    empty: dict  # arrays of no numbers, which mlip has for irreps of one side of a linear map

    def chosen(self, choice):
        return self.heads[self.head_index(choice)] if len(self.heads) > 1 else None

    def head_index(self, choice):
        if choice is None:
            if len(self.heads) > 1:
                raise EquiError(f"{self.source} has several heads, choose one of them: {', '.join(self.heads)}")
            return 0
        if choice not in self.heads:
            raise EquiError(f"{self.source} has no head '{choice}', only {', '.join(self.heads)}")
        return self.heads.index(choice)

    def atomic_energies(self, head):
        """Those of a head by atomic number; mlip keeps one table, or one for each of its data sets."""
        tables = self.statistics["atomic_energies_map"]
        table = tables[min(head, len(tables) - 1)] if isinstance(tables, list) else tables
        return {int(number): float(energy) for number, energy in table.items()}


def is_archive_of_mlip(names):
    return HYPERPARAMETERS in names and PARAMETERS in names


def _whole(options, key, least):
    value = options.get(key)
    if type(value) is not int or not least <= value <= 65536:
        raise EquiError(f"config.{key}: expected a whole number from {least} on, found {printable(str(value), 60)}")
    return value


def _number(statistics, key, least=None):
    value = statistics.get(key)
    if type(value) not in (int, float) or not abs(value) < 1e30 or (least is not None and not value > least):
        raise EquiError(f"dataset_info.{key}: expected a number, found {printable(str(value), 60)}")
    return float(value)


def _audit(options, statistics):
    known = TAKEN | IGNORED | set(REFUSED)
    for key, name in OTHER_MODELS.items():
        if key in options:
            raise EquiError(f"option {key}: a model of the architecture {name}; of mlip only MACE is supported")
    refuse_unknown([(key, "mlip's MACE") for key in options if key not in known], can_pass=False)
    missing = sorted(TAKEN - set(options))
    if missing:
        raise EquiError(f"option {missing[0]} of mlip's MACE is missing; of mlip only MACE, saved by version 0.2.5, is supported")
    for key, (allowed, why) in REFUSED.items():
        if options.get(key, allowed) != allowed:
            raise EquiError(f"option {key} {printable(str(options[key]), 60)} is not supported: {why}")
    backend = options["symmetric_contraction_backend"]
    if backend not in BACKENDS:
        raise EquiError(
            f"option symmetric_contraction_backend {printable(str(backend), 60)} is not supported: its basis is not in the file; "
            f"only {' and '.join(BACKENDS)} are"
        )
    for key in ("num_layers", "num_channels", "correlation", "num_readout_heads", "num_rbf"):
        _whole(options, key, 1)
    for key in ("l_max", "node_symmetry"):
        _whole(options, key, 0)
    if options["correlation"] > 4:
        raise EquiError(f"option correlation {options['correlation']} is not supported, at most 4")
    if options["node_symmetry"] > options["l_max"]:
        raise EquiError("option node_symmetry is larger than l_max")
    hidden = options["radial_mlp_hidden"]
    if not isinstance(hidden, list) or not all(type(n) is int and 0 < n <= 65536 for n in hidden):
        raise EquiError("option radial_mlp_hidden: expected a list of whole numbers")
    has_gaunt = options["use_gaunt_tp_message_passing"] or backend == "gaunt_tp"
    if has_gaunt and options["include_pseudotensors"]:
        raise EquiError("option include_pseudotensors: Gaunt products have no pseudotensors")
    if statistics.get("long_range_cutoff_angstrom") is not None:
        raise EquiError("dataset_info.long_range_cutoff_angstrom: interactions beyond the cutoff are not supported")
    for key, least in (("graph_cutoff_angstrom", 0), ("avg_num_neighbors", 0), ("scaling_mean", None), ("scaling_stdev", None)):
        _number(statistics, key, least)
    if statistics.get("avg_r_min_angstrom") is not None:
        _number(statistics, "avg_r_min_angstrom", 0)


def _tables(statistics):
    tables = statistics.get("atomic_energies_map")
    tables = tables if isinstance(tables, list) else [tables]
    for table in tables:
        if not isinstance(table, dict) or not table or not all(key.isascii() and key.isdigit() for key in table):
            raise EquiError("dataset_info.atomic_energies_map: expected energies by atomic number")
    return tables


def _object(archive, name):
    if archive.getinfo(name).file_size > MAX_JSON_BYTES:
        raise EquiError(f"{name}: more than 16 MB, which is no list of options")
    try:
        document = json.loads(archive.read(name))
    except (ValueError, RecursionError) as error:
        raise EquiError(f"{name}: not a JSON document: {error}") from error
    if not isinstance(document, dict) or not all(isinstance(document.get(key), dict) for key in ("config", "dataset_info")):
        raise EquiError(f"{name}: expected an object with config and dataset_info")
    return document


def _state(archive):
    """The arrays of params.npz, an archive of .npy files, in which numpy would execute no code either."""
    state, empty = {}, {}
    if archive.getinfo(PARAMETERS).file_size > MAX_NUMBERS:
        raise EquiError(f"{PARAMETERS}: more than {MAX_NUMBERS} bytes")
    with zipfile.ZipFile(io.BytesIO(archive.read(PARAMETERS))) as arrays:
        if sum(info.file_size for info in arrays.infolist()) > MAX_NUMBERS:
            raise EquiError(f"{PARAMETERS}: arrays of more than {MAX_NUMBERS} bytes")
        for info in arrays.infolist():
            name = info.filename.removesuffix(".npy")
            try:
                array = np.lib.format.read_array(io.BytesIO(arrays.read(info)), allow_pickle=False)
            except ValueError as error:
                raise EquiError(f"tensor {printable(name, 80)}: not an array of numbers: {error}") from error
            if not name.startswith(PREFIX):
                raise EquiError(f"tensor {printable(name, 80)} is not one of a network of mlip 0.2")
            (state if array.size else empty)[name.removeprefix(PREFIX)] = array
    return state, empty


@contextmanager
def _whole_archive(path):
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise EquiError(f"damaged archive: {error}") from error


def load(source, ignore_keys=()):
    """The force field in a file."""
    from ase.data import chemical_symbols

    path = file_of(source)
    with naming(source), _whole_archive(path) as archive:
        document = _object(archive, HYPERPARAMETERS)
        version = str(document.get("version", "unknown"))
        options, statistics = document["config"], document["dataset_info"]
        if version.startswith("0.1") or "cutoff_distance_angstrom" in statistics:
            raise EquiError(f"saved by mlip {printable(version, 20)}, whose models of version 1 are not supported")
        _audit(options, statistics)
        tables = _tables(statistics)
        state, empty = _state(archive)
    numbers = sorted({int(key) for table in tables for key in table})
    if not all(0 < number < len(chemical_symbols) for number in numbers):
        raise EquiError(f"{source}: dataset_info.atomic_energies_map: atomic numbers {numbers}")
    names = statistics.get("dataset_name")
    count = max(options["num_readout_heads"], len(tables))
    heads = [str(name) for name in names] if isinstance(names, list) and len(names) == count else [str(n) for n in range(count)]
    return Checkpoint(
        source=source,
        path=path.resolve(),
        version=version,
        elements=[chemical_symbols[number] for number in numbers],
        cutoff=float(statistics["graph_cutoff_angstrom"]),
        options=options,
        statistics=statistics,
        heads=heads,
        state=state,
        empty=empty,
    )
