"""The series of a table, concatenated: one array per column, offsets per series, no padding."""

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
    """All series of a table, concatenated: one array per column, and offsets per series. There is no padding.

    A store lies in memory, or is memory-mapped from disk (`open`). Letters: S series, N rows.
    """

    ids: npt.NDArray[np.generic]
    """[S] the name of each series, sorted."""
    offsets: npt.NDArray[np.int64]
    """[S + 1] series s is rows offsets[s] : offsets[s + 1]."""
    y: npt.NDArray[np.floating]
    """[N] target, imputed or 0 where missing; float32, or float64 on request."""
    start: npt.NDArray[np.generic]
    """[S] time of each series' first row: datetime64[us] (UTC when there is a zone), or int64."""
    freq: str
    """The time between two rows in polars spelling ("1h", "1mo", "1bd" for business days, "1i" for integers)."""
    time_zone: str | None = None
    grid_anchor: npt.NDArray[np.generic] | None = None
    """[S] the time stamp from which each series' grid is counted, if the calendar moved `start`; None if `start` serves
    for all series. A grid of the 30th of each month that starts on February 28 is counted from March 30."""
    mask: npt.NDArray[np.bool_] | None = None
    """[N] true where y was observed; None if all values were."""
    fills: npt.NDArray[np.int8] | None = None
    """[N] how y is imputed where it was not observed, else 0: see data/store/fills.py. A model reads imputed rows in
    its lookback. They are never training targets and are never scored."""
    future: npt.NDArray[np.floating] | None = None
    """[N, F]"""
    future_fills: npt.NDArray[np.int8] | None = None
    """[N, up to F] how cells of the first columns were imputed; None if no cell was imputed with a later value."""
    historical: npt.NDArray[np.floating] | None = None
    """[N, X]"""
    historical_fills: npt.NDArray[np.int8] | None = None
    """[N, up to X] how cells of the first columns were imputed; None if no cell was imputed with a later value."""
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
        """Return every array of the store by the name of its field."""
        names = ("offsets", *SERIES_ARRAYS, *ROW_ARRAYS)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def times(self, rows: npt.ArrayLike, series: Any = slice(None)) -> npt.NDArray[Any]:
        """Return the time stamps of rows. Rows may lie beyond the end of their series.

        Args:
            rows: row numbers, counted from the first row of their series; one per series in `series`, or broadcast.
            series: the number of the series of each row; all series, in order, by default.
        """
        anchor, first = self._grid
        return self.frequency.advance(anchor[series], first[series] + np.asarray(rows), self.time_zone)

    def rows_at(
        self, times: npt.NDArray[Any], series: Any = slice(None)
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the row of each time in its series, and whether the time is on the grid of the series.

        Args:
            times: time stamps, one per series in `series`.
            series: the number of the series of each time; all series, in order, by default.
        """
        anchor, first = self._grid
        steps, on_grid = self.frequency.positions(anchor[series], times, self.time_zone)
        return steps - first[series], on_grid

    def starting_at(self, rows: npt.NDArray[np.int64], series: Any = slice(None)) -> dict[str, npt.NDArray[Any]]:
        """Return the fields `start` and `grid_anchor` of a store whose series begin at these rows.

        Args:
            rows: row numbers, counted from the first row of their series.
            series: the number of the series of each row; all series, in order, by default.
        """
        anchor, first = self._grid
        found = self.frequency.anchor_from(anchor[series], first[series] + rows, self.time_zone)
        return {"start": self.times(rows, series), "grid_anchor": found}

    @cached_property
    def frequency(self) -> Frequency:
        """The parsed frequency."""
        return Frequency.parse(self.freq)

    @cached_property
    def _grid(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """[S] the time stamp from which each series' grid is counted, and the number of its first row on this grid."""
        if self.grid_anchor is None:
            return self.start, np.zeros(len(self.start), dtype=np.int64)
        return self.grid_anchor, self.frequency.positions(self.grid_anchor, self.start, self.time_zone)[0]

    def fingerprint(self) -> str:
        """Return a hash of every value, name and time stamp. It is the same in memory and on disk."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        from neuro_divergent.data.store.files import fingerprint

        return fingerprint(self)

    def save(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the store as a directory of plain arrays, atomically: a failure leaves no partial directory.

        Args:
            directory: where to write.
            overwrite: replace a store that exists there.
        """
        from neuro_divergent.data.store.files import save_store

        save_store(self, directory, overwrite=overwrite)

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> SeriesStore:
        """Return a saved store, memory-mapped: rows are read from disk when they are used.

        Args:
            directory: the directory that `save` or `create` wrote.
        """
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
        """Convert Parquet files of any size to a store on disk, and return the opened store.

        The rows may be in any order. Memory use is bounded.

        Args:
            directory: where the store is written.
            source: a Parquet file, a glob pattern, or a directory of Parquet files.
            id_col: column with the name of the series.
            time_col: column with the time.
            target_col: column to forecast.
            future: numeric columns known ahead.
            historical: numeric columns known only up to the forecast origin.
            categorical: time-varying categorical columns.
            weight: column with the sample weight of each row.
            freq: time between two rows; None infers it from the first rows.
            dtype: "float32" or "float64".
            gaps: "mask" adds missing time stamps as unobserved rows, "error" refuses them.
            overwrite: replace a store that exists there.
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
        """Return a copy with some fields changed. The other arrays are shared."""
        from dataclasses import replace

        return replace(self, **fields)
