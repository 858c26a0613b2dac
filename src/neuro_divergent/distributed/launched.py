"""What a launcher (torchrun, Kubernetes, SLURM) tells a process about itself and the others."""

from __future__ import annotations

import os
from typing import NamedTuple

from neuro_divergent.core.errors import ConfigError

TORCHRUN = ("RANK", "WORLD_SIZE")
"""Environment variables that every launcher of torch sets for its processes."""


class Launched(NamedTuple):
    """What a launcher tells a process."""

    rank: int
    world: int
    local_rank: int


def launched() -> Launched | None:
    """The number of this process and of all processes, from torchrun, Kubernetes or SLURM; None without a launcher."""
    given = os.environ
    if all(name in given for name in TORCHRUN):
        return _numbers(given["RANK"], given["WORLD_SIZE"], given.get("LOCAL_RANK", "0"))
    # SLURM sets SLURM_NTASKS in an interactive shell, too. Only srun, which starts the processes, sets a step.
    if "SLURM_STEP_ID" in given and given.get("SLURM_JOB_NAME") not in ("bash", "interactive"):
        found = _numbers(given["SLURM_PROCID"], given["SLURM_NTASKS"], given.get("SLURM_LOCALID", "0"))
        return found if found.world > 1 else None
    return None


def _numbers(rank: str, world: str, local: str) -> Launched:
    try:
        found = Launched(int(rank), int(world), int(local))
    except ValueError:
        found = Launched(-1, 0, 0)
    if not 0 <= found.rank < found.world:
        raise ConfigError(
            f"a launcher numbers its processes from 0 to the world size, but got RANK={rank} and WORLD_SIZE={world}"
        )
    return found
