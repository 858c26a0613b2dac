"""Tune glibc's malloc: during a training the process keeps freed memory for the next step.

The C library of most Linux systems (glibc) returns large free blocks to the operating system at once. New blocks are
new pages, which the system must zero and map. A training frees all its activations in every step; for a recurrent
network this took a quarter of the time. Therefore free memory is kept during a training and returned afterwards. This
does not change any result.
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
# Blocks above 128 megabytes are still returned. Otherwise a small block inside a large free one could prevent the next
# large allocation, and a training that almost fills the memory would fail.
_WHILE_TRAINING = {_TRIM_THRESHOLD: 1 << 30, _MMAP_THRESHOLD: 1 << 27}
_AFTERWARDS = {
    _TRIM_THRESHOLD: 1 << 26,
    _MMAP_THRESHOLD: 1 << 25,
}  # the values that glibc itself reaches after a large block

_lock = threading.Lock()
_trainings = 0


@contextmanager
def kept_memory() -> Iterator[None]:
    """Context in which the process keeps freed memory; nested or parallel trainings share it until the last ends."""
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
    """Return free memory to the system and keep none from now on: at the end of a training, or if memory ran out."""
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
    """The C library if it is glibc, and if the user has not set malloc options; else None."""
    chosen = [name for name in os.environ if name.startswith("MALLOC_")]
    if platform.libc_ver()[0] != "glibc" or chosen or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
