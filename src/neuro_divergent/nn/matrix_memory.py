"""Blocks with a matrix memory and exponential gates (the mLSTM of xLSTM), all steps in one call.

Letters: B windows, T steps, N heads, D width, E inner width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def matrix_memory(q: Tensor, k: Tensor, v: Tensor, write: Tensor, keep: Tensor) -> Tensor:
    """What a matrix memory answers at each step; q, k, v [B, N, T, D] and the gates before activation [B, N, T].

    Step i sees step j <= i with the weight exp(write_j) · sigmoid(keep_{j+1}) ··· sigmoid(keep_i) · (q_i · k_j)/√D,
    divided by the absolute sum of these weights or by 1, whichever is greater. All of it is computed relative to
    the row's greatest gate, so that nothing overflows.
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


class MatrixMemoryBlock(nn.Module):
    """Widen, mix four steps by a causal convolution, query the memory, gate, narrow; beside a shortcut."""

    kernel = 4
    """Steps that the convolution sees."""

    def __init__(self, width: int, heads: int, dropout: float, *, bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        inner = 2 * width
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * inner, bias=bias)
        self.convolution = nn.Conv1d(inner, inner, self.kernel, groups=inner)
        # Queries, keys and values are mixed in small groups, as the paper does, which keeps their weights few.
        groups = inner // math.gcd(inner, 4)
        self.query, self.key, self.value = (nn.Conv1d(inner, inner, 1, groups=groups, bias=bias) for _ in range(3))
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
        inner = inner.transpose(1, 2)
        mixed = F.silu(self.convolution(F.pad(inner, (self.kernel - 1, 0))))
        q, k, v = self.query(mixed), self.key(mixed), self.value(inner)
        write, keep = self.gates(torch.cat([q, k, v], dim=1).transpose(1, 2)).transpose(1, 2).chunk(2, dim=1)
        answer = matrix_memory(self._split(q), self._split(k), self._split(v), write, keep)
        normed = F.layer_norm(answer, answer.shape[-1:]).transpose(1, 2).flatten(2)
        states = normed * self.head_scale + self.skip * mixed.transpose(1, 2)
        output: Tensor = x + self.dropout(self.down(states * F.silu(gate)))
        return output

    def _split(self, x: Tensor) -> Tensor:
        """[B, E, T] → [B, N, T, E/N]"""
        B, E, T = x.shape
        return x.view(B, self.heads, E // self.heads, T).transpose(2, 3)
