"""Distillation: a small model learns from the forecasts of a large one and from the actual values.

Letters: B windows, H horizon, C channels, Q outputs, M probability levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.agreement import check_together
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.augmentation import Augmentation, Compose, Jitter, Masking
from neuro_divergent.data.windows.gather import Gather, as_tensors
from neuro_divergent.data.windows.grid import grid_shifts
from neuro_divergent.forecasting.fit.fit import fit
from neuro_divergent.forecasting.fit.in_subprocess import supervised
from neuro_divergent.forecasting.fit.task import ForecastTask
from neuro_divergent.forecasting.fit.training_rows import note_parent
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.ahead import check_series, columns_of
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import historical_forecasts
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
    """Train a model on the actual values and on another model's forecasts; return the fitted forecaster.

    The loss is alpha · loss(output, actual) + (1 - alpha) · loss(output, teacher's forecast). Validation uses only the
    actual values. The teacher's forecasts are those of its `predict` at the same forecast origins, in original units,
    with its own lookback, series scaling and columns. A student of quantiles learns the teacher's quantiles (their mean
    absolute distance). A student of a distribution learns from draws of the teacher's distribution. Rows that the
    teacher was trained on count as training rows of the student.

    Args:
        teacher: a fitted model that forecasts at least as many steps; its lookback may be longer or shorter.
        student: the model to train.
        data: a TimeSeriesDataFrame or a frame with the columns that the teacher was trained on; the student may use
            other columns of it.
        config: how to train the student; None trains with its recipe.
        alpha: the weight of the actual values, from 0 (only the teacher) to 1 (only the actual values).
        validation: later rows of the same series, as in `Model.fit`.
        columns: arguments of `from_frame` when `data` is a plain frame; without any, the teacher's roles are used.
    """
    config = config or TrainingConfig()
    _check(teacher, student, config, alpha)
    if isinstance(data, TimeSeriesDataFrame):
        table, source = data, None
    else:
        table = TimeSeriesDataFrame.from_frame(data, **(columns or {"schema": teacher.data.schema}))
        # The teacher reads the frame itself if the student gets other columns of it.
        alike = columns_of(teacher.model, table.store) == columns_of(teacher.model, teacher.data.store)
        source = None if alike else data
    oracle = Oracle(teacher, table, student.h, source)

    def task(*arguments: Any, **named: Any) -> DistillationTask:
        return DistillationTask(oracle, alpha, *arguments, **named)

    fitted = fit(student, table, config, validation=validation, task=task, learned_from=(teacher,) if alpha < 1 else ())
    if alpha < 1:
        note_parent(fitted, teacher)
    return fitted


def _check(teacher: Forecaster, student: Model, config: TrainingConfig, alpha: float) -> None:
    if not 0.0 <= alpha <= 1.0:
        raise ConfigError(f"alpha must be between 0 and 1, but got alpha={alpha}")
    if not isinstance(teacher, Forecaster) or not isinstance(student, Model):
        raise ConfigError(
            "the teacher must be one fitted model, such as the result of model.fit(data), and the student a model that "
            f"is not fitted, but got {type(teacher).__name__} and {type(student).__name__}"
        )
    if teacher.model.h < student.h:
        raise ConfigError(
            f"the teacher must forecast all steps of the student, but got h={teacher.model.h} and h={student.h}"
        )
    kinds = [model.capabilities.multivariate for model in (teacher.model, student)]
    if kinds[0] != kinds[1]:
        raise ConfigError(
            "teacher and student must both be univariate or both be multivariate, but got "
            f"{teacher.model.kind} and {student.kind}"
        )
    if kinds[0] and (teacher.model.joint is not None or _sees_beyond(teacher, student)):
        raise ConfigError(
            f"a multivariate teacher must have h={student.h}, like the student, if it takes columns known ahead, and "
            "must not reconcile its forecasts, but this one does not comply. Train another teacher, or a univariate one"
        )
    changing = [step.kind for step in _steps(config.augmentation) if not isinstance(step, Jitter | Masking)]
    if changing and alpha < 1:
        raise ConfigError(
            "the teacher forecasts windows of the table, so an augmentation must not change their horizon (Jitter and "
            f"Masking do not), but got {', '.join(changing)}. Use those, or train without a teacher"
        )
    if supervised(config):
        raise ConfigError(
            "a teacher cannot be sent to another process: use fault_tolerance with retries=0 for distillation"
        )


def _sees_beyond(teacher: Forecaster, student: Model) -> bool:
    """Whether the teacher would need columns after the end of the table for the last windows of the student."""
    spec = teacher.module.spec
    return teacher.model.h > student.h and bool(spec.future or spec.categories)


def _steps(augmentation: Augmentation | None) -> list[Augmentation]:
    """The single augmentations, also those inside a Compose."""
    if isinstance(augmentation, Compose):
        return [single for step in augmentation.steps for single in _steps(step)]
    return [] if augmentation is None else [augmentation]


DRAWN_LEVELS = tuple(np.linspace(0.025, 0.975, 20).tolist())
"""A student of a distribution learns from a quantile drawn from these levels."""


class Oracle:
    """The teacher's forecasts for the windows of a table: the values of its `predict` at the same origins.

    Args:
        teacher: the fitted model; it forecasts with its own lookback, scaling and columns.
        table: the rows that the student is trained on.
        horizon: how many steps the student forecasts.
        source: the table of the teacher's columns, if `table` lacks some; None for `table`.
    """

    def __init__(self, teacher: Forecaster, table: TimeSeriesDataFrame, horizon: int, source: Any = None) -> None:
        self.teacher, self.horizon = teacher, horizon
        self.table = teacher.table(table if source is None else source)
        check_together(table, self.table, "rows", ("the student's table", "the teacher's"))
        check_series(teacher, self.table)
        self.rows = None
        if teacher.model.capabilities.multivariate:
            model, store = teacher.model, teacher.prepared(self.table)
            hidden = tuple(name for name in self.table.schema.historical_categorical if name in store.categories)
            self.rows = Gather(
                store, model.input_size, model.h, shifts=grid_shifts(store), historical_categorical=hidden
            )

    def forecasts(self, batch: Batch, levels: Sequence[float | None]) -> Tensor:
        """[B, H, C, K] in original units, for the windows of a student's batch; None is the point forecast."""
        assert batch.series is not None
        assert batch.time is not None
        columns = Columns(tuple(f"{self.teacher.model.name} {level}" for level in levels), tuple(levels))
        series, time = batch.series.cpu().numpy(), batch.time.cpu().numpy()
        if self.rows is None:
            found = historical_forecasts(self.teacher, self.table, series, time, columns, self.horizon)[:, :, None]
        else:
            found = self._of_all_series(time, columns)[:, : self.horizon]
        return torch.from_numpy(found).to(batch.y.device, batch.y.dtype)

    def _of_all_series(self, time: npt.NDArray[np.int64], columns: Columns) -> npt.NDArray[np.float64]:
        """[B, H, C, K] of a multivariate teacher. A series that has not begun is masked."""
        assert self.rows is not None
        places = as_tensors(np.zeros_like(time), time, time - self.teacher.model.input_size)
        windows = self.rows.batch(*places, clipped=True, partial_targets=True)
        values = self.teacher.outputs(windows._replace(target=None, target_mask=None, weight=None), columns)
        local = self.teacher.local
        return values if local is None else local.original(values.swapaxes(0, 2), self.table).swapaxes(0, 2)


class DistillationTask(ForecastTask):
    """A forecasting task whose training loss includes the forecasts of a teacher."""

    def __init__(self, oracle: Oracle, alpha: float, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.oracle, self.alpha = oracle, alpha
        mine, theirs = _inner(self.loss), _inner(oracle.teacher.loss)
        self.by_quantiles = isinstance(mine, MQLoss | HuberMQLoss)
        if self.loss.probabilistic and not theirs.probabilistic and alpha < 1:
            raise ConfigError(
                f"{mine.kind} needs a teacher with quantiles or a distribution, but the teacher was trained with "
                f"{theirs.kind} and forecasts a point. Train the teacher with MQLoss or DistributionLoss, or the "
                "student with MAE"
            )
        few = isinstance(theirs, MQLoss | HuberMQLoss | Quantile | HuberQuantile)
        if self.loss.probabilistic and not self.by_quantiles and few and alpha < 1:
            raise ConfigError(
                f"{mine.kind} needs a teacher with a whole distribution, but {theirs.kind} has only some quantiles. "
                "Train the teacher with DistributionLoss, or the student with MQLoss"
            )

    def values(self, module: ForecastModule, batch: Batch) -> Tensor:
        """[B, H, C] alpha · loss against the actual values + (1 - alpha) · loss against the teacher."""
        assert batch.target is not None
        forecast = module.forecast(batch)
        scaled = self.loss.units == "scaled"
        output = module.scaled(forecast) if scaled else module.original(forecast)

        def wanted(target: Tensor) -> Tensor:
            return module.scaler.transform(target, forecast.stats) if scaled else target

        truth = self.loss.values(output, wanted(batch.target), batch)
        if self.alpha == 1.0:
            return truth
        if self.by_quantiles:
            taught = self._quantile_distance(output, self.oracle.forecasts(batch, self.loss.levels), wanted)
        else:
            taught = self.loss.values(output, wanted(self._taught(batch)), batch)
        return self.alpha * truth + (1.0 - self.alpha) * taught

    def _taught(self, batch: Batch) -> Tensor:
        """[B, H, C] the teacher's point forecast, or a draw from its distribution."""
        if not self.loss.probabilistic:
            return self.oracle.forecasts(batch, (None,)).squeeze(-1)
        values = self.oracle.forecasts(batch, DRAWN_LEVELS)
        # Drawn from the generator that the engine has seeded for this step.
        chosen = torch.randint(values.shape[-1], (*values.shape[:-1], 1)).to(values.device)
        return values.gather(-1, chosen).squeeze(-1)

    def _quantile_distance(self, output: Tensor, theirs: Tensor, wanted: Callable[[Tensor], Tensor]) -> Tensor:
        """[B, H, C] mean absolute distance of the student's quantiles from the teacher's."""
        levels = torch.tensor(self.loss.levels, device=theirs.device, dtype=theirs.dtype)
        taught = torch.stack([wanted(quantile) for quantile in theirs.unbind(-1)], dim=-1)
        return (self.loss.quantiles(output, levels) - taught).abs().mean(dim=-1)


def _inner(loss: Loss) -> Loss:
    return _inner(loss.loss) if isinstance(loss, Weighted) else loss
