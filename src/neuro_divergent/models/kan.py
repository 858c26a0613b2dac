"""KAN: a network whose edges are learned curves (splines) instead of weights.

Letters: B windows, L lookback, H horizon, C channels, Q outputs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import FlatInputs
from neuro_divergent.nn.kan import SplineLayer


class KAN(Model):
    """A Kolmogorov-Arnold network on the flattened window.

    The knots of the splines are fixed. They need not adapt to the data, because the window is already scaled.
    """

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = (
        "Liu, Wang, Vaidya, Ruehle, Halverson, Soljačić, Hou & Tegmark (2024), KAN: Kolmogorov-Arnold networks"
    )

    hidden_size: Annotated[int, Field(ge=1)] = 512
    """Width of each hidden layer."""
    layers: Annotated[int, Field(ge=1)] = 1
    """Number of hidden layers."""
    grid_size: Annotated[int, Field(ge=1)] = 5
    """Intervals of the splines' grid."""
    spline_order: Annotated[int, Field(ge=0)] = 3
    """Degree of the splines."""
    grid_range: tuple[float, float] = (-1.0, 1.0)
    """Smallest and largest scaled value inside the grid. The splines fade to 0 outside."""
    noise: Annotated[float, Field(ge=0.0)] = 0.1
    """Scale of the initial random weights of the splines."""

    @model_validator(mode="after")
    def _range_ascends(self) -> Self:
        low, high = self.grid_range
        if not low < high:
            raise ConfigError(f"grid_range must be (lower, higher), but got grid_range=({low}, {high})")
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: KAN, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.inputs = FlatInputs(spec)
        low, high = model.grid_range
        sizes = [self.inputs.width, *[model.hidden_size] * model.layers, spec.horizon * spec.outputs]
        self.layers = nn.Sequential(
            *(
                SplineLayer(
                    inner,
                    outer,
                    intervals=model.grid_size,
                    order=model.spline_order,
                    low=low,
                    high=high,
                    noise=model.noise,
                )
                for inner, outer in pairwise(sizes)
            )
        )

    def forward(self, batch: Batch) -> Tensor:
        output: Tensor = self.layers(self.inputs(batch))
        return output.view(-1, self.spec.horizon, 1, self.spec.outputs)
