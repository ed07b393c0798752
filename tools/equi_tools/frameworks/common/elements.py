# SPDX-License-Identifier: MIT
"""The elements that a model is converted for."""

from ...document import is_chemical_symbol
from ...errors import EquiError
from ...printable import printable


def chosen_elements(asked, known, source):
    """Those that `--elements` names, in their order, or all that the model of the source knows."""
    elements = asked or list(known)
    unknown = [e for e in elements if e not in known]
    if unknown:
        raise EquiError(f"--elements: {source} does not know {', '.join(unknown)}")
    if len(set(elements)) != len(elements):
        raise EquiError("--elements: an element is named twice")
    strange = [e for e in elements if not is_chemical_symbol(e)]
    if strange:
        raise EquiError(
            f"{source}: element {printable(str(strange[0]), 60)} of the model is not a chemical symbol, and LAMMPS would not know it: name "
            "the elements to keep with --elements"
        )
    return elements
