"""A loss that is a plain function of the user's."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.config import Function
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses.base import Loss, check_shapes


class CustomLoss(Loss):
    """function(output, target) → unreduced values of the target's shape; both in scaled units, output without [Q].

    A file keeps the function's name only: give it back with `nd.load(path, using={"my_loss": my_loss})`.
    """

    function: Function
    """Called with output (the target's shape, or that plus [Q] when outputs > 1) and target."""
    number_of_outputs: Annotated[int, Field(ge=1)] = 1
    """Numbers that the network gives per step."""

    @property
    def outputs(self) -> int:
        """Numbers that the network gives per step."""
        return self.number_of_outputs

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:  # noqa: ARG002
        """What the function says, if it kept the target's shape."""
        check_shapes(output, target, self.number_of_outputs)
        given = output.squeeze(-1) if self.number_of_outputs == 1 else output
        values: Tensor = self.function(given, target)
        if not isinstance(values, Tensor) or values.shape != target.shape:
            shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ConfigError(
                f"a custom loss gives one value per target value, shape {tuple(target.shape)}, but "
                f"{getattr(self.function, '__name__', 'the function')} gave {shape}. "
                'Leave the mean to the engine: a loss of torch takes reduction="none"'
            )
        return values
