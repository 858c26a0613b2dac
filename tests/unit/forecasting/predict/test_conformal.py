"""Conformal prediction: ranks by hand, coverage on windows that nobody has seen."""

import logging
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.evaluate.scores import evaluate
from neuro_divergent.forecasting.network.output_columns import named_columns
from neuro_divergent.forecasting.predict.conformal import (
    Calibration,
    PredictionIntervals,
    adapted,
    corrected_quantile,
    mean_change,
    series_scale,
)

FAST = nd.TrainingConfig(max_steps=40, progress=False)


def calibration(scores, **settings):
    scores = np.asarray(scores, dtype=float)
    settings = PredictionIntervals(n_windows=scores.shape[1], **settings)
    return Calibration(settings, np.array([f"s{i}" for i in range(len(scores))]), scores, np.ones(len(scores)))


def bounds(found, level=80, ids=("s0",), scale=1.0):
    point = np.full((len(ids), found.scores.shape[2]), 10.0)
    values = found.around(point, np.array(ids), np.full(len(ids), scale), named_columns("m", (level,), ()))
    return values[:, :, 1], values[:, :, 2]


def test_conformal_error_takes_the_rounded_up_rank():
    """Nine scores 1..9: the rank for 80 % is (9+1)·0.8 = 8, so the interval is ±8 (Lei et al. 2018)."""
    low, high = bounds(calibration(np.arange(1, 10).reshape(1, 9, 1), method="conformal_error"))
    assert (low.item(), high.item()) == (2.0, 18.0)
    low, high = bounds(calibration(np.arange(1, 10).reshape(1, 9, 1), method="conformal_error"), level=75)
    assert high.item() == 18.0, "rank 7.5 is rounded up to 8"


def test_conformal_distribution_interpolates():
    _, high = bounds(calibration(np.arange(1, 10).reshape(1, 9, 1), method="conformal_distribution"), level=75)
    assert high.item() == 17.5


def test_adaptive_by_hand():
    """Three windows with scores 1, 5, 5; alpha 0.5, gamma 0.1.

    Window 1: radius 1 (only score), 5 misses: alpha = 0.5 + 0.1·(0.5 - 1) = 0.45.
    Window 2: scores 1, 5, rank ⌈3·0.55⌉ = 2, radius 5, hit: alpha = 0.45 + 0.1·0.5 = 0.5.
    In the end: scores 1, 5, 5, rank ⌈4·0.5⌉ = 2: radius 5.
    """
    scores = np.array([1.0, 5.0, 5.0]).reshape(1, 3, 1, 1)
    assert adapted(scores, 0.5, 0.1).item() == 5.0


def test_adaptive_widens_when_errors_grow_and_narrows_when_they_shrink():
    growing = np.linspace(1, 10, 60).reshape(1, 60, 1, 1)
    plain = corrected_quantile(growing.reshape(1, 60, 1), np.full((1, 1), 0.8), interpolate=False).item()
    assert adapted(growing, 0.8, 0.02).item() > plain
    assert adapted(growing[:, ::-1], 0.8, 0.02).item() < plain


def test_missing_scores_are_left_out():
    scores = np.array([1.0, np.nan, 3.0, np.nan]).reshape(1, 4, 1)
    assert corrected_quantile(scores, np.full((1, 1), 0.6), interpolate=False).item() == 3.0


def test_wider_coverage_is_never_narrower_and_quantiles_never_cross():
    rng = np.random.default_rng(0)
    for method in ("conformal_error", "conformal_distribution", "adaptive"):
        found = calibration(rng.exponential(size=(3, 20, 4)), method=method)
        columns = named_columns("m", (), tuple(np.linspace(0.05, 0.95, 19).round(3).tolist()))
        values = found.around(np.zeros((3, 4)), found.ids, np.ones(3), columns)[:, :, 1:]
        assert (np.diff(values, axis=2) >= 0).all(), method


def test_own_scores_count_as_soon_as_they_are_enough():
    """Series 0 has errors of 1, series 1 of 5. Nine windows are enough for 80 % of one series, not for 95 %."""
    scores = np.concatenate([np.full((1, 9, 1), 1.0), np.full((1, 9, 1), 5.0)])
    _, high = bounds(calibration(scores), 80, ("s0", "s1"))
    assert high[:, 0].tolist() == [11.0, 15.0]
    _, high = bounds(calibration(scores), 92, ("s0", "s1"))
    assert high[:, 0].tolist() == [15.0, 15.0]
    _, high = bounds(calibration(scores, pooling="panel"), 80, ("s0",))
    assert high.item() == 15.0


def test_a_new_series_is_measured_by_its_own_scale():
    _, high = bounds(calibration(np.full((1, 9, 1), 2.0)), 80, ("stranger",), scale=3.0)
    assert high.item() == 16.0


def test_too_few_windows_are_said(caplog):
    with caplog.at_level(logging.WARNING):
        _, high = bounds(calibration(np.array([[[1.0], [3.0]]])), 90)
    assert high.item() == 13.0
    assert "2 windows are too few for intervals of 90 %" in caplog.text


def test_the_scale_is_the_mean_absolute_change():
    frame = pl.DataFrame({"ds": range(5), "y": [1.0, 3.0, 2.0, 2.0, 100.0]})
    store = nd.TimeSeriesDataFrame.from_frame(frame).store
    assert series_scale(store, np.array([4])).item() == pytest.approx((2 + 1 + 0) / 3)
    constant = nd.TimeSeriesDataFrame.from_frame(frame.with_columns(y=pl.lit(4.0))).store
    assert series_scale(constant).item() == 1.0


def test_the_scale_before_each_forecast_by_hand():
    """Series a observes 1, 3, 2, 7 with a gap after 3; series b 5, 5, 8. No change so far is no scale."""
    frame = pl.DataFrame({"unique_id": list("aaaabbb"), "ds": [0, 1, 3, 4, 0, 1, 2], "y": [1.0, 3, 2, 7, 5, 5, 8]})
    store = nd.TimeSeriesDataFrame.from_frame(frame).store
    series, until = np.array([1, 0, 0, 1, 0, 0, 0]), np.array([3, 4, 1, 2, 5, 3, 2])
    expected = [(0 + 3) / 2, (2 + 1) / 2, np.nan, np.nan, (2 + 1 + 5) / 3, 2.0, 2.0]
    assert mean_change(store, series, until) == pytest.approx(expected, nan_ok=True)


def test_a_new_series_without_a_change_has_the_mean_scale_of_the_measured_ones():
    found = replace(calibration(np.ones((2, 9, 1))), scale=np.array([1.0, 3.0]))
    low, high = bounds(found, ids=("s1", "new", "new too"), scale=np.array([np.nan, np.nan, 5.0]))
    assert (high - low)[:, 0].tolist() == [2 * 3.0, 2 * 2.0, 2 * 5.0]


@pytest.fixture(scope="module")
def panel():
    return nd.samples.hourly_panel(20, 24 * 28)


@pytest.fixture(scope="module")
def fitted(panel):
    data = nd.TimeSeriesDataFrame.from_frame(panel)
    return nd.DLinear(h=12, input_size=48, anchor=(24,)).fit(data.drop_last(24 * 14), FAST)


@pytest.mark.parametrize("method", ["conformal_error", "conformal_distribution", "adaptive"])
def test_coverage_on_held_back_windows_is_within_three_points(panel, fitted, method):
    """Errors are measured in the third week, coverage in the fourth: neither was trained on."""
    data = nd.TimeSeriesDataFrame.from_frame(panel)
    fitted.calibrate(data.drop_last(24 * 7), PredictionIntervals(n_windows=26, step_size=6, method=method))
    found = evaluate([fitted], data, level=[80, 90, 95], n_windows=26, step_size=6, metrics=["coverage"])
    for level in (80, 90, 95):
        assert found["DLinear", f"coverage-{level}"] == pytest.approx(level / 100, abs=0.03), (method, level)


def test_fit_with_intervals_does_not_measure_errors_on_trained_rows(panel):
    """The errors come from a second model that ends before the windows: a poisoned end makes the intervals huge."""
    settings = PredictionIntervals(n_windows=3, step_size=1, method="conformal_error")
    model = nd.DLinear(h=6, input_size=24)
    small = panel.filter(pl.col("unique_id") <= "series-03")
    last = small["ds"].unique().sort()[-8:]
    poisoned = small.with_columns(y=pl.when(pl.col("ds").is_in(last.to_list())).then(1e5).otherwise(pl.col("y")))
    clean, bad = (model.fit(frame, FAST, prediction_intervals=settings) for frame in (small, poisoned))
    assert clean.intervals.scores.shape == (4, 3, 6)
    assert np.nanmin(bad.intervals.scores) > 100 * np.nanmax(clean.intervals.scores)


def test_predict_gives_levels_after_calibration_and_after_loading(panel, fitted, tmp_path):
    fitted.calibrate(panel, PredictionIntervals(n_windows=30, step_size=6))
    forecast = fitted.predict(level=[80, 95], quantiles=[0.5])
    assert forecast.columns[2:] == [
        "DLinear", "DLinear-lo-80", "DLinear-hi-80", "DLinear-lo-95", "DLinear-hi-95", "DLinear_ql0.5",
    ]  # fmt: skip
    low95, low80, middle, high80, high95 = (forecast[forecast.columns[i]].to_numpy() for i in (5, 3, 2, 4, 6))
    for lower, higher in ((low95, low80), (low80, middle), (middle, high80), (high80, high95)):
        assert (lower <= higher).all()
    assert forecast["DLinear_ql0.5"].equals(forecast["DLinear"].alias("DLinear_ql0.5"))
    fitted.save(tmp_path / "m")
    assert nd.load(tmp_path / "m").predict(level=[80, 95], quantiles=[0.5]).equals(forecast)


def test_what_cannot_be_measured_is_refused(panel):
    with pytest.raises(nd.DataError, match=r"prediction intervals hold out 12000 rows.*at most n_windows=53"):
        nd.DLinear(h=12, input_size=24).fit(panel, FAST, prediction_intervals=PredictionIntervals(n_windows=1000))
    with pytest.raises(nd.ConfigError, match="method"):
        PredictionIntervals(method="magic")
