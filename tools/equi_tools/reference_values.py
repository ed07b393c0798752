# SPDX-License-Identifier: MIT
"""A framework's own energies, forces and stresses next to a converted model, for checks.

A model is converted without its framework. This package contains the values of files that are known by their hash
(reference_values.json, made by `python -m equi_tools.reference_values` with the framework installed). The framework
computes those of others on request: `equi compare FILE SOURCE --store`.
"""

import json
import sys
from pathlib import Path

from . import document as document_rules
from . import equi_file, self_check
from .model_units import ModelUnits

KNOWN = Path(__file__).with_name("reference_values.json")
# `framework.version` of a document without values.
NO_VERSION = "none"
# Sources with known values: name or file, and the choice among what it offers.
SOURCES = (("7net-0", None), ("7net-0_22May2024", None), ("7net-l3i5", None), ("7net-mf-0", "PBE"), ("7net-mf-0", "R2SCAN"))


def known(framework, sha256, choice, elements):
    """(version of the framework, entries of self_check) of a file, or (NO_VERSION, []) if none are known. choice: the
    modality or head, or None; elements: in the order of the model."""
    for values in json.loads(KNOWN.read_text()):
        symbols = {symbol for entry in values["self_check"] for symbol in entry["symbols"]}
        if (values["framework"], values["sha256"], values["choice"]) == (framework.name, sha256, choice) and symbols <= set(elements):
            return values["version"], values["self_check"]
    return NO_VERSION, []


def compute(framework, checkpoint, choice, document, units=ModelUnits()):
    """(version, entries) as the installed framework computes them in float64. checkpoint: a loaded one, or its source."""
    calculator = units.calculator(framework.float64_calculator(checkpoint, choice))
    return framework.installed_version(), self_check.entries(document, calculator)


def add(document, version, entries):
    """The document with these values."""
    document = document | {"framework": {"name": document["framework"]["name"], "version": version}}
    return document | {"self_check": entries}


def missing(document):
    """The note about a file without values, or an empty text."""
    # Values are energies and their derivatives.
    if document.get("self_check") or not document_rules.has_energy(document):
        return ""
    name = document["framework"]["name"]
    if "tasks" in document.get("mixture", {}):
        return f"the file is one for all systems and stores no values: 'equi compare FILE.equi SOURCE' compares any with {name}"
    return (
        f"the file stores no values of {name} to check it by, for it was converted without {name}: "
        "'equi compare FILE.equi SOURCE --store' adds them where the framework is installed"
    )


def store(path, version, entries):
    """Adds values to an .equi file."""
    equi_file.change(path, lambda document: add(document, version, entries))


def main():
    """Writes reference_values.json anew, with the installed frameworks."""
    from . import frameworks

    found = []
    for source, choice in SOURCES:
        framework = frameworks.require(source)
        checkpoint = framework.load(source)
        body, _ = framework.convert(checkpoint, choice)
        version, entries = compute(framework, checkpoint, choice, body)
        found.append(
            {
                "name": source, "framework": framework.name, "version": version, "sha256": checkpoint.sha256,
                "choice": checkpoint.chosen(choice), "self_check": entries,
            }
        )  # fmt: skip
        print(source, choice or "")
    KNOWN.write_text("[\n" + ",\n".join(json.dumps(values) for values in found) + "\n]\n")


if __name__ == "__main__":
    sys.exit(main())
