"""A loss with weights: by column, horizon step, recency, or a function of the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.config import Function
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.losses.base import Loss, Point


class Weighted(Loss):
    """Another loss in which some values have a larger weight.

    All weights are multiplied with each other and with the table's weight column. The loss is the weighted mean, so
    only the ratios of the weights matter.

    - by="column": the weight column of the table. It must exist. (Every loss uses this column if it exists.)
    - by="horizon": `weights`, one per horizon step, or `decay`, the factor from one step to the next.
    - by="recency": a row has half the weight of a row that is `half_life` steps newer in the same series.
    - by=function: function(time, value) returns the weight of each row, from arrays of timestamps and targets. It is
      called once for the training rows and once for the held-out rows.

    >>> loss = Weighted(loss="MAE", by="horizon", decay=0.9)
    >>> loss.loss
    MAE()
    """

    loss: Loss
    """The loss that is weighted."""

    by: Literal["column", "horizon", "recency"] | Function = "column"
    """What the weights depend on."""

    weights: Takes[tuple[float, ...] | None, Sequence[float] | None] = default(None)
    """by="horizon": the weight of each horizon step."""

    decay: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """by="horizon": the factor from one step to the next; below 1 the first steps have the largest weight."""

    half_life: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """by="recency": number of steps after which the weight is halved."""

    @model_validator(mode="after")
    def _fields_of_by(self) -> Self:
        given = [name for name in ("weights", "decay", "half_life") if getattr(self, name) is not None]
        wanted = {"horizon": ("weights", "decay"), "recency": ("half_life",)}.get(str(self.by), ())
        if len(given) != bool(wanted) or any(name not in wanted for name in given):
            rule = f"needs {' or '.join(wanted)}" if wanted else "takes no weights, decay or half_life"
            shown = repr(self.by) if isinstance(self.by, str) else "a function"
            raise ConfigError(f"Weighted by {shown} {rule}, but got {', '.join(given) or 'none'}")
        if self.weights is not None and (min(self.weights, default=-1) < 0 or sum(self.weights) <= 0):
            raise ConfigError(f"weights must be numbers of at least 0, not all 0, but got weights={self.weights}")
        return self

    def importance(self, target: Tensor, context: Batch | None = None) -> Tensor | None:
        """The weights of the inner loss, times those of the horizon steps."""
        inner = self.loss.importance(target, context)
        if self.by == "column" and inner is None:
            raise ConfigError(
                'Weighted by="column" needs a weight column, but the data has none. Name it when you read the table, '
                "or give a Trainer the weights as the third array: (x, y, w)"
            )
        if self.by != "horizon":
            return inner
        steps = self._steps(target)
        return steps if inner is None else inner * steps

    def _steps(self, target: Tensor) -> Tensor:
        """[1, H, 1, ...] one weight per step."""
        if target.ndim < 2:
            raise ConfigError(f'Weighted by="horizon" needs targets [B, H, ...], but got shape {tuple(target.shape)}')
        horizon = target.shape[1]
        if self.weights is None:
            steps = [float(self.decay or 1.0) ** step for step in range(horizon)]
        elif len(self.weights) != horizon:
            raise ConfigError(f"weights must have one entry per horizon step, h={horizon}, but got {len(self.weights)}")
        else:
            steps = list(self.weights)
        dtype = target.dtype if target.is_floating_point() else torch.get_default_dtype()
        return torch.tensor(steps, dtype=dtype, device=target.device).reshape(1, horizon, *[1] * (target.ndim - 2))

    def row_weights(
        self, age: npt.NDArray[np.int64], time: npt.NDArray[np.generic], value: npt.NDArray[np.floating]
    ) -> npt.NDArray[np.float64] | None:
        """The row weights of the inner loss, times those by recency or by the function."""
        inner = self.loss.row_weights(age, time, value)
        if self.by == "recency":
            own = np.exp2(-np.asarray(age, dtype=np.float64) / float(self.half_life or 1.0))
        elif callable(self.by):
            own = self._asked(self.by(time, value), len(value))
        else:
            return inner
        return own if inner is None else inner * own

    def _asked(self, answer: Any, rows: int) -> npt.NDArray[np.float64]:
        weights = np.asarray(answer, dtype=np.float64)
        if weights.shape != (rows,) or not np.isfinite(weights).all() or (weights < 0).any():
            raise ConfigError(
                f"the weight function must return one finite number of at least 0 for each of {rows} rows, but got "
                f"shape {weights.shape}"
                + ("" if weights.shape != (rows,) else " with negative or non-finite numbers in it")
            )
        return weights

    @property
    def units(self) -> Literal["scaled", "original"]:  # type: ignore[override]  # a constant of other classes
        """Same as the inner loss."""
        return self.loss.units

    @property
    def task(self) -> Literal["regression", "classification"]:  # type: ignore[override]  # a constant of other classes
        """Same as the inner loss."""
        return self.loss.task

    @property
    def size(self) -> float:  # type: ignore[override]  # a constant of other classes
        """Same as the inner loss."""
        return self.loss.size

    @property
    def support(self) -> tuple[float, float]:
        """Same as the inner loss."""
        return self.loss.support

    @property
    def outputs(self) -> int:
        """The number of outputs of the inner loss."""
        return self.loss.outputs

    @property
    def probabilistic(self) -> bool:
        """Whether the inner loss has quantiles."""
        return self.loss.probabilistic

    @property
    def levels(self) -> tuple[float, ...]:
        """Same as the inner loss."""
        return self.loss.levels

    def counted(self, target: Tensor) -> Tensor | None:
        """Same as the inner loss."""
        return self.loss.counted(target)

    def head(self) -> nn.Module | None:
        """Same as the inner loss."""
        return self.loss.head()

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """The values of the inner loss. The engine applies the weights, so that the mean is a weighted mean."""
        return self.loss.values(output, target, context)

    def finish(self, mean: Tensor) -> Tensor:
        """Same as the inner loss."""
        return self.loss.finish(mean)

    def natural(self, output: Tensor, size: Tensor | None) -> Tensor:
        """Same as the inner loss."""
        return self.loss.natural(output, size)

    def unscale(self, output: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Same as the inner loss."""
        return self.loss.unscale(output, location, scale)

    @property
    def shows(self) -> Point | None:
        """Same as the inner loss."""
        return self.loss.shows

    def showing(self, point: Point) -> Self:
        """A copy whose inner loss has another point forecast."""
        return self.replace(loss=self.loss.showing(point))

    def point(self, output: Tensor) -> Tensor:
        """Same as the inner loss."""
        return self.loss.point(output)

    def centre(self, output: Tensor) -> Tensor:
        """Same as the inner loss."""
        return self.loss.centre(output)

    def quantiles(self, output: Tensor, levels: Tensor) -> Tensor:
        """Same as the inner loss."""
        return self.loss.quantiles(output, levels)

    def sample(self, output: Tensor, number: int, generator: torch.Generator | None = None) -> Tensor:
        """Same as the inner loss."""
        return self.loss.sample(output, number, generator)
