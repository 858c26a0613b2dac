"""The command line as a person meets it: real processes, their output and exit codes."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest
import yaml

import neuro_divergent as nd
from neuro_divergent.cli.io.tables_out import as_csv
from neuro_divergent.cli.main import COMMANDS, main
from neuro_divergent.cli.request.run_file import sections, train_config
from neuro_divergent.core.config import field_docs


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "neuro_divergent.cli.main", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def call(*arguments, cwd=None):
    """The same in this process, which spares the start of an interpreter and the import of torch."""
    out, err, before = io.StringIO(), io.StringIO(), os.getcwd()
    os.chdir(cwd or before)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    finally:
        os.chdir(before)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "air.csv"
    nd.samples.air_passengers().write_csv(path)
    return path


def test_help_and_version():
    assert "Train neural networks that forecast" in run("--help").stdout
    assert run("--version").stdout.strip() == nd.__version__


def test_python_m_runs_the_package():
    def as_module(*arguments):
        return subprocess.run([sys.executable, "-m", "neuro_divergent", *arguments], capture_output=True, text=True)

    assert as_module("--version").stdout.strip() == nd.__version__
    wrong = as_module("train", "--h", "3")
    assert wrong.returncode == 2
    assert wrong.stderr == run("train", "--h", "3").stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "nhist", "--h", "12"], "there is no model named 'nhist'; did you mean NHITS"),
        (["--h", "12", "--set", "model.hidden=3"], "NHITS has no field 'hidden'; did you mean hidden_sizes"),
        (["--h", "0"], "h must be at least 1, but got h=0"),
        (["--h", "12", "--set", "training.max_epoch=3"], "has no field 'max_epoch'; did you mean max_epochs"),
        (["--h", "12", "--set", "hidden=3"], "--set takes model.FIELD=VALUE or training.FIELD=VALUE"),
        (["--h", "12", "--config", "nowhere.yaml"], "the run file nowhere.yaml could not be read"),
        (["--h", "twelve"], "twelve"),
        (["--h", "12", "--horizon", "3"], "--horizon"),
    ],
)
def test_a_wrong_request_is_one_sentence_and_exit_code_2(table, arguments, sentence):
    done = call("train", table, *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_missing_file_is_named(tmp_path):
    done = call("train", tmp_path / "nowhere.csv", "--h", "3")
    assert done.returncode == 2
    assert "nowhere.csv" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_train_then_predict(table, tmp_path):
    few = ["--set", "training.max_epochs=2"]
    done = run("train", table, "--model", "dlinear", "--h", "6", "--out", "run", *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "144 rows" in done.stderr  # about the work: the pipe gets the result only
    assert "144 rows" not in done.stdout
    assert "whose weights are kept" in done.stdout
    assert re.search(
        r"on the last \d+ % of the rows \(validation\): .* (?:than|as) the seasonal naive \(12\) forecast "
        r"\([\d.]+\); bias [+-][\d.]+ %",
        done.stdout,
    )
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left >= {"config.json", "events.jsonl", "checkpoints", "model", "report.html"}
    assert "\r" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    printed = call("predict", "run", cwd=tmp_path)
    assert printed.stdout.splitlines()[0] == "unique_id,ds,DLinear"
    assert len(printed.stdout.splitlines()) == 7
    call("predict", "run", "--out", "f.parquet", cwd=tmp_path)
    assert pl.read_parquet(tmp_path / "f.parquet").height == 6
    refused = call("predict", "run", "--level", "80", cwd=tmp_path)
    assert refused.returncode == 2
    assert "MQLoss" in refused.stderr
    shown = call("inspect", "run", cwd=tmp_path)
    assert shown.returncode == 0
    assert "DLinear" in shown.stdout


def test_lists_for_people_and_for_machines():
    assert "NHITS" in call("models").stdout
    assert json.loads(call("models", "--json").stdout)["DLinear"]["family"] == "mlp"
    assert "AdamW" in call("optimizers").stdout
    assert "WarmupCosine" in call("schedules").stdout
    assert "MQLoss" in call("losses").stdout


def test_demo_writes_its_files_and_runs_and_no_progress_characters(tmp_path):
    done = run("demo", "--quick", "--out", "shown", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "seasonal naive (12)" in done.stdout
    assert "nd.NHITS(h=24, input_size=168).fit(data).predict()" in done.stdout
    assert not set("\r\x1b━") & set(done.stdout + done.stderr)
    written = {path.name for path in (tmp_path / "shown").iterdir()}
    assert written == {"forecast.csv", "forecast.png", "report.html", "runs"}
    assert "dashboard shown/runs" in done.stdout
    assert [len(run.snapshots) > 0 for run in nd.read_run(tmp_path / "shown" / "runs" / "hourly").runs] == [True, True]
    forecast = pl.read_csv(tmp_path / "shown" / "forecast.csv")
    assert forecast.height == 12 + 50 * 24
    assert {"NHITS", "DLinear", "MLP", "LSTM", "seasonal_naive"} <= set(forecast.columns)
    page = (tmp_path / "shown" / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert page.count("data:image/png;base64,") == 3
    assert '"max_steps": 20' in page.replace("&quot;", '"')


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    """A table as a person has it: own names, no id, a gap, a column without a role."""
    path = tmp_path_factory.mktemp("prices") / "prices.csv"
    days = [date(2023, 1, 2) + timedelta(days=number) for number in range(150) if number not in (40, 41, 90)]
    close = [100.0 + 0.1 * day.toordinal() % 50 + 3 * (day.weekday() == 0) for day in days]
    frame = pl.DataFrame({"timestamp": days, "close": close, "volume": range(len(days))})
    frame.write_csv(path)
    return path


def test_three_commands_from_a_table_to_intervals_and_a_report(prices, tmp_path):
    flags = ["--time", "timestamp", "--target", "close", "--h", 7, "--level", "80,95", "--max-epochs", 2]
    done = call("train", prices, "--model", "dlinear", *flags, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)  # nothing but the result goes down the pipe
    assert summary["epochs"] == 2
    assert "3 rows were absent" in done.stderr
    assert (tmp_path / summary["report"]).exists()
    measured = {item["level"]: (item["coverage"], item["values"]) for item in summary["coverage"]}
    assert list(measured) == [95, 80]
    assert measured[80][0] == summary["held_back"][0]["coverage-80"]
    run_directory = tmp_path / "runs" / "prices-dlinear"
    forecast = run("predict", run_directory, "--level", "80,95", "--json")
    rows = json.loads(forecast.stdout)
    assert len(rows) == 7
    first = rows[0]
    assert first["timestamp"] == "2023-06-01"
    assert first["DLinear-lo-95"] <= first["DLinear-lo-80"] <= first["DLinear-hi-80"] <= first["DLinear-hi-95"]
    scored = json.loads(call("evaluate", run_directory, prices, "--level", "80", "--json").stdout)
    assert [row["model"] for row in scored["overall"]] == ["DLinear", "seasonal naive (7)"]
    assert 0 <= scored["overall"][0]["coverage-80"] <= 1
    assert len(scored["by_step"]) == 2 * 7
    told = call("evaluate", run_directory, prices, "--level", "80", "--n-windows", 2).stdout
    assert re.search(r"^80 % interval: \d+ % of 1[34] values inside$", told, re.MULTILINE)  # two horizons of 7
    again = call("train", prices, "--model", "dlinear", *flags, "--no-report", cwd=tmp_path)
    share, count = measured[80]
    assert f"\n80 % interval: {100 * share:.0f} % of {count} held-out values inside\n" in again.stdout
    assert "saved to runs/prices-dlinear-2/model" in again.stdout


def test_init_writes_a_run_file_that_trains(prices, tmp_path):
    done = call("init", prices, "--model", "dlinear", "--level", "90", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "run.yaml").read_text()
    fields = yaml.safe_load(text)
    assert fields["data"] == {"file": str(prices), "time_col": "timestamp", "target_col": "close", "freq": "1d"}
    assert fields["model"]["kind"] == "DLinear"
    assert fields["model"]["h"] == 7  # the weekly season of the Mondays
    assert fields["training"]["loss"] == {"kind": "MQLoss", "level": [90.0]}
    # Every field is there with its sentence: what is a comment becomes a valid field when the # is taken away.
    sentences = {**field_docs(nd.TrainingConfig), **field_docs(nd.DLinear)}
    for name, sentence in sentences.items():
        assert f"{name}: " in text
        assert " ".join(sentence.split())[:60] in " ".join(text.replace("#", " ").split())
    opened = re.sub(r"^  # (\w+): (.*)$", r"  \1: \2", text, flags=re.MULTILINE)
    nd.TrainingConfig.from_dict(yaml.safe_load(opened)["training"])
    nd.Model.from_dict(yaml.safe_load(opened)["model"])
    refused = call("init", prices, cwd=tmp_path)
    assert refused.returncode == 1
    assert "--overwrite" in refused.stderr
    over = ["--max-epochs", 1, "--set", "training.optimizer.learning_rate=3e-4", "--no-report", "--json"]
    trained = call("train", "--config", "run.yaml", *over, "--out", "run", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    # The figures of the held-out rows do not need a report.
    scores = {row["model"]: row["mae"] for row in json.loads(trained.stdout)["held_back"]}
    assert len(scores) == 2
    assert all(value > 0 for value in scores.values())
    config = nd.load(tmp_path / "run" / "model").config
    assert config.optimizer == nd.AdamW(learning_rate=3e-4)
    assert config.loss == nd.MQLoss(level=[90])
    assert config.max_epochs == 1


def test_init_finds_the_column_of_times_with_an_offset(tmp_path):
    """As a database writes them, which come as text; the column's name says nothing."""
    hours = [datetime(2024, 1, 1) + timedelta(hours=hour) for hour in range(100)]
    lines = [f"{site},{hour}+00,{hour.hour}.5" for site in ("north", "south") for hour in hours]
    (tmp_path / "t.csv").write_text("\n".join(["site,measured,load", *lines]))
    done = call("init", "t.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = yaml.safe_load((tmp_path / "run.yaml").read_text())["data"]
    assert (data["time_col"], data["id_col"], data["target_col"]) == ("measured", "site", "load")


@pytest.mark.parametrize(
    "named", [["--config", "run.yaml"], ["--set", "training.optimizer=sgd"]], ids=["in a run file", "with --set"]
)
def test_a_learning_rate_goes_to_the_optimizer_that_was_named(prices, tmp_path, named):
    (tmp_path / "run.yaml").write_text("training: {optimizer: sgd}\n")
    flags = ["--time", "timestamp", "--target", "close", "--h", 7, "--model", "dlinear", "--max-epochs", 1]
    asked = [*named, "--learning-rate", 0.0002, "--no-report", "--out", "run"]
    done = call("train", prices, *flags, *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert nd.load(tmp_path / "run" / "model").config.optimizer == nd.SGD(learning_rate=0.0002)


def test_only_fields_without_a_kind_go_to_a_name():
    model, flags = nd.DLinear(h=1, input_size=1), {"training": {"optimizer": {"learning_rate": 3e-5}}}
    named = sections(None, flags, ["training.optimizer=lion"])
    assert train_config(named, model, None, None).optimizer == nd.Lion(learning_rate=3e-5)
    # A name takes the place of another description, whose fields it would not know.
    flags = {"training": {"optimizer": {"kind": "sgd", "momentum": 0.5}}}
    other = sections(None, flags, ["training.optimizer=lion"])
    assert train_config(other, model, None, None).optimizer == nd.Lion()
    assert sections(None, flags, ["training.optimizer=auto"])["training"] == {"optimizer": "auto"}


def test_cv_is_a_leaderboard_beside_the_naive_forecast(prices, tmp_path):
    columns = ["--time", "timestamp", "--target", "close"]
    some = ["--models", "dlinear,nlinear", "--h", 7, "--n-windows", 2, "--gap", 3, "--max-epochs", 1, "--level", "80"]
    done = call("cv", prices, *columns, *some, "--json", "--out", "compared", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    names = [row["model"] for row in found["leaderboard"]]
    assert set(names) == {"DLinear", "NLinear", "seasonal naive"} or any("naive" in name for name in names)
    assert [row["mase"] for row in found["leaderboard"]] == sorted(row["mase"] for row in found["leaderboard"])
    assert {row["fold"] for row in found["by_fold"]} == {0, 1}
    forecasts = pl.read_csv(tmp_path / "compared" / "forecasts.csv", try_parse_dates=True)
    assert forecasts.height == 2 * 7
    assert "DLinear-lo-80" in forecasts.columns
    # Between the last row seen and the first one forecast lie three.
    assert (forecasts["timestamp"][0] - forecasts["cutoff"][0]).days == 1 + 3
    assert "Leaderboard" in (tmp_path / "compared" / "report.html").read_text(encoding="utf-8")
    assert [(item["model"], item["level"], item["values"]) for item in found["coverage"]] == [
        *(("DLinear", 80, forecasts["close"].count()), ("NLinear", 80, forecasts["close"].count()))
    ]
    told = call("cv", prices, *columns, *some).stdout
    assert re.search(r"^NLinear: 80 % interval: \d+ % of \d+ held-out values inside$", told, re.MULTILINE)


@pytest.mark.parametrize(
    ("metrics", "badness"),
    [
        (None, lambda row: row["mase"]),
        ("rmse,mase", lambda row: row["rmse"]),
        ("r2,mase", lambda row: -row["r2"]),
        ("directional_accuracy", lambda row: -row["directional_accuracy"]),
        ("bias,mase", lambda row: abs(row["bias"])),
        ("coverage,mase", lambda row: abs(row["coverage-80"] - 0.8)),
    ],
)
def test_the_best_model_by_the_first_metric_comes_first(prices, metrics, badness):
    asked = ["--level", 80] if metrics is None else ["--level", 80, "--metrics", metrics]
    some = ["--models", "dlinear,nlinear,mlp", "--h", 7, "--n-windows", 2, "--max-epochs", 1, "--json"]
    done = call("cv", prices, "--time", "timestamp", "--target", "close", *some, *asked)
    assert done.returncode == 0, done.stderr
    rows = [row for row in json.loads(done.stdout)["leaderboard"] if None not in row.values()]
    found = [badness(row) for row in rows]
    assert found == sorted(found)
    assert len(set(found)) > 1


def test_data_check_says_what_to_do(prices, tmp_path):
    columns = ["--time", "timestamp", "--target", "close"]
    good = call("data", "check", prices, *columns)
    assert good.returncode == 0
    assert "3 rows are missing" in good.stdout
    assert "--set data.gaps=linear" in good.stdout
    assert "columns without a role: volume" in good.stdout
    assert "seasons found: 7" in good.stdout
    frame = pl.read_csv(prices)
    pl.concat([frame, frame[5:7]]).write_csv(tmp_path / "twice.csv")
    bad = call("data", "check", tmp_path / "twice.csv", *columns, "--json")
    assert bad.returncode == 1
    found = json.loads(bad.stdout)["findings"]
    assert found[0]["refused"]
    assert "data.duplicates=last" in found[0]["todo"]


def test_bench_measures_and_completion_completes():
    found = json.loads(call("bench", "--models", "dlinear", "--steps", 2, "--json").stdout)
    assert found["results"][0]["model"] == "DLinear"
    assert found["results"][0]["steps_per_second"] > 0
    script = call("completion", "bash").stdout
    assert "--input-size" in script
    assert "neuro-divergent" in script


def test_a_stop_by_signal_is_saved_and_resumed(prices, tmp_path):
    """SIGTERM while training: exit code 143, and --resume goes on where it stopped."""
    flags = ["--time", "timestamp", "--target", "close", "--h", "7", "--model", "dlinear", "--out", "run"]
    flags.append("--no-report")
    long = ["--set", "training.early_stopping=null", "--max-epochs", "40000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "neuro_divergent.cli.main", "train", str(prices), *flags, *long],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    while process.poll() is None and not list(tmp_path.glob("run/checkpoints/step-*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said
    assert "Traceback" not in said
    last = sorted(path.name for path in tmp_path.glob("run/checkpoints/step-*"))[-1]
    assert f"stopped; {last} is saved in run. Resume: neuro-divergent train {shlex.quote(str(prices))} --time" in said
    unfinished = call("predict", "run", cwd=tmp_path)
    assert unfinished.returncode == 1
    assert "run must be a run with a trained model" in unfinished.stderr
    assert "damaged" not in unfinished.stderr
    steps = [int(path.name.split("-")[1]) for path in tmp_path.glob("run/checkpoints/step-*")]
    done = call("train", prices, *flags, "--resume", "--max-epochs", "5", *long[:2], cwd=tmp_path)
    assert max(steps) > 0
    # Fewer epochs than were done is another run: it is refused, in one sentence, instead of begun again.
    assert "max_epochs was 40000, but is 5" in done.stderr
    assert "steps are done, but" in done.stderr
    assert done.returncode == 2


def test_a_run_is_extended_by_its_flags(prices, tmp_path):
    """Without a schedule two epochs and two more are four, to the last digit of the forecast."""
    flags = ["--time", "timestamp", "--target", "close", "--h", "7", "--model", "dlinear", "--no-report"]
    flags += ["--set", "training.schedule=null", "--set", "training.early_stopping=null", "--learning-rate", "0.01"]
    assert run("train", prices, *flags, "--max-epochs", "2", "--out", "run", cwd=tmp_path).returncode == 0
    longer = run("train", prices, *flags, "--max-epochs", "4", "--out", "run", "--resume", cwd=tmp_path)
    assert longer.returncode == 0, longer.stderr
    assert "4 epochs" in longer.stdout
    assert re.search(r"resuming in run, after step-0000\d+", longer.stderr)
    assert call("train", prices, *flags, "--max-epochs", "4", "--out", "whole", cwd=tmp_path).returncode == 0
    expected = call("predict", "whole", cwd=tmp_path).stdout
    assert call("predict", "run", cwd=tmp_path).stdout == expected
    # The same flags again: nothing is changed, and nothing is trained.
    assert call("train", prices, *flags, "--max-epochs", "4", "--out", "run", "--resume", cwd=tmp_path).returncode == 0
    assert call("predict", "run", cwd=tmp_path).stdout == expected
    other = ["--set", "training.max_epochs=5", "--learning-rate", "0.5", "--out", "run", "--resume"]
    assert call("train", prices, *flags[:-2], *other, cwd=tmp_path).returncode == 0
    rates = nd.load(tmp_path / "run" / "model").history["learning_rate"]
    assert rates == [0.01, 0.01, 0.01, 0.01, 0.5]


def test_what_a_run_may_not_change_is_refused_in_the_words_of_the_shell(prices, tmp_path):
    flags = [
        "--time",
        "timestamp",
        "--target",
        "close",
        "--h",
        "7",
        "--model",
        "dlinear",
        "--out",
        "run",
        "--no-report",
    ]
    (tmp_path / "run.yaml").write_text("training: {max_epochs: 1}\n")
    first = ["train", prices, *flags, "--config", "run.yaml"]
    begun = call(*first, "--resume", cwd=tmp_path)
    assert begun.returncode == 0
    assert "nothing to resume in run: it starts" in begun.stderr + begun.stdout
    done = call(*first, "--batch-size", "5", "--resume", cwd=tmp_path)
    assert done.returncode == 2
    assert "training.batch_size was" in done.stderr
    assert "but is 5. Restore what it had, change by flags only" in done.stderr
    assert "--max-epochs" in done.stderr
    assert "resume_with" not in done.stderr
    # What was edited in the run file may be meant for the next run; on the command line it is meant for this one.
    (tmp_path / "run.yaml").write_text("training: {max_epochs: 2}\n")
    done = call(*first, "--resume", cwd=tmp_path)
    assert "training.max_epochs was 1, but is 2. Restore what it had, change by flags" in done.stderr
    done = call(*first, "--resume", "--max-epochs", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    """Four series that two columns name together."""
    path = tmp_path_factory.mktemp("panel") / "panel.csv"
    days = [date(2024, 1, 1) + timedelta(days=number) for number in range(80)]
    parts = [
        pl.DataFrame({"store": store, "product": product, "day": days, "sales": [size + day.weekday() for day in days]})
        for store, product, size in (("north", "a", 10), ("north", "b", 20), ("south", "a", 30), ("south", "b", 40))
    ]
    pl.concat(parts).write_csv(path)
    return path


def test_several_columns_name_a_series_together(panel, tmp_path):
    found = call("data", "check", panel)
    assert found.returncode == 0, found.stderr
    for flag in ("--time", "--target", "--id"):  # what was assumed can be said otherwise
        assert f"otherwise say {flag}" in found.stdout
    checked = call("data", "check", panel, "--time", "day", "--target", "sales", "--id", "store")
    assert checked.returncode == 1
    assert "add --id store,product" in checked.stdout
    columns = ["--time", "day", "--target", "sales", "--id", "store,product"]
    some = ["--h", 7, "--model", "dlinear", "--max-epochs", 1, "--no-report"]
    done = call("train", panel, *columns, *some, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = call("predict", "run", cwd=tmp_path).stdout.splitlines()
    assert rows[0] == "store,product,day,DLinear"
    assert [row.split(",")[:2] for row in rows[1::7]] == [[s, p] for s in ("north", "south") for p in ("a", "b")]
    assert call("predict", "run", panel, cwd=tmp_path).stdout.splitlines() == rows
    call("init", panel, "--model", "dlinear", cwd=tmp_path)
    again = call("train", "--config", "run.yaml", "--max-epochs", 1, "--no-report", "--out", "b", cwd=tmp_path)
    assert "4 series" in again.stderr, again.stderr
    lost = call("data", "check", panel, "--time", "day", "--target", "sales", "--id", "store,prod")
    assert "got none named 'prod'" in lost.stderr


def test_columns_known_ahead_belong_to_series_that_several_columns_name(panel, tmp_path):
    frame = pl.read_csv(panel, try_parse_dates=True).with_columns(price=pl.col("sales") * 0.5)
    begins = date(2024, 3, 14)
    frame.filter(pl.col("day") < begins).write_csv(tmp_path / "early.csv")
    ahead = frame.filter(pl.col("day") >= begins).drop("sales")
    ahead.write_csv(tmp_path / "ahead.csv")
    tied = pl.concat_str(["store", "product"], separator="/").alias("store/product")
    ahead.select(tied, "day", "price").write_csv(tmp_path / "tied.csv")
    columns = ["--time", "day", "--target", "sales", "--id", "store,product", "--future", "price"]
    some = ["--h", 7, "--input-size", 7, "--model", "mlp", "--set", "model.hidden_size=4", "--max-epochs", 1]
    done = call("train", "early.csv", *columns, *some, "--no-report", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    forecast = call("predict", "run", "--future", "ahead.csv", cwd=tmp_path)
    assert forecast.returncode == 0, forecast.stderr
    assert len(forecast.stdout.splitlines()) == 1 + 4 * 7
    assert call("predict", "run", "--future", "tied.csv", cwd=tmp_path).stdout == forecast.stdout


@pytest.fixture(scope="module")
def hours(tmp_path_factory):
    """A run on hourly rows whose last day came later."""
    folder = tmp_path_factory.mktemp("hours")
    stamps = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 11, 23), "1h", eager=True)
    frame = pl.DataFrame({"timestamp": stamps, "close": [float(stamp.hour) for stamp in stamps]})
    frame.write_csv(folder / "all.csv")
    frame[:240].write_csv(folder / "early.csv")
    flags = ["--time", "timestamp", "--target", "close", "--h", 12, "--model", "dlinear", "--max-epochs", 1]
    done = call("train", "early.csv", *flags, "--level", 80, "--no-report", "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_times_are_written_as_they_came(hours):
    assert call("predict", "run", cwd=hours).stdout.splitlines()[1].startswith("2024-01-11 00:00:00,")
    done = call("predict", "run", "--level", 80, "--out", "f.csv", "--json", cwd=hours)
    assert json.loads(done.stdout) == {
        "written": "f.csv",
        "rows": 12,
        "columns": ["timestamp", "DLinear", "DLinear-lo-80", "DLinear-hi-80"],
    }
    assert (hours / "f.csv").read_text().splitlines()[1].startswith("2024-01-11 00:00:00,")
    zoned = pl.DataFrame({"t": pl.Series([datetime(2024, 1, 1, 5, tzinfo=UTC)]).dt.convert_time_zone("Europe/Berlin")})
    assert as_csv(zoned) == "t\n2024-01-01 06:00:00+01:00\n"
    parts = pl.DataFrame({"t": [datetime(2024, 1, 1, 5, 0, 0, 250000)]})
    assert "05:00:00.25" in as_csv(parts)


def test_fields_that_are_not_about_a_file_do_not_reach_its_reader(hours):
    done = call("predict", "run", "--future", "all.csv", "--set", "data.gaps=linear", cwd=hours)
    assert done.returncode == 0, done.stderr
    assert done.stdout == call("predict", "run", cwd=hours).stdout


def test_more_steps_than_were_trained_for(hours):
    done = call("predict", "run", "--h", 30, cwd=hours)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 31
    assert re.search(r"steps \d+ to 30 are extrapolated", done.stderr)
    assert call("predict", "run", "--h", 0, cwd=hours).returncode == 2


def test_scores_of_rows_that_were_trained_on_are_said_to_be_too_optimistic(hours):
    again = call("evaluate", "run", "early.csv", cwd=hours)
    assert "bias_percent" in again.stdout
    assert again.returncode == 0
    assert "trained with rows up to 2024-01-10 23:00:00" in again.stderr
    assert "metrics begin at 2024-01-10 12:00:00" in again.stderr
    newer = call("evaluate", "run", "all.csv", "--n-windows", 2, cwd=hours)
    assert newer.stderr == ""
    both = call("evaluate", "run", "all.csv", "--n-windows", 3, cwd=hours)
    assert "too optimistic" in both.stderr


def test_every_command_with_a_result_has_json(hours, tmp_path):
    for name in ("losses", "optimizers", "schedules", "models"):
        assert json.loads(call(name, "--json").stdout)
    made = json.loads(call("data", "sample", "x.csv", "--json", cwd=tmp_path).stdout)
    assert made["columns"] == ["timestamp", "close", "volume"]
    assert json.loads(call("init", hours / "all.csv", "--json", cwd=tmp_path).stdout)["data"]["time_col"] == "timestamp"
    shown = json.loads(call("inspect", "run", "--json", cwd=hours).stdout)
    assert shown["what"] == "run"
    assert shown["verified"]
    assert shown["history"]["epochs"][0]["epoch"] == 1
    assert shown["model"]["kind"] == "DLinear"
    for part in (entry["path"] for entry in shown["parts"]):
        assert json.loads(call("inspect", part, "--json", cwd=hours).stdout)["verified"]
    helps = {name: call(*name.split(), "--help").stdout for name in (*COMMANDS, "data check", "data sample")}
    assert {name for name, text in helps.items() if "--json" not in text} == {"completion", "dashboard", "launch"}
    assert not [name for name, text in helps.items() if "--no-json" in text]


def test_a_damaged_model_is_named_for_machines_too(hours, tmp_path):
    shutil.copytree(hours / "run" / "model", tmp_path / "model")
    (tmp_path / "model" / "model.json").write_text("{")
    done = call("inspect", "model", "--json", cwd=tmp_path)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert not found["verified"]
    assert "model.json" in found["parts"][0]["why"]


def test_the_demo_without_matplotlib(tmp_path):
    """As after a plain `pip install`: no picture, and everything else."""
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'matplotlib' else real(name, *rest)\n"
        "sys.modules['matplotlib'] = None\n"
        "from neuro_divergent.cli.main import main; sys.exit(main(['demo', '--quick', '--out', 'shown', '--json']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "without pictures" in done.stderr
    found = json.loads(done.stdout)
    assert found["written"] == ["shown/forecast.csv", "shown/report.html", "shown/runs"]
    assert all(row["mae"] > 0 for rows in found["scores"].values() for row in rows)
    assert {path.name for path in (tmp_path / "shown").iterdir()} == {"forecast.csv", "report.html", "runs"}


def test_a_terminal_gets_tables_that_fit(hours):
    """On a terminal 80 columns wide: an aligned forecast, and lists that are not wrapped."""
    said = on_a_terminal("predict", "run", cwd=hours)
    assert said[0].split() == ["timestamp", "DLinear", "DLinear-median", "DLinear-lo-80", "DLinear-hi-80"]
    assert len({len(line) for line in said}) == 1
    assert max(map(len, on_a_terminal("models", cwd=hours))) == 80


def on_a_terminal(*arguments, cwd):
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "neuro_divergent.cli.main", *arguments],
        cwd=cwd,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "80"},
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error on Linux
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    assert process.wait() == 0
    return said.decode().replace("\r\n", "\n").splitlines()


def test_resume_goes_on_with_the_newest_run_of_the_table(prices, tmp_path):
    flags = ["--time", "timestamp", "--target", "close", "--h", "7", "--model", "dlinear", "--no-report"]
    flags += ["--max-epochs", "1"]
    for _ in range(2):
        assert call("train", prices, *flags, cwd=tmp_path).returncode == 0
    more = ["--set", "training.seed=5"]
    # The same command but for --resume must not give back the first run: its seed is another one.
    third = call("train", prices, *flags, *more, cwd=tmp_path)
    assert third.returncode == 0, third.stderr
    done = call("train", prices, *flags, *more, "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "resuming in runs/prices-dlinear-3" in done.stdout + done.stderr
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "prices-dlinear",
        "prices-dlinear-2",
        "prices-dlinear-3",
    ]


def test_the_newest_run_is_the_one_that_wrote_last_whatever_its_number(prices, tmp_path):
    flags = ["--time", "timestamp", "--target", "close", "--h", "7", "--model", "dlinear", "--no-report"]
    flags += ["--max-epochs", "1"]

    def place(*more):
        """Where the command saved its model."""
        done = call("train", prices, *flags, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return re.search(r"saved to runs/(.*)/model", done.stdout)[1]

    assert place("--resume") == "prices-dlinear"  # there is none yet
    assert [place(), place()] == ["prices-dlinear-2", "prices-dlinear-3"]
    shutil.rmtree(tmp_path / "runs" / "prices-dlinear-2")
    assert place("--resume") == "prices-dlinear-3"
    assert place() == "prices-dlinear-2"
    (tmp_path / "runs" / "prices-dlinear-3" / "notes.txt").write_text("not of the run")
    (tmp_path / "runs" / "prices-dlinear-wide").mkdir()
    (tmp_path / "runs" / "prices-dlinear-wide" / "config.json").write_text("another model's")
    assert place("--resume") == "prices-dlinear-2"
    assert place("--resume", "--out", "runs/prices-dlinear") == "prices-dlinear"
    assert place("--resume") == "prices-dlinear"
