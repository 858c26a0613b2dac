"""Finds the table in a text: its separator, the line of its column names, and the notes above and below it."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from neuro_divergent.core.errors import Advice, DataFileError

SEPARATORS = (",", ";", "\t", "|")
SAMPLE_BYTES = 2**16
SAMPLE_ROWS = 200
MOST_ABOVE = 50
"""Maximum number of lines above the column names."""
MOST_BELOW = 20
"""Maximum number of lines below the table."""
_VALUE = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,' \u00a0:/%-]*\)?|\d{4}-\d\d-\d\d.*")
"""A cell of digits and marks: a number, a date or a time."""


@dataclass(frozen=True)
class TextLayout:
    """The position of the table in a text."""

    separator: str
    header_line: int
    """Counted from 1."""
    begin: int
    """The byte where the header line begins."""
    names: tuple[str, ...]
    below: tuple[str, ...] = ()
    """Lines below the table that are not rows."""
    end: int | None = None
    """The byte after the last row; None for the end of the text."""


def find_layout(data: bytes, name: str, *, separator: str | None, header_line: int | None) -> TextLayout:
    """The position of the table in UTF-8 text. Given values are not inferred."""
    if separator is not None and (len(separator.encode()) != 1 or separator in '\r\n"'):
        raise DataFileError(f"separator must be one character, but got separator={separator!r}")
    lines = _first_lines(data)
    if header_line is not None and not 1 <= header_line <= len(lines):
        raise DataFileError(f"header_line must be a line of {name}, but got header_line={header_line}")
    candidates = [separator] if separator else list(SEPARATORS)
    tried = [(one, _rows("".join(lines), one, name)) for one in candidates]
    chosen, rows = max(tried, key=lambda pair: _score(pair[1], header_line))
    number = header_line if header_line is not None else header_row(rows, name) + 1
    if header_line is None and len(rows) != len(lines) and number > 1:
        number = _line_of(number, lines, chosen)
    begin = sum(len(line.encode()) for line in lines[: number - 1])
    header = next(iter(_rows("".join(lines[number - 1 :]), chosen, name)), [])
    names = checked_names(header, name, chosen)
    below, end = _below(data, begin, chosen, len(names))
    return TextLayout(chosen, number, begin, names, below, end)


def _first_lines(data: bytes) -> list[str]:
    sample = data[:SAMPLE_BYTES]
    if len(data) > SAMPLE_BYTES:
        cut = sample.rfind(b"\n") + 1
        sample = sample[:cut] if cut else sample
    return list(io.StringIO(sample.decode("utf-8", "ignore"), newline="\n"))[: SAMPLE_ROWS + MOST_ABOVE]


def _rows(text: str, separator: str, name: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error as error:
        raise DataFileError(f"{name} must be a table, but: {error}.") from None


def _line_of(row: int, lines: Sequence[str], separator: str) -> int:
    """The line in which a row begins; rows above it may have cells with line breaks."""
    reader = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=separator)
    for _ in range(row - 1):
        next(reader)
    return reader.line_num + 1


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    """The most common number of cells, without blank lines; the larger one of two that are equally common."""
    widths = Counter(len(row) for row in rows if any(cell.strip() for cell in row))
    return max(widths, key=lambda width: (widths[width], width), default=0)


def _score(rows: list[list[str]], header_line: int | None) -> tuple[float, ...]:
    """How well a separator explains the lines: the names above the values, equal widths, many columns."""
    width = _usual_width(rows)
    if width < 2:
        return (0.0, 0.0, 0.0)
    found = _header_place(rows) if header_line is None else min(header_line, len(rows)) - 1
    if found is None:
        return (0.5, 0.0, float(width))
    below = [row for row in rows[found + 1 :] if any(cell.strip() for cell in row)]
    same = sum(len(row) == len(rows[found]) for row in below) / max(1, len(below))
    split = sum(len(row) > 1 for row in rows) / len(rows)
    return (1.0 if same > 0.5 else 0.4, round(same + 0.01 * split, 3), float(len(rows[found])))


def _header_place(rows: Sequence[Sequence[str]]) -> int | None:
    """The first row that names all columns of the table; None if there is none."""
    width = _usual_width(rows)
    for number, row in enumerate(rows[:MOST_ABOVE]):
        cells = [cell.strip() for cell in row]
        named = [cell for cell in cells if cell]
        if len(row) < width or len(named) < max(1, len(cells) - 1, width - 1) or len(named) < min(2, width):
            continue
        values = sum(bool(_VALUE.fullmatch(cell)) for cell in named)
        return number if values < len(named) and not _is_data(cells, rows[number + 1 : number + 2]) else None
    return None


def _is_data(cells: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a row looks like the row below it: values in the same columns, and at least one value."""
    if not below or len(below[0]) != len(cells):
        return False
    here = [bool(_VALUE.fullmatch(cell)) for cell in cells]
    there = [bool(_VALUE.fullmatch(cell.strip())) for cell in below[0]]
    return (
        any(here) and here == there and not _are_years([cell for cell, value in zip(cells, here, strict=True) if value])
    )


def _are_years(cells: Sequence[str]) -> bool:
    """Whether the cells are years, in a table with one column per year."""
    if len(cells) < 4 or not all(re.fullmatch(r"1[5-9]\d\d|2[01]\d\d", cell) for cell in cells):
        return False
    return list(cells) in (sorted({*cells}), sorted({*cells}, reverse=True))


def header_row(rows: Sequence[Sequence[str]], name: str) -> int:
    """The row of column names, counted from 0. Titles, notes and blank lines may come before it."""
    filled = [number for number, row in enumerate(rows) if any(cell.strip() for cell in row)]
    if not filled:
        raise DataFileError(f"{name} must begin with a line of column names, but its first line is empty.")
    found = _header_place(rows)
    if found is not None:
        return found
    first = rows[filled[0]]
    if len(filled) > 1 and _is_data([cell.strip() for cell in first], [rows[filled[1]]]):
        shown = ", ".join(map(repr, first[:5]))
        raise DataFileError(
            f"{name} must have a line of column names above its rows, but its first line is a row: {shown}. "
            "Write the names above it, such as ds,y, or say header_line=... if they are further below.",
            advice=[Advice("data.header_line")],
        )
    return filled[0]


def checked_names(header: Sequence[str], name: str, separator: str) -> tuple[str, ...]:
    """The names of the columns, which must be unique."""
    if not header or not any(cell.strip() for cell in header):
        raise DataFileError(f"{name} must begin with a line of column names, but its first line is empty.")
    twice = sorted({cell for cell in header if cell and header.count(cell) > 1})
    if twice:
        raise DataFileError(f"{name} must name each column once, but got {', '.join(map(repr, twice))} more than once.")
    if len(header) == 1:
        for other in SEPARATORS:
            if other != separator and other in header[0]:
                raise DataFileError(
                    f"{name} must have several columns, but got one named {header[0][:80]!r}. Say separator={other!r}.",
                    advice=[Advice("data.separator", other)],
                )
    return tuple(header)


def _below(data: bytes, begin: int, separator: str, width: int) -> tuple[tuple[str, ...], int | None]:
    """Notes below the table: lines with another number of cells, without a number or date."""
    tail = max(begin, len(data) - SAMPLE_BYTES)
    lines = data[tail:].split(b"\n")
    end, found, notes = len(data), [], 0
    for line in reversed(lines):
        text = line.decode("utf-8", "ignore").strip("\r")
        size = len(line) + 1
        if not text.strip():
            end -= size
            continue
        cells = text.split(separator)
        values = any(_VALUE.fullmatch(cell.strip()) for cell in cells)
        if width < 2 or len(cells) == width or values or notes == MOST_BELOW or '"' in text:
            break
        found.append(text.strip(separator + " "))
        notes += 1
        end -= size
    return (tuple(reversed(found)), max(end, begin)) if found else ((), None)


def rows_of(data: bytes, separator: str, name: str) -> Iterator[list[str]]:
    """The cells of every row, one after the other."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    try:
        yield from csv.reader(lines, delimiter=separator)
    except (csv.Error, ValueError) as error:
        raise DataFileError(f"{name} must be a table, but: {error}.") from None
