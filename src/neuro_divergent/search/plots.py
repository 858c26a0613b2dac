"""Pictures of a search: the best score so far, how the score depends on each value, the Pareto front, all trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.space.dimensions import Choice, Dimension, Integers
from neuro_divergent.plotting.style import COLOURS, INK, new_figure, tidy
from neuro_divergent.search.surrogate import is_log, partial_dependence, share_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 9
MOST_AXES = 12
GREY = "#9A9A9A"
Points = Sequence[Mapping[str, Any]]


def complete(table: pl.DataFrame, purpose: str, least: int = 1) -> pl.DataFrame:
    """The trials that ended. Too few of them are refused."""
    found = table.filter(pl.col("state") == "complete")
    if found.height < least:
        raise ConfigError(f"{purpose} needs {least} trials that ended, but the search has {found.height}")
    return found


def best_so_far(scores: Sequence[float], direction: str) -> list[float]:
    """The best score up to each trial."""
    better = np.minimum.accumulate if direction == "minimize" else np.maximum.accumulate
    return better(np.asarray(scores, dtype=np.float64)).tolist()  # type: ignore[no-any-return]


def convergence_figure(table: pl.DataFrame, metric: str, direction: str) -> Figure:
    """Return a figure of the score of each trial, and of the best score so far.

    Args:
        table: a row per trial.
        metric: the column of the score.
        direction: "minimize" or "maximize".
    """
    ended = complete(table, "a convergence plot").sort("number")
    figure = new_figure(7.0, 3.8)
    axes = figure.subplots()
    pruned = table.filter(pl.col("state") != "complete").drop_nulls(metric)
    axes.scatter(ended["number"], ended[metric], color=COLOURS[0], s=18, label="trial", zorder=2)
    if pruned.height:
        axes.scatter(pruned["number"], pruned[metric], color=GREY, s=18, marker="x", label="ended early", zorder=1)
    best = best_so_far(ended[metric].to_list(), direction)
    last = max(table["number"].to_list())
    axes.plot(
        [*ended["number"], last], [*best, best[-1]], drawstyle="steps-post", color=COLOURS[1], label="best so far"
    )
    _whole_numbers(axes)
    _maybe_log(axes, [*ended[metric], *pruned[metric]])
    axes.legend(fontsize=8, frameon=False)
    tidy(axes, xlabel="trial", ylabel=metric)
    return figure


def dependence_figure(
    points: Points,
    scores: Sequence[float],
    dimensions: Mapping[str, Dimension],
    metric: str,
    importance: Mapping[str, float],
) -> Figure:
    """Return a figure with a panel per value of the space, the most important first.

    A panel has the score of each trial, and the partial dependence of a Gaussian process with its spread over the
    trials.
    """
    names = sorted((name for name in importance if name in dimensions), key=lambda name: -importance[name])[
        :MOST_PANELS
    ]
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = new_figure(3.4 * columns + 0.4, 2.7 * rows + 0.3)
    grid = figure.subplots(rows, columns, squeeze=False)
    for position, name in enumerate(names):
        axes = grid[position // columns][position % columns]
        _dependence_panel(axes, points, scores, dimensions, name)
        ylabel = metric if position % columns == 0 else ""
        tidy(axes, f"{name}  ({100 * importance[name]:.0f} %)", ylabel=ylabel)
    for position in range(len(names), rows * columns):
        grid[position // columns][position % columns].set_visible(False)
    return figure


def _dependence_panel(
    axes: Axes, points: Points, scores: Sequence[float], dimensions: Mapping[str, Dimension], name: str
) -> None:
    dimension = dimensions[name]
    found = partial_dependence(points, scores, dimensions, name)
    own = [(point[name], score) for point, score in zip(points, scores, strict=True) if name in point]
    low, high = np.quantile([score for _, score in own], [0.0, 0.9])
    if isinstance(dimension, Choice):
        places = {label: place for place, label in enumerate(dimension.labels)}
        x = [places[value] for value, _ in own]
        at = list(range(len(found.values)))
        axes.errorbar(
            at, found.mean, yerr=[found.mean - found.low, found.high - found.mean], color=COLOURS[1], fmt="o", capsize=3
        )
        axes.set_xticks(at, [_short(label) for label in dimension.labels], rotation=0 if len(at) < 5 else 25)
        axes.set_xlim(-0.5, len(at) - 0.5)
    else:
        x = [value for value, _ in own]
        numbers = [float(value) for value in found.values if value is not None]
        axes.fill_between(numbers, found.low, found.high, color=COLOURS[1], alpha=0.18, linewidth=0)
        axes.plot(numbers, found.mean, color=COLOURS[1], linewidth=1.8)
        if is_log(dimension):
            axes.set_xscale("log")
        elif isinstance(dimension, Integers):
            _whole_numbers(axes)
    axes.scatter(x, [score for _, score in own], color=COLOURS[0], s=9, alpha=0.45, linewidths=0)
    # A training that diverged would flatten the rest.
    reach = max(float(high - low), 1e-12)
    axes.set_ylim(min(float(low), found.low.min()) - 0.15 * reach, max(float(high), found.high.max()) + 0.3 * reach)


def pareto_figure(table: pl.DataFrame, directions: Mapping[str, str], front: Sequence[int], chosen: int) -> Figure:
    """Return a figure with a panel per pair of objectives: all trials, the Pareto front, and the recommended trial."""
    if len(directions) < 2:
        raise ConfigError(
            "a Pareto front needs two objectives or more, but the search has one. Use MultiObjectiveSearch"
        )
    ended = complete(table, "a Pareto plot")
    pairs = list(combinations(directions, 2))[:MOST_PANELS]
    figure = new_figure(3.9 * len(pairs), 3.6)
    grid = figure.subplots(1, len(pairs), squeeze=False)
    on_front = ended.filter(pl.col("number").is_in(list(front)))
    winner = ended.filter(pl.col("number") == chosen)
    for axes, (a, b) in zip(grid[0], pairs, strict=True):
        axes.scatter(ended[a], ended[b], color=GREY, s=14, label="trial")
        axes.scatter(on_front[a], on_front[b], color=COLOURS[0], s=24, label="Pareto front")
        axes.scatter(winner[a], winner[b], color=COLOURS[1], s=110, marker="*", label="recommended", zorder=3)
        tidy(axes, xlabel=f"{a}, {directions[a]}", ylabel=f"{b}, {directions[b]}")
        _maybe_log(axes, ended[b].to_list())
        _maybe_log(axes, ended[a].to_list(), which="x")
    labels = grid[0][0].get_legend_handles_labels()
    figure.legend(*labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return figure


def parallel_figure(
    points: Points, scores: Sequence[float], dimensions: Mapping[str, Dimension], metric: str, direction: str
) -> Figure:
    """Return a figure with an axis per value of the space and a line per trial, coloured by its score."""
    from matplotlib import colormaps

    names = [name for name in dimensions if any(name in point for point in points)][:MOST_AXES]
    figure = new_figure(max(6.0, 1.5 * (len(names) + 1)), 4.2)
    axes = figure.subplots()
    order = np.argsort(np.argsort(scores))
    shares = order / max(len(scores) - 1, 1)
    shares = shares if direction == "minimize" else 1 - shares
    for place in np.argsort(-shares):  # the best last, on top
        known = [
            (x, _height(dimensions[name], points[place][name])) for x, name in enumerate(names) if name in points[place]
        ]
        line = [*known, (len(names), float(1 - shares[place]))]
        best = shares[place] == 0
        colour = COLOURS[1] if best else colormaps["viridis_r"](0.1 + 0.85 * shares[place])
        axes.plot(
            *zip(*line, strict=True), color=colour, alpha=1.0 if best else 0.45, linewidth=2.4 if best else 1.0,
            label=f"best {metric}" if best else None,
        )  # fmt: skip
    for x, name in enumerate(names):
        axes.axvline(x, color=INK, linewidth=0.8)
        for height, label in _ticks(dimensions[name]):
            _label(axes, x, height, label)
    axes.axvline(len(names), color=INK, linewidth=0.8)
    worst, best_score = (max(scores), min(scores)) if direction == "minimize" else (min(scores), max(scores))
    for height, value in ((1.0, best_score), (0.0, worst)):
        _label(axes, len(names), height, f"{value:.4g}")
    axes.set_xticks(range(len(names) + 1), [*names, f"{metric}, by rank"], rotation=0 if len(names) < 7 else 20)
    axes.set_yticks([])
    axes.set_xlim(-0.15, len(names) + 0.55)
    axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.1))
    tidy(axes)
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    return figure


def _label(axes: Axes, x: float, y: float, text: str) -> None:
    box = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1}
    axes.annotate(text, (x, y), xytext=(4, 0), textcoords="offset points", fontsize=7.5, va="center", bbox=box)


def _height(dimension: Dimension, value: Any) -> float:
    if isinstance(dimension, Choice):
        return dimension.labels.index(value) / (len(dimension.labels) - 1)
    return share_of(dimension, value)


def _ticks(dimension: Dimension) -> list[tuple[float, str]]:
    if isinstance(dimension, Choice):
        return [(place / (len(dimension.labels) - 1), _short(label)) for place, label in enumerate(dimension.labels)]
    ends = dimension.grid(2)
    return [(0.0, _short(ends[0])), (1.0, _short(ends[-1]))]


def _short(value: Any) -> str:
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 14 else f"{text[:13]}…"


def _whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _maybe_log(axes: Axes, values: Sequence[float], which: str = "y") -> None:
    """A logarithmic axis where the values differ by more than a factor of 20."""
    if min(values) > 0 and max(values) / min(values) > 20:
        (axes.set_yscale if which == "y" else axes.set_xscale)("log")
