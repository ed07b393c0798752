# SPDX-License-Identifier: MIT
"""TensorNet of matgl."""

from ..framework import Framework

FRAMEWORK = Framework(name="matgl", title="matgl", package="matgl", requirement="matgl", ignores_keys=True)
