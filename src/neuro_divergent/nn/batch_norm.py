"""Batch normalisation that several models share."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation of [B, D]. A training batch of one row uses the running statistics."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, D] → [B, D]"""
        if self.training and x.shape[0] == 1:
            # One row has no variance, and torch refuses it; but the last batch of an epoch may have one row.
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)
