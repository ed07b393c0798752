# SPDX-License-Identifier: MIT
"""The site of the manual: `cmake --build build --target manual`."""

import json
import re
import sys
from pathlib import Path

from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from pygments.lexers import TextLexer

TOOLS = Path(__file__).parents[1] / "tools"
PYPROJECT = TOOLS / "pyproject.toml"
LAYER_FIELDS = TOOLS / "equi_tools" / "layer_fields.json"
BENCH = Path(__file__).parents[1] / "bench"

sys.path[:0] = [str(TOOLS), str(BENCH), str(Path(__file__).parent)]
import markdown  # noqa: E402
import samples  # noqa: E402
from equi_tools import published  # noqa: E402

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
CITATION = (Path(__file__).parents[1] / "CITATION.cff").read_text()
rst_epilog = f".. |released| replace:: {re.search(r'^date-released: (.*)$', CITATION, re.M)[1]}\n"


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


class Table(Directive):
    """A table whose rows are those of a file, not of the page."""

    files = ()  # whose changes make the page anew
    widths = "auto"

    def rows(self):
        """The rows as texts, the heads first."""
        raise NotImplementedError

    def run(self):
        for file in self.files:
            self.state.document.settings.env.note_dependency(str(file))
        lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {self.widths}", ""]
        for row in self.rows():
            lines += [f"   {'*' if k == 0 else ' '} - {cell}" for k, cell in enumerate(row)]
        node = self.state.parent.__class__()
        self.state.nested_parse(StringList(lines, str(self.files[0])), self.content_offset, node)
        return node.children


class LayerFields(Table):
    """``.. layer-fields:: TYPE``: the table of the fields of a layer, which its reader states in src/layers."""

    required_arguments = 1
    files = (LAYER_FIELDS,)

    def rows(self):
        specs = json.loads(LAYER_FIELDS.read_text(encoding="utf-8"))[self.arguments[0]]
        return [("field", "value", "meaning"), *rows_of(specs)]


class PublishedModels(Table):
    """``.. published-models:: FAMILY ...``: models of frameworks or families, as `equi models` lists them."""

    required_arguments = 1
    optional_arguments = 9
    files = (TOOLS / "equi_tools" / "published.py",)

    def rows(self):
        found = [one for one in published.MODELS if one.listed_under in self.arguments]
        yield (*published.COLUMNS, "source", "checked")
        for one in found:
            *words, argument = published.cells(vars(one))
            yield (*words, f"``{argument}``", f"`link <{one.source}>`__" if "://" in one.source else one.source, one.checked)


class StepTimes(Table):
    """``.. step-times:: NAME ...``: least times of a step from bench/results/step_NAME.csv, next to the framework."""

    required_arguments = 1
    optional_arguments = 9
    files = tuple(sorted(samples.RESULTS.glob("step_*.csv")))

    def rows(self):
        yield "file of samples", "processor", "cores", "system, atoms", "equi, us/atom", "framework, us/atom", "ratio"
        for name in self.arguments:
            one, *_ = samples.rows_of(f"step_{name}")
            equi, framework = samples.least_times(f"step_{name}")
            yield (f"``step_{name}.csv``", one["cpu"], one["cores"], f"{one['system']}, {one['atoms']}",
                   f"{equi:.0f}", f"{framework:.0f}", f"{framework / equi:.1f}")  # fmt: skip


class Memory(Table):
    """``.. memory-per-atom:: MODEL ...``: growth of the memory from bench/results/memory.csv."""

    required_arguments = 1
    optional_arguments = 9
    files = (samples.RESULTS / "memory.csv",)

    def rows(self):
        yield "model in ``memory.csv``", "kB/atom"
        for name in self.arguments:
            yield name, f"{samples.memory_per_atom(name):.0f}"


def setup(app):
    app.add_lexer("LAMMPS", TextLexer)
    app.add_directive("layer-fields", LayerFields)
    app.add_directive("published-models", PublishedModels)
    app.add_directive("step-times", StepTimes)
    app.add_directive("memory-per-atom", Memory)
    app.connect("source-read", markdown.insert)
    return {"parallel_read_safe": True}
