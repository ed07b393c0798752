# SPDX-License-Identifier: MIT
"""Damaged .equi files and unusual paths: one line on standard error, a status other than 0, no incomplete file.

Mutants of small valid files are read in this process, which may raise only EquiError, and some by the command as a
user starts it.
"""

import json
import lzma
import os
import resource
import shlex
import stat
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
from functools import lru_cache
from pathlib import Path

import direct_checkpoint
import esen_reference
import mlip_reference
import numpy as np
import pytest
import source_mutants
import torch
from equi_tools import compare, equi_file, frameworks, info
from equi_tools.cli import main
from equi_tools.convert import convert
from equi_tools.errors import EquiError
from equi_tools.self_check import to_atoms
from test_models import sevenn as sevenn_models

ROOT = Path(__file__).resolve().parents[3]
# One file with tables of couplings, and one with features of both parities.
MODELS = [ROOT / "potentials" / "nacl-mace.equi", ROOT / "potentials" / "nacl-nequip.equi"]
# A mutant that needs longer makes its reader follow a number of the file; valid files of this size need 10 ms.
SECONDS = 1.0
# Replacements for any value of the document.
OTHERS = (None, True, -1, 0, 2**31, 10**400, 1e308, -0.5, "", "x", "\x1b[2J\ud800\u202e", [], [[]], {}, ["x"] * 3)


@lru_cache(maxsize=None)
def parts(path):
    """(header, document, body) of a valid file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["equi"]), data[8 + length :]


def assembled(header, document, body):
    header = header | {"__metadata__": {"equi": json.dumps(document)}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def places(value, where=()):
    """All places in a document; in a list only its first and its last."""
    yield where
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*where, key))
    elif isinstance(value, list) and value:
        for n in sorted({0, len(value) - 1}):
            yield from places(value[n], (*where, n))


def changed(value, where, change):
    """A copy in which `change` was applied to the container and key of a place."""
    copy = json.loads(json.dumps(value))
    holder = copy
    for key in where[:-1]:
        holder = holder[key]
    change(holder, where[-1])
    return copy


def drop(holder, key):
    del holder[key]


def double(holder, key):
    holder.insert(key, holder[key])


def setter(other):
    def put(holder, key):
        holder[key] = other

    return put


def changes_of(holder_is_list, rng, count):
    chosen = rng.choice(len(OTHERS), size=count, replace=False)
    yield drop
    if holder_is_list:
        yield double
    for n in chosen:
        yield setter(OTHERS[n])


def mutants(path, rng):
    """(name, bytes) of files with one fault each."""
    header, document, body = parts(path)
    data = path.read_bytes()
    for cut in sorted({0, 1, 7, 8, 9, 100, *rng.integers(0, len(data), 12), len(data) - 1}):
        yield f"cut at {cut}", data[:cut]
    for n in range(60):
        spoiled = bytearray(data)
        # Most of the file is numbers, which may have any value; three in four flips change the header.
        end = len(data) if n % 4 == 0 else len(data) - len(body)
        at = int(rng.integers(0, end))
        spoiled[at] ^= 1 << int(rng.integers(0, 8))
        yield f"bit of byte {at}", bytes(spoiled)
    seen = set()
    for where in places(document):
        # One place of each kind: the gates of all layers are read alike.
        kind = tuple("#" if isinstance(key, int) else key for key in where)
        if where and (kind not in seen or rng.random() < 0.05):
            seen.add(kind)
            holder_is_list = isinstance(where[-1], int)
            for change in changes_of(holder_is_list, rng, 5):
                yield f"document {where} {change.__name__}", assembled(header, changed(document, where, change), body)
    entries = {key: value for key, value in header.items() if key != "__metadata__"}
    for where in [w for w in places(dict(list(entries.items())[:3])) if w]:
        for change in changes_of(isinstance(where[-1], int), rng, 8):
            yield f"header {where} {change.__name__}", assembled(changed(entries, where, change), document, body)
    yield "document twice", assembled(header, [document], body)
    yield "nested", struct.pack("<Q", 200_000) + b"[" * 200_000
    yield "nested document", assembled_text(header, "[" * 100_000 + "]" * 100_000, body)
    yield "NaN", assembled_text(header, json.dumps(document | {"cutoff": float("nan")}), body)
    yield "longest header", struct.pack("<Q", 2**64 - 1) + data[8:]


def assembled_text(header, text, body):
    header = json.dumps(header | {"__metadata__": {"equi": text}}).encode()
    return struct.pack("<Q", len(header)) + header + body


def use(path):
    """Runs everything of the tool that reads a file in this process; returns its text."""
    facts = info.summary(path)
    shown = info.text(path, facts)
    json.dumps(facts)
    document, _ = equi_file.read(path)
    for entry in document.get("self_check", []):
        to_atoms(entry)
        compare.print_table([], compare.BARS["double", "exact"], write=lambda line: None)
    return shown


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_damaged_file_is_refused_or_shown_in_printable_text(model, seed, tmp_path):
    path = tmp_path / "mutant.equi"
    refused, shown = 0, 0
    for name, data in mutants(model, np.random.default_rng(seed)):
        path.write_bytes(data)
        begin = time.monotonic()
        try:
            lines = use(path).split("\n")
            shown += 1
            assert all(line.isprintable() for line in lines), name
        except EquiError as error:
            refused += 1
            assert str(path) in str(error), f"{name}: {error}"
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
        assert time.monotonic() - begin < SECONDS, name
    # Names and numbers may have other values; most faults are not of this kind.
    assert shown > 20 and refused > 200


def run(*words, cwd=None, environment=None, **options):
    """The command as a user starts it."""
    own = {name: os.environ[name] for name in ("PATH", "EQUI_BUILD_DIR")}
    full = own | {"PYTHONPATH": str(ROOT / "tools")} | (environment or {})
    return subprocess.run([sys.executable, "-m", "equi_tools", *words], cwd=cwd, env=full, check=False,
                          capture_output="stdout" not in options, **options)  # fmt: skip


def one_line(done):
    assert done.returncode == 1
    message = done.stderr.decode(errors="surrogateescape")
    assert message.startswith("equi: error: ") and message.count("\n") == 1, message
    assert message[:-1].isprintable(), message
    return message


def sound_copy(folder, name="model.equi"):
    path = Path(os.fsdecode(os.path.join(os.fsencode(folder), os.fsencode(name))))
    path.write_bytes(MODELS[1].read_bytes())
    return path


@pytest.mark.parametrize("command", [["info"], ["info", "--json"], ["check"], ["compare", "--builtin"]])
def test_the_command_says_in_one_line_what_is_wrong_with_a_file(command, tmp_path):
    header, document, body = parts(MODELS[0])
    n = [layer["type"] for layer in document["layers"]].index("convolution")
    document = changed(document, ("layers", n, "paths", 0, "in"), setter("\x1b[31m"))
    (tmp_path / "bad.equi").write_bytes(assembled(header, document, body))
    more = ["7net-0"] if command[0] == "compare" else []
    message = one_line(run(command[0], "bad.equi", *more, *command[1:], cwd=tmp_path))
    assert f"bad.equi: layers[{n}].paths[0].in: expected a whole number" in message and "'\\x1b[31m'" in message


COMMANDS = ["info", "check", "certify", "schedule", "compile", "compare", "demo"]
PLACES = ["folder", "nothing", "pipe", "device", "long name", "below a file", "no name"]


@pytest.mark.parametrize(
    "command, place",
    [("info", place) for place in PLACES] + [(command, place) for command in COMMANDS[1:] for place in PLACES[:3]],
)
def test_what_is_no_file_is_one_line(command, place, tmp_path):
    names = {"folder": ".", "nothing": "missing.equi", "pipe": "pipe", "device": "/dev/zero", "long name": "x" * 300,
             "below a file": "file/model.equi", "no name": ""}  # fmt: skip
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    words = ["--build-dir", os.environ["EQUI_BUILD_DIR"], "--model"] if command == "demo" else []
    more = ["7net-0", "--builtin"] if command == "compare" else []
    environment = {"EQUI_BUILD_DIR": os.environ["EQUI_BUILD_DIR"]}
    one_line(run(command, *words, names[place], *more, cwd=tmp_path, environment=environment, timeout=60))


def test_output_that_cannot_be_written_is_one_line(tmp_path):
    path = sound_copy(tmp_path)
    with open("/dev/full", "wb") as full:
        for words in (["info", path], ["info", "--json", path], ["--help"]):
            done = run(*words, stdout=full, stderr=subprocess.PIPE)
            assert "No space left on device" in one_line(done)
        # Nothing can be printed anywhere, so only the status reports the fault.
        assert run("info", path, stdout=full, stderr=full).returncode == 1
        assert run("info", tmp_path, stdout=subprocess.PIPE, stderr=full).returncode == 1


def test_a_closed_output_is_no_error(tmp_path):
    path = sound_copy(tmp_path)
    command = f"'{sys.executable}' -m equi_tools info '{path}' >&- 2>&-; test $? = 0"
    assert subprocess.run(["sh", "-c", command], env=dict(os.environ, PYTHONPATH=str(ROOT / "tools")), check=False).returncode == 0


@pytest.mark.parametrize("name", [b"\xff\xfe.equi", "\u202e\x1b[2J.equi".encode(), b'a "$x" & #.equi', "größe Ω.equi".encode()])
@pytest.mark.parametrize("environment", [{}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "0"}])
def test_names_of_files_may_be_any_bytes(name, environment, tmp_path):
    path = sound_copy(tmp_path, name)
    done = run("info", path, environment=environment)
    assert done.returncode == 0, done.stderr
    assert all(line.isprintable() for line in done.stdout.decode().split("\n"))
    path.write_bytes(b"short")
    one_line(run("info", path, environment=environment))


@pytest.mark.parametrize("words", [["info"], ["check", "--stored"]])
def test_no_home_and_no_temporary_folder(words, tmp_path):
    path = sound_copy(tmp_path)
    environment = {"TMPDIR": "/nonexistent", "EQUI_PLUGIN": f"{os.environ['EQUI_BUILD_DIR']}/lib/equiplugin.so"}
    done = run(*words, path, environment=environment)
    assert done.returncode == 0, done.stderr


def test_lammps_takes_files_of_any_name(tmp_path):
    for name in (b'a "$x" & #.equi', b"\xff\xfe.equi"):
        path = sound_copy(tmp_path, name)
        environment = {"EQUI_PLUGIN": f"{os.environ['EQUI_BUILD_DIR']}/lib/equiplugin.so"}
        done = run("check", "--stored", path, environment=environment)
        assert done.returncode == 0, done.stderr + done.stdout


def test_a_source_that_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in ("pipe", "/dev/zero"):
        assert "not a regular file" in one_line(run("convert", place, "-o", "x.equi", cwd=tmp_path, timeout=60))
    assert os.listdir(tmp_path) == ["pipe"]


def test_looking_at_a_source_takes_no_more_memory_than_it_has(tmp_path):
    """Before the framework is known: an archive that unpacks to a thousand times its size, and a large file of
    zeros."""
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", bytes(1 << 26))
    with open(tmp_path / "large.pt", "wb") as file:
        file.truncate(1 << 28)
    tracemalloc.start()
    try:
        with pytest.raises(EquiError, match="bomb.pt: .*compressed"):
            frameworks.detect(tmp_path / "bomb.pt")
        assert frameworks.detect(tmp_path / "large.pt") is frameworks.SEVENN
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


# Writing

DOCUMENT, TENSORS = equi_file.read(MODELS[1])


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    "output, expected",
    [
        ("folder", "it is a folder"),
        ("", "it is a folder"),
        ("missing/model.equi", "no such folder"),
        ("file/model.equi", "no such folder"),
        ("pipe", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("/dev/full", "not a regular file"),
        ("x" * 300, "File name too long"),
        ("/proc/model.equi", ""),
        ("loop", "a link to itself"),
        ("a\0b", ""),
    ],
)
def test_what_cannot_be_written_to_is_refused_and_left_alone(output, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    before, device = files(tmp_path), os.stat("/dev/null")
    with pytest.raises(EquiError, match=f"cannot write .*{expected}"):
        equi_file.write(output, DOCUMENT, TENSORS)
    assert files(tmp_path) == before and not list((tmp_path / "folder").iterdir())
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and os.stat("/dev/null").st_rdev == device.st_rdev


def test_a_conversion_looks_at_its_output_first(tmp_path, monkeypatch):
    """The error comes before the minutes of a large model."""
    monkeypatch.setattr("equi_tools.frameworks.require", lambda source: pytest.fail("the source was looked at"))
    with pytest.raises(EquiError, match="it is a folder"):
        convert("7net-0", tmp_path, quiet=True)


def test_a_conversion_leaves_its_source_alone(tmp_path):
    """Trained weights are never replaced by a file that is made from them, whatever the name of the file."""
    source, folder = tmp_path / "old.pth", tmp_path / "matgl"
    source.write_bytes(lzma.decompress((ROOT / "unittest" / "golden" / "nequip-0.6.2.pth.xz").read_bytes()))
    (tmp_path / "link.equi").symlink_to(source)
    os.link(source, tmp_path / "second.equi")
    folder.mkdir()
    (folder / "state.pt").write_bytes(b"numbers")
    before = files(tmp_path), files(folder)
    for place, output in (
        (source, source),
        (source, "link.equi"),
        (source, "second.equi"),
        ("link.equi", source),
        (folder, "matgl/state.pt"),
    ):
        with pytest.raises(EquiError, match="it is what is read from .* and would be lost"):
            convert(tmp_path / place, tmp_path / output, quiet=True)
    assert (files(tmp_path), files(folder)) == before


def test_a_full_disk_leaves_the_old_file(tmp_path):
    target = tmp_path / "model.equi"
    target.write_bytes(b"the old file")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(EquiError, match="cannot write .*model.equi: File too large"):
            equi_file.write(target, DOCUMENT, TENSORS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert files(tmp_path) == {"model.equi": b"the old file"}


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    target = tmp_path / "model.equi"
    target.write_bytes(b"the old file")
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        equi_file.write(target, DOCUMENT, TENSORS)
    assert files(tmp_path) == {"model.equi": b"the old file"}


@pytest.mark.parametrize("name", ["model.equi", "x" * 255])
def test_a_file_is_written_through_a_link_with_the_usual_permissions(name, tmp_path):
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link.equi"
    link.symlink_to(Path("folder") / name)
    umask = os.umask(0o027)
    try:
        equi_file.write(link, DOCUMENT, TENSORS)
    finally:
        os.umask(umask)
    assert link.is_symlink() and [path.name for path in (tmp_path / "folder").iterdir()] == [name]
    assert stat.S_IMODE((tmp_path / "folder" / name).stat().st_mode) == 0o640
    assert equi_file.read(link)[0] == DOCUMENT


def test_numbers_that_are_not_finite_are_not_written_into_the_document(tmp_path):
    with pytest.raises(EquiError, match="not finite"):
        equi_file.write(tmp_path / "nan.equi", DOCUMENT | {"cutoff": float("inf")}, TENSORS)
    assert not list(tmp_path.iterdir())


# Files of frameworks


def sources(folder):
    """Valid files of all frameworks: those of the build, and others that need no framework; with arguments of
    convert."""
    made = []
    for name, words in (("tiny/plain.pth", ()), ("mace/plain.model", ()), ("nequip/plain.nequip.zip", ()), ("matgl/bessel", ()),
                        ("torchmd/charged.ckpt", ("--unit", "eV"))):  # fmt: skip
        path = Path(os.environ["EQUI_MODELS_DIR"], name)
        if path.exists():
            made.append((path, words))
    old = folder / "old.pth"
    old.write_bytes(lzma.decompress((ROOT / "unittest" / "golden" / "nequip-0.6.2.pth.xz").read_bytes()))
    stored = [folder / name for name in ("nequix-0.4.5-jax.nqx", "nequix-0.4.5-torch.pt", "allegro-0.6.3.nequip.pth", "allegro-0.8.2.ckpt")]
    for path in stored:
        path.write_bytes(lzma.decompress((ROOT / "unittest" / "golden" / f"{path.name}.xz").read_bytes()))
    direct = folder / "direct.pt"
    torch.save(direct_checkpoint.checkpoint("equiformer_v2"), direct)
    esen_reference.Checkpoint(num_experts=3).save(folder / "uma.pt")
    mlip_reference.write(folder / "mlip.zip")
    return [*made, *((path, ()) for path in (old, *stored, direct, folder / "uma.pt", folder / "mlip.zip", *MODELS))]


@pytest.mark.parametrize(
    "count, faults", [(66, 1), pytest.param(2000, 1, marks=pytest.mark.slow), pytest.param(1000, 3, marks=pytest.mark.slow)]
)
def test_a_source_with_faults_is_converted_or_refused_in_one_line(count, faults, tmp_path):
    """Faults by the structure of the file; `python unittest/tools/converters/source_mutants.py` makes more of them."""
    told = tmp_path / "told"
    words = [shlex.join([str(path), *options]) for path, options in sources(tmp_path)]
    assert len(words) >= 7
    with open(told, "w") as output:
        script = Path(__file__).parent / "source_mutants.py"
        done = subprocess.run([sys.executable, script, *words, "--count", str(count), "--faults", str(faults)],
                              stdout=output, stderr=subprocess.STDOUT, check=False)  # fmt: skip
    text = told.read_text()
    assert done.returncode == 0 and f"{count} mutants" in text and ", 0 not sound" in text, text[-4000:]


@pytest.mark.parametrize("fault", ["exit", "two lines", "memory", "time"])
def test_what_is_not_sound_is_noticed(fault, tmp_path, monkeypatch):
    faults = {"exit": lambda: os._exit(7), "two lines": lambda: print("equi: error: mutant\nand more", file=sys.stderr) or 1,
              "memory": lambda: len(bytearray(2 * source_mutants.MEMORY)), "time": lambda: os.kill(os.getpid(), 24)}  # fmt: skip
    monkeypatch.setattr(source_mutants, "run", lambda commands: faults[fault]())
    verdict, _ = source_mutants.outcome([["info", "mutant"]], tmp_path)
    assert verdict


def test_damaged_sources_are_one_line(tmp_path, capsys):
    source, _ = sevenn_models.make_variant("plain", tmp_path)
    data = Path(source).read_bytes()
    rng = np.random.default_rng(3)
    damaged = [data[:cut] for cut in (0, 1, 100, len(data) // 2, len(data) - 1)]
    for _ in range(12):
        spoiled = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            spoiled[at] ^= 1 << int(rng.integers(0, 8))
        damaged.append(bytes(spoiled))
    refused = 0
    for spoiled in damaged:
        (tmp_path / "bad.pth").write_bytes(spoiled)
        status = main(["convert", str(tmp_path / "bad.pth"), "-o", str(tmp_path / "bad.equi"), "--quiet"])
        message = capsys.readouterr().err
        assert status in (0, 1)
        if status == 1:
            refused += 1
            assert message.startswith("equi: error: ") and message.count("\n") == 1 and "bad.pth" in message, message
            assert "--traceback" not in message
    assert refused > 8
