"""Reads the time column of a table: datetimes, dates, text, whole numbers. Time zones are kept."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.columns import Stamps, Where, first_true, is_text
from neuro_divergent.data.read.sniff.times import (
    EXCEL,
    ISO_FORMS,
    Reading,
    decide,
    decide_whole,
    fits,
    from_serial,
    parse,
    week_form,
)

_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999 in microseconds
OFFSET = re.compile(r"^(.*:[\d.]+|\d{4}[-/.]\d{1,2}[-/.]\d{1,2})\s?([Zz]|[+-]\d{2}(?::?\d{2})?)$")
"""Only after a time of day or a whole date: the end of 2024-01-31 and of 31-01-2024 is not an offset."""


def read_stamps(
    series: pl.Series,
    where: Where,
    *,
    zone: str | None = None,
    form: str | None = None,
    known: str | None = None,
    iso_only: bool = False,
    counted: bool = False,
) -> Stamps:
    """The column as whole numbers, with their unit and time zone.

    Stamps with a zone or offset are in UTC and keep their zone (or `zone`, if given); others have none.

    Args:
        series: the time column.
        where: names a row for a message.
        zone: the time zone of stamps that have none.
        form: the format of text; every cell must fit it.
        known: the format of earlier data; used if every cell fits it.
        iso_only: refuse text in other formats; for a column of which only a part is read.
        counted: whether whole numbers are steps, even if they could be dates such as 20201231.
    """
    if form == EXCEL and series.dtype.is_numeric():
        series = from_serial(series.cast(pl.Float64)).alias(series.name)
    if is_text(series):
        found = _from_text(
            series.cast(pl.String).str.strip_chars(), where, zone=zone, form=form, known=known, iso_only=iso_only
        )
        if found.values.dtype.is_integer():
            return read_stamps(found.values, where, zone=zone, known=known, iso_only=iso_only, counted=counted)
        return replace(read_stamps(found.values, where, zone=zone), form=found.form, assumption=found.assumption)
    row = first_true(series.is_null()) if series.null_count() else None
    if row is not None:
        raise DataError(
            f"column {series.name!r} must have a time in every row, but got an empty cell at {where(row)}. "
            "Fill it in or remove the row."
        )
    if series.dtype in (pl.Float32, pl.Float64):
        series = _whole(series, where)
    if series.dtype.is_integer():
        dated = None if counted or iso_only else _dated(series, where, zone=zone, form=form, known=known)
        if dated is None:
            return _integers(series, where, zone)
        return replace(read_stamps(dated.values, where, zone=zone), form=dated.form, assumption=dated.assumption)
    if series.dtype == pl.Date:
        return _dates(series, where, zone)
    if isinstance(series.dtype, pl.Datetime):
        return _datetimes(series, where, zone)
    raise DataError(
        f"column {series.name!r} must hold time stamps (datetimes, dates, text, whole numbers), "
        f"but got {series.dtype}. Name another one with time_col=...",
        advice=[Advice("data.time_col")],
    )


def _whole(series: pl.Series, where: Where) -> pl.Series:
    row = first_true(~(series.is_finite() & (series == series.floor()) & (series.abs() < 2**53)))
    if row is not None:
        raise DataError(
            f"column {series.name!r} must hold time stamps or whole numbers, but got {series[row]} at {where(row)}. "
            "Convert the column to datetimes."
        )
    return series.cast(pl.Int64)


def _dated(series: pl.Series, where: Where, *, zone: str | None, form: str | None, known: str | None) -> Reading | None:
    """Whole numbers such as 20201231 or milliseconds since 1970 as times; None if they count steps."""
    if form is not None:
        text = series.cast(pl.String)
        found: Reading | None = Reading(
            _strict(text, parse(text, form), where, f"written as time_format={form!r}"), form
        )
    else:
        found = decide_whole(series, known=known)
    if found is None:
        return None
    values = found.values.alias(series.name)
    if zone is not None and str(found.form).startswith("epoch"):
        values = values.dt.replace_time_zone("UTC")
    return found._replace(values=values)


def _integers(series: pl.Series, where: Where, zone: str | None) -> Stamps:
    if not len(series):
        return Stamps(np.zeros(0, dtype=np.int64), "i", "int64")
    if zone is not None:
        raise DataError(f"whole numbers have no time zone, but got time_zone={zone!r} for column {series.name!r}.")
    row = first_true(series.cast(pl.Float64).abs() > 2.0**60)
    if row is not None:
        raise DataError(f"column {series.name!r} must stay below 2**60, but got {series[row]} at {where(row)}.")
    label = str(series.dtype).lower()
    return Stamps(series.cast(pl.Int64).to_numpy(), "i", label)


def _dates(series: pl.Series, where: Where, zone: str | None) -> Stamps:
    ticks = series.to_physical().to_numpy()
    if len(ticks):
        _check_years(series, int(ticks.min()) * 86_400_000_000, int(ticks.max()) * 86_400_000_000, where)
    if zone is not None:
        return Stamps(ticks.astype(np.int64) * 86_400_000_000, "us", "datetime[us]")
    return Stamps(ticks, "D", "date")


def _datetimes(series: pl.Series, where: Where, zone: str | None) -> Stamps:
    unit = series.dtype.time_unit  # type: ignore[attr-defined]
    own: str | None = series.dtype.time_zone  # type: ignore[attr-defined]
    ticks = series.to_physical().to_numpy()
    if unit == "ns":
        row = first_true(ticks % 1000 != 0)
        if row is not None:
            raise DataError(
                f"column {series.name!r} must be exact to microseconds, but got {ticks[row] % 1000} ns more at "
                f"{where(row)}. Round the time stamps."
            )
        ticks = ticks // 1000
    elif unit == "ms":
        if len(ticks) and max(abs(int(ticks.min())), abs(int(ticks.max()))) > _LATEST // 1000:
            _check_years(series, int(ticks.min()) * 1000, int(ticks.max()) * 1000, where)
        ticks = ticks * 1000
    if len(ticks):
        _check_years(series, int(ticks.min()), int(ticks.max()), where)
    return Stamps(ticks, "us", f"datetime[{unit}]", (zone or own) if own else None)


def _check_years(series: pl.Series, first: int, last: int, where: Where) -> None:
    if first >= _EARLIEST and last <= _LATEST:
        return
    row = series.arg_min() if first < _EARLIEST else series.arg_max()
    raise DataError(
        f"column {series.name!r} must lie in the years 1 to 9999, but got another year at {where(int(row or 0))}. "
        "Correct the time stamp."
    )


def _from_text(
    text: pl.Series, where: Where, *, zone: str | None, form: str | None, known: str | None, iso_only: bool
) -> Reading:
    row = first_true(text.is_null() | (text == ""))
    if row is not None:
        raise DataError(
            f"column {text.name!r} must have a time in every row, but got an empty cell at {where(row)}. "
            "Fill it in or remove the row."
        )
    if not len(text):
        return Reading(text.cast(pl.Int64, strict=False), None)
    if form is not None:
        return Reading(_strict(text, parse(text, form), where, f"written as time_format={form!r}"), form)
    given = OFFSET.search(text[0])
    if given is not None:
        return Reading(_with_offsets(text, given[2], where, zone), None)
    whole = text.cast(pl.Int64, strict=False)
    if whole.null_count() == 0:
        return Reading(whole, None)
    return _recognised(text, where, known, iso_only=iso_only)


def _recognised(text: pl.Series, where: Where, known: str | None = None, *, iso_only: bool = True) -> Reading:
    """Infer the format from the first cell. Every other cell must have it too, or be a longer or shorter ISO form."""
    result: pl.Series | None = None
    decided = not iso_only and (week_form(text) is not None or fits(text, known))
    for form in () if decided else ISO_FORMS:
        parsed = parse(text.head(1), form)
        if parsed.null_count():
            continue
        parsed = parse(text, form)
        result = parsed if result is None or result.null_count() > parsed.null_count() else result
        if not parsed.null_count():
            return Reading(parsed, None)
    if result is not None:
        return Reading(_strict(text, result, where, "written like the first one"), None)
    found = None if iso_only else decide(text, known=known)
    if found is None:
        raise DataError(
            f"column {text.name!r} must hold time stamps such as 2024-01-31 or 2024-01-31 13:00, "
            f"but got {text[0][:60]!r} at {where(0)}. "
            'Give their format, e.g. time_format="%d.%m.%Y", or name another column with time_col=...',
            advice=[Advice("data.time_format", "%d.%m.%Y"), Advice("data.time_col")],
        )
    _strict(text, found.values, where, f"written like the first one ({found.form})")
    return found


def _strict(text: pl.Series, parsed: pl.Series, where: Where, rule: str) -> pl.Series:
    row = first_true(parsed.is_null())
    if row is not None:
        raise DataError(
            f"column {text.name!r} must hold time stamps {rule}, but got {text[row][:60]!r} at {where(row)}. "
            "Correct the cell or say time_format=...",
            advice=[Advice("data.time_format")],
        )
    return parsed


def _with_offsets(text: pl.Series, first: str, where: Where, zone: str | None) -> pl.Series:
    # Usually all rows have the offset of the first. Then one check is enough, and no row needs a pattern.
    one = bool(text.str.ends_with(first).all())
    offsets = pl.Series([first]) if one else text.str.extract(OFFSET.pattern, 2)
    row = first_true(offsets.is_null())
    if row is not None:
        raise DataError(
            f"column {text.name!r} must not mix time zones, but got {text[row][:60]!r} without one at {where(row)}. "
            "Write every time stamp with its offset, or none."
        )
    offsets = offsets.str.replace(":", "").str.replace("(?i)^z$", "+00").str.replace(r"^([+-]\d{2})$", "${1}00")
    offsets = offsets.str.replace("-0000", "+0000", literal=True)
    different = offsets.unique(maintain_order=True).to_list()
    if len(different) > 1 and zone is None:
        row = first_true(offsets != different[0]) or 0
        raise DataError(
            f"column {text.name!r} must not mix time zones, but got offset {different[1]} at {where(row)} after "
            f'{different[0]}. If they are summer and winter time of one zone, name it, e.g. time_zone="Europe/Berlin".',
            advice=[Advice("data.time_zone", "Europe/Berlin")],
        )
    plain = text.str.strip_suffix(first) if one else text.str.replace(OFFSET.pattern, "${1}")
    local = _recognised(plain.str.strip_chars_end(), where).values.cast(pl.Datetime("us"))
    minutes = (offsets.str.slice(1, 2).cast(pl.Int64) * 60 + offsets.str.slice(3, 2).cast(pl.Int64)) * pl.select(
        pl.when(offsets.str.starts_with("-")).then(-1).otherwise(1)
    ).to_series()
    utc = (local.to_physical() - minutes * 60_000_000).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return utc.dt.convert_time_zone(zone or _fixed_zone(different[0])).alias(text.name)


def _fixed_zone(offset: str) -> str:
    """A name for an offset. Offsets that are not whole hours have none, so their stamps are stored in UTC."""
    hours, minutes = int(offset[:3]), int(offset[3:])
    if hours == minutes == 0 or minutes or not -12 <= hours <= 14:
        return "UTC"
    return f"Etc/GMT{-hours:+d}"


def check_zone(zone: str) -> None:
    """Refuse an unknown time zone."""
    try:
        pl.Series([0]).cast(pl.Datetime("us")).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    except (pl.exceptions.PolarsError, ValueError):
        raise DataError(f'time_zone must be a name such as "Europe/Berlin" or "UTC", but got {zone!r}.') from None


def localise(stamps: Stamps, zone: str, series_codes: Any, name: str, where: Where) -> Stamps:
    """Naive local time stamps as UTC. If an hour exists twice, the second row of it is the later one.

    In a series whose rows go back in time, newest first, the first row of it is the later one.
    """
    table = pl.DataFrame({"code": series_codes, "time": stamps.ticks}).with_columns(
        pl.col("time").cast(pl.Datetime("us"))
    )
    step = pl.col("time").to_physical().diff().sign().sum().over("code")
    nth = pl.int_range(pl.len()).over("code", "time")
    nth = pl.when(step < 0).then(pl.len().over("code", "time") - 1 - nth).otherwise(nth)
    latest = pl.when(nth > 0).then(pl.lit("latest")).otherwise(pl.lit("earliest"))
    utc = table.select(pl.col("time").dt.replace_time_zone(zone, ambiguous=latest, non_existent="null")).to_series()
    row = first_true(utc.is_null())
    if row is not None:
        raise DataError(
            f"column {name!r} must hold times that exist in {zone}, but got {table['time'][row]} at {where(row)}, "
            "which the change to summer time skips. Correct it, or give the stamps in UTC."
        )
    return Stamps(utc.dt.convert_time_zone("UTC").to_physical().to_numpy(), "us", stamps.label, zone)
