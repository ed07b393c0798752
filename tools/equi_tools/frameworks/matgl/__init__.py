# SPDX-License-Identifier: MIT
"""TensorNet and QET of matgl."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="matgl", title="matgl", package="matgl", requirement="matgl", settings=("charge", "framework_version"), ignores_keys=True,
)
