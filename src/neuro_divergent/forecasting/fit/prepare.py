"""Prepares a run from a job: the training rows, the module, the sources, everything before the first step."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from neuro_divergent.core.errors import Advice, ConfigError, DataError
from neuro_divergent.data.join import joined
from neuro_divergent.data.read.target_range import range_of
from neuro_divergent.data.scaling.per_series import SeriesScaler
from neuro_divergent.data.schema.load_report import listing
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.vocabulary import categories_in, with_categories
from neuro_divergent.data.windows.windows import Range
from neuro_divergent.distributed.launched import launched
from neuro_divergent.distributed.settings import Distributed
from neuro_divergent.forecasting.fit.anchors import anchor_and_lags
from neuro_divergent.forecasting.fit.elsewhere.in_processes import starts_processes, with_checkpoints
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.problem import DECIDED_ON, Problem
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.forecasting.fit.series_scaling import scaled_job
from neuro_divergent.forecasting.fit.training import training_of
from neuro_divergent.forecasting.fit.training_rows import split_rule, training_rows
from neuro_divergent.forecasting.network.column_names import check_column_names
from neuro_divergent.forecasting.network.columns_taken import columns_left_out, taken_columns, with_calendar
from neuro_divergent.losses import Loss
from neuro_divergent.losses.base import outside_support, support_rule
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import kept_facts

log = logging.getLogger(__name__)


def prepare(job: Job) -> Run:
    """The run of a job, ready for its first step. Nothing is trained or written yet."""
    config, old = _with_rules(job.resume.applied(job.config), job)
    if config.distributed is None and config.strategy is None and (place := launched()) and place.world > 1:
        log.info("process %d of %d: a launcher started it, and it trains together with the others", *place[:2])
        config = config.replace(distributed=Distributed())
    temporary = config.checkpoints is None and job.resume.source is None and starts_processes(config)
    job = replace(job, config=with_checkpoints(config) if temporary else config)
    config = job.config
    later = None if job.validation is None else with_calendar(job.model, job.validation)
    job = replace(job, table=with_calendar(job.model, job.table), validation=later)
    given = job if old or job.begin_with is not None else _with_seen_categories(job)
    shown, local, whole = scaled_job(given)
    model, table = shown.model, shown.table
    check_column_names([model.name], table.schema)
    model.check_table(table)
    for part in (job.table, job.validation):
        if part is not None:
            part.check_range()
    validation_rows: Range | None = None
    if shown.validation is not None:
        table, rows = joined(table, shown.validation)
        trained: Range = (np.zeros_like(rows), rows)
        validation_rows = (rows, table.store.lengths)
    else:
        rows = training_rows(model, table.store, config)
        trained = (np.zeros_like(rows), table.store.lengths)
        late = (rows < model.input_size + model.h) & (table.store.lengths - rows >= model.h)
        if late.any():
            log.warning(
                "%d of %d series begin too late to train before the validation cutoff: they are used only for "
                "validation. Use split_by='series' to train on all of them",
                int(late.sum()),
                table.n_series,
                extra={"advice": [Advice("training.split_by", "series")]},
            )
    for role, names in columns_left_out(model, table.store).items():
        log.warning("%s takes no %s columns: %s is left out", model.kind, role, ", ".join(names))
    store = taken_columns(model, table.store)
    deciding = store.lengths if old else rows
    anchor, lags = anchor_and_lags(model, store, deciding)
    problem = Problem(
        model=model,
        store=store,
        anchor=anchor,
        lags=lags,
        rows=deciding,
        historical_categorical=tuple(n for n in table.schema.historical_categorical if n in store.categories),
        short=job.short,
        times=lambda: table.all_times().to_numpy(),
        task=job.task,
        begin_with=job.begin_with,
        decided_on_all=old,
    )
    resolved = config.resolved(model.recipe(len(_countable(problem).windows(trained))))
    if isinstance(resolved.distributed, Distributed):
        resolved = resolved.replace(batch_size=resolved.distributed.batch_size(int(resolved.batch_size)))
    if validation_rows is None and resolved.validation_split is not None:
        trained, validation_rows = (np.zeros_like(rows), rows), (rows, store.lengths)
    if config.early_stopping == "auto" and (validation_rows is None or len(problem.windows(validation_rows)) == 0):
        resolved = resolved.replace(early_stopping=None)  # the recipe's has nothing to monitor; a user's is refused
    if config.refit == "auto" and (shown.validation is not None or resolved.early_stopping is None):
        resolved = resolved.replace(refit=None)  # rows that were given for validation are not trained on unasked
    for loss in (resolved.loss, resolved.validation_loss):
        if isinstance(loss, Loss):
            _check_targets(loss, store, job.local_scaler)
    _check_calibrate(resolved, held_out=validation_rows is not None)
    bounds = range_of(job.table.store, job.table.schema, job.table.store.lengths if shown.validation else rows)
    if model.joint is not None:
        bounds = model.joint.possible(bounds, given=job.table.schema.lower != "auto")
    training = training_of(problem, resolved, trained, validation_rows, job.resume)
    run = Run(job, problem, resolved, training, table, validation_rows, whole=whole, local=local, bounds=bounds)
    if temporary and job.config.checkpoints is not None:
        run.temporary = Path(job.config.checkpoints.directory)
    return run


def _check_calibrate(config: TrainingConfig, *, held_out: bool) -> None:
    """Refuse calibrate=True where there is nothing to correct, or nothing to measure."""
    if config.calibrate is not True:
        return
    assert isinstance(config.loss, Loss)
    if not config.loss.probabilistic:
        raise ConfigError(
            f"calibrate=True corrects the intervals of a quantile loss or a distribution, but {config.loss.kind} "
            "forecasts a point. Train with MQLoss(level=[...]) or DistributionLoss(...), or give the point intervals: "
            "fit(..., prediction_intervals=PredictionIntervals())"
        )
    if not held_out:
        raise ConfigError(
            "calibrate=True measures errors on rows that are not trained on, but validation_split=None holds out "
            "none. Say validation_split=0.2, or call calibrate(data) on the forecaster with later rows",
            advice=[Advice("training.validation_split", 0.2)],
        )


def _with_rules(config: TrainingConfig, job: Job) -> tuple[TrainingConfig, bool]:
    """The configuration with a decided split rule, and whether held-out rows also decide things.

    A resumed run keeps its own rules: earlier versions split series by series, used all rows to infer seasons,
    categories and the like, and refitted only if they were told to.
    """
    kept = kept_facts(config, job.resume)
    old = kept is not None and DECIDED_ON not in kept["identity"]
    if not job.may_refit:
        config = config.replace(refit=None)
    elif config.refit == "auto" and kept is not None:
        config = config.replace(
            refit=kept["config"].get("refit", "all" if kept["config"].get("refit_on_all") else None)
        )
    if config.split_by != "auto":
        return config, old
    if kept is not None:
        return config.replace(split_by=kept["config"].get("split_by", "series")), old
    return config.replace(split_by=split_rule(job.table.store, config)), old


def _with_seen_categories(job: Job) -> Job:
    """The job whose table has only the categories of its training rows, so that codes do not depend on later rows."""
    store = job.table.store
    if not store.categories:
        return job
    rows = store.lengths if job.validation is not None else training_rows(job.model, store, job.config)
    known = categories_in(job.table, rows)
    later = {name: [value for value in values if value not in known[name]] for name, values in store.categories.items()}
    for name, values in later.items():
        if values:
            log.warning("column %r: %s is not in the training rows: it is unknown to the model", name, listing(values))
    return replace(job, table=with_categories(job.table, known)) if any(later.values()) else job


def _countable(problem: Problem) -> Problem:
    """The problem with all held-out rows counted as observed: missing held-out values must not influence a recipe."""
    store = problem.store
    if store.mask is None or not bool((problem.rows < store.lengths).any()):
        return problem
    number = np.arange(len(store.y)) - np.repeat(store.offsets[:-1], store.lengths)
    held_out = number >= np.repeat(problem.rows, store.lengths)
    return replace(problem, store=store.replace(mask=store.mask | held_out), indexed={})


def _check_targets(loss: Loss, store: SeriesStore, local_scaler: str | SeriesScaler | None) -> None:
    """Refuse targets outside the support of the loss's distribution: a count is never negative."""
    wrong = outside_support(loss, store.y)
    if wrong is not None and store.mask is not None:
        wrong &= store.mask
    if wrong is None or not wrong.any():
        return
    row = int(wrong.argmax())
    series = int(np.searchsorted(store.offsets, row, side="right")) - 1
    scaled = "" if local_scaler is None else f" after local_scaler={local_scaler!r}"
    what = "Leave local_scaler out" if local_scaler is not None else "Check these values"
    raise DataError(
        f"{support_rule(loss)}, but series {store.ids[series].item()!r} has {float(store.y[row]):g}{scaled} (row "
        f"{row - int(store.offsets[series])} of the series; {int(wrong.sum())} values in the whole table). {what}, or "
        "train with a distribution of all numbers such as StudentT, or with MQLoss"
    )
