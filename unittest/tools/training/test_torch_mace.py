# SPDX-License-Identifier: MIT
"""torch.ops.equi in models of mace-torch: a training step equals the one with e3nn's convolution."""

import pytest
from equi_tools.frameworks.mace import oracle as mace_oracle
from test_models import mace as mace_models

mace_oracle.import_mace()
from training_step import assert_the_switch_changes_nothing, training_input  # noqa: E402


@pytest.mark.parametrize("name", ["plain", "density", "nonlinear", "ell4"])
def test_a_training_step_is_that_of_e3nn(name, tmp_path):
    calculator = mace_oracle.float64_calculator(mace_models.make_variant(name, tmp_path))
    model, evaluate = training_input(calculator, training=True)
    assert_the_switch_changes_nothing(model, evaluate, "energy", "forces", "virials")
