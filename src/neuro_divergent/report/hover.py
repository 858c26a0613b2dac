"""The values of a chart that the page shows under the pointer, as an attribute of its picture."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuro_divergent.report.chart import Chart, Trace


def hover_attribute(chart: Chart, place: Callable[[Any], float]) -> str:
    """The attribute `data-hover`; empty for a chart without values to show.

    It holds the x values as text, where each is in the picture, and for every trace its name, colour, the number of its
    first x value and its y values from there on; those of a band's lower edge come last.

    Args:
        chart: what is drawn.
        place: from an x value to its place in the picture.
    """
    shown = [trace for trace in chart.traces if len(trace.x) and not trace.dash and trace.listed]
    if not chart.hover or not shown:
        return ""
    places = {place(value): value for trace in shown for value in trace.x}
    ordered = sorted(places)
    number = {at: position for position, at in enumerate(ordered)}
    facts = {
        "x": [str(value) for value in plain(places[at] for at in ordered)],
        "at": [round(at, 1) for at in ordered],
        "of": [_values(trace, [number[place(value)] for value in trace.x]) for trace in shown],
    }
    text = json.dumps(facts, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    # In single quotes, so that those of JSON can stay.
    return f" data-hover='{text.replace('&', '&amp;').replace('<', '&lt;').replace(chr(39), '&#39;')}'"


def _values(trace: Trace, positions: Sequence[int]) -> list[Any]:
    first = min(positions)
    length = max(positions) + 1 - first
    columns = [trace.y] if trace.kind != "band" else [trace.y, trace.low]
    found: list[Any] = [trace.name, trace.colour, first]
    for column in columns:
        values: list[Any] = [None] * length
        for position, value in zip(positions, plain(column), strict=True):
            values[position - first] = value
        found.append(values)
    return found


def plain(values: Iterable[Any]) -> list[Any]:
    """Values for JSON: times as text, without the hour at midnight; six significant digits; null for no number."""
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ", timespec="seconds" if value.second else "minutes")
        return text.removesuffix(" 00:00")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int | str):
        return value
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else None
