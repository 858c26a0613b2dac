"""xLSTM: recurrent blocks with a matrix memory and exponential gates, computed for all steps at once.

Letters: B windows, L lookback, H horizon, C channels, D width, Q outputs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.lagged import LaggedModel
from neuro_divergent.forecasting.model.model import Capabilities
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName, StepInputs, perceptron
from neuro_divergent.nn.matrix_memory import MatrixMemoryBlock


class xLSTM(LaggedModel):  # noqa: N801  # spelt as in the paper
    """Blocks with a matrix memory read the window; their states are mapped to the horizon.

    This is xLSTM[1:0] of the paper: all blocks are mLSTM. An mLSTM block has no recurrence through its state, so all
    steps are computed at once.
    """

    group: ClassVar[ModelFamily] = "recurrent"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = (
        "Beck, Pöppel, Spanring, Auer, Prudnikova, Kopp, Klambauer, Brandstetter & Hochreiter (2024), "
        "xLSTM: Extended long short-term memory"
    )

    hidden_size: Annotated[int, Field(ge=1)] = 128
    """Width of the blocks."""
    blocks: Annotated[int, Field(ge=1)] = 2
    """Number of blocks."""
    heads: Annotated[int, Field(ge=1)] = 4
    """Number of memories (heads) in each block."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Dropout rate of each block's output."""
    bias: bool = True
    """Whether the maps inside the blocks have biases."""
    decoder_size: Annotated[int, Field(ge=1)] = 128
    """Width of the decoder's hidden layers."""
    decoder_layers: Annotated[int, Field(ge=1)] = 2
    """Number of layers of the decoder, including the last one."""
    decoder_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate of the decoder's hidden units."""
    activation: ActivationName = "gelu"
    """Activation after each hidden layer of the decoder."""

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if 2 * self.hidden_size % self.heads:
            raise ConfigError(
                "heads must divide twice the hidden_size, "
                f"but got heads={self.heads} and hidden_size={self.hidden_size}"
            )
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: xLSTM, spec: InputSpec) -> None:
        super().__init__()
        self.inputs = StepInputs(spec)
        D = model.hidden_size
        self.embed = nn.Linear(self.inputs.past_width, D)
        self.blocks = nn.Sequential(
            *(MatrixMemoryBlock(D, model.heads, model.dropout, bias=model.bias) for _ in range(model.blocks)),
            nn.LayerNorm(D),
        )
        self.align = nn.Linear(self.inputs.steps, spec.horizon)
        sizes = [D + self.inputs.ahead_width, *[model.decoder_size] * (model.decoder_layers - 1), spec.outputs]
        self.decoder = perceptron(sizes, act=model.activation, dropout=model.decoder_dropout)

    def forward(self, batch: Batch) -> Tensor:
        past, ahead = self.inputs(batch)
        states = self.blocks(self.embed(past))
        context = self.align(states.transpose(1, 2)).transpose(1, 2)
        decoder_input = context if ahead is None else torch.cat([context, ahead], dim=-1)
        output: Tensor = self.decoder(decoder_input)
        return output.unsqueeze(2)
