"""Many small trainings at once: seeds, folds, quantiles or trials of one small model as one computation."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.fit import fit
from neuro_divergent.forecasting.fit.resume_many import Source, Stop, beginnings, fit_each
from neuro_divergent.forecasting.fit.task import ForecastTask, target_weights
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.stacked.eligibility import config_obstacle, not_worth_it
from neuro_divergent.training.stacked.train_many import Stacked, check_choice, refusal, train_many
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.trainer import train

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
    **options: Any,
) -> list[Forecaster]:
    """Train several models, those of one small architecture together as one computation.

    What is given once is shared; what is given as a list has an entry for each training. Every forecaster is the one
    that `Model.fit` would give, but for rounding.

    Args:
        models: one description or several.
        data: one table, as in `Model.fit`, or a list of tables.
        configs: how to train; None trains with the models' recipes.
        seeds: how many (the configuration's seed and the following ones), or which; None keeps the configurations'.
        stacked: "auto" trains together what can be and is small enough to win by it, and the rest one after the other
            (the log says why, at level INFO); True refuses what cannot be together; False is one after the other.
        resume: "auto" goes on with each training in the directory of its own configuration: one that had ended gives
            its result again, one that was cut short goes on, one that had not begun begins.
        resume_with: fields of the configurations that are changed on purpose, the same for all.
        options: further arguments of `Model.fit`, the same for all.
    """
    check_choice(stacked)
    members = _members(models, data, configs, seeds)
    columns = {name: options.pop(name) for name in list(options) if name not in _FIT_OPTIONS}
    tables: dict[int, TimeSeriesDataFrame] = {}
    for _, given, _ in members:  # a table that many share is read once
        if id(given) not in tables:
            tables[id(given)] = TimeSeriesDataFrame.from_frame(given, **columns)
    wanted = [(model, tables[id(given)], config) for model, given, config in members]
    return fit_members(wanted, stacked=stacked, resume=resume, resume_with=resume_with, **options)


_FIT_OPTIONS = ("validation", "short", "prediction_intervals")

Wanted = tuple[Model, TimeSeriesDataFrame, TrainingConfig]
"""A training that is asked for."""


def fit_members(
    wanted: Sequence[Wanted],
    *,
    stacked: Stacked = "auto",
    resume: Source = None,
    resume_with: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Forecaster]:
    """Train every (model, table, configuration); see `fit_many`."""
    _refuse_shared_directories(wanted)
    reason = _obstacle(wanted, options)
    if stacked is True and reason is not None:
        raise refusal(reason)
    if resume is not None or resume_with is not None:  # only what has a directory goes on, and that is never stacked
        return _going_on(wanted, resume, resume_with, options)
    if stacked is False or reason is not None:
        return _one_after_the_other(wanted, reason, options)
    first = prepared(*wanted[0], **options)
    reason = not_worth_it(first.state) if stacked == "auto" else None
    if reason is not None:  # the others are not even prepared: their tables may be large
        train(first.task, first.state, title=first.forecaster.model.name)
        return [first.forecaster, *_one_after_the_other(wanted[1:], reason, options)]
    everyone = [first, *(prepared(*member, **options) for member in wanted[1:])]
    train_many([(item.task, item.state) for item in everyone], stacked=stacked, title=wanted[0][0].name)
    return [item.forecaster for item in everyone]


def _refuse_shared_directories(wanted: Sequence[Wanted]) -> None:
    places = [str(config.checkpoints.directory) for _, _, config in wanted if config.checkpoints is not None]
    if len(set(places)) < len(places):
        raise ConfigError(
            "one directory is one run, but several trainings would be saved in the same one. Use checkpoints=None, or "
            "a configuration with a directory of its own for each training"
        )


def _obstacle(wanted: Sequence[Wanted], options: dict[str, Any]) -> str | None:
    """What can be seen before anything is prepared."""
    if len(wanted) == 1:
        return "there is only one training"
    if options.get("prediction_intervals") is not None:
        return "prediction_intervals train each model twice"
    if any(model.joint is not None for model, _, _ in wanted):
        return "the errors of a hierarchy are looked at after each training"
    return next((found for _, _, config in wanted if (found := config_obstacle(config))), None)


def _one_after_the_other(wanted: Sequence[Wanted], reason: str | None, options: dict[str, Any]) -> list[Forecaster]:
    if reason is not None:
        log.info("trainings run one after the other: %s", reason)
    return [model.fit(table, config, **options) for model, table, config in wanted]


def _going_on(
    wanted: Sequence[Wanted], resume: Source, resume_with: Mapping[str, Any] | None, options: dict[str, Any]
) -> list[Forecaster]:
    if resume not in (None, "auto"):
        raise ConfigError(
            "several trainings go on each in the directory of its own configuration: use resume='auto', not "
            f"{os.fspath(resume)!r}"
        )
    names = [f"training {number}" for number in range(1, len(wanted) + 1)]
    configs = {name: config for name, (_, _, config) in zip(names, wanted, strict=True)}
    begun = beginnings(configs, resume, resume_with).values()
    members = [(model, table, begin) for (model, table, _), begin in zip(wanted, begun, strict=True)]
    return fit_each(members, **options)


def _members(
    models: Any, data: Any, configs: Any, seeds: int | Sequence[int] | None
) -> list[tuple[Model, Any, TrainingConfig]]:
    """One entry for each training, from what is shared and what is listed."""
    given: dict[str, Any] = {"models": models, "data": data, "configs": configs or TrainingConfig()}
    lists = {name: list(value) for name, value in given.items() if isinstance(value, list | tuple)}
    if isinstance(seeds, int):
        if "configs" in lists:
            raise ConfigError(f"a number of seeds follows one configuration, but got {len(lists['configs'])} of them")
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


class RowsForecastTask(ForecastTask):
    """The forecasting task for windows of several members, which follow each other."""

    row_buffers: ClassVar[tuple[str, ...]] = tuple(
        f"{field}_{part}" for field in ("future", "historical", "static") for part in ("mean", "scale")
    )

    def spread_buffers(self, module: nn.Module, buffers: Mapping[str, Tensor], batch: Batch) -> None:
        """Each window is standardised by the columns of its own member's table."""
        for name, stacked in buffers.items():
            values = getattr(batch, name.rpartition("_")[0])
            if values is not None:
                own = stacked.repeat_interleave(len(values) // len(stacked), dim=0)
                own = own.view(len(values), *[1] * (values.ndim - 2), own.shape[1])
                module._buffers[name] = own

    def score_rows(self, module: nn.Module, batch: Batch, members: int) -> list[dict[str, Tensor]]:
        """For each member what `score` gives for its share of the windows."""
        assert isinstance(module, ForecastModule)
        assert batch.target is not None
        weights = target_weights(batch, self.validation_loss)
        sums = _sums_of(module.loss_values(batch, self.validation_loss), weights, members)
        if not self.metrics:
            return sums
        parts = [None] * members if weights is None else weights.chunk(members)
        outputs, targets = module(batch).chunk(members), batch.target.chunk(members)
        found = zip(sums, outputs, targets, parts, strict=True)
        return [own | self.metric_sums(output, target, part) for own, output, target, part in found]


def _sums_of(values: Tensor, weights: Tensor | None, members: int) -> list[dict[str, Tensor]]:
    """For each member its `loss_sums`."""
    values = values.reshape(members, -1).double()
    if weights is None:
        counts = values.new_full((members,), float(values.shape[1]))
        return [{"loss": row} for row in torch.stack([counts, values.sum(dim=1)], dim=1).cpu()]
    weights = weights.reshape(members, -1).double()
    kept = torch.where(weights > 0, values, 0.0) * weights
    return [{"loss": row} for row in torch.stack([weights.sum(dim=1), kept.sum(dim=1)], dim=1).cpu()]


@dataclass(frozen=True)
class Prepared:
    """A training before its first step, and the forecaster that it will have trained."""

    task: ForecastTask
    state: TrainState
    forecaster: Forecaster


def prepared(model: Model, table: TimeSeriesDataFrame, config: TrainingConfig, **options: Any) -> Prepared:
    """Everything that `Model.fit` does before the first step."""
    tasks: list[ForecastTask] = []

    def task(*inputs: Any, **named: Any) -> ForecastTask:
        tasks.append(RowsForecastTask(*inputs, **named))
        return tasks[-1]

    stop = Stop()
    held = {"callbacks": (stop,), "progress": False, "compile": False}
    forecaster = fit(model, table, config.replace(**held), task=task, **options)
    state = stop.state
    assert state is not None
    state.config = forecaster.config = state.config.replace(**{name: getattr(config, name) for name in held})
    state.stopping = state.history.stopped = ""
    return Prepared(tasks[-1], state, forecaster)
