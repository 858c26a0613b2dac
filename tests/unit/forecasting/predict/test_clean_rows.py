"""The quick reader gives what the full reader gives, or leaves a frame to it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.predict.clean_rows import CleanReader

H = 3


def hours(unit="us", rows=30, name="a"):
    times = pd.date_range("2024-01-01", periods=rows, freq="h").as_unit(unit)
    return pd.DataFrame({"unique_id": name, "ds": times, "y": np.arange(rows) ** 1.5})


def months(rows=30, day=0):
    return hours(rows=rows).assign(ds=pd.date_range("2020-01-01", periods=rows, freq="MS") + pd.Timedelta(days=day))


def read(frame, like=None, **options):
    """By the quick reader, and by the full one, of a table that was read from `like`."""
    known = nd.TimeSeriesDataFrame.from_frame(frame if like is None else like, **options)
    return CleanReader.of(known).table(frame), nd.TimeSeriesDataFrame.from_frame(frame, schema=known.schema)


CLEAN = {
    "us": hours(),
    "ns": hours("ns"),
    "ms": hours("ms"),
    "month starts": months(),
    "the 29th of every month": months().assign(
        ds=[pd.Timestamp("2020-01-29") + pd.DateOffset(months=month) for month in range(30)]
    ),
    "the 30th of every month, from February on": months().assign(
        ds=[pd.Timestamp("2019-01-30") + pd.DateOffset(months=month) for month in range(1, 31)]
    ),
    "month ends": months().assign(ds=pd.date_range("2020-01-31", periods=30, freq="ME")),
    "business days": hours().assign(ds=pd.date_range("2024-01-01", periods=30, freq="B")),
    "weeks": hours().assign(ds=pd.date_range("2024-01-01", periods=30, freq="W")),
    "whole times": hours().assign(ds=np.arange(30) * 5),
    "whole ids": hours().assign(unique_id=7),
    "object ids": hours().astype({"unique_id": object}),
    "no ids": hours().drop(columns="unique_id"),
    "whole targets": hours().assign(y=np.arange(30)),
    "float32": hours().astype({"y": np.float32}),
    "more columns": hours().assign(note="x", other=1.0),
    "another index": hours().set_index(pd.Index(range(100, 130), name="row")),
    "one row": hours(rows=1),
    "polars us": pl.from_pandas(hours()),
    "polars ns": pl.from_pandas(hours("ns")),
    "polars dates": pl.from_pandas(hours().assign(ds=pd.date_range("2024-01-01", periods=30))).with_columns(
        pl.col("ds").cast(pl.Date)
    ),
    "polars months": pl.from_pandas(months()),
}


@pytest.mark.parametrize("frame", CLEAN.values(), ids=CLEAN)
def test_a_clean_series_is_read_as_the_full_reader_reads_it(frame):
    like = hours() if len(frame) == 1 else frame
    quick, full = read(frame, like)
    assert quick is not None
    assert quick.fingerprint == full.fingerprint
    assert (quick.schema, quick.library) == (full.schema, full.library)
    assert quick.future_times(H).equals(full.future_times(H))
    assert quick.future_times(H).dtype == full.future_times(H).dtype


def test_times_come_back_in_the_type_of_the_frame_that_is_read():
    quick, full = read(hours("ns"), hours("us"))
    assert quick.schema == full.schema
    assert quick.schema.time_type == "datetime[ns]"


def changed(**columns):
    return hours().assign(**columns)


LEFT = {
    "a gap": hours().drop(index=[5, 6]),
    "rows out of order": hours()[::-1],
    "a row twice": pd.concat([hours(), hours()[-1:]]),
    "two series": pd.concat([hours(), hours(name="b")]),
    "a missing target": changed(y=[np.nan, *range(29)]),
    "text targets": changed(y=[str(row) for row in range(30)]),
    "nullable targets": changed(y=pd.array(range(30), dtype="Int64")),
    "categories": hours().astype({"unique_id": "category"}),
    "numpy text of another kind": hours()
    .astype({"unique_id": pd.StringDtype("python", na_value=pd.NA)})
    .assign(unique_id=lambda frame: frame["unique_id"].where(frame.index > 3)),
    "half a microsecond": changed(ds=hours("ns")["ds"] + pd.Timedelta(1, "ns")),
    "seconds": hours("s"),
    "ids in the index": hours().set_index("unique_id"),
    "columns that are no text": hours().rename(columns={"y": 0}),
    "a column twice": pd.concat([hours(), hours()[["y"]]], axis=1),
    "a missing time": changed(ds=hours()["ds"].where(hours().index > 3)),
    "too large a target": changed(y=1e300),
    "a series": hours().set_index("ds")["y"],
    "a dict": {"unique_id": ["a"], "ds": [1], "y": [1.0]},
    "no rows": hours()[:0],
}


@pytest.mark.parametrize("frame", LEFT.values(), ids=LEFT)
def test_what_is_not_clean_is_left_to_the_full_reader(frame):
    assert CleanReader.of(nd.TimeSeriesDataFrame.from_frame(hours())).table(frame) is None


def test_a_single_empty_time_is_no_date():
    known = nd.TimeSeriesDataFrame.from_frame(hours())
    for unit in ("ms", "us", "ns"):
        frame = hours(unit, 1).assign(ds=np.array(["NaT"], dtype=f"datetime64[{unit}]"))
        assert CleanReader.of(known).table(frame) is None


@pytest.mark.parametrize(
    "options",
    [
        {"future": ["note"]},
        {"static": ["note"], "categorical": ["note"]},
        {"features": ["hour"]},
        {"weight": "note"},
        {"time_zone": "UTC"},
        {"min_length": 3},
        {"constant": "drop"},
    ],
)
def test_tables_with_more_than_a_target_are_left_to_the_full_reader(options):
    frame = hours().assign(note="1" if "categorical" in options else 1.0)
    known = nd.TimeSeriesDataFrame.from_frame(frame, **options)
    assert CleanReader.of(known).table(frame) is None
