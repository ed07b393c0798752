# SPDX-License-Identifier: MIT
"""eSEN and UMA of fairchem 2."""

from ...printable import formula
from ..framework import Framework


def notes(document):
    if "composition" in document:
        yield (
            f"the experts are mixed for the composition {formula(document['composition'])} alone: the pair style stops where "
            "the fractions of the elements are others"
        )


FRAMEWORK = Framework(
    name="fairchem", title="fairchem", package="fairchem", modules=("fairchem.core",), requirement="fairchem-core", choice="task",
    settings=("charge", "spin", "composition"), ignores_keys=True, tensor_names=(".so2_m_conv.",), notes=notes,
)  # fmt: skip
