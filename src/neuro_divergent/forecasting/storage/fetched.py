"""Copies a saved model, a run or a checkpoint from a remote address to this machine, every bundle verified."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from neuro_divergent.core import bundle
from neuro_divergent.core.errors import CorruptFileError, NoCheckpointError, StorageError
from neuro_divergent.core.runs.names import CHECKPOINTS, CONTEXT, INDEX, MODEL, REFIT, step_of
from neuro_divergent.core.runs.remote import RemoteFolder

_MEMBER = re.compile(r"model-\d+")


@contextmanager
def fetched(address: str) -> Iterator[Path]:
    """A local copy of what `load` needs, until the block ends."""
    remote = RemoteFolder(address)
    with TemporaryDirectory(prefix="neuro-divergent-") as folder:
        place = Path(folder) / "fetched"
        run, _, step = remote.address.rpartition(f"/{CHECKPOINTS}/")
        if run and step_of(step) >= 0:  # a checkpoint of a run, whose model is described beside the checkpoints
            place = place / CHECKPOINTS / step
            whole = RemoteFolder(run)
            if CONTEXT in whole.names():
                _copy_bundle(whole, CONTEXT, place.parent.parent / CONTEXT)
        _copy(remote, "", place)
        if not place.exists():
            raise StorageError(
                f"{address} must be a saved model, a run or a checkpoint, but is none. Check the address"
            )
        yield place


def _copy(remote: RemoteFolder, folder: str, to: Path) -> None:
    names = remote.names(folder)
    if bundle.MANIFEST in names:
        _copy_bundle(remote, folder, to)
    elif MODEL in names:
        _copy(remote, _join(folder, MODEL), to / MODEL)
    elif INDEX in names:
        for name in [INDEX, *filter(_MEMBER.fullmatch, names)]:
            _copy_bundle(remote, _join(folder, name), to / name)
    elif CHECKPOINTS in names:
        if REFIT in names:
            _copy(remote, _join(folder, REFIT), to / REFIT)
        _copy_newest(remote, _join(folder, CHECKPOINTS), to / CHECKPOINTS)
        if CONTEXT in names:
            _copy_bundle(remote, _join(folder, CONTEXT), to / CONTEXT)


def _copy_newest(remote: RemoteFolder, folder: str, to: Path) -> None:
    """The newest good checkpoint."""
    to.mkdir(parents=True)
    for name in sorted((name for name in remote.names(folder) if step_of(name) >= 0), key=step_of, reverse=True):
        try:
            _copy_bundle(remote, _join(folder, name), to / name)
        except (CorruptFileError, NoCheckpointError):
            continue
        return


def _copy_bundle(remote: RemoteFolder, folder: str, to: Path) -> None:
    """A verified bundle with its manifest as it is, which an index names by its digest."""
    contents = remote.bundle(folder)
    contents[bundle.MANIFEST] = remote.read(_join(folder, bundle.MANIFEST), bundle.MAX_MANIFEST_BYTES)
    to.mkdir(parents=True)
    for name, data in contents.items():
        (to / name).write_bytes(data)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
