"""SIGINT and SIGTERM while training: finish the step, save the run, then raise what the signal means.

After a saved SIGINT `KeyboardInterrupt` is raised (exit code 130 on the command line), after a saved SIGTERM
`SystemExit(143)`. A second signal raises at once. While torch's compiler works a step may be minutes away, so then the
compiler is ended and the run stops before the step.
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
"""Within this time a supervised training takes the same signal for the one that it has received already."""


class StoppedBeforeStepError(BaseException):
    """A signal came while a step was being compiled: nothing of the step has been done. Not an Exception, because
    torch's compiler catches those."""


class Guard:
    """Turns the first signal into a request to stop; handlers are given back as they were found.

    Only the main thread may handle signals: elsewhere, or where nothing is saved, the guard does nothing.
    """

    def __init__(self, state: TrainState) -> None:
        self.state = state
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}
        self._compilers: Compilers | None = None
        self._since = 0.0

    def __enter__(self) -> Guard:
        in_main = threading.current_thread() is threading.main_thread()
        # Not asked of the saver: of several processes of a run only one has it, and any of them may get the signal.
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
        """Let the signal have its way, now that the run is safe."""
        if self.received is not None:
            number, self.received = self.received, None
            raise_as(number)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """What happens inside may be left at any point: a signal ends it with StoppedBeforeStepError."""
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
            log.warning("%s: leaving the compiler and saving; once more stops at once", name)
            raise StoppedBeforeStepError
        log.warning("%s: finishing the step and saving; once more stops at once", name)

    def stop(self, number: signal.Signals, why: str) -> None:
        """Have the run saved after this step, and the signal its way then, whether it came or ought to have come."""
        self.received, self._since = number, time.monotonic()
        self.state.stop(why)

    def _is_echo(self, number: int) -> bool:
        """Whether one signal came twice: to every process of a service, and once more from the supervisor."""
        again = number == self.received and time.monotonic() - self._since < ECHO_SECONDS
        return again and VARIABLE in os.environ


def take_over(handler: Callable[[int, FrameType | None], None]) -> dict[signal.Signals, Any]:
    """Handle SIGINT and SIGTERM in this process; what was found is to be given back.

    One that is ignored, as SIGINT is in a background job, stays ignored; one that was not set from Python is left to
    the program around it, because it could not be given back.
    """
    mine = [number for number in WATCHED if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    return {number: signal.signal(number, handler) for number in mine}


def give_back(previous: Mapping[signal.Signals, Any]) -> None:
    """The handlers as `take_over` found them."""
    for number, handler in previous.items():
        signal.signal(number, handler)


def raise_as(number: int) -> NoReturn:
    """What a signal that was handled raises in the end."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
