"""`neuro-divergent auto`: what it prints and writes, how it is resumed, and what it refuses."""

import json

import neuro_divergent as nd
from neuro_divergent.cli.main import main


def table(folder):
    path = folder / "air.csv"
    nd.samples.air_passengers().write_csv(path)
    return str(path)


def test_leaderboard_report_and_model(tmp_path, capsys):
    out = tmp_path / "auto"
    asked = ["auto", table(tmp_path), "--h", "12", "--time-limit", "60s", "--include", "nlinear", "--out", str(out)]
    asked += ["--set", "auto.search=false"]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "AutoLeaderboard by mase" in shown
    assert "On 1 window" in shown
    assert f"forecast with: neuro-divergent predict {out / 'model'} --level 80,95" in shown
    assert "Why this forecast" in (out / "report.html").read_text()
    assert main(["predict", str(out / "model"), "--level", "80,95"]) == 0
    assert "AutoForecaster-hi-95" in capsys.readouterr().out
    assert main(asked) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*asked, "--resume", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["metric"] == "mase"
    assert {row["model"] for row in facts["leaderboard"]} >= {"NLinear", "ensemble", "naive"}


def test_wrong_requests_end_with_2_and_write_nothing(tmp_path, capsys):
    data, out = table(tmp_path), tmp_path / "auto"
    for more, said in (
        (["--preset", "fst"], "fast"),
        (["--include", "nhitz"], "NHITS"),
        (["--include", "nhits", "--exclude", "mlp"], "leaves none"),
        (["--metric", "maee"], "mae"),
        (["--time-limit", "soon"], "time_limit"),
    ):
        assert main(["auto", data, "--h", "12", "--out", str(out), *more]) == 2
        assert said in capsys.readouterr().err
    assert main(["auto", data, "--out", str(out)]) == 2
    assert "--h" in capsys.readouterr().err
    assert not (out / "auto.json").exists()
