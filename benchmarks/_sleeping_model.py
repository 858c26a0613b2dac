"""A model that hangs in the middle of its training, in a module of its own that another process can import."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

import neuro_divergent as nd
from neuro_divergent.core.batch import Batch, InputSpec


class Sleeps(nd.Model):
    """Sleeps for an hour from its sixth step on."""

    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes."""
        return _Network(spec)


class _Network(nn.Module):
    def __init__(self, spec: InputSpec) -> None:
        super().__init__()
        self.linear = nn.Linear(spec.lookback, spec.horizon)
        self.calls = 0

    def forward(self, batch: Batch) -> Tensor:
        self.calls += 1
        if self.calls > 5:
            time.sleep(3600)
        return self.linear(batch.y[:, :, 0])[:, :, None, None]


def absolute(output: Tensor, target: Tensor) -> Tensor:
    """A loss of one's own: no file can have it, so a search with it stays in its process."""
    return torch.abs(output - target)
