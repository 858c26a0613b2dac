"""TCN: dilated causal convolutions over the window.

Letters: B windows, L lookback, H horizon, Q outputs, D width.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.field_types import Several, default
from neuro_divergent.data.scaling.per_window import WindowScalerName
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName, StepInputs, activation, perceptron
from neuro_divergent.nn.convolution import OneSidedConvolution

Sizes = Annotated[Several[Annotated[int, Field(ge=1)]], Field(min_length=1)]


class TCN(Model):
    """Causal convolutions with growing dilation encode each step; linear maps turn the past into all steps ahead."""

    group: ClassVar[ModelFamily] = "convolutional"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = (
        "Bai, Kolter & Koltun (2018), "
        "An empirical evaluation of generic convolutional and recurrent networks for sequence modeling"
    )

    scaler: WindowScalerName = "robust"
    """How each window is scaled before the network sees it."""
    kernel_size: Annotated[int, Field(ge=1)] = 2
    """Steps that one convolution sees."""
    dilations: Sizes = default((1, 2, 4, 8, 16))
    """Distance between those steps, one convolution for each."""
    hidden_size: Annotated[int, Field(ge=1)] = 128
    """Channels of each convolution."""
    activation: ActivationName = "relu"
    """Activation after each convolution and inside the decoder."""
    decoder_size: Annotated[int, Field(ge=1)] = 128
    """Width of the decoder's hidden layers."""
    decoder_layers: Annotated[int, Field(ge=1)] = 2
    """Linear layers in the decoder."""

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: TCN, spec: InputSpec) -> None:
        super().__init__()
        D = model.hidden_size
        self.inputs = StepInputs(spec)
        encoder: list[nn.Module] = []
        for position, dilation in enumerate(model.dilations):
            width = self.inputs.past_width if position == 0 else D
            encoder += [OneSidedConvolution(width, D, model.kernel_size, dilation), activation(model.activation)]
        self.encoder = nn.Sequential(*encoder)
        self.past_to_ahead = nn.Linear(spec.lookback, spec.horizon)
        hidden = [model.decoder_size] * (model.decoder_layers - 1)
        self.decoder = perceptron([D + self.inputs.ahead_width, *hidden, spec.outputs], act=model.activation)

    def forward(self, batch: Batch) -> Tensor:
        past, ahead = self.inputs(batch)
        context = self.past_to_ahead(self.encoder(past.transpose(1, 2))).transpose(1, 2)
        told = context if ahead is None else torch.cat([context, ahead], dim=-1)
        return self.decoder(told).unsqueeze(2)  # type: ignore[no-any-return]
