"""The decomposing encoder and decoder of Autoformer and FEDformer, which differ only in their attention.

Letters: B windows, T steps, L lookback, H horizon, Q outputs, D width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.nn.attention import FeedForward
from neuro_divergent.nn.decomposition import Decomposition
from neuro_divergent.nn.perceptron import ActivationName
from neuro_divergent.nn.sequence_norm import SeasonalNorm
from neuro_divergent.nn.tokens import KnownColumns, StepTokens


class SeasonalEncoderLayer(nn.Module):
    """x ← seasonal(x + attention(x)); x ← seasonal(x + feedforward(x)). The trends are discarded."""

    def __init__(
        self, attention: nn.Module, split: Decomposition, width: int, inner: int, act: ActivationName, dropout: float
    ) -> None:
        super().__init__()
        self.attention = attention
        self.split = split
        self.feed_forward = FeedForward(width, inner, act=act, dropout=dropout, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        x, _ = self.split(x + self.dropout(self.attention(x)))
        return self.split(x + self.dropout(self.feed_forward(x)))[0]  # type: ignore[no-any-return]


class SeasonalDecoderLayer(nn.Module):
    """Like the encoder layer, with attention to the encoder. The three trends are projected and returned."""

    def __init__(
        self,
        attention: nn.Module,
        cross: nn.Module,
        split: Decomposition,
        width: int,
        inner: int,
        outputs: int,
        act: ActivationName,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross = cross
        self.split = split
        self.feed_forward = FeedForward(width, inner, act=act, dropout=dropout, bias=False)
        self.trend = nn.Conv1d(width, outputs, 3, padding=1, padding_mode="circular", bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T, D] → the seasonal part [B, T, D] and the trend [B, T, Q]."""
        x, first = self.split(x + self.dropout(self.attention(x)))
        x, second = self.split(x + self.dropout(self.cross(x, memory)))
        x, third = self.split(x + self.dropout(self.feed_forward(x)))
        return x, self.trend((first + second + third).transpose(1, 2)).transpose(1, 2)


class SeasonalTransformer(nn.Module):
    """The forecast is a seasonal part plus a trend that every decoder layer refines.

    The decoder starts from the window's last steps: their seasonal part followed by zeros, their trend followed by
    the window's mean.
    """

    def __init__(
        self,
        spec: InputSpec,
        *,
        width: int,
        context: int,
        window: int,
        dropout: float,
        encoder_layers: Callable[[Decomposition], list[nn.Module]],
        decoder_layers: Callable[[Decomposition], list[nn.Module]],
    ) -> None:
        super().__init__()
        self.spec = spec
        self.context = context
        self.known = KnownColumns(spec)
        self.embed_past = StepTokens(1, width, known=self.known.width, steps=None, dropout=dropout)
        self.embed_ahead = StepTokens(1, width, known=self.known.width, steps=None, dropout=dropout)
        self.split_past = Decomposition(spec.lookback, window)
        self.encoder = nn.Sequential(*encoder_layers(self.split_past), SeasonalNorm(width))
        self.decoder = nn.ModuleList(decoder_layers(Decomposition(context + spec.horizon, window)))
        self.norm = SeasonalNorm(width)
        self.output = nn.Linear(width, spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        """[B, H, 1, Q]"""
        L = self.spec.lookback
        known = self.known(batch)
        seasonal, trend = self._start(batch.y)
        memory = self.encoder(self.embed_past(batch.y, None if known is None else known[:, :L]))
        x = self.embed_ahead(seasonal, None if known is None else known[:, L - self.context :])
        for layer in self.decoder:
            x, change = layer(x, memory)
            trend = trend + change
        forecast: Tensor = trend + self.output(self.norm(x))
        return forecast[:, self.context :].unsqueeze(2)

    def _start(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """The first input of the decoder: seasonal part and trend, each [B, context + H, 1]."""
        H, first = self.spec.horizon, self.spec.lookback - self.context
        seasonal, trend = self.split_past(y)
        mean = y.mean(dim=1, keepdim=True).expand(-1, H, -1)
        ahead = torch.zeros_like(mean)
        return torch.cat([seasonal[:, first:], ahead], dim=1), torch.cat([trend[:, first:], mean], dim=1)
