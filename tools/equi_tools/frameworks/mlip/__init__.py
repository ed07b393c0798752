# SPDX-License-Identifier: MIT
"""MACE of mlip."""

from ..framework import Framework

FRAMEWORK = Framework(name="mlip", title="mlip", package="mlip", requirement="mlip", backend="jax", choice="head")
