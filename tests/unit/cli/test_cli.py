"""The command line as a person meets it: real processes, their output and exit codes."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import date, timedelta

import polars as pl
import pytest
import yaml

import neuro_divergent as nd
from neuro_divergent.cli.main import main
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
    assert "144 rows" in done.stdout
    assert "validation loss" in done.stdout
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


def test_demo_writes_its_three_files_and_no_progress_characters(tmp_path):
    done = run("demo", "--quick", "--out", "shown", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "seasonal naive (12)" in done.stdout
    assert "nd.NHITS(h=24, input_size=168).fit(data).predict()" in done.stdout
    assert not set("\r\x1b━") & set(done.stdout + done.stderr)
    assert {path.name for path in (tmp_path / "shown").iterdir()} == {"forecast.csv", "forecast.png", "report.html"}
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
    again = call("train", prices, "--model", "dlinear", *flags, "--no-report", cwd=tmp_path)
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
    config = nd.load(tmp_path / "run" / "model").config
    assert config.optimizer == nd.AdamW(learning_rate=3e-4)
    assert config.loss == nd.MQLoss(level=[90])
    assert config.max_epochs == 1


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


def test_data_check_says_what_to_do(prices, tmp_path):
    columns = ["--time", "timestamp", "--target", "close"]
    good = call("data", "check", prices, *columns)
    assert good.returncode == 0
    assert "3 rows are absent" in good.stdout
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
    steps = [int(path.name.split("-")[1]) for path in tmp_path.glob("run/checkpoints/step-*")]
    done = call("train", prices, *flags, "--resume", "--max-epochs", "5", *long[:2], cwd=tmp_path)
    assert max(steps) > 0
    # Fewer epochs than were done is another run: it is refused, in one sentence, instead of begun again.
    assert "max_epochs was 40000, but is 5" in done.stderr
    assert done.returncode == 1
