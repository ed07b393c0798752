# SPDX-License-Identifier: MIT
"""The kinds of NequIP files, recognized by their contents."""

import contextlib
import pickletools
import zipfile
from pathlib import Path

from ... import torch_archive

MAX_TEXT_BYTES = 1 << 24
WEIGHTS, CONFIGURATION = "best_model.pth", "config.yaml"
FIRST = "radial_basis.basis.bessel_weights"  # the first tensor of an energy model


def is_training(path):
    """Whether a path is the folder or the configuration of a training by nequip 0.6 or older."""
    return path.name == CONFIGURATION or path.is_dir() and (path / CONFIGURATION).is_file()


def kind_of(path):
    """Kind of a NequIP (or Allegro) file: package, checkpoint, torchscript, training (of nequip 0.6 and older),
    aotinductor; None for others. Runs nothing."""
    path = Path(path)
    if is_training(path):
        return "training"
    if not torch_archive.is_zip_file(path):
        return None
    with zipfile.ZipFile(path) as archive:
        names = [name.split("/", 1)[1] for name in archive.namelist() if "/" in name]
        top = {name.split("/", 1)[0] for name in archive.namelist()}
        if not {"model/package_metadata.txt", "model/package_metadata.pkl"}.isdisjoint(names) and ".data/extern_modules" in names:
            return "package"
        if any("aotinductor" in name for name in names):
            texts = (torch_archive.entry(archive, n, MAX_TEXT_BYTES) for n in archive.namelist() if n.endswith("metadata.json"))
            return "aotinductor" if any(b"r_max" in t and b"type_names" in t for t in texts) else None
        if {"extra/r_max", "extra/type_names"} <= set(names):
            return "torchscript"
        if len(top) == 1 and "data.pkl" in names and "constants.pkl" not in names:
            words = _pickle_strings(torch_archive.entry(archive, f"{next(iter(top))}/data.pkl", torch_archive.MAX_PICKLE_BYTES))
            if {"pytorch-lightning_version", "hyper_parameters", "info_dict"} <= words:
                if any(word.startswith(("nequip.", "allegro.")) for word in words):
                    return "checkpoint"
            if any(word.endswith(FIRST) for word in words):
                return "training"
    return None


def _pickle_strings(data):
    """Strings in a pickle, read without running it; for a damaged pickle those before the damage."""
    found = set()
    with contextlib.suppress(ValueError):
        found.update(argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str))
    return found


def training_files(path):
    """(weights, configuration) of a training, from its folder, its config.yaml, or its weights."""
    folder = path if path.is_dir() else path.parent
    weights = folder / WEIGHTS if is_training(path) else path
    return weights, folder / CONFIGURATION
