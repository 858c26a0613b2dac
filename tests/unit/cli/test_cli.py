"""The command line as a person meets it: real processes, their output and exit codes."""

import json
import os
import subprocess
import sys

import polars as pl
import pytest

import neuro_divergent as nd


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "neuro_divergent.cli.main", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


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
    done = run("train", table, *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_missing_file_is_named(tmp_path):
    done = run("train", tmp_path / "nowhere.csv", "--h", "3")
    assert done.returncode == 2
    assert "nowhere.csv" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_train_then_predict(table, tmp_path):
    few = ["--set", "training.max_epochs=2"]
    done = run("train", table, "--model", "dlinear", "--h", "6", "--out", "run", *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "144 rows" in done.stdout
    assert "\r" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    printed = run("predict", "run", cwd=tmp_path)
    assert printed.stdout.splitlines()[0] == "unique_id,ds,DLinear"
    assert len(printed.stdout.splitlines()) == 7
    run("predict", "run", "--out", "f.parquet", cwd=tmp_path)
    assert pl.read_parquet(tmp_path / "f.parquet").height == 6
    refused = run("predict", "run", "--level", "80", cwd=tmp_path)
    assert refused.returncode == 2
    assert "MQLoss" in refused.stderr


def test_lists_for_people_and_for_machines():
    assert "NHITS" in run("models").stdout
    assert json.loads(run("models", "--json").stdout)["DLinear"]["family"] == "mlp"
    assert "AdamW" in run("optimizers").stdout
    assert "WarmupCosine" in run("schedules").stdout
    assert "MQLoss" in run("losses").stdout


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
