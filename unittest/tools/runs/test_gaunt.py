# SPDX-License-Identifier: MIT
"""Gaunt products in a model file: LAMMPS compared with means over the sphere (equi_evaluator.py)."""

import os
import subprocess

import numpy as np
import pytest
import tensornet_laws as laws
from equi_evaluator import EquiEvaluator
from equi_tools import equi_file
from equi_tools.cli import main
from equi_tools.errors import EquiError

# All numbers of both evaluations are in float64.
SAME = 1e-11
CUTOFF = 4.5
ELEMENTS = ["Na", "Cl", "O"]


def document(channels, lmax):
    """A product of three functions of the neighbors as two Gaunt products; the first one is a square with all of its
    orders."""
    rng = np.random.default_rng(channels)
    functions = "+".join(f"{channels}x{l}{'eo'[l % 2]}" for l in range(lmax + 1))
    squares = "+".join(f"{channels}x{l}{'eo'[l % 2]}" for l in range(2 * lmax, -1, -1))
    tensors = {
        "embedding": rng.standard_normal((3, channels)),
        "waves": np.pi / CUTOFF * np.arange(1, 5),
        "radial": rng.standard_normal((4, channels * (lmax + 1))),
        "readout": rng.standard_normal((channels, 1)),
        "scale": np.full(3, 0.2),
        "shift": rng.standard_normal(3),
    }
    second = list(range(lmax + 1, 3 * lmax + 2))
    layers = [
        {"type": "species_embedding", "output": "x", "irreps": f"{channels}x0e", "weight": "embedding", "scale": 1.0},
        {"type": "convolution", "input": "x", "irreps_in": f"{channels}x0e", "output": "f", "irreps_out": functions,
         "paths": [{"in": 0, "l": l, "out": l, "scale": 0.5 * (2 * l + 1) ** 0.5, "r_power": 0} for l in range(lmax + 1)],
         "radial": {"weights": ["radial"], "scales": [1.0], "activation": "identity", "activation_scale": 1.0}},
        {"type": "node_product", "inputs": ["f"], "irreps_in": [functions], "output": "ff", "irreps_out": squares,
         "gaunt": [list(range(lmax + 1))] * 2},
        {"type": "node_product", "inputs": ["f", "ff"], "irreps_in": [functions, squares], "output": "fff",
         "irreps_out": f"{channels}x0e", "gaunt": [list(range(lmax + 1)), second]},
        {"type": "readout", "input": "fff", "irreps_in": f"{channels}x0e", "block": 0,
         "network": {"weights": ["readout"], "scales": [0.3], "activation": "identity", "activation_scale": 1.0}},
        {"type": "scale_shift", "scale": "scale", "shift": "shift"},
    ]  # fmt: skip
    return {
        "format": "equi", "format_version": 3, "framework": {"name": "test", "version": "1"}, "architecture": "test",
        "elements": ELEMENTS, "cutoff": CUTOFF, "lmax_edge": lmax, "edge_parity": True, "layers": layers,
        "radial_basis": {"kind": "bessel", "wave_numbers": "waves", "prefactor": 0.7,
                         "cutoff_function": {"kind": "polynomial", "p": 6}},
        "provenance": {"source": "test_gaunt.py"}, "units": {"energy": "eV", "length": "Angstrom"}, "self_check": [],
    }, tensors  # fmt: skip


@pytest.fixture(params=[(5, 1), (13, 2), (33, 3), (3, 4)], ids=lambda p: f"channels_{p[0]}_orders_to_{p[1]}")
def path(request, tmp_path):
    file = tmp_path / "gaunt.equi"
    equi_file.write(file, *document(*request.param))
    return file


def test_lammps_evaluates_means_over_the_sphere(path):
    native, evaluator = laws.native(path, radial="exact"), EquiEvaluator(path)
    for name, atoms in laws.structures(ELEMENTS, CUTOFF):
        found = native(atoms)
        cell = atoms.cell.complete().array  # the evaluator does not treat a cell without a volume as periodic
        energy, forces, _, _ = evaluator.evaluate(atoms.get_chemical_symbols(), atoms.positions, cell, atoms.pbc)
        scale = max(1.0, np.abs(forces).max(), abs(energy) / len(atoms))
        assert abs(found.energy - energy) / len(atoms) <= SAME * scale, name
        assert np.abs(found.forces - forces).max() <= SAME * scale, name


def test_stress_is_the_derivative_and_ranks_agree(path):
    atoms = dict(laws.structures(ELEMENTS, CUTOFF))["sheared"]
    assert laws.strain_error(path, atoms) <= laws.STRAIN
    assert laws.rank_error(path, atoms, 3) <= laws.RANKS


def test_commands_read_the_layer(path, capsys):
    assert main(["info", str(path)]) == 0
    assert ", gaunt " in capsys.readouterr().out
    equi = os.path.join(os.environ["EQUI_BUILD_DIR"], "bin", "equi")
    text = subprocess.run([equi, "schedule", str(path)], capture_output=True, text=True, check=True).stdout
    assert text.count("contraction") >= 2
    for form in ("tree", "grid"):
        assert text.count(f"Gaunt product by a {form}: multiply-adds") == 2
    assert text.count(", taken") == 2


@pytest.mark.parametrize("change, words", [({"gaunt": [[0]]}, "a list of 2"), ({"gaunt": [[0], []]}, "gaunt")])
def test_wrong_functions_are_named(change, words, tmp_path):
    made, tensors = document(5, 1)
    made["layers"][2].update(change)
    file = tmp_path / "wrong.equi"
    equi_file.write(file, made, tensors)
    with pytest.raises(EquiError, match=words):
        equi_file.read(file)
