# SPDX-License-Identifier: MIT
"""Files of several versions of allegro -> .equi without any framework: LAMMPS against the numbers that these versions
computed (golden/make_allegro.py)."""

import lzma
from pathlib import Path

import old_versions
import pytest
import tensornet_laws as laws
from equi_tools.frameworks.nequip.files import kind_of

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.mark.parametrize("name, kind", [("allegro-0.4.0.ckpt", "checkpoint"), ("allegro-0.6.3.nequip.pth", "torchscript"),
                                        ("allegro-0.8.2.ckpt", "checkpoint")])  # fmt: skip
def test_files_of_old_versions_are_what_these_evaluated(name, kind, tmp_path):
    source = tmp_path / name
    source.write_bytes(lzma.decompress((GOLDEN / f"{name}.xz").read_bytes()))
    assert kind_of(source) == kind
    version = ".".join(name.removeprefix("allegro-").split(".")[:3])
    found = old_versions.differences(source, GOLDEN / f"allegro-{version}.npz", tmp_path / "old.equi", unit="eV")
    laws.assert_within_bars(found)
