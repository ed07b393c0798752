# SPDX-License-Identifier: MIT
"""The numbers of a trainer's file, of which a converter has to understand all."""

from dataclasses import dataclass, field

import numpy as np

from ...errors import EquiError

MAX_SHOWN = 4


@dataclass
class State:
    """The numbers of a file by name; what has not been taken in the end was not understood."""

    source: dict
    kind: str  # of model, for messages: "a TensorNet"
    taken: set = field(default_factory=set)

    def take(self, name, *shape):
        if name not in self.source:
            raise EquiError(f"tensor {name} is missing")
        self.taken.add(name)
        array = self.source[name]
        if not isinstance(array, np.ndarray) or array.shape != shape:
            found = list(array.shape) if isinstance(array, np.ndarray) else type(array).__name__
            raise EquiError(f"tensor {name}: expected the shape {list(shape)}, found {found}")
        if array.dtype not in (np.float16, np.float32, np.float64):
            raise EquiError(f"tensor {name}: dtype {array.dtype} is not supported, only floating point")
        return array.astype(np.float32) if array.dtype == np.float16 else array

    def number(self, name):
        return float(self.take(name))

    def finish(self):
        left = [name for name in self.source if name not in self.taken]
        if left:
            shown, more = ", ".join(left[:MAX_SHOWN]), f" and {len(left) - MAX_SHOWN} more" if len(left) > MAX_SHOWN else ""
            verb = "are" if len(left) > 1 else "is"
            raise EquiError(f"tensor{'s' * (len(left) > 1)} {shown}{more} {verb} not part of {self.kind} as it is known here")
