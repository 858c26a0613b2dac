"""A signal while torch's compiler works: it is ended, the run is saved before the step and goes on to the same bits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from fault_tools import environment

import neuro_divergent as nd
from neuro_divergent.training.compiled import full_step as whole_step
from neuro_divergent.training.process import compiler_processes as compilers
from neuro_divergent.training.process.compiler_processes import Compilers
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints

SCRIPT = """
import json, logging, sys
import numpy as np
import torch
from torch import nn
import neuro_divergent as nd
from fault_runs import fingerprint

class Stop(nd.Callback):
    def on_epoch_end(self, state):
        if state.step >= 9:
            state.stop("enough")

logging.basicConfig(level=logging.INFO)
data = np.random.default_rng(0).normal(size=(96, 8)).astype(np.float32)
torch.manual_seed(0)
module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
checkpoints = nd.Checkpoints(sys.argv[1])
config = nd.TrainingConfig(
    max_steps=200_000, batch_size=32, validation_split=None, callbacks=(Stop(),), checkpoints=checkpoints
)
history = nd.Trainer(config).fit(module, (data, data[:, :1]), resume="auto")
print(json.dumps([fingerprint(module, history), len(history.step_loss)]))
"""
linux_with_compiler = pytest.mark.skipif(
    not (sys.platform == "linux" and compilers.installed()), reason="it looks for the compiler's processes in /proc"
)


def start(run: Path, cache: Path) -> subprocess.Popen[str]:
    own = environment() | {"TORCHINDUCTOR_CACHE_DIR": str(cache)}
    command, pipe = [sys.executable, "-c", SCRIPT, str(run)], subprocess.PIPE
    return subprocess.Popen(command, env=own, stdout=pipe, stderr=pipe, text=True)


def at_work(cache: Path) -> list[int]:
    """The compilers that write into a cache."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"cc1plus" in command and str(cache).encode() in command:
                found.append(int(entry.name))
    return found


@linux_with_compiler
def test_a_signal_ends_the_compiler_and_the_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    process = start(tmp_path / "run", cache)
    try:
        deadline = time.monotonic() + 240
        while not at_work(cache) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=25)
    finally:
        process.kill()
    assert process.returncode == 143, said
    assert "ending the compiler" in said
    assert "Traceback" not in said
    assert "rror" not in said
    assert at_work(cache) == []
    assert LocalCheckpoints(tmp_path / "run").names() == ["step-00000001"]
    results = []
    for run in (tmp_path / "run", tmp_path / "whole"):
        output, said = start(run, cache).communicate(timeout=400)
        assert "was compiled in" in said
        results.append(json.loads(output))
    assert results[0] == results[1]
    assert results[0][1] == 9


def interrupted(monkeypatch: pytest.MonkeyPatch, *numbers: signal.Signals) -> None:
    """Let the signals come while a compiler works for a minute."""

    def compile_(*_: Any, **__: Any) -> None:
        for number in numbers:
            os.kill(os.getpid(), number)
        time.sleep(60)

    monkeypatch.setattr("torch._inductor.compile", compile_)


def fit(directory: Path) -> list[float]:
    torch.manual_seed(0)
    data = torch.linspace(-1, 1, 64).reshape(32, 2)
    config = nd.TrainingConfig(
        max_steps=4, batch_size=8, validation_split=None, compile=True, checkpoints=nd.Checkpoints(directory)
    )
    module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    return nd.Trainer(config).fit(module, (data, data[:, :1]), resume="auto").step_loss


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_what_is_saved_is_what_was_before_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, raised: type[BaseException]
) -> None:
    begun = time.monotonic()
    with monkeypatch.context() as patch:
        interrupted(patch, number)
        with pytest.raises(raised) as caught:
            fit(tmp_path / "run")
    assert time.monotonic() - begun < 25
    assert getattr(caught.value, "code", 143) == 143
    assert LocalCheckpoints(tmp_path / "run").names() == ["step-00000001"]
    # Eagerly the rest is done in no time.
    monkeypatch.setattr(whole_step.WholeStep, "__call__", lambda *_: None)
    assert fit(tmp_path / "run") == fit(tmp_path / "whole")


def test_a_second_signal_ends_at_once_also_after_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    interrupted(monkeypatch, signal.SIGTERM)
    monkeypatch.setattr("neuro_divergent.training.runs.saver.Saver.save", save)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path)
    assert LocalCheckpoints(tmp_path).names() == []


@linux_with_compiler
def test_only_compilers_that_were_started_meanwhile_are_ended(tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None
    shutil.copy(sleep, tmp_path / "cc1plus")
    mine = [str(tmp_path / "cc1plus"), "60"]
    before = subprocess.Popen(mine)
    watched = Compilers()
    other, working = subprocess.Popen([sleep, "60"]), subprocess.Popen(mine)
    try:
        watched.end()
        assert working.wait(5) == -signal.SIGTERM
        assert before.poll() is None
        assert other.poll() is None
    finally:
        for process in (before, other, working):
            process.kill()
            process.wait()
