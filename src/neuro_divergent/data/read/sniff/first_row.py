"""Whether the first row of a table has names or values. The rows below it decide, column by column."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from neuro_divergent.data.read.columns import MISSING_TEXT

NAMES: Literal["names"] = "names"
ROW: Literal["row"] = "row"
UNCLEAR: Literal["unclear"] = "unclear"
Kind = Literal["names", "row", "unclear"]

LOOKED_AT = 100
"""How many rows below the first one are compared with it."""
LONGEST = 60
"""Signs of a cell that are looked at."""
_EMPTY = {*MISSING_TEXT, "", "-", "--", "–", "..", "...", ":"}
_NUMBER = re.compile(r"[-+−(]?\s?[$€£¥]?\s?[-+−]?[.,]?\d[\d.,'’ \u00a0\u2009\u202f]*(?:[eE][-+]?\d+)?\s?[%$€£¥]?\)?-?")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?!\d).*|\d{4}-\d{1,2}|\d{1,2}:\d\d.*")
_YEAR = re.compile(r"1[5-9]\d\d|2[01]\d\d")


def read_first_row(cells: Sequence[str], below: Sequence[Sequence[str]], *, strict: bool = False) -> Kind:
    """What a row has: names of columns, or values like the rows below it.

    Args:
        cells: the row.
        below: the rows below it. Those with another number of cells do not count.
        strict: whether words alone do not make it a row of names: some column must have values below a word.
    """
    rows = [row for row in below[:LOOKED_AT] if len(row) == len(cells)]
    pairs = [(_kind(cell), _column_kind([row[n] for row in rows]), n) for n, cell in enumerate(cells)]
    pairs = [(own, column, n) for own, column, n in pairs if own != "empty" and column in ("date", "number", "label")]
    if any(own == column == "date" for own, column, _ in pairs):
        return ROW
    alike = [n for own, column, n in pairs if own == column == "number"]
    if any(own != column for own, column, _ in pairs):
        return ROW if strict and alike else NAMES
    if not alike:
        return ROW if strict or pairs else NAMES
    heads = [cells[n].strip() for n in alike]
    if not strict and _are_names(heads, rows, alike):
        return NAMES
    years = [n for n in alike if _YEAR.fullmatch(cells[n].strip())]
    other = any(not any(_YEAR.fullmatch(row[n].strip()) for row in rows) for n in years)
    return UNCLEAR if other and not strict else ROW


def _are_names(heads: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[int]) -> bool:
    """Whether numbers are names of columns: years in order, or 1, 2, 3 and so on, and the next row is not like that."""
    following = [rows[0][n].strip() for n in columns] if rows else []
    return _in_order(heads) and (_years_only(heads) > _years_only(following) or not _in_order(following))


def _years_only(cells: Sequence[str]) -> bool:
    return all(_YEAR.fullmatch(cell) for cell in cells)


def _in_order(cells: Sequence[str]) -> bool:
    if len(cells) < 4 or not all(cell.isascii() and cell.isdigit() and len(cell) < 9 for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    steps = {after - before for before, after in pairwise(numbers)}
    years = _years_only(cells) and (max(steps) < 0 or min(steps) > 0)
    return years or steps == {1}


def _kind(cell: str) -> str:
    """What a cell is: empty, a number, a date in digits, a label with digits, or a word."""
    text = cell.strip()[:LONGEST]
    if text.lower() in _EMPTY:
        return "empty"
    if _DATE.fullmatch(text):
        return "date"
    if _NUMBER.fullmatch(text):
        return "number"
    return "label" if any(sign.isdigit() for sign in text) else "word"


def _column_kind(cells: Sequence[str]) -> str:
    """The kind of nine in ten cells of a column; otherwise mixed."""
    kinds = Counter(kind for kind in map(_kind, cells) if kind != "empty")
    if not kinds:
        return "empty"
    kind, count = kinds.most_common(1)[0]
    return kind if count >= 0.9 * kinds.total() else "mixed"


def whole_cells(rows: Sequence[Sequence[str]]) -> float:
    """The share of cells that are a number, a date or a word, and not a piece of one or several of them."""
    cells = [cell for row in rows[:LOOKED_AT] for cell in row]
    kinds = Counter("label" if re.search(r"[\t;|]", cell) else _kind(cell) for cell in cells)
    return round(1 - kinds["label"] / max(1, kinds.total()), 2)
