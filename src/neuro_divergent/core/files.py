"""The one atomic writer: a file or a directory is there whole, or it is not there.

A write goes to a temporary sibling, is flushed to the disk, and is then renamed over its destination; the parent
directory is flushed too. An interruption at any point leaves the previous content.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from neuro_divergent.core.errors import StorageError

TEMPORARY_PREFIX = ".nd-tmp-"
"""Leftovers of a killed process start with this, so that they can be recognised and removed."""


def temporary_sibling(path: Path) -> Path:
    """A fresh name beside the destination, so that the rename stays on one file system."""
    return path.parent / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex[:12]}-{path.name}"


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically and durably."""
    path = Path(path)
    temporary = temporary_sibling(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_and_sync(temporary, data)
        os.replace(temporary, path)
        sync_directory(path.parent)
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # the error that matters is the one above
            temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 text file atomically and durably."""
    write_bytes(path, text.encode())


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write plain data as an indented JSON file, atomically and durably."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


@contextmanager
def new_directory(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Fill a temporary directory; on leaving the block it becomes `path`, on an error it disappears."""
    path = Path(path)
    if path.exists() and not overwrite:
        raise StorageError(f"{path} exists already. Choose another place, or say overwrite=True")
    temporary = temporary_sibling(path)
    try:
        try:
            temporary.mkdir(parents=True)
            yield temporary
            sync_tree(temporary)
            _swap(temporary, path)
            sync_directory(path.parent)
        except OSError as error:
            raise StorageError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_and_sync(path: Path, data: bytes) -> None:
    """Create a file and flush it to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


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
            with open(Path(folder) / name, "rb") as file:
                os.fsync(file.fileno())
        sync_directory(Path(folder))


def _swap(temporary: Path, path: Path) -> None:
    """Rename a directory into place; a previous one is moved aside first and removed last."""
    if not path.exists():
        os.rename(temporary, path)
        return
    aside = temporary_sibling(path)
    os.rename(path, aside)
    try:
        os.rename(temporary, path)
    except OSError:
        os.rename(aside, path)
        raise
    shutil.rmtree(aside, ignore_errors=True)
