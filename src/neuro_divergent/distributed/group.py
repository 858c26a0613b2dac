"""The processes of a run: who this process is, and what they tell each other.

Only numbers are exchanged, never objects: nothing is pickled.
"""

from __future__ import annotations

import atexit
import json
import os
import zlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from neuro_divergent.core.errors import DistributedError
from neuro_divergent.distributed.launched import launched


def _meet_at() -> str:
    """The address where the processes meet, as torch spells it."""
    given = os.environ
    if "MASTER_ADDR" not in given and "SLURM_STEP_ID" in given:
        host = given.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1")
        port = 20000 + int(given.get("SLURM_JOB_ID", "0")) % 10000
        return f"tcp://{host}:{given.get('MASTER_PORT', port)}"
    return "env://"


class Group:
    """The processes of a run. A group of one process needs no connection."""

    def __init__(self, rank: int = 0, world: int = 1) -> None:
        self.rank, self.world = rank, world

    @property
    def main(self) -> bool:
        """Whether this is the process that saves, logs and shows progress."""
        return self.rank == 0

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        if self.world == 1:
            return flag
        told = torch.tensor([float(flag)])
        self._do("any", dist.all_reduce, told, op=dist.ReduceOp.MAX)
        return bool(told.item() > 0)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place. Its last bits depend on the number of processes."""
        if self.world > 1:
            self._do("sum", dist.all_reduce, tensor)
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """[world, ...] the tensors of all processes, which have one shape, in the order of their ranks."""
        if self.world == 1:
            return tensor[None]
        found = [torch.empty_like(tensor) for _ in range(self.world)]
        self._do("gather", dist.all_gather, found, tensor)
        return torch.stack(found)

    def broadcast(self, tensor: Tensor, source: int) -> None:
        """Overwrite the tensor by that of one process."""
        if self.world > 1:
            self._do("broadcast", dist.broadcast, tensor, source)

    def share(self, text: str, source: int = 0) -> str:
        """The text of one process."""
        if self.world == 1:
            return text
        size = torch.tensor([len(text.encode())])
        self.broadcast(size, source)
        data = torch.zeros(int(size), dtype=torch.uint8)
        if self.rank == source:
            data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
        self.broadcast(data, source)
        return bytes(data.tolist()).decode()

    def to_main(self, tensor: Tensor | None, room: Tensor, source: int) -> Tensor | None:
        """The tensor of another process, in the main process, written into `room`; None elsewhere."""
        if self.rank == source and tensor is not None:
            self._do("to_main", dist.send, tensor.cpu().contiguous(), 0)
        elif self.main:
            self._do("to_main", dist.recv, room, source)
            return room
        return None

    def tree_sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, added in the order of a binary tree: the same bits in every process, and the
        same bits as one process that adds the same parts in this order. The number of processes is a power of two.
        """
        step = 1
        while step < self.world:
            other = torch.empty_like(tensor)
            partner = self.rank ^ step
            self._do("tree_sum", self._swap, tensor, other, partner)
            # a + b has the bits of b + a, so both partners get the same sum.
            tensor = tensor.add_(other)
            step *= 2
        return tensor

    @staticmethod
    def _swap(own: Tensor, other: Tensor, partner: int) -> None:
        both = [dist.P2POp(dist.isend, own, partner), dist.P2POp(dist.irecv, other, partner)]
        for one in dist.batch_isend_irecv(both):
            one.wait()

    def all_equal(self, facts: Mapping[str, Any]) -> list[str]:
        """The names of the facts that are not equal in all processes."""
        if self.world == 1:
            return []
        sums = [zlib.crc32(json.dumps(value, sort_keys=True, default=str).encode()) for value in facts.values()]
        told = self.gather(torch.tensor(sums, dtype=torch.int64))
        return [name for name, column in zip(facts, told.T, strict=True) if bool((column != column[0]).any())]

    def _do(self, what: str, action: Any, *arguments: Any, **options: Any) -> None:
        try:
            action(*arguments, **options)
        except RuntimeError as error:
            raise self.lost(what, error) from error

    def lost(self, what: str, error: RuntimeError) -> DistributedError:
        """The error to raise when a message could not be exchanged."""
        return DistributedError(
            f"the {self.world} processes of a run must stay connected, but process {self.rank} lost another one "
            f"({what}): {str(error).splitlines()[0]}. Continue from the last checkpoint with resume='auto'"
        )


def join(backend: str, timeout: float) -> Group:
    """Meet the other processes of the launcher, once per process, and return the group."""
    place = launched()
    if place is None or place.world == 1:
        return Group()
    if not dist.is_initialized():
        if backend == "nccl":  # the weights are on the GPU of this process, and what is agreed on is on the CPU
            torch.cuda.set_device(place.local_rank % torch.cuda.device_count())
        try:
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if backend == "nccl" else backend,
                init_method=_meet_at(),
                rank=place.rank,
                world_size=place.world,
                timeout=timedelta(seconds=timeout),
            )
        except (RuntimeError, ValueError) as error:
            raise DistributedError(
                f"process {place.rank} of {place.world} must reach the others at "
                f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}, but could not: "
                f"{str(error).splitlines()[0]}"
            ) from error
        # A process that ends with open connections may be aborted by gloo's threads.
        atexit.register(leave)
    return Group(dist.get_rank(), dist.get_world_size())


def leave() -> None:
    """Close the connections to the other processes."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def main_process() -> bool:
    """Whether this process writes files: the first of the processes that train together, or the only one."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0
