"""Slots: executors, and the groups of trials that they have."""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.executors import InlineExecutor, ProcessExecutor
from neuro_divergent.search.engine.rungs import Stage
from neuro_divergent.search.engine.work import Wanted, ready
from neuro_divergent.search.settings import Search
from neuro_divergent.training.config.other_process import not_in_files, own_modules

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
        if not self.started:
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


def slots_of(search: Search) -> list[Slot]:
    """The slots of a search: one in this process, or one per process.

    Trials with a time limit run in another process, which can be ended even if it hangs.
    """
    jobs = search.n_jobs if search.n_jobs > 0 else _cores()
    wanted = jobs > 1 or search.timeout is not None or search.trial_timeout is not None
    if not wanted or not _can_leave(search, jobs):
        return [Slot(InlineExecutor())]
    return [Slot(ProcessExecutor()) for _ in range(jobs)]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _can_leave(search: Search, jobs: int) -> bool:
    """Whether trials can be handed to other processes. If they must be and cannot, the search is refused."""
    space = None if search.space is None else list(search.space.dimensions.values())
    found = not_in_files(search.config, search.model, search.scoring)
    if not found and "__main__" not in own_modules([search.model, search.config, space]):
        return True
    what = f"your own callables ({', '.join(found)})" if found else "the classes of your script"
    if jobs > 1:
        raise ConfigError(f"other processes get trials as files, which cannot contain {what}. Use n_jobs=1")
    log.info("trials run in this process, because files cannot contain %s: it interrupts those that hang", what)
    return False
