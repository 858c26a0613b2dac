"""DilatedRNN: recurrent layers with growing dilations, so that few layers cover a long window.

Letters: B windows, L lookback, H horizon, C channels, D width, Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.lagged import LaggedModel
from neuro_divergent.forecasting.model.model import Capabilities
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName, StepInputs, perceptron
from neuro_divergent.nn.dilated import CellName, DilatedLayer

Group = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class DilatedRNN(LaggedModel):
    """Groups of dilated recurrent layers with residual connections; their states are mapped to the horizon."""

    group: ClassVar[ModelFamily] = "recurrent"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = (
        "Chang, Zhang, Han, Yu, Guo, Tan, Cui, Witbrock, Hasegawa-Johnson & Huang (2017), "
        "Dilated recurrent neural networks"
    )

    cell: CellName = "lstm"
    """Kind of recurrent layer."""
    dilations: Annotated[tuple[Group, ...], Field(min_length=1)] = ((1, 2), (4, 8))
    """Dilation of each layer, in groups."""
    hidden_size: Annotated[int, Field(ge=1)] = 128
    """Width of the recurrent state."""
    decoder_size: Annotated[int, Field(ge=1)] = 128
    """Width of the decoder's hidden layers."""
    decoder_layers: Annotated[int, Field(ge=1)] = 2
    """Number of layers of the decoder, including the last one."""
    activation: ActivationName = "relu"
    """Activation after each hidden layer of the decoder."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: DilatedRNN, spec: InputSpec) -> None:
        super().__init__()
        self.inputs = StepInputs(spec)
        D = model.hidden_size
        self.groups = nn.ModuleList()
        for number, dilations in enumerate(model.dilations):
            widths = [D if number else self.inputs.past_width, *[D] * len(dilations)]
            layers = [
                DilatedLayer(width, D, dilation, model.cell) for width, dilation in zip(widths, dilations, strict=False)
            ]
            self.groups.append(nn.Sequential(*layers))
        self.align = nn.Linear(self.inputs.steps, spec.horizon)
        hidden = [model.decoder_size] * (model.decoder_layers - 1)
        self.decoder = perceptron([D + self.inputs.ahead_width, *hidden, spec.outputs], act=model.activation)

    def forward(self, batch: Batch) -> Tensor:
        past, ahead = self.inputs(batch)
        states = self.groups[0](past)
        for group in self.groups[1:]:
            states = states + group(states)
        context = self.align(states.transpose(1, 2)).transpose(1, 2)
        decoder_input = context if ahead is None else torch.cat([context, ahead], dim=-1)
        output: Tensor = self.decoder(decoder_input)
        return output.unsqueeze(2)
