# SPDX-License-Identifier: MIT
"""Kernels that a user compiles for a model: the pair style reports when they are missing, finds them, and gets the
same results from them."""

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from lammps_script import FORCE_DUMP, rock_salt

# Sums are in another order.
SAME = 1e-12
NOTICE = "have no generated kernels"


@pytest.fixture
def equi(build_dir, tmp_path, monkeypatch):
    """The command `equi`; kernels of the user are stored in the test's folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*words, status=0):
        done = subprocess.run([build_dir / "bin" / "equi", *words], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


# Two path groups and two contractions of degree 4 that no common model has, each for two instruction sets.
CONVOLUTIONS, CONTRACTIONS = ("tiny/lmax_edge", ("Al", "O")), ("mace/correlation4", ("Na", "Cl"))
NUM_LIBRARIES = 4


def model_file(build_dir, name):
    return str(build_dir / "models" / f"{name}.equi")


def evaluate(lammps, keywords, case=CONVOLUTIONS):
    model, (first, second) = case
    atoms = rock_salt((1, 1, 2))
    atoms.symbols[:] = [first if s == "Na" else second for s in atoms.symbols]
    lines = ["units metal", *lammps.write(atoms, [first, second]), *lammps.pair(model, [first, second], keywords)]
    run = lammps.run([*lines, *FORCE_DUMP, "run 0", 'print "RESULT $(pe:%.17g)"'])
    return run.values("RESULT")[0][0], run.dump("dump.forces")[:, 1:], run.output


@pytest.fixture(scope="module")
def compiled_once(build_dir, tmp_path_factory):
    """A cache folder with the libraries of a case for all instruction sets, and the output of `equi compile`. It is
    made once for each case; tests use a copy."""

    @lru_cache(maxsize=None)
    def make(case):
        cache = tmp_path_factory.mktemp("compiled")
        done = subprocess.run(
            [build_dir / "bin" / "equi", "compile", model_file(build_dir, case[0]), "--target", "all", "-q"],
            check=True,
            env={**os.environ, "XDG_CACHE_HOME": str(cache)}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return cache, done.stdout

    return make


@pytest.mark.parametrize("case", [CONVOLUTIONS, CONTRACTIONS], ids=["convolutions", "contractions"])
@pytest.mark.parametrize("precision, tolerance", [("double", SAME), ("mixed", 1e-5)])
def test_compiled_kernels_are_found_and_give_the_same_results(
    lammps, build_dir, equi, compiled_once, tmp_path, precision, tolerance, case
):
    energy, forces, output = evaluate(lammps, f"precision {precision}", case)
    uses_generated = "generic kernels" not in output  # a CPU without AVX2 uses none
    assert (NOTICE in output) == uses_generated
    cache, told = compiled_once(case)
    assert told.count("made ") == NUM_LIBRARIES
    shutil.copytree(cache, tmp_path / "cache", dirs_exist_ok=True)
    assert len(list((tmp_path / "cache" / "equi" / "kernels").glob("kernel-*.so"))) == NUM_LIBRARIES
    compiled_energy, compiled_forces, output = evaluate(lammps, f"precision {precision}", case)
    assert NOTICE not in output
    assert abs(compiled_energy - energy) <= tolerance * abs(energy)
    assert np.abs(compiled_forces - forces).max() <= tolerance * np.abs(forces).max()
    if uses_generated and precision == "mixed":
        assert np.any(compiled_forces != forces)  # other kernels computed it
    assert equi("compile", model_file(build_dir, case[0]), "--target", "all", "-q").count("exists already") == NUM_LIBRARIES


def best_target():
    """The instruction set that the plugin uses on this machine, or None."""
    flags = Path("/proc/cpuinfo").read_text()
    if all(f"avx512{part}" in flags for part in ("f", "dq", "bw", "vl")):
        return "avx512"
    return "avx2" if re.search(r"\bavx2\b", flags) and re.search(r"\bfma\b", flags) else None


needs_kernels = pytest.mark.skipif(best_target() is None, reason="this CPU takes no generated kernels")


@pytest.fixture
def compiled(compiled_once, equi, tmp_path):
    """Only the libraries of CONVOLUTIONS for this machine, where `equi` and the pair style of the test search: the
    files, sorted by name."""
    shutil.copytree(compiled_once(CONVOLUTIONS)[0], tmp_path / "cache")
    files = sorted((tmp_path / "cache" / "equi" / "kernels").iterdir())
    for file in files:
        if f"-{best_target()}-" not in file.name:
            file.unlink()
    files = [file for file in files if file.exists()]
    assert len(files) == NUM_LIBRARIES // 2
    return files


# Faults of a library that `equi compile` has made, and their reports.
def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)


DAMAGE = {
    "no library": (lambda file: file.write_bytes(b"not a library"), "cut off"),
    "empty": (lambda file: file.write_bytes(b""), "cut off"),
    "cut": (cut, "cut off"),
    "flipped": (flip, "damaged"),
    "writable": (lambda file: file.chmod(0o666), "can be written by others"),
}


@needs_kernels
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_library_is_named_and_made_anew(lammps, build_dir, equi, compiled, damage):
    files, target, model = compiled, best_target(), model_file(build_dir, CONVOLUTIONS[0])
    expected = evaluate(lammps, "precision double")
    assert NOTICE not in expected[2]
    breaks, reason = DAMAGE[damage]
    breaks(files[0])
    energy, forces, output = evaluate(lammps, "precision double")
    named = [line for line in output.splitlines() if "is not used" in line]
    assert len(named) == 1 and f"kernel library {files[0]} is not used" in named[0] and reason in named[0]
    assert NOTICE in output
    assert abs(energy - expected[0]) <= SAME * abs(energy)
    again = equi("compile", model, "--target", target, "-q")
    assert f"made {files[0]} anew (broken: " in again and again.count("exists already") == len(files) - 1
    output = evaluate(lammps, "precision double")[2]
    assert NOTICE not in output and "is not used" not in output


@needs_kernels
def test_libraries_with_wrong_numbers_or_symbols_are_not_used(lammps, build_dir, equi, compiled, tmp_path):
    """Libraries with faults that a compiler might make, installed in the proper way."""
    model, target = model_file(build_dir, CONVOLUTIONS[0]), best_target()
    expected = evaluate(lammps, "precision double")
    file = compiled[0]
    key = file.stem.split("-", 3)[3]
    source, library = tmp_path / "wrong.cpp", tmp_path / "wrong.so"

    def tool(name, *words, status=0):
        done = subprocess.run([build_dir / "bin" / name, *words], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    tool("equi_kernels", "library", target, key, model, source)
    text = source.read_text()
    flags = tool("equi_kernels", "flags", target).split()
    # One coefficient of many; the interface's version; the name of what a library exports.
    coefficient = re.search(r"T\(0x1\.", text)
    wrong_number = text[: coefficient.start()] + "T(1.01 * 0x1." + text[coefficient.end() :]
    for wrong, reason in (
        (wrong_number, "differs from that of the generic kernel"),
        (text.replace("{PATH_GROUP_KERNEL_ABI", "{PATH_GROUP_KERNEL_ABI + 1"), "not a library of kernels of this version"),
        (text.replace("equi_kernels", "other_kernels"), "not a library of kernels of this version"),
        ("extern const int equi_kernels; __attribute__((visibility(\"default\"))) const int equi_kernels = 8;",
         "not a library of kernels of this version"),
    ):  # fmt: skip
        assert wrong != text
        source.write_text(wrong)
        command = [shutil.which("c++"), *flags, "-O0", "-I", build_dir / "include" / "equi", source, "-o", library]
        subprocess.run(command, check=True)
        assert reason in tool("equi_kernels", "store", target, key, library, model, status=1)
        energy, _, output = evaluate(lammps, "precision double")
        assert reason in output and str(file) in output and NOTICE in output
        assert abs(energy - expected[0]) <= SAME * abs(energy)
    assert f"made {file} anew" in equi("compile", model, "--target", target, "-q")
    assert "is not used" not in evaluate(lammps, "precision double")[2]


@needs_kernels
@pytest.mark.parametrize("place", ["relative", "open folder", "link"])
def test_code_of_others_is_not_executed(
    lammps, build_dir, equi, compiled, compiled_once, tmp_path, monkeypatch, place
):
    """A library that leaves a mark when it is loaded, sealed like the user's own."""
    model, target = model_file(build_dir, CONVOLUTIONS[0]), best_target()
    mark, source, library = tmp_path / "mark", tmp_path / "mark.cpp", tmp_path / "mark.so"
    source.write_text(
        "#include <fstream>\n"
        f'__attribute__((constructor)) static void leave() {{ std::ofstream("{mark}") << 1; }}\n'
    )
    subprocess.run([shutil.which("c++"), "-shared", "-fPIC", source, "-o", library], check=True)
    folder = compiled[0].parent
    for file in compiled:
        key = file.stem.split("-", 3)[3]
        words = [build_dir / "bin" / "equi_kernels", "store", target, key, library, model]
        subprocess.run(words, capture_output=True, check=False)
    assert mark.exists()  # the mark works if the library is the user's own
    mark.unlink()
    evaluate(lammps, "")
    assert mark.exists()
    mark.unlink()
    if place == "relative":
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("XDG_CACHE_HOME", "cache")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        reason = "expected an absolute path without '..', found 'cache'"
        # The folder that is used instead; its libraries are valid, so none is compiled here.
        home = tmp_path / "home" / ".cache"
        shutil.copytree(compiled_once(CONVOLUTIONS)[0], home)
        told = equi("compile", model, "--target", target, "-q")
        assert reason in told and told.count(f"{home}") == told.count("exists already") == len(compiled)
        shutil.rmtree(tmp_path / "home")
    elif place == "open folder":
        folder.chmod(0o777)
        reason = f"{folder} can be written by others"
        assert reason in equi("compile", model, "--target", target, "-q", status=1)
    else:
        for file in compiled:
            file.rename(tmp_path / file.name)
            file.symlink_to(tmp_path / file.name)
        reason = "it is a symbolic link"
    output = evaluate(lammps, "")[2]
    assert reason in output and NOTICE in output
    assert not mark.exists()


# Harmonics to l = 8 need longer lines of generated text than those of any model of a build.
HIGH_ORDERS = dict(
    elements=["Na", "Cl"], is_parity=False, lmax=8, self_connection_type="linear", num_convolution_layer=2,
    irreps_manual=["2x0e", "2x0e" + "".join(f"+1x{l}e" for l in range(1, 9)), "2x0e"],
)  # fmt: skip


@pytest.mark.slow
@needs_kernels
def test_kernels_of_order_8_give_the_same_results(lammps, build_dir, equi, tmp_path):
    from equi_tools.convert import convert
    from test_models.sevenn import make_checkpoint

    model = tmp_path / "high.equi"
    convert(make_checkpoint(tmp_path / "high.pth", **HIGH_ORDERS), model, quiet=True)
    case = (str(model.with_suffix("")), ("Na", "Cl"))
    generic = evaluate(lammps, "precision double", case)
    assert NOTICE in generic[2]
    # The log explains how to compile, and how long it takes; without an option this is for this machine only.
    assert re.search(rf"'equi compile {model}' makes them in about \d+ s, and steps are then up to [12]\.\d times faster$", generic[2], re.M)
    made = equi("compile", model, "-q")
    assert all(f"kernel-{best_target()}-" in line for line in made.splitlines())
    assert "0_00_11_22_33_44_55_66_77_88.so" in made and "-8_80.so" in made
    compiled = evaluate(lammps, "precision double check yes", case)
    assert NOTICE not in compiled[2]
    assert abs(compiled[0] - generic[0]) <= SAME * abs(generic[0])
    assert np.abs(compiled[1] - generic[1]).max() <= SAME * np.abs(generic[1]).max()
    assert np.any(compiled[1] != generic[1])  # other kernels computed it


def test_nothing_to_compile(build_dir, equi):
    assert "all kernels" in equi("compile", model_file(build_dir, "tiny/plain"))


def test_errors_are_told_in_a_line(build_dir, equi, monkeypatch, tmp_path):
    assert "equi: error:" in equi("schedule", str(tmp_path / "none.equi"), status=1)
    monkeypatch.setenv("CXX", "false")
    model = model_file(build_dir, CONVOLUTIONS[0])
    assert "could not compile" in equi("compile", model, "--target", "avx2", "-q", status=1)
    monkeypatch.setenv("CXX", "'")
    assert "CXX" in equi("compile", model, "--target", "avx2", "-q", status=1)
    monkeypatch.delenv("CXX")
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert "equi: error:" in (told := equi("compile", model, "--target", "avx2", "-q", status=1))
    assert str(blocked) in told and "Not a directory" in told and "Traceback" not in told
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    assert "no cache folder" in equi("compile", model, "--target", "avx2", "-q", status=1)


def test_schedule_lists_contractions(build_dir, equi):
    text = equi("schedule", model_file(build_dir, "mace/plain"))
    assert "contraction 0: 13x0e+13x1o+13x2e to 13x0e+13x1o, degree 3, kernel of the build" in text
    assert "contraction 1: 13x0e+13x1o+13x2e to 13x0e, degree 3, kernel of the build" in text


def test_schedule_lists_every_path(build_dir, equi):
    text = equi("schedule", model_file(build_dir, "tiny/plain"), "--target", "avx2")
    assert "convolution 0: 13x0e" in text and "8 lanes, 16 registers" in text
    for path in ("0 0 0", "1 1 0", "1 2 2", "2 2 2"):
        assert f"    {path}  " in text
