"""The saved files of a run: checkpoints, models, and the index of models that were saved together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import CorruptFileError, StorageError
from neuro_divergent.core.json import check_format, from_plain, parse_json
from neuro_divergent.core.plain_files import settled
from neuro_divergent.core.runs.names import INDEX, INDEX_DOCUMENT, MODEL_DOCUMENT, STATE, member_name, step_of

INDEX_FORMAT = 1
"""Version of index.json. A reader accepts this version and older ones."""
MAX_MODELS = 1000

_DOCUMENTS = {"checkpoint": STATE, "model": MODEL_DOCUMENT, "index": INDEX_DOCUMENT}


@dataclass(frozen=True)
class Saved:
    """A checkpoint, a model, or the index of several models. Its files are read on first use."""

    kind: Literal["checkpoint", "model", "index"]
    path: str
    read: Callable[[str | None], dict[str, bytes]] = field(repr=False, compare=False)
    """Function that returns the verified files by name, or only one of them."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.replace(os.sep, "/").rsplit("/", 1)[-1]

    @property
    def step(self) -> int | None:
        """The step in the name of a checkpoint; None for others."""
        step = step_of(self.name)
        return step if self.kind == "checkpoint" and step >= 0 else None

    @property
    def document_name(self) -> str:
        """The name of the JSON file."""
        return _DOCUMENTS[self.kind]

    @cached_property
    def document(self) -> dict[str, Any]:
        """The contents of the JSON file. Only this file is checked against the manifest. CorruptFileError if bad."""
        return self._parsed(self.read(self.document_name))

    def verify(self) -> tuple[dict[str, Any], int]:
        """Check every byte against the manifest. Returns the contents of the JSON file, and the size of all files."""
        contents = self.read(None)
        return self._parsed(contents), sum(len(data) for data in contents.values())

    def _parsed(self, contents: dict[str, bytes]) -> dict[str, Any]:
        name = self.document_name
        if name not in contents:
            raise CorruptFileError(f"{self.path} must have the file {name}, but does not")
        document = from_plain(parse_json(contents[name], f"{self.path}/{name}"))
        if not isinstance(document, dict):
            raise CorruptFileError(f"{self.path}/{name} must be a JSON object, but is not")
        return document


def local(kind: Literal["checkpoint", "model", "index"], folder: Path) -> Saved:
    """Return a checkpoint, model or index in a local directory. The path of a model that was moved aside is its real
    one."""
    shown = files.present(folder) if kind == "model" else folder
    return Saved(kind, str(shown), lambda only: bundle.read(folder, only=only))


def saved_models(folder: Path) -> tuple[Saved, ...]:
    """Return the model in a directory, or an index and its models; empty if there is no directory."""
    return settled(folder, lambda: _saved_models(folder))  # during a replacement the directory may seem absent


def _saved_models(folder: Path) -> tuple[Saved, ...]:
    if not files.present(folder).is_dir():
        return ()
    if not is_many(folder):
        return (local("model", folder),)
    index = Saved("index", str(files.present(folder)), partial(_index_files, folder))
    try:
        return index, *(local("model", member) for member in read_index(folder)[1])
    except StorageError:  # reading the index raises it again
        return (index,)


def is_many(path: str | os.PathLike[str]) -> bool:
    """Return whether a directory contains several models."""
    return (files.present(Path(path)) / INDEX).is_dir()


def read_index(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[Path]]:
    """Return the index of several models saved together, and their directories. Other files there are refused."""
    return settled(Path(path), lambda: _read_index(files.present(Path(path))))


def _read_index(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    if folder.is_symlink():
        raise StorageError(f"{folder} must be a directory that save() made, but it is not one")
    contents = bundle.read(folder / INDEX)
    if INDEX_DOCUMENT not in contents:
        raise CorruptFileError(f"{folder / INDEX} must have the file {INDEX_DOCUMENT}, but does not")
    facts = bundle.parse_json(contents[INDEX_DOCUMENT], INDEX_DOCUMENT)
    check_format(facts, INDEX_FORMAT, f"{folder / INDEX}/{INDEX_DOCUMENT}")
    count = facts.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_MODELS:
        raise CorruptFileError(f"{folder / INDEX} must have the number of models, but got count={count!r}")
    members = [folder / member_name(number) for number in range(count)]
    odd = sorted({INDEX, *(member.name for member in members)} ^ set(os.listdir(folder)))
    if odd:
        raise CorruptFileError(f"{folder} must have its index and {count} models, but differs in: {', '.join(odd[:6])}")
    # Files of the first version have no digests of their models' manifests.
    if "manifests" in facts and facts["manifests"] != [manifest_digest(member) for member in members]:
        raise CorruptFileError(f"{folder} must have the models that were saved together, but some were replaced")
    return facts, members


def manifest_digest(member: Path) -> str:
    """Return the sha256 of a model's manifest, by which the index identifies the model."""
    return hashlib.sha256(bundle.plain_bytes(member / bundle.MANIFEST, bundle.MAX_MANIFEST_BYTES)).hexdigest()


def _index_files(folder: Path, only: str | None) -> dict[str, bytes]:
    """The files of an index, after a check of its models."""

    def read() -> dict[str, bytes]:
        read_index(folder)
        return bundle.read(files.present(folder) / INDEX, only=only)

    return settled(folder, read)
