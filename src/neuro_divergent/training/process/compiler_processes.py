"""The C++ compiler that torch's compiler starts: whether there is one, and how to end one that is at work."""

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
"""How the processes that do the work are called. What they call themselves to link is over in a moment, and a linker
that is ended leaves half a library in torch's cache."""

_TIDYING_SECONDS = 1.0


def installed() -> bool:
    """Whether the compiler that torch would take is there; nothing is started to find out."""
    if sys.platform == "win32":
        usual = "cl"
    else:
        usual = "clang++" if sys.platform == "darwin" else "g++"
    return shutil.which(os.environ.get("CXX", usual)) is not None


class Compilers:
    """The processes that this thread starts from now on. Where the system does not tell, there are none."""

    def __init__(self) -> None:
        self._thread = threading.get_native_id()
        self._before = frozenset(self._started())

    def end(self) -> None:
        """End those that compile, and give the programs that called them a moment to remove what is half written."""
        mine = [process for process in self._started() if process not in self._before]
        deadline = time.monotonic() + _TIDYING_SECONDS
        # Again and again: one that was just started has no name of its own yet.
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
    """A process and all below it; the programs that call a compiler have one thread."""
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
