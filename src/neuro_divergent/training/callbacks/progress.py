"""The progress line: one line that is rewritten, on a terminal or in a notebook."""

from __future__ import annotations

import html
import shutil
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from neuro_divergent.training.callbacks.base import Callback

if TYPE_CHECKING:
    from rich.text import Text

    from neuro_divergent.training.state.state import TrainState

SECONDS_BETWEEN_UPDATES = 0.1
SECONDS_IN_NOTEBOOK = 0.5
"""Longer than on a terminal, because every update in a notebook is a message to a browser."""
NOTEBOOK_WIDTH = 120


class ProgressLine(Callback):
    """Epoch, loss, validation loss, learning rate, samples per second and time left, in one line."""

    engine: ClassVar[bool] = True

    def __init__(self, title: str = "training", *, leave: bool = False) -> None:
        self.title = title
        self.leave = leave
        self._place: _Place | None = None
        self._begun = self._shown = 0.0
        self._first_step = 0

    def on_fit_start(self, state: TrainState) -> None:
        """Open the line."""
        self._place = _Notebook() if in_notebook() else _Terminal(transient=not self.leave)
        self._begun = time.perf_counter()
        self._first_step = state.step

    def on_batch_end(self, state: TrainState) -> None:
        """Rewrite the line, at most ten times a second, in a notebook twice."""
        if self._place is not None and time.perf_counter() - self._shown >= self._place.pause:
            self._show(state)

    def on_validation_end(self, state: TrainState) -> None:
        """Show the validation loss; in a notebook the next update shows it."""
        if isinstance(self._place, _Terminal):
            self._show(state)

    def on_fit_end(self, state: TrainState) -> None:
        """Close the line."""
        if self._place is not None:
            self._show(state)
            self._place.close()
            self._place = None

    def on_exception(self, state: TrainState) -> None:
        """Close the line before the error is shown."""
        self.on_fit_end(state)

    def _show(self, state: TrainState) -> None:
        if self._place is not None:
            self._shown = time.perf_counter()
            self._place.show(self.line(state, self._place.width))

    def line(self, state: TrainState, width: int | None = None) -> Text:
        """The present text of the line, in at most `width` columns (default: the width of the terminal).

        A narrow line omits speed, learning rate, bar and title first, in this order. It keeps the time left.
        """
        from rich.text import Text

        wanted = width or shutil.get_terminal_size().columns
        text = Text(no_wrap=True, overflow="ellipsis")
        for pieces in self._shorter(state):
            text = Text.assemble(*pieces, no_wrap=True, overflow="ellipsis")
            if text.cell_len <= wanted:
                break
        return text

    def _shorter(self, state: TrainState) -> Iterator[list[tuple[str, str]]]:
        """The pieces of the line with their styles: first all of them, then fewer and fewer."""
        pieces, done = self._pieces(state), state.step / max(1, state.total_steps)
        for left_out in range(len(_LEFT_OUT) + 1):
            absent = _LEFT_OUT[:left_out]
            bar = 0 if "bar" in absent else 10 if "half of the bar" in absent else 20
            shown = {"title": [(f"{self.title} ", "bold")], "bar": _bar(done, bar)}
            shown |= {name: [(text, style)] for name, (text, style) in pieces.items()}
            yield [piece for name in _ORDER if name not in absent for piece in shown.get(name, [])]

    def _pieces(self, state: TrainState) -> dict[str, tuple[str, str]]:
        seconds = time.perf_counter() - self._begun
        steps = state.step - self._first_step
        epochs = max(1, -(-state.total_steps // max(1, state.steps_per_epoch)))
        pieces = {
            "epoch": (f"epoch {min(state.epoch + 1, epochs)}/{epochs}", ""),
            "loss": (f"  loss {state.loss:.4g}", ""),
            "rate": (f"  rate {state.learning_rate:.1e}", "dim"),
        }
        if "validation_loss" in state.validation:
            pieces["validation"] = (f"  validation {state.validation['validation_loss']:.4g}", "cyan")
        if steps and seconds > 0:
            speed = steps / seconds
            pieces["speed"] = (f"  {speed * self._per_step(state):,.0f} samples/s", "dim")
            pieces["left"] = (f"  {_clock((state.total_steps - state.step) / speed)} left", "dim")
        return pieces

    def _per_step(self, state: TrainState) -> int:
        size = state.config.batch_size
        return (size if isinstance(size, int) else 1) * state.config.accumulate_gradients


_ORDER = ("title", "bar", "epoch", "loss", "validation", "rate", "speed", "left")
_LEFT_OUT = ("speed", "rate", "half of the bar", "bar", "title", "validation")
"""The pieces that a narrow line omits, in this order."""


def _bar(done: float, width: int) -> list[tuple[str, str]]:
    filled = int(width * min(1.0, done))
    return [("━" * filled, "green"), ("━" * (width - filled) + " ", "bright_black")]


class _Place(Protocol):
    """Where the line is shown."""

    pause: float

    @property
    def width(self) -> int: ...

    def show(self, line: Text) -> None: ...

    def close(self) -> None: ...


class _Terminal:
    """Shows the line on the error stream, with rich."""

    pause = SECONDS_BETWEEN_UPDATES

    def __init__(self, *, transient: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        # No refresh thread: it would compete with the training for a core.
        self._live = Live(console=Console(stderr=True, force_jupyter=False), auto_refresh=False, transient=transient)
        self._live.start()

    @property
    def width(self) -> int:
        return self._live.console.width

    def show(self, line: Text) -> None:
        self._live.update(line, refresh=True)

    def close(self) -> None:
        self._live.stop()


class _Notebook:
    """Shows the line as one output of a notebook cell. All trainings of the cell share it, such as the folds of a
    cross-validation.

    It needs no widgets, and a saved notebook keeps the last line.
    """

    pause, width = SECONDS_IN_NOTEBOOK, NOTEBOOK_WIDTH
    newest: ClassVar[tuple[Any, Any]] = (None, None)
    """The number of the newest cell, and the handle of its output."""

    def show(self, line: Text) -> None:
        from IPython.display import DisplayHandle

        shown, cell = _Line(line.plain), getattr(_kernel_shell(), "execution_count", None)
        known, handle = _Notebook.newest
        if handle is None or known != cell:
            _Notebook.newest = (cell, DisplayHandle())
            _Notebook.newest[1].display(shown)
        else:
            handle.update(shown)

    def close(self) -> None:
        """Keep the line."""


class _Line:
    """A line in a monospaced font, for a notebook."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<pre style="margin:0">{html.escape(self.text)}</pre>'


def watched() -> bool:
    """Whether a person may see the progress: the error stream is a terminal, or the code runs in a notebook."""
    return sys.stderr.isatty() or in_notebook()


def in_notebook() -> bool:
    """Whether the code runs in the kernel of a notebook."""
    return _kernel_shell() is not None


def _kernel_shell() -> Any:
    """The IPython shell of a notebook kernel, or None. The shell of a terminal has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if getattr(shell, "kernel", None) is not None else None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
