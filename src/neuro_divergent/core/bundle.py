"""A bundle: a directory of safetensors and JSON files with a manifest of checksums, written atomically.

A bundle has no pickle, no code and no paths, so an untrusted bundle cannot run anything: at worst, reading it fails.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from neuro_divergent.core import files
from neuro_divergent.core.errors import CorruptFileError, StorageError
from neuro_divergent.core.json import parse_json as parse_json
from neuro_divergent.core.plain_files import plain_bytes as plain_bytes
from neuro_divergent.core.plain_files import settled
from neuro_divergent.core.tensor_files import check_safetensors as check_safetensors

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
MAX_FILES = 64
MAX_MANIFEST_BYTES = 2**20
MAX_BYTES = 64 * 2**30

Fetch = Callable[[str, int], bytes]
"""Function (name, limit) that returns the content of a file of the bundle, of at most `limit` bytes."""


def write(
    path: str | os.PathLike[str],
    contents: Mapping[str, files.Content],
    *,
    overwrite: bool = False,
    scratch: files.Scratch | None = None,
) -> None:
    """Write the files and a manifest to a new directory, atomically, and verify them by reading them back.

    Args:
        path: the directory to make.
        contents: its files by name.
        overwrite: replace a bundle that exists.
        scratch: memory for reading back, for callers that write often.
    """
    scratch = scratch or files.Scratch()
    facts = {name: facts_of(files.pieces(data)) for name, data in contents.items()}
    everything = {**contents, MANIFEST: manifest(facts)}
    with files.new_directory(path, overwrite=overwrite, synced=True, mark=MANIFEST) as directory:
        for name, data in everything.items():
            files.write_new(directory / name, data, sync=False)
        for name, data in everything.items():  # after all writes: the first flush also flushes most other files
            _settle(directory / name, data, scratch)


def manifest(facts: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the manifest: sizes and sha256 of the files."""
    return json.dumps({"format": FORMAT_VERSION, "files": facts}, indent=2).encode()


def facts_of(pieces: Iterable[bytes | memoryview]) -> dict[str, Any]:
    """Return the manifest entry of a file."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return {"sha256": digest.hexdigest(), "bytes": size}


def confirm(path: str | os.PathLike[str]) -> None:
    """Check that a written bundle has the files of its manifest, each with its size; CorruptFileError if not."""
    directory = Path(path)
    listed = _listed(str(directory), plain_bytes(directory / MANIFEST, MAX_MANIFEST_BYTES))
    found = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in os.scandir(directory)}
    found.pop(MANIFEST)
    if found != {name: facts["bytes"] for name, facts in listed.items()}:
        raise CorruptFileError(f"{directory} must have the files that were written to it, but does not")


def read(path: str | os.PathLike[str], *, only: str | None = None) -> dict[str, bytes]:
    """Return the files of a bundle, or only one of them, each checked against the manifest."""
    return settled(Path(path), lambda: _read(Path(path), only))


def _read(path: Path, only: str | None) -> dict[str, bytes]:
    directory = files.present(path)
    if directory.is_symlink():
        raise StorageError(
            f"{directory} must be a directory that save() made, but is a link to {os.path.realpath(directory)}. Give "
            "that path: a link could be changed while its files are read"
        )
    if directory.exists() and not directory.is_dir():
        raise StorageError(f"{directory} must be a directory that save() made, but it is not one")
    if not directory.exists():
        raise StorageError(f"{directory} must be a directory that save() made, but does not exist. Check the path")
    try:
        found = sorted(entry.name for entry in os.scandir(directory))
    except OSError as error:
        raise StorageError(f"{directory} could not be read: {error.strerror or error}") from error
    return verified(str(directory), found, lambda name, limit: plain_bytes(directory / name, limit), only=only)


def verified(place: str, found: Collection[str], fetch: Fetch, *, only: str | None = None) -> dict[str, bytes]:
    """Return the files of a local or remote bundle, or only one of them, each checked against the manifest."""
    if MANIFEST not in found:
        raise CorruptFileError(f"{place} has no {MANIFEST}: save() did not make it, or writing it was interrupted")
    listed = _listed(place, fetch(MANIFEST, MAX_MANIFEST_BYTES))
    if set(found) != {*listed, MANIFEST}:
        odd = sorted(set(found) ^ {*listed, MANIFEST})
        raise CorruptFileError(
            f"{place} must have exactly the files of its manifest, but differs in: {', '.join(odd[:6])}"
        )
    return {
        name: _checked(f"{place}/{name}", fetch(name, facts["bytes"]), facts)
        for name, facts in listed.items()
        if only in (None, name)
    }


def _listed(place: str, data: bytes) -> dict[str, dict[str, Any]]:
    document = parse_json(data, MANIFEST)
    if not isinstance(document, dict) or not isinstance(document.get("files"), dict):
        raise CorruptFileError(f"{place}/{MANIFEST} must list files, but does not")
    version = document.get("format")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise StorageError(
            f"this version reads the formats 1 to {FORMAT_VERSION}, but {place} has format {version!r}. "
            "Update neuro-divergent to read it"
        )
    listed: dict[str, dict[str, Any]] = document["files"]
    if len(listed) > MAX_FILES:
        raise CorruptFileError(f"{place}/{MANIFEST} must list at most {MAX_FILES} files, but lists {len(listed)}")
    for name, facts in listed.items():
        if name in ("", ".", "..", MANIFEST) or "/" in name or "\\" in name or "\0" in name:
            raise CorruptFileError(f"{place}/{MANIFEST} names a file outside of the directory: {name!r}")
        size = facts.get("bytes") if isinstance(facts, dict) else None
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_BYTES:
            raise CorruptFileError(f"{place}/{MANIFEST} must give the size of {name!r}, but has {size!r}")
    return listed


def _settle(path: Path, data: files.Content, scratch: files.Scratch) -> None:
    """Flush a file, and check that reading it gives what was written."""
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(descriptor)
        place = 0
        for piece in files.pieces(data):
            room = scratch.of(len(piece))
            if not files.equal(room[: files.read_into(descriptor, place, room)], piece):
                raise CorruptFileError(f"{path} must be read as it was written, but differs. Is the disk failing?")
            place += len(piece)
        if files.read_into(descriptor, place, scratch.of(1)):
            raise CorruptFileError(f"{path} must be read as it was written, but is longer")
    finally:
        os.close(descriptor)


def _checked(path: str, data: bytes, facts: dict[str, Any]) -> bytes:
    if len(data) != facts["bytes"]:
        raise CorruptFileError(f"{path} must have {facts['bytes']} bytes, but has {len(data)}")
    if hashlib.sha256(data).hexdigest() != facts.get("sha256"):
        raise CorruptFileError(f"{path} is damaged: its sha256 is not the one of the manifest")
    return data
