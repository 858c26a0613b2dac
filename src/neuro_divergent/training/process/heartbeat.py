"""Signs of life for a supervisor, and requests to stop: files that a training writes and looks for as it goes."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from neuro_divergent.core.runs.names import REFIT, STOPPED_ON_REQUEST
from neuro_divergent.core.runs.process import stop_requested, withdraw_old_stop, withdraw_stop
from neuro_divergent.training.callbacks.base import Callback

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

VARIABLE = "NEURO_DIVERGENT_HEARTBEAT"
"""The environment variable by which a supervisor names the file."""

SUPERVISOR = "NEURO_DIVERGENT_SUPERVISOR"
"""The environment variable by which a supervisor names its own process."""

SECONDS_BETWEEN_BEATS = 0.5

SECONDS_BETWEEN_LOOKS = 1.0
"""How often a training looks for a request to stop."""


def heartbeat() -> list[Callback]:
    """The callback that gives signs of life, if a supervisor asked for them."""
    path = os.environ.get(VARIABLE)
    return [_Heartbeat(Path(path))] if path else []


def stop_requests() -> list[Callback]:
    """The callback that ends a training when somebody asks for it (`neuro-divergent stop`)."""
    return [_StopRequests()]


class _Heartbeat(Callback):
    """Writes what the training is at ("step 120"), in which process, and how many seconds its slowest step took; a
    training without its supervisor is saved and ended, because nobody would take its result."""

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
        # Two timers: whatever beats in between must not put off the look at the supervisor.
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
        if os.name == "nt" or self._supervisor == 0:  # there a process keeps the number of its parent for good
            return False
        if self._is_child:  # at once, whoever is to bury the supervisor
            return os.getppid() != self._supervisor
        try:
            os.kill(self._supervisor, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # somebody else's, but there
            return False
        return False

    def _beat(self, what: str, state: TrainState) -> None:
        self._last = self._step_began = time.monotonic()  # validations and checkpoints are no part of a step
        self._written = what
        # Not the atomic writer: this is written often, read seldom, and half a word does no harm.
        with suppress(OSError):  # a full disk must not end a training that could go on
            text = f"{what} {state.step} {os.getpid()} {self._slowest:.3f}"
            self.path.write_text(text, encoding="utf-8")


def _stage(state: TrainState) -> str:
    """What follows: another step, or the end, which waits for the last checkpoint as long as that takes."""
    return "ending" if state.stopping or state.step >= state.total_steps else "step"


class _StopRequests(Callback):
    """Looks for the file of a request in the run's directory; the training is saved then, and ends."""

    engine: ClassVar[bool] = True

    def __init__(self) -> None:
        self._looked = 0.0
        self._folders: tuple[Path, ...] = ()
        """Where a request may be: a refit looks into the run around it, too, which is locked while it begins."""

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
        if VARIABLE not in os.environ:  # a supervisor must know of it to start no other
            self._withdraw()

    def _withdraw(self) -> None:
        for folder in self._folders:
            withdraw_stop(folder)

    def _look(self, state: TrainState) -> None:
        self._looked = time.monotonic()
        if state.saver is None or state.stopping or not any(map(stop_requested, self._folders)):
            return
        state.stop(STOPPED_ON_REQUEST)
        # Saved even if the end of a training usually is not: the request promises it.
        state.saver.settings = state.saver.settings.replace(on_stop=True)
