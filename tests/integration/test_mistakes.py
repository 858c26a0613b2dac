"""Ten typical mistakes, each through a real process: one sentence that says what to do, no traceback."""

import os
import subprocess
import sys
from datetime import date, timedelta

import polars as pl
import pytest

COLUMNS = ("--time", "timestamp", "--target", "close")


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "neuro_divergent.cli.main", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of daily prices, copies of it with one thing wrong, and a trained model."""
    place = tmp_path_factory.mktemp("mistakes")
    days = [date(2024, 1, 1) + timedelta(days=number) for number in range(90)]
    prices = [100.0 + number % 7 for number in range(90)]
    good = pl.DataFrame({"timestamp": days, "close": prices})
    good.write_csv(place / "prices.csv")
    good.with_columns(other=pl.col("close") * 2).rename({"close": "one"}).write_csv(place / "two.csv")
    text = good.with_columns(pl.col("close").cast(pl.String))
    text[40, "close"] = "n. a. yet"
    text.write_csv(place / "text.csv")
    pl.concat([good, good[10:12]]).write_csv(place / "twice.csv")
    done = run(
        *("train", "prices.csv", *COLUMNS, "--model", "dlinear", "--h", 7, "--max-epochs", 1),
        *("--out", "good", "--no-report"),
        cwd=place,
    )
    assert done.returncode == 0, done.stderr
    return place


def sentence_of(done, code):
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("neuro-divergent: ")
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            ["train", "two.csv", "--h", 7],
            ["--target"],
            id="two columns that could be the target",
        ),
        pytest.param(
            ["train", "prices.csv", "--time", "timestamp", "--target", "closing", "--h", 7],
            ["'closing'", "Say --target close"],
            id="wrong column",
        ),
        pytest.param(
            ["train", "prices.csv", *COLUMNS, "--h", 7, "--freq", "1h"],
            ["1h was given", "Leave --freq out", "if the gaps are intended, add --set data.gaps=mask"],
            id="frequency too fine",
        ),
        pytest.param(
            ["train", "prices.csv", *COLUMNS, "--h", 7, "--freq", "1mo"],
            ["1mo", "--freq"],
            id="frequency too coarse",
        ),
        pytest.param(
            ["train", "prices.csv", *COLUMNS, "--h", 60],
            ["horizon of 60 steps", "the longest has 90", "--h 22 would fit"],
            id="horizon too long",
        ),
        pytest.param(
            ["train", "text.csv", *COLUMNS, "--h", 7],
            ["'close'", "'n. a. yet'", "row 40", "Correct the cell"],
            id="text in numbers",
        ),
        pytest.param(
            ["train", "twice.csv", *COLUMNS, "--h", 7],
            ["--set data.duplicates=last"],
            id="duplicate rows",
        ),
        pytest.param(
            ["train", "price.csv", *COLUMNS, "--h", 7],
            ["price.csv must be an existing file", "Check the path"],
            id="missing file",
        ),
        pytest.param(
            ["train", "prices.csv", *COLUMNS, "--h", 7, "--model", "nhist"],
            ["no model named 'nhist'", "did you mean NHITS"],
            id="misspelt model",
        ),
        pytest.param(
            ["train", "prices.csv", *COLUMNS, "--h", 7, "--learning-rat", 0.1],
            ["--learning-rat", "--learning-rate"],
            id="misspelt flag",
        ),
        pytest.param(
            ["train", "prices.csv", *COLUMNS, "--h", 7, "--set", "training.max_epoch=3"],
            ["'max_epoch'", "did you mean max_epochs"],
            id="misspelt field",
        ),
    ],
)
def test_a_wrong_request_ends_in_one_sentence_before_anything_is_trained(folder, arguments, expected):
    done = run(*arguments, cwd=folder)
    said = sentence_of(done, 2)
    for part in expected:
        assert part in said
    assert "trained in" not in done.stdout
    assert not list((folder).glob("runs/*/model"))


def test_no_write_permission(folder):
    locked = folder / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    # The superuser may write anywhere, but cannot make a directory inside a file either.
    out = folder / "prices.csv" / "run" if os.geteuid() == 0 else locked / "run"
    done = run("train", "prices.csv", *COLUMNS, "--h", 7, "--out", out, cwd=folder)
    assert "Choose another --out" in sentence_of(done, 1)
    assert "trained in" not in done.stdout


@pytest.mark.parametrize("damage", ["truncated", "flipped", "absent"])
def test_corrupt_model(folder, damage, tmp_path):
    import shutil

    shutil.copytree(folder / "good", tmp_path / "bad")
    weights = next((tmp_path / "bad" / "model").glob("*.safetensors"))
    content = bytearray(weights.read_bytes())
    if damage == "absent":
        weights.unlink()
    else:
        content[len(content) // 2] ^= 0xFF
        weights.write_bytes(content[: len(content) // 2] if damage == "truncated" else content)
    said = sentence_of(run("predict", "bad", cwd=tmp_path), 1)
    assert weights.name in said or "bad/model" in said
    assert "copy it again, or train again" in said


def test_a_model_that_is_not_there(folder):
    said = sentence_of(run("predict", "nowhere", cwd=folder), 1)
    assert "nowhere" in said
    assert "Check the path" in said


def test_intervals_of_a_model_that_has_none(folder):
    said = sentence_of(run("predict", "good", "--level", "80", cwd=folder), 2)
    assert "Train again with --level 80,95" in said


def test_a_run_that_is_there_already_is_not_overwritten(folder):
    done = run("train", "prices.csv", *COLUMNS, "--h", 7, "--out", "good", cwd=folder)
    assert "say --overwrite or --resume" in sentence_of(done, 2)
