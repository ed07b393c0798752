# SPDX-License-Identifier: MIT
"""Mutation testing: builds the evaluation and its tests once with all mutants of mutants.txt, runs the tests with one
mutant at a time, and prints the mutants that no test has noticed.

    python unittest/mutation/run.py BUILD_FOLDER [--only N ...] [--levels test_core ...] [--jobs 2] [--results FILE]
    [--cmake WORDS]

The tests are those of the levels core, kernels and model; the last ones use the structures that take seconds.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutants as list_of_mutants

ROOT = Path(__file__).resolve().parents[2]
# Programs of the tests, in the order in which they run, with the selected tests of each.
PROGRAMS = {
    # The compiler fuses multiplications and additions of changed sources differently, so bits differ.
    "test_core": "*-NetworkGradient.rows_at_a_time_have_the_bits_of_one",
    "test_kernels": "*-KernelCache*:HostThreads*",
    # All cases, in float64 where that shows more; only the default one of the two kinds of tables and sums.
    "test_model": "EvaluatorLawsInFloat64*:EvaluatorLaws.energies*:EvaluatorLaws.a_lone*:EvaluatorLaws.ranks*:EvaluatorLaws.outputs*:"
    "Tiny/Directional.e*_table:Tiny/Directional.f*_table:Tiny/Directional.tangents*_table:Tiny/HostEvaluationTest.precisions*:HostEvaluation.*:"
    "DirectionalRun*:DirectionalEdges*",
}
# A mutant hangs if it takes longer than this many times the time of the unchanged program.
PATIENCE = 8


def write_sources(mutants, folder):
    """A copy of the sources with all mutants; unchanged files keep their time."""
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout.split("\n")
    of_file = {}
    for mutant in mutants:
        of_file.setdefault(mutant.file, []).append(mutant)
    for name in filter(None, names):
        source, target = ROOT / name, folder / name
        if not source.is_file():
            continue
        content = source.read_bytes()
        if name in of_file:
            content = list_of_mutants.mutated(content.decode(), of_file[name]).encode()
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(source.stat().st_mode)
    header = folder / "chosen_mutant.h"
    if not header.is_file() or header.read_text() != list_of_mutants.HEADER:
        header.write_text(list_of_mutants.HEADER)


def build(source, folder, jobs, levels, options):
    words = ["-DCMAKE_BUILD_TYPE=Release", "-DEQUI_TESTS=ON", "-DEQUI_TORCH=OFF", "-DEQUI_PLUGIN=OFF",
             "-DEQUI_INSTRUCTION_SETS=native", f"-DEQUI_CACHE_DIR={ROOT}/.cache", *options]  # fmt: skip
    subprocess.run(["cmake", "-S", source, "-B", folder, *words], check=True)
    subprocess.run(["cmake", "--build", folder, f"-j{jobs}", "--target", *levels, "--", "-k"], check=True)


def run(folder, program, number, timeout, tests=""):
    """(status, seconds, the first test that failed); a status of 0 is a pass, and "hangs" one that took too long."""
    environment = {
        **os.environ, "EQUI_MUTANT": str(number), "GTEST_FAIL_FAST": "1", "GTEST_FILTER": tests or PROGRAMS[program],
        "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive", "GTEST_COLOR": "no",
    }  # fmt: skip
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [folder / "unittest" / program], env=environment, capture_output=True, text=True, errors="replace", timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return "hangs", time.monotonic() - begin, ""
    failed = [line.split("]")[1].split(",")[0].strip() for line in done.stdout.splitlines() if line.startswith("[  FAILED  ]")]
    started = [line.split("]")[1].strip() for line in done.stdout.splitlines() if line.startswith("[ RUN")]
    return done.returncode, time.monotonic() - begin, failed[0] if failed else (started or [""])[-1]


def judge(folder, mutant, seconds, levels):
    """The test that noticed the mutant; empty if none did."""
    first = [word.partition(":")[::2] for word in mutant.first.split()]
    tried = [(program, tests) for program, tests in first if program in levels]
    for program, tests in [*tried, *((level, "") for level in levels)]:
        status, _, test = run(folder, program, mutant.number, PATIENCE * seconds[program] + 10, tests)
        if status == "hangs":
            return f"{program}: no end"
        if status != 0:
            return f"{program}: {test}"
    return ""


def report(mutants, noticed, seconds):
    """The text of the results: the score, then a line for each mutant."""
    survivors = [m for m in mutants if not noticed[m.number]]
    unexplained = [m for m in survivors if not m.why]
    lines = [
        f"{len(mutants)} mutants, {len(mutants) - len(survivors)} killed "
        f"({100 * (1 - len(survivors) / len(mutants)):.1f} %), {len(survivors)} survived, of which {len(unexplained)} "
        f"without an explanation; {seconds:.0f} seconds",
        "",
    ]
    for mutant in survivors:
        lines += [f"SURVIVED {mutant}", f"    {mutant.why}" if mutant.why else "    no explanation"]
    lines += ["", *(f"{noticed[m.number]:60} {m}" for m in mutants if noticed[m.number])]
    return "\n".join(lines) + "\n", len(unexplained)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", type=int, nargs="*", default=[])
    parser.add_argument("--levels", nargs="*", choices=PROGRAMS, default=list(PROGRAMS), help="programs of tests")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--cmake", nargs="*", default=[], help="further options of the build, without -D")
    arguments = parser.parse_args()
    begin = time.monotonic()
    mutants = list_of_mutants.read(Path(__file__).with_name("mutants.txt"))
    source, folder = arguments.folder.resolve() / "source", arguments.folder.resolve() / "source" / "build"
    write_sources(mutants, source)
    build(source, folder, arguments.jobs, arguments.levels, [f"-D{word}" for word in arguments.cmake])
    seconds = {}
    for program in arguments.levels:
        status, seconds[program], test = run(folder, program, 0, 3600)
        print(f"without a mutant {program} takes {seconds[program]:.1f} seconds", flush=True)
        if status != 0:
            sys.exit(f"{program} fails without a mutant: {test}")
    chosen = [m for m in mutants if not arguments.only or m.number in arguments.only]
    noticed = {}

    def judge_one(mutant):
        noticed[mutant.number] = judge(folder, mutant, seconds, arguments.levels)
        print(f"{noticed[mutant.number] or 'SURVIVED':60} {mutant}", flush=True)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(judge_one, chosen))
    text, unexplained = report(chosen, noticed, time.monotonic() - begin)
    print(text.split("\n\n", maxsplit=1)[0])
    if arguments.results:
        arguments.results.write_text(text)
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
