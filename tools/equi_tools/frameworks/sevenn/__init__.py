# SPDX-License-Identifier: MIT
"""SevenNet."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="sevenn", title="SevenNet", package="sevenn", requirement="sevenn", option="-DEQUI_TORCH=ON", choice="modality", ignores_keys=True
)
