"""Stops work in this process: on SIGINT and SIGTERM, and when its time is over.

First the work is asked to stop: it saves its trials after the present part, and raises StoppedError. A second signal,
or the end of a grace period, interrupts it wherever it is. Code that never returns to Python cannot be interrupted.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from neuro_divergent.training.process.signals import give_back, raise_as, take_over

log = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds between the end of the time and the interruption of work that has not stopped by itself."""
EARLIEST = 1e-3
"""Shortest time of a timer: 0 would turn it off."""


class StoppedError(BaseException):
    """The work was stopped. It is not an Exception, because a failed trial is one."""


class TimeIsOverError(StoppedError):
    """The time of the work is over."""


class Interrupts:
    """Context around work that is asked to stop, or interrupted.

    Signals and timers reach only the main thread of a process. In another thread the work sees the end of its time
    by `asked`.

    Args:
        until: when the time is over, on the monotonic clock; None for no limit.
    """

    def __init__(self, until: float | None) -> None:
        self._until = until
        self._received: int | None = None
        self._signals: dict[signal.Signals, Any] = {}
        self._alarm: Any = None

    def asked(self) -> bool:
        """Whether the work is asked to stop."""
        return self._received is not None or self._is_late()

    def _is_late(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._signals = take_over(self._handle)
            if self._until is not None and hasattr(signal, "setitimer"):
                self._alarm = signal.signal(signal.SIGALRM, self._ring)
                left = self._until + GRACE - time.monotonic()
                # It rings again: the code that it interrupts first may have caught everything.
                signal.setitimer(signal.ITIMER_REAL, max(left, EARLIEST), GRACE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._alarm is not None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._alarm)
        give_back(self._signals)
        if self._received is not None:
            raise_as(self._received)
        if isinstance(error, StoppedError) and self._is_late():
            raise TimeIsOverError from None

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._received is not None:
            raise_as(number)
        self._received = number
        with suppress(ValueError):
            log.warning("%s: saving the trials; a second signal stops at once", signal.Signals(number).name)

    def _ring(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        raise TimeIsOverError
