# SPDX-License-Identifier: MIT
"""Makes random models of so3krates-torch, and converts them: see test_models.command.

It runs in the environment of tools/requirements-so3krates.txt.
"""

import contextlib
import io
import sys

import numpy as np

from . import command

ELEMENTS = ["O", "Na", "Cl"]
DEFAULTS = dict(
    r_max=4.0, num_radial_basis_fn=7, degrees=[1, 2], num_features=24, num_heads=3, num_layers=2, avg_num_neighbors=11.3,
    energy_regression_dim=10, radial_basis_fn="bernstein", cutoff_fn="phys",
)  # fmt: skip
NORMS = dict(layer_normalization_1=True, layer_normalization_2=True)
FAR = dict(r_max_lr=7.3, dispersion_energy_cutoff_lr_damping=1.4, electrostatic_energy_scale=3.1, dispersion_energy_scale=1.1)
NOT_FAR = dict(electrostatic_energy_bool=False, dispersion_energy_bool=False)
# The class of each and its options.
VARIANTS = {
    "everything": ("SO3LR", dict(**NORMS, **FAR, num_layers=3, residual_mlp_1=True, use_charge_embed=True, use_spin_embed=True)),
    "repulsion": ("SO3LR", dict(
        **NORMS, **NOT_FAR, r_max=4.4, degrees=[0, 1, 3], num_features=36, num_heads=4, num_radial_basis_fn=9, radial_basis_fn="gaussian",
        cutoff_fn="cosine", avg_num_neighbors=1.5, residual_mlp_2=True, initialize_ev_to_zeros=False, final_mlp_layers=3,
        energy_regression_dim=36,
    )),
    "one_degree": ("SO3LR", dict(
        **FAR, degrees=[2], num_features=8, num_heads=1, num_radial_basis_fn=6, radial_basis_fn="bessel", cutoff_fn="polynomial", cutoff_p=4,
        message_normalization="sqrt_num_features", energy_regression_dim=None, interaction_bias=False, use_charge_embed=True,
        dispersion_energy_bool=False, zbl_repulsion_bool=False, final_mlp_layers=1, initialize_ev_to_zeros=False, num_elements=20,
    )),
    "dispersion": ("SO3LR", dict(
        **FAR, num_layers=1, electrostatic_energy_bool=False, message_normalization="identity", avg_num_neighbors=None,
        energy_activation_fn="tanh",
    )),
    "short_range": ("So3krates", dict(**NORMS, degrees=[1, 2, 3, 4], num_features=16, num_heads=2, use_spin_embed=True)),
    "heads": ("MultiHeadSO3LR", dict(**NORMS, **FAR, num_output_heads=3)),
}  # fmt: skip
# The shape of the published one.
LARGE = {
    "published": ("SO3LR", dict(
        **NORMS, r_max=4.5, r_max_lr=12.0, dispersion_energy_cutoff_lr_damping=2.0, degrees=[1, 2, 3, 4], num_features=128, num_heads=4,
        num_layers=3, num_radial_basis_fn=32, energy_regression_dim=128, residual_mlp_1=True, use_charge_embed=True, use_spin_embed=True,
    )),
}  # fmt: skip


def make_module(name, elements=ELEMENTS, seed=1, **options):
    """A module with numbers at random, in float32; the elements that it was trained for have scales of energies other than 1."""
    import torch
    from ase.data import atomic_numbers
    from so3krates_torch.modules import models

    kind, own = (VARIANTS | LARGE)[name]
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        model = getattr(models, kind)(**DEFAULTS | own | options)
    rows = [atomic_numbers[element] - 1 for element in elements]
    for key, array in model.state_dict().items():
        if "layer_norm" in key or key.endswith("_raw"):
            array.mul_(torch.from_numpy(random.uniform(0.7, 1.3, array.shape)).float())
        if key.endswith(".bias"):
            array.add_(torch.from_numpy(random.normal(0, 0.1, array.shape)).float())
        if key.endswith("energy_shifts"):
            array.copy_(torch.from_numpy(random.normal(0, 1, array.shape)))
        if "energy_scales" in key:
            array.view(-1)[rows] = torch.from_numpy(random.uniform(0.5, 1.5, len(rows))).float()
        # Tensors large enough for their squares to matter.
        if key.endswith(("W_q_ev", "W_k_ev")):
            array.mul_(6)
        # Ratios far from zero, where their absolute value has a kink.
        if key.endswith("v_shift_embedding.weight"):
            array.copy_(torch.from_numpy(random.uniform(0.8, 1.2, array.shape)))
        if key.endswith("q_embedding.weight"):
            array.mul_(0.1)
    return model


def make_checkpoint(path, name, elements=ELEMENTS, seed=1, **options):
    import torch

    torch.save(make_module(name, elements, seed, **options), path)
    return str(path)


def make_variant(name, directory, seed=1):
    """(path, keywords of `convert` for it)."""
    choice = {"head": "1"} if name == "heads" else {}
    return make_checkpoint(directory / f"{name}.model", name, seed=seed), choice


if __name__ == "__main__":
    command(sys.argv[1:], __doc__, VARIANTS, LARGE, make_variant)
