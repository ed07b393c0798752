# SPDX-License-Identifier: MIT
"""A converted file through a second reader (equi_evaluator) against the framework's values that it stores."""

import numpy as np
from equi_evaluator import EquiEvaluator

# Two evaluations in float64: eV/atom and eV/A, where the largest force is some eV/A.
ENERGY_TOLERANCE = 1e-10
FORCE_TOLERANCE = 1e-9


def differences(path, entries=None):
    """Largest differences of energy per atom, force and stress between a file's evaluation and its stored values."""
    evaluator = EquiEvaluator(path)
    entries = entries or evaluator.document["self_check"]
    assert max(np.abs(s["forces"]).max() for s in entries) > 0.1, "the structures do not test the model"
    assert max(np.abs(s["stress"]).max() for s in entries if s["stress"]) > 1e-4
    worst = np.zeros(3)
    for s in entries:
        energy, forces, stress, _ = evaluator.evaluate(s["symbols"], s["positions"], s["cell"], s["pbc"])
        found = [abs(energy - s["energy"]) / len(forces), np.abs(forces - s["forces"]).max(), 0.0]
        if s["stress"]:
            found[2] = np.abs(stress - s["stress"]).max()
        assert np.all(np.isfinite(found))
        worst = np.maximum(worst, found)
    return worst


def assert_equal(path, entries=None):
    energy, force, stress = differences(path, entries)
    assert energy < ENERGY_TOLERANCE and force < FORCE_TOLERANCE and stress < FORCE_TOLERANCE


def equi_file_read(path):
    """Document and tensors through the evaluator's reader."""
    evaluator = EquiEvaluator(path)
    return evaluator.document, {name: t.numpy() for name, t in evaluator.tensors.items()}
