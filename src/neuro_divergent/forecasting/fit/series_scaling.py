"""Scales the series of a job one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from neuro_divergent.data.join import joined
from neuro_divergent.data.read.series_checks import cut_rows
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.training_rows import rows_to_train, training_rows
from neuro_divergent.forecasting.predict.local_scaling import LocalScaling, with_store


def scaled_job(job: Job) -> tuple[Job, LocalScaling | None, TimeSeriesDataFrame | None]:
    """The job with its series scaled, the scaling, and the table in original units.

    The scaling is fitted on training rows only. A series with too few training rows is not trained on: its scaling is
    fitted when it is forecast, or when a refit trains on all its rows. Without a local scaler the job is unchanged, and
    the others are None.
    """
    name, table = job.local_scaler, job.table
    if job.scaling is not None:
        return replace(job, table=job.scaling.scaled(table)), job.scaling, table
    if name is None:
        return job, None, None
    if job.validation is not None:
        local = LocalScaling.fit(name, table, table.store.lengths)
        whole, rows = joined(table, job.validation)
        shown, later = _apart(local.scaled(whole), rows)
        return replace(job, table=shown, validation=later), local, whole
    local = LocalScaling.fit(
        name, table, training_rows(job.model, table.store, job.config), least=rows_to_train(job.model)
    )
    return replace(job, table=local.scaled(table)), local, table


def _apart(whole: TimeSeriesDataFrame, rows: npt.NDArray[np.int64]) -> tuple[TimeSeriesDataFrame, TimeSeriesDataFrame]:
    """The first rows of each series, and the rows after them. Features become ordinary columns.

    Features were computed from the target in original units, as in a forecast. They must not be computed again from the
    scaled target.
    """
    store, schema = whole.store, whole.schema
    own = {
        role: (*getattr(schema, role), *(name for name in names if name not in getattr(schema, role)))
        for role, names in (("future", store.future_names), ("historical", store.historical_names))
    }
    plain = with_store(whole, store)
    plain.schema = schema.replace(features=(), **own)
    first, middle, last = store.offsets[:-1], store.offsets[:-1] + rows, store.offsets[1:]
    some = np.flatnonzero(middle < last)
    return (
        with_store(plain, cut_rows(store, np.arange(whole.n_series), first, middle)),
        with_store(plain, cut_rows(store, some, middle[some], last[some])),
    )
