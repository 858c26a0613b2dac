"""What a report says about the errors, and which figure its colours follow."""

import re

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.evaluate.residuals import Bias, Dependence, dependence_of
from neuro_divergent.report import Page, training_report
from neuro_divergent.report.sections import bias_sentence, dependence_sentence, score_table

SHIFTED = (("a", 0), ("b", 30))


@pytest.fixture(scope="module")
def sales():
    """Skewed daily sales, forecast by their median: the sum is too low although most days look right."""
    y = np.round(np.exp(1.2 * np.random.default_rng(0).standard_normal(2000)), 2)
    frame = pl.DataFrame({"ds": np.arange(2000), "y": y})
    config = nd.TrainingConfig(
        max_steps=200, progress=False, validation_split=0.3, loss=nd.MQLoss(level=[80]), early_stopping=None,
        optimizer=nd.AdamW(learning_rate=0.01),
    )  # fmt: skip
    return nd.MLP(h=7, input_size=14, hidden_size=8, scaler="identity").fit(frame, config)


def test_a_median_of_skewed_values_is_called_too_low(sales):
    """The mean of a lognormal with sigma 1.2 is exp(0.72) = 2.05 times its median: the bias is about -51 %."""
    text = training_report(sales).render()
    bias = re.search(r"Bias (-\d+\.\d) %: the forecasts are too low, by more than chance explains", text)
    assert bias is not None
    assert -65 < float(bias[1]) < -35
    assert "centred" not in text
    assert 'class="card bad"><b>' + bias[1] + " %</b>" in text
    assert "<th>bias %</th>" in text
    assert "The line is the median of the forecast distribution." in text
    assert "a sum of medians is too low" in text


def test_the_report_says_that_the_mean_is_shown(sales):
    sales.point = "mean"
    try:
        text = training_report(sales).render()
    finally:
        sales.point = "median"
    assert "The line is the mean of the forecast distribution." in text
    assert "a sum of medians" not in text


def test_what_is_said_of_a_bias_follows_its_size_and_its_p_value():
    assert "too low, by more than chance" in bias_sentence(Bias(-38.0, 1e-9))
    assert "too high, by more than chance" in bias_sentence(Bias(5.0, 0.01))
    assert "a little too high" in bias_sentence(Bias(0.3, 0.01))
    assert bias_sentence(Bias(-3.0, 0.4)) == "Bias -3.0 %: not more than chance explains (p = 0.4)."
    assert "too few forecasts to rule out a real bias" in bias_sentence(Bias(-30.0, 0.2))
    assert "too few periods to tell it from chance" in bias_sentence(Bias(-30.0, None))
    assert "no percentage" in bias_sentence(Bias(float("nan"), 0.5))


def test_a_lag_outside_the_bounds_is_not_called_independent():
    correlation = np.full(24, 0.01)
    correlation[0] = -0.29
    said = dependence_sentence(Dependence(correlation, 106.0))
    assert "lag 1 is -0.29, outside ±0.19; 1 of 24 lags is outside" in said
    assert "They are not independent: an error is often followed by one of the other sign." in said
    correlation[0] = 0.05
    said = dependence_sentence(Dependence(correlation, 106.0))
    assert "lag 1 is 0.05, inside ±0.19; 0 of 24 lags are outside" in said
    assert said.endswith("This is consistent with independent errors.")


def test_the_caption_names_the_season_that_is_left():
    errors = np.tile(np.arange(12.0), 12) + 0.5 * np.random.default_rng(0).standard_normal(144)
    assert "They are not independent, most at lag 12" in dependence_sentence(dependence_of([errors], 24))


TABLE = pl.DataFrame(
    {
        "model": ["a", "b", "c"],
        "mae": [1.0, 2.0, 3.0],
        "mase": [3.0, 1.0, 2.0],
        "bias_percent": [-9.0, 8.0, 0.5],
        "r2": [0.1, 0.9, 0.2],
        "coverage-80": [0.99, 0.5, 0.79],
    }
)


@pytest.mark.parametrize(
    ("metric", "best"), [(None, "b"), ("mae", "a"), ("bias_percent", "c"), ("r2", "b"), ("coverage", "c")]
)
def test_the_coloured_row_is_the_best_by_the_metric_that_was_asked_for(metric, best):
    page = Page("x")
    score_table(page, TABLE, metric)
    assert re.search(r"<tr class=best><td>(\w)</td>", "".join(page.parts))[1] == best


def test_cards_and_charts_follow_the_metric_of_the_training(sales):
    text = training_report(sales, metric="rmse").render()
    assert "<span>RMSE</span>" in text
    assert "best by RMSE" in text
    followed = sales.config.replace(metrics=("smape",))
    before, sales.config = sales.config, followed
    try:
        assert "best by sMAPE %" in training_report(sales).render()
    finally:
        sales.config = before


def test_series_between_the_steps_of_others_have_a_report():
    """Hours from 0:00 and from 0:30 on: a model of one series at a time takes both, and so does its report."""
    hours = np.datetime64("2024-01-01T00:00") + 60 * np.arange(100)
    rows = [
        pl.DataFrame({"unique_id": name, "ds": (hours + late).astype("datetime64[us]"), "y": np.arange(100) % 5.0})
        for name, late in SHIFTED
    ]
    config = nd.TrainingConfig(max_steps=2, progress=False)
    fitted = nd.NLinear(h=4, input_size=8).fit(pl.concat(rows), config, freq="1h")
    assert "bias of the forecasts" in training_report(fitted).render()
