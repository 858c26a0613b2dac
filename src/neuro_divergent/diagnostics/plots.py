"""Figures of diagnostics: gradient flow, distributions of weights, learning curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.plotting.style import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from neuro_divergent.diagnostics.gradient_report import GradientReport
    from neuro_divergent.diagnostics.learning_curve_result import LearningCurveResult
    from neuro_divergent.diagnostics.weights import WeightReport

MOST_LAYERS = 60


def _label(name: str) -> str:
    return name if len(name) <= 34 else f"…{name[-33:]}"


def flow_figure(report: GradientReport) -> Figure:
    """The gradient of each layer: its median and range over the steps, and a heat map of layers against steps."""
    layers = report.by_layer[:MOST_LAYERS]
    if not report.rms:
        raise ConfigError("the flow needs observed steps, but the report has none. Train for longer")
    rms = np.array([[np.nan if value is None else value for value in row] for row in report.rms], dtype=np.float64)
    shown = np.log10(np.maximum(rms[:, : len(layers)], 1e-30))
    figure = new_figure(10.0, 0.2 * len(layers) + 2.2)
    left, right = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(layers))
    left.hlines(places, np.nanmin(shown, axis=0), np.nanmax(shown, axis=0), color=COLOURS[0], alpha=0.3, linewidth=5)
    colours = [COLOURS[1] if item.vanishing or item.exploding else COLOURS[0] for item in layers]
    left.scatter(np.nanmedian(shown, axis=0), places, color=colours, s=22, zorder=3)
    left.set_yticks(places, [_label(item.layer) for item in layers], fontsize=7)
    left.invert_yaxis()
    tidy(left, "median and range (red: vanishes or explodes)", "log₁₀ of the gradient's root mean square")
    left.grid(axis="x", alpha=0.25)
    image = right.imshow(shown.T, aspect="auto", cmap="viridis", interpolation="nearest")
    marks = np.unique(np.linspace(0, len(report.steps) - 1, min(6, len(report.steps))).astype(int))
    right.set_xticks(marks, [str(report.steps[mark]) for mark in marks])
    figure.colorbar(image, ax=right)
    tidy(right, "over the steps", "step")
    right.grid(visible=False)
    return figure


def distribution_figure(report: WeightReport) -> Figure:
    """A histogram of the weights of each layer."""
    layers = [item for item in report.by_layer if item.histogram][:MOST_LAYERS]
    columns = min(4, len(layers))
    rows = -(-len(layers) // columns)
    figure = new_figure(2.9 * columns, 1.9 * rows + 0.2)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, item in zip(grid, layers, strict=False):
        largest = item.largest or 1.0
        edges = np.linspace(-largest, largest, len(item.histogram) + 1)
        axes.bar(edges[:-1], item.histogram, width=np.diff(edges), align="edge", color=COLOURS[0], alpha=0.8)
        axes.set_yticks([])
        tidy(axes)
        dead = f", {item.dead} dead" if item.dead else ""
        axes.set_title(f"{_label(item.layer)}\n{item.type}{dead}", fontsize=7, loc="left")
        axes.tick_params(labelsize=6)
    for axes in grid[len(layers) :]:
        axes.set_visible(False)
    return figure


def learning_figure(result: LearningCurveResult) -> Figure:
    """Errors against the share of data, and losses against epochs."""
    points = result.points
    figure = new_figure(10.0, 3.9)
    left, right = figure.subplots(1, 2)
    share = [100 * point.size for point in points]
    sides = (
        ("training rows", [p.train for p in points], [p.train_spread for p in points]),
        ("later rows", [p.validation for p in points], [p.validation_spread for p in points]),
    )
    for number, (name, values, spread) in enumerate(sides):
        low, high = np.array(values) - spread, np.array(values) + spread
        left.fill_between(share, low, high, color=COLOURS[number], alpha=0.15, linewidth=0)
        left.plot(share, values, color=COLOURS[number], marker="o", markersize=4, label=name)
    left.plot(share, [p.naive for p in points], color="#999999", linestyle=":", label="seasonal naive, later rows")
    left.legend(fontsize=8, frameon=False)
    left.set_ylim(bottom=0)
    tidy(left, f"{result.model}: {result.scoring} ± spread of folds and seeds", "share of the training rows in %")
    _epochs(right, result)
    return figure


def _epochs(axes: Axes, result: LearningCurveResult) -> None:
    largest = max(item.size for item in result.fits)
    seen: set[int] = set()
    for item in (item for item in result.fits if item.size == largest):
        for number, losses in enumerate((item.epoch_train_loss, item.epoch_validation_loss)):
            if losses and all(map(math.isfinite, losses)):
                label = None if number in seen else ("training loss", "validation loss")[number]
                axes.plot(range(1, len(losses) + 1), losses, color=COLOURS[number], alpha=0.6, linewidth=1, label=label)
                seen.add(number)
    if seen:
        axes.legend(fontsize=8, frameon=False)
    tidy(axes, "losses with the largest share, a line per fold and seed", "epoch")
