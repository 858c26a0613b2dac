"""RLinear: reversible instance normalisation and one linear map.

Letters: B windows, L lookback, H horizon, C channels, Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.data.scaling.per_window import WindowScalerName
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily


class RLinear(Model):
    """Reversible normalisation of each window, then one linear map to the horizon."""

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities()
    paper: ClassVar[str] = (
        "Li, Qi, Li & Xu (2023), Revisiting long-term time series forecasting: an investigation on linear mapping"
    )

    scaler: WindowScalerName = "revin"
    """The scaler that is applied to each window. The default, reversible instance normalisation, defines RLinear."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate of the window's values."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: RLinear, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.dropout = nn.Dropout(model.dropout)
        self.linear = nn.Linear(spec.lookback, spec.horizon * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        output: Tensor = self.linear(self.dropout(batch.y.squeeze(-1)))
        return output.view(-1, self.spec.horizon, 1, self.spec.outputs)
