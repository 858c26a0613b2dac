"""Atomic writing of files and directories: the destination has the old or the new content, never a part.

A write goes to a temporary sibling, is flushed to disk, and is then renamed to its destination. The parent directory is
flushed too. An interruption at any point leaves the previous content. A directory cannot be renamed over another one:
the previous directory is moved aside first, and readers find it there (`present`) until the new one is renamed.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from neuro_divergent.core.errors import Advice, StorageError

if sys.platform == "linux":
    import fcntl

TEMPORARY_PREFIX = ".nd-tmp-"
"""Prefix of temporary files. A killed process may leave some; the prefix identifies them for removal."""

ASIDE_PREFIX = ".nd-old-"
"""Prefix of the previous version of a directory while it is replaced."""

Content = bytes | Sequence[bytes | memoryview]
"""The bytes of a file, in one piece or in consecutive parts. A memoryview must be of plain bytes."""

BLOCK_BYTES = 4096
"""Alignment of memory and file offsets for direct I/O (without a copy in the page cache)."""
_HUGE_BYTES = 2**21
"""Size of a huge page. Large buffers are aligned to it, because direct I/O handles a huge page like a small one."""

_PIECE_BYTES = 2**24
"""Bytes per system call. Few large pieces interrupt a training in another thread less often."""
_SMALL_BYTES = 2**16

_compare = (ctypes.cdll.msvcrt if os.name == "nt" else ctypes.CDLL(None)).memcmp
_compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def temporary_sibling(path: Path) -> Path:
    """Return a new name in the directory of the destination, so that the rename stays on one file system."""
    return path.parent / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex[:12]}-{path.name}"


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically and durably."""
    path = Path(path)
    temporary = temporary_sibling(path)
    try:
        make_directories(path.parent)
        write_new(temporary, data)
        os.replace(temporary, path)
        sync_directory(path.parent)
    except OSError as error:
        raise not_written(path, error) from error
    finally:
        with suppress(OSError):  # the error that matters is the one above
            os.unlink(temporary)


def not_written(what: object, error: OSError) -> StorageError:
    """Return the error about a file that could not be written."""
    return StorageError(f"{what} could not be written: {error.strerror or error}", rule="writable", got=str(what))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 text file atomically and durably."""
    write_bytes(path, text.encode())


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write plain data as an indented JSON file, atomically and durably."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


@contextmanager
def new_directory(
    path: str | os.PathLike[str], *, overwrite: bool = False, synced: bool = False, mark: str | None = None
) -> Iterator[Path]:
    """Yield a temporary directory to fill. At the end of the block it is renamed to `path`; on an error it is removed.

    Args:
        path: the directory to make.
        overwrite: replace a directory that exists.
        synced: whether the block flushes the files itself (`write_new`).
        mark: name of a file that a directory must have to be replaced, unless it is empty; None replaces any.
    """
    path = Path(path)
    _refuse_other_than_directory(path)
    if present(path).exists() and not overwrite:
        raise StorageError(
            f"{path} exists already. Choose another path, or set overwrite=True", advice=[Advice("overwrite", True)]
        )
    if mark is not None:
        _refuse_foreign(path, mark)
    temporary = temporary_sibling(path)
    try:
        try:
            make_directories(path.parent)
            os.mkdir(temporary)
            yield temporary
            sync_directory(temporary) if synced else sync_tree(temporary)
            _swap(temporary, path)
        except OSError as error:
            raise not_written(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _refuse_other_than_directory(path: Path) -> None:
    """Refuse to replace a user's file or link."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        what = "link" if path.is_symlink() else "file"
        raise StorageError(
            f"the path to save to must be a directory or must not exist, but {path} is a {what}. "
            "Choose another path, or remove it first"
        )


def _refuse_foreign(path: Path, mark: str) -> None:
    """Refuse to replace a directory with other files, which would be lost."""
    found = sorted(os.listdir(path)) if path.is_dir() else []
    if found and mark not in found:
        raise StorageError(
            f"save() replaces only what it wrote itself, but {path} has other files: "
            f"{', '.join(found[:3])}{', ...' if len(found) > 3 else ''}. Choose another path, such as {path / 'model'}"
        )


def present(path: Path) -> Path:
    """Return the path of a directory's content: `path`, or its previous version if a replacement was interrupted."""
    aside = _aside(path)
    return aside if not path.exists() and aside.exists() else path


def remove_directory(path: Path) -> None:
    """Remove a directory if it exists. It is renamed first, so that no reader finds a part of it."""
    temporary = temporary_sibling(path)
    try:
        os.rename(present(path), temporary)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{path} could not be removed: {error.strerror or error}") from error
    shutil.rmtree(temporary, ignore_errors=True)


def remove_leftovers(directory: Path) -> None:
    """Remove temporary files that a killed process left in a directory."""
    if not directory.is_dir():
        return
    for name in os.listdir(directory):
        settled = name.startswith(ASIDE_PREFIX) and (directory / name.removeprefix(ASIDE_PREFIX)).exists()
        if name.startswith(TEMPORARY_PREFIX) or settled:
            _remove(directory / name)


def names(directory: Path) -> list[str]:
    """Return the names in a directory, without temporary ones. A name that was moved aside counts by its own name."""
    if not directory.is_dir():
        return []
    found = {name.removeprefix(ASIDE_PREFIX) for name in os.listdir(directory) if not name.startswith(TEMPORARY_PREFIX)}
    return sorted(found)


def make_directories(path: Path) -> None:
    """Make a directory and its parents, and flush each: an unflushed entry could be lost with all below it."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process made it meanwhile
            os.mkdir(folder)
        sync_directory(folder.parent)


def whole(data: Content) -> bytes:
    """Return the content in one piece."""
    return data if isinstance(data, bytes) else b"".join(data)


def pieces(data: Content) -> Iterator[bytes | memoryview]:
    """Yield the content in pieces of about 16 MiB at most. Large parts are not copied.

    >>> [bytes(piece) for piece in pieces([b"ab", b"c"])]
    [b'abc']
    """
    waiting: list[bytes | memoryview] = []
    size = 0
    for part in [data] if isinstance(data, bytes) else data:
        if len(part) < _SMALL_BYTES and size < _PIECE_BYTES:
            waiting.append(part)
            size += len(part)
            continue
        yield b"".join(waiting)
        waiting, size = [], 0
        view = memoryview(part)
        yield from (view[begin : begin + _PIECE_BYTES] for begin in range(0, len(view), _PIECE_BYTES))
    yield b"".join(waiting)


def write_new(path: Path, data: Content, *, sync: bool = True) -> None:
    """Create a file and flush it to disk. Without `sync` the caller must flush it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o644)
    try:
        place = 0
        for piece in pieces(data):
            rest = memoryview(piece)
            while rest:
                done = unbuffered(descriptor, place, rest, lambda part: os.write(descriptor, part))
                rest, place = rest[done:], place + done
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_into(descriptor: int, place: int, room: memoryview) -> int:
    """Read into the buffer `room` from position `place`. Returns the number of bytes: fewer at the end."""
    begun = place
    while room:
        done = unbuffered(descriptor, place, room, lambda part: _read(descriptor, part))
        if not done:
            break
        room, place = room[done:], place + done
    return place - begun


def unbuffered(descriptor: int, place: int, memory: memoryview, act: Callable[[memoryview], int]) -> int:
    """Read or write with direct I/O where the system supports it, else through the page cache. Returns the byte count.

    The copy into the page cache is half of the cost of writing. Reading past the page cache shows what is on the disk.

    Args:
        descriptor: the open file, at position `place`.
        place: its position.
        memory: the bytes to write, or the buffer to read into.
        act: reads or writes as much of a buffer as it can, and returns the number of bytes.
    """
    even = len(memory) // BLOCK_BYTES * BLOCK_BYTES
    if sys.platform != "linux" or even < _SMALL_BYTES or place % BLOCK_BYTES or address(memory) % BLOCK_BYTES:
        return act(memory)
    usual = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, usual | os.O_DIRECT)
        return act(memory[:even])
    except OSError:
        pass  # file systems without direct I/O raise various errors; a real error is raised again below
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, usual)
    return act(memory)


def _read(descriptor: int, room: memoryview) -> int:
    if os.name == "posix":
        return os.readv(descriptor, [room])
    found = os.read(descriptor, len(room))
    room[: len(found)] = found
    return len(found)


def equal(one: bytes | memoryview, other: bytes | memoryview) -> bool:
    """Return whether two buffers have the same bytes. Other threads can run meanwhile."""
    return len(one) == len(other) and _compare(address(one), address(other), len(one)) == 0


def address(memory: bytes | memoryview) -> int:
    """Return the memory address of a buffer."""
    import numpy as np  # imported here, because reading files needs no numpy

    return int(np.frombuffer(memory, np.uint8).ctypes.data)


def aligned(size: int) -> memoryview:
    """Return a new buffer that is aligned for direct I/O."""
    import numpy as np

    step = BLOCK_BYTES if size < 2 * _HUGE_BYTES else _HUGE_BYTES
    room = np.empty(size + step, np.uint8)
    begin = -room.ctypes.data % step
    return room[begin : begin + size].data


class Scratch:
    """A reusable buffer for pieces of a file. Allocating a new one costs as much as reading into it."""

    def __init__(self) -> None:
        self._memory = memoryview(b"")

    def of(self, size: int) -> memoryview:
        """Return a buffer of `size` bytes with undefined content."""
        if len(self._memory) < size:
            self._memory = aligned(size)
        return self._memory[:size]


def sync_directory(path: Path) -> None:
    """Flush a directory's entries, where the system allows it (POSIX does, Windows does not)."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    """Flush every file and directory below a directory, and the directory itself."""
    for folder, _, names in os.walk(path):
        for name in names:
            descriptor = os.open(Path(folder) / name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_directory(Path(folder))


def _swap(temporary: Path, path: Path) -> None:
    """Rename a directory to `path`. A previous directory is moved aside first and removed last."""
    aside = _aside(path)
    if path.exists():
        if aside.exists():
            shutil.rmtree(aside)
        os.rename(path, aside)
    try:
        os.rename(temporary, path)
        sync_directory(path.parent)
    except OSError:
        if aside.exists() and not path.exists():
            os.rename(aside, path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _aside(path: Path) -> Path:
    return path.parent / f"{ASIDE_PREFIX}{path.name}"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)
