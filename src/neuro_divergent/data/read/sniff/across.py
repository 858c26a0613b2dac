"""Tables whose columns are times: dates, years, or parts of a time such as h1 to h24 beside a date, or Jan to Dec."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.sniff import times as time_forms
from neuro_divergent.data.read.sniff.parts import has_clock, is_stamp, join_parts, named_kinds, numbers_of
from neuro_divergent.data.read.sniff.words import MONTHS, plain
from neuro_divergent.data.schema.load_report import Assumption, listing

_PREFIXES = {
    "hour": "h hr he hour std stunde heure hora ora uur u",
    "day": "d day tag jour dia giorno dag",
    "month": "m month monat mois mes mese maand",
    "quarter": "q quarter qtr quartal t trim trimestre k",
    "week": "w wk kw week woche s semaine semana settimana",
}
_SETS = {
    "hour": ({*range(24)}, {*range(1, 25)}),
    "day": ({*range(1, 32)},),
    "month": ({*range(1, 13)},),
    "quarter": ({1, 2, 3, 4},),
    "week": ({*range(1, 53)}, {*range(1, 54)}),
}
_WORDS = {"hour": "hours of the day", "clock": "times of the day", "day": "days of the month", "month": "months",
          "quarter": "quarters", "week": "ISO weeks", "year": "years"}  # fmt: skip
_NEEDS = {"hour": "day", "clock": "day", "day": "month", "month": "year", "quarter": "year", "week": "year",
          "year": "period"}  # fmt: skip
_CLOCKS = (24, 48, 96)
MOST_HEADERS = 10_000
PART = "\0part"


class Across(NamedTuple):
    """Columns that are one part of the time each."""

    kind: str
    numbers: dict[str, int]
    """The part of each column, such as the hour; of a clock the seconds."""


def series_in_rows(frame: pl.DataFrame, asked: Mapping[str, Any], assumptions: list[Assumption]) -> pl.DataFrame:
    """A table whose columns are times, turned into one row per series and time. Any other table stays as it is."""
    time, target = str(asked.get("time_col", "ds")), str(asked.get("target_col", "y"))
    if {time, target} & {*frame.columns} or "wide" in asked:
        return frame
    found = _parts_across(frame)
    if found is not None:
        return _joined(frame, found, asked, assumptions)
    return _dates_across(frame, time, target, assumptions)


def _parts_across(frame: pl.DataFrame) -> Across | None:
    """The columns that are one part of the time each, if the other columns have the coarser parts; None if not."""
    numeric = [name for name, kind in frame.schema.items() if kind.is_numeric() or kind == pl.Null][:MOST_HEADERS]
    for kind in _NEEDS:
        numbers = _headers(numeric, kind)
        if numbers and _has_parts(frame.drop(list(numbers)), _NEEDS[kind]):
            return Across(kind, numbers)
    return None


def _headers(names: Sequence[str], kind: str) -> dict[str, int]:
    """The columns whose names are the parts of one kind, all of them; empty if some are absent."""
    read: dict[str, int] = {}
    for name in names:
        number = _header(name, kind)
        if number is not None and number not in read.values():
            read[name] = number
    if kind == "clock":
        steps = {b - a for a, b in zip([*read.values()], [*read.values()][1:], strict=False)}
        return read if len(read) in _CLOCKS and len(steps) == 1 else {}
    if kind == "year":
        return read if len(read) > 1 else {}
    return read if {*read.values()} in _SETS[kind] else {}


def _header(name: str, kind: str) -> int | None:
    text = plain(name)
    if kind == "clock":
        found = re.fullmatch(r"(\d{1,2}):(\d\d)(?::00)?(?:\s*[-–]\s*\d{1,2}:\d\d)?", text)
        return int(found[1]) * 3600 + int(found[2]) * 60 if found else None
    if kind == "year":
        return int(text) if re.fullmatch(r"1[5-9]\d\d|2[01]\d\d", text) else None
    if kind == "month" and text in MONTHS:
        return MONTHS[text]
    found = re.fullmatch(r"([a-z]*)[\s_.-]*(\d{1,2})\.?", text)
    return int(found[2]) if found and (not found[1] or found[1] in _PREFIXES[kind].split()) else None


def _base(rest: pl.DataFrame) -> dict[str, str]:
    """The coarser parts of the time in the other columns."""
    found: dict[str, str] = {}
    for column in rest.get_columns():
        if is_stamp(column) and not has_clock(column):
            found.setdefault("date", column.name)
        for kind in named_kinds(column.name):
            if kind in ("year", "month", "day", "quarter", "week") and numbers_of(column, kind) is not None:
                found.setdefault(kind, column.name)
    return found


def _has_parts(rest: pl.DataFrame, finest: str) -> bool:
    base = _base(rest)
    if finest == "period":
        return bool({"month", "quarter", "week"} & base.keys()) and not {"year", "date"} & base.keys()
    if finest == "day":
        return "date" in base or {"year", "month", "day"} <= base.keys()
    if finest == "month":
        return {"year", "month"} <= base.keys() and "day" not in base
    return "year" in base and not {"month", "date"} & base.keys()


def _joined(
    frame: pl.DataFrame, found: Across, asked: Mapping[str, Any], assumptions: list[Assumption]
) -> pl.DataFrame:
    time, target = str(asked.get("time_col", "ds")), str(asked.get("target_col", "y"))
    columns = [*found.numbers]
    rest = [name for name in frame.columns if name not in found.numbers]
    base = _base(frame.select(rest))
    parts = _coarser(base, _NEEDS[found.kind])
    long = frame.unpivot(on=columns, index=rest, variable_name=PART, value_name=target)
    long = long.filter(pl.col(target).is_not_null())
    number = long[PART].replace_strict(found.numbers, return_dtype=pl.Int64)
    if found.kind == "day":
        long, number = _existing_days(long, number, parts, target)
    part = _part_column(number, found.kind)
    together = [part.name, *parts] if found.kind == "year" else [*parts, part.name]
    joined = join_parts(long.with_columns(part), together)
    hours = "; hour 1 begins at 00:00" if found.kind == "hour" and joined.first_hour else ""
    what = (
        f"the columns {listing(columns, 2)} are the {_WORDS[found.kind]}, beside {', '.join(map(repr, parts))}{hours}"
    )
    example = f"{columns[0]!r} of the first row is {joined.values[0]}" if len(long) else "they are empty"
    assumptions.append(Assumption(f"{what}: {example}", Advice("data.wide", False)))
    wanted = str([asked.get(role) for role in ("future", "historical", "categorical")])
    spare = [name for name in parts if repr(name) not in wanted]
    texts = [name for name in rest if frame.schema[name] == pl.String and name not in parts]
    return long.drop(PART, *spare).with_columns(joined.values.alias(time)).sort(*texts, time, maintain_order=True)


def _coarser(base: Mapping[str, str], finest: str) -> list[str]:
    """The columns with the other parts of the time."""
    if finest == "period":
        kinds = ["month", "day"] if "month" in base else ["quarter"] if "quarter" in base else ["week"]
        return [base[kind] for kind in kinds if kind in base]
    whole = {"day": ("year", "month", "day"), "month": ("year", "month"), "year": ("year",)}[finest]
    return [base[kind] for kind in whole] if {*whole} <= base.keys() else [base["date"]]


def _part_column(number: pl.Series, kind: str) -> pl.Series:
    if kind != "clock":
        return number.alias(kind)
    return (number * 10**9).cast(pl.Time).alias("clock")


def _existing_days(
    long: pl.DataFrame, number: pl.Series, parts: Sequence[str], target: str
) -> tuple[pl.DataFrame, pl.Series]:
    """Without the days that a month does not have; they must be empty or 0."""
    first = join_parts(long, parts).values
    there = number <= first.dt.month_end().dt.day()
    wrong = long.filter(~there & (pl.col(target) != 0))
    if len(wrong):
        cells = listing(str(wrong[name][0]) for name in parts)
        raise DataError(
            f"column {wrong[PART][0]!r} must be empty in months without that day, but got "
            f"{wrong[target][0]} in the row of {cells}. Correct the cell, or say wide=False.",
            advice=[Advice("data.wide", False)],
        )
    return long.filter(there), number.filter(there)


def _dates_across(frame: pl.DataFrame, time: str, target: str, assumptions: list[Assumption]) -> pl.DataFrame:
    """A table with one row per series and one column per date or year."""
    dated = [name for name in frame.columns if re.match(r"\s*\d", name) or re.search(r"\d{4}|\d\d$", name)]
    rest = [name for name in frame.columns if name not in dated]
    if len(dated) < 4 or not rest or len(rest) > len(dated):
        return frame
    kinds = frame.schema  # made anew at each call, which is slow for many columns
    if not all(kinds[name].is_numeric() or kinds[name] == pl.Null for name in dated):
        return frame
    heads = pl.Series(dated)
    whole = heads.cast(pl.Int64, strict=False)
    if whole.null_count() and not time_forms.holds_times(heads):
        return frame
    if not whole.null_count() and not time_forms.years(whole):
        return frame
    if any(is_stamp(frame[name]) for name in rest):
        return frame
    what = f"each row is a series and the columns {listing(dated, 2)} are the times"
    assumptions.append(Assumption(what, Advice("data.wide", False)))
    frame = _without_sums(frame, rest, assumptions)
    long = frame.unpivot(on=dated, index=rest, variable_name=time, value_name=target)
    long = long.filter(pl.col(target).is_not_null())
    return long.with_columns(pl.col(time).cast(pl.Int64)) if not whole.null_count() else long


def _without_sums(frame: pl.DataFrame, names: list[str], assumptions: list[Assumption]) -> pl.DataFrame:
    """Without the last rows in which a name of the series is empty, such as sums; not if other rows lack one too."""
    empty = frame.select(pl.any_horizontal(pl.col(name).cast(pl.String).fill_null("") == "" for name in names))
    flags = empty.to_series()
    sums = next((n for n, flag in enumerate(reversed(flags.to_list())) if not flag), 0)
    if not sums or flags.sum() != sums:
        return frame
    assumptions.append(left_out(frame, sums))
    return frame.head(len(frame) - sums)


def left_out(frame: pl.DataFrame, last: int) -> Assumption:
    """The assumption about last rows that are no rows of the table."""
    cells = [str(next((cell for cell in row if cell is not None), "")) for row in frame.tail(last).rows()]
    rows = "the last row is no row" if last == 1 else f"the last {last} rows are no rows"
    return Assumption(f"{rows} of the table: {listing(cells, 3)}")
