# SPDX-License-Identifier: MIT
"""TACE: models of the atomic cluster expansion, whose products are linear maps of many paths for each element."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="tace", title="TACE", package="tace", requirement="tace", choice="head", ignores_keys=True,
    modules=("torch_geometric", "e3nn", "lightning"), tensor_names=("readout_fn.representation.",),
)  # fmt: skip
