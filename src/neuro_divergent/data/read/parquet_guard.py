"""Checks the page headers of a Parquet file before the reader uses them.

The reader reserves memory for as many values as a header says. A damaged header with a negative number ends the whole
process instead of raising an error. Headers are Thrift structures in the compact protocol. Only the few numbers that
matter are checked; everything else is left to the reader.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

from neuro_divergent.core.errors import DataFileError

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_VALUES = {5: "data page", 7: "dictionary page", 8: "data page"}
"""Fields of a page header whose field 1 is the number of values of the page."""


class _UnknownError(Exception):
    """The format is not the expected one."""


def check_pages(file: Path) -> None:
    """Refuse a file with a page whose header has an impossible size or number of values."""
    if what := _damage(file):
        raise DataFileError(f"{file} is damaged: a page header says {what}. Write or download the file again.")


def _damage(file: Path) -> str | None:
    try:
        with file.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return next((found for chunk in _chunks(data) if (found := _damage_of(data, *chunk))), None)
    except (
        _UnknownError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        struct.error,
        ValueError,
        OSError,
        RecursionError,
    ):
        return None  # the reader explains what is wrong


def _chunks(data: mmap.mmap) -> list[tuple[int, int, int]]:
    """Start of the pages of each column of each row group, their size in bytes, and their number of values."""
    end = len(data)
    if end < 12 or data[end - 4 : end] != b"PAR1":
        raise _UnknownError
    length = struct.unpack("<I", data[end - 8 : end - 4])[0]
    if length > end - 8:
        raise _UnknownError
    footer, _ = _struct(data, end - 8 - length)
    found = []
    for group in footer.get(4, ()):
        for column in group.get(1, ()):
            facts = column.get(3, {})
            starts = [facts[key] for key in (9, 11) if facts.get(key)]
            if starts:
                found.append((min(starts), facts[7], facts[5]))
    return found


def _damage_of(data: mmap.mmap, start: int, size: int, values: int) -> str | None:
    """What is impossible in the pages of a column; None if nothing is."""
    place, seen = start, 0
    while place < start + size and seen < values:
        header, after = _struct(data, place)
        for field, kind in _VALUES.items():
            if field in header:
                count = header[field].get(1, 0)
                if not 0 <= count < 1 << 31:
                    return f"a {kind} of {count} values"
                seen += count if kind == "data page" else 0
        if not 0 <= header.get(3, 0) <= len(data) - after or header.get(2, 0) < 0:
            return f"a page of {header.get(3)} bytes that become {header.get(2)}"
        place = after + int(header.get(3, 0))
    return None


def _struct(data: mmap.mmap, place: int) -> tuple[dict[int, Any], int]:
    """The fields of a structure by number, and the position of its end."""
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[place]
        place += 1
        kind, step = head & 15, head >> 4
        if kind == 0:
            return fields, place
        if step:
            number += step
        else:
            number, place = _signed(data, place)
        fields[number], place = _value(data, place, kind)


def _value(data: mmap.mmap, place: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind == _BYTE:
        return data[place], place + 1
    if kind in _INTEGERS:
        return _signed(data, place)
    if kind == _DOUBLE:
        return None, place + 8
    if kind == _BINARY:
        length, place = _unsigned(data, place)
        return None, place + length
    if kind in (_LIST, _SET):
        return _list(data, place)
    if kind == _STRUCT:
        return _struct(data, place)
    raise _UnknownError


def _list(data: mmap.mmap, place: int) -> tuple[list[Any], int]:
    head = data[place]
    count, kind = head >> 4, head & 15
    place += 1
    if count == 15:
        count, place = _unsigned(data, place)
    if count > len(data):
        raise _UnknownError
    items = []
    for _ in range(count):
        # In a list, a boolean takes a byte of its own.
        item, place = (data[place] == 1, place + 1) if kind in (_TRUE, _FALSE) else _value(data, place, kind)
        items.append(item)
    return items, place


def _unsigned(data: mmap.mmap, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise _UnknownError


def _signed(data: mmap.mmap, place: int) -> tuple[int, int]:
    value, place = _unsigned(data, place)
    return (value >> 1) ^ -(value & 1), place
