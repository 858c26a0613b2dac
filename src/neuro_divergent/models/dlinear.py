"""DLinear: one linear map for the trend and one for the remainder.

Letters: B windows, L lookback, H horizon, C channels, Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn.decomposition import moving_average_matrix


class DLinear(Model):
    """A moving average splits the window into trend and remainder; each is mapped linearly to the horizon."""

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities()
    paper: ClassVar[str] = "Zeng, Chen, Zhang & Xu (2023), Are transformers effective for time series forecasting?"

    moving_average: Annotated[int, Field(ge=1)] = 25
    """Length of the moving average that gives the trend. Must be odd."""

    @field_validator("moving_average")
    @classmethod
    def _odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ConfigError(f"moving_average must be odd, but got moving_average={value}. Try {value + 1}")
        return value

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    smoother: Tensor

    def __init__(self, model: DLinear, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        # The moving average is linear, so it is one matrix: a buffer that is not saved.
        self.register_buffer("smoother", moving_average_matrix(spec.lookback, model.moving_average), persistent=False)
        self.trend = nn.Linear(spec.lookback, spec.horizon * spec.outputs)
        self.remainder = nn.Linear(spec.lookback, spec.horizon * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        y = batch.y.squeeze(-1)
        trend = y @ self.smoother
        output: Tensor = self.trend(trend) + self.remainder(y - trend)
        return output.view(-1, self.spec.horizon, 1, self.spec.outputs)
