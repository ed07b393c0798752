# SPDX-License-Identifier: MIT
"""Counts the files, outside of tests and pages, that name a layer: by its struct, its files or its type.

A row layer has a document (header, source, line of the list, schema), its LibTorch reference, its room in
kokkos/layers with a line in kokkos/evaluation/layers.h, its source in the build, and the converters of the frameworks
that have it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("src", "kokkos", "tools", "cmake", "bench")
SUFFIXES = (".cpp", ".h", ".py", ".json", ".cmake", ".txt")
# The largest numbers of files. A number may only become smaller.
MOST = {
    "norm_scale": 9,
    "spherical_norm": 9,
    "layer_norm": 9,
    "direct_forces": 10,
    "grid_network": 16,
    "coulomb": 11,
    "pair_attention": 14,
    "dispersion": 10,
    "local_network": 19,    # 5 of them for the blocks of threads that do all steps on a device
    "so2_convolution": 24,
    "ewald": 20,
    "potential": 19,
    "observable": 16,
}  # fmt: skip


def struct(layer):
    return "".join(word.capitalize() for word in layer.split("_"))


def names(text, kind, layer):
    """Whether a text of C++, of a converter or of another kind names a layer.

    Python has no structs: a word like one is a framework's, or of prose. In a converter a word in quotes may be an option of the
    framework; what adds the layer to a document names it.
    """
    before = r"\badd\(\s*" if kind == "converter" else ""
    return bool(re.search(rf"/[a-z0-9_]*{layer}[._/]|{before}[\"']{layer}[\"']", text)) or (
        kind == "C++" and bool(re.search(rf"\b{struct(layer)}\b", text))
    )


def kind_of(path):
    if path.suffix in (".cpp", ".h"):
        return "C++"
    return "converter" if "frameworks" in path.parts else "other"


@pytest.fixture(scope="module")
def texts():
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    return [(path.read_text(), kind_of(path)) for path in paths if ".egg-info" not in path.as_posix() and "tools/build" not in path.as_posix()]


@pytest.mark.parametrize("layer", MOST)
def test_a_layer_joins_few_files(layer, texts):
    assert len(texts) > 300
    assert 6 <= sum(names(*text, layer) for text in texts) <= MOST[layer]


def test_a_file_that_names_a_layer_is_counted():
    assert names("std::variant<NormScale, Linear>", "C++", "norm_scale") and names('#include "src/layers/norm_scale.h"', "C++", "norm_scale")
    assert names("{'type': 'norm_scale'}", "other", "norm_scale") and not names("NormScale(torch.nn.Module)", "other", "norm_scale")
    assert names('self.add("norm_scale", x)', "converter", "norm_scale") and not names("config['norm_scale']", "converter", "norm_scale")
    assert not names("struct NormScaleRow {};  // norm_scale of rows", "C++", "norm_scale")
