"""Weights and units of a trained network: distributions, spectra, dead units, utilization."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.diagnostics.activations import UnitActivity, unit_activity
from neuro_divergent.diagnostics.frames import frame_of
from neuro_divergent.diagnostics.layer_stats import layers_of, main_weight, spectrum
from neuro_divergent.diagnostics.training_batches import training_batches

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from neuro_divergent.forecasting.predict.forecaster import Forecaster

BINS = 41
"""Bins of a histogram of weights."""


class LayerWeights(Description):
    """The weights and the units of one layer."""

    layer: str
    """The module's name in the network."""
    type: str
    """The class of the module."""
    parameters: int
    """Number of its own parameters."""
    mean: float | None = None
    """Mean of the weights."""
    deviation: float | None = None
    """Standard deviation of the weights."""
    largest: float | None = None
    """Largest absolute value."""
    zeros: float | None = None
    """Share of weights that are exactly 0."""
    rank: int | None = None
    """Largest possible rank of the layer's main weight; None for layers without a matrix."""
    effective_rank: float | None = None
    """exp(entropy of its singular values), between 1 and `rank` (Roy & Vetterli 2007)."""
    condition: float | None = None
    """Its largest singular value divided by the smallest one; infinite if that is 0."""
    units: int | None = None
    """Number of units of a linear, convolutional or recurrent layer; None for others, and for layers not called."""
    dead: int | None = None
    """Number of units on which the network's outputs do not depend, on any window."""
    utilization: float | None = None
    """Share of (unit, window) pairs in which the outputs depend on the unit."""
    output_mean: float | None = None
    """Mean of the layer's outputs, before an activation."""
    output_deviation: float | None = None
    """Standard deviation of the layer's outputs."""
    output_rank: float | None = None
    """Effective rank of the outputs: how many of its units' directions carry variance."""
    histogram: tuple[int, ...] = ()
    """Counts of weights in equal bins from `-largest` to `largest`."""


class WeightReport(Description):
    """The weights and units of every layer of a network."""

    by_layer: tuple[LayerWeights, ...]
    """The layers, in the order of the network."""
    windows: int = 0
    """How many windows the units were measured on; 0 if they were not."""

    @property
    def layers(self) -> pl.DataFrame:
        """One row per layer, without the histograms."""
        return frame_of(self.by_layer, without=("histogram",))

    def to_polars(self) -> pl.DataFrame:
        """One row per layer; the same as `layers`."""
        return self.layers

    def dead_neuron_count(self) -> int:
        """Number of units on which the outputs of the network do not depend, on any window."""
        self._measured("dead_neurons")
        return sum(item.dead or 0 for item in self.by_layer)

    def avg_utilization(self) -> float:
        """Share of (unit, window) pairs in which the outputs depend on the unit, over all layers: 0 to 1."""
        self._measured("utilization")
        counted = [
            (item.units, item.utilization) for item in self.by_layer if item.units and item.utilization is not None
        ]
        return sum(units * share for units, share in counted) / max(1, sum(units for units, _ in counted))

    def _measured(self, field: str) -> None:
        if not self.windows:
            raise ConfigError(f"units were not measured. Use WeightAnalyzer({field}=True)")

    def __str__(self) -> str:
        head = f"{'layer':<44}{'parameters':>11}{'std':>10}{'rank':>14}{'condition':>11}{'dead':>11}{'used':>7}"
        lines = [head, *(_line(item) for item in self.by_layer)]
        units = sum(item.units or 0 for item in self.by_layer)
        if self.windows:
            dead, used = self.dead_neuron_count(), self.avg_utilization()
            lines.append(f"{dead} of {units} units are dead, {used:.0%} utilization, on {self.windows} windows")
        return "\n".join(lines)

    def print_summary(self) -> None:
        """Print the table of layers."""
        print(self)  # noqa: T201  # that is what it is for

    def plot_weight_distributions(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """A figure with a histogram of the weights of each layer."""
        from neuro_divergent.diagnostics.plots import distribution_figure
        from neuro_divergent.plotting import save

        if not any(item.histogram for item in self.by_layer):
            raise ConfigError("the distributions were not measured. Use WeightAnalyzer(distributions=True)")
        return save(distribution_figure(self), path)


def _line(item: LayerWeights) -> str:
    name = item.layer if len(item.layer) <= 43 else f"…{item.layer[-42:]}"
    rank = "-" if item.effective_rank is None else f"{item.effective_rank:.1f} of {item.rank}"
    condition = "-" if item.condition is None else f"{item.condition:.3g}"
    dead = "-" if item.dead is None else f"{item.dead} of {item.units}"
    used = "-" if item.utilization is None else f"{item.utilization:.0%}"
    deviation = "-" if item.deviation is None else f"{item.deviation:.2e}"
    return f"{name:<44}{item.parameters:>11,}{deviation:>10}{rank:>14}{condition:>11}{dead:>11}{used:>7}"


class WeightAnalyzer(Description):
    """Analyses the weights of a trained network, and its units on the training windows.

    >>> from neuro_divergent.diagnostics.weights import WeightAnalyzer
    >>> WeightAnalyzer(dead_neurons=False, utilization=False).distributions
    True
    """

    distributions: bool = True
    """Mean, deviation, zeros and a histogram of the weights of each layer."""
    dead_neurons: bool = True
    """Count the units on which the outputs do not depend, on any window."""
    utilization: bool = True
    """Measure on how many windows the outputs depend on each unit."""

    def analyze(self, fitted: Forecaster, data: Any = None) -> WeightReport:
        """The report of a fitted model. Nothing in the model changes.

        Args:
            fitted: the model.
            data: a table with windows for the units; None for the rows that the model keeps.
        """
        batches = training_batches(fitted, data) if self.dead_neurons or self.utilization else ()
        return self.analyze_module(fitted.module, batches, fitted.module.forward)

    def analyze_module(self, module: nn.Module, batches: Iterable[Any] = (), forward: Any = None) -> WeightReport:
        """The report of any torch module.

        Args:
            module: the module.
            batches: its inputs: tuples whose first tensor has a row per sample, or such tensors.
            forward: gives the outputs for one of them; None calls the module with the tuple's tensors.
        """
        given = (item if isinstance(item, tuple) else (item,) for item in batches)
        activity = unit_activity(module, given, forward or (lambda item: module(*item)))
        names = dict(module.named_modules())
        layers = [
            self._layer(name, type(names[name]).__name__, list(parameters), activity.get(name))
            for name, parameters in layers_of(module, trainable=False).items()
        ]
        return WeightReport(by_layer=tuple(layers), windows=max((one.windows for one in activity.values()), default=0))

    def _layer(self, name: str, kind: str, parameters: list[Tensor], active: UnitActivity | None) -> LayerWeights:
        size = sum(parameter.numel() for parameter in parameters)
        found = spectrum(main_weight(parameters))
        facts: dict[str, Any] = {} if found is None else {
            "rank": found.rank, "effective_rank": found.effective_rank, "condition": found.condition,
        }  # fmt: skip
        if self.distributions:
            facts |= _distribution(torch.cat([parameter.detach().flatten().double() for parameter in parameters]).cpu())
        if active is not None:
            facts |= {
                "units": active.units,
                "output_mean": active.mean,
                "output_deviation": active.deviation,
                "output_rank": active.output_rank,
            }
            facts |= {"dead": active.dead} if self.dead_neurons else {}
            facts |= {"utilization": active.utilization} if self.utilization else {}
        return LayerWeights(layer=name or kind, type=kind, parameters=size, **facts)


def _distribution(values: Tensor) -> dict[str, Any]:
    finite = values[torch.isfinite(values)]
    if not len(finite):
        return {}
    largest = float(finite.abs().max())
    counts = torch.histc(finite, bins=BINS, min=-largest, max=largest) if largest > 0 else torch.tensor([len(finite)])
    return {
        "mean": float(finite.mean()),
        "deviation": float(finite.std(correction=0)),
        "largest": largest,
        "zeros": float((finite == 0).double().mean()),
        "histogram": tuple(int(count) for count in counts.tolist()),
    }
