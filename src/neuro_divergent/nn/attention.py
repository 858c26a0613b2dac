"""Multi-head attention and the encoder layer that several transformers share.

Letters: B rows, T queries, S keys, D width, N heads, E width of one head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.nn.perceptron import ActivationName, activation


def check_heads(hidden_size: int, heads: int) -> None:
    """Refuse a width that cannot be shared equally among the heads."""
    if hidden_size % heads:
        raise ConfigError(
            f"hidden_size must be a multiple of heads, but got hidden_size={hidden_size} and heads={heads}. "
            f"Try hidden_size={heads * max(1, round(hidden_size / heads))}"
        )


def attention_rate(dropout: float, own: float | None) -> float:
    """The share of attention weights that is hidden while training: its own, or that of all dropout."""
    return dropout if own is None else own


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, T, D] → [B, N, T, E]"""
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """[B, N, T, E] → [B, T, D]"""
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Scaled dot-product attention with several heads: softmax(Q Kᵀ / √E) V, projected in and out."""

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.causal = causal
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def forward(self, queries: Tensor, memory: Tensor | None = None) -> Tensor:
        """Attend from `queries` [B, T, D] to `memory` [B, S, D], or to themselves: [B, T, D]."""
        query, key, value = self.project(queries, queries if memory is None else memory)
        return self.output(join_heads(self.mix(query, key, value)))  # type: ignore[no-any-return]

    def project(self, queries: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of each head, [B, N, T or S, E]."""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        return tuple(split_heads(x, self.heads) for x in (self.query(queries), key, value))  # type: ignore[return-value]

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The values that each query attends to, [B, N, T, E]; variants of attention override this."""
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=self.causal)


class FeedForward(nn.Sequential):
    """The same two linear layers at every position."""

    def __init__(self, width: int, inner: int, *, act: ActivationName, dropout: float, bias: bool = True) -> None:
        super().__init__(
            nn.Linear(width, inner, bias=bias), activation(act), nn.Dropout(dropout), nn.Linear(inner, width, bias=bias)
        )


class EncoderLayer(nn.Module):
    """x ← norm(x + attention(x)); x ← norm(x + feedforward(x))."""

    def __init__(self, attention: nn.Module, width: int, inner: int, *, act: ActivationName, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = FeedForward(width, inner, act=act, dropout=dropout)
        self.norm_attention = nn.LayerNorm(width)
        self.norm_output = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        x = self.norm_attention(x + self.dropout(self.attention(x)))
        return self.norm_output(x + self.dropout(self.feed_forward(x)))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """x ← norm(x + attention(x)); x ← norm(x + attention(x, memory)); x ← norm(x + feedforward(x))."""

    def __init__(
        self, attention: nn.Module, cross: nn.Module, width: int, inner: int, *, act: ActivationName, dropout: float
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross = cross
        self.feed_forward = FeedForward(width, inner, act=act, dropout=dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """[B, T, D], [B, S, D] → [B, T, D]"""
        x = self.norms[0](x + self.dropout(self.attention(x)))
        x = self.norms[1](x + self.dropout(self.cross(x, memory)))
        return self.norms[2](x + self.dropout(self.feed_forward(x)))  # type: ignore[no-any-return]


def causal_bias(length: int) -> Tensor:
    """[T, T] float: 0 where a position may look (itself and before), minus infinity where it may not."""
    return torch.full((length, length), float("-inf")).triu(1)
