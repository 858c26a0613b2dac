"""Targets that a loss cannot take are refused; percentages are one figure, as a loss and as a metric."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent import metrics
from neuro_divergent.compat.neuralforecast.losses import pytorch as peer
from neuro_divergent.core.errors import DataError

FAST = nd.TrainingConfig(max_epochs=1, validation_split=None, progress=False, seed=1)
MODEL = nd.MLP(h=2, input_size=4, hidden_size=4)


def table(**series: list[float]) -> pl.DataFrame:
    return pl.concat(
        pl.DataFrame({"unique_id": [name] * len(y), "ds": range(len(y)), "y": np.array(y, dtype=np.float64)})
        for name, y in series.items()
    )


COUNTS = [1.0, 2.0, 3.0, 0.0, 4.0, 1.0, 2.0, 5.0, 3.0, 2.0]


@pytest.mark.parametrize("name", ["Poisson", "NegativeBinomial", "Tweedie"])
def test_a_negative_count_is_refused_with_its_series_and_value(name):
    data = table(shop=COUNTS, depot=[*COUNTS[:5], -3.0, *COUNTS[6:]])
    loss = nd.DistributionLoss(distribution=name)
    rule = rf"{name} takes targets of at least 0, but series 'depot' has -3 \(row 5 of the series; 1 values"
    with pytest.raises(DataError, match=rule):
        MODEL.fit(data, FAST.replace(loss=loss), freq=1)
    with pytest.raises(DataError, match=rule):
        MODEL.fit(data, FAST.replace(loss=nd.Weighted(loss=loss, by="recency", half_life=5)), freq=1)
    assert MODEL.fit(table(shop=COUNTS), FAST.replace(loss=loss), freq=1).predict()["MLP"].is_finite().all()


def test_a_share_above_one_is_refused_and_a_missing_value_is_not():
    loss = nd.DistributionLoss(distribution="Bernoulli")
    ones = [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]
    with pytest.raises(DataError, match=r"at least 0 and at most 1, but series 'b' has 2 "):
        MODEL.fit(table(a=ones, b=[*ones[:-1], 2.0]), FAST.replace(loss=loss), freq=1)
    hole = table(a=ones).with_columns(pl.when(pl.col("ds") == 2).then(None).otherwise(pl.col("y")).alias("y"))
    assert MODEL.fit(hole, FAST.replace(loss=loss), freq=1).predict().height == 2


def test_rows_that_come_later_and_scaled_series_are_looked_at_too():
    loss = nd.DistributionLoss(distribution="Poisson")
    fitted = MODEL.fit(table(shop=COUNTS), FAST.replace(loss=loss), freq=1)
    with pytest.raises(DataError, match=r"series 'shop' has -7 "):
        fitted.update(table(shop=[-7.0, 1.0]).with_columns(pl.col("ds") + len(COUNTS)))
    later = table(shop=[1.0, 2.0, -2.0]).with_columns(pl.col("ds") + len(COUNTS))
    with pytest.raises(DataError, match=r"series 'shop' has -2 "):
        MODEL.fit(table(shop=COUNTS), FAST.replace(loss=loss), validation=later, freq=1)
    with pytest.raises(DataError, match=r"after local_scaler='standard'.*Leave local_scaler out"):
        MODEL.fit(table(shop=COUNTS), FAST.replace(loss=loss), local_scaler="standard", freq=1)


def test_a_trainer_refuses_negative_counts_of_plain_arrays():
    x, y = np.ones((4, 1)), np.array([1.0, 0.0, -2.0, 3.0])
    config = nd.TrainingConfig(max_epochs=1, loss=nd.DistributionLoss(distribution="Poisson"), validation_split=None)
    with pytest.raises(DataError, match=r"Poisson takes targets of at least 0, but row 2 of y has -2 \(1 such values"):
        nd.Trainer(config).fit(torch.nn.Linear(1, 1), (x, y))


@pytest.mark.parametrize(("loss", "name"), [(nd.MAPE(), "mape"), (nd.SMAPE(), "smape")])
def test_percentages_are_one_figure_as_loss_and_as_metric(loss, name):
    """The validation's loss, its metric, and the figure of the same forecasts; zeros are among the targets."""
    y = [*COUNTS, *COUNTS[2:], 0.0, 2.0, 4.0, 0.0, 0.0, 3.0]
    config = FAST.replace(loss=loss, metrics=(name, "mae"), validation_split=0.25)
    fitted = MODEL.fit(table(a=y), config, freq=1)
    last = fitted.history.to_polars().tail(1)
    held = fitted.evaluate(table(a=y), n_windows=5, step_size=1, metrics=[name, "mae"])
    frame = held.frame
    assert (frame["y"] == 0).any()
    figure = getattr(metrics, name)(frame["y"].to_numpy(), frame["MLP"].to_numpy())
    assert last["validation_loss"].item() == pytest.approx(figure, rel=1e-5)
    assert last[f"validation_{name}"].item() == pytest.approx(figure, rel=1e-5)
    assert held["MLP", name] == pytest.approx(figure, rel=1e-6)
    # A target of 0 has no percentage, but an absolute error like any other.
    assert last["validation_mae"].item() == pytest.approx(held["MLP", "mae"], rel=1e-5)


def test_a_trainer_leaves_the_same_targets_out():
    """By hand: 10 % and 50 %, the target of 0 is left out."""
    module = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(1.0)
    x, y = np.array([[9.0], [7.0], [3.0]]), np.array([[10.0], [0.0], [2.0]])
    config = nd.TrainingConfig(max_epochs=1, loss=nd.MAPE(), optimizer=nd.SGD(learning_rate=1e-12))
    history = nd.Trainer(config).fit(module, (x, y), validation=(x, y))
    assert history.to_polars()["validation_loss"].item() == pytest.approx(30.0, rel=1e-4)


def test_the_compatible_losses_stay_fractions_like_the_peers():
    """neuralforecast 3.2: mean of |e| / |y| with 0 for a target of 0, and 2 · mean of |e| / (|y| + |f|)."""
    y, f = torch.tensor([[[2.0], [0.0], [4.0]]]), torch.tensor([[[3.0], [1.0], [3.0]]])
    assert peer.MAPE()(y, f).item() == pytest.approx((0.5 + 0.0 + 0.25) / 3)
    assert peer.SMAPE()(y, f).item() == pytest.approx(2 * (1 / 5 + 1 + 1 / 7) / 3)


def test_the_unit_of_a_percentage_does_not_change_how_a_model_is_trained():
    """A recipe clips at 1 for fractions, so at 100 for percentages; a bound that was given is kept."""
    config = nd.TrainingConfig(progress=False, max_epochs=2, seed=3, validation_split=None)
    percent = MODEL.fit(table(a=[*COUNTS, *COUNTS]), config.replace(loss=nd.SMAPE()), freq=1)
    assert percent.config.gradient_clipping == nd.ClipByNorm(100.0)
    fraction = MODEL.fit(table(a=[*COUNTS, *COUNTS]), config.replace(loss=peer.SMAPE().describe()), freq=1)
    assert fraction.config.gradient_clipping == nd.ClipByNorm(1.0)
    assert np.array(percent.history.step_loss) == pytest.approx(100 * np.array(fraction.history.step_loss), rel=1e-3)
    given = config.replace(loss=nd.SMAPE(), gradient_clipping=nd.ClipByNorm(2.0))
    assert given.resolved().gradient_clipping == nd.ClipByNorm(2.0)
