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
def test_a_gap_across_the_cut_is_filled_from_both_sides_and_opens_again_at_it(scaler):
    """By hand: row 27 is 27 and row 32 is 32; the training rows end at row 29, where nobody knows of row 32."""
    line = pl.when(~pl.col("ds").is_between(28, 31)).then(pl.col("ds").cast(pl.Float64))
    rows = table().with_columns(y=line)
    train = nd.TimeSeriesDataFrame.from_frame(rows[:30], freq=1, missing="linear")
    assert train.store.y[27:].tolist() == [27, 27, 27]
    whole, _ = joined(train, later_rows(train, rows[30:]))
    assert whole.store.y.tolist() == list(range(40))
    assert np.flatnonzero(~whole.store.mask).tolist() == [28, 29, 30, 31]
    assert whole.head(30).store.y[27:].tolist() == [27, 27, 27]
    models = nd.NeuralForecast([nd.DLinear(h=2, input_size=4)], local_scaler_type=scaler)
    models.fit(train, FAST, validation=rows[30:])
    assert np.isfinite(models.predict()["DLinear"].to_numpy()).all()


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
    with pytest.raises(nd.DataError, match="has new series"):
        nd.DLinear(h=2, input_size=4).fit(rows[:30], FAST, validation=table(10, "b", 30))


@pytest.mark.parametrize("scaler", [None, "standard"])
@pytest.mark.parametrize(
    ("train", "validation", "words"),
    [
        ((50, 100), (0, 50), "series 'a' is trained up to 99 and validated from 0 on"),
        ((0, 60), (50, 100), "series 'a' is trained up to 59 and validated from 50 on"),
        ((0, 60), (59, 100), "series 'a' is trained up to 59 and validated from 59 on"),
    ],
)
def test_validation_that_is_not_later_than_the_training_is_refused(train, validation, words, scaler):
    rows = table(100)
    models = nd.NeuralForecast([nd.DLinear(h=2, input_size=4)], local_scaler_type=scaler)
    for duplicates in ("error", "last"):
        with pytest.raises(nd.DataError, match=words):
            models.fit(rows[slice(*train)], FAST, validation=rows[slice(*validation)], duplicates=duplicates, freq=1)


def test_each_series_is_validated_after_its_own_rows():
    """Series b is trained on later rows than those that a is validated on; a hole between the two parts is allowed."""
    train = pl.concat([table(30), table(60, "b")])
    later = pl.concat([table(10, start=32), table(10, "b", start=60)])
    fitted = nd.DLinear(h=2, input_size=4).fit(train, FAST, validation=later)
    assert fitted.data.store.lengths.tolist() == [42, 70]
    with pytest.raises(nd.DataError, match="series 'b' is trained up to 59 and validated from 32 on"):
        nd.DLinear(h=2, input_size=4).fit(train, FAST, validation=pl.concat([table(10, start=32), table(9, "b", 32)]))


def test_validation_rows_of_another_table_are_read_with_the_columns_of_the_training():
    rows = table(60).with_columns(price=pl.col("ds") * 1.0, visits=pl.col("ds") * 2.0)
    train = nd.TimeSeriesDataFrame.from_frame(rows[:40], freq=1, future=["price"])
    wider = nd.TimeSeriesDataFrame.from_frame(rows[40:], freq=1, future=["visits", "price"])
    fitted = nd.MLP(h=2, input_size=4, hidden_size=4).fit(train, FAST, validation=wider)
    assert fitted.data.store.future_names == ("price",)
    assert fitted.data.store.future[:, 0].tolist() == [float(row) for row in range(60)]
    without = nd.TimeSeriesDataFrame.from_frame(rows[40:], freq=1)
    with pytest.raises(nd.DataError, match="price"):
        nd.MLP(h=2, input_size=4, hidden_size=4).fit(train, FAST, validation=without)
    hourly = nd.TimeSeriesDataFrame.from_frame(rows[40:].with_columns(pl.col("ds") * 2), freq=2, future=["price"])
    with pytest.raises(nd.DataError, match="the same frequency"):
        nd.MLP(h=2, input_size=4, hidden_size=4).fit(train, FAST, validation=hourly)
