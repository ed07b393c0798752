# SPDX-License-Identifier: MIT
"""Each source states its license in its first line, and LICENSE lists those under the GNU license."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (".ci", "bench", "cmake", "examples", "kokkos", "potentials", "src", "tools", "unittest")
SUFFIXES = {".cpp": "//", ".h": "//", ".py": "#", ".cmake": "#", ".in": "#", ".toml": "#"}
NAMES = {"CMakeLists.txt": "#", ".clang-format": "#", "run": "#", "jobs": "#"}
# Texts of generators and of others; scripts of LAMMPS begin with `in.` and have no such suffix.
LEFT_OUT = ("unittest/golden/", "tools/build/")


def sources():
    """{path from the root: sign of a comment} of all files that a person wrote and that can hold a comment."""
    found = {}
    for path in [*ROOT.iterdir(), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))]:
        name = path.relative_to(ROOT).as_posix()
        sign = NAMES.get(path.name) or SUFFIXES.get(path.suffix)
        if sign and path.is_file() and not name.startswith(LEFT_OUT) and ".egg-info" not in name:
            found[name] = sign
    return found


def license_of(name, sign):
    """The license of the first line (of the second below the name of an interpreter), or None."""
    lines = (ROOT / name).read_text().splitlines()
    first = lines[1] if lines and lines[0].startswith("#!") and len(lines) > 1 else lines[0] if lines else ""
    found = re.fullmatch(re.escape(sign) + r" SPDX-License-Identifier: (\S+)", first)
    return found and found.group(1)


def derives_from_lammps(name):
    """Whether a C++ file uses classes of LAMMPS, which are all in one namespace."""
    return name.endswith((".h", ".cpp")) and "LAMMPS" + "_NS" in (ROOT / name).read_text()


def test_each_source_says_its_license():
    found = {name: license_of(name, sign) for name, sign in sources().items()}
    assert len(found) > 300
    expected = {name: "GPL-2.0-only" if derives_from_lammps(name) else "MIT" for name in found}
    assert {name: found[name] for name in found if found[name] != expected[name]} == {}


def test_the_list_in_the_license_is_that_of_the_sources():
    text = (ROOT / "LICENSE").read_text()
    listed = re.findall(r"\S+/\S+\.(?:h|cpp)\b", text.split("Exception. The files")[1].split("derive from")[0])
    assert len(listed) == len(set(listed))
    assert sorted(listed) == sorted(name for name in sources() if derives_from_lammps(name))
    assert (ROOT / "LICENSES" / "GPL-2.0.txt").is_file()
