"""Infers the format of the time column of a file, from all of its rows.

A format is a pattern of `strptime`, with some additions: %q is the quarter (1 to 4), a format without a day means the
first day, "epoch:s", "epoch:ms", "epoch:us" and "epoch:ns" count from 1970 in UTC, "excel" counts days as workbooks do,
and two formats with " - " between them are a span, of which the beginning counts. Names of months and weekdays may be
German, French, Spanish, Italian, Portuguese or Dutch.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.sniff.words import in_english, weekday_form
from neuro_divergent.data.schema.load_report import Assumption

ISO_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d")
ISO_FORMS = (
    "%Y-%m",
    *ISO_DATES,
    *(
        f"{day}{gap}{clock}"
        for day in ISO_DATES
        for gap in (" ", "T")
        for clock in ("%H:%M:%S", "%H:%M:%S%.f", "%H:%M")
    ),
)
_DAYS = (
    "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y", "%d %b %Y", "%d-%b-%Y", "%d. %b %Y", "%d/%b/%Y",
    "%b %d, %Y", "%b %d %Y", "%d de %b de %Y",
)  # fmt: skip
_SHORT_YEARS = ("%y-%m-%d", "%y/%m/%d")
_LONG_YEARS = ("%Y %b %d", "%Y-%b-%d")
"""Not with two digits of the year: 31-Dec-11 is a day in 2011."""
_CLOCKS = (
    "", " %H:%M", " %H:%M:%S", " %H:%M:%S%.f", "T%H:%M", "T%H:%M:%S", ", %H:%M", ", %H:%M:%S", " %I:%M %p",
    " %I:%M:%S %p", ", %I:%M %p", ", %I:%M:%S %p", " %I:%M%p", " %H.%M", " %Hh%M",
)  # fmt: skip
_MONTHS = ("%b %Y", "%b-%Y", "%b/%Y", "%b. %Y", "%b, %Y", "%Y %b", "%Y-%b", "%m/%Y", "%m-%Y", "%m.%Y", "%Y/%m", "%YM%m")
_PERIODS = (
    "%Y Q%q", "%Y-Q%q", "%YQ%q", "%Y/Q%q", "Q%q %Y", "Q%q-%Y", "Q%q/%Y", "%qQ%Y", "%qQ %Y", "%G-W%V", "%GW%V", "%G W%V",
    "%G-W%V-%u", "W%V %G", "W%V-%G",
)  # fmt: skip
_PACKED = {6: ("%Y%m",), 8: ("%Y%m%d",), 10: ("%Y%m%d%H",), 12: ("%Y%m%d%H%M",), 14: ("%Y%m%d%H%M%S",)}
EPOCHS = {"epoch:s": 1, "epoch:ms": 10**3, "epoch:us": 10**6, "epoch:ns": 10**9}
EXCEL = "excel"
"""Days since 1899-12-30, with the time of day as a fraction, as workbooks store times."""
_EXCEL_DAYS = (20_000, 60_000)
"""The years 1954 to 2064."""
SPAN = " - "
_SPAN_MARKS = r"\s+(?:-|–|—|bis|to|until|à|hasta|tot)\s+"
_EPOCH_SECONDS = (10**8, 42 * 10**8)
"""The years 1973 to 2103: whole numbers outside are plain counts, not dates."""
_WEEK_NAMES = {"week", "wk", "kw", "woche", "kalenderwoche", "semaine", "semana", "settimana", "isoweek", "yearweek"}
_END_OF_DAY = r"([ T])24([:.h]00(?:[:.]00(?:\.0+)?)?)$"
SAMPLE = 100
MOST_BELOW = 20


class Reading(NamedTuple):
    """A parsed time column."""

    values: pl.Series
    """Dates or datetimes; null where a cell does not fit."""
    form: str | None
    assumption: Assumption | None = None


def parse(text: pl.Series, form: str) -> pl.Series:
    """The cells parsed by one format, null where they do not fit."""
    if SPAN in form:
        form = form.partition(SPAN)[0]
        text = text.str.replace(rf"{_SPAN_MARKS}.*$", "")
    text = in_english(text, form)
    form = form.replace("%A", "%a")
    try:
        if form == EXCEL:
            return from_serial(text.cast(pl.Float64, strict=False))
        if form in EPOCHS:
            return _from_epoch(text.cast(pl.Int64, strict=False), form)
        if "%q" in form:
            return _quarters(text, form)
        if "%G" in form and "%u" not in form:
            return (text + "-1").str.to_date(f"{form}-%u", strict=False)
        clock = any(sign in form for sign in ("%H", "%I", "%s", "%T", "%R", "%c", "%+"))
        if clock and "%M" not in form and not any(sign in form for sign in ("%s", "%T", "%R", "%c", "%+")):
            return (text + ":00").str.to_datetime(f"{form}:%M", strict=False, time_unit="us", ambiguous="null")
        if clock:
            return _whole_years(text, _datetimes(text, form), form)
        if form == "%Y":
            return (text + "-01-01").str.to_date("%Y-%m-%d", strict=False)
        if not any(sign in form for sign in ("%d", "%e", "%j", "%u", "%D", "%F", "%x", "%v")):
            return (text + "-01").str.to_date(f"{form}-%d", strict=False)
        return _whole_years(text, text.str.to_date(form, strict=False), form)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"time_format must be a known format, but got time_format={form!r}: {error}") from None


def _datetimes(text: pl.Series, form: str) -> pl.Series:
    """Dates with a clock. 24:00 is the end of its day, which is 00:00 of the next one."""
    values = text.str.to_datetime(form, strict=False, time_unit="us", ambiguous="null")
    if not values.null_count() or "%H" not in form:
        return values
    late = (values.is_null() & text.str.contains(_END_OF_DAY)).fill_null(False)
    if not late.any():
        return values
    midnights = text.filter(late).str.replace(_END_OF_DAY, "${1}00${2}")
    next_days = midnights.str.to_datetime(form, strict=False, time_unit="us", ambiguous="null").dt.offset_by("1d")
    return values.scatter(late.arg_true(), next_days)


def _whole_years(text: pl.Series, values: pl.Series, form: str) -> pl.Series:
    """The values, null where an ISO format would read a day as the year: 25.04.18 is no day of the year 25."""
    if form not in ISO_FORMS or values.null_count() == len(values) or int(values.dt.year().min()) > 999:  # type: ignore[arg-type]
        return values
    return values.set(~text.str.contains(r"^\d{4}"), None)


def _from_epoch(ticks: pl.Series, form: str) -> pl.Series:
    if form == "epoch:ns":
        return ticks.cast(pl.Datetime("ns"))
    return (ticks * (10**6 // EPOCHS[form])).cast(pl.Datetime("us"))


def from_serial(days: pl.Series) -> pl.Series:
    """Days as workbooks count them: dates, or datetimes to the second if a day has a fraction."""
    whole = days.drop_nulls()
    if bool((whole == whole.floor()).all()):
        return (days.cast(pl.Int32, strict=False) - 25_569).cast(pl.Date)
    seconds = ((days - 25_569) * 86_400).round().cast(pl.Int64, strict=False)
    return (seconds * 10**6).cast(pl.Datetime("us"))


def _quarters(text: pl.Series, form: str) -> pl.Series:
    pattern = "(?i)^" + re.escape(form).replace("%Y", r"(?P<year>\d{4})").replace("%q", "(?P<quarter>[1-4])") + "$"
    pattern = pattern.replace(r"\ ", " ")
    found = text.str.extract_groups(pattern).struct.unnest()
    year, quarter = found["year"], found["quarter"].cast(pl.Int64, strict=False)
    month = (quarter * 3 - 2).cast(pl.String).str.zfill(2)
    return (year + "-" + month + "-01").str.to_date("%Y-%m-%d", strict=False).alias(text.name)


def fitting_forms(text: pl.Series) -> list[str]:
    """The formats that fit the first cells of a text column, without ISO formats."""
    head = text.drop_nulls().head(SAMPLE)
    if not len(head) or not bool(head.str.contains(r"\d").all()):
        return []
    spans = bool(head.str.contains(rf"\d{_SPAN_MARKS}\d").all())
    if spans:
        head = head.str.replace(rf"{_SPAN_MARKS}.*$", "")
    found = _single_forms(head)
    if spans:
        iso = [form for form in ISO_FORMS if not parse(head, form).null_count()]
        found = [f"{form}{SPAN}{form}" for form in (*found, *iso)]
    return found


def _single_forms(head: pl.Series) -> list[str]:
    """The formats that fit every one of some cells, each a single time."""
    year = "%Y" if re.search(r"\d{4}", str(head[0])) else "%y"
    clocks = _CLOCKS if re.search(r"\d[:.h]\d\d", str(head[0])) else ("",)
    dates = (*_DAYS, *(_SHORT_YEARS if year == "%y" else _LONG_YEARS))
    days = [f"{day}{clock}" for day in dates for clock in clocks]
    if (weekday := weekday_form(str(head[0]))) is not None:
        plain_days = (f"{day}{clock}" for day in ISO_DATES for clock in clocks)
        days += [f"{weekday}{day}" for day in (*days, *plain_days)]
    forms = [form.replace("%Y", year) for form in (*days, *_MONTHS)]
    forms += _PERIODS
    first = head.head(1)
    some = [
        form for form in dict.fromkeys(forms) if _has_marks(str(head[0]), form) and not parse(first, form).null_count()
    ]
    return [form for form in some if _sensible(parse(head, form))]


def _has_marks(cell: str, form: str) -> bool:
    """Whether a cell has the marks and letters of a format: a quick test before it is parsed."""
    literal = re.sub(r"%\.?\w|\s", "", form)
    letters = any(sign.isalpha() for sign in cell) or not ("%b" in form or "%p" in form)
    return letters and all(mark in cell.upper() for mark in literal.upper())


def _sensible(values: pl.Series) -> bool:
    """Whether every cell was parsed, and none as an early year: the year 20 is a part of 2015."""
    return not values.null_count() and int(values.dt.year().min()) > 1000  # type: ignore[arg-type]


def holds_times(column: pl.Series) -> bool:
    """Whether the first cells of a text column are time stamps in a known format."""
    head = column.head(len(column) - notes_at_end(column)).drop_nulls().head(SAMPLE).str.strip_chars()
    if not len(head):
        return False
    plain = head.str.replace(r"\s?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$", "") if ":" in str(head[0]) else head
    iso = any(not parse(plain, form).null_count() for form in ISO_FORMS)
    return iso or week_form(head) is not None or bool(fitting_forms(head))


def notes_at_end(column: pl.Series) -> int:
    """How many last cells of a text column have no digit, such as the word before a sum; 0 if most have none."""
    tail = column.tail(MOST_BELOW)
    note = (~tail.str.contains(r"\d")).fill_null(True).to_list()
    count = next((number for number, one in enumerate(reversed(note)) if not one), len(note))
    return count if count < len(note) and count <= len(column) // 2 else 0


def fits(text: pl.Series, form: str | None) -> bool:
    """Whether every cell has the format of an earlier file."""
    return form is not None and len(text) > 0 and not parse(text, form).null_count()


def decide(text: pl.Series, *, known: str | None = None) -> Reading | None:
    """Parse a text column that is not in ISO format; None if no format fits its first cells.

    If several formats fit every row, the only one that gives evenly spaced rows is used. Otherwise a DataError lists
    each reading with the setting that selects it.

    Args:
        text: the cells, stripped.
        known: the format of an earlier file. It is used if every row fits it.
    """
    if known is not None:
        values = parse(text, known)
        if not values.null_count():
            return Reading(values, known)
    weeks = week_form(text)
    forms = fitting_forms(text) if weeks is None else [weeks]
    read = {form: parse(text, form) for form in forms}
    if not read:
        return None
    whole = {form: values for form, values in read.items() if not values.null_count()}
    if not whole:
        best = min(read, key=lambda form: read[form].null_count())
        return Reading(read[best], best)
    return _chosen(text, _different(whole))


def week_form(text: pl.Series) -> str | None:
    """The format of weeks such as 2015-52 or 52/2015; None if the numbers may be months."""
    for pattern, form in ((r"^\d{4}([-/.])(\d{1,2})$", "%G{}%V"), (r"^\d{1,2}([-/.])\d{4}$", "%V{}%G")):
        first = re.fullmatch(pattern, str(text[0])) if len(text) and text[0] is not None else None
        if first is None or text.null_count():
            continue
        week = text.str.extract(r"^\d{4}[-/.](\d{1,2})$" if form[1] == "G" else r"^(\d{1,2})[-/.]\d{4}$", 1)
        numbers = week.cast(pl.Int64, strict=False)
        if not numbers.null_count() and (0 if _named_week(text.name) else 12) < int(numbers.max()) < 54:  # type: ignore[arg-type]
            return form.format(first[1])
    return None


def _named_week(name: str) -> bool:
    return bool({*re.split(r"[^a-z]+", name.lower())} & _WEEK_NAMES)


def _different(read: dict[str, pl.Series]) -> dict[str, pl.Series]:
    """One format for each different reading of the column."""
    kept: dict[str, pl.Series] = {}
    for form, values in read.items():
        if not any(values.dtype == other.dtype and values.equals(other, null_equal=True) for other in kept.values()):
            kept[form] = values
    return kept


def _chosen(text: pl.Series, read: dict[str, pl.Series]) -> Reading:
    forms = list(read)
    reason = "every row fits it"
    if len(forms) > 1:
        even = [form for form in forms if evenly_spaced(read[form])]
        if len(even) != 1:
            raise _ambiguous(text, read, len(even))
        forms = even
        reason = "only then the rows are evenly spaced"
    form = forms[0]
    cell, value = text.drop_nulls()[0], read[form].drop_nulls()[0]
    what = f"column {text.name!r} is written as {form}, so that {cell!r} is {value}: {reason}"
    return Reading(read[form], form, Assumption(what, Advice("data.time_format")))


def _ambiguous(text: pl.Series, read: dict[str, pl.Series], even: int) -> DataError:
    differing = _first_difference(list(read.values()))
    cell = str(text[differing])
    options = " or ".join(f"{values[differing]} with time_format={form!r}" for form, values in read.items())
    spacing = "and the rows are evenly spaced in more than one" if even else "and the rows are evenly spaced in none"
    return DataError(
        f"column {text.name!r} must show which part is the month, but every row fits {len(read)} readings, {spacing}: "
        f"{cell!r} is {options}. Say which it is.",
        advice=[Advice("data.time_format", form) for form in read],
    )


def _first_difference(readings: list[pl.Series]) -> int:
    first = readings[0].cast(pl.Datetime("us"))
    unequal = [first.ne_missing(other.cast(pl.Datetime("us"))) for other in readings[1:]]
    return min(int(mask.arg_max() or 0) for mask in unequal)


def evenly_spaced(values: pl.Series) -> bool:
    """Whether the sorted distinct times of a column are one step apart: a fixed one, months, or working days."""
    times = values.drop_nulls().unique().sort().cast(pl.Datetime("us")).to_numpy()
    if len(times) < 3:
        return False
    if len(np.unique(np.diff(times))) == 1:
        return True
    days, months = times.astype("datetime64[D]"), times.astype("datetime64[M]")
    of_month = (days - months.astype("datetime64[D]")).astype(np.int64)
    ends = (days + 1).astype("datetime64[M]") != months
    same_day = len(np.unique(of_month)) == 1 or bool(ends.all())
    if same_day and len(np.unique(times - days)) == 1 and len(np.unique(np.diff(months))) == 1:
        return True
    working = np.is_busday(days).all() and (times == days).all()
    return bool(working and (np.busday_count(days[:-1], days[1:]) == 1).all())


def decide_whole(column: pl.Series, *, known: str | None = None, likely: bool = True) -> Reading | None:
    """Parse whole numbers such as 20201231 or seconds since 1970; None if they are plain counts.

    Args:
        column: whole numbers without empty cells.
        known: the format of an earlier file. It is used if every row fits it.
        likely: whether other evidence says that the column contains times.
    """
    low, high = column.min(), column.max()
    if not isinstance(low, int) or not isinstance(high, int) or low <= 0:
        return None
    text = column.cast(pl.String)
    if known is not None and not parse(text, known).null_count():
        return Reading(parse(text, known), known)
    digits = len(str(low))
    forms = list(_PACKED.get(digits, ())) if digits == len(str(high)) else []
    read = {form: parse(text, form) for form in forms if 1800 <= int(str(low)[:4]) <= int(str(high)[:4]) <= 2200}
    for form, factor in EPOCHS.items():
        if _EPOCH_SECONDS[0] * factor <= low and high < _EPOCH_SECONDS[1] * factor:
            read[form] = parse(text, form)
    read = {form: values for form, values in read.items() if not values.null_count()}
    if forms == ["%Y%m"] and (not read or _named_week(column.name)):
        weeks = parse(text, "%G%V")  # 201552
        read = {"%G%V": weeks} if not weeks.null_count() else read
    if not read or not likely:
        return None
    return _chosen(text.alias(column.name), read)


_SERIAL_NAMES = {"date", "datum", "fecha", "data", "day", "tag", "datetime", "timestamp", "ds", "time", "dates", "jour"}


def serial_days(column: pl.Series, *, named: bool = False) -> bool:
    """Whether a column of numbers holds days as workbooks count them. Its name must say so, unless `named`."""
    if not column.dtype.is_numeric() or column.null_count() or not len(column):
        return False
    if not named and not {*re.split(r"[^a-z]+", column.name.lower())} & _SERIAL_NAMES:
        return False
    low, high = column.min(), column.max()
    return _EXCEL_DAYS[0] <= low and high < _EXCEL_DAYS[1]  # type: ignore[operator,return-value]


def years(column: pl.Series) -> bool:
    """Whether whole numbers are years."""
    low, high = column.min(), column.max()
    return isinstance(low, int) and isinstance(high, int) and 1500 <= low <= high <= 2200
