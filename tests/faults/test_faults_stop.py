"""`neuro-divergent stop`: a training in another process ends, saved, and goes on to the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_tools import environment

import neuro_divergent as nd
from neuro_divergent.cli.main import main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs locks")

TRAINING = """
import json, sys, time
import torch
import neuro_divergent as nd
from fault_runs import MODELS, fingerprint, table
from neuro_divergent.training.config.checkpoints import FaultTolerance

torch.set_num_threads(1)
directory, fields = sys.argv[1], json.loads(sys.argv[2])


class Slow(nd.Callback):
    engine = True

    def on_batch_end(self, state):
        time.sleep(0.005)


retries = fields.pop("retries", None)
if retries is not None:
    fields["fault_tolerance"] = FaultTolerance(retries=retries)
elif fields.pop("slow", True):
    fields["callbacks"] = (Slow(),)
resume = fields.pop("resume", None)
checkpoints = nd.Checkpoints(directory, every_n_epochs=None, on_stop=fields.pop("on_stop", False))
base = {"batch_size": 10, "steps_per_epoch": 7, "early_stopping": None, "progress": False, "compile": False}
config = nd.TrainingConfig(**base | {"schedule": None, "checkpoints": checkpoints} | fields)
try:
    changes = {"resume_with": {"max_epochs": config.max_epochs}} if resume else {}
    fitted = MODELS["mlp"][0].fit(table(), config, resume=resume, **changes)
    print(json.dumps({"stopped": fitted.history.stopped, "run": fingerprint(fitted.module, fitted.history)}))
except nd.NeuroDivergentError as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts trainings, and ends those that are left."""
    begun: list[subprocess.Popen[str]] = []

    def run(directory: Path, **fields: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", TRAINING, str(directory), json.dumps(fields)]
        begun.append(subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True))
        return begun[-1]

    yield run
    for process in begun:
        process.kill()
        process.communicate()


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate(timeout=120)
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def steps(run: Path) -> int:
    """How many steps are told of, once the run is there."""
    return len(nd.read_run(run).steps["step"]) if (run / "config.json").exists() else 0


def test_a_stopped_training_is_saved_and_goes_on_to_the_same_bits(
    tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start(tmp_path / "run", max_epochs=100000)
    wait_for(lambda: steps(tmp_path / "run") > 3, process)
    running = nd.read_run(tmp_path / "run")
    assert (running.running, running.process.pid) == (True, process.pid)
    assert main(["stop", str(tmp_path / "run"), "--timeout", "100"]) == 0
    said = capsys.readouterr().out
    assert result(process)["stopped"] == "a stop was requested"
    record = nd.read_run(tmp_path / "run")
    (checkpoint,) = record.checkpoints
    assert f"{checkpoint.path} is saved" in said
    assert "model.fit(data, config, resume='auto')" in said  # a run of Python has no command
    assert (record.stopped, record.finished, record.running) == ("a stop was requested", False, False)
    assert record.steps["step"][-1] == checkpoint.step
    assert not (tmp_path / "run" / "stop").exists()
    epochs = checkpoint.step // 7 + 2
    whole = start(tmp_path / "whole", max_epochs=epochs, slow=False)
    again = start(tmp_path / "run", max_epochs=epochs, slow=False, resume="auto")
    assert result(again) == result(whole)
    assert nd.read_run(tmp_path / "run").finished


def test_a_request_without_waiting_and_a_training_that_does_not_look_in_time(
    tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start(tmp_path / "run", max_epochs=100000)
    wait_for(lambda: steps(tmp_path / "run") > 3, process)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        assert main(["stop", str(tmp_path / "run"), "--no-wait", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["ended"] is False
        assert main(["stop", str(tmp_path / "run"), "--timeout", "0.2"]) == 1
        assert f"process {process.pid} still runs" in capsys.readouterr().err
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert result(process)["stopped"] == "a stop was requested"  # the request stayed


def test_what_does_not_run_is_a_wrong_request(tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    assert "stopped" in result(start(tmp_path / "run", max_epochs=1))
    assert main(["stop", str(tmp_path / "run")]) == 2
    assert "no process trains in" in capsys.readouterr().err
    assert main(["stop", str(tmp_path / "absent")]) == 2
    assert main(["stop", str(tmp_path / "run"), "--timeout", "0"]) == 2


def test_a_request_that_was_left_does_not_stop_the_next_training(tmp_path: Path, start: Start) -> None:
    """Left for a training that was killed before it saw it, by whoever did not wait."""
    process = start(tmp_path / "run", max_epochs=100000)
    wait_for(lambda: steps(tmp_path / "run") > 3, process)
    os.kill(process.pid, signal.SIGSTOP)
    nd.read_run(tmp_path / "run").stop(wait=False)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (tmp_path / "run" / "stop").exists()
    assert result(start(tmp_path / "run", max_epochs=2))["stopped"] == "all epochs were done"
    assert not (tmp_path / "run" / "stop").exists()


def test_a_supervised_training_that_is_stopped_is_not_started_again(tmp_path: Path, start: Start) -> None:
    process = start(tmp_path / "run", max_epochs=1000000, retries=2)
    wait_for(lambda: steps(tmp_path / "run") > 3, process)
    running = nd.read_run(tmp_path / "run")
    assert running.process.pid not in (None, process.pid)
    assert running.process.last_beat is not None
    running.stop(timeout=100)
    assert result(process)["stopped"] == "a stop was requested"
    assert [path.name for path in (tmp_path / "run" / "attempts").glob("*.log")] == ["attempt-1.log"]
    assert not (tmp_path / "run" / "stop").exists()


def test_a_supervised_training_that_dies_with_a_request_is_not_started_again(tmp_path: Path, start: Start) -> None:
    process = start(tmp_path / "run", max_epochs=1000000, retries=2)
    wait_for(lambda: steps(tmp_path / "run") > 3, process)
    running = nd.read_run(tmp_path / "run")
    assert running.process.pid is not None
    os.kill(running.process.pid, signal.SIGSTOP)
    running.stop(wait=False)
    os.kill(running.process.pid, signal.SIGKILL)
    assert "not started again, because a stop was requested" in result(process)["error"]
    assert not (tmp_path / "run" / "stop").exists()


@pytest.mark.parametrize("retries", [None, 1], ids=["alone", "supervised"])
def test_a_training_that_is_to_be_refitted_gives_the_model_so_far(
    tmp_path: Path, start: Start, retries: int | None
) -> None:
    process = start(tmp_path / "run", max_epochs=1000000, retries=retries, refit_on_all=True, validation_split=0.2)
    wait_for(lambda: steps(tmp_path / "run") > 3, process)
    stopped = nd.read_run(tmp_path / "run").stop(timeout=100)
    assert stopped.checkpoints
    assert stopped.stopped == "a stop was requested"
    assert result(process)["stopped"] == "a stop was requested"
    assert not (tmp_path / "run" / "refit").exists()


@pytest.mark.parametrize(("how", "epochs"), [("all", 60), ("fine_tune", 300)])
def test_a_refit_is_stopped_too(
    tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str], how: str, epochs: int
) -> None:
    fields = {"max_epochs": epochs, "refit": how, "validation_split": 0.2}
    process = start(tmp_path / "run", **fields)
    wait_for(lambda: steps(tmp_path / "run" / "refit") > 3, process)
    assert main(["stop", str(tmp_path / "run"), "--timeout", "100"]) == 0
    assert result(process)["stopped"] == "a stop was requested"
    record = nd.read_run(tmp_path / "run")
    assert record.refit is not None
    (checkpoint,) = record.refit.checkpoints
    assert f"is stopped after step {checkpoint.step}; {checkpoint.path} is saved" in capsys.readouterr().out
    assert record.refit.stopped == "a stop was requested"
    assert not record.finished
    again = result(start(tmp_path / "run", resume="auto", slow=False, **fields))
    assert again == result(start(tmp_path / "whole", slow=False, **fields))
    assert nd.read_run(tmp_path / "run").finished
