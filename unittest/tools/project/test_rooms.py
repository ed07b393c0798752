# SPDX-License-Identifier: MIT
"""The rooms of src/ and kokkos/: the map in the manual names all, includes go one way, and each header compiles
alone."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Definitions in the sources of an instruction set before they include its kernels.
INSTRUCTION_SET = ("-DEQUI_ISA=isa_alone", '-DEQUI_ISA_NAME="alone"', "-DEQUI_SIMD_BYTES=16")
# Headers that only a compiler for GPUs accepts, or that need LAMMPS's KOKKOS package.
NOT_FOR_THIS_COMPILER = re.compile(r"_(cuda|hip)\.h$|^kokkos/lammps/(?!row_packing)")


def map_of_rooms():
    return re.findall(r"^   \* - ``((?:src|kokkos)/[a-z0-9_/]+)``$", (ROOT / "doc" / "sources.rst").read_text(), re.MULTILINE)


def sources():
    return [path for folder in ("src", "kokkos") for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".h", ".cpp", ".def")]


def room_of(path):
    return path.rsplit("/", 1)[0]


def includes_against_the_order(texts, rooms):
    """From {path: text}: "path includes path" for each include of a file of this project that the map does not
    allow."""
    floors = {room: number for number, room in enumerate(rooms)}
    names = {path.rsplit("/", 1)[1] for path in texts}
    wrong = []
    for path, text in texts.items():
        for included in re.findall(r'^\s*#\s*include "([^"]+)"', text, re.MULTILINE):
            if included in texts:
                allowed = floors[room_of(included)] <= floors[room_of(path)]
            else:
                allowed = "/" not in included and included not in names  # a header of LAMMPS
            if not allowed:
                wrong.append(f"{path} includes {included}")
    return wrong


def test_the_map_names_all_rooms():
    rooms = map_of_rooms()
    assert len(rooms) == len(set(rooms)) > 20
    assert set(rooms) == {room_of(path.relative_to(ROOT).as_posix()) for path in sources()}


def test_includes_go_one_way():
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sources()}
    assert includes_against_the_order(texts, map_of_rooms()) == []


def test_other_includes_are_noticed():
    texts = {
        "src/low/a.h": '#include "src/high/b.h"\n#include "b.h"\n#include "src/low/none.h"\n#include "atom.h"',
        "src/high/b.h": '#include "src/low/a.h"',
    }
    assert len(includes_against_the_order(texts, ["src/low", "src/high"])) == 3


def compiler_of(header, commands):
    """The command for its source, or for a file of its room, or of its half of the house, without source and
    output."""
    own = header.removesuffix(".h") + ".cpp"
    files = [own] if own in commands else [file for file in commands if room_of(file) == room_of(header)]
    files += [file for file in commands if file.startswith("kokkos/geometry/")]
    words = shlex.split(commands[files[0]])
    words = words[: words.index("-o")] + words[words.index("-o") + 2 :]
    return [word for word in words if word != "-c" and not word.endswith(files[0]) and "ccache" not in word]


def test_files_are_in_folders_and_have_plain_names():
    if not (ROOT / ".git").exists():
        pytest.skip("no repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    files = listed.split("\0")[:-1]
    assert [name for name in files if not re.fullmatch(r"(?!.*(^|/)-)[\w./+-]+", name)] == []
    at_the_door = {name for name in files if "/" not in name and not name.startswith(".")}
    assert at_the_door == {"CHANGELOG.md", "CITATION.cff", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "LICENSE", "README.md",
                           "SECURITY.md"}  # fmt: skip


@pytest.mark.slow
def test_each_header_compiles_alone(tmp_path):
    commands = {}
    for entry in json.loads((Path(os.environ["EQUI_BUILD_DIR"]) / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        if file.is_relative_to(ROOT) and "/emulation/" not in entry["command"]:
            commands.setdefault(file.relative_to(ROOT).as_posix(), entry["command"])
    headers = [path.relative_to(ROOT).as_posix() for path in sources() if path.suffix == ".h"]
    headers = [header for header in headers if not NOT_FOR_THIS_COMPILER.search(header)]
    assert len(headers) > 60

    def compile_alone(header):
        source = tmp_path / (header.replace("/", "_") + ".cpp")
        source.write_text(f'#include "{header}"\n')
        words = compiler_of(header, commands)
        done = subprocess.run([*words, *INSTRUCTION_SET, "-fsyntax-only", source], cwd=tmp_path, capture_output=True, text=True)
        return f"{header}:\n{done.stderr[:2000]}" if done.returncode else None

    faults = [fault for fault in map(compile_alone, headers) if fault]
    assert not faults, "\n".join(faults)
