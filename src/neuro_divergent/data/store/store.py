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
from neuro_divergent.data.time.frequency import Frequency

Array = npt.NDArray[np.generic]

ROW_ARRAYS = (
    "y", "mask", "fills", "future", "future_fills", "historical", "historical_fills", "categorical", "weight"
)  # fmt: skip
"""The fields with an entry for every row."""

SERIES_ARRAYS = ("ids", "start", "grid_anchor", "static", "static_categorical")
"""The fields with an entry for every series."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SeriesStore:
    """Columns end to end with offsets per series; a mask only where something is missing."""

    ids: npt.NDArray[np.generic]
    """[S] the name of each series, sorted."""
    offsets: npt.NDArray[np.int64]
    """[S + 1] series s is rows offsets[s] : offsets[s + 1]."""
    y: npt.NDArray[np.floating]
    """[N] target, filled or 0 where missing; float32 unless float64 was asked for."""
    start: npt.NDArray[np.generic]
    """[S] time of each series' first row: datetime64[us] (UTC when there is a zone), or int64."""
    freq: str
    """The distance of two rows in polars spelling ("1h", "1mo", "1bd" for business days, "1i" for integers)."""
    time_zone: str | None = None
    grid_anchor: npt.NDArray[np.generic] | None = None
    """[S] the time stamp from which each series' grid is counted, where the calendar moved `start`; None when `start`
    is that of all series. A grid of the 30th that starts on February the 28th is counted from March the 30th."""
    mask: npt.NDArray[np.bool_] | None = None
    """[N] true where y was observed; None when everything was."""
    fills: npt.NDArray[np.int8] | None = None
    """[N] how y is filled where it was not observed, 0 where it is not: see data/store/fills.py. A filled row is shown
    to a model as its past; it is never learned, scored or taken for the truth."""
    future: npt.NDArray[np.floating] | None = None
    """[N, F]"""
    future_fills: npt.NDArray[np.int8] | None = None
    """[N, up to F] how cells of the first columns were filled; None where no fill looks ahead."""
    historical: npt.NDArray[np.floating] | None = None
    """[N, X]"""
    historical_fills: npt.NDArray[np.int8] | None = None
    """[N, up to X] how cells of the first columns were filled; None where no fill looks ahead."""
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
        if self.grid_anchor is not None and np.array_equal(self.grid_anchor, self.start):
            object.__setattr__(self, "grid_anchor", None)
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

    def times(self, rows: npt.ArrayLike, series: Any = slice(None)) -> npt.NDArray[Any]:
        """The time stamps of rows, counted from the first one of their series; they may lie beyond its end.

        Args:
            rows: whole numbers that go with the series, such as [S] of them.
            series: the number of the series of each row; all series, one after the other, by default.
        """
        anchor, first = self._grid
        return self.frequency.advance(anchor[series], first[series] + np.asarray(rows), self.time_zone)

    def rows_at(
        self, times: npt.NDArray[Any], series: Any = slice(None)
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The row at which each time would be in its series, and whether it is on the grid at all."""
        anchor, first = self._grid
        steps, on_grid = self.frequency.positions(anchor[series], times, self.time_zone)
        return steps - first[series], on_grid

    def starting_at(self, rows: npt.NDArray[np.int64], series: Any = slice(None)) -> dict[str, npt.NDArray[Any]]:
        """The fields `start` and `grid_anchor` of a store whose series begin at these rows of this one's."""
        anchor, first = self._grid
        found = self.frequency.anchor_from(anchor[series], first[series] + rows, self.time_zone)
        return {"start": self.times(rows, series), "grid_anchor": found}

    @cached_property
    def frequency(self) -> Frequency:
        """The parsed frequency."""
        return Frequency.parse(self.freq)

    @cached_property
    def _grid(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """[S] where the grid of each series is counted from, and the number of its first row on it."""
        if self.grid_anchor is None:
            return self.start, np.zeros(len(self.start), dtype=np.int64)
        return self.grid_anchor, self.frequency.positions(self.grid_anchor, self.start, self.time_zone)[0]

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
