# SPDX-License-Identifier: MIT
"""The list of mutants applies to the sources of today: a run of it takes an hour and is rare."""

import importlib.util
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "unittest" / "mutation"


@pytest.fixture(scope="module")
def mutants():
    spec = importlib.util.spec_from_file_location("mutants", FOLDER / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_mutant_applies(mutants):
    of_file = defaultdict(list)
    for mutant in mutants.read(FOLDER / "mutants.txt"):
        of_file[mutant.file].append(mutant)
    for file, some in of_file.items():
        mutants.mutated((ROOT / file).read_text(), some)


def test_texts_are_whole(mutants):
    for mutant in mutants.read(FOLDER / "mutants.txt"):
        for text in (mutant.original, mutant.replacement):
            assert all(text.count(a) == text.count(b) for a, b in ("()", "[]", "{}")), str(mutant)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("return a ? b : c * d;", "c * d;"),
        ("x = c * d;", "c * d;"),
        ("const T sum = 3;", "const T sum = 3;"),
        ("const int a = 1, m = 3;", "m = 3;"),
        ("x = a;  // a + b", "a + b"),
    ],
)
def test_parts_that_are_no_statements_are_refused(mutants, text, part):
    with pytest.raises(ValueError, match="within a statement|declaration|comment"):
        mutants.mutated(text, [mutants.Mutant(1, "file", part, ";")])


@pytest.mark.parametrize("text", ["if (a ? b : c) x = 1;", "case 3: x = 1;", "a;  // text?\n x = 1;", "else x = 1;"])
def test_statements_are_replaced(mutants, text):
    assert "equi_chosen_mutant() == 1" in mutants.mutated(text, [mutants.Mutant(1, "file", "x = 1;", ";")])
