"""One line that shows how far a search is."""

from __future__ import annotations

import sys
import time

from neuro_divergent.search.amounts import in_words
from neuro_divergent.training.callbacks.progress import watched

SECONDS_BETWEEN = 0.2


class Progress:
    """The progress line of a search, on the error stream."""

    def __init__(self, wanted: bool | str, metric: str, budget: int, deadline: float | None) -> None:
        self._on = wanted is True or (wanted == "auto" and watched())
        self._metric, self._budget, self._deadline = metric, budget, deadline
        self._begun = time.monotonic()
        self._told, self._width = 0.0, 0
        self.before = 0
        """Trials that an earlier session has finished."""

    def show(self, done: int, pruned: int, failed: int, best: tuple[float, int] | None, *, last: bool = False) -> None:
        """Write the line, at most a few times a second."""
        now = time.monotonic()
        if not self._on or (now - self._told < SECONDS_BETWEEN and not last):
            return
        self._told = now
        line = self.text(done, pruned, failed, best, now)
        sys.stderr.write("\r" + line.ljust(self._width) + ("\n" if last else ""))
        sys.stderr.flush()
        self._width = len(line)

    def text(self, done: int, pruned: int, failed: int, best: tuple[float, int] | None, now: float) -> str:
        """The line: finished trials, best score so far, ended early, failed, time left."""
        parts = [f"{done}/{self._budget} trials"]
        if best is not None:
            parts.append(f"best {self._metric} {best[0]:.4g} (trial {best[1]})")
        parts += [f"{count} {word}" for count, word in ((pruned, "pruned"), (failed, "failed")) if count]
        left = self._left(done, now)
        return " · ".join([*parts, *([] if left is None else [f"{in_words(left)} left"])])

    def _left(self, done: int, now: float) -> float | None:
        new = done - self.before
        by_trials = None if new < 1 else (now - self._begun) / new * max(self._budget - done, 0)
        by_clock = None if self._deadline is None else max(self._deadline - now, 0.0)
        known = [one for one in (by_trials, by_clock) if one is not None]
        return min(known) if known else None
