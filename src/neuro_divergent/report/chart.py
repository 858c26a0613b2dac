"""A chart as data, drawn by plotly's JavaScript in the page, or as an SVG picture where plotly is not installed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

from neuro_divergent.plotting.forecasts import Values
from neuro_divergent.plotting.style import COLOURS
from neuro_divergent.report import svg

Kind = Literal["line", "points", "bars", "band"]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A line, points, bars, or a band between two lines."""

    name: str
    x: Sequence[Any]
    y: Values
    low: Values = ()
    """Of a band: its lower edge, `y` being the upper one."""
    kind: Kind = "line"
    colour: str = COLOURS[0]
    """A colour, or "ink" or "soft", which follow the light or dark page."""
    width: float = 1.8
    dash: Literal["", "dash", "dot"] = ""
    opacity: float = 1.0
    listed: bool = True
    """Whether the legend names it."""

    def plotly(self) -> list[dict[str, Any]]:
        """The trace, or the two of a band, in plotly's form."""
        x = plain(self.x)
        shared: dict[str, Any] = {"x": x, "name": self.name, "showlegend": self.listed}
        if self.kind == "bars":
            return [
                shared | {"type": "bar", "y": plain(self.y), "marker": {"color": self.colour, "opacity": self.opacity}}
            ]
        if self.kind == "band":
            edge = {"type": "scatter", "mode": "lines", "line": {"width": 0, "color": self.colour}, "hoverinfo": "skip"}
            fill = {"fill": "tonexty", "fillcolor": _see_through(self.colour, self.opacity)}
            lower = shared | edge | {"y": plain(self.low), "showlegend": False}
            return [lower, shared | edge | fill | {"y": plain(self.y)}]
        style: dict[str, Any] = {"type": "scatter", "y": plain(self.y), "opacity": self.opacity}
        if self.kind == "points":
            return [shared | style | {"mode": "markers", "marker": {"color": self.colour, "size": 8}}]
        line = {"color": self.colour, "width": self.width, "dash": self.dash or "solid"}
        return [shared | style | {"mode": "lines", "line": line}]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Traces on one pair of axes, and the sentence that says what they show."""

    title: str
    """What it is called in a select box, and for those who cannot see it."""
    traces: Sequence[Trace] = field(default_factory=list)
    xlabel: str = ""
    ylabel: str = ""
    log: bool = False
    legend: bool = True
    hover: str = "x unified"

    def plotly(self) -> dict[str, Any]:
        """Traces and layout for the page's script."""
        layout = {"xlabel": self.xlabel, "ylabel": self.ylabel, "log": self.log, "legend": self.legend}
        traces = [part for trace in self.traces for part in trace.plotly()]
        return {"traces": traces, "layout": layout | {"hovermode": self.hover}}

    def svg(self, *, small: bool = False, hidden: bool = False) -> str:
        """The chart as a picture inside the page."""
        return svg.drawn(self, small=small, hidden=hidden)


def plain(values: Iterable[Any]) -> list[Any]:
    """Values for JSON: times as text, six significant digits, null where there is no number."""
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int | str):
        return value
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else None


def _see_through(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"
