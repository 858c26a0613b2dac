"""Values that are not finite never reach a weight."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.batch import Batch
from neuro_divergent.data import samples
from neuro_divergent.forecasting.fit.task import ForecastTask

X = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]


class Poisoned(nn.Module):
    """Gives an infinity from the n-th forward pass in training on, for as many passes as asked."""

    def __init__(self, first, count=10**9):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.first, self.count, self.seen = first, count, 0

    def forward(self, x):
        if self.training and torch.is_grad_enabled():
            self.seen += 1
            if self.first < self.seen <= self.first + self.count:
                x = x * float("inf")
        return self.inner(x)


def config(**fields):
    defaults = {"max_epochs": 4, "batch_size": 16, "validation_split": None, "shuffle": False, "progress": False}
    return nd.TrainingConfig(**defaults | fields)


def state_of(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def test_the_run_stops_with_the_step_named_and_the_last_good_weights_kept():
    torch.manual_seed(0)
    poisoned = Poisoned(5)
    start = {name: tensor.clone() for name, tensor in poisoned.inner.state_dict().items()}
    with pytest.raises(nd.NonFiniteError, match=r"at step 6 \(epoch 2\).*weights are those of the last good step"):
        nd.Trainer(config()).fit(poisoned, (X, X))
    healthy = Poisoned(10**9)
    healthy.inner.load_state_dict(start)
    # The same five steps alone, on the same schedule: weights and running statistics are those.
    nd.Trainer(config(max_epochs=None, max_steps=5)).fit(healthy, (X, X))
    for name, tensor in healthy.state_dict().items():
        assert torch.equal(tensor, poisoned.state_dict()[name]), name


def test_skipping_counts_and_goes_on():
    torch.manual_seed(0)
    module = Poisoned(5, count=2)
    history = nd.Trainer(config(nonfinite="skip")).fit(module, (X, X))
    skipped = [event for event in history.events if event.get("event") == "skipped"]
    assert [event["step"] for event in skipped] == [5, 6]
    assert len(history.step_loss) == 14
    assert all(np.isfinite(history.train_loss))
    assert all(bool(torch.isfinite(tensor).all()) for tensor in module.state_dict().values())


def test_an_epoch_without_any_good_step_has_no_loss():
    torch.manual_seed(0)
    history = nd.Trainer(config(nonfinite="skip", max_epochs=2)).fit(Poisoned(4), (X, X))
    assert np.isnan(history.train_loss[1])
    assert '"train_loss": "nan"' in history.to_json()


class ExplodingGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * float("inf")


class BadBackward(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(1, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.second(ExplodingGradient.apply(self.first(x)))


def test_a_gradient_that_is_not_finite_is_named_by_its_parameters():
    with pytest.raises(nd.NonFiniteError, match=r"the gradient must be finite.*Gradients involved: first\.weight"):
        nd.Trainer(config()).fit(BadBackward(), (X, X))


def test_a_rate_that_would_make_weights_infinite_is_stopped_before_it_does():
    module = nn.Linear(1, 1)
    before = state_of(module)
    wild = config(optimizer=nd.SGD(learning_rate=1e38, momentum=0.0), gradient_clipping=None)
    with pytest.raises(nd.NonFiniteError, match="learning rate of 1e\\+38"):
        nd.Trainer(wild).fit(module, (X, 100 * X + 50))
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())


class InfiniteRate(nd.Callback):
    def on_batch_end(self, state):
        state.rate_factor = float("nan")


def test_a_callback_that_breaks_the_rate_cannot_break_the_weights():
    module = nn.Linear(1, 1)
    with pytest.raises(nd.NonFiniteError):
        nd.Trainer(config(callbacks=(InfiniteRate(),))).fit(module, (X, X))
    assert bool(torch.isfinite(module.weight).all())


def test_series_are_named():
    frame = samples.hourly_panel(3, 200).with_columns(
        pl.when(pl.col("unique_id") == "series-01").then(pl.col("y") * 1e30).otherwise(pl.col("y")).alias("y")
    )
    huge = nd.MLP(h=4, input_size=8, hidden_size=8, scaler="identity")
    with pytest.raises(nd.NonFiniteError, match="Series involved: series-01"):
        huge.fit(frame, nd.TrainingConfig(max_epochs=2, loss=nd.MSE(), progress=False), freq="1h")


def test_columns_are_named():
    task = ForecastTask(nd.MAE(), names=("a", "b"), columns={"future": ("price", "rain")})
    future = torch.zeros(2, 6, 2)
    future[1, 3, 1] = float("inf")
    batch = Batch(torch.zeros(2, 4, 1), future=future, target=torch.zeros(2, 2, 1), series=torch.tensor([0, 1]))
    values = torch.tensor([[[0.0], [0.0]], [[float("nan")], [0.0]]])
    assert task.blame(batch, values) == "Series involved: b. The column 'rain' has values that are not finite."
