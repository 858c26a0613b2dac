"""The bytes of a file or stream, decompressed within limits: gzip, zip with one member, zstandard."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from pathlib import Path
from typing import IO

import polars as pl

from neuro_divergent.core.errors import DataFileError

PathLike = str | os.PathLike[str]
Source = PathLike | IO[bytes]

MAX_UNPACKED = 16 * 2**30
"""Maximum size of a decompressed file in bytes."""
FREE_UNPACKED = 2**30
"""Size in bytes that any decompressed file may have; more only in proportion to the compressed size."""
MAX_RATIO = 100
_PIECE = 2**20
_ZSTD_BLOCK = 128 * 2**10
_WORKBOOK = "xl/workbook.xml"


def source_name(source: Source) -> str:
    """The name of the source in messages."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return "standard input" if getattr(source, "name", None) in ("<stdin>", 0) else "the stream"


def existing(path: PathLike) -> Path:
    """The path of a file that exists and is not empty."""
    file = Path(path)
    try:
        if file.is_dir():
            raise DataFileError(f"{file} must be a file, but it is a directory. Name a file inside it.")
        if not file.is_file():
            raise DataFileError(f"{file} must be an existing file, but there is none. Check the path.")
        if file.stat().st_size == 0:
            raise DataFileError(f"{file} must have content, but it is empty (0 bytes).")
    except (OSError, ValueError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{path!r} must be a readable file, but: {error}") from None
    return file


def contents(source: Source) -> bytes:
    """The content of a file or stream, decompressed. A workbook is returned unchanged."""
    name = source_name(source)
    try:
        if isinstance(source, str | os.PathLike):
            data = existing(source).read_bytes()
        else:
            data = source.read(MAX_UNPACKED + 1)
    except OSError as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{name} cannot be read: {error.strerror or error}") from None
    if not isinstance(data, bytes):
        raise DataFileError(f"{name} must give bytes, but gives text. Open it in binary mode.")
    if len(data) > MAX_UNPACKED and not isinstance(source, str | os.PathLike):
        raise DataFileError(f"{name} must have at most {MAX_UNPACKED:,} bytes. Write it to a file first.")
    if not data:
        raise DataFileError(f"{name} must have content, but it is empty (0 bytes).")
    return _unpacked(data, name)


def is_workbook(data: bytes) -> bool:
    """Whether the bytes are an .xlsx file, which is a zip file itself."""
    if not data.startswith(b"PK\x03\x04"):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _WORKBOOK in archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError):
        return False


def _unpacked(data: bytes, name: str) -> bytes:
    limit = min(MAX_UNPACKED, max(FREE_UNPACKED, MAX_RATIO * len(data)))
    if data.startswith(b"\x1f\x8b"):
        return _gunzipped(data, name, limit)
    if data.startswith(b"PK\x03\x04"):
        return data if is_workbook(data) else _unzipped(data, name, limit)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return _from_zstd(data, name, limit)
    return data


def _too_big(name: str, limit: int) -> DataFileError:
    return DataFileError(
        f"{name} must have at most {limit:,} bytes when it is decompressed, but has more. If you trust it, decompress "
        "it yourself first."
    )


def _gunzipped(data: bytes, name: str, limit: int) -> bytes:
    found = bytearray()
    try:
        while data:
            unpacker = zlib.decompressobj(wbits=31)
            while not unpacker.eof:
                piece = unpacker.decompress(data, _PIECE)
                found += piece
                if len(found) > limit:
                    raise _too_big(name, limit)
                data = unpacker.unconsumed_tail
                if not piece and not data and not unpacker.eof:
                    raise DataFileError(f"{name} must be a whole gzip file, but it ends too early. Copy it again.")
            data = unpacker.unused_data.lstrip(b"\0")  # a further member; some writers pad with zeros
    except zlib.error as error:
        raise DataFileError(f"{name} must be a gzip file, but is damaged: {error}. Copy it again.") from None
    return bytes(found)


def _unzipped(data: bytes, name: str, limit: int) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [
                one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX/")
            ]
            if len(members) != 1:
                names = ", ".join(one.filename for one in members[:5])
                raise DataFileError(
                    f"{name} must be a zip file with one table, but it has {len(members)} files ({names}). "
                    "Unpack it and name the table."
                )
            with archive.open(members[0]) as file:
                found = file.read(limit + 1)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, ValueError, OSError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{name} must be a readable zip file, but: {error}. Unpack it yourself.") from None
    if len(found) > limit:
        raise _too_big(name, limit)
    return found


def _from_zstd(data: bytes, name: str, limit: int) -> bytes:
    """Decompressed by polars, which does it all at once: so the blocks are counted first."""
    if _zstd_bound(data, name) > limit:
        raise _too_big(name, limit)
    try:
        lines = pl.read_csv(
            io.BytesIO(data), has_header=False, separator="\x1f", quote_char=None, infer_schema=False, eol_char="\x1e"
        )
        return "\x1e".join(lines.to_series().fill_null("").to_list()).encode()
    except pl.exceptions.PolarsError as error:
        raise DataFileError(
            f"{name} cannot be decompressed: {str(error).splitlines()[0][:200]}. Decompress it yourself first."
        ) from None


def _zstd_bound(data: bytes, name: str) -> int:
    """The maximum number of bytes that the blocks of all frames can have."""
    place, bound = 0, 0
    try:
        while place < len(data):
            magic = int.from_bytes(data[place : place + 4], "little")
            place += 4
            if 0x184D2A50 <= magic <= 0x184D2A5F:  # a frame to be skipped
                place += 4 + int.from_bytes(data[place : place + 4], "little")
                continue
            if magic != 0xFD2FB528:
                raise IndexError
            flags = data[place]
            single = flags >> 5 & 1
            place += 1 + (not single) + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
            last = 0
            while not last:
                block = int.from_bytes(data[place : place + 3], "little")
                if place + 3 > len(data):
                    raise IndexError
                last, kind, size = block & 1, block >> 1 & 3, block >> 3
                bound += _ZSTD_BLOCK if kind == 2 else size
                place += 3 + (1 if kind == 1 else size)
            place += 4 * (flags >> 2 & 1)
    except IndexError:
        raise DataFileError(f"{name} must be a zstandard file, but is damaged. Copy it again.") from None
    return bound
