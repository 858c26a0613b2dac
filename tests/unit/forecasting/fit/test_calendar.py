"""Columns of the calendar that a recurrent network adds to a table with dates."""

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd

SIZES = {"h": 6, "input_size": 24, "hidden_size": 4}
FAST = nd.TrainingConfig(max_steps=4, max_epochs=None, validation_split=0.2, progress=False)
ADDED = ("hour", "dayofweek")


@pytest.fixture(scope="module")
def table():
    return nd.samples.hourly_panel(3, 240)


@pytest.fixture(scope="module")
def fitted(table):
    return nd.LSTM(**SIZES).fit(table, FAST)


def test_a_table_with_dates_gets_hour_and_day_of_the_week(table, fitted):
    assert fitted.data.store.future_names == ADDED
    assert fitted.module.spec.future == 2
    daily = table.with_columns(pl.col("ds").cum_count().over("unique_id")).with_columns(
        (pl.datetime(2024, 1, 1) + pl.duration(days=pl.col("ds"))).alias("ds")
    )
    read = {
        "whole numbers": (nd.LSTM(**SIZES), table.with_columns(pl.col("ds").cum_count().over("unique_id")), ()),
        "days": (nd.GRU(**SIZES), daily, ("dayofweek",)),
        "none": (nd.LSTM(**SIZES, calendar=None), table, ()),
        "own": (nd.LSTM(**SIZES, calendar=["month"]), table, ("month",)),
        "no recurrent network": (nd.MLP(h=6, input_size=24), table, ()),
    }
    for what, (model, rows, names) in read.items():
        assert model.fit(rows, FAST).data.store.future_names == names, what


def test_the_column_changes_what_the_network_reads(table, fitted):
    """The same values at another hour of another day are another input."""
    later = table.with_columns(pl.col("ds") + pl.duration(hours=31))
    assert not np.allclose(fitted.predict(table)["LSTM"], fitted.predict(later)["LSTM"])
    plain = nd.LSTM(**SIZES, calendar=None).fit(table, FAST)
    assert np.allclose(plain.predict(table)["LSTM"], plain.predict(later)["LSTM"])


def test_it_is_what_features_of_the_table_give(table, fitted):
    given = nd.TimeSeriesDataFrame.from_frame(table, features=list(ADDED))
    asked = nd.LSTM(**SIZES).fit(given, FAST)
    assert asked.predict().equals(fitted.predict())
    assert asked.data.schema.features == ADDED


def test_every_way_to_give_rows_gives_the_same_forecast(table, fitted, tmp_path):
    own = fitted.predict()
    assert fitted.predict(table).equals(own)
    assert fitted.predict(nd.TimeSeriesDataFrame.from_frame(table)).equals(own)
    fitted.save(tmp_path / "model")
    loaded = nd.load(tmp_path / "model")
    assert loaded.predict().equals(own)
    assert loaded.predict(table).equals(own)
    assert fitted.predictor().predict(table).equals(own)


def test_longer_horizons_scores_and_further_training_work(table, fitted):
    cut = table.filter(pl.col("ds") < table["ds"].max() - pl.duration(hours=12))
    assert fitted.predict(h=12).height == 3 * 12
    assert fitted.evaluate(nd.TimeSeriesDataFrame.from_frame(table)) is not None
    again = fitted.fine_tune(nd.TimeSeriesDataFrame.from_frame(cut), FAST)
    assert again.predict().height == 18
    assert nd.LSTM(**SIZES).fit(cut, FAST).update(table, FAST).predict().height == 18
    late = table.join(cut, on=["unique_id", "ds"], how="anti")
    validated = nd.LSTM(**SIZES).fit(cut, FAST.replace(validation_split=None), validation=late)
    assert validated.history["validation_loss"]


def test_cross_validation_reads_the_calendar(table):
    found = nd.cross_validation([nd.LSTM(**SIZES), nd.MLP(h=6, input_size=24)], table, n_windows=2, config=FAST)
    folds = nd.cross_validation(nd.LSTM(**SIZES), nd.TimeSeriesDataFrame.from_frame(table), n_windows=2, config=FAST)
    assert np.allclose(found.frame["LSTM"], folds.frame["LSTM"])


def test_a_column_of_that_name_stays_the_tables_own(table):
    rows = table.with_columns(hour=pl.lit(7.0))
    fitted = nd.LSTM(**SIZES).fit(nd.TimeSeriesDataFrame.from_frame(rows, future=["hour"]), FAST)
    assert fitted.data.store.future_names == ADDED
    assert set(fitted.data.store.future[:, 0]) == {7.0}


def test_only_columns_known_ahead_are_taken():
    with pytest.raises(nd.ConfigError, match=r"known ahead, but got 'lag:7'. Read the table with features=\['lag:7'\]"):
        nd.LSTM(**SIZES, calendar=["lag:7"])
    with pytest.raises(nd.NeuroDivergentError, match="no feature named 'houer'; did you mean hour"):
        nd.LSTM(**SIZES, calendar=["houer"])


def test_models_that_are_older_than_the_field_read_no_calendar():
    saved = nd.LSTM(**SIZES).to_dict()
    del saved["calendar"]
    assert nd.LSTM.from_saved(saved).calendar is None


def test_raw_windows_without_these_columns_are_refused(fitted):
    with pytest.raises(nd.ConfigError, match=r"only the target and not 'hour', 'dayofweek'.*calendar=None"):
        fitted.forward(torch.zeros(1, 24))
