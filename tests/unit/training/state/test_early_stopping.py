"""Early stopping by the values that the defaults promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.training.state.early_stopping import Patience, update


def fold(values, **fields):
    rule, patience = nd.EarlyStopping(**fields), Patience()
    for epoch, value in enumerate(values, start=1):
        patience, _, stop = update(rule, patience, value, epoch)
        if stop:
            return epoch, patience.best_epoch
    return None, patience.best_epoch


def test_the_promised_example_stops_at_the_fifth_value():
    assert fold([1.0, 0.8, 0.9, 0.9, 0.9], patience=3) == (5, 2)


@pytest.mark.parametrize(
    ("values", "fields", "expected"),
    [
        ([1.0, 0.8, 0.9, 0.7, 0.9], {"patience": 3}, (None, 4)),
        ([0.1, 0.5, 0.4, 0.4], {"patience": 2, "mode": "max"}, (4, 2)),
        ([1.0, 0.99, 0.98], {"patience": 2, "min_delta": 0.05}, (3, 1)),
        ([1.0, 2.0, 2.0, 2.0, 2.0], {"patience": 2, "warmup": 3}, (5, 1)),
        ([float("nan"), 1.0, 2.0, 2.0], {"patience": 2}, (4, 2)),  # what is no number is never the best
        ([1.0, float("nan"), float("nan")], {"patience": 2}, (3, 1)),
    ],
)
def test_patience_direction_threshold_and_warm_up(values, fields, expected):
    assert fold(values, **fields) == expected


class Drifting(nn.Module):
    """Its only weight moves by -rate per step under the loss |w - y| with y far below, so every epoch is known."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([3.0]))

    def forward(self, x):
        return self.weight.expand(len(x), 1)


@pytest.mark.parametrize(("restore", "expected"), [(True, 1.0), (False, -2.0)])
def test_the_best_weights_come_back_if_asked_for(restore, expected):
    # Training pulls w from 3 down by 1 an epoch (SGD, rate 1, gradient 1); validation is best at w = 1, after epoch 2.
    x, low, one = np.zeros((4, 1)), np.full((4, 1), -100.0), np.ones((4, 1))
    module = Drifting()
    config = nd.TrainingConfig(
        max_epochs=20,
        batch_size=4,
        loss=nd.MAE(),
        optimizer=nd.SGD(learning_rate=1.0, momentum=0.0),
        gradient_clipping=None,
        early_stopping=nd.EarlyStopping(patience=3, restore_best_weights=restore),
        progress=False,
    )
    history = nd.Trainer(config).fit(module, (x, low), validation=(x, one))
    assert history.validation_loss == pytest.approx([1.0, 0.0, 1.0, 2.0, 3.0])
    assert history.best_epoch == 2
    assert "no improvement of validation_loss in 3 validations" in history.stopped
    assert module.weight.item() == pytest.approx(expected)


def test_a_metric_can_be_followed():
    x = np.linspace(-1, 1, 40)[:, None]
    rule = nd.EarlyStopping(monitor="validation_r2", mode="max", patience=1, min_delta=2.0)
    config = nd.TrainingConfig(max_epochs=9, metrics=("r2",), early_stopping=rule, progress=False)
    assert len(nd.Trainer(config).fit(nn.Linear(1, 1), (x, x))) == 2


def test_the_plateau_schedule_follows_its_own_monitor():
    # The validation loss of Drifting gets worse from epoch 3 on while the training loss improves for ever.
    x, low, one = np.zeros((4, 1)), np.full((4, 1), -100.0), np.ones((4, 1))

    def rates(monitor):
        config = nd.TrainingConfig(
            max_epochs=6,
            batch_size=4,
            loss=nd.MAE(),
            optimizer=nd.SGD(learning_rate=1.0, momentum=0.0),
            schedule=nd.ReduceOnPlateau(monitor=monitor, patience=0, factor=0.5),
            gradient_clipping=None,
            early_stopping=None,
            progress=False,
        )
        return nd.Trainer(config).fit(Drifting(), (x, low), validation=(x, one))["learning_rate"]

    assert rates("train_loss") == [1.0] * 6
    assert rates("validation_loss")[:4] == [1.0, 1.0, 1.0, 0.5]


def test_without_a_validation_the_plateau_schedule_follows_the_falling_loss_whatever_its_mode():
    # The training loss of Drifting falls from 103 by 1 an epoch: nothing ever lowers the rate.
    config = nd.TrainingConfig(
        max_epochs=4,
        batch_size=4,
        loss=nd.MAE(),
        metrics=("r2",),
        optimizer=nd.SGD(learning_rate=1.0, momentum=0.0),
        schedule=nd.ReduceOnPlateau(monitor="validation_r2", mode="max", patience=0),
        gradient_clipping=None,
        validation_split=None,
        progress=False,
    )
    history = nd.Trainer(config).fit(Drifting(), (np.zeros((4, 1)), np.full((4, 1), -100.0)))
    assert history.train_loss == pytest.approx([103.0, 102.0, 101.0, 100.0])
    assert history["learning_rate"] == [1.0] * 4


def test_nothing_to_follow_is_refused():
    x = np.zeros((4, 1))
    config = nd.TrainingConfig(validation_split=None, early_stopping=nd.EarlyStopping(patience=2), progress=False)
    with pytest.raises(nd.ConfigError, match="there are no held-out rows"):
        nd.Trainer(config).fit(nn.Linear(1, 1), (x, x))
