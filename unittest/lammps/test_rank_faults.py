# SPDX-License-Identifier: MIT
"""A fault of one rank ends the job: with one error, soon, and without a rank that waits for another one that has
left."""

import re
import time

import pytest
from lammps_script import rock_salt
from test_bad_input import assert_refused

# A refused run has little to do; a rank that waits would wait for ever.
TIMEOUT = 90
# A rank may outlive the first one that ends by this many seconds.
LINGERING = 10.0

# Starts a rank. A file is touched as long as the rank lives; `for_rank` runs only for the rank of that number. A
# process that has ended, but whose status its parent has not read, has no program any more. The loop closes the rank's
# connection to mpirun: while anyone holds it, mpirun does not notice that the rank has gone.
WRAPPER = """#!/bin/bash
(exec {{PMI_FD}}>&-; while [ -e /proc/$$/exe ]; do touch "alive.$PMI_RANK"; sleep 0.2; done) < /dev/null > /dev/null 2>&1 &
if [ "$PMI_RANK" = "{rank}" ]; then
  {for_rank}
fi
exec "$@"
"""


class Ranks:
    """Runs an input in which one rank meets a fault."""

    def __init__(self, lammps):
        self.lammps, self.folder = lammps, lammps.folder

    def try_run(self, lines, ranks=2, rank=-1, for_rank=":", arguments=()):
        for old in self.folder.glob("alive.*"):
            old.unlink()
        wrapper = self.folder / "start_rank"
        wrapper.write_text(WRAPPER.format(rank=rank, for_rank=for_rank))
        wrapper.chmod(0o755)
        run = self.lammps.try_run(lines, ranks=ranks, wrapper=[wrapper], arguments=arguments, timeout=TIMEOUT)
        time.sleep(0.5)
        ends = [file.stat().st_mtime for file in self.folder.glob("alive.*")]
        assert len(ends) == ranks
        assert max(ends) - min(ends) < LINGERING, run.output[-2000:]
        return run

    def lines(self, model="sevennet-0", keywords="", atoms=None):
        return ["units metal", *self.lammps.write(atoms or rock_salt(), ["Cl", "Na"]), *self.lammps.pair(model, ["Cl", "Na"], keywords)]


@pytest.fixture
def ranks(lammps):
    return Ranks(lammps)


# ---- memory ----

REPORT = 'shell "grep -E VmPeak /proc/$PPID/status"'


@pytest.mark.parametrize("rank", [0, 1])
def test_memory_that_one_rank_lacks_in_the_setup(ranks, rank):
    lines = ranks.lines()
    good = ranks.try_run([*lines[:-2], REPORT, *lines[-2:], "run 0", REPORT])
    before, after = (int(kilobytes) for kilobytes in re.findall(r"VmPeak:\s+(\d+) kB", good.output))
    refusals = 0
    for part in (0.2, 0.5, 0.8):
        limit = int(before + part * (after - before))
        run = ranks.try_run([*lines, "run 0"], rank=rank, for_rank=f"ulimit -v {limit}")
        assert run.returncode != 0, run.output
        assert "Loop time" not in run.output
        assert len(run.errors) == 1, run.output
        refusals += bool(re.search(rf"Pair style equi: there is not enough memory \(rank {rank} of 2\)", run.errors[0]))
    assert refusals > 0


# ---- libraries ----


def test_a_library_that_one_rank_cannot_load(ranks):
    """The other rank has the library: only one rank knows of the fault."""
    build = ranks.lammps.build_dir
    (ranks.folder / "alone").mkdir()
    for library in (build / "lib").glob("*.so"):
        if library.name != "libequi_torch.so":
            (ranks.folder / "alone" / library.name).write_bytes(library.read_bytes())
    program = ranks.folder / "lmp"
    program.write_text((build / "bin" / "lmp").read_text().replace(f"{build}/lib", "${PLUGIN_FOLDER:-" + f"{build}/lib" + "}").replace("'", '"'))
    program.chmod(0o755)
    ranks.lammps.lmp = program
    lines = [*ranks.lines("nequip", "reference yes"), "run 0"]
    run = ranks.try_run(lines, rank=1, for_rank=f"export PLUGIN_FOLDER={ranks.folder}/alone")
    assert_refused(run, r"libequi_torch\.so", r"\(rank 1 of 2\)")


# ---- steps ----


def collision():
    atoms = rock_salt((2, 1, 1))
    atoms.positions[12] = atoms.positions[4] + [1e-5, 0, 0]
    return atoms


def test_a_fault_in_a_step_ends_all_ranks(ranks):
    for number in (2, 4):
        assert_refused(ranks.try_run([*ranks.lines("nequip", atoms=collision()), "run 0"], ranks=number), "IDs .* at distance 1e-05")


@pytest.mark.parametrize("fault", ["missing file", "keyword", "step", "table"])
def test_a_fault_of_one_partition_ends_the_others(ranks, fault):
    """The first partition computes without end."""
    lines = ranks.lines("nequip")
    style, coefficients = lines[-2:]
    change, late = [], "run 1000000"
    if fault == "missing file":
        model = re.search('"(.*)"', coefficients).group(1)
        change = [f'variable file world "{model}" nowhere.equi']
        coefficients = coefficients.replace(f'"{model}"', "${file}")
    elif fault == "keyword":
        change = ["variable word world mixed half"]
        style = "pair_style equi precision ${word}"
    elif fault == "table":
        change = ["variable tolerance world 1e-6 1e-30"]
        style = "pair_style equi radial ${tolerance}"
    else:
        change = ["variable distance world 0.5 1e-5"]
        lines[-2:-2] = ["variable x atom x[5]+v_distance", "variable y atom y[5]", "variable z atom z[5]"]
        lines[-2:-2] = ["set atom 6 x v_x y v_y z v_z"]
    for number in (2, 4):
        run = ranks.try_run(
            [*change, *lines[:-2], style, coefficients, "run 5", late], ranks=number,
            arguments=["-partition", f"2x{number // 2}", "-plog", "none"],
        )  # fmt: skip
        assert run.returncode != 0
        # The first partition may end before it opens its file.
        sound = ranks.folder / "screen.0"
        assert not sound.exists() or "ERROR" not in sound.read_text()
        faulty = (ranks.folder / "screen.1").read_text()
        assert "ERROR" in faulty, run.output + faulty
        assert "Loop time" not in faulty


# ---- the functions that all of this goes through ----


@pytest.fixture
def fault_lines(build_dir):
    plugin = build_dir / "unittest" / "rank_fault_plugin.so"
    assert plugin.is_file(), f"no {plugin}: build the tests first"
    return lambda words: [f"plugin load {plugin}", f"rank_fault {words}"]


KINDS = {
    "text": "text of rank {}",
    "empty": "an error without a description",
    "memory": "there is not enough memory",
    "number": "an error without a description",
    "stranger": "an error without a description",
    "long": "longx{{3000}}",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("faulty", ["0", "2", "2 1", "0 1 2"])
def test_all_ranks_end_with_the_text_of_the_lowest(ranks, fault_lines, kind, faulty):
    run = ranks.try_run(fault_lines(f"all {kind} {faulty}"), ranks=3)
    lowest = min(faulty.split())
    assert_refused(run, "^ERROR: Fault: " + KINDS[kind].format(lowest))
    assert (f"(rank {lowest} of 3)" in run.errors[0]) == (faulty != "0 1 2")
    assert "go on" not in run.output


@pytest.mark.parametrize("who", ["all", "one"])
def test_without_a_fault_all_ranks_go_on(ranks, fault_lines, who):
    run = ranks.try_run(fault_lines(f"{who} text 7"), ranks=3)
    assert run.returncode == 0 and "All ranks go on" in run.output


@pytest.mark.parametrize("kind", [*KINDS, "lammps"])
def test_one_rank_ends_all(ranks, fault_lines, kind):
    run = ranks.try_run(fault_lines(f"one {kind} 2"), ranks=3)
    expected = "LAMMPS's own words" if kind == "lammps" else "Fault: " + KINDS[kind].format(2)
    assert run.returncode != 0 and len(run.errors) == 1
    assert re.search("^ERROR on proc 2: " + expected, run.errors[0]), run.output
