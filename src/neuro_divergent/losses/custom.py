"""A loss that is a Python function given by the user."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.config import Function
from neuro_divergent.losses.base import Loss, check_shapes, check_values


class CustomLoss(Loss):
    """A loss from function(output, target), which returns unreduced values of the target's shape.

    Output and target are in scaled units. Output has no [Q] axis if there is one output per step. A saved model keeps
    only the name of the function: pass the function again with `nd.load(path, using={"my_loss": my_loss})`.
    """

    function: Function
    """Called with output (the target's shape, or that plus [Q] when outputs > 1) and target."""
    number_of_outputs: Annotated[int, Field(ge=1)] = 1
    """Number of network outputs per horizon step."""

    @property
    def outputs(self) -> int:
        """Number of network outputs per horizon step."""
        return self.number_of_outputs

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:  # noqa: ARG002
        """The values of the function; raises if they do not have the target's shape."""
        check_shapes(output, target, self.number_of_outputs)
        given = output.squeeze(-1) if self.number_of_outputs == 1 else output
        return check_values(self.function(given, target), target, getattr(self.function, "__name__", "the function"))
