# SPDX-License-Identifier: MIT
"""torch.ops.equi in models of nequip: a training step equals the one with e3nn's convolution."""

import pytest
from equi_tools.frameworks.nequip import oracle as nequip_oracle
from test_models import nequip as nequip_models
from training_step import assert_the_switch_changes_nothing, training_input


@pytest.mark.parametrize("name", ["plain", "lmax3", "lmax4"])
def test_a_training_step_is_that_of_e3nn(name, tmp_path):
    path, types = nequip_models.make_variant(name, tmp_path)
    calculator = nequip_oracle.float64_calculator(path, types=types)
    calculator.model = calculator.calculator.model
    with nequip_oracle.nequip_state():
        model, evaluate = training_input(calculator)
        assert_the_switch_changes_nothing(model, evaluate, "total_energy", "forces", "stress")
