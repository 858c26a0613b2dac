"""The series of a table, end to end: one array per column, offsets per series, never padded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import DataError

Array = npt.NDArray[np.generic]

ROW_ARRAYS = ("y", "mask", "future", "historical", "categorical", "weight")
"""The fields with an entry for every row."""

SERIES_ARRAYS = ("ids", "start", "static", "static_categorical")
"""The fields with an entry for every series."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SeriesStore:
    """Columns end to end with offsets per series; a mask only where something is missing."""

    ids: npt.NDArray[np.generic]
    """[S] the name of each series, sorted."""
    offsets: npt.NDArray[np.int64]
    """[S + 1] series s is rows offsets[s] : offsets[s + 1]."""
    y: npt.NDArray[np.floating]
    """[N] target, 0 where missing; float32 unless float64 was asked for."""
    start: npt.NDArray[np.generic]
    """[S] time of each series' first row: datetime64[us] (UTC when there is a zone), or int64."""
    freq: str
    """The distance of two rows in polars spelling ("1h", "1mo", "1bd" for business days, "1i" for integers)."""
    time_zone: str | None = None
    mask: npt.NDArray[np.bool_] | None = None
    """[N] true where y was observed; None when everything was."""
    future: npt.NDArray[np.floating] | None = None
    """[N, F]"""
    historical: npt.NDArray[np.floating] | None = None
    """[N, X]"""
    static: npt.NDArray[np.floating] | None = None
    """[S, number of static columns]"""
    categorical: npt.NDArray[np.int32] | None = None
    """[N, K] codes of the time-varying categorical columns, 0 = unknown."""
    static_categorical: npt.NDArray[np.int32] | None = None
    """[S, K'] codes of the categorical columns that are constant per series, 0 = unknown."""
    weight: npt.NDArray[np.floating] | None = None
    """[N] importance of each row."""
    future_names: tuple[str, ...] = ()
    historical_names: tuple[str, ...] = ()
    static_names: tuple[str, ...] = ()
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For each categorical column (time-varying first, then static), its known values; the code of values[i] is i+1."""

    def __post_init__(self) -> None:
        if self.ids.dtype == object:
            object.__setattr__(self, "ids", np.array([str(name) for name in self.ids], dtype=np.str_))
        for name, array in self.arrays().items():
            object.__setattr__(self, name, np.ascontiguousarray(array))
            expected = len(self.y) if name in ROW_ARRAYS else len(self.ids) + (name == "offsets")
            if len(array) != expected:
                raise DataError(f"{name} must have {expected} entries, but got {len(array)}")
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.y) or bool((np.diff(self.offsets) < 0).any()):
            raise DataError(f"offsets must rise from 0 to the {len(self.y)} rows, but got {self.offsets}")

    def __repr__(self) -> str:
        return f"SeriesStore({len(self.ids)} series, {len(self.y)} rows, freq {self.freq!r}, {self.dtype})"

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """[S] rows per series."""
        return np.diff(self.offsets)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The precision of the target."""
        return self.y.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, on disk or in memory."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, Array]:
        """Every array that the store has, by the name of its field."""
        names = ("offsets", *SERIES_ARRAYS, *ROW_ARRAYS)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def fingerprint(self) -> str:
        """A hash of every value, name and time stamp: the same data, in memory or on disk, has the same one."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        from neuro_divergent.data.store.files import fingerprint

        return fingerprint(self)

    def save(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the store as a directory of plain arrays; the directory is there whole, or it is not there."""
        from neuro_divergent.data.store.files import save_store

        save_store(self, directory, overwrite=overwrite)

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> SeriesStore:
        """Map a saved store into memory; rows are read from the disk when they are used."""
        from neuro_divergent.data.store.files import open_store

        return open_store(directory)

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str],
        source: str | os.PathLike[str],
        *,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        future: Sequence[str] = (),
        historical: Sequence[str] = (),
        categorical: Sequence[str] = (),
        weight: str | None = None,
        freq: str | None = None,
        dtype: str = "float32",
        gaps: str = "mask",
        overwrite: bool = False,
    ) -> SeriesStore:
        """Stream Parquet of any size into a store on disk, in bounded memory and in any order of rows; then open it.

        Args:
            directory: where the store is written.
            source: a Parquet file, a glob pattern, or a directory of Parquet files.
            id_col: column with the name of the series.
            time_col: column with the time.
            target_col: column that is to be forecast.
            future: numeric columns known ahead.
            historical: numeric columns known only up to now.
            categorical: time-varying columns of categories.
            weight: column with the importance of each row.
            freq: distance of two rows; None to find it in the first rows.
            dtype: "float32" or "float64".
            gaps: "mask" to open up missing time stamps as unobserved rows, "error" to refuse them.
            overwrite: replace a directory that exists.
        """
        from neuro_divergent.data.read.stream_parquet import Recipe, create_store

        recipe = Recipe(
            id_col=id_col,
            time_col=time_col,
            target_col=target_col,
            future=tuple(future),
            historical=tuple(historical),
            categorical=tuple(categorical),
            weight=weight,
            freq=freq,
            dtype=dtype,
            gaps=gaps,
        )
        create_store(Path(directory), source, recipe, overwrite=overwrite)
        return cls.open(directory)

    def replace(self, **fields: Any) -> SeriesStore:
        """A copy with some fields changed; the arrays are shared."""
        from dataclasses import replace

        return replace(self, **fields)
