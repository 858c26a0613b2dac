"""The weights of a compiled step: what is read from torch's optimizer, and the step that follows torch's own steps.

The expected values are those of torch.optim.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import neuro_divergent as nd
from neuro_divergent.optim.formulas import step_scalars
from neuro_divergent.training.compiled.weights import collect, compilable, updated

GROUPS = (nd.ParameterGroup(pattern="0.*", rate_factor=0.1), nd.ParameterGroup(pattern="1.*", weight_decay=0.3))
SETTINGS = {
    "Adam": nd.Adam(learning_rate=1e-2, weight_decay=0.1),
    "AdamW with groups": nd.AdamW(learning_rate=1e-2, groups=GROUPS),
    "SGD": nd.SGD(learning_rate=1e-2, momentum=0.0),
    "dampened": nd.SGD(learning_rate=1e-2, momentum=0.9, dampening=0.4, weight_decay=0.1),
    "Nesterov with groups": nd.SGD(learning_rate=1e-2, momentum=0.9, nesterov=True, groups=GROUPS),
}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)).double()


def eager_step(module: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> list[Tensor]:
    """One step of torch.optim; returns the gradients in the order of the groups."""
    generator = torch.Generator().manual_seed(number)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    found = [parameter.grad.clone() for parameter in parameters]
    optimizer.step()
    return found


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_steps_after_torchs_first_one_go_on_as_torchs(settings: nd.Optimizer) -> None:
    theirs, ours = network(), network()
    reference, optimizer = settings.build(theirs), settings.build(ours)
    eager_step(theirs, reference, 1)
    eager_step(ours, optimizer, 1)
    names, weights, counts = collect(settings, optimizer)
    for number in (2, 3):
        gradients = eager_step(theirs, reference, number)
        rows = [step_scalars(settings, group["lr"], counts[0].item() + 1) for group in optimizer.param_groups]
        scalars = torch.tensor(rows, dtype=torch.float64)
        for weight, gradient in zip(weights, gradients, strict=True):
            after = updated(settings, weight, gradient, scalars[weight.group])
            for kept, new in zip((weight.value, *weight.memory), after, strict=True):
                kept.copy_(new)
        counts.add_(1)
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():  # changed in place
        assert name in names
        torch.testing.assert_close(parameter, expected[name], rtol=1e-12, atol=1e-14)
        for entry, value in reference.state[expected[name]].items():  # state tensors and torch's own count
            torch.testing.assert_close(optimizer.state[parameter][entry], value, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("settings", [nd.Adam(), nd.SGD(momentum=0.9)])
def test_nothing_is_collected_until_every_parameter_has_its_state(settings: nd.Optimizer) -> None:
    module = network()
    optimizer = settings.build(module)
    assert collect(settings, optimizer) is None
    module[0].weight.grad = torch.ones_like(module[0].weight)
    optimizer.step()  # the others had no gradient
    assert collect(settings, optimizer) is None
    eager_step(module, optimizer, 1)
    assert collect(settings, optimizer) is not None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (nd.SGD(momentum=0.0), True),
        (nd.SGD(momentum=0.0, weight_decay=0.1), False),
        (nd.SGD(momentum=0.0, groups=(nd.ParameterGroup(pattern="*", weight_decay=0.1),)), False),
        (nd.SGD(momentum=0.9, weight_decay=0.1), True),
        (nd.Adam(weight_decay=0.1), True),
        (nd.AdamW(amsgrad=True), False),
        (nd.RMSprop(), False),
        ("auto", False),
    ],
)
def test_decay_without_any_state_is_not_compiled(settings: object, expected: bool) -> None:
    assert compilable(settings) == expected
