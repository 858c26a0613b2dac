"""Searches that are killed: no finished trial is lost, none is done twice, and the study goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from fault_tools import HERE, environment, record, share_of


def faults(*arguments: object, timeout: float = 600.0) -> dict[str, Any]:
    """The JSON that a command of search_faults.py prints."""
    command = [sys.executable, str(HERE / "search_faults.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment(), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["bad"] == [], done.stderr[-3000:]
    return found


def test_five_kills_lose_no_trial() -> None:
    assert faults("kill", 5, 1)["survived"] == 5


def test_three_processes_share_a_grid() -> None:
    assert faults("many", 3, 8, 1)["survived"] == 8


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(2, 6))
def test_two_hundred_kills_lose_no_trial(seed: int) -> None:
    kills = share_of(50)
    found = faults("kill", kills, seed, timeout=7200)
    record("search kills survived", found["survived"], found["tried"])
    assert found["survived"] == found["tried"] >= kills


@pytest.mark.stress
def test_eight_processes_share_two_hundred_trials() -> None:
    found = faults("many", 8, 200, 2, timeout=3600)
    record("shared trials found once", found["survived"], found["tried"])
