"""Held-out forecasts of the selection run, which a refitted model keeps: its network has seen the held-out rows by now.

Letters: N forecasts, S series, H steps, K columns of a forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import CorruptFileError
from neuro_divergent.forecasting.network.coverages import coverages_of
from neuro_divergent.forecasting.network.output_columns import Columns, forecast_columns, learned_columns, named_columns
from neuro_divergent.forecasting.predict.historical import Origins

if TYPE_CHECKING:
    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_KEPT = 4096
"""At most about this many forecasts are kept: as many as a validation scores."""
MAX_VALUES = 1 << 21
"""At most about this many numbers are kept (8 MB), if the horizon is long or the forecast has many columns."""
MAX_MOMENTS = 48
"""Maximum number of forecast origins of a multivariate model: each gives forecasts of all series."""
NEIGHBOUR_SERIES, NEIGHBOURS = 5, 200
"""Of this many series, this many consecutive forecasts are kept, for the correlation of errors."""


@dataclass(frozen=True)
class KeptForecasts:
    """Forecasts of held-out rows, made before the refit, with the actual values."""

    ids: npt.NDArray[np.generic]
    """[S] the names of the series."""
    series: Ints
    """[N] the series of each forecast, as a place in `ids`."""
    time: Ints
    """[N] the time of the first step: microseconds since 1970, or the whole number of the table."""
    columns: Columns
    """The columns of the forecasts: the point, then probability levels."""
    values: npt.NDArray[np.floating[Any]]
    """[N, H, K] the forecasts."""
    actual: npt.NDArray[np.floating[Any]]
    """[N, H] the actual values; NaN where a value is missing."""
    step: int
    """Rows from one forecast of a series to the next, counted from its end. Some series have more between them."""

    def __len__(self) -> int:
        return len(self.series)

    @cached_property
    def places(self) -> dict[tuple[Any, int], int]:
        """The number of each forecast, by the name of its series and the time of its first step."""
        names = self.ids.tolist()
        pairs = zip(self.series.tolist(), self.time.tolist(), strict=True)
        return {(names[series], time): number for number, (series, time) in enumerate(pairs)}

    def find(self, origins: Origins) -> Ints:
        """[N] the number of the kept forecast of each origin; -1 if it was not kept."""
        if origins.steps > self.actual.shape[1]:
            return np.full(len(origins), -1, dtype=np.int64)
        store = origins.table.store
        names, times = store.ids[origins.series].tolist(), _ticks(store.times(origins.time, origins.series)).tolist()
        found = [self.places.get(pair, -1) for pair in zip(names, times, strict=True)]
        return np.where(origins.gap == 0, np.array(found, dtype=np.int64), -1)

    def take(self, forecaster: Forecaster, origins: Origins, columns: Columns) -> Floats:
        """[N, steps, K] the kept forecasts of some origins; NaN if a forecast or a level was not kept."""
        number = self.find(origins)
        known = number >= 0
        values = np.full((len(origins), origins.steps, len(columns.names)), np.nan)
        kept, some = np.asarray(self.values[number[known], : origins.steps], dtype=np.float64), origins.where(known)
        own = [_place(self.columns.levels, level) for level in columns.levels]
        if all(place is not None for place in own):
            kept = kept[:, :, [place for place in own if place is not None]]
        elif forecaster.intervals is not None and forecaster.model.joint is None:
            kept = kept[:, :, :1]
        else:
            return values
        values[known] = forecaster._corrected(kept, some.table, columns, some.series, some.time)
        return values

    def scorable(self, origins: Origins, trained: Ints) -> Origins:
        """The origins that a refitted model can be scored at: those of kept forecasts, and those after its last row.

        Args:
            origins: where forecasts start.
            trained: [S] how many first rows of each series the model was trained on, the refit included.
        """
        return origins.where((self.find(origins) >= 0) | (origins.time >= trained[origins.series]))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays for a file; names and levels are in `facts`."""
        return {"series": self.series, "time": self.time, "values": self.values, "actual": self.actual}

    def facts(self) -> dict[str, Any]:
        """The names and the levels as plain data."""
        columns = {"names": list(self.columns.names), "levels": list(self.columns.levels)}
        return {"ids": self.ids.tolist(), "step": self.step} | columns

    @classmethod
    def from_parts(cls, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> KeptForecasts:
        """The forecasts from the results of `facts` and `to_arrays`; anything that does not fit together is refused."""
        ids, columns = np.array(facts["ids"]), Columns(tuple(facts["names"]), tuple(facts["levels"]))
        step = facts["step"]
        series, time, values, actual = (arrays[name] for name in ("series", "time", "values", "actual"))
        whole = all(part.dtype == np.int64 and part.ndim == 1 for part in (series, time))
        floats = all(part.dtype in (np.float32, np.float64) for part in (values, actual))
        shaped = (
            ids.ndim == 1
            and values.ndim == 3
            and len(columns.names) == len(columns.levels) == values.shape[2] > 0
            and values.shape[:2] == actual.shape
            and series.shape == time.shape == actual.shape[:1]
        )
        named = (
            type(step) is int
            and step > 0
            and columns.levels[:1] == (None,)
            and all(isinstance(name, str) for name in columns.names)
        )
        if not (whole and floats and shaped and named) or not all(_is_level(level) for level in columns.levels[1:]):
            raise CorruptFileError("kept forecasts must have one shape and probability levels, but the file has others")
        if len(series) and (int(series.min()) < 0 or int(series.max()) >= len(ids)):
            raise CorruptFileError("kept forecasts must be of the series that they name, but the file has others")
        return cls(ids, series, time, columns, values, actual, step)


def keep_forecasts(fitted: Forecaster, first: Ints) -> KeptForecasts | None:
    """The forecasts of a model from row `first` of each series of its table on; None if no window fits.

    The last windows of a series come first; one h (or half of it) after the other, then those between.
    """
    table, h = fitted.data, fitted.model.h
    columns = _kept_columns(fitted)
    most = max(1, min(MAX_KEPT, MAX_VALUES // (h * len(columns.names))))
    origins, step = _origins(table, first, h, most, together=fitted.model.together)
    if not len(origins):
        return None
    dtype = np.dtype(fitted.output_dtype)
    # `take` corrects and bounds them. A hierarchy bounds its lowest series before it sums them.
    plain = fitted._without(bounds=fitted.model.joint is None, calibration=True)
    names, series = np.unique(origins.series, return_inverse=True)
    return KeptForecasts(
        ids=table.ids[names],
        series=series.astype(np.int64),
        time=_ticks(table.store.times(origins.time, origins.series)),
        columns=columns,
        values=origins.forecasts(plain, columns).astype(dtype),
        actual=origins.actual().astype(table.store.y.dtype),
        step=step,
    )


def _origins(table: TimeSeriesDataFrame, first: Ints, h: int, most: int, *, together: bool) -> tuple[Origins, int]:
    """Every held-out window if they are few; else windows a half horizon, or a horizon, or more apart. And how far."""
    lengths = table.store.lengths
    counts = np.maximum(lengths - np.maximum(first, 1) - h + 1, 0)
    possible = np.flatnonzero(counts)
    if len(possible) > most and not together:
        chosen = possible[np.linspace(0, len(possible) - 1, most).round().astype(np.int64)]
        first = np.where(np.isin(np.arange(len(counts)), chosen), first, lengths)
        counts = np.maximum(lengths - np.maximum(first, 1) - h + 1, 0)
    longest, half = int(counts.max(initial=1)), max(1, h // 2)
    each = min(longest, MAX_MOMENTS) if together else longest
    each = max(1, min(each, most // max(1, int(np.count_nonzero(counts)))))  # so many windows of a series
    steps = [step for step in (1, half, h) if -(-longest // step) <= each]
    step = steps[0] if steps else h * -(-longest // (h * each))
    begins = [(first, step)] + ([(first, h)] if step == half and h % half else [])
    if step > 1 and not together:
        few = np.argsort(first - lengths, kind="stable")[:NEIGHBOUR_SERIES]
        begin = lengths.copy()
        begin[few] = np.maximum(first[few], lengths[few] - h + 1 - NEIGHBOURS)
        begins.append((begin, 1))
    parts = [Origins.windows(table, begin, steps=h, step_size=size, together=together) for begin, size in begins]
    pairs = np.unique(np.concatenate([np.stack([part.series, part.time]) for part in parts], axis=1), axis=1)
    return Origins.at(table, pairs[0], pairs[1], h), step


def _kept_columns(fitted: Forecaster) -> Columns:
    """The point, and the levels of the report, of the loss, and of the calibration."""
    columns, name = scored_columns(fitted), fitted.model.name
    levels = tuple(round(100 * c, 6) for c in coverages_of(fitted.loss).tolist()) if fitted.loss.probabilistic else ()
    for other in (learned_columns(name, fitted.loss), named_columns(name, levels, ())):
        pairs = zip(other.names, other.levels, strict=True)
        more = [pair for pair in pairs if _place(columns.levels, pair[1]) is None]
        columns = Columns(
            (*columns.names, *(name for name, _ in more)), (*columns.levels, *(level for _, level in more))
        )
    return columns


def scored_columns(fitted: Forecaster) -> Columns:
    """The point forecast, and the bounds of the intervals, widest first."""
    levels = interval_levels(fitted)
    calibrated = getattr(fitted, "intervals", None) is not None
    return forecast_columns(fitted.model.name, fitted.loss, levels or None, None, calibrated=calibrated)


def interval_levels(fitted: Forecaster) -> tuple[float, ...]:
    """The intervals, in percent, that a model can forecast; the widest first."""
    if fitted.loss.probabilistic:
        shares = fitted.loss.levels
        paired = {round(100 - 200 * share, 6) for share in shares if share < 0.5 and _has(shares, 1 - share)}
        return tuple(sorted(paired, reverse=True)[:3]) or (95.0, 80.0)
    return (95.0, 80.0) if getattr(fitted, "intervals", None) is not None else ()


def unseen_forecasts(fitted: Forecaster, origins: Origins, columns: Columns, trained: Ints) -> Floats:
    """[N, steps, K] forecasts by weights that had not seen the rows: kept ones where a refit has seen them.

    Args:
        fitted: the model.
        origins: where forecasts start.
        columns: what to forecast.
        trained: [S] how many first rows of each series of the table the model was trained on, the refit included.

    NaN where a refitted model has seen the rows and kept no forecast.
    """
    if fitted.kept is None:
        return origins.forecasts(fitted, columns)
    later = origins.time >= trained[origins.series]
    values = np.full((len(origins), origins.steps, len(columns.names)), np.nan)
    values[later] = origins.where(later).forecasts(fitted, columns)
    values[~later] = fitted.kept.take(fitted, origins.where(~later), columns)
    return values


def _place(levels: Sequence[float | None], wanted: float | None) -> int | None:
    for place, level in enumerate(levels):
        if level is wanted or (level is not None and wanted is not None and abs(level - wanted) < 1e-6):
            return place
    return None


def _has(shares: Sequence[float], wanted: float) -> bool:
    return any(abs(share - wanted) < 1e-6 for share in shares)


def _is_level(level: Any) -> bool:
    return isinstance(level, float) and 0.0 < level < 1.0


def _ticks(times: npt.NDArray[Any]) -> Ints:
    return np.asarray(times.astype("datetime64[us]") if times.dtype.kind == "M" else times).astype(np.int64)
