"""Where a model came from: the training that made it, the model that was continued, the data."""

from __future__ import annotations

import uuid
from dataclasses import dataclass


@dataclass(frozen=True)
class Lineage:
    """The identity of a trained model."""

    run_id: str
    """Names the training: 32 random hexadecimal digits. `update` and `fine_tune` make a new one."""
    parent_id: str | None = None
    """The run_id of the model that this one was continued from; None for one that was trained from the start."""
    data_fingerprint: str | None = None
    """The sha256 of the table that it was trained on, as `SeriesStore.fingerprint` computes it."""


def new_lineage(parent: Lineage | None = None) -> Lineage:
    """A new identity, drawn by the operating system: the generators of a training are not touched."""
    return Lineage(uuid.uuid4().hex, None if parent is None else parent.run_id)
