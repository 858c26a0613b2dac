"""The base class of losses. A loss is elementwise; the training engine reduces it.

`values` returns one number per target value. The engine masks and weights these numbers and takes the mean over the
effective batch (several micro-batches, processes or clients). `finish` is the part of a formula that follows the mean.
"""

# ruff: noqa: ARG002  (every loss has the same signature, whatever its formula needs)

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError

Point = Literal["mean", "median"]


class Loss(Description):
    """Base class of all losses. Shapes: output [..., Q], target [...], values [...]; classification differs."""

    family: ClassVar[str] = "loss"

    units: ClassVar[Literal["scaled", "original"]] = "scaled"
    """Whether the loss is computed on scaled windows or in the data's own units."""

    task: ClassVar[Literal["regression", "classification"]] = "regression"
    """Which kind of target the loss is for."""

    size: ClassVar[float] = 1.0
    """The loss of an error that is as large as the data: 1, or 100 for percentages. A recipe multiplies its clipping
    bound by this number, so that the unit of a loss does not change the training."""

    @property
    def support(self) -> tuple[float, float]:
        """(lowest, highest): the range of targets and forecasts in original units. `fit` refuses other targets."""
        return (-math.inf, math.inf)

    @property
    def outputs(self) -> int:
        """Q, the number of network outputs per horizon step."""
        return 1

    @abstractmethod
    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced loss, one number per target value; `context` is the window in the loss's units."""

    def importance(self, target: Tensor, context: Batch | None = None) -> Tensor | None:
        """The weight of each value, broadcastable to the target; None when all weights are equal.

        The engine multiplies it by the mask. The weight column of a table applies to every loss.
        """
        return None if context is None else context.weight

    def counted(self, target: Tensor) -> Tensor | None:
        """Boolean mask of the targets that enter the loss; None for all of them. Metrics do not use this mask."""
        return None

    def row_weights(
        self,
        age: npt.NDArray[np.int64],
        time: npt.NDArray[np.generic],
        value: npt.NDArray[np.floating],
    ) -> npt.NDArray[np.float64] | None:
        """Weights of a table's rows, [N], computed once before training and multiplied into its weight column.

        `age` counts steps back from the newest row of the same series, `time` is the timestamp, `value` the target.
        None when all rows have the same weight.
        """
        return None

    def head(self) -> nn.Module | None:
        """A module with parameters between network and loss, or None. The forecasting module owns and applies it."""
        return None

    def finish(self, mean: Tensor) -> Tensor:
        """The loss as a function of the weighted mean, such as its root for RMSE. It enters the gradient."""
        return mean

    def natural(self, output: Tensor, size: Tensor | None) -> Tensor:
        """What the network's outputs mean on a window of this size; None for windows that a scaler has scaled.

        A distribution reads its parameters in units of the window, so that its spread is of the data's size from the
        first step on and cannot collapse. Other losses take the outputs as they are.
        """
        return output

    def unscale(self, output: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Outputs of a scaled window in original units; location and scale broadcast against [..., Q]."""
        return output * scale + location

    def point(self, output: Tensor) -> Tensor:
        """The single forecast, [..., Q] → [...]."""
        return output[..., 0]

    def centre(self, output: Tensor) -> Tensor:
        """The value that a recursive network feeds back, [..., Q] → [...]. By default it is the point forecast."""
        return self.point(output)

    @property
    def shows(self) -> Point | None:
        """What the point forecast estimates: "mean", "median" or None for neither."""
        return None

    def showing(self, point: Point) -> Self:
        """A copy of the loss with another point forecast. Only losses that forecast a distribution have the choice."""
        raise ConfigError(
            f"{self.kind} forecasts one point, so there is no {point} to choose. Train with MQLoss or "
            "DistributionLoss, or with MSE for the mean and MAE for the median"
        )

    @property
    def probabilistic(self) -> bool:
        """Whether the loss has `quantiles`."""
        return False

    @property
    def levels(self) -> tuple[float, ...]:
        """The default probability levels of a forecast, ascending."""
        return ()

    def quantiles(self, output: Tensor, levels: Tensor) -> Tensor:
        """Forecasts at probability levels, [..., Q] → [..., len(levels)], never crossing."""
        raise ConfigError(
            f"{self.kind} forecasts a point, so it has no quantiles. Train with MQLoss or DistributionLoss, "
            "or add prediction intervals"
        )

    def sample(self, output: Tensor, number: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws from the forecast, [..., Q] → [number, ...]."""
        raise ConfigError(f"{self.kind} forecasts a point, so it cannot be sampled. Train with DistributionLoss")


def outside_support(loss: Loss, values: Any) -> Any:
    """Boolean mask of the values (array or tensor) that the loss does not accept; None if it accepts every number."""
    low, high = loss.support
    return None if (low, high) == (-math.inf, math.inf) else (values < low) | (values > high)


def support_rule(loss: Loss) -> str:
    """A sentence that states which targets a loss accepts; for losses that do not accept every number."""
    low, high = loss.support
    name = getattr(getattr(loss, "loss", loss), "distribution", None) or loss.kind
    return f"{name} takes targets of at least {low:g}" + (f" and at most {high:g}" if high < math.inf else "")


def check_values(values: Tensor, target: Tensor, loss: str) -> Tensor:
    """The values of a loss of that name; raises unless there is one for each target."""
    if not isinstance(values, Tensor) or values.shape != target.shape:
        gave = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise ConfigError(
            f"a loss must return one value per target, shape {tuple(target.shape)}, but {loss} returned {gave}. Do not "
            'take the mean (a loss of torch takes reduction="none"), and drop the last dimension of the outputs: '
            "output[..., 0]"
        )
    return values


def check_shapes(output: Tensor, target: Tensor, outputs: int = 1) -> None:
    """Raise unless output has the target's shape plus [Q]; other shapes could broadcast by accident."""
    if output.shape[:-1] != target.shape or output.shape[-1] != outputs:
        raise ConfigError(
            f"the loss needs outputs of shape {(*target.shape, outputs)} for targets of shape {tuple(target.shape)}, "
            f"but got {tuple(output.shape)}"
        )
