"""A disk that fails: wraps the os functions that change a directory, counts them, and crashes or fails at the n-th.

"crash" ends the process before the operation, "torn" in the middle of a write, "drop" before the operation and with
everything undone that was not flushed by then, as after a loss of power. An errno makes the operation fail instead.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

CRASHED = 77
WRAPPED = ("open", "write", "fsync", "rename", "replace", "unlink", "mkdir", "rmdir")


class FailingDisk:
    """Counts operations below `root`; at operation `point` (from 1) it does what `mode` says."""

    def __init__(self, root: Path, point: int, mode: str) -> None:
        self.root, self.point, self.mode = str(root), point, mode
        self.count = 0
        self.done: list[str] = []
        self._real = {name: getattr(os, name) for name in WRAPPED}
        self._paths: dict[int, str] = {}
        self._unsynced: set[int] = set()
        self._journal: list[tuple[Any, ...]] = []

    def install(self) -> None:
        for name in WRAPPED:
            setattr(os, name, getattr(self, f"_{name}"))

    def remove(self) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)

    def _meet(self, what: str, path: str, partial: Any = None) -> None:
        self.count += 1
        self.done.append(what)
        if self.count != self.point:
            return
        if self.mode in ("ENOSPC", "EIO"):
            raise OSError(getattr(errno, self.mode), os.strerror(getattr(errno, self.mode)), path)
        if self.mode == "torn" and partial is not None:
            partial()
        if self.mode == "drop":
            self.remove()
            self._lose_unflushed()
        os._exit(CRASHED)

    def _inside(self, path: Any, dir_fd: int | None = None) -> str | None:
        text = os.fspath(path)
        if isinstance(text, bytes):
            return None
        if dir_fd is not None:
            text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)
        text = os.path.abspath(text)
        return text if text.startswith(self.root) else None

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        inside = self._inside(path, dir_fd) if not isinstance(path, int) else None
        creating = inside is not None and bool(flags & os.O_CREAT)
        if creating:
            self._meet("open", str(inside))
        descriptor: int = self._real["open"](path, flags, mode, dir_fd=dir_fd)
        if inside is not None:
            self._paths[descriptor] = inside
        else:
            self._paths.pop(descriptor, None)
        if creating:
            self._journal.append(("create", inside))
            self._unsynced.add(os.fstat(descriptor).st_ino)
        return descriptor

    def _write(self, descriptor: int, data: Any) -> int:
        if descriptor in self._paths:
            half = bytes(data)[: len(data) // 2]
            self._meet("write", self._paths[descriptor], lambda: self._real["write"](descriptor, half))
            self._unsynced.add(os.fstat(descriptor).st_ino)
        written: int = self._real["write"](descriptor, data)
        return written

    def _fsync(self, descriptor: int) -> None:
        path = self._paths.get(descriptor)
        if path is not None:
            self._meet("fsync", path)
        self._real["fsync"](descriptor)
        if path is not None:
            self._unsynced.discard(os.fstat(descriptor).st_ino)
            self._journal = [entry for entry in self._journal if os.path.dirname(entry[-1]) != path]

    def _rename(self, source: Any, target: Any) -> None:
        inside = self._inside(target)
        if inside is not None:
            self._meet("rename", inside)
        replaced = Path(target).read_bytes() if inside is not None and Path(target).is_file() else None
        self._real["rename"](source, target)
        if inside is not None:
            self._journal.append(("rename", self._inside(source), replaced, inside))

    _replace = _rename

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        inside = self._inside(path, dir_fd)
        exists = inside is not None and os.path.lexists(inside)
        if exists:
            self._meet("unlink", str(inside))
            self._journal.append(("unlink", Path(str(inside)).read_bytes(), inside))
        self._real["unlink"](path, dir_fd=dir_fd)

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        inside = self._inside(path, dir_fd)
        if inside is not None:
            self._meet("mkdir", inside)
        self._real["mkdir"](path, mode, dir_fd=dir_fd)
        if inside is not None:
            self._journal.append(("mkdir", inside))

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        inside = self._inside(path, dir_fd)
        if inside is not None:
            self._meet("rmdir", inside)
        self._real["rmdir"](path, dir_fd=dir_fd)
        if inside is not None:
            self._journal.append(("rmdir", inside))

    def _lose_unflushed(self) -> None:
        """File contents first, then directory entries from the newest back."""
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                if os.stat(path).st_ino in self._unsynced:
                    os.truncate(path, os.path.getsize(path) // 2)
        for entry in reversed(self._journal):
            kind, place = entry[0], entry[-1]
            if kind == "create":
                Path(place).unlink(missing_ok=True)
            elif kind == "rename":
                os.rename(place, entry[1])
                if entry[2] is not None:
                    Path(place).write_bytes(entry[2])
            elif kind == "unlink":
                Path(place).write_bytes(entry[1])
            elif kind == "mkdir":
                shutil.rmtree(place, ignore_errors=True)
            else:
                os.mkdir(place)
