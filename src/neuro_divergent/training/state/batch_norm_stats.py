"""Running statistics of batch norms: a repeated forward pass, or a step that is not finite, must not change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase


def _norms(modules: Iterable[nn.Module]) -> list[_NormBase]:
    found = [child for module in modules for child in module.modules() if isinstance(child, _NormBase)]
    return [norm for norm in found if norm.track_running_stats]


@contextmanager
def frozen_statistics(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Context in which forward passes do not change the running statistics of these modules."""
    norms = _norms(modules)
    momenta = [norm.momentum for norm in norms]
    counts = [None if norm.num_batches_tracked is None else norm.num_batches_tracked.clone() for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum, count in zip(norms, momenta, counts, strict=True):
            norm.momentum = momentum
            if count is not None and norm.num_batches_tracked is not None:
                norm.num_batches_tracked.copy_(count)


class RunningStatistics:
    """A copy of a module's running statistics, to restore them after a step that was not finite."""

    def __init__(self, module: nn.Module) -> None:
        # Collected once: most networks have none, and then a step costs nothing.
        self.tensors: list[Tensor] = [buffer for norm in _norms([module]) for buffer in norm.buffers()]
        self.kept: list[Tensor] = []

    def remember(self) -> None:
        """Copy the present statistics."""
        if self.tensors:
            self.kept = [tensor.clone() for tensor in self.tensors]

    @torch.no_grad()
    def restore(self) -> None:
        """Restore the copy."""
        for tensor, kept in zip(self.tensors, self.kept, strict=False):
            tensor.copy_(kept)
