"""FEDformer: layers that work on a few frequencies of the series.

Letters: B windows, L lookback, H horizon, Q outputs, D width, N heads, E width of one head, T steps, M frequencies.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.seeding import torch_generator
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn import ActivationName
from neuro_divergent.nn.attention import check_heads, join_heads, split_heads
from neuro_divergent.nn.decomposition import Decomposition, check_odd
from neuro_divergent.nn.seasonal_decoder import SeasonalDecoderLayer, SeasonalEncoderLayer, SeasonalTransformer
from neuro_divergent.nn.tokens import decoder_context


class FEDformer(Model):
    """Decomposes the series inside every layer, and mixes it in the frequency domain, on a few chosen frequencies.

    The paper's Fourier version, by its equations: a self-attention layer is one learned complex matrix for each
    frequency, and the cross attention has no weights on frequencies. Implementations that keep unused key and value
    projections beside the former have more parameters.
    """

    group: ClassVar[ModelFamily] = "transformer"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, categorical=True)
    paper: ClassVar[str] = (
        "Zhou, Ma, Wen, Wang, Sun & Jin (2022), "
        "FEDformer: Frequency enhanced decomposed transformer for long-term series forecasting"
    )

    hidden_size: Annotated[int, Field(ge=1)] = 128
    """Width of a token."""
    heads: Annotated[int, Field(ge=1)] = 8
    """Groups of channels that are mixed among themselves."""
    encoder_layers: Annotated[int, Field(ge=1)] = 2
    """Encoder layers."""
    decoder_layers: Annotated[int, Field(ge=1)] = 1
    """Decoder layers."""
    ff_size: Annotated[int, Field(ge=1)] = 32
    """Width inside the feed-forward part of a layer."""
    activation: ActivationName = "gelu"
    """Activation of the feed-forward part."""
    frequencies: Annotated[int, Field(ge=1)] = 64
    """At most so many frequencies are kept."""
    choice: Literal["random", "low"] = "random"
    """Keep random frequencies (always the same ones for a size) or the lowest."""
    moving_average: Annotated[int, Field(ge=1)] = 25
    """Length of the moving average that makes the trend; odd."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.05
    """Share of units switched off while training."""
    attention_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of the frequencies' attention weights hidden while training."""
    context_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    """Share of the window, from its end, that the decoder starts from."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_heads(self.hidden_size, self.heads)
        check_odd("moving_average", self.moving_average)
        return self

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        D, context = self.hidden_size, decoder_context(spec.lookback, self.context_share)
        ahead = context + spec.horizon

        def encoder(split: Decomposition) -> list[nn.Module]:
            # As in the paper's own experiments, all encoder layers share their weights on frequencies.
            mix = FrequencyWeights(self, spec.lookback)
            return [
                SeasonalEncoderLayer(FourierBlock(D, mix), split, D, self.ff_size, self.activation, self.dropout)
                for _ in range(self.encoder_layers)
            ]

        def decoder(split: Decomposition) -> list[nn.Module]:
            mix = FrequencyWeights(self, ahead)
            return [
                SeasonalDecoderLayer(
                    FourierBlock(D, mix),
                    FourierAttention(self, ahead, spec.lookback),
                    split,
                    D,
                    self.ff_size,
                    spec.outputs,
                    self.activation,
                    self.dropout,
                )
                for _ in range(self.decoder_layers)
            ]

        return SeasonalTransformer(
            spec,
            width=D,
            context=context,
            window=self.moving_average,
            dropout=self.dropout,
            encoder_layers=encoder,
            decoder_layers=decoder,
        )


def chosen_frequencies(steps: int, count: int, choice: Literal["random", "low"]) -> Tensor:
    """Which of the frequencies 0 … ⌊T/2⌋ − 1 are kept, in order."""
    available = max(1, steps // 2)
    if choice == "low" or count >= available:
        return torch.arange(min(count, available), device="cpu")
    order = torch.randperm(available, generator=torch_generator(0, "fedformer", steps, count), device="cpu")
    return order[:count].sort().values


class Fourier(nn.Module):
    """The discrete Fourier transform at some frequencies, and back, as matrix products with constants."""

    to_real: Tensor
    to_imaginary: Tensor
    from_real: Tensor
    from_imaginary: Tensor

    def __init__(self, steps: int, frequencies: Tensor) -> None:
        super().__init__()
        angle = 2 * math.pi / steps * (frequencies.unsqueeze(1) * torch.arange(steps, device="cpu") % steps)
        # A real series holds each frequency but 0 (and T/2) twice, once as its conjugate.
        twice = torch.where((frequencies == 0) | (2 * frequencies == steps), 1.0, 2.0).unsqueeze(1) / steps
        constants = {
            "to_real": angle.cos(),
            "to_imaginary": -angle.sin(),
            "from_real": (twice * angle.cos()).t(),
            "from_imaginary": (-twice * angle.sin()).t(),
        }
        for name, matrix in constants.items():
            self.register_buffer(name, matrix.contiguous(), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[..., T, E] → real and imaginary parts [..., M, E]."""
        return self.to_real @ x, self.to_imaginary @ x

    def back(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """[..., M, E] → [..., T, E]"""
        return self.from_real @ real + self.from_imaginary @ imaginary


class FrequencyWeights(nn.Module):
    """Multiplies each frequency of each head by a complex matrix of its own."""

    def __init__(self, model: FEDformer, steps: int) -> None:
        super().__init__()
        frequencies = chosen_frequencies(steps, model.frequencies, model.choice)
        self.heads = model.heads
        self.fourier = Fourier(steps, frequencies)
        E = model.hidden_size // model.heads
        shape = (2, model.heads, len(frequencies), E, E)
        self.weight = nn.Parameter(torch.rand(shape) / model.hidden_size**2)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        real, imaginary = self.fourier(split_heads(x, self.heads))
        weight = torch.cat([*self.weight], dim=-1)
        rr, ri = torch.einsum("bnme,nmef->bnmf", real, weight).chunk(2, dim=-1)
        ir, ii = torch.einsum("bnme,nmef->bnmf", imaginary, weight).chunk(2, dim=-1)
        mixed = self.fourier.back(rr - ii, ri + ir)
        return join_heads(mixed)


class FourierBlock(nn.Module):
    """FEB(x) = F⁻¹(pad(select(F(W x)) · R)), projected."""

    def __init__(self, width: int, mix: FrequencyWeights) -> None:
        super().__init__()
        self.input = nn.Linear(width, width)
        self.mix = mix
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        return self.output(self.mix(self.input(x)))  # type: ignore[no-any-return]


class FourierAttention(nn.Module):
    """FEA(q, k, v) = F⁻¹(pad(tanh(Q Kᵀ) V)) on the chosen frequencies of queries, keys and values.

    tanh acts on real and imaginary parts by themselves: the complex tanh has poles.
    """

    def __init__(self, model: FEDformer, queries: int, keys: int) -> None:
        super().__init__()
        D = model.hidden_size
        self.heads = model.heads
        self.dropout = model.attention_dropout
        self.of_queries = Fourier(queries, chosen_frequencies(queries, model.frequencies, model.choice))
        self.of_keys = Fourier(keys, chosen_frequencies(keys, model.frequencies, model.choice))
        self.query = nn.Linear(D, D)
        self.key_value = nn.Linear(D, 2 * D)
        self.output = nn.Linear(D, D)

    def forward(self, queries: Tensor, memory: Tensor) -> Tensor:
        """[B, T, D], [B, S, D] → [B, T, D]"""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        qr, qi = self.of_queries(split_heads(self.query(queries), self.heads))
        kr, ki = (part.transpose(-1, -2) for part in self.of_keys(split_heads(key, self.heads)))
        vr, vi = self.of_keys(split_heads(value, self.heads))
        wr, wi = torch.tanh(qr @ kr - qi @ ki), torch.tanh(qr @ ki + qi @ kr)
        if self.dropout and self.training:  # a complex weight is hidden whole
            kept = F.dropout(torch.ones_like(wr), self.dropout)
            wr, wi = wr * kept, wi * kept
        # Two transforms each add up T terms, so the sum over frequencies is brought back to the scale of a value.
        scale = 1 / kr.shape[-1]
        mixed = self.of_queries.back((wr @ vr - wi @ vi) * scale, (wr @ vi + wi @ vr) * scale)
        return self.output(join_heads(mixed))  # type: ignore[no-any-return]
