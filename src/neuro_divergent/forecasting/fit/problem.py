"""The learning problem of a training: windows, sources and task."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.samplers import EasyFirst, Sampler, Sequential, easy_first
from neuro_divergent.data.windows.windows import Range, Short, Windows
from neuro_divergent.forecasting.fit.task import ForecastTask, WindowSource
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.losses import Loss
from neuro_divergent.training.config.curriculum import EasySeriesFirst
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.trainer import effective_batch, training_sampler

log = logging.getLogger(__name__)

MAX_VALIDATION_WINDOWS = 4096
"""Validation scores at most about this many windows, evenly spread: more would cost time and change little."""


DECIDED_ON = "decided_on"
"""Key in a run's identity: the rows that decided anchors, categories, weights and curricula."""

STARTS_FROM = "starts_from"
"""Key in the identity of a fine-tuning on all rows: a digest of the weights with which it begins."""


@dataclass(frozen=True)
class Problem:
    """The learning problem: a model, the columns that it takes, and how windows are cut from them."""

    model: Model
    store: SeriesStore
    anchor: tuple[int, ...]
    lags: tuple[int, ...]
    """Lags of the target that the network reads."""
    rows: npt.NDArray[np.int64]
    """[S] how many first rows of each series decide what is inferred from the data: the training rows."""
    historical_categorical: tuple[str, ...]
    short: Short
    times: Callable[[], npt.NDArray[np.generic]]
    """The time stamp of every row, for losses that need it."""
    task: Callable[..., ForecastTask] = ForecastTask
    """How a batch of windows becomes loss values."""
    begin_with: Callable[[ForecastModule], None] | None = None
    """Gives a new module its starting weights."""
    starts_from: str | None = None
    """A digest of the starting weights, if another result of the same run must not be resumed with them."""
    decided_on_all: bool = False
    """True for a run of an earlier version that let held-out rows decide, too. It keeps its decisions."""
    indexed: dict[Any, Windows] = field(default_factory=dict, compare=False, repr=False)
    """Cache of windows: each part of the table is indexed once."""

    def weighted(self, loss: Loss) -> Problem:
        """The problem with the row weights of the loss (by recency, or by a function of time and value)."""
        if type(loss).row_weights is Loss.row_weights:
            return self
        store = self.store
        rows = np.arange(len(store.y)) - np.repeat(store.offsets[:-1], store.lengths)
        age = np.repeat(store.lengths, store.lengths) - 1 - rows
        trained = rows < np.repeat(self.rows, store.lengths)
        weights, times = np.empty(len(rows)), self.times()
        # A function may use all rows that it gets: held-out rows must not influence the weights of the others.
        for part in (trained, ~trained) if not trained.all() else (slice(None),):
            found = loss.row_weights(age[part], times[part], store.y[part])
            if found is None:
                return self
            weights[part] = found
        weights = weights if store.weight is None else weights * store.weight
        return replace(self, store=replace(store, weight=weights.astype(store.y.dtype)), indexed={})

    def windows(self, target_range: Range, step: int = 1) -> Windows:
        """The windows whose horizon lies in a range."""
        key = (*(np.asarray(side).tobytes() for side in target_range), step)
        if key not in self.indexed:
            self.indexed[key] = Windows(
                self.store,
                lookback=self.model.input_size,
                horizon=self.model.h,
                step=step,
                target_range=target_range,
                multivariate=self.model.capabilities.multivariate,
                short=self.short,
                historical_categorical=self.historical_categorical,
            )
        return self.indexed[key]


def spec_of(problem: Problem, windows: Windows) -> InputSpec:
    """The sizes that the network of a problem is built for."""
    return replace(windows.spec(), lags=problem.lags)


def identity_of(problem: Problem, trained: Range, held: Range | None) -> dict[str, Any]:
    """What must be the same to resume a run: model, table, the split of its rows, and the series that are used."""
    store = problem.store
    digest = hashlib.sha256(store.fingerprint().encode())
    for rows in (*trained, *(held or ())):
        digest.update(np.ascontiguousarray(rows, dtype=np.int64).tobytes() + b"|")
    data = {"series": len(store.ids), "rows": len(store.y), "freq": store.freq, "fingerprint": digest.hexdigest()}
    known: dict[str, Any] = {
        "data": data,
        "model": problem.model.to_dict(),
        "anchor": list(problem.anchor),
        "short": problem.short,
    }
    if problem.lags:
        known["lags"] = list(problem.lags)
    if problem.starts_from is not None:
        known[STARTS_FROM] = problem.starts_from
    return known if problem.decided_on_all else known | {DECIDED_ON: "training rows"}


def sampler_of(config: TrainingConfig, windows: Windows, problem: Problem, cap: int | None) -> Sampler:
    """The sampler of a training: shuffled, in order, or easy series first."""
    curriculum = config.curriculum
    if not isinstance(curriculum, EasySeriesFirst):
        return training_sampler(config, len(windows))
    if windows.multivariate:
        raise ConfigError(
            "EasySeriesFirst draws easy series first, but a multivariate model sees all series at once. "
            "Use GrowingHorizon"
        )
    size = effective_batch(config)
    epochs = config.max_epochs if isinstance(config.max_epochs, int) else None
    if epochs is None:
        steps = min(-(-len(windows) // size), cap or len(windows))
        epochs = max(1, -(-int(config.max_steps or 1) // steps))
    return EasyFirst(
        windows.boundaries,
        size,
        # A run of an earlier version keeps its order, in which missing values counted as values.
        order=easy_first(problem.store.replace(mask=None) if problem.decided_on_all else problem.store, problem.rows),
        share=lambda epoch: curriculum.series_share(epoch, epochs),
        seed=config.seed,
        drop_last=config.drop_last,
    )


def validation_source(
    problem: Problem, config: TrainingConfig, held: Range, placed: dict[str, Any]
) -> WindowSource | None:
    """The held-out windows, at most about MAX_VALIDATION_WINDOWS of them; None if no series is long enough."""
    windows = problem.windows(held)
    if len(windows) == 0:
        log.warning(
            "no series has the %d held-out rows that one window needs: training without validation",
            problem.model.h,
        )
        return None
    step = max(1, -(-len(windows) // MAX_VALIDATION_WINDOWS))
    if step > 1:
        windows = problem.windows(held, step)
    return WindowSource(windows, Sequential(len(windows), max(1024, effective_batch(config))), **placed)
