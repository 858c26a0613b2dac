"""A chart as an SVG element: it needs no package, and follows light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from neuro_divergent.report.hover import hover_attribute

if TYPE_CHECKING:
    from neuro_divergent.report.chart import Chart, Trace

Place = Callable[[float], float]
_DASHES = {"dash": ' stroke-dasharray="6 3"', "dot": ' stroke-dasharray="2 3"'}
_LEFT, _RIGHT, _BOTTOM, _TOP, _LEGEND = 70.0, 14.0, 42.0, 10.0, 24.0
_SECOND, _DAY = 1.0, 86400.0


@dataclass(frozen=True)
class Axis:
    """Where values go, and the values that are written beside it."""

    place: Place
    ticks: tuple[tuple[float, str], ...]


def drawn(chart: Chart, *, small: bool = False) -> str:
    """The chart as one SVG element."""
    width, height = (420.0, 270.0) if small else (1000.0, 340.0)
    legend, rows = _legend(chart, width)
    top = _TOP + _LEGEND * rows
    moments = any(isinstance(x, date) for trace in chart.traces for x in trace.x)
    x = _x_axis(chart, moments, _LEFT, width - _RIGHT, 4 if small else 8)
    y = _y_axis(chart, height - _BOTTOM, top)
    parts = [*_frame(chart, x, y, width, height, top), *_marks(chart, x.place, width / 2, top, height - _BOTTOM)]
    parts += [part for trace in chart.traces for part in _trace(trace, x.place, y.place, height - _BOTTOM)]
    title = html.escape(chart.title, quote=True)
    marks = (' data-end="1"' if moments else "") + hover_attribute(chart, lambda value: x.place(_seconds(value)))
    head = f'<svg class="still" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{title}"{marks}>'
    return f"{head}{''.join([*parts, *legend])}</svg>"


def number_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to high, 1, 2 or 5 times a power of ten apart.

    >>> number_ticks(0.3, 9.1)
    [2.0, 4.0, 6.0, 8.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def time_ticks(low: float, high: float, most: int = 6, least: float = _SECOND) -> list[tuple[float, str]]:
    """Whole minutes, hours, days, months or years between two moments (seconds since 1970), as they are written."""
    span = max(high - low, _SECOND)
    months = next((n for n in (1, 2, 3, 6, 12, 24, 60, 120, 600) if span / (30.4 * _DAY * n) <= most), 1200)
    if span > 2.5 * 30.4 * _DAY:
        return [(at, when.strftime("%Y" if months % 12 == 0 else "%b %Y")) for at, when in _months(low, high, months)]
    steps = (1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY)
    step = next((step for step in steps if step >= least and span / step <= most), 28 * _DAY)
    form = "%d %b" if step >= _DAY else "%d %b %H:%M" if span > _DAY else "%H:%M" if step >= 60 else "%H:%M:%S"
    first, last = math.ceil(low / step), math.floor(high / step)
    return [(number * step, _moment(number * step).strftime(form)) for number in range(first, last + 1)]


def _months(low: float, high: float, step: int) -> Iterator[tuple[float, datetime]]:
    begin = _moment(low)
    number = -(-(begin.year * 12 + begin.month - 1) // step) * step
    while number // 12 < 9999:
        when = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
        if when.timestamp() > high:
            return
        if when.timestamp() >= low:
            yield when.timestamp(), when
        number += step


def _moment(seconds: float) -> datetime:
    # fromtimestamp does not reach before 1970 on every system.
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def _seconds(value: Any) -> float:
    """The wall clock of a moment as seconds; other values as they are."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days * _DAY
    return float(value)


def _linear(low: float, high: float, first: float, last: float) -> Place:
    span = (high - low) or 1.0
    return lambda value: first + (value - low) / span * (last - first)


def _x_axis(chart: Chart, moments: bool, first: float, last: float, most: int) -> Axis:
    values = [_seconds(x) for trace in chart.traces for x in trace.x]
    values += [_seconds(x) for x, _ in chart.marks]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if any(trace.kind == "bars" for trace in chart.traces):
        half = max((_bar_width(trace) for trace in chart.traces if trace.kind == "bars"), default=1.0) / 2
        low, high = low - half, high + half
    if low == high:
        low, high = low - 0.5, high + 0.5
    place = _linear(low, high, first, last)
    if moments:
        days = not any(isinstance(x, datetime) for trace in chart.traces for x in trace.x)
        return Axis(place, tuple(time_ticks(low, high, most, _DAY if days else _SECOND)))
    return Axis(place, tuple((value, _number(value)) for value in number_ticks(low, high, most)))


def _y_axis(chart: Chart, first: float, last: float) -> Axis:
    values = [float(y) for trace in chart.traces for y in (*trace.y, *trace.low)]
    values = [value for value in values if math.isfinite(value) and not (chart.log and value <= 0)]
    if any(trace.kind == "bars" for trace in chart.traces) and not chart.log:
        values.append(0.0)
    low, high = min(values, default=0.1), max(values, default=1.0)
    if chart.log:
        bottom, height = math.log10(low), math.log10(high)
        inner = _linear(bottom - 0.05, height + 0.05, first, last)
        powers = range(math.floor(bottom), math.ceil(height) + 1)
        ticks = [factor * 10.0**power for power in powers for factor in ((1,) if height - bottom > 3 else (1, 2, 5))]
        inside = [value for value in ticks if bottom - 0.05 <= math.log10(value) <= height + 0.05]
        return Axis(lambda value: inner(math.log10(value)), tuple((value, _number(value)) for value in inside))
    margin = 0.05 * (high - low) or 0.5
    low = low if low == 0 else low - margin
    high = high if high == 0 else high + margin
    ticks = number_ticks(low, high)
    return Axis(_linear(low, high, first, last), tuple((value, _number(value)) for value in ticks))


def _number(value: float) -> str:
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.0e}" if f"{value:.0e}" == f"{value:.1e}".replace(".0", "") else f"{value:.1e}"
    return f"{value:,.6g}" if abs(value) < 10000 else f"{value:,.0f}"


def _frame(chart: Chart, x: Axis, y: Axis, width: float, height: float, top: float) -> Iterator[str]:
    """Grid, numbers and names of the axes."""
    low = height - _BOTTOM
    for value, label in y.ticks:
        at = y.place(value)
        yield f'<path class="grid" d="M{_LEFT:g} {at:.1f}H{width - _RIGHT:g}"/>'
        yield f'<text x="{_LEFT - 6:g}" y="{at + 4:.1f}" text-anchor="end">{label}</text>'
    for value, label in x.ticks:
        yield f'<text x="{x.place(value):.1f}" y="{low + 16:g}" text-anchor="middle">{label}</text>'
    if chart.xlabel:
        middle = (_LEFT + width - _RIGHT) / 2
        yield f'<text x="{middle:g}" y="{height - 6:g}" text-anchor="middle">{html.escape(chart.xlabel)}</text>'
    if chart.ylabel:
        middle = (top + low) / 2
        turn = f'transform="translate(11 {middle:g}) rotate(-90)"'
        yield f'<text {turn} text-anchor="middle">{html.escape(chart.ylabel)}</text>'


def _trace(trace: Trace, x: Place, y: Place, floor: float) -> Iterator[str]:
    colour = _colour(trace.colour)
    points = [(x(_seconds(at)), _at(y, value)) for at, value in zip(trace.x, trace.y, strict=True)]
    if trace.kind == "band":
        lower = [(place, _at(y, value)) for (place, _), value in zip(points, trace.low, strict=True)]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in (*points, *reversed(lower)) if b is not None)
        yield f'<path fill="{colour}" fill-opacity="{trace.opacity:g}" d="M{path}Z"/>'
    elif trace.kind == "bars":
        half = 0.47 * (x(_bar_width(trace)) - x(0.0))
        base = _at(y, 0.0)
        base = floor if base is None else base
        for at, value in points:
            if value is not None:
                box = f'x="{at - half:.1f}" y="{min(value, base):.1f}" width="{2 * half:.1f}"'
                yield f'<rect fill="{colour}" fill-opacity="{trace.opacity:g}" {box} height="{abs(value - base):.1f}"/>'
    elif trace.kind == "points":
        yield from (f'<circle fill="{colour}" cx="{a:.1f}" cy="{b:.1f}" r="4"/>' for a, b in points if b is not None)
    else:
        style = f'stroke="{colour}" stroke-width="{trace.width:g}" stroke-opacity="{trace.opacity:g}"'
        yield f'<path fill="none" {style}{_DASHES.get(trace.dash, "")} d="{_line(points)}"/>'


def _line(points: Sequence[tuple[float, float | None]]) -> str:
    """A path that is lifted where there is no value; a value between two such places is a dot of its own."""
    path, down = [], False
    for place, (at, value) in enumerate(points):
        if value is None:
            down = False
            continue
        path.append(f"{'L' if down else 'M'}{at:.1f} {value:.1f}")
        alone = not down and (place + 1 == len(points) or points[place + 1][1] is None)
        if alone:
            path.append("h.1")
        down = True
    return "".join(path)


def _at(y: Place, value: Any) -> float | None:
    number = float(value)
    if not math.isfinite(number):
        return None
    try:
        return y(number)
    except ValueError:  # the logarithm of what is not positive
        return None


def _bar_width(trace: Trace) -> float:
    places = [_seconds(x) for x in trace.x]
    return min((b - a for a, b in pairwise(places)), default=1.0)


def _colour(name: str) -> str:
    return f"var(--{name})" if name in ("ink", "soft") else name


def _marks(chart: Chart, x: Place, middle: float, top: float, floor: float) -> Iterator[str]:
    """Vertical lines, each with its label at the top."""
    for value, label in chart.marks:
        at = x(_seconds(value))
        yield f'<path class="mark" d="M{at:.1f} {top:g}V{floor:g}"/>'
        if label:
            side = f'x="{at + 5:.1f}"' if at < middle else f'x="{at - 5:.1f}" text-anchor="end"'
            yield f'<text {side} y="{top + 10:g}">{html.escape(label)}</text>'


def _legend(chart: Chart, width: float) -> tuple[list[str], int]:
    """The names of the traces above the chart, after its title, and how many lines they take."""
    parts, left, row = [], _LEFT, 0
    if chart.titled:
        parts.append(f'<text class="title" x="{left:g}" y="18">{html.escape(chart.title)}</text>')
        left += 20 + 7.4 * len(chart.title)
    for trace in chart.traces if chart.legend else ():
        if not trace.listed:
            continue
        wide = 36 + 7.0 * len(trace.name)
        if left > _LEFT and left + wide > width - _RIGHT:
            left, row = _LEFT, row + 1
        y = 9 + _LEGEND * row
        band = trace.kind == "band"
        mark = f'fill="{_colour(trace.colour)}" fill-opacity="{trace.opacity if band else 1:g}"'
        parts.append(f'<rect {mark} x="{left:g}" y="{y:g}" width="18" height="{10 if band else 4}"/>')
        parts.append(f'<text x="{left + 24:g}" y="{y + 9:g}">{html.escape(trace.name)}</text>')
        left += wide + 8
    return parts, row + 1 if parts else 0
