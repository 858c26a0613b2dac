"""Work in numbered parts that the processes of a launcher divide; each gets all results, in their order."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from neuro_divergent.distributed.group import Group

Floats = npt.NDArray[np.float64]


def spread(count: int, compute: Callable[[int], Floats]) -> list[Floats]:
    """The results of all parts. With one process, or one part, nothing is exchanged.

    Every process of the run must call it for the same parts.
    """
    if count < 2 or not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return [compute(number) for number in range(count)]
    group = Group(dist.get_rank(), dist.get_world_size())
    own = {number: compute(number) for number in range(group.rank, count, group.world)}
    found = []
    for number in range(count):
        owner = number % group.world
        part = own.get(number)
        shape = json.loads(group.share(json.dumps([] if part is None else part.shape), owner))
        values = torch.from_numpy(np.ascontiguousarray(part)) if part is not None else torch.empty(shape).double()
        group.broadcast(values, owner)
        found.append(values.numpy())
    return found
