"""`nd.read_run`: what a run, a checkpoint or a model is, from files that may be anything."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.runs import record as records
from neuro_divergent.core.runs.log import MAX_EVENT_BYTES
from neuro_divergent.training.config.checkpoints import Checkpoints
from neuro_divergent.training.runs.lock import run_lock

FIXTURES = Path(__file__).parents[3] / "faults" / "fixtures"
X = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]


def train(directory: object, *callbacks: nd.Callback, resume: str | None = None, **fields) -> nd.History:
    base = {"max_epochs": 2, "batch_size": 8, "validation_split": 0.2, "early_stopping": None, "progress": False}
    config = nd.TrainingConfig(**base | {"callbacks": callbacks, "checkpoints": nd.Checkpoints(directory)} | fields)
    torch.manual_seed(0)
    return nd.Trainer(config).fit(nn.Linear(1, 1), (X, 2 * X), resume=resume)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, nd.History]:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return folder, train(folder)


@pytest.fixture
def run(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained[0], tmp_path / "run"))


def test_a_run_is_what_its_training_was(trained):
    folder, history = trained
    record = nd.read_run(folder)
    assert (record.what, record.path) == ("run", str(folder))
    assert record.config["max_epochs"] == 2
    assert [item.name for item in record.checkpoints] == ["step-00000008"]
    assert [item.step for item in record.checkpoints] == [8]
    assert record.checkpoints[0].document["progress"]["step"] == 8
    assert record.epochs == history.epochs
    assert record.steps["step"] == list(range(1, 9))
    assert record.steps["loss"] == history.step_loss
    assert record.steps["gradient_norm"] == history.gradient_norm
    assert (record.finished, record.stopped, record.running) == (True, history.stopped, False)
    assert record.last_beat == pytest.approx(os.stat(folder / "events.jsonl").st_mtime, abs=5)


def test_reading_a_local_run_loads_no_heavy_library(trained):
    script = (
        "import sys, neuro_divergent as nd\n"
        f"run = nd.read_run({str(trained[0])!r})\n"
        "run.config, run.epochs, run.steps, run.finished, run.stopped, run.process, run.refit, run.newest.document\n"
        "[saved.verify() for saved in run.checkpoints]\n"
        "try: run.stop()\nexcept nd.ConfigError: pass\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"torch", "polars", "numpy", "pydantic", "pandas", "fsspec", "safetensors", "cyclopts"}
    assert not set(done.stdout.split()) & heavy


def test_other_things_are_recognised(tmp_path, trained):
    checkpoint = nd.read_run(trained[0] / "checkpoints" / "step-00000008")
    assert (checkpoint.what, len(checkpoint.epochs), checkpoint.finished) == ("checkpoint", 2, True)
    many = nd.read_run(FIXTURES / "many-format-1")
    assert many.what == "models"
    assert [(item.kind, item.name) for item in many.models] == [
        ("index", "many-format-1"), ("model", "model-00"), ("model", "model-01"),
    ]  # fmt: skip
    assert many.models[0].document["kind"] == "NeuralForecast"
    model = nd.read_run(FIXTURES / "many-format-1" / "model-01")
    assert (model.what, model.models[0].document["model"]["kind"]) == ("model", "DLinear")
    for name in ("a", "b"):
        shutil.copytree(trained[0], tmp_path / name)
    (tmp_path / "notes.txt").touch()
    several = nd.read_run(tmp_path)
    assert (several.what, [Path(one.path).name for one in several.runs]) == ("runs", ["a", "b"])
    assert several.finished
    for place in (tmp_path / "absent", tmp_path / "notes.txt"):
        with pytest.raises(nd.DataFileError, match="must be the directory"):
            nd.read_run(place)
    (tmp_path / "empty").mkdir()
    with pytest.raises(nd.DataFileError, match="must be a run, a checkpoint or a model, but has no"):
        nd.read_run(tmp_path / "empty")


def test_a_run_of_an_older_version_has_no_lines_of_steps():
    record = nd.read_run(FIXTURES / "run-format-1")
    assert [epoch["epoch"] for epoch in record.epochs] == [1, 2]
    assert record.finished


def test_why_a_training_ended(run):
    events = (run / "events.jsonl").read_text().splitlines(keepends=True)
    assert '"fit_end"' in events[-1]
    (run / "events.jsonl").write_text("".join(events[:-1]) + events[-1][:20])
    record = nd.read_run(run)
    assert (record.finished, record.stopped, record.log.damaged) == (False, records.KILLED, 1)
    error = {"event": "error", "time": 1, "step": 8, "epoch": 2, "error": "SystemExit: 143"}
    (run / "events.jsonl").write_text("".join(events[:-1]) + json.dumps(error) + "\n")
    record = nd.read_run(run)
    assert (record.finished, record.stopped) == (False, "SystemExit: 143")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_lock_that_is_held_means_a_training(run):
    (run / "lock").write_text("1")  # left by a training that was killed: process 1 is there, but holds nothing
    assert nd.read_run(run).running is False
    assert nd.read_run(run).finished
    with run_lock(Checkpoints(run)):  # it goes on, and has written nothing yet
        record = nd.read_run(run)
        assert (record.running, record.stopped, record.finished) == (True, "", False)
    events = (run / "events.jsonl").read_text().splitlines(keepends=True)
    (run / "events.jsonl").write_text("".join(events[:-1]))
    with run_lock(Checkpoints(run)):
        record = nd.read_run(run)
        assert (record.running, record.process.pid, record.stopped) == (True, os.getpid(), "")


@pytest.mark.parametrize("name", ["config.json", "events.jsonl"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nonsense", "deep", "unreadable encoding"])
def test_files_that_are_not_what_they_should_be_end_in_a_sentence(run, name, kind):
    path = run / name
    path.unlink()
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes({"nonsense": b"{", "deep": b"[" * 10000, "unreadable encoding": b"\xff\x00"}[kind])
    record = nd.read_run(run)
    if name == "config.json":
        with pytest.raises(nd.CorruptFileError, match=r"config\.json"):
            _ = record.config
    elif kind in ("link", "pipe", "folder"):
        with pytest.raises(nd.CorruptFileError, match=r"events\.jsonl"):
            _ = record.epochs
    else:
        assert record.log.damaged == 1
        assert len(record.epochs) == 2  # as the checkpoint tells


def test_of_events_beyond_the_limit_the_newest_are_read(run):
    """A file with a hole in front: it takes no room on the disk."""
    events = (run / "events.jsonl").read_bytes()
    with open(run / "events.jsonl", "wb") as file:
        file.truncate(MAX_EVENT_BYTES)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + events)
    record = nd.read_run(run)
    assert not record.log.complete
    assert len(record.epochs) == 2
    assert record.log.damaged == 0


def test_a_damaged_checkpoint_is_found_when_it_is_asked_for(run):
    (checkpoint,) = (run / "checkpoints").iterdir()
    weights = checkpoint / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    (saved,) = nd.read_run(run).checkpoints
    assert saved.document["kind"] == "Checkpoint"  # its state is whole
    with pytest.raises(nd.CorruptFileError, match=r"weights\.safetensors"):
        saved.verify()
    (checkpoint / "state.json").write_text("{}")
    record = nd.read_run(run)
    assert record.newest is None
    with pytest.raises(nd.CorruptFileError, match=r"state\.json"):
        _ = record.checkpoints[0].document


def test_a_remote_run_is_read_like_a_local_one():
    history = train("memory://read-run/one")
    record = nd.read_run("memory://read-run/one")
    assert record.what == "run"
    assert [item.name for item in record.checkpoints] == ["step-00000008"]
    assert record.config["max_epochs"] == 2
    assert record.epochs == history.epochs
    assert record.steps["loss"] == history.step_loss
    assert (record.finished, record.running) == (True, None)
    assert nd.read_run("memory://read-run/one/checkpoints/step-00000008").what == "checkpoint"
    assert [run.path for run in nd.read_run("memory://read-run").runs] == ["memory://read-run/one"]
    with pytest.raises(nd.ConfigError, match="local directory"):
        record.stop()
    with pytest.raises(nd.DataFileError, match="address of a run"):
        nd.read_run("memory://read-run-none/one")


def test_only_what_runs_can_be_stopped(run, trained):
    with pytest.raises(nd.ConfigError, match="no process trains in"):
        nd.read_run(run).stop()
    assert not (run / "stop").exists()
    with pytest.raises(nd.ConfigError, match="a checkpoint"):
        nd.read_run(trained[0] / "checkpoints" / "step-00000008").stop()
    with pytest.raises(nd.ConfigError, match="Name one of them"):
        nd.read_run(run.parent).stop()
