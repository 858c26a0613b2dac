"""Conformalised quantiles: intervals of a forecast distribution, corrected by their errors on held-out rows.

The score of an interval [l, u] and an actual value y is max(l - y, y - u) / scale: how far y lies outside, negative if
it lies inside. The scale is the mean absolute change of the series from row to row, so that the windows of many series
can be pooled. An interval of coverage c becomes

    [l - scale · q_c, u + scale · q_c],    q_c the ⌈(n+1)c⌉-th smallest of n scores

(conformalised quantile regression; Romano, Patterson & Candès 2019). If q_c is negative, the interval becomes narrower.
The held-out rows are divided into up to STRETCHES stretches of time, and q_c is the largest that one of them asks for:
errors change with time, and the rows to forecast may be like any of them.

Letters: S series, N windows, H steps, C coverages, K columns of the forecast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.conformal import corrected_quantile, known_scale

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

TOLERANCE = 0.03
"""Intervals are corrected if their coverage on held-out rows differs from the nominal one by more than this."""
STRETCHES = 3
"""Into at most this many stretches the held-out rows are divided, each at least as long as the horizon."""
PER_STEP = 200
"""With at least this many windows every step ahead has its own correction; else all steps share one."""
_PARTS = ("all", "early", "late")


@dataclass(frozen=True, kw_only=True)
class CoverageCheck:
    """The coverage of one interval on held-out rows."""

    level: float
    """The share of actual values that the interval should contain, in percent."""
    values: int
    """How many actual values there were."""
    inside: float
    """The share of them inside of the interval or on its edge, in percent, without a correction."""
    between: float
    """The share of them inside of the interval and not on its edge, in percent, without a correction."""
    corrected: float | None = None
    """The share inside of the corrected interval, in percent. The earlier half of the held-out rows is corrected by the
    errors of the later half, and the later half by those of the earlier. None if there are too few rows for two halves.
    """

    @property
    def off(self) -> float:
        """By how many points the coverage differs from the level.

        Values on the edges count as inside or outside, whichever is nearer to the level: most counts are on an edge, so
        that an interval of counts often cannot contain exactly 80 % of them.
        """
        return max(self.level - self.inside, self.between - self.level, 0.0)

    def sentence(self, *, remedy: bool) -> str:
        """The coverage as text.

        >>> check = CoverageCheck(level=80.0, values=240, inside=71.0, between=71.0, corrected=79.4)
        >>> check.sentence(remedy=True)
        '80 % intervals held 71 % of 240 held-out values; widened by conformal calibration, after which they hold 79 %'
        """
        text = f"{self.level:g} % intervals held {self.inside:.0f} % of {self.values:,} held-out values"
        if not remedy:
            return text
        way = "widened" if self.inside < self.level else "narrowed"
        after = "" if self.corrected is None else f", after which they hold {self.corrected:.0f} %"
        return f"{text}; {way} by conformal calibration{after}"


@dataclass(frozen=True, kw_only=True)
class QuantileCalibration:
    """The corrections of a model's intervals, in units of the scale of each series."""

    coverages: Floats
    """[C] the coverages that were measured, ascending, between 0 and 1."""
    offsets: Floats
    """[3, C, H] by how much each edge moves outwards: from the held-out windows of the stretch that asks for most, from
    the earlier half, from the later half. NaN for halves that do not exist."""
    ids: npt.NDArray[np.generic]
    """[S] the series whose scale is known."""
    scale: Floats
    """[S] the scale of each series, from its training rows."""
    late_rows: Ints
    """[S] how many rows at the end of each series are the later half; 0 without halves."""
    checks: tuple[CoverageCheck, ...] = ()
    """The coverage before and after."""

    def correct(self, values: Floats, ids: npt.NDArray[np.generic], scale: Floats, columns: Columns) -> Floats:
        """[N, H, K] forecasts of series of these names, with corrected quantiles. Points and medians do not change.

        A correction between two measured coverages is interpolated; beyond the widest, and beyond the measured steps,
        the last one is used. No edge passes the point forecast, and quantiles do not cross.

        Args:
            values: the forecasts.
            ids: [N] the series of each forecast.
            scale: [N] the scale of series that are not known; NaN for the mean of the known ones.
            columns: names and levels of the columns.
        """
        scale = known_scale(self.ids, self.scale, ids, scale)
        step = np.minimum(np.arange(values.shape[1]), self.offsets.shape[2] - 1)
        result = values.copy()
        point = None if None not in columns.levels else values[:, :, columns.levels.index(None)]
        for place, level in enumerate(columns.levels):
            if level is None or abs(level - 0.5) < 1e-9:
                continue
            side, old = np.sign(level - 0.5), values[:, :, place]
            new = old + side * scale[:, None] * self._offset(abs(2 * level - 1))[step]
            if point is not None:
                limit = np.minimum(old * side, point * side)  # an edge that was beyond the point may stay there
                new = side * np.maximum(new * side, limit)
            result[:, :, place] = new
        return uncrossed(result, columns)

    def correct_draws(self, paths: Floats, ids: npt.NDArray[np.generic], scale: Floats) -> Floats:
        """[S, N, H] sample paths of series of these names. A draw moves like the quantile of its rank among the draws.

        Args:
            paths: N draws of each series and step.
            ids: [S] the series.
            scale: [S] the scale of series that are not known; NaN for the mean of the known ones.
        """
        scale = known_scale(self.ids, self.scale, ids, scale)
        rank = (paths.argsort(axis=1).argsort(axis=1) + 0.5) / paths.shape[1]
        result = paths.copy()
        for step in range(paths.shape[2]):
            place = min(step, self.offsets.shape[2] - 1)
            known = np.append(0.0, self.offsets[0, :, place])
            share = 2 * rank[:, :, step] - 1
            offset = np.interp(np.abs(share), np.append(0.0, self.coverages), known)
            result[:, :, step] += np.sign(share) * offset * scale[:, None]
        return result

    def radii_of_new_series(self, coverages: list[float]) -> dict[float, Floats]:
        """[H] for each central coverage: by how much the edges move outwards, the same for all series."""
        return {coverage: self._offset(coverage) for coverage in coverages}

    def _offset(self, coverage: float) -> Floats:
        """[H] the correction of a coverage. The interval of coverage 0 is the median, which is not moved."""
        known, found = np.append(0.0, self.coverages), self.offsets[0]
        found = np.concatenate([np.zeros((1, found.shape[1])), found])
        return np.array([np.interp(coverage, known, column) for column in found.T])

    def by_half(self, half: str) -> QuantileCalibration | None:
        """The corrections from the "early" or the "late" half of the held-out rows alone; None without halves."""
        found = self.offsets[_PARTS.index(half)]
        if np.isnan(found).any():
            return None
        return replace(self, offsets=np.broadcast_to(found, self.offsets.shape))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays for a file; the rest is in `facts`."""
        names = ("coverages", "offsets", "scale", "late_rows")
        return {name: np.ascontiguousarray(getattr(self, name)) for name in names}

    def facts(self) -> dict[str, Any]:
        """Names and checks as plain data."""
        return {"ids": self.ids.tolist(), "checks": [asdict(check) for check in self.checks]}

    @classmethod
    def from_parts(cls, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> QuantileCalibration:
        """The calibration from the results of `facts` and `to_arrays`."""
        coverages, offsets, scale = (np.asarray(arrays[n], dtype=np.float64) for n in ("coverages", "offsets", "scale"))
        ids, late = np.array(facts["ids"]), np.asarray(arrays["late_rows"], dtype=np.int64)
        if offsets.ndim != 3 or offsets.shape[:2] != (3, len(coverages)) or not scale.shape == ids.shape == late.shape:
            raise ConfigError(
                f"a calibration has corrections of {len(coverages)} coverages and a scale of each of {len(ids)} "
                f"series, but got {offsets.shape} and {scale.shape}"
            )
        checks = tuple(CoverageCheck(**check) for check in facts["checks"])
        return cls(coverages=coverages, offsets=offsets, ids=ids, scale=scale, late_rows=late, checks=checks)


def uncrossed(values: Floats, columns: Columns) -> Floats:
    """[..., K] quantiles in the order of their levels: each is at least as far from the median as the ones inside."""
    order = sorted((level, place) for place, level in enumerate(columns.levels) if level is not None)
    result = values.copy()
    below = [place for level, place in order if level <= 0.5 + 1e-9][::-1]
    above = [place for level, place in order if level >= 0.5 - 1e-9]
    for places, outer in ((below, np.minimum), (above, np.maximum)):
        for inner, place in pairwise(places):
            result[..., place] = outer(result[..., place], result[..., inner])
    return result


@dataclass(frozen=True, kw_only=True)
class HeldIntervals:
    """Intervals of windows that a model was not trained on, with the actual values."""

    actual: Floats
    """[N, H] NaN where the value is missing."""
    lower: Floats
    """[N, H, C]"""
    upper: Floats
    """[N, H, C]"""
    scale: Floats
    """[N] the scale of the series of each window."""
    early: Flags
    """[N] windows that end in the earlier half of the held-out rows."""
    late: Flags
    """[N] windows that begin in the later half."""
    part: Ints
    """[N] the stretch of the held-out rows in which each window begins, from 0."""

    def scores(self) -> Floats:
        """[N, H, C] how far the actual value lies outside of each interval, in units of the scale."""
        actual = self.actual[:, :, None]
        return np.maximum(self.lower - actual, actual - self.upper) / self.scale[:, None, None]


def offsets_of(scores: Floats, coverages: Floats) -> Floats:
    """[C, H] the conformal quantile of scores [N, H, C]: of each step, or of all steps if there are few windows."""
    windows, steps, _ = scores.shape
    found = []
    for place, coverage in enumerate(coverages):
        own = scores[:, :, place]
        own = own[None] if windows >= PER_STEP else own.reshape(1, -1, 1)
        rank = np.full((1, own.shape[2]), coverage)
        found.append(np.broadcast_to(corrected_quantile(own, rank, interpolate=False)[0], (steps,)))
    return np.stack(found)


def half_offsets(held: HeldIntervals, coverages: Floats) -> Floats:
    """[3, C, H] the corrections from all windows by stretches, from the early ones and from the late ones."""
    scores = held.scores()
    nothing = np.full((len(coverages), scores.shape[1]), np.nan)
    parts = [np.ones(len(scores), dtype=bool), held.early, held.late]
    known = [np.isfinite(scores[part]).any() for part in parts]
    both = known[1] and known[2]
    found = [offsets_of(scores[part], coverages) if place == 0 or both else nothing for place, part in enumerate(parts)]
    return np.stack([found[0] + _more(scores, held.part, coverages), *found[1:]])


def _more(scores: Floats, part: Ints, coverages: Floats) -> Floats:
    """[C, 1] by how much the widest correction that one stretch of the held-out rows asks for exceeds that of all.

    Errors of later rows are not those of the held-out rows: they change with the season, or with what the series does.
    How much they change within the held-out rows is measured here. It is 0 if the correction from all rows holds in
    every stretch, up to TOLERANCE. All steps of the horizon share it: single steps of a stretch have few windows.
    """
    found = []
    for place, coverage in enumerate(coverages):
        every = scores[:, :, place]
        common = _pooled(every, coverage)
        widest = common
        for number in np.unique(part):
            own = every[part == number]
            own = own[np.isfinite(own)]
            if len(own) and (own <= common).mean() < coverage - TOLERANCE:
                widest = max(widest, _pooled(own, coverage))
        found.append(widest - common)
    return np.array(found)[:, None]


def _pooled(scores: Floats, coverage: float) -> float:
    """The conformal quantile of scores of any shape, all together."""
    return float(corrected_quantile(scores.reshape(1, -1, 1), np.full((1, 1), coverage), interpolate=False)[0, 0])


def checks_of(held: HeldIntervals, coverages: Floats, offsets: Floats) -> tuple[CoverageCheck, ...]:
    """The coverage of every interval, as it is and with the correction from the other half of the rows."""
    actual, found = held.actual, []
    seen = np.isfinite(actual)
    corrected = [(held.late, offsets[1]), (held.early, offsets[2])]
    for place, coverage in enumerate(coverages):
        low, high = held.lower[:, :, place], held.upper[:, :, place]
        after = None
        if not np.isnan(offsets).any():
            moved = [(part, held.scale[part, None] * offset[place]) for part, offset in corrected]
            hits = [((low[p] - o <= actual[p]) & (actual[p] <= high[p] + o))[seen[p]] for p, o in moved]
            after = float(100 * np.concatenate(hits).mean())
        found.append(
            CoverageCheck(
                level=round(100 * float(coverage), 6),
                values=int(seen.sum()),
                inside=float(100 * ((low <= actual) & (actual <= high))[seen].mean()),
                between=float(100 * ((low < actual) & (actual < high))[seen].mean()),
                corrected=after,
            )
        )
    return tuple(found)
