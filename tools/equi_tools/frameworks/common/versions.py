# SPDX-License-Identifier: MIT
"""Versions of frameworks that a user states, where a file does not say which one wrote it."""

import re

from ...errors import EquiError
from ...printable import printable


def stated_version(given, example):
    """The argument of --framework-version, or "unknown": if the user states none, and as converted files record it."""
    if given is None or given == "unknown":
        return "unknown"
    if not re.fullmatch(r"\d{1,3}\.\d{1,3}(\.\w+)*", given):
        raise EquiError(f"--framework-version {printable(given, 60)}: expected a version such as {example}")
    return given
