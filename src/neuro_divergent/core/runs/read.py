"""Read a run from its directory or address, without torch, numpy, polars or pydantic."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import DataFileError, StorageError
from neuro_divergent.core.json import MAX_JSON_BYTES, parse_json
from neuro_divergent.core.plain_files import plain_tail, settled
from neuro_divergent.core.runs import names
from neuro_divergent.core.runs.log import MAX_EVENT_BYTES
from neuro_divergent.core.runs.record import RunRecord, Source
from neuro_divergent.core.runs.remote import RemoteFolder
from neuro_divergent.core.runs.saved import Saved, is_many, local, saved_models

_MAX_PART_BYTES = 64 * 2**20
MAX_SMALL_BYTES = 16 * 2**20
"""Limit of the files with facts, notes and forecasts."""


def read_run(path: str | os.PathLike[str]) -> RunRecord:
    """Return the record of a run, a directory of several runs, a study, a checkpoint, or one or more saved models.

    This needs no torch. A remote address needs fsspec.

    Args:
        path: a directory or address, such as "runs/sales", "runs/sales/checkpoints/step-00000100" or
            "s3://bucket/run".
    """
    address = os.fspath(path)
    if names.is_remote(address):
        return _remote(address)
    try:
        return settled(Path(address), lambda: _local(Path(address), address), whole=False)
    except OSError as error:
        if isinstance(error, DataFileError):
            raise
        raise StorageError(f"{address} could not be read: {error.strerror or error}") from error


def _local(given: Path, path: str) -> RunRecord:
    folder = files.present(given)
    if not folder.is_dir():
        raise DataFileError(f"{path} must be the directory of a run, a checkpoint or a model, but there is none")
    held = _held(folder)
    if names.STATE in held or names.step_of(given.name) >= 0:
        return RunRecord("checkpoint", path, checkpoints=(local("checkpoint", given),))
    if names.MODEL_DOCUMENT in held:
        return RunRecord("model", path, models=(local("model", given),))
    if is_many(folder):
        return RunRecord("models", path, models=saved_models(given))
    if _is_run(folder):
        return _run(folder, path)
    if names.STUDY in held:
        inner = sorted((folder / names.TRIALS).glob("*/*"))
        return RunRecord("runs", path, runs=tuple(_run(item) for item in inner if _is_run(item)))
    runs = tuple(_run(item) for item in sorted(folder.iterdir()) if _is_run(item))
    if not runs:
        raise DataFileError(
            f"{path} must be a run, a checkpoint or a model, but has no {names.CONFIG}, {names.STATE} or "
            f"{names.MODEL_DOCUMENT}"
        )
    return RunRecord("runs", path, runs=runs)


def _run(folder: Path, path: str | None = None) -> RunRecord:
    inside = folder / names.CHECKPOINTS
    steps = sorted((name for name in files.names(inside) if names.step_of(name) >= 0), key=names.step_of)
    config, command = folder / names.CONFIG, folder / names.COMMAND
    return RunRecord(
        "run",
        str(folder) if path is None else path,
        checkpoints=tuple(local("checkpoint", inside / name) for name in steps),
        models=saved_models(folder / names.MODEL),
        source=Source(
            config=lambda: bundle.plain_bytes(config, MAX_JSON_BYTES) if os.path.lexists(config) else None,
            events=partial(plain_tail, folder / names.EVENTS, MAX_EVENT_BYTES),
            again=lambda: read_run(folder),
            refit=lambda: _run(folder / names.REFIT) if _is_run(folder / names.REFIT) else None,
            command=lambda: bundle.plain_bytes(command, MAX_JSON_BYTES) if os.path.lexists(command) else None,
            folder=folder,
            file=lambda name: bundle.plain_bytes(folder / name, MAX_SMALL_BYTES) if _lies(folder, name) else None,
            names=lambda name: files.names(folder / name) if _lies(folder, name) else [],
            write=lambda name, data: files.write_bytes(folder / name, data),
        ),
    )


def _lies(folder: Path, name: str) -> bool:
    """Whether a run has a file or directory of this name. A directory that is a link does not count."""
    first = folder / name.partition("/")[0]
    return os.path.lexists(folder / name) and not (first.is_dir() and first.is_symlink())


def _is_run(folder: Path) -> bool:
    return folder.is_dir() and (
        (folder / names.CHECKPOINTS).is_dir()
        or (folder / names.CONFIG).exists()
        or files.present(folder / names.MODEL).is_dir()
    )


def _held(folder: Path) -> set[str]:
    """The names in a directory and in its manifest. Files of the manifest may be missing."""
    found = set(os.listdir(folder))
    try:
        manifest = parse_json(bundle.plain_bytes(folder / bundle.MANIFEST, bundle.MAX_MANIFEST_BYTES), bundle.MANIFEST)
        return found | set(manifest["files"])
    except (StorageError, KeyError, TypeError):
        return found


def _remote(address: str) -> RunRecord:
    folder = RemoteFolder(address)
    held = folder.names()
    if names.STATE in held or names.step_of(folder.address.rsplit("/", 1)[-1]) >= 0:
        return RunRecord("checkpoint", address, (Saved("checkpoint", folder.address, partial(_remote_bundle, folder)),))
    if names.CHECKPOINTS in held or names.CONFIG in held:
        return _remote_run(folder, address)
    inner = [RemoteFolder(f"{folder.address}/{name}") for name in sorted(held)]
    runs = tuple(_remote_run(item, item.address) for item in inner if names.CHECKPOINTS in item.names())
    if not runs:
        raise DataFileError(f"{address} must be the address of a run, such as s3://bucket/run, but has no checkpoints")
    return RunRecord("runs", address, runs=runs)


def _remote_run(folder: RemoteFolder, path: str) -> RunRecord:
    steps = sorted((name for name in folder.names(names.CHECKPOINTS) if names.step_of(name) >= 0), key=names.step_of)
    return RunRecord(
        "run",
        path,
        checkpoints=tuple(
            Saved(
                "checkpoint",
                f"{folder.address}/{names.CHECKPOINTS}/{name}",
                partial(folder.bundle, f"{names.CHECKPOINTS}/{name}"),
            )
            for name in steps
        ),
        source=Source(
            config=lambda: folder.read(names.CONFIG, MAX_JSON_BYTES) if names.CONFIG in folder.names() else None,
            events=partial(_parts, folder, MAX_EVENT_BYTES),
            again=lambda: read_run(path),
            refit=lambda: _remote_refit(folder),
            file=partial(_remote_file, folder),
            names=folder.names,
            write=folder.write,
        ),
    )


def _remote_file(folder: RemoteFolder, name: str) -> bytes | None:
    parent, _, last = name.rpartition("/")
    return folder.read(name, MAX_SMALL_BYTES) if last in folder.names(parent) else None


def _remote_refit(folder: RemoteFolder) -> RunRecord | None:
    inner = RemoteFolder(f"{folder.address}/{names.REFIT}")
    return _remote_run(inner, inner.address) if names.CHECKPOINTS in inner.names() else None


def _remote_bundle(folder: RemoteFolder, only: str | None) -> dict[str, bytes]:
    parent, _, name = folder.address.rpartition("/")
    return RemoteFolder(parent).bundle(name, only)


def _parts(folder: RemoteFolder, limit: int) -> tuple[bytes, bool]:
    """The newest parts of a remote run's event log, up to about `limit` bytes, and whether these are all."""
    found: list[bytes] = []
    for name in sorted(folder.names(names.EVENT_PARTS), key=names.part_of, reverse=True):
        if names.part_of(name) == 0:
            continue
        if limit <= 0:
            return b"\n" + b"\n".join(found[::-1]), False
        found.append(folder.read(f"{names.EVENT_PARTS}/{name}", _MAX_PART_BYTES))
        limit -= len(found[-1])
    return b"\n".join(found[::-1]), True
