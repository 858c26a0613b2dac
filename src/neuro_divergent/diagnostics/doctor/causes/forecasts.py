"""Causes that show in the forecasts of held-out rows."""

from __future__ import annotations

import math

import numpy as np

from neuro_divergent.diagnostics.doctor import limits
from neuro_divergent.diagnostics.doctor.catalogue import check
from neuro_divergent.diagnostics.doctor.evidence import Evidence
from neuro_divergent.diagnostics.doctor.verdict import Verdict


@check
def worse_than_naive(evidence: Evidence) -> Verdict | None:
    """The seasonal naive forecast is better."""
    facts = evidence.forecasts
    if facts is None or not facts.naive > 0 or facts.mae < limits.NAIVE * facts.naive:
        return None
    ratio = facts.mae / facts.naive
    return Verdict(
        cause="worse_than_naive",
        what="the seasonal naive forecast is better than the model",
        certainty=min(0.9, 0.8 + 0.1 * math.log2(ratio)),
        evidence={"mae": facts.mae, "mae of the naive forecast": facts.naive, "ratio": ratio},
        model_remedy={"anchor": "seasonal"} if evidence.model.get("anchor") is None else {},
        advice="Use a lookback of at least one season, or anchor='seasonal'",
    )


@check
def worse_at_steps(evidence: Evidence) -> Verdict | None:
    """Good on the whole, but worse than the naive forecast at some steps ahead."""
    facts = evidence.forecasts
    if facts is None or len(facts.by_step) < 4:
        return None
    ratios = np.asarray(facts.by_step)
    low = float(np.quantile(ratios, 0.25))
    bad = np.flatnonzero((ratios > limits.NAIVE) & (ratios > limits.STEP_NAIVE * low))
    if not len(bad) or low > 1.0 or len(bad) > 0.75 * len(ratios):
        return None
    return Verdict(
        cause="worse_at_steps",
        what="at some steps ahead the seasonal naive forecast is better",
        certainty=min(0.92, 0.78 + 0.1 * float(ratios[bad].max() / max(low, 1e-12) - 1)),
        evidence={
            "steps ahead": (bad + 1).tolist(),
            "error over that of the naive forecast": float(ratios[bad].max()),
            "at the better steps": low,
        },
        advice="Weight these steps in the loss, or train a model of its own for them",
    )


@check
def worse_for_series(evidence: Evidence) -> Verdict | None:
    """Good on the whole, but far worse than the naive forecast for some series."""
    facts = evidence.forecasts
    if facts is None or len(facts.by_series) < 4:
        return None
    ratios = facts.by_series
    middle = float(np.median(list(ratios.values())))
    bad = [name for name, ratio in ratios.items() if ratio > limits.SERIES_NAIVE and ratio > 1.5 * middle]
    if not bad or middle > 1.1 or facts.origins < 2 * len(ratios):
        return None
    worst = max(ratios[name] for name in bad)
    return Verdict(
        cause="worse_for_series",
        what="for some series the seasonal naive forecast is far better",
        certainty=min(0.92, 0.75 + 0.05 * worst),
        evidence={
            "series": sorted(bad, key=lambda name: -ratios[name]),
            "error over that of the naive forecast": worst,
            "median series": middle,
        },
        advice="Train these series by themselves, or give the network columns that tell them apart",
    )


@check
def intervals_off(evidence: Evidence) -> Verdict | None:
    """Intervals that contain far fewer or far more values than they say."""
    facts = evidence.forecasts
    if facts is None or not facts.coverage:
        return None
    gaps = [(abs(seen - nominal), nominal, seen, count) for nominal, seen, count in facts.coverage if count >= 100]
    if not gaps:
        return None
    gap, nominal, seen, count = max(gaps)
    # The errors of one forecast depend on each other: it counts as one value.
    chance = math.sqrt(nominal * (1 - nominal) / max(1.0, count / max(1, len(facts.by_step))))
    if gap < max(limits.COVERAGE, 3 * chance):
        return None
    return Verdict(
        cause="intervals_off",
        what=f"{'too few' if seen < nominal else 'too many'} values lie inside the intervals",
        certainty=min(0.95, 0.8 + gap),
        evidence={"nominal share": nominal, "observed share": seen, "values": count},
        remedy={"calibrate": True},
    )
