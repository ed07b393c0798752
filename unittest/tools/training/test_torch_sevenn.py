# SPDX-License-Identifier: MIT
"""torch.ops.equi in models of sevenn: a training step equals the one with e3nn's convolution."""

import pytest
import torch
from equi_tools.errors import EquiError
from equi_tools.frameworks.sevenn import oracle as sevenn_oracle
from equi_torch import disable, enable
from test_models.sevenn import make_variant
from training_step import assert_the_switch_changes_nothing, training_input


@pytest.mark.parametrize("name", ["plain", "parity", "lmax_edge", "modal"])
def test_a_training_step_is_that_of_e3nn(name, tmp_path):
    path, modality = make_variant(name, tmp_path)
    model, evaluate = training_input(sevenn_oracle.float64_calculator(path, modality))
    assert_the_switch_changes_nothing(
        model, evaluate, "inferred_total_energy", "inferred_force", "inferred_stress"
    )


def test_a_model_without_convolutions_is_refused():
    with pytest.raises(EquiError, match="Linear: no convolution of sevenn, mace-torch or nequip"):
        enable(torch.nn.Linear(2, 2))
    disable(torch.nn.Linear(2, 2))


