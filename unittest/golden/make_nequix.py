# SPDX-License-Identifier: MIT
"""Writes files of Nequix and eqnorm, tiny random models, and what the packages compute for them in float64.

Made in the environment of tools/requirements-nequix.txt (nequix 0.4.5, eqnorm 0.1.1), in this folder:

    PYTHONPATH=../../tools:../python:../tools/converters python make_nequix.py
"""

import lzma
import tempfile
from pathlib import Path

import old_versions
import tensornet_laws as laws
from equi_tools import frameworks
from test_models import eqnorm, nequix

NAMES = ("sheared", "left_handed", "slab", "wire", "cluster", "one_atom_cell", "one_of_three_lonely")
PARITIES = "5x0e + 3x1o + 2x1e + 1x2o + 3x2e"


def make(name, write, **settings):
    """NAME.xz and NAME.npz of the file that write(path) writes."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, name)
        write(source)
        framework = frameworks.detect(source)
        checkpoint = framework.load(source, **settings)
        named = [(title, atoms) for title, atoms in laws.structures(["Na", "Cl", "O"], checkpoint.cutoff) if title in NAMES]
        old_versions.store(Path(name).with_suffix(".npz"), framework.float64_calculator(checkpoint), named)
        Path(f"{name}.xz").write_bytes(lzma.compress(source.read_bytes()))


def main():
    of_jax = nequix.config_of("unequal", hidden_irreps="5x0e + 13x1o + 1x2e")
    make("nequix-0.4.5-jax.nqx", lambda path: nequix.make_checkpoint(path, *of_jax))
    of_torch = nequix.config_of("torch_norm_of_parities", hidden_irreps=PARITIES)
    make("nequix-0.4.5-torch.pt", lambda path: nequix.make_checkpoint(path, *of_torch))
    settings = eqnorm.settings_of("max_mptrj") | {"irreps_hidden": "5x0e+7x1o+2x2e", "irreps_sh": "1x0e+1x1o+1x2e", "num_convs": 2}
    make("eqnorm-max-mptrj.pt", lambda path: eqnorm.make_checkpoint(path, settings), settings=settings)


if __name__ == "__main__":
    main()
