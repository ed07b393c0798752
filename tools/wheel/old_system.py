# SPDX-License-Identifier: MIT
"""Makes libraries to link with in place of those of this system, so that a binary also runs on older systems.

    old_system.py FOLDER

FOLDER gets stubs of the C and C++ libraries. They have the symbols of this system's up to the versions of the wheel's
platform (manylinux_2_28), in the oldest form that each symbol then had. What is newer comes from the static libstdc++ or
from old_glibc.c, which is compiled here.
"""

import re
import subprocess
import sys
from pathlib import Path

# The newest versions on the platform: glibc 2.28, and libstdc++ and its run-time library of GCC 8.
LIMITS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}
SYMBOL = re.compile(r"^ *\d+: [0-9a-f]+ +(\d+) (FUNC|OBJECT|IFUNC|TLS|NOTYPE) +(?:GLOBAL|WEAK|UNIQUE) +DEFAULT +\d+ (\S+?)@(@?)(\S+)$")


def version_number(version):
    """(2, 17) for GLIBC_2.17, or None for a version without a limit or beyond it."""
    name, _, numbers = version.partition("_")
    if name not in LIMITS or not re.fullmatch(r"[0-9.]+", numbers):
        return None
    number = tuple(map(int, numbers.split(".")))
    return number if number <= LIMITS[name] else None


def old_symbols(table):
    """{name: (size, type, version)} of the output of readelf --dyn-syms."""
    found = {}
    for line in table.splitlines():
        match = SYMBOL.match(line)
        if not match or version_number(match[5]) is None:
            continue
        size, kind, name, is_default, version = match.groups()
        known = found.get(name)
        # The default version of this system, unless it is too new; then the newest of the others.
        if known is None or is_default or (not known[3] and version_number(version) > version_number(known[2])):
            found[name] = (int(size), kind, version, bool(is_default))
    return {name: known[:3] for name, known in found.items()}


def stub_text(symbols):
    """(assembly, version script) of a library with these symbols."""
    lines, versions = [], sorted({version for _, _, version in symbols.values()}, key=version_number)
    for number, (name, (size, kind, version)) in enumerate(sorted(symbols.items())):
        section, kind = {"OBJECT": (".data", "object"), "TLS": ('.tdata,"awT"', "tls_object")}.get(kind, (".text", "function"))
        lines += [
            f".section {section}" if kind == "tls_object" else section, f".globl equi_stub_{number}",
            f".type equi_stub_{number}, @{kind}", f"equi_stub_{number}: .space {max(1, size if kind != 'function' else 1)}",
            f".size equi_stub_{number}, {max(1, size)}", f'.symver equi_stub_{number}, "{name}@@{version}"',
        ]  # fmt: skip
    script = [f"{version} {{ }};" for version in versions]
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits']) + "\n", "\n".join(script) + "\n"


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def place(name):
    """The file that the compiler finds for a library."""
    return Path(run("g++", f"-print-file-name={name}").strip()).resolve()


def make_stub(folder, name):
    assembly, script = stub_text(old_symbols(run("readelf", "--dyn-syms", "-W", place(name))))
    (folder / "stub.s").write_text(assembly)
    (folder / "stub.map").write_text(script)
    run("gcc", "-shared", "-nostdlib", folder / "stub.s", "-o", folder / name, f"-Wl,-soname,{name}",
        f"-Wl,--version-script={folder / 'stub.map'}")  # fmt: skip


def make_empty(folder, name):
    run("gcc", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-o", folder / name, f"-Wl,-soname,{name}")


def main():
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("libc.so.6", "libm.so.6", "libstdc++.so.6"):
        make_stub(folder, name)
    # In old systems they had the functions of threads and of loading.
    for name in ("libpthread.so.0", "libdl.so.2"):
        make_empty(folder, name)
    run("gcc", "-O2", "-fPIC", "-fvisibility=hidden", "-c", Path(__file__).with_name("old_glibc.c"), "-o", folder / "old_glibc.o")
    loader, vectors = place("ld-linux-x86-64.so.2"), place("libmvec.so.1")
    threads = f"{folder / 'libpthread.so.0'} {folder / 'libdl.so.2'}"
    scripts = {
        "libc.so": f"{folder / 'libc.so.6'} {threads} {folder / 'old_glibc.o'} {place('libc_nonshared.a')} AS_NEEDED ( {loader} )",
        "libm.so": f"{folder / 'libm.so.6'} AS_NEEDED ( {vectors} )",
        "libstdc++.so": f"{folder / 'libstdc++.so.6'} {place('libstdc++.a')}",
    }
    for name, parts in scripts.items():
        (folder / name).write_text(f"GROUP ( {parts} )\n")


if __name__ == "__main__":
    main()
