"""Parameter groups, freezing and the decay that biases and normalisations are spared."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch

import pytest
import torch
from torch import nn

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.optim import SGD, AdamW, Lookahead, Optimizer, ParameterGroup, freeze, unfreeze


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.LSTM(8, 8))
        self.head = nn.Linear(8, 1)


def settings(optimizer: torch.optim.Optimizer) -> dict[str, tuple[float, float]]:
    return {name: (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for name in group["names"]}


def test_biases_normalisations_and_embeddings_are_not_decayed() -> None:
    found = settings(AdamW(weight_decay=0.1).build(Net()))
    decayed = {name for name, (_, decay) in found.items() if decay}
    assert decayed == {"encoder.0.weight", "encoder.2.weight_ih_l0", "encoder.2.weight_hh_l0", "head.weight"}
    assert len(found) == len(list(Net().parameters()))
    everything = settings(AdamW(weight_decay=0.1, decay_all=True).build(Net()))
    assert {decay for _, decay in everything.values()} == {0.1}


def test_vectors_and_scalars_are_not_decayed_whatever_their_name() -> None:
    module = Net()
    module.scale, module.mixing = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3, 3))
    found = settings(AdamW(weight_decay=0.1).build(module))
    assert (found["scale"][1], found["mixing"][1]) == (0.0, 0.1)


def test_names_run_parallel_to_parameters() -> None:
    module = Net()
    named = dict(module.named_parameters())
    for group in AdamW(groups=({"pattern": "head.*", "rate_factor": 0.1},)).build(module).param_groups:
        assert all(named[name] is parameter for name, parameter in zip(group["names"], group["params"], strict=True))


def test_without_decay_there_is_one_group() -> None:
    assert len(SGD().build(Net()).param_groups) == 1


def test_groups_have_their_own_rate_and_decay_and_the_first_that_fits_wins() -> None:
    optimizer = AdamW(
        learning_rate=0.01,
        weight_decay=0.1,
        groups=(
            ParameterGroup(pattern="encoder.0.*", learning_rate=0.5, weight_decay=0.0),
            ParameterGroup(pattern=("encoder.*", "head.*"), rate_factor=0.1, weight_decay=0.3),
        ),
    )
    found = settings(optimizer.build(Net()))
    assert found["encoder.0.weight"] == (0.5, 0.0)
    assert found["encoder.2.weight_hh_l0"] == (0.001, 0.3)
    assert found["encoder.2.bias_hh_l0"] == (0.001, 0.0)
    assert found["head.weight"] == (0.001, 0.3)
    assert found["embed.weight"] == (0.01, 0.0)
    assert Optimizer.from_json(optimizer.to_json()) == optimizer


def test_a_group_can_decay_what_is_spared() -> None:
    optimizer = AdamW(groups=(ParameterGroup(pattern="*bias*", weight_decay=0.2, decay_all=True),))
    found = settings(optimizer.build(Net()))
    assert found["head.bias"][1] == 0.2
    with pytest.raises(ConfigError, match="decay_all=True"):
        AdamW(groups=(ParameterGroup(pattern="*bias*", weight_decay=0.2),)).build(Net())


def test_frozen_parameters_are_left_out() -> None:
    module = Net()
    assert freeze(module, ["encoder.*", "embed.weight"])[-1] == "embed.weight"
    assert set(settings(AdamW(groups=({"pattern": "encoder.*", "rate_factor": 2.0},)).build(module))) == {
        "head.weight",
        "head.bias",
    }
    unfreeze(module, "encoder.0.*")
    assert "encoder.0.weight" in settings(AdamW().build(module))
    freeze(module, "*")
    with pytest.raises(ConfigError, match="needs a trainable parameter"):
        AdamW().build(module)


def test_freezing_drops_the_gradient_so_that_nothing_moves() -> None:
    module = nn.Linear(2, 1)
    optimizer = SGD().build(module)
    module(torch.ones(1, 2)).sum().backward()
    freeze(module, "weight")
    before = module.weight.clone()
    optimizer.step()
    assert torch.equal(module.weight, before)


@pytest.mark.parametrize("act", [freeze, unfreeze, lambda m, p: AdamW(groups=({"pattern": p},)).build(m)])
def test_a_pattern_that_fits_nothing_is_answered_with_the_closest_names(act: Callable) -> None:
    module = Net()
    with pytest.raises(ConfigError, match=r"pattern='haed\.\*'.*head\.") as caught:
        act(module, "haed.*")
    assert "closest of the 11 parameters" in str(caught.value)
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_an_error_in_one_pattern_freezes_nothing() -> None:
    module = Net()
    with pytest.raises(ConfigError):
        freeze(module, ["head.*", "nothing"])
    assert module.head.weight.requires_grad


def test_a_group_takes_one_kind_of_rate() -> None:
    with pytest.raises(ConfigError, match="Leave one out"):
        ParameterGroup(pattern="*", learning_rate=0.1, rate_factor=2.0)


def test_tied_weights_appear_once() -> None:
    module = Net()
    module.tied = nn.Linear(4, 5, bias=False)
    module.tied.weight = module.embed.weight
    names = [name for group in AdamW().build(module).param_groups for name in group["names"]]
    assert len(names) == len(set(names)) == 11


def test_what_a_group_leaves_open_is_the_optimizers_and_not_a_later_groups() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    optimizer = AdamW(
        learning_rate=1e-3,
        weight_decay=0.01,
        groups=(
            ParameterGroup(pattern="0.*", learning_rate=1e-4),
            ParameterGroup(pattern="*.weight", weight_decay=0.3),
        ),
    )
    assert settings(optimizer.build(module)) == {
        "0.weight": (1e-4, 0.01),
        "0.bias": (1e-4, 0.0),
        "1.weight": (1e-3, 0.3),
        "1.bias": (1e-3, 0.0),
    }


def test_a_group_decays_what_is_spared_by_the_optimizers_decay() -> None:
    optimizer = AdamW(weight_decay=0.01, groups=(ParameterGroup(pattern="*.bias", decay_all=True),))
    found = settings(optimizer.build(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))))
    assert {name: decay for name, (_, decay) in found.items()} == {
        "0.weight": 0.01,
        "0.bias": 0.01,
        "1.weight": 0.0,
        "1.bias": 0.01,
    }


@pytest.mark.parametrize("pattern", ["0.*", "*.bias"])
def test_an_optimizer_that_decays_everything_does_so_in_groups_with_a_decay_of_their_own(pattern: str) -> None:
    groups = (ParameterGroup(pattern=pattern, weight_decay=0.1),)
    optimizer = AdamW(weight_decay=0.01, decay_all=True, groups=groups)
    found = settings(optimizer.build(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))))
    assert {name: decay for name, (_, decay) in found.items()} == {
        name: 0.1 if fnmatch(name, pattern) else 0.01 for name in ("0.weight", "0.bias", "1.weight", "1.bias")
    }


def test_another_rate_keeps_the_ratio_of_groups_with_a_rate_of_their_own() -> None:
    groups = (
        ParameterGroup(pattern="encoder.*", learning_rate=0.5),
        ParameterGroup(pattern="head.*", rate_factor=3.0),
    )
    for optimizer in (SGD(learning_rate=0.1, groups=groups), Lookahead(inner=SGD(learning_rate=0.1, groups=groups))):
        found = settings(optimizer.at_rate(0.02).build(Net()))
        assert found["encoder.0.weight"][0] == pytest.approx(0.1)
        assert found["head.weight"][0] == pytest.approx(0.06)
        assert found["embed.weight"][0] == pytest.approx(0.02)
