"""Thousands of tampered models: each is refused by our own error or forecasts, in time and in bounded memory."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fault_tools import record, share_of

TAMPER = Path(__file__).with_name("tamper.py")
SECONDS = 5.0
"""How long loading and forecasting may take."""
PATIENCE = 60.0
"""How long a process may take to start and to save the models that are tampered with."""


def verdicts(folder: Path, first: int, count: int) -> list[dict[str, Any]]:
    """The verdict on each of so many models; one that hangs is ended, and the next ones go to another process."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        begin = first + len(found)
        command = [sys.executable, str(TAMPER), str(folder / "models"), str(begin), str(count - len(found))]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
            lines: queue.Queue[bytes] = queue.Queue()
            threading.Thread(target=_read, args=(process, lines), daemon=True).start()
            assert lines.get(timeout=PATIENCE) == b"ready\n", process.communicate()[1].decode()
            while len(found) < count:
                number = first + len(found)
                try:
                    line = lines.get(timeout=4 * SECONDS)  # the time of the model itself is in its verdict
                except queue.Empty:
                    line = b""
                if not line:  # it hangs, or has ended the whole process
                    how = "hangs" if process.poll() is None else f"ended the process with {process.returncode}"
                    found.append({"number": number, "verdict": "stray", "seconds": 0.0, "what": "", "why": how})
                    process.kill()
                    break
                found.append(json.loads(line))
    return found


def _read(process: subprocess.Popen[bytes], lines: queue.Queue[bytes]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    process.wait()
    lines.put(b"")


def assert_harmless(found: list[dict[str, Any]]) -> None:
    bad = [item for item in found if item["verdict"] == "stray" or item["seconds"] > SECONDS]
    record("tampered models harmless", len(found) - len(bad), len(found))
    assert not bad, "\n".join(
        f"{item['number']} {item['why']} ({item['seconds']:.1f} s): {item['what']}" for item in bad
    )
    assert {item["verdict"] for item in found} == {"used", "refused"}


def test_a_hundred_tampered_models_are_refused_or_forecast(tmp_path: Path) -> None:
    assert_harmless(verdicts(tmp_path, 0, 100))


@pytest.mark.stress
@pytest.mark.parametrize("part", range(10))
def test_thousands_of_tampered_models_are_refused_or_forecast(part: int, tmp_path: Path) -> None:
    assert_harmless(verdicts(tmp_path, 1000 + 500 * part, share_of(500)))
