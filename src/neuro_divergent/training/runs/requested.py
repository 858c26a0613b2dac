"""Checkpoints at a moment of the user's choice, each in a directory of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import ConfigError, StorageError
from neuro_divergent.core.runs.names import STATE, is_remote
from neuro_divergent.training.runs import snapshot as checkpoint

if TYPE_CHECKING:
    from neuro_divergent.training.callbacks.base import CallbackList
    from neuro_divergent.training.state.state import TrainState


def write_requested(state: TrainState, callbacks: CallbackList) -> None:
    """Write the checkpoints that were asked for; the state stands between two steps."""
    while state.requested:
        write_checkpoint(state, callbacks, state.requested.pop(0))


def write_checkpoint(state: TrainState, callbacks: CallbackList, path: str | os.PathLike[str]) -> None:
    """Write the present state to a directory, in place of a checkpoint that is there already."""
    if not state.strategy.main:
        return  # one process of a run writes
    if is_remote(path):
        raise ConfigError(
            f"save_checkpoint writes to a local directory, but got {path}. For a remote one train with "
            "checkpoints=Checkpoints(directory='s3://...')"
        )
    there = files.present(Path(path))
    if there.is_dir() and any(there.iterdir()) and not is_checkpoint(there):
        raise StorageError(f"{path} is there already and is no checkpoint. Give another directory, or remove it")
    checkpoint.refuse_extra_state(state.module)
    facts = dict(state.facts()) | {"number": 0, "score": None}
    snapshot = checkpoint.take(state, callbacks, facts, checkpoint.SnapshotBuffer())
    bundle.write(path, {**snapshot.contents(), **state.context()}, overwrite=True)


def is_checkpoint(path: Path) -> bool:
    """Whether a directory is one checkpoint, whatever its name."""
    return (path / bundle.MANIFEST).is_file() and (path / STATE).is_file()
