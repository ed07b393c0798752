# SPDX-License-Identifier: MIT
"""The built site of the manual: words that users type have a page, and published models are listed once.

CTest builds the site before (tools_manual).
"""

import datetime
import html
import json
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
from equi_tools import published

ROOT = Path(__file__).resolve().parents[3]
SITE = Path(os.environ.get("EQUI_BUILD_DIR", "build")) / "manual"
WORDS = (
    "MACE-MP-0", "MPA-0", "OMAT-0", "MACE-OFF", "OMOL", "MatPES", "SevenNet-0", "SevenNet-Omni", "MF-ompa", "NequIP-OAM",
    "UMA", "eSEN", "EquiformerV2", "EquiformerV3", "eSCN", "Nequix", "SO3LR", "AceFF", "TACE-OAM",
    "conda", "macOS", "Windows", "WSL", "Docker", "Slurm", "phonopy", "thermal conductivity", "cite", "license", "D3", "ZBL",
    "restart", "charge", "GPU memory", "mirror images",
)  # fmt: skip


@pytest.fixture(scope="module")
def index():
    """Sphinx's index of the site, which its search box reads."""
    text = (SITE / "searchindex.js").read_text(encoding="utf-8")
    return json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)\s*", text, re.S)[1])


def hits(index, words):
    """Titles and entries of the index that the search box shows first: they contain the words, and are at most twice as
    long."""
    words = words.lower()
    found = {title.lower(): places for title, places in index["alltitles"].items()} | index["indexentries"]
    return [text for text in found if words in text and len(words) >= len(text) / 2]


@pytest.mark.parametrize("words", WORDS)
def test_words_that_users_type_have_a_page(index, words):
    assert hits(index, words)


def test_other_words_have_none(index):
    assert not hits(index, "no such potential")


def test_each_published_model_is_on_one_page():
    pages = [path.read_text() for path in (ROOT / "doc" / "models").glob("*.rst")]
    lines = [line for page in pages for line in re.findall(r"^\.\. published-models:: (.*)$", page, re.M)]
    listed = [word for line in lines for word in line.split()]
    assert sorted(listed) == sorted({model.listed_under for model in published.MODELS})


def test_the_site_lists_what_the_command_lists():
    text = "".join(path.read_text(encoding="utf-8") for path in (SITE / "models").glob("*.html"))
    text = html.unescape(re.sub(r"<[^>]*>", "", text))
    for model in published.MODELS:
        for word in published.cells(vars(model)):
            assert word in text, word


def test_one_version_and_one_date_are_cited():
    citation = (ROOT / "CITATION.cff").read_text()
    version, date = (re.search(rf"^{key}: (.*)$", citation, re.M)[1] for key in ("version", "date-released"))
    assert re.search(r'^version = "(.*)"$', (ROOT / "tools" / "pyproject.toml").read_text(), re.M)[1] == version
    day = datetime.date.fromisoformat(date)
    assert f"\n## {version} ({day.day} {day:%B} {day.year})\n" in (ROOT / "CHANGELOG.md").read_text()
    page = (SITE / "citing.html").read_text(encoding="utf-8")
    assert f"{{{version}}}" in page and f"{{{date}}}" in page


def test_the_page_of_the_wheel_names_all_extras():
    extras = tomllib.loads((ROOT / "tools" / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "doc" / "python_wheel.rst").read_text()
    for name in extras.keys() - {"test"}:
        assert re.search(rf"[\[,`]{name}[\],`]", page), name


def test_each_certificate_has_a_page_in_the_table_of_contents():
    files = {path.stem for path in (ROOT / "doc" / "certificates").glob("*.json")}
    contents = (SITE / "certificates.html").read_text(encoding="utf-8")
    assert files and files == {path.stem for path in (SITE / "certificates").glob("*.html")}
    for name in files:
        assert f'href="certificates/{name}.html"' in contents


def test_markdown_becomes_a_page():
    sys.path.insert(0, str(ROOT / "doc"))
    import markdown

    doc, file = ROOT / "doc", ROOT / "examples" / "heat_conduction" / "README.md"
    text = markdown.to_rst(file, doc / "examples" / "x.rst", doc, 0)
    assert text.startswith("Thermal conductivity from the exact heat flux\n====")
    for part in (
        ".. code-block:: bash\n\n   cd examples/heat_conduction\n",
        ".. image:: ../../examples/heat_conduction/green_kubo.png\n   :alt: Running",
        ":doc:`the manual </pair_equi>`", "``compute equi/heat/flux``",
    ):  # fmt: skip
        assert part in text
    changes = markdown.to_rst(ROOT / "CHANGELOG.md", doc / "citing.rst", doc, 1)
    assert "\nNot released yet\n~~~~" in changes and "`Keep a Changelog <https://keepachangelog.com>`__" in changes
    assert re.search(r"- New warnings about\n\n  - a first structure", changes)


def test_examples_with_a_picture_have_a_page_and_a_place_in_the_gallery():
    pictures = [path for path in (ROOT / "examples").glob("*/*.png")]
    assert len(pictures) >= 9
    front = (SITE / "index.html").read_text(encoding="utf-8")
    for path in pictures:
        page = SITE / "examples" / f"{path.parent.name}.html"
        # Sphinx numbers pictures of one name.
        picture = rf"_images/{path.stem}\d*\.png"
        assert re.search(picture, page.read_text(encoding="utf-8"))
        assert re.search(picture, front) and f"examples/{path.parent.name}.html" in front
