# SPDX-License-Identifier: MIT
"""Recognizes the framework that wrote a file or folder by its contents, without running them."""

import mmap
from pathlib import Path

from ... import foreign_files, torch_archive
from ...errors import EquiError
from ..eqnorm.checkpoint import is_checkpoint as is_of_eqnorm
from ..hienet.checkpoint import is_name as is_name_of_hienet
from ..matgl.checkpoint import folder_of, is_folder_of_matgl
from ..mlip.checkpoint import is_archive_of_mlip
from ..nequip.files import is_training
from ..nequix.checkpoint import begins_as_nequix
from ..sevenn.checkpoint import is_name
from ..tace.checkpoint import SIGN_OF_COMPILED
from . import other_families
from .archive import Archive

# Names that only the trainers of fairchem 1 write together.
NAMES_OF_FAIRCHEM1 = {"state_dict", "config", "normalizers"}
# Frameworks whose old pickles name their package.
WITH_OLD_PICKLES = ("mace", "nequip")


def _of_archive(archive, frameworks):
    """The framework whose name a zip file of torch or mlip contains, or None."""
    if is_archive_of_mlip(archive.names):
        return "mlip"
    for name in archive.names:
        # Sources of TorchScript and of torch.package. The first part of their path is the name under which the file
        # was written.
        parts = name.split("/")[1:]
        for framework in frameworks:
            if framework.package in parts[:-1] or parts[-1:] == [f"{framework.package}.py"]:
                return framework.name
    if any("aotinductor" in name for name in archive.names):
        return "tace" if any(SIGN_OF_COMPILED in text for text in archive.texts("metadata.json")) else "nequip"
    for modules, strings in archive.pickles():
        if NAMES_OF_FAIRCHEM1 <= set(strings):
            return "fairchem1"
        if is_of_eqnorm(strings):
            return "eqnorm"
        for module in modules:
            for framework in frameworks:
                if module.split(".")[0] == framework.package:
                    return framework.name
        for text in strings:
            for framework in frameworks:
                if any(part in text for part in framework.tensor_names):
                    return framework.name
            if text.startswith("nequip."):
                return "nequip"
    return None


def _refuse(source, what_it_is):
    if what_it_is:
        raise EquiError(f"{source} {what_it_is}")


def _without_file(source, path):
    """The framework of a name that is no file; refuses what is neither."""
    _refuse(source, other_families.what_path_is(path))
    if path.is_dir() and not is_name(str(source)):
        raise EquiError(f"{source} is a folder, and no potential of matgl (model.json, state.pt): name the model's file in it")
    if path.exists() and not path.is_dir():
        raise EquiError(f"cannot read {source}: not a regular file")
    if "://" in str(source):
        raise EquiError(f"cannot read {source}: download the file first, and name the file")
    if path.suffix:
        raise EquiError(f"cannot read {source}: no such file")
    return "hienet" if is_name_of_hienet(source) else "sevenn"


def framework_name(source, frameworks):
    """The name of the one of `frameworks` that a source belongs to."""
    path = Path(source)
    if is_folder_of_matgl(path):
        state = folder_of(path) / "state.pt"
        if state.is_file():
            _refuse(state, foreign_files.what_it_is(state))
        return "matgl"
    if is_training(path):
        return "nequip"
    if not path.is_file():
        return _without_file(source, path)
    if begins_as_nequix(path):
        return "nequix"
    family = other_families.what_path_is(path)
    if torch_archive.is_zip_file(path):
        try:
            with Archive(path) as archive:
                found = _of_archive(archive, frameworks)
                family = None if found else family or other_families.what_archive_is(archive)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # zipfile, zlib and others each raise their own kinds
            raise EquiError(f"{source}: damaged archive: {error}") from error
        if found is None:
            _refuse(source, family or foreign_files.what_archive_is(archive.names))
        return found or "sevenn"
    _refuse(source, foreign_files.what_it_is(path, family) or family)
    # An old pickle, or a truncated archive: the framework's reader reports the fault.
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return next((name for name in WITH_OLD_PICKLES if data.find(f"c{name}.".encode()) >= 0), "sevenn")
