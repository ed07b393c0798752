# SPDX-License-Identifier: MIT
"""`check yes` and `equi check`: valid kernels pass, and a fault in any path of generated kernels is noticed.

A library of kernels is compiled from the generator's text with a switch in each weight of a path. The variable
BROKEN_PATH names a path whose coefficient is then 1 % too large, forward and backward alike, so neither rotations nor
differences can show it. With BROKEN_ABOVE=17 only atoms with more neighbors are affected. These are more than in the
random numbers that test the kernels, so only the comparison of the whole system notices the fault. This is tested for
two paths, whose error in this small model exceeds that of its tables.
"""

import json
import os
import re
import subprocess

import pytest
from equi_tools import equi_file
from lammps_script import rock_salt
from test_kernels import best_target, needs_kernels

MODEL, ELEMENTS = "tiny/lmax_edge", ("Al", "O")
SWITCH = """#include <cstdlib>
namespace {
int number_of(const char *name) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : -1;
}
const int BROKEN_PATH = number_of("BROKEN_PATH"), BROKEN_ABOVE = number_of("BROKEN_ABOVE");
template <class T, class U, class W>
W switched(const U &u, int path, W w) {
  return path == BROKEN_PATH && u.count > BROKEN_ABOVE ? w + T(0.01) * w : w;
}
}    // namespace
"""


def breakable(text, first):
    """The text of a library in which path q has the number first + q of the switch; with the number of paths."""
    number = set()

    def path(word):
        number.add(int(word))
        return first + int(word)

    call = r"(?:radial|scalar)_weight<ROWS, ROW>\(u, t, (\d+), f"
    text = re.sub(call + r"\)", lambda m: f"switched<T>(u, {path(m[1])}, {m[0]})", text)
    text = re.sub(
        call + r", (\w+(?:\[\d+\])?), (\w+(?:\[\d+\])?)\);",
        lambda m: f"{m[0]} " + " ".join(f"{w} = switched<T>(u, {path(m[1])}, {w});" for w in (m[2], m[3])),
        text,
    )
    begin = text.index("namespace equi {")
    return text[:begin] + SWITCH + text[begin:], len(number)


@pytest.fixture(scope="module")
def switched_kernels(build_dir, tmp_path_factory):
    """(cache folder with the libraries of MODEL, number of their paths); the folder also contains the model without
    stored values, alone.equi."""
    program, folder = build_dir / "bin" / "equi_kernels", tmp_path_factory.mktemp("switched")
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    model, target = str(build_dir / "models" / f"{MODEL}.equi"), best_target()

    def kernels(*words):
        return subprocess.run([program, *words], check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout

    num_paths = 0
    for key in kernels("missing", model).split():
        source, library = folder / f"{key}.cpp", folder / f"{key}.so"
        kernels("library", target, key, model, source)
        text, count = breakable(source.read_text(), num_paths)
        assert count == len(key.split("_")) - 1
        num_paths += count
        source.write_text(text)
        command = [os.environ.get("CXX", "c++"), *kernels("flags", target).split(), "-I", build_dir / "include" / "equi"]
        subprocess.run([*command, source, "-o", library], check=True)
        kernels("store", target, key, library)
    document, tensors = equi_file.read(model)
    equi_file.write(str(folder / "alone.equi"), {**document, "self_check": []}, tensors)
    return folder, num_paths


def script(lammps, model=None):
    atoms = rock_salt((2, 2, 2), length=4.6)  # some 26 neighbors
    atoms.symbols[:] = [ELEMENTS[0] if s == "Na" else ELEMENTS[1] for s in atoms.symbols]
    model = model or lammps.model(MODEL)
    pair = ["pair_style equi precision double check yes", f'pair_coeff * * "{model}" {" ".join(ELEMENTS)}']
    return ["units metal", *lammps.write(atoms, list(ELEMENTS)), *pair, "run 0"]


def tool(build_dir, *words, model=None):
    model = model or build_dir / "models" / f"{MODEL}.equi"
    done = subprocess.run([build_dir / "bin" / "equi", "check", "-q", model, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@needs_kernels
def test_kernels_with_the_switch_off_pass(lammps, build_dir, switched_kernels, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(switched_kernels[0]))
    output = lammps.run(script(lammps)).output
    assert "have no generated kernels" not in output and "FAILED" not in output
    status, output = tool(build_dir)
    assert status == 0 and "this machine passes all" in output


@pytest.mark.slow
@needs_kernels
@pytest.mark.parametrize("above, paths", [(-1, None), (17, (0, 1))], ids=["all", "of many neighbors"])
def test_each_broken_path_is_noticed_by_both(lammps, build_dir, switched_kernels, monkeypatch, above, paths):
    folder, num_paths = switched_kernels
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setenv("BROKEN_ABOVE", str(above))
    assert num_paths >= 15
    for path in paths or range(num_paths):
        monkeypatch.setenv("BROKEN_PATH", str(path))
        run = lammps.try_run(script(lammps, folder / "alone.equi"))
        reason = "the kernel" if above < 0 else "differ from those of plain loops: plain loops"
        assert "ERROR" in run.output and reason in run.output, (path, run.output)
        status, output = tool(build_dir, model=folder / "alone.equi")
        assert status == 1 and "checks of this machine fail" in output, (path, output)
        if above > 0:
            assert "plain loops" in output and not re.search(r"(rotation|permutation|quotient).*FAILED", output), (path, output)


def test_the_results_for_programs_name_sets_and_precisions(build_dir):
    status, output = tool(build_dir, "--json")
    found = json.loads(output)
    assert status == 0 and found["failed"] == 0 and found["structures"]
    sets = {check["instruction_set"] for check in found["machine"]}
    assert "generic" in sets and (best_target() is None or best_target() in sets)
    for name in sets:
        of_set = [check for check in found["machine"] if check["instruction_set"] == name]
        assert {check["precision"] for check in of_set} == {None, "exact", "double", "mixed"}
        assert len({check["name"] for check in of_set if check["precision"] == "mixed"}) == 14


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_rank_without_atoms_takes_part(lammps, ranks):
    atoms = rock_salt((1, 1, 1))
    atoms.cell[2] *= 6.0
    lines = ["units metal", "processors 1 1 *", *lammps.write(atoms, ["Na", "Cl"]),
             *lammps.pair("tiny/plain", ["Na", "Cl"], "precision double check yes"), "run 0"]  # fmt: skip
    output = lammps.run(lines, ranks=ranks).output
    assert output.count("system check: law") == 1 and "FAILED" not in output
