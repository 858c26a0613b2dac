"""The origin of a model: the training that made it, its parent model, the data."""

from __future__ import annotations

import uuid
from dataclasses import dataclass


@dataclass(frozen=True)
class Lineage:
    """The identity of a trained model."""

    run_id: str
    """Names the training: 32 random hexadecimal digits. `update` and `fine_tune` make a new one."""
    parent_id: str | None = None
    """The run_id of the parent model; None for a model that was trained from the start."""
    data_fingerprint: str | None = None
    """The sha256 of the training table, as `SeriesStore.fingerprint` computes it."""


def new_lineage(parent: Lineage | None = None) -> Lineage:
    """A new identity, drawn by the operating system: the random generators of a training are not used."""
    return Lineage(uuid.uuid4().hex, None if parent is None else parent.run_id)
