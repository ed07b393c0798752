"""Container of .equi files (doc/model_file.rst): safetensors with one JSON document under __metadata__.

Written here in full, because the format is small and a user who only inspects files then needs nothing but numpy.
"""

import json
import math
import os
import secrets
import stat
import struct
from pathlib import Path

import numpy as np

from . import document as document_rules
from .errors import EquiError
from .printable import printable

FORMAT_NAME = "equi"
FORMAT_VERSION = 2
DTYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
MAX_HEADER_BYTES = 100_000_000
MAX_DIMENSIONS = 8


def write(path, document, tensors):
    """Writes a document (dict) and its tensors (name -> float32 or float64 array); replaces the file in one step."""
    try:
        header = {"__metadata__": {FORMAT_NAME: json.dumps(document, allow_nan=False)}}
    except ValueError as error:
        raise EquiError("the document holds numbers that are not finite") from error
    blobs, offset = [], 0
    for name, tensor in tensors.items():
        code = {"float32": "F32", "float64": "F64"}[str(tensor.dtype)]
        if not np.all(np.isfinite(tensor)):
            raise EquiError(f"tensor {name} holds numbers that are not finite")
        blob = np.ascontiguousarray(tensor, dtype=DTYPES[code]).tobytes()
        header[name] = {
            "dtype": code,
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8 bytes
    _replace(path, [struct.pack("<Q", len(text)), text, *blobs])


def check_output(path):
    """The regular file that `path` names or would name, links followed; EquiError where none can be written."""
    try:
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise EquiError(f"cannot write {path}: it is a folder")
        if target.is_symlink():
            raise EquiError(f"cannot write {path}: it is a link to itself")
        # Devices and pipes are no places for a model, and must not be replaced by one.
        if target.exists() and not target.is_file():
            raise EquiError(f"cannot write {path}: it is not a regular file")
        if not target.parent.is_dir():
            raise EquiError(f"cannot write {path}: no such folder")
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise EquiError(f"cannot write {path}: no permission to write into its folder")
    except (OSError, ValueError) as error:
        raise EquiError(f"cannot write {path}: {reason(error)}") from error
    return target


def reason(error):
    """Why the operating system refused, without the name of the file."""
    return getattr(error, "strerror", None) or str(error)


def _replace(path, pieces):
    """Writes a file in one step: whoever looks finds the old one, or none, or the whole new one."""
    target = check_output(path)
    # Its length does not depend on that of the name, which may be as long as the file system allows.
    partial = target.parent / f".equi-{os.getpid()}-{secrets.token_hex(4)}.part"
    try:
        try:
            with open(partial, "xb") as f:
                f.writelines(pieces)
                f.flush()
                os.fsync(f.fileno())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise EquiError(f"cannot write {path}: {reason(error)}") from error


def _header_and_body(path):
    """The text of the header and the bytes behind it."""
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
                raise EquiError(f"{path}: not an .equi file: no safetensors header")
            if size < 8 + length:
                raise EquiError(f"{path}: truncated: header of {length} bytes expected, {size - 8} found")
            return f.read(length), f.read()
    except (OSError, ValueError) as error:
        raise EquiError(f"cannot read {path}: {reason(error)}") from error
    except MemoryError as error:
        raise EquiError(f"cannot read {path}: not enough memory for {size} bytes") from error


def _refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def _json(text):
    """The object that a JSON text holds; ValueError where it is anything else."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("lists and objects within each other without end") from error
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def _tensor(entry, body):
    """The array of an entry of the header; EquiError says what is wrong with the entry."""
    fields = {
        "dtype": document_rules.one_of(*DTYPES),
        "shape": document_rules.list_of(document_rules.whole(), 0, MAX_DIMENSIONS),
        "data_offsets": document_rules.list_of(document_rules.whole(0, 2**63 - 1), 2, 2),
    }
    document_rules.record(fields)(entry, "", None)
    (begin, end), dtype = entry["data_offsets"], DTYPES[entry["dtype"]]
    if end > len(body):
        raise EquiError(f"truncated: it ends at byte {end} of {len(body)}")
    if end - begin != math.prod(entry["shape"]) * dtype.itemsize:
        raise EquiError(f"shape {entry['shape']} of {entry['dtype']} does not fill the bytes {begin} to {end}")
    return np.frombuffer(body[begin:end], dtype).reshape(entry["shape"])


def read(path):
    """(document, tensors) of a file; EquiError for whatever is no sound .equi file or of a newer version."""
    text, body = _header_and_body(path)
    try:
        header = _json(text)
        document = _json(header.pop("__metadata__")[FORMAT_NAME])
    except (ValueError, KeyError, TypeError) as error:
        raise EquiError(f"{path}: not an .equi file: no document '{FORMAT_NAME}' in its header") from error
    if document.get("format") != FORMAT_NAME:
        found = document_rules.shown(document.get("format"))
        raise EquiError(f"{path}: format: expected '{FORMAT_NAME}', found {found}")
    try:
        document_rules.record({"format_version": document_rules.whole(1)})(document, "", None)
        if document["format_version"] > FORMAT_VERSION:
            raise EquiError(
                f"format_version {document['format_version']} is newer than this tool knows ({FORMAT_VERSION})"
            )
        body = memoryview(body)
        tensors = {}
        for name, entry in header.items():
            try:
                tensors[name] = _tensor(entry, body)
            except EquiError as error:
                raise EquiError(f"tensor {printable(name, 60)}: {error}") from error
        document_rules.check(document, tensors)
    except EquiError as error:
        raise EquiError(f"{path}: {error}") from error
    return document, tensors
