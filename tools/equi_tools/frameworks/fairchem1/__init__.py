# SPDX-License-Identifier: MIT
"""eSEN, EquiformerV2 and V3 and eSCN of the trainers of fairchem 1. Their modules are in the package equiformer-v3,
which shares an environment with fairchem 2."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="fairchem1", title="fairchem 1", package="equiformer_v3", requirement="equiformer-v3",
    pip_words="--no-deps equiformer-v3",  # it asks for packages that its models do not need
    environment="fairchem", ignores_keys=True,
)  # fmt: skip
