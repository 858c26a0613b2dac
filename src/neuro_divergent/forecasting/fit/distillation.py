"""Distillation: a small model learns from a large one's forecasts besides the truth.

Letters: B windows, H horizon, C channels, Q outputs, M probability levels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.augmentation import Augmentation, Compose, Jitter, Masking
from neuro_divergent.data.windows.gather import Gather, as_tensors
from neuro_divergent.data.windows.grid import grid_shifts
from neuro_divergent.forecasting.fit.fit import fit
from neuro_divergent.forecasting.fit.in_subprocess import supervised
from neuro_divergent.forecasting.fit.task import ForecastTask
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.columns_taken import taken_columns
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.losses import HuberMQLoss, HuberQuantile, Loss, MQLoss, Quantile, Weighted
from neuro_divergent.training.config.training_config import TrainingConfig


def distill(
    teacher: Forecaster,
    student: Model,
    data: Any,
    config: TrainingConfig | None = None,
    *,
    alpha: float = 0.5,
    validation: Any = None,
    **columns: Any,
) -> Forecaster:
    """Train a model on the truth and on another model's forecasts, and give the fitted forecaster.

    What is minimised is alpha · loss(output, truth) + (1 - alpha) · loss(output, teacher's forecast); the validation
    knows only the truth. A student of quantiles learns the teacher's quantiles (their mean absolute distance); a
    student of a distribution learns from draws of the teacher's distribution.

    Args:
        teacher: a fitted model that forecasts at least as many steps; its lookback may be longer or shorter.
        student: the model to train.
        data: a TimeSeriesDataFrame or a frame with the columns that the teacher was trained on.
        config: how to train the student; None trains with its recipe.
        alpha: the share of the truth, from 0 (only the teacher) to 1 (only the truth).
        validation: later rows of the same series, as in `Model.fit`.
        columns: arguments of `from_frame` when `data` is a plain frame; without any, the teacher's roles are used.
    """
    config = config or TrainingConfig()
    _check(teacher, student, config, alpha)
    if not isinstance(data, TimeSeriesDataFrame):
        columns = columns or {"schema": teacher.data.schema}
        data = TimeSeriesDataFrame.from_frame(data, **columns)
    oracle = Oracle(teacher, data, student.h)

    def task(*arguments: Any, **named: Any) -> DistillationTask:
        return DistillationTask(oracle, alpha, *arguments, **named)

    return fit(student, data, config, validation=validation, task=task)


def _check(teacher: Forecaster, student: Model, config: TrainingConfig, alpha: float) -> None:
    if not 0.0 <= alpha <= 1.0:
        raise ConfigError(f"alpha must be between 0 and 1, but got alpha={alpha}")
    if teacher.model.h < student.h:
        raise ConfigError(
            f"the teacher must forecast as many steps as the student, but got h={teacher.model.h} and h={student.h}"
        )
    kinds = [model.capabilities.multivariate for model in (teacher.model, student)]
    if kinds[0] != kinds[1]:
        raise ConfigError(
            f"teacher and student must both see one series at a time or both all of them, but {teacher.model.kind} and "
            f"{student.kind} differ"
        )
    changing = [step.kind for step in _steps(config.augmentation) if not isinstance(step, Jitter | Masking)]
    if changing and alpha < 1:
        raise ConfigError(
            "the teacher forecasts the windows of the table as they are, so an augmentation must leave their horizon "
            f"alone as Jitter and Masking do, but got {', '.join(changing)}. Use those, or train without a teacher"
        )
    if supervised(config):
        raise ConfigError(
            "a teacher cannot be handed to another process, so distillation needs fault_tolerance with retries=0"
        )


def _steps(augmentation: Augmentation | None) -> list[Augmentation]:
    """The single augmentations, those inside a Compose too."""
    if isinstance(augmentation, Compose):
        return [single for step in augmentation.steps for single in _steps(step)]
    return [] if augmentation is None else [augmentation]


class Oracle:
    """What the teacher says about the windows of a table."""

    def __init__(self, teacher: Forecaster, table: TimeSeriesDataFrame, horizon: int) -> None:
        model, store = teacher.model, taken_columns(teacher.model, table.store)
        self.teacher, self.horizon = teacher, horizon
        self.multivariate = model.capabilities.multivariate
        self.offsets = store.offsets
        hidden = tuple(name for name in table.schema.historical_categorical if name in store.categories)
        shifts = grid_shifts(store) if self.multivariate else None
        # The teacher has windows of its own, found by series and time: lookback and columns need not be the student's.
        self.rows = Gather(store, model.input_size, model.h, shifts=shifts, historical_categorical=hidden)

    @torch.no_grad()
    def outputs(self, batch: Batch) -> Tensor:
        """[B, H, C, Q] the teacher's outputs, in original units, for the windows of a student's batch."""
        assert batch.series is not None
        assert batch.time is not None
        time = batch.time.cpu().numpy()
        series = np.zeros_like(time) if self.multivariate else batch.series.cpu().numpy()
        start = (time if self.multivariate else self.offsets[series] + time) - self.teacher.model.input_size
        windows = self.rows.batch(*as_tensors(series, time, start), clipped=True, partial_targets=True)
        module = self.teacher.module.eval()
        parameter = next(module.parameters())
        outputs: Tensor = module(
            windows._replace(target=None, target_mask=None, weight=None).to(parameter.device, parameter.dtype)
        )
        return outputs[:, : self.horizon].to(batch.y.device, batch.y.dtype)


class DistillationTask(ForecastTask):
    """The forecasting task whose training loss also looks at a teacher."""

    def __init__(self, oracle: Oracle, alpha: float, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.oracle, self.alpha = oracle, alpha
        mine, theirs = _inner(self.loss), _inner(oracle.teacher.loss)
        self.by_quantiles = isinstance(mine, MQLoss | HuberMQLoss)
        if self.loss.probabilistic and not theirs.probabilistic and alpha < 1:
            raise ConfigError(
                f"{mine.kind} learns a distribution, but the teacher was trained with {theirs.kind} and forecasts a "
                "point. Train the teacher with MQLoss or DistributionLoss, or the student with MAE"
            )
        few = isinstance(theirs, MQLoss | HuberMQLoss | Quantile | HuberQuantile)
        if self.loss.probabilistic and not self.by_quantiles and few and alpha < 1:
            raise ConfigError(
                f"{mine.kind} learns a whole distribution, but the teacher's {theirs.kind} knows only some quantiles. "
                "Train the teacher with DistributionLoss, or the student with MQLoss"
            )

    def values(self, module: ForecastModule, batch: Batch) -> Tensor:
        """[B, H, C] alpha · loss against the truth + (1 - alpha) · loss against the teacher."""
        assert batch.target is not None
        forecast = module.forecast(batch)
        scaled = self.loss.units == "scaled"
        output = module.scaled(forecast) if scaled else module.original(forecast)

        def wanted(target: Tensor) -> Tensor:
            return module.scaler.transform(target, forecast.stats) if scaled else target

        truth = self.loss.values(output, wanted(batch.target), batch)
        if self.alpha == 1.0:
            return truth
        said = self.oracle.outputs(batch)
        if self.by_quantiles:
            taught = self._quantile_distance(output, said, wanted)
        else:
            taught = self.loss.values(output, wanted(self._taught(said)), batch)
        return self.alpha * truth + (1.0 - self.alpha) * taught

    def _taught(self, said: Tensor) -> Tensor:
        """[B, H, C] the teacher's point forecast, or a draw from its distribution."""
        loss = self.oracle.teacher.loss
        if not self.loss.probabilistic:
            return loss.point(said)
        levels = torch.linspace(0.025, 0.975, 20, device=said.device, dtype=said.dtype)
        values = loss.quantiles(said, levels)
        # Drawn from the generator that the engine has keyed by the step.
        chosen = torch.randint(len(levels), (*values.shape[:-1], 1)).to(values.device)
        return values.gather(-1, chosen).squeeze(-1)

    def _quantile_distance(self, output: Tensor, said: Tensor, wanted: Callable[[Tensor], Tensor]) -> Tensor:
        """[B, H, C] mean absolute distance of the student's quantiles from the teacher's."""
        levels = torch.tensor(self.loss.levels, device=said.device, dtype=said.dtype)
        theirs = self.oracle.teacher.loss.quantiles(said, levels)
        taught = torch.stack([wanted(quantile) for quantile in theirs.unbind(-1)], dim=-1)
        return (self.loss.quantiles(output, levels) - taught).abs().mean(dim=-1)


def _inner(loss: Loss) -> Loss:
    return _inner(loss.loss) if isinstance(loss, Weighted) else loss
