# SPDX-License-Identifier: MIT
"""Makes random checkpoints of eqnorm, and converts them: see test_models.command.

It runs in the environment of tools/requirements-nequix.txt.
"""

import argparse
import sys

import torch
from equi_tools.frameworks.eqnorm.checkpoint import PUBLISHED
from equi_tools.frameworks.eqnorm.oracle import OF_MODULES, import_module

from . import command, many_elements

ELEMENTS = ["O", "Na", "Cl"]
DEFAULTS = PUBLISHED | dict(
    irreps_hidden="13x0e+7x1o+5x2e", irreps_sh="1x0e+1x1o+1x2e", num_convs=2, num_features=17, r_cutoff=4.2, num_basis=5,
    invariant_neurons=7, avg_nbr=11.3,
)  # fmt: skip
# The model of eqnorm whose module is taken, and settings.
VARIANTS = {
    "mptrj": ("eqnorm-mptrj", {}),
    "max_mptrj": ("eqnorm-max-mptrj", dict(irreps_hidden="9x0e+12x1o", irreps_sh="1x0e+1x1o", num_convs=3, poly_p=5, use_ema=False)),
}
# All elements, in the shape of the published one.
LARGE = {"published": ("eqnorm-mptrj", dict(PUBLISHED))}


def settings_of(name):
    variant, own = (VARIANTS | LARGE)[name]
    return {"variant": variant, **DEFAULTS, **own}


def make_checkpoint(path, settings, elements=ELEMENTS, seed=1):
    """A file with numbers at random; that of use_ema has those which the settings do not ask for, too."""
    from ase.data import atomic_numbers

    torch.manual_seed(seed)
    own = dict(settings)
    module = import_module(own.pop("variant"))
    numbers = torch.tensor(sorted(atomic_numbers[element] for element in elements))
    states = []
    for _ in range(2):
        model = module.HDNNP(argparse.Namespace(**own | OF_MODULES), numbers)
        state = model.state_dict()
        for key, array in state.items():
            if "affine_weight" in key or "bessel_weights" in key:
                array.mul_(0.5 + torch.rand(array.shape))
        states.append(state)
    torch.save(
        {
            "unique_elements": numbers, "energy_shift": -torch.rand(len(numbers), 1), "energy_scale": torch.tensor(0.7),
            "model_state_dict": states[0], "ema_model_state_dict": states[1],
        },
        path,
    )  # fmt: skip
    return str(path)


def make_variant(name, directory, seed=1):
    """(path, options of `convert` for it)."""
    settings = settings_of(name)
    elements = many_elements() if name in LARGE else ELEMENTS
    return make_checkpoint(directory / f"{name}.pt", settings, elements, seed), {"settings": settings}


if __name__ == "__main__":
    command(sys.argv[1:], __doc__, VARIANTS, LARGE, make_variant)
