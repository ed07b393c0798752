# SPDX-License-Identifier: MIT
"""The container of .equi files: written files can be read, damage is found, and old files are brought up to date."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from equi_tools import equi_file
from equi_tools.convert import convert
from equi_tools.errors import EquiError

SOUND = Path(__file__).resolve().parents[3] / "potentials" / "nacl-nequip.equi"


def parts(path):
    """(header, document, data) of a file, unchecked."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["equi"]), data[8 + length :]


def put_together(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def refused(path):
    with pytest.raises(EquiError) as error:
        equi_file.read(path)
    message = str(error.value)
    assert "\n" not in message and "\x1b" not in message and len(message) < 1000
    return message


@pytest.fixture
def path(tmp_path):
    (tmp_path / "good.equi").write_bytes(SOUND.read_bytes())
    return tmp_path / "good.equi"


def test_what_is_written_is_read(path, tmp_path):
    document, tensors = equi_file.read(path)
    equi_file.write(tmp_path / "again.equi", document, tensors)
    again, read = equi_file.read(tmp_path / "again.equi")
    assert again == document and document["data_hash"].startswith("xxh3_128:")
    assert list(read) == list(tensors)
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype and np.array_equal(read[name], tensor)


def test_each_damaged_byte_of_the_data_is_found(path):
    good = path.read_bytes()
    for at in range(len(good) - len(parts(path)[2]), len(good), 997):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert "data_hash: expected" in refused(path)


def test_versions_without_a_hash_are_read(path):
    document, tensors = equi_file.read(path)
    del document["data_hash"]
    equi_file.write(path, document | {"format_version": 2}, tensors)
    assert "data_hash" not in parts(path)[1]
    equi_file.read(path)
    equi_file.write(path, document | {"format_version": 4}, tensors)
    assert "newer" in refused(path)


def test_a_hash_is_needed_from_version_3_on(path):
    header, document, data = parts(path)
    for bad in ("", None, "xxh3_128:00", "\x1b[31m"):
        header["__metadata__"]["equi"] = json.dumps(document | {"data_hash": bad})
        put_together(path, header, data)
        assert "data_hash" in refused(path)


def test_damaged_containers_are_refused_in_one_line(path):
    header, document, data = parts(path)
    evil = "\x1b[31m\n" + 1000 * "x"
    name = next(name for name in header if name != "__metadata__")
    for change in (
        {"dtype": "I64"}, {"dtype": evil}, {"dtype": []}, {"shape": [3, 3]}, {"shape": [-3, -2]}, {"shape": 6},
        {"shape": [2.0, 3.0]}, {"shape": [1] * 9}, {"shape": [2**62, 2**62]}, {"data_offsets": [0]},
        {"data_offsets": [8, 56]}, {"data_offsets": [0, 2**63]}, {"data_offsets": [-8, 40]}, {evil: 1},
    ):  # fmt: skip
        put_together(path, header | {name: header[name] | change}, data)
        assert f"tensor {name}" in refused(path)
    for bad in (
        b"{}", b"[]", b"{", b"5", b"\xff\xfe", b'{"__metadata__":{"equi":5}}', b'{"__metadata__":{"equi":"5"}}',
        b'{"__metadata__":{"equi":"{}"}}', b'{"__metadata__":5}', b'{"a":NaN}', b"[" * 3_000_000,
        b'{"a":' * 1_000_000, b'{"' + b'\\"' * 1_000_000, json.dumps({"__metadata__": {"equi": "[" * 1_000_000}}).encode(),
        json.dumps({"__metadata__": {"equi": json.dumps({"format": evil})}}).encode(),
        json.dumps({"__metadata__": {"equi": json.dumps({"format": "equi", "format_version": evil})}}).encode(),
    ):  # fmt: skip
        put_together(path, bad, b"")
        refused(path)
    put_together(path, header | {evil: {}}, data)
    refused(path)
    put_together(path, header, data + b"12345678")
    assert "bytes of tensor data" in refused(path)


def test_keys_are_given_once(path):
    header, document, data = parts(path)
    text = json.dumps(header).encode()
    put_together(path, text.replace(b'"shape":', b'"shape": [1], "shape":', 1), data)
    assert "shape again" in refused(path)
    header["__metadata__"]["equi"] = json.dumps(document).replace('"cutoff"', '"cutoff": 5.0, "cutoff"')
    put_together(path, header, data)
    assert "cutoff again" in refused(path)


def test_unknown_keys_of_the_head_are_named(path):
    header, document, data = parts(path)
    header["__metadata__"]["equi"] = json.dumps(document | {"Cutoff\x1b": 5.0})
    put_together(path, header, data)
    assert "'Cutoff\\x1b'" in refused(path)


@pytest.mark.parametrize("name", ["D", "X", "Xx", "na", "", 11])
def test_elements_are_those_that_the_pair_style_knows(name, path):
    header, document, data = parts(path)
    document["elements"][0] = name
    header["__metadata__"]["equi"] = json.dumps(document)
    put_together(path, header, data)
    assert "elements[0]: expected a chemical symbol, found" in refused(path)


def test_blocks_of_irreps_have_channels(path):
    header, document, data = parts(path)
    layer = next(layer for layer in document["layers"] if layer["type"] == "linear")
    layer["irreps_out"] += "+0x0e"
    header["__metadata__"]["equi"] = json.dumps(document)
    put_together(path, header, data)
    assert "irreps_out: expected irreps like 16x0e+8x1o, found" in refused(path)


def test_brackets_within_texts_are_no_nesting(path):
    document, tensors = equi_file.read(path)
    document["provenance"]["source"] = '[{"\\' * 50
    equi_file.write(path, document, tensors)
    assert equi_file.read(path)[0]["provenance"] == document["provenance"]


def test_only_files_are_read(tmp_path):
    for path in (tmp_path, tmp_path / "none.equi", "/dev/null", "x" * 500):
        assert refused(path).startswith("cannot read")


def test_convert_renews_an_old_file_with_the_same_numbers(path, tmp_path):
    document, tensors = equi_file.read(path)
    del document["data_hash"]
    equi_file.write(path, document | {"format_version": 1}, tensors)
    convert(path, tmp_path / "new.equi", quiet=True)
    header, renewed, data = parts(tmp_path / "new.equi")
    assert renewed.pop("data_hash") == equi_file.data_hash([data])
    assert renewed == document | {"format_version": 3}
    old_header, _, old_data = parts(path)
    assert data == old_data
    del header["__metadata__"], old_header["__metadata__"]
    assert header == old_header
    with pytest.raises(EquiError, match="accepts no --head"):
        convert(path, tmp_path / "other.equi", head="x", quiet=True)
