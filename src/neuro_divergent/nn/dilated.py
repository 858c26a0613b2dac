"""Recurrent layers that skip steps.

Letters: B windows, T steps, D width, R dilation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

CellName = Literal["lstm", "gru", "rnn"]

_CELLS: dict[str, Callable[..., nn.RNNBase]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class DilatedLayer(nn.Module):
    """A recurrent layer with the state of `dilation` steps before, computed as interleaved sequences in one call."""

    def __init__(self, inputs: int, hidden: int, dilation: int, cell: CellName) -> None:
        super().__init__()
        self.dilation = dilation
        self.cell = _CELLS[cell](inputs, hidden, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, inputs] → [B, T, D]"""
        B, T, width = x.shape
        R = self.dilation
        # Pad at the end, where no real step depends on it.
        turns = -(-T // R)
        padded = F.pad(x, (0, 0, 0, turns * R - T)).view(B, turns, R, width)
        states, _ = self.cell(padded.transpose(1, 2).reshape(B * R, turns, width))
        joined: Tensor = states.view(B, R, turns, -1).transpose(1, 2).reshape(B, turns * R, -1)
        return joined[:, :T]
