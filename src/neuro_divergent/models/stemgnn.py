"""StemGNN: a graph of the series, learned from the window, with filters on the graph and time spectra.

Letters: B windows, L lookback, H horizon, C channels, Q outputs, K orders of the polynomial, W = widening · L.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.data.scaling.per_window import WindowScalerName
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily

ORDERS = 4
"""Chebyshev polynomials of the graph's Laplacian, from order 0."""
GATES = 3
"""Gated layers on the spectrum's real part, and as many on its imaginary part."""


class StemGNN(Model):
    """Learns a graph of related series, then filters in the graph and time spectra together.

    Each window has its own graph, also in training, so the other windows of a batch have no influence. The last block
    has no backcast.
    """

    group: ClassVar[ModelFamily] = "convolutional"
    capabilities: ClassVar[Capabilities] = Capabilities(multivariate=True)
    paper: ClassVar[str] = (
        "Cao, Wang, Duan, Zhang, Zhu, Huang, Tong, Xu, Bai, Tong & Zhang (2020), "
        "Spectral temporal graph neural network for multivariate time-series forecasting"
    )

    scaler: WindowScalerName = "robust"
    """The scaler that is applied to each window."""
    blocks: Annotated[int, Field(ge=1)] = 2
    """Number of blocks. Each block forecasts, and passes its residual to the next."""
    widening: Annotated[int, Field(ge=1)] = 5
    """Width of a block, as a multiple of the window's length."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    """Dropout rate of the graph's edges."""
    leak: Annotated[float, Field(ge=0.0, le=1.0)] = 0.2
    """Slope of the leaky activations below zero."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: StemGNN, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        L = spec.lookback
        self.graph = SeriesGraph(L, spec.series, model.dropout, model.leak)
        last = model.blocks - 1
        self.blocks = nn.ModuleList(
            SpectralBlock(L, model.widening * L, backcast=position < last) for position in range(model.blocks)
        )
        self.head = nn.Sequential(nn.Linear(L, L), nn.LeakyReLU(model.leak), nn.Linear(L, spec.horizon * spec.outputs))

    def forward(self, batch: Batch) -> Tensor:
        x = batch.y.transpose(1, 2)
        polynomials = chebyshev(laplacian(self.graph(x)))
        forecasts = []
        for block in self.blocks:
            forecast, x = block(x, polynomials)
            forecasts.append(forecast)
        output: Tensor = self.head(torch.stack(forecasts).sum(dim=0))
        return output.view(-1, self.spec.series, self.spec.horizon, self.spec.outputs).transpose(1, 2)


class SeriesGraph(nn.Module):
    """Edge weights between the series: rows [B, C, C] that sum to 1 (in training, before dropout)."""

    def __init__(self, lookback: int, series: int, dropout: float, leak: float) -> None:
        super().__init__()
        self.encoder = nn.GRU(lookback, series, batch_first=True)
        self.key = nn.Parameter(nn.init.xavier_uniform_(torch.empty(series, 1), gain=1.414))
        self.query = nn.Parameter(nn.init.xavier_uniform_(torch.empty(series, 1), gain=1.414))
        self.dropout = nn.Dropout(dropout)
        self.leak = leak

    def forward(self, x: Tensor) -> Tensor:
        """Windows [B, C, L] → edges [B, C, C]; the encoder runs from series to series."""
        states, _ = self.encoder(x)
        scores = states @ self.key + (states @ self.query).transpose(1, 2)
        return self.dropout(F.leaky_relu(scores, self.leak).softmax(dim=-1))  # type: ignore[no-any-return]


def laplacian(edges: Tensor) -> Tensor:
    """The normalised Laplacian I − D^-½ A D^-½ of the symmetrised edges, [B, C, C]; 0 for a series without edges."""
    adjacency = (edges + edges.transpose(1, 2)) / 2
    degree = adjacency.sum(dim=-1)
    root = torch.where(degree > 0, degree.clamp_min(torch.finfo(degree.dtype).tiny).rsqrt(), 0.0)
    normalised = root.unsqueeze(-1) * adjacency * root.unsqueeze(-2)
    return torch.diag_embed((degree > 0).to(edges.dtype)) - normalised


def chebyshev(matrix: Tensor) -> Tensor:
    """The polynomials T₀ = I, T₁ = M, T_k = 2 M T_{k−1} − T_{k−2} of a matrix: [B, C, C] → [B, K, C, C]."""
    terms = [torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand_as(matrix), matrix]
    while len(terms) < ORDERS:
        terms.append(2 * matrix @ terms[-1] - terms[-2])
    return torch.stack(terms, dim=1)


class SpectralBlock(nn.Module):
    """Graph Fourier transform, time Fourier transform, gated layers, and back; then a forecast and a backcast."""

    def __init__(self, lookback: int, width: int, *, backcast: bool) -> None:
        super().__init__()
        self.real = nn.Sequential(*_gates(lookback, width))
        self.imaginary = nn.Sequential(*_gates(lookback, width))
        self.weight = nn.Parameter(nn.init.xavier_normal_(torch.empty(ORDERS * width, width)))
        self.forecast = nn.Sequential(nn.Linear(width, width), nn.Sigmoid(), nn.Linear(width, lookback))
        self.backcast = nn.Linear(width, lookback) if backcast else None
        self.skip = nn.Linear(lookback, lookback) if backcast else None

    def forward(self, x: Tensor, polynomials: Tensor) -> tuple[Tensor, Tensor]:
        """Windows [B, C, L] → forecast features [B, C, L] and the next block's windows [B, C, L]."""
        filtered = self.filter(polynomials @ x.unsqueeze(1)) @ self.weight
        if self.backcast is None or self.skip is None:
            return self.forecast(filtered), x
        return self.forecast(filtered), torch.sigmoid(self.backcast(filtered) - self.skip(x))

    def filter(self, x: Tensor) -> Tensor:
        """[B, K, C, L] → [B, C, K · W]: the gated layers act on the spectrum over time of all orders together."""
        # The Fourier transform needs at least float32.
        spectrum = torch.fft.fft(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1)
        real, imaginary = (part.to(x.dtype).transpose(1, 2).flatten(2) for part in (spectrum.real, spectrum.imag))
        real, imaginary = (
            part.reshape(*part.shape[:2], ORDERS, -1).to(spectrum.real.dtype)
            for part in (self.real(real), self.imaginary(imaginary))
        )
        filtered: Tensor = torch.fft.ifft(torch.complex(real, imaginary), dim=-1).real
        return filtered.to(x.dtype).flatten(2)


class _Gate(nn.Module):
    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inner, 2 * outer)

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(self.linear(x), dim=-1)


def _gates(lookback: int, width: int) -> list[nn.Module]:
    sizes = [ORDERS * lookback] + [ORDERS * width] * GATES
    return [_Gate(inner, outer) for inner, outer in pairwise(sizes)]
