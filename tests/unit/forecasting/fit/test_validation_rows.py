"""Validation rows that the user gives: joined to the training rows without changing either."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.data.join import joined, later_rows

FAST = nd.TrainingConfig(max_steps=3, progress=False)


def table(rows=40, name="a", start=0, level=0.0):
    y = level + 20 * np.sin(np.arange(start, start + rows) * 2 * np.pi / 12)
    return pl.DataFrame({"unique_id": [name] * rows, "ds": np.arange(start, start + rows), "y": y})


def test_lags_of_scaled_series_are_those_of_the_forecast():
    # A sine around 1000 whose last season is a column of the input: an error near the level means that the lags of the
    # training had other units than those of the forecast.
    data, config = table(240, level=1000.0), nd.TrainingConfig(max_steps=200, progress=False, seed=1)
    models = nd.NeuralForecast([nd.MLP(h=6, input_size=12)], local_scaler_type="standard")
    models.fit(data[:180], config, validation=data[180:], features=["lag:12"])
    expected = 1000 + 20 * np.sin(np.arange(240, 246) * 2 * np.pi / 12)
    assert np.abs(models.predict()["MLP"].to_numpy() - expected).max() < 40


def test_rows_masked_when_reading_are_not_filled_when_validation_rows_are_joined():
    rows = table()
    train = nd.TimeSeriesDataFrame.from_frame(rows[:30].filter(pl.col("ds") != 5), freq=1, gaps="mask", missing="zero")
    whole, lengths = joined(train, later_rows(train, rows[30:]))
    assert lengths.tolist() == [30]
    assert whole.store.mask is not None
    assert np.flatnonzero(~whole.store.mask).tolist() == [5]
    assert whole.schema.missing == "zero"


@pytest.mark.parametrize("scaler", [None, "standard"])
def test_a_gap_is_no_missing_target_when_validation_rows_are_given(scaler):
    rows = table()
    models = nd.NeuralForecast([nd.DLinear(h=2, input_size=4)], local_scaler_type=scaler)
    models.fit(rows[:30].filter(pl.col("ds") != 5), FAST, validation=rows[30:], missing="error", freq=1)
    assert models.predict()["ds"].to_list() == [40, 41]


@pytest.mark.parametrize("scaler", [None, "standard"])
def test_series_that_the_training_dropped_are_dropped_from_the_validation(scaler):
    flat = pl.DataFrame({"unique_id": ["flat"] * 40, "ds": np.arange(40), "y": [7.0] * 40})
    rows = pl.concat([table(), flat])
    models = nd.NeuralForecast([nd.DLinear(h=2, input_size=4)], local_scaler_type=scaler)
    models.fit(rows.filter(pl.col("ds") < 30), FAST, validation=rows.filter(pl.col("ds") >= 30), constant="drop")
    assert models.predict()["unique_id"].to_list() == ["a", "a"]


def test_a_series_that_was_never_there_is_refused_in_the_validation():
    rows = table()
    with pytest.raises(nd.DataError, match="new ones"):
        nd.DLinear(h=2, input_size=4).fit(rows[:30], FAST, validation=table(10, "b", 30))
