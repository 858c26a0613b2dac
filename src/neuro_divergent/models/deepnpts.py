"""DeepNPTS: forecasts that are weighted averages of the values in the window.

Letters: B windows, L lookback, H horizon, C channels, Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import FlatInputs
from neuro_divergent.nn.batch_norm import BatchNorm


class DeepNPTS(Model):
    """A perceptron gives each past value a weight, for each step and output; the forecast is the weighted average.

    A point forecast therefore stays in the range of its window. Unobserved values have weight 0. With an anchor the
    average is added to the naive forecast. With several outputs (quantiles, parameters of a distribution) each output
    has separate weights and a learned offset, and may leave the range: a scale parameter is not a value of the window.
    """

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = (
        "Rangapuram, Gasthaus, Stella, Flunkert, Salinas, Wang & Januschowski (2023), "
        "Deep non-parametric time series forecaster"
    )

    hidden_size: Annotated[int, Field(ge=1)] = 32
    """Width of each hidden layer."""
    layers: Annotated[int, Field(ge=1)] = 2
    """Number of hidden layers."""
    batch_norm: bool = True
    """Whether each hidden layer is normalised over the batch."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Dropout rate of hidden units."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: DeepNPTS, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.inputs = FlatInputs(spec)
        D, layers = model.hidden_size, []
        for inner in [self.inputs.width, *[D] * (model.layers - 1)]:
            layers += [nn.Linear(inner, D), nn.ReLU()]
            layers += [BatchNorm(D)] if model.batch_norm else []
            layers += [nn.Dropout(model.dropout)]
        self.perceptron = nn.Sequential(*layers, nn.Linear(D, spec.lookback * spec.horizon * spec.outputs))
        self.offset = nn.Parameter(torch.zeros(spec.outputs)) if spec.outputs > 1 else None

    def forward(self, batch: Batch) -> Tensor:
        average = torch.einsum("blc,blhq->bhcq", batch.y, self.weights(batch))
        return average if self.offset is None else average + self.offset

    def weights(self, batch: Batch) -> Tensor:
        """The weight of each past value for each step and output, [B, L, H, Q]; sums to 1 over L."""
        logits: Tensor = self.perceptron(self.inputs(batch))
        logits = logits.view(-1, self.spec.lookback, self.spec.horizon, self.spec.outputs)
        if batch.mask is not None:
            # The smallest float instead of -inf, so that a window without observations has finite weights.
            logits = logits.masked_fill(~batch.mask.unsqueeze(-1), torch.finfo(logits.dtype).min)
        return logits.softmax(dim=1)
