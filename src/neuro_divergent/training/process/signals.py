"""SIGINT and SIGTERM while training: finish the step, save the run, then raise what the signal means.

After a saved SIGINT `KeyboardInterrupt` is raised (exit code 130 on the command line), after a saved SIGTERM
`SystemExit(143)`. A second signal raises at once. While torch's compiler runs, the step may end minutes later. Then a
signal ends the compiler, and the run stops before the step.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

from neuro_divergent.training.process.compiler_processes import Compilers
from neuro_divergent.training.process.heartbeat import VARIABLE

log = logging.getLogger(__name__)

WATCHED = (signal.SIGINT, signal.SIGTERM)

ECHO_SECONDS = 1.0
"""In a supervised training, the same signal within this time counts as the one that was received before."""


class StoppedBeforeStepError(BaseException):
    """A signal came during the compilation of a step; no part of the step has run. It is not an Exception, because
    torch's compiler catches those."""


class Guard:
    """Context that turns the first signal into a stop request, and restores the previous handlers at its end.

    It does nothing outside the main thread, which alone may handle signals, or without checkpoints.
    """

    def __init__(self, state: TrainState) -> None:
        self.state = state
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}
        self._compilers: Compilers | None = None
        self._since = 0.0

    def __enter__(self) -> Guard:
        in_main = threading.current_thread() is threading.main_thread()
        # Do not check `state.saver`: only one process of a run has it, but any process may get the signal.
        if in_main and self.state.config.checkpoints is not None:
            self._previous = take_over(self._handle)
            self.state.guard = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        give_back(self._previous)
        self.state.guard = None
        if kind is None:
            self.raise_if_received()

    def raise_if_received(self) -> None:
        """Raise what a received signal means (`raise_as`), after the run was saved."""
        if self.received is not None:
            number, self.received = self.received, None
            raise_as(number)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Context that a signal may interrupt at any point, with StoppedBeforeStepError."""
        self._compilers = Compilers()
        try:
            if self.received is not None:
                raise StoppedBeforeStepError
            yield
        finally:
            self._compilers = None

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._is_echo(number):
            return
        compilers, self._compilers = self._compilers, None
        if compilers is not None:
            compilers.end()
        if self.received is not None:
            raise_as(number)
        name = signal.Signals(number).name
        self.stop(signal.Signals(number), f"{name} was received")
        if compilers is not None:
            log.warning("%s: ending the compiler and saving; a second signal stops at once", name)
            raise StoppedBeforeStepError
        log.warning("%s: finishing the step and saving; a second signal stops at once", name)

    def stop(self, number: signal.Signals, why: str) -> None:
        """Save the run after this step, then raise what the signal means. It need not have been received here."""
        self.received, self._since = number, time.monotonic()
        self.state.stop(why)

    def _is_echo(self, number: int) -> bool:
        """Whether a signal is a duplicate: a service sends it to every process, and the supervisor forwards it."""
        again = number == self.received and time.monotonic() - self._since < ECHO_SECONDS
        return again and VARIABLE in os.environ


def take_over(handler: Callable[[int, FrameType | None], None]) -> dict[signal.Signals, Any]:
    """Handle SIGINT and SIGTERM in this process; return the previous handlers, for `give_back`.

    A signal that is ignored, such as SIGINT in a background job, stays ignored. A handler that was not set from Python
    stays, too, because it could not be restored.
    """
    mine = [number for number in WATCHED if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    return {number: signal.signal(number, handler) for number in mine}


def give_back(previous: Mapping[signal.Signals, Any]) -> None:
    """Restore the handlers that `take_over` returned."""
    for number, handler in previous.items():
        signal.signal(number, handler)


def raise_as(number: int) -> NoReturn:
    """Raise KeyboardInterrupt for SIGINT, else SystemExit(128 + number)."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
