# SPDX-License-Identifier: MIT
"""`equi convert` and `equi info` accept no file that the pair style refuses, and name files that are not models."""

import gzip
import io
import json
import re
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from built_models import built
from equi_tools import document as document_rules
from equi_tools import equi_file, frameworks, kernels
from equi_tools.cli import main
from equi_tools.errors import EquiError
from equi_tools.frameworks.sevenn import convert as sevenn_convert

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 2.0  # time of `equi info` without Python's start


def spoiled(monkeypatch, change):
    """Makes the converter of SevenNet commit this mistake: change(document, tensors)."""
    right = sevenn_convert.convert

    def wrong(*arguments):
        body, tensors = right(*arguments)
        tensors = {name: np.array(tensor) for name, tensor in tensors.items()}
        change(body, tensors)
        return body, tensors

    monkeypatch.setattr(sevenn_convert, "convert", wrong)


def first(body, kind, number=0):
    return [layer for layer in body["layers"] if layer["type"] == kind][number]


def merged_irreps(body, tensors):
    layer = first(body, "linear", 2)
    layer["irreps_in"] = layer["irreps_in"].replace("+", "+2x0e+", 1)


def superfluous_tensor(body, tensors):
    tensors["left over"] = np.zeros(3)


def large_number(body, tensors):
    first(body, "convolution")["paths"][0]["l"] = 10**6


def infinite_energy(body, tensors):
    """Each number is valid in a file; gates multiply products of them."""
    for name, tensor in tensors.items():
        if "self_interaction" in name:
            tensor *= 1e25


REFUSED = {
    merged_irreps: r"layers\[\d+\]\.irreps_in: expected .*, found ",
    superfluous_tensor: "left over",
    large_number: r"\.l: expected ",
    infinite_energy: "finite",
}


@pytest.mark.parametrize("fault", REFUSED, ids=lambda fault: fault.__name__)
def test_a_fault_of_the_converter_is_told_in_the_readers_words(fault, tmp_path, monkeypatch, capsys):
    spoiled(monkeypatch, fault)
    output = tmp_path / "model.equi"
    for before in ({}, {"model.equi": b"an older file"}):
        for name, data in before.items():
            (tmp_path / name).write_bytes(data)
        assert main(["convert", "-q", str(built("tiny/plain.pth")), "-o", str(output)]) == 1
        message = capsys.readouterr().err
        assert message.startswith(f"equi: error: {output}: ") and message.count("\n") == 1
        blame = "own results are finite, " if fault is infinite_energy else "fault of the converter: "
        assert re.search(REFUSED[fault], message) and f"{blame}please report it with " in message
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_stored_values_that_a_file_does_not_reproduce_are_refused(tmp_path, monkeypatch):
    """The structures of the files are evaluated, too."""
    document, tensors = equi_file.read(built("tiny/plain.equi"))
    document.pop("data_hash")
    document["self_check"][1]["forces"][0][1] += 1e-4
    equi_file.write(tmp_path / "other.equi", document, tensors)
    with pytest.raises(EquiError, match="other.equi: the stored values of the structure triclinic are not reproduced"):
        kernels.try_file(tmp_path / "other.equi")


def test_an_older_file_is_tried_when_it_is_renewed(tmp_path, capsys):
    document, tensors = equi_file.read(built("tiny/plain.equi"))
    document.pop("data_hash")
    document["format_version"] = 2
    equi_file.write(tmp_path / "old.equi", document, tensors)
    assert main(["convert", str(tmp_path / "old.equi"), "-o", str(tmp_path / "new.equi")]) == 0
    merged_irreps(document, tensors)
    equi_file.write(tmp_path / "old.equi", document, tensors)
    assert main(["convert", str(tmp_path / "old.equi"), "-o", str(tmp_path / "newer.equi")]) == 1
    assert "old.equi already" in capsys.readouterr().err and not (tmp_path / "newer.equi").exists()


def test_without_the_program_a_note_says_that_the_file_was_not_tried(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EQUI_BUILD_DIR", str(tmp_path))
    output = tmp_path / "model.equi"
    assert main(["convert", str(built("tiny/plain.pth")), "-o", str(output)]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "was not tried" in line]
    assert len(notes) == 1 and f"{output} was not tried: " in notes[0] and "'equi check'" in notes[0]
    assert output.is_file()
    assert main(["info", str(output)]) == 0 and "was not tried" in capsys.readouterr().err
    # The file cannot be loaded: a GPU's driver is missing, or it is older than the tool.
    (tmp_path / "bin").mkdir()
    programs = {"libcuda": "echo 'libcuda.so.1' >&2; exit 127", "older": "echo 'usage: equi_kernels' >&2; exit 1"}
    for words, script in programs.items():
        (tmp_path / "bin" / "equi_kernels").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / "equi_kernels").chmod(0o755)
        assert main(["convert", str(built("tiny/plain.pth")), "-o", str(output)]) == 0
        assert words in capsys.readouterr().err


def test_info_does_not_print_what_the_pair_style_refuses(tmp_path, capsys):
    document, tensors = equi_file.read(built("tiny/plain.equi"))
    document.pop("data_hash")
    merged_irreps(document, tensors)
    equi_file.write(tmp_path / "model.equi", document, tensors)
    assert main(["info", str(tmp_path / "model.equi")]) == 1
    shown = capsys.readouterr()
    assert shown.out == "" and re.search(REFUSED[merged_irreps], shown.err)


def many_paths(layer):
    layer["paths"] = (layer["paths"] * 100_000)[:100_000]


def many_paths_of_many_blocks(layer):
    many_paths(layer)
    layer["irreps_in"] += "+1x0e" * 400_000


@pytest.mark.parametrize(
    "change, words", [(many_paths, "1 to 4096, found 100000"), (many_paths_of_many_blocks, "at most 2048 blocks")]
)
def test_the_limits_of_the_reader_come_first(change, words, tmp_path, capsys):
    document, tensors = equi_file.read(built("tiny/plain.equi"))
    document.pop("data_hash")
    change(first(document, "convolution", 1))
    equi_file.write(tmp_path / "large.equi", document, tensors)
    begin = time.process_time()
    assert main(["info", str(tmp_path / "large.equi")]) == 1
    assert time.process_time() - begin < SECONDS
    assert words in capsys.readouterr().err


def test_the_limits_of_the_tool_are_those_of_the_reader():
    header = (ROOT / "src" / "base" / "model_limits.h").read_text()
    names = [name for name in vars(document_rules) if name.startswith(("MAX_", "LMAX_"))]
    assert len(names) > 5
    for name in names:
        (value,) = re.findall(rf"\b{name} = ([0-9e]+)[;,]", header)
        assert float(value) == getattr(document_rules, name), name


# Files that users pass to `equi convert` in place of a model.


def zipped(names):
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name in names:
            archive.writestr(name, b"\x80numbers")
    return memory.getvalue()


def tarred():
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("best.pth"), io.BytesIO())
    return memory.getvalue()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4" * 64 + b"\nsize 34567890\n"
PAGE = b"\n<!DOCTYPE html>\n<html lang='en'><title>model.pth at main \xc2\xb7 GitHub</title>" + b"<p>x</p>" * 2000
FOREIGN = {
    "empty": (b"", "is empty: "),
    "page": (PAGE, "is a web page .*Download raw file"),
    "pointer": (POINTER, "is a pointer of Git LFS to a file of 34567890 bytes.*git lfs pull"),
    "gzip": (gzip.compress(b"numbers"), "is compressed by gzip: unpack it"),
    "tar": (tarred(), "is a tar archive: unpack it"),
    "zip": (zipped(["run/", "run/best.pth", "run/log"]), "is a zip archive with run/best.pth, run/log and no model"),
    "only folders": (zipped(["models/"]), "is a zip archive and no model: unpack it"),
    "json": (json.dumps({"model": "MACE", "layers": [1, 2]}).encode(), "is JSON, without the numbers of a model"),
    "text": ("model: MACE  # Å\n".encode() * 1000, "is a text file, without the numbers of a model"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_is_no_model_is_called_what_it_is(name, tmp_path, capsys):
    data, words = FOREIGN[name]
    source = tmp_path / "model.pth"
    source.write_bytes(data)
    assert main(["convert", "-q", str(source), "-o", str(tmp_path / "model.equi")]) == 1
    message = capsys.readouterr().err
    assert re.search(f"^equi: error: {source} (?:{words})", message) and message.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pth"]


def test_a_folder_that_is_no_model_is_called_what_it_is(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    assert main(["convert", "-q", str(tmp_path / "run"), "-o", str(tmp_path / "model.equi")]) == 1
    assert "run is a folder, and no potential of matgl" in capsys.readouterr().err
    # A pointer of Git LFS in place of the numbers of a matgl folder.
    (tmp_path / "run" / "model.json").write_text('{"@module": "matgl.apps.pes"}')
    (tmp_path / "run" / "state.pt").write_bytes(POINTER)
    assert main(["convert", "-q", str(tmp_path / "run"), "-o", str(tmp_path / "model.equi")]) == 1
    assert "state.pt is a pointer of Git LFS" in capsys.readouterr().err


def test_a_folder_does_not_hide_the_name_of_a_published_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "7net-0").mkdir()
    assert frameworks.detect("7net-0") is frameworks.SEVENN


@pytest.mark.parametrize("data", [b"\x80\x02}q\x00.", b"(dp0\n.", b"ccollections\nOrderedDict\n(tR.", b"\x00\xff"])
def test_what_may_be_a_pickle_is_left_to_the_readers(data, tmp_path):
    (tmp_path / "model.pth").write_bytes(data)
    assert frameworks.detect(tmp_path / "model.pth") is frameworks.SEVENN
