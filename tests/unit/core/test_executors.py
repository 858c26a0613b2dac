"""Executors run named functions of strings, here or in another process."""

from __future__ import annotations

import os
import time
from concurrent.futures import Executor
from typing import Any

import pytest

from neuro_divergent.core.executors.processes import InlineExecutor, ProcessExecutor, WorkerDiedError, WorkError


@pytest.mark.parametrize("make", [InlineExecutor, ProcessExecutor])
def test_a_task_is_a_name_and_strings(make: Any) -> None:
    executor = make()
    assert isinstance(executor, Executor)
    assert executor.submit("posixpath:join", "a", "b").result(timeout=60) == "a/b"
    assert executor.submit(os.path.join, "c", "d").result(timeout=60) == "c/d"
    executor.shutdown()


def test_the_process_keeps_its_state_and_survives_errors() -> None:
    executor = ProcessExecutor()
    first = executor.submit("os:getenv", "OMP_NUM_THREADS")
    assert first.result(timeout=60) == "1"
    with pytest.raises(WorkError, match="FileNotFoundError"):
        executor.submit("os:listdir", "/nowhere").result(timeout=60)
    with pytest.raises(WorkError, match="ConfigError: a task must name a function"):
        executor.submit("os:nothing").result(timeout=60)
    assert executor.submit("posixpath:basename", "a/b").result(timeout=60) == "b"
    executor.shutdown()


def test_a_hung_task_can_be_killed_and_the_next_one_runs() -> None:
    executor = ProcessExecutor()
    executor.submit("posixpath:basename", "a").result(timeout=60)
    hung = executor.submit("builtins:input", "")  # waits for the next task as its answer
    time.sleep(0.1)
    executor.kill()
    with pytest.raises(WorkerDiedError, match="exit code -9"):
        hung.result(timeout=10)
    assert executor.submit("posixpath:basename", "x/y").result(timeout=60) == "y"
    executor.shutdown()
