# SPDX-License-Identifier: MIT
"""Writes files of so3krates-torch, tiny random models, and what the package computes for them in float64.

Made in the environment of tools/requirements-so3krates.txt (so3krates-torch 0.2.1), in this folder:

    PYTHONPATH=../../tools:../python:../tools/converters python make_so3krates.py
"""

import lzma
import tempfile
from pathlib import Path

import old_versions
import tensornet_laws as laws
from equi_tools import frameworks
from test_models import so3krates

NAMES = ("sheared", "left_handed", "slab", "wire", "cluster", "one_atom_cell", "one_of_three_lonely")
SMALL = dict(num_features=12, num_layers=2, num_radial_basis_fn=5, energy_regression_dim=6, avg_num_neighbors=1.5)
# Charge and spin multiplicity of the results.
SYSTEMS = {"": {}, "_cation": {"charge": 1, "spin": 2}, "_anion": {"charge": -2}}


def make(name, variant, systems, **options):
    """NAME.model.xz, and NAME{ending}.npz for each system."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, f"{name}.model")
        so3krates.make_checkpoint(source, variant, **SMALL | options)
        framework = frameworks.detect(source)
        named = [(title, atoms) for title, atoms in laws.structures(so3krates.ELEMENTS, options["r_max"]) if title in NAMES]
        for ending, system in systems.items():
            old_versions.store(Path(f"{name}{ending}.npz"), framework.float64_calculator(framework.load(source, **system)), named)
        Path(f"{name}.model.xz").write_bytes(lzma.compress(source.read_bytes()))


def main():
    make("so3lr-0.2.1", "everything", SYSTEMS, r_max=4.0)
    make("so3krates-0.2.1", "repulsion", {"": {}}, r_max=4.4, energy_regression_dim=12)


if __name__ == "__main__":
    main()
