"""Settings of checkpoints and of fault tolerance."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from neuro_divergent.core.config import Description
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.core.runs.names import is_remote as is_remote

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


def _as_address(value: object) -> object:
    # A Path would turn s3://bucket into s3:/bucket.
    return Path(value) if isinstance(value, str) and not is_remote(value) else value


def _as_compression(value: object) -> object:
    return ("zstd" if value else None) if isinstance(value, bool) else value


Compression = Annotated[Literal["zstd"] | None, BeforeValidator(_as_compression)]
RunAddress = Annotated[Path | str, BeforeValidator(_as_address)]
"""A local directory, or an address that fsspec supports (s3://, gs://, memory://)."""


class Checkpoints(Description):
    """Where and when the state of a run is saved, and how many checkpoints are kept."""

    writes: ClassVar[tuple[str, ...]] = ("directory",)

    directory: Takes[RunAddress, str | os.PathLike[str]] = Field(kw_only=False)
    """The run's directory: a local one, or an address such as s3://bucket/run."""
    every_n_epochs: Count | None = 10
    """Save after every n-th epoch."""
    every_n_steps: Count | None = None
    """Save after every n-th optimizer step."""
    every_n_minutes: Annotated[float, Field(gt=0)] | None = None
    """Save at the first step after every n minutes."""
    on_best: bool = False
    """Save whenever the monitored value improves."""
    on_stop: bool = True
    """Save when the training ends or is stopped."""
    keep_last: Count | None = 5
    """How many of the newest checkpoints are kept; None keeps all."""
    keep_best: Annotated[int, Field(ge=0)] = 0
    """How many of the best checkpoints are kept in addition."""
    keep_every: Count | None = None
    """Every n-th checkpoint is kept forever in addition."""
    asynchronous: bool = True
    """Write in the background while the training continues; False waits for each write."""
    compression: Takes[Compression, bool | str | None] = default(None)
    """Compress the tensors: "zstd" (or True); None (or False) for no compression."""
    on_failure: Literal["stop", "continue"] = "stop"
    """When a checkpoint cannot be written: stop with the error, or warn and try again at the next checkpoint."""


class FaultTolerance(Description):
    """What a run survives by itself: crashes and hangs of its process, and too little memory."""

    retries: Annotated[int, Field(ge=0)] = 3
    """How often a crashed or hung training is restarted from its last checkpoint; 0 trains without supervision."""
    health_check_interval: Seconds = 60.0
    """How often the training is checked, in seconds. It counts as hung if it has finished no step since the last check,
    and for more than ten times its slowest step so far (the first step with its compilation included)."""
    startup_seconds: Seconds = 300.0
    """Maximum number of seconds for the start with the first step, for one validation, or for waiting for a checkpoint;
    longer if ten of the slowest steps take longer."""
    halve_on_out_of_memory: bool = True
    """If a batch does not fit into memory, compute it in two halves, then four quarters, ...; a validation, too."""
