"""Callbacks that write logs: JSON lines, CSV, TensorBoard, a loss plot."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from neuro_divergent.core import files
from neuro_divergent.core.errors import StorageError
from neuro_divergent.core.extras import require
from neuro_divergent.core.field_types import AnyPath
from neuro_divergent.core.json import to_plain
from neuro_divergent.core.plain_files import open_plain
from neuro_divergent.training.callbacks.base import Callback, CallbackSettings

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState


class JsonLines(CallbackSettings):
    """Appends events of the training to a file, one JSON object per line: start, epoch, logged value, end."""

    writes: ClassVar[tuple[str, ...]] = ("path",)

    path: AnyPath
    """The file. Lines are appended to it."""

    def build(self) -> Callback:
        """The live callback."""
        return EventLines(partial(append_line, self.path))


class EventLines(Callback):
    """Writes the events of a training, one JSON object per line.

    Args:
        append: called with each line, which ends with a line break.
    """

    def __init__(self, append: Callable[[str], None]) -> None:
        self.append = append
        self._logged = 0

    def on_fit_start(self, state: TrainState) -> None:
        """Write that the training begins, or resumes after `step` steps."""
        self._logged = len(state.history.events)
        self.write("fit_start", state, total_steps=state.total_steps, steps_per_epoch=state.steps_per_epoch)

    def on_epoch_end(self, state: TrainState) -> None:
        """Write the logged values and the record of the epoch."""
        self._flush_events(state)
        self.write("epoch", state, **state.history.epochs[-1])

    def on_checkpoint_end(self, state: TrainState) -> None:
        """Write that a checkpoint is being written."""
        self.write("checkpoint", state)

    def on_fit_end(self, state: TrainState) -> None:
        """Write why the training ended."""
        self._flush_events(state)
        self.write("fit_end", state, why=state.history.stopped)

    def on_exception(self, state: TrainState) -> None:
        """Write the logged values and the error that ends the training."""
        self._flush_events(state)
        self.write("error", state, error=f"{type(state.error).__name__}: {state.error}")

    def write(self, name: str, state: TrainState, /, **values: Any) -> None:
        """Write one line: event, time, finished steps and epochs, and the values."""
        record = {"event": name, "time": round(time.time(), 3), "step": state.step, "epoch": state.epoch} | values
        self.append(json.dumps({key: _plain(value) for key, value in record.items()}) + "\n")

    def _flush_events(self, state: TrainState) -> None:
        for event in state.history.events[self._logged :]:
            # Entries of the engine have their own "event" ("skipped", "resumed", ...), which replaces "log".
            self.write("log", state, **event)
            self._logged += 1


def append_line(path: Path, line: str, *, plain: bool = False) -> None:
    """Append a line to a file with one write, so that a reader rarely sees half of it.

    Args:
        path: the file.
        line: ends with a line break.
        plain: whether to refuse a link or a pipe of that name, which an attacker may have put into a run directory.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_plain(path, "ab") if plain else open(path, "ab", buffering=0) as file:
            rest = memoryview(line.encode())
            while rest:  # an almost full disk may take only a part
                rest = rest[file.write(rest) :]
    except OSError as error:
        raise files.not_written(f"the log {path}", error) from error


class CsvLog(CallbackSettings):
    """Writes the history to a CSV file with one row per epoch. Each epoch rewrites the file."""

    writes: ClassVar[tuple[str, ...]] = ("path",)

    path: AnyPath
    """The file."""

    def build(self) -> Callback:
        """The live callback."""
        return _CsvLog(self.path)


class _CsvLog(Callback):
    def __init__(self, path: Path) -> None:
        self.path = path

    def on_epoch_end(self, state: TrainState) -> None:
        columns = list(dict.fromkeys(name for record in state.history.epochs for name in record))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(state.history.epochs)
        files.write_text(self.path, text.getvalue())


class LossPlot(CallbackSettings):
    """Writes the loss curves to an image file, which is redrawn during the training."""

    writes: ClassVar[tuple[str, ...]] = ("path",)

    path: AnyPath
    """The image file, such as loss.png."""
    every: Annotated[int, Field(ge=1)] = 5
    """Redraw after every n-th epoch, and at the end."""

    def build(self) -> Callback:
        """The live callback."""
        return _LossPlot(self.path, self.every)


class _LossPlot(Callback):
    def __init__(self, path: Path, every: int) -> None:
        require("matplotlib", extra="plots", purpose="The loss plot")
        self.path, self.every = path, every

    def on_epoch_end(self, state: TrainState) -> None:
        if (state.epoch + 1) % self.every == 0:
            self._draw(state)

    def on_fit_end(self, state: TrainState) -> None:
        self._draw(state)

    def _draw(self, state: TrainState) -> None:
        from neuro_divergent.plotting import close

        if state.history.epochs:
            close(state.history.plot(self.path))


def _plain(value: Any) -> Any:
    """The value as plain data. Other values, and numbers that JSON lacks (NaN, infinity), become strings."""
    value = value.tolist() if hasattr(value, "tolist") else value  # a number or array of numpy or torch
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    try:
        return to_plain(value)
    except StorageError:
        return str(value)
