"""The range of a table's target: refuses values outside of a given one, proposes one, and infers that of counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.schema.bounds import Bounds
from neuro_divergent.data.schema.load_report import Assumption, DataReport, Proposal
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.store import SeriesStore

PIECE = 1 << 20
"""Number of values that are looked at together."""


def check_range(store: SeriesStore, schema: DataSchema, moment: Callable[[int, int], Any]) -> None:
    """Refuse an observed target outside of the given range, with its series and moment.

    Args:
        store: the rows.
        schema: the given range.
        moment: the time stamp of a series (its number) and a row.
    """
    bounds = schema.bounds
    if bounds is None:
        return
    wrong = _outside(store.y, bounds)
    if store.mask is not None:
        wrong &= store.mask
    if not wrong.any():
        return
    row = int(wrong.argmax())
    series = int(np.searchsorted(store.offsets, row, side="right")) - 1
    own = row - int(store.offsets[series])
    value, name = float(store.y[row]), store.ids[series].item()
    fields = {"lower": bounds.lower is not None and value < bounds.lower}
    fields["upper"] = bounds.upper is not None and value > bounds.upper
    broken = next((field for field, broke in fields.items() if broke), "integer")
    off: Any = False if broken == "integer" else None
    raise DataError(
        f"targets must be {bounds.sentence()}, as given, but series {name!r} has {value:g} at {moment(series, own)} "
        f"({int(wrong.sum()):,} such values in the whole table). Mend these values, or say {broken}={off}",
        advice=[Advice(f"data.{broken}", off)],
    )


def _outside(y: npt.NDArray[Any], bounds: Bounds) -> npt.NDArray[np.bool_]:
    wrong = np.zeros(len(y), dtype=bool)
    if bounds.lower is not None:
        wrong |= y < np.asarray(bounds.lower, dtype=y.dtype)
    if bounds.upper is not None:
        wrong |= y > np.asarray(bounds.upper, dtype=y.dtype)
    if bounds.integer:
        wrong |= y != np.rint(y)
    return wrong


def range_of(store: SeriesStore, schema: DataSchema, rows: npt.NDArray[np.int64]) -> Bounds | None:
    """The range of forecasts: the given one; with lower="auto", 0 if the first `rows` [S] of the series are counts."""
    lower = schema.lower
    if lower == "auto":
        lower = 0.0 if _counts(_observed(store, rows)) and (schema.upper is None or schema.upper > 0) else None
    return Bounds.of(lower, schema.upper, schema.integer)


def widened(bounds: Bounds | None, store: SeriesStore, schema: DataSchema) -> Bounds | None:
    """The range of a model after more rows: without the inferred lower limit if a value is below it."""
    if bounds is None or bounds.lower is None or schema.lower != "auto":
        return bounds
    _, least = _looks(_observed(store, store.lengths))
    return bounds if least >= bounds.lower else Bounds.of(None, bounds.upper, bounds.integer)


def propose_range(store: SeriesStore, schema: DataSchema, report: DataReport) -> None:
    """Add to a report what the range of the target seems to be, if none was given."""
    if schema.lower != "auto" or schema.integer:
        return
    whole, least = _looks(_observed(store, store.lengths))
    lower, integer = Advice("data.lower", 0), Advice("data.integer", True)
    if whole and least == 0:
        what = "the target is a count (whole numbers, none negative, some 0): forecasts are at least 0"
        report.assumptions.append(Assumption(what, Advice("data.lower", None)))
        report.proposals.append(Proposal("all targets are whole numbers", (integer,), "to forecast whole numbers"))
    elif whole and least > 0:
        what = "all targets are whole numbers above 0"
        report.proposals.append(Proposal(what, (lower, integer), "if they are counts"))
    elif least == 0:
        what = "no target is negative, and some are 0"
        report.proposals.append(Proposal(what, (lower,), "if forecasts must not be negative"))


def _counts(values: Iterator[npt.NDArray[Any]]) -> bool:
    whole, least = _looks(values)
    return whole and least == 0


def _looks(values: Iterator[npt.NDArray[Any]]) -> tuple[bool, float]:
    """Whether all values are whole, and the smallest of them. It stops at a negative value, which decides both uses."""
    whole, least = True, np.inf
    for piece in values:
        whole = whole and bool((piece == np.rint(piece)).all())
        least = min(least, float(piece.min(initial=np.inf)))
        if least < 0:
            break
    return whole and np.isfinite(least), least


def _observed(store: SeriesStore, rows: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[Any]]:
    """The observed targets among the first rows of the series, in pieces."""
    if (rows >= store.lengths).all():
        pieces = [slice(first, first + PIECE) for first in range(0, len(store.y), PIECE)]
    else:
        pieces = [
            slice(begin, begin + count) for begin, count in zip(store.offsets[:-1].tolist(), rows.tolist(), strict=True)
        ]
    for piece in pieces:
        yield store.y[piece] if store.mask is None else store.y[piece][store.mask[piece]]
