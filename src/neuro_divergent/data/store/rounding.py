"""Different values that become one in float32: large numbers whose digits after the seventh carry the signal."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import Advice

Ints = npt.NDArray[np.int64]

LEVELS = 256
"""A series whose range has this many different float32 numbers keeps what a model can learn from."""
NOISE = 1e-13
"""A range below this share of the values is the rounding of float64 itself."""
SETTINGS = {"advice": (Advice("data.dtype", "float64"), Advice("training.precision", "float64"))}
"""The settings of the advice, for `extra` of a log record."""
ADVICE = (
    'Load the table with dtype="float64" and train with precision="float64", or subtract a constant from the column.'
)


def merged_by_rounding(values: npt.NDArray[Any], first: Ints, series: Ints, count: int) -> Ints:
    """[S] how many different values of each series become equal to another one of it in float32.

    Series whose range is wide compared with the rounding are not looked at: they have 0.

    Args:
        values: [N] exact ones; NaN where there is none.
        first: [R] the row in which each run of rows of one series begins.
        series: [R] the number of the series of each run.
        count: S, how many series there are.
    """
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.fmin.at(low, series, np.fmin.reduceat(values, first))
    np.fmax.at(high, series, np.fmax.reduceat(values, first))
    size = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore", over="ignore"):
        spread = high - low
        close = (spread > NOISE * size) & (spread < LEVELS * np.spacing(size.astype(np.float32)))
    merged = np.zeros(count, dtype=np.int64)
    if not close.any():
        return merged
    lengths = np.diff(np.append(first, len(values)))
    rows = np.repeat(close[series], lengths)
    table = pl.DataFrame({"series": np.repeat(series, lengths)[rows], "value": values[rows]})
    if table["value"].dtype.is_float():
        table = table.filter(pl.col("value").is_finite())
    different = table.group_by("series").agg(
        (pl.col("value").n_unique() - pl.col("value").cast(pl.Float32).n_unique()).alias("merged")
    )
    merged[different["series"].to_numpy()] = different["merged"].to_numpy()
    return merged


def described(merged: dict[Any, int]) -> str:
    """What rounding did to some series, and what to do about it."""
    name = max(merged, key=lambda name: merged[name])
    return (
        f"{len(merged):,} series have large values that differ too little for float32: {sum(merged.values()):,} "
        f"different targets became equal to another, {merged[name]:,} of them in series {name!r}. {ADVICE}"
    )
