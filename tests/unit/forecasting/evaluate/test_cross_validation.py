"""Cross-validation and evaluation: nothing later is seen, figures are what the metrics say."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.core.executors.workers import Workers
from neuro_divergent.forecasting.evaluate.cross_validation import cross_validation
from neuro_divergent.forecasting.evaluate.fold_job import Plan
from neuro_divergent.forecasting.evaluate.fold_processes import run_jobs
from neuro_divergent.forecasting.evaluate.folds import TimeSeriesSplit
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.several.neural_forecast import NeuralForecast
from neuro_divergent.models import TSMixer

FAST = nd.TrainingConfig(max_steps=5, progress=False)
MODELS = [nd.DLinear(h=6, input_size=24), nd.MLP(h=6, input_size=12, hidden_size=8)]


def panel(series=3, hours=200):
    return nd.samples.hourly_panel(series, hours)


@pytest.fixture(scope="module")
def result():
    return cross_validation(MODELS, panel(), config=FAST, n_windows=3, refit=True)


def test_the_frame_has_every_window_of_every_series(result):
    frame = result.frame
    assert frame.columns == ["unique_id", "ds", "cutoff", "y", "DLinear", "MLP"]
    assert frame.height == 3 * 3 * 6
    hours = (frame["ds"] - frame["cutoff"]).dt.total_hours()
    assert hours.to_list() == [1, 2, 3, 4, 5, 6] * 9
    truth = frame.join(panel().rename({"y": "truth"}), on=["unique_id", "ds"])
    assert (truth["y"] - truth["truth"]).abs().max() < 1e-3


def test_a_forecast_is_that_of_a_model_trained_on_the_rows_before_the_cutoff(result):
    """The last window, done by hand: fit without the last horizon, and predict."""
    data = nd.TimeSeriesDataFrame.from_frame(panel()).drop_last(6)
    by_hand = MODELS[0].fit(data, FAST).predict()
    last = result.frame.filter(pl.col("cutoff") == result.frame["cutoff"].max())
    assert last["DLinear"].to_list() == by_hand["DLinear"].to_list()


@pytest.mark.parametrize("refit", [True, False, 2])
def test_nothing_after_a_cutoff_can_change_a_forecast(refit):
    """Poison everything after the middle cutoff: the windows up to it are the same bits."""
    frame = panel(2)
    options = {"config": FAST, "n_windows": 3, "refit": refit}
    settings = {"prediction_intervals": PredictionIntervals(n_windows=3), "level": [80]}
    clean = cross_validation(MODELS[:1], frame, **options, **settings).frame
    middle = clean["cutoff"].unique().sort()[1]
    poisoned = frame.with_columns(y=pl.when(pl.col("ds") > middle).then(1e6).otherwise(pl.col("y")))
    again = cross_validation(MODELS[:1], poisoned, **options, **settings).frame
    seen, same = (part.filter(pl.col("cutoff") <= middle).drop("y") for part in (clean, again))
    assert len(seen) == 24
    assert seen.equals(same)
    later = (part.filter(pl.col("cutoff") > middle)["DLinear"].to_list() for part in (clean, again))
    assert next(later) != next(later), "the poison was there to be seen afterwards"


def test_gap_rows_are_seen_by_nobody_and_purged_rows_only_by_forecasts():
    frame = panel(2)
    stamps = frame["ds"].unique().sort()
    split = TimeSeriesSplit(n_splits=1, test_size=6, gap=2, purge=3)

    def forecasts(poisoned):
        changed = frame.with_columns(y=pl.when(pl.col("ds").is_in(poisoned.to_list())).then(1e6).otherwise(pl.col("y")))
        run = cross_validation(MODELS[:1], changed, config=FAST, splitter=split)
        return run.frame["DLinear"].to_list(), run.forecasters["DLinear"].history.step_loss

    clean, gap, purge = forecasts(stamps[:0]), forecasts(stamps[-8:-6]), forecasts(stamps[-11:-8])
    assert gap == clean
    assert purge[1] == clean[1], "not trained on"
    assert purge[0] != clean[0], "but looked back at"


def test_the_cutoff_is_the_last_row_seen_also_before_a_gap():
    run = cross_validation(MODELS[:1], panel(2), config=FAST, splitter=TimeSeriesSplit(n_splits=1, test_size=6, gap=2))
    hours = (run.frame["ds"] - run.frame["cutoff"]).dt.total_hours()
    assert hours.unique().to_list() == [3, 4, 5, 6, 7, 8]


def test_a_long_test_part_is_forecast_a_horizon_at_a_time():
    run = cross_validation(MODELS[:1], panel(1), config=FAST, splitter=TimeSeriesSplit(n_splits=1, test_size=15))
    assert run.frame.height == 15
    assert run.frame["cutoff"].n_unique() == 3


def test_models_are_trained_as_often_as_was_asked():
    def trainings(refit):
        seen = []

        class Count(nd.Callback):
            def on_fit_start(self, state):
                seen.append(state)

        cross_validation(MODELS[:1], panel(1), config=FAST.replace(callbacks=(Count(),)), n_windows=4, refit=refit)
        return len(seen)

    assert [trainings(refit) for refit in (True, False, 2, 3)] == [4, 1, 2, 2]


def test_scores_are_the_metrics_of_each_fold(result):
    """By hand with numpy: MAE of each fold, then mean and sample deviation."""
    frame = result.frame
    by_hand = [
        np.abs(fold["y"] - fold["DLinear"]).mean()
        for _, fold in frame.group_by("cutoff", maintain_order=True)
    ]  # fmt: skip
    row = result.scores.filter((pl.col("model") == "DLinear") & (pl.col("metric") == "mae"))
    assert row["mean"].item() == pytest.approx(np.mean(by_hand), rel=1e-6)
    assert row["deviation"].item() == pytest.approx(np.std(by_hand, ddof=1), rel=1e-6)
    folds = result.by_fold.filter((pl.col("model") == "DLinear") & (pl.col("metric") == "mae"))
    assert sorted(folds["value"]) == pytest.approx(sorted(by_hand), rel=1e-6)
    assert "seasonal naive (24)" in result.scores["model"].to_list()


def test_folds_in_other_processes_are_the_same_folds():
    split = TimeSeriesSplit(n_splits=2, test_size=12, gap=2)
    one, two = (cross_validation(MODELS, panel(), config=FAST, splitter=split, refit=True, n_jobs=n) for n in (1, 2))
    assert two.frame.equals(one.frame)
    assert two.scores.equals(one.scores)


def test_own_callables_cannot_go_to_other_processes():
    config = FAST.replace(loss=lambda output, target: (output - target).abs())
    with pytest.raises(nd.ConfigError, match="Use n_jobs=1"):
        cross_validation(MODELS[:1], panel(), config=config, n_windows=2, refit=True, n_jobs=2)


def test_a_failure_in_another_process_says_what_it_was():
    table = nd.TimeSeriesDataFrame.from_frame(panel(1, 38))
    plan = Plan(models=tuple(MODELS[:1]), configs={"DLinear": FAST})
    folds = TimeSeriesSplit(n_splits=2, test_size=6).folds(table, 6)
    with pytest.raises(nd.TrainingError, match=r"training 1 of 1 .* failed: DataError: .*lookback 24") as caught:
        run_jobs(plan, table, [folds], Workers(processes=1))
    assert caught.value.advice == (("data.short", "drop"), ("data.short", "pad"))


def test_series_that_no_model_has_seen():
    split = TimeSeriesSplit(n_splits=1, test_size=6, series_splits=3)
    run = cross_validation(MODELS[:1], panel(), config=FAST, splitter=split)
    assert run.frame["unique_id"].n_unique() == 3
    assert run.forecasters["DLinear"].data.ids.tolist() == ["series-00", "series-01"]
    assert set(run.by_fold["group"]) == {0, 1, 2}


def test_a_multivariate_model_is_cut_at_one_date():
    model = TSMixer(h=6, input_size=12)
    late = panel(1).with_columns(unique_id=pl.lit("late")).slice(100)
    run = cross_validation([model], pl.concat([panel(2), late]), config=FAST, n_windows=2)
    assert run.frame.height == 3 * 2 * 6
    with pytest.raises(nd.ConfigError, match="series_splits=1"):
        cross_validation([model], panel(), config=FAST, splitter=TimeSeriesSplit(series_splits=2))


def test_pandas_in_pandas_out():
    run = cross_validation(MODELS[:1], panel(1).to_pandas(), config=FAST, n_windows=1)
    assert type(run.frame).__module__.startswith("pandas")
    assert type(run.scores).__module__.startswith("pandas")


def test_contradictions_are_refused():
    with pytest.raises(nd.ConfigError, match="give a splitter, or n_windows and step_size"):
        cross_validation(MODELS, panel(), splitter=TimeSeriesSplit(), n_windows=2)
    with pytest.raises(nd.ConfigError, match="different names"):
        cross_validation([MODELS[0], MODELS[0]], panel())
    with pytest.raises(nd.UnknownNameError, match="did you mean mae"):
        cross_validation(MODELS, panel(), metrics=["maee"])
    with pytest.raises(nd.ConfigError, match=r"by model name \(DLinear, MLP\), but got NHITS"):
        cross_validation(MODELS, panel(), config={"NHITS": FAST})
    with pytest.raises(nd.ConfigError, match="refit must be True, False or a number"):
        cross_validation(MODELS[:1], panel(), config=FAST, refit=-1)


def test_the_picture(result, tmp_path):
    result.plot(tmp_path / "folds.png")
    assert (tmp_path / "folds.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def both_models():
    data = nd.TimeSeriesDataFrame.from_frame(panel()).drop_last(24)
    return NeuralForecast(MODELS).fit(data, FAST.replace(loss=nd.MQLoss(level=[80])))


@pytest.fixture(scope="module")
def found(both_models):
    names = [
        "mae", "mse", "rmse", "mape", "smape", "mase", "rmsse", "owa", "r2", "bias", "directional_accuracy",
        "pinball", "scaled_crps", "coverage", "interval_score",
    ]  # fmt: skip
    return both_models.evaluate(panel(), n_windows=4, metrics=names, level=[80])


class TestEvaluation:
    def test_overall_figures_by_hand(self, found):
        frame = found.frame
        error = frame["DLinear"].to_numpy() - frame["y"].to_numpy()
        assert found["DLinear", "mae"] == pytest.approx(np.abs(error).mean(), rel=1e-6)
        assert found["DLinear", "bias"] == pytest.approx(error.mean(), rel=1e-5)
        assert found["DLinear", "rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-6)
        inside = (frame["DLinear-lo-80"] <= frame["y"]) & (frame["y"] <= frame["DLinear-hi-80"])
        assert found["DLinear", "coverage-80"] == pytest.approx(inside.mean())

    def test_mase_by_hand(self, found):
        """Per value: |error| ÷ mean |y(t) - y(t-24)| of the rows before the first forecast of the series."""
        data = panel()
        ratios = []
        for name, part in found.frame.group_by("unique_id", maintain_order=True):
            series = data.filter(pl.col("unique_id") == name[0]).upsample("ds", every="1h")["y"].to_numpy()[:-24]
            scale = np.nanmean(np.abs(series[24:] - series[:-24]))
            ratios.append(np.abs(part["y"] - part["DLinear"]).to_numpy() / scale)
        assert found["DLinear", "mase"] == pytest.approx(np.nanmean(np.concatenate(ratios)), rel=1e-5)

    def test_the_naive_forecast_stands_beside(self, found):
        assert found.overall["model"].to_list() == ["DLinear", "MLP", "seasonal naive (24)"]
        y = panel().filter(pl.col("unique_id") == "series-01")["y"].to_numpy()
        shown = found.frame.filter(pl.col("unique_id") == "series-01")["seasonal naive (24)"].to_numpy()
        assert shown == pytest.approx(y[-48:-24], rel=1e-5), "a day before each of the last 24 hours"

    def test_by_series_and_by_step(self, found):
        assert found.by_step["step"].to_list() == [1, 2, 3, 4, 5, 6] * 3
        assert found.by_series.height == 9
        mean = found.by_step.filter(pl.col("model") == "MLP")["mae"].mean()
        assert mean == pytest.approx(found["MLP", "mae"], rel=1e-6)

    def test_figures_of_intervals_need_intervals(self):
        data = nd.TimeSeriesDataFrame.from_frame(panel())
        fitted = MODELS[0].fit(data.drop_last(6), FAST)
        with pytest.raises(nd.ConfigError, match="coverage is a metric of intervals"):
            fitted.evaluate(data, metrics=["coverage"])
        with pytest.raises(nd.UnknownNameError, match="there is no metric 'r2' of 'DLinear'"):
            fitted.evaluate(data)["DLinear", "r2"]


@pytest.mark.parametrize("name", ["n_windows", "step_size", "h"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_no_windows_no_steps_and_no_horizon_are_refused(name, value, fitted):
    sentence = rf"^{name} must be a whole number of at least 1, but got {name}={value}$"
    with pytest.raises(nd.ConfigError, match=sentence):
        cross_validation(MODELS[:1], panel(1), config=FAST, **{name: value})
    with pytest.raises(nd.ConfigError, match=sentence):
        fitted.evaluate(panel(1), **{name: value})
    many = NeuralForecast.from_forecasters([fitted])
    with pytest.raises(nd.ConfigError, match=sentence):
        many.evaluate(panel(1), **{name: value})
    if name == "h":
        with pytest.raises(nd.ConfigError, match=sentence):
            many.predict(h=value)
    if name == "step_size":
        with pytest.raises(nd.ConfigError, match=sentence):
            many.predict_insample(step_size=value)


@pytest.fixture(scope="module")
def fitted():
    return MODELS[0].fit(panel(1), FAST)
