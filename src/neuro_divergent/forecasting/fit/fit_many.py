"""Runs several trainings with one call: stacked into one computation if possible, else one after the other."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from neuro_divergent.core.errors import ConfigError, NeuroDivergentError
from neuro_divergent.core.executors.workers import Workers, workers_for
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.fit import fit, job_of
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.resume_many import Beginning, Source, beginnings, fit_each, results
from neuro_divergent.forecasting.fit.rows_task import RowsForecastTask
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.stacked.eligibility import config_obstacle, not_worth_it
from neuro_divergent.training.stacked.train_many import Stacked, check_choice, refusal, train_many

log = logging.getLogger(__name__)


def fit_many(
    models: Model | Sequence[Model],
    data: Any,
    configs: TrainingConfig | Sequence[TrainingConfig] | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    stacked: Stacked = "auto",
    resume: Source = None,
    resume_with: Mapping[str, Any] | None = None,
    n_jobs: int = 1,
    executor: Any = None,
    **options: Any,
) -> list[Forecaster]:
    """Train several models and return their forecasters. Small models of one architecture train as one computation.

    A single value is shared by all trainings; a list has one entry per training. Except for rounding, every forecaster
    is the same as from `Model.fit` with `refit=None`: members do not refit. If a training fails, the others continue to
    their ends. Then a `MembersFailedError` lists the failures and contains the forecasters of the others.

    Args:
        models: one description or several.
        data: one table, as in `Model.fit`, or a list of tables.
        configs: how to train; None trains with the models' recipes.
        seeds: a number of seeds (the configuration's seed and the following ones), or a list; None keeps the
            configurations' seeds.
        stacked: "auto" stacks trainings that can be stacked and are small enough to gain from it, and runs the rest one
            after the other (the log gives the reason, at level INFO). True refuses trainings that cannot be stacked.
            False runs one after the other.
        resume: "auto" resumes each training in the directory of its configuration: a finished training returns its
            result, an interrupted one continues, and one without a checkpoint starts.
        resume_with: fields of the configurations to change, the same for all.
        n_jobs: processes of this machine that train at the same time, -1 for one per core. They share the threads of
            this one. Trainings in other processes are not stacked.
        executor: where to train instead: anything with the interface of `concurrent.futures`, such as
            `nd.RayExecutor()` or dask's `client.get_executor()`.
        options: further arguments of `Model.fit`, the same for all.
    """
    check_choice(stacked)
    members = _members(models, data, configs, seeds)
    columns = {name: options.pop(name) for name in list(options) if name not in _FIT_OPTIONS}
    tables: dict[int, TimeSeriesDataFrame] = {}
    for _, given, _ in members:  # a shared table is read once
        if id(given) not in tables:
            tables[id(given)] = TimeSeriesDataFrame.from_frame(given, **columns)
    wanted = [(model, tables[id(given)], config) for model, given, config in members]
    workers = workers_for(executor, n_jobs, threads=torch.get_num_threads(), most=len(wanted))
    return fit_members(wanted, stacked=stacked, resume=resume, resume_with=resume_with, workers=workers, **options)


_FIT_OPTIONS = ("validation", "short", "prediction_intervals")

Wanted = tuple[Model, TimeSeriesDataFrame, TrainingConfig]
"""One training: model, table, configuration."""


def fit_members(
    wanted: Sequence[Wanted],
    *,
    stacked: Stacked = "auto",
    resume: Source = None,
    resume_with: Mapping[str, Any] | None = None,
    workers: Workers | None = None,
    **options: Any,
) -> list[Forecaster]:
    """Train every (model, table, configuration); see `fit_many`."""
    wanted = [(model, table, config.replace(refit=None)) for model, table, config in wanted]
    _refuse_shared_directories(wanted)
    reason = _obstacle(wanted, options)
    if workers is not None:
        reason = "each one runs in a process of its own"
    if stacked is True and reason is not None:
        raise refusal(reason)
    going_on = resume is not None or resume_with is not None
    if going_on or workers is not None:  # a run with a directory can be resumed, and is never stacked
        begun = _begun(wanted, resume, resume_with)
        members = [(model, table, begin) for (model, table, _), begin in zip(wanted, begun, strict=True)]
        return results(fit_each(members, workers=workers, **options))
    if stacked is False or reason is not None:
        return _one_after_the_other(wanted, reason, options)
    return _stacked(wanted, stacked, options)


def _refuse_shared_directories(wanted: Sequence[Wanted]) -> None:
    places = [str(config.checkpoints.directory) for _, _, config in wanted if config.checkpoints is not None]
    if len(set(places)) < len(places):
        raise ConfigError(
            "a run directory is used by one run, but several trainings have the same one. Use checkpoints=None, or "
            "give each training a configuration with its own directory"
        )


def _obstacle(wanted: Sequence[Wanted], options: dict[str, Any]) -> str | None:
    """Why these trainings cannot be stacked, as far as known before they are prepared; None if they can."""
    if len(wanted) == 1:
        return "there is only one training"
    if options.get("prediction_intervals") is not None:
        return "prediction_intervals train each model twice"
    if any(model.joint is not None for model, _, _ in wanted):
        return "the errors of a hierarchy are measured after each training"
    return next((found for _, _, config in wanted if (found := config_obstacle(config))), None)


def _stacked(wanted: Sequence[Wanted], stacked: Stacked, options: dict[str, Any]) -> list[Forecaster]:
    """Train the trainings that can be stacked as one computation. A member that cannot be prepared gives its error."""

    def prepared(member: Wanted) -> Run | NeuroDivergentError:
        try:
            return prepare(job_of(*member, task=RowsForecastTask, **options))
        except NeuroDivergentError as error:
            return error

    first = prepared(wanted[0])
    if stacked == "auto" and isinstance(first, Run) and (reason := not_worth_it(first.training.state)):
        return _one_after_the_other(wanted, reason, options, first)  # the other tables may be large: not prepared
    found = [first, *(prepared(member) for member in wanted[1:])]
    runs = [run for run in found if isinstance(run, Run)]
    members = [(run.training.task, run.training.state) for run in runs]
    failures = train_many(members, stacked=stacked, title=wanted[0][0].name)
    ended = iter(failures.get(number) or run.forecaster() for number, run in enumerate(runs))
    return results([item if isinstance(item, NeuroDivergentError) else next(ended) for item in found])


def _one_after_the_other(
    wanted: Sequence[Wanted], reason: str | None, options: dict[str, Any], first: Run | None = None
) -> list[Forecaster]:
    if reason is not None:
        log.info("trainings run one after the other: %s", reason)
    found: list[Forecaster | NeuroDivergentError] = []
    for number, member in enumerate(wanted):
        try:
            found.append(first.finish() if first is not None and number == 0 else fit(*member, **options))
        except NeuroDivergentError as error:
            found.append(error)
    return results(found)


def _begun(wanted: Sequence[Wanted], resume: Source, resume_with: Mapping[str, Any] | None) -> list[Beginning]:
    """How each training begins."""
    if resume not in (None, "auto"):
        raise ConfigError(
            "several trainings are resumed each in the directory of its configuration: use resume='auto', not "
            f"{os.fspath(resume)!r}"
        )
    names = [f"training {number}" for number in range(1, len(wanted) + 1)]
    configs = {name: config for name, (_, _, config) in zip(names, wanted, strict=True)}
    return list(beginnings(configs, resume, resume_with).values())


def _members(
    models: Any, data: Any, configs: Any, seeds: int | Sequence[int] | None
) -> list[tuple[Model, Any, TrainingConfig]]:
    """One entry per training, from shared values and lists."""
    given: dict[str, Any] = {"models": models, "data": data, "configs": configs or TrainingConfig()}
    lists = {name: list(value) for name, value in given.items() if isinstance(value, list | tuple)}
    if isinstance(seeds, int):
        if "configs" in lists:
            raise ConfigError(f"a number of seeds needs one configuration, but got {len(lists['configs'])} of them")
        seeds = range(given["configs"].seed, given["configs"].seed + seeds)
    if seeds is not None:
        lists["seeds"] = list(seeds)
    counts = {name: len(values) for name, values in lists.items()}
    if len(set(counts.values())) > 1 or 0 in counts.values():
        raise ConfigError(f"lists must have one entry for each training, but got {counts}")
    count = next(iter(counts.values()), 1)
    full = {name: lists.get(name, [value] * count) for name, value in given.items()}
    numbers = lists.get("seeds", [config.seed for config in full["configs"]])
    chosen = [config.replace(seed=seed) for config, seed in zip(full["configs"], numbers, strict=True)]
    return list(zip(full["models"], full["data"], chosen, strict=True))
