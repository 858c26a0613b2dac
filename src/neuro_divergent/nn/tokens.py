"""Embedding of a window's steps as the tokens of a sequence network.

Letters: B windows, T steps, L lookback, H horizon, D width, W columns known ahead.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.nn.inputs import CategoryEmbedding


def sinusoids(steps: int, width: int) -> Tensor:
    """[T, D]: sin and cos of the position at D/2 frequencies from 1 down to 1/10000, side by side."""
    position = torch.arange(steps).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angle = position * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]


class KnownColumns(nn.Module):
    """The columns known ahead of a univariate window, categories embedded: [B, L+H, W], or None if there are none."""

    def __init__(self, spec: InputSpec) -> None:
        super().__init__()
        self.embedding = CategoryEmbedding(spec.categories) if spec.categories else None
        self.width = spec.future + (0 if self.embedding is None else self.embedding.width)

    def forward(self, batch: Batch) -> Tensor | None:
        """[B, L+H, W]"""
        parts = [] if batch.future is None else [batch.future]
        if self.embedding is not None and batch.categorical is not None:
            parts.append(self.embedding(batch.categorical))
        return torch.cat(parts, dim=-1) if parts else None


class StepTokens(nn.Module):
    """A token for each step: a convolution over its neighbours, plus its position, plus its columns known ahead.

    The convolution wraps around the window's ends.
    """

    position: Tensor | None

    def __init__(self, channels: int, width: int, *, known: int, steps: int | None, dropout: float) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(channels, width, 3, padding=1, padding_mode="circular", bias=False)
        nn.init.kaiming_normal_(self.convolution.weight, mode="fan_in", nonlinearity="leaky_relu")
        self.known = nn.Linear(known, width, bias=False) if known else None
        self.register_buffer("position", None if steps is None else sinusoids(steps, width), persistent=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: Tensor, known: Tensor | None) -> Tensor:
        """Values [B, T, channels] and columns [B, T, W] → tokens [B, T, D], without positions if `steps` was None."""
        tokens = self.convolution(values.transpose(1, 2)).transpose(1, 2)
        if self.position is not None:
            tokens = tokens + self.position
        if self.known is not None and known is not None:
            tokens = tokens + self.known(known)
        return self.dropout(tokens)  # type: ignore[no-any-return]


def decoder_context(lookback: int, share: float) -> int:
    """Return how many of the window's last steps a decoder reads first.

    >>> decoder_context(96, 0.5), decoder_context(1, 0.5)
    (48, 1)
    """
    return math.ceil(lookback * share)
