# SPDX-License-Identifier: MIT
"""The only code that knows the training frameworks: for each one a reader, a converter and a float64 oracle.

A source is recognized by what is inside the file, and read, without running it; a framework is imported only by its oracle.
"""

import importlib.util
import mmap
import os
import pickletools
import zipfile
from pathlib import Path

from ..errors import EquiError


class MissingFramework(EquiError):
    """The framework of a source is not installed in this interpreter."""

    def __init__(self, framework, source):
        super().__init__(
            f"{source} is a {framework.title} model, whose own results need the package {framework.requirement} with {framework.backend}: "
            f"pip install {framework.pip_words}, or name a Python interpreter that has it in {framework.variable}; a build "
            f"makes an environment with {framework.option}"
        )
        self.framework = framework


# What a file of some framework does not say, by the names of the options that say it: why the files of the others need no
# such option.
SETTINGS = {
    "types": "the atoms of {title} models have no types but elements",
    "unit": "the energies of {title} models are in eV",
    "length_unit": "the lengths of {title} models are in Angstrom",
    "charge": "{title} models take no total charge",
    "spin": "{title} models take no spin",
    "composition": "{title} models do not depend on the composition",
    "framework_version": "{title} files need no version to be read",
    "coulomb_cutoff": "{title} models have no Coulomb energy of their own charges",
}


class Framework:
    """One training framework. `choice` names what a source may ask the user to choose: a modality, a head, a task, nothing."""

    name = ""
    title = ""
    package = ""  # what is imported
    requirement = ""  # what is installed
    choice = None
    backend = "torch"  # the package that computes
    settings = ()  # of SETTINGS: what its files leave to the user, who may have to say it
    ignores_keys = False  # whether `load` lets unknown keys of a configuration pass that the user vouches for

    @property
    def pip_words(self):
        """What `pip install` is told."""
        return self.requirement

    @property
    def variable(self):
        """Environment variable with the interpreter of the framework's own environment."""
        return f"EQUI_PYTHON_{self.name.upper()}"

    @property
    def option(self):
        """What CMake is told to make an environment with the framework."""
        return f"-DEQUI_FRAMEWORKS={self.name}"

    @property
    def interpreter(self):
        return os.environ.get(self.variable) or None

    def installed(self):
        """Whether the framework can be run here; packages may be there without what they need, for the files in them."""
        return all(importlib.util.find_spec(package) is not None for package in (self.package, self.backend))

    def installed_version(self):
        from importlib.metadata import version

        return version(self.requirement)

    def load(self, source, ignore_keys=(), **settings):
        """The checkpoint: source, path, sha256, license, citation, version, elements. settings: those of `self.settings` but the
        units, which model_units deals with; types are a dict from names to elements."""
        raise NotImplementedError

    def convert(self, checkpoint, choice=None, elements=None):
        """(architecture part of the document, tensors)."""
        raise NotImplementedError

    def chosen(self, checkpoint, choice):
        """The choice that the file states, None where there is none."""
        return choice

    def stated_unit(self, checkpoint):
        """The unit of energies where the user names none; None if the user has to."""
        return "eV"

    def notes(self, document):
        """What the user of a model of this architecture should know about the framework's own results."""
        return []

    def remarks(self, checkpoint):
        """What the user of a checkpoint should know about its conversion."""
        return []

    def float64_calculator(self, checkpoint, choice=None):
        """ASE calculator of a loaded checkpoint or a source in float64 with exact couplings."""
        raise NotImplementedError

    def framework_calculator(self, source, choice=None):
        """ASE calculator as the framework's users run it."""
        raise NotImplementedError


class SevenNet(Framework):
    name = "sevenn"
    title = "SevenNet"
    package = "sevenn"
    requirement = "sevenn"
    choice = "modality"
    option = "-DEQUI_TORCH=ON"
    ignores_keys = True

    def load(self, source, ignore_keys=()):
        from . import sevenn_checkpoint

        return sevenn_checkpoint.load(source, ignore_keys)

    def convert(self, checkpoint, choice=None, elements=None):
        from . import sevenn_convert

        return sevenn_convert.convert(checkpoint, choice, elements)

    def float64_calculator(self, checkpoint, choice=None):
        from . import sevenn_oracle

        return sevenn_oracle.float64_calculator(checkpoint, choice)

    def framework_calculator(self, source, choice=None):
        from . import sevenn_oracle

        return sevenn_oracle.framework_calculator(source, choice)


class Mace(Framework):
    name = "mace"
    title = "MACE"
    package = "mace"
    requirement = "mace-torch"
    choice = "head"
    settings = ("unit", "length_unit")

    def load(self, source, ignore_keys=()):
        from . import mace_checkpoint

        return mace_checkpoint.load(source)

    def convert(self, checkpoint, choice=None, elements=None):
        from . import mace_convert

        return mace_convert.convert(checkpoint, choice, elements)

    def remarks(self, checkpoint):
        from . import mace_checkpoint

        if mace_checkpoint.mixes_heads_in_its_version(checkpoint.model):
            yield (
                "the model may be of mace 0.3.14, where the readout of one head reads the hidden channels of all heads; later "
                "versions, and this file, do not"
            )

    def notes(self, document):
        if document["radial_basis"]["kind"] == "chebyshev":
            yield (
                "mace's own forces and stresses are not the derivatives of its energy: torch does not differentiate the "
                "Chebyshev polynomials; those of equi are"
            )

    def chosen(self, checkpoint, choice):
        return checkpoint.heads[checkpoint.head_index(choice)] if len(checkpoint.heads) > 1 else None

    def float64_calculator(self, checkpoint, choice=None):
        from . import mace_oracle

        return mace_oracle.float64_calculator(checkpoint, choice)

    def framework_calculator(self, source, choice=None):
        from . import mace_oracle

        return mace_oracle.framework_calculator(source, choice)


class NequIP(Framework):
    name = "nequip"
    title = "NequIP"
    package = "nequip"
    requirement = "nequip"
    settings = ("types", "unit", "length_unit")

    def load(self, source, ignore_keys=(), types=None):
        from . import nequip_checkpoint

        return nequip_checkpoint.load(source, types)

    def convert(self, checkpoint, choice=None, elements=None):
        from . import nequip_convert

        return nequip_convert.convert(checkpoint, elements=elements)

    def stated_unit(self, checkpoint):
        return checkpoint.stated_unit

    def float64_calculator(self, checkpoint, choice=None):
        from . import nequip_oracle

        return nequip_oracle.float64_calculator(checkpoint)

    def framework_calculator(self, source, choice=None):
        from . import nequip_oracle

        return nequip_oracle.framework_calculator(source)


class MatGL(Framework):
    name = "matgl"
    title = "matgl"
    package = "matgl"
    requirement = "matgl"
    ignores_keys = True

    def load(self, source, ignore_keys=()):
        from . import matgl_checkpoint

        return matgl_checkpoint.load(source, ignore_keys)

    def convert(self, checkpoint, choice=None, elements=None):
        from . import matgl_convert

        return matgl_convert.convert(checkpoint, elements)

    def float64_calculator(self, checkpoint, choice=None):
        from . import matgl_oracle

        return matgl_oracle.float64_calculator(checkpoint)

    def framework_calculator(self, source, choice=None):
        from . import matgl_oracle

        return matgl_oracle.framework_calculator(source)


class TorchMDNet(Framework):
    name = "torchmd"
    title = "torchmd-net"
    package = "torchmdnet"
    requirement = "torchmd-net"
    settings = ("unit", "length_unit", "charge", "coulomb_cutoff", "framework_version")
    ignores_keys = True

    def load(self, source, ignore_keys=(), charge=None, coulomb_cutoff=None, framework_version=None):
        from . import torchmd_checkpoint

        return torchmd_checkpoint.load(source, ignore_keys, charge, coulomb_cutoff, framework_version)

    def remarks(self, checkpoint):
        if not checkpoint.is_order_known:
            yield (
                "the checkpoint does not say whether torchmd-net 2.6.2 wrote it, which ordered its numbers otherwise than 3.0 and newer: if "
                "so, convert it with --framework-version 2.6.2"
            )

    def stated_unit(self, checkpoint):
        return None

    def convert(self, checkpoint, choice=None, elements=None):
        from . import torchmd_convert

        return torchmd_convert.convert(checkpoint, elements)

    def float64_calculator(self, checkpoint, choice=None):
        from . import torchmd_oracle

        return torchmd_oracle.float64_calculator(checkpoint)

    def framework_calculator(self, source, choice=None):
        from . import torchmd_oracle

        return torchmd_oracle.framework_calculator(source)


class FairChem(Framework):
    name = "fairchem"
    title = "fairchem"
    package = "fairchem"
    requirement = "fairchem-core"
    choice = "task"
    settings = ("charge", "spin", "composition")
    ignores_keys = True

    def installed(self):
        return super().installed() and importlib.util.find_spec("fairchem.core") is not None

    def load(self, source, ignore_keys=(), charge=None, spin=None, composition=None):
        from . import fairchem_checkpoint

        return fairchem_checkpoint.load(source, ignore_keys, charge, spin, composition)

    def convert(self, checkpoint, choice=None, elements=None):
        from . import fairchem_convert

        return fairchem_convert.convert(checkpoint, choice, elements)

    def chosen(self, checkpoint, choice):
        if choice is None and checkpoint.is_for_all_systems:
            return None  # all of them
        return checkpoint.task_name(choice)

    def notes(self, document):
        if "composition" in document:
            yield (
                f"the experts are mixed for the composition {formula(document['composition'])} alone: the pair style stops where "
                "the fractions of the elements are others"
            )

    def float64_calculator(self, checkpoint, choice=None):
        from . import fairchem_oracle

        return fairchem_oracle.float64_calculator(checkpoint, choice)

    def framework_calculator(self, source, choice=None):
        from . import fairchem_oracle

        return fairchem_oracle.framework_calculator(source, choice)


class FairChem1(Framework):
    """Checkpoints of fairchem 1's trainers. The package equiformer-v3, which has its modules, stands beside fairchem 2 in one
    environment."""

    name = "fairchem1"
    title = "fairchem 1"
    package = "equiformer_v3"
    requirement = "equiformer-v3"
    pip_words = "--no-deps equiformer-v3"  # which asks for packages that its models do not need
    variable = "EQUI_PYTHON_FAIRCHEM"
    option = "-DEQUI_FRAMEWORKS=fairchem"
    ignores_keys = True

    def load(self, source, ignore_keys=()):
        from . import fairchem1_checkpoint

        return fairchem1_checkpoint.load(source, ignore_keys)

    def convert(self, checkpoint, choice=None, elements=None):
        from . import fairchem1_checkpoint, fairchem_convert
        from .fairchem1_equiformer_v3 import Converter as EquiformerV3

        direct = {name: module.Converter for name, module in fairchem1_checkpoint.DIRECT.items()}
        converters = {**direct, fairchem1_checkpoint.EQUIFORMER: EquiformerV3}
        return converters.get(checkpoint.architecture, fairchem_convert.Converter)(checkpoint, None, elements).document()

    def remarks(self, checkpoint):
        return checkpoint.notes

    def float64_calculator(self, checkpoint, choice=None):
        from . import fairchem1_oracle

        return fairchem1_oracle.float64_calculator(checkpoint)

    def framework_calculator(self, source, choice=None):
        from . import fairchem1_oracle

        return fairchem1_oracle.framework_calculator(source)


class Mlip(Framework):
    name = "mlip"
    title = "mlip"
    package = "mlip"
    requirement = "mlip"
    choice = "head"
    backend = "jax"

    def load(self, source, ignore_keys=()):
        from . import mlip_checkpoint

        return mlip_checkpoint.load(source)

    def convert(self, checkpoint, choice=None, elements=None):
        from . import mlip_convert

        return mlip_convert.convert(checkpoint, choice, elements)

    def chosen(self, checkpoint, choice):
        return checkpoint.heads[checkpoint.head_index(choice)] if len(checkpoint.heads) > 1 else None

    def float64_calculator(self, checkpoint, choice=None):
        from . import mlip_oracle

        return mlip_oracle.float64_calculator(checkpoint, choice)

    def framework_calculator(self, source, choice=None):
        from . import mlip_oracle

        return mlip_oracle.framework_calculator(source, choice)


def formula(counts):
    """Numbers of atoms by symbol as text: Li6PS5Cl."""
    return "".join(f"{symbol}{n if n > 1 else ''}" for symbol, n in counts.items())


SEVENN, MACE, NEQUIP, MATGL, TORCHMD = SevenNet(), Mace(), NequIP(), MatGL(), TorchMDNet()
FAIRCHEM, FAIRCHEM1, MLIP = FairChem(), FairChem1(), Mlip()
FRAMEWORKS = {framework.name: framework for framework in (SEVENN, MACE, NEQUIP, MATGL, TORCHMD, FAIRCHEM, FAIRCHEM1, MLIP)}

# Names of tensors that only one framework has, for files that hold nothing but tensors.
TENSOR_NAMES = {
    ".symmetric_contractions.": MACE, "sole_model.": NEQUIP, "equi_model.": NEQUIP, "representation_model.": TORCHMD,
    ".so2_m_conv.": FAIRCHEM, ".radial_basis.basis.bessel_weights": NEQUIP,
}  # fmt: skip

# Names that stand together in what the trainers of fairchem 1 write alone, whatever else is in it.
OF_FAIRCHEM1 = {"state_dict", "config", "normalizers"}


def _names_in_pickle(data):
    """Modules of the classes and functions that a pickle would import, and its strings; nothing is executed."""
    modules, strings = [], []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "GLOBAL":
                modules.append(argument.split(" ")[0])
            elif opcode.name == "STACK_GLOBAL" and len(strings) >= 2:
                modules.append(strings[-2])
            elif isinstance(argument, str):
                strings.append(argument)
    except Exception:
        # A damaged pickle: what was found so far decides, and the framework's reader explains the rest.
        pass
    return modules, strings


def _in_archive(archive):
    """The framework that a zip file of torch or mlip speaks of, or None."""
    from .. import torch_archive
    from . import mlip_checkpoint

    names = archive.namelist()
    if mlip_checkpoint.is_archive_of_mlip(names):
        return MLIP
    for name in names:
        # Sources of TorchScript and of torch.package. The first part is the name that the file was written under.
        parts = name.split("/")[1:]
        for framework in FRAMEWORKS.values():
            if framework.package in parts[:-1] or parts[-1:] == [f"{framework.package}.py"]:
                return framework
    if any("aotinductor" in name for name in names):
        return NEQUIP
    for name in names:
        if not name.endswith((".pkl", "/data.pkl")):
            continue
        modules, strings = _names_in_pickle(torch_archive.entry(archive, name, torch_archive.MAX_PICKLE_BYTES))
        if OF_FAIRCHEM1 <= set(strings):
            return FAIRCHEM1
        for module in modules:
            for framework in FRAMEWORKS.values():
                if module.split(".")[0] == framework.package:
                    return framework
        for text in strings:
            for part, framework in TENSOR_NAMES.items():
                if part in text:
                    return framework
            if text.startswith("nequip."):
                return NEQUIP
    return None


def detect(source):
    """The framework of a source; SevenNet's where nothing indicates another one, and for names without a dot."""
    from .. import torch_archive
    from . import foreign_files, matgl_checkpoint, nequip_legacy, other_families, sevenn_checkpoint

    def refuse_foreign(file, what_it_is):
        if what_it_is:
            raise EquiError(f"{file} {what_it_is}")

    def other_family():
        return other_families.what_it_is(path, _names_in_pickle)

    path = Path(source)
    if matgl_checkpoint.is_folder_of_matgl(path):
        state = matgl_checkpoint.folder_of(path) / "state.pt"
        if state.is_file():
            refuse_foreign(state, foreign_files.what_it_is(state))
        return MATGL
    if path.is_dir() and nequip_legacy.training_files(path):
        return NEQUIP
    if not path.is_file():
        refuse_foreign(source, other_family())
        if path.is_dir() and not sevenn_checkpoint.is_name(str(source)):
            raise EquiError(
                f"{source} is a folder, and no potential of matgl (model.json, state.pt): name the model's file in it"
            )
        if path.exists() and not path.is_dir():
            raise EquiError(f"cannot read {source}: not a regular file")
        if path.suffix:
            raise EquiError(f"cannot read {source}: no such file")
        return SEVENN
    if torch_archive.is_zip_file(path):
        try:
            with zipfile.ZipFile(path) as archive:
                found, names = _in_archive(archive), archive.namelist()
            if nequip_legacy.training_files(path):
                found = NEQUIP
            family = None if found else other_family()
        except (OSError, MemoryError):
            raise
        except Exception as error:  # zipfile, zlib and others each have their own
            raise EquiError(f"{source}: damaged archive: {error}") from error
        if found is None:
            refuse_foreign(source, family or foreign_files.what_archive_is(names))
        return found or SEVENN
    if nequip_legacy.training_files(path):
        return NEQUIP  # its configuration
    family = other_family()
    refuse_foreign(source, foreign_files.what_it_is(path, family) or family)
    # A pickle of old times, or a truncated archive: the framework's reader says what is wrong with it.
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for framework in (MACE, NEQUIP):
            if data.find(b"c" + framework.package.encode() + b".") >= 0:
                return framework
    return SEVENN


def of_document(document):
    """The framework that a converted file names."""
    name = document["framework"]["name"]
    if name not in FRAMEWORKS:
        raise EquiError(f"framework '{name}' is not known, only {', '.join(FRAMEWORKS)}")
    return FRAMEWORKS[name]


def require(source):
    """The framework of a source, installed in this interpreter; else raises MissingFramework."""
    framework = detect(source)
    if not framework.installed():
        raise MissingFramework(framework, source)
    return framework
