"""Doubly residual stacks of basis expansions: what N-BEATS and N-BEATSx are made of.

Letters: B windows, L lookback, H horizon, Q outputs, E extra inputs, K basis functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from neuro_divergent.nn.perceptron import ActivationName, perceptron

StackName = Literal["generic", "trend", "seasonality", "exogenous"]
TrendName = Literal["polynomial", "legendre", "chebyshev"]


def trend_basis(steps: int, degree: int, kind: TrendName = "polynomial") -> Tensor:
    """[degree + 1, steps]: powers of t = 0, 1/steps, ..., or orthogonal polynomials on [-1, 1].

    >>> trend_basis(2, 2)
    tensor([[1.0000, 1.0000],
            [0.0000, 0.5000],
            [0.0000, 0.2500]])
    """
    if kind == "polynomial":
        t = torch.arange(steps, dtype=torch.float64) / steps
        return torch.stack([t**power for power in range(degree + 1)]).float()
    t = torch.linspace(-1, 1, steps, dtype=torch.float64)
    rows = [torch.ones_like(t), t]
    for n in range(1, degree):
        # The three-term recurrences of Legendre (Bonnet) and of Chebyshev polynomials.
        share = (n / (n + 1), (2 * n + 1) / (n + 1)) if kind == "legendre" else (1.0, 2.0)
        rows.append(share[1] * t * rows[n] - share[0] * rows[n - 1])
    return torch.stack(rows[: degree + 1]).float()


def seasonality_basis(times: Tensor, horizon: int, harmonics: int) -> Tensor:
    """[K, steps]: cosines and sines of 2π·frequency·time/horizon, frequencies 0, 1, ... up to horizon/2.

    `harmonics` is how many frequencies there are per whole one: 2 also takes 1.5, 2.5, ...
    """
    count = max(0, math.ceil(harmonics * horizon / 2) - harmonics)
    whole = torch.arange(harmonics, harmonics + count, dtype=torch.float64) / harmonics
    frequency = torch.cat([torch.zeros(1, dtype=torch.float64), whole])
    angle = 2 * math.pi * frequency.unsqueeze(1) * times.double().unsqueeze(0) / horizon
    return torch.cat([angle.cos(), angle.sin()]).float()


class BasisBlock(nn.Module):
    """A perceptron gives the coefficients of a backcast and of a forecast; a basis turns them into steps.

    The basis is the identity (generic), a fixed pair of matrices (trend, seasonality), or the window's own columns
    that are known ahead (exogenous).
    """

    backcast_basis: Tensor | None
    forecast_basis: Tensor | None

    def __init__(
        self,
        sizes: Sequence[int],
        functions: tuple[int, int],
        outputs: int,
        *,
        bases: tuple[Tensor, Tensor] | None = None,
        activation: ActivationName = "relu",
        dropout: float = 0.0,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        self.functions, self.outputs = functions, outputs
        theta = functions[0] + functions[1] * outputs
        self.perceptron = perceptron([*sizes, theta], act=activation, dropout=dropout, batch_norm=batch_norm)
        back, ahead = (None, None) if bases is None else bases
        self.register_buffer("backcast_basis", back, persistent=False)
        self.register_buffer("forecast_basis", ahead, persistent=False)

    def forward(self, x: Tensor, columns: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """[B, inputs] → backcast [B, L] and forecast [B, H, Q]; `columns` are [B, L, K] and [B, H, K]."""
        theta = self.perceptron(x)
        back, ahead = theta[:, : self.functions[0]], theta[:, self.functions[0] :]
        ahead = ahead.view(-1, self.functions[1], self.outputs)
        if columns is not None:
            return (columns[0] @ back.unsqueeze(-1)).squeeze(-1), columns[1] @ ahead
        if self.backcast_basis is None or self.forecast_basis is None:
            return back, ahead
        return back @ self.backcast_basis, self.forecast_basis.T @ ahead


class BasisStacks(nn.Module):
    """Blocks in stacks: each explains a part of the window, subtracts it, and adds its part of the forecast."""

    def __init__(
        self,
        stacks: Sequence[StackName],
        blocks: Sequence[int],
        *,
        lookback: int,
        horizon: int,
        outputs: int,
        hidden_sizes: Sequence[int],
        extra: int = 0,
        columns: int = 0,
        trend: TrendName = "polynomial",
        degree: int = 2,
        harmonics: int = 2,
        activation: ActivationName = "relu",
        dropout: float = 0.0,
        batch_norm: bool = False,
        share_weights: bool = False,
    ) -> None:
        super().__init__()
        bases = {
            "trend": (trend_basis(lookback, degree, trend), trend_basis(horizon, degree, trend)),
            "seasonality": (
                seasonality_basis(torch.arange(-lookback, 0), horizon, harmonics),
                seasonality_basis(torch.arange(horizon), horizon, harmonics),
            ),
        }
        functions = {"generic": (lookback, horizon), "exogenous": (columns, columns)}
        functions |= {name: (back.shape[0], ahead.shape[0]) for name, (back, ahead) in bases.items()}

        def block(stack: StackName) -> BasisBlock:
            sizes = [lookback + extra, *hidden_sizes]
            return BasisBlock(
                sizes,
                functions[stack],
                outputs,
                bases=bases.get(stack),
                activation=activation,
                dropout=dropout,
                batch_norm=batch_norm,
            )

        self.names = stack_names(stacks)
        self.plan: list[tuple[str, int]] = []
        """For each step of the way, the stack's name and which block it uses."""
        self.exogenous: list[bool] = []
        self.blocks = nn.ModuleList()
        for stack, name, count in zip(stacks, self.names, blocks, strict=True):
            for repeat in range(count):
                if repeat == 0 or not share_weights:
                    self.blocks.append(block(stack))
                self.plan.append((name, len(self.blocks) - 1))
                self.exogenous.append(stack == "exogenous")

    def forward(
        self,
        y: Tensor,
        mask: Tensor | None = None,
        extra: Tensor | None = None,
        columns: tuple[Tensor, Tensor] | None = None,
    ) -> list[Tensor]:
        """The parts of the forecast in order, each [B, H, Q]; y and mask are [B, L]."""
        residual, parts = y, []
        for (_, number), exogenous in zip(self.plan, self.exogenous, strict=True):
            x = residual if extra is None else torch.cat([residual, extra], dim=1)
            backcast, forecast = self.blocks[number](x, columns if exogenous else None)
            residual = residual - backcast
            if mask is not None:
                residual = residual * mask
            parts.append(forecast)
        return parts

    def by_stack(self, parts: Sequence[Tensor]) -> dict[str, Tensor]:
        """The parts summed within each stack."""
        sums: dict[str, Tensor] = {}
        for (name, _), part in zip(self.plan, parts, strict=True):
            sums[name] = sums[name] + part if name in sums else part
        return sums


def stack_names(stacks: Sequence[StackName]) -> list[str]:
    """A name for each stack; a kind that comes again is numbered.

    >>> stack_names(["trend", "generic", "generic"])
    ['trend', 'generic', 'generic_2']
    """
    names: list[str] = []
    for position, stack in enumerate(stacks):
        before = list(stacks[:position]).count(stack)
        names.append(stack if before == 0 else f"{stack}_{before + 1}")
    return names
