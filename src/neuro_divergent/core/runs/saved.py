"""What a run saves: checkpoints, models, and the index of models that were saved together."""

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
from neuro_divergent.core.formats import check_format
from neuro_divergent.core.json import from_plain, parse_json
from neuro_divergent.core.plain_files import settled
from neuro_divergent.core.runs.names import INDEX, INDEX_DOCUMENT, MODEL_DOCUMENT, STATE, member_name, step_of

INDEX_FORMAT = 1
"""Version of index.json. A reader takes this one and older ones."""
MAX_MODELS = 1000

_DOCUMENTS = {"checkpoint": STATE, "model": MODEL_DOCUMENT, "index": INDEX_DOCUMENT}


@dataclass(frozen=True)
class Saved:
    """A checkpoint, a model, or the index of several models. Nothing of it is read before it is asked for."""

    kind: Literal["checkpoint", "model", "index"]
    path: str
    read: Callable[[str | None], dict[str, bytes]] = field(repr=False, compare=False)
    """Gives its verified files by name, or one of them."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.replace(os.sep, "/").rsplit("/", 1)[-1]

    @property
    def step(self) -> int | None:
        """The step of a checkpoint, by its name."""
        step = step_of(self.name)
        return step if self.kind == "checkpoint" and step >= 0 else None

    @property
    def document_name(self) -> str:
        """The name of its JSON file."""
        return _DOCUMENTS[self.kind]

    @cached_property
    def document(self) -> dict[str, Any]:
        """What its JSON says. Only that file is checked against the manifest; CorruptFileError if it is damaged."""
        return self._parsed(self.read(self.document_name))

    def verify(self) -> tuple[dict[str, Any], int]:
        """Check every byte against the manifest; give what its JSON says, and how many bytes its files have."""
        contents = self.read(None)
        return self._parsed(contents), sum(len(data) for data in contents.values())

    def _parsed(self, contents: dict[str, bytes]) -> dict[str, Any]:
        name = self.document_name
        if name not in contents:
            raise CorruptFileError(f"{self.path} must hold {name}, but does not")
        document = from_plain(parse_json(contents[name], f"{self.path}/{name}"))
        if not isinstance(document, dict):
            raise CorruptFileError(f"{self.path}/{name} must hold an object, but does not")
        return document


def local(kind: Literal["checkpoint", "model", "index"], folder: Path) -> Saved:
    """Something saved in a local directory; a model that was moved aside is shown where it is."""
    shown = files.present(folder) if kind == "model" else folder
    return Saved(kind, str(shown), lambda only: bundle.read(folder, only=only))


def saved_models(folder: Path) -> tuple[Saved, ...]:
    """The model in a directory, or the index of several and these; nothing where there is no directory."""
    return settled(folder, lambda: _saved_models(folder))  # while it is replaced, it may seem to be gone


def _saved_models(folder: Path) -> tuple[Saved, ...]:
    if not files.present(folder).is_dir():
        return ()
    if not is_many(folder):
        return (local("model", folder),)
    index = Saved("index", str(files.present(folder)), partial(_index_files, folder))
    try:
        return index, *(local("model", member) for member in read_index(folder)[1])
    except StorageError:  # asking for the index tells why
        return (index,)


def is_many(path: str | os.PathLike[str]) -> bool:
    """Whether a directory holds several models."""
    return (files.present(Path(path)) / INDEX).is_dir()


def read_index(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[Path]]:
    """What several models are together, and their directories: those that were saved, and nothing else beside them."""
    return settled(Path(path), lambda: _read_index(files.present(Path(path))))


def _read_index(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    if folder.is_symlink():
        raise StorageError(f"{folder} must be a directory that save() made, but it is not one")
    contents = bundle.read(folder / INDEX)
    if INDEX_DOCUMENT not in contents:
        raise CorruptFileError(f"{folder / INDEX} must hold {INDEX_DOCUMENT}, but does not")
    facts = bundle.parse_json(contents[INDEX_DOCUMENT], INDEX_DOCUMENT)
    check_format(facts, INDEX_FORMAT, f"{folder / INDEX}/{INDEX_DOCUMENT}")
    count = facts.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_MODELS:
        raise CorruptFileError(f"{folder / INDEX} must say how many models there are, but says {count!r}")
    members = [folder / member_name(number) for number in range(count)]
    odd = sorted({INDEX, *(member.name for member in members)} ^ set(os.listdir(folder)))
    if odd:
        raise CorruptFileError(f"{folder} must hold its index and {count} models, but differs in: {', '.join(odd[:6])}")
    # Files of the first version say nothing about their models' manifests.
    if "manifests" in facts and facts["manifests"] != [manifest_digest(member) for member in members]:
        raise CorruptFileError(f"{folder} must hold the models that were saved together, but some are others")
    return facts, members


def manifest_digest(member: Path) -> str:
    """The sha256 of a model's manifest, by which the index knows the model."""
    return hashlib.sha256(bundle.plain_bytes(member / bundle.MANIFEST, bundle.MAX_MANIFEST_BYTES)).hexdigest()


def _index_files(folder: Path, only: str | None) -> dict[str, bytes]:
    """The files of an index that fits the models beside it."""

    def read() -> dict[str, bytes]:
        read_index(folder)
        return bundle.read(files.present(folder) / INDEX, only=only)

    return settled(folder, read)
