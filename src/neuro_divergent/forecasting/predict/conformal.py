"""Conformal prediction: intervals around any point forecast, from errors on windows that the model was not trained on.

A score is an absolute error divided by the scale of its series (the mean absolute change from one row to the next), so
that the windows of many series can be pooled. The interval of a central coverage c is

    forecast ± scale · q_c(scores of this step ahead)

Letters: S series, W windows, H steps, P pools, K columns of the forecast.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.historical import Origins, by_series

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
Method = Literal["conformal_distribution", "conformal_error", "adaptive"]


class PredictionIntervals(Description):
    """How intervals are found for a model that forecasts a point.

    - "conformal_error": the ⌈(n+1)c⌉-th smallest of n scores, which covers at least c of exchangeable errors (split
      conformal prediction; Lei et al. 2018).
    - "conformal_distribution": quantiles of the distribution forecast ± score, which interpolate between two scores.
    - "adaptive": the windows are passed in the order of time; after each, the error rate that is aimed at becomes
      alpha + gamma · (wanted - missed), so that coverage recovers when errors grow (Gibbs & Candès 2021).
    """

    n_windows: Annotated[int, Field(ge=1)] = 2
    """Windows at the end of each series on which errors are measured."""
    method: Method = "conformal_distribution"
    """How scores become intervals."""
    step_size: Annotated[int, Field(ge=1)] = 1
    """Distance of two windows."""
    pooling: Literal["auto", "series", "panel"] = "auto"
    """Whose scores count for a series: its own, those of all series, or its own as soon as they are enough."""
    gamma: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.02
    """How fast the adaptive method moves."""

    def rows(self, h: int) -> int:
        """How many rows at the end of a series the windows take."""
        return h + (self.n_windows - 1) * self.step_size


@dataclass(frozen=True)
class Calibration:
    """Scores of a model's errors: what gives its intervals."""

    settings: PredictionIntervals
    ids: npt.NDArray[np.generic]
    """[S] the series whose errors were measured."""
    scores: Floats
    """[S, W, H] in the order of time, NaN where nothing was observed."""
    scale: Floats
    """[S] by which the errors were divided."""

    def around(self, point: Floats, ids: npt.NDArray[np.generic], scale: Floats, columns: Columns) -> Floats:
        """[N, H, K] the columns around point forecasts [N, H] of series of these names.

        A series whose errors were not measured has the scale given, or where that is NaN the mean of the others.
        """
        horizon = self.scores.shape[2]
        if point.shape[1] > horizon:
            raise ConfigError(
                f"the intervals were measured for {horizon} steps ahead, but {point.shape[1]} are asked for. Train "
                f"with h={point.shape[1]}, or ask for the point forecast alone"
            )
        number = {name: position for position, name in enumerate(self.ids.tolist())}
        rows = np.array([number.get(name, -1) for name in ids.tolist()], dtype=np.int64)
        scale = np.where(rows >= 0, self.scale[rows], np.where(np.isnan(scale), self.scale.mean(), scale))
        central = {level: abs(2 * level - 1) for level in columns.probabilities}
        radius = self._radii(sorted(set(central.values())))
        values = np.empty((*point.shape, len(columns.names)))
        for position, level in enumerate(columns.levels):
            if level is None:
                values[..., position] = point
                continue
            width = radius[central[level]][rows][:, : point.shape[1]] * scale[:, None]
            values[..., position] = point + np.sign(level - 0.5) * width
        return values

    def _radii(self, coverages: list[float]) -> dict[float, Floats]:
        """[S + 1, H] for each central coverage; the last row is for series that were never seen."""
        result: dict[float, Floats] = {}
        least = np.zeros((len(self.ids) + 1, self.scores.shape[2]))
        for coverage in coverages:
            # Wider coverage never has a narrower interval, whatever the adaptive method has learned for each.
            least = np.maximum(least, self._radius(coverage))
            result[coverage] = least
        return result

    def _radius(self, coverage: float) -> Floats:
        panel = self._of_pools(self.scores.transpose(1, 0, 2)[None], coverage)
        everyone = np.broadcast_to(panel, (len(self.ids) + 1, panel.shape[1])).copy()
        windows = np.sum(~np.isnan(self.scores), axis=1).min(axis=1)
        own = self.settings.pooling == "series"
        chosen = np.full(len(windows), own) if self.settings.pooling != "auto" else enough(windows, coverage)
        chosen &= windows > 0
        if chosen.any():
            each = self._of_pools(self.scores[:, :, None], coverage)
            everyone[:-1][chosen] = each[chosen]
        count = int(windows.sum()) if not own else int(windows.min(initial=0))
        if not enough(np.array([count]), coverage)[0]:
            log.warning(
                "%d windows are too few for an interval of %g %%: the widest error seen is used. Raise n_windows",
                count, 100 * coverage,
            )  # fmt: skip
        return everyone

    def _of_pools(self, scores: Floats, coverage: float) -> Floats:
        """[P, W, M, H] → [P, H]"""
        if self.settings.method == "adaptive":
            return adapted(scores, coverage, self.settings.gamma)
        flat = scores.reshape(scores.shape[0], -1, scores.shape[3])
        share = np.full((flat.shape[0], flat.shape[2]), coverage)
        return corrected_quantile(flat, share, interpolate=self.settings.method == "conformal_distribution")

    def to_arrays(self) -> dict[str, Floats]:
        """What a file keeps beside the settings and the names."""
        return {"scores": np.ascontiguousarray(self.scores), "scale": np.ascontiguousarray(self.scale)}

    def facts(self) -> dict[str, Any]:
        """The settings and the names as plain data."""
        return {"settings": self.settings.to_dict(), "ids": self.ids.tolist()}

    @classmethod
    def from_parts(cls, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Calibration:
        """What `facts` and `to_arrays` gave."""
        settings = PredictionIntervals.from_dict(facts["settings"])
        scores, scale = (np.asarray(arrays[name], dtype=np.float64) for name in ("scores", "scale"))
        ids = np.array(facts["ids"])
        if scores.ndim != 3 or len(scores) != len(ids) or scale.shape != ids.shape:
            raise ConfigError(f"prediction intervals have scores of each of {len(ids)} series, but got {scores.shape}")
        return cls(settings, ids, scores, scale)


def calibrate(forecaster: Forecaster, table: TimeSeriesDataFrame, settings: PredictionIntervals) -> Calibration:
    """Measure the errors of a model on the last windows of a table that it was not trained on."""
    h, lengths = forecaster.model.h, table.store.lengths
    first, together = lengths - settings.rows(h), forecaster.model.together
    origins = Origins.windows(table, first, steps=h, step_size=settings.step_size, together=together)
    if not len(origins):
        raise DataError(
            f"prediction intervals need {settings.rows(h)} rows after the first of a series (h={h}, "
            f"n_windows={settings.n_windows}, step_size={settings.step_size}), but the longest has "
            f"{int(lengths.max(initial=0))}. Ask for fewer windows"
        )
    errors = np.abs(origins.actual() - origins.points(forecaster))
    scale = series_scale(table.store, first)
    scores = np.full((table.n_series, settings.n_windows, h), np.nan)
    series = origins.series
    window = settings.n_windows - 1 - (lengths[series] - h - origins.time) // settings.step_size
    scores[series, window] = errors / scale[series][:, None]
    if np.isnan(scores).all():
        raise DataError("prediction intervals need observed values in the last windows, but got none")
    return Calibration(settings, table.ids, scores, scale)


def series_scale(store: SeriesStore, until: npt.NDArray[np.int64] | None = None) -> Floats:
    """[S] mean absolute change between two observed rows; where there is none, that of the other series, or 1.

    Args:
        store: the series.
        until: [S] how many first rows count; those that keep fewer than two count whole.
    """
    counted = store.lengths if until is None else np.where(until < 2, store.lengths, until)
    scale = mean_change(store, np.arange(len(store.ids)), counted)
    good = ~np.isnan(scale)
    return np.where(good, scale, scale[good].mean() if good.any() else 1.0)


def mean_change(store: SeriesStore, series: npt.NDArray[np.int64], until: npt.NDArray[np.int64]) -> Floats:
    """[N] mean absolute change between two observed rows among the first until[i] of series[i]; NaN without any."""
    scale = np.full(len(series), np.nan)
    for some in by_series(series):
        first, count = store.offsets[series[some[0]]], until[some]
        y = np.asarray(store.y[first : first + count.max()], dtype=np.float64)
        if store.mask is not None:
            seen = store.mask[first : first + count.max()]
            y, count = y[seen], np.append(0, np.cumsum(seen))[count]
        changes = np.maximum(count - 1, 0)
        total = np.append(0.0, np.cumsum(np.abs(np.diff(y))))[changes]
        scale[some] = np.where(total > 0, total, np.nan) / np.maximum(changes, 1)
    return scale


def enough(count: npt.NDArray[np.integer[Any]], coverage: float) -> npt.NDArray[np.bool_]:
    """Whether so many scores have one at the rank (n+1)·c."""
    return np.asarray((count + 1) * coverage <= count + 1e-9)


def corrected_quantile(scores: Floats, share: Floats, *, interpolate: bool) -> Floats:
    """[P, H] the score at rank (n+1)·share of [P, n, H], NaN left out: rounded up, or between two; at most the largest.

    >>> corrected_quantile(np.arange(1.0, 10.0)[None, :, None], np.full((1, 1), 0.85), interpolate=False)
    array([[9.]])
    >>> corrected_quantile(np.arange(1.0, 10.0)[None, :, None], np.full((1, 1), 0.85), interpolate=True)
    array([[8.5]])
    """
    ordered = np.sort(scores, axis=1)  # NaN come last
    count = np.sum(~np.isnan(scores), axis=1)
    rank = np.clip((count + 1) * share, 1, np.maximum(count, 1))
    low = np.floor(rank + 1e-9) if interpolate else np.ceil(rank - 1e-9)
    high = np.minimum(low + 1, np.maximum(count, 1))

    def at(position: Floats) -> Floats:
        index = (position.astype(np.int64) - 1)[:, None]
        return np.asarray(np.take_along_axis(ordered, index, axis=1)[:, 0])

    part = np.clip(rank - low, 0.0, 1.0) if interpolate else np.zeros_like(rank)
    found = at(low) + part * (at(high) - at(low))
    # A step of which nothing was observed takes the widest interval of the others.
    widest = np.where(count > 0, found, 0.0).max(axis=1, keepdims=True)
    return np.asarray(np.where(count > 0, found, widest))


def adapted(scores: Floats, coverage: float, gamma: float) -> Floats:
    """[P, H] the quantile after adaptive conformal inference has passed the windows of [P, W, M, H]."""
    pools, windows, members, steps = scores.shape
    wanted = 1 - coverage
    alpha = np.full((pools, steps), wanted)
    for window in range(1, windows):
        known = scores[:, :window].reshape(pools, window * members, steps)
        radius = corrected_quantile(known, np.clip(1 - alpha, 0.0, 1.0), interpolate=False)
        now = scores[:, window]
        seen = ~np.isnan(now)
        missed = np.sum(seen & (now > radius[:, None]), axis=1) / np.maximum(seen.sum(axis=1), 1)
        alpha = np.where(seen.any(axis=1), alpha + gamma * (wanted - missed), alpha)
    flat = scores.reshape(pools, windows * members, steps)
    return corrected_quantile(flat, np.clip(1 - alpha, 0.0, 1.0), interpolate=False)
