# SPDX-License-Identifier: MIT
"""The page of `equi certify`: what certify.facts() found, as text and HTML, and as sections for other pages."""

import html
import math

from .printable import printable

IDLE_LOAD = 0.5  # average number of running processes in the last minute
# Precision and radial functions of what `equi_kernels selfcheck` calls a precision.
KIND_OF_LAW = {"exact": ("double", "exact"), "double": ("double", "table"), "mixed": ("mixed", "table")}
# Names that the page gives to entries of the provenance.
ENTRIES = {
    "sha256": "SHA-256 of the source", "framework_version": "version that wrote the source", "date": "converted on",
    "converter": "converted by",
}  # fmt: skip


def _number(value, form=".1e"):
    return "-" if value is None else f"{value:{form}}"


def worst_laws(laws):
    """For each precision and law the one that is nearest to its bar, or beyond it, of all kernels and structures."""
    worst = {}
    for law in laws:
        if law["precision"] is None:
            continue
        share = math.inf if law["measured"] is None else law["measured"] / law["allowed"]
        key = law["precision"], law["name"].split(": ", 1)[-1]
        if key not in worst or share > worst[key][0]:
            worst[key] = share, law
    return [law for _, law in worst.values()]


def is_busy(facts):
    """Whether other programs left fewer cores than the run at constant energy had threads, so its time means nothing."""
    machine, dynamics = facts["machine"], facts["dynamics"]
    return machine["load"] > machine["cores"] - dynamics["threads"] + IDLE_LOAD


def sections(facts):
    """(title, lines of text, table or None) of each part of the page; a table is (names of columns, rows)."""
    model, machine, dynamics, ranks = facts["model"], facts["machine"], facts["dynamics"], facts["ranks"]
    elements = model["elements"]
    named = " ".join(elements[:12]) + (f" ... ({len(elements)})" if len(elements) > 12 else "")
    rows = [("file", model["file"]), ("SHA-256 of the file", model["sha256"]), ("architecture", model["architecture"]),
            ("framework", model["framework"]), ("elements", named), ("cutoff", f"{model['cutoff_A']:g} A")]  # fmt: skip
    rows += [(key, str(model[key])) for key in ("source", "license", "citation", "notes") if key in model]
    rows += [(ENTRIES.get(key, key.replace("_", " ")), str(value)) for key, value in model["provenance"].items()]
    yield "Model", [], (None, rows)

    lines = ["The file stores no values of its framework: equi compare FILE.equi SOURCE --store adds them."]
    if facts["values"]:
        lines = [f"The largest of {facts['values'][0]['structures']} small structures from the modules of {model['reference']}; forces and "
                 "stresses are relative where they exceed 1."]  # fmt: skip
    yield "Differences from the framework's float64", lines, facts["values"] and (
        ("precision", "radial functions", "energy, eV/atom", "forces, eV/A", "stress, eV/A^3", ""),
        [(v["precision"], v["radial"], _number(v["energy_eV_per_atom"]), _number(v["force_eV_per_A"]),
          _number(v["stress_eV_per_A3"]), "met" if v["passed"] else "MISSED") for v in facts["values"]],
    )  # fmt: skip

    of_kernels = [law for law in facts["laws"] if law["precision"] is None]
    good = sum(law["passed"] for law in of_kernels)
    sets = " ".join(dict.fromkeys(law["instruction_set"] for law in facts["laws"]))
    yield "Laws on this machine", [
        f"{good} of {len(of_kernels)} comparisons of kernels with plain loops are met.",
        f"The largest of random crystals and clusters, with kernels {sets}; allowed differences grow with the forces there:",
    ], (
        ("precision", "radial functions", "law", "measured", "allowed", "kernels", ""),
        [(*KIND_OF_LAW.get(law["precision"], ("", "")), law["name"], _number(law["measured"]), f"{_number(law['allowed'])} {law['unit'] or ''}".strip(),
          law["instruction_set"], "met" if law["passed"] else "MISSED")
         for law in [*(law for law in of_kernels if not law["passed"]), *worst_laws(facts["laws"])]],
    )  # fmt: skip

    lines = [f"The properties were not examined: {facts['not_examined']}."] if facts["not_examined"] else []
    if not lines and not facts["properties"]:
        lines = ["No jump at the cutoff; mirror images have the same energy; pairs have no holes at short distance."]
    yield "What the model itself does", lines + [one["sentence"] for one in facts["properties"]], None

    lines = []
    if ranks is not None:
        met = "met" if ranks["passed"] else "MISSED"
        lines.append(f"{ranks['ranks']} ranks against one: energy {_number(ranks['energy_eV_per_atom'])} eV/atom, forces "
                     f"{_number(ranks['force_eV_per_A'])} eV/A (relative where they exceed 1): {met}.")  # fmt: skip
    if dynamics is not None:
        lines.append(f"{dynamics['atoms']} atoms ({dynamics['system']}), {dynamics['picoseconds']:g} ps at constant energy and "
                     f"{dynamics['temperature_K']:.0f} K, mixed: drift {_number(dynamics['drift_meV_per_atom_and_ps'], '.2g')} meV/atom/ps, "
                     f"{_number(dynamics['kB_per_atom'], '.1f')} kB/atom.")  # fmt: skip
        if is_busy(facts):
            lines.append(f"No time is stated, because other programs ran (load {machine['load']:.1f} on {machine['cores']} cores).")
        else:
            threads = f"{dynamics['threads']} thread{'s' if dynamics['threads'] > 1 else ''}"
            lines.append(f"A step took {dynamics['us_per_atom_and_step']:.1f} us/atom with {threads}.")
    yield "Runs", lines or ["A file with several tasks needs the keyword task, and was not run."], None

    yield "Radial functions", [] if facts["radial"] else ["They depend on features of the atoms."], facts["radial"] and (
        ("layer", "receiver, sender", "steepest at, A", "flat below, A", "flat above, A"),
        [(r["layer"], f"{r['receiver']}, {r['sender']}", _number(r["steepest_A"], ".2f"), _number(r["flat_below_A"], ".2f"),
          _number(r["flat_above_A"], ".2f")) for r in facts["radial"]],
    )  # fmt: skip
    yield "Machine", [f"{machine['processor']} with {machine['instruction_set']}, {machine['cores']} cores, kernels {machine['kernels']}; "
                      f"equi {machine['equi']}, {machine['date']}."], None  # fmt: skip


def verdict(facts):
    """The first line of the page in words."""
    return "every value and law is met" if facts["passed"] else "some values or laws are missed"


def text(facts):
    lines = [f"{facts['model']['file']}: {verdict(facts)}"]
    for title, sentences, table in sections(facts):
        lines += ["", title, *(f"  {printable(sentence, 400)}" for sentence in sentences)]
        if table:
            names, rows = table
            rows = [[printable(str(cell), 200) for cell in row] for row in ([names] if names else []) + list(rows)]
            widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
            lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join(lines)


STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em;line-height:1.4}"
    "table{border-collapse:collapse;margin:.5em 0}td,th{text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid #ddd;"
    "vertical-align:top;overflow-wrap:anywhere}h2{margin-top:1.5em;font-size:1.1em}"
)


def page(facts):
    """The page in HTML, without anything from elsewhere."""
    title = f"{facts['model']['file']}: {verdict(facts)}"
    parts = [f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>',
             f"<h1>{html.escape(title)}</h1>"]  # fmt: skip
    for heading, sentences, table in sections(facts):
        parts.append(f"<h2>{html.escape(heading)}</h2>")
        parts += [f"<p>{html.escape(sentence)}</p>" for sentence in sentences]
        if table:
            names, rows = table
            cells = lambda row, tag: "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row) + "</tr>"  # noqa: E731
            parts.append("<table>" + (cells(names, "th") if names else "") + "".join(cells(row, "td") for row in rows) + "</table>")
    return "\n".join([*parts, "</html>", ""])
