# SPDX-License-Identifier: MIT
"""Models of fairchem 1's trainers -> document and tensors of an .equi file (doc/model_file.rst)."""

from ..fairchem.convert import Converter
from .checkpoint import DIRECT, EQUIFORMER
from .equiformer_v3 import Converter as EquiformerV3


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    converters = {**{name: module.Converter for name, module in DIRECT.items()}, EQUIFORMER: EquiformerV3}
    return converters.get(checkpoint.architecture, Converter)(checkpoint, None, elements).document()
