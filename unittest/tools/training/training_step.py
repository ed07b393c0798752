# SPDX-License-Identifier: MIT
"""A training step with the framework's own convolution and with torch.ops.equi, for tests of each framework."""

import copy
import io

import torch
from equi_tools import self_check
from equi_torch import disable, enable

# Gradients by parameters, energies, forces in float64, relative to the largest number of each.
TOLERANCE = 1e-10


def clone(data):
    if not isinstance(data, dict):
        return data.clone()  # sevenn's graph
    return {k: v.detach().clone() if isinstance(v, torch.Tensor) else copy.copy(v) for k, v in data.items()}


def training_input(calculator, **words):
    """(model, evaluate): the model of a calculator of equi_tools, ready for training, and evaluate(model) with the
    calculator's input for some atoms."""
    model, calls = calculator.model, []
    hook = model.register_forward_pre_hook(lambda _, args, kwargs: calls.append((clone(args[0]), kwargs)), with_kwargs=True)
    structures = dict(self_check.structures(calculator.elements, calculator.cutoff))
    atoms = max(structures.values(), key=len).copy()
    atoms.calc = calculator
    atoms.get_forces()
    hook.remove()
    data, kwargs = calls[-1]
    model.train()
    for parameter in model.parameters():
        parameter.requires_grad_()

    def evaluate(changed):
        return changed(clone(data), **{**kwargs, **words})

    return model, evaluate


def step(model, evaluate, energy, *others):
    """Energies, forces and others, and the gradients by all parameters of the sum of their squares."""
    model.zero_grad()
    # TorchScript's profiling costs more than it saves in a few steps.
    with torch.jit.optimized_execution(False):
        return _step(model, evaluate, energy, *others)


def _step(model, evaluate, energy, *others):
    out = evaluate(model)
    found = {name: out[name] for name in (energy, *others)}
    sum(v.square().sum() for v in found.values()).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {**{name: v.detach() for name, v in found.items()}, **{name: g.clone() for name, g in gradients.items()}}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    largest = max(v.abs().max() for v in expected.values() if v.numel())
    assert largest > 0.1
    for name, v in expected.items():
        assert torch.isfinite(found[name]).all(), name
        if v.numel():
            # A number that is zero up to rounding is compared relative to the largest of all.
            size = max(v.abs().max().item(), 1e-4 * largest.item())
            assert (found[name] - v).abs().max().item() <= TOLERANCE * size, name


def assert_the_switch_changes_nothing(model, evaluate, *outputs):
    """The values, gradients and states of a model before, between and after enable() and disable()."""
    expected = step(model, evaluate, *outputs)
    parameters, keys = dict(model.named_parameters()), list(model.state_dict())
    state = {k: v.clone() for k, v in model.state_dict().items()}
    text = str(model)
    assert enable(model) is model
    assert "Convolution(" in str(model)
    assert enable(model) is model, "twice"
    found = step(model, evaluate, *outputs)
    assert_same({k.replace("original.", ""): v for k, v in found.items()}, expected)
    assert sorted(model.state_dict()) == sorted(keys)
    # A state saved with one can be loaded with the other, in both directions.
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    saved = io.BytesIO()
    torch.save(state, saved)
    saved.seek(0)
    model.load_state_dict(torch.load(saved, weights_only=True), strict=True)
    assert_same({k.replace("original.", ""): v for k, v in step(model, evaluate, *outputs).items()}, expected)
    assert disable(model) is model
    assert str(model) == text and list(model.state_dict()) == keys
    assert all(p is parameters[name] for name, p in model.named_parameters())
    assert_same(step(model, evaluate, *outputs), expected)
