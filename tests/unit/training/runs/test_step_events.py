"""Step events in a run's directory: every step once, whatever interrupts the training."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.training.compiled.full_step import obstacle
from neuro_divergent.training.runs import event_files
from neuro_divergent.training.runs.run_directory import MOST_STEPS, events_of

X = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]


def train(directory: Any, *callbacks: nd.Callback, resume: str | None = None, **fields: Any) -> nd.History:
    checkpoints = nd.Checkpoints(directory, every_n_epochs=None, every_n_steps=5, keep_last=None, asynchronous=False)
    base = {"max_epochs": 3, "batch_size": 4, "validation_split": None, "progress": False, "checkpoints": checkpoints}
    torch.manual_seed(0)
    config = nd.TrainingConfig(**base | {"callbacks": callbacks} | fields)
    return nd.Trainer(config).fit(nn.Linear(1, 1), (X, 2 * X), resume=resume)


class Break(nd.Callback):
    """Ends the process's training after a step, as a crash would: nothing is saved."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_batch_end(self, state: Any) -> None:
        if state.step == self.step:
            raise KeyboardInterrupt


def places(folder: Path) -> list[Any]:
    return [folder / "run", f"memory://{folder.name}/run"]


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_an_interrupted_and_resumed_run_has_every_step_once(tmp_path: Path, remote: bool) -> None:
    place, whole = places(tmp_path)[remote], tmp_path / "whole"
    with pytest.raises(KeyboardInterrupt):
        train(place, Break(23))
    # The step that the interruption came after is not told: the engine's hooks come last.
    assert nd.read_run(place).steps["step"] == list(range(1, 23))
    assert nd.read_run(place).checkpoints[-1].step == 20
    history = train(place, resume="auto")
    expected = train(whole, schedule=None)
    record, uninterrupted = nd.read_run(place), nd.read_run(whole)
    assert record.steps["step"] == list(range(1, 49))
    assert record.steps["loss"] == history.step_loss
    assert record.steps == uninterrupted.steps
    assert uninterrupted.steps["loss"] == expected.step_loss
    assert [epoch["train_loss"] for epoch in record.epochs] == history.train_loss
    assert (record.finished, record.log.damaged) == (True, 0)


def test_steps_are_on_the_disk_before_the_checkpoint_that_follows_them(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    class Look(nd.Callback):
        def on_checkpoint_end(self, state: Any) -> None:
            seen.append((state.step, nd.read_run(tmp_path).steps["step"][-1]))

    train(tmp_path, Look())
    assert [step for step, _ in seen] == [5, 10, 15, 20, 25, 30, 35, 40, 45, 48]
    assert all(step == told for step, told in seen)


def test_many_steps_take_few_lines_and_one_that_was_left_out_is_not_a_number(tmp_path: Path) -> None:
    class Poison(nd.Callback):
        def on_batch_start(self, state: Any) -> None:
            if state.step == 1:
                with torch.no_grad():
                    next(state.module.parameters()).fill_(float("nan"))

        def on_batch_end(self, state: Any) -> None:
            if state.step == 2:
                with torch.no_grad():
                    next(state.module.parameters()).fill_(0.5)

    history = train(
        tmp_path, Poison(), nonfinite="skip", max_epochs=25, checkpoints=nd.Checkpoints(tmp_path, every_n_epochs=None)
    )
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    told = [line for line in lines if line["event"] == "steps"]
    assert max(len(line["steps"]) for line in told) <= MOST_STEPS
    assert len(told) <= 25 + 400 // MOST_STEPS + 25  # one an epoch, those that are full, and what the clock asks for
    assert {line["epoch"] for line in told} == set(range(25))
    losses = nd.read_run(tmp_path).steps["loss"]
    assert math.isnan(losses[1])
    assert [loss for loss in losses if not math.isnan(loss)] == history.step_loss


def test_the_log_of_events_does_not_switch_the_compiled_step_off(tmp_path: Path) -> None:
    config = nd.TrainingConfig(max_epochs=1).resolved()
    state: Any = type("State", (), {})()
    callbacks = events_of(tmp_path, state)
    assert state.run_directory == tmp_path
    assert obstacle(config, callbacks, nn.Linear(2, 1)) == obstacle(config, [], nn.Linear(2, 1)) is None


def test_a_remote_run_keeps_its_events_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of any size must do: here every write fills one."""
    monkeypatch.setattr(event_files, "PART_BYTES", 1)
    address = f"memory://{tmp_path.name}/parts"
    history = train(address)
    names = [
        path.rsplit("/", 1)[-1] for path in fsspec.filesystem("memory").ls(f"/{tmp_path.name}/parts/events", False)
    ]
    assert names == [f"{number:08d}.jsonl" for number in range(1, len(names) + 1)]
    assert len(names) >= 2
    assert nd.read_run(address).steps["loss"] == history.step_loss


def test_a_place_that_takes_no_events_does_not_end_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory = type(fsspec.filesystem("memory"))
    write = memory.pipe_file

    def refuse(self: Any, path: str, value: bytes, **more: Any) -> Any:
        if "/events/" in path:
            raise PermissionError("not allowed")
        return write(self, path, value, **more)

    monkeypatch.setattr(memory, "pipe_file", refuse)
    address = f"memory://{tmp_path.name}/refused"
    assert len(train(address)) == 3
    assert caplog.text.count("event log could not be written") == 1
    assert nd.read_run(address).checkpoints
