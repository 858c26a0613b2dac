"""Every example runs, quickly, on its own data and on a file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import neuro_divergent as nd

FOLDER = Path(__file__).parents[2] / "examples"
SHORT = {
    "classification": (["--epochs", "2"], "accuracy on what was held back"),
    "electricity_demand": (["--steps", "5"], "with the weather"),
    "price_intervals": (["--steps", "5"], "% interval"),
    "resume_after_kill": (["--epochs", "15"], "the same bits"),
    "retail_panel": (["--steps", "5"], "seasonal naive (7)"),
}


def run(name, *arguments, cwd):
    return subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / f"{name}.py"), *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def test_every_example_is_known_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_an_example_runs(name, tmp_path):
    arguments, expected = SHORT[name]
    done = run(name, *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert expected in done.stdout


def test_an_example_takes_a_file(tmp_path):
    nd.samples.air_passengers().write_csv(tmp_path / "air.csv")
    arguments = ["--data", "air.csv", "--time", "ds", "--target", "y", "--steps", 2]
    # 144 months are too short for the example's 250 hidden rows: the library says so, in its own words.
    done = run("price_intervals", *arguments, cwd=tmp_path)
    assert "every series must keep a row after the last 250 are dropped" in done.stderr
