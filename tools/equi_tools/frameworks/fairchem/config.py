# SPDX-License-Identifier: MIT
"""The configurations inside fairchem's checkpoints as plain dicts and lists, from the result of torch_archive.read."""

import re

from ... import torch_archive
from ...errors import EquiError
from ...printable import printable

REFERENCE = re.compile(r"\$\{([^{}]*)\}")
MAX_DEPTH = 40


def plain(value, depth=0):
    """Containers and nodes of omegaconf as dicts, lists and values, with references to other entries looked up; other
    objects stay unchanged."""
    if depth > MAX_DEPTH:
        raise EquiError("a configuration that contains itself")
    if isinstance(value, torch_archive.Unknown) and value.name.startswith("omegaconf."):
        state = value.state if isinstance(value.state, dict) else {}
        if "_val" in state:
            return _looked_up(value, state["_val"], depth)
        content = state.get("_content")
        return _looked_up(value, content, depth) if isinstance(content, str) else plain(content, depth + 1)
    if isinstance(value, dict):
        return {key: plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    return value


def _looked_up(node, value, depth):
    """A value of a node; in text each ${place} is replaced by the value of that place."""
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = REFERENCE.fullmatch(value)
    if whole:
        return plain(_at(node, whole.group(1)), depth + 1)
    return REFERENCE.sub(lambda match: str(plain(_at(node, match.group(1)), depth + 1)), value)


def _at(node, place):
    """The entry of the whole configuration at a place like optim.lr; omegaconf's computed values are not supported."""
    shown = printable("${" + place + "}", 60)
    if not re.fullmatch(r"[\w.-]+", place) or place.startswith("."):
        raise EquiError(f"configuration value {shown} is not supported: only plain references to other entries are")
    root = node
    for _ in range(MAX_DEPTH):
        parent = root.state.get("_parent") if isinstance(root.state, dict) else None
        if not isinstance(parent, torch_archive.Unknown):
            break
        root = parent
    for key in place.split("."):
        content = root.state.get("_content") if isinstance(root, torch_archive.Unknown) and isinstance(root.state, dict) else None
        if isinstance(content, list) and key.isdigit() and int(key) < len(content):
            root = content[int(key)]
        elif isinstance(content, dict) and key in content:
            root = content[key]
        else:
            raise EquiError(f"configuration value {shown}: the file has no such entry")
    return root
