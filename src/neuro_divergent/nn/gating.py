"""Gated residual networks and variable selection of the temporal fusion transformer.

Letters: B windows, T steps (or none), N variables, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Gate(nn.Module):
    """norm(residual + GLU(x)): the gate can suppress x completely."""

    def __init__(self, width: int, outer: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2 * outer)
        self.norm = nn.LayerNorm(outer)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """[..., D], [..., D'] → [..., D']"""
        return self.norm(residual + F.glu(self.linear(x), dim=-1))  # type: ignore[no-any-return]


class GatedResidual(nn.Module):
    """GRN(a, c) = norm(a + GLU(W₁ ELU(W₂ a + W₃ c)))."""

    def __init__(
        self, width: int, hidden: int, outer: int | None = None, *, context: int = 0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        outer = outer or width
        self.input = nn.Linear(width, hidden)
        self.context = nn.Linear(context, hidden, bias=False) if context else None
        self.inner = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(dropout)
        self.gate = Gate(hidden, outer)
        self.skip = nn.Linear(width, outer) if outer != width else nn.Identity()

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """[..., width] → [..., outer]; `context` broadcasts against x's hidden form."""
        hidden = self.input(x)
        if self.context is not None and context is not None:
            hidden = hidden + self.context(context)
        return self.gate(self.dropout(self.inner(F.elu(hidden))), self.skip(x))  # type: ignore[no-any-return]


class ScalarEmbedding(nn.Module):
    """N numbers [..., N] → N vectors [..., N, D], with a separate weight vector and bias for each variable."""

    def __init__(self, variables: int, width: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(variables, width))
        self.offset = nn.Parameter(torch.zeros(variables, width))
        nn.init.xavier_normal_(self.direction)

    def forward(self, x: Tensor) -> Tensor:
        """The vectors of all variables."""
        return x.unsqueeze(-1) * self.direction + self.offset


class VariableSelection(nn.Module):
    """A weighted mean of the variables' vectors, with weights that depend on all of them and on the context.

    With a single variable the weight is 1, and there is no selection network.
    """

    def __init__(self, variables: int, width: int, *, context: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.choose = (
            GatedResidual(variables * width, width, variables, context=context, dropout=dropout)
            if variables > 1
            else None
        )
        self.transform = nn.ModuleList(GatedResidual(width, width, dropout=dropout) for _ in range(variables))

    def forward(self, vectors: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """[..., N, D] → the mean [..., D] and the weights [..., N], which sum to 1."""
        transformed = torch.stack([part(vectors[..., n, :]) for n, part in enumerate(self.transform)], dim=-2)
        if self.choose is None:
            return transformed.squeeze(-2), torch.ones_like(vectors[..., 0])
        weights = self.choose(vectors.flatten(-2), context).softmax(dim=-1)
        return (weights.unsqueeze(-2) @ transformed).squeeze(-2), weights
