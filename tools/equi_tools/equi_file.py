"""Container of .equi files (doc/model_file.rst): safetensors with one JSON document under __metadata__.

Written here in full, because the format is small and a user who only inspects files then needs nothing but numpy and
xxhash.
"""

import json
import math
import os
import secrets
import stat
import struct
from pathlib import Path

import numpy as np
import xxhash

from . import document as document_rules
from .errors import EquiError
from .printable import printable

FORMAT_NAME = "equi"
FORMAT_VERSION = 3
FIRST_VERSION_WITH_HASH = 3
DTYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
# The bounds of the pair style (src/model_limits.h).
MAX_HEADER_BYTES = 1 << 24
MAX_NESTING = 32
SHOWN = 60  # characters of a name in a message


def data_hash(blobs):
    """Of the data section, given in pieces."""
    hash = xxhash.xxh3_128()
    for blob in blobs:
        hash.update(blob)
    return f"xxh3_128:{hash.hexdigest()}"


def write(path, document, tensors):
    """Writes a document (dict) and its tensors (name -> float32 or float64 array); replaces the file in one step."""
    header, blobs, offset = {}, [], 0
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
    if document["format_version"] >= FIRST_VERSION_WITH_HASH:
        document = document | {"data_hash": data_hash(blobs)}
    try:
        header = {"__metadata__": {FORMAT_NAME: json.dumps(document, allow_nan=False)}} | header
    except ValueError as error:
        raise EquiError("the document holds numbers that are not finite") from error
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8 bytes
    if len(text) > MAX_HEADER_BYTES:
        raise EquiError(f"{path}: the model's description takes {len(text)} bytes, at most {MAX_HEADER_BYTES} can be read")
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


def is_equi_file(path):
    """Whether a file begins like one of ours, or of another writer of the same container."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as f:
            start = f.read(9)
    except OSError:
        return False
    return len(start) == 9 and start[8:] == b"{" and struct.unpack("<Q", start[:8])[0] <= MAX_HEADER_BYTES


def _once(pairs):
    """An object of a JSON document; json itself keeps the last of two equal keys."""
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        again = next(key for key in keys if keys.count(key) > 1)
        raise EquiError(f"expected each key of an object once, found {printable(again, SHOWN)} again")
    return result


def _no_constant(name):
    raise ValueError(f"{name} is no JSON")


def _parse(text):
    """JSON as the pair style takes it; EquiError or ValueError."""
    depth = deepest = 0
    in_string = escaped = False
    # The parser recurses: a text that nests more deeply than any document must not reach it.
    if text.count("[") + text.count("{") > MAX_NESTING:
        for character in text:
            if in_string:
                if escaped:
                    escaped = False
                elif character == "\\":
                    escaped = True
                elif character == '"':
                    in_string = False
            elif character == '"':
                in_string = True
            elif character in "[{":
                depth += 1
                deepest = max(deepest, depth)
                if deepest > MAX_NESTING:
                    raise EquiError(f"expected arrays and objects nested {MAX_NESTING} deep at most, found more")
            elif character in "]}":
                depth -= 1
    return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)


def _whole(value, what):
    if type(value) is not int or value < 0:
        raise EquiError(f"{what}: expected a whole number that is not negative")
    return value


def _tensor(name, entry, body):
    """(first byte, end, array) of a tensor of the header."""
    what = f"tensor {printable(name, SHOWN)}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise EquiError(f"{what}: expected an object of dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise EquiError(f"{what}: dtype: expected F32 or F64, found {printable(dtype, SHOWN)}")
    if not isinstance(shape, list) or len(shape) > 8:
        raise EquiError(f"{what}: shape: expected an array of at most 8 numbers")
    if not isinstance(offsets, list) or len(offsets) != 2:
        raise EquiError(f"{what}: data_offsets: expected two offsets")
    size = math.prod(_whole(n, f"{what}: shape") for n in shape) * DTYPES[dtype].itemsize
    begin, end = (_whole(n, f"{what}: data_offsets") for n in offsets)
    if end > len(body):
        raise EquiError(f"truncated: {what} ends at byte {end} of {len(body)}")
    if end - begin != size:
        raise EquiError(f"{what}: data_offsets: expected {size} bytes, found {end - begin}")
    return begin, end, np.frombuffer(body[begin:end], DTYPES[dtype]).reshape(shape)


def _document(header):
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or not isinstance(metadata.get(FORMAT_NAME), str):
        raise EquiError(f"not an .equi file: no document '{FORMAT_NAME}' in its header")
    document = _parse(metadata[FORMAT_NAME])
    if not isinstance(document, dict) or document.get("format") != FORMAT_NAME:
        found = document.get("format") if isinstance(document, dict) else "no object"
        raise EquiError(f"format: expected '{FORMAT_NAME}', found '{printable(found, SHOWN)}'")
    version = document.get("format_version")
    if type(version) is not int or version < 1:
        raise EquiError(f"format_version: expected a whole number, found {printable(version, SHOWN)}")
    if version > FORMAT_VERSION:
        raise EquiError(f"format_version {version} is newer than this tool knows ({FORMAT_VERSION})")
    return document


def _contents(data):
    if len(data) < 8:
        raise EquiError(f"not an .equi file: {len(data)} bytes")
    (length,) = struct.unpack("<Q", data[:8])
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise EquiError("not an .equi file: no safetensors header")
    if len(data) < 8 + length:
        raise EquiError(f"truncated: header of {length} bytes expected, {len(data) - 8} found")
    try:
        header = _parse(data[8 : 8 + length].decode())
        if not isinstance(header, dict):
            raise EquiError("not an .equi file: its header is no object")
        document = _document(header)
    except (ValueError, RecursionError) as error:
        raise EquiError(f"not an .equi file: {printable(error, 200)}") from error
    body = memoryview(data)[8 + length :]
    tensors = {name: _tensor(name, entry, body) for name, entry in header.items() if name != "__metadata__"}
    at = 0
    for name, (begin, end, _) in sorted(tensors.items(), key=lambda item: item[1][:2]):
        if begin != at:
            raise EquiError(f"tensor {printable(name, SHOWN)}: data_offsets: expected data from byte {at} on, found {begin}")
        at = end
    if at != len(body):
        raise EquiError(f"expected {at} bytes of tensor data, found {len(body)}")
    if document["format_version"] >= FIRST_VERSION_WITH_HASH:
        found = data_hash([body])
        if document.get("data_hash") != found:
            raise EquiError(
                f"data_hash: expected data with the hash {printable(document.get('data_hash'), SHOWN)}, "
                f"found data with {found} (a damaged file)"
            )
    return document, {name: array for name, (_, _, array) in tensors.items()}


def read(path):
    """(document, tensors) of a file; EquiError for what is damaged, of another format or newer."""
    shown = printable(path)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise EquiError(f"cannot read {shown}: " + ("it is a folder" if stat.S_ISDIR(mode) else "not a regular file"))
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise EquiError(f"cannot read {shown}: {reason(error)}") from error
    except MemoryError as error:
        raise EquiError(f"cannot read {shown}: not enough memory for it") from error
    try:
        document, tensors = _contents(data)
        document_rules.check(document, tensors)
    except EquiError as error:
        raise EquiError(f"{shown}: {error}") from error
    return document, tensors
