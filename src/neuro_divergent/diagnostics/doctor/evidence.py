"""The evidence of a diagnosis: facts that are gathered once and that every check reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """What the history of a training says."""

    train_loss: Sequence[float] = ()
    """Of each epoch."""
    validation_loss: Sequence[float] = ()
    """Of each validated epoch."""
    learning_rate: Sequence[float] = ()
    """At the end of each epoch."""
    step_loss: Sequence[float] = ()
    gradient_norm: Sequence[float] = ()
    """Before clipping."""
    best_epoch: int | None = None
    skipped: Sequence[str] = ()
    """For each step that was skipped because it was not finite: "loss" or "gradient"."""
    error: str = ""
    """The error that ended the training."""
    stopped: str = ""


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """What the training rows say."""

    n_series: int = 1
    windows: int = 0
    """Training windows; 0 if unknown."""
    bad_columns: Mapping[str, int] = field(default_factory=dict)
    """Columns with values that are not finite or whose square overflows float32, and their number."""
    constant_columns: Sequence[str] = ()
    constant_series: float = 0.0
    """Share of series with a constant target."""
    duplicated: float = 0.0
    """Share of windows that another window repeats."""
    duplicated_series: int = 0
    """Series that repeat another one exactly."""
    leaks: Mapping[str, float] = field(default_factory=dict)
    """Exogenous columns whose changes copy those of the target, and the correlation."""
    shift: float = 0.0
    """Largest change of level in the held-out rows over the largest change within the training rows; the median series.
    """
    spread: float = 1.0
    """Noise of the held-out rows over that of the training rows; the median series."""
    zeros: float = 0.0
    counts: bool = False
    """Whether all values are whole numbers from 0, mostly small."""
    mean: float = 0.0
    scale_ratio: float = 1.0
    """Largest over median standard deviation of the series."""


@dataclass(frozen=True, kw_only=True)
class NetworkFacts:
    """What the network says on a sample of training windows, and what short trainings of a copy show."""

    start: float = float("nan")
    """Loss with the initial weights."""
    final: float = float("nan")
    """Loss with the final weights."""
    start_validation: float = float("nan")
    final_validation: float = float("nan")
    from_start: Mapping[str, float] = field(default_factory=dict)
    """Loss after a few steps from the initial weights, by factor of the learning rate."""
    probe_steps: int = 0
    go_on: float = float("nan")
    """Loss after a few more steps from the final weights, at the highest rate of the run."""
    go_on_validation: float = float("nan")
    go_on_slow: float = float("nan")
    """The same at a tenth of the rate."""
    small_batches: float = float("nan")
    """Loss after a few steps from the initial weights with small batches."""
    large_batches: float = float("nan")
    """Loss after a few more steps from the final weights with large batches."""
    small_size: int = 0
    layers: Sequence[Mapping[str, Any]] = ()
    """For each weight: name, gradient and size at the start and at the end, whether it changed."""
    dead: Mapping[str, float] = field(default_factory=dict)
    """Share of units of each ReLU that are 0 for all sampled windows."""
    step_start: Sequence[float] = ()
    """Loss of each step ahead with the initial weights."""
    step_final: Sequence[float] = ()
    top_share: float = 0.0
    """Share of the loss that the twentieth of the series with the largest loss has."""
    top_series: Sequence[str] = ()
    input_size: float = 1.0
    """Root mean square of the values that the network reads."""
    linear: Sequence[float] = ()
    """Mean absolute error of a linear regression on training and held-out windows, in scaled units."""
    own: Sequence[float] = ()
    """The same of the network."""


@dataclass(frozen=True, kw_only=True)
class ForecastFacts:
    """What the forecasts of held-out rows say, beside the seasonal naive forecast."""

    mae: float = float("nan")
    naive: float = float("nan")
    by_step: Sequence[float] = ()
    """Mean absolute error over that of the naive forecast, for each step ahead."""
    by_series: Mapping[str, float] = field(default_factory=dict)
    """The same for each series."""
    origins: int = 0
    coverage: Sequence[tuple[float, float, int]] = ()
    """For each interval: nominal share, observed share, number of values."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that checks read. A part is None if it could not be gathered."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """The resolved configuration as plain data."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """The model as plain data."""
    training: TrainingFacts | None = None
    table: TableFacts | None = None
    network: NetworkFacts | None = None
    forecasts: ForecastFacts | None = None
    missing: tuple[str, ...] = ()
    """What could not be gathered, and why."""

    @property
    def rate(self) -> float | None:
        """The highest learning rate that the run has used."""
        seen = [] if self.training is None else [rate for rate in self.training.learning_rate if rate > 0]
        given = (self.config.get("optimizer") or {}) if isinstance(self.config.get("optimizer"), Mapping) else {}
        base = given.get("learning_rate")
        return max([*seen, *([float(base)] if isinstance(base, int | float) else [])], default=None)

    def times_rate(self, factor: float) -> dict[str, float]:
        """The remedy of a multiple of the rate, in three digits; empty if the rate is unknown."""
        return {} if self.rate is None else {"learning_rate": float(f"{factor * self.rate:.3g}")}

    @property
    def same_start(self) -> bool:
        """Whether the run began with the weights that the model draws from the seed, as its first loss shows."""
        first = list(self.training.step_loss[:1]) if self.training is not None else []
        start = float("nan") if self.network is None else self.network.start
        return bool(first) and abs(first[0]) <= 5 * abs(start) and abs(start) <= 5 * abs(first[0])

    @property
    def reached(self) -> float:
        """The lowest loss that the run is known to have reached: that of its weights, or of its last epoch.

        The weights of the best validation may be those of an early epoch.
        """
        last = [] if self.training is None else list(self.training.train_loss[-1:])
        own = [] if self.network is None else [self.network.final]
        return min((value for value in [*last, *own] if np.isfinite(value)), default=float("nan"))

    def progress(self, loss: float) -> float:
        """The share of the way from the first loss to the lowest known one: 1 for the lowest, 0 for no progress."""
        network = self.network
        if network is None or not np.isfinite(loss):
            return 0.0
        tried = [*network.from_start.values(), network.go_on, network.go_on_slow, network.small_batches, self.reached]
        floor = min((value for value in tried if np.isfinite(value)), default=network.start)
        room = network.start - floor
        return (network.start - loss) / room if room > 0.02 * abs(network.start) else 1.0

    @property
    def loss(self) -> str:
        """The kind of the training loss."""
        return _kind(self.config.get("loss"))

    @property
    def batch(self) -> int:
        """Windows of one optimizer step; 0 if unknown."""
        size = self.config.get("batch_size")
        return size * int(self.config.get("accumulate_gradients") or 1) if isinstance(size, int) else 0


def _kind(value: Any) -> str:
    while isinstance(value, Mapping) and isinstance(value.get("loss"), Mapping):  # Weighted
        value = value["loss"]
    return str(value.get("kind", "")) if isinstance(value, Mapping) else str(value or "")
