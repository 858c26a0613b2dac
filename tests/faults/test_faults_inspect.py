"""`neuro-divergent inspect`, and a run on the shell that is resumed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from torch import nn

import neuro_divergent as nd
from neuro_divergent.cli.main import main

FIXTURES = Path(__file__).parent / "fixtures"
KEPT = FIXTURES / "run-format-1" / "checkpoints" / "step-00000002"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = "\n".join(f"a,{step},{np.sin(step):.3f}" for step in range(60))
    (tmp_path / "data.csv").write_text(f"unique_id,ds,y\n{rows}\n")
    assert train(tmp_path) == 0
    return tmp_path / "run"


def train(folder: Path, *more: str) -> int:
    command = ["train", str(folder / "data.csv"), "--model", "mlp", "--h", "3", "--out", str(folder / "run")]
    return main([*command, "--set", "model.hidden_size=8", "--set", "training.max_epochs=5", *more])


def test_a_run_a_checkpoint_and_a_model_are_shown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["inspect", str(run)]) == 0
    said = capsys.readouterr().out
    (checkpoint,) = (run / "checkpoints").iterdir()
    assert f"{checkpoint.name}  verified       5" in said
    assert "hidden_size=8" in said
    assert "5 epochs, best" in said
    assert "│" in said
    assert "model: MLP(" in said
    assert main(["inspect", str(checkpoint)]) == 0
    assert "data: series=" in capsys.readouterr().out
    assert main(["inspect", str(run / "model")]) == 0
    assert "verified, " in capsys.readouterr().out


def test_damage_is_shown_and_ends_with_1(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkpoint,) = (run / "checkpoints").iterdir()
    weights = checkpoint / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert main(["inspect", str(run)]) == 1
    assert "NOT VERIFIED" in capsys.readouterr().out
    assert main(["inspect", str(checkpoint)]) == 1


def test_what_is_nothing_of_ours_is_a_wrong_request(tmp_path: Path) -> None:
    assert main(["inspect", str(tmp_path)]) == 2
    assert main(["inspect", str(tmp_path / "absent")]) == 2


def test_a_trained_model_is_not_overwritten_by_accident_but_resumed_on_request(run: Path) -> None:
    before = (run / "model" / "weights.safetensors").read_bytes()
    assert train(run.parent) != 0
    assert train(run.parent, "--resume") == 0
    assert (run / "model" / "weights.safetensors").read_bytes() == before


def test_models_that_were_saved_together_are_shown_with_their_members(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = Path(shutil.copytree(FIXTURES / "many-format-1", tmp_path / "saved"))
    assert main(["inspect", str(saved)]) == 0
    said = capsys.readouterr().out
    assert f"models {saved}: verified" in said
    assert "NeuralForecast of 2 models" in said
    assert f"model {saved / 'model-01'}: verified" in said
    assert "DLinear(h=2, input_size=4" in said
    assert main(["inspect", str(saved), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["what"] == "models"
    assert [Path(part["path"]).name for part in found["parts"]] == ["saved", "model-00", "model-01"]
    (saved / "extra.pkl").touch()
    assert main(["inspect", str(saved)]) == 1
    assert "NOT VERIFIED: " in capsys.readouterr().out


def test_every_run_of_a_directory_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pl.DataFrame({"unique_id": ["a"] * 40, "ds": np.arange(40), "y": np.sin(np.arange(40) / 3)})
    models = [nd.MLP(h=2, input_size=4, hidden_size=4, layers=1), nd.DLinear(h=2, input_size=4)]
    config = nd.TrainingConfig(max_steps=2, progress=False, checkpoints=nd.Checkpoints(tmp_path / "runs"))
    nd.NeuralForecast(models).fit(frame, config).save(tmp_path / "runs" / "MLP" / "model")
    assert main(["inspect", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr().out
    for name in ("MLP", "DLinear"):
        assert f"run {tmp_path / 'runs' / name}\n" in said
    assert f"model {tmp_path / 'runs' / 'MLP' / 'model' / 'model-01'}: verified" in said
    assert said.count("step-00000002  verified") == 2
    weights = tmp_path / "runs" / "MLP" / "checkpoints" / "step-00000002" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert main(["inspect", str(tmp_path / "runs"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["what"] == "runs"
    assert [part["verified"] for part in found["parts"]] == [True, False, True, True, True]


def test_a_remote_run_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
    checkpoints = nd.Checkpoints("memory://inspected/run")
    config = nd.TrainingConfig(max_steps=2, validation_split=None, checkpoints=checkpoints, progress=False)
    nd.Trainer(config).fit(nn.Linear(1, 1), (x, x))
    assert main(["inspect", "memory://inspected/run"]) == 0
    said = capsys.readouterr().out
    assert "run memory://inspected/run\n" in said
    assert "step-00000002  verified" in said
    assert "step 2 of 2" in said
    assert main(["inspect", "memory://inspected/none"]) == 2
    assert "must be the address of a run" in capsys.readouterr().err


@pytest.mark.parametrize("way", [[], ["--json"]], ids=["for a person", "as JSON"])
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("identity", 5),
        ("identity", {"data": [1]}),
        ("config", [1]),
        ("versions", 3),
        ("progress", [1]),
        ("progress", {"x": 1}),
        ("progress", {"step": 1, "total_steps": 2, "position": 0, "epoch": "1"}),
        ("score", "abc"),
        ("score", [1.0]),
        ("history", [1]),
        ("history", {"events": [5]}),
        ("history", {"epochs": 5}),
        ("history", {"epochs": [5]}),
        ("history", {"epochs": [{"train_loss": "abc"}]}),
        ("history", {"epochs": [{"train_loss": 10**400}]}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_verified_file_of_a_wrong_form_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, value: Any, way: list[str]
) -> None:
    run = changed(tmp_path, place, value)
    for path in (run, run / "checkpoints" / KEPT.name):
        assert main(["inspect", str(path), *way]) == 1
        said = capsys.readouterr().out
        assert said.count("NOT VERIFIED: state.json is missing or has a wrong form") == 1


def test_texts_of_a_file_do_not_steer_the_terminal(tmp_path: Path) -> None:
    """A title, a colour, a line of its own, a change of direction, half a character."""
    text = "\x1b]0;owned\x07\x1b[31m\nverified\u202e\ud800"
    shown = {"stopped": call(changed(tmp_path / "stopped", "history", {"stopped": text}))}
    shown["versions"] = call(changed(tmp_path / "versions", "versions", {text: text}))
    run = changed(tmp_path / "extra", "score", 1.0)
    (run / "checkpoints" / KEPT.name / "\x1b[31mextra").touch()
    shown["extra file"] = call(run)
    assert r"stopped: \x1b]0;owned\x07\x1b[31m\nverified\u202e\ud800" in shown["stopped"]
    assert r"differs in: \x1b[31mextra" in shown["extra file"]
    for said in shown.values():
        assert not {char for char in said if not char.isprintable()} - {"\n"}


def test_a_checkpoint_that_lacks_its_state_is_not_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, left in enumerate((("manifest.json", "weights.safetensors"), ("manifest.json",), ())):
        path = tmp_path / str(number) / KEPT.name
        shutil.copytree(KEPT, path, ignore=lambda _, names, left=left: [name for name in names if name not in left])
        assert main(["inspect", str(path)]) == 1
        assert "NOT VERIFIED" in capsys.readouterr().out


def test_a_model_moved_aside_is_shown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a crash leaves between the two renames of an overwritten model."""
    os.rename(run / "model", run / ".nd-old-model")
    capsys.readouterr()
    for path in (run, run / "model"):
        assert main(["inspect", str(path)]) == 0
        assert ".nd-old-model: verified" in capsys.readouterr().out


def changed(folder: Path, place: str, value: Any) -> Path:
    """The kept run with one entry of its checkpoint's state changed, and signed again."""
    checkpoint = folder / "run" / "checkpoints" / KEPT.name
    shutil.copytree(KEPT, checkpoint)
    document = json.loads((checkpoint / "state.json").read_text())
    document[place] = value
    (checkpoint / "state.json").write_text(json.dumps(document))
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    data = (checkpoint / "state.json").read_bytes()
    manifest["files"]["state.json"] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    return folder / "run"


def call(path: Path) -> str:
    command = [sys.executable, "-m", "neuro_divergent.cli.main", "inspect", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
