"""Finds the table in a text: its separator, the line of its column names, and the notes above and below it."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from neuro_divergent.core.errors import Advice, DataFileError
from neuro_divergent.data.read.sniff.first_row import NAMES, ROW, UNCLEAR, read_first_row, whole_cells

SEPARATORS = (",", ";", "\t", "|")
SAMPLE_BYTES = 2**16
SAMPLE_ROWS = 200
MOST_ABOVE = 50
"""Maximum number of lines above the column names."""
MOST_BELOW = 20
"""Maximum number of lines below the table."""
_VALUE = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d.,' \u00a0:/%-]*\)?|\d{4}-\d\d-\d\d.*")
"""A cell of digits and marks: a number, a date or a time."""

_RULE = re.compile(rb"^[ |+]*[-=]{3}[-=+| :]*(?=\r?$)", re.MULTILINE)


@dataclass(frozen=True)
class TextLayout:
    """The position of the table in a text."""

    separator: str
    header_line: int
    """The line of the column names, counted from 1; 0 if there is none, and the columns are numbered."""
    first_line: int
    """The line of the first row, counted from 1."""
    begin: int
    """The byte where the first row begins."""
    names: tuple[str, ...]
    second_names: tuple[str, ...] = ()
    """The cells of a second line of names or units."""
    below: tuple[str, ...] = ()
    """Lines below the table that are not rows."""
    end: int | None = None
    """The byte after the last row; None for the end of the text."""


def find_layout(data: bytes, name: str, *, separator: str | None, header_line: int | None) -> TextLayout:
    """The position of the table in UTF-8 text. Given values are not inferred."""
    if separator is not None and (len(separator.encode()) != 1 or separator in '\r\n"'):
        raise DataFileError(f"separator must be one character, but got separator={separator!r}")
    lines = _first_lines(data)
    if header_line is not None and not 0 <= header_line <= len(lines):
        raise DataFileError(
            f"header_line must be a line of {name}, or 0 if it has no column names, but got header_line={header_line}"
        )
    candidates = [separator] if separator else list(SEPARATORS)
    tried = [(one, _rows("".join(lines), one, name)) for one in candidates]
    chosen, rows = max(tried, key=lambda pair: _score(pair[1], header_line))
    place = find_header(rows, name, chosen, None if header_line is None else _row_of(header_line, lines, chosen))
    first = _line_of(place.first + 1, lines, chosen)
    begin = sum(len(line.encode()) for line in lines[: first - 1])
    below, end = _below(data, begin, chosen, len(place.names))
    line = 0 if place.header is None else header_line or _line_of(place.header + 1, lines, chosen)
    return TextLayout(chosen, line, first, begin, place.names, place.second, below, end)


class HeaderPlace(NamedTuple):
    """The rows of the column names, counted from 0."""

    header: int | None
    """None if the table has no names."""
    first: int
    """The first row of the table."""
    names: tuple[str, ...]
    second: tuple[str, ...] = ()
    """The cells of a second row of names."""


def find_header(rows: Sequence[Sequence[str]], name: str, separator: str, given: int | None = None) -> HeaderPlace:
    """Where the column names and the first row are.

    Args:
        rows: the first rows of the file.
        name: the name of the file.
        separator: the character between two cells.
        given: the row of the names, counted from 0; -1 if there are none. None finds it.
    """
    header = header_row(rows, name) if given is None else None if given < 0 else given
    if header is None:
        width = _usual_width(rows)
        first = next((n for n, row in enumerate(rows) if len(row) == width and any(map(str.strip, row))), 0)
        return HeaderPlace(None, first, tuple(f"column_{number + 1}" for number in range(width)))
    names = list(rows[header])
    second = _next_filled(rows, header + 1)
    if second is not None and _is_second(rows, second, len(names)):
        names = _together(names, rows[second])
        return HeaderPlace(
            header,
            _next_filled(rows, second + 1) or second + 1,
            checked_names(names, name, separator),
            tuple(rows[second]),
        )
    above = rows[header - 1] if header and given is None else ()
    if len({*filter(None, names)}) < len([*filter(None, names)]) and len(above) == len(names) and any(above):
        names = _together(above, names)
    return HeaderPlace(header, second or header + 1, checked_names(names, name, separator))


def _next_filled(rows: Sequence[Sequence[str]], start: int) -> int | None:
    return next((n for n in range(start, len(rows)) if any(cell.strip() for cell in rows[n])), None)


def _is_second(rows: Sequence[Sequence[str]], place: int, width: int) -> bool:
    """Whether a row below the names is a further row of names or units: it has no value where the rows have one."""
    return len(rows[place]) == width and read_first_row(rows[place], rows[place + 1 :], strict=True) == NAMES


def _together(upper: Sequence[str], lower: Sequence[str]) -> list[str]:
    """Names from two rows: the upper one, if its names are different; otherwise both, a group with its columns."""
    pairs = [(one.strip(), two.strip()) for one, two in zip(upper, lower, strict=True)]
    filled = [one or two for one, two in pairs]
    if len({*filled}) == len(filled) and all(one or number == 0 for number, (one, _) in enumerate(pairs)):
        return filled
    group, names = "", []
    for one, two in pairs:
        group = one or group
        names.append(f"{group} {two}".strip() if two else one)
    return names


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
    """The line in which a row begins, both counted from 1; rows above it may have cells with line breaks."""
    reader = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=separator)
    for _ in range(row - 1):
        next(reader, None)
    return reader.line_num + 1


def _row_of(line: int, lines: Sequence[str], separator: str) -> int:
    """The row, counted from 0, that begins in a line counted from 1; -1 for line 0."""
    reader = csv.reader(io.StringIO("".join(lines[: line - 1] if line else []), newline=""), delimiter=separator)
    return sum(1 for _ in reader) if line else -1


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
        return (0.5, whole_cells([row for row in rows if len(row) == width]), float(width))
    below = [row for row in rows[found + 1 :] if any(cell.strip() for cell in row)]
    same = sum(len(row) == len(rows[found]) for row in below) / max(1, len(below))
    split = sum(len(row) > 1 for row in rows) / len(rows)
    return (1.0 if same > 0.5 else 0.4, round(same + 0.01 * split, 3), float(len(rows[found])))


def _header_place(rows: Sequence[Sequence[str]]) -> int | None:
    """The first row that names all columns of the table; None if there is none."""
    number = _first_full(rows)
    return number if number is not None and read_first_row(rows[number], rows[number + 1 :]) == NAMES else None


def _first_full(rows: Sequence[Sequence[str]]) -> int | None:
    """The first row with a cell in every column; a first and a last one may be empty."""
    width = _usual_width(rows)
    for number, row in enumerate(rows[:MOST_ABOVE]):
        cells = [cell.strip() for cell in row]
        named = sum(map(bool, cells))
        spare = 2 if len(cells) > 3 and not cells[0] and not cells[-1] else 1
        if len(row) >= width and named >= max(1, len(cells) - spare, width - spare) and named >= min(2, width):
            return number
    return None


def header_row(rows: Sequence[Sequence[str]], name: str) -> int | None:
    """The row of column names, counted from 0; None if there are rows only.

    Titles, notes and blank lines may come before it.
    """
    filled = _next_filled(rows, 0)
    if filled is None:
        raise DataFileError(f"{name} must begin with a line of column names, but its first line is empty.")
    first = _first_full(rows)
    first = filled if first is None else first
    kind = read_first_row(rows[first], rows[first + 1 :])
    if kind == UNCLEAR:
        shown = ", ".join(map(repr, rows[first][:5]))
        raise DataFileError(
            f"{name} must show whether its first line names the columns, but it may be a row as well: {shown}. "
            f"Say header_line={first + 1} if it has names, header_line=0 if it is a row.",
            advice=[Advice("data.header_line", first + 1), Advice("data.header_line", 0)],
        )
    return None if kind == ROW else first


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


def without_rules(data: bytes) -> bytes:
    """The text without drawn lines of dashes, as lists of programs have them around their rows; lines are kept."""
    return _RULE.sub(b"", data) if _RULE.search(data[:SAMPLE_BYTES]) else data
