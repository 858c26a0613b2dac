"""TimesNet: a series folded at its periods into two dimensions, for two-dimensional convolutions.

Letters: B windows, L lookback, H horizon, Q outputs, D width, T = L + H steps, K frequencies, P periods.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn.tokens import KnownColumns, StepTokens


class TimesNet(Model):
    """Finds each window's strongest periods, folds the window at each, convolves, and sums weighted by their strengths.

    Each window has its own periods, also in training, so the other windows of a batch have no influence. In the paper
    the network reads the known columns of past steps; here, with the same weights, also those of the horizon.
    """

    group: ClassVar[ModelFamily] = "convolutional"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, categorical=True)
    paper: ClassVar[str] = (
        "Wu, Hu, Liu, Zhou, Wang & Long (2023), "
        "TimesNet: Temporal 2D-variation modeling for general time series analysis"
    )

    hidden_size: Annotated[int, Field(ge=1)] = 64
    """Width of a step's token."""
    conv_size: Annotated[int, Field(ge=1)] = 64
    """Channels between the two convolutions of a block."""
    periods: Annotated[int, Field(ge=1)] = 5
    """Number of the strongest frequencies to use."""
    kernels: Annotated[int, Field(ge=1)] = 6
    """Number of convolutions of growing size (1, 3, 5, …), of which the mean is taken."""
    layers: Annotated[int, Field(ge=1)] = 2
    """Blocks."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Dropout rate of the tokens' units."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: TimesNet, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        D, steps = model.hidden_size, spec.lookback + spec.horizon
        self.known = KnownColumns(spec)
        self.embed = StepTokens(1, D, known=self.known.width, steps=spec.lookback, dropout=model.dropout)
        self.extend = nn.Linear(spec.lookback, steps)
        self.blocks = nn.ModuleList(PeriodBlock(model, steps) for _ in range(model.layers))
        self.norm = nn.LayerNorm(D)
        self.output = nn.Linear(D, spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        L = self.spec.lookback
        known = self.known(batch)
        tokens = self.embed(batch.y, None if known is None else known[:, :L])
        x = self.extend(tokens.transpose(1, 2)).transpose(1, 2)
        if known is not None and self.embed.known is not None:
            x = x + F.pad(self.embed.known(known[:, L:]), (0, 0, L, 0))
        for block in self.blocks:
            x = self.norm(block(x))
        return self.output(x[:, L:]).unsqueeze(2)  # type: ignore[no-any-return]


class PeriodBlock(nn.Module):
    """x + Σ_p strength_p · unfold(convolve(fold(x, p)))."""

    period_of: Tensor

    def __init__(self, model: TimesNet, steps: int) -> None:
        super().__init__()
        D, inner = model.hidden_size, model.conv_size
        frequencies = range(1, steps // 2 + 1)
        self.steps = steps
        self.chosen = min(model.periods, len(frequencies))
        self.candidates = sorted({-(-steps // frequency) for frequency in frequencies})
        places = [self.candidates.index(-(-steps // frequency)) for frequency in frequencies]
        self.register_buffer("period_of", torch.tensor(places), persistent=False)
        self.widen = Inception(D, inner, model.kernels)
        self.narrow = Inception(inner, D, model.kernels)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        strengths = self.strengths(x)
        widen, narrow = self.widen.folded(), self.narrow.folded()
        total = torch.zeros_like(x)
        for place, period in enumerate(self.candidates):
            strength = strengths[:, place]
            # Windows without this period are skipped, except while a graph for all windows is traced.
            rows = slice(None) if torch.compiler.is_exporting() else strength.nonzero().squeeze(1)
            if isinstance(rows, Tensor) and rows.numel() == 0:
                continue
            part = self._convolve(x[rows], period, widen, narrow) * strength[rows].view(-1, 1, 1)
            total = total + part if isinstance(rows, slice) else total.index_add(0, rows, part)
        return x + total

    def strengths(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, P]: the softmax of the strongest amplitudes, at their periods; 0 at the others."""
        # The Fourier transform needs at least float32.
        spectrum = torch.fft.rfft(x.to(torch.promote_types(x.dtype, torch.float32)), dim=1)
        amplitude = spectrum[:, 1:].abs().mean(dim=-1)
        strongest, frequency = amplitude.topk(self.chosen, dim=-1)
        empty = torch.zeros_like(amplitude[:, :1]).expand(-1, len(self.candidates))
        return empty.scatter_add(1, self.period_of[frequency], strongest.softmax(dim=-1)).to(x.dtype)

    def _convolve(self, x: Tensor, period: int, widen: tuple[Tensor, Tensor], narrow: tuple[Tensor, Tensor]) -> Tensor:
        """Fold [B, T, D] into cycles × phases, apply both convolutions, unfold."""
        cycles = -(-self.steps // period)
        padded = F.pad(x.transpose(1, 2), (0, cycles * period - self.steps))
        picture = padded.reshape(-1, x.shape[2], cycles, period)
        picture = F.conv2d(F.gelu(F.conv2d(picture, *widen, padding="same")), *narrow, padding="same")
        return picture.flatten(2)[:, :, : self.steps].transpose(1, 2)


class Inception(nn.Module):
    """The mean of convolutions of sizes 1, 3, 5, …, computed as one convolution, because they are linear."""

    def __init__(self, width: int, outer: int, kernels: int) -> None:
        super().__init__()
        sizes = [2 * reach + 1 for reach in range(kernels)]
        self.weights = nn.ParameterList(nn.Parameter(torch.empty(outer, width, size, size)) for size in sizes)
        self.biases = nn.Parameter(torch.zeros(kernels, outer))
        for weight in self.weights:
            nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """[B, width, rows, columns] → [B, outer, rows, columns]"""
        return F.conv2d(x, *self.folded(), padding="same")

    def folded(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the one equivalent convolution."""
        largest = len(self.weights) - 1
        padded = [F.pad(weight, [largest - reach] * 4) for reach, weight in enumerate(self.weights)]
        return torch.stack(padded).mean(dim=0), self.biases.mean(dim=0)
