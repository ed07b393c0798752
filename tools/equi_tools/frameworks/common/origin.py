# SPDX-License-Identifier: MIT
"""Where a model comes from: what the reader of every framework says of a source."""

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Origin:
    """The beginning of every Checkpoint."""

    source: str  # as the user named it
    path: Path  # of the file or folder
    sha256: str  # of the file with the numbers
    license: str
    citation: str
    version: str  # of the framework that wrote it, or "unknown"

    # Not annotated, so that they are no fields: a framework's Checkpoint replaces them where it knows better.
    stated_unit = "eV"  # of energies if the user names none; None if the user has to
    remarks = ()  # what the user should know about the conversion

    def chosen(self, choice):
        """The choice that a converted file states, or None."""
        return choice


def digest(path):
    """The SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
