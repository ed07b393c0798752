# SPDX-License-Identifier: MIT
"""Makes random Nequix models in the files of both back ends, and converts them: see test_models.command.

It runs in the environment of tools/requirements-nequix.txt.
"""

import sys

import numpy as np
from equi_tools.frameworks.common.jax_numbers import prepare_jax

from . import command, many_elements

NUMBERS = [17, 8, 11]  # the package sorts them
DEFAULTS = dict(
    atomic_numbers=NUMBERS, hidden_irreps="5x0e + 13x1o + 3x2e", lmax=2, cutoff=4.2, n_layers=3, radial_basis_size=5, radial_mlp_size=7,
    radial_mlp_layers=2, radial_polynomial_p=6.0, mlp_init_scale=4.0, index_weights=False, layer_norm=True, shift=0.3, scale=1.7,
    avg_n_neighbors=11.3,
)  # fmt: skip
# The back end and the options of each.
VARIANTS = {
    "unequal": ("jax", {}),
    "species": ("jax", dict(hidden_irreps="8x0e + 8x1o + 8x2e", radial_polynomial_p=2.0, radial_mlp_layers=3, index_weights=True)),
    "one_layer": ("jax", dict(n_layers=1, radial_mlp_layers=0, hidden_irreps="33x0e", lmax=1, layer_norm=False)),
    "torch_norm": ("torch", dict(hidden_irreps="12x0e + 7x1o + 1x2e + 3x3o", lmax=3)),
    "torch_parities": ("torch", dict(hidden_irreps="10x0e + 6x1o + 5x1e + 3x2o + 4x2e", n_layers=4, layer_norm=False)),
    "torch_norm_of_parities": ("torch", dict(hidden_irreps="10x0e + 6x1o + 5x1e + 3x2o + 4x2e")),
}
# All elements, in the shape of the published ones.
LARGE = {
    "published": ("jax", dict(atomic_numbers=None, hidden_irreps="128x0e + 64x1o + 32x2e + 32x3o", lmax=3, cutoff=6.0, n_layers=4,
                              radial_basis_size=8, radial_mlp_size=64)),
}  # fmt: skip
SUFFIXES = {"jax": ".nqx", "torch": ".pt"}


def config_of(name, **options):
    """(back end, configuration) of a variant."""
    from ase.data import atomic_numbers

    backend, own = (VARIANTS | LARGE)[name]
    config = DEFAULTS | own | options
    config["atomic_numbers"] = config["atomic_numbers"] or [atomic_numbers[symbol] for symbol in many_elements()]
    # The back end torch asks for these, before it reads those of its numbers.
    return backend, config | {"atom_energies": {str(number): -0.1 * number for number in config["atomic_numbers"]}}


def make_checkpoint(path, backend, config, seed=1):
    """A file with numbers at random, affine weights and energies of atoms among them."""
    (_make_jax if backend == "jax" else _make_torch)(path, config, np.random.default_rng(seed))
    return path


def _options(config):
    left_out = ("atomic_numbers", "atom_energies")
    return {key: value for key, value in config.items() if key not in left_out} | {"n_species": len(config["atomic_numbers"])}


def _make_jax(path, config, random):
    prepare_jax()
    import equinox
    import jax
    from nequix.model import Nequix, save_model

    model = Nequix(jax.random.key(int(random.integers(1000))), **_options(config))
    at = [lambda model: model.atom_energies]
    for t in range(config["n_layers"] if config["layer_norm"] else 0):
        blocks = range(len(model.layers[t].layer_norm.affine_weight))
        at += [lambda model, t=t, b=b: model.layers[t].layer_norm.affine_weight[b] for b in blocks]
    for where in at:
        model = equinox.tree_at(where, model, random.uniform(0.5, 1.5, where(model).shape).astype(np.float32))
    save_model(str(path), model, config)


def _make_torch(path, config, random):
    import torch
    from nequix.torch_impl.model import NequixTorch, save_model

    torch.manual_seed(int(random.integers(1000)))
    model = NequixTorch(**_options(config))
    for name, array in model.state_dict().items():
        if "affine" in name or name == "atom_energies":
            array.copy_(torch.from_numpy(random.uniform(0.5, 1.5, array.shape)))
    save_model(str(path), model, config)


def make_variant(name, directory, seed=1):
    backend, config = config_of(name)
    return str(make_checkpoint(directory / f"{name}{SUFFIXES[backend]}", backend, config, seed))


if __name__ == "__main__":
    command(sys.argv[1:], __doc__, VARIANTS, LARGE, lambda name, directory, seed: (make_variant(name, directory, seed), {}))
