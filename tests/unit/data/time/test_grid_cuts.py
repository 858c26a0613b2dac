"""Tables keep their grid when they are cut, saved, extended or read in pieces.

The expected stamps are those of the uncut table, counted by pandas from its first stamp (`Timestamp + DateOffset`).
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_series_equal

import neuro_divergent as nd
from neuro_divergent.data.join import later_rows, read_again
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.grid import grid_shifts
from neuro_divergent.data.windows.split import rows_before
from neuro_divergent.forecasting.evaluate.folds import newest

SANTIAGO, BERLIN = "America/Santiago", "Europe/Berlin"
BEIRUT, LORD_HOWE, NUUK = "Asia/Beirut", "Australia/Lord_Howe", "America/Nuuk"

# freq, the same step of pandas, first stamp, zone. In these zones the clock changes at midnight (Santiago, Beirut), at
# two or three (Berlin), by half an hour (Lord Howe), and at eleven, which moves a stamp to the next day (Nuuk).
GRIDS: list[tuple[str, Any, str, str | None]] = [
    ("1mo", pd.DateOffset(months=1), "2023-01-30", None),
    ("1mo", pd.DateOffset(months=1), "2023-12-29 06:30", None),
    ("1mo", pd.DateOffset(months=1), "2023-08-31", BERLIN),
    ("2mo", pd.DateOffset(months=2), "2022-12-30", None),
    ("1q", pd.DateOffset(months=3), "2023-05-31", None),
    ("1y", pd.DateOffset(years=1), "2000-02-29", None),
    ("ME", pd.offsets.MonthEnd(), "2023-01-31", None),
    ("QE", pd.offsets.QuarterEnd(), "2023-03-31", SANTIAGO),
    ("1d", pd.DateOffset(days=1), "2024-08-25", SANTIAGO),
    ("1d", pd.DateOffset(days=1), "2024-10-15 23:30", BEIRUT),
    ("1d", pd.DateOffset(days=1), "2024-03-20 00:00", BEIRUT),
    ("1d", pd.DateOffset(days=1), "2024-03-20 02:30", BERLIN),
    ("1d", pd.DateOffset(days=1), "2024-09-25 02:15", LORD_HOWE),
    ("1d", pd.DateOffset(days=1), "2024-03-20 23:00", NUUK),
    ("2d", pd.DateOffset(days=2), "2024-08-25", SANTIAGO),
    ("1bd", pd.offsets.BDay(), "2024-08-26", SANTIAGO),
    ("1bd", pd.offsets.BDay(), "2023-12-29", None),
    ("W-SUN", pd.DateOffset(weeks=1), "2024-07-07", SANTIAGO),
    ("W-WED", pd.DateOffset(weeks=1), "2024-01-03", None),
    ("15min", pd.Timedelta("15min"), "2024-10-26 22:00", BERLIN),
    ("1h", pd.Timedelta("1h"), "2024-09-07 20:00", SANTIAGO),
]
ROWS, AHEAD, KEPT = 40, 14, 4
GRID = st.integers(0, len(GRIDS) - 1)


@cache
def expected(number: int) -> pl.Series:
    """The stamps of an uncut table and of the steps after it."""
    _, step, first, zone = GRIDS[number]
    return stamps_of(step, first, zone)


def stamps_of(step: Any, first: str, zone: str | None) -> pl.Series:
    begin = pd.Timestamp(first, tz=zone)
    counted = pd.DatetimeIndex([begin + step * k if k else begin for k in range(ROWS + AHEAD)])
    return pl.from_pandas(counted).dt.cast_time_unit("us")


def frame(stamps: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"unique_id": "a", "ds": stamps, "y": np.arange(float(len(stamps)))})


def check(table: nd.TimeSeriesDataFrame, stamps: pl.Series, first: int, last: int) -> None:
    """The table has the stamps first to last, and goes on with those that follow."""
    assert_series_equal(table.times(0), stamps[first:last], check_names=False)
    assert_series_equal(table.all_times(), stamps[first:last], check_names=False)
    assert_series_equal(table.future_times(AHEAD), stamps[last : last + AHEAD], check_names=False)


@cache
def uncut(number: int) -> nd.TimeSeriesDataFrame:
    return nd.TimeSeriesDataFrame.from_frame(frame(expected(number)[:ROWS]), freq=GRIDS[number][0])


def check_cuts(grid: int, first: int, last: int, least: int) -> None:
    """Two cuts one after the other; then rows of a known series that come later, or again: they may all be moved."""
    whole, stamps = uncut(grid), expected(grid)
    check(whole, stamps, 0, ROWS)
    last = max(last, first + 1)
    cut = whole.tail(ROWS - first).head(last - first)
    check(cut, stamps, first, last)
    second = max(first, last - least)
    again = cut.select(["a"]).tail(least)
    check(again, stamps, second, last)
    if second >= 3:
        check(again.with_min_length(last - second + 3, "pad"), stamps, second - 3, last)
    middle = (second + last) // 2
    utc = stamps.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if GRIDS[grid][3] else stamps
    assert rows_before(again.store, utc.to_numpy()[middle]).tolist() == [middle - second]
    check(later_rows(whole, frame(stamps[second:last])), stamps, second, last)
    check(read_again(again.to_polars(), again.schema, (again,)), stamps, second, last)


def check_files(grid: int, first: int, gaps: bool) -> None:
    """Ten rows or more say which grid it is; read whole or in pieces, sorted or not, the store is the same."""
    freq, stamps, whole = GRIDS[grid][0], expected(grid), uncut(grid)
    rows = frame(stamps[:ROWS])[first:]
    kept = rows.filter(~pl.int_range(pl.len()).is_in([2, 3])) if gaps else rows
    table = nd.TimeSeriesDataFrame.from_frame(kept, freq=freq)
    check(table, stamps, first, ROWS)
    if not gaps:
        assert table.fingerprint == whole.tail(ROWS - first).fingerprint
    with tempfile.TemporaryDirectory() as folder:
        kept.reverse().write_parquet(Path(folder) / "rows.parquet")
        store = SeriesStore.create(Path(folder) / "store", Path(folder) / "rows.parquet", freq=table.freq)
        assert store.fingerprint() == table.fingerprint
        check(nd.TimeSeriesDataFrame.from_store(store, table.schema), stamps, first, ROWS)


@cache
def model() -> nd.Forecaster:
    config = nd.TrainingConfig(max_steps=1, validation_split=None)
    return nd.MLP(h=AHEAD, input_size=KEPT, hidden_size=2, layers=1).fit(uncut(0), config)


def check_saved(grid: int, last: int) -> None:
    """A saved model keeps the last rows of its table; what it forecasts from them follows the whole table."""
    fitted, stamps = model(), expected(grid)
    fitted.data = uncut(grid).head(last)
    with tempfile.TemporaryDirectory() as folder:
        fitted.save(Path(folder) / "model")
        loaded = nd.load(Path(folder) / "model")
    check(loaded.data, stamps, last - KEPT, last)
    for found in (loaded.predict()["ds"], loaded.make_future_dataframe()["ds"]):
        assert_series_equal(found, stamps[last : last + AHEAD], check_names=False)


CUTS = (GRID, st.integers(0, ROWS - 2), st.integers(2, ROWS), st.integers(1, ROWS))
FILES = (GRID, st.integers(0, ROWS - 10), st.booleans())
SAVED = (GRID, st.integers(KEPT, ROWS))


@settings(max_examples=30, deadline=None)
@given(*CUTS)
@example(0, 1, ROWS, 5)  # the 30th of the month, cut in February
@example(8, 14, 20, 3)  # midnight in Santiago, cut where it does not exist
@example(13, 10, 12, 1)
def test_a_cut_table_keeps_the_stamps_of_the_whole(grid: int, first: int, last: int, least: int) -> None:
    check_cuts(grid, first, last, least)


@settings(max_examples=8, deadline=None)
@given(*FILES)
@example(0, 1, False)
@example(8, 14, True)
@example(5, 3, False)
def test_a_file_that_begins_with_a_moved_stamp_is_on_the_grid_of_its_other_rows(
    grid: int, first: int, gaps: bool
) -> None:
    check_files(grid, first, gaps)


@settings(max_examples=5, deadline=None)
@given(*SAVED)
@example(0, 25 + KEPT)  # February, 2025
@example(8, 14 + KEPT)
@example(12, 11 + KEPT)  # Lord Howe
def test_a_saved_model_keeps_the_stamps_of_the_whole(grid: int, last: int) -> None:
    check_saved(grid, last)


@pytest.mark.stress
@settings(max_examples=300, deadline=None)
@given(*SAVED)
def test_many_saved_models_keep_the_stamps_of_the_whole(grid: int, last: int) -> None:
    check_saved(grid, last)


@pytest.mark.stress
@settings(max_examples=1500, deadline=None)
@given(*CUTS)
def test_many_cut_tables_keep_the_stamps_of_the_whole(grid: int, first: int, last: int, least: int) -> None:
    check_cuts(grid, first, last, least)


@pytest.mark.stress
@settings(max_examples=300, deadline=None)
@given(*FILES)
def test_many_files_that_begin_with_a_moved_stamp(grid: int, first: int, gaps: bool) -> None:
    check_files(grid, first, gaps)


def test_months_on_the_thirtieth_are_found_without_being_told() -> None:
    days = ["2023-02-28", "2023-03-30", "2023-04-30", "2023-05-30", "2023-06-30"]
    table = nd.TimeSeriesDataFrame.from_frame({"ds": days, "y": [1.0, 2.0, 3.0, 4.0, 5.0]})
    assert table.freq == "1mo"
    assert [str(day) for day in table.future_times(2)] == ["2023-07-30", "2023-08-30"]


def test_a_month_that_starts_and_ends_on_its_last_day_is_no_month_end() -> None:
    """June and September have thirty days; July and August in between are stamped on the 30th as well."""
    days = ["2023-06-30", "2023-07-30", "2023-08-30", "2023-09-30"]
    table = nd.TimeSeriesDataFrame.from_frame({"ds": days, "y": [1.0, 2.0, 3.0, 4.0]}, freq="1mo")
    assert str(table.future_times(1)[0]) == "2023-10-30"


def test_rows_on_no_grid_are_still_refused() -> None:
    days = ["2023-02-28", "2023-03-30", "2023-04-29"]
    with pytest.raises(nd.DataError, match="must follow the frequency 1mo as given"):
        nd.TimeSeriesDataFrame.from_frame({"ds": days, "y": [1.0, 2.0, 3.0]}, freq="1mo")


def test_series_that_start_later_are_on_the_grid_of_one_that_starts_with_a_moved_stamp() -> None:
    """Midnight in Santiago from September the 8th, 2024, which has none, and from the 11th: three steps later."""
    stamps = expected(8)
    panel = pl.concat([frame(stamps[:30]), frame(stamps[17:30]).with_columns(unique_id=pl.lit("b"))])
    table = nd.TimeSeriesDataFrame.from_frame(panel).tail(16)
    assert str(table.times(0)[0]) == "2024-09-08 01:00:00-03:00"
    assert grid_shifts(table.store).tolist() == [0, 3]
    assert newest(table).tolist() == [16, 13]


def test_a_panel_that_is_cut_keeps_the_grid_of_each_series() -> None:
    """Series on the 15th, 30th and 31st; cut to begin in February, only the first one still shows its day."""
    begins = {"a": "2023-01-15", "b": "2023-01-30", "c": "2023-01-31"}
    parts = [stamps_of(pd.DateOffset(months=1), begin, None) for begin in begins.values()]
    panel = pl.concat(
        [frame(part[:14]).with_columns(unique_id=pl.lit(name)) for name, part in zip(begins, parts, strict=True)]
    )
    table = nd.TimeSeriesDataFrame.from_frame(panel, freq="1mo").tail(1)
    assert [str(day)[:10] for day in table.all_times()] == ["2024-02-15", "2024-02-29", "2024-02-29"]
    assert [str(day)[:10] for day in table.future_times(2)] == [
        "2024-03-15", "2024-04-15", "2024-03-30", "2024-04-30", "2024-03-31", "2024-04-30",
    ]  # fmt: skip
