"""Converts one column of a table to a numpy array: numbers, time stamps, categories."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.schema.load_report import Assumption, DataReport

log = logging.getLogger(__name__)

Where = Callable[[int], str]
"""Turns the number of an input row into text such as "series 'a', row 17"."""

MISSING_TEXT = ("", "na", "n/a", "nan", "null", "none", "#n/a")
COMMA_NUMBER = r"^[-+]?(\d+(,\d*)?|,\d+)([eE][-+]?\d+)?$"
"""Pattern of numbers with decimal commas."""
EXACT = 2**24
"""Whole numbers up to this one are exact in float32."""
_TEXT = (pl.String, pl.Categorical, pl.Enum)


@dataclass
class Numbers:
    """A numeric column: its values (0 where missing), and the mask of observed ones if any is missing."""

    values: npt.NDArray[Any]
    observed: npt.NDArray[np.bool_] | None = None
    infinite: npt.NDArray[np.bool_] | None = None
    """Where the value was infinite; None if nowhere."""


@dataclass
class Stamps:
    """A time column as whole numbers: days since 1970, microseconds since 1970 (UTC when zoned), or plain integers."""

    ticks: npt.NDArray[Any]
    unit: str
    """D, us or i."""
    label: str
    """The type in which time stamps are returned."""
    zone: str | None = None
    form: str | None = None
    """The format of text; None for ISO formats."""
    assumption: Assumption | None = None
    """What was assumed about the format of text."""

    def times(self, rows: Any = slice(None)) -> npt.NDArray[Any]:
        """The stamps as datetime64 or int64."""
        ticks = self.ticks[rows].astype(np.int64)
        return np.asarray(ticks if self.unit == "i" else ticks.view(f"datetime64[{self.unit}]"))


def first_true(mask: pl.Series | npt.NDArray[np.bool_]) -> int | None:
    """The first row where the mask is true; None if there is none."""
    array = mask.to_numpy() if isinstance(mask, pl.Series) else mask
    row = int(np.argmax(array)) if len(array) else 0
    return row if len(array) and bool(array[row]) else None


def is_text(series: pl.Series) -> bool:
    """Whether the column contains text, dictionary-encoded or not."""
    return isinstance(series.dtype, _TEXT)


def read_numbers(
    series: pl.Series, where: Where, report: DataReport, *, dtype: str, infinities: str = "error"
) -> Numbers:
    """The column in the given precision. Text that contains only numbers is converted and counted."""
    name = series.name
    if is_text(series):
        series = numbers_from_text(series, where, report)
    if series.dtype == pl.Null or (len(series) and series.null_count() == len(series)):
        return Numbers(np.zeros(len(series), dtype), np.zeros(len(series), dtype=bool))
    if not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        raise DataError(
            f"column {name!r} must hold numbers, but got {series.dtype}. Convert it, or leave it out of the table."
        )
    if series.dtype.is_integer() and series.null_count() == 0 and series.dtype != pl.Int128:
        return Numbers(_converted(series, dtype))
    if series.dtype not in (pl.Float32, pl.Float64):
        series = series.cast(pl.Float64)
    raw = series.fill_null(float("nan")).to_numpy()
    return _checked(raw, name, where, report, dtype, infinities)


def exact_values(series: pl.Series) -> npt.NDArray[Any] | None:
    """The original numbers of a column, NaN for missing ones; None if all of them are exact in float32."""
    if is_text(series):
        series = series.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    if series.dtype in (pl.Float32, pl.Boolean, pl.Null) or not len(series):
        return None
    if series.dtype.is_integer():
        low, high = series.min(), series.max()
        if low is None or (low >= -EXACT and high <= EXACT):  # type: ignore[operator]
            return None
        if series.null_count() == 0 and series.dtype != pl.Int128:
            return series.to_numpy()
    values: npt.NDArray[Any] = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    infinite = np.isinf(values)
    return np.where(infinite, np.nan, values) if infinite.any() else values


def _converted(series: pl.Series, dtype: str) -> npt.NDArray[Any]:
    """Whole numbers in the given precision, converted in pieces: the column is never in memory twice."""
    values = np.empty(len(series), dtype)
    begin = 0
    for piece in series.get_chunks():
        values[begin : begin + len(piece)] = piece.to_numpy()
        begin += len(piece)
    return values


def _checked(
    raw: npt.NDArray[Any], name: str, where: Where, report: DataReport, dtype: str, infinities: str
) -> Numbers:
    infinite = np.isinf(raw)
    count = int(infinite.sum())
    if count and infinities == "error":
        row = int(np.argmax(infinite))
        raise DataError(
            f"column {name!r} must be finite, but got {raw[row]} at {where(row)}. "
            'Correct the value, remove the row, or (for the target) say infinities="mask".',
            advice=[Advice("data.infinities", "mask")],
        )
    observed = ~(np.isnan(raw) | infinite) if count else ~np.isnan(raw)
    with np.errstate(over="ignore", under="ignore"):
        values = raw.astype(dtype)
    if raw.dtype.itemsize > values.dtype.itemsize:
        _check_range(raw, values, observed, name, where, report)
    if observed.all():
        return Numbers(values)
    if np.shares_memory(values, raw):
        values = values.copy()
    values[~observed] = 0
    return Numbers(values, observed, infinite if count else None)


def _check_range(
    raw: npt.NDArray[Any],
    values: npt.NDArray[Any],
    observed: npt.NDArray[np.bool_],
    name: str,
    where: Where,
    report: DataReport,
) -> None:
    too_big = np.isinf(values) & observed
    row = first_true(too_big)
    if row is not None:
        raise DataError(
            f"column {name!r} must fit float32 (up to 3.4e38), but got {raw[row]} at {where(row)}. "
            'Say dtype="float64", or divide the column by a constant.',
            advice=[Advice("data.dtype", "float64")],
        )
    vanished = int(np.count_nonzero((values == 0) & (raw != 0) & observed))
    if vanished:
        report.vanished[name] = report.vanished.get(name, 0) + vanished


def numbers_from_text(series: pl.Series, where: Where, report: DataReport) -> pl.Series:
    """Text as numbers, null for empty markers. A cell that is not a number raises an error that names it."""
    text = series.cast(pl.String).str.strip_chars()
    numbers = text.cast(pl.Float64, strict=False)
    empty = text.str.to_lowercase().is_in(list(MISSING_TEXT)).fill_null(True)
    row = first_true(numbers.is_null() & ~empty)
    if row is not None:
        todo, advice = _number_advice(text, row, text.str.contains(COMMA_NUMBER) | empty, where)
        raise DataError(
            f"column {series.name!r} must hold numbers, but got the text {str(text[row])[:60]!r} at {where(row)}. "
            f"{todo}",
            advice=advice,
        )
    converted = len(numbers) - int((numbers.is_null() | empty).sum())
    report.text_numbers[series.name] = report.text_numbers.get(series.name, 0) + converted
    return numbers.set(empty, None)


def _number_advice(column: pl.Series, row: int, commas: pl.Series, where: Where) -> tuple[str, list[Advice]]:
    """What to do about a cell that looks like a number to a person, or about one that does not."""
    text, comma = str(column[row]), [Advice("data.decimal_comma", True)]
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?", text):
        return f"Remove the commas between the thousands first: {text.replace(',', '')}.", []
    if re.fullmatch(r"[-+]?\d{1,3}(\.\d{3})+(,\d*)?", text):
        plain = text.replace(".", "")
        return f"Remove the points between the thousands first: {plain}; a CSV also needs decimal_comma=True.", comma
    if re.fullmatch(r"[-+]?\d*,\d+", text):
        odd = first_true(~commas)  # this cell prevents reading the others with decimal_comma=True
        if odd is not None:
            other = f"{str(column[odd])[:60]!r} at {where(odd)}"
            return (
                f"If the comma is the decimal mark, correct {other} first; a CSV also needs decimal_comma=True.",
                comma,
            )
        return "If the comma is the decimal mark, read the CSV with decimal_comma=True.", comma
    if re.fullmatch(r"[-+]?[$€£¥]?\s?[-+]?[\d.,]+\s?[%$€£¥]?", text):
        return "Remove the sign beside the number first.", []
    return "Correct the cell; if the column holds names, say categorical=... instead.", [Advice("data.categorical")]


def category_text(series: pl.Series) -> pl.Series:
    """The values of a categorical column as text. Whole numbers that are stored as decimals lose their point.

    The text of a value depends only on the value, so that it is the same in every table. NaN is empty.
    """
    if series.dtype in (pl.Float32, pl.Float64):
        value = pl.col("value")
        whole = value.is_finite() & (value == value.floor()) & (value.abs() < 2**53)
        number = pl.when(whole).then(value).cast(pl.Int64).cast(pl.String)
        frame = series.fill_nan(None).alias("value").to_frame()
        return frame.select(number.fill_null(value.cast(pl.String))).to_series().alias(series.name)
    if not (series.dtype.is_numeric() or is_text(series) or series.dtype in (pl.Boolean, pl.Null)):
        raise DataError(f"column {series.name!r} is categorical and must hold text or numbers, but got {series.dtype}.")
    return series.cast(pl.String)


def encode(
    series: pl.Series, where: Where, report: DataReport, policy: str, known: tuple[str, ...] | None = None
) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Codes (0 = empty or unknown) and the vocabulary, which is sorted unless it was given.

    Cells with code 0 are counted in the report; the policy "error" refuses them.
    """
    text = category_text(series)
    if known is None:
        known = tuple(text.drop_nulls().unique().sort().to_list())
    names = list(known)
    if series.dtype.is_float():  # models of earlier versions may have stored the whole number 2 as 2.0
        names = [name.removesuffix(".0") if name.removesuffix(".0") not in known else name for name in known]
    codes = (
        text.replace_strict(names, list(range(1, len(known) + 1)), default=0, return_dtype=pl.Int32)
        if known
        else pl.zeros(len(text), pl.Int32, eager=True)
    )
    array = codes.fill_null(0).to_numpy().astype(np.int32)
    unknown = int((array == 0).sum())
    if unknown:
        report.unknown_categories[series.name] = report.unknown_categories.get(series.name, 0) + unknown
        if policy == "error":
            raise DataError(
                f"column {series.name!r} must hold known categories, but got {_unknown(text, array == 0, where)}. "
                'Correct them, or say unknown_categories="keep".',
                advice=[Advice("data.unknown_categories", "keep")],
            )
    return array, known


def warn_unknown(series: pl.Series, codes: npt.NDArray[np.int32], where: Where, *, empty: bool) -> None:
    """Log the cells of a column that are no known category, with or without the empty ones."""
    text = category_text(series)
    which = codes.reshape(-1) == 0
    if not empty:
        which &= text.is_not_null().to_numpy()
    if which.any():
        log.warning(
            "column %r must hold known categories, but got %s. They count as unknown: correct them, or say "
            'unknown_categories="error" when you load the data to refuse them.',
            series.name,
            _unknown(text, which, where),
            extra={"advice": [Advice("data.unknown_categories", "error")]},
        )


def _unknown(text: pl.Series, which: npt.NDArray[np.bool_], where: Where) -> str:
    first = int(np.argmax(which))
    example = "an empty cell" if text[first] is None else repr(text[first][:60])
    more = int(which.sum()) - 1
    return f"{example} at {where(first)}" + (f" and {more:,} more such cells" if more else "")
