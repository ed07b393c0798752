# SPDX-License-Identifier: MIT
"""torch.ops.equi: operators of equivariant models for training.

`Convolution` is e3nn's uvu TensorProduct with weights for each edge, followed by the sum over receivers.
`enable(model)` puts it into a model of sevenn, mace-torch or nequip; `disable(model)` removes it. Both run on CPUs and
NVIDIA GPUs. `gaunt_product` multiplies functions on the sphere, on CPUs. See doc/training.rst.
"""

from .convolution import Convolution, convolution
from .gaunt import gaunt_product
from .models import disable, enable

__all__ = ["Convolution", "convolution", "disable", "enable", "gaunt_product"]
