"""From a description and a table to a fitted forecaster."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.join import later_rows
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.windows import Short
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.task import ForecastTask
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals, calibrate
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import Resume

if TYPE_CHECKING:
    from neuro_divergent.forecasting.network.module import ForecastModule


def fit(
    model: Model,
    data: Any,
    config: TrainingConfig | None = None,
    *,
    prediction_intervals: PredictionIntervals | None = None,
    **options: Any,
) -> Forecaster:
    """Train a model on a table; see `Model.fit` and `job_of` for the options."""
    job = job_of(model, data, config, **options)
    if prediction_intervals is not None:
        return _with_intervals(job, prediction_intervals)
    return prepare(job).finish()


def job_of(
    model: Model,
    data: Any,
    config: TrainingConfig | None = None,
    *,
    validation: Any = None,
    short: Short = "error",
    local_scaler: str | None = None,
    task: Callable[..., ForecastTask] = ForecastTask,
    resume: str | os.PathLike[str] | None = None,
    resume_with: Mapping[str, Any] | None = None,
    begin_with: Callable[[ForecastModule], None] | None = None,
    **columns: Any,
) -> Job:
    """The job of the arguments that `Model.fit` takes; the tables are read here."""
    table = TimeSeriesDataFrame.from_frame(data, **columns)
    return Job(
        model=model,
        table=table,
        config=config or TrainingConfig(),
        validation=None if validation is None else later_rows(table, validation),
        short=short,
        local_scaler=local_scaler,
        resume=Resume(resume, resume_with),
        task=task,
        begin_with=begin_with,
    )


def check_resumable(
    model: Model,
    data: Any,
    config: TrainingConfig,
    *,
    prediction_intervals: PredictionIntervals | None = None,
    **options: Any,
) -> None:
    """Refuse now what `fit` would refuse when this run goes on: another model, other data. Nothing is written."""
    job = job_of(model, data, config.unsaved(), **options)
    if prediction_intervals is not None:
        _refuse_resume(job)
    prepare(job).training.check()


def _with_intervals(job: Job, settings: PredictionIntervals) -> Forecaster:
    """Train twice: without the last windows, to measure errors on them, and on everything, to forecast."""
    _refuse_resume(job)
    model, table = job.model, job.table
    rows = settings.rows(model.h)
    long = table.store.lengths > rows
    if not long.any():
        raise DataError(
            f"prediction intervals hold back {rows} rows of each series (h={model.h}, n_windows={settings.n_windows}, "
            f"step_size={settings.step_size}), but the longest has {int(table.store.lengths.max(initial=0))}. "
            "Ask for fewer windows"
        )
    kept = table if long.all() else table.select(table.ids[long].tolist())
    earlier = Job(model, kept.drop_last(rows), job.config.unsaved(), short=job.short, local_scaler=job.local_scaler)
    measured = prepare(earlier).finish()
    fitted = prepare(job).finish()
    fitted.intervals = calibrate(measured, kept, settings)
    return fitted


def _refuse_resume(job: Job) -> None:
    if job.resume.source is not None or job.resume.changes is not None:
        raise ConfigError(
            "a training with prediction_intervals is two trainings, so it cannot be resumed. Resume it without, then "
            "call calibrate(data, intervals) on the forecaster"
        )
