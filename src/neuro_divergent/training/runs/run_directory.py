"""Files of a run directory besides checkpoints: the configuration and the event log."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from neuro_divergent.core import bundle
from neuro_divergent.core.json import dump_json, to_plain
from neuro_divergent.core.runs.names import ABOUT, CONFIG, CONTEXT, DETAILS, EVENTS, is_remote
from neuro_divergent.core.runs.remote import RemoteFolder
from neuro_divergent.training.callbacks.base import Callback, CallbackSettings
from neuro_divergent.training.callbacks.layers import layers_of
from neuro_divergent.training.callbacks.writers import EventLines
from neuro_divergent.training.process.heartbeat import stop_requests
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints, place_of
from neuro_divergent.training.runs.console_events import ConsoleEvents, memory_used
from neuro_divergent.training.runs.event_files import EventFile, LocalEvents, RemoteEvents

if TYPE_CHECKING:
    from neuro_divergent.training.config.training_config import TrainingConfig
    from neuro_divergent.training.state.state import TrainState

log = logging.getLogger(__name__)

ABOUT_FORMAT = 1
"""Version of the files with facts."""
SECONDS_BETWEEN_LINES, MOST_STEPS = 0.5, 200
"""Limits of the steps that one line of the log contains: their time and their number."""


def events_of(directory: Path | str, state: TrainState) -> list[Callback]:
    """The callbacks of a run directory: the event log, and for a local directory the check for stop requests."""
    if is_remote(directory):
        return [_Events(RemoteEvents(str(directory)))]
    place = place_of(directory)
    assert isinstance(place, LocalCheckpoints)
    state.run_directory = place.run
    return [_Events(LocalEvents(place.run / EVENTS)), *stop_requests()]


def write_config(directory: Path | str, config: TrainingConfig) -> None:
    """Write the resolved configuration, without live callbacks, which cannot be written to a file."""
    described = tuple(item for item in config.callbacks if isinstance(item, CallbackSettings))
    place_of(directory).write_text(CONFIG, config.replace(callbacks=described).to_json() + "\n")


def write_context(directory: Path | str, files: Mapping[str, bytes]) -> None:
    """Write what turns a checkpoint of a run into a forecaster; nothing for a module of the user's."""
    if files and is_remote(directory):
        RemoteFolder(str(directory)).write_bundle(CONTEXT, files)
    elif files:
        bundle.write(Path(directory) / CONTEXT, files, overwrite=True)


def write_about(directory: Path | str, state: TrainState) -> None:
    """Write facts for those who look at the run: short ones, then the layers of the network and the series."""
    facts = to_plain({"schema": ABOUT_FORMAT, **state.about()})
    details = {"schema": ABOUT_FORMAT, "layers": layers_of(state.module), "series": facts.pop("series", [])}
    place = place_of(directory)
    for name, content in ((ABOUT, facts), (DETAILS, details)):
        place.write_text(name, dump_json(content, name, indent=None).decode() + "\n")


class _Events(Callback):
    """The event log. A failed write never ends the training, because the log is less important than the training.

    Several steps share one line. It is written before the line of an epoch, before a checkpoint, and at the end, so
    that a killed training loses only the steps since the last line.
    """

    engine: ClassVar[bool] = True

    def __init__(self, file: EventFile) -> None:
        self.file = file
        self.lines = EventLines(file.append)
        self._steps: list[int] = []
        self._loss: list[float] = []
        self._norm: list[float] = []
        self._rate: list[float] = []
        self._told = time.monotonic()
        self._warned = False
        self._console = ConsoleEvents(self.lines)

    def on_fit_start(self, state: TrainState) -> None:
        self._told = time.monotonic()
        self._call("on_fit_start", state)
        self._console.open(state)

    def on_batch_end(self, state: TrainState) -> None:
        self._steps.append(state.step)
        self._loss.append(state.loss)
        self._norm.append(state.gradient_norm)
        self._rate.append(state.learning_rate)
        if len(self._steps) >= MOST_STEPS or time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
            self._call(None, state)

    def on_epoch_end(self, state: TrainState) -> None:
        self._call("on_epoch_end", state)

    def on_checkpoint_start(self, state: TrainState) -> None:
        self._call(None, state)
        self.file.flush()

    def on_checkpoint_end(self, state: TrainState) -> None:
        self._call("on_checkpoint_end", state)

    def on_fit_end(self, state: TrainState) -> None:
        self._console.close()
        self._call("on_fit_end", state)
        self.file.close()

    def on_exception(self, state: TrainState) -> None:
        self._console.close()
        self._call("on_exception", state)
        self.file.close()

    def _call(self, hook: str | None, state: TrainState) -> None:
        """Write the collected steps, then the event of the hook."""
        try:
            self._tell_steps(state)
            if hook is not None:
                getattr(self.lines, hook)(state)
        except Exception as error:
            if not self._warned:
                log.warning("the event log could not be written, the training continues: %s", error)
            self._warned = True

    def _tell_steps(self, state: TrainState) -> None:
        self._told = time.monotonic()
        if not self._steps:
            return
        steps = {
            "steps": self._steps,
            "loss": self._loss,
            "gradient_norm": self._norm,
            "learning_rate": self._rate,
        }
        self._steps, self._loss, self._norm, self._rate = [], [], [], []
        self.lines.write("steps", state, **steps, **memory_used())
