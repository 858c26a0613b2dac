"""What is taken over although it is probably a mistake: counted, logged, and refused when the policy says so."""

import logging
from datetime import datetime, timedelta

import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.data.store.store import SeriesStore

DAYS = [datetime(2024, 1, 1) + timedelta(days=day) for day in range(33)]


def shop(**options):
    frame = pl.DataFrame({"ds": DAYS[:30], "y": range(30), "promo": ["none", "sale"] * 15})
    return nd.TimeSeriesDataFrame.from_frame(frame, categorical="promo", future=(), **options)


def ahead(*values):
    return pl.DataFrame({"ds": DAYS[30:], "promo": values}, schema_overrides={"promo": pl.String})


def test_unknown_and_empty_categories_of_a_future_table_are_counted_in_a_warning(caplog):
    table = shop()
    with caplog.at_level(logging.WARNING):
        codes = table.future_values(ahead("sale", "SALE", None), 3).categorical
    assert codes.ravel().tolist() == [2, 0, 0]
    (record,) = caplog.records
    said = record.getMessage()
    assert "column 'promo' must hold known categories, but got 'SALE' at row 1 of the future table and 1 more" in said
    assert 'unknown_categories="error"' in said
    caplog.clear()
    table.future_values(ahead("sale", "none", "sale"), 3)
    assert not caplog.records


@pytest.mark.parametrize(("value", "said"), [("SALE", "'SALE' at row 2"), (None, "an empty cell at row 2")])
def test_unknown_categories_of_a_future_table_are_refused_by_policy(value, said):
    with pytest.raises(nd.DataError, match=f"must hold known categories, but got {said} of the future table"):
        shop(unknown_categories="error").future_values(ahead("sale", "none", value), 3)


def test_the_policy_holds_for_the_rows_of_a_table_too(caplog):
    later = pl.DataFrame({"ds": DAYS[:2], "y": [1.0, 2.0], "promo": ["sale", "SALE"]})
    with caplog.at_level(logging.WARNING):
        read = nd.TimeSeriesDataFrame.from_frame(later, schema=shop().schema)
    assert read.report().unknown_categories == {"promo": 1}
    assert "but got 'SALE' at series 'y', row 1" in caplog.text
    with pytest.raises(nd.DataError, match="must hold known categories, but got 'SALE'"):
        nd.TimeSeriesDataFrame.from_frame(later, schema=shop(unknown_categories="error").schema)
    empty = later.with_columns(promo=pl.Series(["sale", None]))
    with pytest.raises(nd.DataError, match="must hold known categories, but got an empty cell"):
        nd.TimeSeriesDataFrame.from_frame(empty, categorical="promo", future="promo", unknown_categories="error")


def test_a_given_frequency_that_leaves_most_rows_empty_is_warned_about(caplog, tmp_path):
    """30 days by the hour are 29 * 24 + 1 = 697 rows, of which 667 are absent: 96 %."""
    frame = pl.DataFrame({"unique_id": "a", "ds": DAYS[:30], "y": [float(day) for day in range(30)]})
    with caplog.at_level(logging.WARNING):
        table = nd.TimeSeriesDataFrame.from_frame(frame, freq="1h")
    said = "a frequency of 1h leaves 96 % of the rows without a value: 667 of 697 are missing and masked"
    assert said in caplog.text
    assert "The rows look like a frequency of 1d" in caplog.text
    assert said in str(table.report())
    with pytest.raises(nd.DataError, match="must have no gaps, but 667 rows are missing"):
        nd.TimeSeriesDataFrame.from_frame(frame, freq="1h", gaps="error")
    caplog.clear()
    frame.with_columns(pl.col("ds").dt.cast_time_unit("us")).write_parquet(tmp_path / "rows.parquet")
    with caplog.at_level(logging.WARNING):
        SeriesStore.create(tmp_path / "store", tmp_path / "rows.parquet", freq="1h")
    assert said in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        nd.TimeSeriesDataFrame.from_frame(frame, freq="1d")
        nd.TimeSeriesDataFrame.from_frame(frame[[0, *range(2, 20)]], freq="1d")
    assert not caplog.records
