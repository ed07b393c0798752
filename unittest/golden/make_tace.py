# SPDX-License-Identifier: MIT
"""Writes files of tace, tiny random models, and what the package computes for them in float64.

Made in the environment of tools/requirements-tace.txt (tace 0.2.4), in this folder:

    PYTHONPATH=../../tools:../python:../tools/converters python make_tace.py
"""

import lzma
import tempfile
from pathlib import Path

import old_versions
import tensornet_laws as laws
from equi_tools import frameworks
from test_models import tace

NAMES = ("sheared", "left_handed", "slab", "wire", "cluster", "one_atom_cell", "one_of_three_lonely")
ELEMENTS = ["O", "Na", "Cl"]
# (variant, changes of its options, the level of theory)
STORED = {
    "tace-0.2.4": ("example", {"num_channel": 3, "num_layers": 2, "Lmax": 1, "lmax": 2}, None),
    "tace-0.2.4-experts": (
        "experts", {"num_channel": 3, "Lmax": 1, "lmax": 1, "product_basis": {"num_expert": 2, "num_channel_per_expert": 2}}, None,
    ),
    "tace-0.2.4-three": ("three_factors", {"num_channel": 2, "Lmax": 1, "lmax": 1}, "r2SCAN"),
}  # fmt: skip


def main():
    for name, (variant, options, head) in STORED.items():
        with tempfile.TemporaryDirectory() as folder:
            source = tace.make_file(Path(folder, f"{name}.pt"), tace.config_of(variant, **options))
            framework = frameworks.detect(source)
            named = [(title, atoms) for title, atoms in laws.structures(ELEMENTS, 4.2) if title in NAMES]
            old_versions.store(Path(f"{name}.npz"), framework.float64_calculator(framework.load(source), head), named)
            Path(f"{name}.pt.xz").write_bytes(lzma.compress(source.read_bytes()))


if __name__ == "__main__":
    main()
