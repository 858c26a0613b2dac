"""Infers the roles of columns: a role is assigned if there is one candidate; several candidates raise a question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.sniff.times import decide_whole, holds_times, years
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
MOST_TOGETHER = 6
MOST_KEYS = 3


@dataclass
class Roles:
    """The inferred roles, the assumptions behind them, and the open questions."""

    fields: dict[str, Any] = field(default_factory=dict)
    assumptions: list[Assumption] = field(default_factory=list)
    problems: list[DataError] = field(default_factory=list)

    def take(self, name: str, value: Any, what: str) -> None:
        """Assign a role and list the assumption."""
        self.fields[name] = value
        self.assumptions.append(Assumption(what, Advice(f"data.{name}", "..." if value is not True else False)))


def find_roles(frame: pl.DataFrame, asked: Mapping[str, Any]) -> Roles:
    """The time, id and target columns that were not given and do not have their usual names.

    Args:
        frame: the table, with numbers already parsed.
        asked: the given roles, under the field names of `DataSchema`.
    """
    found = Roles()
    others = _with_roles(asked, "future", "historical", "static", "categorical", "weight", "available_mask")
    time = _named_or(frame, asked, "time_col", "ds") or _time(frame, others, found)
    if time is None or time not in frame.columns:
        return found
    keys = _given_id(frame, asked)
    if keys is None and not asked.get("wide"):
        varying = _with_roles(asked, "future", "historical", "weight", "available_mask")  # an id may also be static
        keys = _id(frame, time, varying, _named_or(frame, asked, "target_col", "y"), found)
    if asked.get("wide") or _named_or(frame, asked, "target_col", "y") is not None:
        return found
    _target(frame, {time, *(keys or ()), *others}, bool(keys), found, columns_asked="wide" in asked)
    return found


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
    """The first of the likely names that is a column.

    >>> likely_name(["Price", "Sales"], ["sales", "price"])
    'Sales'
    """
    by_key = {name.strip().lower(): name for name in reversed(names)}
    return next((by_key[name] for name in likely if name in by_key), None)


def _time(frame: pl.DataFrame, others: set[str], found: Roles) -> str | None:
    columns = [column for column in frame.get_columns() if column.name not in others]
    temporal = [c.name for c in columns if c.dtype in (pl.Date, pl.Datetime)]
    temporal += [c.name for c in columns if c.dtype == pl.String and holds_times(c)]
    whole = [c for c in columns if c.dtype.is_integer() and not c.null_count()]
    counted = [c.name for c in whole if likely_name([c.name], TIMES)]
    counted += [c.name for c in whole if c.name not in counted and (years(c) or _dated(c)) and c.n_unique() > 2]
    possible = temporal or counted
    name = possible[0] if len(possible) == 1 else likely_name(possible, TIMES)
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
        if name in taken or not (kind == pl.String or kind.is_integer()):
            continue
        words = re.split(r"[^a-z0-9]+", name.lower())
        if any(word in IDS or word in ("no", "nr", "code", "number") for word in (name.lower(), *words)):
            named.append(name)
        elif kind == pl.String:
            texts.append(name)
    return named + texts


def _target(frame: pl.DataFrame, taken: set[str], keyed: bool, found: Roles, *, columns_asked: bool) -> None:
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric() and name not in taken]
    likely = [name for name in numbers if likely_name([name], TARGETS)]
    likely = likely or [name for name in numbers if likely_name([name], WEAK_TARGETS)]
    if len(numbers) == 1 or len(likely) == 1:
        name = (numbers if len(numbers) == 1 else likely)[0]
        found.take("target_col", name, f"column {name!r} is the target")
        return
    rest = [name for name in frame.columns if name not in taken and name not in numbers]
    one_kind = len(numbers) > 1 and not likely and not keyed and not rest
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
