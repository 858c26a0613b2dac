"""Signs of life for a supervisor: a file that a training touches as it goes."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from neuro_divergent.training.callbacks.base import Callback

if TYPE_CHECKING:
    from neuro_divergent.training.state import TrainState

VARIABLE = "NEURO_DIVERGENT_HEARTBEAT"
"""The environment variable by which a supervisor names the file."""

SECONDS_BETWEEN_BEATS = 0.5


def heartbeat() -> list[Callback]:
    """The callback that gives signs of life, if a supervisor asked for them."""
    path = os.environ.get(VARIABLE)
    return [_Heartbeat(Path(path))] if path else []


class _Heartbeat(Callback):
    """Writes what the training is at ("step 120") and when; stops the training when its supervisor is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = 0.0
        self._parent = os.getppid()

    def on_fit_start(self, state: TrainState) -> None:
        self._beat("starting", state)

    def on_batch_end(self, state: TrainState) -> None:
        if time.monotonic() - self._last >= SECONDS_BETWEEN_BEATS:
            self._beat("step", state)
            if os.getppid() != self._parent:
                state.stop("the supervisor is gone")

    def on_validation_start(self, state: TrainState) -> None:
        self._beat("validation", state)

    def on_validation_end(self, state: TrainState) -> None:
        self._beat("step", state)

    def on_checkpoint_start(self, state: TrainState) -> None:
        self._beat("saving", state)

    def on_checkpoint_end(self, state: TrainState) -> None:
        self._beat("step", state)

    def on_fit_end(self, state: TrainState) -> None:
        self._beat("ending", state)

    def _beat(self, what: str, state: TrainState) -> None:
        self._last = time.monotonic()
        # Not the atomic writer: this is written often, read seldom, and half a word does no harm.
        with suppress(OSError):  # a full disk must not end a training that could go on
            self.path.write_text(f"{what} {state.step}", encoding="utf-8")
