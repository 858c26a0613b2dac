"""Threads that wait without burning a core while somebody else needs it.

The threads of the math library wait for each other by spinning, for milliseconds. On a machine with nothing else to do
that is fast; as soon as another process wants a core, spinning threads keep it from those that are waited for, and a
step takes many times as long. The library (GNU OpenMP) spins only briefly and then sleeps while there are more of its
threads than cores. So that is arranged while the machine is busy, with threads that were woken once and sleep. On a
quiet machine sleeping costs more than half of a step, so they are let go as soon as the neighbour is gone. How the
threads wait changes no result.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from neuro_divergent.training.callbacks.base import Callback

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

log = logging.getLogger(__name__)

EVERY = 64
"""Steps between two looks at the machine."""

MOST_SLEEPERS = 8
"""With so many sleeping teams the threads outnumber the cores, or one neighbour does not matter."""

_ENOUGH = 1 << 17  # numbers that torch adds up with all of its threads


class YieldWhenBusy(Callback):
    """Lets the math library's threads sleep instead of spin while the machine is busy."""

    engine: ClassVar[bool] = True

    def __init__(self) -> None:
        self._done: threading.Event | None = None

    def on_epoch_start(self, state: TrainState) -> None:  # noqa: ARG002
        """Look at the machine."""
        self._look()

    def on_batch_end(self, state: TrainState) -> None:
        """Look at the machine now and then."""
        if state.step % EVERY == 0:
            self._look()

    def on_fit_end(self, state: TrainState) -> None:  # noqa: ARG002
        """Let the sleepers go."""
        self._release()

    def on_exception(self, state: TrainState) -> None:  # noqa: ARG002
        """Let the sleepers go."""
        self._release()

    def _look(self) -> None:
        threads = torch.get_num_threads()
        if threads < 2 or busy(threads) == (self._done is not None):
            return
        if self._done is not None:
            self._release()
            return
        log.info("the machine is busy: threads that wait for each other sleep until it is quiet")
        self._done = _sleepers()

    def _release(self) -> None:
        if self._done is not None:
            self._done.set()
            self._done = None


def busy(threads: int) -> bool:
    """Whether other processes want cores that this many threads would use; False where the system does not tell."""
    cores = os.cpu_count() or 1
    for pause in (0.0, 0.002, 0.002):  # a short-lived task is no neighbour
        time.sleep(pause)
        if _others_running() + threads <= cores:
            return False
    return True


def _others_running() -> int:
    """Threads of other processes that run or could run at this moment."""
    try:
        everyone = int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].split("/")[0])
        own = sum(_runs(task) for task in os.listdir("/proc/self/task"))
    except (OSError, ValueError, IndexError):
        return 0
    return max(0, everyone - own)


def _runs(task: str) -> bool:
    try:
        stat = Path("/proc/self/task", task, "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "R"


def _sleepers() -> threading.Event:
    """Start as many teams of threads as make them outnumber the cores; they sleep until the event is set."""
    team, cores = torch.get_num_threads(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    count = min(MOST_SLEEPERS, max(1, -(-(cores - team + 1) // (team - 1))))
    done, ready = threading.Event(), threading.Barrier(count + 1)

    def sleep() -> None:
        torch.ones(_ENOUGH).add_(1)  # a team of the library's threads is made by being used
        ready.wait()
        done.wait()

    for number in range(count):
        threading.Thread(target=sleep, name=f"sleeper-{number}", daemon=True).start()
    ready.wait()
    return done
