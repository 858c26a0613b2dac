"""One training at a time in a run's directory: two would set each other's checkpoints aside and replace them."""

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
"""Whoever asks whether a run is being trained holds its lock for a moment."""


@contextmanager
def run_lock(settings: Checkpoints | None) -> Iterator[None]:
    """Hold the run's directory, which is refused while somebody else does.

    The lock is the system's and ends with the process, however that ends: a file that is left says nothing. Where there
    are no such locks (Windows, remote directories, some file systems of networks) nothing is held.
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
                os.unlink(path)  # while it is held: whoever opened it meanwhile sees that it is not the file any more
            fcntl.flock(file, fcntl.LOCK_UN)
            file.close()


def _locked(path: Path) -> IO[bytes] | None:
    """The open lock, or None where there is none to be had."""
    tries = 0
    while True:
        tries += 1
        try:
            files.make_directories(path.parent)
            file = open_plain(path, "a+b")
        except OSError:
            return None  # a place that cannot be written to is named by whoever has something to write
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                with suppress(OSError):  # a full disk: nobody will be named
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
            pass  # its holder has just removed it
        except OSError:  # no locks on this file system
            os.unlink(path)
            file.close()
            return None
        file.close()
