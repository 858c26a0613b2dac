"""Tables that are used together: what they must share, and the sentence that names what they do not."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.data.agreement import check_together


def table(lengths, start=0, factor=1.0, **options):
    """Row r of a series has the value factor * (r + 1)."""
    parts = [
        pl.DataFrame(
            {"unique_id": [name] * rows, "ds": range(start, start + rows), "y": factor * np.arange(1.0, rows + 1)}
        )
        for name, rows in lengths.items()
    ]
    return nd.TimeSeriesDataFrame.from_frame(pl.concat(parts), **{"freq": 1} | options)


def days(rows, first=dt.datetime(2024, 1, 1), **options):
    stamps = [first + dt.timedelta(days=row) for row in range(rows)]
    frame = pl.DataFrame({"unique_id": ["a"] * rows, "ds": stamps, "y": np.arange(float(rows))})
    return nd.TimeSeriesDataFrame.from_frame(frame, **options)


@pytest.mark.parametrize(
    ("first", "second", "relation", "words"),
    [
        (table({"a": 9}), days(9), "clock", "the same frequency, but the first table has '1i' and the second .* '1d'"),
        (days(9), days(9, time_zone="UTC"), "clock", "the same time zone, but the first table has None and .* 'UTC'"),
        (table({"a": 9}), table({"a": 9}, 8), "later", "series 'a' is trained up to 8 and validated from 8 on"),
        (days(9), days(9), "later", "is trained up to 2024-01-09 00:00:00 and validated from 2024-01-01 00:00:00 on"),
        (table({"a": 9}), table({"a": 9, "n": 9}, 9), "later", "has new series: 'n'"),
        (table({"a": 9, "b": 9}), table({"b": 9, "c": 9}), "ends", "only the first table has 'a' and only .* has 'c'"),
        (table({"a": 9}), table({"a": 8}), "ends", "series 'a' ends at 8 in the first table and at 7 in the second"),
        (table({"a": 9, "b": 8}), table({"a": 9, "b": 9}), "rows", "series 'b' ends at 7 in .* and at 8 in"),
        (table({"a": 9}), table({"a": 7}, 2), "rows", "series 'a' begins at 0 in .* and at 2 in"),
        (table({"a": 9}), table({"a": 9}, factor=1e3), "ends", "series 'a' has 9 at 8 in the first table and 9000 in"),
    ],
)  # fmt: skip
def test_what_differs_is_named(first, second, relation, words):
    with pytest.raises(nd.DataError, match=words):
        check_together(first, second, relation)


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        (table({"a": 9, "b": 9}), table({"b": 5}, 9), "later"),
        (table({"a": 9, "b": 20}), table({"a": 5}, 12), "later"),  # after its own series; a hole between is allowed
        (table({"a": 9}), table({"z": 4}, 50), "clock"),
        (table({"a": 9}, factor=2.0), table({"a": 9}, factor=2.0).tail(3), "ends"),  # as much as a saved model keeps
        (table({"a": 9}), table({"a": 9}), "rows"),
    ],
)
def test_what_belongs_together_is_taken(first, second, relation):
    check_together(first, second, relation)


def test_a_few_corrected_values_are_no_other_unit():
    """Three of the last eight values differ: revisions, not another unit."""
    y = np.arange(1.0, 21.0)
    revised = y.copy()
    revised[[15, 17, 19]] *= 2
    both = [nd.TimeSeriesDataFrame.from_frame({"ds": range(20), "y": values}) for values in (y, revised)]
    check_together(*both, "ends")
