"""Which checkpoints are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from neuro_divergent.training.config.checkpoints import Checkpoints


class Kept(NamedTuple):
    """What retention knows of a checkpoint."""

    name: str
    number: int
    """Which one of the run it is, counted from 1."""
    score: float | None
    """Its monitored value, made so that smaller is better; None before the first validation."""


def superfluous(settings: Checkpoints, present: Sequence[Kept]) -> list[str]:
    """Names that may be deleted, given all checkpoints from old to new, the newest known to verify.

    >>> kept = [Kept(f"step-{i}", i, score) for i, score in enumerate([3.0, 1.0, 2.0, 4.0], start=1)]
    >>> superfluous(Checkpoints("run", keep_last=1, keep_best=1), kept)
    ['step-1', 'step-3']
    """
    if settings.keep_last is None:
        return []
    keep = {item.name for item in present[-settings.keep_last :]}
    scored = sorted((item for item in present if item.score is not None), key=lambda item: (item.score, item.number))
    keep |= {item.name for item in scored[: settings.keep_best]}
    if settings.keep_every is not None:
        keep |= {item.name for item in present if item.number % settings.keep_every == 0}
    return [item.name for item in present if item.name not in keep]
