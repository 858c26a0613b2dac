"""Trains a description on a table; the result is a fitted forecaster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.join import later_rows
from neuro_divergent.data.read.series_checks import cut_rows
from neuro_divergent.data.scaling.per_series import SeriesScaler
from neuro_divergent.data.schema.schema import LoadOptions
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.split import rows_before
from neuro_divergent.data.windows.windows import Short
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.task import ForecastTask
from neuro_divergent.forecasting.fit.training_rows import split_rule
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals, calibrate
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.training.config.misplaced import answer, as_code, not_a_config
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import Resume

if TYPE_CHECKING:
    from neuro_divergent.forecasting.network.module import ForecastModule
    from neuro_divergent.forecasting.predict.local_scaling import LocalScaling

log = logging.getLogger(__name__)


def fit(
    model: Model,
    data: Any,
    config: TrainingConfig | None = None,
    *,
    prediction_intervals: PredictionIntervals | None = None,
    **options: Any,
) -> Forecaster:
    """The forecaster trained on a table; see `Model.fit` and `job_of` for the options."""
    return fit_job(job_of(model, data, config, **options), prediction_intervals)


def fit_job(job: Job, intervals: PredictionIntervals | None = None) -> Forecaster:
    """The forecaster of a job, with intervals if they are asked for."""
    return prepare(job).finish() if intervals is None else _with_intervals(job, intervals)


def job_of(
    model: Model,
    data: Any,
    config: TrainingConfig | None = None,
    *,
    validation: Any = None,
    short: Short = "error",
    local_scaler: str | SeriesScaler | None = None,
    task: Callable[..., ForecastTask] = ForecastTask,
    resume: str | os.PathLike[str] | None = None,
    resume_with: Mapping[str, Any] | None = None,
    begin_with: Callable[[ForecastModule], None] | None = None,
    scaling: LocalScaling | None = None,
    learned_from: tuple[Forecaster, ...] = (),
    may_refit: bool = True,
    **columns: Any,
) -> Job:
    """The job for the arguments of `Model.fit`. The tables are read here."""
    check_arguments(columns, PredictionIntervals)
    if config is not None and not isinstance(config, TrainingConfig):
        raise not_a_config(config, TrainingConfig.model_fields)
    if "min_length" in columns:  # `short` applies to both: min_length and the length that the model needs
        columns["short"] = short
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
        scaling=scaling,
        learned_from=learned_from,
        may_refit=may_refit,
    )


def check_arguments(columns: Mapping[str, Any], *owners: type[Description]) -> None:
    """Refuse arguments that are settings of another object, and name that object."""
    for name in columns.keys() - LoadOptions.__annotations__.keys():
        owner = next((owner for owner in owners if name in owner.model_fields), None)
        if owner is not None:
            raise ConfigError(
                f"there is no argument {name!r}; it is a field: {owner.__name__}({name}={as_code(columns[name])})"
            )
        found = answer(name, columns[name], "fit", {}, TrainingConfig.model_fields)
        if found is not None:
            raise ConfigError(
                f"there is no argument {name!r}; {found.sentence}",
                rule="belongs elsewhere",
                got=f"there is no argument {name!r}",
                advice=found.advice,
            )


def check_resumable(
    model: Model,
    data: Any,
    config: TrainingConfig,
    *,
    prediction_intervals: PredictionIntervals | None = None,
    **options: Any,
) -> None:
    """Refuse now what `fit` would refuse when this run is resumed: another model, other data. Nothing is written."""
    job = job_of(model, data, config.unsaved(), **options)
    if prediction_intervals is not None:
        _refuse_resume(job)
    prepare(job).training.check()


def _with_intervals(job: Job, settings: PredictionIntervals) -> Forecaster:
    """Train twice: without the last windows, to measure the errors on them, and on all rows, to forecast."""
    if not isinstance(settings, PredictionIntervals):
        raise ConfigError(
            "prediction_intervals must be settings such as PredictionIntervals(n_windows=20), but got "
            f"prediction_intervals={settings!r}"
        )
    _refuse_resume(job)
    model, table = job.model, job.table
    rows = settings.rows(model.h)
    cut = _rows_before_windows(job, rows)
    long = cut > 0
    if not long.any():
        raise DataError(
            f"prediction intervals hold out {rows} rows of each series "
            + settings.too_few(model.h, int(table.store.lengths.max(initial=0)), model.input_size + model.h)
        )
    kept, cut = table if long.all() else table.select(table.ids[long].tolist()), cut[long]
    first = kept.store.offsets[:-1]
    past = cut_rows(kept.store, np.arange(kept.n_series), first, first + cut)
    shorter = TimeSeriesDataFrame(past, kept.schema, kept.report(), library=kept.library)
    config = job.config.unsaved()  # the errors are those of a model without refit: two trainings are enough
    earlier = Job(model, shorter, config, short=job.short, local_scaler=job.local_scaler, may_refit=False)
    fitted = prepare(job).finish()
    if fitted.loss.probabilistic:
        log.warning(
            "prediction_intervals are not used: %s already has intervals. Leave them out, or train with a loss that "
            "forecasts a point, such as MAE", fitted.loss.kind,
        )  # fmt: skip
        return fitted
    measured = prepare(earlier).finish()
    fitted.intervals = calibrate(measured, kept, settings, cut)
    return fitted


def _rows_before_windows(job: Job, rows: int) -> npt.NDArray[np.int64]:
    """[S] how many first rows of each series come before the windows on which the errors are measured.

    If validation begins at one date, these windows do, too: no series is trained on rows later than another's windows.
    """
    store = job.table.store
    if split_rule(store, job.config) == "series":
        return store.lengths - rows
    newest = int(np.argmax(store.times(store.lengths)))
    return rows_before(store, store.times([store.lengths[newest] - rows], np.array([newest]))[0])


def _refuse_resume(job: Job) -> None:
    if job.resume.source is not None or job.resume.changes is not None:
        raise ConfigError(
            "a training with prediction_intervals is two trainings, so it cannot be resumed. Resume it without them, "
            "then call calibrate(data, intervals) on the forecaster"
        )
