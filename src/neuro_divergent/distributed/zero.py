"""Divides the optimizer's state over the processes: each updates its own weights and sends them to the others.

torch's ZeroRedundancyOptimizer does the same for optimizers that it builds itself. Here the optimizer is the one of the
description, whose groups know the names of their parameters, so that a checkpoint does not depend on the division.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.distributed.group import Group
from neuro_divergent.optim import load_state, state_tensors
from neuro_divergent.optim.train_eval_weights import has_modes


class DividedOptimizer:
    """The part of an optimizer that this process keeps.

    Args:
        optimizer: the whole optimizer, before its first step. Here it loses the parameters of the other processes.
        parameters: all trained parameters, in one order for all processes.
        group: the processes.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor], group: Group) -> None:
        if isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer) or not all(
            "names" in one for one in optimizer.param_groups
        ):
            raise ConfigError(
                f'strategy="zero" divides one optimizer, but {type(optimizer).__name__} has others inside. Use '
                'strategy="ddp", or AdamW, Adam, SGD or another single one'
            )
        if has_modes(optimizer):
            raise ConfigError(
                f'strategy="zero" updates each weight in one process, but {type(optimizer).__name__} keeps other '
                'weights for validation in all of them. Use strategy="ddp", or AdamW, Adam or SGD'
            )
        self.optimizer, self.group = optimizer, group
        self.owner = owners([parameter.numel() for parameter in parameters], group.world)
        self._by_owner = [
            [one for one, owner in zip(parameters, self.owner, strict=True) if owner == rank]
            for rank in range(group.world)
        ]
        own = {id(parameter) for parameter in self._by_owner[group.rank]}
        for settings in optimizer.param_groups:
            kept = [pair for pair in zip(settings["names"], settings["params"], strict=True) if id(pair[1]) in own]
            settings["names"], settings["params"] = [name for name, _ in kept], [one for _, one in kept]

    @torch.no_grad()
    def share_weights(self) -> None:
        """Send the weights that this process has updated, and receive the others."""
        for rank, parameters in enumerate(self._by_owner):
            if not parameters:
                continue
            flat = torch.cat([parameter.reshape(-1) for parameter in parameters])
            self.group.broadcast(flat, rank)
            if rank != self.group.rank:
                sizes = [parameter.numel() for parameter in parameters]
                for parameter, values in zip(parameters, flat.split_with_sizes(sizes), strict=True):
                    parameter.copy_(values.view_as(parameter))

    def collect(self) -> dict[str, Tensor]:
        """The whole state by name, in the main process; every process must call this. Elsewhere the own part."""
        own = state_tensors(self.optimizer)
        whole = dict(own)
        for rank in range(1, self.group.world):
            forms = {name: [str(one.dtype).split(".")[1], list(one.shape)] for name, one in own.items()}
            layout = json.loads(self.group.share(json.dumps(forms), rank))
            for name, (dtype, shape) in layout.items():
                found = self.group.to_main(own.get(name), torch.empty(shape, dtype=getattr(torch, dtype)), rank)
                if found is not None:
                    whole[name] = found
        return whole

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the own part of a whole state."""
        own = {name for settings in self.optimizer.param_groups for name in settings["names"]}
        load_state(self.optimizer, {key: one for key, one in tensors.items() if key.rpartition("/")[0] in own})

    def bytes(self) -> int:
        """Memory of the state in this process."""
        return sum(one.nbytes for one in state_tensors(self.optimizer).values())


def owners(sizes: Sequence[int], world: int) -> list[int]:
    """The process that keeps each parameter: the largest first, to the one that has least.

    >>> owners([10, 4, 4, 2], 2)
    [0, 1, 1, 1]
    """
    load, found = [0] * world, [0] * len(sizes)
    for index in sorted(range(len(sizes)), key=lambda one: (-sizes[one], one)):
        found[index] = load.index(min(load))
        load[found[index]] += sizes[index]
    return found
