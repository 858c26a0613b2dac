"""Running a worker process, and the figures that `make stress` prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIGURES = "ND_FAULT_FIGURES"
"""Environment variable: the file in which the figures of all test processes are collected."""
SHARE = "ND_FAULT_SHARE"
"""Environment variable: how much of the long tests to run, 1 for all."""
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Memory as a disk where there is one: a flush costs nothing there, and the order of operations is what is tested."""


def share_of(count: int) -> int:
    """How many of so many attempts are asked for."""
    return max(1, round(count * float(os.environ.get(SHARE, "1"))))


def environment() -> dict[str, str]:
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


def worker(*arguments: str, timeout: float = 600.0) -> dict[str, Any]:
    """The JSON that a command of fault_worker.py prints."""
    command = [sys.executable, str(HERE / "fault_worker.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment(), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found["stderr"] = done.stderr[-2000:]
    return found


def record(what: str, good: int, tried: int) -> None:
    """Keep a figure for the table at the end."""
    if path := os.environ.get(FIGURES):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps([what, good, tried]) + "\n")
