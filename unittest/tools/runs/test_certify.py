# SPDX-License-Identifier: MIT
"""`equi certify`: the page holds what the single commands find, and a wrong value is seen on it."""

import hashlib
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from built_models import built
from equi_tools import certificate, equi_file
from equi_tools import document as document_rules
from equi_tools.cli import main

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
import certificates  # noqa: E402


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certify")
    file = folder / "model.equi"
    shutil.copy(built("sevennet-0.equi"), file)
    status = main(["certify", str(file), "-o", str(folder / "page.json"), "-q"])
    return file, status, json.loads((folder / "page.json").read_text())


@pytest.mark.slow
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


def test_models_without_energies_have_no_certificate(capsys):
    assert main(["certify", str(ROOT / "potentials" / "water-dielectric.equi")]) == 1
    assert "water-dielectric.equi: the model has no energies" in capsys.readouterr().err


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.text = []

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.slow
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


def form(value):
    """The names of a part of the page with the kinds of their values; those of the first entry of a list."""
    if isinstance(value, dict):
        return {key: form(one) for key, one in value.items()}
    if isinstance(value, list):
        return [form(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


STORED = sorted((ROOT / "doc" / "certificates").glob("*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
@pytest.mark.slow
def test_the_certificates_of_the_manual_have_the_form_of_the_command(path, page):
    _, _, facts = page
    stored = json.loads(path.read_text())
    wanted = form(certificates.stored(facts))
    found = form(stored)
    assert found.keys() == wanted.keys() and found["machine"] == wanted["machine"]
    optional = {"source", "license", "citation", "notes", "properties", "provenance", "reference"}
    assert wanted["model"].keys() - optional == found["model"].keys() - optional
    # A model may have no values of its framework with a stress, no such run, or no radial functions of distances only.
    for part in ("values", "ranks", "dynamics", "radial"):
        if stored[part]:
            one, other = (form(facts_of[part][0] if isinstance(facts_of[part], list) else facts_of[part]) for facts_of in (stored, facts))
            assert one.keys() == other.keys(), part
    assert {tuple(sorted(law)) for law in stored["laws"]} == {tuple(sorted(facts["laws"][0]))}
    # The processor and the date are those of the machine that made it, and every line of the text has its number.
    assert stored["machine"]["processor"] and re.fullmatch(r"\d{4}-\d\d-\d\d", stored["machine"]["date"])
    text = certificate.text(stored)
    assert stored["machine"]["processor"] in text and "None" not in text and "nan" not in text.lower().split()
    assert stored["passed"] == ("MISSED" not in text)
    assert path.stat().st_size < 30_000
    assert path.with_suffix(".rst").read_text() == certificates.page_of(path.stem)


def test_the_manual_has_certificates():
    assert len(STORED) >= 20
    potentials = [path for path in (ROOT / "potentials").glob("*.equi") if document_rules.has_energy(equi_file.read(path)[0])]
    assert {path.stem for path in potentials} <= {path.stem for path in STORED}


@pytest.mark.slow
def test_no_time_is_stated_if_other_programs_ran(page):
    _, _, facts = page
    idle, busy = (facts | {"machine": facts["machine"] | {"cores": 2, "load": load}} for load in (0.3, 7.0))
    assert "us/atom" in certificate.text(idle) and "No time" not in certificate.text(idle)
    assert "us/atom" not in certificate.text(busy) and "load 7.0 on 2 cores" in certificate.text(busy)


@pytest.mark.slow
def test_the_stored_page_is_the_page_of_all_facts(page):
    """Stored are four digits and one law of each kind: what the text shows."""
    _, _, facts = page
    first, second = certificate.text(facts).splitlines(), certificate.text(certificates.stored(facts)).splitlines()
    assert [line.split()[:4] for line in first] == [line.split()[:4] for line in second]


@pytest.mark.parametrize("name, told", [("page.pdf", "expected a name that ends with"), ("no/page.html", "cannot write")])
def test_a_page_that_cannot_be_written_is_refused_before_the_work(name, told, tmp_path, capsys):
    assert main(["certify", str(built("tiny/plain.equi")), "-o", str(tmp_path / name)]) == 1
    message = capsys.readouterr().err
    assert told in message and message.count("\n") == 1
