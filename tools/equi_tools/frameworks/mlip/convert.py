# SPDX-License-Identifier: MIT
"""Force fields of mlip -> document and tensors of an .equi file (doc/model_file.rst)."""

from .checkpoint import ARCHITECTURES


def convert(checkpoint, choice=None, elements=None):
    """(architecture part of the document, tensors) of a loaded force field."""
    return ARCHITECTURES[checkpoint.architecture].Converter(checkpoint, choice, elements).document()
