# SPDX-License-Identifier: MIT
"""The hook of PEP 517 that pip calls in the unpacked archive."""

import shutil
from email.parser import Parser
from pathlib import Path


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    metadata = Parser().parsestr(Path("PKG-INFO").read_text(encoding="utf-8"))
    folder = Path(metadata_directory) / f"{metadata['Name'].replace('-', '_')}-{metadata['Version']}.dist-info"
    folder.mkdir()
    shutil.copyfile("PKG-INFO", folder / "METADATA")
    return folder.name
