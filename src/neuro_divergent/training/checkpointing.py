"""Where and when a run is saved, and what happens when something goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from neuro_divergent.core.config import Description

Count = Annotated[int, Field(ge=1)]


class Checkpoints(Description):
    """Where and when the state of a run is written, and how much of it is kept."""

    positional: ClassVar[tuple[str, ...]] = ("directory",)

    directory: Path
    """The run's directory."""
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
