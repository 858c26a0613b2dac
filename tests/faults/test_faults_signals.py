"""SIGINT and SIGTERM: the step is finished, the run is saved, the signal has its way; a second one at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fault_runs import fingerprint
from fault_tools import environment
from torch import nn

import neuro_divergent as nd
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints


class Send(nd.Callback):
    """Sends signals to this very process after a step."""

    def __init__(self, *numbers: signal.Signals, step: int = 3) -> None:
        self.numbers, self.step = numbers, step
        self.steps_after = 0

    def on_batch_end(self, state: Any) -> None:
        if state.step == self.step:
            for number in self.numbers:
                os.kill(os.getpid(), number)
        self.steps_after += state.step > self.step


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """A process that was started in the background may have been told to ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.1), nn.Linear(4, 1))


DATA = (np.arange(40, dtype=np.float32).reshape(20, 2) / 40, np.ones((20, 1), dtype=np.float32))


def config(directory: Path | None, *callbacks: nd.Callback, **fields: Any) -> nd.TrainingConfig:
    checkpoints = None if directory is None else nd.Checkpoints(directory, on_stop=False)
    return nd.TrainingConfig(
        max_epochs=3, batch_size=4, checkpoints=checkpoints, callbacks=callbacks, progress=False, **fields
    )


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_finishes_the_step_saves_and_is_raised(tmp_path: Path, number: signal.Signals, raised: type) -> None:
    handlers = [signal.getsignal(item) for item in (signal.SIGINT, signal.SIGTERM)]
    sender = Send(number)
    with pytest.raises(raised) as caught:
        nd.Trainer(config(tmp_path, sender)).fit(network(), DATA)
    assert sender.steps_after == 0
    if raised is SystemExit:
        assert caught.value.code == 143
    assert [signal.getsignal(item) for item in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert LocalCheckpoints(tmp_path).names() == ["step-00000003"]
    whole, module = network(), network()
    expected = nd.Trainer(config(None)).fit(whole, DATA)
    history = nd.Trainer(config(tmp_path)).fit(module, DATA, resume="auto")
    assert fingerprint(module, history) == fingerprint(whole, expected)


def test_a_second_signal_ends_at_once_without_saving(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        nd.Trainer(config(tmp_path, Send(signal.SIGTERM, signal.SIGINT))).fit(network(), DATA)
    assert LocalCheckpoints(tmp_path).names() == []


def test_without_checkpoints_a_signal_keeps_its_usual_meaning() -> None:
    with pytest.raises(KeyboardInterrupt):
        nd.Trainer(config(None, Send(signal.SIGINT))).fit(network(), DATA)


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As SIGINT is in a background job; the other one is taken over as ever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert len(nd.Trainer(config(tmp_path, Send(signal.SIGINT))).fit(network(), DATA)) == 3
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    with pytest.raises(SystemExit):
        nd.Trainer(config(tmp_path, Send(signal.SIGTERM))).fit(network(), DATA)


def test_a_handler_that_python_did_not_set_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program around Python may have set one before Python began, and then Python tells None for it. A stand-in,
    because only such a program could."""
    monkeypatch.setattr(signal, "getsignal", lambda _: None)
    was = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    seen: list[Any] = []

    class Look(nd.Callback):
        def on_batch_end(self, state: Any) -> None:
            seen.append(signal.signal(signal.SIGTERM, signal.SIG_DFL))

    nd.Trainer(config(tmp_path, Look())).fit(network(), DATA)
    signal.signal(signal.SIGTERM, was)
    assert set(seen) == {signal.SIG_DFL}


def test_a_training_in_another_thread_leaves_signals_alone(tmp_path: Path) -> None:
    lengths: list[int] = []
    run = nd.Trainer(config(tmp_path))
    thread = threading.Thread(target=lambda: lengths.append(len(run.fit(network(), DATA))))
    thread.start()
    thread.join()
    assert lengths == [3]


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "neuro_divergent.cli.main", "train", str(folder / "data.csv"), "--model", "mlp"]
    command += ["--h", "2", "--input-size", "4", "--out", str(folder / "run"), "--set", "model.hidden_size=4"]
    command += ["--set", "training.max_steps=200000", "--set", "training.steps_per_epoch=50"]
    command += ["--set", "training.compile=false"]
    return subprocess.Popen([*command, *more], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def steps_seen(folder: Path) -> int:
    events = folder / "run" / "events.jsonl"
    lines = events.read_text().splitlines() if events.exists() else []
    return max((json.loads(line)["step"] for line in lines), default=-1)


def test_the_command_line_saves_and_ends_with_the_documented_codes(tmp_path: Path) -> None:
    rows = "\n".join(f"a,{step},{np.sin(step):.3f}" for step in range(40))
    (tmp_path / "data.csv").write_text(f"unique_id,ds,y\n{rows}\n")
    done = 0
    for number, code, more in ((signal.SIGTERM, 143, []), (signal.SIGINT, 130, ["--resume"])):
        process = start(tmp_path, *more)
        try:
            deadline = time.monotonic() + 120
            while steps_seen(tmp_path) <= done and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(number)
            _, said = process.communicate(timeout=25)
        finally:
            process.kill()
        assert process.returncode == code, said
        saved = int(LocalCheckpoints(tmp_path / "run").names()[-1].removeprefix("step-"))
        assert saved > done
        done = saved


def processes_below(parent: int) -> list[int]:
    """The children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent:
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def test_a_signal_to_every_process_of_a_watched_training_still_saves(tmp_path: Path) -> None:
    """A service manager signals all processes, and the supervisor hands the signal on: the training has it twice."""
    rows = "\n".join(f"a,{step},{np.sin(step):.3f}" for step in range(40))
    (tmp_path / "data.csv").write_text(f"unique_id,ds,y\n{rows}\n")
    watched = ["--set", "training.fault_tolerance.kind=FaultTolerance", "--set", "training.fault_tolerance.retries=1"]
    process = start(tmp_path, *watched)
    try:
        deadline = time.monotonic() + 120
        while steps_seen(tmp_path) <= 0 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        before = steps_seen(tmp_path)
        for one in (*processes_below(process.pid), process.pid):
            os.kill(one, signal.SIGTERM)
        _, said = process.communicate(timeout=25)
    finally:
        process.kill()
    assert process.returncode == 143, said
    assert int(LocalCheckpoints(tmp_path / "run").names()[-1].removeprefix("step-")) >= before > 0


INTERRUPTED = """
import signal, sys, time
import numpy as np
from torch import nn
import neuro_divergent as nd
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints

write = LocalCheckpoints.write

def slowly(self, name, contents):
    time.sleep(1.5 * (name == "step-00000002"))
    write(self, name, contents)

LocalCheckpoints.write = slowly

class Asks(nd.Callback):
    def on_batch_end(self, state):
        if state.step == 3:  # the checkpoint of step 2 is being written
            signal.signal(signal.SIGINT, signal.default_int_handler)  # as input() and debuggers want it
            print("waiting", flush=True)
            time.sleep(60)

data = (np.ones((20, 2), dtype=np.float32), np.ones((20, 1), dtype=np.float32))
config = nd.TrainingConfig(
    max_epochs=3, batch_size=4, validation_split=None, callbacks=[Asks()], progress=False,
    checkpoints=nd.Checkpoints(sys.argv[1], every_n_steps=1),
)
nd.Trainer(config).fit(nn.Linear(2, 1), data)
"""


def test_an_interrupt_inside_a_hook_waits_for_the_writer(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "run")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in said
    assert LocalCheckpoints(tmp_path / "run").names() == ["step-00000001", "step-00000002"]
