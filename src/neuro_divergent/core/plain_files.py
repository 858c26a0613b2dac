"""Opening files of a directory that a stranger may have made, or that somebody else replaces meanwhile.

Every reader of models, checkpoints, stores and runs opens files here: only plain files, never what a link, a pipe or a
device would give.
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
"""How often a directory is read that is replaced while it is read."""
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MODES = {
    "rb": os.O_RDONLY,
    "r+b": os.O_RDWR,
    "ab": os.O_WRONLY | os.O_APPEND | os.O_CREAT,
    "a+b": os.O_RDWR | os.O_APPEND | os.O_CREAT,
}


def open_plain(path: Path, mode: str = "rb") -> IO[bytes]:
    """An open plain file, unbuffered. CorruptFileError where there is something else, OSError as from `open`.

    Args:
        path: the file. Directories on the way to it may be links; the file itself may not.
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
    """The bytes of a plain file, at most `limit` of them."""
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise CorruptFileError(f"{path} must have at most {limit} bytes, but has {size}")
            return _read(file, size + 1)
    except OSError as error:
        raise CorruptFileError(f"{path} must be a readable plain file: {error.strerror or error}") from None


def plain_tail(path: Path, limit: int) -> tuple[bytes, bool]:
    """The last bytes of a plain file, and whether these are all; nothing where there is no file."""
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
    """So many bytes, or all that are left; a system may give large files in several pieces."""
    found = [file.read(size)]
    while found[-1] and (left := size - sum(map(len, found))):
        found.append(file.read(left))
    return found[0] if len(found) <= 2 and not found[-1] else b"".join(found)


def settled(path: Path, read: Callable[[], T], *, whole: bool = True) -> T:
    """What `read` gives of a directory, all of it from one moment.

    `new_directory` replaces a directory as a whole. A reader that began before that finds files of the former one gone,
    and files of the new one in their place. It reads again then. What was wrong while nobody replaced it is raised.

    Args:
        path: the directory.
        read: reads it.
        whole: read again too where the directory was changed but nothing seemed wrong; False for the directory of a
            run, in which files come and go.
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
        f"{path} must stay as it is while it is read, but was replaced each of {_TRIES} times. Read a copy of it"
    )


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = os.stat(files.present(path))
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_ctime_ns
