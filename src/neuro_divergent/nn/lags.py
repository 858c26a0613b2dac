"""Lags of the target as columns of each step: what was observed one season, or any number of steps, before.

Letters: B windows, L lookback, H horizon, R steps that are read, K lags.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import InputSpec

LEAST_READ = 16
"""A sequence network with lags reads at least this many steps, if the window has them."""


def steps_read(spec: InputSpec) -> int:
    """Number of last steps of the window that a sequence network reads one by one.

    Without lags it reads the whole window. With lags the older rows are seen through the lags. Then the last steps are
    enough: as many as the horizon, at least two of the shortest lag.

    >>> steps_read(InputSpec(horizon=24, lookback=336))
    336
    >>> steps_read(InputSpec(horizon=24, lookback=336, lags=(24, 168)))
    48
    """
    if not spec.lags:
        return spec.lookback
    return min(spec.lookback, max(spec.horizon, 2 * min(spec.lags), LEAST_READ))


class TargetLags(nn.Module):
    """The target some steps before each step, for the steps that are read and for those of the horizon.

    A step reads 0, the scaled mean, where a lag reaches before the window. For a horizon step, a lag that would reach
    into the horizon is doubled, tripled, ... until it does not: the last rows of that length are repeated.
    """

    past: Tensor
    ahead: Tensor

    def __init__(self, spec: InputSpec) -> None:
        super().__init__()
        self.longest = max(spec.lags)
        L, lags = spec.lookback, torch.tensor(spec.lags)
        steps = torch.arange(L - steps_read(spec), L).unsqueeze(1)
        self.register_buffer("past", self.longest + steps - lags, persistent=False)
        self.register_buffer("ahead", L - lags + torch.arange(spec.horizon).unsqueeze(1) % lags, persistent=False)

    def forward(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """[B, L, 1] → [B, R, K] and [B, H, K]"""
        flat = y.squeeze(-1)
        return nn.functional.pad(flat, (self.longest, 0))[:, self.past], flat[:, self.ahead]
