# SPDX-License-Identifier: MIT
"""Writes files of allegro 0.4.0, 0.6.3 and 0.8.2, tiny random models, and what these versions compute for them in float64.

Made in the environment of tools/requirements-nequip.txt, in this folder:

    PYTHONPATH=../../tools:../python:../tools/converters python make_allegro.py

Debugging records are left out of TorchScript; nothing reads them.
"""

import io
import lzma
import shutil
import tempfile
import zipfile
from pathlib import Path

import old_versions

# Version -> (packages that precede those of the environment, model of made_by_allegro, ending of its file).
FILES = {
    "0.4.0": (["nequip-allegro==0.4.0", "nequip==0.7.1", "e3nn==0.5.8"], "cutoffs", ".ckpt"),
    "0.6.3": (["nequip-allegro==0.6.3", "nequip==0.11.1", "e3nn==0.5.8"], "zbl", ".nequip.pth"),
    "0.8.2": (["nequip-allegro==0.8.2", "nequip==0.18.0"], "neighbors", ".ckpt"),
}


def without_debugging_records(content):
    kept = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as whole, zipfile.ZipFile(kept, "w") as part:
        for entry in whole.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                part.writestr(entry, whole.read(entry))
    return kept.getvalue()


def main():
    for version, (requirements, name, ending) in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            old_versions.run("made_by_allegro.py", requirements, folder, {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"})
            content = Path(folder, f"{name}{ending}").read_bytes()
            Path(f"allegro-{version}{ending}.xz").write_bytes(lzma.compress(without_debugging_records(content), preset=9))
            shutil.copy(Path(folder, f"{name}.npz"), f"allegro-{version}.npz")


if __name__ == "__main__":
    main()
