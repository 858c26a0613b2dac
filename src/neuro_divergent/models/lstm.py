"""LSTM: a recurrent encoder over the window, and a decoder that forecasts the whole horizon at once.

Letters: B windows, L lookback, H horizon, C channels, D width, Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model import Capabilities, Model
from neuro_divergent.forecasting.recipes import ModelFamily
from neuro_divergent.nn import StepInputs, perceptron


class LSTM(Model):
    """A long short-term memory reads the window; a perceptron turns its last state into all steps of the horizon."""

    group: ClassVar[ModelFamily] = "recurrent"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = "Hochreiter & Schmidhuber (1997), Long short-term memory"

    hidden_size: Annotated[int, Field(ge=1)] = 64
    """Width of the recurrent state."""
    layers: Annotated[int, Field(ge=1)] = 2
    """Number of recurrent layers."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of units switched off between recurrent layers while training."""
    context_size: Annotated[int, Field(ge=1)] = 16
    """Width of what the decoder is told about each step of the horizon."""
    decoder_size: Annotated[int, Field(ge=1)] = 128
    """Width of the decoder's hidden layer."""

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: LSTM, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.inputs = StepInputs(spec)
        between = model.dropout if model.layers > 1 else 0.0
        self.encoder = nn.LSTM(
            self.inputs.past_width, model.hidden_size, model.layers, dropout=between, batch_first=True
        )
        self.context = nn.Linear(model.hidden_size, spec.horizon * model.context_size)
        self.decoder = perceptron([model.context_size + self.inputs.ahead_width, model.decoder_size, spec.outputs])

    def forward(self, batch: Batch) -> Tensor:
        past, ahead = self.inputs(batch)
        states, _ = self.encoder(past)
        context = self.context(states[:, -1]).view(past.shape[0], self.spec.horizon, -1)
        told = context if ahead is None else torch.cat([context, ahead], dim=-1)
        return self.decoder(torch.relu(told)).unsqueeze(2)
