# SPDX-License-Identifier: MIT
"""NequIP."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="nequip", title="NequIP", package="nequip", requirement="nequip", settings=("types", "unit", "length_unit"),
    tensor_names=("sole_model.", "equi_model.", "radial_basis.basis.bessel_weights"),
)  # fmt: skip
