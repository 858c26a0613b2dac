"""A run is a directory: config.json, events.jsonl, checkpoints, and later its model and report."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from neuro_divergent.training.callbacks.base import Callback, CallbackSettings
from neuro_divergent.training.callbacks.writers import JsonLines
from neuro_divergent.training.runs.checkpoint_store import CHECKPOINTS, LocalPlace, place_of

if TYPE_CHECKING:
    from neuro_divergent.training.config.training_config import TrainingConfig
    from neuro_divergent.training.state.state import TrainState

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


def events_of(directory: Path | str, state: TrainState) -> list[Callback]:
    """The callback that writes the events of a run; a remote directory takes none."""
    place = place_of(directory)
    if not isinstance(place, LocalPlace):
        return []
    state.run_directory = place.run
    return [_Events(RunDirectory(place.run).events)]


def write_config(directory: Path | str, config: TrainingConfig) -> None:
    """Write the resolved configuration, without live callbacks, which no file can hold."""
    described = tuple(item for item in config.callbacks if isinstance(item, CallbackSettings))
    place_of(directory).write_text("config.json", config.replace(callbacks=described).to_json() + "\n")


class _Events(Callback):
    """The log of events, without the power to end a training: the checkpoints are what matters."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.inner = JsonLines(path=path).build()
        self._warned = self._cut = False

    def on_fit_start(self, state: TrainState) -> None:
        _end_last_line(self.path)
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
        if self._cut:
            _end_last_line(self.path)
        try:
            getattr(self.inner, hook)(state)
            self._cut = False
        except Exception as error:
            if not self._warned:
                log.warning("the training goes on without its log of events: %s", error)
            self._warned = self._cut = True


def _end_last_line(path: Path) -> None:
    """A killed process, or a disk that was full, may have left half a line: what follows must not be glued to it."""
    with suppress(OSError), open(path, "r+b") as file:  # none yet, or one that the callback will complain about
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
