# SPDX-License-Identifier: MIT
"""Nequix, in the files of either of its back ends."""

from ..framework import Framework

FRAMEWORK = Framework(name="nequix", title="Nequix", package="nequix", requirement="nequix", backend="jax", ignores_keys=True)
