# SPDX-License-Identifier: MIT
"""TensorNet and TensorNet2 of torchmd-net."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="torchmd", title="torchmd-net", package="torchmdnet", requirement="torchmd-net",
    settings=("unit", "length_unit", "charge", "coulomb_cutoff", "framework_version"), ignores_keys=True,
    tensor_names=("representation_model.",),
)  # fmt: skip
