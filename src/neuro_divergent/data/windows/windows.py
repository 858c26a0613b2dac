"""Windows over a store: arithmetic turns a window number into (series, position); one strided gather makes a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch, InputSpec, cut_sizes
from neuro_divergent.core.errors import Advice, ConfigError, DataError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.gather import Gather, as_tensors, write_horizon
from neuro_divergent.data.windows.grid import grid_range, grid_shifts, seen_on_grid
from neuro_divergent.data.windows.index import Ints, WindowIndex, spread
from neuro_divergent.data.windows.samplers import Sampler
from neuro_divergent.data.windows.strided import Column

Range = tuple[npt.ArrayLike, npt.ArrayLike]
"""For each series, the rows in which horizons may lie: first (included) and last (excluded)."""

Places = list[tuple[Tensor, Tensor, Tensor]]

Short = Literal["error", "drop", "pad"]

GROUP_BYTES = 1 << 18
"""About how many bytes of windows are gathered at once if batches are small. They still fit into a CPU cache."""


class Stored(Protocol):
    """A table that has a store."""

    store: SeriesStore


class Windows:
    """Every valid window of a store, numbered from 0. Windows are never materialised or padded to the longest series.

    A window is valid if its whole horizon lies in `target_range`, its lookback is complete (or padded where that is
    allowed), and at least one value was observed in its lookback and one in its horizon.

    Args:
        store: a `TimeSeriesDataFrame`, or its store: the series, in memory or memory-mapped.
        lookback: number of rows that the model reads.
        horizon: number of rows that the model forecasts.
        step: distance between two windows, counted from the end, so that the newest window is always included.
        start_padding: include windows whose lookback starts before the series. The rows before it are masked.
        min_available: share of observed values required in the lookback and in the horizon, each. Padding counts as
            not observed.
        target_range: rows of each series in which horizons may lie, as (first [S], last [S]). The lookback may start
            before `first`. Splits are expressed this way.
        multivariate: whether a window contains all series at one position of their shared time grid.
        short: what to do with series that are too short for a window: "error", "drop" (leave them out) or "pad".
            Series too short for one row and a horizon are also left out by "pad".
        historical_categorical: categorical columns that are not known ahead. Their codes are 0 in the horizon.

    >>> import neuro_divergent as nd
    >>> data = nd.TimeSeriesDataFrame.from_frame(nd.samples.air_passengers())
    >>> windows = nd.Windows(data.store, lookback=24, horizon=12)
    >>> len(windows), windows.last().y.shape
    (109, torch.Size([1, 24, 1]))
    """

    def __init__(
        self,
        store: SeriesStore | Stored,
        *,
        lookback: int,
        horizon: int,
        step: int = 1,
        start_padding: bool = False,
        min_available: float = 0.0,
        target_range: Range | None = None,
        multivariate: bool = False,
        short: Short = "error",
        historical_categorical: Sequence[str] = (),
    ) -> None:
        _check(lookback, horizon, step, min_available, short)
        store = store if isinstance(store, SeriesStore) else getattr(store, "store", store)
        if not isinstance(store, SeriesStore):
            raise ConfigError(
                f"windows are cut from a TimeSeriesDataFrame or its store, but got {type(store).__name__}. Read "
                "it with nd.TimeSeriesDataFrame.from_frame"
            )
        self.store, self.lookback, self.horizon, self.step = store, lookback, horizon, step
        self.multivariate = multivariate
        self._lengths = store.lengths
        self._shifts = grid_shifts(store) if multivariate else np.zeros(len(self._lengths), np.int64)
        self.grid_length = int((self._shifts + self._lengths).max(initial=0))
        """Rows of the shared time grid; rows of the longest series if a window contains one series."""
        self._ragged = multivariate and bool(np.any(self._lengths != self.grid_length))
        # The gather needs the row where a lookback begins, not the row where the horizon begins.
        self._index = self._find(self._range(target_range), min_available, start_padding, short).shifted(-lookback)
        self._padded = self._ragged or bool((self._index.first < lookback).any())
        shifts = self._shifts if multivariate else None
        self._rows = Gather(
            store, lookback, horizon, shifts=shifts, historical_categorical=tuple(historical_categorical)
        )
        self._gathered = self._rows.gatherer(clipped=self._padded, partial_targets=self._ragged)

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"Windows({len(self)} of lookback {self.lookback} and horizon {self.horizon}, step {self.step})"

    @property
    def boundaries(self) -> Ints:
        """[S + 1] the windows of series s have the numbers boundaries[s] : boundaries[s + 1]."""
        if self.multivariate:
            raise ConfigError("boundaries need windows of one series, but these windows contain all series")
        return self._index.boundaries(len(self._lengths))

    def spec(self, outputs: int = 1) -> InputSpec:
        """Return the input sizes of a network for these windows.

        Args:
            outputs: number of values that the network returns per horizon step.
        """
        store = self.store
        return InputSpec(
            horizon=self.horizon,
            lookback=self.lookback,
            series=len(store.ids),
            future=0 if store.future is None else store.future.shape[1],
            historical=0 if store.historical is None else store.historical.shape[1],
            static=0 if store.static is None else store.static.shape[1],
            categories=tuple(len(values) + 1 for values in store.categories.values()),
            outputs=outputs,
        )

    def locate(self, numbers: npt.NDArray[np.int64] | Tensor) -> tuple[Ints, Ints]:
        """Return the series of each window number, and the position of its first horizon step within the series.

        For multivariate windows the position is on the shared grid, and the series is 0.

        Args:
            numbers: window numbers from 0 to len(self) - 1.
        """
        series, time, _ = self._index.locate(_plain(numbers))
        return series, time

    def gather(self, numbers: npt.NDArray[np.int64] | Tensor) -> Batch:
        """Return the batch of the given windows, in their order.

        Args:
            numbers: window numbers from 0 to len(self) - 1.
        """
        return self._gathered(*as_tensors(*self._index.locate(_plain(numbers))))

    def batches(self, sampler: Sampler) -> Callable[[int, int], Batch]:
        """Return a function that gives the batch of (epoch, step), in the order of a sampler.

        Several steps are computed together, because a call costs as much as a small batch. Window numbers and rows
        are computed for as many steps as the sampler draws at once. Small batches are also gathered in groups. The
        batches of a group share one memory block, but no element of it.

        Args:
            sampler: the order of the windows.
        """
        rows, size = self._rows, sampler.batch_size
        group = max(1, GROUP_BYTES // (size * rows.window_bytes))
        gathered = self._gathered
        lock = Lock()  # loader threads need neighbouring steps: one thread computes, the others wait for it
        # Epoch, first step, end step, rows of the windows: one name, replaced as a whole, so readers need no lock.
        known: tuple[int, int, int, Places] = (-1, 0, 0, [])
        number, ready = -1, list[Batch]()

        def computed(epoch: int, step: int) -> tuple[int, int, int, Places]:
            nonlocal known, number
            drawn, inside = sampler.block(epoch, step)
            found, sizes = as_tensors(*self._index.locate(drawn)), cut_sizes(len(drawn), group * size)
            places = list(zip(*(torch.unsafe_split_with_sizes(place, sizes) for place in found), strict=True))
            known, number = (epoch, step - inside, step - inside - (-len(drawn) // size), places), -1
            return known

        def single(epoch: int, step: int) -> Batch:
            of, first, last, places = known
            if of != epoch or not first <= step < last:
                with lock:
                    of, first, last, places = known
                    if of != epoch or not first <= step < last:
                        _, first, _, places = computed(epoch, step)
            return gathered(*places[step - first])

        def grouped(epoch: int, step: int) -> Batch:
            nonlocal number, ready
            with lock:
                of, first, last, places = known
                if of != epoch or not first <= step < last:
                    _, first, _, places = computed(epoch, step)
                if (step - first) // group != number:
                    number, ready = (step - first) // group, []
                    ready = gathered(*places[number]).cut(size)
                return ready[(step - first) % group]

        return single if group == 1 else grouped

    def last(self, future: npt.NDArray[Any] | None = None, categorical: npt.NDArray[Any] | None = None) -> Batch:
        """Return the window of every series that ends at its last row: the input of a forecast.

        Args:
            future: [S, H, F] the columns known ahead, for the horizon.
            categorical: [S, H, K] codes of the time-varying categorical columns, for the horizon.
        """
        return self.forecast_batch(np.arange(len(self._lengths)), future, categorical)

    def forecast_batch(
        self,
        series: npt.NDArray[np.int64] | Tensor | Sequence[int],
        future: npt.NDArray[Any] | None = None,
        categorical: npt.NDArray[Any] | None = None,
    ) -> Batch:
        """Return the windows that end at the last rows of the given series, without targets, padded if too short.

        Args:
            series: numbers of series in the store. A multivariate batch is one window and needs all of them.
            future: [n, H, F] the columns known ahead, for the horizon.
            categorical: [n, H, K] codes of the time-varying categorical columns, for the horizon.
        """
        chosen = np.asarray(series, dtype=np.int64).reshape(-1)
        self._check_series(chosen)
        time = np.array([self.grid_length]) if self.multivariate else self._lengths[chosen]
        start = (time if self.multivariate else self.store.offsets[chosen] + time) - self.lookback
        batch = self._rows.batch(*as_tensors(chosen, time, start), clipped=True, partial_targets=True)
        masked = self.store.mask is not None or self._ragged or bool((time < self.lookback).any())
        batch = batch._replace(mask=batch.mask if masked else None, target=None, target_mask=None, weight=None)
        self._write(batch.future, future, self._rows.future, "future", self.store.future_names)
        codes = self._write(batch.categorical, categorical, self._rows.codes, "categorical", self._rows.known_ahead)
        if codes is not None and self._rows.hidden:
            codes[..., self._rows.hidden] = 0
        return batch

    def _find(self, ranges: tuple[Ints, Ints], share: float, start_padding: bool, short: Short) -> WindowIndex:
        """Index the valid positions: by arithmetic if everything was observed, else by counting observations."""
        lengths = np.array([self.grid_length]) if self.multivariate else self._lengths
        first, last = grid_range(*ranges, self._lengths, self._shifts) if self.multivariate else ranges
        complete = self.store.mask is None and not self._ragged
        needed = max(1, math.ceil(share * self.lookback - 1e-9)) if complete else 1
        rows = np.full(len(lengths), needed if start_padding else self.lookback)
        too_short = (lengths < rows + self.horizon) & (last > first)
        if short == "error" and too_short.any():
            raise self._too_short(too_short, int(rows[0]))
        if short == "pad":
            rows[too_short] = needed
        position, count = spread(np.maximum(first, rows), last - self.horizon, self.step)
        offsets = np.zeros(1, np.int64) if self.multivariate else self.store.offsets
        index = WindowIndex.of(np.arange(len(lengths)), position, count, step=self.step, offsets=offsets)
        return index if complete else self._observed_only(index, share)

    def _observed_only(self, index: WindowIndex, share: float) -> WindowIndex:
        store, each = self.store, len(self._lengths) if self.multivariate else 1
        need = tuple(max(1.0, share * rows * each - 1e-9) for rows in (self.lookback, self.horizon))
        if self.multivariate:
            seen, offsets = seen_on_grid(store, self._shifts, self.grid_length), np.array([0, self.grid_length])
            return index.where(seen, offsets, lookback=self.lookback, horizon=self.horizon, need=(need[0], need[1]))
        assert store.mask is not None
        return index.where(
            store.mask, store.offsets, lookback=self.lookback, horizon=self.horizon, need=(need[0], need[1])
        )

    def _range(self, target_range: Range | None) -> tuple[Ints, Ints]:
        if target_range is None:
            return np.zeros_like(self._lengths), self._lengths
        first, last = (np.asarray(side, dtype=np.int64) for side in target_range)
        if first.shape != self._lengths.shape or last.shape != self._lengths.shape:
            raise ConfigError(
                f"target_range must have one first and one last row for each of the {len(self._lengths)} series, "
                f"but got the shapes {first.shape} and {last.shape}"
            )
        return np.maximum(first, 0), np.minimum(last, self._lengths)

    def _too_short(self, which: npt.NDArray[np.bool_], rows: int) -> DataError:
        if self.multivariate:
            named = f"the shared time grid has {self.grid_length} rows"
        else:
            bad = np.flatnonzero(which)
            some = ", ".join(f"{self.store.ids[i]} ({self._lengths[i]})" for i in bad[:5])
            named = (
                f"{len(bad)} series {'is' if len(bad) == 1 else 'are'} shorter: {some}{', …' if len(bad) > 5 else ''}"
            )
        return DataError(
            f"a series needs {rows + self.horizon} rows (lookback {rows} + horizon {self.horizon}), but {named}. "
            "Choose a smaller input_size or h, or set short='drop' to leave them out or short='pad' to pad them.",
            advice=[Advice("data.short", "drop"), Advice("data.short", "pad")],
        )

    def _check_series(self, chosen: Ints) -> None:
        count = len(self._lengths)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= count):
            raise ConfigError(f"series numbers go from 0 to {count - 1}, but got {chosen.min()} to {chosen.max()}")
        if self.multivariate and not np.array_equal(chosen, np.arange(count)):
            raise ConfigError("a multivariate model forecasts all series together, in order, but got only some of them")

    def _write(
        self,
        block: Tensor | None,
        given: npt.NDArray[Any] | None,
        column: Column | None,
        name: str,
        names: Sequence[str],
    ) -> Tensor | None:
        """Write the given columns into the horizon of a gathered block, and return the part that was written."""
        if given is None:
            if names and column is not None:
                raise DataError(
                    f"the columns {', '.join(names)} are known ahead, but got no values for the {self.horizon} steps "
                    "after the last row. Pass a table with the future values."
                )
            return None
        count = len(self._lengths) if block is None or self.multivariate else len(block)
        shape = (count, self.horizon, 0 if column is None else column.width)
        if block is None or column is None or np.shape(given) != shape:
            raise DataError(f"{name} must be [series, horizon, columns] = {shape}, but got {np.shape(given)}")
        return write_horizon(block, given, self.lookback, multivariate=self.multivariate)


def _plain(numbers: npt.NDArray[np.int64] | Tensor) -> Ints:
    plain = numbers.numpy() if isinstance(numbers, Tensor) else np.asarray(numbers)
    return plain.astype(np.int64, copy=False)


def _check(lookback: int, horizon: int, step: int, min_available: float, short: str) -> None:
    for name, value in (("lookback", lookback), ("horizon", horizon), ("step", step)):
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, but got {name}={value}")
    if not 0 <= min_available <= 1:
        raise ConfigError(f"min_available must be between 0 and 1, but got min_available={min_available}")
    if short not in ("error", "drop", "pad"):
        raise ConfigError(f"short must be 'error', 'drop' or 'pad', but got short={short!r}")
