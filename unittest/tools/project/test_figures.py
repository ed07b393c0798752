# SPDX-License-Identifier: MIT
"""Figures in README.md, CHANGELOG.md and the manual that stand in bench/results are those of the files there."""

import functools
import re

import driver_figures
import pytest
import single_figures
from driver_figures import ROOT, picture, samples

SUBJECTS = (*driver_figures.SUBJECTS, *single_figures.SUBJECTS)


def faults(sentences, text_of):
    return [f"{page}: not found: {sentence}" for page, sentence in sentences if " ".join(sentence.split()) not in text_of(page)]


def page_text(page):
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
def test_figures_are_those_of_the_results(subject):
    found = faults(subject(), page_text)
    assert not found, "\n".join(found)


@functools.cache
def all_sentences():
    """(page, sentence) of all subjects."""
    return [(page, " ".join(sentence.split())) for subject in SUBJECTS for page, sentence in subject()]


def unchecked_text(page):
    """A page without the sentences that the subjects check."""
    checked = [sentence for name, sentence in all_sentences() if name == page]
    text = page_text(page)
    for sentence in sorted(checked, key=len, reverse=True):
        text = text.replace(sentence, " ")
    return text


# gpu_roofline.rst also tells how the kernels became what they are, in figures of sources that are gone.
HISTORIES = ("doc/gpu_roofline.rst",)
PAGES = ["README.md", "CHANGELOG.md", *sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("examples/*.md", "examples/*/README.md", "potentials/README.md", "doc/*.rst", "doc/models/*.rst") for path in ROOT.glob(pattern)
)]  # fmt: skip


@pytest.mark.parametrize("page", [page for page in PAGES if page not in HISTORIES])
def test_each_measured_speed_is_checked(page):
    """Where a page has a time, a rate or a memory per atom, one of the subjects takes it from a file."""
    units = r"us/atom|kB/atom|MB/atom|kB per atom|ns/edge|ns per edge|ms per|GFLOP/s|microseconds|times (?:faster|as long|as much)"
    assert [figure for figure in re.findall(rf"[\w.,]+ (?:{units})", unchecked_text(page)) if figure[0].isdigit()] == []


@pytest.mark.parametrize("page", ["README.md", "doc/index.rst", "doc/peers.rst"])
def test_each_difference_of_the_first_pages_is_checked(page):
    assert [figure for figure in re.findall(r"[\w.-]+ eV/atom", unchecked_text(page)) if figure[0].isdigit()] == []


def test_each_single_measurement_is_quoted():
    names = {one["name"] for one in samples.rows_of("measured")}
    used = "".join(sentence for _, sentence in single_figures.SENTENCES) + str(single_figures.RATIOS)
    assert {name for name in names if not re.search(rf"\b{name}\b", used)} == set()


def test_a_figure_that_differs_is_noticed():
    assert len(faults(driver_figures.speed(), lambda page: page_text(page).replace("3525", "3526"))) == 1
    assert len(faults(driver_figures.gpu_agreement(), lambda page: page_text(page).replace("4.5e-10", "5e-12"))) == 1


def test_a_picture_shows_one_machine():
    assert picture.machine_of(picture.STEPS)
