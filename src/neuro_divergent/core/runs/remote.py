"""Files at a remote address such as s3://bucket/run, read by fsspec. fsspec is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import CorruptFileError, NoCheckpointError, StorageError
from neuro_divergent.core.extras import require

ADVICE = "Check the address, the credentials and the connection"
_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oci", "oss"})
"""Protocols of object stores. They have no folders, only prefixes of names."""


_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "az": "azure", "abfs": "azure", "abfss": "azure"}
"""The extra of this distribution that installs the file system of a protocol."""


def extra_of(address: str) -> str:
    """Return the extra that an address needs.

    >>> extra_of("gs://bucket/run"), extra_of("abfs://container/run")
    ('gcs', 'azure')
    """
    return _EXTRAS.get(address.partition("://")[0], "s3")


class RemoteFolder:
    """A remote directory, read by fsspec. A network failure is an error, never an empty directory."""

    def __init__(self, address: str) -> None:
        protocol, extra = address.partition("://")[0], extra_of(address)
        fsspec = require("fsspec", extra=extra, purpose="A remote run directory")
        self.address = address.rstrip("/")
        try:
            self.system, self.root = fsspec.core.url_to_fs(address)
        except (ImportError, ValueError) as error:
            known = f"For {protocol}:// install it with: pip install 'neuro-divergent[{extra}]'"
            other = "Addresses begin with s3://, gs://, az:// or abfs://, or with a protocol that fsspec knows"
            raise StorageError(
                f"{address} could not be opened: {error}. {known if protocol in _EXTRAS else other}"
            ) from error

    def path(self, name: str = "") -> str:
        """Return the path of a file or folder in the form of the file system."""
        return f"{self.root}/{name}" if name else str(self.root)

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder; empty if there is no such folder."""
        self.system.invalidate_cache()
        try:
            entries: list[Any] = self.system.ls(self.path(folder), detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            where = f"{self.address}/{folder}".rstrip("/")
            raise StorageError(f"{where} could not be listed: {error}. {ADVICE}") from error
        return [str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in entries]

    def read(self, name: str, limit: int) -> bytes:
        """Return the bytes of a file. A file of more than `limit` bytes is refused."""
        where = f"{self.address}/{name}"
        try:
            # One byte more than allowed detects a file that is too long without reading all of it.
            content: bytes = self.system.cat_file(self.path(name), start=0, end=limit + 1)
        except FileNotFoundError as error:
            raise CorruptFileError(f"{where.rpartition('/')[0]} lacks {where.rpartition('/')[2]}") from error
        except Exception as error:  # a network failure does not mean that the file is missing
            raise StorageError(f"{where} could not be read: {error}. {ADVICE}") from error
        if len(content) > limit:
            raise CorruptFileError(f"{where} must have at most {limit} bytes, but has more")
        return content

    def bundle(self, folder: str, only: str | None = None) -> dict[str, bytes]:
        """Return the verified files of a bundle, or only one. NoCheckpointError if writing it was interrupted."""
        found, where = self.names(folder), f"{self.address}/{folder}"
        if bundle.MANIFEST not in found:  # it is written last: without it the bundle is incomplete, not damaged
            raise NoCheckpointError(f"{where} has no {bundle.MANIFEST}: writing it was interrupted")
        return bundle.verified(
            where, found, lambda name, limit: self.read(f"{folder}/{name}".lstrip("/"), limit), only=only
        )

    def write_bundle(self, folder: str, contents: Mapping[str, files.Content]) -> None:
        """Write a bundle in place of one that is there: its manifest last; then read everything back."""
        place, where = self.path(folder), f"{self.address}/{folder}".rstrip("/")
        try:
            if self.system.exists(place):
                self.remove_bundle(folder)
            self.make(folder)
            for file, data in contents.items():
                self.system.pipe_file(f"{place}/{file}", files.whole(data))
            facts = {file: bundle.facts_of(files.pieces(data)) for file, data in contents.items()}
            self.system.pipe_file(f"{place}/{bundle.MANIFEST}", bundle.manifest(facts))
        except Exception as error:
            raise StorageError(
                f"{where} could not be written: {error}. {ADVICE}", rule="writable", got=where
            ) from error
        self.bundle(folder)

    def remove_bundle(self, folder: str) -> None:
        """Remove a bundle, its manifest first."""
        place = self.path(folder)
        try:
            if self.system.exists(f"{place}/{bundle.MANIFEST}"):
                self.system.rm_file(f"{place}/{bundle.MANIFEST}")
            self.system.rm(place, recursive=True)
        except Exception as error:
            raise StorageError(f"{self.address}/{folder} could not be removed: {error}") from error

    def write(self, name: str, data: bytes) -> None:
        """Write a file, and create its folder if the file system has folders."""
        try:
            self.make(name.rpartition("/")[0])
            self.system.pipe_file(self.path(name), data)
        except Exception as error:
            where = f"{self.address}/{name}"
            raise StorageError(
                f"{where} could not be written: {error}. {ADVICE}", rule="writable", got=where
            ) from error

    def make(self, folder: str = "") -> None:
        """Create a folder, except in an object store, where that could create a bucket."""
        protocol = self.system.protocol
        if not _STORES.intersection([protocol] if isinstance(protocol, str) else protocol):
            self.system.makedirs(self.path(folder), exist_ok=True)
