# SPDX-License-Identifier: MIT
"""Reads the options in a configuration file of a training: YAML as a program writes it, without the parts that options
do not use.

An option is a line `name: value`, or a name with lines of a list or of names and values below it. Deeper values, and
those that have a tag (`!!python/object...`) or span lines, are skipped and become None. Nothing in the file is run.
Needs no package.
"""

import re
from pathlib import Path

from .errors import EquiError

MAX_BYTES = 1 << 24
OPTION = re.compile(r"([A-Za-z_][\w.-]*|'[^']*'|\"[^\"]*\"):(?:\s+(.*))?$")
WORDS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False, "null": None, "~": None, "": None}
NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?$")


def _scalar(text):
    text = text.strip()
    quoted = re.fullmatch(r"(['\"])(.*)\1(\s+#[^'\"]*)?", text)
    if quoted:
        return quoted.group(2)
    text = re.sub(r"\s#.*$", "", text).strip()
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    if NUMBER.match(text):
        return float(text.replace("_", ""))
    if text[:1] == "[" and text[-1] == "]":
        return [_scalar(item) for item in text[1:-1].split(",") if item.strip()]
    if text[:1] == "{" and text[-1] == "}":
        pairs = [item.split(":", 1) for item in text[1:-1].split(",") if item.strip()]
        return {str(_scalar(pair[0])): _scalar(pair[1]) for pair in pairs} if all(len(pair) == 2 for pair in pairs) else None
    return None if text[:1] in "!&*|>[{" else text


def _block(lines):
    """A list or a dict of scalars from indented lines, or None."""
    if not lines:
        return None
    texts = [line.strip() for line in lines]
    same = len({len(line) - len(line.lstrip()) for line in lines}) == 1
    if same and all(text.startswith("- ") or text == "-" for text in texts):
        items = [text[1:].strip() for text in texts]
        return None if any(OPTION.match(item) or item.startswith("- ") for item in items) else [_scalar(item) for item in items]
    pairs = [OPTION.match(text) for text in texts]
    if same and all(pairs):
        return {str(_scalar(pair.group(1))): _scalar(pair.group(2) or "") for pair in pairs}
    return None


def yaml_options(path):
    """The options of a file: numbers, truth values, text, None, and lists and dicts of these, by their names."""
    path = Path(path)
    if path.stat().st_size > MAX_BYTES:
        raise EquiError(f"{path}: it has {path.stat().st_size} bytes, at most {MAX_BYTES} are read")
    found, block, name, value = {}, [], None, None
    for line in [*path.read_text(encoding="utf-8", errors="replace").splitlines(), "end:"]:
        option = OPTION.match(line) if line[:1] not in " \t-" else None
        if option is None:
            if line.strip() and not line.lstrip().startswith("#") and line not in ("---", "..."):
                block.append(line)
            continue
        if name is not None and block:
            found[name] = _block(block) if not value else None
        name, value, block = str(_scalar(option.group(1))), option.group(2), []
        found[name] = _scalar(value or "")
    del found["end"]
    return found
