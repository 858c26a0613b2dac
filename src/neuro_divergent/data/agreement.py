"""Check that two tables can be used together. Code that combines fitted models or tables calls `check_together`.

Letters: S series.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import DataError
from neuro_divergent.data.schema.load_report import listing
from neuro_divergent.data.table import TimeSeriesDataFrame

Relation = Literal["clock", "later", "ends", "rows"]
"""What two tables must share. "clock": frequency, time zone and type of ids. "later": the second table has later rows
of series of the first. "ends": the same series with the same last times and the same units. "rows": the same series
with the same rows."""

ROWS_COMPARED = 8
"""Last rows of each series that are compared to find out whether two tables have the same units."""


def check_together(
    first: TimeSeriesDataFrame,
    second: TimeSeriesDataFrame,
    relation: Relation,
    names: tuple[str, str] = ("the first table", "the second table"),
) -> None:
    """Raise DataError if two tables do not share what `relation` requires. The message names the series and the time.

    Args:
        first: a table.
        second: another table.
        relation: what they must share.
        names: names of the tables for the message.
    """
    if first.store is second.store and relation != "later":
        return
    _same_clock(first, second, names)
    if relation == "later":
        _later(first, second)
    elif relation != "clock":
        _same_series(first, second, names)
        _same_moments(first, second, relation, names)
        if relation == "ends":
            _same_units(first, second, names)


def positions(names: npt.NDArray[np.generic], wanted: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """Return the index of each wanted name in `names`; -1 if it is not there.

    >>> positions(np.array(["a", "b"]), np.array(["b", "c"]))
    array([ 1, -1])
    """
    place = {name: position for position, name in enumerate(names.tolist())}
    return np.array([place.get(name, -1) for name in wanted.tolist()], dtype=np.int64)


def differ(first: npt.NDArray[np.floating], second: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_] | None:
    """Return which values of two tables differ if most common values do; None if the tables agree.

    A minority may differ: a newer table may have corrections, and gaps can be imputed in several ways.
    """
    with np.errstate(invalid="ignore"):
        both = np.isfinite(first) & np.isfinite(second)
        other = both & (np.abs(first - second) > 1e-4 * np.maximum(np.abs(first), np.abs(second)))
    return other if 2 * int(other.sum()) > int(both.sum()) else None


def _same_clock(first: TimeSeriesDataFrame, second: TimeSeriesDataFrame, names: tuple[str, str]) -> None:
    for what, a, b in (
        ("frequency", first.freq, second.freq),
        ("time zone", first.store.time_zone, second.store.time_zone),
        # The ids 1 and "1" would count as two series.
        ("kind of ids", first.schema.id_type, second.schema.id_type),
    ):
        if a != b:
            raise DataError(
                f"tables that are used together must have the same {what}, but {names[0]} has {a!r} and {names[1]} has "
                f"{b!r}. Read both with the same options"
            )


def _later(first: TimeSeriesDataFrame, second: TimeSeriesDataFrame) -> None:
    known = positions(first.ids, second.ids)
    if (known < 0).any():
        unknown = listing(second.ids[known < 0].tolist())
        raise DataError(f"validation must have later rows of the training series, but has new series: {unknown}")
    last = first.store.times(first.store.lengths - 1)[known]
    early = np.flatnonzero(second.store.start <= last)
    if len(early):
        number = int(early[0])
        raise DataError(
            f"validation must be later than the training rows of its series, but {_series(second, number)} is trained "
            f"up to {_moment(first, last[number])} and validated from {_moment(second, second.store.start[number])} "
            f"on{_others(len(early))}. Use only rows after the training rows"
        )


def _same_series(first: TimeSeriesDataFrame, second: TimeSeriesDataFrame, names: tuple[str, str]) -> None:
    mine, theirs = first.ids.tolist(), second.ids.tolist()
    if mine == theirs:
        return
    parts = []
    for name, own, others in ((names[0], mine, set(theirs)), (names[1], theirs, set(mine))):
        alone = [item for item in own if item not in others]
        if alone:
            parts.append(f"only {name} has {listing(alone)}")
    raise DataError(
        f"forecasts that are used together must be of the same series, but {' and '.join(parts)}. Pass one table with "
        "the series of both: data=..."
    )


def _same_moments(
    first: TimeSeriesDataFrame, second: TimeSeriesDataFrame, relation: Relation, names: tuple[str, str]
) -> None:
    pairs = [("end", first.store.times(first.store.lengths - 1), second.store.times(second.store.lengths - 1))]
    if relation == "rows":
        pairs.append(("begin", first.store.start, second.store.start))
    for what, mine, theirs in pairs:
        odd = np.flatnonzero(mine != theirs)
        if len(odd):
            number = int(odd[0])
            raise DataError(
                f"forecasts that are used together must be of the same times, but {_series(first, number)} {what}s at "
                f"{_moment(first, mine[number])} in {names[0]} and at {_moment(second, theirs[number])} in {names[1]}"
                f"{_others(len(odd))}. Pass one table for both: data=..."
            )


def _same_units(first: TimeSeriesDataFrame, second: TimeSeriesDataFrame, names: tuple[str, str]) -> None:
    """Compare the last values of two tables that end at the same times."""
    mine, theirs = _last_values(first), _last_values(second)
    odd = differ(mine, theirs)
    if odd is not None:
        number, place = (int(part) for part in np.argwhere(odd)[0])
        when = first.store.times(first.store.lengths - 1 - place)[number]
        raise DataError(
            f"forecasts that are used together must have the same target in the same unit, but "
            f"{_series(first, number)} has {mine[number, place]:g} at {_moment(first, when)} in {names[0]} and "
            f"{theirs[number, place]:g} in {names[1]}. Train on one table, or pass one: data=..."
        )


def _last_values(table: TimeSeriesDataFrame) -> npt.NDArray[np.float64]:
    """[S, ROWS_COMPARED] the last values of each series, newest first; NaN if missing."""
    store = table.store
    back = np.arange(ROWS_COMPARED)
    rows = np.maximum(store.offsets[1:, None] - 1 - back, 0)
    there = back < store.lengths[:, None]
    there = there if store.mask is None else there & store.mask[rows]
    return np.where(there, store.y[rows].astype(np.float64), np.nan)


def _series(table: TimeSeriesDataFrame, number: int) -> str:
    return "the series" if table.schema.id_type == "none" else f"series {table.ids[number].item()!r}"


def _moment(table: TimeSeriesDataFrame, when: Any) -> str:
    return str(table._stamps(np.array([when]))[0])


def _others(count: int) -> str:
    return f" ({count - 1} more)" if count > 1 else ""


def names_of(members: Sequence[str]) -> list[str]:
    """Return names for the tables of several models, numbered because two models may have the same name.

    >>> names_of(["MLP", "MLP"])
    ['member 1 (MLP)', 'member 2 (MLP)']
    """
    return [f"member {number} ({name})" for number, name in enumerate(members, 1)]
