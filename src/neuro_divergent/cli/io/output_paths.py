"""Where a command writes. Paths are checked before the work begins, so that no work is lost."""

from __future__ import annotations

import os
from pathlib import Path

from neuro_divergent.core.errors import ConfigError, StorageError

TABLES = (".csv", ".parquet")


def writable_directory(directory: Path, what: str = "the directory") -> Path:
    """The directory, created if it does not exist."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        writable = os.access(directory, os.W_OK)
    except OSError as error:
        raise StorageError(
            f"{what} {directory} cannot be created: {error.strerror or error}. Choose another --out"
        ) from None
    if not writable:
        raise StorageError(f"{what} {directory} cannot be written to. Choose another --out")
    return directory


def table_file(out: Path | None) -> Path | None:
    """The path of a table to write, in a directory that is writable; None if none was given."""
    if out is None:
        return None
    if out.suffix not in TABLES:
        raise ConfigError(f"--out must end in .csv or .parquet, but got {str(out)!r}")
    writable_directory(out.parent)
    return out
