# SPDX-License-Identifier: MIT
"""The zip file of a trained model: names of its entries, and names in its pickles."""

import pickletools
import zipfile

from ... import torch_archive

MAX_TEXT_BYTES = 1 << 24


class Archive:
    """Reads each pickle at most once, on request, inside a `with`."""

    def __init__(self, path):
        self._file, self._read = zipfile.ZipFile(path), {}
        self.names = self._file.namelist()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def texts(self, ending):
        """The bytes of each entry whose name has this ending."""
        for name in self.names:
            if name.endswith(ending):
                yield torch_archive.entry(self._file, name, MAX_TEXT_BYTES)

    def pickles(self):
        """(modules of classes and functions, strings) of each pickle."""
        for name in self.names:
            if name.endswith(".pkl"):
                if name not in self._read:
                    self._read[name] = _mentioned(torch_archive.entry(self._file, name, torch_archive.MAX_PICKLE_BYTES))
                yield self._read[name]


def _mentioned(data):
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
        # For a damaged pickle the names before the damage decide, and the framework's reader explains the rest.
        pass
    return modules, strings
