"""Averages of weights, by hand and against torch.optim.swa_utils."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.optim import swa_utils

from neuro_divergent.core import registry
from neuro_divergent.core.errors import ConfigError, StorageError
from neuro_divergent.optim import EMA, SWA, Averager, Averaging


def module_at(value: float) -> nn.Module:
    module = nn.Linear(1, 1, bias=False)
    set_weight(module, value)
    return module


def set_weight(module: nn.Module, value: float) -> None:
    with torch.no_grad():
        module.weight.fill_(value)


def average(averager: Averager) -> float:
    return averager.tensors["weight"].item()


def test_ema_by_hand() -> None:
    module = module_at(1.0)
    averager = EMA(decay=0.5, warmup=False).build(module)
    for step, (weight, expected) in enumerate([(3.0, 2.0), (4.0, 3.0), (-1.0, 1.0)]):
        set_weight(module, weight)
        averager.update(step)
        assert average(averager) == expected


def test_ema_warms_up() -> None:
    # d = min(decay, (1 + n) / (10 + n)): 0.1, 2/11, … until the decay itself is smaller.
    module = module_at(1.0)
    averager = EMA(decay=0.15).build(module)
    set_weight(module, 2.0)
    averager.update(0)
    assert average(averager) == pytest.approx(0.1 * 1 + 0.9 * 2)
    set_weight(module, 0.0)
    averager.update(1)
    assert average(averager) == pytest.approx(0.15 * 1.9)


def test_ema_every_few_steps() -> None:
    module = module_at(0.0)
    averager = EMA(decay=0.5, warmup=False, every=3).build(module)
    for step in range(7):
        set_weight(module, float(step))
        averager.update(step)
    # Steps 2 and 5 count: 0.5 · 0 + 0.5 · 2 = 1, then 0.5 · 1 + 0.5 · 5 = 3.
    assert average(averager) == 3.0
    assert averager.count == 2


def test_ema_equals_torchs() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    ours = EMA(decay=0.9, warmup=False).build(module)
    theirs = swa_utils.AveragedModel(module, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    theirs.update_parameters(module)  # torch's first update copies; ours starts as that copy
    for step in range(10):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter))
        ours.update(step)
        theirs.update_parameters(module)
    for mine, other in zip(ours.tensors.values(), theirs.module.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("start", [0.6, 6])
def test_swa_is_the_plain_mean_from_its_start(start: float) -> None:
    module = module_at(100.0)
    averager = SWA(start=start).build(module, total_steps=10)
    for step in range(10):
        set_weight(module, float(step))
        averager.update(step)
    assert average(averager) == pytest.approx((6 + 7 + 8 + 9) / 4)
    assert averager.count == 4


def test_swap_lends_the_average_and_takes_it_back_even_after_an_error() -> None:
    module = module_at(1.0)
    averager = EMA(decay=0.5, warmup=False).build(module)
    set_weight(module, 3.0)
    averager.update(0)
    with averager.swap():
        assert module.weight.item() == 2.0
    assert module.weight.item() == 3.0
    with pytest.raises(KeyError), averager.swap():
        raise KeyError
    assert module.weight.item() == 3.0
    averager.copy_to_module()
    assert module.weight.item() == 2.0


def test_before_the_first_update_the_module_is_its_own_average() -> None:
    module = module_at(1.0)
    averager = SWA(start=0.5).build(module, total_steps=100)
    set_weight(module, 3.0)
    averager.update(0)
    with averager.swap():
        assert module.weight.item() == 3.0
    averager.copy_to_module()
    assert module.weight.item() == 3.0


def test_buffers_stay_the_modules_newest() -> None:
    module = nn.BatchNorm1d(2)
    averager = EMA().build(module)
    module(torch.randn(8, 2) + 5)
    newest = module.running_mean.clone()
    averager.update(0)
    with averager.swap():
        assert torch.equal(module.running_mean, newest)


@pytest.mark.parametrize("kind", list(registry.members("averaging")))
def test_resuming_gives_the_same_bits(kind: str) -> None:
    description = registry.resolve("averaging", kind)(every=2)
    assert Averaging.from_json(description.to_json()) == description
    torch.manual_seed(0)
    module = nn.Linear(3, 3)
    averager = description.build(module, total_steps=20)
    states, weights = {}, {}
    for step in range(20):
        with torch.no_grad():
            module.weight.add_(torch.randn_like(module.weight))
        weights[step] = copy.deepcopy(module.state_dict())
        averager.update(step)
        states[step] = {name: tensor.clone() for name, tensor in averager.state_tensors().items()}
    resumed = description.build(module, total_steps=20)
    resumed.load_state(states[16])
    for step in range(17, 20):
        module.load_state_dict(weights[step])
        resumed.update(step)
    for name, tensor in averager.state_tensors().items():
        assert torch.equal(resumed.state_tensors()[name], tensor)


def test_wrong_fields_and_states_are_refused_with_a_sentence() -> None:
    module = module_at(0.0)
    with pytest.raises(ConfigError, match="total number of steps"):
        SWA(start=0.5).build(module)
    with pytest.raises(ConfigError, match="share of the run"):
        SWA(start=1.5).build(module, total_steps=10)
    with pytest.raises(ConfigError, match="decay must be less than 1"):
        EMA(decay=1.0)
    with pytest.raises(StorageError, match="other"):
        EMA().build(module).load_state({"other": torch.zeros(1)})
