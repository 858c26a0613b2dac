"""The picture of an architecture: nested boxes, as SVG by hand or as a matplotlib figure."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuro_divergent.diagnostics.module_facts import ModuleFacts, cut, short_count, str_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuro_divergent.diagnostics.architecture import Architecture

WIDTH, LINE, GAP, INDENT, INSET, TOP = 980.0, 26.0, 5.0, 16.0, 3.0, 54.0
FILLS = ("#FFFFFF", "#F3F6FA", "#E6EDF5", "#DAE4F0", "#CEDCEB", "#C2D3E6")
"""By depth."""
BAR, EDGE, INK, PALE = "#0072B2", "#8FA3B8", "#1A2733", "#5B6B7A"
COLUMNS = (("output", 470.0), ("parameters", 690.0), ("mult-adds", 790.0), ("time", 930.0))
"""Where the text of each column begins, or ends for numbers."""


@dataclass(frozen=True)
class Box:
    """One module's place in the picture."""

    item: ModuleFacts
    x: float
    y: float
    width: float
    height: float


def boxes_of(modules: Sequence[ModuleFacts]) -> list[Box]:
    """The boxes, outer ones first. A box encloses those of its parts."""
    found: list[Box] = []

    def place(number: int, y: float) -> tuple[int, float]:
        """Place a module and its parts; return the number of the next module, and where it begins."""
        item, begin, slot = modules[number], y, len(found)
        found.append(Box(item, 0, 0, 0, 0))
        y, number = y + LINE, number + 1
        while number < len(modules) and modules[number].depth > item.depth:
            number, y = place(number, y)
        end = y + (GAP if y > begin + LINE else 0.0)
        x = 10.0 + INDENT * item.depth
        found[slot] = Box(item, x, begin, WIDTH - x - 10.0 - INSET * item.depth, end - begin)
        return number, end + GAP

    place(0, TOP)
    return found


def texts_of(box: Box) -> list[tuple[float, str, str]]:
    """(x, alignment, text) of the texts in the first line of a box, beside its name and class."""
    item = box.item
    cells = (
        cut(str_of(item.output), 22),
        f"{item.parameters:,}" if item.parameters else "",
        short_count(item.multiply_adds) if item.multiply_adds else "",
        "" if item.share is None else f"{item.share:.0%}",
    )
    sides = ("start", "end", "end", "end")
    return [(x, side, text) for (_, x), side, text in zip(COLUMNS, sides, cells, strict=True) if text]


def _name(item: ModuleFacts) -> str:
    return item.name.rpartition(".")[2] or item.type


def heading_of(shown: Architecture) -> str:
    """The line above the picture."""
    work = short_count(shown.multiply_adds)
    return f"{shown.title}: {shown.parameters:,} parameters, {work} multiply-adds per row, a batch of {shown.rows}"


def svg_of(shown: Architecture, depth: int | None = None) -> str:
    """The picture as an SVG document."""
    boxes = boxes_of(list(shown.shown(depth)))
    height = boxes[0].y + boxes[0].height + 12
    size = f'viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}" height="{height:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" role="img">',
        f'<rect width="{WIDTH:g}" height="{height:g}" fill="#FFFFFF"/>',
        _text(10, 22, heading_of(shown), size=15, weight="bold"),
    ]
    parts += [_text(x, 44, name, "start" if name == "output" else "end", PALE, 11) for name, x in COLUMNS]
    for box in boxes:
        parts += _drawn(box)
    return "\n".join([*parts, "</svg>"])


def _drawn(box: Box) -> list[str]:
    item, line = box.item, box.y + LINE / 2 + 4
    tip = html.escape(f"{item.name or 'network'}: {item.type} {str_of(item.input)} → {str_of(item.output)}")
    place = f'x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}"'
    fill = FILLS[min(item.depth, len(FILLS) - 1)]
    parts = [f'<g><title>{tip}</title><rect {place} rx="5" fill="{fill}" stroke="{EDGE}" stroke-width="0.8"/>']
    if item.share:
        parts.append(f'<rect x="{_BAR_X:g}" y="{box.y + 8:g}" width="{_BAR * min(1.0, item.share):.1f}" height="10" '
                     f'rx="2" fill="{BAR}" opacity="0.75"/>')  # fmt: skip
    parts.append(
        f'<text x="{box.x + 8:g}" y="{line:g}" fill="{INK}"><tspan font-weight="600">{html.escape(_name(item))}</tspan>'
        f'<tspan dx="8" fill="{PALE}">{html.escape(_class(item))}</tspan></text>'
    )
    parts += [_text(x, line, text, side) for x, side, text in texts_of(box)]
    return [*parts, "</g>"]


_BAR_X, _BAR = 803.0, 88.0
"""Where the bar of the time begins, and its length for the whole time."""


def _class(item: ModuleFacts) -> str:
    """The class of a module, and how often it is called. The whole network is named by its class."""
    return (item.type if item.name else "") + (f" ×{item.calls}" if item.calls > 1 else "")


def _text(
    x: float, y: float, text: str, side: str = "start", fill: str = INK, size: int = 12, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{side}" fill="{fill}" font-size="{size}" font-weight="{weight}">'
        f"{html.escape(text)}</text>"
    )


def figure_of(shown: Architecture, depth: int | None = None) -> Figure:
    """The picture as a matplotlib figure."""
    from neuro_divergent.core.extras import require
    from neuro_divergent.plotting.style import new_figure

    patches = require("matplotlib.patches", extra="plots", purpose="A plot")
    boxes = boxes_of(list(shown.shown(depth)))
    height = boxes[0].y + boxes[0].height + 12
    figure = new_figure(WIDTH / 96, height / 96)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    side_of = {"start": "left", "end": "right"}
    axes.text(10, 18, heading_of(shown), fontsize=11, fontweight="bold", color=INK, va="center")
    for name, x in COLUMNS:
        axes.text(x, 40, name, fontsize=8, color=PALE, ha="left" if name == "output" else "right", va="center")
    for box in boxes:
        item, line = box.item, box.y + LINE / 2
        fill = FILLS[min(item.depth, len(FILLS) - 1)]
        shape = f"round,pad=0,rounding_size={min(5.0, box.height / 2):g}"
        axes.add_patch(patches.FancyBboxPatch((box.x, box.y), box.width, box.height, boxstyle=shape, facecolor=fill,
                                              edgecolor=EDGE, linewidth=0.7))  # fmt: skip
        if item.share:
            axes.add_patch(
                patches.Rectangle((_BAR_X, box.y + 8), _BAR * min(1.0, item.share), 10, color=BAR, alpha=0.75)
            )
        label = axes.annotate(_name(item), (box.x + 8, line), fontsize=9, fontweight="bold", color=INK, va="center")
        axes.annotate(_class(item), (1.0, 0.5), xycoords=label, xytext=(6, 0), textcoords="offset points", fontsize=9,
                      color=PALE, va="center")  # fmt: skip
        for x, side, text in texts_of(box):
            axes.text(x, line, text, fontsize=9, color=INK, ha=side_of[side], va="center")
    return figure
