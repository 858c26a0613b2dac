"""What this machine can do of the settings, before any process is started."""

from __future__ import annotations

import torch

from neuro_divergent.core.errors import ConfigError, DeviceError
from neuro_divergent.distributed.settings import Distributed


def backend_of(settings: Distributed) -> str:
    """The backend that "auto" means here; raises if the chosen one cannot work."""
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
