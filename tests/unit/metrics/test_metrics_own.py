"""Metrics of the user's: one definition, for trainings and for evaluations."""

import math

import numpy as np
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.errors import ConfigError, RegistryError, UnknownNameError
from neuro_divergent.metrics.base import figure, goal_of, named_metrics
from neuro_divergent.metrics.training import training_metric


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
    with pytest.raises(RegistryError, match="'MAE' is both built in"):

        class MAE(nd.metrics.Metric):
            def values(self, actual, forecast):
                return actual


def test_which_way_is_better():
    assert (goal_of("r2"), goal_of("mae"), goal_of("within_of_tests"), goal_of("distance")) == (
        "max", "min", "max", "min",
    )  # fmt: skip
