#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Faults in files of frameworks and .equi files, each at a place where the structure of the file makes it matter.

    python unittest/tools/converters/source_mutants.py FILE ... 'FILE --unit eV' ... [--count 1000] [--seed 1]
    [--faults 1] [--keep FOLDER]

A file is divided as far as it has parts: zip archives into their entries, pickles into the values they push, JSON into
its values (also JSON that is text within JSON), safetensors and arrays of numpy into header and numbers, other text
into words. One value is then replaced, dropped, doubled or lengthened, and the file is put together again.

`equi convert` reads it, or `info` and `schedule` if it is an .equi file, in a separate process with limits of memory
and time. Two results are sound: a status of 0 with a file that can be read again, or a status of 1 with one printable
line on standard error that names the file. All others are printed, and the status of this program is then not zero.
--keep: a folder for the mutants with other results.
"""

import argparse
import contextlib
import io
import json
import math
import os
import pickle
import pickletools
import re
import resource
import shlex
import shutil
import signal
import struct
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

# Replacements for a value of any kind.
OTHERS = (
    None, True, False, -1, 0, 1, 7, 2**31, 2**63, -(2**63), 10**400, 1e308, -0.5, 1e-320, math.nan, math.inf, -math.inf, "", "x",
    "\x1b[2J\u202e", "nan", "1e999", [], [[]], {}, {"x": 1}, ["x"] * 3, [1, 2, 3, 4, 5], (),
)  # fmt: skip
DEPTH = 20_000
# Limits beyond the needs of unchanged files. A mutant that exceeds them makes its reader follow a number of the file.
MEMORY = 1 << 29
SECONDS = 10
# Status if a converted file cannot be read: by the tool, by the reader of the pair style.
OF_THE_RESULT = 90
BY_TOOL, BY_PAIR_STYLE = OF_THE_RESULT + 1, OF_THE_RESULT + 2


def pick(rng, items):
    return items[int(rng.integers(len(items)))]


def like(value, rng):
    """Similar values of the same kind, which a reader notices only by their meaning."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return pick(rng, (value + 1, value - 1, -value, 2 * value, 1000 * value, 10**9 * (value + 1)))
    if isinstance(value, float):
        return pick(rng, (-value, 0.0, 1e30 * value, 1e-30 * value, 2 * value, int(value) if math.isfinite(value) else 0))
    if isinstance(value, str):
        return pick(rng, (value[:-1], 2 * value, value.upper(), value + "\0", value[::-1], 1000 * value))
    if isinstance(value, bytes):
        return pick(rng, (value[:-1], value + value, b"\xff" * len(value)))
    return None


# JSON


def places(value, where=()):
    yield where
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*where, key))


def in_json(value, rng):
    """A parsed document with one fault, as text, and a description of the fault."""
    found = list(places(value))
    where = pick(rng, found)
    if not where:
        deep = rng.random() < 0.1
        return ("[" * DEPTH + "]" * DEPTH, "nested") if deep else (json.dumps(pick(rng, OTHERS[:-1])), "another document")
    holder = value
    for key in where[:-1]:
        holder = holder[key]
    key = where[-1]
    old = holder[key]
    if isinstance(old, str) and old[:1] in "{[" and len(old) > 20:
        holder[key], what = in_json(json.loads(old), rng)
        return json.dumps(value), f"{key}: {what}"
    kind = int(rng.integers(6))
    if kind == 0:
        del holder[key]
        what = "dropped"
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, old)
        what = "doubled"
    elif kind == 1:
        other = pick(rng, [k for k in holder])
        holder[key], holder[other] = holder[other], holder[key]
        what = f"exchanged for {other}"
    elif kind == 2 and isinstance(holder, dict):
        # A key twice, of which the second one counts.
        text = json.dumps(value)
        pair = json.dumps({key: old})[1:-1]
        return text.replace(pair, f"{pair}, {json.dumps({key: pick(rng, OTHERS[:-1])})[1:-1]}", 1), f"{where} twice"
    else:
        other = like(old, rng) if kind == 3 else None
        holder[key] = pick(rng, OTHERS) if other is None else other
        what = f"= {str(holder[key])[:40]!r}"
    return json.dumps(value), f"{where} {what}"


# Pickles


def pushing(value):
    """Instructions of a pickle that push a value and store nothing in the memo."""
    return pickletools.optimize(pickle.dumps(value, 2))[2:-1]


def instructions(data):
    """(name, argument, begin, end) of the instructions of a pickle."""
    listed = list(pickletools.genops(data))
    ends = [at for _, _, at in listed[1:]] + [len(data)]
    return [(opcode.name, argument, at, end) for (opcode, argument, at), end in zip(listed, ends)]


CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
PUSHES = {
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "SHORT_BINBYTES", "BINBYTES", *CONSTANTS,
}  # fmt: skip


def in_pickle(data, rng):
    found = instructions(data)
    kind = int(rng.integers(8))
    if kind == 0:
        # After the end of a value: repeat it, drop it, or use another instruction.
        values = [i for i, (name, *_) in enumerate(found) if name in PUSHES or name.startswith(("TUPLE", "BUILD", "REDUCE"))]
        _, _, _, end = found[pick(rng, values)]
        word, what = pick(rng, ((b"2", "doubled"), (b"0", "dropped"), (b"00", "two dropped"), (b"(", "a mark"), (b".", "the end")))
        return data[:end] + word + data[end:], f"at {end}: {what}"
    if kind == 1:
        containers = [i for i, (name, *_) in enumerate(found) if name in ("EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "GLOBAL")]
        name, argument, begin, end = found[pick(rng, containers)]
        if name == "GLOBAL":
            others = [f[1] for f in found if f[0] == "GLOBAL"] + ["os system", "torch nothing", "builtins dict", "numpy dtype"]
            new, what = pick(rng, others), "GLOBAL"
            return data[:begin] + b"c" + new.replace(" ", "\n").encode() + b"\n" + data[end:], f"at {begin}: {argument} -> {new}"
        new = pick(rng, (b"]", b"}", b")", b"N", b"]" * DEPTH + b"a" * (DEPTH - 1)))
        return data[:begin] + new + data[end:], f"at {begin}: {name} -> {new[:4]}"
    pushes = [(CONSTANTS.get(name, argument), begin, end) for name, argument, begin, end in found if name in PUSHES]
    # Three quarters of a file are names of parameters and shapes of tensors, so each kind of value gets its share.
    wanted = pick(rng, (str, int, float, bool, bytes, type(None)))
    of_kind = [push for push in pushes if type(push[0]) is wanted] or pushes
    value, begin, end = pick(rng, of_kind)
    near = like(value, rng) if kind < 4 else None
    if near is None and kind == 4:
        near = pick(rng, of_kind)[0]
    new = pick(rng, OTHERS) if near is None else near
    return data[:begin] + pushing(new) + data[end:], f"at {begin}: {str(value)[:40]!r} -> {str(new)[:40]!r}"


# Numbers and text


def in_numbers(data, rng):
    kind = int(rng.integers(6))
    if kind == 0 or not data:
        return data + data + b"\0" * 16, "longer"
    if kind == 1:
        return data[: int(rng.integers(len(data)))], "cut"
    width = 8 if len(data) % 8 == 0 and rng.random() < 0.5 else 4
    code = f"<f{width}"
    values = np.frombuffer(data[: len(data) // width * width], code).copy()
    if not values.size:
        return b"", "emptied"
    at = int(rng.integers(values.size))
    other = pick(rng, (np.nan, np.inf, -np.inf, 0.0, 1e30, -1.0, 1e-40))
    if kind == 2:
        values[:] = other
    elif kind == 3:
        values = np.frombuffer(rng.bytes(values.nbytes), code)
    else:
        values[at] = other
    return values.tobytes() + data[values.nbytes :], f"number {at} -> {other}, kind {kind}"


def in_text(text, rng):
    kind = int(rng.integers(5))
    lines = text.split("\n")
    n = int(rng.integers(len(lines)))
    if kind == 0:
        return "\n".join(lines[:n] + lines[n + 1 :]), f"line {n} dropped"
    if kind == 1:
        return "\n".join(lines[: n + 1] + lines[n:]), f"line {n} doubled"
    words = list(re.finditer(r"[-+.\w]+", text))
    if not words or kind == 2:
        return text[: int(rng.integers(len(text) + 1))], "cut"
    word = pick(rng, words)
    new = str(pick(rng, OTHERS[:-1])) if kind == 3 else pick(rng, words).group()
    return text[: word.start()] + new + text[word.end() :], f"{word.group()[:40]!r} -> {new[:40]!r}"


# Files


def in_zip(data, rng):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = [(info.filename, archive.read(info)) for info in archive.infolist()]
    # A hundredth of the entries describes how to read the numbers, and most faults are possible there.
    leading = [
        n for n, (name, content) in enumerate(entries) if content and name.endswith((".pkl", ".json", ".npz", ".txt", ".yaml", ".py"))
    ]
    n = pick(rng, leading) if leading and rng.random() < 0.75 else int(rng.integers(len(entries)))
    name, content = entries[n]
    kind = int(rng.integers(20))
    if kind == 0:
        del entries[n]
        what = "left out"
    elif kind == 1:
        entries[n] = (pick(rng, (name + "x", "../" + name, "/" + name, name.split("/", 1)[-1], entries[0][0])), content)
        what = "has another name"
    elif kind == 2:
        entries[n] = (name, entries[int(rng.integers(len(entries)))][1])
        what = "has the content of another one"
    else:
        content, what = mutant_of(content, rng)
        entries[n] = (name, content)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for entry, content in entries:
            archive.writestr(zipfile.ZipInfo(entry), content)
    return out.getvalue(), f"{name}: {what}"


def in_safetensors(data, rng):
    (length,) = struct.unpack("<Q", data[:8])
    header, body = data[8 : 8 + length], data[8 + length :]
    if rng.random() < 0.15:
        body, what = in_numbers(body, rng)
    else:
        text, what = in_json(json.loads(header), rng)
        header = text.encode(errors="surrogatepass")
    return struct.pack("<Q", len(header)) + header + body, what


def in_array(data, rng):
    end = data.index(b"\n", 8) + 1
    if rng.random() < 0.5:
        content, what = in_numbers(data[end:], rng)
        return data[:end] + content, what
    text, what = in_text(data[10 : end - 1].decode("latin1"), rng)
    text = text.encode("latin1", errors="replace")[:60000] + b"\n"
    return data[:8] + struct.pack("<H", len(text)) + text + data[end:], what


def is_safetensors(data):
    return len(data) > 16 and data[8:9] == b"{" and struct.unpack("<Q", data[:8])[0] <= len(data) - 8


def mutant_of(data, rng):
    """(content with one fault, description of the fault)."""
    if data[:2] == b"PK":
        return in_zip(data, rng)
    if data[:6] == b"\x93NUMPY":
        return in_array(data, rng)
    if is_safetensors(data):
        return in_safetensors(data, rng)
    if data[:1] == b"\x80" and data[-1:] == b".":
        try:
            return in_pickle(data, rng)
        except ValueError:  # an earlier fault has damaged it
            return in_numbers(data, rng)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return in_numbers(data, rng)
    if text[:1] in ("{", "["):
        try:
            text, what = in_json(json.loads(text), rng)
            return text.encode(errors="surrogatepass"), what
        except ValueError:
            pass
    if not text.isprintable() and "\n" not in text:
        return in_numbers(data, rng)
    text, what = in_text(text, rng)
    return text.encode(errors="surrogatepass"), what


def write_mutant(source, target, rng, faults):
    """Changes a copy of a file, or one file of a folder; returns a description of the fault."""
    if source.is_dir():
        shutil.copytree(source, target)
        files = sorted(path for path in target.rglob("*") if path.is_file())
        target = pick(rng, files)
        source = target
    data, done = source.read_bytes(), []
    for _ in range(faults):
        try:
            data, what = mutant_of(data, rng)
        except (zipfile.BadZipFile, ValueError, struct.error, RecursionError):
            if not done:
                raise
            break    # the first fault left nothing that has parts
        done.append(what)
    target.write_bytes(data)
    return f"{target.name}: " + "; ".join(done)


# Runs


def commands_of(source, words, mutant, output):
    if source.suffix == ".equi":
        return [["info", str(mutant)], ["info", "--json", str(mutant)], ["schedule", str(mutant)]]
    return [["convert", "-q", str(mutant), "-o", str(output), *words], ["info", str(output)], ["schedule", str(output)]]


def run(commands):
    """In a child process: runs commands until one has a status other than 0, which is returned."""
    from equi_tools.cli import main

    for n, words in enumerate(commands):
        status = main(words)
        if status != 0:
            return OF_THE_RESULT + n if n > 0 and commands[0][0] == "convert" else status
    return 0


def outcome(commands, folder):
    """(verdict, text on standard error) of commands in a separate process; the verdict is empty for sound results."""
    error = folder / "stderr"
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 99
        try:
            with open(os.devnull, "w") as nothing, open(error, "w") as file:
                os.dup2(nothing.fileno(), 1)
                os.dup2(file.fileno(), 2)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY,) * 2)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(6 * SECONDS)
            status = run(commands)
        finally:
            os._exit(status)
    _, waited = os.waitpid(child, 0)
    seconds = time.monotonic() - begin
    text = error.read_text(errors="surrogateescape")
    # Notes for the user about a converted model.
    text = "\n".join(line for line in text.split("\n") if not line.startswith("equi: warning: "))
    if os.WIFSIGNALED(waited):
        return f"signal {signal.Signals(os.WTERMSIG(waited)).name} after {seconds:.1f} s", text
    status = os.waitstatus_to_exitcode(waited)
    if status == 0:
        return "", ""
    if status == BY_TOOL:
        return "what was converted cannot be read", text
    if status not in (1, BY_PAIR_STYLE):
        return f"status {status}", text
    if not text.startswith("equi: error: ") or text.count("\n") != 1 or not text[:-1].isprintable():
        return "not one printable line", text
    if "--traceback" in text:
        return "an exception that nobody expected", text
    if "not enough memory" in text:
        return "memory beyond the limit", text
    # If options do not fit the kind of the file, the message names the option instead.
    if "mutant" not in text and not text.startswith("equi: error: --"):
        return "a message that does not name the file", text
    return "", f"(by the pair style) {text}" if status == BY_PAIR_STYLE else text


def check(sources, count, seed, faults=1, keep=None, late=False):
    """The number of mutants whose results are not sound. `count` mutants in all use the sources in turn: (path,
    further arguments of `equi convert`)."""
    rng = np.random.default_rng(seed)
    seen, bad = Counter(), 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for source, words in sources:
            # Convert in this process first, so that its couplings and modules are available to all mutants.
            output = folder / "sound.equi"
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as error:
                status = run(commands_of(source, words, source, output))
            if status != 0:
                sys.exit(f"{source}: the file without a fault has status {status}: {error.getvalue()}")
        for n in range(count):
            source, words = sources[n % len(sources)]
            mutant = folder / f"mutant{source.suffix}"
            what = write_mutant(source, mutant, rng, faults)
            verdict, text = outcome(commands_of(source, words, mutant, folder / "mutant-converted.equi"), folder)
            seen["refused" if text else "taken"] += 1
            if verdict:
                bad += 1
                print(f"{source.name}, mutant {n}: {what}\n  {verdict}: {text[-600:]}")
                if keep:
                    Path(keep).mkdir(parents=True, exist_ok=True)
                    shutil.move(mutant, Path(keep, f"{source.stem}-{seed}-{n}{source.suffix}"))
            elif re.search(r" \w+(Error|Exception): |by the pair style", text):
                seen["converted and refused by the pair style" if "by the" in text else "refused in words of Python's"] += 1
                if late:
                    print(f"{source.name}: {what}\n  {text.strip()[-300:]}")
            for path in folder.glob("mutant*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    print(
        f"{count} mutants of {len(sources)} files: " + ", ".join(f"{n} {name}" for name, n in sorted(seen.items())) + f", {bad} not sound"
    )
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", type=shlex.split, nargs="+", metavar="'FILE [OPTION ...]'", help="with options that convert needs")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--late", action="store_true", help="also list what is refused late: by an exception of Python, or by the pair style"
    )
    arguments = parser.parse_args()
    sources = [(Path(path), words) for path, *words in arguments.sources]
    sys.exit(check(sources, arguments.count, arguments.seed, arguments.faults, arguments.keep, arguments.late) > 0)


if __name__ == "__main__":
    main()
