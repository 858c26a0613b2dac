"""The learning-rate range test."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.data import samples
from neuro_divergent.training.lr_range import find_learning_rate, summary

X = np.random.default_rng(0).normal(size=(256, 4)).astype(np.float32)


def test_the_rates_rise_exponentially_and_the_steepest_fall_is_suggested():
    # A made-up curve over log10(rate) from -6 to 0: flat, then falling with its steepest point at 1e-3, then exploding.
    place = np.linspace(-6, 0, 241)
    curve = 1 - 0.8 / (1 + np.exp(-6 * (place + 3))) + np.where(place > -1.5, 5 * (place + 1.5), 0)
    found = summary(list(10.0**place), list(curve))
    # The moving average remembers about ten steps of 0.025 decades, so that it lags by a quarter of a decade.
    assert 1e-3 <= found.suggestion <= 3e-3


def test_a_module_is_not_changed_and_the_suggestion_trains():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    before = [parameter.clone() for parameter in module.parameters()]
    y = X[:, :1] - X[:, 1:2]
    found = find_learning_rate(module, (X, y), lowest=1e-5, highest=10.0, steps=80)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    assert found.rates[0] == pytest.approx(1e-5)
    ratios = np.diff(np.log(found.rates))
    assert ratios == pytest.approx(np.full(len(ratios), np.log(10.0 / 1e-5) / 79))
    assert 1e-4 < found.suggestion < 1.0
    optimizer = nd.AdamW(learning_rate=found.suggestion)
    settings = nd.TrainingConfig(max_epochs=5, optimizer=optimizer, validation_split=None, progress=False)
    history = nd.Trainer(settings).fit(module, (X, y))
    assert history.train_loss[-1] < 0.5 * history.train_loss[0]


def test_an_explosion_ends_the_test_early():
    module = nn.Linear(4, 1)
    settings = nd.TrainingConfig(optimizer=nd.SGD(momentum=0.0), gradient_clipping=None)
    found = find_learning_rate(module, (X, X[:, :1]), settings, lowest=1e-4, highest=1e6, steps=100)
    assert found.rates[-1] < 1e6
    assert found.suggestion < 1.0


def test_a_model_on_a_table_and_the_picture(tmp_path):
    model = nd.MLP(h=6, input_size=12, hidden_size=8)
    found = find_learning_rate(model, samples.air_passengers(), steps=30, freq="1mo")
    assert len(found.rates) == len(found.losses) == len(found.smoothed) <= 30
    found.plot(tmp_path / "rates.png")
    assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")
    assert repr(found).startswith("RangeTest(suggestion=")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"lowest": 1.0, "highest": 0.1}, "rates must rise"),
        ({"steps": 3}, "at least 10"),
        ({"freq": "1h"}, "no other arguments"),
        ({"config": nd.TrainingConfig(optimizer=nd.ScheduleFreeAdamW())}, "takes no schedule"),
    ],
)
def test_what_cannot_be_tested_is_refused(fields, words):
    with pytest.raises(nd.ConfigError, match=words):
        find_learning_rate(nn.Linear(4, 1), (X, X[:, :1]), **fields)


def test_a_group_with_a_rate_of_its_own_rises_with_the_others():
    # Were the group's 1.0 taken as it is, its factor would rise from 1 to 1e5, and the loss explode early.
    y = X[:, :1] - X[:, 1:2]

    def found(*groups):
        torch.manual_seed(0)
        optimizer = nd.SGD(learning_rate=1.0, momentum=0.0, groups=groups)
        settings = nd.TrainingConfig(optimizer=optimizer, gradient_clipping=None)
        return find_learning_rate(nn.Linear(4, 1), (X, y), settings, lowest=1e-6, highest=1e-1, steps=60)

    assert found(nd.ParameterGroup(pattern="*", learning_rate=1.0)).losses == pytest.approx(found().losses)
