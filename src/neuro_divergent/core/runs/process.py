"""The process that trains in a run directory, and the request to stop it."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from neuro_divergent.core import files
from neuro_divergent.core.errors import StorageError, TrainingError
from neuro_divergent.core.plain_files import open_plain
from neuro_divergent.core.runs.names import ATTEMPTS, HEARTBEAT, LOCK, REFIT, STOP

if sys.platform != "win32":
    import fcntl

_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class RunProcess:
    """The process that trains in a run directory, read from the files there."""

    running: bool | None
    """Whether a process trains there; None if that is unknown (no file locks: Windows, remote directories)."""
    pid: int | None = None
    """The id of the training process, if there is one."""
    last_beat: float | None = None
    """Time of the last heartbeat of a supervised training, in seconds since 1970."""
    doing: str = ""
    """Its activity at this time: starting, step, validation, saving or ending."""


@dataclass(frozen=True)
class _Holder:
    held: bool | None
    pid: int | None = None
    since: int = 0
    """Time of the lock by the clock of its file system. It distinguishes two trainings of one process."""


def process_of(folder: Path) -> RunProcess:
    """Return the process that trains in a local run directory."""
    holder = _holder(folder)
    last_beat, doing = _beat(folder / ATTEMPTS / HEARTBEAT)
    return RunProcess(holder.held, holder.pid, last_beat, doing)


_WITHOUT_SAVING = "without saving"


def request_stop(folder: Path, *, wait: bool, timeout: float, save: bool = True) -> None:
    """Request that the training in a run directory finishes its step, saves and ends. It checks about once a second.

    Args:
        folder: the run directory.
        save: whether it saves a checkpoint before it ends. False keeps the checkpoints that are there.
        wait: whether to wait until the training has ended.
        timeout: seconds to wait; TrainingError after that.
    """
    first, inner = _holder(folder), folder / REFIT
    place = inner if _holder(inner).held else folder
    files.write_text(place / STOP, f"{os.getpid()}{'' if save else f' {_WITHOUT_SAVING}'}\n")
    deadline = time.monotonic() + timeout
    while wait and (_holder(folder) == first if first.held else (place / STOP).exists()):
        if time.monotonic() > deadline:
            who = "it" if first.pid is None else f"process {first.pid}"
            raise TrainingError(
                f"the training in {folder} should stop within {timeout:g} s, but {who} still runs: a step, a "
                "validation or a checkpoint takes longer. The request stays; wait with a larger timeout"
            )
        time.sleep(_POLL_SECONDS)
    if wait and not _holder(folder).held:  # it may have been killed before it read the request
        withdraw_stop(place)


def stop_requested(folder: Path) -> bool:
    """Return whether the present training in a run directory should stop. A request older than it is removed."""
    try:
        asked = os.stat(folder / STOP).st_mtime_ns
    except OSError:
        return False
    try:
        since = os.stat(folder / LOCK).st_mtime_ns
    except OSError:  # no locks here
        return True
    if asked >= since:  # both times are from the clock of the file system
        return True
    withdraw_stop(folder)
    return False


def stop_saves(folder: Path) -> bool:
    """Return whether a requested stop saves a checkpoint."""
    try:
        with open_plain(folder / STOP) as file:
            return _WITHOUT_SAVING not in file.read(64).decode(errors="replace")
    except (OSError, StorageError):
        return True


def withdraw_old_stop(folder: Path) -> None:
    """Remove a request to stop an earlier training, before a new training begins."""
    if not (folder / LOCK).exists() or not stop_requested(folder):
        withdraw_stop(folder)


def withdraw_stop(folder: Path) -> None:
    """Remove a request to stop, if there is one."""
    with suppress(OSError):
        os.unlink(folder / STOP)


def locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file. False for anything but a plain file."""
    if sys.platform == "win32":
        return False
    try:
        with open_plain(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # closing the file releases it
            except BlockingIOError:
                return True
    except (OSError, StorageError):
        return False
    return False


def _holder(folder: Path) -> _Holder:
    if sys.platform == "win32":
        return _Holder(None)
    try:
        with open_plain(folder / LOCK) as file:
            since = os.fstat(file.fileno()).st_mtime_ns
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # closing the file releases it
            except BlockingIOError:
                text = file.read(32).decode(errors="replace")
                return _Holder(True, int(text) if text.isascii() and text.isdecimal() else None, since)
    except FileNotFoundError:
        return _Holder(False)
    except (OSError, StorageError):
        return _Holder(None)
    return _Holder(False)


def _beat(path: Path) -> tuple[float | None, str]:
    try:
        with open_plain(path) as file:
            words = file.read(64).decode(errors="replace").split()
            return os.fstat(file.fileno()).st_mtime, words[0] if words else ""
    except (OSError, StorageError):
        return None, ""
