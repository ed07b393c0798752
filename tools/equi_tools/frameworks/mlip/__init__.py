# SPDX-License-Identifier: MIT
"""MACE, NequIP and eSEN of mlip."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="mlip", title="mlip", package="mlip", requirement="mlip", backend="jax", choice="head", settings=("charge", "spin"),
)  # fmt: skip
