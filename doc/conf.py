# SPDX-License-Identifier: MIT
"""The site of the manual: `cmake --build build --target manual`."""

import json
import math
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
CERTIFICATES = Path(__file__).parent / "certificates"

sys.path[:0] = [str(TOOLS), str(BENCH), str(Path(__file__).parent)]
import markdown  # noqa: E402
import samples  # noqa: E402
from equi_tools import certificate, published  # noqa: E402

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


def list_table(rows, widths="auto", heads=1):
    """The lines of a table."""
    lines = [".. list-table::", f"   :header-rows: {heads}", f"   :widths: {widths}", ""]
    for row in rows:
        lines += [f"   {'*' if k == 0 else ' '} - {cell}" for k, cell in enumerate(row)]
    return [*lines, ""]


class FromFiles(Directive):
    """What is made of files, not of the page."""

    files = ()  # whose changes make the page anew

    def lines(self):
        """The text that takes the place of the directive."""
        raise NotImplementedError

    def run(self):
        for file in self.files:
            self.state.document.settings.env.note_dependency(str(file))
        node = self.state.parent.__class__()
        self.state.nested_parse(StringList(self.lines(), str(self.files[0])), self.content_offset, node)
        return node.children


class Table(FromFiles):
    """A table whose rows are those of a file."""

    widths = "auto"

    def rows(self):
        """The rows as texts, the heads first."""
        raise NotImplementedError

    def lines(self):
        return list_table(self.rows(), self.widths)


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


def escaped(text):
    """Text of a file with none of the marks of this markup."""
    return re.sub(r"([\\*`|_<>])", r"\\\1", str(text))


class Certificate(FromFiles):
    """``.. certificate:: NAME``: the page of `equi certify` from certificates/NAME.json."""

    required_arguments = 1

    @property
    def files(self):
        return [CERTIFICATES / f"{self.arguments[0]}.json"]

    def lines(self):
        facts = json.loads(self.files[0].read_text(encoding="utf-8"))
        found = [f"On this machine and date, {certificate.verdict(facts)}.", ""]
        for title, sentences, table in certificate.sections(facts):
            found += [f".. rubric:: {title}", ""]
            for sentence in sentences:
                found += [escaped(sentence), ""]
            if table:
                names, rows = table
                cells = [[escaped(cell) for cell in row] for row in ([names] if names else []) + list(rows)]
                found += list_table(cells, heads=1 if names else 0)
        return found


class Certificates(Table):
    """``.. certificates::``: a row of each certificate."""

    files = tuple(sorted(CERTIFICATES.glob("*.json")))

    def rows(self):
        yield "model", "elements", "license", "energy in *double*, eV/atom", "energy in *mixed*, eV/atom", "drift, meV/atom/ps", "kB/atom", "date"
        for file in self.files:
            facts = json.loads(file.read_text(encoding="utf-8"))
            energies = {(one["precision"], one["radial"]): f"{one['energy_eV_per_atom']:.0e}" for one in facts["values"]}
            run = facts["dynamics"] or dict.fromkeys(("drift_meV_per_atom_and_ps", "kB_per_atom"), math.nan)
            yield (f":doc:`certificates/{file.stem}`", len(facts["model"]["elements"]), escaped(facts["model"]["license"]),
                   *(energies.get(kind, "-") for kind in (("double", "table"), ("mixed", "table"))), f"{run['drift_meV_per_atom_and_ps']:.1g}",
                   f"{run['kB_per_atom']:.0f}", facts["machine"]["date"])  # fmt: skip


def setup(app):
    app.add_lexer("LAMMPS", TextLexer)
    app.add_directive("layer-fields", LayerFields)
    app.add_directive("published-models", PublishedModels)
    app.add_directive("step-times", StepTimes)
    app.add_directive("memory-per-atom", Memory)
    app.add_directive("certificate", Certificate)
    app.add_directive("certificates", Certificates)
    app.connect("source-read", markdown.insert)
    return {"parallel_read_safe": True}
