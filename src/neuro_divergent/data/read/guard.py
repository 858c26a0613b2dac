"""Turns errors of reading libraries into our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from neuro_divergent.core.errors import DataError, NeuroDivergentError


@contextmanager
def guarded(what: str, error: type[DataError] = DataError) -> Iterator[None]:
    """Raise our error for any error of a reading library, with its first sentence."""
    try:
        yield
    except (NeuroDivergentError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as problem:
        # A defect of a reader on a broken file appears as a panic, which is not an Exception.
        if not isinstance(problem, Exception) and type(problem).__name__ != "PanicException":
            raise
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        raise error(
            f"{what} cannot be read: {lines[0][:300]}. Check that it is complete and of the right kind."
        ) from None
