# SPDX-License-Identifier: MIT
"""The resources of a rank on its machine: threads, memory, and what happens when they do not suffice."""

import re

import numpy as np
import pytest
from lammps_script import rock_salt
from test_bad_input import assert_refused

MOST_THREADS = 512  # limit of Kokkos
# Sums in another order, in eV.
ROUNDING = 1e-9


def script(lammps, atoms, keywords="precision double"):
    return [
        "units metal",
        *lammps.write(atoms, ["Cl", "Na"]),
        *lammps.pair("nequip", ["Cl", "Na"], keywords),
        "run 1",
        'print "ENERGY $(pe:%.17g)"',
    ]


def energy(run):
    return run.values("ENERGY")[0, 0]


def running_threads(run):
    (number,) = re.findall(r"OpenMP, (\d+) threads?,", run.output)
    return int(number)


def said(run):
    """What the log reports about threads."""
    return [line for line in run.output.splitlines() if re.search(r"Pair style equi: .*thread", line)]


# LAMMPS's KOKKOS package starts its own threads.
pytestmark = pytest.mark.plain


@pytest.mark.parametrize("asked", [600, 2000])
def test_threads_are_no_more_than_kokkos_holds(lammps, asked):
    lines = script(lammps, rock_salt())
    expected = energy(lammps.run(lines, threads=1))
    run = lammps.run(lines, threads=asked)
    assert abs(energy(run) - expected) <= ROUNDING
    assert running_threads(run) == MOST_THREADS
    (line,) = said(run)
    assert f"OMP_NUM_THREADS asks for {asked} threads, {MOST_THREADS} are used" in line


@pytest.mark.parametrize("value,number", [("3,2", 3), (" 2 ", 2), ("1", 1)])
def test_the_first_number_of_the_variable_counts(lammps, value, number):
    assert running_threads(lammps.run(script(lammps, rock_salt()), threads=value)) == number


@pytest.mark.parametrize("value", ["0", "-4", "many", "4x", "4 2"])
def test_what_is_no_number_of_threads_is_ignored_with_a_line_in_the_log(lammps, value):
    lines = script(lammps, rock_salt())
    run = lammps.run(lines, threads=value)
    (line,) = said(run)
    assert f'OMP_NUM_THREADS is "{value}", which is not a number of threads' in line
    assert 1 <= running_threads(run) <= MOST_THREADS


def test_threads_are_no_more_than_openmp_gives(lammps, monkeypatch):
    lines = script(lammps, rock_salt())
    expected = energy(lammps.run(lines, threads=1))
    monkeypatch.setenv("OMP_THREAD_LIMIT", "3")
    run = lammps.run(lines, threads=8)
    assert abs(energy(run) - expected) <= ROUNDING
    assert running_threads(run) == 3
    (line,) = said(run)
    assert "OMP_NUM_THREADS asks for 8 threads, 3 are used" in line


def limited(lammps, megabytes):
    """The same LAMMPS with a limit on its address space."""
    program = lammps.folder / f"limited_{megabytes}.sh"
    program.write_text(f'#!/bin/sh\nulimit -v {megabytes * 1024}\nexec "{lammps.build_dir}/bin/lmp" "$@"\n')
    program.chmod(0o755)
    other = type(lammps)(lammps.build_dir, lammps.folder)
    other.lmp = program
    return other


def least_megabytes(lammps, lines):
    """An address space in which a small run succeeds; with 20 MB less it fails."""
    low, high = 20, 6000
    while high - low > 20:
        middle = (low + high) // 2
        if limited(lammps, middle).try_run(lines).returncode == 0:
            high = middle
        else:
            low = middle
    return high


@pytest.fixture
def small_and_large(lammps):
    """Lines of a small and of a large run, and the memory that each needs."""
    keywords = "precision double memory unlimited"
    small = script(lammps, rock_salt(), keywords)
    atoms = rock_salt((14, 14, 14))
    large = [line.replace("data.structure", "data.large") for line in script(lammps, rock_salt(), keywords)]
    lammps.write(atoms, ["Cl", "Na"], name="data.large")
    return small, large, len(atoms)


def test_missing_memory_ends_a_run_with_one_error(lammps, small_and_large):
    small, large, num_atoms = small_and_large
    least = least_megabytes(lammps, small)
    most = least_megabytes(lammps, large)
    assert most > least + 100
    with_atoms = 0
    for megabytes in np.linspace(least + 20, most - 20, 10).astype(int):
        run = limited(lammps, megabytes).try_run(large)
        print(megabytes, "MB:", run.errors)
        assert_refused(run)
        with_atoms += bool(re.search(rf"\b{num_atoms} atoms .*not enough memory", run.errors[0]))
    assert with_atoms > 0  # the rest are LAMMPS's own arrays, which it names


def test_automatic_limit_is_divided_by_the_ranks_of_the_node(lammps):
    def limit(ranks):
        (found,) = re.findall(r"limit ([\d.]+) GB per rank", lammps.run(script(lammps, rock_salt()), ranks=ranks).output)
        return float(found)

    assert abs(3 * limit(3) / limit(1) - 1) < 0.01


def test_automatic_limit_knows_resource_limits(lammps, small_and_large):
    small, large, _ = small_and_large
    least = least_megabytes(lammps, small)
    automatic = [line.replace("memory unlimited", "memory auto") for line in large]
    run = limited(lammps, least + 100).try_run(automatic)
    assert_refused(run, r"need [\d.]+ GB.*keyword memory.*atoms per rank fit")
    small_automatic = [line.replace("memory unlimited", "memory auto") for line in small]
    run = limited(lammps, least + 400).run(small_automatic)
    (limit,) = re.findall(r"limit ([\d.]+) GB per rank", run.output)
    assert 0.3 < float(limit) < 1e-3 * (least + 400)
