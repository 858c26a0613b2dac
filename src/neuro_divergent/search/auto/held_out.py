"""Which rows a portfolio is not trained on: windows that choose the ensemble, and later ones that only score it.

├──────── trained on ────────┤ selection windows ┤ judge windows ┤

Members stop early, weights are chosen and a search is led by the selection windows. The judge windows decide nothing.

Letters: S series.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.split import common_dates, rows_before
from neuro_divergent.forecasting.evaluate.fold_job import part_of
from neuro_divergent.forecasting.predict.historical import Origins

Ints = npt.NDArray[np.int64]

LARGEST_SHARE = 0.25
"""At most this share of the rows of a typical series is held out, if that leaves room for two windows."""
SELECTION, JUDGE = (2, 40), (1, 20)
"""Fewest and most windows of a series that choose, and that score."""
WANTED = 60
"""About so many selection windows of all series together are wanted: few series have several windows each."""
MOST_SCORED = 4096
"""About the maximum number of windows of each kind: of large panels only some of the series are scored."""


def window_counts(lengths: Ints, h: int, wanted: int | None = None) -> tuple[int, int]:
    """How many selection windows and judge windows each series has; (1, 0) or (0, 0) if the series are too short.

    >>> window_counts(np.full(400, 900), 48), window_counts(np.array([144]), 12), window_counts(np.array([20]), 6)
    ((2, 1), (2, 1), (1, 1))
    """
    longest, typical = int(lengths.max(initial=0)), int(np.median(lengths))
    fitting = (longest - h - 1) // h  # a training needs one window before them
    if fitting < 2:
        return max(0, fitting), 0
    if wanted is not None:
        total = min(wanted, fitting)
        judge = max(1, total // 3)
        return total - judge, judge
    series = max(1, len(lengths))
    select, judge = (min(most, max(least, -(-goal // series))) for (least, most), goal in (
        (SELECTION, WANTED), (JUDGE, WANTED // 2)))  # fmt: skip
    total = min(max(2, int(LARGEST_SHARE * typical) // h), fitting)
    if select + judge > total:
        judge = max(1, total // 3)
        select = total - judge
    return select, judge


@dataclass(frozen=True)
class HeldOut:
    """A table, and the rows of each series from which on nothing is trained, and nothing is decided."""

    table: TimeSeriesDataFrame
    h: int
    train: Ints
    """[S] how many first rows are trained on."""
    judge: Ints
    """[S] how many first rows may decide anything."""

    @classmethod
    def of(cls, table: TimeSeriesDataFrame, h: int, select: int, judge: int) -> HeldOut:
        """The table with so many windows of each kind at the end of its series.

        Series with dates share the moments where both parts begin. Of other tables, a series that is too short to be
        trained before its windows is only trained on.
        """
        train = _begins(table.store, (select + judge) * h, h)
        return cls(table, h, train, np.maximum(_begins(table.store, judge * h, h), train))

    def facts(self) -> dict[str, Any]:
        """The rows as plain data, without the table."""
        return {"h": self.h, "train": self.train.tolist(), "judge": self.judge.tolist()}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any], table: TimeSeriesDataFrame) -> HeldOut:
        """The rows from the result of `facts`."""
        train, judge = (np.array(facts[name], dtype=np.int64) for name in ("train", "judge"))
        return cls(table, facts["h"], train, judge)

    @cached_property
    def past(self) -> TimeSeriesDataFrame:
        """The rows that are trained on."""
        return part_of(self.table, np.zeros_like(self.train), self.train)

    @cached_property
    def validation(self) -> TimeSeriesDataFrame:
        """The rows of the selection windows, of the series that are trained on."""
        known = self.train > 0
        return part_of(self.table, np.where(known, self.train, self.judge), self.judge)

    @cached_property
    def selection(self) -> Origins:
        """Where the forecasts that choose begin."""
        return self._origins(self.train, self.judge)

    @cached_property
    def final(self) -> Origins:
        """Where the forecasts that only score begin."""
        return self._origins(self.judge, self.table.store.lengths)

    def _origins(self, first: Ints, last: Ints) -> Origins:
        found = Origins.windows(self.table, np.maximum(first, 1), last, steps=self.h, step_size=self.h)
        found = found.where(self.train[found.series] > 0)
        if len(found) <= MOST_SCORED:
            return found
        series = np.unique(found.series)
        each = max(1, round(len(found) / len(series)))
        chosen = series[np.linspace(0, len(series) - 1, max(1, MOST_SCORED // each)).round().astype(np.int64)]
        return found.where(np.isin(found.series, chosen))


def _begins(store: SeriesStore, rows: int, h: int) -> Ints:
    """[S] the row of each series from which its last `rows` rows, or the rows of the same dates, are held out."""
    lengths = store.lengths
    if not rows:
        return lengths.copy()
    if common_dates(store):
        newest = int(np.argmax(store.times(lengths)))
        row = max(int(lengths[newest]) - rows, 0)
        return rows_before(store, store.times(np.array([row]), np.array([newest]))[0])
    begin = lengths - rows
    return np.where(begin >= h + 1, begin, lengths)
