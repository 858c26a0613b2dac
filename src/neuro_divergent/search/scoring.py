"""The score of a trial: a metric of `evaluate` on the test rows of its folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from neuro_divergent.core.errors import ConfigError, TrainingError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.fold_job import Plan, part_of, run_job, seen_in
from neuro_divergent.forecasting.evaluate.folds import Fold
from neuro_divergent.forecasting.evaluate.scores import (
    HistoricalForecasts,
    Truth,
    check_names,
    overall_figures,
    truth_of,
)
from neuro_divergent.forecasting.evaluate.seasonal_naive import season_of
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.losses.base import Loss
from neuro_divergent.metrics.base import AnyMetric, badness, goal_of
from neuro_divergent.metrics.by_name import PROBABILISTIC

SIGNED = ("bias", "bias_percent", "coverage")
"""Metrics whose best value is neither the lowest nor the highest: their distance to the best value is the score."""


def direction_of(name: str) -> str:
    """Whether the score of a metric is minimised or maximised."""
    if name.partition("-")[0] in SIGNED:
        return "minimize"
    return "maximize" if goal_of(name) == "max" else "minimize"


def refuse_without_quantiles(names: Sequence[str], loss: Any) -> None:
    """Refuse a metric of intervals or quantiles if the loss trains a model that forecasts only points."""
    for name in names:
        if name in PROBABILISTIC and isinstance(loss, Loss) and not loss.probabilistic:
            raise ConfigError(
                f"{name} needs intervals or quantiles, but {loss.kind} forecasts a point. Train with "
                "loss=nd.MQLoss(level=[80]), or another loss of quantiles or distributions"
            )


def score_of(name: str, value: float) -> float:
    """The score of a metric's value: the value itself, or its distance to the best value."""
    return badness(name, value) if name.partition("-")[0] in SIGNED else value


@dataclass(frozen=True)
class FoldScores:
    """Scores forecasters on the test rows of one fold. A forecast sees the rows before it, and none later."""

    table: TimeSeriesDataFrame
    fold: Fold
    metrics: tuple[AnyMetric, ...]
    level: tuple[float, ...] | None = None

    @cached_property
    def past(self) -> TimeSeriesDataFrame:
        """The training rows of the fold, cut out of the table."""
        return part_of(self.table, *self.fold.train)

    @cached_property
    def season(self) -> int:
        """The season of the naive forecast, from the training rows."""
        return season_of(self.past.store)

    def of(self, forecaster: Forecaster) -> dict[str, float]:
        """The score of each metric."""
        truth, item = self._forecasts(forecaster)
        return self._figures(truth, item, forecaster.model.name)

    def naive(self, forecaster: Forecaster) -> dict[str, float]:
        """The scores of the seasonal naive forecast at the same places; only metrics of points."""
        truth, _ = self._forecasts(forecaster)
        name = truth.naive_name
        wanted = check_names(self.metrics)
        found = overall_figures(truth, truth.with_naive({})[name], wanted, False, "pooled")
        return {key: score_of(key, float(value)) for key, value in found.items()}

    def _forecasts(self, forecaster: Forecaster) -> tuple[Truth, HistoricalForecasts]:
        model = forecaster.model
        plan = Plan(models=(model,), configs={model.name: forecaster.config}, level=self.level)
        (part,), _ = run_job(plan, self.table, [self.fold], {model.name: forecaster})
        truth = truth_of(part.origins, season=self.season, seen=seen_in(part.origins, self.fold))
        actual = truth.actual.copy()
        actual[part.origins.rows() >= self.fold.test[1][part.origins.series][:, None]] = np.nan
        return replace(truth, actual=actual), part.found[model.name]

    def _figures(self, truth: Truth, item: HistoricalForecasts, model: str) -> dict[str, float]:
        wanted = check_names(self.metrics)
        found = overall_figures(truth, item, wanted, True, "pooled")
        return {name: _summary(name, found, model) for name in wanted}


def _summary(name: str, found: dict[str, float], model: str) -> float:
    """The value of a metric; the mean over its levels, if it has one for each."""
    own = {key: value for key, value in found.items() if key == name or key.startswith(f"{name}-")}
    if not own:
        raise ConfigError(f"{name} needs intervals or quantiles, but {model} gives none. Set level=[80]")
    score = float(np.mean([score_of(key, float(value)) for key, value in own.items()]))
    if not math.isfinite(score):
        raise TrainingError(f"the score must be a finite number, but {name} of {model} is {score}")
    return score


def mean_scores(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each metric over folds and seeds."""
    return {name: float(np.mean([one[name] for one in scores])) for name in scores[0]}
