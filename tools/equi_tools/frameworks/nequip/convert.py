# SPDX-License-Identifier: MIT
"""NequIP models -> document and tensors of an .equi file (doc/model_file.rst)."""

from .contents import LegacyCheckpoint
from .converter import Converter
from .legacy_converter import LegacyConverter


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    return (LegacyConverter if isinstance(checkpoint, LegacyCheckpoint) else Converter)(checkpoint, elements).document()
