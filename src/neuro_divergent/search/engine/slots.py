"""Slots: executors, and the groups of trials that they have."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.executors.processes import InlineExecutor, ProcessExecutor
from neuro_divergent.core.executors.workers import Workers, cores
from neuro_divergent.search.engine.rungs import Stage
from neuro_divergent.search.engine.work import Wanted, ready
from neuro_divergent.search.settings import Search
from neuro_divergent.training.config.other_process import obstacle, own_modules

log = logging.getLogger(__name__)


@dataclass
class Running:
    """A trial that this process works on."""

    wanted: Wanted
    stage: Stage
    begun: float = field(default_factory=time.monotonic)
    again: bool = False
    """Whether its process has ended once without a result."""
    batch: int = -1
    """The first number of its group, in a deterministic search."""

    @property
    def number(self) -> int:
        """The number of the trial."""
        return self.wanted.number


@dataclass
class Slot:
    """An executor, and the group of trials that it has."""

    executor: Any
    shared: bool = False
    """Whether any of several processes may get the next task: then a trial is read from its checkpoint each time."""
    future: Future[Any] | None = None
    group: list[Running] = field(default_factory=list)
    forget: list[int] = field(default_factory=list)
    """Trials that the executor's process need not keep."""
    ready_since: float | None = None
    """When the executor's process had started; None before."""
    started: bool = False
    slow: bool = False
    """Whether the process was ended because its trials took too long."""

    def start(self) -> None:
        """Let the executor's process start, which takes some seconds. They do not count for a trial."""
        if not self.started and not self.shared:
            self.started = True
            self.executor.submit(ready).add_done_callback(self._note)

    def _note(self, _: Future[Any]) -> None:
        self.ready_since = time.monotonic()

    def end(self) -> None:
        """End the executor's process at once."""
        self.executor.kill()
        self.started, self.ready_since = False, None

    def seconds(self) -> float:
        """How long the present group has run."""
        if self.ready_since is None or not self.group:
            return 0.0
        return time.monotonic() - max(self.ready_since, min(one.begun for one in self.group))


class AnyWorker:
    """One of the places of a given executor: a task runs in any of its workers, and knows when its time is over."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def submit(self, function: Any, *arguments: str) -> Future[str]:
        """Run a module-level function of strings in a worker."""
        name = function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"
        return self.workers.submit(name, *arguments)

    def kill(self) -> None:
        """Cancel the tasks. A running one ends by itself, because it knows its time."""
        self.workers.close(at_once=True)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """End what was started here; the given executor stays."""
        self.workers.close(at_once=cancel_futures)


def slots_of(search: Search, directory: Path) -> list[Slot]:
    """The slots of a search: one in this process, one per process, or as many as an executor has workers.

    Trials with a time limit run in another process, which can be ended even if it hangs.
    """
    if search.executor is not None:
        _can_leave(search, must=True)
        workers = Workers(search.executor)
        space = None if search.space is None else list(search.space.dimensions.values())
        workers.probe(directory, own_modules([search.model, search.config, space, search.scoring]))
        return [Slot(AnyWorker(workers), shared=True) for _ in range(workers.count)]
    jobs = search.n_jobs if search.n_jobs > 0 else cores()
    wanted = jobs > 1 or search.timeout is not None or search.trial_timeout is not None
    if not wanted or not _can_leave(search, must=jobs > 1):
        return [Slot(InlineExecutor())]
    return [Slot(ProcessExecutor()) for _ in range(jobs)]


def _can_leave(search: Search, *, must: bool) -> bool:
    """Whether trials can be handed to other processes. If they must be and cannot, the search is refused."""
    space = None if search.space is None else list(search.space.dimensions.values())
    what = obstacle(search.config, search.model, search.scoring)
    if what is None and "__main__" in own_modules(space):
        what = "the classes of your script"
    if what is None:
        return True
    if must:
        raise ConfigError(
            f"other processes get trials as files, which cannot contain {what}. Use n_jobs=1"
            f"{'' if search.executor is None else ' and no executor'}"
        )
    log.info("trials run in this process, because files cannot contain %s: it interrupts those that hang", what)
    return False
