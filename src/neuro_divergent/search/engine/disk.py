"""The disk space of a study: delete what no trial needs any more, and keep to the limit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from neuro_divergent.core import files
from neuro_divergent.core.runs.names import MODEL, TRIALS, trial_name


def used(directory: Path) -> int:
    """Bytes of all files below the trials of a study."""
    total = 0
    for folder, _, names in os.walk(directory / TRIALS):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_size
            except OSError:  # deleted meanwhile
                continue
    return total


def numbers(directory: Path) -> list[int]:
    """The numbers of the trials that have files."""
    return sorted(int(name) for name in files.names(directory / TRIALS) if name.isdecimal())


def delete_trial(directory: Path, number: int) -> None:
    """Delete all files of a trial."""
    folder = directory / TRIALS / trial_name(number)
    if folder.is_dir():
        shutil.rmtree(folder, ignore_errors=True)


def delete_checkpoints(directory: Path, number: int) -> None:
    """Delete the checkpoints of a finished trial; its model stays."""
    folder = directory / TRIALS / trial_name(number)
    if not files.present(folder / MODEL).is_dir():
        delete_trial(directory, number)
        return
    for name in files.names(folder):
        if name != MODEL:
            shutil.rmtree(folder / name, ignore_errors=True)


def keep_only(directory: Path, kept: Iterable[int]) -> None:
    """Delete the files of all trials but these."""
    wanted = set(kept)
    for number in numbers(directory):
        if number not in wanted:
            delete_trial(directory, number)
