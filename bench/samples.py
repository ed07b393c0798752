# SPDX-License-Identifier: MIT
"""The samples in results, and the figures that pages and pictures quote of them."""

import csv
import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def rows_of(name):
    """The rows of results/NAME.csv as dicts of texts."""
    with open(RESULTS / f"{name}.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def sheet_of(model):
    """What results/data_sheet_MODEL.json has."""
    return json.loads((RESULTS / f"data_sheet_{model}.json").read_text(encoding="utf-8"))


def sides_of(name):
    """us per atom and step of equi and of the framework, in the order of results/NAME.csv."""
    times = {"equi": [], "framework": []}
    for row in rows_of(name):
        times["equi" if row["side"] == "equi" else "framework"].append(float(row["us_per_atom_step"]))
    return times["equi"], times["framework"]


def least_times(name):
    """us per atom and step of equi and of the framework: the least of all samples, which other work disturbs least."""
    return tuple(map(min, sides_of(name)))


def memory_per_atom(name):
    """Growth of the peak memory in kB per atom between two sizes, from the rows of results/memory.csv of a
    model."""
    rows = rows_of("memory")
    (n1, p1), (n2, p2) = ((int(row["atoms"]), int(row["peak_kB"])) for row in rows if row["model"] == name)
    return (p2 - p1) / (n2 - n1)
