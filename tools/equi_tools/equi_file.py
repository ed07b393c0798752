"""Container of .equi files (doc/model_file.rst): safetensors with one JSON document under __metadata__.

Written here in full, because the format is small and a user who only inspects files then needs nothing but numpy.
"""

import json
import struct
from pathlib import Path

import numpy as np

from .errors import EquiError

FORMAT_NAME = "equi"
FORMAT_VERSION = 2
DTYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
MAX_HEADER_BYTES = 100_000_000


def write(path, document, tensors):
    """Writes a document (dict) and its tensors (name -> float32 or float64 array); replaces the file in one step."""
    header = {"__metadata__": {FORMAT_NAME: json.dumps(document)}}
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
    path = Path(path)
    partial = path.with_name(path.name + ".part")
    try:
        with open(partial, "wb") as f:
            f.write(struct.pack("<Q", len(text)))
            f.write(text)
            f.writelines(blobs)
        partial.replace(path)
    except OSError as error:
        raise EquiError(f"cannot write {path}: {error.strerror}") from error


def read(path):
    """(document, tensors) of a file; refuses truncated files, other formats and newer versions."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise EquiError(f"cannot read {path}: {error.strerror}") from error
    if len(data) < 8:
        raise EquiError(f"{path}: not an .equi file: {len(data)} bytes")
    (length,) = struct.unpack("<Q", data[:8])
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise EquiError(f"{path}: not an .equi file: no safetensors header")
    if len(data) < 8 + length:
        raise EquiError(f"{path}: truncated: header of {length} bytes expected, {len(data) - 8} found")
    try:
        header = json.loads(data[8 : 8 + length])
        document = json.loads(header.pop("__metadata__")[FORMAT_NAME])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EquiError(f"{path}: not an .equi file: no document '{FORMAT_NAME}' in its header") from error
    if document.get("format") != FORMAT_NAME:
        raise EquiError(f"{path}: format: expected '{FORMAT_NAME}', found '{document.get('format')}'")
    if document.get("format_version", 0) > FORMAT_VERSION:
        raise EquiError(
            f"{path}: format_version {document['format_version']} is newer than this tool knows ({FORMAT_VERSION})"
        )
    body = memoryview(data)[8 + length :]
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] not in DTYPES:
            raise EquiError(f"{path}: tensor {name}: dtype {entry['dtype']}, expected F32 or F64")
        if end > len(body):
            raise EquiError(f"{path}: truncated: tensor {name} ends at byte {end} of {len(body)}")
        tensors[name] = np.frombuffer(body[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return document, tensors
