"""Descriptions as a data frame."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from neuro_divergent.core.config import Description

if TYPE_CHECKING:
    import polars as pl


def frame_of(items: Sequence[Description], without: Collection[str] = ()) -> pl.DataFrame:
    """One row per description, one column per field, but for some fields."""
    import polars as pl

    rows = [{name: getattr(item, name) for name in type(item).model_fields if name not in without} for item in items]
    return pl.DataFrame(rows, infer_schema_length=None)
