"""Heartbeats for a supervisor, and stop requests: files that a training writes and checks while it runs."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from neuro_divergent.core.runs.names import REFIT, STOPPED_ON_REQUEST
from neuro_divergent.core.runs.process import stop_requested, stop_saves, withdraw_old_stop, withdraw_stop
from neuro_divergent.training.callbacks.base import Callback

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

VARIABLE = "NEURO_DIVERGENT_HEARTBEAT"
"""Environment variable with the path of the heartbeat file. The supervisor sets it."""

SUPERVISOR = "NEURO_DIVERGENT_SUPERVISOR"
"""Environment variable with the supervisor's process id. The supervisor sets it."""

SECONDS_BETWEEN_BEATS = 0.5

SECONDS_BETWEEN_LOOKS = 1.0
"""Time between two checks for a stop request."""


def heartbeat() -> list[Callback]:
    """The callback that writes heartbeats, if a supervisor started this process; else no callback."""
    path = os.environ.get(VARIABLE)
    return [_Heartbeat(Path(path))] if path else []


def stop_requests() -> list[Callback]:
    """The callback that ends a training after a stop request (`neuro-divergent stop`)."""
    return [_StopRequests()]


class _Heartbeat(Callback):
    """Writes the stage of the training, its step, its process id and the seconds of its slowest step. If the supervisor
    has died, the training is saved and ended, because no process would take its result."""

    engine: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = 0.0
        self._looked = 0.0
        self._step_began = time.monotonic()
        self._slowest = 0.0
        self._written = ""
        self._supervisor = int(os.environ.get(SUPERVISOR, "0"))
        self._is_child = os.getppid() == self._supervisor
        self._alone = False

    def on_fit_start(self, state: TrainState) -> None:
        self._beat("starting", state)
        self._end_if_alone(state)

    def on_batch_end(self, state: TrainState) -> None:
        # Two timers: other heartbeats must not delay the check of the supervisor.
        now = time.monotonic()
        self._slowest, self._step_began = max(self._slowest, now - self._step_began), now
        if now - self._looked >= SECONDS_BETWEEN_BEATS:
            self._end_if_alone(state)
        if _stage(state) != self._written or now - self._last >= SECONDS_BETWEEN_BEATS:
            self._beat(_stage(state), state)

    def on_epoch_end(self, state: TrainState) -> None:
        if _stage(state) != self._written:
            self._beat(_stage(state), state)

    def on_validation_start(self, state: TrainState) -> None:
        self._beat("validation", state)

    def on_validation_end(self, state: TrainState) -> None:
        self._beat(_stage(state), state)

    def on_checkpoint_start(self, state: TrainState) -> None:
        self._beat("saving", state)

    def on_checkpoint_end(self, state: TrainState) -> None:
        self._beat(_stage(state), state)

    def on_fit_end(self, state: TrainState) -> None:
        self._beat("ending", state)
        if self._alone:
            raise SystemExit(128 + signal.SIGTERM)

    def _end_if_alone(self, state: TrainState) -> None:
        self._looked = time.monotonic()
        if self._alone or not self._supervisor_is_gone():
            return
        self._alone = True
        if state.saver is None:
            raise SystemExit(128 + signal.SIGTERM)
        why = "the supervisor is gone"
        if state.guard is not None:
            state.guard.stop(signal.SIGTERM, why)
        else:
            state.stop(why)

    def _supervisor_is_gone(self) -> bool:
        if os.name == "nt" or self._supervisor == 0:  # on Windows the parent's process id never changes
            return False
        if self._is_child:  # the parent id changes at once, even if the dead supervisor is a zombie
            return os.getppid() != self._supervisor
        try:
            os.kill(self._supervisor, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # the process exists, but belongs to another user
            return False
        return False

    def _beat(self, what: str, state: TrainState) -> None:
        self._last = self._step_began = time.monotonic()  # validations and checkpoints do not count as part of a step
        self._written = what
        # Not the atomic writer: this file is written often and read rarely, and a half-written line does no harm.
        with suppress(OSError):  # a full disk must not end a training
            text = f"{what} {state.step} {os.getpid()} {self._slowest:.3f}"
            self.path.write_text(text, encoding="utf-8")


def _stage(state: TrainState) -> str:
    """The next stage: another step, or the end, which waits for the last checkpoint without a time limit."""
    return "ending" if state.stopping or state.step >= state.total_steps else "step"


class _StopRequests(Callback):
    """Checks the run directory for the file of a stop request; then the training is saved and ends."""

    engine: ClassVar[bool] = True

    def __init__(self) -> None:
        self._looked = 0.0
        self._folders: tuple[Path, ...] = ()
        """Directories to check. A refit also checks the run around it, which holds the lock when the refit begins."""

    def on_fit_start(self, state: TrainState) -> None:
        folder = state.run_directory
        if folder is not None:
            self._folders = (folder, folder.parent) if folder.name == REFIT else (folder,)
            withdraw_old_stop(folder)
        self._look(state)

    def on_batch_end(self, state: TrainState) -> None:
        if time.monotonic() - self._looked >= SECONDS_BETWEEN_LOOKS:
            self._look(state)

    def on_epoch_end(self, state: TrainState) -> None:
        if time.monotonic() - self._looked >= SECONDS_BETWEEN_LOOKS:
            self._look(state)

    def on_fit_end(self, state: TrainState) -> None:  # noqa: ARG002
        self._withdraw()

    def on_exception(self, state: TrainState) -> None:  # noqa: ARG002
        if VARIABLE not in os.environ:  # a supervisor must see the request, so that it does not restart
            self._withdraw()

    def _withdraw(self) -> None:
        for folder in self._folders:
            withdraw_stop(folder)

    def _look(self, state: TrainState) -> None:
        self._looked = time.monotonic()
        if state.saver is None or state.stopping:
            return
        asked = [folder for folder in self._folders if stop_requested(folder)]
        if asked:
            # What the request says counts, not the setting on_stop.
            state.saver.settings = state.saver.settings.replace(on_stop=any(map(stop_saves, asked)))
            state.stop(STOPPED_ON_REQUEST)
