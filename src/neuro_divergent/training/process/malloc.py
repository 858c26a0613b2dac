"""Memory that a step frees and the next one needs again stays with the process while it trains.

The C library of most Linux systems (glibc) returns large blocks to the operating system as soon as they are free, and
gets them back as new pages, each of which is zeroed and mapped anew. A training frees all its activations in every
step: for a recurrent network that traffic was a quarter of the time. While somebody trains, free memory is therefore
kept; afterwards it is returned. Where memory comes from changes no result.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
# Blocks above 128 megabytes are returned as ever: a small one inside a large free one would leave no room for the next
# large one, and a training that just fits into its memory would not fit any more.
_WHILE_TRAINING = {_TRIM_THRESHOLD: 1 << 30, _MMAP_THRESHOLD: 1 << 27}
_AFTERWARDS = {_TRIM_THRESHOLD: 1 << 26, _MMAP_THRESHOLD: 1 << 25}  # where glibc's own rule ends after a large block

_lock = threading.Lock()
_trainings = 0


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory until the last training of the process that said so has ended."""
    global _trainings
    with _lock:
        _trainings += 1
        if _trainings == 1:
            _set(_WHILE_TRAINING)
    try:
        yield
    finally:
        with _lock:
            _trainings -= 1
            if _trainings == 0:
                let_go()


def let_go() -> None:
    """Return what is free, and keep nothing from now on: at the end of a training, or when memory is short."""
    _set(_AFTERWARDS)
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def _set(thresholds: dict[int, int]) -> None:
    library = _glibc()
    if library is not None:
        for parameter, size in thresholds.items():
            library.mallopt(parameter, size)


@lru_cache(maxsize=1)
def _glibc() -> ctypes.CDLL | None:
    """The C library, if it is one that can be told, and if the user has not told it something else."""
    chosen = [name for name in os.environ if name.startswith("MALLOC_")]
    if platform.libc_ver()[0] != "glibc" or chosen or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
