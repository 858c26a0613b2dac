"""Figures over many series: pooled or as a mean of series, and the work grows with their number only."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.evaluate.scores import HistoricalForecasts, scored, truth_of
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.metrics.by_name import POINT

MODEL = nd.DLinear(h=3, input_size=6)
CONFIG = nd.TrainingConfig(max_epochs=None, max_steps=3, progress=False, validation_split=None, loss=nd.MQLoss())


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Three series of unequal height and length, so that they have unequally many windows; with a hole and zeros."""
    parts = []
    for number, length in enumerate((20, 24, 31)):
        step = np.arange(length)
        y = (10.0**number) * (2 + np.sin(step) + 0.3 * np.cos(step * step))
        y[4] = 0.0
        parts.append(pl.DataFrame({"unique_id": f"s{number}", "ds": step, "y": y}))
    frame = pl.concat(parts)
    return frame.with_columns(
        pl.when((pl.col("ds") == 18) & (pl.col("unique_id") == "s1")).then(None).otherwise("y").alias("y")
    )


@pytest.fixture(scope="module")
def fitted(rows):
    return MODEL.fit(rows.filter(pl.col("ds") < 14), CONFIG, freq=1)


def test_every_figure_of_a_series_is_that_of_the_series_alone(fitted, rows):
    """Computed together or one by one: each series by itself is the reference, its table holds nothing else."""
    asked = {"metrics": [*POINT, "pinball", "coverage"], "level": [80], "n_windows": 8, "step_size": 1, "season": 2}
    together = fitted.evaluate(rows, **asked)
    for name in ("s0", "s1", "s2"):
        alone = fitted.evaluate(rows.filter(pl.col("unique_id") == name), **asked)
        own = together.by_series.filter(pl.col("unique_id") == name).drop("unique_id")
        expected = alone.table.rename({"model": "model"})
        assert own["model"].to_list() == expected["model"].to_list()
        for column in expected.columns[1:]:
            wanted = [np.nan if value is None else value for value in expected[column]]
            found = [np.nan if value is None else value for value in own[column]]
            assert found == pytest.approx(wanted, rel=1e-9, nan_ok=True), column


def test_pooled_and_mean_by_hand(fitted, rows):
    """From the frame of forecasts: the root of all squares, or the mean of the roots of each series."""
    asked = {"metrics": ["rmse", "rmsse", "mae"], "n_windows": 4, "season": 1}
    pooled, mean = fitted.evaluate(rows, **asked), fitted.evaluate(rows, aggregate="mean", **asked)
    error = pooled.frame.drop_nulls("y").select("unique_id", e=(pl.col("DLinear") - pl.col("y").cast(pl.Float64)) ** 2)
    by_series = error.group_by("unique_id").agg(pl.col("e").mean().sqrt())["e"]
    assert pooled["DLinear", "rmse"] == pytest.approx(error["e"].mean() ** 0.5, rel=1e-5)
    assert mean["DLinear", "rmse"] == pytest.approx(by_series.mean(), rel=1e-5)
    assert mean["DLinear", "rmse"] < 0.8 * pooled["DLinear", "rmse"]
    own = mean.by_series.filter(pl.col("model") == "DLinear")
    for name in ("rmse", "rmsse", "mae"):
        assert mean["DLinear", name] == pytest.approx(own[name].mean())
    assert "mean of the series" in repr(mean)
    assert "pooled" in repr(pooled)
    first = mean.by_step.filter((pl.col("model") == "DLinear") & (pl.col("step") == 1))["mae"].item()
    steps = mean.frame.drop_nulls("y").filter((pl.col("ds") - pl.col("cutoff")) == 1)
    errors = (
        steps.select("unique_id", e=(pl.col("DLinear") - pl.col("y")).abs())
        .group_by("unique_id")
        .agg(pl.col("e").mean())
    )
    assert first == pytest.approx(errors["e"].mean(), rel=1e-5)


def test_folds_can_be_summed_up_both_ways(rows):
    asked = {"config": CONFIG, "n_windows": 2, "metrics": ["rmse"], "freq": 1, "season": 1}
    pooled = nd.cross_validation([MODEL], rows, **asked)
    mean = nd.cross_validation([MODEL], rows, aggregate="mean", **asked)
    assert mean.table["mean"][0] < pooled.table["mean"][0]
    never = asked | {"config": CONFIG.replace(max_steps=10**9)}  # it is refused before anything is trained
    with pytest.raises(ConfigError, match="aggregate must be 'pooled' or 'mean', but got aggregate='median'"):
        nd.cross_validation([MODEL], rows, aggregate="median", **never)


def test_a_model_that_does_not_answer_does_not_look_better_as_a_mean(fitted, rows):
    """One forecast of a series is missing: the mean of the other series would say less than the truth."""
    table = nd.TimeSeriesDataFrame.from_frame(rows)
    origins = Origins.at(table, np.arange(table.n_series), table.store.lengths - 2, 2)
    columns = fitted.columns(None, None)
    values = origins.forecasts(fitted, columns)
    truth = truth_of(origins, season=1)
    for silent in (False, True):
        values[0, 0] = np.nan if silent else values[0, 0]
        found = scored(truth, {"DLinear": HistoricalForecasts(columns, values)}, ["mae"], "mean")
        assert np.isnan(found["DLinear", "mae"]) == silent


def test_the_work_of_an_evaluation_grows_with_the_series_and_not_with_their_square(monkeypatch, fitted):
    """Figures are asked for once per model and number of windows, not once per series."""
    from neuro_divergent.forecasting.evaluate import scores

    calls = []
    whole = scores.figures
    monkeypatch.setattr(scores, "figures", lambda *given: calls.append(1) or whole(*given))
    counts = []
    for number in (5, 50):
        frame = pl.DataFrame({"unique_id": np.repeat(np.arange(number), 12), "ds": np.tile(np.arange(12), number)})
        calls.clear()
        fitted.evaluate(frame.with_columns(y=pl.col("ds") % 5 + 1.0), n_windows=2)
        counts.append(len(calls))
    assert counts[0] == counts[1]
