# SPDX-License-Identifier: MIT
"""Mistakes of a newcomer end in one line with the cause and a way out, in commands and in scripts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ase.build import bulk
from ase.io import write
from built_models import built
from equi_tools import bench, lammps_runner
from equi_tools.cli import main

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES, POTENTIALS = ROOT / "examples", ROOT / "potentials"
PAGE = "<!DOCTYPE html><html><body>Not found</body></html>"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("page").write_text(PAGE)
    Path("page.equi").write_text(PAGE)
    Path("pointer.equi").write_text(POINTER)
    Path("pointer.cif").write_text(POINTER)
    Path("empty.cif").write_text("")
    Path("trained.equi").write_bytes(b"PK\x03\x04" + bytes(100))
    Path("inside").mkdir()
    Path("model.equi").write_bytes(built("tiny/plain.equi").read_bytes())
    write("POSCAR", bulk("NaCl", "rocksalt", 5.6), format="vasp")
    write("bare.extxyz", bulk("NaCl", "rocksalt", 5.6))
    Path("text.dat").write_text("hello world\n")
    Path("bytes.dat").write_bytes(bytes(range(128, 256)))
    return tmp_path


@pytest.mark.parametrize("words, expected", [
    ("info page.equi", "not an .equi file: it is a web page"),
    ("check page.equi", "not an .equi file: it is a web page"),
    ("certify pointer.equi", "git lfs pull"),
    ("bench trained.equi", "equi convert SOURCE"),
    ("data page.equi -o x", "it is a web page"),
    ("data pointer.cif -o x", "git lfs pull"),
    ("data empty.cif -o x", "it is empty"),
    ("data inside -o x", "it is a folder, name a file in it"),
    ("data model.equi -o x", "it is a model file and no structure"),
    ("data POSCAR -o x --model page.equi", "it is a web page"),
    ("convert https://example.org/a.model -o x.equi", "download the file first"),
    ("convert page -o x.equi", "is a web page"),
])  # fmt: skip
def test_a_command_names_the_mistake(words, expected, folder, capsys):
    assert main(words.split()) == 1
    message = capsys.readouterr().err
    assert message.startswith("equi: error: ") and message.count("\n") == 1 and expected in message
    assert not Path("x").exists() and not Path("x.equi").exists()


@pytest.mark.parametrize("words, expected", [
    ("elastic/equation_of_state.py --energies {}", "is no table of numbers"),
    ("heat_conduction/green_kubo.py --flux {}", "is no table of numbers"),
    ("surface/adsorption.py --energies {} --heights {}", "not what in.adsorption writes"),
    ("vacancy/barrier.py --log {}", "has no table of images"),
    ("water/water.py --rdf {} --msd {}", "is no table"),
    ("water_spectra/spectra.py --data {}", "is no table of numbers"),
    ("phonons/phonons.py --atoms {} {}", "is no dump"),
])  # fmt: skip
@pytest.mark.parametrize("file", ["text.dat", "bytes.dat"])
def test_a_script_of_the_examples_names_a_file_that_it_cannot_read(words, expected, file, folder):
    script, *words = words.replace("{}", file).split()
    done = subprocess.run([sys.executable, EXAMPLES / script, *words], capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr and expected in done.stderr


@pytest.mark.parametrize("words, expected", [
    ("start.py nosuch out", "nosuch: "),
    ("start.py NaCl no/out", "cannot write no/out"),
    ("label.py out POSCAR --teacher model.equi", "nothing to label"),
    ("label.py out page --teacher model.equi --rattle 0.1", "cannot read structures from page"),
    ("label.py out POSCAR --teacher nothing.equi --rattle 0.1", "there is no nothing.equi"),
    ("datasheet.py model.equi --elements Na Cl --state hot", "expected NAME,T,FILE"),
    ("datasheet.py model.equi --elements Na --state a,300,POSCAR", "Cl, which --elements does not name"),
    ("datasheet.py model.equi --elements Xx --state a,300,POSCAR", "Xx is no element"),
])  # fmt: skip
def test_a_script_of_the_potentials_names_the_mistake(words, expected, folder):
    script, *words = words.split()
    done = subprocess.run([sys.executable, POTENTIALS / script, *words], capture_output=True, text=True)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr and expected in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("run", ["relax", "nvt", "npt"])
def test_scripts_of_files_with_spaces_run(run, tmp_path):
    """LAMMPS splits a line at its spaces, and reads a comment from # on."""
    folder = tmp_path / "my data"
    folder.mkdir()
    (folder / "my model #1.equi").write_bytes(built("tiny/plain.equi").read_bytes())
    write(folder / "rock salt.cif", bulk("NaCl", "rocksalt", 5.6, cubic=True))
    words = ["data", str(folder / "rock salt.cif"), "-o", str(folder / "the atoms"), "--model", str(folder / "my model #1.equi"), "--run", run]
    assert main(words) == 0
    lmp, _ = lammps_runner.lammps_programs()
    done = subprocess.run([lmp, "-in", f"in.{run}", "-var", "steps", "2"], cwd=folder, capture_output=True, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / f"the atoms.{run}").is_file()


def test_a_name_with_quotes_is_refused(folder, capsys):
    Path('a"b.equi').write_bytes(Path("model.equi").read_bytes())
    assert main(["data", "POSCAR", "-o", "x", "--model", 'a"b.equi', "--run", "nvt"]) == 1
    assert "rename the file" in capsys.readouterr().err


@pytest.mark.parametrize("elements, layers, name, is_periodic", [
    (["H", "O"], [], "molecules of H2O", True),
    (["H", "C"], [], "molecules of CH4", True),
    (["Ge", "Sb", "Te"], [], "GeTe, rock salt", True),
    (["Na", "Cl"], [], "NaCl", True),
    (["H", "C", "N", "O"], [{"type": "coulomb"}], "molecules of H2O", False),
    (["Ge", "Te"], [{"type": "coulomb"}], "GeTe, rock salt", False),
])  # fmt: skip
def test_what_is_run_for_a_model_exists(elements, layers, name, is_periodic):
    """Molecules for models of organic elements, and nothing periodic for models of clusters."""
    found, atoms = bench.system({"elements": elements, "cutoff": 5.0, "layers": layers}, 60)
    assert found == name and len(atoms) >= 60 and atoms.pbc.all() == is_periodic and atoms.pbc.any() == is_periodic
    distances = atoms.get_all_distances(mic=True)
    assert distances[distances > 0].min() > 0.8
