"""What a table is like, as far as it decides which models are tried. Only rows before the held-out windows count.

Letters: S series.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neuro_divergent.data.features.attach import add_features
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.time import seasonality

DAY = 24 * 3600 * 10**6
MOST_TESTED, BETTER = 200, 0.98
"""Where no season is confirmed, the usual one is tried on so many series. It must be better by this factor."""
INTERMITTENT = 0.3
"""From this share of zeros on a table counts as intermittent demand."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The facts of a table."""

    h: int
    series: int
    rows: int
    typical: int
    """Rows of the median series before its held-out windows."""
    longest: int
    seasons: tuple[int, ...]
    """Season lengths that the data confirms, the strongest first."""
    zeros: float
    """Share of zeros among the observed values."""
    columns: tuple[str, ...]
    """Kinds of columns beside the target: future, historical, static, categorical."""
    confirmed: bool = True
    """Whether the autocorrelation confirms the seasons; else the usual one forecasts better than the last value."""
    usual: int = 1
    """The season that is usual at this frequency; 1 for none."""
    aligned: bool
    """Whether all series have the same time stamps, as multivariate models need."""

    @property
    def intermittent(self) -> bool:
        """Whether many values are zero."""
        return self.zeros >= INTERMITTENT

    @property
    def season(self) -> int:
        """The season of the seasonal naive forecast: the strongest one, or the usual one; 1 for none."""
        return self.seasons[0] if self.seasons else self.usual

    def words(self) -> str:
        """The table in one sentence."""
        many = "1 series" if self.series == 1 else f"{self.series:,} series"
        lengths = " and ".join(map(str, self.seasons[:2]))
        seasons = f"seasons of {lengths} rows" if self.seasons else "no season"
        if not self.confirmed:
            seasons += " (the usual one: too few rows confirm it, but it forecasts better than the last value)"
        zeros = f", {100 * self.zeros:.0f} % zeros" if self.intermittent else ""
        columns = f", {', '.join(self.columns)} columns" if self.columns else ""
        return f"{many} of typically {self.typical:,} rows before the held-out windows, {seasons}{zeros}{columns}"


def profile_of(table: TimeSeriesDataFrame, h: int, rows: npt.NDArray[np.int64]) -> Profile:
    """The facts of the first rows[s] rows of each series."""
    store = table.store
    kept = np.arange(len(store.y)) - np.repeat(store.offsets[:-1], store.lengths) < np.repeat(rows, store.lengths)
    if store.mask is not None:
        kept &= store.mask
    known = rows[rows > 0]
    blocks = {
        "future": store.future,
        "historical": store.historical,
        "static": store.static,
        "categorical": store.categorical if store.categorical is not None else store.static_categorical,
    }
    usual = [length for length in seasonality.suggest(store.freq) if 2 * length <= rows.max(initial=0)]
    seasons = tuple(seasonality.detect(store.y, store.offsets, store.mask, store.freq, rows=rows))
    confirmed = bool(seasons) or not usual or not _forecasts(store, rows, h, usual[0])
    same = bool((store.start == store.start[0]).all() and (store.lengths == store.lengths[0]).all())
    return Profile(
        h=h,
        series=table.n_series,
        rows=int(kept.sum()),
        typical=int(np.median(known)) if len(known) else 0,
        longest=int(rows.max(initial=0)),
        seasons=seasons if confirmed else (usual[0],),
        confirmed=confirmed,
        zeros=float((store.y[kept] == 0).mean()) if kept.any() else 0.0,
        columns=tuple(name for name, block in blocks.items() if block is not None),
        usual=usual[0] if usual else 1,
        aligned=table.n_series > 1 and same,
    )


def _forecasts(store: SeriesStore, rows: npt.NDArray[np.int64], h: int, season: int) -> bool:
    """Whether the seasonal naive forecast is better than the last value, on the first rows of most series."""
    ratios = []
    known = np.flatnonzero(rows >= 3 * season)
    for series in known[np.unique(np.linspace(0, len(known) - 1, MOST_TESTED).astype(int))] if len(known) else ():
        part = slice(int(store.offsets[series]), int(store.offsets[series] + rows[series]))
        y = store.y[part].astype(np.float64)
        if store.mask is not None:
            y[~store.mask[part]] = np.nan
        ahead = [step for step in range(1, min(h, 2 * season) + 1) if step < len(y) - season]
        last = _mean([y[step:] - y[:-step] for step in ahead])
        if last > 0:
            ratios.append(_mean([y[lag:] - y[:-lag] for lag in (-(-step // season) * season for step in ahead)]) / last)
    return bool(ratios) and float(np.median(ratios)) < BETTER


def _mean(changes: list[npt.NDArray[np.float64]]) -> float:
    means = [np.nanmean(np.abs(one)) for one in changes if np.isfinite(one).any()]
    return float(np.mean(means)) if means else 0.0


def with_calendar(table: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
    """The table with columns of the calendar that suit its frequency, if it has dates and no features yet."""
    names = calendar_of(table)
    if not names:
        return table
    schema = table.schema.replace(features=names)
    store, schema = add_features(table.store, schema, table.all_times())
    return TimeSeriesDataFrame(store, schema, table.report(), library=table.library)


def calendar_of(table: TimeSeriesDataFrame) -> tuple[str, ...]:
    """The features of the calendar for a table: their period is longer than a step, and shorter than the table."""
    frequency = table.frequency
    if table.schema.features or frequency.integer or not len(table):
        return ()
    step = _microseconds(table)
    span = step * int(table.store.lengths.max(initial=0))
    wanted = {"hour": (DAY, step < DAY), "dayofweek": (7 * DAY, step <= DAY), "dayofyear": (365 * DAY, step <= 7 * DAY)}
    schema = table.schema
    taken = {
        *(schema.id_col, schema.time_col, schema.target_col),
        *schema.future, *schema.historical, *schema.static, *schema.categorical,
    }  # fmt: skip
    return tuple(name for name, (period, fits) in wanted.items() if fits and span >= 1.5 * period and name not in taken)


def _microseconds(table: TimeSeriesDataFrame) -> int:
    """The time between the first two rows of a series, in microseconds."""
    first = table.store.times(np.array([0, 1]), np.array([0, 0])).astype("datetime64[us]").astype(np.int64)
    return int(first[1] - first[0])
