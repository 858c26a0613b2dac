"""The summing matrix of a hierarchy, sparse, with the names of the series.

Letters: n series (rows of S), b bottom series (columns of S).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.schema.load_report import listing

Name = str | int
Floats = npt.NDArray[np.float64]

ID_COLUMN = "unique_id"
"""The column of a frame that names the rows of S."""


class Hierarchy(Description):
    """A summing matrix S [n, b]: each series is the weighted sum of the bottom series in its row.

    `nd.aggregate` makes one from a table with key columns. `read` makes one from a matrix, from a frame whose index
    (or column unique_id) names the rows and whose columns are the bottom series, or from a dict of rows by name.

    >>> family = Hierarchy.read({"total": [1, 1], "a": [1, 0], "b": [0, 1]})
    >>> family.matrix.tolist()
    [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """

    ids: tuple[Name, ...] | None = None
    """Names of the series, one for each row; None means the sorted names of the table."""
    rows: tuple[tuple[int, ...], ...]
    """For each series, the numbers of the bottom series in its sum."""
    bottom: tuple[int, ...]
    """For each bottom series, the number of its row."""
    weights: tuple[tuple[float, ...], ...] | None = None
    """The weight of each number in `rows`; None if all weights are 1."""
    levels: dict[str, tuple[Name, ...]] = {}
    """Names of the series on each level, if known."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        n, b = len(self.rows), len(self.bottom)
        if self.ids is not None and (len(self.ids) != n or len(set(self.ids)) != n):
            raise ConfigError(f"S needs a different name for each of its {n} rows, but got {len(set(self.ids))} names")
        inside = all(0 <= column < b for row in self.rows for column in row)
        if not n or not inside or not all(0 <= row < n for row in self.bottom):
            raise ConfigError(f"a hierarchy of {n} series refers to {b} bottom series, but got numbers beyond them")
        empty = [number for number, row in enumerate(self.rows) if not row]
        if empty:
            raise ConfigError(f"every row of S must sum something, but got only zeros for {self._named(empty)}")
        if self.weights is not None and [len(row) for row in self.weights] != [len(row) for row in self.rows]:
            raise ConfigError("weights must have one number for each number in rows, but the lengths differ")
        for column, row in enumerate(self.bottom):
            if self.rows[row] != (column,) or (self.weights is not None and self.weights[row] != (1.0,)):
                raise ConfigError(
                    f"the row of a bottom series must have a single 1, in the column of this series, but got another "
                    f"row for {self._named([row])}"
                )
        return self

    @classmethod
    def read(cls, value: Any) -> Hierarchy:
        """Return a hierarchy read from a matrix, a frame or a dict of rows; a Hierarchy is returned unchanged.

        Args:
            value: a matrix, a pandas or polars frame, a dict of rows by name, a Hierarchy, or its JSON form.
        """
        if isinstance(value, Hierarchy):
            return value
        if isinstance(value, Mapping) and isinstance(value.get("kind"), str):
            return cls.from_dict(value)
        ids, columns, matrix = _parts(value)
        return cls.from_matrix(matrix, ids, columns)

    @classmethod
    def from_matrix(
        cls, matrix: npt.ArrayLike, ids: Sequence[Name] | None = None, columns: Sequence[Name] | None = None
    ) -> Hierarchy:
        """Return a hierarchy made from a matrix of numbers.

        Args:
            matrix: [n, b], one row for each series. Every bottom series must have a row with a single 1.
            ids: names of the rows; None means the sorted names of the table.
            columns: names of the bottom series. They tell a bottom series from a parent with a single child.
        """
        dense = _checked(matrix)
        bottom = _bottom_rows(dense, ids, columns)
        rows = tuple(tuple(np.flatnonzero(row).tolist()) for row in dense)
        weights = None
        if not bool(np.isin(dense, (0.0, 1.0)).all()):
            weights = tuple(tuple(row[row != 0].tolist()) for row in dense)
        return cls(ids=None if ids is None else tuple(ids), rows=rows, bottom=bottom, weights=weights)

    @property
    def entries(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
        """Row, column and value of the non-zero entries of S."""
        row = np.repeat(np.arange(len(self.rows)), [len(columns) for columns in self.rows])
        column = np.array([column for columns in self.rows for column in columns], dtype=np.int64)
        if self.weights is None:
            return row, column, np.ones(len(row))
        return row, column, np.array([weight for weights in self.weights for weight in weights], dtype=np.float64)

    @property
    def matrix(self) -> Floats:
        """[n, b] S as a dense matrix."""
        row, column, value = self.entries
        dense = np.zeros((len(self.rows), len(self.bottom)))
        dense[row, column] = value
        return dense

    def positions(self, ids: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
        """Return [n] the number of the series of each row of S.

        Args:
            ids: names of the series of a table; exactly the series of S.
        """
        given = ids.tolist()
        if self.ids is None:
            if len(given) != len(self.rows):
                raise DataError(
                    f"S has {len(self.rows)} rows, one for each series in the sorted order of their names, but the "
                    f"data has {len(given)} series: {listing(given)}. Add the missing series, or name the rows of S"
                )
            return np.arange(len(given))
        place = {name: number for number, name in enumerate(given)}
        absent = [name for name in self.ids if name not in place]
        extra = sorted(place.keys() - set(self.ids))
        if absent or extra:
            raise DataError(_difference(absent, extra))
        return np.array([place[name] for name in self.ids], dtype=np.int64)

    def _named(self, rows: Sequence[int]) -> str:
        return listing([self.ids[row] if self.ids is not None else f"row {row}" for row in rows])

    def __repr__(self) -> str:
        if len(self.rows) <= 12:
            return super().__repr__()
        return f"Hierarchy({len(self.rows):,} series over {len(self.bottom):,} bottom series)"


def _difference(absent: Sequence[Name], extra: Sequence[Name]) -> str:
    words = []
    if absent:
        words.append(f"the data lacks {listing(absent)}")
    if extra:
        words.append(f"S has no row for {listing(extra)}")
    return (
        f"a hierarchy is forecast as a whole, so the data must have just the series of S, but {' and '.join(words)}. "
        "nd.aggregate makes both from one table"
    )


def _parts(value: Any) -> tuple[list[Name] | None, list[Name] | None, Any]:
    """Names of rows and columns, if there are any, and the numbers."""
    library = type(value).__module__.split(".")[0]
    if library == "pandas":
        frame = value.set_index(ID_COLUMN) if ID_COLUMN in value.columns else value
        return frame.index.tolist(), frame.columns.tolist(), frame.to_numpy()
    if library == "polars":
        name = ID_COLUMN if ID_COLUMN in value.columns else value.columns[0]
        numbers = value.drop(name)
        return value[name].to_list(), numbers.columns, numbers.to_numpy()
    if isinstance(value, Mapping):
        return list(value), None, list(value.values())
    return None, None, value


def _checked(matrix: npt.ArrayLike) -> Floats:
    try:
        dense = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"S must be a matrix of numbers, a frame or a dict of rows, but got {matrix!r:.80}") from None
    if dense.ndim != 2 or not dense.size or dense.shape[0] < dense.shape[1]:
        raise ConfigError(
            f"S has one row for each series and one column for each bottom series, but got the shape {dense.shape}"
        )
    if not bool(np.isfinite(dense).all()):
        raise ConfigError("S must have finite numbers, but got some that are not")
    return dense


def _bottom_rows(dense: Floats, ids: Sequence[Name] | None, columns: Sequence[Name] | None) -> tuple[int, ...]:
    """The row of each bottom series: found by name, as the last rows if they are an identity, or by a single 1."""
    n, b = dense.shape
    if ids is not None and columns is not None and set(columns) <= set(ids):
        place = {name: number for number, name in enumerate(ids)}
        return tuple(place[name] for name in columns)
    if bool((dense[n - b :] == np.eye(b)).all()):
        return tuple(range(n - b, n))
    single = (dense != 0).sum(axis=1) == 1
    own = {int(np.argmax(dense[row])): int(row) for row in np.flatnonzero(single & (dense.max(axis=1) == 1.0))}
    absent = [column for column in range(b) if column not in own]
    if absent:
        named = listing(absent if columns is None else [columns[column] for column in absent])
        raise ConfigError(f"every bottom series needs a row with a single 1 in S, but got none for the columns {named}")
    return tuple(own[column] for column in range(b))
