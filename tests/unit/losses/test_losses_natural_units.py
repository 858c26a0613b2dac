"""Likelihoods on windows that nobody scaled: the spread is read in units of the window and cannot collapse."""

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats

import neuro_divergent as nd
from neuro_divergent.data.scaling.per_window import window_size
from neuro_divergent.losses.distribution import as_written

NORMAL = nd.DistributionLoss(distribution="Normal")


def test_a_spread_is_its_softplus_in_units_of_the_window_plus_the_floor() -> None:
    raw, size = torch.tensor([[100.0, -400.0]], dtype=torch.float64), torch.tensor([[200.0]], dtype=torch.float64)
    found = NORMAL.values(NORMAL.natural(raw, size), torch.tensor([130.0], dtype=torch.float64))
    spread = 200.0 * (np.log1p(np.exp(-2.0)) + 1e-4)
    assert found.item() == pytest.approx(-stats.norm.logpdf(130.0, 100.0, spread), rel=1e-9)


def test_a_mixture_reads_each_component_in_the_same_units() -> None:
    loss = nd.NormalMixture(components=2)
    raw = torch.tensor([[0.0, 300.0, 10.0, 20.0, -300.0, 300.0]], dtype=torch.float64)  # logits, means, spreads
    found = loss.values(loss.natural(raw, torch.tensor([[300.0]], dtype=torch.float64)), torch.tensor([15.0]).double())
    share = np.exp(1.0) / (1 + np.exp(1.0))
    spreads = 300.0 * (np.log1p(np.exp([-1.0, 1.0])) + 1e-4)
    density = (1 - share) * stats.norm.pdf(15, 10, spreads[0]) + share * stats.norm.pdf(15, 20, spreads[1])
    assert found.item() == pytest.approx(-np.log(density), rel=1e-9)


def test_the_spread_of_a_scaled_window_has_a_floor_and_finite_gradients() -> None:
    raw = torch.tensor([[0.0, -1e4]], requires_grad=True)
    value = NORMAL.values(NORMAL.natural(raw, None), torch.tensor([3.0]))
    assert value.item() == pytest.approx(-stats.norm.logpdf(3.0, 0.0, 1e-4), rel=1e-4)
    value.sum().backward()
    assert raw.grad is not None
    assert torch.isfinite(raw.grad).all()


def test_the_size_of_a_window_is_the_root_of_its_mean_square() -> None:
    y = torch.tensor([[[3.0], [4.0], [100.0]], [[0.0], [0.0], [0.0]]])
    mask = torch.tensor([[[True], [True], [False]], [[True], [True], [True]]])
    assert window_size(y, mask).flatten().tolist() == pytest.approx([np.sqrt(12.5), 1.0])


def test_a_file_without_a_floor_means_what_it_meant() -> None:
    old = {"kind": "Weighted", "loss": {"kind": "DistributionLoss", "distribution": "Normal"}, "by": "column"}
    assert as_written(old)["loss"]["floor"] == 0.0
    assert as_written({"kind": "MAE"}) == {"kind": "MAE"}


@pytest.mark.parametrize("factor", [1.0, 1e6])
@pytest.mark.parametrize("loss", [NORMAL, nd.NormalMixture(components=3)], ids=["Normal", "mixture"])
@pytest.mark.parametrize("model", [nd.NHITS, nd.MLP, nd.NBEATS])
def test_unscaled_windows_train_whatever_their_size_and_outliers(model: type, loss: nd.Loss, factor: float) -> None:
    """All but NHITS with the mixture stopped with an infinite gradient when the spread was softplus(raw)."""
    data = nd.samples.air_passengers().with_columns(pl.col("y").cast(pl.Float64) * factor)
    data = data.with_columns(
        pl.when(pl.int_range(pl.len()) % 40 == 20).then(20 * pl.col("y")).otherwise("y").alias("y")
    )
    small = {"hidden_size": 16} if model is nd.MLP else {"hidden_sizes": (16, 16)}
    config = nd.TrainingConfig(
        max_epochs=None, max_steps=40, loss=loss, validation_split=None, early_stopping=None, gradient_clipping=None
    )
    fitted = model(h=12, input_size=24, scaler="identity", anchor=None, **small).fit(data, config)
    spread = fitted.predict(level=[80]).select(pl.last() - pl.nth(-2)).to_series()
    assert spread.min() > 1e-4 * factor
    assert np.isfinite(fitted.history.step_loss).all()
