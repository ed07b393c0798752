# SPDX-License-Identifier: MIT
"""Where a model comes from: what the reader of every framework says of a source."""

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...errors import EquiError


@dataclass(kw_only=True)
class Origin:
    """The beginning of every Checkpoint."""

    source: str  # as the user named it
    path: Path  # of the file or folder
    sha256: str = None  # of the file with the numbers; None: of `path`
    license: str = "unknown"
    citation: str = "unknown"
    version: str = "unknown"  # of the framework that wrote it

    # Not annotated, so that they are no fields: a framework's Checkpoint replaces them where it knows better.
    stated_unit = "eV"  # of energies if the user names none; None if the user has to
    remarks = ()  # what the user should know about the conversion

    def __post_init__(self):
        self.source = str(self.source)
        if self.sha256 is None:
            self.sha256 = digest(self.path)

    def chosen(self, choice):
        """The choice that a converted file states, or None."""
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
