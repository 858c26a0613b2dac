"""Progress without a terminal: a line of text per epoch, for containers, log files and build servers."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, ClassVar, Literal

from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.callbacks.progress import ProgressLine, watched

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

SECONDS_BETWEEN_LINES = 60.0
"""Inside of a long epoch, a line is written after this time."""


def progress_of(wanted: bool | Literal["auto", "plain"], title: str) -> list[Callback]:
    """The callback that shows the progress: the rewritten line, a line per epoch, or none."""
    if wanted == "plain":
        return [PlainProgress(title)]
    return [ProgressLine(title)] if wanted is True or (wanted == "auto" and watched()) else []


class PlainProgress(Callback):
    """Prints a line per epoch to the error stream, and one per minute inside of a longer epoch."""

    engine: ClassVar[bool] = True
    looks_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, title: str = "training") -> None:
        self._line = ProgressLine(title)
        self._said = 0.0

    def on_fit_start(self, state: TrainState) -> None:
        """Begin to measure the time."""
        self._line._begun, self._line._first_step = time.perf_counter(), state.step
        self._said = time.monotonic()

    def on_batch_end(self, state: TrainState) -> None:
        """Print a line if the last one is a minute old."""
        if time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._say(state)

    def on_epoch_end(self, state: TrainState) -> None:
        """Print the line of the epoch."""
        self._say(state)

    def on_fit_end(self, state: TrainState) -> None:
        """Print why the training ended."""
        self._print(f"{self._line.title} ended after {state.step} steps: {state.history.stopped}")

    def on_exception(self, state: TrainState) -> None:
        """Print that an error ended the training."""
        self._print(f"{self._line.title} ended at step {state.step} by {type(state.error).__name__}")

    def _say(self, state: TrainState) -> None:
        self._said = time.monotonic()
        words = [text.strip() for text, _ in self._line._pieces(state).values()]
        self._print(f"{self._line.title}: {', '.join(words)}")

    def _print(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
