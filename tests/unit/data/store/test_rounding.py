"""Large values that float32 merges are counted and reported, and float64 keeps them."""

import logging

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.data.store.rounding import merged_by_rounding
from neuro_divergent.data.store.store import SeriesStore


def rows(*series):
    parts = [
        pl.DataFrame({"unique_id": name, "ds": np.arange(len(values)), "y": values})
        for name, values in zip("abcdefg", series, strict=False)
    ]
    return pl.concat(parts)


def test_thirty_values_near_a_milliard_are_not_called_constant(caplog):
    """float32 has one number in every 64 near 1e9, so 30 neighbours become 1 and 29 are lost; b loses nothing."""
    frame = rows(1e9 + np.arange(30.0), np.arange(30.0))
    with caplog.at_level(logging.WARNING):
        table = nd.TimeSeriesDataFrame.from_frame(frame, constant="error")
    assert table.report().merged_targets == {"a": 29}
    assert table.report().constant_series == ()
    assert "29 targets became equal to another by rounding ('a': 29)" in str(table.report())
    assert 'dtype="float64"' in caplog.text
    assert 'precision="float64"' in caplog.text


@pytest.mark.parametrize("kind", [pl.Int64, pl.String, pl.Float64])
def test_numbers_of_every_type_are_looked_at(kind):
    frame = rows(1e9 + np.arange(30.0)).with_columns(pl.col("y").cast(pl.Int64).cast(kind)).sample(fraction=1, seed=1)
    assert nd.TimeSeriesDataFrame.from_frame(frame).report().merged_targets == {"a": 29}


def test_what_float32_can_tell_apart_is_no_finding(caplog):
    draw = np.random.default_rng(0)
    frame = rows(
        draw.normal(1e4, 10, 200),  # 20,000 numbers of float32 in a range of 20
        np.full(200, 1e9),  # constant in any precision
        np.where(np.arange(200) % 2, 0.1 + 0.2, 0.3),  # equal but for the rounding of float64
        np.r_[draw.normal(size=199), np.nan],
        np.arange(200.0) * 1e7,
    )
    with caplog.at_level(logging.WARNING):
        table = nd.TimeSeriesDataFrame.from_frame(frame)
    assert table.report().merged_targets == {}
    assert not caplog.records
    assert table.report().constant_series == ("b", "c")


def test_runs_of_a_series_are_counted_together():
    """Three series in six runs; by hand: 16777216.0 and 16777217.0 are one number of float32, 16777218.0 is another."""
    values = np.array([16777216.0, 1.0, 16777217.0, 16777218.0, 2.0, np.nan])
    first, series = np.array([0, 1, 2, 4]), np.array([0, 1, 0, 2])
    assert merged_by_rounding(values, first, series, 3).tolist() == [1, 0, 0]


def test_a_streamed_table_says_so_too(tmp_path, caplog):
    rows(1e9 + np.arange(30.0), np.arange(30.0)).write_parquet(tmp_path / "rows.parquet")
    with caplog.at_level(logging.WARNING):
        SeriesStore.create(tmp_path / "store", tmp_path / "rows.parquet")
    assert "29 different targets became equal to another, 29 of them in series 'a'" in caplog.text


def test_forecasts_and_scores_in_float64_only_shift_with_the_values():
    """y + 1e9 has the forecasts of y, plus 1e9, and the same errors."""
    step = np.arange(80.0)
    y = 10 + 3 * np.sin(step / 5) + np.random.default_rng(0).normal(0, 0.3, len(step))
    config = nd.TrainingConfig(max_steps=10, seed=0, precision="float64", validation_split=None)
    found = []
    for shift in (0.0, 1e9):
        table = nd.TimeSeriesDataFrame.from_frame(rows(y + shift), dtype="float64")
        fitted = nd.MLP(h=4, input_size=12, hidden_size=8).fit(table.drop_last(4), config)
        scores = fitted.evaluate(table, metrics=["mae", "rmse"]).table
        found.append((fitted.predict()["MLP"].to_numpy() - shift, scores[0, "mae"], scores[0, "rmse"]))
    for low, high in zip(*found, strict=True):
        assert high == pytest.approx(low, abs=1e-5)  # float64 has 1e-7 near 1e9


def test_a_training_in_float32_on_a_table_in_float64_is_warned_about(caplog):
    table = nd.TimeSeriesDataFrame.from_frame(rows(1e9 + np.arange(30.0)), dtype="float64")
    with caplog.at_level(logging.WARNING):
        nd.MLP(h=2, input_size=4, hidden_size=4).fit(table, nd.TrainingConfig(max_steps=1, precision="float64"))
        assert not caplog.records
        nd.MLP(h=2, input_size=4, hidden_size=4).fit(table, nd.TrainingConfig(max_steps=1))
    assert 'train with precision="float64"' in caplog.text
