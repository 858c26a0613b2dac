"""Tables that are not the training table: later rows, other codes, other time stamps, series that end early."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.models import TSMixer
from neuro_divergent.training.config.checkpoints import Checkpoints, FaultTolerance

FAST = nd.TrainingConfig(max_steps=5, progress=False)


def panel(series=3, hours=120):
    return nd.samples.hourly_panel(series, hours)


def without_last(frame, rows):
    return frame.filter(pl.int_range(pl.len()).over("unique_id") < pl.len().over("unique_id") - rows)


def only_last(frame, rows):
    return frame.filter(pl.int_range(pl.len()).over("unique_id") >= pl.len().over("unique_id") - rows)


@pytest.mark.parametrize("scaler", [None, "standard"])
def test_forecasts_follow_the_validation_rows(scaler):
    frame = panel()
    models = nd.NeuralForecast([nd.DLinear(h=6, input_size=24)], local_scaler_type=scaler)
    models.fit(without_last(frame, 12), FAST, validation=only_last(frame, 12))
    assert models.predict()["ds"].min() == frame["ds"].max() + timedelta(hours=1)


def ending_early(rows=40):
    """Three series on one grid; the last one ends `rows` steps before the others."""
    frame = panel()
    last = frame["unique_id"].max()
    short = without_last(frame.filter(pl.col("unique_id") == last), rows)
    return pl.concat([frame.filter(pl.col("unique_id") != last), short])


def test_a_multivariate_model_does_not_forecast_a_series_that_ended_before_the_others():
    frame = ending_early()
    fitted = TSMixer(h=4, input_size=8).fit(frame, FAST)
    for ask in (fitted.predict, fitted.explain):
        with pytest.raises(nd.DataError, match="series series-02 ends 40 steps before the last one"):
            ask()
    masked = pl.concat([frame, only_last(panel(), 40).filter(pl.col("unique_id") == "series-02").with_columns(y=None)])
    times = fitted.predict(masked.sort("unique_id", "ds"))["ds"]
    assert times.min() == frame["ds"].max() + timedelta(hours=1)


def test_a_multivariate_model_is_evaluated_where_a_series_is_over_already():
    fitted = TSMixer(h=4, input_size=8).fit(without_last(ending_early(), 4), FAST)
    found = fitted.evaluate(ending_early(), n_windows=1)
    assert np.isfinite(found["TSMixer", "mae"])


def towns():
    places = {"series-00": "Basel", "series-01": "Bern", "series-02": "Chur"}
    return panel().with_columns(town=pl.col("unique_id").replace_strict(places))


def test_a_table_that_counts_its_categories_otherwise_is_read_as_the_training_data():
    fitted = nd.MLP(h=6, input_size=24).fit(towns(), nd.TrainingConfig(max_steps=40, progress=False), static=["town"],
                                            categorical=["town"])  # fmt: skip
    bern = towns().filter(pl.col("town") == "Bern")
    table = nd.TimeSeriesDataFrame.from_frame(bern, static=["town"], categorical=["town"])
    assert table.schema.categories["town"] == ("Bern",)  # its code is that of Basel in the training data
    assert fitted.predict(table)["MLP"].to_list() == fitted.predict(bern)["MLP"].to_list()


def test_a_table_without_a_column_that_the_model_takes_is_refused_with_its_name():
    fitted = nd.MLP(h=6, input_size=24).fit(towns(), FAST, static=["town"], categorical=["town"])
    with pytest.raises(nd.DataError, match="town"):
        fitted.predict(nd.TimeSeriesDataFrame.from_frame(panel()))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_the_place_in_time_does_not_depend_on_the_type_of_the_time_stamps(unit):
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 4, 30), "1d", eager=True)
    frame = pl.DataFrame({"unique_id": "a", "ds": days, "y": np.sin(np.arange(len(days)))})
    fitted = nd.MLP(h=7, input_size=28).fit(frame, FAST, features=["time"])
    other = frame.with_columns(pl.col("ds").cast(pl.Datetime(unit)))
    assert fitted.predict(other)["MLP"].to_list() == pytest.approx(fitted.predict(frame)["MLP"].to_list(), rel=1e-6)


def test_what_is_asked_of_whole_series_is_not_asked_of_their_newest_rows():
    frame = panel()
    table = nd.TimeSeriesDataFrame.from_frame(without_last(frame, 6), min_length=48, constant="drop")
    fitted = nd.DLinear(h=6, input_size=24).fit(table, FAST)
    newest = only_last(frame, 6).with_columns(y=pl.when(pl.col("unique_id") == "series-01").then(0.0).otherwise("y"))
    forecast = fitted.update(newest).predict()
    assert forecast["ds"].min() == frame["ds"].max() + timedelta(hours=1)
    assert forecast["unique_id"].n_unique() == 3
    again = nd.DLinear(h=6, input_size=24).fit(table, FAST, validation=newest).predict()
    assert again["ds"].min() == frame["ds"].max() + timedelta(hours=1)


def test_lags_of_a_loaded_model_reach_as_far_back_as_before(tmp_path):
    frame = panel(2, 200)
    fitted = nd.MLP(h=6, input_size=24, hidden_size=8).fit(without_last(frame, 6), FAST, features=["lag:72"])
    fitted.save(tmp_path / "model")
    loaded = nd.load(tmp_path / "model")
    said = [model.update(only_last(frame, 6)).predict()["MLP"].to_list() for model in (fitted, loaded)]
    assert said[0] == pytest.approx(said[1], rel=1e-5)


def priced():
    return panel(2).with_columns(price=pl.col("ds").dt.hour().cast(pl.Float64))


def test_a_backtest_takes_the_columns_known_ahead_from_the_table():
    data = nd.TimeSeriesDataFrame.from_frame(priced(), future=["price"])
    result = nd.backtest([nd.MLP(h=4, input_size=8, hidden_size=4)], data, FAST)
    ahead = only_last(priced(), 4).drop("y")
    said = result.fitted["MLP"].predict(future=ahead)["MLP"].to_numpy().reshape(2, 4)
    assert result.forecasts["MLP"] == pytest.approx(said, rel=1e-5)


def test_a_picture_takes_the_columns_known_ahead(tmp_path):
    fitted = nd.MLP(h=4, input_size=8, hidden_size=4).fit(priced(), FAST, future=["price"])
    ahead = fitted.make_future_dataframe().with_columns(price=pl.col("ds").dt.hour().cast(pl.Float64))
    fitted.plot(tmp_path / "one.png", future=ahead)
    assert (tmp_path / "one.png").stat().st_size > 0


def test_in_sample_forecasts_stand_beside_each_other_where_all_models_have_one():
    frame = panel()
    late = frame.filter((pl.col("unique_id") != "series-02") | (pl.int_range(pl.len()).over("unique_id") >= 30))
    models = nd.NeuralForecast([nd.MLP(h=4, input_size=8, hidden_size=4), TSMixer(h=4, input_size=8)]).fit(late, FAST)
    found = models.predict_insample(step_size=10)
    assert found.height > 0
    assert found["MLP"].is_finite().all()
    assert found["TSMixer"].is_finite().all()


def test_a_watched_training_cannot_go_on_from_weights_and_an_update_is_not_watched(tmp_path):
    fitted = nd.DLinear(h=6, input_size=24).fit(panel(), FAST)
    watched = FAST.replace(checkpoints=Checkpoints(tmp_path / "run"), fault_tolerance=FaultTolerance(retries=1))
    with pytest.raises(nd.ConfigError, match="cannot get the weights to start from"):
        fitted.fine_tune(panel(), watched)
    fitted.config = fitted.config.replace(fault_tolerance=FaultTolerance(retries=1))
    fitted.fine_tune(panel())
    fitted.update(panel(3, 126))


def test_a_refit_has_as_many_steps_as_were_allowed():
    config = nd.TrainingConfig(max_steps=7, steps_per_epoch=20, refit_on_all=True, progress=False)
    fitted = nd.DLinear(h=6, input_size=24).fit(panel(), config)
    assert fitted.history.events[-1]["steps"] == 7


def test_a_refit_of_a_resumed_run_with_more_epochs_begins_afresh(tmp_path):
    config = nd.TrainingConfig(max_epochs=2, steps_per_epoch=3, refit_on_all=True, early_stopping=None, progress=False)
    config = config.replace(checkpoints=Checkpoints(tmp_path / "run"))
    model = nd.DLinear(h=6, input_size=24)
    model.fit(panel(), config)
    longer = model.fit(panel(), config, resume="auto", resume_with={"max_epochs": 5})
    event = longer.history.events[-1]
    assert event["event"] == "refit"
    assert event["epochs"] > 2
    assert event["steps"] == 3 * event["epochs"]


def rising(rows=90, gaps=(3, 38, 39, 69)):
    """A series unlike the panel's: its level and its changes grow, and some rows lack."""
    hours = np.arange(rows)
    begin = panel()["ds"].min()
    times = [begin + timedelta(hours=hour) for hour in range(rows)]
    frame = pl.DataFrame({"unique_id": "new", "ds": times, "y": 2000 + hours**2 + 50 * np.sin(hours)})
    return frame.filter(~pl.int_range(pl.len()).is_in(gaps))


def fitted_locally(scaler):
    """A model that sees the values as they are but for the scaling of whole series, with measured errors."""
    model = nd.MLP(h=6, input_size=24, hidden_size=8, scaler="identity")
    options = {"prediction_intervals": nd.PredictionIntervals(n_windows=2)}
    return nd.NeuralForecast([model], local_scaler_type=scaler).fit(panel(), FAST, **options)["MLP"]


@pytest.mark.parametrize("scaler", [None, "standard", "robust", "minmax", "boxcox"])
def test_each_forecast_of_a_new_series_is_what_predict_says_from_the_rows_before_it(scaler):
    """Point and intervals; a series is measured on all rows before the forecast, however many windows are asked for."""
    fitted = fitted_locally(scaler)
    found = fitted.evaluate(rising(), level=[80], n_windows=12).frame
    columns = ["MLP", "MLP-lo-80", "MLP-hi-80"]
    assert found["cutoff"].n_unique() == 12
    for (cutoff,), part in found.group_by("cutoff"):
        said = fitted.predict(rising().filter(pl.col("ds") <= cutoff), level=[80])
        assert part.select(columns).to_numpy() == pytest.approx(said.select(columns).to_numpy(), abs=0.02), cutoff
    newest = fitted.evaluate(rising(), level=[80]).frame
    expected = found.tail(6).select(columns).to_numpy()
    assert newest.select(columns).to_numpy() == pytest.approx(expected, abs=0.02)


def test_rows_that_are_forecast_change_nothing_of_the_forecast_of_a_new_series():
    """By hand: the first origin has one row before it, so it has no change of its own to be as wide as."""
    fitted = fitted_locally("standard")
    place = pl.int_range(pl.len())

    def forecasts(held_back, first):
        shown = pl.when(place < first).then(pl.col("y")).otherwise(held_back + 100.0 * place)
        found = fitted.evaluate(rising(37, ()).with_columns(y=shown), level=[80], n_windows=6).frame.sort("ds")
        return found.select("MLP", "MLP-lo-80", "MLP-hi-80").to_numpy()

    for window, first in enumerate(range(1, 37, 6)):
        until = slice(0, 6 * (window + 1))
        assert np.array_equal(forecasts(0.0, first)[until], forecasts(1e4, first)[until])


def test_a_new_series_is_scaled_without_the_rows_that_a_fine_tuning_holds_back(tmp_path):
    config = FAST.replace(validation_split=0.2)
    model = nd.DLinear(h=6, input_size=24, scaler="identity")
    fitted = nd.NeuralForecast([model], local_scaler_type="standard").fit(panel(), config)["DLinear"]
    y = np.random.default_rng(0).normal(50, 7, 100)

    def tuned(held_back):
        y[80:] = held_back  # the last fifth
        hours = [datetime(2024, 1, 1) + timedelta(hours=row) for row in range(100)]
        return fitted.fine_tune(pl.DataFrame({"unique_id": ["new"] * 100, "ds": hours, "y": y}), config)

    low, high = tuned(0.0), tuned(1e4)
    assert low.history.step_loss == high.history.step_loss
    # Its forecasts are given in the units that the training had: mean and deviation of its first 80 rows, by hand.
    high.save(tmp_path / "m")
    for known in (low, high, nd.load(tmp_path / "m")):
        found = known.local.of(known.data).to_arrays()
        assert found["location"] == pytest.approx([y[:80].mean()], rel=1e-5)
        assert found["scale"] == pytest.approx([y[:80].std()], rel=1e-5)
    assert fitted.local.ids.tolist() == ["series-00", "series-01", "series-02"]  # the first model has not changed


def test_a_scaled_series_that_an_update_brings_is_known_from_then_on():
    fitted = nd.NeuralForecast([nd.DLinear(h=6, input_size=24)], local_scaler_type="minmax").fit(panel(), FAST)
    fresh = panel(1).with_columns(unique_id=pl.lit("new"))
    fitted.update(fresh)
    later = fresh.with_columns(y=pl.col("y") + 1e4)
    found = fitted["DLinear"].local.of(nd.TimeSeriesDataFrame.from_frame(later)).to_arrays()
    assert found["location"][0] == pytest.approx(fresh["y"].min(), rel=1e-5)


def test_the_naive_forecast_looks_behind_an_outage_of_many_seasons():
    """By hand: the season 0, 1, 2 is seen up to row 39, nothing in rows 40 to 89, and row 90 is the origin."""
    y = [float(row % 3) for row in range(96)]
    rows = pl.DataFrame({"ds": range(96), "y": [None if 40 <= row < 90 else value for row, value in enumerate(y)]})
    fitted = nd.DLinear(h=6, input_size=3).fit(rows[:40], FAST)
    found = fitted.evaluate(rows, season=3, metrics=["mae", "owa"])
    assert found.frame["seasonal naive (3)"].to_list() == [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]
    assert found["seasonal naive (3)", "mae"] == 0.0


def test_series_may_be_called_models():
    rows = panel(2).rename({"unique_id": "model"})
    found = (
        nd.DLinear(h=6, input_size=24)
        .fit(rows.filter(pl.int_range(pl.len()).over("model") < 114), FAST, id_col="model")
        .evaluate(rows)
    )
    assert set(found.by_series["model"]) == {"series-00", "series-01"}
    assert "DLinear" in set(found.by_series["model_name"])


def test_time_is_counted_alike_in_a_table_and_in_a_frame():
    """The feature "time" has the span of the training rows as its unit, whoever reads later rows, and how many."""
    frame = panel(hours=200)
    early = frame.filter(pl.int_range(pl.len()).over("unique_id") < 100)
    options = {"features": ["time", "hour"]}
    fitted = nd.MLP(h=4, input_size=12, hidden_size=8).fit(early, FAST.replace(max_steps=30), **options)
    expected, scores = fitted.predict(frame), fitted.evaluate(frame, n_windows=2)
    for rows in (frame, only_last(frame, 40)):
        table = nd.TimeSeriesDataFrame.from_frame(rows, **options)
        assert fitted.predict(table).equals(expected)
        assert fitted.predictor().predict(table).equals(expected)
        assert fitted.evaluate(table, n_windows=2)["MLP", "mae"] == scores["MLP", "mae"]
