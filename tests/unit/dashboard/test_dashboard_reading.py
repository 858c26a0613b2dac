"""What the dashboard reads of runs: state, scores, curves, comparisons. Expected values are calculated by hand."""

import json
import os
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from dashboard_runs import line, scored, steps_line, write_run

from neuro_divergent.core.errors import ConfigError, StorageError
from neuro_divergent.core.runs.log import LogReader, read_log
from neuro_divergent.core.runs.read import read_run
from neuro_divergent.dashboard.compare import compared
from neuro_divergent.dashboard.detail import detail
from neuro_divergent.dashboard.logs import Logs
from neuro_divergent.dashboard.places import find_places
from neuro_divergent.dashboard.studies import importances, study
from neuro_divergent.dashboard.thinning import thinned
from neuro_divergent.dashboard.watch import Watch


def rows_of(watch):
    return {row["name"]: row for row in watch.table()["runs"]}


def test_a_row_says_state_score_and_gain_over_the_naive_forecast(tmp_path):
    write_run(tmp_path / "good", best=0.5, about=scored(naive=2.0))
    row = rows_of(Watch([str(tmp_path)]))["good"]
    assert (row["state"], row["model"], row["step"], row["total_steps"]) == ("finished", "NHITS", 12, 12)
    assert (row["score"], row["score_name"], row["score_epoch"]) == (0.5, "validation_loss", 2)
    assert row["gain"] == pytest.approx(0.75)  # (2.0 - 0.5) / 2.0
    assert row["seconds"] == 12.0


def test_the_states_of_runs(tmp_path):
    write_run(tmp_path / "failed", end="NonFiniteError: the loss must be finite")
    write_run(tmp_path / "lost", end=None)
    write_run(tmp_path / "stopped", end="KeyboardInterrupt: ")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.json").write_text("{}")
    write_run(tmp_path / "damaged")
    (tmp_path / "damaged" / "config.json").write_text('{"cut": ')
    rows = rows_of(Watch([str(tmp_path)]))
    assert {name: row["state"] for name, row in rows.items()} == {
        "failed": "failed", "lost": "lost", "stopped": "stopped", "new": "new", "damaged": "damaged"
    }  # fmt: skip
    assert "NonFiniteError" in rows["failed"]["why"]
    assert "config.json" in rows["damaged"]["why"]


def test_a_maximized_score(tmp_path):
    config = {"early_stopping": {"kind": "EarlyStopping", "monitor": "validation_mae", "mode": "max"}}
    extra = [line("epoch", 13, 4, validation_mae=9.0)]
    write_run(tmp_path / "run", config=config, extra=extra, about=scored())
    row = rows_of(Watch([str(tmp_path)]))["run"]
    assert (row["score"], row["score_epoch"]) == (9.0, 4)
    assert row["gain"] == pytest.approx((9.0 - 4.0) / 4.0)


def test_a_growing_log_is_read_on_and_a_resume_drops_what_was_trained_again(tmp_path):
    run = write_run(tmp_path / "run", end=None)
    watch = Watch([str(tmp_path)])
    (key,) = [row["id"] for row in watch.table()["runs"]]
    log = watch.logs.of(watch.row(key))
    assert log.step_curves(None, None, 100, 1)["last"] == 12
    with open(run / "events.jsonl", "a") as file:
        file.write(line("fit_start", 8, 2, total_steps=12, steps_per_epoch=4) + "\n" + steps_line(9, 10)[:-20])
    watch.logs.of(watch.row(key))
    assert log.step_curves(None, None, 100, 1)["last"] == 8  # the unfinished line is not counted as damage
    assert log.epoch_curves(100)["epochs"] == 2
    with open(run / "events.jsonl", "a") as file:
        file.write(steps_line(9, 10)[-20:] + "\n")
    watch.logs.of(watch.row(key))
    assert log.step_curves(None, None, 100, 1)["last"] == 10
    assert (log.reader.damaged, watch.row(key).shown()["step"]) == (0, 10)


def test_reading_piece_by_piece_gives_what_reading_at_once_gives(tmp_path):
    data = (
        write_run(tmp_path / "run", extra=["broken {", line("log", 5, norms={"a": 1.0})]) / "events.jsonl"
    ).read_bytes()
    whole, reader = read_log(data), LogReader()
    for first in range(0, len(data), 7):
        reader.feed(data[first : first + 7])
    reader.end()
    pieces = reader.log()
    assert (pieces.steps, pieces.epochs, pieces.events, pieces.damaged) == (whole.steps, whole.epochs, whole.events, 1)
    assert pieces.memory["memory"] == [100 * 2**20] * 3


def test_a_line_that_never_ends_is_one_damaged_line():
    reader = LogReader()
    for _ in range(6):
        reader.feed(b"x" * 2**20)
    reader.feed(b"\n" + line("fit_start", 0).encode() + b"\n")
    assert (reader.damaged, len(reader.events)) == (1, 1)


def test_thinning_keeps_every_peak():
    x, y = np.arange(1_000_000.0), np.zeros(1_000_000)
    y[[123_456, 777_777]] = 5.0, -7.0
    y[500] = np.nan
    thin_x, thin_y = thinned(x, y, 800)
    assert len(thin_x) <= 810
    assert dict(zip(thin_x, thin_y, strict=True))[123_456.0] == 5.0
    assert thin_y.min() == -7.0
    assert (np.diff(thin_x) > 0).all()


def test_a_verdict_keeps_its_figures_and_a_large_or_deep_event_is_cut(tmp_path):
    figures = {"largest gradient norm": 5.0, "median": 1.0}
    deep = {"a": {"b": {"c": 1}}}
    extra = [
        line("verdict", 6, what="gradients explode", evidence=figures, remedy={"learning_rate": 0.5}, certainty=0.9),
        line("other", 7, deep=deep, long={str(number): number for number in range(1000)}, text="x" * 5000),
    ]
    write_run(tmp_path / "run", extra=extra)
    watch = Watch([str(tmp_path)])
    row = watch.row(watch.table()["runs"][0]["id"])
    found = detail(row, watch.logs.of(row))
    assert found["verdicts"][0]["evidence"] == figures
    assert found["verdicts"][0]["remedy"] == {"learning_rate": 0.5}
    other = next(event for event in found["events"] if event["event"] == "other")
    assert other["deep"] == {"a": {"b": "{'c': 1}"}}
    assert (len(other["long"]), len(other["text"])) == (30, 2000)


def test_detail_shows_verdicts_checkpoints_and_tables(tmp_path):
    extra = [
        line("verdict", 6, what="vanishing gradients", evidence="norm 1e-9", remedy="a residual network"),
        line("log", 4, gradient_norms={"layer.0": 1.0, "layer.1": 2.0}),
        line("log", 8, gradient_norms={"layer.0": 3.0}, accuracy=0.5),
        line("console", 9, level="warning", text="careful"),
    ]
    run = write_run(tmp_path / "run", extra=extra)
    step = run / "checkpoints" / "step-00000012"
    step.mkdir(parents=True)
    (step / "weights.safetensors").write_bytes(b"x" * 1000)
    watch = Watch([str(tmp_path)])
    row = watch.row(watch.table()["runs"][0]["id"])
    found = detail(row, watch.logs.of(row))
    assert [(one["what"], one["remedy"]) for one in found["verdicts"]] == [
        ("vanishing gradients", "a residual network")
    ]
    assert [(one["name"], one["bytes"]) for one in found["checkpoints"]] == [("step-00000012", 1000)]
    assert (found["tables"], found["logged"]) == (["gradient_norms"], ["accuracy"])
    assert [one["text"] for one in found["console"]] == ["careful"]
    assert row.shown()["verdicts"] == 1


def test_runs_that_were_scored_alike_are_ranked_and_others_are_refused(tmp_path):
    write_run(tmp_path / "a", best=0.9, about=scored())
    write_run(tmp_path / "b", best=0.4, about=scored())
    write_run(tmp_path / "other-table", best=0.1, about=scored(rows="rows-b", table="table-b"))
    write_run(tmp_path / "other-loss", best=0.2, about=scored(loss="MSE"))
    watch = Watch([str(tmp_path)])
    rows = {row["name"]: watch.row(row["id"]) for row in watch.table()["runs"]}

    def result(*names, metric=None):
        return compared([rows[name] for name in names], watch.logs, metric, 100)

    alike = result("a", "b")
    assert alike["refusal"] == []
    assert [run["name"] for run in alike["groups"][0]["runs"]] == ["b", "a"]
    assert alike["groups"][0]["naive"] == 1.0
    assert "different tables" in result("a", "other-table")["refusal"][0]
    assert len(result("a", "other-table")["groups"]) == 2
    assert "different functions" in result("a", "other-loss", metric="validation_loss")["refusal"][0]
    by_metric = result("a", "other-loss")  # the metric that both have is in original units
    assert (by_metric["metric"], by_metric["refusal"]) == ("validation_mae", [])
    write_run(tmp_path / "silent")
    watch.search()
    rows |= {row.place.name: row for row in watch.rows.values()}
    assert "does not say" in result("a", "silent")["refusal"][0]


def test_facts_of_wrong_types_are_left_out_and_the_others_are_compared(tmp_path):
    odd = scored() | {"scored": {"rows": {"a": 1}, "h": [1], "loss": []}, "naive": {"validation_loss": "1"}}
    odd["data"] = {"fingerprint": 5, "series": [], "rows": {}, "freq": ["x"]}
    write_run(tmp_path / "odd", about=odd)
    write_run(tmp_path / "good", about=scored())
    watch = Watch([str(tmp_path)])
    rows = rows_of(watch)
    assert rows["odd"]["data"] == {"series": None, "rows": None, "freq": None, "fingerprint": "5"}
    assert (rows["odd"]["naive_score"], rows["odd"]["gain"]) == (None, None)
    found = compared([watch.row(run["id"]) for run in rows.values()], watch.logs, None, 10)
    assert [[run["name"] for run in group["runs"]] for group in found["groups"]] == [["good"]]
    assert found["refusal"][0] == "odd: the run does not say on which rows it was scored"


def test_differences_of_settings(tmp_path):
    write_run(tmp_path / "a", about=scored(), config={"seed": 1, "checkpoints": {"directory": "a"}})
    write_run(tmp_path / "b", about=scored(), config={"seed": 2, "checkpoints": {"directory": "b"}})
    watch = Watch([str(tmp_path)])
    rows = [watch.row(row["id"]) for row in watch.table()["runs"]]
    found = compared(rows, watch.logs, None, 100)["differences"]
    assert [(one["setting"], sorted(one["values"].values())) for one in found] == [("training.seed", ["1", "2"])]


def test_runs_are_found_below_folders_but_not_behind_links(tmp_path):
    write_run(tmp_path / "runs" / "deep" / "er" / "one")
    write_run(tmp_path / "outside")
    os.symlink(tmp_path / "outside", tmp_path / "runs" / "link")
    assert [place.name for place in find_places([str(tmp_path / "runs")])] == ["deep/er/one"]
    assert [place.name for place in find_places([str(tmp_path / "outside")])] == ["outside"]


@pytest.mark.parametrize("name", ["events.jsonl", "checkpoints", "about.json", "forecasts"])
def test_a_run_with_a_link_is_damaged_and_nothing_of_it_is_read(tmp_path, name):
    secret = tmp_path / "secret"
    write_run(secret, about={"model": {"kind": "SECRET"}})
    run = write_run(tmp_path / "runs" / "run")
    target = run / name
    if target.exists():
        target.unlink()
    os.symlink(secret / name if name.endswith(("l", "n")) else secret, target)
    watch = Watch([str(tmp_path / "runs")])
    (row,) = watch.table()["runs"]
    assert row["state"] == "damaged"
    assert "links" in row["why"]
    with pytest.raises(StorageError, match="links"):
        watch.logs.of(watch.row(row["id"]))


def test_an_id_that_names_nothing(tmp_path):
    with pytest.raises(ConfigError, match="names none"):
        Watch([str(tmp_path)]).row("../../etc/passwd")


def test_notes_are_kept_in_the_run(tmp_path):
    run = write_run(tmp_path / "run")
    assert read_run(run).annotate(tags=["best", " best "], note="see <b>").notes == {
        "tags": ["best"],
        "note": "see <b>",
    }
    assert read_run(run).annotate(note="").notes == {"tags": ["best"], "note": ""}
    assert rows_of(Watch([str(tmp_path)]))["run"]["tags"] == ["best"]
    with pytest.raises(ConfigError, match="at most 20 tags"):
        read_run(run).annotate(tags=[str(number) for number in range(21)])


def test_the_server_needs_no_torch():
    code = (
        "import sys; import neuro_divergent.dashboard.server, neuro_divergent.dashboard.launch; "
        "print('torch' in sys.modules, 'polars' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.fixture
def search(tmp_path):
    """A study that Optuna wrote: 12 trials whose score is the square of x; y does nothing."""
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder = tmp_path / "search"
    folder.mkdir()
    (folder / "study.json").write_text("{}")
    made = optuna.create_study(
        storage=f"sqlite:///{folder}/study.db", study_name="search", sampler=optuna.samplers.RandomSampler(seed=1)
    )

    def score(trial):
        x, _ = trial.suggest_float("x", 0, 1), trial.suggest_categorical("y", ["a", "b"])
        trial.report(x, 1)
        return x**2

    made.optimize(score, n_trials=12)
    made.ask()
    return folder, made


def test_a_study_is_read_as_optuna_wrote_it(search):
    folder, made = search
    (place,) = find_places([str(folder.parent)])
    found = study(place)
    assert [trial["values"][0] for trial in found["trials"][:12]] == pytest.approx(
        [trial.value for trial in made.trials[:12]]
    )
    assert [trial["params"] for trial in found["trials"][:12]] == [trial.params for trial in made.trials[:12]]
    assert found["trials"][12]["state"] == "paused"  # asked for, and no process holds its claim
    assert found["convergence"][-1] == [made.best_trial.number, pytest.approx(made.best_value)]
    assert [one["name"] for one in found["importances"]] == ["x", "y"]
    assert found["importances"][0]["share"] > 0.6


def test_the_pareto_front(tmp_path):
    optuna = pytest.importorskip("optuna")
    (tmp_path / "study.json").write_text("{}")
    made = optuna.create_study(storage=f"sqlite:///{tmp_path}/study.db", directions=["minimize", "maximize"])
    made.optimize(lambda trial: (trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)), n_trials=15)
    (place,) = find_places([str(tmp_path)])
    assert sorted(study(place)["front"]) == sorted(trial.number for trial in made.best_trials)


def test_a_database_that_is_none_is_an_error(tmp_path):
    (tmp_path / "study.json").write_text("{}")
    (tmp_path / "study.db").write_text("no database")
    (place,) = find_places([str(tmp_path)])
    with pytest.raises(StorageError, match="could not be read"):
        study(place)
    (tmp_path / "study.db").unlink()
    with sqlite3.connect(tmp_path / "study.db") as connection:  # a view that never ends, in place of a table
        connection.execute(
            "CREATE VIEW study_directions AS WITH RECURSIVE n(objective) AS (SELECT 1 UNION ALL SELECT objective + 1 "
            "FROM n) SELECT objective, 'MINIMIZE' AS direction FROM n WHERE objective < 0"
        )
    with pytest.raises(StorageError, match="could not be read"):
        study(place)


def test_importances_need_eight_trials():
    assert importances([{"values": [1.0], "params": {"x": 1}}] * 7, ["minimize"]) == []


def test_a_million_small_events_do_not_fill_the_memory(tmp_path):
    run = write_run(tmp_path / "run", end=None)
    with open(run / "events.jsonl", "a") as file:
        file.write((line("log", 12, 3, value=1.0) + "\n") * 30_000)
    watch = Watch([str(tmp_path)])
    row = watch.row(watch.table()["runs"][0]["id"])
    log = Logs().of(row)
    assert len(log.events()) < 7000
    assert log.left_out > 20_000
    assert json.dumps(detail(row, log), allow_nan=False)
