"""Trains members one after the other or side by side, inside a deadline."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_divergent.core.executors.processes import InlineExecutor, ProcessExecutor, WorkerDiedError, WorkError
from neuro_divergent.core.executors.workers import cores
from neuro_divergent.search.amounts import in_words
from neuro_divergent.training.callbacks.progress import watched

WORKER = "neuro_divergent.search.auto.member"
GRACE = 2.0
"""Seconds after its time at which a worker process is ended: it ends a training itself before."""


@dataclass
class Task:
    """One piece of work: its function, its order, and when it must have ended."""

    function: str
    order: dict[str, Any]
    seconds: float


Next = Callable[[float, int], Task | None]
"""The next task, of the seconds that are left and the number of busy workers; None if there is none now."""
Done = Callable[[int, dict[str, Any] | None, str | None], bool]
"""Called with the number of a member, what its task returned, or its error. True ends the work."""


class Crew:
    """The workers of one AutoForecaster: this process, or several others with one thread each.

    They are no `Workers` of an executor: each must be ended by itself when the time of its task is over.
    """

    def __init__(self, directory: Path, jobs: int) -> None:
        self.size = cores() if jobs == -1 else jobs
        self._directory = str(directory)
        self._workers: list[InlineExecutor | ProcessExecutor] = [InlineExecutor()]
        if self.size > 1:
            threads = max(1, cores() // self.size)
            self._workers = [ProcessExecutor(threads) for _ in range(self.size)]
            for worker in self._workers:
                worker.submit(f"{WORKER}:ready")

    def work(self, following: Next, done: Done, deadline: float) -> None:
        """Do tasks until there is none, or the deadline is reached, or `done` says so."""
        busy: dict[Future[str], tuple[int, Task, float]] = {}
        ended = False
        while True:
            idle = [place for place in range(self.size) if place not in {one[0] for one in busy.values()}]
            for place in idle if not ended else ():
                task = following(deadline - time.perf_counter(), len(busy))
                if task is None:
                    break
                text = json.dumps(task.order)
                future = self._workers[place].submit(f"{WORKER}:{task.function}", self._directory, text)
                busy[future] = (place, task, time.perf_counter() + task.seconds + GRACE + 0.05 * task.seconds)
            if not busy:
                return
            finished, _ = wait(busy, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in finished:
                _, task, _ = busy.pop(future)
                ended = self._report(future, task, done) or ended
            self._end_late(busy)

    def _report(self, future: Future[str], task: Task, done: Done) -> bool:
        number = int(task.order["number"])
        try:
            return done(number, json.loads(future.result()), None)
        except WorkerDiedError as error:
            return done(number, None, str(error))
        except WorkError as error:
            return done(number, None, str(error).splitlines()[0])

    def _end_late(self, busy: dict[Future[str], tuple[int, Task, float]]) -> None:
        for place, _, latest in busy.values():
            worker = self._workers[place]
            if time.perf_counter() > latest and isinstance(worker, ProcessExecutor):
                worker.kill()  # its future fails with WorkerDiedError

    def close(self) -> None:
        """End the worker processes."""
        for worker in self._workers:
            worker.shutdown(cancel_futures=True)


class Line:
    """One line on the error stream, which is rewritten after each model."""

    def __init__(self, wanted: bool | str, metric: str) -> None:
        self._on = wanted is True or (wanted == "auto" and watched())
        self._metric, self._width = metric, 0

    def show(self, done: int, count: int, best: str, value: float, left: float) -> None:
        """Write the line."""
        if self._on:
            line = self.text(done, count, best, value, left)
            sys.stderr.write("\r" + line.ljust(self._width))
            sys.stderr.flush()
            self._width = len(line)

    def text(self, done: int, count: int, best: str, value: float, left: float) -> str:
        """The line.

        >>> Line(False, "mase").text(3, 9, "LSTM", 0.8301, 80)
        '3/9 models · best LSTM, mase 0.8301 · 80 s left'
        """
        return f"{done}/{count} models · best {best}, {self._metric} {value:.4g} · {in_words(max(0.0, left))} left"

    def close(self) -> None:
        """End the line."""
        if self._width:
            sys.stderr.write("\n")
            self._width = 0
