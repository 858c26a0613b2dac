"""`neuro-divergent inspect`, and a run on the shell that is resumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neuro_divergent.cli.main import main


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
    assert "fingerprint=" in capsys.readouterr().out
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
