"""Makes the engine's run of a problem: windows, module, sources and task, ready for the first step."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch

from neuro_divergent.core.devices import resolve_device
from neuro_divergent.core.errors import Advice, ConfigError, DataError
from neuro_divergent.data.scaling.columns import column_statistics
from neuro_divergent.data.store.rounding import SETTINGS, described, merged_by_rounding
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.windows import Range
from neuro_divergent.forecasting.fit.problem import Problem, identity_of, sampler_of, spec_of, validation_source
from neuro_divergent.forecasting.fit.task import WindowSource, refuse_classes
from neuro_divergent.forecasting.network.module import ForecastModule, build_module
from neuro_divergent.losses import Loss
from neuro_divergent.training.config.curriculum import GrowingHorizon
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import Resume
from neuro_divergent.training.state.precision import Precision
from neuro_divergent.training.trainer import prepare
from neuro_divergent.training.training_run import TrainingRun

log = logging.getLogger(__name__)


def training_of(
    problem: Problem, config: TrainingConfig, trained: Range, held_out: Range | None, resume: Resume, *, title: str = ""
) -> TrainingRun:
    """The training of a problem on the rows of one range, validated on another range. The progress line has a title."""
    model = problem.model
    device = resolve_device(config.device)
    precision = Precision(config.precision, device, config.loss_scale)
    if precision.weights_dtype is not None:
        raise ConfigError(
            f"a model on a table scales its windows with float32 statistics, but precision={config.precision!r} has "
            "half-precision weights, which only a Trainer on arrays supports. Use precision='bf16'",
            advice=[Advice("training.precision", "bf16")],
        )
    loss = config.loss
    assert isinstance(loss, Loss)
    refuse_classes(loss)
    # Each loss has its own row weights: those of the training loss are not those of the validation loss.
    given, problem = problem, problem.weighted(loss)
    validated = (
        problem if held_out is None or config.validation_loss is None else given.weighted(config.validation_loss)
    )
    store = problem.store
    if store.y.dtype == np.float64 and precision.dtype != torch.float64:
        _warn_rounding(store)
    windows = problem.windows(trained)
    if len(windows) == 0:
        raise _no_window(problem, trained)
    module = build_module(model, spec_of(problem, windows), loss, problem.anchor, config.seed)
    module.adapt_columns(*column_statistics(store, np.asarray(trained[1])))
    if problem.begin_with is not None:
        problem.begin_with(module)
    cap = None if config.steps_per_epoch in (None, "auto") else int(config.steps_per_epoch)
    placed: dict[str, Any] = {"device": device, "dtype": precision.dtype}
    sampler = sampler_of(config, windows, problem, cap)
    source = WindowSource(
        windows, sampler, steps_per_epoch=cap, augmentation=config.augmentation, seed=config.seed, **placed
    )
    scored = None if held_out is None else validation_source(validated, config, held_out, placed)
    state = prepare(module, config, source, scored, precision)
    if scored is None and config.metrics:
        state.scored = validation_source(problem, config, trained, placed)
    if not isinstance(state.module, ForecastModule):
        raise ConfigError(
            "Strategy.prepare must return the model's own module, changed in place, but "
            f"{type(state.strategy).__name__}.prepare returned a {type(state.module).__name__} around it. Register "
            "hooks or shard the parameters of the module, and return it"
        )
    horizon = None
    if isinstance(config.curriculum, GrowingHorizon):
        curriculum = config.curriculum
        horizon = lambda: curriculum.horizon(state.step, state.total_steps, model.h)  # noqa: E731
    columns = {"future": store.future_names, "historical": store.historical_names, "static": store.static_names}
    task = problem.task(loss, config.validation_loss, config.metrics, horizon, names=store.ids, columns=columns)
    identity = lambda: identity_of(problem, trained, held_out)  # noqa: E731
    return TrainingRun(task, state, title=title or model.name, resume=resume, identity=identity)


def _warn_rounding(store: SeriesStore) -> None:
    """Warn that float64 values are rounded to the precision of the training."""
    seen = store.y if store.mask is None else np.where(store.mask, store.y, np.nan)
    merged = merged_by_rounding(seen, store.offsets[:-1], np.arange(len(store.ids)), len(store.ids))
    if merged.any():
        found = {store.ids[s].item(): int(merged[s]) for s in np.flatnonzero(merged)}
        log.warning("%s", described(found), extra=SETTINGS)


def _no_window(problem: Problem, trained: Range) -> DataError:
    """The error for a table without training windows: the series are too short, or too few values are observed."""
    model, store = problem.model, problem.store
    need, rows = model.input_size + model.h, np.asarray(trained[1]) - np.asarray(trained[0])
    longest = int(rows.max(initial=0))
    if longest < need or store.mask is None:
        whole = int(store.lengths.max(initial=0))
        return DataError(
            f"no series has a window to train on: input_size={model.input_size} and h={model.h} need {need} rows "
            f"before the validation part, but the longest series has {longest} there ({whole} rows in all). Shorten "
            "input_size or h, or set validation_split=None",
            advice=[Advice("training.validation_split", None)],
        )
    seen = int(np.count_nonzero(store.mask))
    return DataError(
        f"no series has a window to train on: {seen} of {len(store.y)} rows have an observed value "
        f"(freq={store.freq!r}), and no window of {need} rows has one both in its lookback and in its horizon. "
        "Check the target column, and whether freq is the time between two rows"
    )
