# SPDX-License-Identifier: MIT
"""So3krates and SO3LR of the package so3krates-torch."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="so3krates", title="SO3LR", package="so3krates_torch", requirement="so3krates-torch", choice="head",
    settings=("charge", "spin", "coulomb_cutoff", "dispersion_damping", "settings"), ignores_keys=True,
    tensor_names=("euclidean_transformers.",),
)  # fmt: skip
