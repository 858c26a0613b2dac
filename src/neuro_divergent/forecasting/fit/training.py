"""The engine's run of a problem: windows, module, sources and task, ready for the first step."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuro_divergent.core.devices import resolve_device
from neuro_divergent.core.errors import DataError
from neuro_divergent.data.scaling.columns import column_statistics
from neuro_divergent.data.windows.windows import Range
from neuro_divergent.forecasting.fit.problem import Problem, identity_of, sampler_of, validation_source
from neuro_divergent.forecasting.fit.task import WindowSource, refuse_classes
from neuro_divergent.forecasting.network.module import build_module
from neuro_divergent.losses import Loss
from neuro_divergent.training.config.curriculum import GrowingHorizon
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import Resume
from neuro_divergent.training.state.precision import Precision
from neuro_divergent.training.trainer import prepare
from neuro_divergent.training.training_run import TrainingRun


def training_of(
    problem: Problem, config: TrainingConfig, trained: Range, held_out: Range | None, resume: Resume
) -> TrainingRun:
    """The training of a problem on some rows, validated on others."""
    model = problem.model
    device = resolve_device(config.device)
    precision = Precision(config.precision, device, config.loss_scale)
    loss = config.loss
    assert isinstance(loss, Loss)
    refuse_classes(loss)
    # A loss weights the rows by itself: what the training loss says about them is not what the validation's does.
    given, problem = problem, problem.weighted(loss)
    validated = (
        problem if held_out is None or config.validation_loss is None else given.weighted(config.validation_loss)
    )
    store = problem.store
    windows = problem.windows(trained)
    if len(windows) == 0:
        raise DataError(
            f"no series has a window to train on: input_size={model.input_size} and h={model.h} need "
            f"{model.input_size + model.h} rows before the validation part, but the longest series has "
            f"{int(store.lengths.max(initial=0))} rows. Shorten input_size or h, or set validation_split=None"
        )
    module = build_module(model, windows.spec(), loss, problem.anchor, config.seed)
    module.adapt_columns(*column_statistics(store, np.asarray(trained[1])))
    if problem.begin_with is not None:
        problem.begin_with(module)
    cap = None if config.steps_per_epoch in (None, "auto") else int(config.steps_per_epoch)
    placed: dict[str, Any] = {"device": device, "dtype": precision.dtype}
    sampler = sampler_of(config, windows, store, cap)
    source = WindowSource(
        windows, sampler, steps_per_epoch=cap, augmentation=config.augmentation, seed=config.seed, **placed
    )
    scored = None if held_out is None else validation_source(validated, config, held_out, placed)
    state = prepare(module, config, source, scored, precision)
    horizon = None
    if isinstance(config.curriculum, GrowingHorizon):
        curriculum = config.curriculum
        horizon = lambda: curriculum.horizon(state.step, state.total_steps, model.h)  # noqa: E731
    columns = {"future": store.future_names, "historical": store.historical_names, "static": store.static_names}
    task = problem.task(loss, config.validation_loss, config.metrics, horizon, names=store.ids, columns=columns)
    identity = lambda: identity_of(problem, trained, held_out)  # noqa: E731
    return TrainingRun(task, state, title=model.name, resume=resume, identity=identity)
