"""The lock of a run directory: two trainings in one directory would replace each other's checkpoints."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from neuro_divergent.core import files
from neuro_divergent.core.errors import StorageError
from neuro_divergent.core.plain_files import open_plain
from neuro_divergent.core.runs.names import LOCK
from neuro_divergent.training.config.checkpoints import Checkpoints, is_remote

if sys.platform != "win32":
    import fcntl

_TRIES, _SECONDS_BETWEEN_TRIES = 5, 0.02
"""A program that checks whether a run is active holds its lock for a moment, so a failed lock is tried again."""


@contextmanager
def run_lock(settings: Checkpoints | None) -> Iterator[None]:
    """Context that holds the lock of the run directory; raises if another process holds it.

    It is a lock of the operating system. It ends with the process, even after a crash, so a file that is left has no
    meaning. Where such locks do not exist (Windows, remote directories, some network file systems), it does nothing.
    """
    if settings is None or is_remote(settings.directory) or sys.platform == "win32":
        yield
        return
    path = Path(settings.directory) / LOCK
    file = _locked(path)
    try:
        yield
    finally:
        if file is not None:
            with suppress(OSError):
                os.unlink(path)  # before unlocking: a process that has just opened it sees that the file is gone
            fcntl.flock(file, fcntl.LOCK_UN)
            file.close()


def _locked(path: Path) -> IO[bytes] | None:
    """The open and locked file, or None if locks are not possible."""
    tries = 0
    while True:
        tries += 1
        try:
            files.make_directories(path.parent)
            file = open_plain(path, "a+b")
        except OSError:
            return None  # the first write into the directory will report the error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                with suppress(OSError):  # a full disk: the message will not have the process id
                    file.truncate(0)
                    file.write(str(os.getpid()).encode())
                return file
        except BlockingIOError:
            if tries < _TRIES:
                file.close()
                time.sleep(_SECONDS_BETWEEN_TRIES)
                continue
            file.seek(0)
            holder = file.read(32).decode(errors="replace") or "which is just beginning"
            file.close()
            raise StorageError(
                f"a run directory is used by one process, but {path.parent} is in use by process {holder}. "
                "Wait until it ends, or choose another directory"
            ) from None
        except FileNotFoundError:
            pass  # the previous owner has just removed it
        except OSError:  # no locks on this file system
            os.unlink(path)
            file.close()
            return None
        file.close()
