"""Number formats: what is computed in which, and how small gradients survive."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.training.state.precision import Precision
from neuro_divergent.training.step.reduction import weighted_mean

X = np.random.default_rng(0).normal(size=(128, 4)).astype(np.float32)
Y = (X[:, :1] - 2 * X[:, 1:2]).astype(np.float32)


class Spy(nn.Module):
    """A perceptron that notes in which format its hidden layer was computed."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.formats = nn.Linear(4, 16), nn.Linear(16, 1), set()

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        self.formats.add(hidden.dtype)
        return self.second(hidden)


def run(precision, **fields):
    module = Spy()
    settings = {"max_epochs": 15, "precision": precision, "validation_split": None, "progress": False}
    optimizer = nd.AdamW(learning_rate=0.01)
    history = nd.Trainer(nd.TrainingConfig(**settings | {"optimizer": optimizer} | fields)).fit(module, (X, Y))
    return module, history


@pytest.mark.parametrize(
    ("precision", "weights", "hidden"),
    [
        ("float32", torch.float32, torch.float32),
        ("float64", torch.float64, torch.float64),
        ("accumulate64", torch.float32, torch.float32),
        ("bf16", torch.float32, torch.bfloat16),
        ("fp16", torch.float32, torch.float16),
    ],
)
def test_every_format_learns_in_the_format_it_says(precision, weights, hidden):
    module, history = run(precision)
    assert module.first.weight.dtype == weights
    assert module.formats == {hidden}
    assert history.train_loss[-1] < 0.2 * history.train_loss[0]


def test_half_precision_follows_full_precision():
    _, full = run("float32")
    for precision in ("bf16", "fp16"):
        _, half = run(precision)
        assert half.train_loss[-1] == pytest.approx(full.train_loss[-1], rel=0.15)


def test_a_static_scale_does_not_change_the_result():
    first, _ = run("fp16", loss_scale=1.0, max_epochs=3)
    second, _ = run("fp16", loss_scale=256.0, max_epochs=3)
    for name, tensor in first.state_dict().items():
        assert torch.allclose(tensor, second.state_dict()[name], atol=2e-3), name


def test_a_dynamic_scale_finds_its_level_and_steps_meanwhile_are_skipped():
    # A loss of about 1e5 times a scale of 2^16 overflows float16 (65504) in the backward pass at first.
    module = Spy()
    settings = nd.TrainingConfig(max_epochs=12, precision="fp16", validation_split=None, progress=False)
    history = nd.Trainer(settings).fit(module, (X, 1000 * Y))
    skipped = [event for event in history.events if event.get("event") == "skipped"]
    assert 0 < len(skipped) < 20
    assert len(history.step_loss) == 12 * 4 - len(skipped)
    assert bool(torch.isfinite(module.first.weight).all())


def test_an_overflow_under_a_static_scale_is_an_error():
    with pytest.raises(nd.NonFiniteError, match="gradient"):
        run("fp16", loss_scale=2.0**40)


def test_float64_sums_keep_what_float32_loses():
    # 2^24 ones and a half: float32 cannot count past 2^24 in a plain sum; here 1e8 beside 1.0 loses the 1.0.
    values = torch.tensor([1e8, 1.0, -1e8], dtype=torch.float32)
    assert weighted_mean(values, None, in_float64=True).item() == pytest.approx(1 / 3)
    half = torch.full((4096,), 0.1, dtype=torch.bfloat16)
    assert weighted_mean(half, None).dtype == torch.float32


def test_what_a_device_cannot_do_is_refused():
    with pytest.raises(nd.DeviceError, match="float64"):
        Precision("float64", torch.device("mps"), "dynamic")
    with pytest.raises(nd.ConfigError, match="loss_scale is for precision='fp16'"):
        nd.TrainingConfig(loss_scale=128.0)
    with pytest.raises(nd.ConfigError, match="numerical gradients need float32"):
        nd.TrainingConfig(gradient_method="central", precision="bf16")


class OftenInfinite(nn.Module):
    """Gives infinite gradients of a finite loss in so many of every `period` training passes."""

    def __init__(self, period, bad):
        super().__init__()
        self.inner, self.period, self.bad, self.seen = nn.Linear(4, 1, bias=False), period, bad, 0

    def forward(self, x):
        out = self.inner(x)
        if self.training and torch.is_grad_enabled():
            self.seen += 1
            if (self.seen - 1) % self.period >= self.period - self.bad:
                out.register_hook(lambda gradient: gradient * float("inf"))
        return out


def test_overflows_end_a_run_only_when_they_follow_each_other():
    settings = nd.TrainingConfig(
        max_epochs=None, max_steps=180, precision="fp16", loss=nd.MAE(), validation_split=None, progress=False
    )
    # Gradients of MAE are as large as x, so that the first scale of 2^16 does not overflow float16 by itself.
    # 60 overflows, but a good step after every one of them: the scale looks for its level, as it always does.
    history = nd.Trainer(settings).fit(OftenInfinite(3, 1), (X / 100, Y))
    assert sum(event.get("event") == "skipped" for event in history.events) == 60
    assert len(history.step_loss) == 120
    # 100 good steps and then none: the 51st overflow, at step 151, is one too many.
    with pytest.raises(nd.NonFiniteError, match="at step 151 "):
        nd.Trainer(settings).fit(OftenInfinite(180, 80), (X / 100, Y))


class Logarithm(nn.Module):
    """Takes the logarithm of the first column, which is not a number where that is negative."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 1)

    def forward(self, x):
        return self.inner(x) + torch.log(x[:, :1])


@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_loss_that_is_not_a_number_ends_a_run_in_every_format(precision, pieces):
    x = np.abs(X) + 0.1
    x[100, 0] = -1  # in the fourth batch of 32, as the rows are not shuffled
    settings = nd.TrainingConfig(
        max_epochs=2, precision=precision, loss=nd.MAE(), shuffle=False, batch_size=32 // pieces
    ).replace(accumulate_gradients=pieces)
    with pytest.raises(nd.NonFiniteError, match=r"the loss must be finite, but at step 4 .*1 of 32 rows"):
        nd.Trainer(settings.replace(validation_split=None, progress=False)).fit(Logarithm(), (x, Y))


def test_a_loss_that_fits_float32_does_not_end_a_run_in_half_precision():
    """Squared errors of 300 are 90,000, more than float16 holds, and their scaled gradients overflow it at first."""
    settings = nd.TrainingConfig(max_epochs=20, precision="fp16", loss=nd.MSE(), validation_split=None, progress=False)
    history = nd.Trainer(settings).fit(Spy(), (X, Y + 300))
    assert history.step_loss[0] > 65_504
    assert {event["what"] for event in history.events if event.get("event") == "skipped"} == {"gradient"}


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_values_that_half_precision_cannot_hold_are_forecast_in_it(precision):
    # Around 200,000, where float16 ends at 65,504 and bfloat16 has steps of 1,024.
    table = nd.samples.hourly_panel(2, 120).with_columns((pl.col("y") * 100).round() + 200_000)
    settings = nd.TrainingConfig(max_steps=30, batch_size=16, progress=False, metrics=("mae",), validation_split=0.2)
    model = nd.MLP(h=4, input_size=12, hidden_size=8)
    for loss in (nd.MAE(), nd.DistributionLoss(distribution="Poisson")):
        full, half = (
            model.fit(table, settings.replace(loss=loss, precision=name), freq="1h").history
            for name in ("float32", precision)
        )
        assert len(half.step_loss) > 20
        assert half["validation_mae"][-1] == pytest.approx(full["validation_mae"][-1], rel=0.2)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_spline_of_quantiles_is_learned_in_half_precision(precision):
    loss = nd.DistributionLoss(distribution="ISQF")
    settings = nd.TrainingConfig(max_steps=10, batch_size=16, progress=False, loss=loss, precision=precision)
    fitted = nd.MLP(h=4, input_size=12, hidden_size=8).fit(nd.samples.hourly_panel(2, 120), settings, freq="1h")
    assert len(fitted.history.step_loss) > 0
    assert np.isfinite(fitted.history.step_loss).all()
    plain = settings.replace(validation_split=None)
    assert nd.Trainer(plain).fit(nn.Linear(4, loss.outputs), (X, Y[:, 0])).step_loss
