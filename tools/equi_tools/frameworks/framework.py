# SPDX-License-Identifier: MIT
"""What the rest of the tool knows about a training framework.

Each framework has a folder with the same names: `FRAMEWORK` in __init__.py, and the functions that Framework calls.
They are in checkpoint.py (reads a file as data), convert.py (translates it) and oracle.py (runs the framework, which
is imported only there).
"""

import importlib
import importlib.metadata
import importlib.util
import os
from dataclasses import dataclass
from typing import Callable

from ..errors import EquiError

# Options for what the files of some frameworks leave to the user. The text explains why the files of the others need
# no such option.
SETTINGS = {
    "types": "the atoms of {title} models have no types but elements",
    "unit": "the energies of {title} models are in eV",
    "length_unit": "the lengths of {title} models are in Angstrom",
    "charge": "{title} models take no total charge",
    "spin": "{title} models take no spin",
    "system": "{title} models take no further numbers of the whole system",
    "composition": "{title} models do not depend on the composition",
    "coulomb_cutoff": "{title} models have no Coulomb energy of their own charges",
    "dispersion_damping": "{title} models have no dispersion energy",
    "les_sigma": "{title} models have no latent Ewald summation",
    "les_dl": "{title} models have no latent Ewald summation",
    "les_self": "{title} models have no latent Ewald summation",
    "les_boundary": "{title} models have no latent Ewald summation",
    "framework_version": "{title} files need no version to be read",
    "settings": "{title} files have the settings of their models",
}


class MissingFramework(EquiError):
    """The framework of a source is not installed in this interpreter."""

    def __init__(self, framework, source):
        super().__init__(
            f"{source} is a {framework.title} model, whose own results need the package {framework.requirement} with {framework.backend}: "
            f"pip install {framework.pip_words or framework.requirement}, or name a Python interpreter that has it in "
            f"{framework.variable}; a build makes an environment with {framework.option}"
        )
        self.framework = framework


@dataclass(eq=False)
class Framework:
    name: str  # also the name of its folder
    title: str
    package: str  # the name that Python imports and that files contain
    requirement: str  # what pip installs
    modules: tuple = ()  # modules of the package that a run requires
    pip_words: str = None  # words of `pip install`, if not the requirement
    backend: str = "torch"  # the package that does the arithmetic
    environment: str = None  # name of the Python environment, if not that of the framework
    option: str = None  # option of CMake that makes this environment
    choice: str = None  # what a source may require the user to choose: a modality, a head, a task
    settings: tuple = ()  # names of SETTINGS that the user may have to state
    ignores_keys: bool = False  # whether the user may let unknown keys of a configuration pass
    tensor_names: tuple = ()  # parts of names of tensors that no other framework has
    notes: Callable = lambda document: ()  # notes on the framework's own results for an architecture

    def __post_init__(self):
        self.environment = self.environment or self.name
        self.option = self.option or f"-DEQUI_FRAMEWORKS={self.environment}, target environment_{self.environment}"

    @property
    def variable(self):
        """Environment variable with the interpreter of the framework's own environment."""
        return f"EQUI_PYTHON_{self.environment.upper()}"

    @property
    def interpreter(self):
        return os.environ.get(self.variable) or None

    def installed(self):
        """Whether the framework can be run here. Packages may be installed without their back end, only for the files
        in them."""
        return all(importlib.util.find_spec(name) is not None for name in (self.package, *self.modules, self.backend))

    def installed_version(self):
        return importlib.metadata.version(self.requirement)

    def _module(self, name):
        return importlib.import_module(f".{self.name}.{name}", __package__)

    def load(self, source, ignore_keys=(), **settings):
        """The checkpoint, an Origin. settings: those of `self.settings` except the units, which model_units handles."""
        return self._module("checkpoint").load(source, ignore_keys, **settings)

    def convert(self, checkpoint, choice=None, elements=None):
        """(architecture part of the document, tensors)."""
        return self._module("convert").convert(checkpoint, choice, elements)

    def float64_calculator(self, checkpoint, choice=None):
        """ASE calculator of a loaded checkpoint or a source in float64 with exact couplings."""
        return self._module("oracle").float64_calculator(checkpoint, choice)

    def framework_calculator(self, source, choice=None):
        """ASE calculator as the framework's users run it."""
        return self._module("oracle").framework_calculator(source, choice)
