"""Conformal prediction: intervals around any point forecast, from errors on windows that the model was not trained on.

A score is an absolute error divided by the scale of its series (the mean absolute change from one row to the next), so
that the windows of many series can be pooled. The interval of a central coverage c is

    forecast ± scale · q_c(scores of this step ahead)

Letters: S series, W windows, H steps, P pools, K columns of the forecast.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.network.output_columns import Columns, point_column
from neuro_divergent.forecasting.predict.historical import Origins, by_series, window_places
from neuro_divergent.forecasting.predict.kept import KeptForecasts, unseen_forecasts

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
Method = Literal["conformal_distribution", "conformal_error", "adaptive"]


class PredictionIntervals(Description):
    """How a model that forecasts a point gets intervals.

    - "conformal_error": the ⌈(n+1)c⌉-th smallest of n scores, which covers at least c of exchangeable errors (split
      conformal prediction; Lei et al. 2018).
    - "conformal_distribution": quantiles of the distribution forecast ± score, which interpolate between two scores.
    - "adaptive": the windows are processed in time order. After each, the target error rate becomes
      alpha + gamma · (wanted - missed), so that coverage recovers when errors grow (Gibbs & Candès 2021).
    """

    n_windows: Annotated[int, Field(ge=1)] = 2
    """Number of windows at the end of each series on which errors are measured."""
    method: Method = "conformal_distribution"
    """How scores become intervals."""
    step_size: Annotated[int, Field(ge=1)] | None = None
    """Rows from one window to the next; None for the model's h, so that they do not overlap. Overlapping windows have
    nearly the same errors: many of them still say little about other days."""
    pooling: Literal["auto", "series", "panel"] = "auto"
    """Which scores are used for a series: its own, those of all series, or its own once there are enough."""
    gamma: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.02
    """How fast the adaptive method moves."""

    def step(self, h: int) -> int:
        """The number of rows from one window to the next, for a model of this horizon."""
        return h if self.step_size is None else self.step_size

    def rows(self, h: int) -> int:
        """How many rows at the end of a series the windows take."""
        return h + (self.n_windows - 1) * self.step(h)

    def too_few(self, h: int, longest: int, before: int) -> str:
        """The end of an error about short series: the settings, the longest series, and how many windows fit.

        Args:
            h: the model's horizon.
            longest: rows of the longest series.
            before: rows that must stay before the first window.
        """
        most = (longest - before - h) // self.step(h) + 1
        advice = f"Ask for at most n_windows={most}" if most > 0 else "Give longer series, or a smaller h"
        return f"(h={h}, n_windows={self.n_windows}, step_size={self.step(h)}), but the longest has {longest}. {advice}"


@dataclass(frozen=True)
class Calibration:
    """Scores of a model's errors, from which its intervals are computed."""

    settings: PredictionIntervals
    ids: npt.NDArray[np.generic]
    """[S] the series whose errors were measured."""
    scores: Floats
    """[S, W, H] in time order, NaN where the value is missing."""
    scale: Floats
    """[S] the scale of each series; errors were divided by it."""

    def around(self, point: Floats, ids: npt.NDArray[np.generic], scale: Floats, columns: Columns) -> Floats:
        """[N, H, K] the columns around point forecasts [N, H] of series of these names.

        A series whose errors were not measured uses the given scale, or if that is NaN the mean of the others. Beyond
        the measured H steps, errors add like independent ones: step b·H + k has √(r_k² + b·r_H²). This is right for a
        random walk, and never narrower than the step before.
        """
        rows = places(self.ids, ids)
        scale = known_scale(self.ids, self.scale, ids, scale)
        central = {level: abs(2 * level - 1) for level in columns.probabilities}
        measured = self._radii(sorted(set(central.values())))
        radius = {coverage: _carried_on(radii, point.shape[1]) for coverage, radii in measured.items()}
        values = np.empty((*point.shape, len(columns.names)))
        for position, level in enumerate(columns.levels):
            if level is None:
                values[..., position] = point
                continue
            width = radius[central[level]][rows] * scale[:, None]
            values[..., position] = point + np.sign(level - 0.5) * width
        return values

    def radii_of_new_series(self, coverages: list[float]) -> dict[float, Floats]:
        """[H] for each central coverage: half the width of the interval of a series that was not measured."""
        return {coverage: radii[-1] for coverage, radii in self._radii(coverages).items()}

    def _radii(self, coverages: list[float]) -> dict[float, Floats]:
        """[S + 1, H] for each central coverage. The last row is for new series."""
        result: dict[float, Floats] = {}
        self._say_too_few(coverages)
        least = np.zeros((len(self.ids) + 1, self.scores.shape[2]))
        for coverage in coverages:
            # A wider coverage never has a narrower interval, whatever the adaptive method has learned for each.
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
        return everyone

    def _say_too_few(self, coverages: list[float]) -> None:
        """Log one warning for all intervals that need more scores than there are."""
        windows = np.sum(~np.isnan(self.scores), axis=1).min(axis=1)
        own = self.settings.pooling == "series" and len(windows) > 0
        count = int(windows.min() if own else windows.sum())
        wide = [coverage for coverage in coverages if not enough(np.array([count]), coverage)[0]]
        if wide:
            log.warning(
                "%d window%s too few for intervals of %g %%%s: the largest error is used. Raise n_windows",
                count, " is" if count == 1 else "s are", 100 * wide[0], " and more" if len(wide) > 1 else "",
            )  # fmt: skip

    def _of_pools(self, scores: Floats, coverage: float) -> Floats:
        """[P, W, M, H] → [P, H]"""
        if self.settings.method == "adaptive":
            return adapted(scores, coverage, self.settings.gamma)
        flat = scores.reshape(scores.shape[0], -1, scores.shape[3])
        share = np.full((flat.shape[0], flat.shape[2]), coverage)
        return corrected_quantile(flat, share, interpolate=self.settings.method == "conformal_distribution")

    def to_arrays(self) -> dict[str, Floats]:
        """The arrays for a file; settings and names are in `facts`."""
        return {"scores": np.ascontiguousarray(self.scores), "scale": np.ascontiguousarray(self.scale)}

    def facts(self) -> dict[str, Any]:
        """The settings and the names as plain data."""
        return {"settings": self.settings.to_dict(), "ids": self.ids.tolist()}

    @classmethod
    def from_parts(cls, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Calibration:
        """The calibration from the results of `facts` and `to_arrays`."""
        settings = PredictionIntervals.from_dict(facts["settings"])
        scores, scale = (np.asarray(arrays[name], dtype=np.float64) for name in ("scores", "scale"))
        ids = np.array(facts["ids"])
        if scores.ndim != 3 or len(scores) != len(ids) or scale.shape != ids.shape:
            raise ConfigError(
                f"prediction intervals must have scores of each of {len(ids)} series, but got {scores.shape}"
            )
        return cls(settings, ids, scores, scale)


def places(known: npt.NDArray[np.generic], ids: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """[N] the position of each id among the known ones; -1 for others."""
    number = {name: position for position, name in enumerate(known.tolist())}
    return np.array([number.get(name, -1) for name in ids.tolist()], dtype=np.int64)


def known_scale(known: npt.NDArray[np.generic], own: Floats, ids: npt.NDArray[np.generic], others: Floats) -> Floats:
    """[N] the scale of each series: its own if it is known, else the given one, or if that is NaN the mean of all."""
    rows = places(known, ids)
    return np.where(rows >= 0, own[rows], np.where(np.isnan(others), own.mean(), others))


def _carried_on(radii: Floats, steps: int) -> Floats:
    """[S, steps] radii [S, H] cut, or carried on beyond H."""
    block, step = np.divmod(np.arange(steps), radii.shape[1])
    # Not √(r² + 0), which may round: the measured steps keep their radii.
    return np.where(block == 0, radii[:, step], np.hypot(radii[:, step], np.sqrt(block) * radii[:, -1:]))


def calibrate(
    forecaster: Forecaster,
    table: TimeSeriesDataFrame,
    settings: PredictionIntervals,
    unseen: npt.NDArray[np.int64] | None = None,
    trained: npt.NDArray[np.int64] | None = None,
) -> Calibration:
    """Measure the errors of a model on the last windows of a table that it was not trained on.

    Args:
        forecaster: the model.
        table: what is forecast.
        settings: how many windows, and what their errors become.
        unseen: [S] the first row of each series that the model was not trained on: windows that begin before it are
            left out, and counted. None where the model was trained without the last windows.
        trained: [S] how many first rows a refitted model has seen by now: the errors on later ones of them are those
            of the forecasts that it kept.
    """
    h, lengths = forecaster.model.h, table.store.lengths
    first, together = lengths - settings.rows(h), forecaster.model.together
    lost = unseen is not None and bool((unseen > np.maximum(first, 1)).any())  # to rows that were trained on
    if unseen is not None:
        first = _after(first, unseen, table, settings, h)
    origins = Origins.windows(table, first, steps=h, step_size=settings.step(h), together=together)
    if forecaster.kept is not None and trained is not None:
        origins = _scorable(forecaster.kept, origins, trained)
    if not len(origins):
        raise DataError(
            f"prediction intervals need {settings.rows(h)} rows after the first of a series "
            + settings.too_few(h, int(lengths.max(initial=0)), 1)
        )
    most = int(np.bincount(origins.series).max())
    if not lost and most < settings.n_windows:
        log.warning("n_windows=%d asked for, but the longest series has rows for %d windows", settings.n_windows, most)
    if forecaster.kept is None or trained is None:
        points = origins.points(forecaster)
    else:
        points = unseen_forecasts(forecaster, origins, point_column(forecaster.model.name), trained)[:, :, 0]
    errors = np.abs(origins.actual() - points)
    scale = series_scale(table.store, first)
    scores = np.full((table.n_series, settings.n_windows, h), np.nan)
    series = origins.series
    window = settings.n_windows - 1 - (lengths[series] - h - origins.time) // settings.step(h)
    scores[series, window] = errors / scale[series][:, None]
    if np.isnan(scores).all():
        raise DataError("prediction intervals need observed values in the last windows, but got none")
    return Calibration(settings, table.ids, scores, scale)


def _scorable(kept: KeptForecasts, origins: Origins, trained: npt.NDArray[np.int64]) -> Origins:
    """The origins after the refit's last row, and those of which the selection run kept a forecast."""
    found = (kept.find(origins) >= 0) | (origins.time >= trained[origins.series])
    if not found.any():
        raise DataError(
            "prediction intervals of a refitted model are measured on the held-out forecasts of its selection run, but "
            "none of them begins where these windows do. Leave step_size out, give later rows, or train with refit=None"
        )
    if not found.all():
        log.warning("%d of %d windows are used to measure errors: no forecast was kept of the others",
                    int(found.sum()), len(found))  # fmt: skip
    if bool((origins.time[found] < trained[origins.series[found]]).any()):
        log.warning("errors are measured before the refit on all rows, on the held-out rows of the selection run")
    return origins.where(found)


def _after(
    first: npt.NDArray[np.int64],
    unseen: npt.NDArray[np.int64],
    table: TimeSeriesDataFrame,
    settings: PredictionIntervals,
    h: int,
) -> npt.NDArray[np.int64]:
    """[S] the first row that may be forecast, after all training rows. Raises if no window is left."""
    lengths = table.store.lengths
    left = np.maximum(first, unseen)
    asked, found = (len(window_places(lengths, begin, lengths, h, settings.step(h))[0]) for begin in (first, left))
    if not found and asked:
        raise DataError(
            f"prediction intervals are measured on rows that the model was not trained on, but no series has {h} of "
            f"them at its end (series {table.ids[0].item()!r} was trained on up to row {int(unseen[0])} of "
            f"{int(lengths[0])}). Give later rows, or train with prediction_intervals=PredictionIntervals(...)"
        )
    if found < asked:
        log.warning(
            "%d of %d windows are used to measure errors: the model was trained on rows of the others",
            found, asked,
        )  # fmt: skip
    return left


def refreshed(forecaster: Forecaster, table: TimeSeriesDataFrame, known: npt.NDArray[np.int64]) -> Calibration | None:
    """The calibration of a model with the scores of new rows added, before it is trained on them.

    The windows begin after the `known` rows [S] of each series of the table, `step` apart. Steps after the end
    are left out. Of every series and step the newest n_windows scores are kept. None without a calibration.
    """
    old, h = forecaster.intervals, forecaster.model.h
    if old is None:
        return None
    number = {name: position for position, name in enumerate(old.ids.tolist())}
    places = np.array([number.get(name, -1) for name in table.ids.tolist()], dtype=np.int64)
    rows = np.where((places >= 0) & (known > 0), table.store.lengths - known, 0)
    counts = -(-rows // old.settings.step(h))
    series = np.repeat(np.arange(len(counts)), counts)
    window = np.arange(len(series)) - np.repeat(np.cumsum(counts) - counts, counts)
    time = known[series] + window * old.settings.step(h)
    origins = Origins.at(table, series, time, h, together=forecaster.model.together)
    if not len(origins):
        return old
    found = np.full((len(old.ids), int(counts.max()), h), np.nan)
    place = places[origins.series]
    window = (origins.time - known[origins.series]) // old.settings.step(h)
    found[place, window] = np.abs(origins.actual() - origins.points(forecaster)) / old.scale[place][:, None]
    scores = np.concatenate([old.scores, found], axis=1)
    # The scores of each step in time order, missing ones first; then the last ones are taken.
    order = np.argsort(~np.isnan(scores), axis=1, kind="stable")
    return replace(old, scores=np.take_along_axis(scores, order, axis=1)[:, -old.scores.shape[1] :])


def series_scale(store: SeriesStore, until: npt.NDArray[np.int64] | None = None) -> Floats:
    """[S] mean absolute change between two observed rows; without any, that of the other series, or 1.

    Args:
        store: the series.
        until: [S] how many first rows count; a series with fewer than two such rows counts whole.
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
    """Whether this many scores include the rank (n+1)·c."""
    return np.asarray((count + 1) * coverage <= count + 1e-9)


def corrected_quantile(scores: Floats, share: Floats, *, interpolate: bool) -> Floats:
    """[P, H] the score at rank (n+1)·share of [P, n, H], without NaN: rounded up, or interpolated; at most the largest.

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
    # A step without an observed value gets the widest interval of the others.
    widest = np.where(count > 0, found, 0.0).max(axis=1, keepdims=True)
    return np.asarray(np.where(count > 0, found, widest))


def adapted(scores: Floats, coverage: float, gamma: float) -> Floats:
    """[P, H] the quantile after adaptive conformal inference over the windows of [P, W, M, H]."""
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
