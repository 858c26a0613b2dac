"""Causal and anticausal convolutions over time.

Letters: B windows, T steps, D width.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F


class OneSidedConvolution(nn.Conv1d):
    """A dilated convolution [B, D, T] → [B, D', T] over each step and earlier steps ("past") or later ("future")."""

    def __init__(
        self, width: int, outer: int, kernel: int, dilation: int = 1, *, sees: Literal["past", "future"] = "past"
    ) -> None:
        super().__init__(width, outer, kernel, dilation=dilation)
        reach = (kernel - 1) * dilation
        self.sides = (reach, 0) if sees == "past" else (0, reach)

    def forward(self, x: Tensor) -> Tensor:
        """[B, D, T] → [B, D', T], padded with zeros on one side."""
        return super().forward(F.pad(x, self.sides))
