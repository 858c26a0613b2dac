"""Means over the folds on request, models side by side, and splitters that see dates."""

import numpy as np
import pandas as pd
import pytest

import neuro_divergent as nd

CONFIG = nd.TrainingConfig(max_steps=3, batch_size=16, progress=False)


def frame():
    days = pd.date_range("2024-01-01", periods=90)
    return pd.DataFrame({"unique_id": "a", "ds": days, "y": 10 + np.sin(np.arange(90) / 3)})


@pytest.fixture(scope="module")
def compared():
    models = [nd.MLP(h=5, input_size=10, hidden_size=4), nd.NLinear(h=5, input_size=10)]
    return nd.cross_validation(models, frame(), config=CONFIG, n_windows=3, metrics=["MAE", "rmse"])


def test_mean_and_deviation_are_those_of_the_folds(compared):
    table = compared.by_fold
    values = table[(table["model"] == "MLP") & (table["metric"] == "mae")]["value"]
    assert compared.mean("mae", "MLP") == pytest.approx(values.mean())
    assert compared.std("MAE", "MLP") == pytest.approx(values.std(ddof=1))


def test_a_metric_that_was_not_asked_for_is_computed_then(compared):
    rows = compared.frame
    error = 100 * (rows["MLP"] - rows["y"]).abs() / rows["y"].abs()
    by_fold = error.groupby(rows["cutoff"]).mean()
    assert compared.mean("mape", "MLP") == pytest.approx(by_fold.mean(), rel=1e-5)
    assert compared.std("mape", "MLP") == pytest.approx(by_fold.std(ddof=1), rel=1e-5)


def test_one_model_needs_no_name():
    alone = nd.cross_validation(nd.NLinear(h=5, input_size=10), frame(), config=CONFIG, n_windows=1)
    assert alone.mean("mae") == alone.mean("mae", "NLinear")
    assert alone.std("mae") == 0.0


def test_the_best_model_stands_first_in_text_and_html(compared):
    board = compared.leaderboard()
    means = {name: compared.mean("mae", name) for name in board.table["model"]}
    assert list(board.table["model"]) == sorted(means, key=means.get)
    assert board.best == min(means, key=means.get)
    lines = repr(board).splitlines()
    assert len(lines) == 2 + 3  # a title, the names, two models and the naive one
    assert board.best in lines[2]
    assert " ± " in lines[2]
    assert board._repr_html_().count("<tr>") == 1 + 3
    assert compared._repr_html_() == board._repr_html_()
    assert repr(board) in repr(compared)
    assert compared.leaderboard("MAPE").by == "mape"
    with pytest.raises(nd.ConfigError, match="name one"):
        compared.mean("mae")
    with pytest.raises(nd.ConfigError, match="Known models"):
        compared.mean("mae", "Prophet")


def test_a_splitter_sees_dates_and_is_scored_by_the_metrics_that_were_asked_for():
    seen = []

    def quarter_ends(steps, dates):
        seen.append((steps, dates[0], dates[-1]))
        for cut in ("2024-03-01", "2024-03-15"):
            yield (
                dates < np.datetime64(cut),
                (dates >= np.datetime64(cut)) & (dates < np.datetime64(cut) + np.timedelta64(5, "D")),
            )

    found = nd.cross_validation(
        nd.NLinear(h=5, input_size=10), frame(), config=CONFIG, splitter=quarter_ends, metrics=["mae", "mape"]
    )
    assert seen == [(90, np.datetime64("2024-01-01"), np.datetime64("2024-03-30"))]
    assert sorted(found.frame["cutoff"].unique()) == [pd.Timestamp("2024-02-29"), pd.Timestamp("2024-03-14")]
    assert set(found.scores["metric"]) == {"mae", "mape"}


def test_a_splitter_object_may_ask_for_dates_too():
    class ByMonth:
        def split(self, rows, dates):
            months = dates.astype("datetime64[M]")
            last = months[-1]
            yield np.flatnonzero(months < last), np.flatnonzero(months == last)[:5]

    found = nd.cross_validation(nd.NLinear(h=5, input_size=10), frame(), config=CONFIG, splitter=ByMonth())
    assert list(found.frame["cutoff"].unique()) == [pd.Timestamp("2024-02-29")]
