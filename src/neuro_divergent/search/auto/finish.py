"""From trained members to the result: weights, intervals, honest scores, and the chosen members on all rows.

Letters: M members, S series, N windows, W windows of a series, H steps, K columns of a forecast.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.forecasting.evaluate.coverage import IntervalCoverage, measured_coverage
from neuro_divergent.forecasting.network.output_columns import Columns, named_columns
from neuro_divergent.forecasting.predict.conformal import Calibration, PredictionIntervals, series_scale
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.search.auto.board import ENSEMBLE, AutoLeaderboard, Row
from neuro_divergent.search.auto.engine import Engine, Member
from neuro_divergent.search.auto.held_out import HeldOut
from neuro_divergent.search.auto.member import quietly
from neuro_divergent.search.auto.result import AutoResult
from neuro_divergent.search.auto.scores import Scorer
from neuro_divergent.search.auto.weights import Chosen, chosen_weights
from neuro_divergent.search.auto.words import Found, reasons

Floats = npt.NDArray[np.float64]

WORSE = 0.2
"""A member whose score is worse than the best one by more than this share gets no weight."""
WORSE_MEAN = 0.05
"""The same for a mean of the last seasons, which learned nothing: it must be nearly as good as the best model."""
CHANCE = 0.3
"""A member may be worse than a naive forecast by this share on one window, by half of it on four, and so on."""
ENOUGH = 40
"""With so many judge windows intervals come from them alone; with fewer, from the selection windows too."""


def finished(engine: Engine) -> AutoResult:
    """The result of trained members."""
    scored = [one for one in engine.members if one.scored]
    members = scored or [engine.members[0]]
    chosen = _choose(engine, members)
    weights = {one.name: float(weight) for one, weight in zip(members, chosen.weights, strict=True) if weight > 0}
    taken = [one for one in members if one.name in weights]
    first, last = (_mixed(taken, weights, part) for part in ("selection", "final"))
    intervals = _intervals(engine, first, last)
    coverage = _coverage(engine, first, last)
    fitted = engine.refit(taken)
    board = AutoLeaderboard(_rows(engine, weights, first, last), engine.settings.metric_name)
    seconds = time.perf_counter() - engine.begun
    found = Found(engine, members, weights, chosen, board, first, last, seconds)
    return AutoResult(
        [fitted[name] for name in weights],
        weights=list(weights.values()),
        leaderboard=board,
        reasons=reasons(found),
        facts={
            "metric": engine.settings.metric_name,
            "level": list(engine.settings.level),
            "preset": engine.settings.preset,
            "seconds": seconds,
            "time_limit": engine.limit,
            "season": engine.profile.season,
            "selection_windows": len(engine.held.selection),
            "judge_windows": len(engine.held.final),
        },
        interval_errors=intervals,
        coverage=coverage,
    )


def _choose(engine: Engine, members: list[Member]) -> Chosen:
    if len(members) == 1 or not len(engine.held.selection):
        return Chosen(np.array([1.0] + [0.0] * (len(members) - 1)))
    scorer, seed = engine.choosing, engine.settings.seed
    pool = _pool(members, len(engine.held.selection))
    able = [number for number, one in enumerate(members) if one in pool]
    forecasts = np.stack([one.selection for one in pool if one.selection is not None])
    found = chosen_weights(
        forecasts, lambda values, some: scorer.badness(values, some), scorer.groups, scorer.moments, seed=seed
    )
    weights = np.zeros(len(members))
    weights[able] = found.weights
    return replace(found, weights=weights)


def _pool(members: list[Member], windows: int) -> list[Member]:
    """The members that may get a weight: those that are better than the naive forecasts.

    On few windows a naive forecast may be better by chance: members that are little worse are then taken, too, and the
    naive ones count only if fewer than two members are better.
    """
    naive = min((one.badness for one in members if one.wanted.source == "naive"), default=np.inf)
    best = min(one.badness for one in members)
    members = [one for one in members if one.wanted.source != "mean" or one.badness <= best + WORSE_MEAN * abs(best)]
    close = best + WORSE * abs(best)
    better = [one for one in members if one.badness < naive and one.badness <= close]
    chance = naive + CHANCE * abs(naive) / windows**0.5
    return better if len(better) >= 2 else [one for one in members if one.badness <= chance]


def _mixed(taken: list[Member], weights: dict[str, float], part: str) -> Floats | None:
    """[N, H, K] the forecasts of the ensemble at held-out windows; None if there are none."""
    parts = [weights[one.name] * getattr(one, part) for one in taken if getattr(one, part) is not None]
    return np.sum(parts, axis=0) if len(parts) == len(taken) and len(parts[0]) else None


def _rows(engine: Engine, weights: dict[str, float], first: Floats | None, last: Floats | None) -> list[Row]:
    shown = [one for one in engine.members if one.scored or one.wanted.source != "search"]
    rows = [_row(engine, one, weights) for one in shown]
    rows += [Row(name, note=why) for name, why in engine.left_out.items()]
    return [
        *rows,
        Row(ENSEMBLE, _value(engine.judging, last), _value(engine.choosing, first), source=ENSEMBLE,
            note=f"{len(weights)} model{'s' if len(weights) > 1 else ''}"),
    ]  # fmt: skip


def _row(engine: Engine, one: Member, weights: dict[str, float]) -> Row:
    outcome, weight = one.outcome, weights.get(one.name, 0.0)
    note = engine.note(one) if one.fitted is None else ""
    if not note and not weight:
        note = "the ensemble is not better with it"
    if weight and outcome is not None and outcome.steps < outcome.total_steps and "time" in outcome.stopped:
        note = outcome.stopped
    return Row(
        one.name,
        _value(engine.judging, one.final),
        _value(engine.choosing, one.selection),
        weight,
        None if outcome is None else outcome.seconds,
        None if outcome is None or outcome.error else outcome.steps,
        None if outcome is None or outcome.error else outcome.parameters,
        one.wanted.source,
        note,
    )


def _value(scorer: Scorer, forecasts: Floats | None) -> float | None:
    if forecasts is None or not len(forecasts):
        return None
    value = scorer.value(forecasts)
    return value if np.isfinite(value) else None


def _intervals(engine: Engine, first: Floats | None, last: Floats | None) -> Calibration | None:
    """The errors of the ensemble on held-out windows, from which its intervals come."""
    if engine.settings.intervals is None or engine.loss.probabilistic or first is None:
        return None
    held = engine.held
    if last is not None and len(last) >= ENOUGH:
        return _errors(engine, held.final, last)
    if last is None:
        return _errors(engine, held.selection, first)
    series, time, gap = (
        np.append(getattr(held.selection, name), getattr(held.final, name)) for name in ("series", "time", "gap")
    )
    both = Origins(held.table, series, time, held.h, gap)
    return _errors(engine, both, np.concatenate([first, last]))


def _errors(engine: Engine, origins: Origins, forecasts: Floats) -> Calibration:
    held, given = engine.held, engine.settings.intervals
    scale = series_scale(held.table.store, held.train)
    window = _window(held, origins)
    count = int(window.max()) + 1
    scores = np.full((held.table.n_series, count, held.h), np.nan)
    errors = np.abs(origins.actual() - forecasts[:, :, 0])
    scores[origins.series, count - 1 - window] = errors / scale[origins.series][:, None]
    settings = given if isinstance(given, PredictionIntervals) else PredictionIntervals()
    return Calibration(settings.replace(n_windows=count), held.table.ids, scores, scale)


def _window(held: HeldOut, origins: Origins) -> npt.NDArray[np.int64]:
    """[N] the number of each window, counted from the end of its series."""
    ends = held.table.store.lengths[origins.series]
    return np.asarray((ends - held.h - origins.time) // held.h)


def _coverage(engine: Engine, first: Floats | None, last: Floats | None) -> list[IntervalCoverage]:
    """How many values of the judge windows lie in intervals that the selection windows alone have decided."""
    if first is None or last is None or engine.settings.intervals is None:
        return []
    origins, actual = engine.held.final, engine.held.final.actual()
    if engine.loss.probabilistic:
        return measured_coverage(ENSEMBLE, actual, engine.columns, last)
    columns = level_columns(engine.settings.level)
    measured = _errors(engine, engine.held.selection, first)
    with quietly():  # the intervals of the result, from more windows, may warn
        ids = engine.held.table.ids[origins.series]
        values = measured.around(last[:, :, 0], ids, np.full(len(last), np.nan), columns)
    return measured_coverage(ENSEMBLE, actual, columns, values)


def level_columns(level: Any) -> Columns:
    """The point and the intervals of the ensemble."""
    return named_columns(ENSEMBLE, tuple(level), ())
