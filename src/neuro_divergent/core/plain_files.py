"""Open files of an untrusted directory, or of one that another process may replace meanwhile.

Every reader of models, checkpoints, stores and runs opens its files here. Only plain files are opened: no links, pipes
or devices.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from neuro_divergent.core import files
from neuro_divergent.core.errors import CorruptFileError, StorageError

T = TypeVar("T")

_TRIES = 100
"""How often to read a directory that is replaced while it is read."""
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MODES = {
    "rb": os.O_RDONLY,
    "r+b": os.O_RDWR,
    "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT,
    "a+b": os.O_RDWR | os.O_APPEND | os.O_CREAT,
}


def open_plain(path: Path, mode: str = "rb") -> IO[bytes]:
    """Return an open plain file, unbuffered. Raises CorruptFileError for anything else, and OSError as `open` does.

    Args:
        path: the file. Its parent directories may be links; the file itself may not.
        mode: "rb", "r+b", "ab" or "a+b".
    """
    if os.path.islink(path):
        raise CorruptFileError(f"{path} must be a plain file, but is a link")
    descriptor = os.open(path, _MODES[mode] | _PLAIN, 0o644)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CorruptFileError(f"{path} must be a plain file, but is not")
        return os.fdopen(descriptor, mode, buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def plain_bytes(path: Path, limit: int) -> bytes:
    """Return the bytes of a plain file. A file of more than `limit` bytes is refused."""
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise CorruptFileError(f"{path} must have at most {limit} bytes, but has {size}")
            return _read(file, size + 1)
    except OSError as error:
        raise CorruptFileError(f"{path} must be a readable plain file: {error.strerror or error}") from None


def plain_tail(path: Path, limit: int) -> tuple[bytes, bool]:
    """Return the last `limit` bytes of a plain file, and whether these are all. A missing file is empty."""
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - limit))
            return _read(file, min(size, limit)), size <= limit
    except FileNotFoundError:
        return b"", True
    except OSError as error:
        raise CorruptFileError(f"{path} must be a readable plain file: {error.strerror or error}") from None


def _read(file: IO[bytes], size: int) -> bytes:
    """`size` bytes, or all that are left. The system may return large files in several pieces."""
    found = [file.read(size)]
    while found[-1] and (left := size - sum(map(len, found))):
        found.append(file.read(left))
    return found[0] if len(found) <= 2 and not found[-1] else b"".join(found)


def settled(path: Path, read: Callable[[], T], *, whole: bool = True) -> T:
    """Return the result of `read` on a directory, with all files from the same version of the directory.

    `new_directory` replaces a directory as a whole. If that happens during `read`, some files belong to the old
    version and some to the new one. `read` is then called again. An error is raised if the directory was not replaced.

    Args:
        path: the directory.
        read: reads the directory.
        whole: also read again if the directory was replaced and `read` raised nothing. False for a run directory, in
            which files come and go.
    """
    for _ in range(_TRIES):
        before = _identity(path)
        try:
            found = read()
        except (StorageError, OSError):
            if _identity(path) == before:
                raise
        else:
            if not whole or _identity(path) == before:
                return found
    raise StorageError(
        f"{path} must not change while it is read, but was replaced during each of {_TRIES} attempts. Read a copy of it"
    )


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = os.stat(files.present(path))
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_ctime_ns
