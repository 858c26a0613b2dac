"""Trials, folds and members on an executor, beside the same in this process; a worker may be killed in the middle.

python executor_faults.py ray|dask [--kill]: prints one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import neuro_divergent as nd

CONFIG = nd.TrainingConfig(max_epochs=6, compile=False, progress=False, batch_size=32)
SPACE = nd.SearchSpace(learning_rate=nd.choice(1e-3, 3e-3, 1e-2, 3e-2), hidden_size=nd.choice(4, 8, 16, 32))
MODELS = [nd.MLP(h=4, input_size=12, hidden_size=8), nd.LSTM(h=4, input_size=12, hidden_size=4)]


def trials(executor: Any = None) -> Any:
    """Sixteen trials of a grid: what each scored, and what the best one forecasts."""
    grid = nd.GridSearch(SPACE, model=nd.MLP(h=4, input_size=12), config=CONFIG, stacked=False, executor=executor)
    found = grid.fit(nd.samples.air_passengers())
    table = found.trials.drop([name for name in ("seconds",) if name in found.trials.columns]).sort("number")
    return [table.rows(), found.best_forecaster().predict().rows()]


def folds(executor: Any = None) -> Any:
    """Eight folds of two models."""
    where: dict[str, Any] = {"stacked": False} if executor is None else {"executor": executor}
    found = nd.cross_validation(MODELS, nd.samples.air_passengers(), CONFIG, n_windows=8, refit=True, **where)
    return found.frame.rows()


def members(executor: Any = None) -> Any:
    """Four members of two models."""
    where: dict[str, Any] = {"stacked": False} if executor is None else {"executor": executor}
    found = nd.fit_many(MODELS * 2, nd.samples.air_passengers(), CONFIG, seeds=[1, 1, 2, 2], **where)
    return [[one.predict().rows(), one.history.step_loss] for one in found]


WORK: dict[str, Callable[..., Any]] = {"trials": trials, "folds": folds, "members": members}


def ray_executor() -> Any:
    """An executor on a new local cluster."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    return nd.RayExecutor()


def dask_executor() -> Any:
    """An executor on a new local cluster of dask."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    return Client(cluster).get_executor()


def kill_a_worker(killed: list[int], stop: threading.Event) -> None:
    """Kill a process of Ray that trains, as soon as one is there."""
    while not stop.is_set():
        for name in os.listdir("/proc"):
            if name.isdecimal() and _trains(int(name)):
                time.sleep(0.3)  # in the middle
                os.kill(int(name), signal.SIGKILL)
                killed.append(int(name))
                return
        time.sleep(0.05)


def _trains(process: int) -> bool:
    """Whether a process is a worker of the cluster that was started here, and has a task of ours."""
    try:
        if not Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::_run"):
            return False
        parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]
        return f"ND_EXECUTOR_FAULTS={os.getpid()}".encode() in Path(f"/proc/{parent}/environ").read_bytes()
    except OSError:
        return False


def main(which: str, kill: bool) -> None:
    """Compare, and print what was equal."""
    os.environ["ND_EXECUTOR_FAULTS"] = str(os.getpid())
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    alone = {name: work() for name, work in WORK.items()}
    executor = ray_executor() if which == "ray" else dask_executor()
    killed: list[int] = []
    equal = {}
    if kill:
        members(executor)  # afterwards the workers have imported everything
    for name, work in WORK.items():
        stop = threading.Event()
        thread = threading.Thread(target=kill_a_worker, args=(killed, stop), daemon=True)
        if kill:
            thread.start()
        equal[name] = work(executor) == alone[name]
        stop.set()
    print(json.dumps({"equal": equal, "killed": len(killed)}))  # noqa: T201
    executor.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], "--kill" in sys.argv)
