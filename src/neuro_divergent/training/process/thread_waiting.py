"""Let math threads sleep instead of spin while other processes need the cores.

The threads of the math library (GNU OpenMP) wait for each other by spinning, for milliseconds. On an idle machine that
is fast. If another process needs a core, spinning threads take it away from the threads that have work, and a step
takes many times as long. OpenMP spins only briefly and then sleeps if it has more threads than there are cores.
Therefore, while the machine is busy, this module adds OpenMP threads that sleep. On an idle machine sleeping costs more
than half of a step, so the added threads end when the other process has ended. This does not change any result.
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
"""Number of steps between two checks of the machine."""

MOST_SLEEPERS = 8
"""Largest number of sleeping teams. On machines where more are needed, one other process does not matter."""

_ENOUGH = 1 << 17  # size of a tensor for which torch uses all of its threads


class YieldWhenBusy(Callback):
    """Lets the math library's threads sleep instead of spin while the machine is busy."""

    engine: ClassVar[bool] = True

    def __init__(self) -> None:
        self._done: threading.Event | None = None

    def on_epoch_start(self, state: TrainState) -> None:  # noqa: ARG002
        """Check the machine."""
        self._look()

    def on_batch_end(self, state: TrainState) -> None:
        """Check the machine at every 64th step."""
        if state.step % EVERY == 0:
            self._look()

    def on_fit_end(self, state: TrainState) -> None:  # noqa: ARG002
        """End the sleeping threads."""
        self._release()

    def on_exception(self, state: TrainState) -> None:  # noqa: ARG002
        """End the sleeping threads."""
        self._release()

    def _look(self) -> None:
        threads = torch.get_num_threads()
        if threads < 2 or busy(threads) == (self._done is not None):
            return
        if self._done is not None:
            self._release()
            return
        log.info("the machine is busy: waiting math threads sleep until it is idle")
        self._done = _sleepers()

    def _release(self) -> None:
        if self._done is not None:
            self._done.set()
            self._done = None


def busy(threads: int) -> bool:
    """Whether other processes need cores that this many threads would use; False on systems without /proc."""
    cores = os.cpu_count() or 1
    for pause in (0.0, 0.002, 0.002):  # repeated, to ignore a short-lived task
        time.sleep(pause)
        if _others_running() + threads <= cores:
            return False
    return True


def _others_running() -> int:
    """The number of threads of other processes that run or are ready to run."""
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
    """Start teams of threads until there are more threads than cores. They sleep until the returned event is set."""
    team, cores = torch.get_num_threads(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    count = min(MOST_SLEEPERS, max(1, -(-(cores - team + 1) // (team - 1))))
    done, ready = threading.Event(), threading.Barrier(count + 1)

    def sleep() -> None:
        torch.ones(_ENOUGH).add_(1)  # the first parallel operation creates the team of threads
        ready.wait()
        done.wait()

    for number in range(count):
        threading.Thread(target=sleep, name=f"sleeper-{number}", daemon=True).start()
    ready.wait()
    return done
