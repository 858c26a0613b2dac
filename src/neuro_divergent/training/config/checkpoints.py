"""Where and when a run is saved, and what happens when something goes wrong."""

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
    # A Path would make s3:/bucket of s3://bucket.
    return Path(value) if isinstance(value, str) and not is_remote(value) else value


def _as_compression(value: object) -> object:
    return ("zstd" if value else None) if isinstance(value, bool) else value


Compression = Annotated[Literal["zstd"] | None, BeforeValidator(_as_compression)]
RunAddress = Annotated[Path | str, BeforeValidator(_as_address)]
"""A local directory, or an address that fsspec knows (s3://, gs://, memory://)."""


class Checkpoints(Description):
    """Where and when the state of a run is written, and how much of it is kept."""

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
    """How many of the best checkpoints are kept besides."""
    keep_every: Count | None = None
    """Every n-th checkpoint is kept for good besides."""
    asynchronous: bool = True
    """Write in the background while the training goes on; False waits for each write."""
    compression: Takes[Compression, bool | str | None] = default(None)
    """Compress the tensors: "zstd" (or True), None (or False) for plain ones."""
    on_failure: Literal["stop", "continue"] = "stop"
    """When a checkpoint cannot be written: stop with the error, or go on without it, say so and try the next one."""


class FaultTolerance(Description):
    """What a run survives on its own: crashes and hangs of its process, and a memory that is too small."""

    retries: Annotated[int, Field(ge=0)] = 3
    """How often a crashed or hung training is started again from its last checkpoint; 0 trains unsupervised."""
    health_check_interval: Seconds = 60.0
    """How often the training is looked at, in seconds. One that has finished no step since then counts as hung if that
    also lasts more than ten times as long as its slowest step so far, the first one with its compilation included."""
    startup_seconds: Seconds = 300.0
    """Seconds that starting up with the first step, one validation, or a checkpoint that is waited for may take; more
    if ten of the slowest steps take longer."""
    halve_on_out_of_memory: bool = True
    """Compute a batch in two halves, then four quarters, ... when the memory is too small for it; a validation, too."""
