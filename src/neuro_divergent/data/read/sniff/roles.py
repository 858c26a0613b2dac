"""Infers the roles of columns: a role is assigned if there is one candidate; several candidates raise a question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.sniff.parts import (
    NUMBERED,
    Joined,
    described,
    find_parts,
    join_parts,
    named_kinds,
    numbers_of,
)
from neuro_divergent.data.read.sniff.times import decide_whole, holds_times, serial_days, years
from neuro_divergent.data.read.sniff.words import plain
from neuro_divergent.data.schema.file_format import FileFormat
from neuro_divergent.data.schema.load_report import Assumption, listing

TIMES = (
    "ds", "timestamp", "datetime", "date", "time", "day", "week", "month", "quarter", "year", "hour", "period", "index",
    "datum", "zeit", "fecha", "data", "jahr", "monat", "tag",
)  # fmt: skip
IDS = (
    "unique_id", "id", "series", "series_id", "item", "item_id", "sku", "store", "store_id", "shop", "symbol", "ticker",
    "name", "product", "product_id", "region", "country", "site", "meter", "sensor", "customer", "filiale", "artikel",
)  # fmt: skip
TARGETS = (
    "y", "target", "sales", "demand", "load", "consumption", "quantity", "qty", "sold", "units", "revenue", "turnover",
    "trips", "passengers", "umsatz", "menge", "absatz", "ventes", "ventas",
)  # fmt: skip
WEAK_TARGETS = ("close", "value", "price", "count", "amount", "cnt", "wert", "valeur", "valor")
"""Names of a target that are also common for other columns."""
JOINED_TIME = "ds"
"""The name of a time that several columns form together."""
ROW_NUMBERS = (
    "",
    "#",
    "no",
    "nr",
    "row",
    "rownum",
    "row_number",
    "lfd nr",
    "lfd. nr",
    "index",
    "instant",
    "unnamed: 0",
)
"""Names of columns that number the rows."""
BEGINNINGS = ("start", "begin", "beginn", "anfang", "von", "from", "debut", "inicio", "inizio", "van")
"""Words in the name of the first of two time columns."""
MOST_TOGETHER = 6
MOST_KEYS = 3


@dataclass
class Roles:
    """The inferred roles, the assumptions behind them, and the open questions."""

    fields: dict[str, Any] = field(default_factory=dict)
    assumptions: list[Assumption] = field(default_factory=list)
    problems: list[DataError] = field(default_factory=list)
    joined: Joined | None = None
    """The time, if several columns form it together."""

    def take(self, name: str, value: Any, what: str) -> None:
        """Assign a role and list the assumption."""
        self.fields[name] = value
        self.assumptions.append(Assumption(what, Advice(f"data.{name}", "..." if value is not True else False)))


def find_roles(frame: pl.DataFrame, asked: Mapping[str, Any], known: FileFormat | None = None) -> Roles:
    """The time, id and target columns that were not given and do not have their usual names.

    Args:
        frame: the table, with numbers already parsed.
        asked: the given roles, under the field names of `DataSchema`.
        known: the format of an earlier file.
    """
    found = Roles()
    others = _with_roles(asked, "future", "historical", "static", "categorical", "weight", "available_mask")
    asked = with_time_parts(asked)
    parts = _parts(frame, asked, others)
    if parts:
        frame = _joined(frame, parts, asked, known, found)
        if found.joined is None:
            if not asked.get("wide") and _named_or(frame, asked, "target_col", "y") is None:  # ask both at once
                given = _given_id(frame, asked) or ()
                _target(frame, {*parts, *given, *others}, bool(given), found, columns_asked="wide" in asked)
            return found
    time = _named_or(frame, asked, "time_col", "ds") or _time(frame, others, found)
    if time is None or time not in frame.columns:
        return found
    others = others | {*parts} | ({time} if parts else set())
    stated = _given_id(frame, asked)
    keys = stated or ()
    if stated is None and not asked.get("wide"):
        varying = _with_roles(asked, "future", "historical", "weight", "available_mask")  # an id may also be static
        keys = _id(frame, time, varying, _named_or(frame, asked, "target_col", "y"), found) or ()
    if asked.get("wide") or _named_or(frame, asked, "target_col", "y") is not None:
        return found
    _target(frame, {time, *keys, *others}, bool(keys), found, columns_asked="wide" in asked)
    return found


def with_time_parts(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The given roles, with a list of time columns as the parts of one."""
    names = asked.get("time_col")
    if not isinstance(names, list | tuple):
        return dict(asked)
    if len(names) == 1:
        return {**asked, "time_col": names[0]}
    return {**asked, "time_col": JOINED_TIME, "time_parts": tuple(names)}


def _parts(frame: pl.DataFrame, asked: Mapping[str, Any], others: set[str]) -> tuple[str, ...]:
    """The columns that form the time together: given, or found if no time column was given."""
    given = tuple(asked.get("time_parts") or ())
    if given:
        return given if {*given} <= {*frame.columns} else ()
    if "time_col" in asked or JOINED_TIME in frame.columns:
        return ()
    return find_parts(frame, others - _with_roles(asked, "future", "categorical"))


def _joined(
    frame: pl.DataFrame, parts: Sequence[str], asked: Mapping[str, Any], known: FileFormat | None, found: Roles
) -> pl.DataFrame:
    """The table with the joined time. A part that cannot be read is a problem."""
    form, hour = (None, 0) if known is None else (known.time_format, known.first_hour)
    try:
        found.joined = join_parts(
            frame, parts, form=asked.get("time_format"), known=form, first_hour=hour, zone=asked.get("time_zone")
        )
    except DataError as error:
        found.problems.append(error)
        return frame
    if not asked.get("time_parts"):
        found.fields["time_parts"] = tuple(parts)
        what = described(parts, frame, found.joined)
        found.assumptions.append(Assumption(what, Advice("data.time_col")))
    return frame.with_columns(found.joined.values.alias(str(asked.get("time_col", JOINED_TIME))))


def _with_roles(asked: Mapping[str, Any], *roles: str) -> set[str]:
    names: set[str] = set()
    for role in roles:
        value = asked.get(role)
        names.update([value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ())
    return names


def _named_or(frame: pl.DataFrame, asked: Mapping[str, Any], role: str, usual: str) -> str | None:
    """The given column, or the one with the usual name."""
    return str(asked[role]) if role in asked else usual if usual in frame.columns else None


def _given_id(frame: pl.DataFrame, asked: Mapping[str, Any]) -> tuple[str, ...] | None:
    if "id_col" in asked:
        return tuple([asked["id_col"]] if isinstance(asked["id_col"], str) else asked["id_col"])
    return ("unique_id",) if "unique_id" in frame.columns else None


def likely_name(names: Sequence[str], likely: Sequence[str]) -> str | None:
    """The first of the likely names that is a column. A unit in brackets behind a name does not count.

    >>> likely_name(["Price", "Sales [EUR]"], ["sales", "price"])
    'Sales [EUR]'
    """
    by_key = {re.sub(r"\s*[\[(][^\])]*[\])]$", "", name.strip().lower()): name for name in reversed(names)}
    return next((by_key[name] for name in likely if name in by_key), None)


def _time(frame: pl.DataFrame, others: set[str], found: Roles) -> str | None:
    columns = [column for column in frame.get_columns() if column.name not in others]
    temporal = [c.name for c in columns if c.dtype in (pl.Date, pl.Datetime)]
    temporal += [c.name for c in columns if c.dtype == pl.String and holds_times(c)]
    whole = [c for c in columns if c.dtype.is_integer() and not c.null_count()]
    counted = [c.name for c in whole if likely_name([c.name], TIMES)]
    counted += [c.name for c in whole if c.name not in counted and (years(c) or _dated(c)) and c.n_unique() > 2]
    serial = [c.name for c in columns if serial_days(c)]
    possible = temporal or serial or counted
    name = possible[0] if len(possible) == 1 else likely_name(possible, TIMES) or _beginning(possible)
    if name is None:
        got = f"several: {listing(possible)}" if possible else f"none among the columns {listing(frame.columns, 20)}"
        found.problems.append(
            DataError(
                f"the table must have one column of time stamps, but got {got}. Name it with time_col=...",
                advice=[Advice("data.time_col", possible[0] if possible else "...")],
            )
        )
        return None
    found.take("time_col", name, f"column {name!r} holds the time stamps")
    return name


def _beginning(names: Sequence[str]) -> str | None:
    """The one of two time columns at which a span begins."""
    first = [name for name in names if {*re.split(r"[^a-z]+", plain(name))} & {*BEGINNINGS}]
    return first[0] if len(first) == 1 and len(names) == 2 else None


def _row_numbers(column: pl.Series) -> bool:
    """Whether a column numbers the rows from 0 or 1."""
    if plain(column.name) not in ROW_NUMBERS or not column.dtype.is_integer() or not len(column):
        return False
    return column[0] in (0, 1) and bool((column.diff().drop_nulls() == 1).all())


def _part_of_time(column: pl.Series) -> bool:
    """Whether a column has a part of the time, which does not name series."""
    return any(numbers_of(column, kind) is not None for kind in named_kinds(column.name))


def _calendar(column: pl.Series) -> bool:
    """Whether a column has a part of the time, which is no target."""
    return any(kind != "clock" and numbers_of(column, kind) is not None for kind in named_kinds(column.name))


def _dated(column: pl.Series) -> bool:
    try:
        return decide_whole(column) is not None
    except DataError:
        return True  # times; only their format is unclear


def _id(frame: pl.DataFrame, time: str, others: set[str], target: str | None, found: Roles) -> tuple[str, ...] | None:
    """Columns of names or numbers that distinguish rows of the same time."""
    possible = _possible_ids(frame, {time, target or time, *others})
    if frame[time].n_unique() == len(frame):
        constant = [name for name in possible if likely_name([name], IDS) and frame[name].n_unique() == 1]
        if len(constant) == 1 and frame.schema[constant[0]] == pl.String:
            found.take("id_col", constant[0], f"column {constant[0]!r} names the series")
            return (constant[0],)
        return None
    for count in range(1, MOST_KEYS + 1):
        fitting = [
            names
            for names in combinations(possible[:MOST_TOGETHER], count)
            if frame.select(time, *names).n_unique() == len(frame)
        ]
        if not fitting:
            continue
        named = [names for names in fitting if all(likely_name([name], IDS) for name in names)]
        chosen = (named or fitting)[0]
        what = f"column {chosen[0]!r} names" if count == 1 else f"columns {', '.join(map(repr, chosen))} together name"
        found.take("id_col", chosen[0] if count == 1 else list(chosen), f"{what} the series")
        return chosen
    usual = likely_name(possible, IDS)
    if usual is not None:
        found.take("id_col", usual, f"column {usual!r} names the series")
    return None if usual is None else (usual,)


def _possible_ids(frame: pl.DataFrame, taken: set[str]) -> list[str]:
    """Text columns, and whole-number columns with the name of an id, the likeliest first."""
    named, texts = [], []
    for name, kind in frame.schema.items():
        if name in taken or not (kind == pl.String or kind.is_integer()) or _part_of_time(frame[name]):
            continue
        words = re.split(r"[^a-z0-9]+", name.lower())
        if any(word in IDS or word in ("no", "nr", "code", "number") for word in (name.lower(), *words)):
            named.append(name)
        elif kind == pl.String:
            texts.append(name)
    return named + texts


def _target(frame: pl.DataFrame, taken: set[str], keyed: bool, found: Roles, *, columns_asked: bool) -> None:
    spare = {c.name for c in frame.get_columns() if c.dtype.is_numeric() and (_row_numbers(c) or _calendar(c))}
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric() and name not in taken | spare]
    likely = [name for name in numbers if likely_name([name], TARGETS)]
    likely = likely or [name for name in numbers if likely_name([name], WEAK_TARGETS)]
    if len(numbers) == 1 or len(likely) == 1:
        name = (numbers if len(numbers) == 1 else likely)[0]
        found.take("target_col", name, f"column {name!r} is the target")
        return
    rest = [name for name in frame.columns if name not in taken and name not in numbers]
    unnamed = any(re.fullmatch(NUMBERED, name) for name in numbers)  # their common pattern says nothing
    one_kind = len(numbers) > 1 and not likely and not keyed and not rest and not unnamed
    if one_kind and not columns_asked and len({re.sub(r"\d+", "#", name) for name in numbers}) == 1:
        found.take("wide", True, f"each of the {len(numbers)} columns {listing(numbers, 3)} is a series (wide)")
        return
    if not numbers:
        texts = likely_name(rest, (*TARGETS, *WEAK_TARGETS))
        if texts is not None:
            found.take("target_col", texts, f"column {texts!r} is the target")
            return
        got = f"none among the columns {listing(frame.columns, 20)}"
    else:
        got = f"several: {listing(likely or numbers, 10)}"
    wide = "" if keyed or not numbers else ", or wide=True if each of them is a series"
    found.problems.append(
        DataError(
            f"the table must have one column to forecast, but got {got}. Name it with target_col=...{wide}",
            advice=[Advice("data.target_col"), *([Advice("data.wide", True)] if wide else [])],
        )
    )
