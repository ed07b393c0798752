# SPDX-License-Identifier: MIT
"""The only code that knows the training frameworks: a reader, a converter and a float64 oracle for each of them.

A source is recognized by the contents of the file, which is read without being run.
"""

from .eqnorm import FRAMEWORK as EQNORM
from .fairchem import FRAMEWORK as FAIRCHEM
from .fairchem1 import FRAMEWORK as FAIRCHEM1
from .framework import SETTINGS, MissingFramework
from .hienet import FRAMEWORK as HIENET
from .mace import FRAMEWORK as MACE
from .matgl import FRAMEWORK as MATGL
from .mlip import FRAMEWORK as MLIP
from .nequip import FRAMEWORK as NEQUIP
from .nequix import FRAMEWORK as NEQUIX
from .sevenn import FRAMEWORK as SEVENN
from .so3krates import FRAMEWORK as SO3KRATES
from .tace import FRAMEWORK as TACE
from .torchmd import FRAMEWORK as TORCHMD

__all__ = ["FRAMEWORKS", "SETTINGS", "MissingFramework", "detect", "require"]

FRAMEWORKS = {
    framework.name: framework
    for framework in (SEVENN, MACE, NEQUIP, MATGL, TORCHMD, FAIRCHEM, FAIRCHEM1, MLIP, NEQUIX, EQNORM, SO3KRATES, HIENET, TACE)
}


def detect(source):
    """The framework of a source; SevenNet if nothing indicates another one, and for names without a dot."""
    from .detection import framework_name  # loads numpy, which many commands do not need

    return FRAMEWORKS[framework_name(source, FRAMEWORKS.values())]


def require(source):
    """The framework of a source, installed in this interpreter; else raises MissingFramework."""
    framework = detect(source)
    if not framework.installed():
        raise MissingFramework(framework, source)
    return framework
