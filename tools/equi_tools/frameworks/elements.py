# SPDX-License-Identifier: MIT
"""The elements that a model is converted for."""

from ..errors import EquiError


def chosen_elements(asked, known, source):
    """Those that `--elements` asks for, in their order, or all that the model of the source knows."""
    elements = asked or list(known)
    unknown = [e for e in elements if e not in known]
    if unknown:
        raise EquiError(f"--elements: {source} does not know {', '.join(unknown)}")
    if len(set(elements)) != len(elements):
        raise EquiError("--elements: an element is named twice")
    return elements
