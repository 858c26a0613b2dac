"""The event log of a run: a local file, or numbered parts at a remote address."""

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
"""How long remote lines are collected before a write. A checkpoint starts a write at once."""
PART_BYTES = 2**20
"""Size at which a part is complete and the next one begins."""
_MOST_BYTES = 16 * PART_BYTES
"""Size of the buffer while the remote address cannot be written."""
_LAST_SECONDS = 10.0
"""How long the end of a training waits for its last lines to be written."""


class EventFile(Protocol):
    """A log that takes lines."""

    def append(self, line: str) -> None:
        """Add a line."""
        ...

    def flush(self) -> None:
        """Start writing the collected lines."""
        ...

    def close(self) -> None:
        """Write the collected lines. More lines may follow."""
        ...


class LocalEvents:
    """A local file; every line is appended at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cut = True
        """Whether the last line may be incomplete, because a process was killed or the disk was full."""

    def append(self, line: str) -> None:
        """Append a line, after completing an incomplete last line."""
        if self._cut:
            _end_last_line(self.path)
        self._cut = True
        append_line(self.path, line, plain=True)
        self._cut = False

    def flush(self) -> None:
        """Does nothing: every line is already written."""

    def close(self) -> None:
        """Does nothing: every line is already written."""


class RemoteEvents:
    """Numbered parts at a remote address. Remote objects cannot be appended to, so a thread rewrites the newest part.

    When the part is large, the next one begins. A resumed training begins a new part and never changes earlier ones.
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
        """Add a line. The thread writes it within ten seconds."""
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
        """Let the thread write the collected lines now, without waiting for it."""
        self._wake.set()

    def close(self) -> None:
        """Wait until everything is written, or until writing fails."""
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
        self._write()  # a line may have been added after the last write

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
                log.warning("the event log could not be written, the training continues: %s", error)
            self._warned = self._changed = True  # tried again with the next lines
            return
        if len(data) >= PART_BYTES:
            with self._guard:
                del self._lines[:count]
                self._size = sum(map(len, self._lines))
            self._number += 1


def _end_last_line(path: Path) -> None:
    """Add a line break to an incomplete last line, so that the next line starts a new one."""
    with (
        suppress(OSError, StorageError),
        open_plain(path, "r+b") as file,
    ):  # no file yet, or an error that the next write will report
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
