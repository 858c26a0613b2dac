"""Blocks that mix steps and features in turn.

Letters: B windows, T steps, D features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neuro_divergent.nn.batch_norm import BatchNorm


class BatchMixer(nn.Module):
    """TSMixer's block on [B, T, D]: normalise over the batch, mix the steps; normalise again, mix the features."""

    def __init__(self, steps: int, features: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.time_norm = BatchNorm(steps * features, eps=1e-3, momentum=0.01)
        self.time = nn.Linear(steps, steps)
        self.feature_norm = BatchNorm(steps * features, eps=1e-3, momentum=0.01)
        self.features = nn.Sequential(
            nn.Linear(features, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, features),
            nn.Dropout(dropout),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        x = x + self.dropout(torch.relu(self.time(_over(self.time_norm, x).transpose(1, 2)))).transpose(1, 2)
        mixed: Tensor = self.features(_over(self.feature_norm, x))
        return x + mixed


class TimeMixer(nn.Module):
    """Mixes the steps of [B, T, D] and normalises over both."""

    def __init__(self, steps: int, features: int, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(steps, steps)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm((steps, features))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        mixed: Tensor = self.norm(x + self.dropout(torch.relu(self.linear(x.transpose(1, 2)))).transpose(1, 2))
        return mixed


class FeatureMixer(nn.Module):
    """Mixes the features of [B, T, D], changing their number, and normalises over both."""

    def __init__(self, steps: int, inputs: int, outputs: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.mix = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, outputs), nn.Dropout(dropout)
        )
        self.skip = nn.Linear(inputs, outputs) if inputs != outputs else nn.Identity()
        self.norm = nn.LayerNorm((steps, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, inputs] → [B, T, outputs]"""
        mixed: Tensor = self.norm(self.mix(x) + self.skip(x))
        return mixed


def _over(norm: BatchNorm, x: Tensor) -> Tensor:
    normed: Tensor = norm(x.flatten(1))
    return normed.view_as(x)
