"""Checkpoint stores: a local directory, or any address that fsspec supports.

A checkpoint is a bundle. A local one appears with one rename. A remote one gets its manifest last. Both are atomic:
without a valid manifest there is no checkpoint.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Protocol

from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import StorageError
from neuro_divergent.core.runs.names import CHECKPOINTS as CHECKPOINTS
from neuro_divergent.core.runs.names import EARLIER
from neuro_divergent.core.runs.names import REFIT as REFIT
from neuro_divergent.core.runs.names import step_name as step_name
from neuro_divergent.core.runs.names import step_of as step_of
from neuro_divergent.core.runs.remote import RemoteFolder
from neuro_divergent.training.config.checkpoints import Checkpoints, is_remote

log = logging.getLogger(__name__)


class CheckpointStore(Protocol):
    """The checkpoints of one run."""

    address: str

    def names(self) -> list[str]:
        """Names of the checkpoints, oldest first. They are not verified; an unfinished one may be listed."""
        ...

    def read(self, name: str, only: str | None = None) -> dict[str, bytes]:
        """The verified files of one checkpoint, or only the file `only`; NoCheckpointError if it is unfinished."""
        ...

    def write(self, name: str, contents: Mapping[str, files.Content]) -> None:
        """Write a checkpoint and verify it by reading it back. It replaces one of the same name, or nothing changes."""
        ...

    def remove(self, name: str) -> None:
        """Remove a checkpoint."""
        ...

    def set_aside(self, names: list[str]) -> str:
        """Move checkpoints that no longer belong to the run to another folder; return its name."""
        ...

    def clean(self) -> None:
        """Remove unfinished checkpoints of a killed process."""
        ...

    def write_text(self, name: str, text: str) -> None:
        """Write a text file into the run directory."""
        ...


def place_of(directory: Path | str) -> CheckpointStore:
    """The checkpoint store of a run directory."""
    return RemoteCheckpoints(str(directory)) if is_remote(directory) else LocalCheckpoints(Path(directory))


def inside(settings: Checkpoints, name: str) -> Path | str:
    """The path or address of a directory inside the run directory."""
    directory = settings.directory
    return f"{str(directory).rstrip('/')}/{name}" if is_remote(directory) else Path(directory) / name


def _earlier() -> Iterator[str]:
    """Folder names for moved checkpoints, one after the other. An existing folder is never replaced."""
    yield EARLIER
    yield from (f"{EARLIER}-{number}" for number in count(2))


def forget(settings: Checkpoints) -> None:
    """Move the checkpoints of an earlier run to another folder, because a new run begins."""
    for directory in (settings.directory, inside(settings, REFIT)):
        place = place_of(directory)
        if names := place.names():
            folder = place.set_aside(names)
            log.warning("%s had %d checkpoints of an earlier run: moved to %s", place.address, len(names), folder)


class LocalCheckpoints:
    """The checkpoints in a local run directory."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.path = run / CHECKPOINTS
        self.address = str(self.path)
        self._scratch = files.Scratch()

    def names(self) -> list[str]:
        """Names of the checkpoints, oldest first."""
        return sorted((name for name in files.names(self.path) if step_of(name) >= 0), key=step_of)

    def read(self, name: str, only: str | None = None) -> dict[str, bytes]:
        """The verified files of one checkpoint, or only the file `only`."""
        return bundle.read(self.path / name, only=only)

    def write(self, name: str, contents: Mapping[str, files.Content]) -> None:
        """Write a checkpoint: write its files, read them back, then rename the directory."""
        bundle.write(self.path / name, contents, overwrite=True, scratch=self._scratch)
        bundle.confirm(self.path / name)

    def remove(self, name: str) -> None:
        """Remove a checkpoint."""
        files.remove_directory(self.path / name)

    def set_aside(self, names: list[str]) -> str:
        """Move checkpoints to the first unused folder of checkpoints-earlier, checkpoints-earlier-2, ...; return it."""
        aside = self.run / next(name for name in _earlier() if not (self.run / name).exists())
        try:
            files.make_directories(aside)
            for name in names:
                os.rename(files.present(self.path / name), aside / name)
            files.sync_directory(aside)
            files.sync_directory(self.path)
        except OSError as error:
            raise StorageError(f"{self.path} could not be changed: {error.strerror or error}") from error
        return aside.name

    def clean(self) -> None:
        """Remove unfinished checkpoints of a killed process."""
        files.remove_leftovers(self.path)
        files.remove_leftovers(self.run)

    def write_text(self, name: str, text: str) -> None:
        """Write a text file into the run directory."""
        files.write_text(self.run / name, text)


class RemoteCheckpoints:
    """The checkpoints at an fsspec address, such as s3://bucket/run."""

    def __init__(self, address: str) -> None:
        self._folder = RemoteFolder(address)
        self._system = self._folder.system
        self.address = f"{self._folder.address}/{CHECKPOINTS}"

    def names(self) -> list[str]:
        """Names of the checkpoints, oldest first."""
        return sorted((name for name in self._folder.names(CHECKPOINTS) if step_of(name) >= 0), key=step_of)

    def read(self, name: str, only: str | None = None) -> dict[str, bytes]:
        """The verified files of one checkpoint, or only the file `only`."""
        return self._folder.bundle(f"{CHECKPOINTS}/{name}", only)

    def write(self, name: str, contents: Mapping[str, files.Content]) -> None:
        """Write a checkpoint, its manifest last, and read everything back."""
        self._folder.write_bundle(f"{CHECKPOINTS}/{name}", contents)

    def remove(self, name: str) -> None:
        """Remove a checkpoint, its manifest first."""
        self._folder.remove_bundle(f"{CHECKPOINTS}/{name}")

    def set_aside(self, names: list[str]) -> str:
        """Move checkpoints to the first unused folder of checkpoints-earlier, checkpoints-earlier-2, ...; return it."""
        folder = next(name for name in _earlier() if not self._folder.names(name))
        aside = self._folder.path(folder)
        try:
            for name in names:
                self._folder.make(f"{folder}/{name}")
                # Copy everything, the manifest last, then remove: if interrupted, it exists at least once.
                for file in sorted(self._files(name), key=lambda file: file == bundle.MANIFEST):
                    self._system.cp_file(f"{self._path(name)}/{file}", f"{aside}/{name}/{file}")
                self.remove(name)
        except StorageError:
            raise
        except Exception as error:
            raise StorageError(f"{self.address} could not be changed: {error}") from error
        return folder

    def clean(self) -> None:
        """Remove unfinished checkpoints, which have no manifest."""
        for name in self.names():
            if bundle.MANIFEST not in self._files(name):
                self.remove(name)

    def write_text(self, name: str, text: str) -> None:
        """Write a text file into the run directory."""
        self._folder.write(name, text.encode())

    def _path(self, name: str) -> str:
        return self._folder.path(f"{CHECKPOINTS}/{name}")

    def _files(self, name: str) -> list[str]:
        return self._folder.names(f"{CHECKPOINTS}/{name}")
