"""More mistakes than the ten typical ones; in this process, which spares the start of an interpreter for each."""

import contextlib
import io
import os
import subprocess
from datetime import date, timedelta

import polars as pl
import pytest

from neuro_divergent.cli.main import main

COLUMNS = ("--time", "timestamp", "--target", "close")


def run(*arguments, cwd):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(
            [os.fspath(argument) if isinstance(argument, os.PathLike) else str(argument) for argument in arguments]
        )
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of daily prices, and others as people have them."""
    place = tmp_path_factory.mktemp("mistakes")
    days = [date(2024, 1, 1) + timedelta(days=number) for number in range(90)]
    prices = [100.0 + number % 7 for number in range(90)]
    good = pl.DataFrame({"timestamp": days, "close": prices})
    good.write_csv(place / "prices.csv")
    pl.concat(
        [
            pl.DataFrame({"store": store, "product": product, "day": days, "sales": prices})
            for store in ("north", "south")
            for product in ("a", "b")
        ]
    ).write_csv(place / "panel.csv")
    return place


def sentence_of(done, code):
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code, done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("neuro-divergent: ")
    assert done.stdout == ""
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            ["train", "panel.csv", "--time", "day", "--target", "sales", "--id", "store", "--h", 7],
            ["each series has one row per time", "'store', 'product' together", "add --id store,product"],
            id="two columns name a series",
        ),
        pytest.param(
            ["train", "prices.csv", *COLUMNS, "--horizon", 7],
            ["--horizon", "Here it is called --h."],
            id="another tool's option",
        ),
        pytest.param(
            ["train", "--csv", "prices.csv", *COLUMNS, "--h", 7],
            ["--csv", "The table needs no option: neuro-divergent train DATA."],
            id="an option for the table",
        ),
        pytest.param(
            ["cv", "prices.csv", *COLUMNS, "--h", 7, "--n-windows", 0],
            ["n_windows must be a whole number of at least 1, but got n_windows=0"],
            id="no windows",
        ),
        pytest.param(
            ["cv", "prices.csv", *COLUMNS, "--h", 7, "--step-size", 0],
            ["step_size must be a whole number of at least 1, but got step_size=0"],
            id="no distance",
        ),
        pytest.param(["cv", "prices.csv", *COLUMNS, "--h", 0], ["at least 1", "h=0"], id="no horizon"),
        pytest.param(["init", "prices.csv", *COLUMNS, "--h", 0], ["at least 1", "h=0"], id="no horizon to propose"),
        pytest.param(
            ["evaluate", "model", "prices.csv", "--n-windows", 0],
            ["n_windows must be a whole number of at least 1, but got n_windows=0"],
            id="no windows to evaluate",
        ),
        pytest.param(
            ["predict", "model", "--data=prices.csv"],
            ["--data.", "neuro-divergent predict MODEL DATA."],
            id="an option for the table after the model",
        ),
        pytest.param(
            ["train", "prices.csv", *COLUMNS, "--h", 7, "--level", 80, 95],
            ["'95' belongs to no option", "--level 80,95"],
            id="levels without a comma",
        ),
        pytest.param(
            ["train", "prices.csv", *COLUMNS, "--h", 7, "--level", "0.8,0.95"],
            ["percentages", "Use --level 80,95"],
            id="levels as shares",
        ),
        pytest.param(["train"], ["a table is required"], id="nothing at all"),
        pytest.param(
            ["predict", "prices.csv"],
            ["it is a file", "Name the model first, then the table"],
            id="a table for a model",
        ),
    ],
)
def test_a_wrong_request_says_what_to_type_instead(folder, arguments, expected):
    said = sentence_of(run(*arguments, cwd=folder), 2)
    for part in expected:
        assert part in said
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["cv", "prices.csv", *COLUMNS, "--h", 7, "--models", "dlinear", "--out", "OUT"],
        ["predict", "good", "--out", "OUT/forecast.csv"],
        ["evaluate", "good", "prices.csv", "--out", "OUT/forecast.csv"],
        ["demo", "--out", "OUT"],
        ["init", "prices.csv", "--out", "OUT/run.yaml"],
        ["data", "sample", "OUT/sample.csv"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments[:2])),
)
def test_nothing_is_computed_for_a_place_that_cannot_be_written_to(folder, arguments):
    place = str(folder / "prices.csv")  # a file: nobody can make anything inside it
    done = run(*[str(argument).replace("OUT", place) for argument in arguments], cwd=folder)
    said = sentence_of(done, 1)
    assert "Choose another --out" in said or "Choose a path that you may write to" in said
