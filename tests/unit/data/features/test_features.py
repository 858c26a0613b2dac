from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neuro_divergent.core.errors import ConfigError, DataError, UnknownNameError
from neuro_divergent.data.features.features import calendar, history, parse_features
from neuro_divergent.data.table import TimeSeriesDataFrame


def hours(n: int = 24 * 400, start: datetime = datetime(2023, 12, 25)) -> pl.Series:
    return pl.Series(pd.date_range(start, periods=n, freq="h").to_numpy())


def test_fields_of_the_calendar_against_pandas():
    stamps = pd.date_range("2023-12-25 00:07:31", periods=9600, freq="h")
    ranges = {
        "second": (stamps.second, 0, 59),
        "minute": (stamps.minute, 0, 59),
        "hour": (stamps.hour, 0, 23),
        "dayofweek": (stamps.day_of_week, 0, 6),
        "day": (stamps.day, 1, 31),
        "dayofyear": (stamps.day_of_year, 1, 366),
        "week": (stamps.isocalendar().week.to_numpy(dtype=float), 1, 53),
        "month": (stamps.month, 1, 12),
        "quarter": (stamps.quarter, 1, 4),
    }
    found = calendar(list(ranges), pl.Series(stamps.to_numpy()))
    assert found.dtype == np.float32
    for column, (field, low, high) in enumerate(ranges.values()):
        expected = (np.asarray(field, dtype=float) - low) / (high - low) - 0.5
        np.testing.assert_allclose(found[:, column], expected, atol=1e-6)
        assert np.abs(expected).max() <= 0.5


def test_flags_and_year_against_pandas():
    stamps = pd.date_range("2019-06-01", periods=800, freq="D")
    found = calendar(["weekend", "month_start", "month_end", "year"], pl.Series(stamps.to_numpy()))
    np.testing.assert_array_equal(found[:, 0], stamps.day_of_week >= 5)
    np.testing.assert_array_equal(found[:, 1], stamps.is_month_start)
    np.testing.assert_array_equal(found[:, 2], stamps.is_month_end)
    np.testing.assert_allclose(found[:, 3], (stamps.year - 2000) / 100, atol=1e-6)


def test_dates_and_datetimes_give_the_same():
    names = ["hour", "dayofweek", "month_end", "fourier:yearly:2", "time"]
    days = pl.date_range(date(2020, 1, 1), date(2021, 3, 1), "1d", eager=True)
    np.testing.assert_array_equal(calendar(names, days), calendar(names, days.cast(pl.Datetime("ms"))))


def test_zoned_times_count_by_the_wall_clock():
    # 23:00 UTC on 30 June is 01:00 on 1 July in Berlin.
    times = pl.Series([datetime(2024, 6, 30, 23)]).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
    found = calendar(["hour", "month", "month_start", "fourier:daily:1"], times)
    assert found[0].tolist() == pytest.approx(
        [1 / 23 - 0.5, 6 / 11 - 0.5, 1, np.sin(2 * np.pi / 24), np.cos(2 * np.pi / 24)], abs=1e-6
    )


def test_repeated_and_unsorted_times_equal_the_sorted_ones():
    names = ["hour", "dayofweek", "fourier:24:2", "time", "holidays:US"]
    times = hours(500)
    once = calendar(names, times, freq="1h")
    order = np.random.default_rng(0).integers(0, 500, size=3000)
    order[:2] = 0, 499
    np.testing.assert_array_equal(calendar(names, times[order], freq="1h"), once[order])


def test_fourier_by_hand_on_whole_numbers():
    found = calendar(["fourier:4:2"], pl.Series([0, 1, 2, 3, 4]))
    sine, cosine = [0, 1, 0, -1, 0], [1, 0, -1, 0, 1]
    np.testing.assert_allclose(found[:, 0], sine, atol=1e-6)
    np.testing.assert_allclose(found[:, 1], cosine, atol=1e-6)
    np.testing.assert_allclose(found[:, 3], [1, -1, 1, -1, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("freq", "pandas"), [("1h", "h"), ("15m", "15min"), ("1d", "D"), ("1mo", "MS"), ("1q", "QS"), ("1bd", "B")]
)
def test_fourier_of_steps_continues_into_the_horizon(freq, pandas):
    stamps = pl.Series(pd.date_range("2021-01-04", periods=60, freq=pandas).to_numpy())
    whole = calendar(["fourier:12:3"], stamps, freq=freq)
    np.testing.assert_array_equal(calendar(["fourier:12:3"], stamps[50:], freq=freq), whole[50:])
    np.testing.assert_allclose(whole[12:], whole[:-12], atol=1e-5)
    # One step is one twelfth of the circle: the inner product of neighbours is its cosine.
    neighbours = (whole[1:, :2] * whole[:-1, :2]).sum(axis=1)
    np.testing.assert_allclose(neighbours, np.cos(2 * np.pi / 12), atol=1e-5)


def test_named_fourier_periods_by_hand():
    # A Tuesday at 06:00: a quarter of the day, 1.25 of 7 days since Monday; 1 January at noon is half a day of 366.
    found = calendar(["fourier:daily:1", "fourier:weekly:1"], pl.Series([datetime(2024, 1, 2, 6)]))
    turn = 2 * np.pi * 1.25 / 7
    assert found[0].tolist() == pytest.approx([1, 0, np.sin(turn), np.cos(turn)], abs=1e-6)
    yearly = calendar(["fourier:yearly:1"], pl.Series([datetime(2024, 1, 1, 12)]))
    assert yearly[0].tolist() == pytest.approx([np.sin(np.pi / 366), np.cos(np.pi / 366)], abs=1e-6)


def test_time_is_the_place_in_the_training_span():
    times = pl.Series([datetime(2024, 1, 1), datetime(2024, 1, 3), datetime(2024, 1, 5)])
    assert calendar(["time"], times).flatten().tolist() == pytest.approx([-0.5, 0, 0.5])
    later = pl.Series([datetime(2024, 1, 7)])
    span = (np.datetime64("2024-01-01"), np.datetime64("2024-01-05"))
    assert calendar(["time"], later, span=span).item() == pytest.approx(1.0)
    assert calendar(["time"], pl.Series([15]), span=(0, 10)).item() == pytest.approx(1.0)
    assert np.isfinite(calendar(["time"], pl.Series([3, 3]))).all()


def test_holidays_of_a_country_and_a_subdivision():
    days = pl.Series([date(2024, 7, 4), date(2024, 7, 5), date(2024, 10, 3), date(2024, 11, 1)])
    found = calendar(["holidays:US", "holidays:DE", "holidays:DE-BY"], days)
    # Independence Day; German Unity Day; All Saints' Day is a holiday in Bavaria.
    assert found[:, 0].tolist() == [1, 0, 0, 0]
    assert found[:, 1].tolist() == [0, 0, 1, 0]
    assert found[:, 2].tolist() == [0, 0, 1, 1]


def test_columns_and_roles():
    features = parse_features(["hour", "Day_Of_Week", "fourier:24:2", "lag:3", "rolling_mean:7"])
    assert [feature.role for feature in features] == ["future", "future", "future", "historical", "historical"]
    assert features[1].columns == ("dayofweek",)
    assert features[2].columns == ("fourier_24_sin1", "fourier_24_cos1", "fourier_24_sin2", "fourier_24_cos2")
    assert (features[3].columns, features[4].columns) == (("lag_3",), ("rolling_mean_7",))
    assert calendar(features, hours(5), freq="1h").shape == (5, 6)
    assert history(features, np.ones(4, dtype=np.float32), np.array([0, 4])).shape == (4, 2)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("dayofwek", "did you mean dayofweek"),
        ("rolling_men:3", "did you mean rolling_mean:24"),
        ("hour:2", "takes no arguments"),
        ("lag:0", "written like 'lag:24'"),
        ("lag:x", "written like 'lag:24'"),
        ("fourier:24", "written like 'fourier:24:3'"),
        ("fourier:24:13", "half its period"),
        ("fourier:hourly:1", "daily, weekly or yearly"),
        ("fourier:nan:1", "number of steps above 1"),
        ("holidays:XX", "two-letter code"),
        ("holidays:DE-XX", "subdivisions"),
        ("zzzzzz", "known are"),
    ],
)
def test_misspelt_features_get_a_sentence(name, sentence):
    with pytest.raises(ConfigError, match=sentence):
        parse_features([name])


def test_mistakes_around_features():
    with pytest.raises(UnknownNameError):
        parse_features(["nothing like it"])
    with pytest.raises(ConfigError, match=r"features=\['hour'\]"):
        parse_features("hour")
    with pytest.raises(ConfigError, match="hour twice"):
        parse_features(["hour", "Hour"])
    with pytest.raises(ConfigError, match="need dates, but the time column holds whole numbers"):
        calendar(["hour", "time"], pl.Series([1, 2]))
    with pytest.raises(ConfigError, match="fourier:daily:1 need dates"):
        calendar(["fourier:daily:1"], pl.Series([1, 2]))
    with pytest.raises(ConfigError, match="Give freq"):
        calendar(["fourier:24:1"], hours(3))
    with pytest.raises(DataError, match="whole numbers, but got String"):
        calendar(["hour"], pl.Series(["a"]))
    with pytest.raises(DataError, match="1 of 2 have none"):
        calendar(["hour"], pl.Series([datetime(2024, 1, 1), None]))


def test_history_by_hand():
    y = np.array([1, 2, 0, 4, 5, 0, 7, 0, 0], dtype=np.float32)
    mask = np.array([1, 1, 0, 1, 1, 0, 1, 0, 0], dtype=bool)
    found = history(
        ["lag:2", "rolling_mean:2", "rolling_std:2", "rolling_min:2", "rolling_max:2"], y, np.array([0, 5, 9]), mask
    )
    assert found[:, 0].tolist() == [1, 1, 1, 2, 2, 0, 7, 7, 7]
    assert found[:, 1].tolist() == [1, 1.5, 2, 4, 4.5, 0, 7, 7, 7]
    assert found[:, 2].tolist() == [0, 0.5, 0, 0, 0.5, 0, 0, 0, 0]
    assert found[:, 3].tolist() == [1, 1, 2, 4, 4, 0, 7, 7, 7]
    assert found[:, 4].tolist() == [1, 2, 2, 4, 5, 0, 7, 7, 7]


HISTORICAL = ["lag:1", "lag:5", "rolling_mean:3", "rolling_std:3", "rolling_min:4", "rolling_max:4"]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_history_uses_nothing_later_and_no_other_series(data):
    lengths = data.draw(st.lists(st.integers(1, 10), min_size=1, max_size=3))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    numbers = st.floats(-100, 100, width=32)
    y = data.draw(hnp.arrays(np.float32, int(offsets[-1]), elements=numbers))
    mask = data.draw(st.one_of(st.none(), hnp.arrays(np.bool_, len(y))))
    row = data.draw(st.integers(0, len(y) - 1))
    series = int(np.searchsorted(offsets, row, side="right")) - 1
    before = history(HISTORICAL, y, offsets, mask)
    assert np.isfinite(before).all()
    inside = slice(int(offsets[series]), row + 1)
    changed = np.full_like(y, 999)
    changed[inside] = y[inside]
    after = history(HISTORICAL, changed, offsets, mask)
    np.testing.assert_allclose(after[inside], before[inside], rtol=1e-5, atol=1e-4)


def test_history_against_pandas_rolling():
    random = np.random.default_rng(0)
    y = random.normal(size=300).astype(np.float32)
    found = history(["rolling_mean:24", "rolling_std:24", "lag:7"], y, np.array([0, 300]))
    rolling = pd.Series(y.astype(float)).rolling(24, min_periods=1)
    np.testing.assert_allclose(found[:, 0], rolling.mean(), atol=1e-6)
    np.testing.assert_allclose(found[:, 1], rolling.std(ddof=0), atol=1e-6)
    np.testing.assert_array_equal(found[7:, 2], y[:-7])


def test_no_features_and_no_rows():
    assert calendar([], hours(3)).shape == (3, 0)
    assert calendar(["hour"], hours(3)[:0]).shape == (0, 1)
    assert history([], np.ones(2, dtype=np.float32), np.array([0, 2])).shape == (2, 0)


@pytest.mark.parametrize(
    ("name", "role"),
    [("day", {"time_col": "day"}), ("month", {"future": ["month"]}), ("week", {"weight": "week"})],
)
def test_a_feature_must_not_have_the_name_of_a_column(name: str, role: dict[str, Any]) -> None:
    times = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 9), "1d", eager=True)
    table = pl.DataFrame({"ds": times, "y": [1.0] * 9, "month": [1.0] * 9, "week": [1.0] * 9, "day": times})
    with pytest.raises(DataError, match=f"name of a column of the table, but got '{name}'"):
        TimeSeriesDataFrame.from_frame(table, features=[name], **role)


def test_a_model_that_knows_a_feature_and_a_column_of_one_name_reads_new_data() -> None:
    """The schema of a model that was saved before such names were refused."""
    times = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 9), "1d", eager=True)
    table = pl.DataFrame({"when": times, "y": [1.0] * 9})
    known = TimeSeriesDataFrame.from_frame(table, time_col="when", features=["time", "lag:1"])
    old = known.schema.replace(time_col="time")
    again = TimeSeriesDataFrame.from_frame(table.rename({"when": "time"}), schema=old)
    assert again.store.fingerprint() == known.store.fingerprint()
    assert again.schema == old


def test_time_in_a_zone_goes_from_the_first_row_to_the_last_without_a_warning() -> None:
    times = pl.datetime_range(pl.datetime(2024, 3, 30), pl.datetime(2024, 4, 1), "12h", time_zone="UTC", eager=True)
    table = pl.DataFrame({"ds": times.dt.convert_time_zone("Europe/London"), "y": [1.0] * 5})
    data = TimeSeriesDataFrame.from_frame(table, features=["time"])
    assert data.store.future is not None
    assert data.store.future[:, 0].tolist() == [-0.5, -0.25, 0.0, 0.25, 0.5]
