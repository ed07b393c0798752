# SPDX-License-Identifier: MIT
"""Deliberate faults on one of two ranks: an allocation that fails, a damaged file, a full disk, a rank that is killed.
The job ends on all ranks, soon, with one error."""

import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from lammps_script import rock_salt
from test_bad_input import assert_refused
from test_rank_faults import Ranks

# Sums in another order, in eV.
ROUNDING = 1e-9


@pytest.fixture
def ranks(lammps):
    return Ranks(lammps)


# ---- memory ----


class Allocations:
    """Runs in which unittest/lammps/allocation_fault.cpp counts allocations and makes them fail: in commands of the
    pair style, a setup, steps with new neighbor lists, and second derivatives."""

    def __init__(self, ranks, build_dir):
        self.ranks, self.folder = ranks, ranks.folder
        self.library = build_dir / "unittest" / "allocation_fault.so"
        assert self.library.is_file(), f"no {self.library}: build the tests first"
        lines = ranks.lines("nequip", "precision double radial 0.05")
        lines.insert(-2, "shell putenv EQUI_FAULTS_BEGIN=1")
        self.lines = [
            *lines, "neigh_modify every 1 delay 0 check no", "velocity all create 300 1", "fix 1 all nve", "run 3",
            'print "ENERGY $(pe:%.17g)"', "equi_dynamical_matrix all regular 1 translations no", "equi_modes all 2 products 2000",
        ]  # fmt: skip

    def run(self, rank, settings):
        load = f"export LD_PRELOAD={self.library} EQUI_FAULT_COUNT={self.folder}/count.{rank} {settings}"
        return self.ranks.try_run(self.lines, rank=rank, for_rank=load)

    def count(self, rank):
        run = self.run(rank, "")
        assert run.returncode == 0, run.output
        return int((self.folder / f"count.{rank}").read_text()), run.values("ENERGY")[0, 0]

    def check(self, places, later):
        """Injects faults at this many places, in turn on rank 0 and 1. A library may do without the memory at several
        consecutive places, as std::stable_sort does: the run then goes on with the same numbers. Returns the number of
        jobs that ended."""
        counts, energies = zip(*(self.count(rank) for rank in (0, 1)))
        ended = 0
        for k in range(places):
            rank = k % 2
            number = int(counts[rank] * (k + 0.5) / places)
            run = self.run(rank, f"EQUI_FAULT_AT={number}" + (" EQUI_FAULT_LATER=1" if later else ""))
            where = f"allocation {number} of {counts[rank]} on rank {rank}:\n{run.output[-2000:]}"
            if run.returncode == 0:
                assert not later and abs(run.values("ENERGY")[0, 0] - energies[rank]) <= ROUNDING, where
                continue
            ended += 1
            if later:
                continue
            assert len(re.findall("ERROR", run.output)) == 1, where
            assert re.search("not enough memory|fits into memory", run.output), where
            assert not re.search(r"egmentation|terminate called|Aborted|bad_alloc", run.output), where
        return ended


@pytest.fixture
def allocations(ranks, build_dir):
    return Allocations(ranks, build_dir)


def test_an_allocation_that_fails_ends_all_ranks_with_one_error(allocations):
    assert allocations.check(12, later=False) >= 10


@pytest.mark.slow
def test_allocations_that_fail_at_300_places_end_all_ranks_with_one_error(allocations):
    assert allocations.check(300, later=False) >= 290


@pytest.mark.slow
def test_no_rank_goes_on_once_there_is_no_memory_at_all(allocations):
    """No error is promised here: nlohmann's JSON needs memory to free memory, and ends the process without it."""
    assert allocations.check(100, later=True) == 100


# ---- files ----


@pytest.mark.parametrize("damage", ["removed", "truncated"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_model_file_that_one_rank_lacks(ranks, rank, damage):
    """Rank 0 reads for all: the folder of another rank does not matter."""
    model = ranks.lammps.model("nequip")
    other = ranks.folder / "other"
    other.mkdir()
    shutil.copy(model, ranks.folder / "model.equi")
    lines = [line.replace(str(model), "model.equi") for line in ranks.lines("nequip")]
    shutil.copy(ranks.folder / "data.structure", other / "data.structure")
    if damage == "truncated":
        (other / "model.equi").write_bytes(model.read_bytes()[:-1000])
    lines += ["run 0", 'print "ENERGY $(pe:%.17g)"']
    (other / "in.test").write_text("\n".join(lines) + "\n")
    run = ranks.try_run(lines, rank=rank, for_rank=f"touch alive.$PMI_RANK; cd {other}")
    if rank == 0:
        assert_refused(run, r"model\.equi", "expected|No such file")
    else:
        good = ranks.lammps.run(lines, ranks=2)
        assert run.returncode == 0, run.output
        assert run.values("ENERGY")[0, 0] == good.values("ENERGY")[0, 0]


# The written data fit into the buffer of the writer, or do not.
SIZES = {"small": (1, 1, 1), "large": (2, 2, 1)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("command", ["equi_dynamical_matrix all regular 1", "equi_dynamical_matrix all regular 1 binary yes", "equi_modes all 3"])
def test_a_full_disk_ends_a_command_that_writes(ranks, command, size):
    run = ranks.try_run([*ranks.lines("nequip", atoms=rock_salt(SIZES[size])), command + " file /dev/full"])
    assert run.returncode != 0, run.output
    assert len(re.findall("ERROR", run.output)) == 1, run.output
    assert "cannot write file /dev/full: No space left" in run.output, run.output


def test_a_full_disk_leaves_no_compiled_kernels(build_dir, tmp_path):
    """Neither a truncated library nor its temporary file remains."""
    library = tmp_path / "library"
    library.write_bytes(bytes(100_000))
    program = build_dir / "bin" / "equi_kernels"
    run = subprocess.run(
        ["bash", "-c", f"trap '' XFSZ; ulimit -f 8; exec {program} store avx2 1_01_10_11 {library}"],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert run.returncode == 1 and "File too large" in run.stderr, run.stderr
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


# ---- ranks ----


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("signal_name", ["KILL", "SEGV"])
def test_a_rank_that_is_killed_ends_the_others_and_restart_files_stay_whole(ranks, rank, signal_name):
    lines = [
        *ranks.lines("nequip", "precision double"), "velocity all create 300 1", "fix 1 all nve",
        "restart 20 restart.one restart.two", "run 100000000",
    ]  # fmt: skip
    kill = f"(exec {{PMI_FD}}>&-; while [ ! -s restart.two ]; do sleep 0.1; done; kill -{signal_name} $$) < /dev/null > /dev/null 2>&1 &"
    run = ranks.try_run(lines, rank=rank, for_rank=kill + " ulimit -c 0")
    assert run.returncode != 0, run.output
    assert "Loop time" not in run.output
    # At most one of two files was being written at the time.
    lines = ranks.lines("nequip", "precision double")
    whole = 0
    for name in ("restart.one", "restart.two"):
        again = ranks.lammps.try_run(["units metal", f"read_restart {name}", *lines[-2:], "fix 1 all nve", "run 1"], ranks=2)
        whole += again.returncode == 0 and "Loop time" in again.output
    assert whole >= 1


# ---- positions ----


@pytest.mark.parametrize("velocity", ["1e308", "1e200"])
def test_positions_that_overflow_in_a_run_end_it(ranks, velocity):
    """The atom belongs to one of the two ranks."""
    lines = [*ranks.lines("nequip"), "fix 1 all nve", "run 2", "group one id 3", f"velocity one set {velocity} 0 0", "run 5"]
    run = ranks.try_run(lines)
    assert run.returncode != 0, run.output
    assert len(re.findall("ERROR", run.output)) == 1, run.output


def test_a_fault_where_slabs_are_thinner_than_the_cutoff(ranks):
    """Features of the second and third neighbor rank are also exchanged."""
    atoms = rock_salt((2, 1, 1))
    lines = [*ranks.lines("nequip", "precision double", atoms), "run 0", 'print "ENERGY $(pe:%.17g)"']
    one = ranks.lammps.run(lines).values("ENERGY")[0, 0]
    thin = ["processors 4 1 1", *lines]
    four = ranks.lammps.run(thin, ranks=4).values("ENERGY")[0, 0]
    assert np.abs(four - one) <= ROUNDING
    run = ranks.try_run(thin, ranks=4, rank=2, for_rank="ulimit -v 100000")
    assert run.returncode != 0
