"""Pictures of a training while it runs: one metric, several metrics, the layers of a network, a forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from neuro_divergent.plotting.style import COLOURS, INK, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LAYERS = 40


def metrics_figure(epochs: Sequence[Mapping[str, float]], names: Sequence[str]) -> Figure:
    """Return a figure with a panel per metric over the epochs. Training and validation loss share a panel."""
    losses = [name for name in names if name in ("train_loss", "validation_loss")]
    panels = [losses] * bool(losses) + [[name] for name in names if name not in losses]
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(5.0 * columns, 2.7 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    for number, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        for place, name in enumerate(panel):
            some = [(record["epoch"], record[name]) for record in epochs if name in record]
            colour = COLOURS[place if len(panel) > 1 else number % len(COLOURS)]
            if some:
                axes.plot(
                    *zip(*some, strict=True), color=colour, label=name.replace("_", " "), marker="." * (len(some) < 60)
                )
        if len(panel) > 1:
            axes.legend(fontsize=8, frameon=False)
        tidy(axes, "loss" if len(panel) > 1 else panel[0].replace("_", " "), xlabel="epoch")
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    return figure


def layers_figure(layers: Sequence[Mapping[str, Any]]) -> Figure:
    """Return a figure of the parts of a network that have parameters: name, type, and number of parameters as a bar."""
    sized = [layer for layer in layers if layer["parameters"]]
    shown = sized[:MOST_LAYERS]
    total = sum(layer["parameters"] for layer in sized)
    figure = new_figure(9.0, 1.1 + 0.27 * max(1, len(shown)))
    axes = figure.subplots()
    places = range(len(shown))
    axes.barh(list(places), [layer["parameters"] for layer in shown], color=COLOURS[0], height=0.65)
    axes.set_yticks(list(places), [f"{layer['name']}  {layer['type']}" for layer in shown])
    axes.invert_yaxis()
    for place, layer in zip(places, shown, strict=True):
        axes.annotate(
            f"{layer['parameters']:,}",
            (layer["parameters"], place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color=INK,
        )
    more = f", the first {len(shown)} of {len(sized)}" if len(sized) > len(shown) else ""
    tidy(axes, f"{total:,} parameters in {len(sized)} layers{more}", xlabel="parameters")
    axes.margins(x=0.12)
    return figure


def snapshot_figure(snapshot: Mapping[str, Any]) -> Figure:
    """Return a figure of the forecasts in a snapshot of `nd.ForecastSnapshots`, a panel per series."""
    series = list(snapshot["series"])[:6]
    columns = min(2, max(1, len(series)))
    rows = -(-max(1, len(series)) // columns)
    figure = new_figure(5.5 * columns, 2.6 * rows)
    for axes, one in zip(figure.subplots(rows, columns, squeeze=False).reshape(-1), series, strict=False):
        past, h = len(one["history"]), len(one["forecast"])
        ahead = range(past, past + h)
        for low, high in one["intervals"].values():
            axes.fill_between(ahead, _gaps(low), _gaps(high), color=COLOURS[0], alpha=0.15, linewidth=0)
        axes.plot(range(past), _gaps(one["history"]), color=INK, linewidth=1.0)
        axes.plot(ahead, _gaps(one["actual"]), color=INK, linewidth=1.2, linestyle=(0, (2, 1.5)), label="actual")
        axes.plot(ahead, _gaps(one["naive"]), color="#9A9A9A", linewidth=1.1, label="seasonal naive")
        axes.plot(ahead, _gaps(one["forecast"]), color=COLOURS[0], linewidth=1.7, label=str(snapshot["model"]))
        axes.legend(fontsize=7, frameon=False)
        tidy(axes, str(one["id"]))
    return figure


def _gaps(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]
