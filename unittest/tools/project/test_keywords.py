# SPDX-License-Identifier: MIT
"""The keywords of pair_style equi: the table that the pair style reads them by, and the page of the manual, are the same."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCE = (ROOT / "src" / "lammps" / "evaluation" / "pair_settings.cpp").read_text()
PAGE = (ROOT / "doc" / "pair_equi.rst").read_text()


def table(source):
    """{name: (choices, scope, meaning)}"""
    constants = dict(re.findall(r'\b([A-Z_]+) = "([^"]*)"', source))
    rows = re.findall(r'\{"(\w+)", ("[^"]*"|[A-Z_]+),\s*"([^"]*)",\s*"([^"]*)",', source)
    return {name: (constants.get(choices) or choices.strip('"'), scope, meaning) for name, choices, scope, meaning in rows}


def syntax(page):
    """{name: words of its value that are written as they are} of all keywords, and the names of those for developers."""
    block = page.split(".. parsed-literal::")[1].split("Examples\n")[0]
    listed, users, developers = re.fullmatch(r"(.*?)(\n {7}\*.*)the last five are for developers:(.*)", block, re.DOTALL).groups()
    values = dict(re.findall(r"^ {7}\*(\w+)\* value = (.*)$", users + developers, re.MULTILINE))
    assert re.findall(r"\*(\w+)\*", listed) == list(values)
    return {name: set(re.findall(r"\*([a-z][a-z0-9]*)\*", value)) - {"e"} for name, value in values.items()}, re.findall(
        r"^ {7}\*(\w+)\* value", developers, re.MULTILINE
    )


def fixed_words(choices):
    """The words of "a, b WORD or c" that a user writes as they are: not placeholders, and no phrases."""
    alternatives = [choice.split() for choice in re.split(", | or ", choices)]
    return {first for first, *others in alternatives if first.islower() and not any(word.islower() for word in others)}


def test_the_table_is_read():
    keywords = table(SOURCE)
    assert len(keywords) == len(re.findall(r'^    \{"', SOURCE, re.MULTILINE)) == 19
    assert keywords["graphs"] == ("yes or no", "developers, GPUs", "recorded launches of small systems")


def test_the_manual_has_all_keywords_and_no_others():
    keywords = table(SOURCE)
    values, developers = syntax(PAGE)
    assert {name: fixed_words(choices) for name, (choices, _, _) in keywords.items()} == values
    assert {name for name, (_, scope, _) in keywords.items() if scope.startswith("developers")} == set(developers)
    described = PAGE.split("Description\n")[1]
    assert [name for name in keywords if not re.search(rf"\*{name}\b", described, re.IGNORECASE)] == []


def test_the_manual_shows_the_table():
    rows = re.findall(r"^   \* - \*(\w+)\*\n     - (.*)\n     - (.*)$", PAGE.split("\nKeywords\n")[1].split("\nPrecision\n")[0], re.MULTILINE)
    assert {name: (scope, meaning) for name, scope, meaning in rows} == {name: row[1:] for name, row in table(SOURCE).items()}
    assert [name for name, _, _ in rows] == list(syntax(PAGE)[0])


def test_a_keyword_that_one_of_them_lacks_is_noticed():
    assert "overlap" not in table(SOURCE.replace('{"overlap"', '{"Overlap, too"'))
    values, developers = syntax(PAGE.replace("*overlap* or *batch*", "*batch*").replace("       *overlap* value", "       overlap value"))
    assert "overlap" not in values and developers == ["kernels", "exchange", "graphs", "batch"]
    assert fixed_words("table TOLERANCE, TOLERANCE or exact") == {"table", "exact"} and not fixed_words("a whole number")
