"""The settings of a training in several processes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.distributed.cluster import Cluster
from neuro_divergent.distributed.launched import launched
from neuro_divergent.training.config.strategy import StrategySettings

if TYPE_CHECKING:
    from neuro_divergent.training.step.strategy import Strategy

Count = Annotated[int, Field(ge=1)]
OTHER_WORDS = {"data_parallel": "ddp", "zero1": "zero", "zero_redundancy": "zero", "fully_sharded": "fsdp"}


def _strategy(value: Any) -> Any:
    return OTHER_WORDS.get(value, value) if isinstance(value, str) else value


def _devices(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class Distributed(StrategySettings):
    """Train in several processes, on one machine or on several.

        nd.NHITS(h=24, input_size=96).fit(data, nd.TrainingConfig(distributed=nd.Distributed(processes=2)))

    `fit` starts the processes itself and returns the forecaster. In a process that a launcher started (torchrun, SLURM,
    Kubernetes), it joins the others instead, and the launcher's number of processes counts.
    """

    processes: Count | Literal["auto"] = "auto"
    """Number of processes on this machine; "auto" is one per device, or one per core without GPUs."""
    devices: Takes[
        Annotated[tuple[Annotated[int, Field(ge=0)], ...] | None, BeforeValidator(_devices)], list[int] | None
    ] = default(None)
    """Numbers of the GPUs to use, one process each; None for all of them, or the CPU."""
    strategy: Annotated[Literal["ddp", "zero"], BeforeValidator(_strategy)] = "ddp"
    """ddp: each process has the whole optimizer. zero: each keeps the optimizer state of a part of the weights."""
    synchronization: Literal["all_reduce", "local"] = "all_reduce"
    """all_reduce: gradients are added in every step. local: each process trains alone and the weights are averaged
    every `local_steps` steps, which is another training, for slow networks."""
    local_steps: Count = 16
    """Steps between two averages, for synchronization="local"."""
    backend: Literal["auto", "gloo", "nccl"] = "auto"
    """What carries the messages: nccl between GPUs, else gloo."""
    batch_size_per_device: Count | None = None
    """Windows per process and step. None divides the batch size of the training."""
    exact: bool = False
    """Give the same bits for 1, 2, 4, ... processes. Costs a part of the speed."""
    shards: Count = 8
    """For exact=True: into how many parts each batch is cut, a power of two. At most so many processes take part."""
    batch_norm: Literal["refuse", "per_process"] = "refuse"
    """A batch norm uses the mean of the rows that a process sees, with exact=True of a shard: per_process allows it."""
    threads: Count = 1
    """Threads of each process, unless `threads` of the training is a number."""
    max_restarts: Annotated[int, Field(ge=0)] = 3
    """How often all processes are started again, from the last checkpoint, after one of them has died or hung."""
    timeout: Annotated[float, Field(gt=0.0)] = 300.0
    """Seconds after which a process that does not answer counts as lost."""
    cluster: Cluster | None = None
    """The machines, if there are several; see `Cluster.commands`."""

    writes: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.shards & (self.shards - 1):
            raise ConfigError(f"shards must be a power of two, but got shards={self.shards}")
        if self.devices is not None and (not self.devices or len(set(self.devices)) < len(self.devices)):
            raise ConfigError(f"devices must be different numbers of GPUs, but got devices={list(self.devices)}")
        if self.devices is not None and self.processes not in ("auto", len(self.devices)):
            raise ConfigError(
                f"there is one process per device, but got processes={self.processes} and "
                f"{len(self.devices)} devices. Leave processes out"
            )
        if self.exact and self.synchronization == "local":
            raise ConfigError(
                'exact=True adds the gradients of every step in one order, but got synchronization="local", which '
                "adds none. Leave one of them out"
            )
        if self.strategy == "zero" and self.synchronization == "local":
            raise ConfigError(
                'strategy="zero" divides one optimizer, but synchronization="local" has one per process. Leave one of '
                "them out"
            )
        if self.local_steps != type(self).model_fields["local_steps"].default and self.synchronization != "local":
            raise ConfigError('local_steps is for synchronization="local", but got synchronization="all_reduce"')
        if self.cluster is not None and (self.processes != "auto" or self.devices is not None):
            raise ConfigError(
                "a cluster says how many processes each machine has, but got processes or devices, too. Set gpus or "
                "processes of its nodes"
            )
        if self.exact:
            self._check_power(self.wanted if self.processes != "auto" or self.cluster else 1)
        return self

    def _check_power(self, world: int) -> None:
        if world & (world - 1) or world > self.shards:
            possible = ", ".join(str(1 << bit) for bit in range(self.shards.bit_length()))
            raise ConfigError(
                f"exact=True with shards={self.shards} trains with {possible} processes, but got {world}. Choose one "
                "of these, or set shards or exact=False"
            )

    @property
    def wanted(self) -> int:
        """The number of all processes, before a launcher says another."""
        if self.cluster is not None:
            return self.cluster.world
        if self.devices is not None:
            return len(self.devices)
        if self.processes == "auto":
            return _gpus() or _cores() // self.threads or 1
        return int(self.processes)

    def batch_size(self, given: int) -> int:
        """Windows per step of all processes: the given number, or `batch_size_per_device` for each."""
        place = launched()
        world = self.wanted if place is None else place.world
        return given if self.batch_size_per_device is None else self.batch_size_per_device * world

    def build(self) -> Strategy:
        """The strategy of this process: joined to the others in a launched process, else one that only loads."""
        from neuro_divergent.distributed.build import build

        return build(self)


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
