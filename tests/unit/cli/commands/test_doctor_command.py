"""`neuro-divergent doctor`: verdicts of a run, with and without its table."""

from __future__ import annotations

import json

import pytest

import neuro_divergent as nd
from neuro_divergent.cli.main import main


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor")
    data = nd.samples.hourly_panel(series=4, hours=300)
    data.write_csv(folder / "panel.csv")
    config = nd.TrainingConfig(
        max_steps=60, steps_per_epoch=10, learning_rate=1.0, checkpoints=folder / "run", progress=False, compile=False
    )
    nd.MLP(h=6, input_size=24, hidden_size=16).fit(data, config)
    return folder


def test_the_verdicts_of_a_run_with_its_table_are_json(run, capsys) -> None:
    assert main(["doctor", str(run / "run"), str(run / "panel.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdicts"][0]["cause"] == "learning_rate_too_high"
    assert found["verdicts"][0]["remedy"]["learning_rate"] < 1.0
    assert not found["healthy"]


def test_a_line_for_each_verdict_and_a_picture(run, capsys) -> None:
    picture = run / "evidence.png"
    assert main(["doctor", str(run / "run"), "--plot", str(picture)]) == 0
    assert "not examined: table, network and forecasts" in capsys.readouterr().out
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_a_path_without_a_run_is_a_wrong_request(run, capsys) -> None:
    assert main(["doctor", str(run / "absent")]) == 2
    assert "must be the directory of a run" in capsys.readouterr().err
