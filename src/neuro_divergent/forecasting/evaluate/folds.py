"""How a table is cut for cross-validation: what is trained on, what is seen, what is forecast.

On the time axis of a fold, with rows that are neither in the middle:

    ├──────── trained on ────────┤ purge ├ gap ┤── test ──┤
    ├──────────── seen by forecasts ─────┤

Rows of `purge` are not trained on, but a forecast may look back at them. Rows of `gap` nobody sees: it is as if they
had not arrived yet, and the forecast reaches over them. Letters: S series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.table import TimeSeriesDataFrame

Ints = npt.NDArray[np.int64]
Steps = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0.0, lt=1.0)]
Pairs = Iterable[tuple[npt.ArrayLike, npt.ArrayLike]]


@dataclass(frozen=True)
class Fold:
    """One cut of a table: rows of each series, first included, last excluded."""

    number: int
    """Folds are numbered in the order of time; those of one moment share what was seen before it."""
    train: tuple[Ints, Ints]
    """[S], [S] the rows to train on; empty for series that are left out of the training."""
    test: tuple[Ints, Ints]
    """[S], [S] the rows to forecast; empty for series that are not tested."""
    gap: int = 0
    """How many rows before each forecast are hidden from it."""
    group: int = 0
    """Which part of the series is tested."""

    def __post_init__(self) -> None:
        begin, end = self.train[1], self.test[0] - self.gap
        used = (self.train[1] > self.train[0]) & (self.test[1] > self.test[0])
        if bool((begin[used] > end[used]).any()):
            raise ConfigError("a fold must train on rows before its test rows (and the gap), but got later ones")


class TimeSeriesSplit(Description):
    """Test parts at the end of the table, one after the other; each fold trains on what lies before its test part.

    >>> [(a.tolist(), b.tolist()) for a, b in TimeSeriesSplit(n_splits=2, test_size=2, gap=1).split(8)]
    [([0, 1, 2], [4, 5]), ([0, 1, 2, 3, 4], [6, 7])]
    """

    n_splits: Annotated[int, Field(ge=1)] = 5
    """How many test parts."""
    test_size: Steps | None = None
    """Length of a test part in steps, or as a share of the longest series; None for the models' horizon."""
    gap: Annotated[int, Field(ge=0)] = 0
    """Steps before a test part that are neither trained on nor seen."""
    purge: Annotated[int, Field(ge=0)] = 0
    """Further steps at the end of the training part that are not trained on, but seen by forecasts."""
    window: Literal["expanding"] | Steps = "expanding"
    """Train on everything before ("expanding"), or on a window of this length that slides along."""
    step_size: Steps | None = None
    """Distance of two test parts; None for the test size, so that they do not overlap."""
    align: Literal["date", "series"] = "date"
    """Count back from the newest time stamp of the table, the same for all series, or from the end of each series."""
    block_size: Annotated[int, Field(ge=1)] = 1
    """Sizes are rounded up to whole blocks of this many steps, such as 7 for weeks that stay together."""
    series_splits: Annotated[int, Field(ge=1)] = 1
    """Number of groups of series; more than 1 tests each group with models that were trained on the other series."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if self.block_size > 1 and (self.gap % self.block_size or self.purge % self.block_size):
            raise ConfigError(
                f"gap and purge must be whole blocks of block_size={self.block_size} steps, but got gap={self.gap} and "
                f"purge={self.purge}"
            )
        return self

    def split(self, rows: Any, h: int = 1) -> Iterator[tuple[Ints, Ints]]:
        """Training and test row numbers of one series of so many rows (or of the rows of an array)."""
        count = int(rows) if isinstance(rows, int | np.integer) else len(rows)
        for fold in self._moments(np.array([count]), np.array([count]), h):
            yield np.arange(fold.train[0][0], fold.train[1][0]), np.arange(fold.test[0][0], fold.test[1][0])

    def folds(self, table: TimeSeriesDataFrame, h: int) -> list[Fold]:
        """The folds of a table, in the order of time."""
        lengths = table.store.lengths
        ends = lengths if self.align == "series" else newest(table)
        moments = self._moments(lengths, ends, h)
        return moments if self.series_splits == 1 else [part for fold in moments for part in self._groups(fold)]

    def _moments(self, lengths: Ints, ends: Ints, h: int) -> list[Fold]:
        longest = int(lengths.max(initial=0))
        size = self._steps(self.test_size, longest) if self.test_size is not None else self._whole(h)
        step = size if self.step_size is None else self._steps(self.step_size, longest)
        folds = []
        for number in range(self.n_splits):
            last = ends - (self.n_splits - 1 - number) * step
            first = last - size
            stop = first - self.gap - self.purge
            begin = np.zeros_like(stop)
            if self.window != "expanding":
                begin = np.maximum(stop - self._steps(self.window, longest), 0)
            test = (np.clip(first, 0, lengths), np.clip(last, 0, lengths))
            train = (np.minimum(begin, lengths), np.clip(stop, 0, lengths))
            folds.append(Fold(number, train, test, self.gap))
        self._check(folds[0], size, step, longest)
        return folds

    def _check(self, oldest: Fold, size: int, step: int, longest: int) -> None:
        if bool((oldest.train[1] > oldest.train[0]).any()):
            return
        needed = size + (self.n_splits - 1) * step + self.gap + self.purge
        raise DataError(
            f"{self.n_splits} folds of {size} steps, {step} apart, with gap={self.gap} and purge={self.purge} take "
            f"{needed} rows, which leaves nothing to train on: the longest series has {longest}. Ask for fewer "
            "or shorter folds"
        )

    def _groups(self, fold: Fold) -> list[Fold]:
        count = len(fold.test[0])
        if count < self.series_splits:
            raise DataError(f"series_splits={self.series_splits} needs as many series, but the table has {count}")
        group = np.arange(count) * self.series_splits // count
        parts = []
        for number in range(self.series_splits):
            tested = group == number
            train = (fold.train[0], np.where(tested, fold.train[0], fold.train[1]))
            test = (fold.test[0], np.where(tested, fold.test[1], fold.test[0]))
            parts.append(Fold(fold.number, train, test, fold.gap, number))
        return parts

    def _steps(self, size: float, longest: int) -> int:
        return self._whole(size if isinstance(size, int) else max(1, round(size * longest)))

    def _whole(self, size: int) -> int:
        return -(-size // self.block_size) * self.block_size


def newest(table: TimeSeriesDataFrame) -> Ints:
    """[S] the row that each series would have after the newest time stamp of the table; not less than its own end."""
    store = table.store
    ends = table.frequency.advance(store.start, store.lengths, store.time_zone)
    latest = np.full(len(ends), ends.max())
    rows, _ = table.frequency.positions(store.start, latest, store.time_zone)
    return np.maximum(rows, store.lengths)


def user_folds(splitter: Any, table: TimeSeriesDataFrame) -> list[Fold]:
    """Folds from anything that yields pairs of training and test positions.

    Positions count the time steps of the table from its earliest to its newest time stamp (for one series: its rows).
    Whatever the order in which they come, folds are numbered in the order of time.
    """
    store = table.store
    origin = np.full(len(store.start), store.start.min())
    shifts, _ = table.frequency.positions(origin, store.start, store.time_zone)
    steps = int((shifts + store.lengths).max())
    pairs = [tuple(pair) for pair in _pairs(splitter, steps)]
    folds = [_user_fold(number, pair, shifts, store.lengths) for number, pair in enumerate(pairs)]
    if not folds:
        raise ConfigError("a splitter must yield at least one pair of training and test positions, but got none")
    order = sorted(range(len(folds)), key=lambda number: (np.min(pairs[number][1]), np.max(pairs[number][0])))
    return [replace(folds[place], number=number) for number, place in enumerate(order)]


def _pairs(splitter: Any, steps: int) -> Pairs:
    if hasattr(splitter, "split"):
        pairs: Pairs = splitter.split(np.arange(steps).reshape(-1, 1))
        return pairs
    if isinstance(splitter, Callable):  # type: ignore[arg-type]
        found: Pairs = splitter(steps)
        return found
    if isinstance(splitter, Iterable):
        return splitter
    raise ConfigError(
        "splitter must be a TimeSeriesSplit, an object with split(rows), a function of the number of steps, or pairs "
        f"of positions, but got {type(splitter).__name__}"
    )


def _user_fold(number: int, pair: Any, shifts: Ints, lengths: Ints) -> Fold:
    train, test = (np.sort(np.asarray(side, dtype=np.int64).reshape(-1)) for side in pair)
    if not len(train) or not len(test):
        raise ConfigError(
            f"every fold needs training and test positions, but fold {number} has {len(train)} and {len(test)}"
        )
    if train[-1] >= test[0]:
        raise ConfigError(
            f"a forecast must not be trained on later rows, but fold {number} trains up to position {train[-1]} and "
            f"tests from {test[0]}. Use a splitter that keeps the order of time"
        )
    for name, side in (("training", train), ("test", test)):
        if side[-1] - side[0] + 1 != len(np.unique(side)):
            raise ConfigError(f"the {name} positions of fold {number} must be consecutive, but have holes")

    def rows(first: int, last: int) -> tuple[Ints, Ints]:
        return np.clip(first - shifts, 0, lengths), np.clip(last - shifts, 0, lengths)

    return Fold(number, rows(int(train[0]), int(train[-1]) + 1), rows(int(test[0]), int(test[-1]) + 1))
