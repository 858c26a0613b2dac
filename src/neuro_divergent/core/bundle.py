"""A bundle: a directory of safetensors and JSON with a manifest, written whole and read only if every byte is right.

Nothing in a bundle can act: no pickle, no code, no path. A file from a stranger can fail, and that is all.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuro_divergent.core import files
from neuro_divergent.core.errors import CorruptFileError, StorageError

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
MAX_JSON_BYTES = 256 * 2**20
MAX_JSON_DEPTH = 64
MAX_HEADER_BYTES = 64 * 2**20
MAX_TENSORS = 1_000_000

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def write(path: str | os.PathLike[str], contents: Mapping[str, bytes], *, overwrite: bool = False) -> None:
    """Write the files and their manifest as a new directory, whole or not at all."""
    manifest = {
        "format": FORMAT_VERSION,
        "files": {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in contents.items()
        },
    }
    with files.new_directory(path, overwrite=overwrite) as directory:
        for name, data in contents.items():
            files.write_and_sync(directory / name, data)
        files.write_and_sync(directory / MANIFEST, json.dumps(manifest, indent=2).encode())


def read(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """The files of a bundle, after every one has been checked against the manifest."""
    directory = Path(path)
    if not directory.exists():
        raise StorageError(f"{directory} does not exist. Give the directory that save() made")
    if directory.is_symlink() or not directory.is_dir():
        raise StorageError(f"{directory} must be a directory that save() made, but it is not one")
    found = sorted(entry.name for entry in os.scandir(directory))
    if MANIFEST not in found:
        raise CorruptFileError(f"{directory} has no {MANIFEST}: it is not a saved model, or its writing was cut short")
    listed = _listed(directory)
    if set(found) != {*listed, MANIFEST}:
        odd = sorted(set(found) ^ {*listed, MANIFEST})
        raise CorruptFileError(f"{directory} must hold just the files of its manifest, but differs in: {', '.join(odd)}")
    return {name: _verified(directory / name, facts) for name, facts in listed.items()}


def parse_json(data: bytes, name: str) -> Any:
    """JSON from a stranger: limited in size and depth."""
    if len(data) > MAX_JSON_BYTES:
        raise CorruptFileError(f"{name} must be at most {MAX_JSON_BYTES} bytes, but has {len(data)}")
    # Brackets inside strings count too: that only makes the limit stricter.
    depth = deepest = 0
    for byte in data.translate(None, _NOT_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_JSON_DEPTH:
        raise CorruptFileError(f"{name} must be nested at most {MAX_JSON_DEPTH} deep, but is {deepest} deep")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{name} must be JSON, but is not: {error}") from None


def check_safetensors(data: bytes, name: str) -> None:
    """Refuse a header that is too large or lists too much, before anything is allocated for it."""
    if len(data) < 8:
        raise CorruptFileError(f"{name} must be a safetensors file, but has only {len(data)} bytes")
    (size,) = struct.unpack("<Q", data[:8])
    if size > MAX_HEADER_BYTES or size > len(data) - 8:
        raise CorruptFileError(f"{name} has a header of {size} bytes, which is more than the file or the limit allows")
    header = parse_json(data[8 : 8 + size], f"the header of {name}")
    if not isinstance(header, dict) or len(header) > MAX_TENSORS:
        raise CorruptFileError(f"{name} must list at most {MAX_TENSORS} tensors")


def _listed(directory: Path) -> dict[str, dict[str, Any]]:
    manifest = parse_json(_plain_bytes(directory / MANIFEST), MANIFEST)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise CorruptFileError(f"{directory / MANIFEST} must list files, but does not")
    version = manifest.get("format")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise StorageError(
            f"this version reads format {FORMAT_VERSION} and older, but {directory} has format {version!r}. "
            "Update neuro-divergent to read it"
        )
    for name, facts in manifest["files"].items():
        if name in ("", ".", "..", MANIFEST) or "/" in name or "\\" in name or "\0" in name:
            raise CorruptFileError(f"{directory / MANIFEST} names a file outside of the directory: {name!r}")
        if not isinstance(facts, dict) or not isinstance(facts.get("bytes"), int):
            raise CorruptFileError(f"{directory / MANIFEST} must give the size of {name!r}, but does not")
    listed: dict[str, dict[str, Any]] = manifest["files"]
    return listed


def _verified(path: Path, facts: dict[str, Any]) -> bytes:
    data = _plain_bytes(path)
    if len(data) != facts["bytes"]:
        raise CorruptFileError(f"{path} must have {facts['bytes']} bytes, but has {len(data)}")
    if hashlib.sha256(data).hexdigest() != facts.get("sha256"):
        raise CorruptFileError(f"{path} is damaged: its sha256 is not the one of the manifest")
    return data


def _plain_bytes(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CorruptFileError(f"{path} must be a plain file, but is not")
            return file.read()
    except OSError as error:
        raise CorruptFileError(f"{path} must be a readable plain file: {error.strerror or error}") from None
