"""Trainings in several processes that are killed, stopped or broken: they end well or with one sentence."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fault_tools import environment, record, share_of

SCRIPT = Path(__file__).with_name("distributed_run.py")


def start(directory: Path, resume: str = "", **settings: Any) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(directory), json.dumps({"processes": 2, **settings}), resume]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def answer(process: subprocess.Popen[str], seconds: float = 120.0) -> dict[str, Any]:
    out, err = process.communicate(timeout=seconds)
    assert out.strip(), err[-3000:]
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def ranks(directory: Path) -> dict[int, int]:
    """Process ids of the processes that train in a directory, by rank."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with suppress(OSError, ValueError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"neuro_divergent.forecasting.fit.elsewhere.rank" in words and str(directory / "job").encode() in words:
                variables = dict(
                    part.split(b"=", 1) for part in (folder / "environ").read_bytes().split(b"\0") if b"=" in part
                )
                found[int(variables[b"RANK"])] = int(folder.name)
    return found


def until_trained(directory: Path, steps: int, seconds: float = 60.0) -> dict[int, int]:
    """Wait until a checkpoint of at least so many steps is there; then the processes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        names = [path.name for path in (directory / "checkpoints").glob("step-*")]
        if any(int(name.removeprefix("step-")) >= steps for name in names) and len(found := ranks(directory)) == 2:
            return found
        time.sleep(0.02)
    raise AssertionError("the training did not begin")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same training in one process: exact mode gives its bits for any number of processes."""
    return answer(start(tmp_path_factory.mktemp("one") / "run", processes=1))


def disturb(folder: Path, undisturbed: dict[str, Any], number: int, kind: signal.Signals) -> None:
    draw = random.Random(number)
    directory = folder / f"run-{kind.name}-{number}"
    process = start(directory)
    found = until_trained(directory, draw.randrange(20, 200, 20))
    os.kill(found[draw.randrange(2)], kind)
    assert answer(process) == undisturbed
    assert ranks(directory) == {}


@pytest.mark.parametrize("number", range(3))
def test_a_killed_process_costs_no_bit(tmp_path: Path, undisturbed: dict[str, Any], number: int) -> None:
    disturb(tmp_path, undisturbed, number, signal.SIGKILL)


def test_a_process_that_hangs_is_replaced(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    disturb(tmp_path, undisturbed, 7, signal.SIGSTOP)


@pytest.mark.stress
@pytest.mark.parametrize(("kind", "count"), [(signal.SIGKILL, 40), (signal.SIGSTOP, 20)])
def test_many_disturbed_trainings(
    tmp_path: Path, undisturbed: dict[str, Any], kind: signal.Signals, count: int
) -> None:
    tried = share_of(count)
    for number in range(tried):
        disturb(tmp_path, undisturbed, 100 + number, kind)
    record(f"trainings in two processes, one of them got {kind.name}", tried, tried)


def test_no_process_outlives_the_one_that_started_it(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    process = start(tmp_path / "run", steps=100_000)
    until_trained(tmp_path / "run", 20)
    process.kill()
    process.communicate()
    end = time.monotonic() + 40
    while ranks(tmp_path / "run") and time.monotonic() < end:
        time.sleep(0.1)
    assert ranks(tmp_path / "run") == {}


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_run_goes_on_to_the_same_bits(
    tmp_path: Path, undisturbed: dict[str, Any], kind: signal.Signals
) -> None:
    process = start(tmp_path / "run")
    until_trained(tmp_path / "run", 60)
    process.send_signal(kind)
    process.communicate(timeout=60)
    assert process.returncode in (130, 143, -kind)
    assert ranks(tmp_path / "run") == {}
    assert answer(start(tmp_path / "run", resume="auto")) == undisturbed


def test_a_run_of_two_processes_goes_on_in_one_and_in_four(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    process = start(tmp_path / "run")
    until_trained(tmp_path / "run", 100)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    process = start(tmp_path / "run", resume="auto", processes=4, strategy="zero")
    assert answer(process) == undisturbed
