"""Checkpoints at a moment of the user's choice, each in a directory of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import StorageError
from neuro_divergent.core.runs.names import STATE, is_remote
from neuro_divergent.core.runs.remote import RemoteFolder
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
    _refuse_other(path)
    checkpoint.refuse_extra_state(state.module)
    facts = dict(state.facts()) | {"number": 0, "score": None}
    snapshot = checkpoint.take(state, callbacks, facts, checkpoint.SnapshotBuffer())
    contents = {**snapshot.contents(), **state.context()}
    if is_remote(path):
        RemoteFolder(str(path)).write_bundle("", contents)
    else:
        bundle.write(path, contents, overwrite=True)


def _refuse_other(path: str | os.PathLike[str]) -> None:
    """Raise if something other than a checkpoint is at a path already."""
    if is_remote(path):
        names = RemoteFolder(str(path)).names()
        other = bool(names) and not _has_checkpoint(names)
    else:
        there = files.present(Path(path))
        other = there.is_dir() and any(there.iterdir()) and not is_checkpoint(there)
    if other:
        raise StorageError(f"{path} is there already and is no checkpoint. Give another directory, or remove it")


def read_remote(address: str) -> dict[str, bytes] | None:
    """The verified files of the checkpoint at a remote address; None if the address is none of a checkpoint."""
    folder = RemoteFolder(address)
    return folder.bundle("") if _has_checkpoint(folder.names()) else None


def _has_checkpoint(names: Sequence[str]) -> bool:
    return bundle.MANIFEST in names and STATE in names


def is_checkpoint(path: Path) -> bool:
    """Whether a directory is one checkpoint, whatever its name."""
    return (path / bundle.MANIFEST).is_file() and (path / STATE).is_file()
