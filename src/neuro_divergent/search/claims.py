"""Claims: which process works on which trial. A claim is a lock of the operating system and ends with its process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from neuro_divergent.core.runs.names import CLAIMS, trial_name

if sys.platform != "win32":
    import fcntl

ASKING = "asking"
"""Held while a process asks for trials, so that a new trial is claimed before another process sees it unclaimed."""


class Claims:
    """The claims of this process on trials of a study. Where there are no file locks, every claim succeeds."""

    def __init__(self, study: Path) -> None:
        self._folder = study / CLAIMS
        self._folder.mkdir(parents=True, exist_ok=True)
        self._held: dict[int, IO[bytes]] = {}

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Context in which no other process asks for trials or looks for abandoned ones."""
        if sys.platform == "win32":
            yield
            return
        with open(self._folder / ASKING, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def claim(self, number: int) -> bool:
        """Claim a trial; False if another process works on it. Call it inside of `asking`."""
        if number in self._held:
            return True
        file = open(self._path(number), "ab")  # noqa: SIM115  # kept open: it is the lock
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not os.path.samestat(os.fstat(file.fileno()), os.stat(self._path(number))):
                    raise OSError("its previous owner has just removed it")
            except OSError:
                file.close()
                return False
        self._held[number] = file
        return True

    def release(self, number: int) -> None:
        """Give a trial up."""
        file = self._held.pop(number, None)
        if file is not None:
            with suppress(OSError):
                os.unlink(self._path(number))
            file.close()

    def release_all(self) -> None:
        """Give all trials up."""
        for number in list(self._held):
            self.release(number)

    @property
    def held(self) -> set[int]:
        """The numbers of the trials that this process works on."""
        return set(self._held)

    def _path(self, number: int) -> Path:
        return self._folder / trial_name(number)
