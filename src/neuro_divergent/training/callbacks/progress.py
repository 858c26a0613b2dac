"""The progress line: on a terminal one line that is rewritten, elsewhere nothing."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, ClassVar

from neuro_divergent.training.callbacks.base import Callback

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from neuro_divergent.training.state.state import TrainState

SECONDS_BETWEEN_UPDATES = 0.1


class ProgressLine(Callback):
    """Epoch, loss, validation loss, learning rate, samples per second and time left, in one line."""

    engine: ClassVar[bool] = True

    def __init__(self, title: str = "training", *, leave: bool = False) -> None:
        self.title = title
        self.leave = leave
        self._live: Live | None = None
        self._begun = self._shown = 0.0
        self._first_step = 0

    def on_fit_start(self, state: TrainState) -> None:
        """Open the line."""
        from rich.console import Console
        from rich.live import Live

        # No refresh thread: it would compete with the training for a core.
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=not self.leave)
        self._live.start()
        self._begun = time.perf_counter()
        self._first_step = state.step

    def on_batch_end(self, state: TrainState) -> None:
        """Rewrite the line, at most ten times a second."""
        now = time.perf_counter()
        if now - self._shown >= SECONDS_BETWEEN_UPDATES:
            self._shown = now
            self._show(state)

    def on_validation_end(self, state: TrainState) -> None:
        """Show the new figure at once."""
        self._show(state)

    def on_fit_end(self, state: TrainState) -> None:
        """Close the line."""
        if self._live is not None:
            self._show(state)
            self._live.stop()
            self._live = None

    def on_exception(self, state: TrainState) -> None:
        """Close the line before the error is shown."""
        self.on_fit_end(state)

    def _show(self, state: TrainState) -> None:
        if self._live is not None:
            self._live.update(self.line(state), refresh=True)

    def line(self, state: TrainState) -> Text:
        """What the line says now."""
        from rich.text import Text

        done = state.step / max(1, state.total_steps)
        seconds = time.perf_counter() - self._begun
        speed = (state.step - self._first_step) / max(seconds, 1e-9)
        left = (state.total_steps - state.step) / max(speed, 1e-9)
        width = 20
        filled = int(width * done)
        text = Text(f"{self.title} ", style="bold", no_wrap=True, overflow="ellipsis")
        text.append("━" * filled, style="green")
        text.append("━" * (width - filled), style="bright_black")
        text.append(f" epoch {min(state.epoch + 1, self._epochs(state))}/{self._epochs(state)}", style="not bold")
        text.append(f"  loss {state.loss:.4g}", style="not bold")
        if "validation_loss" in state.validation:
            text.append(f"  validation {state.validation['validation_loss']:.4g}", style="not bold cyan")
        text.append(
            f"  rate {state.learning_rate:.1e}  {speed * self._per_step(state):,.0f} samples/s  {_clock(left)} left",
            style="not bold dim",
        )
        return text

    def _per_step(self, state: TrainState) -> int:
        size = state.config.batch_size
        return (size if isinstance(size, int) else 1) * state.config.accumulate_gradients

    def _epochs(self, state: TrainState) -> int:
        return max(1, -(-state.total_steps // max(1, state.steps_per_epoch)))


def watched() -> bool:
    """Whether a person is looking: the error stream is a terminal."""
    return sys.stderr.isatty()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
