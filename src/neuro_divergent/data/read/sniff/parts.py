"""Times that several columns form together, such as year and month, or date and hour."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.columns import first_true
from neuro_divergent.data.read.sniff import times
from neuro_divergent.data.read.sniff.words import MONTHS, plain
from neuro_divergent.data.schema.load_report import listing

NAMES = {
    "year": "year yyyy jahr annee an ano anno jaar",
    "quarter": "quarter qtr quartal trimestre trimester kwartaal",
    "month": "month mnth monat mois mes mese maand period periode periodo posting_period buchungsperiode",
    "week": "week wk kw woche semaine semana settimana isoweek iso_week kalenderwoche",
    "yearday": "yearday yday doy dayofyear day_of_year julian_day",
    "day": "day dd tag jour dia giorno dag mday dayofmonth day_of_month",
    "hour": "hour hr hh time stunde std heure hora ora uur he hour_ending hourending hour_of_day hourofday",
    "halfhour": "halfhour half_hour settlement_period settlementperiod trading_period tradingperiod",
    "quarterhour": "quarterhour quarter_hour viertelstunde",
    "minute": "minute minutes",
    "second": "second seconds",
    "clock": "time clock uhrzeit zeit heure hora ora tijd uur anfang beginn von from start begin debut inicio inizio"
    " van timeofday time_of_day hour",
}
"""Names of columns with a part of the time, in lower case without accents."""
_KINDS = {kind: set(words.split()) for kind, words in NAMES.items()}
_BESIDE = {"delivery", "calendar", "kalender", "local", "utc", "cet", "cest", "gmt", "number", "num", "no", "nr", "id",
           "name", "trading", "lt", "posting", "report"}  # fmt: skip
"""Words that may stand beside such a name."""
_RANGES = {"year": (1500, 2200), "quarter": (1, 4), "month": (1, 12), "week": (1, 53), "yearday": (1, 366),
           "day": (1, 31), "hour": (0, 24), "halfhour": (1, 50), "quarterhour": (1, 100),
           "minute": (0, 59), "second": (0, 59)}  # fmt: skip
_NUMBERED = {"halfhour": 48, "quarterhour": 96}
"""Parts of a day that are numbered from 1, in the order of time, and how many a usual day has."""
_FINER = ("year", "month", "day", "hour", "minute", "second")
_CLOCK = r"^(\d{1,2})[:.h](\d{2})(?:[:.](\d{2}))?\s*(?:([aApP])\.?\s?[mM]\.?)?(?:\s*[-–].*)?$"
SAMPLE = 1000
NUMBERED = r"column_\d+"
"""The names of columns in a file without names."""


class Joined(NamedTuple):
    """A time that was joined from several columns."""

    values: pl.Series
    form: str | None = None
    """The format of the part that is a date, if it is not ISO."""
    first_hour: int = 0
    """The number of the first hour of a day: 0, or 1 if hours are numbered 1 to 24."""


def named_kinds(name: str) -> list[str]:
    """The parts of a time that a column may hold by its name.

    >>> named_kinds("Año"), named_kinds("Delivery hour"), named_kinds("price")
    (['year'], ['hour', 'clock'], [])
    """
    words = [word for word in re.split(r"[^a-z]+", plain(name)) if word]
    core = "_".join(word for word in words if word not in _BESIDE) or "_".join(words)
    return [kind for kind, known in _KINDS.items() if core in known or "_".join(words) in known]


def find_parts(frame: pl.DataFrame, others: set[str]) -> tuple[str, ...]:
    """The columns that form the time together; empty if no columns do.

    A date and the time of day, if dates repeat without it; otherwise a year and finer parts, if nothing is a date.
    """
    columns = [column for column in frame.get_columns() if column.name not in others]
    found: dict[str, str] = {}
    for column in columns:
        for kind in named_kinds(column.name):
            if kind not in found and numbers_of(column, kind) is not None:
                found[kind] = column.name
                break
    stamps = [
        column for column in columns if is_stamp(column) or (column.name not in found.values() and is_packed(column))
    ]
    if any(has_clock(column) for column in stamps):
        return ()
    if all(re.fullmatch(NUMBERED, column.name) for column in columns):
        return _numbered_parts(frame, columns)
    day = [name for name in _day_parts(found, [column.name for column in stamps]) if name]
    if not day:
        return ()
    parts = [*day]
    if len(day) != 2 or day[1] == found.get("yearday"):  # hours after a quarter, month or week would have no day
        clock = [found["clock"]] if "clock" in found else [found[kind] for kind in ("hour", "minute") if kind in found]
        clock = clock or [found[kind] for kind in _NUMBERED if kind in found][:1]
        if len(day) == 3 or stamps or "yearday" in found:
            parts += clock if frame.select(*day, *clock).n_unique() > frame.select(day).n_unique() else []
    return tuple(parts) if len(parts) > 1 and frame.select(parts).n_unique() > frame[parts[0]].n_unique() else ()


def _numbered_parts(frame: pl.DataFrame, columns: Sequence[pl.Series]) -> tuple[str, ...]:
    """The first columns of a file without names, if their values are parts of evenly spaced times."""
    names = [column.name for column in columns[:4]]
    for count in range(len(names), 1, -1):
        parts = names[:count]
        try:
            values = join_parts(frame, parts).values
        except (DataError, KeyError):
            continue
        several = frame.select(parts).n_unique() > frame.select(parts[:-1]).n_unique()
        if several and times.evenly_spaced(values):
            return tuple(parts)
    return ()


def is_packed(column: pl.Series) -> bool:
    """Whether whole numbers are dates such as 20201231."""
    if not column.dtype.is_integer() or column.null_count() or not len(column):
        return False
    if column.min() < 15_000_101 or column.max() > 22_001_231:  # type: ignore[operator]
        return False
    try:
        found = times.decide_whole(column)
    except DataError:
        return False
    return found is not None and found.values.dtype == pl.Date


def _day_parts(found: Mapping[str, str], stamps: Sequence[str]) -> list[str]:
    if stamps:
        named = [name for name in stamps if plain(name) in ("date", "datum", "fecha", "data", "day", "ds")]
        return [named[0]] if named else [stamps[0]] if len(stamps) == 1 else []
    if "year" not in found:
        return []
    if "month" in found:
        return [found["year"], found["month"], *([found["day"]] if "day" in found else [])]
    finer = next((found[kind] for kind in ("yearday", "week", "quarter") if kind in found), None)
    return [] if finer is None else [found["year"], finer]


def is_stamp(column: pl.Series) -> bool:
    """Whether a column has whole dates, with or without a time of day."""
    if column.dtype == pl.Date or isinstance(column.dtype, pl.Datetime):
        return True
    return column.dtype == pl.String and times.holds_times(column)


def has_clock(column: pl.Series) -> bool:
    """Whether a column of dates has a time of day as well."""
    if isinstance(column.dtype, pl.Datetime):
        return bool(((column.dt.hour() > 0) | (column.dt.minute() > 0)).any())
    if column.dtype != pl.String:
        return False
    return bool(column.drop_nulls().head(SAMPLE).str.contains(r"\d{1,2}:\d\d|[ T]\d{1,2}[.h]\d\d").any())


def numbers_of(column: pl.Series, kind: str) -> pl.Series | None:
    """The cells of a part as whole numbers (a clock in seconds); None if they are not such a part."""
    if kind == "clock":
        return _seconds(column)
    if kind == "month" and column.dtype == pl.String:
        named = _named_months(column)
        if named is not None:
            return named
    if column.dtype == pl.String:
        digits = (
            r"^[^\W\d_]*[\s.\-_]*(\d{1,4})(?:[\s.]*[^\W\d_]*\.?|\s*[-–]\s*\d{1,2})$" if kind != "year" else r"^(\d{4})$"
        )
        column = column.str.strip_chars().str.extract(digits, 1).cast(pl.Int64, strict=False)
    if column.dtype.is_float() and bool((column == column.floor()).all()):
        column = column.cast(pl.Int64, strict=False)
    if not column.dtype.is_integer() or column.null_count() or not len(column):
        return None
    low, high = _RANGES[kind]
    fits = int(column.min()) >= low and int(column.max()) <= high  # type: ignore[arg-type]
    return column.cast(pl.Int64) if fits else None


def _named_months(column: pl.Series) -> pl.Series | None:
    words = column.unique()
    if len(words) > 100 or words.null_count():
        return None
    numbers = {word: MONTHS.get(plain(word)) for word in words.to_list()}
    if None in numbers.values():
        return None
    return column.replace_strict(numbers, return_dtype=pl.Int64)


def _seconds(column: pl.Series) -> pl.Series | None:
    """The seconds since midnight of times such as 13:00, 1:00 PM or 00:00 - 01:00."""
    if column.dtype == pl.Time:
        return None if column.null_count() else column.cast(pl.Int64) // 10**9
    if column.dtype.is_integer() and len(column) and not column.null_count():  # 1330 is half past one
        hours, minutes = column.cast(pl.Int64) // 100, column.cast(pl.Int64) % 100
        packed = bool(((hours >= 0) & (hours <= 24) & (minutes < 60)).all()) and bool((hours > 0).any())
        return hours * 3600 + minutes * 60 if packed else None
    if column.dtype != pl.String or column.null_count() or not len(column):
        return None
    found = column.str.strip_chars().str.extract_groups(_CLOCK).struct.unnest()
    hour, minute, second, half = found.get_columns()
    if hour.null_count():
        return None
    hours = hour.cast(pl.Int64)
    late = half.str.to_lowercase()
    hours = pl.select(
        pl.when(late == "p").then(hours % 12 + 12).when(late == "a").then(hours % 12).otherwise(hours)
    ).to_series()
    minutes, seconds = minute.cast(pl.Int64), second.fill_null("0").cast(pl.Int64)
    total = hours * 3600 + minutes * 60 + seconds
    return total if bool(((total <= 86_400) & (minutes < 60) & (seconds < 60)).all()) else None


def join_parts(
    frame: pl.DataFrame,
    parts: Sequence[str],
    *,
    form: str | None = None,
    known: str | None = None,
    first_hour: int = 0,
    zone: str | None = None,
) -> Joined:
    """The time that the columns form together: dates, or datetimes if there is a time of day.

    Args:
        frame: a table with the columns.
        parts: their names, the coarsest first.
        form: the format of a part that is a date.
        known: the format of that part in an earlier table.
        first_hour: the number of the first hour in an earlier table, for hours that decide nothing.
        zone: the time zone, in which half hours are counted through a change of the clock.
    """
    read: dict[str, pl.Series] = {}
    found_form = None
    for name in parts:
        column = frame[name]
        if not read and "year" not in named_kinds(name) and (form or _is_date(column)):
            reading = _dates(column, form, known)
            read["date"], found_form = reading.values, reading.form
            continue
        kind, numbers = _kind_of(column, [*read])
        read[kind] = numbers
    numbered = next((kind for kind in _NUMBERED if kind in read), None)
    if numbered is not None and "date" in read and not read["date"].null_count():
        return Joined(_numbered_times(read["date"], read[numbered], _NUMBERED[numbered], parts[-1], zone), found_form)
    return _assembled(frame, parts, read, found_form, first_hour)


def _numbered_times(day: pl.Series, number: pl.Series, usual: int, name: str, zone: str | None) -> pl.Series:
    """The beginnings of numbered parts of a day. Where the clock changes, a day has an hour more or less."""
    midnight = day.cast(pl.Datetime("us"))
    elapsed = ((number - 1) * (86_400 * 10**6 // usual)).cast(pl.Duration("us"))
    if zone is not None:
        return midnight.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null") + elapsed
    hour = usual // 24
    last = pl.DataFrame({"day": day, "number": number}).group_by("day").agg(pl.col("number").max()).sort("day")
    changed = last.filter(
        (pl.col("number") > usual) | ((pl.col("number") == usual - hour) & (pl.col("day") < day.max()))
    )
    if len(changed):
        raise DataError(
            f"column {name!r} must number {usual} parts of every day if there is no time zone, but got "
            f"{changed['number'][0]} on {changed['day'][0]}. If the clock changed on that day, say time_zone=...",
            advice=[Advice("data.time_zone")],
        )
    return midnight + elapsed


def _is_date(column: pl.Series) -> bool:
    return is_stamp(column) or is_packed(column)


def _dates(column: pl.Series, form: str | None, known: str | None) -> times.Reading:
    if column.dtype == pl.Date or isinstance(column.dtype, pl.Datetime):
        return times.Reading(column.cast(pl.Date), None)
    text = column.cast(pl.String).str.strip_chars()
    if form is not None:
        return times.Reading(times.parse(text, form), form)
    for iso in times.ISO_FORMS:
        values = times.parse(text, iso)
        if not values.null_count():
            return times.Reading(values.cast(pl.Date), None)
    whole = times.decide_whole(column, known=known) if column.dtype.is_integer() else None
    found = whole or times.decide(text, known=known)
    return found if found is not None else times.Reading(text.cast(pl.Date, strict=False), None)


def _kind_of(column: pl.Series, before: Sequence[str]) -> tuple[str, pl.Series]:
    """The part of the time that a column holds: by its name, or the next finer one that its numbers can be."""
    last = before[-1] if before else None
    after = "hour" if last == "date" else _FINER[_FINER.index(last) + 1] if last in _FINER[:-1] else "year"
    likely = [kind for kind in (*named_kinds(column.name), after, "clock") if kind not in before]
    for kind in likely:
        numbers = numbers_of(column, kind)
        if numbers is not None:
            return kind, numbers
    row = _odd_row(column, likely[0])
    raise DataError(
        f"column {column.name!r} must hold the {likely[0]} of the time in every row, but got "
        f"{str(column[row])[:60]!r} at row {row}. Correct the cell, or name other columns with time_col=...",
        advice=[Advice("data.time_col")],
    )


def _odd_row(column: pl.Series, kind: str) -> int:
    """The first row whose cell is not such a part; 0 if each one is."""
    ends = len(column)
    low = 0
    if ends and numbers_of(column.head(1), kind) is None:
        return 0
    while ends - low > 1:  # the cells before `low` fit together, those before `ends` do not
        middle = (low + ends) // 2
        low, ends = (middle, ends) if numbers_of(column.head(middle), kind) is not None else (low, middle)
    return max(ends - 1, 0)


def _assembled(
    frame: pl.DataFrame, parts: Sequence[str], read: Mapping[str, pl.Series], form: str | None, first_hour: int
) -> Joined:
    day = read["date"] if "date" in read else _day(read)
    if "hour" in read:
        low, high = int(read["hour"].min()), int(read["hour"].max())  # type: ignore[arg-type]
        first_hour = 0 if low == 0 else 1 if high == 24 else first_hour
    values = day
    if "clock" in read or "hour" in read:
        seconds = read["clock"] if "clock" in read else (read["hour"] - first_hour) * 3600
        seconds = seconds + (read["minute"] * 60 if "minute" in read else 0)
        seconds = seconds + read.get("second", 0)
        values = (day.cast(pl.Datetime("us")).to_physical() + seconds * 10**6).cast(pl.Datetime("us"))
    row = first_true(values.is_null()) if values.null_count() else None
    if row is not None:
        cells = listing(str(frame[name][row]) for name in parts)
        raise DataError(
            f"the columns {listing(parts)} must form a time in every row, but got {cells} at row {row}. "
            "Correct the row, or name other columns with time_col=...",
            advice=[Advice("data.time_col")],
        )
    return Joined(values, form, first_hour)


def _day(read: Mapping[str, pl.Series]) -> pl.Series:
    """The date of year, and month, week, quarter or day of the year; null where there is none."""
    if "year" not in read:
        raise DataError(
            f"columns that form a time must have a date or a year, but got {listing(read)}. "
            "Name them with time_col=..., the coarsest first.",
            advice=[Advice("data.time_col")],
        )
    year = read["year"].cast(pl.String)
    if "week" in read and "month" not in read:
        return (year + "-W" + _two(read["week"]) + "-1").str.to_date("%G-W%V-%u", strict=False)
    if "yearday" in read:
        return (year + "-" + read["yearday"].cast(pl.String).str.zfill(3)).str.to_date("%Y-%j", strict=False)
    month = read.get("month")
    if month is None:
        month = read["quarter"] * 3 - 2 if "quarter" in read else year.str.len_chars().cast(pl.Int64) * 0 + 1
    day = _two(read["day"]) if "day" in read else "01"
    return (year + "-" + _two(month) + "-" + day).str.to_date("%Y-%m-%d", strict=False)


def _two(numbers: pl.Series) -> pl.Series:
    return numbers.cast(pl.String).str.zfill(2)


def described(parts: Sequence[str], frame: pl.DataFrame, joined: Joined) -> str:
    """The assumption about joined columns, with the first row as an example."""
    cells = ", ".join(repr(str(frame[name][0])) for name in parts)
    hours = "; hour 1 begins at 00:00" if joined.first_hour else ""
    form = f", the date written as {joined.form}" if joined.form else ""
    return f"columns {', '.join(map(repr, parts))} together are the time: {cells} is {joined.values[0]}{form}{hours}"
