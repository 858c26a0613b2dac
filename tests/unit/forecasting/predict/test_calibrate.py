"""Intervals from errors on rows that the model has not seen, and on no others."""

import logging

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd

INTERVALS = nd.PredictionIntervals(n_windows=60, step_size=1, method="conformal_error")


@pytest.fixture(scope="module")
def noise():
    y = np.random.default_rng(5).normal(size=260)
    return pl.DataFrame({"unique_id": ["a"] * 260, "ds": range(260), "y": y})


@pytest.fixture(scope="module")
def by_heart(noise):
    """It knows rows 0 to 149 by heart, so its errors there are far smaller than those on new rows."""
    config = nd.TrainingConfig(max_epochs=80, progress=False, validation_split=None, loss=nd.MAE())
    return nd.MLP(h=2, input_size=12, hidden_size=128, scaler="identity").fit(noise[:150], config)


def coverage(fitted, rows):
    return fitted.evaluate(rows, n_windows=40, step_size=1, level=[80], metrics=["coverage"])["MLP", "coverage-80"]


def test_an_80_percent_interval_covers_80_percent_of_an_overfitted_model(noise, by_heart):
    """60 windows from 150 on, scored on 40 windows after them: the binomial deviation of 80 % is about 6 points."""
    by_heart.calibrate(noise[:211], INTERVALS)
    assert by_heart.intervals.scores.shape == (1, 60, 2)
    assert coverage(by_heart, noise) == pytest.approx(0.8, abs=0.15)


def test_rows_that_were_trained_on_are_refused(noise, by_heart):
    with pytest.raises(nd.DataError, match="not trained on, but no series has 2 of them at its end"):
        by_heart.calibrate(noise[:150], INTERVALS)


def test_windows_that_begin_in_trained_rows_are_left_out_and_counted(noise, by_heart, caplog):
    """Of 60 windows of 2 that end at row 189, those that begin at 150 to 188 are new: 39."""
    with caplog.at_level(logging.WARNING):
        by_heart.calibrate(noise[:190], INTERVALS)
    assert "39 of 60 windows are used" in caplog.text
    scores = by_heart.intervals.scores[0]
    assert np.isnan(scores).all(axis=1).sum() == 21
    assert np.isfinite(scores[21:]).all()


def test_rows_that_were_held_back_for_validation_are_new(noise):
    """A fifth of 150 rows: 120 to 149 were not trained on, which makes 29 windows of 2."""
    config = nd.TrainingConfig(max_steps=3, progress=False, validation_split=0.2)
    fitted = nd.DLinear(h=2, input_size=12).fit(noise[:150], config)
    fitted.calibrate(noise[:150], INTERVALS)
    assert np.isfinite(fitted.intervals.scores).all(axis=2).sum() == 29


@pytest.mark.parametrize("context", [True, False])
def test_a_loaded_model_is_measured_on_rows_after_those_it_kept(noise, by_heart, tmp_path, context):
    by_heart.save(tmp_path / "m", context=context)
    loaded = nd.load(tmp_path / "m")
    with pytest.raises(nd.DataError, match="not trained on"):
        loaded.calibrate(noise[:150], INTERVALS)
    loaded.calibrate(noise[:190], INTERVALS)
    assert np.isfinite(loaded.intervals.scores).all(axis=2).sum() == 39


def test_names_of_another_kind_do_not_make_trained_rows_new(noise):
    """Series 1 was trained on; as "1" its rows would all count as those of a new series."""
    whole = noise.with_columns(unique_id=pl.lit(1))
    fitted = nd.DLinear(h=2, input_size=12).fit(whole[:150], nd.TrainingConfig(max_steps=3, progress=False))
    text = nd.TimeSeriesDataFrame.from_frame(whole[:150].with_columns(pl.col("unique_id").cast(pl.String)))
    with pytest.raises(nd.DataError, match="the same kind of ids"):
        fitted.calibrate(text.to_polars(), INTERVALS)
    with pytest.raises(nd.DataError, match=r"the same kind of ids, but .* has 'integer' and the table has 'text'"):
        fitted.calibrate(text, INTERVALS)
    with pytest.raises(nd.DataError, match="the same kind of ids"):
        nd.ensemble([fitted, fitted], "weighted", validation=text)
