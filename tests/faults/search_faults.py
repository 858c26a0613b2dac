"""Kills searches: `kill COUNT SEED` one process again and again, `many PROCESSES TRIALS SEED` half of several at once,
`database URL FOLDER` one of two that share a study in a database.

Prints a JSON object. The searches run in forked processes, so that imports are paid once.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from fault_tools import FAST

import neuro_divergent as nd

torch.set_num_threads(1)
DAYS = 60


def table() -> nd.TimeSeriesDataFrame:
    """One series of 60 days with a weekly wave."""
    days = np.arange(DAYS)
    times = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 2, 29), "1d", eager=True)
    values = 10 + 3 * np.sin(2 * np.pi * days / 7)
    return nd.TimeSeriesDataFrame.from_frame(pl.DataFrame({"unique_id": "s", "ds": times, "y": values}))


def search(directory: Path, trials: int, **fields: Any) -> Any:
    """A search whose trainings take a few hundredths of a second."""
    usual: dict[str, Any] = {
        "model": nd.NLinear(h=2, input_size=4),
        "config": nd.TrainingConfig(max_steps=18, batch_size=8, early_stopping=None, validation_split=None),
        "directory": directory,
        "stacked": False,
        "checkpoint_every": 0.01,
        "nested": False,
    }
    if fields.pop("grid", False):
        space = nd.SearchSpace(learning_rate=nd.choice(*(1e-3 * (number + 1) for number in range(trials))))
        return nd.GridSearch(space, **usual | fields)
    return nd.RandomSearch(nd.SearchSpace(learning_rate=nd.loguniform(1e-4, 1e-1)), n_trials=trials, **usual | fields)


def begin(directory: Path, trials: int, **fields: Any) -> int:
    """Start a search in another process; return its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            search(directory, trials, **fields).fit(table(), resume="auto")
            code = 0
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.flush()
        finally:
            os._exit(code)
    return child


def finished(directory: Path) -> dict[int, tuple[str, Any]]:
    """State and values of all finished trials, read without Optuna."""
    file = directory / "study.db"
    if not file.exists():
        return {}
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=60) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        if not database.execute("select 1 from sqlite_master where name = 'trial_values'").fetchone():
            return {}
        rows = database.execute(
            "select number, state, value from trials left join trial_values using (trial_id) "
            "where state in ('COMPLETE', 'PRUNED', 'FAIL')"
        ).fetchall()
    assert len({row[0] for row in rows}) == len(rows)
    return {number: (state, value) for number, state, value in rows}


def ended(child: int, seconds: float) -> int | None:
    """The exit code of a process if it ends within some seconds."""
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= until:
            return None
        time.sleep(0.002)


def kill(count: int, seed: int) -> dict[str, Any]:
    """Kill a search at random instants. It goes on each time, and ends like one that nobody disturbed."""
    draw, bad, kills, rounds = random.Random(seed), [], 0, 0
    with tempfile.TemporaryDirectory(dir=FAST) as name:
        while kills < count:
            fields: dict[str, Any] = {"pruner": "successive_halving"} if rounds % 2 else {}
            directory, straight = Path(name) / "study", Path(name) / "straight"
            known: dict[int, tuple[str, Any]] = {}
            while True:
                child = begin(directory, 8, **fields)
                code = ended(child, draw.uniform(0.02, 0.6) if kills < count else 120.0)
                if code is None:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    kills += 1
                elif code != 0:
                    bad.append(f"round {rounds}: exit code {code}")
                now = finished(directory)
                if any(now.get(number) != found for number, found in known.items()):
                    bad.append(f"round {rounds}: a finished trial was lost or changed: {known} {now}")
                known = now
                if code is not None:
                    break
            begun = begin(straight, 8, **fields)
            if ended(begun, 120.0) != 0:
                bad.append(f"round {rounds}: the undisturbed search failed")
            if not fields and finished(straight) != known:
                bad.append(f"round {rounds}: other results: {known} {finished(straight)}")
            if sorted(known) != list(range(8)) or not any(state == "COMPLETE" for state, _ in known.values()):
                bad.append(f"round {rounds}: {known}")
            rounds += 1
            shutil.rmtree(directory)
            shutil.rmtree(straight)
    return {"tried": kills, "survived": kills - len(bad), "bad": bad}


def many(processes: int, trials: int, seed: int) -> dict[str, Any]:
    """Several processes on one study, half of them killed: every trial is there once, every point of the grid once."""
    draw, bad = random.Random(seed), []
    with tempfile.TemporaryDirectory(dir=FAST) as name:
        directory = Path(name) / "study"
        children = [begin(directory, trials, grid=True) for _ in range(processes)]
        for child in children[::2]:
            if ended(child, draw.uniform(0.2, 1.5)) is None:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        codes = [ended(child, 1200.0) for child in children[1::2]]
        codes.append(ended(begin(directory, trials, grid=True), 1200.0))  # what the last killed one left
        if any(codes):
            bad.append(f"exit codes {codes}")
        found = finished(directory)
        if sorted(found) != list(range(trials)) or any(state != "COMPLETE" for state, _ in found.values()):
            bad.append(f"{len(found)} of {trials} trials: {found}")
        rates = sorted(one.params["learning_rate"] for one in nd.SearchResult.load(directory).study.get_trials())
        if rates != [1e-3 * (number + 1) for number in range(trials)]:
            bad.append("the grid was not visited exactly once")
    return {"tried": trials, "survived": trials - len(bad), "bad": bad}


def database(url: str, name: str) -> dict[str, Any]:
    """Two processes on a grid of 8 points in a database, one of them killed; then another study in that database."""
    directory, bad = Path(name) / "study", []
    children = [begin(directory, 8, grid=True, storage=url) for _ in range(2)]
    if ended(children[0], 0.8) is None:
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)
    codes = [ended(children[1], 120.0), ended(begin(directory, 8, grid=True, storage=url), 120.0)]
    codes.append(ended(begin(Path(name) / "other" / "study", 3, grid=True, storage=url), 120.0))
    if any(codes):
        bad.append(f"exit codes {codes}")
    found = nd.SearchResult.load(directory, storage=url).trials
    rates = [1e-3 * (number + 1) for number in range(8)]
    if found["state"].to_list() != ["complete"] * 8 or sorted(found["learning_rate"]) != rates:
        bad.append(f"{found}")
    if nd.SearchResult.load(Path(name) / "other" / "study", storage=url).trials.height != 3:
        bad.append("two studies in one database were mixed")
    return {"tried": 8, "survived": 8 - len(bad), "bad": bad}


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "database":
        found = database(*arguments)
    else:
        found = {"kill": kill, "many": many}[command](*map(int, arguments))
    sys.stdout.write(json.dumps(found) + "\n")
