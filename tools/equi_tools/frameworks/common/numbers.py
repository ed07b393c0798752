# SPDX-License-Identifier: MIT
"""What converters compute with a model's numbers themselves: activations, mixtures of experts, and what users say of a system."""

import numpy as np

from ...errors import EquiError


def activate(name, x):
    """An activation by its name in a document."""
    sigmoid = np.exp(-np.logaddexp(0, -x))
    return {
        "silu": x * sigmoid, "sigmoid": sigmoid, "tanh": np.tanh(x), "ssp": np.logaddexp(0, x) - np.log(2), "relu": np.maximum(x, 0),
        "identity": x,
    }[name]  # fmt: skip


def softplus(x):
    return np.logaddexp(0.0, x.astype(np.float64))


def softmax(x):
    exponentials = np.exp(x - x.max())
    return exponentials / exponentials.sum()


def mixed(coefficients, tensor):
    """The sum over experts, the first axis of a tensor, in float64."""
    return np.tensordot(coefficients, tensor.astype(np.float64), 1)


def whole_setting(value, name, limits):
    """The whole number that a user states with --name, or None."""
    if value is None:
        return None
    if float(value) != int(value) or not limits[0] <= value <= limits[1]:
        raise EquiError(f"--{name} {value:g}: expected a whole number from {limits[0]} to {limits[1]}")
    return int(value)
