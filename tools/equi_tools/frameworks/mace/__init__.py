# SPDX-License-Identifier: MIT
"""MACE of mace-torch."""

from ..framework import Framework


def notes(document):
    if document["radial_basis"]["kind"] == "chebyshev":
        yield (
            "mace's own forces and stresses are not the derivatives of its energy: torch does not differentiate the "
            "Chebyshev polynomials; those of equi are"
        )


FRAMEWORK = Framework(
    name="mace", title="MACE", package="mace", requirement="mace-torch", choice="head",
    settings=("unit", "length_unit", "charge", "spin", "system", "les_sigma", "les_dl", "les_self", "les_boundary"),
    tensor_names=(".symmetric_contractions.",), notes=notes,
)  # fmt: skip
