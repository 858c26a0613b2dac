"""TSMixer: perceptrons that mix the steps and the series of a window in turn.

Letters: B windows, L lookback, H horizon, C channels (one per series), Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.data.scaling.per_window import WindowScalerName
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn.mixer import BatchMixer


class TSMixer(Model):
    """Blocks that mix along time, then across series; a linear layer maps each series to its horizon."""

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(multivariate=True)
    paper: ClassVar[str] = (
        "Chen, Li, Yoder, Arik & Pfister (2023), TSMixer: An all-MLP architecture for time series forecasting"
    )

    scaler: WindowScalerName = "revin"
    """The scaler that is applied to each window."""
    blocks: Annotated[int, Field(ge=1)] = 2
    """Number of mixing blocks."""
    hidden_size: Annotated[int, Field(ge=1)] = 64
    """Width of the hidden layer that mixes the series."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.9
    """Dropout rate. Small data needs a high rate, as in the paper."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: TSMixer, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.blocks = nn.Sequential(
            *(BatchMixer(spec.lookback, spec.series, model.hidden_size, model.dropout) for _ in range(model.blocks))
        )
        self.head = nn.Linear(spec.lookback, spec.horizon * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        output: Tensor = self.head(self.blocks(batch.y).transpose(1, 2))
        return output.view(-1, self.spec.series, self.spec.horizon, self.spec.outputs).transpose(1, 2)
