"""The strategy of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuro_divergent.core.errors import ConfigError, DeviceError, TrainingError
from neuro_divergent.distributed.exact import Exact
from neuro_divergent.distributed.fast import Fast
from neuro_divergent.distributed.group import Group, join
from neuro_divergent.distributed.launched import launched
from neuro_divergent.distributed.local import Local
from neuro_divergent.distributed.ranks import Ranks
from neuro_divergent.training.step.eager import Eager

if TYPE_CHECKING:
    from typing import Any

    from neuro_divergent.distributed.settings import Distributed
    from neuro_divergent.training.state.state import TrainState
    from neuro_divergent.training.state.task import Task
    from neuro_divergent.training.step.strategy import Step, Strategy


class NotStarted(Eager):
    """Stands for the other processes in the one that starts them: it loads their result, and takes no step."""

    def step(self, task: Task, state: TrainState, batch: Any) -> Step:  # noqa: ARG002
        """Refuse to train alone."""
        raise TrainingError(
            "this training needs several processes, and nobody has started them. Call fit of a model, or run the "
            "script with torchrun --nproc-per-node=2 script.py"
        )


def build(settings: Distributed) -> Strategy:
    """The strategy of this process: joined to the others if a launcher started it."""
    place = launched()
    if place is None and settings.wanted > 1:
        return NotStarted()
    group = Group() if place is None else join(backend_of(settings), settings.timeout)
    if settings.exact:
        settings._check_power(group.world)
    return _kind(settings)(settings, group)


def _kind(settings: Distributed) -> type[Ranks]:
    if settings.exact:
        return Exact
    return Local if settings.synchronization == "local" else Fast


def backend_of(settings: Distributed) -> str:
    """The backend that "auto" means here; raises if the chosen one cannot work."""
    import torch

    gpus = torch.cuda.device_count()
    chosen = settings.backend if settings.cluster is None else settings.cluster.backend
    if settings.devices is not None and (missing := [one for one in settings.devices if one >= gpus]):
        there = f"has {', '.join(map(str, range(gpus)))}" if gpus else "has no GPU"
        raise DeviceError(
            f"devices must be GPUs of this machine, but got {', '.join(map(str, missing))}, and this machine {there}. "
            "Use processes=2 to train on the CPU"
        )
    if chosen == "nccl" and not gpus:
        raise DeviceError('backend="nccl" connects GPUs, but this machine has none. Use backend="gloo" or "auto"')
    if chosen == "auto":
        return "nccl" if gpus and (settings.devices is not None or settings.processes == "auto") else "gloo"
    return chosen


def check(settings: Distributed, batch_size: int) -> None:
    """Refuse settings with which the processes could not train, before they are started."""
    backend_of(settings)
    if settings.wanted > batch_size:
        raise ConfigError(
            f"each process needs at least one window of a batch, but got {settings.wanted} processes and batches of "
            f"{batch_size}. Use fewer processes or a larger batch_size"
        )
