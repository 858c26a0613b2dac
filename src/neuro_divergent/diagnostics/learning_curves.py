"""Learning curves: the error on training and later rows against the share of data, over folds and seeds."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import Advice, ConfigError, DataError, MembersFailedError
from neuro_divergent.core.field_types import Several, default
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.diagnostics.learning_curve_result import CurveFit, LearningCurveResult
from neuro_divergent.forecasting.evaluate.fold_job import part_of
from neuro_divergent.forecasting.evaluate.folds import Fold, TimeSeriesSplit
from neuro_divergent.forecasting.evaluate.scores import HistoricalForecasts, check_names, scored, truth_of
from neuro_divergent.forecasting.fit.fit_many import fit_many
from neuro_divergent.forecasting.fit.training_rows import trained_rows
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.output_columns import point_column
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.metrics.base import goal_of
from neuro_divergent.metrics.by_name import PROBABILISTIC
from neuro_divergent.training.config.training_config import TrainingConfig

log = logging.getLogger(__name__)

TRAINING_WINDOWS = 20
"""The training error is measured on at most this many windows at the end of each series' training rows."""
NO_ERRORS = (*PROBABILISTIC, "bias", "bias_percent")
"""Metrics that need intervals, or that have a sign."""
Share = Annotated[float, Field(gt=0.0, le=1.0)]


class LearningCurves(Description):
    """Trains a model on growing shares of the data, and compares its errors on training rows and on later rows.

    Every fold tests on rows after its training rows. Of these, a share keeps the newest rows of each series.
    """

    train_sizes: Several[Share] = default((0.1, 0.2, 0.4, 0.6, 0.8, 1.0))
    """Shares of the training rows of each fold."""
    cv_folds: Annotated[int, Field(ge=1)] = 5
    """Number of test parts at the end of the table, one horizon each."""
    scoring: str = "mae"
    """The metric of a point forecast, such as "mae", "rmse", "smape"; lower is better."""
    seeds: Annotated[int, Field(ge=1)] | tuple[int, ...] = 1
    """A number of seeds, or a list of them: each share is trained with each seed."""

    @field_validator("train_sizes")
    @classmethod
    def _rising(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(value)) < 2:
            raise ConfigError(f"a curve needs two or more different train_sizes, but got train_sizes={list(value)}")
        return tuple(sorted(set(value)))

    @field_validator("scoring")
    @classmethod
    def _an_error(cls, value: str) -> str:
        name = next(iter(check_names([value])))
        if name in NO_ERRORS or goal_of(name) == "max":
            raise ConfigError(
                "scoring must be an error of point forecasts that is 0 at best and never negative, but got "
                f"scoring={value!r}. Use mae, rmse, smape or mase",
                advice=[Advice("scoring", "mae")],
            )
        return name

    def analyze(
        self,
        model: Model,
        data: Any,
        config: TrainingConfig | None = None,
        *,
        n_jobs: int = 1,
        executor: Any = None,
        **columns: Any,
    ) -> LearningCurveResult:
        """Train the model on every share, fold and seed, and return the curves.

        The trainings of a fold run by `fit_many`: small models train as one computation. They write no files.

        Args:
            model: the model.
            data: the table.
            config: how to train; None for the model's recipe.
            n_jobs: processes of this machine that train at the same time, -1 for one per core.
            executor: where to train instead, as in `fit_many`: anything with the interface of `concurrent.futures`.
            columns: the columns of a frame, as for `fit`.
        """
        table = TimeSeriesDataFrame.from_frame(data, **columns)
        check_names([self.scoring])
        base = (config or TrainingConfig()).unsaved().replace(refit=None)
        fits: list[CurveFit] = []
        for fold in TimeSeriesSplit(n_splits=self.cv_folds, align="auto").folds(table, model.h):
            fits += self._fold(model, table, fold, base, {"n_jobs": n_jobs, "executor": executor})
        sizes = {item.size for item in fits}
        missing = [size for size in self.train_sizes if size not in sizes]
        if missing:
            log.warning("no fold has enough rows to train on the shares %s: they are left out", missing)
        if len(sizes) < 2:
            raise DataError(
                f"a learning curve needs two shares with windows to train on, but only {sorted(sizes)} have some. Give "
                "longer series, larger train_sizes or fewer cv_folds"
            )
        return LearningCurveResult(model=model.name, scoring=self.scoring, fits=tuple(fits))

    def _fold(
        self, model: Model, table: TimeSeriesDataFrame, fold: Fold, config: TrainingConfig, where: Mapping[str, Any]
    ) -> list[CurveFit]:
        numbers = range(config.seed, config.seed + self.seeds) if isinstance(self.seeds, int) else self.seeds
        wanted = [
            (size, seed, part)
            for size in self.train_sizes
            if (part := _newest(model, table, fold, size, config)) is not None
            for seed in numbers
        ]
        if not wanted:
            return []
        configs = [config.replace(seed=seed) for _, seed, _ in wanted]
        fitted: Sequence[Forecaster | None]
        try:
            fitted = fit_many(model, [part for _, _, part in wanted], configs, short="drop", **where)
        except MembersFailedError as error:  # a share without a window to train on, or to validate
            if not any(isinstance(failure, DataError) for failure in error.failures.values()):
                raise
            fitted = error.forecasters
        return [
            self._scored(one, table, part, fold, size, seed)
            for one, (size, seed, part) in zip(fitted, wanted, strict=True)
            if one is not None
        ]

    def _scored(
        self,
        fitted: Forecaster,
        table: TimeSeriesDataFrame,
        part: TimeSeriesDataFrame,
        fold: Fold,
        size: float,
        seed: int,
    ) -> CurveFit:
        h, last = fitted.model.h, trained_rows(fitted, part)
        first = np.maximum(np.minimum(fitted.model.input_size, last), last - TRAINING_WINDOWS * h)
        held, held_naive, season = self._errors(fitted, table, *fold.test)
        train, train_naive, _ = self._errors(fitted, part, first, last, season)
        losses = fitted.history
        return CurveFit(
            size=size,
            fold=fold.number,
            seed=seed,
            rows=int(part.store.lengths.sum()),
            train=train,
            train_naive=train_naive,
            validation=held,
            validation_naive=held_naive,
            epoch_train_loss=tuple(losses.train_loss),
            epoch_validation_loss=tuple(losses.validation_loss),
        )

    def _errors(
        self, fitted: Forecaster, table: TimeSeriesDataFrame, first: Any, last: Any, season: int | None = None
    ) -> tuple[float, float, int | None]:
        """The metric of the model and of the seasonal naive forecast on windows between two rows of each series.

        The third value is the season; None infers it.
        """
        h, name = fitted.model.h, fitted.model.name
        origins = Origins.windows(
            table, np.maximum(first, 1), last, steps=h, step_size=h, together=fitted.model.together
        )
        if not len(origins):
            return float("nan"), float("nan"), season
        columns = point_column(name)
        truth = truth_of(origins, season=season)
        found = {name: HistoricalForecasts(columns, origins.forecasts(fitted, columns))}
        result = scored(truth, found, [self.scoring])
        return result[name, self.scoring], result[truth.naive_name, self.scoring], truth.season


def _newest(
    model: Model, table: TimeSeriesDataFrame, fold: Fold, size: float, config: TrainingConfig
) -> TimeSeriesDataFrame | None:
    """The newest share of the training rows of each series; None if no series has a window in it."""
    begin, stop = fold.train
    rows = np.ceil(size * (stop - begin) - 1e-9).astype(np.int64)
    held = config.validation_split if isinstance(config.validation_split, float) else 0.0
    if int((rows * (1 - held)).max(initial=0)) < model.input_size + model.h:
        return None
    return part_of(table, stop - rows, stop)
