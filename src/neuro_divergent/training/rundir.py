"""A run is a directory: config.json, events.jsonl, checkpoints, and later its model and report."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from neuro_divergent.core.errors import StorageError
from neuro_divergent.training.callbacks.base import Callback, CallbackSettings
from neuro_divergent.training.callbacks.writers import JsonLines
from neuro_divergent.training.places import CHECKPOINTS, LocalPlace, place_of

if TYPE_CHECKING:
    from neuro_divergent.training.config import TrainingConfig
    from neuro_divergent.training.state import TrainState

log = logging.getLogger(__name__)


class RunDirectory:
    """The places inside a run's directory."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.json"

    @property
    def events(self) -> Path:
        """One line per logged fact."""
        return self.path / "events.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The saved states of the run."""
        return self.path / CHECKPOINTS

    @property
    def model(self) -> Path:
        """The trained model."""
        return self.path / "model"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"


def begin_directory(directory: Path | str, state: TrainState) -> list[Callback]:
    """Write the configuration, and give the callback that writes the events (a remote directory takes none)."""
    place = place_of(directory)
    place.write_text("config.json", _described(state.config).to_json() + "\n")
    if not isinstance(place, LocalPlace):
        return []
    state.run_directory = place.run
    events = RunDirectory(place.run).events
    _end_last_line(events)
    return [_Events(JsonLines(path=events).build())]


class _Events(Callback):
    """The log of events, without the power to end a training: the checkpoints are what matters."""

    def __init__(self, inner: Callback) -> None:
        self.inner = inner
        self._warned = False

    def on_fit_start(self, state: TrainState) -> None:
        self._call("on_fit_start", state)

    def on_epoch_end(self, state: TrainState) -> None:
        self._call("on_epoch_end", state)

    def on_checkpoint_end(self, state: TrainState) -> None:
        self._call("on_checkpoint_end", state)

    def on_fit_end(self, state: TrainState) -> None:
        self._call("on_fit_end", state)

    def on_exception(self, state: TrainState) -> None:
        self._call("on_exception", state)

    def _call(self, hook: str, state: TrainState) -> None:
        try:
            getattr(self.inner, hook)(state)
        except StorageError as error:
            if not self._warned:
                log.warning("%s", error)
            self._warned = True


def _described(config: TrainingConfig) -> TrainingConfig:
    """The configuration without live callbacks, which no file can hold."""
    return config.replace(callbacks=tuple(item for item in config.callbacks if isinstance(item, CallbackSettings)))


def _end_last_line(path: Path) -> None:
    """A killed process may have left half a line: what follows must not be glued to it."""
    if not path.exists():
        return
    try:
        with open(path, "r+b") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
    except OSError as error:
        raise StorageError(f"the log {path} could not be written: {error.strerror or error}") from error
