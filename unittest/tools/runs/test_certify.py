# SPDX-License-Identifier: MIT
"""`equi certify`: the page holds what the single commands find, and a wrong value is seen on it."""

import hashlib
import json
import re
import shutil
from html.parser import HTMLParser

import pytest
from built_models import built
from equi_tools import certificate, equi_file
from equi_tools.cli import main


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certify")
    file = folder / "model.equi"
    shutil.copy(built("sevennet-0.equi"), file)
    status = main(["certify", str(file), "-o", str(folder / "page.json"), "-q"])
    return file, status, json.loads((folder / "page.json").read_text())


def test_the_page_of_a_sound_model(page):
    file, status, facts = page
    document, _ = equi_file.read(file)
    assert status == 0 and facts["passed"]
    assert facts["model"]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert facts["model"]["license"] == document["provenance"]["licence"]
    assert [(v["precision"], v["radial"]) for v in facts["values"]] == [("double", "exact"), ("double", "table"), ("mixed", "table")]
    assert all(v["structures"] == len(document["self_check"]) for v in facts["values"])
    # Each of these is the largest of many, and more precision is nearer to the framework.
    energies = [v["energy_eV_per_atom"] for v in facts["values"]]
    assert energies[0] < energies[1] < energies[2] < 1e-6
    assert {law["precision"] for law in facts["laws"]} == {None, "exact", "double", "mixed"}
    # SevenNet-0 has even harmonics: mirror images differ.
    assert "no_mirror_symmetry" in [one["name"] for one in facts["properties"]]
    assert facts["ranks"]["passed"] and facts["ranks"]["energy_eV_per_atom"] < 1e-11
    run = facts["dynamics"]
    assert run["picoseconds"] == pytest.approx(1.0) and abs(run["drift_meV_per_atom_and_ps"]) < 1.0
    assert run["us_per_atom_and_step"] > 0 and run["kB_per_atom"] > 0
    assert facts["radial"] and all(1.0 <= r["steepest_A"] <= document["cutoff"] for r in facts["radial"])


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.text = []

    def handle_data(self, data):
        self.text.append(data)


def test_text_and_html_say_the_same(page):
    _, _, facts = page
    facts = facts | {"model": facts["model"] | {"license": "<script>alert(1)</script>\x1b[31m"}}
    text, html = certificate.text(facts), certificate.page(facts)
    assert "<script>" not in html and "\x1b" not in text
    cells = Cells()
    cells.feed(html)
    words = set(re.findall(r"[\w.+-]+", " ".join(cells.text)))
    assert words >= {facts["model"]["sha256"], "crystals", "drift"}
    for value in facts["values"]:
        assert f"{value['energy_eV_per_atom']:.1e}" in text and f"{value['energy_eV_per_atom']:.1e}" in html
    assert "every value and law is met" in text


def test_a_wrong_value_is_seen(tmp_path):
    file = tmp_path / "model.equi"
    shutil.copy(built("tiny/plain.equi"), file)

    def spoil(document):
        document["self_check"][0]["energy"] += 1e-3
        return document

    equi_file.change(file, spoil)
    assert main(["certify", str(file), "-o", str(tmp_path / "page.txt"), "-q"]) == 1
    text = (tmp_path / "page.txt").read_text()
    assert "some values or laws are missed" in text.splitlines()[0] and text.count("MISSED") == 3


@pytest.mark.parametrize("name, told", [("page.pdf", "expected a name that ends with"), ("no/page.html", "cannot write")])
def test_a_page_that_cannot_be_written_is_refused_before_the_work(name, told, tmp_path, capsys):
    assert main(["certify", str(built("tiny/plain.equi")), "-o", str(tmp_path / name)]) == 1
    message = capsys.readouterr().err
    assert told in message and message.count("\n") == 1
