"""Blocks with a matrix memory and exponential gates (the mLSTM of xLSTM), all steps in one call.

Letters: B windows, T steps, N heads, D width, E inner width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def matrix_memory(q: Tensor, k: Tensor, v: Tensor, write: Tensor, keep: Tensor) -> Tensor:
    """Return the output of a matrix memory at each step; q, k, v [B, N, T, D], gates before activation [B, N, T].

    Step i reads step j <= i with the weight exp(write_j) · sigmoid(keep_{j+1}) ··· sigmoid(keep_i) · (q_i · k_j)/√D,
    divided by the larger of 1 and the absolute sum of these weights. All weights are computed relative to the largest
    gate of the row, so that they cannot overflow.
    """
    T, D = q.shape[-2:]
    kept = F.logsigmoid(keep).cumsum(dim=-1)
    gates = kept.unsqueeze(-1) - kept.unsqueeze(-2) + write.unsqueeze(-2)
    later = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
    gates = gates.masked_fill(later, float("-inf"))
    greatest = gates.amax(dim=-1, keepdim=True)
    weights = (q @ k.transpose(-1, -2)) / math.sqrt(D) * torch.exp(gates - greatest)
    total = torch.maximum(weights.sum(dim=-1, keepdim=True).abs(), torch.exp(-greatest))
    return (weights / total) @ v


class BlockLinear(nn.Module):
    """[..., E] → [..., outputs · E]: a linear map with a block-diagonal matrix."""

    def __init__(self, width: int, outputs: int, *, size: int = 4, bias: bool = True) -> None:
        super().__init__()
        size = math.gcd(width, size)
        self.outputs, self.size = outputs, size
        self.weight = nn.Parameter(torch.empty(outputs, width // size, size, size))
        self.bias = nn.Parameter(torch.zeros(outputs, width)) if bias else None
        nn.init.uniform_(self.weight, -1 / math.sqrt(size), 1 / math.sqrt(size))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, E] → [outputs, B, T, E]"""
        B, T, E = x.shape
        mapped = torch.einsum("btgi,ngio->nbtgo", x.view(B, T, E // self.size, self.size), self.weight)
        mapped = mapped.reshape(self.outputs, B, T, E)
        return mapped if self.bias is None else mapped + self.bias.view(self.outputs, 1, 1, E)


class RecentSteps(nn.Module):
    """[B, T, E] → [B, T, E]: each channel's weighted sum of its last four steps (a causal depthwise convolution)."""

    steps = 4

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(self.steps, width).uniform_(-0.5, 0.5))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, E] → [B, T, E]"""
        T = x.shape[1]
        padded = F.pad(x, (0, 0, self.steps - 1, 0))
        # Sums of shifted views: on a CPU faster than a convolution with one group per channel.
        total = self.bias + padded[:, :T] * self.weight[0]
        for step in range(1, self.steps):
            total = torch.addcmul(total, padded[:, step : step + T], self.weight[step])
        return total


class MatrixMemoryBlock(nn.Module):
    """Up-projection, causal convolution, matrix memory, gate, down-projection; with a residual connection."""

    def __init__(self, width: int, heads: int, dropout: float, *, bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        inner = 2 * width
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * inner, bias=bias)
        self.recent = RecentSteps(inner)
        # Block-diagonal maps for queries, keys and values, as in the paper, have few parameters.
        self.query_key = BlockLinear(inner, 2, bias=bias)
        self.value = BlockLinear(inner, 1, bias=bias)
        self.gates = nn.Linear(3 * inner, 2 * heads)
        self.head_scale = nn.Parameter(torch.ones(inner))
        self.skip = nn.Parameter(torch.ones(inner))
        self.down = nn.Linear(inner, width, bias=bias)
        self.dropout = nn.Dropout(dropout)
        nn.init.zeros_(self.gates.weight)
        with torch.no_grad():
            # The heads start with memories of different lengths.
            self.gates.bias[:heads].normal_(0.0, 0.1)
            self.gates.bias[heads:] = torch.linspace(3.0, 6.0, heads)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        inner, gate = self.up(self.norm(x)).chunk(2, dim=-1)
        inner = inner.contiguous()
        mixed = F.silu(self.recent(inner))
        (q, k), (v,) = self.query_key(mixed).unbind(0), self.value(inner).unbind(0)
        write, keep = self.gates(torch.cat([q, k, v], dim=-1)).transpose(1, 2).chunk(2, dim=1)
        answer = matrix_memory(self._split(q), self._split(k), self._split(v), write, keep)
        normed = F.layer_norm(answer, answer.shape[-1:]).transpose(1, 2).flatten(2)
        states = normed * self.head_scale + self.skip * mixed
        output: Tensor = x + self.dropout(self.down(states * F.silu(gate)))
        return output

    def _split(self, x: Tensor) -> Tensor:
        """[B, T, E] → [B, N, T, E/N]"""
        B, T, E = x.shape
        return x.view(B, T, self.heads, E // self.heads).transpose(1, 2)
