# SPDX-License-Identifier: MIT
"""torch.ops.equi: the convolution of equivariant models for training, on CPUs and NVIDIA GPUs.

`Convolution` is e3nn's uvu TensorProduct with weights for each edge, followed by the sum over receivers. `enable(model)`
puts it into a model of sevenn, mace-torch or nequip, `disable(model)` takes it out again. See doc/training.rst.
"""

from .convolution import Convolution, convolution
from .models import disable, enable

__all__ = ["Convolution", "convolution", "disable", "enable"]
