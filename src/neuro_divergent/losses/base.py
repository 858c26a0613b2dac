"""What every loss is: elementwise first, reduced elsewhere.

`values` gives one number per target value. Masking, weighting and the mean over the effective batch (several
micro-batches, processes or clients) belong to the engine; `finish` is what a formula does after that mean.
"""

# ruff: noqa: ARG002  (every loss has the same signature, whatever its formula needs)

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError


class Loss(Description):
    """Base of all losses. Shapes: output [..., Q], target [...], values [...] (classification says its own)."""

    family: ClassVar[str] = "loss"

    units: ClassVar[Literal["scaled", "original"]] = "scaled"
    """Whether the loss is computed on scaled windows or in the data's own units."""

    task: ClassVar[Literal["regression", "classification"]] = "regression"
    """Which kind of target the loss is for."""

    @property
    def outputs(self) -> int:
        """How many numbers the network gives per step (Q)."""
        return 1

    @abstractmethod
    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced loss, one number per target value; `context` is the window in the loss's units."""

    def importance(self, target: Tensor, context: Batch | None = None) -> Tensor | None:
        """How much each value counts, broadcastable to the target; None when all count the same.

        The engine multiplies this with the mask. A weight column of the table counts under every loss.
        """
        return None if context is None else context.weight

    def row_weights(
        self,
        age: npt.NDArray[np.int64],
        time: npt.NDArray[np.generic],
        value: npt.NDArray[np.floating],
    ) -> npt.NDArray[np.float64] | None:
        """Weights of a table's rows, [N], computed once before training and multiplied into its weight column.

        `age` counts steps back from the newest row of the same series, `time` is the timestamp, `value` the target.
        None when rows are not told apart.
        """
        return None

    def head(self) -> nn.Module | None:
        """A module with parameters between the network and the loss, held and applied by the forecasting module."""
        return None

    def finish(self, mean: Tensor) -> Tensor:
        """What happens to the weighted mean, such as the root of RMSE; the engine differentiates through it."""
        return mean

    def unscale(self, output: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Outputs of a scaled window in original units; location and scale broadcast against [..., Q]."""
        return output * scale + location

    def point(self, output: Tensor) -> Tensor:
        """The single forecast, [..., Q] → [...]."""
        return output[..., 0]

    @property
    def probabilistic(self) -> bool:
        """Whether `quantiles` answers."""
        return False

    @property
    def levels(self) -> tuple[float, ...]:
        """The probabilities, ascending, that a forecast reports when nobody asks for others."""
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


def check_shapes(output: Tensor, target: Tensor, outputs: int = 1) -> None:
    """Refuse what would broadcast by accident: output must be the target's shape plus [Q]."""
    if output.shape[:-1] != target.shape or output.shape[-1] != outputs:
        raise ConfigError(
            f"the loss needs outputs of shape {(*target.shape, outputs)} for targets of shape {tuple(target.shape)}, "
            f"but got {tuple(output.shape)}"
        )
