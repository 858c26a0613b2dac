"""The level of a window: its last observed value.

Letters: B windows, L lookback, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor


def last_observed(y: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the last observed value of each channel, [B, L, C] → [B, 1, C]; 0 if nothing was observed.

    >>> y, mask = torch.tensor([[[1.0], [2.0], [0.0]]]), torch.tensor([[[True], [True], [False]]])
    >>> last_observed(y).item(), last_observed(y, mask).item()
    (0.0, 2.0)
    """
    if mask is None:
        return y[:, -1:]
    steps = torch.arange(y.shape[1], device=y.device).view(1, -1, 1)
    last = (mask * steps).amax(dim=1, keepdim=True)
    return torch.where(mask, y, 0.0).gather(1, last)
