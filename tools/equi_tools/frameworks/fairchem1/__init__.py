# SPDX-License-Identifier: MIT
"""eSEN, EquiformerV2 and V3 and eSCN of the trainers of fairchem 1. The package equiformer-v3, which has its modules, stands next to
fairchem 2 in one environment."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="fairchem1", title="fairchem 1", package="equiformer_v3", requirement="equiformer-v3",
    pip_words="--no-deps equiformer-v3",  # it asks for packages that its models do not need
    environment="fairchem", ignores_keys=True,
)  # fmt: skip
