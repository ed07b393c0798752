"""Kernels that a user compiles for a model: the pair style says when they are missing, finds them, and gets the same
results from them."""

import subprocess

import numpy as np
import pytest
from lammps_script import FORCE_DUMP, rock_salt

# Sums in another order.
SAME = 1e-12
NOTICE = "have no generated kernels"


@pytest.fixture
def equi(build_dir, tmp_path, monkeypatch):
    """The command `equi`; kernels of the user go into the test's folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*words, status=0):
        done = subprocess.run([build_dir / "bin" / "equi", *words], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


# Two units that no common model has, and two contractions of degree 4; each for two instruction sets.
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


@pytest.mark.parametrize("case", [CONVOLUTIONS, CONTRACTIONS], ids=["convolutions", "contractions"])
@pytest.mark.parametrize("precision, tolerance", [("double", SAME), ("mixed", 1e-5)])
def test_compiled_kernels_are_found_and_give_the_same_results(
    lammps, build_dir, equi, tmp_path, precision, tolerance, case
):
    energy, forces, output = evaluate(lammps, f"precision {precision}", case)
    uses_generated = "generic kernels" not in output  # a CPU without AVX2 takes none
    assert (NOTICE in output) == uses_generated
    first = equi("compile", model_file(build_dir, case[0]), "-q")
    assert first.count("made ") == NUM_LIBRARIES
    assert len(list((tmp_path / "cache" / "equi" / "kernels").glob("kernel-*.so"))) == NUM_LIBRARIES
    compiled_energy, compiled_forces, output = evaluate(lammps, f"precision {precision}", case)
    assert NOTICE not in output
    assert abs(compiled_energy - energy) <= tolerance * abs(energy)
    assert np.abs(compiled_forces - forces).max() <= tolerance * np.abs(forces).max()
    if uses_generated and precision == "mixed":
        assert np.any(compiled_forces != forces)  # other kernels did it
    assert equi("compile", model_file(build_dir, case[0]), "-q").count("is there already") == NUM_LIBRARIES


def test_a_foreign_file_in_their_place_is_left_alone(lammps, build_dir, equi, tmp_path):
    expected = evaluate(lammps, "precision double")
    equi("compile", model_file(build_dir, CONVOLUTIONS[0]), "-q")
    for file in (tmp_path / "cache" / "equi" / "kernels").iterdir():
        file.write_bytes(b"not a library")
    found = evaluate(lammps, "precision double")
    assert (NOTICE in found[2]) == (NOTICE in expected[2])
    assert found[0] == expected[0]


def test_nothing_to_compile(build_dir, equi):
    assert "all kernels" in equi("compile", model_file(build_dir, "tiny/plain"))


def test_errors_are_told_in_a_line(build_dir, equi, monkeypatch, tmp_path):
    assert "equi: error:" in equi("schedule", str(tmp_path / "none.equi"), status=1)
    monkeypatch.setenv("CXX", "false")
    assert "could not compile" in equi("compile", model_file(build_dir, CONVOLUTIONS[0]), "-q", status=1)


def test_schedule_lists_contractions(build_dir, equi):
    text = equi("schedule", model_file(build_dir, "mace/plain"))
    assert "contraction 0: 13x0e+13x1o+13x2e to 13x0e+13x1o, degree 3, kernel of the build" in text
    assert "contraction 1: 13x0e+13x1o+13x2e to 13x0e, degree 3, kernel of the build" in text


def test_schedule_lists_every_path(build_dir, equi):
    text = equi("schedule", model_file(build_dir, "tiny/plain"), "--target", "avx2")
    assert "convolution 0: 13x0e" in text and "8 lanes, 16 registers" in text
    for path in ("0 0 0", "1 1 0", "1 2 2", "2 2 2"):
        assert f"    {path}  " in text
