"""Which checkpoints to keep and which to delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from neuro_divergent.training.config.checkpoints import Checkpoints


class Kept(NamedTuple):
    """The facts about a checkpoint that retention needs."""

    name: str
    number: int
    """Number of the checkpoint in the run, counted from 1."""
    score: float | None
    """Monitored value, with its sign such that smaller is better; None before the first validation."""


def superfluous(settings: Checkpoints, present: Sequence[Kept]) -> list[str]:
    """Names of the checkpoints to delete. `present` has all checkpoints, oldest first; the newest is verified.

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
