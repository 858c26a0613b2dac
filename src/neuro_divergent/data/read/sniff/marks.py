"""Infers the decimal and thousands marks of the numbers in a file, from all rows.

A file is written in one way, so all number columns are used together. A cell such as "1,234" alone is ambiguous: it may
be 1.234 or 1234. Another cell decides ("1,5", "0,123", "1.234,5", "1,234,567"), or the fact that whole numbers from
1000 on always have the mark and smaller ones never do. If nothing decides, an error asks the user.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.columns import MISSING_TEXT, first_true

SAMPLE = 1000
EMPTY_TEXT = (*MISSING_TEXT, "-", "--", "–", "—", "..", "...", ":", "#value!", "#div/0!", "#ref!")
"""Texts of empty cells, in lower case."""
_SPACES = r"[ \u00a0\u2009\u202f]"
_AROUND = rf"^[-+−(]?{_SPACES}?(?:[$€£¥]|EUR|USD|CHF|GBP)?{_SPACES}?[-+−]?"
_BEHIND = rf"{_SPACES}?(?:[$€£¥%]|EUR|USD|CHF|GBP)?\)?-?{_SPACES}?%?$"
_DIGITS = r"(?:\d[\d.,'’ \u00a0\u2009\u202f]*|[.,]\d+)(?:[eE][-+]?\d+)?"
NUMBER = _AROUND + _DIGITS + _BEHIND
"""A cell that a person would read as a number."""
_PLAIN = r"^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$"
_GROUPS = rf"\d({_SPACES}|['’])\d{{3}}(?:\D|$)"


class Marks(NamedTuple):
    """The mark before the decimals, and the one between the thousands ("" for none)."""

    decimal: str
    thousands: str

    def described(self) -> str:
        """The marks as text, with an example."""
        example = f"1{self.thousands}234{self.decimal}5"
        return f"{example} is the number 1234.5"


class Evidence(NamedTuple):
    """Counts of the kinds of cells in a column."""

    comma_decimal: int
    point_decimal: int
    comma_thousands: int
    point_thousands: int
    groups: str
    """The space or apostrophe between thousands, "" if there is none."""
    unsure_comma: int
    """Cells such as 1,234."""
    unsure_point: int
    unmarked_small: int
    """Whole numbers below 1000."""
    unmarked_large: int


def looks_numeric(column: pl.Series) -> bool:
    """Whether the first cells of a text column, except empty markers, are numbers with any marks."""
    text = column.drop_nulls().head(SAMPLE).str.strip_chars()
    text = text.filter(~text.str.to_lowercase().is_in(list(EMPTY_TEXT)))
    return len(text) > 0 and bool(text.str.contains(NUMBER).mean() > 0.9)  # type: ignore[operator]


def is_plain(column: pl.Series) -> bool:
    """Whether every cell is a number in the usual form of programs, without decimals that could be thousands."""
    text = column.drop_nulls()
    if not bool(text.str.contains(_PLAIN).all()):
        return False
    points = text.filter(text.str.contains(".", literal=True))
    return not len(points) or not bool(points.str.contains(r"^[-+]?[1-9]\d{0,2}\.\d{3}$").all())


def evidence(column: pl.Series) -> Evidence:
    """The evidence in the cells of a text column about the marks of the file."""
    core = column.drop_nulls().str.strip_chars().str.replace(_AROUND, "").str.replace(_BEHIND, "")
    core = core.str.replace(r"[eE][-+]?\d+$", "")
    group = core.str.extract(_GROUPS, 1).drop_nulls()
    core = core.str.replace_all(rf"{_SPACES}|['’]", "")
    comma, point = core.str.count_matches(",", literal=True), core.str.count_matches(".", literal=True)
    both = (comma > 0) & (point > 0)
    last_comma = core.str.contains(r",\d*$")
    one = (comma + point) == 1
    unsure = core.str.contains(r"^[1-9]\d{0,2}[.,]\d{3}$")
    grouped = core.str.contains(r"^[1-9]\d{0,2}(?:[.,]\d{3})+$")
    decimal = one & ~unsure
    with_comma, with_point = comma > 0, point > 0
    bare = (comma + point) == 0
    large = core.str.len_chars() > 3

    def count(mask: pl.Series) -> int:
        return int(mask.sum())

    return Evidence(
        comma_decimal=count((both & last_comma) | (decimal & with_comma) | ((point > 1) & (comma == 1) & last_comma)),
        point_decimal=count((both & ~last_comma) | (decimal & with_point)),
        comma_thousands=count((comma > 1) & (point == 0) & grouped),
        point_thousands=count((point > 1) & (comma == 0) & grouped),
        groups=_group_mark(group),
        unsure_comma=count(unsure & with_comma),
        unsure_point=count(unsure & with_point),
        unmarked_small=count(bare & ~large),
        unmarked_large=count(bare & large),
    )


def _group_mark(group: pl.Series) -> str:
    if not len(group):
        return ""
    return "'" if group[0] in "'’" else " "


def decide(
    columns: list[pl.Series],
    *,
    decimal: str | None,
    thousands: str | None,
    known: Marks | None = None,
    usual_point: bool = False,
) -> Marks:
    """The marks of a file's number columns.

    Args:
        columns: text columns whose cells are numbers.
        decimal: the given mark; None to infer it.
        thousands: the given mark; None to infer it.
        known: the marks of an earlier file. They are used unless this file contradicts them.
        usual_point: whether a point before three digits is a decimal point unless other cells contradict.
    """
    if decimal is not None and thousands is not None:
        return Marks(decimal, thousands)
    found = [evidence(column) for column in columns]
    commas = sum(one.comma_decimal + one.point_thousands for one in found)
    points = sum(one.point_decimal + one.comma_thousands for one in found)
    if usual_point and not commas:
        points += sum(one.unsure_point for one in found)
    unsure = next(
        (pair for pair in zip(columns, found, strict=True) if pair[1].unsure_comma or pair[1].unsure_point), None
    )
    groups = next((one.groups for one in found if one.groups), "")
    if decimal is None and commas and points:
        raise _contradiction(columns, found)
    if decimal is None:
        decimal = "," if commas else "." if points or unsure is None else None
    if decimal is None and known is not None:
        decimal = known.decimal
    if decimal is None and unsure is not None:
        decimal = _by_size(found, groups) or _ask(unsure[0])
    decimal = decimal or "."
    other = "." if decimal == "," else ","
    marked = any(getattr(one, "unsure_point" if other == "." else "unsure_comma") for one in found)
    marked |= any(one.point_thousands if other == "." else one.comma_thousands for one in found)
    marked |= any(bool(column.str.contains(r"\.\d{3}," if other == "." else r",\d{3}\.").any()) for column in columns)
    if thousands is None:
        thousands = groups or (other if marked else "")
    return Marks(decimal, thousands)


def _by_size(found: list[Evidence], groups: str) -> str | None:
    """The meaning of a mark that only cells such as 1,234 have: thousands, if it depends on the size of the number.

    Fixed decimals would also be in small numbers, and whole numbers without marks would reach 1000.
    """
    for mark, other in (("unsure_comma", "."), ("unsure_point", ",")):
        columns = [one for one in found if getattr(one, mark)]
        if not columns:
            continue
        rival = "unsure_point" if mark == "unsure_comma" else "unsure_comma"
        if any(getattr(one, rival) for one in found):
            return None
        if groups or any(one.unmarked_large for one in columns):
            return "," if other == "." else "."
        return other if any(one.unmarked_small for one in columns) else None
    return None


def _ask(column: pl.Series) -> str:
    text = column.drop_nulls().str.strip_chars()
    cell = str(text.filter(text.str.contains(r"[.,]\d{3}\D*$"))[0])
    mark = "," if "," in cell else "."
    thousand, fraction = cell.replace(mark, ""), cell.replace(",", ".")
    raise DataError(
        f"column {column.name!r} must show which mark is the decimal one, but {cell!r} may be {thousand} or {fraction} "
        f"and no other cell decides. Say thousands={mark!r} or decimal_comma={mark == ','}.",
        advice=[Advice("data.thousands", mark), Advice("data.decimal_comma", mark == ",")],
    )


def _contradiction(columns: list[pl.Series], found: list[Evidence]) -> DataError:
    commas = next(c for c, one in zip(columns, found, strict=True) if one.comma_decimal + one.point_thousands)
    points = next(c for c, one in zip(columns, found, strict=True) if one.point_decimal + one.comma_thousands)
    first = _example(commas, r",(?:\d{1,2}|\d{4,})\D*$|\.\d{3}[.,]|^0,\d")
    second = _example(points, r"\.(?:\d{1,2}|\d{4,})\D*$|,\d{3}[.,]|^0\.\d")
    return DataError(
        f"the numbers of a file must have one decimal mark, but got {first} in column {commas.name!r} and {second} in "
        f"column {points.name!r}. Correct one of them, or say decimal_comma=True or decimal_comma=False.",
        advice=[Advice("data.decimal_comma", True), Advice("data.decimal_comma", False)],
    )


def _example(column: pl.Series, pattern: str) -> str:
    text = column.drop_nulls().str.strip_chars()
    fitting = text.filter(text.str.contains(pattern))
    return repr(str(fitting[0] if len(fitting) else text[0])[:60])


def converted(column: pl.Series, marks: Marks) -> tuple[pl.Series, int | None]:
    """The cells as text that programs can parse, and the first row whose cell is not a number with these marks.

    Currency signs and a percent sign are removed, (5) and 5- become -5, and an empty marker becomes null.
    """
    text = column.str.strip_chars()
    text = text.set(text.str.to_lowercase().is_in(list(EMPTY_TEXT)).fill_null(False), None)
    negative = text.str.contains(r"^\(.*\)\s?%?$|\d-$|^[^\d]*[-−]").fill_null(False)
    power = text.str.extract(r"([eE][-+]?\d+)\)?$", 1).fill_null("")
    core = text.str.replace(_AROUND, "").str.replace(_BEHIND, "").str.replace(r"[eE][-+]?\d+$", "")
    if marks.thousands:
        mark = rf"(?:{_SPACES}|['’])" if marks.thousands in (" ", "'") else re.escape(marks.thousands)
        grouped = core.str.contains(rf"^\d{{1,3}}(?:{mark}\d{{3}})+(?:{re.escape(marks.decimal)}\d*)?$")
        joined = core.str.replace_all(rf"(\d){mark}", "${1}")
        core = pl.select(pl.when(grouped).then(joined).otherwise(core)).to_series()
    point = re.escape(marks.decimal)
    odd = ~(core.str.contains(rf"^(?:\d+{point}?\d*|{point}\d+)$") & text.str.contains(NUMBER)).fill_null(True)
    core = core.str.replace(marks.decimal, ".", literal=True)
    sign = pl.select(pl.when(negative).then(pl.lit("-")).otherwise(pl.lit(""))).to_series()
    return (sign + core + power).alias(column.name), first_true(odd)


def typed(column: pl.Series) -> pl.Series:
    """Whole numbers or decimals if every cell is one. Codes such as 007 and everything else stay text."""
    if bool(column.str.contains(r"^0\d+$").any()):
        return column
    for kind in (pl.Int64, pl.Float64):
        number = column.cast(kind, strict=False)
        if number.null_count() == column.null_count():
            return number
    return column
