# SPDX-License-Identifier: MIT
"""The numbers of a trained model's file, all of which a converter must understand."""

from dataclasses import dataclass, field

import numpy as np

from ...errors import EquiError

MAX_SHOWN = 4


@dataclass
class State:
    """The numbers of a file by name. Numbers that nobody has read at the end were not understood."""

    source: dict
    kind: str  # of model, for messages: "a TensorNet"
    taken: set = field(default_factory=set)

    def __contains__(self, name):
        return name in self.source

    def array(self, name, shape=None):
        """The numbers of one name, of a given shape or of any."""
        if name not in self.source:
            raise EquiError(f"tensor {name} is missing")
        self.taken.add(name)
        array = self.source[name]
        if shape is not None and np.shape(array) != tuple(shape) or not isinstance(array, np.ndarray):
            found = list(array.shape) if isinstance(array, np.ndarray) else type(array).__name__
            expected = f"the shape {list(shape)}" if shape is not None else "numbers"
            raise EquiError(f"tensor {name}: expected {expected}, found {found}")
        return array

    def take(self, name, *shape):
        """Floating-point numbers as float32 or float64; the format has no half precision, and float32 holds its
        numbers."""
        array = self.array(name, shape)
        if array.dtype not in (np.float16, np.float32, np.float64):
            raise EquiError(f"tensor {name}: dtype {array.dtype} is not supported, only floating point")
        return array.astype(np.float32) if array.dtype == np.float16 else array

    def number(self, name):
        return float(self.take(name))

    def fitted(self, shapes, is_constant):
        """The numbers of all names of `shapes`; those without any may be missing. Refuses others except constants."""
        empty = {name: np.zeros(shape, np.float32) for name, shape in shapes.items() if 0 in shape and name not in self.source}
        found = {name: empty[name] if name in empty else self.array(name, shape) for name, shape in shapes.items()}
        self.finish(is_constant)
        return found

    def finish(self, is_constant=lambda name: False):
        """Refuses what has not been read, except constants and tensors without numbers."""
        left = [name for name, array in self.source.items() if name not in self.taken and np.size(array) and not is_constant(name)]
        if left:
            shown, more = ", ".join(left[:MAX_SHOWN]), f" and {len(left) - MAX_SHOWN} more" if len(left) > MAX_SHOWN else ""
            verb = "are" if len(left) > 1 else "is"
            raise EquiError(f"tensor{'s' * (len(left) > 1)} {shown}{more} {verb} not part of {self.kind}")
