"""Converts Parquet of any size to a store on disk, in bounded memory and for any order of rows.

There are two passes over the file. The first reads only ids and times: the first and the last time of each series and
the frequency decide the position of every row in the store. The second reads the rows piece by piece and writes each
row to its position in memory-mapped files. Nothing is sorted, and nothing is in memory as a whole.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.core.files import new_directory
from neuro_divergent.data.read.columns import Numbers, Stamps, category_text, exact_values, read_numbers
from neuro_divergent.data.read.files import scan_parquet
from neuro_divergent.data.read.guard import guarded
from neuro_divergent.data.read.timestamps import read_stamps
from neuro_divergent.data.schema.load_report import DataReport, sparse
from neuro_divergent.data.store.files import HEADER, header
from neuro_divergent.data.store.rounding import SETTINGS, described, merged_by_rounding
from neuro_divergent.data.time.anchors import MOST_MOVES
from neuro_divergent.data.time.frequency import Frequency
from neuro_divergent.data.time.infer import infer

log = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]

PIECE = 1 << 19
"""Number of rows that are read at once."""

MAX_GROWTH = 20
"""If a store would have more than this many times the rows of its table, the frequency is wrong."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The roles of the columns of the table."""

    id_col: str
    time_col: str
    target_col: str
    future: tuple[str, ...]
    historical: tuple[str, ...]
    categorical: tuple[str, ...]
    weight: str | None
    freq: str | None
    dtype: str
    gaps: str

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "float64"):
            raise ConfigError(f"dtype must be 'float32' or 'float64', but got dtype={self.dtype!r}")
        if self.gaps not in ("mask", "error"):
            raise ConfigError(f"gaps must be 'mask' or 'error', but got gaps={self.gaps!r}")
        if len(set(self.columns)) < len(self.columns):
            raise ConfigError(f"a column has one role, but got {', '.join(self.columns)}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        last = () if self.weight is None else (self.weight,)
        first = (self.id_col, self.time_col, self.target_col)
        return (*first, *self.future, *self.historical, *self.categorical, *last)


@dataclass
class _Plan:
    """The result of the first pass: the series, their positions, and the categories."""

    ids: pl.Series
    start: npt.NDArray[Any]
    anchor: npt.NDArray[Any]
    """[S] the time from which the grid of each series is counted."""
    freq: Frequency
    zone: str | None
    rows: int
    first: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """[S] the steps from the anchor to the first row."""
    offsets: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """[S + 1] the offset of each series in the store."""
    vocabularies: dict[str, list[str]] = field(default_factory=dict)

    def codes(self, ids: pl.Series) -> Ints:
        """The series number of each row."""
        if ids.dtype == pl.String:
            return ids.cast(pl.Enum(self.ids)).to_physical().to_numpy().astype(np.int64)
        return np.searchsorted(self.ids.to_numpy(), ids.to_numpy()).astype(np.int64)

    def name(self, code: int) -> str:
        return repr(self.ids[int(code)])


def create_store(directory: Path, source: str | os.PathLike[str], recipe: Recipe, *, overwrite: bool) -> None:
    """Read a Parquet file, pattern or directory twice, and write the store: all of it or nothing."""
    lazy = scan_parquet(source)
    absent = [name for name in recipe.columns if name not in lazy.collect_schema()]
    if absent:
        raise DataError(f"the table must have the columns {', '.join(recipe.columns)}, but lacks {', '.join(absent)}")
    with new_directory(directory, overwrite=overwrite, mark=HEADER) as folder:
        plan = _survey(lazy, recipe)
        _Writer(folder, plan, recipe).run(lazy)


def _pieces(lazy: pl.LazyFrame, columns: list[str], rows: int) -> Iterator[tuple[int, pl.DataFrame]]:
    for begin in range(0, rows, PIECE):
        with guarded("the Parquet source"):
            piece = lazy.select(columns).slice(begin, PIECE).collect()
        yield begin, piece


def _survey(lazy: pl.LazyFrame, recipe: Recipe) -> _Plan:
    """The first pass: first and last time of each series, the frequency, the categories."""
    with guarded("the Parquet source"):
        rows = int(lazy.select(pl.len()).collect().item())
    if not rows:
        raise DataError("a table needs rows, but got none. Add at least one row for each series.")
    spans: pl.DataFrame | None = None
    freq = None if recipe.freq is None else Frequency.parse(recipe.freq)
    zone: str | None = None
    seen: dict[str, set[str]] = {name: set() for name in recipe.categorical}
    for begin, piece in _pieces(lazy, [recipe.id_col, recipe.time_col, *recipe.categorical], rows):
        ids = _read_ids(piece[recipe.id_col], begin)
        stamps = _read_times(piece[recipe.time_col], begin)
        zone = _same_zone(zone, stamps, begin, recipe)
        table = pl.DataFrame({"id": ids, "time": _ticks(stamps)})
        freq = freq or _infer(table, stamps)
        found = table.group_by("id").agg(pl.col("time").min().alias("first"), pl.col("time").max().alias("last"))
        spans = found if spans is None else _merged(spans, found)
        for name in recipe.categorical:
            seen[name].update(category_text(piece[name]).drop_nulls().unique().to_list())
    assert spans is not None
    if freq is None:
        raise DataError('the frequency must be clear from the first rows, but is not. Give it, e.g. freq="1h".')
    spans = spans.sort("id")
    start, last = (_times(spans[name].to_numpy(), freq) for name in ("first", "last"))
    plan = _Plan(ids=spans["id"], start=start, anchor=start.copy(), freq=freq, zone=zone, rows=rows)
    _find_anchors(lazy, plan, recipe)
    _place(plan, last, recipe)
    plan.vocabularies = {name: sorted(values) for name, values in seen.items()}
    return plan


def _merged(spans: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    both = pl.concat([spans, found]).group_by("id")
    return both.agg(pl.col("first").min(), pl.col("last").max())


def _find_anchors(lazy: pl.LazyFrame, plan: _Plan, recipe: Recipe) -> None:
    """Find the time from which the grid of each series is counted, if a calendar may have moved its first one.

    Only then ids and times are read again, until no row is off the grid; see `find_anchors`.
    """
    freq, zone = plan.freq, plan.zone
    doubtful = freq.maybe_moved(plan.start, zone) if freq.moves(zone) else np.zeros(len(plan.start), dtype=bool)
    for _ in range(MOST_MOVES if doubtful.any() else 0):
        odd = np.full(len(plan.start), np.iinfo(np.int64).max)
        for begin, piece in _pieces(lazy, [recipe.id_col, recipe.time_col], plan.rows):
            codes = plan.codes(_read_ids(piece[recipe.id_col], begin))
            ticks = _ticks(_read_times(piece[recipe.time_col], begin))[doubtful[codes]]
            codes = codes[doubtful[codes]]
            _, on_grid = freq.positions(plan.anchor[codes], _times(ticks, freq), zone)
            np.minimum.at(odd, codes[~on_grid], ticks[~on_grid])
        wrong = odd < np.iinfo(np.int64).max
        if not wrong.any():
            return
        plan.anchor[wrong] = _times(odd[wrong], freq)


def _place(plan: _Plan, last: npt.NDArray[Any], recipe: Recipe) -> None:
    """Decide the position of each series in the store: it has one row per step from its first to its last time."""
    freq, start, rows = plan.freq, plan.start, plan.rows
    plan.first, on_grid = freq.positions(plan.anchor, start, plan.zone)
    until, last_on_grid = freq.positions(plan.anchor, last, plan.zone)
    on_grid &= last_on_grid
    if not on_grid.all():
        odd = int(np.argmin(on_grid))
        raise DataError(
            f"the rows of a series are steps of {str(freq)!r} apart, but series {plan.name(odd)} goes from "
            f"{start[odd]} to {last[odd]}, which is not a whole number of steps. Give the right freq=..."
        )
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(until - plan.first + 1)])
    if offsets[-1] > MAX_GROWTH * rows + PIECE or (recipe.gaps == "error" and offsets[-1] > rows):
        mask = ", or gaps='mask'" if recipe.gaps == "error" else ""
        raise DataError(
            f"the frequency must fit the rows, but {rows:,} rows would become {int(offsets[-1]):,} in steps of "
            f"{str(freq)!r}, because time stamps are missing between them. Give the right freq=...{mask}."
        )
    plan.offsets = offsets


class _Writer:
    """The second pass: writes every row to its position."""

    def __init__(self, folder: Path, plan: _Plan, recipe: Recipe) -> None:
        self.folder, self.plan, self.recipe = folder, plan, recipe
        self.report = DataReport()
        self.merged = np.zeros(len(plan.ids), np.int64)
        rows, kind = int(plan.offsets[-1]), np.dtype(recipe.dtype)
        self.sizes: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.y = self._map("y", kind, (rows,))
        # For the rows that were written: which ones exist, and in which ones the target was observed.
        self.present = self._map("present", np.dtype(bool), (rows,))
        self.mask = self._map("mask", np.dtype(bool), (rows,))
        self.blocks = {
            name: self._map(name, kind, (rows, len(names)))
            for name, names in (("future", recipe.future), ("historical", recipe.historical))
            if names
        }
        self.weight = None if recipe.weight is None else self._map("weight", kind, (rows,))
        codes = (rows, len(recipe.categorical))
        self.categorical = self._map("categorical", np.dtype(np.int32), codes) if recipe.categorical else None

    def run(self, lazy: pl.LazyFrame) -> None:
        plan, recipe = self.plan, self.recipe
        whole = plan.rows == int(plan.offsets[-1])
        complete = True
        for begin, piece in _pieces(lazy, list(recipe.columns), plan.rows):
            complete &= self._write(begin, piece)
        self._warn()
        if not whole:
            self._carry_over_gaps()
        names = ["present"] + (["mask"] if whole and complete else [])
        self._drop(names)
        self._finish()

    def _warn(self) -> None:
        plan, rows = self.plan, int(self.plan.offsets[-1])
        merged = {plan.ids[int(code)]: int(self.merged[code]) for code in np.flatnonzero(self.merged)}
        if merged:
            log.warning("%s", described(merged), extra=SETTINGS)
        if self.recipe.freq is not None and rows > 2 * plan.rows:
            log.warning("%s", sparse(self.recipe.freq, rows - plan.rows, rows))

    def _write(self, begin: int, piece: pl.DataFrame) -> bool:
        """Write one piece to its position. Returns whether all of its targets were observed."""
        recipe, place = self.recipe, self._places(begin, piece)
        target = self._numbers(piece[recipe.target_col], begin)
        if recipe.dtype == "float32":
            self._count_merged(piece)
        self.y[place] = target.values
        self.mask[place] = True if target.observed is None else target.observed
        for block, names in (("future", recipe.future), ("historical", recipe.historical)):
            for number, name in enumerate(names):
                self.blocks[block][place, number] = self._complete(piece[name], begin)
        if self.weight is not None and recipe.weight is not None:
            self.weight[place] = self._complete(piece[recipe.weight], begin, positive=True)
        if self.categorical is not None:
            for number, name in enumerate(recipe.categorical):
                codes = category_text(piece[name]).cast(pl.Enum(self.plan.vocabularies[name])).to_physical()
                self.categorical[place, number] = (codes.cast(pl.Int32) + 1).fill_null(0).to_numpy()
        return target.observed is None

    def _count_merged(self, piece: pl.DataFrame) -> None:
        """Count the targets of a piece that are equal in float32."""
        exact = exact_values(piece[self.recipe.target_col])
        if exact is None:
            return
        codes = self.plan.codes(_read_ids(piece[self.recipe.id_col], 0))
        first = np.flatnonzero(np.append(True, np.diff(codes) != 0))
        self.merged += merged_by_rounding(exact, first, codes[first], len(self.merged))

    def _places(self, begin: int, piece: pl.DataFrame) -> slice | Ints:
        """The row of the store for each row of a piece; a slice if they are consecutive."""
        plan, column = self.plan, self.recipe.time_col
        codes = plan.codes(_read_ids(piece[self.recipe.id_col], begin))
        times = _times(_ticks(_read_times(piece[column], begin)), plan.freq)
        steps, on_grid = plan.freq.positions(plan.anchor[codes], times, plan.zone)
        if not on_grid.all():
            odd = int(np.argmin(on_grid))
            raise DataError(
                f"the rows of a series are steps of {str(plan.freq)!r} apart, but series {plan.name(codes[odd])} has "
                f"{times[odd]} in row {begin + odd}. Correct the time stamp, or give the right freq=..."
            )
        place = plan.offsets[codes] + steps - plan.first[codes]
        in_order = bool((np.diff(place) == 1).all())
        if not in_order:
            self._check_unique(np.sort(place))
        target: slice | Ints = slice(int(place[0]), int(place[-1]) + 1) if in_order else place
        if self.present[target].any():
            self._refuse_duplicate(int(place[np.argmax(self.present[target])]))
        self.present[target] = True
        return target

    def _check_unique(self, ordered: Ints) -> None:
        twice = ordered[1:][np.diff(ordered) == 0]
        if twice.size:
            self._refuse_duplicate(int(twice[0]))

    def _refuse_duplicate(self, row: int) -> None:
        plan = self.plan
        code = int(np.searchsorted(plan.offsets, row, side="right")) - 1
        step = plan.first[code] + row - int(plan.offsets[code])
        time = plan.freq.advance(plan.anchor[code : code + 1], [step], plan.zone)[0]
        raise DataError(
            f"a series has one row for each time, but series {plan.name(code)} has {time} twice. "
            "Remove one of the rows, or merge them before."
        )

    def _numbers(self, series: pl.Series, begin: int) -> Numbers:
        return read_numbers(series, lambda row: f"row {begin + row}", self.report, dtype=self.recipe.dtype)

    def _complete(self, series: pl.Series, begin: int, *, positive: bool = False) -> npt.NDArray[Any]:
        numbers = self._numbers(series, begin)
        if numbers.observed is not None:
            row = begin + int(np.argmin(numbers.observed))
            raise DataError(
                f"column {series.name!r} must have a value in every row, but row {row} has none. Fill it in before."
            )
        if positive and (numbers.values < 0).any():
            row = begin + int(np.argmax(numbers.values < 0))
            raise DataError(f"column {series.name!r} must hold weights of at least 0, but row {row} has a negative one")
        return numbers.values

    def _carry_over_gaps(self) -> None:
        """Give missing rows the last known values of the input columns (their weight stays 0)."""
        columns = [array for array in (*self.blocks.values(), self.categorical) if array is not None]
        last = 0  # the first row of a series exists, so that nothing is carried into another series
        for begin in range(0, len(self.present), PIECE):
            present = self.present[begin : begin + PIECE]
            known = np.maximum.accumulate(np.where(present, np.arange(begin, begin + len(present)), last))
            last = int(known[-1])
            gap = np.flatnonzero(~present)
            if gap.size:
                for array in columns:
                    array[begin + gap] = array[known[gap]]

    def _finish(self) -> None:
        plan, recipe = self.plan, self.recipe
        text = plan.ids.dtype == pl.String
        ids = np.array(plan.ids.to_list(), dtype=np.str_) if text else plan.ids.to_numpy()
        arrays = {"ids": ids, "offsets": plan.offsets, "start": plan.start}
        anchor = plan.freq.anchor_from(plan.anchor, plan.first, plan.zone)
        if bool((anchor != plan.start).any()):
            arrays["grid_anchor"] = anchor
        for name, array in arrays.items():
            np.save(self.folder / f"{name}.npy", array, allow_pickle=False)
            self.sizes[name] = (str(array.dtype), array.shape)
        description = {
            "freq": str(plan.freq),
            "time_zone": plan.zone,
            "future_names": list(recipe.future),
            "historical_names": list(recipe.historical),
            "static_names": [],
            "categories": plan.vocabularies,
        }
        (self.folder / HEADER).write_text(header(description, self.sizes), encoding="utf-8")

    def _map(self, name: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        self.sizes[name] = (str(kind), shape)
        path = self.folder / f"{name}.npy"
        # mypy has no signature for open_memmap
        mapped: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=shape)
        return mapped.view(np.ndarray)

    def _drop(self, names: list[str]) -> None:
        for name in names:
            del self.sizes[name]
            (self.folder / f"{name}.npy").unlink()


def _read_ids(series: pl.Series, begin: int) -> pl.Series:
    if not (series.dtype.is_integer() or series.dtype in (pl.String, pl.Categorical, pl.Enum)):
        raise DataError(f"column {series.name!r} must hold text or whole numbers, but got {series.dtype}. Cast it.")
    if series.null_count():
        row = begin + int(series.is_null().arg_max() or 0)
        raise DataError(f"column {series.name!r} must name a series in every row, but row {row} is empty. Fill it in.")
    return series.cast(pl.Int64 if series.dtype.is_integer() else pl.String)


def _read_times(series: pl.Series, begin: int) -> Stamps:
    return read_stamps(series, lambda row: f"row {begin + row}", iso_only=True)


def _ticks(stamps: Stamps) -> Ints:
    ticks: Ints = stamps.ticks.astype(np.int64, copy=False)
    return ticks * 86_400_000_000 if stamps.unit == "D" else ticks


def _times(ticks: Ints, freq: Frequency) -> npt.NDArray[Any]:
    return ticks if freq.integer else ticks.view("datetime64[us]")


def _same_zone(zone: str | None, stamps: Stamps, begin: int, recipe: Recipe) -> str | None:
    integer = recipe.freq is not None and Frequency.parse(recipe.freq).integer
    if recipe.freq is not None and integer != (stamps.unit == "i"):
        held = "whole numbers" if stamps.unit == "i" else "time stamps"
        raise DataError(f"column {recipe.time_col!r} holds {held}, which do not fit freq={recipe.freq!r}")
    if begin and zone != stamps.zone:
        raise DataError(f"column {recipe.time_col!r} must have one time zone, but got {zone} and {stamps.zone}")
    return stamps.zone


def _infer(table: pl.DataFrame, stamps: Stamps) -> Frequency | None:
    ordered = table.unique().sort("id", "time")
    first = np.flatnonzero(np.append(True, ordered["id"].to_frame().select(pl.all() != pl.all().shift())[1:, 0]))
    ticks = ordered["time"].to_numpy()
    return infer(ticks if stamps.unit == "i" else ticks.view("datetime64[us]"), first, stamps.zone)
