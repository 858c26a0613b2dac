"""AutoForecaster: honest scores, the time limit, a kill, files, and wrong requests."""

import json
import subprocess
import sys
import textwrap
import time

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.core.errors import StorageError
from neuro_divergent.training.loop import loop

TINY = [nd.MLP(h=12, input_size=24, hidden_size=32, anchor="auto"), nd.NLinear(h=12, input_size=24, anchor="auto")]


def tiny(**fields):
    """An AutoForecaster of two small models."""
    return nd.AutoForecaster(
        **{"h": 12, "include": TINY, "search": False, "time_limit": 60, "progress": False} | fields
    )


@pytest.fixture(scope="module")
def passengers():
    return nd.samples.air_passengers()


@pytest.fixture(scope="module")
def fitted(passengers):
    return tiny().fit(passengers)


def test_scores_of_the_leaderboard_by_hand(fitted, passengers):
    """MASE of the seasonal naive forecast of the last year: mean change over a year, over that of the rows before."""
    y = passengers["y"].to_numpy()
    error = np.abs(y[-12:] - y[-24:-12]).mean()
    scale = np.abs(y[12:-12] - y[:-24]).mean()
    row = fitted.leaderboard.row("seasonal naive (12)")
    assert row.score == pytest.approx(error / scale, rel=1e-5)
    first = np.abs(y[-36:-12] - y[-48:-24]).mean() / np.abs(y[12:-36] - y[:-48]).mean()
    assert row.selection == pytest.approx(first, rel=1e-5)  # scaled by the rows before the first of the two windows
    assert {row.model for row in fitted.leaderboard.rows} == {
        "MLP", "NLinear", "naive", "seasonal naive (12)", "mean of 3 seasons (12)", "mean of 8 seasons (12)",
        "ensemble",
    }  # fmt: skip
    assert sum(row.weight for row in fitted.leaderboard.rows) == pytest.approx(1.0)
    assert "mase" in repr(fitted.leaderboard)
    assert "<table>" in fitted.leaderboard._repr_html_()


def test_the_ensemble_scores_what_its_weights_say(fitted, passengers, tmp_path):
    """The judge score of the ensemble is that of the weighted mean of its members' held-out forecasts."""
    found = tiny(directory=tmp_path / "work").fit(passengers)
    from safetensors.numpy import load_file

    parts = []
    for place in sorted((tmp_path / "work" / "members").iterdir()):
        name = json.loads((place / "member.json").read_text())["wanted"]["name"]
        parts.append(found.leaderboard.row(name).weight * load_file(place / "held_out.safetensors")["final"][:, :, 0])
    y = passengers["y"].to_numpy()
    naive = found.leaderboard.row("seasonal naive (12)").weight * y[-24:-12]
    error = np.abs(np.sum(parts, axis=0) + naive - y[-12:]).mean() / np.abs(y[12:-12] - y[:-24]).mean()
    assert found.leaderboard.row("ensemble").score == pytest.approx(error, rel=1e-4)
    assert found.weights.tolist() == fitted.weights.tolist()  # the same seed, the same bits


def test_rows_of_the_judge_decide_nothing(fitted, passengers):
    """The last year times a hundred: the same weights, and the same scores on the windows that chose."""
    poisoned = passengers.with_columns(
        y=pl.when(pl.int_range(pl.len()) >= 132).then(pl.col("y") * 100).otherwise(pl.col("y"))
    )
    other = tiny().fit(poisoned)
    assert other.weights.tolist() == fitted.weights.tolist()
    for row in fitted.leaderboard.rows:
        assert other.leaderboard.row(row.model).selection == row.selection
        assert other.leaderboard.row(row.model).score != row.score


def test_forecasts_save_load_and_serve_the_same_bits(fitted, tmp_path):
    frame = fitted.predict(level=[80, 95])
    assert frame.columns[2:] == [f"AutoForecaster{part}" for part in ("", "-lo-80", "-hi-80", "-lo-95", "-hi-95")]
    assert (frame["AutoForecaster-lo-95"] <= frame["AutoForecaster-lo-80"]).all()
    assert (frame["AutoForecaster-lo-80"] < frame["AutoForecaster"]).all()
    fitted.save(tmp_path / "saved")
    loaded = nd.load(tmp_path / "saved")
    assert isinstance(loaded, nd.AutoResult)
    assert loaded.predict(level=[80, 95]).equals(frame)
    assert loaded.predictor().predict(level=[80, 95]).equals(frame)
    assert loaded.leaderboard.table.equals(fitted.leaderboard.table)
    assert (loaded.reasons, loaded.facts, loaded.coverage) == (fitted.reasons, fitted.facts, fitted.coverage)
    assert not [path for path in (tmp_path / "saved").rglob("*") if path.suffix in (".pkl", ".pt", ".pickle")]


def test_later_rows_are_scored_and_learned(passengers):
    found = tiny().fit(passengers.head(132))
    scores = found.evaluate(passengers, metrics=["mase", "coverage"], level=[80])
    frame = found.predict(level=[80])
    y = passengers["y"].to_numpy()[-12:]
    inside = (frame["AutoForecaster-lo-80"].to_numpy() <= y) & (y <= frame["AutoForecaster-hi-80"].to_numpy())
    assert scores["AutoForecaster", "coverage-80"] == pytest.approx(inside.mean())
    assert scores["AutoForecaster", "mase"] < scores["seasonal naive (12)", "mase"]
    updated = found.update(passengers.tail(12))
    assert updated.predict()["ds"][0] == pl.Series(["1961-01-01"]).str.to_datetime()[0]
    with pytest.raises(nd.NeuroDivergentError, match="Give later rows"):
        found.evaluate(passengers.head(60))


def test_the_report_and_the_picture(fitted, tmp_path):
    text = fitted.report(tmp_path / "page.html", source="air.csv").read_text()
    for sentence in fitted.reasons:
        assert sentence.split(" ")[0] in text
    assert "Why this forecast" in text
    fitted.plot(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_a_tiny_limit_gives_the_naive_forecast_and_says_so(passengers):
    found = tiny(time_limit=0.01).fit(passengers)
    assert [member.model.name for member in found.members] == ["seasonal naive (12)"]
    assert found.predict()["AutoForecaster"].to_list() == pytest.approx(passengers["y"].tail(12).to_list(), rel=1e-5)
    assert any("best naive one" in sentence for sentence in found.reasons)
    assert found.leaderboard.row("MLP").note == "there was no time left for it"


def test_the_limit_holds_if_steps_are_slow(passengers, monkeypatch):
    """A clock that only optimizer steps move, by 0.1 s each: the recipes of two models want far more than 30 s."""
    now = [0.0]
    step = loop.train_step

    def slow(*arguments):
        now[0] += 0.1
        return step(*arguments)

    monkeypatch.setattr(loop, "train_step", slow)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    found = tiny(time_limit=30).fit(passengers)
    assert 20 <= now[0] <= 1.05 * 30
    assert any(row.steps and row.steps < 500 for row in found.leaderboard.rows)
    assert len(found.members) >= 1


KILLED = """
    import os, signal, sys
    import neuro_divergent as nd
    from neuro_divergent.search.auto import member
    from tests.unit.search.auto.test_auto_forecaster import tiny

    member.CHECKPOINT_SECONDS, member.SECONDS_PER_SLICE = 0.0, 0.02
    save = member._save
    def killing(run, place, spent):
        save(run, place, spent)
        if place.name == "00001" and run.training.state.step > 20:
            os.kill(os.getpid(), signal.SIGKILL)
    member._save = killing
    tiny(directory=sys.argv[1]).fit(nd.samples.air_passengers())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_run_goes_on_exactly(fitted, passengers, tmp_path, request):
    """The second model is killed at a checkpoint. Resumed, the first one is not trained again, and all bits agree."""
    root, work = request.config.rootpath, tmp_path / "work"
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(work)], cwd=root, capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    first, second = work / "members" / "00000", work / "members" / "00001"
    before = (first / "outcome.json").stat().st_mtime_ns
    assert not (second / "outcome.json").exists()
    assert list((second / "checkpoints").iterdir())
    with pytest.raises(StorageError, match="resume='auto'"):
        tiny(directory=work).fit(passengers)
    with pytest.raises(StorageError, match="seed"):
        tiny(directory=work, seed=7).fit(passengers, resume="auto")
    found = tiny(directory=work).fit(passengers, resume="auto")
    assert (first / "outcome.json").stat().st_mtime_ns == before
    assert found.predict(level=[80]).equals(fitted.predict(level=[80]))
    assert found.leaderboard.row("NLinear").selection == fitted.leaderboard.row("NLinear").selection


def test_models_train_side_by_side_with_the_same_bits(fitted, passengers):
    assert tiny(n_jobs=2).fit(passengers).predict().equals(fitted.predict())


def test_a_callback_ends_the_trainings(passengers):
    rows = []
    found = tiny(callbacks=lambda row: rows.append(row) or True).fit(passengers)
    assert [row["model"] for row in rows] == ["MLP"]
    assert found.leaderboard.row("NLinear").note == "there was no time left for it"


def test_a_metric_of_ones_own_and_one_of_intervals(passengers):
    def overshoot(actual, forecast):
        return (forecast - actual).clamp(min=0)

    found = tiny(metric=overshoot, include=TINY[1]).fit(passengers)
    assert found.leaderboard.metric == "overshoot"
    assert found.leaderboard.row("NLinear").score >= 0
    crps = tiny(metric="scaled_crps", include=TINY[1], level=[80]).fit(passengers)
    frame = crps.predict(level=[80])
    assert (frame["AutoForecaster-lo-80"] <= frame["AutoForecaster-hi-80"]).all()
    assert crps.coverage[0].level == 80


def test_columns_known_ahead_are_used_and_the_search_tries_more(tmp_path):
    """The target follows a price that is known ahead; no past of the target tells it."""
    draw = np.random.default_rng(3)
    price = draw.normal(size=320)
    frame = pl.DataFrame({"ds": range(320), "y": 3 * price + 0.01 * draw.normal(size=320), "price": price})
    table = nd.TimeSeriesDataFrame.from_frame(frame.head(308), future=["price"])
    model = nd.MLP(h=12, input_size=12, hidden_size=16)
    found = nd.AutoForecaster(h=12, include=model, time_limit=15, n_windows=4, progress=False).fit(table)
    ahead = found.predict(future=frame.tail(12).select("ds", "price"))
    assert np.abs(ahead["AutoForecaster"].to_numpy() - frame["y"].tail(12).to_numpy()).mean() < 1.5
    assert {row.source for row in found.leaderboard.rows} >= {"given", "search", "naive", "ensemble"}


def test_short_series_leave_the_naive_forecast():
    found = nd.AutoForecaster(h=12, time_limit=5, progress=False).fit({"ds": range(20), "y": [1.0, 2.0] * 10})
    assert [member.model.name for member in found.members] == ["naive"]
    assert "25 rows" in found.leaderboard.row("MLP").note
    one = nd.AutoForecaster(h=6, time_limit=5, include=nd.NLinear(h=6, input_size=6), search=False, progress=False)
    found = one.fit({"ds": range(18), "y": np.sin(np.arange(18.0))})
    assert any("too good" in sentence for sentence in found.reasons)  # no rows are left to judge


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"preset": "fst"}, "Did you mean fast"),
        ({"include": ["NHITZ"]}, "did you mean NHITS"),
        ({"include": ["NHITS"], "exclude": ["mlp"]}, "leaves none"),
        ({"include": [nd.NLinear(h=3, input_size=6)]}, "must have h=12"),
        ({"metric": "coverage"}, "useless intervals"),
        ({"metric": "maee"}, "mae"),
        ({"time_limit": "soon"}, "time_limit must be a time"),
        ({"n_jobs": 0}, "n_jobs must be -1 or at least 1"),
        ({"include": []}, "empty list"),
    ],
)
def test_wrong_requests(fields, said, passengers):
    with pytest.raises(nd.NeuroDivergentError, match=said):
        tiny(**fields).fit(passengers)


def test_the_horizon_is_required():
    with pytest.raises(nd.NeuroDivergentError, match="'h'"):
        nd.AutoForecaster()
