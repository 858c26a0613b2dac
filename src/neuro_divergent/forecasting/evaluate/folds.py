"""Cuts a table for cross-validation: which rows are trained on, seen by forecasts, and forecast.

The rows of a fold in time order. Some rows between training and test belong to neither:

    ├──────── trained on ────────┤ purge ├ gap ┤── test ──┤
    ├──────────── seen by forecasts ─────┤

Rows of `purge` are not trained on, but forecasts may use them as input. Rows of `gap` are used by nothing in the fold.
Every forecast of a test part sees rows up to `gap` steps before its first target. If the test part is longer than the
horizon, the rows of the gap stay hidden from the later forecasts, too. Letters: S series.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, Strict, ValidationInfo, field_validator, model_validator

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.grid import shifts_from_earliest
from neuro_divergent.data.windows.split import common_dates

Ints = npt.NDArray[np.int64]
Steps = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0.0, lt=1.0)]
SERIES_GROUPS = 5
"""How many groups of series `series_splits=True` means."""

Pairs = Iterable[tuple[npt.ArrayLike, npt.ArrayLike]]


@dataclass(frozen=True)
class Fold:
    """One cut of a table: rows of each series, first included, last excluded."""

    number: int
    """Folds are numbered in time order. Folds with the same test time see the same past."""
    train: tuple[Ints, Ints]
    """[S], [S] the rows to train on; empty for series that are not trained on."""
    test: tuple[Ints, Ints]
    """[S], [S] the rows to forecast; empty for series that are not tested."""
    gap: int = 0
    """How many rows before each forecast are hidden from it."""
    group: int = 0
    """Number of the group of series that is tested."""
    hidden: tuple[Ints, Ints] | None = None
    """[S], [S] the rows of the gap, which are hidden from the forecasts of the fold; None without a gap."""

    def __post_init__(self) -> None:
        begin, end = self.train[1], self.test[0] - self.gap
        used = (self.train[1] > self.train[0]) & (self.test[1] > self.test[0])
        if bool((begin[used] > end[used]).any()):
            raise ConfigError("a fold must train on rows before its test rows (and the gap), but got later ones")


class TimeSeriesSplit(Description):
    """Test parts at the end of the table, one after the other. Each fold trains on the rows before its test part.

    >>> [(a.tolist(), b.tolist()) for a, b in TimeSeriesSplit(n_splits=2, test_size=2, gap=1).split(8)]
    [([0, 1, 2], [4, 5]), ([0, 1, 2, 3, 4], [6, 7])]
    """

    n_splits: Annotated[int, Field(ge=1)] = 5
    """Number of test parts."""
    test_size: Steps | None = None
    """Length of a test part in steps; None for the models' horizon. A share is for all test parts together, of the
    longest series: 0.2 with n_splits=5 tests the last fifth of the rows in five parts of 4 % each. No part is shorter
    than the horizon."""
    gap: Annotated[int, Field(ge=0)] = 0
    """Steps before a test part that are neither trained on nor seen by its forecasts. Every forecast sees rows up to
    this many steps before its first target."""
    purge: Annotated[int, Field(ge=0)] = 0
    """Further steps at the end of the training part that are not trained on, but are seen by forecasts."""
    window: Literal["expanding"] | Steps = "expanding"
    """Train on all earlier rows ("expanding"), or on a sliding window of this length."""
    step_size: Steps | None = None
    """Steps between the starts of two test parts; None for the test size, so that they do not overlap."""
    align: Literal["auto", "date", "series"] = "date"
    """Count back from the newest time stamp of the table, the same for all series, or from the end of each series.
    "auto" counts from the newest time stamp, or, if the time column has whole numbers, from the end of each series."""
    block_size: Annotated[int, Field(ge=1)] = 1
    """Sizes are rounded up to multiples of this many steps, such as 7 to keep weeks together."""
    series_splits: Annotated[bool, Strict()] | Annotated[int, Field(ge=1)] = 1
    """Number of groups of series. With more than 1, each group is tested with models that were trained on the other
    series. True makes 5 groups, or one per series if there are fewer; 1 and False do not split by series."""

    @field_validator("test_size", "window", "step_size", mode="before")
    @classmethod
    def _steps_or_share(cls, value: Any, info: ValidationInfo) -> Any:
        expanding = info.field_name == "window"
        if value is None or (expanding and value == "expanding"):
            return value
        if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1:
            return int(value)
        if isinstance(value, float | np.floating) and 0 < value < 1:
            return float(value)
        raise ConfigError(
            f"{info.field_name} must be a whole number of steps, a share between 0 and 1, "
            f"""{'or "expanding"' if expanding else "or None"}, but got {info.field_name}={value!r}"""
        )

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if self.block_size > 1 and (self.gap % self.block_size or self.purge % self.block_size):
            raise ConfigError(
                f"gap and purge must be whole blocks of block_size={self.block_size} steps, but got gap={self.gap} and "
                f"purge={self.purge}"
            )
        return self

    def split(self, rows: Any, h: int = 1) -> Iterator[tuple[Ints, Ints]]:
        """Training and test row numbers of one series, given its number of rows or an array of them."""
        count = int(rows) if isinstance(rows, int | np.integer) else len(rows)
        for fold in self._moments(np.array([count]), np.array([count]), h):
            yield np.arange(fold.train[0][0], fold.train[1][0]), np.arange(fold.test[0][0], fold.test[1][0])

    def folds(self, table: TimeSeriesDataFrame, h: int) -> list[Fold]:
        """The folds of a table, in time order."""
        lengths = table.store.lengths
        by_date = self.align == "date" or (self.align == "auto" and common_dates(table.store))
        ends = newest(table) if by_date else lengths
        moments = self._moments(lengths, ends, h)
        return [part for fold in moments for part in self._groups(fold)] if self.splits_series else moments

    @property
    def splits_series(self) -> bool:
        """Whether models are tested on series that they were not trained on."""
        return self.series_splits is True or self.series_splits > 1

    def _moments(self, lengths: Ints, ends: Ints, h: int) -> list[Fold]:
        longest = int(lengths.max(initial=0))
        size = self._test_steps(longest, h)
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
            hidden = (np.clip(first - self.gap, 0, lengths), np.clip(first, 0, lengths)) if self.gap else None
            folds.append(Fold(number, train, test, self.gap, hidden=hidden))
        self._check(folds[0], size, step, longest)
        return folds

    def _check(self, oldest: Fold, size: int, step: int, longest: int) -> None:
        if bool((oldest.train[1] > oldest.train[0]).any()):
            return
        needed = size + (self.n_splits - 1) * step + self.gap + self.purge
        raise DataError(
            f"folds must leave rows to train on, but {self.n_splits} folds of {size} steps, {step} apart, with "
            f"gap={self.gap} and purge={self.purge} take {needed} rows, and the longest series has {longest}. Ask for "
            "fewer or shorter folds"
        )

    def _groups(self, fold: Fold) -> list[Fold]:
        count = len(fold.test[0])
        groups = min(SERIES_GROUPS, count) if self.series_splits is True else self.series_splits
        if count < max(groups, 2):
            needed = "at least 2" if self.series_splits is True else "as many"
            raise DataError(f"series_splits={self.series_splits} needs {needed} series, but the table has {count}")
        group = np.arange(count) * groups // count
        parts = []
        for number in range(groups):
            tested = group == number
            train = (fold.train[0], np.where(tested, fold.train[0], fold.train[1]))
            test = (fold.test[0], np.where(tested, fold.test[1], fold.test[0]))
            parts.append(replace(fold, train=train, test=test, group=number))
        return parts

    def _test_steps(self, longest: int, h: int) -> int:
        if self.test_size is None or isinstance(self.test_size, int):
            return self._whole(h if self.test_size is None else self.test_size)
        return self._whole(max(h, round(self.test_size * longest / self.n_splits)))

    def _steps(self, size: float, longest: int) -> int:
        return self._whole(size if isinstance(size, int) else max(1, round(size * longest)))

    def _whole(self, size: int) -> int:
        return -(-size // self.block_size) * self.block_size


def newest(table: TimeSeriesDataFrame) -> Ints:
    """[S] the row number after the newest time stamp of the table in each series; at least the length of the series."""
    store = table.store
    ends = store.times(store.lengths)
    rows, _ = store.rows_at(np.full(len(ends), ends.max()))
    return np.maximum(rows, store.lengths)


def user_folds(splitter: Any, table: TimeSeriesDataFrame) -> list[Fold]:
    """Folds from anything that yields pairs of training and test positions.

    Positions count the time steps of the table from its earliest to its newest time stamp (for one series: its rows).
    A splitter with an argument named `dates` gets the time stamp of every position, and may yield each side as one True
    or False per position: `dates < cut`. Positions between the training and the test side are a gap, as in
    `TimeSeriesSplit`: no forecast of the fold sees them.
    Folds are numbered in time order, whatever the order in which the splitter yields them.
    """
    store = table.store
    shifts, _ = shifts_from_earliest(store)
    steps = int((shifts + store.lengths).max())
    found = _pairs(splitter, steps, lambda: _dates(table, steps))
    pairs = [_positions(number, pair, steps) for number, pair in enumerate(found)]
    folds = [_user_fold(number, pair, shifts, store.lengths) for number, pair in enumerate(pairs)]
    if not folds:
        raise ConfigError("a splitter must yield at least one pair of training and test positions, but got none")
    order = sorted(range(len(folds)), key=lambda number: (np.min(pairs[number][1]), np.max(pairs[number][0])))
    return [replace(folds[place], number=number) for number, place in enumerate(order)]


def _dates(table: TimeSeriesDataFrame, steps: int) -> npt.NDArray[Any]:
    """[steps] the time stamp of every position, from the earliest of the table on."""
    store = table.store
    shifts, _ = shifts_from_earliest(store)
    first = int(np.argmin(shifts))
    return store.times(np.arange(steps), np.full(steps, first))


def _pairs(splitter: Any, steps: int, dates: Callable[[], npt.NDArray[Any]]) -> Pairs:
    function = getattr(splitter, "split", splitter)
    if callable(function):
        rows: Any = np.arange(steps).reshape(-1, 1) if function is not splitter else steps
        found: Pairs = function(rows, dates=dates()) if _takes_dates(function) else function(rows)
        return found
    if isinstance(splitter, Iterable):
        return splitter
    raise ConfigError(
        "splitter must be a TimeSeriesSplit, an object with split(rows), a function of the number of steps, or pairs "
        f"of positions, but got {type(splitter).__name__}"
    )


def _takes_dates(function: Callable[..., Any]) -> bool:
    """Whether a splitter has an argument named dates."""
    try:
        return "dates" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _positions(number: int, pair: Any, steps: int) -> tuple[Ints, Ints]:
    """The two sides of a pair, sorted. Anything that is not a pair of positions of the table is refused."""
    sides = [np.asarray(side).reshape(-1) for side in pair] if isinstance(pair, Iterable) else []
    # Comparing dates gives one True or False per step: dates < "2024-01-01".
    sides = [np.flatnonzero(side) if side.dtype == bool and len(side) == steps else side for side in sides]
    if len(sides) != 2 or any(len(side) and not np.issubdtype(side.dtype, np.integer) for side in sides):
        raise ConfigError(
            "a splitter must yield pairs (training positions, test positions) of whole numbers, such as "
            f"(range(100), range(100, 112)), but fold {number} is something else"
        )
    for side in sides:
        if len(side) and (side.min() < 0 or side.max() >= steps):
            raise ConfigError(
                f"positions go from 0 to {steps - 1} in this table, but fold {number} has {side.min()} to {side.max()}"
            )
    train, test = (np.sort(side.astype(np.int64)) for side in sides)
    for name, side in (("training", train), ("test", test)):
        if len(twice := side[1:][side[1:] == side[:-1]]):
            raise ConfigError(
                f"a fold has each position once, but the {name} positions of fold {number} repeat {twice[0]}. A "
                "splitter that draws positions with replacement does not keep the order of time"
            )
    return train, test


def _user_fold(number: int, pair: tuple[Ints, Ints], shifts: Ints, lengths: Ints) -> Fold:
    train, test = pair
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
        if side[-1] - side[0] + 1 != len(side):
            raise ConfigError(f"the {name} positions of fold {number} must be consecutive, but some are left out")

    def rows(first: int, last: int) -> tuple[Ints, Ints]:
        return np.clip(first - shifts, 0, lengths), np.clip(last - shifts, 0, lengths)

    # Positions between the two sides belong to neither: they are hidden.
    gap = int(test[0] - train[-1] - 1)
    sides = rows(int(train[0]), int(train[-1]) + 1), rows(int(test[0]), int(test[-1]) + 1)
    return Fold(number, *sides, gap, hidden=rows(int(train[-1]) + 1, int(test[0])) if gap else None)
