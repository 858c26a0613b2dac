"""Where the lines of a run's events go: a local file, or numbered parts at a remote address."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from neuro_divergent.core.errors import StorageError
from neuro_divergent.core.plain_files import open_plain
from neuro_divergent.core.runs.names import EVENT_PARTS, part_name, part_of
from neuro_divergent.core.runs.remote import RemoteFolder
from neuro_divergent.training.callbacks.writers import append_line

log = logging.getLogger(__name__)

SECONDS_BETWEEN_WRITES = 10.0
"""How long remote lines are collected; a checkpoint has them written at once."""
PART_BYTES = 2**20
"""A part that is larger is left as it is, and the next one is begun."""
_MOST_BYTES = 16 * PART_BYTES
"""How much is kept for a place that takes nothing."""
_LAST_SECONDS = 10.0
"""How long the end of a training waits for its last lines to be written."""


class EventFile(Protocol):
    """Takes lines."""

    def append(self, line: str) -> None:
        """Take a line."""
        ...

    def flush(self) -> None:
        """Have written soon what was taken."""
        ...

    def close(self) -> None:
        """Have written what was taken; more may follow."""
        ...


class LocalEvents:
    """A file that every line is appended to at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cut = True
        """Whether the last line may be half of one: a killed process, or a disk that was full, may have left that."""

    def append(self, line: str) -> None:
        """Append a line, never to half of another one."""
        if self._cut:
            _end_last_line(self.path)
        self._cut = True
        append_line(self.path, line, plain=True)
        self._cut = False

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing waits."""


class RemoteEvents:
    """Objects of a store cannot be appended to: a thread writes the newest part again and again until it is large.

    A training that goes on begins another part. What was written before is never touched.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._lines: list[bytes] = []
        self._size = 0
        self._number: int | None = None
        self._changed = False
        self._guard = threading.Lock()
        self._wake = threading.Event()
        self._ended = False
        self._warned = False
        self._thread: threading.Thread | None = None

    def append(self, line: str) -> None:
        """Take a line; the thread writes it within ten seconds."""
        data = line.encode()
        with self._guard:
            if self._size + len(data) > _MOST_BYTES:
                self._lines, self._size = [], 0
            self._lines.append(data)
            self._size += len(data)
            self._changed = True
        if self._thread is None:
            self._ended = False
            self._thread = threading.Thread(target=self._work, name="nd-events", daemon=True)
            self._thread.start()

    def flush(self) -> None:
        """Have the thread write what is there now, without waiting for it."""
        self._wake.set()

    def close(self) -> None:
        """Wait until everything is written, unless the place takes nothing."""
        self._ended = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)
            self._thread = None

    def _work(self) -> None:
        while not self._ended:
            self._wake.wait(SECONDS_BETWEEN_WRITES)
            self._wake.clear()
            self._write()
        self._write()  # a line may have come between the last write and the end

    def _write(self) -> None:
        with self._guard:
            if not self._changed:
                return
            self._changed = False
            count, data = len(self._lines), b"".join(self._lines)
        try:
            folder = RemoteFolder(self.address)
            if self._number is None:
                self._number = max(map(part_of, folder.names(EVENT_PARTS)), default=0) + 1
            folder.write(f"{EVENT_PARTS}/{part_name(self._number)}", data)
        except Exception as error:
            if not self._warned:
                log.warning("the training goes on without its log of events: %s", error)
            self._warned = self._changed = True  # tried again with the next lines
            return
        if len(data) >= PART_BYTES:
            with self._guard:
                del self._lines[:count]
                self._size = sum(map(len, self._lines))
            self._number += 1


def _end_last_line(path: Path) -> None:
    """End half a line with a line break, so that what follows is not glued to it."""
    with (
        suppress(OSError, StorageError),
        open_plain(path, "r+b") as file,
    ):  # none yet, or one that the writer will complain about
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
