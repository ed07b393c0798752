# SPDX-License-Identifier: MIT
"""What all commands of the model tool share, and commands that list and diagnose: `equi models`, `doctor`, `bench`."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from built_models import built
from equi_tools import bench, cli, doctor, equi_file, kernels, published
from equi_tools.cli import main
from equi_tools.errors import EquiError

BUILD = os.environ["EQUI_BUILD_DIR"]


def equi(*words, **environment):
    """The command of the build, whose output is not a terminal."""
    return subprocess.run([Path(BUILD) / "bin" / "equi", *map(str, words)], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment}, stdin=subprocess.DEVNULL)  # fmt: skip


# ---- what all commands share ----


@pytest.mark.parametrize("words", [[], ["fly"], ["info"], ["check", "x.equi", "--precision", "half"], ["convert", "a", "b", "-o", "c"]])
def test_a_wrong_command_line_is_one_line_and_status_2(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    told = capsys.readouterr()
    assert end.value.code == cli.USAGE_ERROR == 2
    assert told.err.startswith("equi: error: ") and told.err.count("\n") == 1 and "--help" in told.err and not told.out


@pytest.mark.parametrize("words, expected", [
    ("check x.equi --ranks -1", "argument --ranks: expected a whole number from 0 on, found '-1'"),
    ("demo --ranks 0", "argument --ranks: expected a whole number from 1 on, found '0'"),
    ("bench x.equi --atoms -1", "argument --atoms: expected a whole number from 1 on, found '-1'"),
    ("bench x.equi --steps 1e3", "argument --steps: expected a whole number from 1 on, found '1e3'"),
    ("data x -o y --temperature 0", "argument --temperature: expected a positive number, found '0'"),
    ("data x -o y --pressure inf", "argument --pressure: expected a number, found 'inf'"),
    ("convert x -o y --charge nan", "argument --charge: expected a number, found 'nan'"),
    ("convert x -o y --coulomb-cutoff -2", "argument --coulomb-cutoff: expected a positive number, found '-2'"),
])  # fmt: skip
def test_a_number_that_makes_no_sense_is_named(words, expected, capsys):
    with pytest.raises(SystemExit) as end:
        main(words.split())
    told = capsys.readouterr().err
    assert end.value.code == cli.USAGE_ERROR and told.startswith(f"equi: error: {expected}") and told.count("\n") == 1


@pytest.mark.parametrize("words", [["-q", "info", "x"], ["info", "-q", "x"], ["--quiet", "info", "x"], ["-q", "info", "x", "-q"]])
def test_quiet_may_stand_before_and_after_the_command(words):
    assert cli.parser().parse_args(words).quiet is True


def test_without_quiet_there_is_progress_and_only_on_a_terminal(monkeypatch):
    assert cli.parser().parse_args(["info", "x"]).quiet is False
    from equi_tools.progress import Steps, track

    for is_terminal in (True, False):
        shown = []

        class Terminal:
            encoding = "utf-8"

            def isatty(self):
                return is_terminal

            def write(self, text):
                shown.append(text)

            def flush(self):
                pass

        monkeypatch.setattr(sys, "stderr", Terminal())
        with Steps(2) as steps:
            steps.next("first")
        list(track(range(3), "counting"))
        assert any(text.strip() for text in shown) == is_terminal
        shown.clear()
        with Steps(2, quiet=True) as steps:
            steps.next("first")
        assert not shown


def test_an_equi_file_is_not_converted_again(tmp_path, capsys):
    assert main(["-q", "convert", str(built("tiny/plain.equi")), "-o", str(tmp_path / "x.equi")]) == 1
    assert "is an .equi file already" in capsys.readouterr().err
    assert not (tmp_path / "x.equi").exists()


@pytest.mark.parametrize("words", [["convert", "7net-0"], ["data", "POSCAR"]])
@pytest.mark.parametrize("folder", ["/proc", "none"])
def test_a_folder_that_cannot_be_written_is_found_before_the_work(words, folder, tmp_path, capsys, monkeypatch):
    """Also for root, whom permissions do not stop."""
    from equi_tools import frameworks, structures

    def work(*arguments):
        raise AssertionError("the work has begun")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(frameworks, "require", work)
    monkeypatch.setattr(structures, "read_files", work)
    assert main([*words, "-o", f"{folder}/x"]) == 1
    assert f"cannot write {folder}/x" in capsys.readouterr().err


def test_looking_whether_a_file_can_be_written_leaves_none(tmp_path):
    equi_file.check_output(tmp_path / "x.equi")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["info"], ["check"], ["compile"], ["bench", "--atoms", "8", "--steps", "1"]])
def test_results_are_printed_for_programs_too(words):
    done = equi(words[0], built("tiny/plain.equi"), *words[1:], "--json")
    assert done.returncode == 0 and not done.stderr, done.stderr
    json.loads(done.stdout)
    if words == ["check"]:
        found = json.loads(done.stdout)
        assert found["failed"] == 0 and len(found["structures"]) == 4 and found["structures"][0]["force"] < found["allowed"]["force"]


@pytest.mark.parametrize("words", [["check", "--ranks", "1"], ["demo", "--steps", "1", "--model"]])
def test_the_command_of_a_build_finds_its_lammps_from_any_folder(words, tmp_path):
    model = built("tiny/plain.equi")
    words = [words[0], model, *words[1:]] if words[0] == "check" else [*words, model]
    done = subprocess.run([Path(BUILD) / "bin" / "equi", *map(str, words)], capture_output=True, text=True, cwd=tmp_path,
                          check=False, env={name: value for name, value in os.environ.items() if name != "EQUI_BUILD_DIR"})  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


# ---- models ----


def test_published_models_have_what_a_user_needs(capsys):
    assert main(["models"]) == 0
    text = capsys.readouterr().out
    for name in ("SevenNet-0", "MACE-MP-0", "MACE-MPA-0", "MACE-OMAT-0", "MACE-OFF", "NequIP-OAM"):
        assert name in text
    assert main(["models", "--json"]) == 0
    for fact in json.loads(capsys.readouterr().out):
        assert fact["license"] and fact["source"] and fact["convert"]
        # This project had the files that it reports as checked, so their hashes are known.
        assert fact["checked"] in published.MEANING
        assert (fact["checked"] == published.FILE) == (fact["sha256"] is not None)


def test_the_models_of_the_installed_sevenn_are_those_of_the_list():
    here = [fact for fact in published.facts() if fact["here"] and fact["framework"] == "sevenn"]
    assert len(here) == 4 and all("sevenn" in fact["here"] for fact in here)
    document, _ = equi_file.read(built("sevennet-0.equi"))
    assert document["provenance"]["sha256"] == here[0]["sha256"]


# ---- doctor ----


def test_the_doctor_finds_a_sound_build():
    done = equi("doctor", "--json", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout
    found = {finding["subject"]: finding for finding in json.loads(done.stdout)}
    assert list(found) == ["processor", "kernels", "threads", "LAMMPS", "MPI", "plugin", "reference", "frameworks"]
    busy = found.pop("processor")["state"] == doctor.SLOW  # other tests may run
    assert all(finding["state"] == doctor.OK for finding in found.values())
    assert "MPICH" in found["MPI"]["found"] and "sevenn 0" in found["frameworks"]["found"]
    assert busy or "nothing is in the way" in equi("doctor", OMP_NUM_THREADS="1").stdout


@pytest.mark.parametrize("cores, quota, machine, load, state", [
    (8, "inf", 8, 0.3, doctor.OK), (8, "inf", 8, 3.9, doctor.OK), (8, "inf", 8, 4.2, doctor.SLOW),
    (8, "inf", 64, 40.0, doctor.OK),  # others may use the other cores
    (8, "inf", 64, 63.0, doctor.SLOW), (8, "2", 8, 7.5, doctor.SLOW),
])  # fmt: skip
def test_the_doctor_notices_cores_that_others_use(cores, quota, machine, load, state, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: machine)
    assert doctor._processor({"cpu": "avx2", "cores": str(cores), "quota": quota}).state == state


def test_the_doctor_notices_cores_that_a_run_leaves_idle(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    finding = doctor._threads({"cores": "8", "quota": "inf", "threads": "2"})
    assert finding.state == doctor.OK and "leaves 6 cores idle" in finding.advice and "4 ranks" in finding.advice
    assert not doctor._threads({"cores": "2", "quota": "inf", "threads": "2"}).advice


def test_the_doctor_knows_builds_without_torch(tmp_path):
    (tmp_path / "lib").mkdir()
    assert "no LibTorch" in doctor._reference(tmp_path).found
    (tmp_path / "lib" / "libequi_torch.so").touch()
    assert doctor._reference(tmp_path).found.startswith("LibTorch")


@pytest.mark.parametrize("variable, value, subject, text", [
    ("OMP_NUM_THREADS", "400", "threads", "wait for one another"),
    ("OMP_NUM_THREADS", "many", "threads", "not a number of threads"),
    ("XDG_CACHE_HOME", "here", "kernels", "XDG_CACHE_HOME"),
])  # fmt: skip
def test_the_doctor_names_variables_that_slow_a_run(variable, value, subject, text):
    done = equi("doctor", "--json", **{"OMP_NUM_THREADS": "1", variable: value})
    (finding,) = [finding for finding in json.loads(done.stdout) if finding["subject"] == subject]
    assert finding["state"] == doctor.SLOW and text in finding["found"] + finding["advice"], finding
    assert done.returncode == 0


def test_the_doctor_counts_libraries_of_this_version(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "equi" / "kernels"
    folder.mkdir(parents=True)
    machine = dict(kernels.machine(build_dir=BUILD), kernels="avx2", cpu="avx2")
    assert "; 0 libraries of yours in " in doctor._kernels(machine).found
    of_this = Path(kernels._kernels("place", "avx2", "2_12").strip())
    assert of_this.parent == folder
    of_this.write_text("")
    for name in ("kernel-avx2-0123456789abcdef-2_12.so", "kernel-avx512-0123456789abcdef-2_12.so"):
        (folder / name).write_text("")
    assert doctor._kernels(machine).found.endswith(f"; 1 libraries of yours in {folder}, and 1 of another version, which are not used")


def build_with(folder, plugins):
    """A copy of the build folder whose lmp searches for plugins elsewhere."""
    (folder / "bin").mkdir()
    for name in ("equi_kernels", "mpirun"):
        (folder / "bin" / name).symlink_to(Path(BUILD) / "bin" / name)
    lmp = folder / "bin" / "lmp"
    lmp.write_text((Path(BUILD) / "bin" / "lmp").read_text().replace(f"{Path(BUILD).resolve()}/lib", str(plugins)))
    lmp.chmod(0o755)
    return folder


def test_the_doctor_notices_a_missing_plugin(tmp_path):
    done = equi("doctor", "--build-dir", build_with(tmp_path, "/nowhere"))
    assert done.returncode == 1 and "BROKEN" in done.stdout and "LAMMPS_PLUGIN_PATH" in done.stdout


def compiled(source, *options):
    """Compiles a line of C."""
    words = [*shlex.split(os.environ.get("CC", "cc")), "-shared", "-fPIC", "-x", "c", "-", "-x", "none", *map(str, options)]
    subprocess.run(words, input=source, text=True, check=True)


@pytest.mark.parametrize("library, advice", [("libcuda.so.1", "EQUI_CUDA=OFF"), ("libwhatever.so.1", "LD_LIBRARY_PATH")])
def test_the_doctor_says_which_library_a_plugin_lacks(library, advice, tmp_path):
    """LAMMPS continues without a plugin that the dynamic loader refuses; so does the doctor if its own program is
    refused."""
    library = tmp_path / library
    compiled("int start(void) { return 0; }", f"-Wl,-soname,{library.name}", "-o", library)
    plugin = tmp_path / "lib" / "equiplugin.so"
    plugin.parent.mkdir()
    compiled("int start(void); void lammpsplugin_init(void) { start(); }", "-o", plugin, library)
    library.unlink()
    words = f"{library.name}: cannot open shared object file: No such file or directory"
    build = build_with(tmp_path, plugin.parent)
    done = equi("doctor", "--json", "--build-dir", build)
    found = {finding["subject"]: finding for finding in json.loads(done.stdout)}
    assert done.returncode == 1 and found["kernels"]["state"] != doctor.BROKEN
    assert found["plugin"]["state"] == doctor.BROKEN and found["plugin"]["found"] == f"cannot be loaded: {words}"
    assert advice in found["plugin"]["advice"]

    (build / "bin" / "equi_kernels").unlink()
    (build / "bin" / "equi_kernels").write_text(
        f"#!/bin/sh\necho '$0: error while loading shared libraries: {words}' >&2\nexit 127\n")  # fmt: skip
    (build / "bin" / "equi_kernels").chmod(0o755)
    done = equi("doctor", "--json", "--build-dir", build)
    refused = {finding["subject"]: finding for finding in json.loads(done.stdout)}
    assert done.returncode == 1 and refused["plugin"] == found["plugin"]
    assert refused["kernels"] == {**found["plugin"], "subject": "kernels"}


# ---- bench ----


def test_ranks_and_threads_use_all_cores():
    assert bench.divisions(1) == [(1, 1)]
    assert bench.divisions(6) == [(1, 1), (1, 6), (2, 3), (3, 2), (6, 1)]


@pytest.mark.parametrize(
    "elements, formula", [(["Cl", "Na"], {"Na", "Cl"}), (["Si"], {"Si"}), (["Xe", "He"], {"Xe", "He"}), (["Kr"], {"Kr"})]
)
def test_a_system_of_elements_that_the_model_knows(elements, formula):
    name, atoms = bench.system({"elements": elements, "cutoff": 5.0, "layers": []}, 100)
    assert 100 <= len(atoms) < 400 and set(atoms.get_chemical_symbols()) == formula and atoms.pbc.all()


def test_bench_measures_every_division(capsys):
    words = ["bench", built("tiny/plain.equi"), "--atoms", 64, "--steps", 2]
    done = equi(*words, "--json")
    facts = json.loads(done.stdout)
    assert [(run["ranks"], run["threads"]) for run in facts["runs"]] == bench.divisions(facts["cores"])
    assert all(run["microseconds"] > 0 and run["memory"] > 0 for run in facts["runs"])
    assert facts["atoms"] == 64 and facts["kernels"] == kernels.machine(build_dir=BUILD)["kernels"]
    assert "fastest here: OMP_NUM_THREADS=" in bench.text(facts)
    assert "other work" in bench.text(facts | {"load": 3.0}) and "other work" not in bench.text(facts | {"load": 0.1})


def test_bench_refuses_unknown_elements(tmp_path):
    (tmp_path / "a.xyz").write_text("1\n\nXe 0 0 0\n")
    with pytest.raises(EquiError, match="does not know Xe"):
        bench.system({"elements": ["Na"], "cutoff": 5.0}, 10, tmp_path / "a.xyz")
