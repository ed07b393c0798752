# SPDX-License-Identifier: MIT
"""The site of the manual: `cmake --build build --target manual`."""

import json
import re
from pathlib import Path

from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from pygments.lexers import TextLexer

TOOLS = Path(__file__).parents[1] / "tools"
PYPROJECT = TOOLS / "pyproject.toml"
LAYER_FIELDS = TOOLS / "equi_tools" / "layer_fields.json"

project = "equi"
author = "the equi developers"
copyright = "2026, the equi developers"
release = version = re.search(r'^version = "(.*)"$', PYPROJECT.read_text(), re.M)[1]
html_theme = "furo"
html_title = f"equi {release}"
exclude_patterns = ["README.md"]
highlight_language = "text"
# Quotation marks and dashes of commands stay as they are typed.
smartquotes = False


def value_of(spec):
    """The values of a field in words."""
    kind = spec["kind"]
    if kind == "list":
        return f"list: {value_of(spec['item'])}"
    if kind == "any_of":
        return " or ".join(dict.fromkeys(value_of(one) for one in spec["alternatives"]))
    if kind == "word":
        return " or ".join(f"``{word}``" for word in spec["words"])
    if kind == "tensor":
        return f"TENSOR ``{spec['shape']}``" if "shape" in spec else "TENSOR"
    low, high = (f"{spec[key]:g}" if key in spec else None for key in ("lowest", "highest"))
    limits = f" from {low} to {high}" if low and high else f" from {low} on" if low else ""
    return {"boolean": "``true`` or ``false``", "null": "``null``"}.get(kind, kind + limits)


def rows_of(specs, prefix=""):
    """(field, values, meaning) of fields and of the fields of objects within them."""
    for spec in specs:
        name = prefix + spec["name"]
        meaning = spec["meaning"]
        if "unless" in spec:
            meaning += f"; required unless ``{spec['unless']}`` is there"
        elif not spec.get("required", True):
            meaning += "; may be absent"
        yield f"``{name}``", value_of(spec), meaning
        parts = spec
        while "item" in parts:
            parts, name = parts["item"], name + "[]"
        for one in parts.get("alternatives", [parts]):
            yield from rows_of(one.get("fields", []), name + ".")


class LayerFields(Directive):
    """``.. layer-fields:: TYPE``: the table of the fields of a layer, which its reader states in src/layers."""

    required_arguments = 1

    def run(self):
        env = self.state.document.settings.env
        env.note_dependency(str(LAYER_FIELDS))
        specs = json.loads(LAYER_FIELDS.read_text(encoding="utf-8"))[self.arguments[0]]
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in (("field", "value", "meaning"), *rows_of(specs)):
            lines += [f"   {'*' if cell is row[0] else ' '} - {cell}" for cell in row]
        node = self.state.parent.__class__()
        self.state.nested_parse(StringList(lines, str(LAYER_FIELDS)), self.content_offset, node)
        return node.children


def setup(app):
    app.add_lexer("LAMMPS", TextLexer)
    app.add_directive("layer-fields", LayerFields)
    return {"parallel_read_safe": True}
