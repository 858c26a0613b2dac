"""Series with their forecasts and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.plotting.style import COLOURS, INK, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Values = Sequence[float] | npt.NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class SeriesPanel:
    """One series with its forecasts."""

    title: str
    times: Sequence[Any]
    values: Values
    forecast_times: Sequence[Any] = ()
    forecasts: Mapping[str, Values] = field(default_factory=dict)
    bands: Sequence[tuple[str, Values, Values]] = ()
    """Intervals as (label, low, high), the widest first."""
    actual: Values = ()
    """The actual values at the forecast times, if known."""


def forecast_figure(panels: Sequence[SeriesPanel], *, columns: int = 2) -> Figure:
    """Return a figure, a panel per series: history black, actuals dashed, forecasts coloured, intervals shaded."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(6.0 * columns if columns > 1 else 9.0, 2.9 * rows + 0.4)
    grid = figure.subplots(rows, columns, squeeze=False)
    labels: dict[str, Any] = {}
    for position, panel in enumerate(panels):
        axes = grid[position // columns][position % columns]
        axes.plot(panel.times, panel.values, color=INK, linewidth=1.1, label="history")
        if len(panel.actual):
            axes.plot(
                panel.forecast_times, panel.actual, color=INK, linewidth=1.3, linestyle=(0, (2, 1.5)), label="actual"
            )
        for depth, (label, low, high) in enumerate(panel.bands):
            axes.fill_between(
                panel.forecast_times, low, high, color=COLOURS[0], alpha=0.14 + 0.1 * depth, linewidth=0, label=label
            )
        for number, (name, values) in enumerate(panel.forecasts.items()):
            naive = "naive" in name
            colour = "#9A9A9A" if naive else COLOURS[number % len(COLOURS)]
            axes.plot(
                panel.forecast_times, values, color=colour, linewidth=1.2 if naive else 1.7, label=name, alpha=0.95
            )
        tidy(axes, panel.title)
        axes.tick_params(axis="x", rotation=0)
        _sparse_dates(axes)
        labels |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    for position in range(len(panels), rows * columns):
        grid[position // columns][position % columns].set_visible(False)
    figure.legend(
        labels.values(), labels.keys(), loc="outside lower center", ncols=min(8, len(labels)), fontsize=9, frameon=False
    )
    return figure


def _sparse_dates(axes: Any) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, DateConverter
    from matplotlib.units import ConversionInterface

    converter: ConversionInterface | None = axes.xaxis.get_converter()
    if converter is None or (not isinstance(converter, DateConverter) and "Date" not in type(converter).__name__):
        return
    locator: Any = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
