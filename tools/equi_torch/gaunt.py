# SPDX-License-Identifier: MIT
"""The Gaunt product of functions on the sphere."""

import torch
from equi_tools.errors import EquiError

from . import convolution as _  # loads the library


def gaunt_product(x1, x2, lmax_out):
    """torch.ops.equi.gaunt_product of x1 [..., (l1 + 1)^2] and x2 [..., (l2 + 1)^2] -> [..., (lmax_out + 1)^2].

    Each row is a function on the sphere, the sum of its coefficients times e3nn's spherical harmonics with
    normalization "component". The result is the projection of the product of two functions onto such harmonics. The
    leading sizes are broadcast.
    """
    for name, x in (("x1", x1), ("x2", x2)):
        if x.device.type not in ("cpu", "meta"):
            raise EquiError(f"{name}: expected a tensor on the CPU, the only device with the Gaunt product, found one on {x.device}")
    sizes = torch.broadcast_shapes(x1.shape[:-1], x2.shape[:-1])
    return torch.ops.equi.gaunt_product(x1.expand(*sizes, -1), x2.expand(*sizes, -1), lmax_out)
