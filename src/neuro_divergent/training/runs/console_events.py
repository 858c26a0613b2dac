"""What the event log of a run takes beside the training itself: log messages, and the memory of the process."""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from neuro_divergent.training.callbacks.writers import EventLines

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

LOGGER = "neuro_divergent"
MOST_CHARACTERS = 4000
"""Length at which a message is cut."""
MOST_MESSAGES = 10_000
"""Number of messages of one training. A message in a loop must not fill the disk."""


class ConsoleEvents(logging.Handler):
    """Writes what the library logs during a training as events of the kind "console".

    Only messages of the thread that trains are taken: other threads may have trainings of their own.
    """

    def __init__(self, lines: EventLines) -> None:
        super().__init__(logging.INFO)
        self._lines = lines
        self._state: TrainState | None = None
        self._thread = 0
        self._left = MOST_MESSAGES

    def open(self, state: TrainState) -> None:
        """Begin to take messages."""
        self._state, self._thread = state, threading.get_ident()
        logging.getLogger(LOGGER).addHandler(self)

    def close(self) -> None:
        """Take no more messages."""
        self._state = None
        logging.getLogger(LOGGER).removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message. The records of epochs are in the log already."""
        self._show_without_others(record)
        if self._state is None or record.thread != self._thread or hasattr(record, "figures") or self._left <= 0:
            return
        self._left -= 1
        with suppress(Exception):  # the log is less important than the training
            text = record.getMessage()[:MOST_CHARACTERS]
            self._lines.write("console", self._state, level=record.levelname.lower(), text=text)

    def _show_without_others(self, record: logging.LogRecord) -> None:
        """Print a warning if nobody else handles it: this handler must not take the place of Python's last resort."""
        own: list[logging.Handler] = []
        others: list[logging.Handler] = []
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            for handler in logger.handlers:
                (own if isinstance(handler, ConsoleEvents) else others).append(handler)
            logger = logger.parent if logger.propagate else None
        last = logging.lastResort
        if not others and own[:1] == [self] and last is not None and record.levelno >= last.level:
            last.handle(record)


def memory_used() -> dict[str, int]:
    """The memory of this process in bytes, as the field `memory`, where the system tells it cheaply (Linux)."""
    if not sys.platform.startswith("linux"):
        return {}
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return {"memory": int(file.read(64).split()[1]) * os.sysconf("SC_PAGE_SIZE")}
    except (OSError, ValueError, IndexError):
        return {}
