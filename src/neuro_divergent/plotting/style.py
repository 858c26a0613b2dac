"""Colours and axes style of every figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuro_divergent.core.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#7F7F7F")
"""Colours that colour-blind readers can distinguish (after Okabe and Ito)."""
INK = "#222222"


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure outside of matplotlib's global state."""
    module = require("matplotlib.figure", extra="plots", purpose="A plot")
    figure: Figure = module.Figure(figsize=(width, height), layout="constrained")
    return figure


def tidy(axes: Axes, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Set titles, labels, a light grid, and no top and right border."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    axes.tick_params(labelsize=8)
    axes.set_title(title, fontsize=10, loc="left", color=INK)
    axes.set_xlabel(xlabel, fontsize=9)
    axes.set_ylabel(ylabel, fontsize=9)
