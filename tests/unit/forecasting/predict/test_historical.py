"""`Origins`: where historical forecasts start, the forecasts there, and the actual values there."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.predict.historical import Origins

CONFIG = nd.TrainingConfig(max_steps=3, seed=0)


@pytest.fixture(scope="module")
def table():
    """Rows 0 to 39 of a, 10 to 39 of b; the value of a row is its number, 100 more in b, and row 38 of a is missing."""
    a = pl.DataFrame({"unique_id": "a", "ds": range(40), "y": [float(n) if n != 38 else None for n in range(40)]})
    b = pl.DataFrame({"unique_id": "b", "ds": range(10, 40), "y": [100.0 + n for n in range(10, 40)]})
    return nd.TimeSeriesDataFrame.from_frame(pl.concat([a, b]))


def test_windows_are_counted_from_the_end(table):
    """By hand: windows of 4 rows, 3 apart, inside the last 10 rows: the last begins 4 rows before the end."""
    lengths = table.store.lengths
    origins = Origins.windows(table, lengths - 10, steps=4, step_size=3)
    assert origins.series.tolist() == [0, 0, 0, 1, 1, 1]
    assert origins.time.tolist() == [30, 33, 36, 20, 23, 26]
    assert np.array_equal(origins.actual()[2], [36.0, 37.0, np.nan, 39.0], equal_nan=True)
    assert origins.actual()[3].tolist() == [130.0, 131.0, 132.0, 133.0]


def test_all_series_at_once_need_a_row_of_each_before_the_origin(table):
    """Row 11 of series a is the first at which b, which begins at row 10, has a past."""
    one = Origins.windows(table, np.ones(2, dtype=np.int64), steps=4, step_size=1, together=True)
    assert one.time[one.series == 0].min() == 11
    each = Origins.windows(table, np.ones(2, dtype=np.int64), steps=4, step_size=1)
    assert each.time[each.series == 0].min() == 1


def test_a_gap_lies_between_the_rows_seen_and_those_forecast(table):
    """The forecast over a gap of 2 is the rest of a forecast that is 2 steps longer."""
    fitted = nd.MLP(h=6, input_size=8, hidden_size=4).fit(table, CONFIG)
    series, time = np.array([0, 1]), np.array([30, 20])
    over = Origins.at(table, series, time, 4, gap=2)
    whole = Origins.at(table, series, time, 6)
    assert over.points(fitted).tolist() == whole.points(fitted)[:, 2:].tolist()
    assert over.actual().tolist() == [[32.0, 33.0, 34.0, 35.0], [132.0, 133.0, 134.0, 135.0]]
    frame = over.frame({"MLP": over.points(fitted)})
    assert frame["cutoff"].unique().to_list() == [29]
    assert frame["ds"].to_list() == [32, 33, 34, 35] * 2


def test_without_a_row_before_the_origin_there_is_no_forecast(table):
    fitted = nd.MLP(h=4, input_size=8, hidden_size=4).fit(table, CONFIG)
    origins = Origins.at(table, np.array([0, 0]), np.array([0, 20]), 4)
    values = origins.points(fitted)
    assert np.isnan(values[0]).all()
    assert np.isfinite(values[1]).all()
    assert origins.where(np.array([False, True])).points(fitted)[0].tolist() == values[1].tolist()


@pytest.mark.parametrize("features", [["dayofweek", "day"], ["time", "fourier:7:1"]])
def test_the_calendar_goes_on_after_the_end_of_a_series(features):
    """Of the last window one series has only the first row; the forecast looks at the calendar of all four steps."""
    day = pl.int_range(pl.len())
    panel = pl.concat(
        pl.select(
            unique_id=pl.lit(name), ds=pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 2, last), "1d")
        ).with_columns(y=(day % 7 + day.sqrt()).cast(pl.Float64))
        for name, last in (("long", 29), ("short", 26))
    )
    model, cut = nd.MLP(h=4, input_size=14, hidden_size=8), pl.date(2024, 2, 25)
    fitted = model.fit(panel.filter(pl.col("ds") <= cut), CONFIG, features=features)
    table = fitted.table(panel)
    origins = Origins.at(table, np.array([0, 1]), np.array([56, 56]), 4)
    np.testing.assert_allclose(origins.points(fitted).reshape(-1), fitted.predict()["MLP"], rtol=1e-5)
