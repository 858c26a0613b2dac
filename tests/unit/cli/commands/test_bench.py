"""`bench --against`: what is said about packages that are not there, and the table of our own times."""

import contextlib
import io
import json
import subprocess
import venv

import pytest

from neuro_divergent.cli.main import main
from neuro_divergent.cli.peers import registry as peers
from neuro_divergent.cli.peers.steps import MODELS, PEERS, WINDOWS
from neuro_divergent.core.errors import TrainingError


def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python that has nothing installed."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return next(path for path in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if path.exists())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--against", "prophet"),
            "takes the names neuralforecast, darts, gluonts, pytorch-forecasting, but got prophet",
        ),
        (("--against", ","), "but got none"),
        (("--against", "darts", "--peer-python", "darts"), "takes NAME=PATH"),
        (("--against", "darts", "--peer-python", "prophet=python"), "--peer-python takes the names"),
        (("--peer-python", "darts=python"), "--against was not given"),
        (("--against", "darts", "--models", "tft"), "darts is compared in NBEATS, NHITS, but got --models tft"),
        (("--against", "darts", "--steps", "0"), "--steps must be at least 1"),
    ],
)
def test_a_wrong_request_is_one_sentence(arguments, sentence):
    done = run("bench", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_a_package_that_is_not_installed_is_skipped_and_ours_is_shown(bare):
    arguments = ("--against", "gluonts", "--models", "mlp", "--steps", 2, "--peer-python", f"gluonts={bare}")
    done = run("bench", *arguments)
    assert done.returncode == 0, done.stderr
    message = done.stderr.splitlines()[0]
    assert "gluonts is skipped" in message
    assert "No module named 'gluonts'" in message
    assert "pip install 'gluonts[torch]'" in message
    assert "--peer-python gluonts=PATH" in message
    header, row, *rest = done.stdout.splitlines()
    assert header.split() == ["against", "model", "windows", "ours,", "ms", "theirs,", "ms", "times", "faster"]
    peer, model, windows, ours, theirs, ratio = row.split()
    assert (peer, model, windows, theirs, ratio) == ("gluonts", "MLP", "1024", "-", "-")
    assert float(ours) > 0
    assert rest[-1] == "no other package was measured"


def test_a_python_that_does_not_start_is_skipped_and_said_in_json(tmp_path):
    away = tmp_path / "python"
    flags = ("--models", "mlp", "--steps", 2, "--peer-python", f"neuralforecast={away}", "--json")
    done = run("bench", "--against", "neuralforecast", *flags)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert str(away) in found["skipped"][0]
    assert "cannot be started" in found["skipped"][0]
    (result,) = found["results"]
    assert (result["theirs"], result["ratio"]) == (None, None)
    # 96 inputs, two hidden layers of 256, 24 outputs, each with a bias: counted by hand.
    assert result["ours"]["parameters"] == 97 * 256 + 257 * 256 + 257 * 24


def test_names_are_taken_as_people_write_them():
    assert peers.known(["PyTorch_Forecasting", "darts", "darts"]) == ("pytorch-forecasting", "darts")
    assert peers.interpreters(["Darts=a=b"]) == {"darts": "a=b"}
    assert peers.models_of("gluonts", ["deepar"]) == ("DeepAR",)


def test_every_peer_has_its_module_its_install_line_and_its_models():
    assert set(peers.MODULES) == set(peers.INSTALLED_BY) == set(MODELS) == set(PEERS)
    assert {model for models in MODELS.values() for model in models} == set(WINDOWS)


def test_a_ratio_says_how_many_times_faster_we_are():
    ours, theirs = peers.Side(2.0, 10, "1", "2"), peers.Side(5.0, 10, "1", "2")
    assert peers.Comparison("darts", "NHITS", 1024, ours, theirs).ratio == 2.5
    assert peers.Comparison("darts", "NHITS", 1024, ours, None).ratio is None


def test_a_measurement_that_fails_names_the_reason(bare):
    with pytest.raises(TrainingError, match=r"darts NBEATS 2 0 must be measured by .*No module named 'torch'"):
        peers.step_time(str(bare), "darts", "darts", "NBEATS", steps=2)
