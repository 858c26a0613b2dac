"""Forecast errors by part: every figure by hand, from forecasts that are known."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.evaluate.errors import ForecastErrors
from neuro_divergent.forecasting.evaluate.scores import HistoricalForecasts, truth_of
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.historical import Origins

ROWS, H = 48, 3


def known(offset: tuple[float, float] = (1.0, 9.0), levels: tuple[float, ...] = ()) -> ForecastErrors:
    """Two series of hourly zeros, from Monday at midnight. Forecasts are off by 1 and 9, times the step ahead."""
    begin = datetime(2024, 1, 1)
    frame = pl.DataFrame(
        {
            "unique_id": ["a"] * ROWS + ["b"] * ROWS,
            "ds": [begin + timedelta(hours=row % ROWS) for row in range(2 * ROWS)],
            "y": [0.0] * (2 * ROWS),
        }
    )
    table = nd.TimeSeriesDataFrame.from_frame(frame, freq="1h")
    first = np.full(2, ROWS - 4 * H)
    origins = Origins.windows(table, first, steps=H, step_size=H)
    values = np.array(offset)[origins.series][:, None] * np.arange(1, H + 1)
    stacked = np.stack([values, *(np.full_like(values, level - 0.25) for level in levels)], axis=-1)
    columns = Columns(("M", *(f"M{level}" for level in levels)), (None, *levels))
    return ForecastErrors(truth=truth_of(origins, season=1), found={"M": HistoricalForecasts(columns, stacked)})


def test_errors_by_step():
    """(1 + 9)/2 times the step; the root mean square is sqrt((1 + 81)/2) times the step; forecasts are too high."""
    by_step = known().by_step
    assert by_step["step"].to_list() == [1, 2, 3]
    assert by_step["mae"].to_list() == pytest.approx([5.0, 10.0, 15.0])
    assert by_step["rmse"].to_list() == pytest.approx([41**0.5 * step for step in (1, 2, 3)])
    assert by_step["bias"].to_list() == pytest.approx([5.0, 10.0, 15.0])
    assert by_step["values"].to_list() == [8, 8, 8]


def test_errors_by_series_and_which_series_pull_the_mean():
    assert dict(known().by_series.select("series", "mae").iter_rows()) == {"a": 2.0, "b": 18.0}
    pull = known().pull()
    assert pull["series"].to_list() == ["b", "a"]
    assert pull["share"].to_list() == pytest.approx([0.9, 0.1])
    assert pull["share_of_values"].to_list() == [0.5, 0.5]
    assert pull["mae_without"].to_list() == [2.0, 18.0]


def test_errors_by_hour_weekday_and_month():
    """The last 12 of 48 hours from Monday at midnight are the hours 12 to 23 of a Tuesday in January."""
    errors = known()
    assert errors.by_hour["hour"].to_list() == list(range(12, 24))
    assert errors.by_hour["mae"].to_list() == pytest.approx([5.0, 10.0, 15.0] * 4)
    assert errors.by_weekday["weekday"].to_list() == [2]
    assert errors.by_month["month"].to_list() == [1]


def test_errors_by_level_are_groups_by_the_forecast():
    levels = known().by_level
    assert levels["values"].sum() == 24
    assert levels["from"][0] == 1.0
    assert levels["to"][-1] == 27.0
    assert levels["mae"].is_sorted()


def test_calibration_and_pit_of_known_quantiles():
    """The quantile of level q is q - 0.25, and all actual values are 0: at or below those of 0.5 and 0.9 only."""
    errors = known(levels=(0.1, 0.5, 0.9))
    assert errors.calibration()["observed"].to_list() == [0.0, 1.0, 1.0]
    pit = errors.pit()
    assert pit["observed"].to_list() == [0.0, 1.0, 0.0, 0.0]
    assert pit["density"].to_list() == pytest.approx([0.0, 2.5, 0.0, 0.0])
    with pytest.raises(nd.ConfigError, match="level="):
        known().calibration()


def test_an_evaluation_has_errors_that_agree_with_its_scores(tmp_path):
    """by_step and by_series of the evaluation are computed by the metrics."""
    pytest.importorskip("matplotlib")
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.air_passengers())
    loss = nd.MQLoss(level=[80])
    config = nd.TrainingConfig(max_steps=20, loss=loss, refit=None)
    fitted = nd.MLP(h=6, input_size=12, hidden_size=8).fit(data.drop_last(18), config)
    found = fitted.evaluate(data, n_windows=3, level=80)
    own = found.by_step.filter(pl.col("model") == "MLP")
    assert found.errors.by_step["mae"].to_list() == pytest.approx(own["mae"].to_list(), rel=1e-5)
    assert found.errors.to_polars()["error"].abs().mean() == pytest.approx(found["MLP", "mae"], rel=1e-5)
    assert len(found.errors.to_json()) > 500
    assert "one step ahead" in repr(found.errors)
    for name in ("plot", "plot_calibration", "plot_autocorrelation", "plot_pull"):
        getattr(found.errors, name)(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 4000


def test_autocorrelated_errors_are_significant():
    errors = known((1.0, 1.0))
    series = errors.autocorrelation(lags=2)
    assert series is not None
    assert series.correlation[0] < 0  # 1, 2, 3, 1, 2, 3, ...


def test_a_part_that_does_not_exist_and_hours_of_whole_numbers_are_refused():
    with pytest.raises(nd.UnknownNameError, match="step, series"):
        known().by("year")
    data = pl.DataFrame({"unique_id": ["a"] * 60, "ds": range(60), "y": np.arange(60.0)})
    fitted = nd.MLP(h=4, input_size=8, hidden_size=4).fit(data[:50], nd.TrainingConfig(max_steps=1, refit=None))
    with pytest.raises(nd.ConfigError, match="whole numbers"):
        fitted.evaluate(data).errors.by("hour")


def evaluated(frame: pl.DataFrame, h: int, forecasts: float = 0.0) -> ForecastErrors:
    """Forecasts of one value for the last 20 steps of h rows."""
    table = nd.TimeSeriesDataFrame.from_frame(frame)
    first = np.full(1, frame.height - 20 * h)
    origins = Origins.windows(table, first, steps=h, step_size=h)
    values = np.full((len(origins), h, 1), forecasts)
    found = {"M": HistoricalForecasts(Columns(("M",), (None,)), values)}
    return ForecastErrors(truth=truth_of(origins, season=1), found=found)


def test_missing_values_do_not_move_errors_closer_together():
    """Errors of +1, -1, +1, -1, ... where every 4th value is missing: at lag 1 all products are negative, at lag 2
    all are positive. With the gaps closed, the signs of lag 1 and 2 mix."""
    y = np.where(np.arange(200) % 2 == 0, 1.0, -1.0).tolist()
    gappy = [None if row % 4 == 2 else value for row, value in enumerate(y)]
    frame = pl.DataFrame({"unique_id": ["a"] * 200, "ds": range(200), "y": gappy})
    series = evaluated(frame, h=4).autocorrelation(lags=2)
    assert series is not None
    assert series.correlation[0] < -0.5
    assert series.correlation[1] > 0.3


def test_forecasts_without_an_error_are_shown_as_such():
    frame = pl.DataFrame({"unique_id": ["a"] * 100, "ds": range(100), "y": [3.0] * 100})
    errors = evaluated(frame, h=2, forecasts=3.0)
    assert "M: MAE 0," in repr(errors)
    assert errors.autocorrelation() is None
    assert errors.pull()["share"].to_list() == [0.0]
