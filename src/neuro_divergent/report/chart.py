"""A chart as data. `Chart.svg` draws it as an SVG picture, which needs no package and no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """A dashed line is a reference line: the pointer shows no values of it."""
    opacity: float = 1.0
    listed: bool = True
    """Whether the legend names it."""


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
    titled: bool = False
    """Write the title into the picture."""
    marks: Sequence[tuple[Any, str]] = ()
    """Vertical lines at places of the x axis, such as cutoffs, each with a label that may be empty."""
    hover: bool = True
    """Show the values under the pointer; they make the file larger."""

    def svg(self, *, small: bool = False) -> str:
        """The chart as a picture inside the page."""
        return svg.drawn(self, small=small)
