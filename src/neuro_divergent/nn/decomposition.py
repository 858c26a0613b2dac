"""Decomposition of a series into a moving average and the remainder.

Letters: B windows, T steps, D channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.errors import ConfigError


def check_odd(name: str, value: int) -> None:
    """Refuse an even length: a moving average needs a middle step."""
    if value % 2 == 0:
        raise ConfigError(f"{name} must be odd, but got {name}={value}. Try {value + 1}")


def moving_average_matrix(length: int, window: int) -> Tensor:
    """Return the matrix M with y @ M = moving average of y, padded with the first and the last value."""
    if torch.get_default_device().type == "meta":
        return torch.empty(length, length)  # no values needed; torch would load its compiler to compute them
    half = window // 2
    padded = F.pad(torch.eye(length).unsqueeze(1), (half, half), mode="replicate")
    return F.avg_pool1d(padded, window, stride=1).squeeze(1)


class Decomposition(nn.Module):
    """x = seasonal + trend, where the trend is a moving average with its ends padded by the first and last value.

    The average is linear, so it is one matrix: a buffer that is not saved.
    """

    average: Tensor

    def __init__(self, steps: int, window: int) -> None:
        super().__init__()
        self.register_buffer("average", moving_average_matrix(steps, window).t().contiguous(), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T, D] → seasonal part and trend, both [B, T, D]."""
        trend = self.average @ x
        return x - trend, trend
