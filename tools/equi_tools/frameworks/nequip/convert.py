# SPDX-License-Identifier: MIT
"""NequIP and Allegro models -> document and tensors of an .equi file (doc/model_file.rst)."""

from .allegro_converter import AllegroConverter
from .contents import AllegroCheckpoint, LegacyCheckpoint
from .converter import Converter
from .legacy_converter import LegacyConverter


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded model."""
    kinds = {LegacyCheckpoint: LegacyConverter, AllegroCheckpoint: AllegroConverter}
    return kinds.get(type(checkpoint), Converter)(checkpoint, elements).document()
