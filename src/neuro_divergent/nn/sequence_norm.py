"""Normalisation of sequences.

Letters: B windows, T steps, D width.
"""

from __future__ import annotations

from torch import Tensor, nn

from neuro_divergent.nn.batch_norm import BatchNorm


class FeatureNorm(BatchNorm):
    """Batch normalisation of each of the D features of [B, T, D], over windows and steps together."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        return super().forward(x.flatten(0, 1)).view_as(x)


class SeasonalNorm(nn.LayerNorm):
    """Layer normalisation, then the mean over time is subtracted: a seasonal part has no level."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        normed = super().forward(x)
        return normed - normed.mean(dim=1, keepdim=True)
