"""Checks the intervals of a trained model on held-out rows, and corrects them if their coverage is off.

Letters: S series, N windows, H steps, C coverages, K columns of the forecast.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from neuro_divergent.forecasting.network.coverages import checked_coverages, coverages_of
from neuro_divergent.forecasting.network.output_columns import Columns, named_columns
from neuro_divergent.forecasting.predict.conformal import places, series_scale
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.forecasting.predict.kept import unseen_forecasts
from neuro_divergent.forecasting.predict.quantile_calibration import (
    STRETCHES,
    TOLERANCE,
    CoverageCheck,
    HeldIntervals,
    QuantileCalibration,
    checks_of,
    half_offsets,
)

if TYPE_CHECKING:
    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_FORECASTS = 1500
"""Maximum number of held-out forecasts of a univariate model."""
MAX_DRAWN = 300
"""Maximum number of them for a network whose quantiles are those of many drawn paths."""
MAX_MOMENTS = 48
"""Maximum number of forecast origins of a multivariate model: each gives forecasts of all series."""
LEAST_WINDOWS = 10
"""With fewer held-out windows that do not overlap, "auto" corrects nothing: their coverage says too little."""

WINDOWS_PER_STRETCH = 30
"""With fewer windows that do not overlap, the coverage of a stretch of the held-out rows is mostly chance."""


def held_out_origins(
    fitted: Forecaster, table: TimeSeriesDataFrame, first: Ints, last: Ints, limit: int = MAX_FORECASTS
) -> Origins:
    """The forecast origins at which rows first to last of each series are scored: about `limit` at most."""
    h = fitted.model.h
    counts = np.maximum(last - first - h + 1, 0)
    together = fitted.model.together
    most = MAX_MOMENTS if together else max(1, limit // max(1, int(np.count_nonzero(counts))))
    chosen = np.ones(len(counts), dtype=bool) if together else _evenly(counts, limit)
    step = max(1, -(-int(counts.max(initial=0)) // most)) if fitted.kept is None else fitted.kept.step
    return Origins.windows(table, np.where(chosen, first, last), last, steps=h, step_size=step, together=together)


def _evenly(counts: Ints, limit: int) -> npt.NDArray[np.bool_]:
    """Which series to score: all of them, or `limit` evenly spaced ones."""
    possible = np.flatnonzero(counts)
    wanted = min(len(possible), limit)
    chosen = possible[np.linspace(0, max(len(possible) - 1, 0), wanted).round().astype(np.int64)]
    return np.isin(np.arange(len(counts)), chosen)


def calibration_of(
    fitted: Forecaster,
    table: TimeSeriesDataFrame,
    first: Ints,
    wanted: Literal["auto"] | bool,
    trained: Ints | None = None,
) -> QuantileCalibration | None:
    """The correction of a model's intervals from its forecasts of rows `first` [S] and later; None if none is needed.

    Args:
        fitted: a model whose loss has intervals.
        table: rows that the model was not trained on from `first` on.
        first: [S] the first such row of each series.
        wanted: True corrects always; "auto" if the coverage of an interval is off by more than TOLERANCE.
        trained: [S] how many first rows a refitted model has seen by now: of later ones of them it kept forecasts.
    """
    coverages, lengths = coverages_of(fitted.loss), table.store.lengths
    limit = MAX_DRAWN if hasattr(fitted.network, "sample_paths") else MAX_FORECASTS
    origins = held_out_origins(fitted, table, first, lengths, limit)
    trained = first if trained is None else trained
    if fitted.kept is not None:
        origins = fitted.kept.scorable(origins, trained)
    windows = int((np.maximum(lengths - first, 0) // fitted.model.h).sum())
    if not len(coverages) or not len(origins) or not np.isfinite(origins.actual()).any():
        return None
    if wanted == "auto" and windows < LEAST_WINDOWS:
        return None
    held_rows = np.maximum(lengths - first, 0)
    found = QuantileCalibration(
        coverages=coverages,
        offsets=np.zeros((3, len(coverages), fitted.model.h)),
        ids=table.ids,
        scale=series_scale(table.store, first),
        late_rows=np.where(held_rows >= 2 * fitted.model.h, held_rows // 2, 0),
    )
    columns = named_columns(fitted.model.name, tuple(round(100 * c, 6) for c in coverages.tolist()), ())
    values = unseen_forecasts(fitted._without(bounds=True, calibration=True), origins, columns, trained)
    early, late = halves(found, origins)
    held = HeldIntervals(
        actual=origins.actual(), lower=values[:, :, 1::2], upper=values[:, :, 2::2],
        scale=found.scale[origins.series], early=early, late=late, part=_stretches(origins, first),
    )  # fmt: skip
    found = replace(found, offsets=half_offsets(held, coverages))
    checks = checks_of(held if fitted.bounds is None else _kept(held, fitted, columns), coverages, found.offsets)
    shown = tuple(check for check in checks if check.level / 100 in checked_coverages(fitted.loss))
    if wanted == "auto" and max(check.off for check in shown) <= 100 * TOLERANCE:
        return None
    found = replace(found, checks=shown)
    for check in found.checks:
        log.info("%s: %s", fitted.model.name, check.sentence(remedy=True))
    return found


def _stretches(origins: Origins, first: Ints) -> Ints:
    """[N] the number of the stretch of the held-out rows in which each window begins.

    A stretch is as long as the horizon at least, and has WINDOWS_PER_STRETCH windows that do not overlap.
    """
    h, begin = origins.steps, first[origins.series]
    rows = origins.table.store.lengths[origins.series] - begin
    held_out = np.maximum(origins.table.store.lengths - first, 0)
    count = np.clip(min(rows.max(), held_out.sum() // WINDOWS_PER_STRETCH) // h, 1, STRETCHES)
    return np.asarray((origins.time - begin) * count // np.maximum(rows - h + 1, 1))


def _kept(held: HeldIntervals, fitted: Forecaster, columns: Columns) -> HeldIntervals:
    """The intervals inside of the target's range."""
    assert fitted.bounds is not None
    sides = [columns.levels[1::2], columns.levels[2::2]]
    lower, upper = (fitted.bounds.keep(edge, side) for edge, side in zip((held.lower, held.upper), sides, strict=True))
    return replace(held, lower=lower, upper=upper)


def halves(found: QuantileCalibration, origins: Origins) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """[N] and [N]: windows that end before the later half of the held-out rows, and windows that begin in it.

    Windows of series without halves, and windows that cross the border, are in neither.
    """
    place = places(found.ids, origins.table.ids)
    late_rows = np.where(place >= 0, found.late_rows[place], 0)[origins.series]
    border = origins.table.store.lengths[origins.series] - late_rows
    known = late_rows > 0
    return known & (origins.time + origins.steps <= border), known & (origins.time >= border)


def corrected_by_halves(fitted: Forecaster, origins: Origins, columns: Columns, values: Floats) -> Floats:
    """[N, H, K] held-out forecasts without a correction → corrected by the errors of the other half of the rows.

    They show what the correction does to rows that did not decide it. Windows in neither half are NaN; without halves
    nothing is corrected.

    Args:
        fitted: the model with its calibration.
        origins: where the forecasts start.
        columns: names and levels of the columns.
        values: forecasts of the model without its calibration and without its range.
    """
    found = fitted.calibration
    if found is not None and found.by_half("early") is not None:
        early, late = halves(found, origins)
        result = np.full_like(values, np.nan)
        for part, other in ((early, "late"), (late, "early")):
            some = origins.where(part)
            if len(some):
                half = found.by_half(other)
                assert half is not None
                scale = fitted._mean_change(some.table, some.series, some.time)
                result[part] = half.correct(values[part], some.table.ids[some.series], scale, columns)
        values = result
    return values if fitted.bounds is None else fitted.bounds.keep(values, columns.levels)


def coverage_sentences(fitted: Forecaster) -> list[str]:
    """What was measured and corrected, one sentence per interval; empty if nothing was corrected."""
    checks: tuple[CoverageCheck, ...] = () if fitted.calibration is None else fitted.calibration.checks
    return [check.sentence(remedy=True) for check in sorted(checks, key=lambda check: -check.level)]
