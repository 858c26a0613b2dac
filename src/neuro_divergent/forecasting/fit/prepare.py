"""From a job to a run: the rows to train on, the module, the sources, everything before the first step."""

from __future__ import annotations

import logging

import numpy as np

from neuro_divergent.data.join import joined
from neuro_divergent.data.windows.windows import Range
from neuro_divergent.forecasting.fit.anchors import anchor_lengths
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.problem import Problem
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.forecasting.fit.series_scaling import scaled_job
from neuro_divergent.forecasting.fit.training import training_of
from neuro_divergent.forecasting.fit.training_rows import training_rows
from neuro_divergent.forecasting.network.columns_taken import columns_left_out, taken_columns

log = logging.getLogger(__name__)


def prepare(job: Job) -> Run:
    """Everything before the first step of a job; nothing is trained or written yet."""
    config = job.resume.applied(job.config)
    shown, local, whole = scaled_job(job)
    model, table = shown.model, shown.table
    model.check_table(table)
    validation_rows: Range | None = None
    if shown.validation is not None:
        table, rows = joined(table, shown.validation)
        trained: Range = (np.zeros_like(rows), rows)
        validation_rows = (rows, table.store.lengths)
    else:
        trained = (np.zeros(table.n_series, dtype=np.int64), table.store.lengths)
    for role, names in columns_left_out(model, table.store).items():
        log.warning("%s takes no %s columns: %s is left out", model.kind, role, ", ".join(names))
    store = taken_columns(model, table.store)
    problem = Problem(
        model=model,
        store=store,
        anchor=anchor_lengths(model, store),
        historical_categorical=tuple(n for n in table.schema.historical_categorical if n in store.categories),
        short=job.short,
        times=lambda: table.all_times().to_numpy(),
        task=job.task,
        begin_with=job.begin_with,
    )
    resolved = config.resolved(model.recipe(len(problem.windows(trained))))
    if validation_rows is None and resolved.validation_split is not None:
        rows = training_rows(model, store, resolved)
        trained, validation_rows = (np.zeros_like(rows), rows), (rows, store.lengths)
    if config.early_stopping == "auto" and (validation_rows is None or len(problem.windows(validation_rows)) == 0):
        resolved = resolved.replace(early_stopping=None)  # the recipe's has nothing to look at; a user's is refused
    training = training_of(problem, resolved, trained, validation_rows, job.resume)
    return Run(job, problem, resolved, training, table, validation_rows, whole=whole, local=local)
