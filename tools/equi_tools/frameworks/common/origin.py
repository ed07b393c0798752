# SPDX-License-Identifier: MIT
"""Where a model comes from: what the reader of every framework reports about a source."""

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...errors import EquiError


@dataclass(kw_only=True)
class Origin:
    """The fields with which every Checkpoint begins."""

    source: str  # the user's name of it
    path: Path  # of the file or folder
    sha256: str = None  # hash of the file with the numbers; None: of `path`
    license: str = "unknown"
    citation: str = "unknown"
    version: str = "unknown"  # version of the framework that wrote it

    # These have no annotation, so they are not fields. A framework's Checkpoint replaces them if it has better values.
    stated_unit = "eV"  # of energies if the user names none; None if the user must name one
    remarks = ()  # what the user should know about the conversion

    def __post_init__(self):
        self.source = str(self.source)
        if self.sha256 is None:
            self.sha256 = digest(self.path)

    def chosen(self, choice):
        """The choice that a converted file records, or None."""
        return choice


def digest(path):
    """The SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def file_of(source):
    """The path of a source that is a file."""
    path = Path(source)
    if not path.is_file():
        raise EquiError(f"cannot read {source}: no such file")
    return path


@contextmanager
def naming(source):
    """Errors inside this context begin with the source."""
    try:
        yield
    except EquiError as error:
        raise EquiError(str(error) if str(error).startswith(str(source)) else f"{source}: {error}") from error
