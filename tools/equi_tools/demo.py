# SPDX-License-Identifier: MIT
"""`equi demo`: checks the model, then runs rock salt at constant pressure through the LAMMPS of a build folder."""

import json
import re
import time
from pathlib import Path

from . import compare, equi_file, kernels, lammps_runner, plot, run_log
from .errors import EquiError
from .printable import printable


SCRIPT = "in.npt"
EXPERIMENT = 2.163  # g/cm^3, rock salt at 300 K


def _example_folder(build_dir):
    """examples/nacl of the source tree that the build folder belongs to."""
    candidates = [Path(__file__).resolve().parents[2]]
    cache = Path(build_dir) / "CMakeCache.txt"
    if cache.is_file():
        found = re.search(r"^CMAKE_HOME_DIRECTORY:\w+=(.*)$", cache.read_text(errors="surrogateescape"), re.M)
        if found:
            candidates.insert(0, Path(found.group(1)))
    for tree in candidates:
        if (tree / "examples" / "nacl" / SCRIPT).is_file():
            return tree / "examples" / "nacl"
    raise EquiError(f"examples/nacl/{SCRIPT} of the source tree not found")


def _model(build_dir, model):
    if model is not None:
        return Path(model).resolve()
    found = sorted(Path(build_dir).resolve().glob("**/sevennet-0.equi"))
    if not found:
        raise EquiError(f"no sevennet-0.equi in {build_dir}: make it with 'equi convert 7net-0 -o sevennet-0.equi'")
    return found[0]


def demo(build_dir, model=None, steps=600, ranks=1, precision="mixed", quiet=False, as_json=False, picture=None):
    """Returns the number of failures (0: the check passed and the run ended). as_json: prints only the table. picture:
    a file for a picture of the run."""

    def say(text=""):
        if not as_json:
            print(text, flush=True)

    if picture is not None:
        plot.check_output(picture)
    build_dir = lammps_runner.build_folder(build_dir)
    lmp, mpirun = lammps_runner.lammps_programs(build_dir)
    model = _model(build_dir, model)
    folder = _example_folder(build_dir)
    document, _ = equi_file.read(model)
    framework = printable(document["framework"]["name"], 60)
    say(f"[1/2] Comparing LAMMPS with energies, forces and stresses that {framework} computed in float64")
    say(f"      model {printable(model)}")
    native = compare.Native(str(model), "double", None, ranks=1, build_dir=build_dir)
    failed = compare.check(native, quiet=quiet, write=lambda line: say(f"      {line}"))
    if failed:
        return failed

    say()
    # LAMMPS and the pair style then report the same number of threads.
    threads = int(kernels.machine(ranks, build_dir)["threads"])
    with lammps_runner._working_folder() as scratch:
        say(f"[2/2] Rock salt, {steps} steps of 1 fs at 300 K and 0 bar (NPT): {folder / SCRIPT}")
        command = [mpirun, "-np", str(ranks)] if ranks > 1 else []
        log = scratch / "log.lammps"
        command += [lmp, "-in", str(folder / SCRIPT), "-log", str(log), "-nocite"]
        command += ["-var", "model", str(model), "-var", "steps", str(steps), "-var", "precision", precision]
        command += ["-var", "data", str(folder / "data.nacl")]
        begin = time.monotonic()
        output = lammps_runner.run_and_show(command, scratch, lambda line: say(f"      {line.rstrip()}"), threads)
        elapsed = time.monotonic() - begin
        found = run_log.read(log)[-1]
        if picture is not None:
            plot.run(log, picture)

    run = lammps_runner.performance(output)
    row, means = found.last(), found.means()
    facts = {
        "structures_checked": len(document["self_check"]),
        "atoms": run.atoms,
        "energy": row["PotEng"],
        "temperature": means["Temp"],
        "pressure": means["Press"],
        "density": means["Density"],
        "microseconds": run.microseconds,
        "memory": run.memory,
        "wall_time": elapsed,
        "ranks": ranks,
        "threads": threads,
        "precision": precision,
    }
    finite = all(value == value for value in row.values())
    if as_json:
        print(json.dumps(facts if finite else {}, indent=2))
        return 0 if finite else 1
    say()
    say(f"{'atoms':<28} {run.atoms}")
    say(f"{'potential energy':<28} {row['PotEng']:.4f} eV ({row['PotEng'] / run.atoms:.5f} eV/atom)")
    say(f"{'temperature':<28} {means['Temp']:.1f} K (mean of the second half)")
    say(f"{'pressure':<28} {means['Press']:.0f} bar (mean of the second half)")
    say(f"{'density':<28} {means['Density']:.3f} g/cm^3 (experiment: {EXPERIMENT}; models of PBE energies give less)")
    many = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((ranks, "rank"), (threads, "thread"))]
    say(f"{'time per atom and step':<28} {run.microseconds:.1f} us ({' of '.join(many)}, {precision})")
    say(f"{'memory per atom':<28} {f'{run.memory} kB' if run.memory is not None else 'not reported'}")
    say(f"{'wall time':<28} {elapsed:.1f} s")
    if not finite:
        say("the run ended with numbers that are not finite")
        return 1
    say(f"check passed: {len(document['self_check'])} structures agree with {framework} in float64")
    if picture is not None:
        say(f"picture of the run: {picture}")
    say()
    say("next, with a structure of yours (POSCAR, CIF, extxyz, ...):")
    say(f"  equi data STRUCTURE -o data.mine --model {printable(model.name)} --run npt")
    say("  lmp -in in.npt")
    say("  equi plot log.lammps -o run.png")
    return 0
