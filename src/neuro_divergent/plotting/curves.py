"""Loss curves and learning rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from neuro_divergent.plotting.style import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def history_figure(epochs: Sequence[Mapping[str, float]], *, best_epoch: int | None = None) -> Figure:
    """Training and validation loss over the epochs, every metric below it, and the learning rate at the bottom."""
    names = metric_columns(epochs)
    figure = new_figure(7.0, 4.2 + 1.2 * len(names))
    above, *middle, below = figure.subplots(2 + len(names), 1, sharex=True, height_ratios=[3, *[1] * len(names), 1])
    draw_losses(above, epochs, best_epoch)
    for axes, name in zip(middle, names, strict=True):
        some = [(record["epoch"], record[name]) for record in epochs if name in record]
        axes.plot(*zip(*some, strict=True), color=COLOURS[1 if name.startswith("validation_") else 0], marker=".")
        tidy(axes, ylabel=name.replace("_", "\n", 1))
    points = [record["epoch"] for record in epochs]
    below.plot(points, [record["learning_rate"] for record in epochs], color=COLOURS[2], linewidth=1.4)
    below.set_ylim(bottom=0)
    tidy(below, xlabel="epoch", ylabel="learning rate")
    return figure


def metric_columns(epochs: Sequence[Mapping[str, float]]) -> list[str]:
    """The columns of metrics in the records of epochs: validation_mae, or train_mae where nothing was held out."""
    names = dict.fromkeys(name for record in epochs for name in record)
    known = ("train_loss", "validation_loss", "validation_seconds")
    return [name for name in names if name.startswith(("train_", "validation_")) and name not in known]


def losses_figure(histories: Mapping[str, tuple[Sequence[float], Sequence[Mapping[str, float]]]]) -> Figure:
    """The loss of every step (thin, and its running mean) and of every validation, several models side by side.

    Args:
        histories: for each model the losses of its steps, and its records per epoch.
    """
    figure = new_figure(3.2 * max(1, len(histories)), 2.6)
    rows = figure.subplots(1, max(1, len(histories)), squeeze=False)
    for axes, (name, (steps, epochs)) in zip(rows[0], histories.items(), strict=True):
        numbers = range(1, len(steps) + 1)
        axes.plot(numbers, steps, color=COLOURS[0], linewidth=0.6, alpha=0.35)
        axes.plot(numbers, _running_mean(steps), color=COLOURS[0], linewidth=1.5, label="training")
        held = [(record["epoch"], record["validation_loss"]) for record in epochs if "validation_loss" in record]
        if held:
            per_epoch = len(steps) / epochs[-1]["epoch"]
            x, y = zip(*held, strict=True)
            axes.plot([per_epoch * epoch for epoch in x], y, color=COLOURS[1], marker=".", label="validation")
        axes.legend(fontsize=8, frameon=False)
        tidy(axes, name, xlabel="step", ylabel="loss")
    return figure


def _running_mean(values: Sequence[float]) -> list[float]:
    length = max(1, min(25, len(values) // 10))
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    return [(sums[i + 1] - sums[max(0, i + 1 - length)]) / min(i + 1, length) for i in range(len(values))]


def range_figure(
    rates: Sequence[float], losses: Sequence[float], smoothed: Sequence[float], suggestion: float
) -> Figure:
    """Loss over a rising learning rate, and the rate that it suggests."""
    figure = new_figure(7.0, 3.6)
    axes = figure.subplots()
    axes.plot(rates, losses, color=COLOURS[0], alpha=0.3, linewidth=1.0, label="loss")
    axes.plot(rates, smoothed, color=COLOURS[0], linewidth=1.8, label="smoothed")
    axes.axvline(suggestion, color=COLOURS[1], linestyle=":", linewidth=1.4, label=f"suggestion: {suggestion:.1e}")
    axes.set_xscale("log")
    # What explodes at the end would flatten everything before it.
    low, first = min(smoothed), max(smoothed[: max(1, len(smoothed) // 2)])
    axes.set_ylim(low - 0.1 * abs(first - low) - 1e-12, first + 0.5 * abs(first - low) + 1e-12)
    axes.legend(fontsize=8, frameon=False)
    tidy(axes, xlabel="learning rate", ylabel="loss")
    return figure


def draw_losses(axes: Axes, epochs: Sequence[Mapping[str, float]], best_epoch: int | None) -> None:
    """Loss over epochs on given axes; logarithmic when it falls by more than a factor of 20."""
    lowest, highest = float("inf"), 0.0
    for name, colour in (("train_loss", COLOURS[0]), ("validation_loss", COLOURS[1])):
        points = [(record["epoch"], record[name]) for record in epochs if name in record]
        if not points:
            continue
        x, y = zip(*points, strict=True)
        axes.plot(x, y, color=colour, linewidth=1.6, label=name.replace("_", " "), marker="." if len(x) < 3 else None)
        lowest, highest = min(lowest, *y), max(highest, *y)
    if best_epoch is not None:
        axes.axvline(best_epoch, color="#999999", linestyle=":", linewidth=1.2, label=f"best: epoch {best_epoch}")
    if lowest > 0 and highest / lowest > 20:
        axes.set_yscale("log")
    axes.legend(fontsize=8, frameon=False)
    tidy(axes, ylabel="loss")
