"""Anchors: the network forecasts the difference to a naive forecast.

Letters: B windows, L lookback, H horizon, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Anchor(nn.Module):
    """The naive forecast of a scaled window, [B, L, C] → [B, H, C].

    With one length, the last season of that length is repeated (length 1: the last value). Several lengths are mixed
    with learned weights per step of the horizon. The weights start equal.
    """

    def __init__(self, lengths: tuple[int, ...], horizon: int) -> None:
        super().__init__()
        self.lengths = lengths
        self.horizon = horizon
        self.logits = nn.Parameter(torch.zeros(len(lengths), horizon, 1)) if len(lengths) > 1 else None

    def forward(self, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """The naive forecast. A missing value is taken from an earlier season, else it is 0."""
        parts = [self._season(y, mask, length) for length in self.lengths]
        if self.logits is None:
            return parts[0]
        return (torch.stack(parts, dim=1) * self.logits.softmax(dim=0)).sum(dim=1)

    def _season(self, y: Tensor, mask: Tensor | None, length: int) -> Tensor:
        season = y[:, -length:]
        if mask is not None:
            season = torch.where(mask[:, -length:], season, 0.0)
            known = mask[:, -length:]
            for back in range(2, y.shape[1] // length + 1):
                first, last = -back * length, -(back - 1) * length
                earlier = mask[:, first:last] & ~known
                season = torch.where(earlier, y[:, first:last], season)
                known = known | earlier
        repeats = -(-self.horizon // length)
        return season.repeat(1, repeats, 1)[:, : self.horizon]


def remembered(seasons: tuple[int, ...], lookback: int) -> tuple[int, ...]:
    """The season lengths, and twice the strongest (first) one if the lookback window is long enough.

    The mean of the same hour in the last two weeks is less noisy than that of the last week alone.

    >>> remembered((168, 24), 336), remembered((168, 24), 168)
    ((168, 24, 336), (168, 24))
    """
    twice = 2 * seasons[0]
    return seasons if twice > lookback or twice in seasons else (*seasons, twice)
