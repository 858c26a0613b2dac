"""Decides where each row of a table goes: sorted by series and time, duplicates merged, rows added for gaps.

Everything is arithmetic on runs of equal ids. The usual case, a sorted and regular table, is recognised by the
differences of its time stamps, and its rows are not moved.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.columns import Stamps
from neuro_divergent.data.schema.load_report import DataReport, sparse
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.time.anchors import find_anchors
from neuro_divergent.data.time.frequency import MICROSECONDS, Frequency
from neuro_divergent.data.time.infer import infer

log = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]


@dataclass
class Runs:
    """Runs of equal neighbouring ids: the id and the length of each run, in the order of the table."""

    ids: pl.Series
    lengths: Ints

    def __post_init__(self) -> None:
        self.ends = np.cumsum(self.lengths)

    @cached_property
    def dictionary(self) -> tuple[pl.Series, npt.NDArray[np.int32]]:
        """The sorted ids, and for each run the number of its id among them. Every id is hashed once."""
        if self.ids.dtype != pl.String:
            ids, codes = np.unique(self.ids.to_numpy(), return_inverse=True)
            return pl.Series(self.ids.name, ids), codes.astype(np.int32)
        hashed = self.ids.cast(pl.Categorical)
        different = hashed.unique()
        names = different.cast(pl.String)
        by_name = names.arg_sort()
        numbers = np.zeros(int(different.to_physical().max()) + 1, dtype=np.int32)  # type: ignore[arg-type]
        numbers[different.to_physical()[by_name].to_numpy()] = np.arange(len(names))
        return names[by_name], numbers[hashed.to_physical().to_numpy()]

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """[rows] the number of each input row's series among the sorted ids."""
        return np.repeat(self.dictionary[1], self.lengths)

    def where(self, row: int) -> str:
        """The series and row of an input row, for messages."""
        return f"series {self.ids[int(np.searchsorted(self.ends, row, side='right'))]!r}, row {row}"


@dataclass
class Layout:
    """How every input row gets into the store."""

    ids: pl.Series
    """[S] sorted."""
    offsets: Ints
    """[S + 1] in the store."""
    start: npt.NDArray[Any]
    grid_anchor: npt.NDArray[Any]
    """[S] the time from which the grid of each series is counted: `start`, unless the calendar moved it."""
    freq: Frequency
    order: Ints | None
    """[rows] input row of each sorted row; None if the table was sorted."""
    groups: Ints | None
    """[kept rows] first sorted row of each group of duplicates; None if there were none."""
    merge: str
    """How duplicates are merged."""
    slot: Ints | None
    """[kept rows] row of the store; None if there were no gaps."""

    @property
    def rows(self) -> int:
        """Rows of the store."""
        return int(self.offsets[-1])

    @property
    def kept_offsets(self) -> Ints:
        """[S + 1] offsets of the rows before rows are added for gaps."""
        return self.offsets if self.slot is None else np.searchsorted(self.slot, self.offsets).astype(np.int64)

    def input_row(self, kept: int) -> int:
        """The input row of a kept row, for messages."""
        row = kept if self.groups is None else int(self.groups[kept])
        return row if self.order is None else int(self.order[row])

    def sort(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values in input order → sorted order."""
        return values if self.order is None else np.asarray(values[self.order])

    def merged(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values in input order → sorted order, with the last of each group of duplicates."""
        values = self.sort(values)
        if self.groups is None:
            return values
        return np.asarray(values[np.append(self.groups[1:], len(values)) - 1])

    def merged_flags(self, flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Like `merged`; with merge "mean", whether any row of the group has the flag."""
        if self.groups is None or self.merge != "mean":
            return self.merged(flags)
        return np.asarray(np.logical_or.reduceat(self.sort(flags), self.groups))

    def merged_numbers(
        self, values: npt.NDArray[Any], observed: npt.NDArray[np.bool_] | None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
        """Like `merged`; with merge "mean", the mean of the observed values in each group."""
        if self.groups is None or self.merge != "mean":
            return self.merged(values), None if observed is None else self.merged(observed)
        values = self.sort(values)
        seen = np.ones(len(values), dtype=bool) if observed is None else self.sort(observed)
        number = np.cumsum(np.bincount(self.groups, minlength=len(values))[: len(values)]) - 1
        # Sorted by value, so that the sum does not depend on the order of the rows.
        by_value = np.lexsort((values, number))
        exact = np.where(seen, values, 0)[by_value].astype(np.float64)
        counts = np.add.reduceat(seen[by_value].astype(np.int64), self.groups)
        means = np.add.reduceat(exact, self.groups) / np.maximum(counts, 1)
        return means.astype(values.dtype), None if observed is None else counts > 0

    def place(self, values: npt.NDArray[Any], fill: Any = 0) -> npt.NDArray[Any]:
        """Values in merged order → rows of the store, with `fill` in rows that were added for gaps."""
        if self.slot is None:
            return values
        out = np.full(self.rows, fill, dtype=values.dtype)
        out[self.slot] = values
        return out


_PIECE = 1 << 16
"""Number of rows that are processed together: their data fits into the processor's cache."""


def lay_out(runs: Runs, stamps: Stamps, schema: DataSchema, report: DataReport) -> Layout:
    """The layout of a table: sort, merge duplicates, infer the frequency, add rows for gaps; the report counts each."""
    ids, lengths, order = _order(runs, stamps, report)
    if order is not None:
        stamps = Stamps(stamps.ticks[order], stamps.unit, stamps.label, stamps.zone)
    finder = _Finder(runs, order, stamps, ids, schema)
    first = np.concatenate(([0], np.cumsum(lengths)))
    steps = _inner_steps(stamps.ticks, first)
    groups = None
    if steps is not None and steps[0] == 0:
        groups, lengths = _duplicates(finder, first, schema, report)
        stamps = Stamps(stamps.ticks[groups], stamps.unit, stamps.label, stamps.zone)
        finder = _Finder(runs, groups if order is None else order[groups], stamps, ids, schema)
        first = np.concatenate(([0], np.cumsum(lengths)))
        steps = _inner_steps(stamps.ticks, first)
    smallest, largest = steps or (0, 0)
    freq = _frequency(finder, first, schema, report, smallest, largest)
    start = stamps.times(first[:-1])
    _check_phase(finder, freq, first)
    regular = smallest == largest and _plain(freq, stamps) and _step_in_ticks(freq, stamps) == smallest
    if stamps.unit != "i":
        start = start.astype("datetime64[us]")
    anchor = start
    if regular or smallest == 0:  # 0 if every series has one row
        offsets, slot = first, None
    else:
        anchor, after = _on_grid(finder, freq, first)
        offsets, slot = _open_gaps(finder, freq, first, after, schema, report)
    return Layout(ids, offsets, start, anchor, freq, order, groups, schema.duplicates, slot)


def _order(runs: Runs, stamps: Stamps, report: DataReport) -> tuple[pl.Series, Ints, Ints | None]:
    """The sorted ids, the number of rows per series, and the rows in sorted order (None if they are sorted)."""
    ids = runs.dictionary[0]
    contiguous = len(ids) == len(runs.ids)
    first = np.concatenate(([0], runs.ends))
    steps = _inner_steps(stamps.ticks, first)
    if contiguous and (steps is None or steps[0] >= 0):
        if runs.ids.is_sorted():
            return runs.ids, runs.lengths, None
        by_id = runs.ids.arg_sort().to_numpy().astype(np.int64)
        lengths = runs.lengths[by_id]
        shift = np.repeat(first[:-1][by_id] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        order = np.arange(len(stamps.ticks)) + shift
        report.unsorted_rows = int((np.diff(order) < 0).sum())
        return ids, lengths, order
    codes = runs.codes
    order = _sorted_rows(codes, stamps.ticks)
    report.unsorted_rows = int((np.diff(order) < 0).sum())
    return ids, np.bincount(codes, minlength=len(ids)).astype(np.int64), order


def _sorted_rows(codes: npt.NDArray[np.int32], ticks: npt.NDArray[Any]) -> Ints:
    """Rows by series and time; equal ones keep the order of the table. One sort key for both if it fits 62 bits."""
    first, last = int(ticks.min()), int(ticks.max())
    if (int(codes.max()) + 1) * (last - first + 1) < 2**62:
        key = codes.astype(np.int64) * (last - first + 1)
        key += ticks
        return np.argsort(key, kind="stable").astype(np.int64, copy=False)
    return np.lexsort((ticks, codes)).astype(np.int64, copy=False)


def _inner_steps(ticks: npt.NDArray[Any], first: Ints) -> tuple[int, int] | None:
    """The smallest and the largest difference of neighbouring rows of a series; None if no series has two rows."""
    borders = first[1:-1] - 1
    found: list[int] = []
    for begin in range(0, len(ticks) - 1, _PIECE):
        steps = np.diff(ticks[begin : begin + _PIECE + 1])
        low, high = np.searchsorted(borders, (begin, begin + len(steps)))
        across = borders[low:high] - begin
        if len(across) == len(steps):
            continue
        if len(across):
            inside = np.flatnonzero(across != np.arange(len(across)))
            steps[across] = steps[inside[0] if len(inside) else len(across)]
        found += [int(steps.min()), int(steps.max())]
    return (min(found), max(found)) if found else None


@dataclass
class _Finder:
    """Names rows of the sorted table in messages."""

    runs: Runs
    order: Ints | None
    stamps: Stamps
    ids: pl.Series
    schema: DataSchema

    def where(self, row: int) -> str:
        return self.runs.where(int(row if self.order is None else self.order[row]))

    def time(self, row: int) -> Any:
        return (
            np.datetime_as_string(self.stamps.times(row), unit="auto")
            if self.stamps.unit != "i"
            else (int(self.stamps.ticks[row]))
        )


def _duplicates(finder: _Finder, first: Ints, schema: DataSchema, report: DataReport) -> tuple[Ints, Ints]:
    ticks = finder.stamps.ticks
    fresh = np.ones(len(ticks), dtype=bool)
    fresh[1:] = ticks[1:] != ticks[:-1]
    fresh[first[:-1]] = True
    report.duplicate_rows = int(len(ticks) - fresh.sum())
    if schema.duplicates == "error":
        row = int(np.argmax(~fresh))
        raise DataError(
            f"each series has one row per time, but got {report.duplicate_rows:,} more: column {schema.time_col!r} has "
            f"{finder.time(row)} again at {finder.where(row)}. "
            'Say duplicates="last" or duplicates="mean", or remove them; if they are the hour that a clock change '
            "repeats, say time_zone=...",
            rule="one row per time",
            got=f"{report.duplicate_rows:,} more",
            advice=[Advice("data.duplicates", "last"), Advice("data.duplicates", "mean"), Advice("data.time_zone")],
        )
    lengths = np.add.reduceat(fresh.astype(np.int64), first[:-1])
    return np.flatnonzero(fresh), lengths


def _frequency(
    finder: _Finder, first: Ints, schema: DataSchema, report: DataReport, smallest: int, largest: int
) -> Frequency:
    stamps = finder.stamps
    if schema.freq is not None:
        freq = Frequency.parse(schema.freq)
        if freq.integer != (stamps.unit == "i"):
            kind = "whole numbers" if stamps.unit == "i" else "time stamps"
            raise DataError(
                f"freq must fit column {schema.time_col!r}, which holds {kind}, but got freq={schema.freq!r}. "
                'Say freq="1i" for whole numbers and e.g. freq="1d" for time stamps.',
                advice=[Advice("data.freq", "1i"), Advice("data.freq", "1d")],
            )
        # A frequency that is already known stays, even if a few of its rows lie only on month ends.
        return freq if schema.resolved else _month_ends(freq, stamps, first)
    report.freq_inferred = True
    if smallest == largest and smallest and _obvious(stamps, smallest):
        return Frequency(smallest, "i") if stamps.unit == "i" else Frequency.of_microseconds(smallest * _tick(stamps))
    freq_or_none = infer(stamps.times(), first[:-1], stamps.zone)
    if freq_or_none is None:
        raise DataError(
            f"a frequency is inferred from two rows of a series, but no series has two in column {schema.time_col!r}. "
            'Give it, e.g. freq="1d".',
            advice=[Advice("data.freq", "1d")],
        )
    return freq_or_none


def _tick(stamps: Stamps) -> int:
    return MICROSECONDS["d"] if stamps.unit == "D" else 1


def _obvious(stamps: Stamps, step: int) -> bool:
    """Whether a constant difference needs no look at the calendar."""
    if stamps.unit == "i":
        return True
    limit = MICROSECONDS["d"] if stamps.zone else 28 * MICROSECONDS["d"]
    return step * _tick(stamps) < limit


def _month_ends(freq: Frequency, stamps: Stamps, first: Ints) -> Frequency:
    """A monthly frequency without a position becomes month end if every stamp is a month end."""
    if not freq.months or freq.end or freq.first_day:
        return freq
    ended = Frequency(freq.count, freq.unit, end=True, anchor=freq.anchor)
    last = first[1:] - 1
    both = np.concatenate((stamps.times(first[:-1]), stamps.times(last)))
    ends = ended.phase_ok(both, stamps.zone).all() and ended.phase_ok(stamps.times(), stamps.zone).all()
    return ended if bool(ends) else freq


def _step_in_ticks(freq: Frequency, stamps: Stamps) -> int:
    return freq.count if freq.integer else freq.microseconds // _tick(stamps)


def _plain(freq: Frequency, stamps: Stamps) -> bool:
    """Whether steps are a fixed number of ticks."""
    return freq.integer or (bool(freq.microseconds) and (stamps.zone is None or not freq.on_wall_clock))


def _check_phase(finder: _Finder, freq: Frequency, first: Ints) -> None:
    good = freq.phase_ok(finder.stamps.times(first[:-1]), finder.stamps.zone)
    if not good.all():
        row = int(first[int(np.argmin(good))])
        raise _off_grid(finder, freq, row, first)


def _off_grid(finder: _Finder, freq: Frequency, row: int, first: Ints) -> DataError:
    series = int(np.searchsorted(first, row, side="right")) - 1
    start = int(first[series])
    own = infer(finder.stamps.times(slice(start, int(first[series + 1]))), np.array([0]), finder.stamps.zone)
    other = own is not None and own != freq
    if other:
        todo = f'This series looks like freq="{own}": say so if that is true for all series.'
    else:
        todo = "Correct the time stamp, or resample the series to one grid before loading (group_by_dynamic, resample)."
    say = "" if finder.schema.freq is None else " as given"
    return DataError(
        f"time stamps must follow the frequency {freq}{say}, but got {finder.time(row)} at {finder.where(row)} in "
        f"column {finder.schema.time_col!r} of a series that starts at {finder.time(start)}. {todo}",
        advice=[Advice("data.freq", str(own))] if other else [],
    )


def _on_grid(finder: _Finder, freq: Frequency, first: Ints) -> tuple[npt.NDArray[Any], Ints]:
    """[S] the anchor of each series' grid, and for each row its number of steps after the first row of its series."""
    stamps, lengths = finder.stamps, np.diff(first)
    times = stamps.times()
    found = find_anchors(freq, times, first, stamps.zone)
    if found is None:
        _, good = freq.positions(np.repeat(times[first[:-1]], lengths), times, stamps.zone)
        raise _off_grid(finder, freq, int(np.argmin(good)), first)
    anchor, steps = found
    begin = steps[first[:-1]]
    return freq.anchor_from(anchor, begin, stamps.zone), steps - np.repeat(begin, lengths)


def _open_gaps(
    finder: _Finder, freq: Frequency, first: Ints, steps: Ints, schema: DataSchema, report: DataReport
) -> tuple[Ints, Ints | None]:
    lengths = np.diff(first)
    spans = steps[first[1:] - 1] + 1
    added = spans - lengths
    total = int(added.sum())
    if total == 0:
        return first, None
    _check_sparse(finder, freq, first, steps, added, report)
    report.gap_rows = total
    names = finder.ids
    report.gaps_by_series = {names[int(s)]: int(added[s]) for s in np.flatnonzero(added)}
    if schema.gaps == "error":
        row = int(np.argmax(np.diff(steps, prepend=0) > 1))
        raise DataError(
            f"series must have no gaps, but {total:,} rows are missing: column {schema.time_col!r} jumps to "
            f'{finder.time(row)} at {finder.where(row)}. Say gaps="mask" (or a fill method), or add the rows.',
            advice=[Advice("data.gaps", "mask")],
        )
    offsets = np.concatenate(([0], np.cumsum(spans))).astype(np.int64)
    return offsets, np.repeat(offsets[:-1], lengths) + steps


def _check_sparse(finder: _Finder, freq: Frequency, first: Ints, steps: Ints, added: Ints, report: DataReport) -> None:
    """Refuse a grid far denser than the data: an outlying time stamp, or series of different frequencies."""
    rows = len(steps)
    if int(added.sum()) > 50 * rows + 1_000_000:
        series = int(np.argmax(added))
        raise DataError(
            f"the frequency must fit the rows, but {freq} would add {int(added.sum()):,} rows to {rows:,}, most of "
            f"them to series {finder.ids[series]!r} from {finder.time(int(first[series]))} to "
            f"{finder.time(int(first[series + 1]) - 1)}. "
            "Correct its time stamps, or give the true freq=..."
        )
    if not report.freq_inferred:
        if int(added.sum()) > rows:
            own = infer(finder.stamps.times(), first[:-1], finder.stamps.zone)
            hint = None if own is None or str(own) == str(freq) else str(own)
            report.notes.append(sparse(str(freq), int(added.sum()), int(added.sum()) + rows, hint))
            log.warning("%s", report.notes[-1])
        return
    inner = np.diff(steps)
    inner[first[1:-1] - 1] = np.iinfo(np.int64).max
    lengths = np.diff(first)
    slowest = np.minimum.reduceat(np.append(inner, np.iinfo(np.int64).max), first[:-1])
    slow = (lengths > 3) & (slowest > 1) & (slowest < np.iinfo(np.int64).max)
    if slow.any():
        series = int(np.argmax(slow))
        raise DataError(
            f"all series must have one frequency, but series {finder.ids[series]!r} has no two rows closer than "
            f"{int(slowest[series])} times {freq}, the step of the others (column {finder.schema.time_col!r}). "
            f'Load them separately, or say freq="{freq}" if the rows between are missing.',
            advice=[Advice("data.freq", str(freq))],
        )
