"""The C++ compiler that torch's compiler starts: whether it is installed, and how to end a running one."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

WORKING = ("cc1plus", "clang")
"""Names of the processes that compile. Linkers are not ended: they take a moment only, and an interrupted linker leaves
half a library in torch's cache."""

_TIDYING_SECONDS = 1.0


def installed() -> bool:
    """Whether the compiler that torch would use is installed. No process is started to find out."""
    if sys.platform == "win32":
        usual = "cl"
    else:
        usual = "clang++" if sys.platform == "darwin" else "g++"
    return shutil.which(os.environ.get("CXX", usual)) is not None


class Compilers:
    """Child processes that this thread starts after this object was made. Empty on systems without /proc."""

    def __init__(self) -> None:
        self._thread = threading.get_native_id()
        self._before = frozenset(self._started())

    def end(self) -> None:
        """End the compiling processes, and wait a moment while their parents remove unfinished files."""
        mine = [process for process in self._started() if process not in self._before]
        deadline = time.monotonic() + _TIDYING_SECONDS
        # Repeated, because a process that was just started does not have its own name yet.
        while any(_runs(process) for process in mine) and time.monotonic() < deadline:
            for process in [inner for outer in mine for inner in _tree(outer)]:
                if _name(process).startswith(WORKING):
                    with suppress(OSError):
                        os.kill(process, signal.SIGTERM)
            time.sleep(0.01)

    def _started(self) -> list[int]:
        return _children(os.getpid(), self._thread)


def _children(process: int, thread: int) -> list[int]:
    try:
        found = Path(f"/proc/{process}/task/{thread}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(number) for number in found.split()]


def _tree(process: int) -> list[int]:
    """A process and all its descendants. The programs that call a compiler have one thread."""
    return [process, *(inner for child in _children(process, process) for inner in _tree(child))]


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _runs(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
