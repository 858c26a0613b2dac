"""Metrics of the user's: one definition, for trainings and for evaluations."""

import math

import numpy as np
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.errors import ConfigError, NonFiniteError, RegistryError, UnknownNameError
from neuro_divergent.metrics.base import figure, goal_of, named_metrics
from neuro_divergent.metrics.training import training_metric
from neuro_divergent.report import training_report


class WithinOfTests(nd.metrics.Metric):
    """Share of forecasts that miss by no more than `most`."""

    goal = "max"
    most: float = 1.0

    def values(self, actual, forecast):
        return ((forecast - actual).abs() <= self.most).double()


class RootOfTests(nd.metrics.Metric):
    """The root of the mean squared error, from the sums of squares."""

    def values(self, actual, forecast):
        return (forecast - actual).square()

    def combine(self, sums):
        return math.sqrt(float(sums[1] / sums[0]))


def distance(actual, forecast):
    return (forecast - actual).abs()


ACTUAL = np.array([[1.0, 2.0, np.nan], [4.0, 0.0, np.nan]])
FORECAST = np.array([[1.5, 4.0, 9.0], [4.0, 1.0, 9.0]])


def test_figures_overall_and_per_step_by_hand():
    """Errors are 0.5 and 2 in the first row, 0 and 1 in the second; the last step was not observed."""
    assert figure(WithinOfTests(), ACTUAL, FORECAST, None) == 0.75
    np.testing.assert_array_equal(figure(WithinOfTests(), ACTUAL, FORECAST, 0), [1.0, 0.5, np.nan])
    assert figure(RootOfTests(), ACTUAL, FORECAST, None) == pytest.approx(math.sqrt(5.25 / 4))


def test_a_forecast_that_is_not_a_number_makes_the_figure_so():
    """WithinOfTests alone would count a NaN as a miss."""
    broken = np.where(FORECAST == 1.5, np.nan, FORECAST)
    assert math.isnan(figure(WithinOfTests(), ACTUAL, broken, None))


def test_a_training_metric_does_not_depend_on_the_batches():
    metric = training_metric("root_of_tests")
    y, f = torch.arange(6.0), torch.tensor([1.0, 1.0, 1.0, 5.0, 4.0, 8.0])
    parts = metric.sums(f[:1], y[:1]) + metric.sums(f[1:], y[1:])
    assert metric.result(parts) == pytest.approx(float((f - y).square().mean().sqrt()))
    assert training_metric("WithinOfTests").goal == "max"


def test_names_objects_and_functions_stand_beside_each_other():
    frame = nd.samples.air_passengers()
    config = nd.TrainingConfig(
        max_epochs=2, metrics=("rmse", "root_of_tests", "within-of-tests"),
        early_stopping=nd.EarlyStopping(monitor="validation_within-of-tests", mode="max"),
    )  # fmt: skip
    fitted = nd.MLP(h=6, input_size=12, hidden_size=8).fit(frame, config)
    first = fitted.history.epochs[0]
    assert first["validation_root_of_tests"] == pytest.approx(first["validation_rmse"], rel=1e-9)
    assert 0.0 <= first["validation_within-of-tests"] <= 1.0
    scores = fitted.evaluate(frame, metrics=["mae", "rmse", "RootOfTests", distance, WithinOfTests(most=1e9)])
    assert scores["MLP", "distance"] == pytest.approx(scores["MLP", "mae"], rel=1e-9)
    assert scores["MLP", "RootOfTests"] == pytest.approx(scores["MLP", "rmse"], rel=1e-9)
    assert scores["MLP", "WithinOfTests"] == 1.0
    found = nd.cross_validation([fitted.model], frame, config=config, n_windows=2, metrics=[distance, "mae"])
    means = {row["metric"]: row["mean"] for row in found.table.to_dicts() if row["model"] == "MLP"}
    assert means["distance"] == pytest.approx(means["mae"], rel=1e-9)


def test_mistakes_are_named():
    with pytest.raises(UnknownNameError, match="no metric named 'whithin_of_tests'; did you mean WithinOfTests"):
        named_metrics(["whithin_of_tests"], ("mae",))
    with pytest.raises(UnknownNameError, match="no training metric named 'rooot_of_tests'; did you mean RootOfTests"):
        training_metric("rooot_of_tests")
    reduced = named_metrics([torch.dist], ())["dist"]
    with pytest.raises(ConfigError, match=r"one number per target, shape \(2, 3\), but dist gave \(\)"):
        figure(reduced, ACTUAL, FORECAST, None)
    with pytest.raises(ConfigError, match="different names, but got 'WithinOfTests' twice"):
        named_metrics([WithinOfTests(most=1), WithinOfTests(most=2)], ())
    with pytest.raises(ConfigError, match="a metric is a name, a Metric or a function"):
        named_metrics([3], ())
    with pytest.raises(RegistryError, match="'MAE' is both the library's own"):

        class MAE(nd.metrics.Metric):
            def values(self, actual, forecast):
                return actual


def test_which_way_is_better():
    assert (goal_of("r2"), goal_of("mae"), goal_of("within_of_tests"), goal_of("distance")) == (
        "max", "min", "max", "min",
    )  # fmt: skip


SMALL = nd.MLP(h=6, input_size=12, hidden_size=8)


def relative(actual, forecast):
    return (forecast - actual).abs() / actual


def test_a_training_follows_a_function_or_an_object_by_its_name(tmp_path):
    """`distance` is the absolute error, so it must stop, keep and lower rates exactly as mae does."""
    ways = {}
    for metric, name in ((distance, "distance"), ("mae", "mae")):
        config = nd.TrainingConfig(
            max_epochs=9, metrics=[metric], schedule=nd.ReduceOnPlateau(monitor=name, patience=0, min_delta=0.5),
            early_stopping=nd.EarlyStopping(monitor=name, patience=3, min_delta=1.0),
            checkpoints=nd.Checkpoints(tmp_path / name, every_n_epochs=1, keep_last=1, keep_best=1),
        )  # fmt: skip
        fitted = SMALL.fit(nd.samples.air_passengers(), config)
        kept = sorted(path.name for path in (tmp_path / name / "checkpoints").iterdir())
        ways[name] = (fitted.history["learning_rate"], fitted.history.best_epoch, kept, len(fitted.history))
        assert fitted.config.early_stopping.monitor == f"validation_{name}"
    assert ways["distance"] == ways["mae"]
    assert len(set(ways["mae"][0])) > 1


def test_what_is_better_is_asked_of_the_metric():
    within = WithinOfTests(most=40.0)
    rule = nd.EarlyStopping(monitor="WithinOfTests")
    plateau = nd.ReduceOnPlateau(monitor="validation_r2")
    resolved = nd.TrainingConfig(metrics=[within, "r2"], early_stopping=rule, schedule=plateau).resolved()
    assert (resolved.early_stopping.monitor, resolved.early_stopping.mode) == ("validation_WithinOfTests", "max")
    assert (resolved.schedule.monitor, resolved.schedule.mode) == ("validation_r2", "max")
    fitted = SMALL.fit(nd.samples.air_passengers(), resolved.replace(max_epochs=4, schedule=None))
    shares = fitted.history["validation_WithinOfTests"]
    assert fitted.history.best_epoch == 1 + shares.index(max(shares))


def test_a_saved_model_keeps_its_metrics(tmp_path):
    config = nd.TrainingConfig(max_epochs=1, metrics=["mae", distance, WithinOfTests(most=3.0)])
    fitted = SMALL.fit(nd.samples.air_passengers(), config)
    fitted.save(tmp_path / "model")
    with pytest.raises(ConfigError, match=r"refers to your own callable.*using={'distance'"):
        nd.load(tmp_path / "model")
    again = nd.load(tmp_path / "model", using={"distance": distance})
    assert again.config.metrics == fitted.config.metrics
    assert again.config.metrics[2].most == 3.0


def test_the_report_shows_the_figures_that_a_training_followed():
    fitted = SMALL.fit(nd.samples.air_passengers(), nd.TrainingConfig(max_epochs=1, metrics=[distance]))
    page = training_report(fitted).render()
    assert "distance" in page


def test_a_trainer_on_arrays_takes_them_too():
    x = torch.linspace(-1, 1, 40)[:, None]
    config = nd.TrainingConfig(max_epochs=2, metrics=[distance, "mae"], validation_split=0.25, progress=False)
    last = nd.Trainer(config).fit(torch.nn.Linear(1, 1), (x, 3 * x)).epochs[-1]
    assert last["validation_distance"] == last["validation_mae"]


def test_values_that_are_not_finite_end_in_a_sentence():
    table = {"unique_id": ["a"] * 40, "ds": list(range(40)), "y": [0.0, 1.0] * 20}
    config = nd.TrainingConfig(max_epochs=1, metrics=[relative])
    import polars as pl

    with pytest.raises(NonFiniteError, match="relative gave inf for an actual value of 0 and a forecast of"):
        SMALL.fit(pl.DataFrame(table), config, freq=1)
    with pytest.raises(NonFiniteError, match="relative gave inf for an actual value of 0 and a forecast of 1"):
        figure(named_metrics([relative], ())["relative"], np.array([[0.0]]), np.array([[1.0]]), None)

    class NoNumber(nd.metrics.Metric):
        def values(self, actual, forecast):
            return forecast

        def combine(self, sums):
            return None

    with pytest.raises(NonFiniteError, match="NoNumber gave None for the sums"):
        figure(NoNumber(), ACTUAL, FORECAST, None)


def test_wrong_lists_of_metrics_are_refused():
    with pytest.raises(ConfigError, match="different names, but got 'distance' twice"):
        nd.TrainingConfig(metrics=[distance, distance])
    with pytest.raises(ConfigError, match="a metric is a name, a Metric or a function"):
        nd.TrainingConfig(metrics=[3])
    with pytest.raises(ConfigError, match=r"early_stopping.monitor must be one of .*validation_distance"):
        nd.TrainingConfig(metrics=[distance], early_stopping=nd.EarlyStopping(monitor="distanze"))

    def loss(actual, forecast):
        return forecast - actual

    with pytest.raises(ConfigError, match="validation_loss in the history"):
        nd.TrainingConfig(metrics=[loss])
    reduced = nd.TrainingConfig(max_epochs=1, metrics=[torch.dist])
    with pytest.raises(ConfigError, match=r"one number per target, shape .* but dist gave"):
        SMALL.fit(nd.samples.air_passengers(), reduced)
