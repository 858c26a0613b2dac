"""The charts of forecasts in the reports of a training and of a cross-validation."""

import json
import re
from datetime import date, timedelta
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.cli.commands.cv import leaderboard
from neuro_divergent.forecasting.evaluate.coverage import measured_coverage
from neuro_divergent.forecasting.evaluate.held_out import held_out_forecasts
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.report import training_report
from neuro_divergent.report.comparison import comparison_report
from neuro_divergent.report.forecast_charts import Ranking

LIMIT = 1_500_000
DAYS = [date(2024, 1, 1) + timedelta(days=number) for number in range(120)]
QUICK = nd.TrainingConfig(max_steps=10, progress=False, loss=nd.MQLoss(level=[80]))


def days(**noise):
    """Weekly seasons with noise of different size."""
    rng = np.random.default_rng(0)
    week = 10 * np.sin(np.arange(120) * 2 * np.pi / 7)
    parts = [
        pl.DataFrame({"unique_id": name, "ds": DAYS, "y": 50 + week + size * rng.normal(size=120)})
        for name, size in noise.items()
    ]
    return pl.concat(parts)


def pictures(text, after):
    """The pictures of a section, with what they show under the pointer."""
    section = text.split(f"{after}</h", 1)[1].split("<h", 1)[0]
    return [ElementTree.fromstring(picture) for picture in re.findall(r"<svg .*?</svg>", section, re.DOTALL)]


def shown(picture):
    """{name: {x: value}} of a chart; of a band (low, high)."""
    hover = json.loads(picture.get("data-hover"))
    found = {}
    for name, _, first, high, *low in hover["of"]:
        values = zip(low[0], high, strict=True) if low else high
        found[name] = dict(zip(hover["x"][first:], values, strict=False))
    return found


@pytest.fixture(scope="module")
def fitted():
    data = days(noisy=6.0, calm=0.2, middle=2.0)
    return nd.DLinear(h=7, input_size=21, anchor="seasonal").fit(data, QUICK)


def test_held_out_rows_are_beside_their_forecasts_intervals_and_the_naive_one(fitted):
    """The last fifth of 120 rows is held out, from row 96 on: windows of 7 rows begin at rows 99, 106 and 113."""
    charts = pictures(training_report(fitted).render(), "Held-out forecasts")
    assert [re.sub(r", MASE .*", "", chart.get("aria-label")) for chart in charts] == [
        *("middle (median)", "calm (worst)", "noisy (best)")  # by MASE: little noise is hard to beat
    ]
    found = shown(charts[2])
    assert set(found) == {"80 %", "actual", "seasonal naive (7)", "DLinear"}
    data = fitted.data.select(["noisy"])
    assert len(charts[2].findall("*[@class='mark']")) == 3
    for row in (99, 106, 113):
        forecast = fitted.predict(data.head(row), level=[80])
        for step, (point, low, high) in enumerate(forecast.select(pl.exclude("unique_id", "ds")).iter_rows()):
            day = str(DAYS[row + step])
            assert found["DLinear"][day] == pytest.approx(point, rel=1e-4)
            assert found["80 %"][day] == pytest.approx((low, high), rel=1e-4)
            assert found["actual"][day] == pytest.approx(float(data.store.y[row + step]), rel=1e-4)
            assert found["seasonal naive (7)"][day] == pytest.approx(float(data.store.y[row + step - 7]), rel=1e-4)


def test_the_worst_series_comes_first_in_a_table_that_links_to_its_chart(fitted):
    text = training_report(fitted).render()
    assert re.findall(r'<a href="#(c\d)" data-choice="(\d)">(\w+)</a>', text) == [
        ("c1", "1", "calm"), ("c1", "0", "middle"), ("c1", "2", "noisy")
    ]  # fmt: skip
    ranking = Ranking(held_out_forecasts(fitted))
    by_series = held_out_forecasts(fitted).evaluation.by_series.filter(pl.col("model") == "DLinear")
    order = by_series.sort("mase")["unique_id"].to_list()
    assert [str(fitted.data.ids[ranking.numbers[place]]) for place in ranking.order] == order


def test_of_many_series_the_five_worst_and_the_five_best_are_named():
    data = days(**{f"s{number:02d}": 0.1 + number for number in range(14)})
    ranking = Ranking(held_out_forecasts(nd.NLinear(h=7, input_size=14).fit(data, QUICK)))
    assert ranking.extremes() == [*ranking.order[::-1][:5], *ranking.order[:5][::-1]]
    assert len(ranking.shown()) == 14


def test_held_out_rows_stand_in_where_no_future_values_are_given():
    data = days(a=1.0).with_columns(price=pl.Series(np.arange(120) % 3, dtype=pl.Float64))
    fitted = nd.MLP(h=7, input_size=14, hidden_size=8).fit(data, QUICK, future=["price"])
    text = training_report(fitted).render()
    assert "needs columns known ahead (price), and no future values were given" in text
    assert "held-out rows stand in for the future" in text
    [chart] = pictures(text, ">Forecast")
    ahead = fitted.make_future_dataframe(data[:113]).with_columns(price=data["price"][113:])
    expected = fitted.predict(data[:113], future=ahead)["MLP"].to_list()
    assert list(shown(chart)["MLP"]) == [str(day) for day in DAYS[113:]]
    assert list(shown(chart)["MLP"].values()) == pytest.approx(expected, rel=1e-4)
    ahead = fitted.make_future_dataframe().with_columns(price=pl.lit(1.0))
    text = training_report(fitted, future=ahead).render()
    assert "the future values that were given" in text
    [chart] = pictures(text, ">Forecast")
    assert list(shown(chart)["MLP"].values()) == pytest.approx(fitted.predict(future=ahead)["MLP"].to_list(), rel=1e-4)


def test_rows_that_were_trained_on_are_not_called_held_out():
    data = days(a=1.0).with_columns(price=pl.lit(1.0))
    config = QUICK.replace(validation_split=None, early_stopping=None)
    fitted = nd.MLP(h=7, input_size=14, hidden_size=8).fit(data, config, future=["price"])
    text = training_report(fitted).render()
    assert "The model was trained on these rows." in text
    assert "stand in for the future" not in text


def test_future_values_of_all_series_are_given_although_some_are_shown(monkeypatch):
    monkeypatch.setattr("neuro_divergent.report.forecast_charts.MAX_SERIES", 1)
    data = days(a=1.0, b=1.0).with_columns(price=pl.lit(1.0))
    fitted = nd.MLP(h=7, input_size=14, hidden_size=8).fit(data, QUICK, future=["price"])
    ahead = fitted.make_future_dataframe().with_columns(price=pl.lit(1.0))
    text = training_report(fitted, future=ahead).render()
    [chart] = pictures(text, ">Forecast")
    assert list(shown(chart)["MLP"].values()) == pytest.approx(
        fitted.predict(future=ahead)["MLP"][:7].to_list(), rel=1e-4
    )


def test_a_report_without_a_forecast_says_why():
    """A multivariate model forecasts from one moment, and one series ends earlier."""
    data = days(a=1.0, b=1.0)
    rows = data.filter(~((pl.col("unique_id") == "b") & (pl.col("ds") > DAYS[110])))
    fitted = nd.TSMixer(h=3, input_size=14).fit(rows, QUICK)
    text = training_report(fitted).render()
    assert "There is no forecast: TSMixer has one forecast origin for all series" in text


def test_coverage_by_hand():
    """Of five observed values three lie inside 0 to 10; the mean width is 10."""
    actual = np.array([[1.0, 10.0, 11.0], [-1.0, 5.0, np.nan]])
    values = np.broadcast_to(np.array([5.0, 0.0, 10.0]), (2, 3, 3))
    columns = Columns(("m", "m-lo-80", "m-hi-80"), (None, 0.1, 0.9))
    [found] = measured_coverage("m", actual, columns, values)
    assert (found.level, found.inside, found.values, found.width) == (80, 3, 5, 10)
    assert found.sentence() == "80 % interval: 60 % of 5 held-out values inside"
    assert measured_coverage("m", actual, Columns(("m",), (None,)), values[:, :, :1]) == []


@pytest.fixture(scope="module")
def folds():
    models = [nd.DLinear(h=7, input_size=14), nd.NLinear(h=7, input_size=14)]
    return nd.cross_validation(models, days(a=1.0, b=2.0), config=QUICK, n_windows=3, refit=True)


def test_tests_are_placed_at_their_cutoffs(folds):
    """120 days, three tests of 7: the last days seen are rows 98, 105 and 112."""
    text = comparison_report(folds, leaderboard(folds)).render()
    [chart] = pictures(text, "Error of each test")
    found = shown(chart)
    cutoffs = [str(DAYS[row]) for row in (98, 105, 112)]
    assert all(list(values) == cutoffs for values in found.values())
    errors = folds.by_fold.filter(pl.col("metric") == "mase", pl.col("model") == "DLinear")["value"]
    assert list(found["DLinear"].values()) == pytest.approx(errors.to_list(), rel=1e-4)
    assert {"DLinear", "NLinear", "seasonal naive (7)"} == set(found)


def test_each_test_and_model_has_a_figure_with_intervals_and_a_cutoff(folds):
    charts = pictures(comparison_report(folds, leaderboard(folds)).render(), "Forecasts")
    assert len(charts) == 2 * (1 + 3 * 2)
    overview, *single = charts[:7]
    assert len(overview.findall("*[@class='mark']")) == 3
    assert [chart.get("aria-label") for chart in single[:2]] == [
        f"{name} after {DAYS[98]}" for name in ("DLinear", "NLinear")
    ]
    part = folds.frame.filter(pl.col("unique_id") == "a", pl.col("cutoff") == DAYS[98])
    found = shown(single[0])
    assert list(found["forecast"].values()) == pytest.approx(part["DLinear"].to_list(), rel=1e-4)
    low, high = zip(*found["80 %"].values(), strict=True)
    assert list(low) == pytest.approx(part["DLinear-lo-80"].to_list(), rel=1e-4)
    assert list(high) == pytest.approx(part["DLinear-hi-80"].to_list(), rel=1e-4)
    assert len(single[0].findall("*[@class='mark']")) == 1


def test_the_leaderboard_says_how_much_better_than_the_naive_forecast(folds):
    board = leaderboard(folds)
    text = comparison_report(folds, board).render()
    scores = dict(zip(board["model"], board["mase"], strict=True))
    gain = 100 * (1 - scores["DLinear"] / scores["seasonal naive (7)"])
    word = "better" if gain > 0 else "worse"
    assert "<th>MASE compared with naive</th>" in text
    assert f"<td>DLinear</td><td>{abs(gain):.0f} % {word}</td>" in text


def test_overlapping_tests_keep_their_own_forecasts():
    """Tests of 14 days, 7 apart, of a model with h=7: the second half of one is the first half of the next."""
    split = nd.TimeSeriesSplit(n_splits=2, test_size=14, step_size=7)
    model = nd.DLinear(h=7, input_size=14)
    found = nd.cross_validation(model, days(a=1.0), config=QUICK, splitter=split, refit=True)
    charts = pictures(comparison_report(found, leaderboard(found)).render(), "Forecasts")
    first, second = shown(charts[1])["forecast"], shown(charts[2])["forecast"]
    assert list(first) == [str(day) for day in DAYS[99:113]]
    assert list(second) == [str(day) for day in DAYS[106:120]]
    assert list(first.values())[7:] != list(second.values())[:7]  # two trainings


def test_files_stay_small():
    """Many long series, a long horizon, and many figures: each file is below the limit, and says what it leaves out."""
    data = nd.samples.hourly_panel(45, 1500)
    config = nd.TrainingConfig(max_steps=1, progress=False, loss=nd.MQLoss(level=[80, 95]))
    fitted = nd.NLinear(h=168, input_size=168).fit(data, config)
    text = training_report(fitted).render()
    assert len(text.encode()) < LIMIT
    assert "of 45 series are in this file" in text
    models = [nd.NLinear(h=168, input_size=168, alias=name) for name in ("a", "b", "c", "d")]
    found = nd.cross_validation(models, data, config=config, n_windows=5, step_size=84)
    text = comparison_report(found, leaderboard(found)).render()
    assert len(text.encode()) < LIMIT
