"""BiTCN: one convolutional network for the past, another for the columns known ahead.

Letters: B windows, L lookback, H horizon, Q outputs, D width, W columns known ahead.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import StepInputs
from neuro_divergent.nn.convolution import OneSidedConvolution

KERNEL = 2
"""Kernel size. As dilations double, 2 covers any window with the fewest parameters."""


class BiTCN(Model):
    """Two stacks of dilated convolutions: causal ones over the past, anticausal ones over the columns known ahead.

    The number of layers follows from the window: the last layer covers all of it.
    """

    group: ClassVar[ModelFamily] = "convolutional"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True, categorical=True)
    paper: ClassVar[str] = "Sprangers, Schelter & de Rijke (2023), Parameter-efficient deep probabilistic forecasting"

    hidden_size: Annotated[int, Field(ge=1)] = 16
    """Channels of each convolution."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    """Dropout rate."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: BiTCN, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        D = model.hidden_size
        self.inputs = StepInputs(spec)
        known = self.inputs.ahead_width
        self.backward_stack = _Stack(self.inputs.past_width, spec.lookback, model, "past")
        self.forward_stack = _Stack(known, spec.lookback + spec.horizon, model, "future") if known else None
        self.shrink = nn.Linear(spec.lookback, D)
        self.stretch = nn.Linear(D, spec.horizon)
        self.dropout = nn.Dropout(model.dropout)
        self.output = nn.Linear(3 * D if known else D, spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        L = self.spec.lookback
        past, ahead = self.inputs(batch)
        encoded = self.backward_stack(past)
        if self.forward_stack is None or ahead is None:
            return self.output(self._to_horizon(encoded).transpose(1, 2)).unsqueeze(2)  # type: ignore[no-any-return]
        known = torch.cat([past[..., -ahead.shape[-1] :], ahead], dim=1)
        foreseen = self.forward_stack(known)
        encoded = self._to_horizon(torch.cat([encoded, foreseen[..., :L]], dim=1))
        return self.output(torch.cat([encoded, foreseen[..., L:]], dim=1).transpose(1, 2)).unsqueeze(2)  # type: ignore[no-any-return]

    def _to_horizon(self, x: Tensor) -> Tensor:
        """[B, channels, L] → [B, channels, H]"""
        return self.stretch(self.dropout(F.gelu(self.shrink(x))))  # type: ignore[no-any-return]


class _Stack(nn.Module):
    """Columns [B, T, W] → the sum of the outputs of all layers, [B, D, T]."""

    def __init__(self, width: int, steps: int, model: BiTCN, sees: Literal["past", "future"]) -> None:
        super().__init__()
        D = model.hidden_size
        depth = max(1, (steps - 1).bit_length())
        self.embed = nn.Linear(width, D)
        self.look = nn.ModuleList(OneSidedConvolution(D, D, KERNEL, 2**level, sees=sees) for level in range(depth))
        self.split = nn.ModuleList(nn.Conv1d(D, 2 * D, 1) for _ in range(depth))
        self.dropout = nn.Dropout(model.dropout)

    def forward(self, columns: Tensor) -> Tensor:
        state = self.dropout(self.embed(columns)).transpose(1, 2)
        said = torch.zeros_like(state)
        for look, split in zip(self.look, self.split, strict=True):
            change, word = split(self.dropout(F.gelu(look(state)))).chunk(2, dim=1)
            state, said = state + change, said + word
        return said
