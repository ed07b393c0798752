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
from ..common.numbers import whole_setting
from ..common.origin import Origin, file_of, naming
from . import esen as mlip_esen
from . import mace as mlip_mace
from . import nequip as mlip_nequip
from .options import SUPPORTED, check_statistics

HYPERPARAMETERS, PARAMETERS = "hyperparams.json", "params.npz"
MAX_JSON_BYTES = 1 << 24
MAX_NUMBERS = 1 << 30  # bytes of all arrays
# mlip's table of charges has these.
CHARGES, SPINS = (-50, 50), (0, 100)
PREFIX = "params#mlip_network#"
ARCHITECTURES = {"MACE": mlip_mace, "NequIP": mlip_nequip, "eSEN": mlip_esen}
# Options by which architectures other than MACE show themselves.
SIGNS = {
    "vecnorm_type": "ViSNet", "attn_activation": "ViSNet", "num_heads": "ViSNet", "target_irreps": "NequIP",
    "gate_nonlinearities": "NequIP", "use_residual_connection": "NequIP", "sphere_channels": "eSEN", "edge_channels": "eSEN",
    "m_max": "eSEN",
}  # fmt: skip


@dataclass
class Checkpoint(Origin):
    elements: list
    cutoff: float
    architecture: str  # one of ARCHITECTURES
    options: dict  # of the architecture
    statistics: dict  # of the DatasetInfo
    heads: list
    state: dict  # arrays by name
    empty: dict  # arrays of no numbers, which mlip has for irreps of one side of a linear map
    charge: int  # of the whole system, in e; None for a model that takes none
    spin: int  # multiplicity, likewise

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


def _architecture(options):
    """The name of the architecture that these are options of."""
    for key, name in SIGNS.items():
        if key not in options:
            continue
        if name not in ARCHITECTURES:
            raise EquiError(f"option {key}: a model of the architecture {name}; of mlip only {SUPPORTED} are supported")
        return name
    return "MACE"


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


def _routes(options):
    """Names of what experts are mixed by."""
    experts = options.get("moe")
    return experts["routing_globals"] if experts else []


def _system(options, statistics, charge, spin):
    """(charge, spin) that the user states, both of them where the model takes them and not elsewhere."""
    has_embedding, routes = options.get("use_total_charge_embedding", False), _routes(options)
    takes = {"charge": has_embedding or "charge" in routes, "spin": "spin_multiplicity" in routes}
    given = {"charge": whole_setting(charge, "charge", CHARGES), "spin": whole_setting(spin, "spin", SPINS)}
    for name, value in given.items():
        if takes[name] != (value is not None):
            what = "the model depends on it: state it" if takes[name] else "the model does not depend on it; leave it out"
            raise EquiError(f"--{name}: {what}")
    known = statistics.get("total_charge_set")
    if has_embedding and (not isinstance(known, list) or given["charge"] not in known):
        raise EquiError(f"--charge {given['charge']}: the model was trained with {printable(str(known), 60)}")
    return given["charge"], given["spin"]


def load(source, ignore_keys=(), charge=None, spin=None):
    """The force field in a file, of which the user states the charge and the spin multiplicity of the system if it depends on them."""
    from ase.data import chemical_symbols

    path = file_of(source)
    with naming(source), _whole_archive(path) as archive:
        document = _object(archive, HYPERPARAMETERS)
        version = str(document.get("version", "unknown"))
        options, statistics = document["config"], document["dataset_info"]
        if version.startswith("0.1") or "cutoff_distance_angstrom" in statistics:
            raise EquiError(f"saved by mlip {printable(version, 20)}, whose models of version 1 are not supported")
        architecture = _architecture(options)
        ARCHITECTURES[architecture].check(options)
        check_statistics(statistics)
        charge, spin = _system(options, statistics, charge, spin)
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
        architecture=architecture,
        options=options,
        statistics=statistics,
        heads=heads,
        state=state,
        empty=empty,
        charge=charge,
        spin=spin,
    )
