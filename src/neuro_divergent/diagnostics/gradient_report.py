"""What the gradients of a training looked like: a figure per layer, verdicts, and where the first NaN arose."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import Advice, ConfigError
from neuro_divergent.core.runs.read import read_run
from neuro_divergent.core.runs.record import RunRecord
from neuro_divergent.diagnostics.first_nonfinite import FirstNonfinite
from neuro_divergent.diagnostics.frames import frame_of
from neuro_divergent.diagnostics.gradients import FIGURES, LAYERS, NONFINITE
from neuro_divergent.training.state.history import History

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from neuro_divergent.forecasting.predict.forecaster import Forecaster

VANISHING = 1e-4
"""A layer's gradient vanishes if its root mean square is below this share of the largest one of the same step, in most
observed steps."""
EXPLODING = 100.0
"""Gradients explode if the norm of a late step is this many times the median of the first quarter of the steps."""
WHOLE_UPDATE = 1.0
"""A step that changes a layer by its own size is an explosion, too, if most observed steps do."""
FEW_STEPS = 8
"""Fewer steps say nothing about growth."""


class LayerGradients(Description):
    """The gradients of one layer over the observed steps: medians, except where it says otherwise."""

    layer: str
    """The module's name in the network."""
    parameters: int
    """Number of trained parameters."""
    norm: float | None
    """Norm of the gradient."""
    rms: float | None
    """Root mean square of the entries."""
    zeros: float | None
    """Share of entries that are exactly 0."""
    update_ratio: float | None
    """Norm of the update divided by the norm of the weights: about 1e-3 is usual, 1 replaces the weights."""
    noise_scale: float | None
    """tr(Σ)/|G|² over all observed steps, in windows; None if it was not measured, infinite if the mean is noise."""
    largest: float | None
    """Largest norm."""
    vanishing: bool
    """Whether the gradient vanishes: below 1e-4 of the largest layer's, in most steps."""
    exploding: bool
    """Whether most updates are as large as the weights, or a norm grew a hundredfold."""


class GradientReport(Description):
    """The gradients of a training, by layer and by step."""

    steps: tuple[int, ...] = ()
    """The observed steps, counted from 1."""
    by_layer: tuple[LayerGradients, ...] = ()
    """The layers, in the order of the network."""
    rms: tuple[tuple[float | None, ...], ...] = ()
    """[observed step][layer] root mean square of the gradient."""
    noise_scale: float | None = None
    """The gradient noise scale of the whole network, in windows; None if it was not measured."""
    batch_size: int | None = None
    """Windows of a step."""
    growth: float | None = None
    """Largest gradient norm of the last three quarters of all steps, divided by the median of the first quarter."""
    skipped: int = 0
    """Number of steps that were skipped because their loss or gradient was not finite."""
    first_nonfinite: FirstNonfinite | None = None
    """Where the first NaN or infinity arose; None if all was finite, or if nobody looked."""

    @property
    def layers(self) -> pl.DataFrame:
        """One row per layer."""
        return frame_of(self.by_layer)

    def to_polars(self) -> pl.DataFrame:
        """One row per layer; the same as `layers`."""
        return self.layers

    def has_vanishing_gradients(self) -> bool:
        """Whether the gradient of a layer vanishes."""
        return any(item.vanishing for item in self.by_layer)

    def has_exploding_gradients(self) -> bool:
        """Whether gradients grew a hundredfold, were not finite, or replaced the weights."""
        grown = self.growth is not None and self.growth > EXPLODING
        return grown or self.first_nonfinite is not None or any(item.exploding for item in self.by_layer)

    @property
    def verdict(self) -> str:
        """What the figures say, in a sentence for each finding."""
        found = []
        if self.first_nonfinite is not None:
            found.append(f"A value was not finite: {self.first_nonfinite}.")
        vanishing = [item.layer for item in self.by_layer if item.vanishing]
        if vanishing:
            found.append(
                f"Gradients vanish in {_listed(vanishing)}: these layers hardly learn. Try residual connections, "
                "another activation, fewer layers or a larger learning rate for them."
            )
        exploding = [item.layer for item in self.by_layer if item.exploding]
        if self.growth is not None and self.growth > EXPLODING:
            found.append(f"The gradient norm grew to {self.growth:.0f} times its first size. Try "
                         "gradient_clipping=nd.ClipByNorm(1.0) or a lower learning rate.")  # fmt: skip
        elif exploding:
            found.append(f"Updates are as large as the weights in {_listed(exploding)}. Try a lower learning rate.")
        return " ".join(found) or "Gradients are healthy: none vanishes, none explodes."

    def __str__(self) -> str:
        head = f"{'layer':<44}{'parameters':>11}{'rms':>11}{'zeros':>8}{'update':>11}{'noise':>9}"
        lines = [head, *(_line(item) for item in self.by_layer)]
        observed = f"{len(self.steps)} observed steps"
        if self.noise_scale is not None:
            observed += f", noise scale {self.noise_scale:.3g} windows (a step has {self.batch_size})"
        return "\n".join([*lines, observed + (f", {self.skipped} skipped" if self.skipped else ""), self.verdict])

    def print_summary(self) -> None:
        """Print the table of layers and the verdict."""
        print(self)  # noqa: T201  # that is what it is for

    def plot_flow(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """A figure of the gradient of each layer, from the input to the output, and over the steps."""
        from neuro_divergent.diagnostics.plots import flow_figure
        from neuro_divergent.plotting import save

        return save(flow_figure(self), path)


def _line(item: LayerGradients) -> str:
    mark = " vanishing" if item.vanishing else " exploding" if item.exploding else ""
    name = item.layer if len(item.layer) <= 43 else f"…{item.layer[-42:]}"
    figures = [_short(item.rms, 11), _short(item.zeros, 8, ".0%"), _short(item.update_ratio, 11)]
    return f"{name:<44}{item.parameters:>11,}{''.join(figures)}{_short(item.noise_scale, 9, '.3g')}{mark}"


def _short(value: float | None, width: int, form: str = ".2e") -> str:
    return f"{'-' if value is None else format(value, form):>{width}}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")


def gradient_report(
    source: Forecaster | History | RunRecord | str | os.PathLike[str], data: Any = None, **options: Any
) -> GradientReport:
    """The report on the gradients of a training that had `callbacks=[nd.GradientAnalyzer()]`.

    A run that ended with a value that is not finite is reported, too. If it had no analyzer, the place of that value
    is found with `data`: the run is repeated from its last checkpoint to that step. Its directory does not change.

    Args:
        source: a forecaster, a history, a run's directory, or the result of `nd.read_run`.
        data: the table that the run was trained on.
        options: other arguments of the first `fit` call: validation, local_scaler, columns of the frame.
    """
    if isinstance(source, str | os.PathLike):
        source = read_run(source)
    if isinstance(source, RunRecord):
        events, norms = source.log.events, source.steps["gradient_norm"]
        if data is not None and not any(NONFINITE in event for event in events):
            from neuro_divergent.diagnostics.replay import nonfinite_of_run

            found = nonfinite_of_run(source.path, data, **options)
            events = events if found is None else [*events, {NONFINITE: found.to_dict()}]
    else:
        history = source if isinstance(source, History) else source.history
        events, norms = history.events, history.gradient_norm
    return report_of(events, norms)


def report_of(events: Sequence[Mapping[str, Any]], norms: Sequence[float]) -> GradientReport:
    """The report from the events of a training and the gradient norms of its steps."""
    names = next((event for event in events if LAYERS in event), None)
    place = next((event[NONFINITE] for event in events if NONFINITE in event), None)
    seen = [event[FIGURES] for event in events if FIGURES in event]
    if names is None and place is None:
        raise ConfigError(
            "a gradient report needs a training that was observed, but this one was not. Train with "
            "callbacks=[nd.GradientAnalyzer()], or give the data of a run that ended with NaN: "
            "nd.gradient_report(run, data)",
            advice=[Advice("training.callbacks", "[GradientAnalyzer]")],
        )
    layers, sizes = ([], []) if names is None else (names[LAYERS], names["sizes"])
    rms = [[None if n is None else n / math.sqrt(s) for n, s in zip(item["norm"], sizes, strict=True)] for item in seen]
    noise = [item for item in seen if "trace" in item]
    return GradientReport(
        steps=tuple(int(item["at"]) for item in seen),
        by_layer=tuple(_layer(number, name, sizes[number], seen, rms) for number, name in enumerate(layers)),
        rms=tuple(tuple(row) for row in rms),
        noise_scale=_noise(
            [sum(filter(None, item["trace"])) for item in noise], [sum(filter(None, item["square"])) for item in noise]
        ),
        batch_size=int(noise[-1]["batch"]) if noise else None,
        growth=_growth(norms),
        skipped=sum(event.get("event") == "skipped" for event in events),
        first_nonfinite=None if place is None else FirstNonfinite.from_dict(place),
    )


def _layer(
    number: int, name: str, size: int, seen: Sequence[Mapping[str, Any]], rms: Sequence[Sequence[float | None]]
) -> LayerGradients:
    def column(figure: str) -> list[float]:
        return [value for item in seen if figure in item and (value := item[figure][number]) is not None]

    norms, ratios = column("norm"), column("update_ratio")
    own = [value for row in rms if (value := row[number]) is not None]
    shares = [
        value / top
        for row in rms
        if (top := max(filter(None, row), default=0.0)) and (value := row[number]) is not None
    ]
    return LayerGradients(
        layer=name,
        parameters=size,
        norm=_median(norms),
        rms=_median(own),
        zeros=_median(column("zeros")),
        update_ratio=_median(ratios),
        noise_scale=_noise(column("trace"), column("square")),
        largest=max(norms, default=None),
        vanishing=bool(shares) and median(shares) < VANISHING,
        exploding=(bool(ratios) and median(ratios) > WHOLE_UPDATE) or (_growth(norms) or 0.0) > EXPLODING,
    )


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _noise(trace: Sequence[float], square: Sequence[float]) -> float | None:
    """Means over the steps first, then the ratio: each is unbiased, but the ratio of one step is not."""
    if not trace or not square:
        return None
    mean, spread = sum(square), sum(trace)
    return spread / mean if mean > 0 else math.inf


def _growth(norms: Sequence[float]) -> float | None:
    """Largest norm after the first quarter, divided by the median of the first quarter."""
    finite = [value for value in norms if math.isfinite(value)]
    if len(finite) < FEW_STEPS:
        return None
    first = len(finite) // 4
    usual = median(finite[:first])
    return max(finite[first:]) / usual if usual > 0 else None
